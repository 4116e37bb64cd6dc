#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of `view record`, TAP: what it refuses, without a Linux; with --boots, of programs that nobody here wrote.
# shellcheck disable=SC2317 # functions are run by `try`
set -u

# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/../../../tests/runner/tree.sh" || exit 2
tested=record
record=$top/tools/guests/record

# recorded NAME CODE SAYS COMMAND...: what it prints, its exit code, and a trace and a page that lack nothing
recorded()
{
	local name=$1 code=$2 says=$3
	shift 3
	try "$name" "$code" "$says" "$@" && [ -s "$out.data" ] && grep -q '</html>' "$out.html"
	result "$name: a trace and a page"
}

boots()
{
	local text=$top/LICENSES/MIT.txt out=$PWD/out
	unset QEMU
	gzip_again() { "$record" -o "$out" -- gzip -c "$text" 2>said | gzip -dc | cmp - "$text" && cat said; }
	recorded 'gzip, whose output is whole' 0 'view record: [1-9][0-9]{4,} branches of a task, none lost: ' gzip_again
	sorted() { seq 300 | "$record" -o "$out" --env LC_ALL=C -- sort -r | head -n 2 | tr '\n' ' '; }
	recorded 'a pipe is its standard input' 0 '99 98 ' sorted
	recorded 'its exit code' 7 'none lost' "$record" -o "$out" -- perl -e 'exit 7'
	try 'its PATH' 0 "^$PATH"$'\n' "$record" --no-page -o "$out" -- printenv PATH
	# shellcheck disable=SC2016 # assembler's
	echo '.globl _start; _start: mov $60, %eax; mov $7, %edi; syscall' | gcc -nostdlib -static -o straight -x assembler -
	try 'a program without a branch' 7 'has no branch' "$record" -o "$out" -- ./straight
	recorded 'a signal that ends it' 139 'none lost' "$record" -o "$out" -- perl -e 'kill SEGV => $$'
	# shellcheck disable=SC2016 # perl's
	recorded 'a program that takes no SIGTERM, and --time' 137 'none lost' \
		"$record" -o "$out" --time 5 -- env --ignore-signal=TERM perl -e '$i++ while 1'
	recorded 'a program that ends itself at SIGTERM' 5 'bye.*none lost' \
		"$record" -o "$out" --time 5 -- bash -c 'trap "echo bye; exit 5" TERM; while :; do :; done'
	left() { timeout 600 "$record" -o "$out" -- sh -c 'sleep 100000 & exec yes' | head -n 1; return "${PIPESTATUS[0]}"; }
	recorded 'a reader that leaves, and a program that stays' 141 $'y\n.*none lost' left
	# bash asks for the time, by the vdso.
	# shellcheck disable=SC2016 # bash's
	recorded 'children, by Processor Trace' 0 ' branches of [3-9] tasks, none lost' \
		"$record" -o "$out" --unit pt -- bash -c 'echo $EPOCHREALTIME | cat | cat'
	HOME=/nonexistent "$top/build/view" check "$out.data" >checked 2>&1
	result 'no branch is missing, later on as well' || sed -n 's/^not/# not/p' checked
	mkdir back
	# shellcheck disable=SC2016 # the other shell's
	changed() { "$record" -o "$out" --write-back back -- sh -c 'echo new >"$0"; cat "$0"; rm -f a,b' "$1" && cat "back/$1" && [ ! -e "$1" ]; }
	recorded 'a file that it makes' 0 'new.*new$' changed $'ma\nde'
	recorded 'a disk that fills' 143 'little room in .* branches of a task' fills
	recorded 'a disk that is slower than the program' 0 'none lost' slowly
	killed
	result 'where it is killed, the guest ends'
	recorded 'a library that is missing' 127 'error while loading shared libraries' "$record" -o "$out" -- "$(lacking)"
}

# A program that does not end, where df says that the disk has 9 GB, and 1 MB as soon as the trace has one.
fills()
{
	mkdir df
	# shellcheck disable=SC2016 # the other shell's
	printf '%s\n' '#!/bin/sh' 'room=9000000' '[ "$(stat -c %b "$2/perf.data" 2>/dev/null || echo 0)" -lt 2000 ] || room=1000' \
		'echo "disk 1 1 $room 1% /"' >df/df
	chmod 755 df/df
	# shellcheck disable=SC2016 # perl's
	PATH=$PWD/df:$PATH "$record" -o "$out" -- perl -e '$i++ while 1'
}

