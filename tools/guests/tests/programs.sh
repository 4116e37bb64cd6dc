#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# programs.sh [NAME...]: programs of Debian that nobody here wrote, each by one `build/view record`; prints TAP. Their output and
# exit code are what they are without it, no branch is lost, each follows from the one before, and there is a page. Of three, whose
# runs are short, the branches are those of single steps in the same guest.
# `make check-programs`
# shellcheck disable=SC2016 # $ of other languages
set -u
unset MAKEFLAGS MFLAGS MAKELEVEL # a make that begins by itself, as in the guest
top=$(cd "$(dirname "$0")/../../.." && pwd)
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
tested=programs
# shellcheck source=tests/runner/tap.sh
. "$top/tests/runner/tap.sh"
record=$top/tools/guests/record view=$top/build/view
only=" $* "
TIMEFORMAT='%R s, %U + %S s'
cd "$scratch" || exit 2

# wanted NAME COMMAND: whether this run has that program; a skip where it is not installed
wanted()
{
	[ "$only" = '  ' ] || [[ $only == *" $1 "* ]] || return
	command -v "$2" >/dev/null && return
	number=$((number + 1))
	echo "ok $number programs: $1 # SKIP $2 is not installed"
	return 1
}

# program NAME INPUT COMMAND...: INPUT is a file
program()
{
	local name=$1 input=$2 code wanted_code took count=0
	shift 2
	wanted "$name" "$1" || return
	"$@" <"$input" >wanted 2>/dev/null
	wanted_code=$?
	{ time "$record" -o "$name" -- "$@" <"$input" >got 2>said; } 2>spent
	code=$?
	read -r took <spent
	[[ $(tail -n 1 said) =~ ^view\ record:\ ([0-9]+)\ branches\ of\ a\ task,\ none\ lost: ]] && count=${BASH_REMATCH[1]}
	[ $code = $wanted_code ] && [ -s wanted ] && cmp wanted got && [ "$count" -ge 5000 ] && "$view" check "$name.data" >checked 2>>said &&
		tail -n 1 "$name.html" | grep -q '</html>'
	result "$name: $count branches in $took of CPU, and a page" ||
		{ tail -n 5 said; grep '^not' checked; echo "exit $code, not $wanted_code"; } | sed 's/^/# /'
	rm -f "$name".{data,html}
}

# stepped COMMAND...: a program whose path is /usr/bin/NAME
stepped()
{
	local name=${1##*/} steps=$top/build/linux/steps count=0
	[ "$only" = '  ' ] || [[ $only == *" stepped-$name "* ]] || return
	rm -rf back && mkdir back
	"$record" --no-page -o "$name" -- "$steps" - "$@" </dev/null >wanted 2>said &&
		"$record" --no-page -o steps --write-back back -- sh -c '"$@"; exit $?' sh "$steps" listed "$@" </dev/null >got 2>>said &&
		"$view" dump -a -t "$name" "$name.data" | sed -nE 's/.*: ([0-7][0-9a-f]{15}) -> ([0-7][0-9a-f]{15}) .*/\1 \2/p' >recorded &&
		count=$(wc -l <recorded) && [ "$count" -ge 5000 ] && cmp wanted got && diff recorded back/listed >differ
	result "$name: $count branches, those of single steps" || tail -n 3 said differ | sed 's/^/# /'
}

text=$top/README.md
cp "$text" text && gzip -nk text && mkdir numbers && seq 2000 >numbers/list && sort -R numbers/list >shuffled
printf 'create table t(a); insert into t select value from generate_series(1, 300); select sum(a), count(distinct a %% 7) from t;\n' >sql
printf '{"a": [%s 0], "b": {"c": "text"}}\n' "$(seq -s ', ' 200 | tr -d '\n'),"  >json
echo 'scale=60; 4*a(1)' >pi
printf 'int  main( void ){return 0 ;}\n' >code.c
printf 'rule copy\n  command = cp $in $out\nbuild out: copy text\n' >build.ninja
printf 'all: text\n\t@echo $(words $(wildcard repository/* numbers/*))\n' >makefile
git init -q repository && cp text repository && git -C repository add text && echo more >>repository/text && echo >repository/new

program gzip /dev/null gzip -nc text
program gunzip text.gz gzip -dc
program xz text xz -0 -c
program bzip2 text bzip2 -c
program sqlite3 sql sqlite3 :memory:
program jq json jq -c '.a | add'
program bc pi bc -l
program perl text perl -ne '$n{lc $_}++ for /\w+/g; END { print join(" ", map { "$_=$n{$_}" } sort keys %n), "\n" }'
program python3 /dev/null /usr/bin/python3 -c 'import json; print(json.dumps([n * n for n in range(1000)]))'
program git /dev/null git -C repository status --short
program ninja /dev/null ninja -t targets all
program clang-format code.c clang-format
program ripgrep text rg -j1 -n -e '[a-z]+-[a-z]+' -
program sort shuffled sort -n
program awk text awk '{ for (i = 1; i <= NF; i++) words[length($i)]++ } END { for (n = 1; n < 20; n++) print n, words[n] }'
program sed text sed -E 's/([a-z]+) ([a-z]+)/\2 \1/g'
program tar /dev/null tar -c --sort=name --mtime=@0 --owner=0 --group=0 numbers
program openssl text openssl dgst -sha256
program make /dev/null make -f makefile
program diff /dev/null diff numbers/list shuffled
stepped /usr/bin/gzip -c
stepped /usr/bin/printf %d 5
stepped /usr/bin/expr 3 + 4
echo "1..$number"
exit "$failed"
