# SPDX-License-Identifier: MIT
# The results of logs as JUnit XML. tests/runner/junit.xsd is the schema, a part of that of Jenkins' xUnit plugin.
package Spoor::JUnit;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Log 'time_of';
use Spoor::Summary 'unit_line';

our @EXPORT_OK = qw(junit_suite junit_document xml);

# Returns the document with these suites; one alone is its root.
sub junit_document {
	my @suites = @_;
	my $inner = join('', @suites);
	$inner = "<testsuites>\n$inner</testsuites>\n" if @suites != 1;
	return qq{<?xml version="1.0" encoding="UTF-8"?>\n$inner};
}

# Returns a <testsuite>, the results of a log that parse_log() read and on which judge_log() said `code` and `why`. A
# verdict that no single test gives becomes a test case `run`. The classes are the groups of the suite. `machine` may
# be undefined: then the banner may name it. Each of `units`, of units_of(), is a property `unit.NAME`.
sub junit_suite {
	my ($log, $code, $why, $machine, @units) = @_;
	my %element = (fail => 'failure', error => 'error', skip => 'skipped');
	my @cases = map { test_case($_, $element{$_->{kind}}) } @{$log->{results}};
	my %total = map { $_ => 0 } values %element;
	$total{$_->{element} // 'passed'}++ for @cases;
	if ($code >= 3 || $code == 2 && !$total{failure} && !$total{error}) {
		push @cases, {class => 'spoor', name => 'run', us => 0, element => 'error', message => $why,
			text => '', output => ''};
		$total{error}++;
	}
	my $us = 0;
	$us += $_->{us} for @cases;
	$machine //= $log->{banner}{machine};
	my %property = (%{$log->{banner}}, defined $machine ? (machine => $machine) : (), map { ("unit.$_->{name}" => unit_line($_)) } @units);

	return join('', '<testsuite', attributes(name => 'spoor', tests => scalar(@cases),
			failures => $total{failure}, errors => $total{error}, skipped => $total{skipped},
			time => seconds($us), hostname => $machine), ">\n  <properties>\n",
		(map { '    <property' . attributes(name => $_, value => $property{$_}) . "/>\n" }
			sort keys %property), "  </properties>\n", (map { test_case_text($_) } @cases),
		"</testsuite>\n");
}

# Its notes are the text of a failure; observations and figures are the output of any test.
sub test_case {
	my ($result, $element) = @_;
	my @notes = @{$result->{notes}};
	my ($group, $us) = map { time_of($_) } @notes;
	return {class => 'spoor' . (defined $group ? ".$group" : ''), name => $result->{name},
		us => $us // 0, element => $element, message => $result->{line},
		text => join("\n", grep { !/^# time / } @notes),
		output => join("\n", grep { /^# (?:obs|bench) / } @notes)};
}

sub test_case_text {
	my ($case) = @_;
	my $inner = '';
	if (defined $case->{element}) {
		$inner .= "    <$case->{element}" . attributes(message => $case->{message}) . '>'
			. xml($case->{text}) . "</$case->{element}>\n";
	}
	$inner .= '    <system-out>' . xml($case->{output}) . "</system-out>\n" if $case->{output} ne '';
	return '  <testcase' . attributes(classname => $case->{class}, name => $case->{name},
		time => seconds($case->{us})) . ($inner eq '' ? "/>\n" : ">\n$inner  </testcase>\n");
}

sub seconds { return sprintf('%.6f', shift() / 1e6) }

# Those whose value is undefined are left out.
sub attributes {
	my $text = '';
	while (my ($name, $value) = splice @_, 0, 2) {
		$text .= qq{ $name="} . xml($value) . '"' if defined $value;
	}
	return $text;
}

sub xml {
	my ($text) = @_;
	my %entity = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;');
	$text =~ s/[^\n -~]/?/g;
	$text =~ s/([&<>"])/$entity{$1}/g;
	return $text;
}

1;
