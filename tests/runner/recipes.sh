#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# recipes.sh          reads the commands of docs/guests.md and docs/boot.md out of these pages, and looks for all that they
#                     name: goals, options of run-qemu.sh, tools, files, packages, boots of `make check-boot`; prints TAP
# recipes.sh --linux  types what docs/guests.md types into the shell of `make linux-shell`, which has to be built; prints TAP
# shellcheck disable=SC2016,SC2317 # a $ of other languages; functions are run by `await`
set -uf

top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d) || exit 2
shell=
trap '[ -z "$shell" ] || kill -- "-$shell" 2>/dev/null; rm -rf "$tree"' EXIT
tested=recipes
# shellcheck source=tests/runner/tap.sh
. "$top/tests/runner/tap.sh"
cd "$top" || exit 2

# blocks PAGE: the lines of its code blocks
blocks()
{
	perl -0777 -ne 'print map { s/\\\n\s*//gr } /^```\n(.*?)^```\n/gms' "docs/$1.md"
}

# quoted PAGE: what it has between backquotes, a line each. "`./run-qemu.sh -b iso`, `-f uefi`" are two commands.
quoted()
{
	perl -0777 -ne 's/^```\n.*?^```\n//gms; print map { tr/\n/ /r . "\n" } /`([^`]*)`/g;
		print "$1 $2\n" while m{`(\./run-qemu\.sh[^`]*)`, `(-[^`]*)`}g' "docs/$1.md"
}

# What the Makefiles and the tools of a Linux make, by names that begin with build/
makers()
{
	find Makefile boot tests tools \( -name Makefile -o -name '*.mk' -o -name 'linux*' -o -name release \) -type f -exec cat {} + |
		sed 's/\$(BUILD)/build/g; s/\$there/build\/linux/g'
}

# file PATH: it is in the tree, or is made
file()
{
	[ -e "$1" ] || grep -qwF -- "${1%/}" <<<"$made"
}

# made_before FILE: a block of the page has a command that makes it.
made_before()
{
	blocks "$page" | grep -q "^mke2fs .* $1 "
}

# goals WORD...: of make. FOR has purposes of tools/packages.
goals()
{
	local word
	# shellcheck disable=SC2086 # FOR is a list of words
	for word; do
		case $word in
		FOR=*) tools/deps check ${word#FOR=} >/dev/null 2>&1 || [ $? = 1 ] ;;
		*=*) grep -qF "\$(${word%%=*})" <<<"$made" ;;
		*) grep -qx "$word" <<<"$all_goals" ;;
		esac || { echo "# make knows no $word"; return 1; }
	done
}

# boots WORD...: run-qemu.sh takes them, where the files are that they name.
boots()
{
	local word
	rm -rf "$tree/boots" && mkdir -p "$tree/boots/build/linux" && ln -s "$top"/{run-qemu.sh,tools,README.md} "$tree/boots" || return
	for word; do
		[[ $word =~ ^[A-Za-z][A-Za-z0-9_./-]*\.img$|^build/ ]] || continue
		file "$word" || made_before "$word" || { echo "# nothing makes $word"; return 1; }
		mkdir -p "$tree/boots/$(dirname "$word")" && touch "$tree/boots/$word"
	done
	(cd "$tree/boots" && ./run-qemu.sh -n "$@" 2>&1 >/dev/null | sed 's/^/# /' && [ "${PIPESTATUS[0]}" = 0 ])
}

# tool PATH WORD...: it has these options and words; those of tools/boots are boots.
tool()
{
	local word
	[ -x "$1" ] || return
	for word in "${@:2}"; do
		[[ $word =~ ^[A-Z]+$ ]] || grep -qwF -e "$word" "$1" || grep -q "^$word " tests/runner/ways.txt || { echo "# $1 knows no $word"; return 1; }
	done
}

# installed COMMAND: a package of tools/packages has it
installed()
{
	awk '{ print $2 }' tools/packages | grep -qE "^(.*/)?$1\$"
}

