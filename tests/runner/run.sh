#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make run` itself, in QEMU; prints TAP.
set -u

cd "$(dirname "$0")/../.." || exit 2
tested=run
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# The table and what follows, of the skips' reasons only the first three.
summary()
{
	sed -n '/^ *passed *failed *skipped/,/^verdict:/p' | awk '/^  +[0-9]/ && ++reasons > 3 { next } { print }'
}

# Its form: other numbers are no difference.
form()
{
	sed -E '/^ *\.\.\.$/d; s/[0-9]+/N/g; s/ +/ /g'
}

said=$(make -s run 2>&1 >/dev/null)
result 'make run passes' || echo "# ${said//$'\n'/$'\n# '}"
units=$(summary <<<"$said" | sed -nE 's/^(BTS|PEBS|counters|LBR|Intel PT) +[1-9][0-9]* +0 +[0-9]+ +[1-9][0-9]* of +[0-9]+ +pass$/\1/p' | tr '\n' ,)
[ "$units" = 'BTS,PEBS,counters,LBR,Intel PT,' ]
result 'each trace unit is tested, with its rules, and passes' || echo "# passed: $units"
# Without its lines by unit the judge takes the rules from docs/tests.md.
differences=$(diff <(tools/judge build/run.log 2>&1 | summary) \
	<(sed '/^# unit=/d; s/ contract=2//' build/run.log | tools/judge - 2>&1 | summary | sed 's|-\.*$||') | grep '^[<>].* of ')
[ -z "$differences" ] && grep -q '^# unit=' build/run.log
result 'the kernel counts rules as docs/tests.md has them' || echo "# ${differences//$'\n'/$'\n# '}"
differences=$(diff <(summary <README.md | form) <(summary <<<"$said" | form))
result 'README.md shows what it prints' || echo "# ${differences//$'\n'/$'\n# '}"
echo "1..$number"
exit $failed