# A disk of 4 MB a second, and 170 MB of branches: the buffer of perf has 32, and Linux keeps a fifth of the memory.
slowly()
{
	# shellcheck disable=SC2016 # the other shell's
	printf '%s\n' '#!/usr/bin/env bash' 'for word; do' '	shift' '	[[ $word != *file=*/perf.data ]] || word+=,throttling.bps-write=4000000' \
		'	set -- "$@" "$word"' 'done' 'exec qemu-system-x86_64 "$@"' >slow
	chmod 755 slow
	# shellcheck disable=SC2016 # perl's
	QEMU=$PWD/slow "$record" -o "$out" --memory 384 -- perl -e '$i++ while $i < 250000'
}

# No process is left that has to do with the directory in which it keeps the trace.
killed()
{
	local pid
	mkdir kept
	# shellcheck disable=SC2016 # perl's
	TMPDIR=$PWD/kept "$record" -o "$out" -- perl -e '$SIG{TERM} = "IGNORE"; $i++ while 1' </dev/null >/dev/null 2>&1 &
	pid=$!
	for ((i = 0; i < 600; i++)); do
		! ls kept/*/started >/dev/null 2>&1 || break
		sleep 1
	done
	kill -KILL $pid
	ls kept/*/started >/dev/null || return
	for ((i = 0; i < 300; i++)); do
		pgrep -f "$PWD/kept/" >/dev/null || return 0
		sleep 1
	done
	return 1
}

# A program whose library is gone; prints its path.
lacking()
{
	echo 'int there(void) { return 0; }' | gcc -shared -fPIC -o libthere.so -x c -
	echo 'int there(void); int main(void) { return there(); }' | gcc -o lacks -x c - -x none libthere.so
	rm -f libthere.so
	echo "$PWD/lacks"
}

# In this tree, with programs that replace the guest, make and view, and nothing of which the guest is made
stand_ins()
{
	mkdir -p bin build/linux/root tmp
	cp "$record" tools/guests/record
	touch build/linux/vmlinuz build/linux/initrd
	# shellcheck disable=SC2016 # the other shell's
	printf '%s\n' '#!/bin/sh' '[ "$PHASE" != make ] || { touch reached && sleep "$NAP"; }' \
		'[ "$PHASE" != twice ] || { mkdir making || touch clash; sleep 2; rmdir making; }' >bin/make
	# shellcheck disable=SC2016 # the other shell's
	printf '%s\n' '#!/bin/sh' '[ "$1" = html ] || { echo "task 7 (a) 2 branches, 3 instructions, 0 gaps"' \
		'echo "task 7 (b) 3 branches, 4 instructions, 0 gaps"; exit; }' '[ "$PHASE" != many ] || [ "$5" ] || exit 1' \
		'[ "$PHASE" != page ] || { touch reached && sleep "$NAP"; }' 'echo page >"$3"' >build/view
	cat >guest <<-'EOF'
		use IO::Socket::UNIX;
		if ($ENV{PHASE} eq 'boot') { open my $reached, '>', 'reached'; sleep $ENV{NAP} }
		my %port = map { /^socket,id=(\w+),.*path=(.*)/ ? ($1 => IO::Socket::UNIX->new(Peer => $2)) : () } @ARGV;
		my ($kept) = "@ARGV" =~ m{path=(\S*)/};
		sub left { my ($name, $text) = @_; open my $file, '+>>', "$kept/$name"; print $file $text }
		left('started', '');
		my $code = eval $ENV{GUEST} // '0';
		die $@ if $@;
		open my $disk, '+<', "$kept/perf.data";
		print $disk pack('a8Q<12', 'PERFILE2', 104, 0, 0, 0, 104, 8), 'branches';
		left('ending', "exit $code\n");
	EOF
	chmod 755 bin/make build/view
	export NAP=61.$$ FAKE_ACT="exec perl $PWD/guest \"\$@\"" FAKE_LOG='' PATH=$PWD/bin:$PATH TMPDIR=$PWD/tmp PHASE='' GUEST=''
	record=$PWD/tools/guests/record
}

# by_signal PHASE NAME: the exit code where the signal arrives in this phase; nothing may be left.
by_signal()
{
	local pid code
	rm -f reached
	PHASE=$1 env --default-signal=HUP "$record" -o by -- true </dev/null & # nohup(1) ignores it
	pid=$!
	until [ -e reached ]; do sleep 0.1; done
	kill -"$2" "$pid"
	wait "$pid"
	code=$?
	[ ! "$(ls -A tmp)" ] && ! pgrep -f "sleep $NAP|$PWD/guest" && return "$code"
}

