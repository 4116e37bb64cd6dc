# SPDX-License-Identifier: MIT
# What a run tested: a row or a line for each unit, and why tests were skipped.
package Spoor::Summary;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Log qw(kinds skip_reasons verdict_word);
use Spoor::Units qw(rules_of unit_names unit_of);

our @EXPORT_OK = qw(summary units_of unit_line);

# The last row is of the tests that are of no unit.
my %title = (bts => 'BTS', pebs => 'PEBS', counters => 'counters', lbr => 'LBR', pt => 'Intel PT', kernel => 'kernel');
my %column = (pass => 'passed', fail => 'failed', skip => 'skipped');

# Skips that options of run-qemu.sh make run: for any kernel, and for one that runs under the monitor.
my %option = ('only one CPU' => '-s 2');
my %monitor_option = ('the processor has no Intel Processor Trace (CPUID leaf 14H)' => q(-M 'profile=icelake pt=on'));

# Returns what a log that parse_log() read says of each unit that has results, in order: name, title, count (kind =>
# times), tested, rules, code, and reasons, [times, why] of its skips. `rules` are those of class M, `tested` those of them
# that a test of this run found kept or broken; both undefined where there are none. The kernel's own line counts where
# there is one; else tests and classes are those of read_claims(), which may be of another version.
sub units_of {
	my ($log, $tests, $ids) = @_;
	my %results;
	push @{$results{unit_of($_->{name})}}, $_ for @{$log->{results}};
	return map { unit($log, $_, $results{$_}, $tests, $ids) } grep { $results{$_} } unit_names(), 'kernel';
}

sub unit {
	my ($log, $name, $results, $tests, $ids) = @_;
	my %count = map { $_ => 0 } kinds();
	$count{$_->{kind}}++ for @$results;
	my ($said) = grep { $_->{name} eq $name } @{$log->{units}};
	my ($tested, $rules) = $said ? @$said{qw(tested rules)} : rules($log, $name, $tests, $ids);
	return {name => $name, title => $title{$name}, count => \%count, tested => $tested, rules => $rules,
		reasons => [skip_reasons(@$results)],
		code => $said ? $said->{rc} : $count{fail} ? 1 : $count{error} ? 2 : untested($log->{banner}, $name, \%count) ? 3 : 0};
}

sub rules {
	my ($log, $name, $tests, $ids) = @_;
	my %demanded = map { $_ => 1 } grep { $ids->{$_}{class} =~ /^M/ } rules_of($name, keys %$ids) or return;
	my @asserted = grep { $_->{kind} =~ /^(?:pass|fail|xfail)$/ } @{$log->{results}};
	my %tested = map { $_ => 1 } grep { $demanded{$_} } map { @{($tests->{$_->{name}} // {})->{ids} // []} } @asserted;
	return (scalar(keys %tested), scalar(keys %demanded));
}

# True if nothing but skips is of a unit, or the banner names no such trace unit: a test that it is missing passes then.
sub untested {
	my ($banner, $name, $count) = @_;
	return 1 unless grep { $_ ne 'skip' && $count->{$_} } keys %$count;
	return $name =~ /^(?:bts|pebs|pt)$/ && exists $banner->{bts} && ($banner->{$name} // '') ne 'present';
}

# Returns one of units_of() as a line: `pass: 75 of 81 rules tested, 230 passed, 0 failed, 19 skipped (17: only one CPU)`.
sub unit_line {
	my ($unit) = @_;
	my %count = %{$unit->{count}};
	return verdict_word($unit->{code}) . ': ' . join(', ',
		defined $unit->{rules} ? "$unit->{tested} of $unit->{rules} rules tested" : (),
		map { "$count{$_} " . ($column{$_} // $_) } grep { $column{$_} || $count{$_} } kinds())
		. (@{$unit->{reasons}} ? ' (' . join('; ', map { "$_->[0]: $_->[1]" } @{$unit->{reasons}}) . ')' : '');
}

# Returns the table of a log that parse_log() read, '' if it has no results. Kinds of results that did not occur have no
# column, but for the first three. Tests and classes are as for units_of().
sub summary {
	my ($log, $tests, $ids) = @_;
	my @units = units_of($log, $tests, $ids) or return '';
	my @kinds = grep { my $kind = $_; $column{$kind} || grep { $_->{count}{$kind} } @units } kinds();
	return sprintf('%-16s' . '%9s' x @kinds . "%s\n", '', (map { $column{$_} // $_ } @kinds),
			(grep { defined $_->{rules} } @units) ? '  rules tested' : '')
		. join('', map { row($_, @kinds) } @units) . skips($log);
}

sub row {
	my ($unit, @kinds) = @_;
	return sprintf('%-16s' . '%9d' x @kinds . "  %-12s  %s\n", $unit->{title}, (map { $unit->{count}{$_} } @kinds),
		defined $unit->{rules} ? sprintf('%3d of %3d', @$unit{qw(tested rules)}) : '', verdict_word($unit->{code}));
}

sub skips {
	my ($log) = @_;
	my %hint = (%option, $log->{monitor_ran} ? %monitor_option : ());
	my @reasons = skip_reasons(@{$log->{results}}) or return '';
	return "skipped:\n" . join('', map { my ($times, $why) = @$_;
		sprintf("%5d  %s\n", $times, $why . ($hint{$why} ? ": $hint{$why}" : '')) } @reasons);
}

1;
