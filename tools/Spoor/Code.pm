# SPDX-License-Identifier: MIT
# The code that a run leaves on its screen: from a photograph to the log of docs/console.md, "The code".
package Spoor::Code;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Log qw(kinds plain);

our @EXPORT_OK = qw(is_picture code_of_picture log_of_code crc32c in_plan);

use constant {FORMAT => 1, SECONDS => 60, STRINGS => 7, CLIPPED => 160};

my @digits = split //, '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:'; # RFC 9285
my %digit = map { $digits[$_] => $_ } 0 .. $#digits;
my @units = qw(bts pebs pt lbr);          # in the order of the kernel's table
my @groups = split //, 'EMLRKWTPCSAIBXZ'; # of the plan; words follow
my @first = qw(pass skip fail);           # results by two bits; 3 has two more
my @second = qw(error xfail obs);

# Whether a file that begins so is a picture: PNG, JPEG, GIF, WebP, PPM.
sub is_picture { return $_[0] =~ /^(?:\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF....WEBP|P6\s)/s }

# Returns the text of the code on a picture, or nothing, the judge's exit status and a sentence.
sub code_of_picture {
	my ($file) = @_;
	my ($said, $status) = zbarimg($file);
	return (undef, 2, 'zbarimg is missing, which reads the code on a photograph: Debian has it in zbar-tools')
		if $status == 127;
	return (undef, 2, 'zbarimg did not end in ' . SECONDS . ' seconds') if $status == 124;
	my %text = map { $_ => 1 } map { s/\n\z//r } $said =~ /^QR-Code:(.*?\n)(?=QR-Code:|\z)/msg;
	return (undef, 4, 'this picture cannot be read: ' . plain($said =~ /([^\n]+)\n*\z/ ? $1 : "zbarimg leaves with $status"))
		if $status && $status != 4;
	return (undef, 4, 'no code is found on this picture: go nearer, hold the camera straight, let nothing mirror in the screen')
		unless %text;
	return (undef, 4, 'there are ' . keys(%text) . ' codes on this picture: cut it to the one of the run') if keys %text > 1;
	return keys %text;
}

# What it prints, standard error too, and its exit status.
sub zbarimg {
	my ($file) = @_;
	my $pid = open(my $out, '-|') // die "fork: $!\n";
	if (!$pid) {
		open(STDERR, '>&', \*STDOUT);
		exec('timeout', SECONDS, 'zbarimg', '--quiet', '--nodbus', '-Sdisable', '-Sqrcode.enable', $file)
			or exit 127;
	}
	local $/;
	my $said = <$out> // '';
	close($out);
	return ($said, $? & 127 ? 1 : $? >> 8);
}

# CRC32C of bytes, as lib/frame.h has it.
sub crc32c {
	my $crc = 0xffffffff;
	for my $byte (unpack('C*', $_[0])) {
		$crc ^= $byte;
		$crc = $crc >> 1 ^ ($crc & 1 ? 0x82f63b78 : 0) for 1 .. 8;
	}
	return $crc ^ 0xffffffff;
}

# Returns the log that a code tells, or nothing, the judge's exit status and a sentence. `find` gets the CRC32C of a list of
# tests, 8 hexadecimal digits, and returns that list or nothing.
sub log_of_code {
	my ($text, $find) = @_;
	my $log = eval { made_log($text, $find) };
	return $log if defined $log;
	die $@ unless ref $@;
	return (undef, @{$@});
}

sub refuse { die [@_] }

sub made_log {
	my ($text, $find) = @_;
	my ($facts, $done, $bytes) = parts_of($text);
	my @strings = map { plain($_ =~ tr/"/?/r) } strings_of(\$bytes);
	my ($vendor, $cpu, $hypervisor, $product, $machine, $words, $why) = @strings;
	$words =~ s/ *[^ ]*\z// if length $words >= CLIPPED;
	my @present = split //, $facts->{units} // '';
	my $silicon = 'silicon=' . ($done->{silicon} // '') . ($done->{rehearsal} ? " rehearsal=$done->{rehearsal}" : '');
	my $pair = sub { return join(' ', map { "$_=" . ($facts->{$_} // '') } @_) };
	my @lines = ('# a code on a screen told this log', '# spoor ' . $pair->(qw(version git)) . ' contract=code', '# ' . $pair->('image'),
		qq(# command_line="$words"), qq(# machine="$machine" product_name="$product"), qq(# vendor="$vendor" cpu="$cpu"),
		'# ' . $pair->(qw(family model stepping microcode)), qq(# hypervisor="$hypervisor"), "# $silicon",
		(map { $present[$_] ? "# $units[$_]=present" : $_ ? () : "# $units[$_]=absent" } 0 .. $#units), # as the kernel's banner
		'# ' . $pair->(qw(cpus memory_mb seed)));
	my $begun = defined $facts->{list} && $facts->{plan};
	push @lines, 'KTAP version 1', "1..$facts->{plan}", results_of($facts, $bytes, $why, $find) if $begun;
	my $rc = $done->{rc} // '';
	push @lines, "# panic: $why" if $rc eq '4';
	push @lines, "# error: $why" if $rc eq '2' && $why ne '';
	push @lines, '# SPOOR DONE ' . join(' ', $silicon, map { "$_=" . ($done->{$_} // '') } kinds(), 'rc')
		. (defined $done->{units} ? " units=$done->{units}" : '');
	return join('', map { "$_\n" } @lines);
}

# The facts, those of the DONE line, and the bytes.
sub parts_of {
	my ($text) = @_;
	my ($format, $length) = $text =~ /^SPOOR([0-9]+) ([0-9]{5}) /
		or refuse(4, 'the code on this picture is none of Spoor\'s: it begins with "' . plain(substr($text, 0, 40)) . '"');
	refuse(2, "the code has format $format, and this judge reads format " . FORMAT) if $format != FORMAT;
	my $is = length $text;
	refuse(4, "the code is not whole: it has $is characters and says $length") if $is != $length;
	refuse(4, 'the checksum of the code is wrong') unless substr($text, -8) eq sprintf('%08X', crc32c(substr($text, 0, -8)));
	my ($words, $rest) = substr($text, 13, -8) =~ /^([^\$]*)\$(.*)\z/s or refuse(4, 'the code has no results');
	my %facts;
	my $to = $facts{''} = {};
	for my $word (split / /, lc $words) {
		if ($word eq 'done') { $to = $facts{done} = {}; next }
		my ($key, $value) = $word =~ /^([^:]+):(.*)\z/ or refuse(4, 'the code has a word that is none: ' . plain($word));
		$to->{$key =~ tr{/}{_}r} = $value =~ tr{/*}{_,}r;
	}
	return ($facts{''}, $facts{done} // {}, bytes_of($rest));
}

sub bytes_of {
	my ($text) = @_;
	my $bytes = '';
	for my $group ($text =~ /(..?.?)/sg) {
		my ($value, $weight, $size) = (0, 1, length($group) - 1);
		for my $digit (map { $digit{$_} // refuse(4, 'the code has a character that none of its kind has') } split //, $group) {
			$value += $digit * $weight;
			$weight *= 45;
		}
		refuse(4, 'the code has digits of a number that is too large') if !$size || $value >= 256 ** $size;
		$bytes .= substr(pack('n', $value), -$size);
	}
	return $bytes;
}

# Takes them off the bytes.
sub strings_of {
	my ($bytes) = @_;
	my @strings;
	for (1 .. STRINGS) {
		$$bytes =~ s/^([^\0]*)\0//s or refuse(4, 'the code ends within its texts');
		push @strings, $1;
	}
	return @strings;
}

# The lines of the results.
sub results_of {
	my ($facts, $bytes, $why, $find) = @_;
	my $list = $find->($facts->{list});
	refuse(2, "the code is of another version: no list of its tests ($facts->{list}) is here. It says version=$facts->{version} "
		. "git=$facts->{git}; 'make images' makes the list of a commit, --tests FILE names another") unless defined $list;
	my @tests = map { [split / /] } split /\n/, $list;
	my $bits = unpack('B*', $bytes);
	my $take = sub {
		refuse(4, 'the code has fewer results than it says') if length $bits < $_[0];
		return oct('0b' . substr($bits, 0, $_[0], ''));
	};
	my @chosen = grep { $facts->{chosen} ? $take->(1) : $_->[2] } @tests;
	my @names = map { $_->[0] } in_plan(@chosen);
	my ($plan, $count) = @$facts{qw(plan results)};
	refuse(4, "the code says plan=$plan results=$count of " . @names . ' tests')
		if "$plan $count" !~ /^\d{1,6} \d{1,6}$/ || !@names || $plan % @names || $count > $plan;
	my @kinds = map { $take->(2) } 1 .. $count;
	@kinds = map { $_ == 3 ? ($second[$take->(2)] // refuse(4, 'the code has a result that is none')) : $first[$_] } @kinds;
	my %after = (skip => ' # SKIP the code has no reasons', xfail => ' # XFAIL the code has no errata',
		error => ' # ERROR the code has no reasons', obs => ' # OBS');
	return map { my ($number, $kind, $name) = ($_, $kinds[$_ - 1], $names[($_ - 1) % @names]);
		my $result = "ok $number $name" . ($after{$kind} // '');
		my $seed = ($facts->{seed} // 0) + int(($number - 1) / @names); # as tests/framework/suite.c draws them
		$kind =~ /^(?:fail|error)$/ ? ("# again: run-qemu.sh -t $name -a seed=$seed", "not $result") : $result } 1 .. $count;
}

# Rows of a list, the name and the group first, in the order in which a run has them (tests/framework/select.c).
sub in_plan {
	my %rank = map { $groups[$_] => $_ } 0 .. $#groups;
	return sort { ($rank{$a->[1]} // @groups) <=> ($rank{$b->[1]} // @groups) || $a->[1] cmp $b->[1] || $a->[0] cmp $b->[0] } @_;
}

1;
