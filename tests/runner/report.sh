#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/report on recorded logs; prints TAP.
# shellcheck disable=SC2317,SC2016 # functions and words are run by `try`
set -u
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d)
logs=$scratch/logs
trap 'rm -rf "$scratch"' EXIT
tested=report
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh
# shellcheck source=tests/runner/logs.sh
. tests/runner/logs.sh
recorded_logs "$logs" || exit 1

# A log with HTML in all that a machine can say, and a second tag where an attribute would end.
hostile()
{
	sed -E 's/cpu="[^"]*"/cpu="<script>alert(1)<\/script>"/; /^# machine=/s/machine=[^ ]*/machine="<b>\&amp;"/;
		s/^# time group=W.*/# obs trap=<img src=x onerror=alert(1)>/' "$logs/machine-defect.log" >"$scratch/hostile.log"
}

# The page is well-formed and needs nothing: no script, no address, nothing that a log brought with it.
page()
{
	tools/report --html "$scratch/page.html" "$@" >/dev/null
	xmllint --noout "$scratch/page.html" && ! grep -niE '<(script|img|link|iframe|b>&amp;)|https?:|url\(' "$scratch/page.html"
}

page_of_hostile() { hostile && page "$scratch/hostile.log" "$logs/pass.log" && grep -c '&lt;script&gt;' "$scratch/page.html"; }
page_words() { page "$logs"/machine-*.log && grep -E "$1" "$scratch/page.html"; }
junit()
{
	tools/report --junit "$scratch/all.xml" "$@" >/dev/null
	xmllint --noout --schema tests/runner/junit.xsd "$scratch/all.xml" && grep -c '<testsuite ' "$scratch/all.xml"
}
figures() { for value in 100 "$1"; do sed "s/val=17/val=$value/" "$logs/every-kind.log" >"$scratch/$value.log"; done; tools/report --diff "$scratch/100.log" "$scratch/$1.log"; }
noisy() { sed '/^ok 20 /s/ok/\xdf/' "$logs/machine-nehalem.log" >"$scratch/noisy.log"; tools/report "$scratch/noisy.log" "$logs"/machine-{nehalem,defect}.log; }
state() { tools/report "$logs/$1.log" | sed -n 's/^  log  *//p'; }
same_machine_twice() { tools/report "$logs/machine-nehalem.log" "$logs/machine-nehalem.log"; }
by_serial() { sed '/^# machine=/s/machine=[^ ]* mac=[^ ]* //; s/product_serial=""/product_serial="B1234"/' "$logs/machine-nehalem.log" >"$scratch/x.log"; tools/report "$scratch/x.log"; }
no_serial() { sed '/^# machine=/s/machine=[^ ]* mac=[^ ]* //; s/product_serial=""/product_serial="To Be Filled By O.E.M."/' "$logs/machine-nehalem.log" >"$scratch/x.log"; tools/report "$scratch/x.log"; }

try 'a failed test with its claim and its section' 1 \
	'failed +bts_wrap_order: after many rounds .*\[W4, SDM Vol 3, 17.4.5\]' tools/report "$logs/machine-defect.log"
try 'observations and figures' 1 'observed +wrap=before.*figure +walk 17 records' tools/report "$logs/every-kind.log"
try 'what was tested of each unit' 0 \
	'unit +BTS: SKIPPED: .*unit +PEBS: pass: 2 of 92 rules tested, 1 passed, 0 failed, 1 skipped \(1: only one CPU\)' tools/report "$logs/by-unit.log"
try 'units of several machines' 1 'Units, .* bts +s\.F. +pebs +\.--. +counters +\.--. +lbr +s--. +pt +\.--' \
	tools/report "$logs"/{by-unit,pass,fail}.log
try 'the page says it too' 0 '<td class="text">PEBS</td><td class="text">pass: 2 of 92 rules' \
	eval 'page "$logs/by-unit.log" && grep -o "<td class=.text.>PEBS.*rules tested" "$scratch/page.html"'
