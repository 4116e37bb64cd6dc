# SPDX-License-Identifier: MIT
# The units that have verdicts: which tests and which rules are whose, the lines of the console that say so, and the C file
# by which the kernel knows it.
package Spoor::Units;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(unit_names unit_of rules_of read_unit unit_fault units_source);

# In the order of all lists: globs of tests' names, where - leaves out, and ids of rules in tests/assertions.txt.
my @units = (
	{name => 'bts', tests => 'bts_*,ds_*,trace_*,ptrace_*,pairs_bts,-ptrace_pebs*,-ptrace_sample_*', rules => qr/^(?:[A-Z]\d|BF[16]$)/},
	{name => 'pebs', tests => 'pebs_*,samples_*,ptrace_pebs*,ptrace_sample_*,pairs_pebs', rules => qr/^(?:PE\d|BF4$)/},
	{name => 'counters', tests => 'pmu_*,pairs_counters', rules => qr/^(?:PM\d|BF3$)/},
	{name => 'lbr', tests => 'lbr_*,pairs_lbr', rules => qr/^(?:LB\d|BF2$)/},
	{name => 'pt', tests => 'pt_*,pairs_pt', rules => qr/^(?:PT\d|BF5$)/},
);
for (@units) {
	my @globs = map { s/\*$/.*/r } split /,/, $_->{tests};
	my $out = join('|', map { /^-(.*)/ } @globs);
	my $in = join('|', grep { !/^-/ } @globs);
	$_->{pattern} = $out eq '' ? qr/^(?:$in)$/ : qr/^(?!(?:$out)$)(?:$in)$/;
}
my @names = map { $_->{name} } @units;
my @kinds = qw(pass fail skip error xfail obs);
my %of = map { $_->{name} => $_ } @units;
my $line = qr/^# unit=(\w+) rc=([0-3]) rules=(\d{1,4})\/(\d{1,4}) / . join(' ', map { "$_=(\\d{1,6})" } @kinds) . '(?: why="([ -~]*)")?';

sub unit_names { return @names }

# Returns the name of the unit that a test is of; `kernel` where it is of none.
sub unit_of {
	my ($test) = @_;
	my ($unit) = grep { $test =~ $_->{pattern} } @units;
	return $unit ? $unit->{name} : 'kernel';
}

# Returns which of these ids of rules are the unit's; the kernel has none.
sub rules_of {
	my ($name, @ids) = @_;
	return grep { $of{$name} && /$of{$name}{rules}/ } @ids;
}

# Returns what a line of the console says of a unit, or nothing: name, rc, tested, rules, count (kind => times), why.
sub read_unit {
	my ($text) = @_;
	my ($name, $rc, $tested, $rules, @more) = $text =~ /$line$/ or return;
	my %count;
	@count{@kinds} = @more;
	return {name => $name, rc => $rc, tested => $tested, rules => $rules, count => \%count, why => $more[@kinds]};
}

