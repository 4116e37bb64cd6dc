# SPDX-License-Identifier: MIT
# The program that a word of a command line names, for tools/guests/record.
package Spoor::Executable;
use strict;
use warnings;
use Cwd 'getcwd';
use Exporter 'import';

our @EXPORT_OK = 'find_program';

use constant {EXECUTABLE => 2, SHARED => 3, INTERPRETER => 3, X86_64 => 62, HEADER => 56}; # elf(5)

# Returns the path of the program that a shell would run, or dies with a sentence.
sub find_program {
	my ($word) = @_;
	my @places = $word =~ m{/} ? ($word) : map { ($_ eq '' ? '.' : $_) . "/$word" } split m{:}, $ENV{PATH} // '/usr/bin:/bin';
	my ($found) = grep { -f && -x } @places;
	my ($other) = $word =~ m{/} ? grep { -e } @places : ();
	die "$other is a directory\n" if !$found && defined $other && -d $other;
	die "$other is a file that cannot be executed\n" if !$found && defined $other && -f $other;
	die "there is no program $word" . ($word =~ m{/} ? '' : ' in PATH') . "\n" unless $found;
	$found =~ s{^(?:\./+)+}{};
	$found = getcwd() . "/$found" unless $found =~ m{^/};
	check_kind($found);
	check_rights($found);
	return $found;
}

# Scripts run by the program of their first line.
sub check_kind {
	my ($file) = @_;
	open(my $in, '<:raw', $file) or die "cannot read $file: $!\n";
	read($in, my $head, 256);
	return check_script($file, $1) if $head =~ /^#![ \t]*([^ \t\n\0]*)/;
	die "$file is neither an ELF file nor a script\n" unless length $head >= 64 && substr($head, 0, 4) eq "\x7fELF";
	my ($class, $type, $machine, $at, $size, $count) = unpack 'x4 C x11 S<2 x12 Q< x14 S<2', $head;
	die "$file is no program of x86-64\n"
		unless $class == 2 && $machine == X86_64 && ($type == EXECUTABLE || $type == SHARED) && $size == HEADER;
	die "$file is cut off\n" if $at + $size * $count > -s $file;
	seek($in, $at, 0);
	read($in, my $segments, $size * $count);
	for (unpack "(a$size)$count", $segments) {
		my ($kind, $offset, $bytes) = unpack 'L< x4 Q< x16 Q<', $_;
		check_interpreter($in, $file, $offset, $bytes) if $kind == INTERPRETER;
	}
}

# Linux takes the events of perf from what gets the rights of others (fs/exec.c, begin_new_exec). The user is root in the guest.
sub check_rights {
	my ($file) = @_;
	my ($user, $group) = (stat $file)[4, 5];
	return unless -u _ && $user && $user != $> || -g _ && $group && $group != (split q{ }, $))[0];
	die "$file has the rights of another user or group: Linux does not let perf record it\n";
}

sub check_interpreter {
	my ($in, $file, $at, $bytes) = @_;
	seek($in, $at, 0);
	read($in, my $interpreter, $bytes < 4096 ? $bytes : 4096);
	$interpreter =~ s/\0.*//s;
	die "$file needs $interpreter, which cannot be executed\n" unless -f $interpreter && -x _;
}

sub check_script {
	my ($file, $interpreter) = @_;
	die "the first line of $file names no program\n" if $interpreter eq '';
	die "the first line of $file names $interpreter, which cannot be executed\n" unless -f $interpreter && -x _;
}

1;
