# SPDX-License-Identifier: MIT
# What the log of one boot tells about its machine, for tools/report.
package Spoor::Machine;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Log qw(parse_log judge_log time_of);
use Spoor::Summary 'units_of';

our @EXPORT_OK = qw(machine_of read_claims differences differing_tests figure_words letter source_of);

my %letters = (pass => '.', fail => 'F', error => 'E', skip => 's', xfail => 'x', obs => 'o');

my @severity = qw(pass obs skip xfail error fail); # a test that ran several times counts with its worst result

# Returns what a log tells: file, name, code, word and why of its verdict, silicon (`guest, rehearsed` is virtual), banner, state
# (of the log: `whole` or what is wrong with it). It has also tests (name => kind, line, notes, us), observations (key => value,
# test), figures (name => value, unit), errata (id => tests), skipped (reason => count), units (of units_of(), for tests and
# ids of read_claims()).
sub machine_of {
	my ($file, $text, $claims, $ids) = @_;
	my $log = parse_log($text);
	my ($code, $why, $word) = judge_log($log);
	my %machine = (file => $file, log => $log, code => $code, why => $why, word => $word, banner => $log->{banner},
		silicon => ($log->{banner}{silicon} // '?') . (defined $log->{banner}{rehearsal} ? ', rehearsed' : ''), name => name_of($file, $log->{banner}),
		state => $code == 4 ? state_of($log) : 'whole', tests => {}, observations => {}, figures => {}, errata => {},
		skipped => {}, us => 0, units => [units_of($log, $claims, $ids)]);
	take_result(\%machine, $_) for @{$log->{results}};
	return \%machine;
}

# The lab's word for it, else firmware's serial number if it is one, else the MAC address, else the file's name.
sub name_of {
	my ($file, $banner) = @_;
	my $serial = $banner->{product_serial} // '';
	$serial = '' if $serial =~ /^(?:0*|none|.*(?:not |default|o\.e\.m|serial|12345).*)$/i;
	my ($base) = $file =~ m{([^/]*?)(?:\.log)?$};
	return (grep { length } $banner->{machine} // '', $serial, $banner->{mac} // '', $base)[0];
}

sub take_result {
	my ($machine, $result) = @_;
	my ($name, $kind) = @$result{qw(name kind)};
	my %rank = map { $severity[$_] => $_ } 0 .. $#severity;
	my $before = $machine->{tests}{$name};
	$machine->{tests}{$name} = {kind => $kind, line => $result->{line}, notes => $result->{notes}}
		unless $before && $rank{$before->{kind}} >= $rank{$kind};
	for (@{$result->{notes}}) {
		if (/^# obs (\w+)=(.*)$/)                        { $machine->{observations}{$1} = {value => $2, test => $name} }
		elsif (/^# bench name=(\S+) val=(\S+) unit=(.*)$/) { $machine->{figures}{$1} = {value => $2, unit => $3} }
		elsif (my (undef, $us) = time_of($_))            { $machine->{us} += $us }
	}
	push @{$machine->{errata}{$1}}, $name if $result->{line} =~ / # XFAIL (\S+)/;
	$machine->{skipped}{$1}++ if $result->{line} =~ / # SKIP (.*)/;
}

# What is wrong with a log that the judge refuses.
sub state_of {
	my ($log) = @_;
	return 'empty' unless @{$log->{lines}};
	return 'panic' if defined $log->{panic};
	return 'several boots' if $log->{banners} > 1 || $log->{headers} > 1;
	my ($header) = grep { $log->{lines}[$_] eq 'KTAP version 1' } 0 .. $#{$log->{lines}};
	my @lines = @{$log->{lines}}[$header // 0 .. $#{$log->{lines}}];
	return 'noise' if grep { /[^\t -~]/ } @lines;
	return 'no test was reached' unless defined $header;
	return 'interleaved' if grep { /^(?!# (?:error|panic)).+?(?:# (?:beat|time|obs|bench|monitor:|SPOOR DONE)|(?:not )?ok \d+ [a-z])/
		&& !/^not ok \d/ || /^not .*ok \d+ .*ok \d/ } @lines;
	return 'bytes lost or changed' if defined $log->{strange} || numbers_missing($log);
	return 'cut' unless @{$log->{done}};
	return 'contradicts itself';
}

# Whether a result before the last one is missing, or some are at the end although the run came to its end.
sub numbers_missing {
	my ($log) = @_;
	my @numbers = map { $_->{number} } @{$log->{results}};
	return 1 if grep { $numbers[$_] != $_ + 1 } 0 .. $#numbers;
	return @{$log->{done}} && @numbers < ($log->{plans}[0] // 0);
}

# Returns what docs/tests.md says: of each test its claim and ids, of each id its class and source.
sub read_claims {
	my ($page) = @_;
	my (%test, %id);
	open(my $in, '<', $page) or return (\%test, \%id);
	while (<$in>) {
		if (/^\| ([A-Z]+\d+) \| (\S+) \| (.*?) \| (.*?) \|/)               { $id{$1} = {class => $2, what => $3, source => $4} }
		elsif (/^\| `(\w+)` \| ([A-Z0-9 ]*?) ?\| [^|]* \| (.*?) \|?$/) { $test{$1} = {ids => [split ' ', $2], claim => $3} }
	}
	return (\%test, \%id);
}

# Where a test's claim is from: `W4, SDM Vol 3, 17.4.5`, or nothing.
sub source_of {
	my ($name, $claims, $ids) = @_;
	my $test = $claims->{$name} or return '';
	return join('; ', map { my $id = $_; $ids->{$id} ? "$id, $ids->{$id}{source}" : () } @{$test->{ids}});
}

# The letter of a test's result on a machine.
sub letter {
	my ($machine, $name) = @_;
	return '?' if $machine->{code} == 4 && $machine->{state} !~ /^(?:panic|cut)$/;
	my $test = $machine->{tests}{$name} or return '-';
	return $letters{$test->{kind}};
}

# Returns name and letters of the tests whose results are not the same on all machines that ran them, or are a failure there.
# That a machine without BTS skips a test is no difference.
sub differing_tests {
	my @machines = @_;
	my %names = map { $_ => 1 } map { keys %{$_->{tests}} } @machines;
	my @tests;
	for my $name (sort keys %names) {
		my $letters = join('', map { letter($_, $name) } @machines);
		my %met = map { letter($_, $name) => 1 } grep { $_->{code} != 3 } @machines;
		delete @met{'-', '?'};
		push @tests, {name => $name, letters => $letters} if keys %met > 1 || grep { /[FEx]/ } keys %met;
	}
	return @tests;
}

sub figure_words {
	my ($figure) = @_;
	return "$figure->{value} $figure->{unit}";
}

# Returns what differs between two machines, or two runs: rows of what, here, there. What is by chance or of the time is left
# out: seed, clock, figures that differ by less than a tenth.
sub differences {
	my ($one, $other) = @_;
	my @rows;
	push @rows, compared('verdict', map { "$_->{word} ($_->{code})" } $one, $other), compared('log', map { $_->{state} } $one, $other);
	push @rows, compared("# $_", $one->{banner}{$_}, $other->{banner}{$_})
		for grep { !/^(?:seed|tsc_hz)$/ } both($one->{banner}, $other->{banner});
	for my $name (both($one->{tests}, $other->{tests})) {
		push @rows, compared($name, map { $_->{tests}{$name} && $_->{tests}{$name}{kind} } $one, $other);
	}
	for my $key (both($one->{observations}, $other->{observations})) {
		push @rows, compared("observed $key", map { $_->{observations}{$key} && $_->{observations}{$key}{value} } $one, $other);
	}
	for my $name (both($one->{figures}, $other->{figures})) {
		my @figures = map { $_->{figures}{$name} } $one, $other;
		next if 2 == (grep { defined && $_->{value} =~ /^[\d.]+$/ } @figures)
			&& abs($figures[0]{value} - $figures[1]{value}) * 10 <= $figures[0]{value};
		push @rows, compared("figure $name", map { $_ && figure_words($_) } @figures);
	}
	return @rows;
}

# A row if the two are not the same.
sub compared {
	my ($what, $here, $there) = map { $_ // '-' } @_[0 .. 2];
	return $here eq $there ? () : [$what, $here, $there];
}

# The keys of two hashes.
sub both {
	my ($one, $other) = @_;
	return sort keys %{{%$one, %$other}};
}

1;