# takes LINE: whether it is a command that is known, and all is there that it names. Words in capitals are the reader's.
takes()
{
	local words line=$1 between
	[[ $line != *'`'* ]] || return 1
	if [[ $line =~ ^(.*)'$('(.*)')'(.*)$ ]]; then
		line=${BASH_REMATCH[1]}${BASH_REMATCH[3]}
		takes "${BASH_REMATCH[2]}" && takes "$line"
		return
	fi
	for between in ' && ' ' | ' '; '; do
		[[ $line != *"$between"* ]] || { takes "${line%%"$between"*}" && takes "${line#*"$between"}"; return; }
	done
	case $line in
	'# '*) grep -qw "take .*usr/bin/$(cut -d ' ' -f 2 <<<"$line")" tools/guests/linux && return ;;
	'(gdb) '*) return ;;
	esac
	line=$(sed -E 's/^do //; s/ >[^ ]+//g; s/\$[a-z]+/x/g; s/[][]//g; s/\b(FILE|bzImage)\b/README.md/g; s/\bCPUS\b/2/; s/\bMB\b/512/; s/^RUN="(.*)"$/.\/run-qemu.sh \1/' <<<"$line")
	eval "words=($line)" 2>/dev/null || return
	case ${words[0]-} in
	make) goals "${words[@]:1}" ;;
	./run-qemu.sh) boots "${words[@]:1}" ;;
	build/view) [ ${#words[@]} = 1 ] || grep -qF "{\"${words[1]-}\"," tools/view/main.c ;;
	tools/guests/inside/* | build/* | boot/* | tests/* | docs/*) [ ${#words[@]} = 1 ] && file "${words[0]}" ;;
	tools/*) tool "${words[@]}" ;;
	multiboot2 | module2) grep -qw "${words[0]}" boot/grub/grub.cfg ;;
	apt-cache | apt-get | cd | cp | done | dpkg-deb | for | mkdir | sed | tar | zcat) ;; # the base system has these
	*) installed "${words[0]-}" ;;
	esac
}

# ways: each run-qemu.sh of docs/boot.md is a boot of `make check-boot`.
ways()
{
	local line options code=0
	while read -r line; do
		options=${line#./run-qemu.sh}
		awk '$1 !~ /^#/ { $1 = $2 = $3 = $4 = ""; print }' tests/runner/ways.txt | sed 's/^ */ /' |
			grep -q "^$options -t " || { echo "# no boot has the options$options"; code=1; }
	done < <(quoted boot | grep '^\./run-qemu\.sh')
	return $code
}

# packages: docs/boot.md installs what tools/boots asks for.
packages()
{
	local line wanted
	line=$(blocks boot | grep -m 1 '^make deps ') || return
	mkdir -p "$tree/packages/tools" && cp tools/boots "$tree/packages/tools" && ln -s "$top/tests" "$tree/packages" &&
		printf '#!/bin/sh\necho "$@"\nexit 1\n' >"$tree/packages/tools/deps" && chmod +x "$tree/packages/tools/deps" || return
	eval "line=(${line#make })"
	make -n MAKE=true "${line[@]}" 2>/dev/null | sed -n 's/.*tools\/deps install //p' | head -n 1 | tr ' ' '\n' | sort >"$tree/installs"
	wanted=$("$tree/packages/tools/boots" --ways | sed 's/^check //' | tr ' ' '\n' | sort | comm -23 - "$tree/installs")
	[ ! -s "$tree/installs" ] || [ -n "$wanted" ] || return 0
	echo "# not installed: $wanted"
	return 1
}

look()
{
	local line page
	made=$(makers)
	all_goals=$(make --no-print-directory help | awk '{ print $1 }')
	for page in guests boot; do
		# Most of what is between backquotes is no command.
		while IFS= read -r line; do
			takes "$line"
			result "$page: $line"
		done < <(blocks "$page" && quoted "$page" | grep -E '^(make |\./run-qemu\.sh|RUN=|(tools|build|boot|tests|docs)/)' | sort -u)
	done
	ways
	result 'each run-qemu.sh of docs/boot.md is booted by make check-boot'
	packages
	result 'docs/boot.md installs the packages of its ways'
}

# What the guest said last, without the colours of its terminal
last_words()
{
	tail -c "${1-60}" "$tree/log" 2>/dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g'
}

# await COMMAND...: until it succeeds, as long as the guest lives and there is time; or says what did not come
await()
{
	local turns=0 most=$((300 * ${TIMEOUT_SCALE:-1}))
	until "$@"; do
		turns=$((turns + 1))
		kill -0 "$shell" 2>/dev/null || { echo "# the shell ended before: ${*@Q}"; return 1; }
		[ $turns -lt $most ] || { echo "# in $((most / 5)) s this did not come: ${*@Q}"; return 1; }
		sleep 0.2
	done
}

has_ended()
{
	! kill -0 "$shell" 2>/dev/null
}

ends_with()
{
	[[ $(last_words) == *"$1" ]]
}

is_longer()
{
	[ "$(stat -c %s "$tree/log")" -gt "$1" ]
}

# enter PROMPT LINE: types a line at a prompt, and waits until the guest has shown it
enter()
{
	local size
	await ends_with "$1" || return
	size=$(stat -c %s "$tree/log")
	echo "$2" >&3
	await is_longer $((size + ${#2}))
}

type_lines()
{
	local line prompt said
	mkfifo "$tree/keys"
	setsid tools/guests/linux shell -l "$tree/log" <"$tree/keys" >/dev/null 2>&1 &
	shell=$!
	exec 3>"$tree/keys"
	while IFS= read -r line; do
		prompt='# '
		[[ $line != '(gdb) '* ]] || prompt='(gdb) '
		enter "$prompt" "${line#"$prompt"}"
		result "typed: $line" || { last_words 1000 | sed 's/^/# /' && return; }
	done < <(blocks guests | grep -E '^(# |\(gdb\) )')
	await ends_with '(gdb) '
	said=$(last_words 1000000)
	[ "$(grep -cE '^ +[0-9a-f]+ .* => +[0-9a-f]+ ' <<<"$said")" -ge 2300 ]
	result 'perf lists the branches of the program'
	grep -qE '^Recorded [1-9][0-9]* instructions in [1-9][0-9]* functions \(0 gaps\)' <<<"$said"
	result 'gdb recorded instructions'
	! grep -iE 'error|disabled|not supported|cannot|no such|not found|undefined' <<<"$said" | sed 's/^/# /' | grep .
	result 'neither refuses a line'
	enter '(gdb) ' quit && enter '(y or n) ' y && enter '# ' 'poweroff -f' && await has_ended && wait "$shell"
	result 'poweroff -f ends the shell'
}

case ${1-} in
--linux) type_lines ;;
*) look ;;
esac
[ $number -gt 0 ] || failed=1
echo "1..$number"
exit $failed
