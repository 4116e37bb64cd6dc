# SPDX-License-Identifier: MIT
# What a run tested, as a table: a row for each trace unit, and why tests were skipped.
package Spoor::Summary;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Log qw(kinds skip_reasons verdict_word);

our @EXPORT_OK = qw(summary);

# The rows: name, pattern of its tests' names and of its rules' ids, of which the first that matches counts, and the
# banner's key for it. A unit without rules in tests/assertions.txt has none.
my @units = (
	['BTS',              qr/^(?:(?:bts|ds|trace|ptrace(?!_pebs|_sample_))_|pairs_bts$)/, qr/^(?:[A-Z]\d|BF[16]$)/, 'bts'],
	['PEBS',             qr/^(?:(?:pebs|samples|ptrace)_|pairs_pebs$)/, qr/^(?:PE\d|BF4$)/, 'pebs'],
	['counters and LBR', qr/^(?:pmu_|lbr_|pairs_(?:counters|lbr)$)/, qr/^(?:(?:PM|LB)\d|BF[23]$)/],
	['Intel PT',         qr/^(?:pt_|pairs_pt$)/, qr/^(?:PT\d|BF5$)/, 'pt'],
	['kernel',           qr//],
);
my %column = (pass => 'passed', fail => 'failed', skip => 'skipped');

# Skips that options of run-qemu.sh make run: for any kernel, and for one that runs under the monitor.
my %option = ('only one CPU' => '-s 2');
my %monitor_option = ('the processor has no Intel Processor Trace (CPUID leaf 14H)' => q(-M 'profile=icelake pt=on'));

# Returns the lines for a log that parse_log() read, none if it has no results. Kinds of results that did not occur
# have no column, but for the first three. The last column has the rules that hold by the manual (class M): those that a
# test of this run found kept or broken, of all that there are. Tests and classes are those of read_claims().
sub summary {
	my ($log, $tests, $ids) = @_;
	my %count;
	for my $result (@{$log->{results}}) {
		my ($unit) = grep { $result->{name} =~ $_->[1] } @units;
		$count{$unit->[0]}{$result->{kind}}++;
	}
	return '' unless %count;
	my @kinds = grep { my $kind = $_; $column{$kind} || grep { $_->{$kind} } values %count } kinds();
	return sprintf('%-16s' . '%9s' x @kinds . "%s\n", '', (map { $column{$_} // $_ } @kinds), %$ids ? '  rules tested' : '')
		. join('', map { row($log, $_, $count{$_->[0]}, rules($log, $_, $tests, $ids), @kinds) } grep { $count{$_->[0]} } @units)
		. skips($log);
}

sub rules {
	my ($log, $unit, $tests, $ids) = @_;
	my $pattern = $unit->[2] or return '';
	my %demanded = map { $_ => 1 } grep { /$pattern/ && $ids->{$_}{class} =~ /^M/ } keys %$ids;
	my @asserted = grep { $_->{kind} =~ /^(?:pass|fail|xfail)$/ } @{$log->{results}};
	my %tested = map { $_ => 1 } grep { $demanded{$_} } map { @{$tests->{$_->{name}}{ids} // []} } @asserted;
	return %demanded ? sprintf('%3d of %3d', scalar(keys %tested), scalar(keys %demanded)) : '';
}

sub row {
	my ($log, $unit, $count, $rules, @kinds) = @_;
	my ($name, undef, undef, $key) = @$unit;
	return sprintf('%-16s' . '%9d' x @kinds . "  %-12s  %s\n", $name, (map { $count->{$_} // 0 } @kinds), $rules,
		verdict_word($count->{fail} ? 1 : $count->{error} ? 2 : untested($log->{banner}, $key, $count) ? 3 : 0));
}

# True if nothing but skips came of a unit, or the banner names no such unit: a test that it is missing passes then.
sub untested {
	my ($banner, $key, $count) = @_;
	return 1 if keys %$count == 1 && $count->{skip};
	return defined $key && exists $banner->{bts} && ($banner->{$key} // '') ne 'present';
}

sub skips {
	my ($log) = @_;
	my %hint = (%option, $log->{monitor_ran} ? %monitor_option : ());
	my @reasons = skip_reasons(@{$log->{results}}) or return '';
	return "skipped:\n" . join('', map { my ($times, $why) = @$_;
		sprintf("%5d  %s\n", $times, $why . ($hint{$why} ? ": $hint{$why}" : '')) } @reasons);
}

1;
