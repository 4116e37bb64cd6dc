# SPDX-License-Identifier: MIT
# Why a file is no program that Spoor runs. Layout: System V ABI, chapters 4 and 5.
package Spoor::Program;
use strict;
use warnings;

use constant {PT_LOAD => 1, PT_TLS => 7, HEADER => 56};

# Returns what is wrong with the program, after its name, or nothing.
sub fault {
	my ($name) = @_;
	open(my $in, '<:raw', $name) or return "cannot be read: $!";
	local $/;
	my $file = <$in> // return "cannot be read: $!";
	# ELFCLASS64, ELFDATA2LSB, ET_EXEC, EM_X86_64
	return 'is no static ELF64 for x86-64, not position-independent: docs/view.md'
		unless $file =~ /^\x7fELF\x02\x01.{10}\x02\x00\x3e\x00.{44}/s;
	my ($at, $each, $count) = unpack 'x32 Q< x14 S<2', $file;
	for my $header (map { $at + $each * $_ } 0 .. $count - 1) {
		return cut($file, $header + HEADER) if $header + HEADER > length $file;
		my ($type, undef, $start, undef, undef, $bytes) = unpack "x$header L<2 Q<4", $file;
		return cut($file, $start + $bytes) if $type == PT_LOAD && $start + $bytes > length $file;
		return 'has thread-local storage: it is for the C library of an operating system: docs/view.md' if $type == PT_TLS;
	}
	return;
}

sub cut { return 'is cut: it has ' . length($_[0]) . " bytes and needs $_[1]" }

1;