# Returns the units that a command line names, in their order, with commas; undefined where it names none.
sub read_units_word {
	my ($words) = @_;
	my ($list) = ($words // '') =~ /.*(?:^|[ "])units="?([a-z,]+)/ or return;
	my %named = map { $_ => 1 } split /,/, $list;
	return join(',', grep { $named{$_} } @names);
}

# Returns a sentence where the contract of docs/console.md is one that is not known, or banner, results, lines by unit and DONE line of a log do not tell the same of the units.
sub unit_fault {
	my ($log) = @_;
	my ($done) = @{$log->{done}};
	my $contract = $log->{banner}{contract} // 1;
	return "the banner says contract=$contract, and this judge knows 1 and 2" unless $contract =~ /^(?:[12]|code)$/;
	my @said = @{$log->{units}};
	if ($contract == 1) { # which has no lines by unit
		return 'lines by unit, and the banner says no contract' if @said || defined $done->{units};
		return;
	}
	my @due = @{$log->{results}} && $contract ne 'code' ? @names : (); # a code has no room for them
	return "lines by unit: @due expected, but these came: @{[map { $_->{name} } @said]}" if "@due" ne "@{[map { $_->{name} } @said]}";
	my %results;
	$results{unit_of($_->{name})}{$_->{kind}}++ for @{$log->{results}};
	for my $unit (@said) {
		my $fault = line_fault($log, $unit, $results{$unit->{name}} // {});
		return "unit=$unit->{name} $fault" if defined $fault;
	}
	return done_fault($log, $done);
}

sub line_fault {
	my ($log, $unit, $results) = @_;
	my %count = %{$unit->{count}};
	return 'has its line before the last result' if $unit->{at} != @{$log->{results}};
	for (@kinds) {
		my $counted = $results->{$_} // 0;
		return "says $_=$count{$_}, but the results say $counted" if $count{$_} != $counted;
	}
	return "says rules=$unit->{tested}/$unit->{rules}" if $unit->{tested} > $unit->{rules};
	my $due = $count{fail} ? '1' : $count{error} ? '2' : $count{pass} ? '[03]' : '3';
	return "says rc=$unit->{rc}, which its own counts contradict" unless $unit->{rc} =~ /^$due$/;
	return "says rc=0, and the banner names no such unit" if $unit->{rc} == 0 && absent($log, $unit->{name});
	return;
}

# The banner has a line for each trace unit.
sub absent { return $_[1] =~ /^(?:bts|pebs|lbr|pt)$/ && ($_[0]{banner}{$_[1]} // '') ne 'present' }

sub done_fault {
	my ($log, $done) = @_;
	my $words = read_units_word($log->{banner}{command_line});
	my $clipped = ($log->{banner}{contract} // '') eq 'code'; # it may have lost the end of the words
	my $ends = read_units_word(defined $done->{units} ? "units=$done->{units}" : '');
	my ($asked, $told) = map { defined ? "units=$_" : 'no units=' } $words, $ends;
	return "DONE says $told, but the command line says $asked" if $asked ne $told && !($clipped && !defined $words);
	return if $done->{rc} !~ /^[03]$/ || !@{$log->{units}};
	my %rc = map { $_->{name} => $_->{rc} } @{$log->{units}};
	my ($untested) = grep { $rc{$_} } split /,/, $words // '';
	return "DONE says rc=0 $told, but unit=$untested says rc=$rc{$untested}" if $done->{rc} == 0 && defined $untested;
	return "DONE says rc=3 $told, and each of them says rc=0" if $done->{rc} == 3 && defined $words && !defined $untested;
	return "DONE says rc=0 without units=, and the banner names no BTS" if $done->{rc} == 0 && !defined $words && absent($log, 'bts');
	return;
}

# Returns the C file of tests/framework/result.h, for the ids of the rules that hold by the manual.
sub units_source {
	my (%row, @rows);
	for my $id (@_) {
		my ($unit) = grep { rules_of($_, $id) } @names or next;
		my ($letters, $number) = $id =~ /^([A-Z]+)(\d+)$/;
		my $key = "$letters $unit " . ($number >> 5);
		push @rows, $key unless $row{$key};
		$row{$key} |= 1 << ($number & 31);
	}
	my $list = sub { return '{' . join(', ', map { qq{"$_"} } @_) . "};\n" };
	return qq{/* Generated. */\n#include "tests/framework/result.h"\n}
		. 'const char *const unit_names[UNITS] = ' . $list->(@names)
		. 'const char *const unit_tests[UNITS] = ' . $list->(map { $of{$_}{tests} } @names)
		. "const struct rule_row rule_rows[] = {\n"
		. join('', map { my ($letters, $unit, $block) = split ' ';
			sprintf qq(\t{0x%s, UNIT_%s, %d, 0x%xu}, /* %s */\n), unpack('H*', $letters), uc $unit, $block, $row{$_}, $letters } @rows)
		. "\t{0, 0, 0, 0},\n};\n";
}

1;
