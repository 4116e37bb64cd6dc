#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Boots Spoor in QEMU and leaves with the verdict of the run.
set -u
# Bash 5.2 forgets a trap that it serves while it parses `$(` or `<(`, as it does again each time that it expands one.
# So all of this is read before the first trap is set. From there on until judge() ignores signals nothing but --version has one.
{
top=$(dirname "$0") processors=$(nproc)
# shellcheck source=tools/Spoor/boot.sh
. "$top/tools/Spoor/boot.sh" || exit 2
# Closed descriptors would be given to the next file that is opened.
{ : >&1; } 2>/dev/null || exec >/dev/null
{ : >&2; } 2>/dev/null || exec 2>/dev/null
signals=(HUP INT QUIT TERM USR1 USR2 ALRM VTALRM PROF XCPU)
trap '' PIPE
# shellcheck disable=SC2064 # as they are now
trap "trap '' ${signals[*]}; echo 'verdict: INTERRUPTED (130): nothing was booted' >&2; exit 130" \
	"${signals[@]}"

qemu=${QEMU:-qemu-system-x86_64}
build=${BUILD:-$top/build}
ovmf=/usr/share/ovmf/OVMF.fd
boot=kernel firmware=bios accel=tcg cpu='' smp=1 memory=256 timeout='' emulator=qemu
kernel_words='' monitor_words='' test='' require='' units='' append='' monitor='' log='' extra=()
trace='' com2='' program='' argument='' linux='' initrd='' switches='' disks=()
kernel_only=0 ubsan=0 gdb=0 dry_run=0 quiet=0 list=0 interactive=0 boots=10 interrupted=0

usage()
{
	cat <<-'EOF'
	usage: run-qemu.sh [options] [-- QEMU arguments]

	  -b, --boot kernel|iso|usb|pxe|other  how to boot (default kernel); other: QEMU arguments say it
	  -f, --firmware bios|uefi         firmware (default bios)
	  -x, --accel tcg|kvm              accelerator (default tcg)
	  -c, --cpu MODEL[,flags]          processor (default max; of Bochs: ryzen); on KVM max and host get what tools/kvm-switches prints
	  -s, --smp N                      processors (default 1)
	  -m, --memory MB                  memory (default 256)
	  -T, --timeout SECONDS            end a boot after so many of each processor, or 8 times as many by the clock (300; of Bochs: 900)
	      --boots N                    boot again, N boots at most, after the test in which one died (10; 1: end there)
	  -l, --log FILE                   keep the console log; of several boots FILE.boot1 and so on too
	      --trace FILE.spt             keep the traces of its programs; build/view shows them
	      --com2 FILE                  what a program sends over its serial line (docs/serial-line.4)
	      --program ELF [NUMBER]       run this program, with this argument, and no test
	      --linux BZIMAGE              boot this Linux in the kernel's place (docs/guests.md)
	      --initrd FILE                its initrd or initramfs
	      --disk FILE                  its next disk, virtio-blk; -- -snapshot leaves the file as it is
	      --interactive                type into its console; no time limit
	  -t, --test GLOB[,-GLOB]          only the tests that match
	  -r, --require GLOB[,-GLOB]       a test that matches may not be skipped
	      --units bts,pebs,counters,lbr,pt  what the run is for: 0 if each of these is there and passed, BTS or not
	  -a, --append "WORDS"             words for the kernel's command line; each -a adds some
	  -M, --monitor "WORDS"            words for the monitor's command line
	  -K, --kernel-only                no monitor in the chain
	  -u, --ubsan                      the kernel that 'make ubsan' built
	  -e, --emulator qemu|bochs        emulator (default qemu); Bochs boots its own CD
	  -g, --gdb                        wait for gdb on port 1234, no time limit
	  -n, --dry-run                    print the command line and stop
	  -q, --quiet                      print failed results and the verdict only
	      --list                       names, groups and needs of all tests
	  -V, --version
	  -h, --help

	The log is what QEMU writes to its standard output: COM1, unless a QEMU argument names stdio.

	environment: QEMU (the binary, 7.2 or newer), BUILD (where the images are), TIMEOUT_SCALE (multiplies the time limit)

	exit: 0 pass, 1 fail, 2 error or harness, 3 all skipped, or BTS or one of --units is not there, 4 crash or
	incomplete, 124 timeout, 130 interrupt; of a Linux: 0 if it powers off
	EOF
}

die()
{
	echo "run-qemu.sh: $*" >&2
	exit 2
}

# number NAME VALUE: a harness that takes "1o" for 1 lies about what it ran.
number()
{
	[[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || die "$1 needs a number from 1 to 9999999, not '$2'"
}

choice()
{
	[[ " $3 " == *" $2 "* ]] || die "$1 knows ${3// / or }, not '$2'"
}

parse()
{
	local option
	while [ $# -gt 0 ]; do
		option=$1
		case $option in
		-b | --boot | -f | --firmware | -x | --accel | -c | --cpu | -s | --smp | -m | --memory | \
			-T | --timeout | -l | --log | -t | --test | -r | --require | -a | --append | -M | --monitor | \
			-e | --emulator | --boots | --trace | --com2 | --program | --linux | --initrd | --disk | --units)
			[ $# -ge 2 ] || die "$option needs a value; -h lists the options"
			shift
			[[ $1 != -* || $option == -t || $option == --test ]] ||
				die "$option needs a value, not '$1'; -h lists the options"
			[[ -n $1 || $option =~ ^(-a|--append|-M|--monitor)$ ]] ||
				die "$option needs a value, not an empty word; -h lists the options"
			;;
		esac
		case $option in
		-b | --boot) boot=$1 ;;
		-f | --firmware) firmware=$1 ;;
		-x | --accel) accel=$1 ;;
		-c | --cpu) cpu=$1 ;;
		-s | --smp) smp=$1 ;;
		-m | --memory) memory=$1 ;;
		-T | --timeout) timeout=$1 ;;
		--boots) boots=$1 ;;
		-l | --log) log=$1 ;;
		-t | --test) test=$1 ;;
		-r | --require) require=$1 ;;
		--units) units=$1 ;;
		-a | --append) append+=${append:+ }$1 ;;
		-M | --monitor) monitor+=${monitor:+ }$1 ;;
		-e | --emulator) emulator=$1 ;;
		--trace) trace=$1 ;;
		--com2) com2=$1 ;;
		--linux) linux=$1 ;;
		--initrd) initrd=$1 ;;
		--disk) disks+=("$1") ;;
		--interactive) interactive=1 ;;
		--program)
			program=$1
			[[ ! ${2-} =~ ^[0-9]+$ ]] || { argument=$2 && shift; }
			;;
		-K | --kernel-only) kernel_only=1 ;;
		-u | --ubsan) ubsan=1 ;;
		-g | --gdb) gdb=1 ;;
		-n | --dry-run) dry_run=1 ;;
		-q | --quiet) quiet=1 ;;
		--list) list=1 ;;
		-V | --version) version ;;
		-h | --help) usage && exit 0 ;;
		--) shift && extra=("$@") && return ;;
		*) die "unknown option '$option'; -h lists the options" ;;
		esac
		shift
	done
}