# The words that the guest has, as its shell reads them
words()
{
	local program=true
	# shellcheck disable=SC2016 # perl's
	GUEST='system("cp", "$kept/words", "words"); 0' "$record" -o words -- true '' "it's" $'line\n' '$a b' >/dev/null 2>&1 || return
	# shellcheck disable=SC1091
	(. ./words && while [ "$1" != -- ]; do shift; done && program=$2 && shift 2 && printf '%s[%s]' "${program##*/}" "$*")
}

# The guest has written reached.
within_reach()
{
	for ((i = 0; i < 600; i++)); do
		[ ! -s reached ] || return 0
		sleep 0.1
	done
	return 1
}

# What the program writes is taken after the record has had SIGTERM, and told the guest.
taken_late()
{
	local pid
	rm -f reached && mkfifo taker
	# shellcheck disable=SC2016 # perl's
	GUEST='syswrite $port{output}, "x" x 100000; system("echo 1 >reached"); readline $port{stop}; system("echo >told"); 3' \
		"$record" -o late -- true >taker &
	pid=$!
	exec 3<taker
	within_reach && kill -TERM "$pid"
	for ((i = 0; i < 100; i++)); do
		[ ! -e told ] || break
		sleep 0.1
	done
	[ -e told ] && wc -c <&3
	exec 3<&-
	wait "$pid"
}

hung_up()
{
	rm -f reached
	GUEST='system("echo 1 >reached"); sleep 2; 4' nohup "$record" -o hung -- true &
	within_reach && kill -HUP $!
	wait $!
}

# What the guest leaves for DIR: a file, one at the place of a FIFO, one below a link that leaves DIR.
written()
{
	mkdir -p made/link to && mkfifo to/fifo && ln -s "$PWD/build" to/link
	for file; do echo 1 >"made/$file"; done
	(cd made && printf '%s\0' "$@" | cpio -0 -o -H newc --quiet >../archive)
	# shellcheck disable=SC2016 # perl's
	GUEST='system("cp", "archive", "$kept/back"); 0' "$record" -o written --write-back to -- true
}

# What reads the program's output takes one line.
one_line()
{
	# shellcheck disable=SC2016 # perl's
	GUEST='my $output = $port{output}; while (!$word) { print $output "line\n"; $output->flush; my $set = "";
		vec($set, fileno($port{stop}), 1) = 1; $word = readline $port{stop} if select($set, undef, undef, 0.1) } $word eq "output\n" ? 141 : 1' \
		"$record" -o line -- true | head -n 1
	return "${PIPESTATUS[0]}"
}

host()
{
	stand_ins
	try 'a signal while the guest is made' 125 'ended while the guest was made$' by_signal make TERM
	try 'a signal before the guest runs' 125 'ended before the program did$' by_signal boot INT
	try 'a signal while the page is made' 125 'ended while the page was made: by.data$' by_signal page HUP
	[ -s by.data ] && [ ! -e by.html ]
	result 'the trace is there then, and no page'
	PHASE=twice "$record" --no-page -o one -- true 2>said &
	PHASE=twice "$record" --no-page -o two -- true 2>>said && wait $! && [ ! -e clash ]
	result 'two at once make the guest one after the other'
	# shellcheck disable=SC2016 # perl's
	GUEST='system("mkdir", "-p", "$kept/.debug/.build-id"); 0' "$record" -o kept -- true 2>>said && [ -d build/linux/.debug/.build-id ]
	result 'the vdso of the guest is kept'
	# shellcheck disable=SC2016 # $ as it is
	try 'words of any kind are the arguments' 0 "^true\[ it's line"$'\n'' \$a b\]$' words
	try 'a reader that leaves' 141 '^line' one_line
	# shellcheck disable=SC2016 # perl's
	GUEST='my $output = $port{output}; print $output "line\n"; $output->flush; readline $port{stop}; 0' \
		try 'an output that takes nothing' 125 'output is lost: No space left' sh -c '"$0" -o full -- true >/dev/full' "$record"
	# shellcheck disable=SC2016 # the other shell's
	try 'no standard input, output or errors' 0 '^$' sh -c '"$0" --no-page -o closed -- true <&- >&- 2>&-' "$record" && [ -s closed.data ]
	result 'the trace is there'
	ln -s nowhere link.data
	PHASE=many try 'more calls than a page has' 0 '^view record: 5 branches of a task, none lost: many.data, many.html$' "$record" -o many -- true
	try 'nohup and SIGHUP' 4 'none lost' hung_up
	try 'an output that is taken late, and SIGTERM' 3 '100000' taken_late
	try 'an output that is a link to nowhere' 125 'link.data is no regular file' "$record" -o link -- true
	try 'a file that is written back' 0 'none lost' written file && [ -f to/file ]
	result 'it is there'
	rm -r to
	try 'names of two lines' 0 'none lost' written $'two\nlines' && [ -f $'to/two\nlines' ]
	result 'both lines are its name'
	rm -r to
	try 'a FIFO at the place of a file' 125 'could not be written to to: to/fifo is no file' written file fifo && [ -p to/fifo ]
	result 'it stays'
	rm -r to
	try 'a link out of the directory' 125 'to/link is no file' written link/file && [ ! -e build/file ]
	result 'nothing is written through it'
	[ ! "$(ls -A tmp)" ]
	result 'nothing is left in TMPDIR'
}