try 'an observation with its assertion' 0 'observed +wrap_capacity=n \[W2, docs/bts.md' tools/report "$logs/machine-nehalem.log"
try 'an erratum with its tests' 0 'erratum +AR62: bts_filter_off_os bts_filter_off_usr' tools/report "$logs/machine-erratum.log"
try 'no machine failed' 0 'erratum-AR62 +virtual +pass' tools/report "$logs/machine-nehalem.log" "$logs/machine-erratum.log"
try 'a matrix: the columns are the machines' 1 'bts_filter_off_os +\.x\..*bts_wrap_order +\.\.F' \
	tools/report "$logs"/machine-{nehalem,erratum,defect}.log
try 'a machine without BTS makes no difference' 0 '4 of 4 tests have the same result' \
	tools/report "$logs/pass.log" "$logs/lf.log" "$logs/skipped.log"
try 'a log that is not whole makes no difference' 1 '51 of 51 tests have the same result' \
	eval 'head -n 40 "$logs/machine-nehalem.log" >"$scratch/cut.log"; tools/report "$logs/machine-nehalem.log" "$scratch/cut.log"'
try 'what a bad line says of a test counts for nothing' 1 'bts_wrap_order +\?\.F' noisy
try 'a machine is called what its lab calls it' 1 '^.defect-wrap_to_second_slot \(' tools/report "$logs/machine-defect.log"
try 'a rehearsal is no result of a guest' 0 'silicon +guest, rehearsed: no chip was tested' tools/report "$logs/rehearsal.log"
try 'or by its serial number' 0 '^.B1234 \(' by_serial
try 'which is none if the maker forgot it' 0 '^.x \(' no_serial
try 'two logs of one machine' 0 'nehalem .*nehalem \(2\) ' same_machine_twice
for pair in noise:noise nul-within:noise interleaved:interleaved prefixed-not-ok:interleaved done-garbled:bytes\ lost \
	number-missing:bytes\ lost truncated:cut no-done:cut panic:panic two-boots:several\ boots empty:empty \
	counts-disagree:contradicts no-header:no\ test pass:whole fail:whole; do
	try "what is wrong with a log: ${pair%%:*}" 0 "^${pair#*:}" state "${pair%%:*}"
done
try 'diff of two machines' 1 'verdict +pass \(0\) +FAIL \(1\).*bts_wrap_order +pass +fail.*[0-9]+ differences' \
	tools/report --diff "$logs/machine-nehalem.log" "$logs/machine-defect.log"
try 'diff of one run with itself' 0 '^nehalem.*nehalem.*nothing differs$|nothing differs' \
	tools/report --diff "$logs/machine-nehalem.log" "$logs/machine-nehalem.log"
try 'diff of what is observed' 1 'observed wrap +before +after' \
	eval 'sed s/wrap=before/wrap=after/ "$logs/every-kind.log" >"$scratch/after.log"; tools/report --diff "$logs/every-kind.log" "$scratch/after.log"'
try 'diff of a figure' 1 'figure walk +100 records +120 records' figures 120
try 'figures are never quite the same' 0 'nothing differs' figures 105
try 'JUnit XML of several machines' 0 'all.xml validates.3$' junit "$logs"/machine-*.log
try 'JUnit XML of every log' 0 'all.xml validates' junit "$logs"/*.log
try 'a page that is well-formed and needs nothing' 0 '^$' page "$logs"/*.log
try 'a page of a log that is hostile' 0 '^[1-9]' page_of_hostile
try 'the page has the matrix' 0 'bts_wrap_order</td><td class="fail">F</td><td class="pass">.</td><td class="pass">.</td>' \
	page_words 'class="test".*bts_wrap_order'
try 'the page says what no chip did' 0 '3 on virtual silicon: a pass there proves nothing about a chip' page_words virtual
try 'a log that is not there' 2 'report: cannot read /nowhere' tools/report /nowhere
try 'a page that cannot be written' 2 'report: cannot write /nowhere/x' tools/report --html /nowhere/x "$logs/pass.log"
try 'a full disk' 2 'report: cannot write /dev/full' tools/report --junit /dev/full "$logs/pass.log"
try 'no log' 2 'usage: report' tools/report
try 'an unknown option' 2 'usage: report' tools/report --verbose "$logs/pass.log"
try 'help' 0 'Says what console logs tell' tools/report --help
echo "1..$number"
exit $failed
