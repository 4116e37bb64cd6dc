#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of what installs packages and looks for them, and of what a new machine does: the Makefile's goals, tools/deps,
# tools/fresh and .ci/run, with stand-ins; prints TAP.
# shellcheck disable=SC2317,SC2016 # functions and words are run by `try`
set -u

# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=packages

# tree_of NAME: a directory with what make reads, and with a tools/ for stand-ins
tree_of()
{
	local parts=(Makefile boot drivers include kernel lib monitor tests third_party)
	rm -rf "$1" && mkdir -p "$1/tools" && cd "$1" && ln -s "${parts[@]/#/$top/}" . && ln -s "$top"/tools/{guests,view} tools
}

# goals NAME...: make, where it takes a second to install.
goals()
{
	tree_of goals || return
	printf '#!/bin/sh\n[ $1 = check ] && exec test -e installed\nsleep 1; echo "$@" >installed\n' >tools/deps
	printf '#!/bin/sh\necho booted\n' >run-qemu.sh
	printf '#!/bin/sh\necho "checked, FOR=${FOR-} V=${V-}"\n' >tools/check
	chmod +x tools/deps tools/check run-qemu.sh
	make -s -j4 MAKE=true "$@" 2>&1 && cat installed
}

# lacking PACKAGE PURPOSE GOAL...: make, where that package is missing. It builds nothing.
lacking()
{
	tree_of lacking && cp "$top/tools/deps" tools && printf '%s %s %s\n' there sh build "$1" no-such-command "$2" >tools/packages || return
	make "${@:3}" 2>&1
	local code=$?
	[ ! -e build ] && return "$code"
}

# tools/boots, where a server of a network is missing
boots()
{
	tree_of boots && cp "$top"/tools/{deps,boots} tools || return
	printf '%s %s %s\n' one sh run,image,check two no-such-command check-boot >tools/packages
	tools/boots "$@"
}