if [ "${1-}" = --boots ]; then
	boots
else
	try '--help' 0 '--unit bts.pt' "$record" --help
	try 'no program' 125 'which program' "$record"
	try 'a program that is not there' 125 'no program frob in PATH' "$record" -- frob
	try 'a path that is not there' 125 'no program ./frob$' "$record" -- ./frob
	try 'an option that is none' 125 'Unknown option: frob' "$record" --frob -- true
	try 'a unit that is none' 125 "knows bts and pt, not 'lbr'" "$record" --unit lbr -- true
	try 'a word of the environment that is none' 125 "needs NAME=VALUE, not '=x'" "$record" --env =x -- true
	try 'too little memory' 125 'needs 256 to 65536, not 5' "$record" --memory 5 -- true
	try 'no time' 125 'needs a second or more' "$record" --time 0 -- true
	mkdir taken.data somewhere
	try 'no name for the output' 125 "needs a name to which .* 'somewhere/'" "$record" -o somewhere/ -- true
	try 'a device for the output' 125 "needs a name to which .* '/dev/null'" "$record" -o /dev/null -- true
	try 'an output in no directory' 125 'cannot write nowhere/x.data: No such file' "$record" -o nowhere/x -- true
	try 'an output whose name is too long' 125 'data: File name too long' "$record" -o "$(printf 'x%.0s' {1..250})" -- true
	try 'an output that is a directory' 125 'taken.data is no regular file' "$record" -o taken -- true
	try 'a directory for what it makes that is not there' 125 'no directory none' "$record" --write-back none -- true
	printf '\x7fELF\x01\x01\x01%057d' 0 >small && chmod 755 small
	try 'a program of 32 bits' 125 'no program of x86-64' "$record" -- ./small
	head -c 100 "$(type -P true)" >./cut && chmod 755 cut
	try 'a program that is cut off' 125 '/cut is cut off$' "$record" -- ./cut
	echo 'int main(void) { return 0; }' >it.c && gcc -c -o object it.c && chmod 755 object
	try 'a file of objects' 125 'no program of x86-64' "$record" -- ./object
	gcc -Wl,--dynamic-linker=/frob -o elsewhere it.c
	try 'a program for another C library' 125 'needs /frob, which cannot be executed' "$record" -- ./elsewhere
	try 'a directory' 125 './somewhere is a directory' "$record" -- ./somewhere
	[ ! -g /usr/bin/expiry ] || try 'a program with the rights of a group' 125 'Linux does not let perf record it' "$record" -- /usr/bin/expiry
	echo text >text && chmod 755 text
	chmod 644 small
	try 'a program that may not be executed' 125 './small is a file that cannot be executed' "$record" -- ./small
	echo '#!/frob -x' >script && chmod 755 script
	try 'a script whose interpreter is not there' 125 'names /frob, which cannot be executed' "$record" -- ./script
	try 'a program that is text' 125 'neither an ELF file nor a script' "$record" -- ./text
	if [ -x /usr/lib/openssh/sftp-server ] && command -v cpio >/dev/null; then
		host
	else
		number=$((number + 1))
		echo "ok $number $tested: stand-ins # SKIP cpio or sftp-server is not installed"
	fi
fi
echo "1..$number"
exit "$failed"