version()
{
	sed -n '/spoor_version/ { N; s/.*"\(.*\)";\n.*"\(.*\)";/spoor \1 (\2)/p }' "$build/version.c" 2>/dev/null | grep . ||
		echo "spoor $(sed -n 's/^VERSION *:= *//p' "$top/Makefile"), not built"
	exit 0
}

# Bochs has no exit value to give, no hypervisor leaf that says emulator, and a separate clock.
defaults()
{
	if [ "$emulator" = qemu ]; then
		default_cpu=max
		[ "$accel" = tcg ] || { "$top/tools/kvm-switches" >"$scratch/cpu" && read -r switches <"$scratch/cpu" && default_cpu+=,$switches; }
		[[ ! $accel-$cpu =~ ^kvm-(host|max)$ ]] || cpu+=,$switches
		: "${timeout:=300}"
		kernel_words='end=exit' monitor_words='end=exit'
	else
		default_cpu=ryzen
		: "${timeout:=900}"
		kernel_words='end=poweroff' monitor_words='vbts=on'
	fi
	: "${cpu:=$default_cpu}"
}

check()
{
	choice --boot "$boot" 'kernel iso usb pxe other'
	choice --firmware "$firmware" 'bios uefi'
	choice --accel "$accel" 'tcg kvm'
	choice --emulator "$emulator" 'qemu bochs'
	defaults
	number --smp "$smp"
	number --memory "$memory"
	[ "$memory" -ge 2 ] || die '--memory needs 2 or more: in 1 MB no firmware reaches a boot loader'
	number --timeout "$timeout"
	number --boots "$boots"
	number TIMEOUT_SCALE "${TIMEOUT_SCALE:-1}"
	timeout=$((timeout * ${TIMEOUT_SCALE:-1}))
	[ "$emulator" = qemu ] || [ "$boot-$firmware-$accel-$gdb-${#extra[@]}" = kernel-bios-tcg-0-0 ] ||
		die '--emulator bochs does not take --boot, --firmware, --accel, --gdb or QEMU arguments'
	[ "$boot-$firmware" != kernel-uefi ] ||
		die '--boot kernel works under --firmware bios only: QEMU cannot load Multiboot under UEFI'
	[ "$boot" != other ] || [ ${#extra[@]} -gt 0 ] ||
		die '--boot other boots what QEMU arguments after -- say, and there is none'
	[ $ubsan = 0 ] || [ "$boot" = kernel ] ||
		die "--ubsan works with --boot kernel only: no other image has that kernel"
	[ $kernel_only = 0 ] || [ -z "$monitor" ] ||
		die '--monitor gives words to the monitor, which --kernel-only leaves out'

	[ -z "$trace$com2$program" ] || [ "$emulator" = qemu ] || die '--trace, --com2 and --program need --emulator qemu'
	[ -z "$program" ] || [ "$boot" = kernel ] ||
		die '--program works with --boot kernel only: no other way to boot loads a program'
	[ -z "$program" ] || check_program
	# What is not for the trace's line goes to another.
	[ -z "$trace$com2" ] || { kernel_words+=' console=com1' && monitor_words+=' console=com1'; }
	[ -z "$trace" ] || kernel_words+=' export=debugcon'
	[ $list = 0 ] || kernel_words+=' list'
	kernel_words+=${test:+ test=$test}${require:+ require=$require}${units:+ units=$units}${append:+ $append}
	monitor_words+=${monitor:+ $monitor}
	[ -n "$linux" ] || [ "${#disks[@]}$initrd$interactive" = 00 ] || die '--initrd, --disk and --interactive are of a Linux: --linux says which'
	[ -z "$linux" ] || check_linux
}

# QEMU ends the name of a module at a blank; the kernel says of what it cannot run no more than a number.
check_program()
{
	[ -r "$program" ] || die "cannot read the program $program"
	[[ $program != *' '* ]] || die "QEMU cannot load a file with a blank in its name: $program"
	local fault=''
	perl -I"$top/tools" -MSpoor::Program -we 'print Spoor::Program::fault(shift) // ""' "$program" >"$scratch/fault" ||
		die "cannot check the program $program"
	read -r fault <"$scratch/fault"
	[ -z "$fault" ] || die "the program $program $fault"
	: "${test:=user_given}"
}

# A Linux has its own words, and the console where the log is taken from.
check_linux()
{
	[ "$emulator-$ubsan-$list-$trace$com2$program$test$require$units" = qemu-0-0- ] ||
		die '--linux does not take --emulator bochs, --ubsan, --list, --trace, --com2, --program, --test, --require or --units'
	choice '--boot with --linux' "$boot" 'kernel iso other'
	[ $kernel_only = 0 ] || [ "$boot" = kernel ] || die '--linux without the monitor works with --boot kernel'
	[ "$boot" != iso ] || [ -n "$initrd" ] || die "--linux with --boot iso needs --initrd: the menu's entry loads one"
	local file bytes size=0
	for file in "$linux" ${initrd:+"$initrd"}; do
		[[ -r $file && ! -d $file ]] || die "cannot read $file; 'make linux' has a Linux and an initrd"
		[[ $file != *' '* ]] || die "QEMU cannot load a file with a blank in its name: $file"
	done
	stat -Lc %s "$linux" ${initrd:+"$initrd"} >"$scratch/bytes"
	while read -r bytes; do size=$((size + bytes)); done <"$scratch/bytes"
	[ $((size >> 20)) -lt "$memory" ] ||
		die "the Linux and its initrd have $((size >> 20)) MB: --memory $memory is too little"
	for file in ${disks[@]+"${disks[@]}"}; do
		[ -f "$file" ] || die "there is no disk $file; 'make linux-disk' builds one"
	done
	# On a busy host Linux would take the timer for broken.
	kernel_words='console=ttyS0 panic=-1 no_timer_check'
	[ -z "$append" ] || kernel_words+=" $append"
}

# QEMU splits several of its arguments at commas; ${word//,/,,} doubles those of a word: two stand for one.

# Without the monitor it is QEMU's own loader that boots a Linux.
command_for_linux()
{
	if [ $kernel_only = 1 ]; then
		images=()
		command+=(-kernel "$linux" -append "$kernel_words")
		[ -z "$initrd" ] || command+=(-initrd "${initrd//,/,,}")
	else
		images=("$build/monitor.elf32")
		local module="$linux $kernel_words"
		command+=(-kernel "${images[0]}" -append "$monitor_words"
			-initrd "${module//,/,,}${initrd:+,${initrd//,/,,}}")
	fi
}

# QEMU's Multiboot loader puts each file's name in front of its words, and ends it at a blank.
command_for_kernel()
{
	[[ $build != *' '* ]] || die "QEMU cannot boot from a path with a blank: cd '$top' first"
	local kernel=$build/spoor.elf module given="$program${argument:+ $argument}"
	[ -z "$linux" ] || { command_for_linux && return; }
	[ $ubsan = 0 ] || kernel=$top/build/ubsan/spoor.elf
	if [ $kernel_only = 1 ]; then
		images=("${kernel}32")
		command+=(-kernel "${images[0]}" -append "$kernel_words")
		[ -z "$program" ] || command+=(-initrd "${given//,/,,}")
	else
		images=("$build/monitor.elf32" "$kernel")
		module="$kernel $kernel_words"
		command+=(-kernel "${images[0]}" -append "$monitor_words"
			-initrd "${module//,/,,}${program:+,${given//,/,,}}")
	fi
}

# shellcheck disable=SC2054 # the commas are QEMU's
# GRUB finds the words in an SMBIOS OEM string; boot/grub/grub.cfg takes it apart again.
command_for_grub()
{
	local entry=monitor string file disk
	[ $kernel_only = 0 ] || entry=kernel
	[ -z "$linux" ] || entry=linux
	string="spoor $entry '$kernel_words' '$monitor_words'"
	[[ $kernel_words$monitor_words != *\'* ]] || die "a word has a \"'\": only --boot kernel takes it"
	[ ${#string} -le 255 ] || die "the words are ${#string} bytes long: --boot $boot takes up to 255"
	command+=(-smbios "type=11,value=${string//,/,,}")
	images=("$build/spoor.iso")
	file=${images[0]//,/,,} disk=$build/linux.iso

	# The menu's entry looks for the files on all disks. No IDE disk is read-only.
	[ -z "$linux" ] || [ "$boot" = other ] || command+=(-drive "if=none,id=linux,snapshot=on,format=raw,file=${disk//,/,,}"
		-device ide-hd,drive=linux,bus=ide.1)
	case $boot in
	other) images=() ;;
	iso) command+=(-drive "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=$file"
		-device ide-cd,drive=cd,bootindex=0) ;;
	usb) command+=(-device qemu-xhci
		-drive "if=none,id=stick,readonly=on,format=raw,file=$file"
		-device usb-storage,drive=stick,bootindex=0) ;;
	pxe)
		file=spoor.0 images=("$build"/pxe/{spoor.0,monitor.elf,spoor.elf})
		[ "$firmware" = bios ] || { file=spoor.efi && images=("$build/pxe/$file"); }
		command+=(-netdev "user,id=net,tftp=${build//,/,,}/pxe,bootfile=$file"
			-device virtio-net-pci,netdev=net,bootindex=0)
		;;
	esac
}

compose_bochs()
{
	command=("$top/tools/bochs" --cpu "$cpu" --smp "$smp" --memory "$memory")
	[ $kernel_only = 0 ] || command+=(--kernel-only)
	command+=("$kernel_words" "$monitor_words")
	images=("$top/build/monitor.elf" "$top/build/spoor.elf" "$top/build/grub/bios.img")
}

compose()
{
	[ "$emulator" = qemu ] || { compose_bochs && return; }
	command=("$qemu" -accel "$accel" -cpu "$cpu" -smp "$smp" -m "$memory"
		-nodefaults -display none -vga none -no-reboot
		-device 'isa-debug-exit,iobase=0xf4,iosize=4' -global hpet.msi=on)
	if [ $interactive = 1 ]; then
		# Ctrl-C is the guest's.
		# shellcheck disable=SC2054 # the commas are QEMU's
		command+=(-chardev stdio,id=console,signal=off -serial chardev:console)
	elif [[ "${extra[*]-}" != *stdio* ]]; then
		command+=(-serial stdio)
	fi
	[ "$firmware" = bios ] || command+=(-machine q35 -bios "$ovmf")
	local disk
	for disk in ${disks[@]+"${disks[@]}"}; do
		command+=(-drive "if=virtio,format=raw,file=${disk//,/,,}")
	done
	if [ "$boot" = kernel ]; then command_for_kernel; else command_for_grub; fi
	[ -z "$trace" ] || command+=(-debugcon "file:${trace//,/,,}")
	[ -z "$com2" ] || command+=(-chardev "file,id=com2,path=${com2//,/,,}" -device "isa-serial,chardev=com2,index=1")
	[ $gdb = 0 ] || command+=(-s -S)
	command+=(${extra[@]+"${extra[@]}"})
}

# quoted WORD...: one line, to be typed into a shell
quoted()
{
	local word line=''
	for word in "$@"; do
		[[ $word =~ ^[A-Za-z0-9_./:=,+%@-]+$ ]] || word=${word@Q}
		line+="$word "
	done
	echo "${line% }"
}

# What the kernel's own line '# again:' cannot say of this run.
unknown_to_kernel()
{
	local words=()
	[ $kernel_only = 0 ] || words+=(-K)
	[ $ubsan = 0 ] || words+=(-u)
	[ "$boot" = kernel ] || words+=(-b "$boot")
	[ "$firmware" = bios ] || words+=(-f "$firmware")
	[ "$accel" = tcg ] || words+=(-x "$accel")
	[ "$emulator" = qemu ] || words+=(-e "$emulator")
	[ "$cpu" = "$default_cpu" ] || words+=(-c "$cpu")
	[ "$memory" = 256 ] || words+=(-m "$memory")
	[ -z "$monitor" ] || words+=(-M "$monitor")
	[ -z "$trace" ] || words+=(--trace "$trace")
	[ -z "$com2" ] || words+=(--com2 "$com2")
	[ -z "$program" ] || words+=(--program "$program" ${argument:+"$argument"})
	[ ${#extra[@]} = 0 ] || words+=(-- "${extra[@]}")
	quoted ${words[@]+"${words[@]}"}
}

# A QEMU that does not say its version, as through some wrapper, is taken as it is.
check_version()
{
	local said=''
	timeout 10 "$qemu" --version >"$scratch/version" 2>/dev/null </dev/null
	read -r said <"$scratch/version"
	[[ ! $said =~ ^QEMU\ emulator\ version\ ([0-9]+)\.([0-9]+) ]] ||
		((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] >= 702)) ||
		die "$qemu is QEMU ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}: 7.2 or newer is needed"
}

# Everything that can be missing is named here, with the way to get it.
check_files()
{
	local image targets=$boot
	if [ "$boot" = kernel ]; then
		targets=images
		[ "$emulator" = qemu ] || targets+=' iso'
		[ $ubsan = 0 ] || targets+=' ubsan'
	fi
	for image in ${images[@]+"${images[@]}"}; do
		[ -r "$image" ] || die "$image is missing: 'make $targets' builds it"
	done
	[[ ! -p $log || $log == /dev/* ]] || die "cannot write the log $log: a FIFO waits for its reader"
	[ -z "$log" ] || (: >"$log") 2>/dev/null || die "cannot write the log $log"
	if [ "$emulator" = bochs ]; then
		command -v bochs-bin >/dev/null || die "Bochs is not installed: apt-get install bochs, or 'make deps FOR=check'"
		return
	fi
	command -v "$qemu" >/dev/null ||
		die "$qemu is not installed: apt-get install qemu-system-x86, or 'make deps'"
	check_version
	[[ $accel-$cpu != kvm-host* ]] || "$top/tools/kvm-switches" "$qemu" || die "$qemu lists no processor model 'host': it was built without KVM"
	[ "$firmware" = bios ] || [ -r "$ovmf" ] ||
		die "$ovmf is missing: apt-get install ovmf, or 'make deps FOR=check'"
	[ "$accel" = tcg ] || [ -c /dev/kvm ] || die '--accel kvm: there is no /dev/kvm on this machine'
	[ "$accel" = tcg ] || (: <>/dev/kvm) 2>/dev/null ||
		die '--accel kvm: /dev/kvm cannot be opened: no rights, or no virtualisation'
	[ ! -e "$trace" ] || [ -f "$trace" ] || die "cannot write the trace $trace: it is no regular file"
	[ -z "$trace" ] || (: >"$trace") 2>/dev/null || die "cannot write the trace $trace"
	[ -z "$com2" ] || (: >"$com2") 2>/dev/null || die "cannot write $com2, which --com2 names"
	[ -z "$linux" ] || [ "$boot" != iso ] || make_linux_disk
}

# A disk with the files of a Linux for the menu's entry. One write, since two runs may make it at once.
make_linux_disk()
{
	command -v xorriso >/dev/null || die "xorriso is not installed: apt-get install xorriso, or 'make deps FOR=image'"
	local new=$build/linux.iso.$$
	xorriso -as mkisofs -quiet -r -o "$new" -graft-points linux/vmlinuz="$linux" \
		${initrd:+linux/initrd="$initrd"} 2>/dev/null || die "cannot write $new"
	mv "$new" "$build/linux.iso" || die "cannot write $build/linux.iso"
}

# Without --log the last run to end leaves its log in the build directory.
name_log()
{
	kept=$log
	[ -n "$log" ] || kept=$build/run.log
	[ -n "$log" ] || [ -w "$build" ] || { mktemp --tmpdir spoor-run-XXXXXX.log >"$scratch/name" && read -r kept <"$scratch/name"; }
}

judge()
{
	local options=(--errors "$scratch/errors") code
	trap '' "${signals[@]}"
	# Bochs that ended by itself has nothing to say; else --status says why.
	[ "$emulator-$status" = bochs-0 ] || options+=(--status "$status")
	[ $quiet = 0 ] || options+=(--quiet)
	[ $list = 0 ] || options+=(--list)
	[ -z "$trace" ] || options+=(--trace "$trace")
	[ -z "$linux" ] || options+=(--linux)
	options+=(--again "$(unknown_to_kernel)")
	"$top/tools/judge" "${options[@]}" --kept "$kept" "$scratch/console"
	code=$?
	[ -n "$log" ] || mv "$scratch/console" "$kept"
	exit "$code"
}

# mkdir takes no directory that is there. A signal of the terminal goes to it as well.
make_scratch()
{
	local parent=${TMPDIR:-/tmp}
	[[ $parent == /* ]] || parent=$PWD/$parent
	scratch=$parent/spoor-$$-$RANDOM$RANDOM$RANDOM
	(trap '' "${signals[@]}" && mkdir -m 700 "$scratch") || { scratch='' && die 'cannot make a temporary directory'; }
	: >"$scratch/console" 2>"$scratch/errors" || die "cannot write to $scratch"
}

scratch=''
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
parse "$@"
make_scratch
check
compose
[ $dry_run = 0 ] || { quoted "${command[@]}" && exit; }
check_files
name_log
boot_all
judge
}