# ci CODE RECORD...: .ci/run, where tools/fresh leaves with CODE and that record, and the host's make with HOST
ci()
{
	local code=$1
	shift
	rm -rf ci && mkdir -p ci/{tools,bin} && cp -r "$top/.ci" ci && cd ci || return
	printf '#!/bin/sh\nexit %s\n' "${DEPS:-0}" >tools/deps
	printf '#!/bin/sh\n%s\nprintf "%%s\\n" %s >build/check/fresh\nexit %s\n' "${FRESH-}" "${*@Q}" "$code" >tools/fresh
	printf '#!/bin/sh\necho "make $*"; echo "7 passed, %s failed" >build/check/result; exit %s\n' "${HOST:-0}" "${HOST:-0}" >bin/make
	printf '#!/bin/sh\necho 1234%s\n' "${CHANGED-}" >bin/git
	chmod +x tools/* bin/*
	PATH=$PWD/bin:$PATH CI=true ${EXEC-} .ci/run <&- 2>&1
}

# What .ci/run keeps for tools/release, on one line
ci_keeps()
{
	ci "$@" >/dev/null
	paste -sd ';' build/check/fresh
}

# .ci/run is terminated while tools/fresh runs, which has to remove its root.
ci_terminated()
{
	local runner
	EXEC=exec FRESH='trap "touch removed; exit 130" TERM; touch begun; while :; do sleep 0.1; done' ci 0 &
	runner=$!
	until [ -e ci/begun ]; do sleep 0.1; done
	kill "$runner"
	wait "$runner"
	echo "exit $?, $(ls ci/removed)"
}

# A root for tools/fresh: busybox as its shell
small_root='for root; do case $root in /*) break ;; esac; done
	mkdir -p "$root"/bin "$root"/root "$root"/srv "$root"/proc "$root"/sys "$root"/dev/pts "$root"/dev/shm "$root"/etc/apt/apt.conf.d "$root"/etc/apt/trusted.gpg.d
	cp "$(command -v busybox)" "$root/bin"
	for tool in sh mkdir echo cat ls test grep; do ln -s busybox "$root/bin/$tool"; done
	printf "#!/bin/sh\nexec sh \"\$@\"\n" >"$root/bin/bash"; chmod +x "$root/bin/bash"'

# fresh SCRIPT [OPTION...]: tools/fresh, with SCRIPT for debootstrap, and LINE... as the commands of its README.md
fresh()
{
	rm -rf fresh && mkdir -p fresh/{bin,roots,tools/Spoor} && cd fresh && cp "$top"/tools/{fresh,deps,packages} tools &&
		cp "$top/tools/Spoor/apt.sh" tools/Spoor || return
	printf '%s\n' '```' no '```' '## Two commands' '```' "${lines[@]}" '```' 'It prints:' '```' no '```' '## More' '```' no '```' >README.md
	git init -q . && git add . && git -c user.name=x -c user.email=x@example.org commit -q -m x || return
	printf '#!/bin/sh\n%s\n' "$1" >bin/debootstrap
	printf '#!/bin/sh\necho http://mirror.invalid/ bookworm main\necho http://mirror.invalid/ bookworm-updates main\n' >bin/apt-get
	printf '#!/bin/sh\n[ $1 = shell ] || echo "Acquire::Retries \\"3\\";"\n' >bin/apt-config
	[ -z "${USER_ID-}" ] || printf '#!/bin/sh\necho %s\n' "$USER_ID" >bin/id
	chmod +x bin/*
	PATH=$PWD/bin:$PATH TMPDIR=$PWD/roots ${EXEC-} tools/fresh --debian "${RELEASE:-12}" --case commands "${@:2}" 2>&1
	local code=$?
	echo "left: $(ls roots); $(sed -n '2,$p' build/check/fresh | paste -sd ';')"
	return "$code"
}

fresh_terminated()
{
	local runner
	EXEC='exec' fresh 'touch begun; while :; do sleep 0.1; done' >/dev/null &
	runner=$!
	until [ -e fresh/begun ] || ! kill -0 "$runner" 2>/dev/null; do sleep 0.1; done
	kill "$runner"
	wait "$runner"
	echo "exit $?, left: $(ls fresh/roots), $(pgrep -fc "^/bin/sh $PWD/fresh/bin/debootstrap")"
}

# tools/lint with a clang-format of VERSION, which finds a fault in everything, over one file
lint()
{
	mkdir -p lint/tools && cp "$top/tools/lint" lint/tools && cd lint && git init -q . && echo >a.h || return
	printf '#!/bin/sh\n[ "$1" != --version ] || exec echo "Debian clang-format version %s.0.6"\necho "$3:1:1: error: x"\n' "$1" >clang-format
	chmod +x clang-format
	PATH=$PWD:$PATH tools/lint | sed -n 2p
}

# The goals of `make help` that ask for no package.
goals_that_need_nothing()
{
	local goal
	tree_of nothing && printf '#!/bin/sh\necho "deps $1"\nexit 1\n' >tools/deps && chmod +x tools/deps || return
	for goal in $(make help | awk '{ print $1 }'); do
		make -n "$goal" 2>&1 | grep -q 'deps check' || echo "$goal"
	done
}

# The purposes of all goals, of which tools/deps has to know packages.
purposes()
{
	local goals
	mapfile -t goals < <(make -C "$top" --no-print-directory help | awk '{ print $1 }')
	make -n MAKE=true -C "$top" --no-print-directory "${goals[@]}" 2>/dev/null | sed -n 's/.*tools\/deps install //p' | head -n 1 >purposes
	# shellcheck disable=SC2046 # a list of words
	"$top/tools/deps" check $(cat purposes)
	[ $? -le 1 ] && wc -w <purposes
}

# A file of the kernel and one of the build machine, in a directory with blanks in its name.
blanks()
{
	tree_of 'with blanks in it' && make -s build/obj/lib/string.c.o build/view-obj/lib/frame.c.o 2>&1 || return
	! readelf --debug-dump=info build/obj/lib/string.c.o | grep -F "$PWD"
}

# What make prints of one file that it compiles.
compiles()
{
	rm -rf lines && make --no-print-directory -C "$top" BUILD="$tree/lines" "$@" "$tree/lines/obj/lib/string.c.o"
}

# tools/deps with another list, no package of which is there, and a stand-in for apt-get.
deps()
{
	mkdir -p apt/tools && cp "$top/tools/deps" apt/tools
	printf '%s no-such-command %s\n' one run two run three check four check-boot >apt/tools/packages
	echo "five $tree/apt/nowhere,$tree/apt/f*e check" >>apt/tools/packages && touch apt/five
	printf '#!/bin/sh\necho "apt-get $@"\n%s\n' "${APT_GET-}" >apt/apt-get && printf '#!/bin/sh\necho 0\n' >apt/id
	chmod +x apt/apt-get apt/id && PATH=$tree/apt:$PATH apt/tools/deps "$@"
}

# The same where only the rest of a Debian base system is.
without_apt()
{
	local tool
	mkdir -p base && for tool in sh dirname grep cat ls cut awk paste sed sort tr id; do
		ln -sf "$(command -v "$tool")" base
	done
	deps check run >made 2>&1
	PATH=$tree/base apt/tools/deps "$@"
}

try 'make deps run, whatever -j: what is installed is there when the run looks for it' 0 $'booted\ninstall run' goals deps run
try 'make deps check FOR=all: no test has the words of this make' 0 $'checked, FOR= V=\ninstall all' goals deps check FOR=all V=1
try 'make deps iso: the packages of that goal' 0 $'(^|\n)tools/deps install build image\n' make -n -C "$top" deps iso
try 'make iso: what is missing is named' 2 "missing: one: 'make deps FOR=.build image.' installs.*nothing was done for iso" lacking one image iso
try 'make check-boot: so it is where a goal has separate packages' 2 "missing: one: 'make deps FOR=.all check-boot.'" lacking one all,check-boot check-boot
try 'boots: what is missing for a way to boot' 2 "^missing: two: 'make deps FOR=.run image check check-boot.'" boots --ways http-uefi
try 'CI: the commands pass in a new root' 0 $'fresh=yes\n5 passed, 0 failed$' ci 0 1234 fresh=yes '5 passed, 0 failed'
try 'CI: one fails there' 1 $'fresh=yes\n4 passed, 1 failed$' ci 1 1234 fresh=yes '4 passed, 1 failed'
try 'CI: no root can be made' 0 $'make .*deps run.*make .*deps check FOR=all.*\nfresh=no: no network\n7 passed, 0 failed$' ci 3 1234 'fresh=no: no network'
HOST=2 try 'CI: no root can be made, and a test fails' 2 $'fresh=no: no network\n7 passed, 2 failed$' ci 3 1234 'fresh=no: no network'
FRESH='exit 127' try 'CI: tools/fresh says nothing' 0 $'fresh=no: tools/fresh left with 127\n7 passed, 0 failed$' ci 127
DEPS=1 try 'CI: no debootstrap' 0 $'fresh=no: debootstrap cannot be installed\n7 passed, 0 failed$' ci 0 1234 fresh=yes '5 passed, 0 failed'
CHANGED=-dirty try 'CI: a tree with changes' 0 $'fresh=no: a clone would lack what is not committed\n7 passed' ci 0 1234 fresh=yes '5 passed, 0 failed'
try 'CI keeps what release asks for' 0 '^1234;fresh=no: no network;7 passed, 0 failed$' ci_keeps 3 1234 'fresh=no: no network'
try 'CI is terminated: its root is removed' 0 '^exit 130, ci/removed$' ci_terminated
lines=('echo first >/root/said && cd /srv/spoor' 'ls HEAD; mkdir -p /root/spoor/build/check'
	'cat /root/said /etc/apt/sources.list && echo "3 passed, 0 failed" >/root/spoor/build/check/result')
if [ "$(id -u)" = 0 ] && unshare --mount --pid --fork true; then
	try 'fresh: the lines of README.md, in one shell' 0 $'HEAD.*first\ndeb http://mirror.invalid/ bookworm main.*ok 1 fresh: commands, Debian 12.*left: ; fresh=yes;3 passed, 0 failed$' \
		fresh "$small_root" --verbose
	try 'fresh: a file takes all that it prints' 0 $'a root of Debian 12\n(.*\n)?HEAD.*\nok 1 fresh: commands, Debian 12' \
		eval 'fresh "$small_root" --verbose >"$tree/printed"; cat "$tree/printed"'
	RELEASE=13 try 'fresh: the same mirror for another Debian' 0 $'http://mirror.invalid/ trixie main\ndeb http://mirror.invalid/ trixie-updates main.*ok 1 fresh: commands, Debian 13' \
		fresh "$small_root" --verbose
	lines=(true no-such-command 'echo third')
	try 'fresh: a line that fails is the last' 1 $'not ok 1 fresh: commands, Debian 12\n.*no-such-command: not found\nleft: ; fresh=yes;0 passed, 1 failed$' fresh "$small_root"
	lines=('mkdir -p spoor/build/check && echo "3 passed, 0 failed" >spoor/build/check/result' false)
	try 'fresh: a line that fails after the tests' 1 'left: ; fresh=yes;0 passed, 1 failed$' fresh "$small_root"
	lines=('no-such-command')
	try 'fresh: no archive' 3 "left: ; fresh=no: the root's apt-get cannot reach its archive$" fresh "$small_root"
	try 'fresh: no root can be made' 3 'left: ; fresh=no: no root of Debian 12 can be made: E: no network$' fresh 'echo E: no network; exit 1'
	try 'fresh is terminated: nothing is left' 0 '^exit 130, left: , 0$' fresh_terminated
fi
USER_ID=1000 try 'fresh: a user that is not root' 3 'left: ; fresh=no: only root can make a root$' fresh true
try 'fresh: a Debian that it does not know' 2 "'--debian 11' is unknown" "$top/tools/fresh" --debian 11
try 'lint: the clang-format of the style' 0 '^not ok 1 lint: clang format$' lint 14
try 'lint: another clang-format' 0 '^ok 1 lint: clang format # SKIP this is clang-format 19,' lint 19
try 'lint: a tree without git' 2 'lint: .*this is no git tree' eval 'mkdir -p bare/tools && cp "$top"/tools/lint bare/tools && bare/tools/lint'
try 'make: the goals that look for no package' 0 $'^deps\ndocs\nnew-test\nnew-defect\nclean$' goals_that_need_nothing
try 'make: the packages of every purpose are known' 0 $'(^|\n)1[0-9]$' purposes
try 'make in a directory with blanks in its name' 0 '^$' blanks
try 'make: short lines' 0 $'^ CC lib/string.c$' compiles
try 'make V=1: whole commands' 0 ' -c -o .*/lines/obj/lib/string.c.o lib/string.c' compiles V=1
try 'deps: no such purpose' 2 "'rnu' is no purpose; these are: all .*run" "$top/tools/deps" check rnu
try 'deps: the lists of packages come first, and no package but those that the purpose needs' 0 \
	$'^apt-get update -q\napt-get install -q -y --no-install-recommends one two$' deps install run
try 'deps: all, but what a goal alone needs' 0 'recommends one two three$' deps install all
try 'deps: what is missing' 1 "missing: three: 'make deps FOR=.check.' installs" deps check check
APT_GET='echo "W: Failed to fetch x"; [ $1 = update ]' try 'deps: an archive that cannot be reached' 1 \
	'deps: nothing was installed: apt-get cannot reach its archive; has this machine a network' deps install run
APT_GET='[ $1 = update ]' try 'deps: a package that apt does not have' 1 'deps: apt-get cannot install one two: see above$' deps install run
lacks_one='[ $1 = update ] || case " $* " in *" one "*) echo "E: Unable to locate package one"; exit 100 ;; esac'
APT_GET=$lacks_one try 'deps: a package that this Debian lacks, and the others are installed' 1 \
	$'recommends one two three\n.*recommends two three\n.*deps: this release of Debian has no package one, and cannot run what needs it; two three: installed$' \
	deps install all
APT_GET=${lacks_one//locate package one/locate package one\"; echo \"E: Unable to locate package two} try 'deps: nothing that this Debian has' 1 \
	'deps: this release of Debian has no package one two, and cannot run what needs it$' deps install run
for action in check install; do
	try "deps $action, where there is no apt" 1 \
		'^deps: missing: no-such-command .Debian: one., no-such-command .Debian: two.; there is no apt-get here' without_apt $action run
done
echo "1..$number"
exit $failed
