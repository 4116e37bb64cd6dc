#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/faults with two rules, which are compiled, and a stand-in for run-qemu.sh; prints TAP.
# shellcheck disable=SC2016 # what the stand-in runs
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=faults

rm -r monitor Makefile run-qemu.sh docs build/*.elf32
mkdir -p monitor/lbr monitor/ds tests/faults tests/suite/lbr docs
echo 'int first(int a) { return a + 1; }' >monitor/lbr/first.c
echo 'int second(int a) { return a + 2; }' >monitor/ds/second.c
echo 'TEST(lbr_first, .group = "lbr")' >tests/suite/lbr/lbr_first.c
printf '| `%s` | %s | LBR | a claim |\n' lbr_first LB1 bts_wrap LB2 >docs/tests.md
printf '%s\n' 'one | LB1 | profile=haswell' monitor/lbr/first.c '-int first(int a) { return a + 1; }' '+int first(int a) { return a - 1; }' >tests/faults/lbr.txt
printf '%s\n' 'two | LB2 | vbts=auto' monitor/ds/second.c '-int second(int a) { return a + 2; }' '+int second(int a) { return a; }' >tests/faults/bts.txt
cat >Makefile <<'END'
$(if $(findstring a - 1,$(file <monitor/lbr/first.c)),$(if $(CI),$(error a warning)))
build/%.elf32: monitor/lbr/first.c monitor/ds/second.c
	cat $^ >$@
build/view: build/monitor.elf32
	cp $< $@
END
# What the machine says, by the rules that it has.
cat >run-qemu.sh <<'END'
#!/bin/sh
echo "booted $*" >>"$BOOTED"
! grep -q 'a - 1' build/monitor.elf32 || cat "$LOG"
END
chmod +x run-qemu.sh
git init -q . && git config user.name n && git config user.email n || exit 2
printf '%s\n' '/*' '!/monitor' '!/tests' '!/docs' '!/Makefile' '!/run-qemu.sh' >.git/info/exclude
git add -A && git commit -qm one || exit 2
export BOOTED=$tree/booted LOG=$here/logs/fail.log

try 'lists names and rows' 0 '^two: LB2.one: LB1$' tools/faults --list
try 'by name or unit' 0 '^one: LB1$' tools/faults --list lbr
try 'no such fault' 255 'no such fault: three' tools/faults --list three
try 'no such option' 255 '--some is unknown' tools/faults --some
try 'one that a test notices, and one that none does' 1 '^1..2.not ok 1 two.# not by a test of LB2.ok 2 one.# by bts_wrap.# bts: 0 of 1 caught.# lbr: 1 of 1 caught$' tools/faults
grep -qx "booted --boots 1 -s 2 -t lbr_first -a restart=0 unsafe=1  -M profile=haswell" booted
result 'boots the tests of its rows, with its words'
cmp -s monitor/lbr/first.c build/faults/tree-2/monitor/lbr/first.c
result 'puts the rules back'
grep -q 'a - 1' build/faults/tree-2/build/monitor.elf32 && grep -q 'a - 1' build/faults/tree-2/build/spoor.elf32
result 'builds monitor and kernel with it'
CI=1 try 'in a CI a fault of which the compiler warns is one' 1 'not ok 1 two.*ok 2 one.# by bts_wrap' tools/faults
rm tools/view && mkdir -p tools/view/tests
printf '%s\n' '#!/bin/sh' 'echo ok 1 prints; ! grep -q "a - 1" build/view || echo not ok 2 panic: prints branches' >panic.sh
chmod +x panic.sh && mv panic.sh tools/view/tests/
printf '| `%s` | %s | LBR | a claim |\n' selftest_panic_newest LB1 selftest_panic_units LB2 >>docs/tests.md
git add -Af docs tools/view && git commit -qm panic
try 'a test that panics is judged by what view makes of it' 1 \
	'not ok 1 two.# not by tools/view/tests/panic.sh.ok 2 one.# by tools/view/tests/panic.sh panic: prints branches' tools/faults
sed -i '/selftest/d' docs/tests.md && git commit -qam 'no panic'

try 'two at a time' 11 'build/faults/tree: another run of this tool has it' flock build/faults/tree.lock tools/faults

[ "$(tools/faults --list --turn 2 | wc -l)" = 1 ]
result 'a turn of two has half of them'
try 'none where nothing has changed' 0 '^$' tools/faults --list --since HEAD
echo '/* again */' >>tests/suite/lbr/lbr_first.c
try 'those of a test whose file has changed' 0 '^one: LB1$' tools/faults --list --since HEAD
echo '/* again */' >>monitor/ds/second.c
try 'and of a rule' 0 '^two: LB2.one: LB1$' tools/faults --list --since HEAD
git commit -qam two
printf '%s\n' 'three | LB2 | vbts=auto' monitor/ds/second.c '-/* again */' '+#error again' >>tests/faults/bts.txt
try 'and what is new' 0 '^three: LB2$' tools/faults --list --since HEAD
try 'of all commits since' 0 '^two: LB2.three: LB2.one: LB1$' tools/faults --list --since HEAD~1
try 'a commit that there is not' 2 '^faults: git knows no commit HEAD~9' tools/faults --list --since HEAD~9

try 'one that does not compile' 1 'not ok 1 - .*: 3 faults fit.*# bts: three: it does not compile: .*#error again' tools/faults --check
sed -i 's/LB2/LB3/; s/^-.*again/-none/' tests/faults/bts.txt
try 'one that does not fit, and one without a test' 1 'bts: two: no test names LB3.*bts: three: monitor/ds/second.c does not have: none' tools/faults --check
git checkout -q tests && try 'all fit' 0 '^1..2.ok 1 - tests/faults: 2 faults fit the sources.*ok 2' tools/faults --check
printf '%s | %s | first | source\n' LB1 M LB2 M/S LB3 M >tests/assertions.txt
try 'each row of class M that a test names has a fault' 0 'ok 2 - ' tools/faults --check
try 'with a name that fault alone, and every row' 0 ': 1 faults fit.*ok 2 - ' tools/faults --check one
sed -i 's/^two | LB2/two | LB1/' tests/faults/bts.txt
try 'a row without one' 1 'not ok 2 - .*# LB2 has none$' tools/faults --check
echo "1..$number"
exit $failed
