#!/usr/bin/perl
# SPDX-License-Identifier: MIT
# perf_data.pl PREFIX DIRECTORY < LINES: whether `view` finds the branches in files of perf that perf itself finds. LINES are
# `file NAME HEX`, perf.data as gzip, and `script NAME TID FROM TO`, what `perf script --itrace=b` says of it, or `expect NAME
# TASKS COUNT`: so many tasks called program have so many branches each. PREFIX.NAME.data are the files; the programs that ran are in
# DIRECTORY. Prints a line for each file; leaves with 1 if one differs, or has a gap.
#
# Both are compared task by task. perf has branches of which one end is not traced, with 0 as that. It decodes no last record of
# a buffer of BTS. It has conditional branches to the next instruction, which libipt does not tell from those not taken.
use strict;
use warnings;
no warnings 'portable'; # addresses of 64 bits
use Compress::Zlib;

@ARGV == 2 or die "perf_data.pl PREFIX DIRECTORY\n";
my ($prefix, $directory) = @ARGV;
my (@names, %script, %expected);

while (<STDIN>) {
	if (/^file (\w+) ([0-9a-f]+)$/) {
		push @names, $1;
		open(my $out, '>:raw', "$prefix.$1.data") or die "$prefix.$1.data: $!\n";
		print $out Compress::Zlib::memGunzip(pack 'H*', $2);
		close $out or die "$prefix.$1.data: $!\n";
	} elsif (/^script (\w+) (\d+) ([0-9a-f]+) ([0-9a-f]+)$/) {
		push @{$script{$1}{$2}}, [hex $3, hex $4] if $3 ne '0' && $4 ne '0';
	} elsif (/^expect (\w+) (\d+) (\d+)$/) {
		$expected{$1} = "$3 " x $2;
	}
}

# How many buffers of a file end with a record, and of which unit they are: PERF_RECORD_AUXTRACE and _INFO of
# tools/perf/Documentation/perf.data-file-format.txt. Linux fills the rest of a buffer with zeros.
sub buffers {
	open(my $in, '<:raw', "$prefix.$_[0].data") or die "$prefix.$_[0].data: $!\n";
	my $file = do { local $/; <$in> };
	my ($at, $size) = unpack 'Q<2', substr($file, 40, 16);
	my ($count, $unit) = (0, 0);
	for (my $end = $at + $size; $at < $end;) {
		my ($type, undef, $bytes, $more) = unpack 'L<S<S<Q<', substr($file, $at, 16);
		$unit = $more & 0xffffffff if $type == 70;
		$at += $bytes;
		next if $type != 71;
		$at += $more;
		$count += substr($file, $at - 24, 24) =~ /[^\0]/ if $more;
	}
	return ($count, $unit);
}

# The branches of each task, and how many each called program has.
sub dumped {
	my ($name) = @_;
	my (%branches, %of_program);
	open(my $dump, '-|', 'build/view', 'dump', '-a', '--programs', $directory, "$prefix.$name.data") or die "build/view: $!\n";
	while (<$dump>) {
		push @{$branches{$1}}, [hex $2, hex $3] if /^ *\S+ +(\d+) \[[^]]*\] +\d+: ([0-9a-f]+) -> ([0-9a-f]+) /;
		$of_program{$1}++ if /^ *program +(\d+) .* -> /;
		die "$name: $_" if /: GAP /;
	}
	close $dump or die "$name: view leaves with ", $? >> 8, "\n";
	return (\%branches, join '', map { "$_ " } values %of_program);
}

# What is wrong with the branches of one task; '' if nothing is. `left`: how many of view's perf may lack.
sub difference {
	my ($view, $perf, $left, $bts) = @_;
	my $at = 0;
	for my $branch (@$perf) {
		next if !$bts && $branch->[1] - $branch->[0] <= 6 && $branch->[1] > $branch->[0] && ($at == @$view || "@$branch" ne "@{$view->[$at]}");
		$at++, $$left-- while $$left > 0 && $at < @$view && "@$branch" ne "@{$view->[$at]}";
		return sprintf('perf has %x -> %x where view has %s', @$branch, $at < @$view ? sprintf('%x -> %x', @{$view->[$at]}) : 'no more')
			if $at == @$view || "@$branch" ne "@{$view->[$at]}";
		$at++;
	}
	$$left -= @$view - $at;
	return '';
}

my $failed = 0;
for my $name (@names) {
	my ($left, $unit) = buffers($name);
	my ($view, $of_program) = dumped($name);
	my ($bts, $sum, $wrong) = ($unit == 2, 0, '');
	$left = 0 if !$bts;
	my $expected = $expected{$name};
	if (defined $expected) {
		$wrong = "its programs have $of_program, not $expected" if $of_program ne $expected;
		$left = 0;
	} elsif (!keys %{$script{$name}}) {
		$wrong = 'perf finds no branch';
	}
	for my $task (sort keys %{{%$view, %{$script{$name} // {}}}}) {
		$sum += @{$view->{$task} // []};
		next if defined $expected;
		$wrong ||= difference($view->{$task} // [], $script{$name}{$task} // [], \$left, $bts);
	}
	$wrong ||= "view has branches that perf has not, or the other way: $left" if $left;
	printf "%s: %d branches of %d tasks, %s\n", $name, $sum, scalar keys %$view, $wrong || (defined $expected ? "${expected}of programs" : 'as perf has them');
	$failed = 1 if $wrong;
}
die "no file of perf\n" if !@names;
exit $failed;
