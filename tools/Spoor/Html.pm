# SPDX-License-Identifier: MIT
# The report of tools/report as one HTML page that needs no script, no style and no picture from elsewhere.
package Spoor::Html;
use strict;
use warnings;
use Exporter 'import';
use Spoor::JUnit 'xml';
use Spoor::Log 'kinds';
use Spoor::Summary 'unit_line';
use Spoor::Machine qw(differing_tests figure_words letter source_of);

our @EXPORT_OK = qw(html_page);

my %class = ('.' => 'pass', F => 'fail', E => 'error', s => 'skip', x => 'xfail', o => 'obs', '-' => 'none', '?' => 'none');
my $style = <<'EOF';
body { font: 15px/1.45 system-ui, sans-serif; max-width: 92rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } h3 { font-size: 1rem; margin: 1rem 0 .3rem }
table { border-collapse: collapse; margin: .6rem 0 } .wide { overflow-x: auto }
th, td { text-align: left; vertical-align: top; white-space: nowrap; padding: .2rem .6rem; border-bottom: 1px solid #ddd }
.number { text-align: right; font-variant-numeric: tabular-nums }
td.text { white-space: normal }
.matrix td, .matrix th { padding: .05rem .2rem; border: 1px solid #eee; text-align: center; font: 12px/1.3 ui-monospace, monospace }
.matrix th.test, .matrix td.test { text-align: left; white-space: nowrap }
.matrix th.machine { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; text-align: left; font-weight: normal }
.pass { background: #e4f3e4 } .fail { background: #c62828; color: #fff; font-weight: bold } .error { background: #ef8e1d; font-weight: bold }
.skip { background: #eee; color: #666 } .xfail { background: #cfe3f7 } .obs { background: #dff1f0 } .none { color: #999 }
details { border: 1px solid #ddd; border-radius: 4px; margin: .4rem 0; padding: .3rem .8rem } summary { cursor: pointer }
pre { background: #f6f6f6; padding: .5rem; overflow-x: auto } code { font-size: 13px }
EOF

# Returns the page. The claims are those of read_claims().
sub html_page {
	my ($claims, $ids, @machines) = @_;
	my $failed = grep { $_->{code} != 0 && $_->{code} != 3 } @machines;
	my $title = 'Spoor: ' . @machines . (@machines == 1 ? ' machine' : ' machines') . ', '
		. ($failed ? "$failed without a pass" : 'none failed');
	my @virtual = grep { $_->{silicon} =~ /virtual|rehearsed/ } @machines;
	return qq{<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n}
		. qq{<meta name="viewport" content="width=device-width"/>\n<title>$title</title>\n<style>\n$style</style>\n</head>\n<body>\n}
		. "<h1>$title</h1>\n"
		. (@virtual ? '<p>' . @virtual . ' on virtual silicon: a pass there proves nothing about a chip.</p>' . "\n" : '')
		. table_of(@machines) . (@machines > 1 ? matrix_of($claims, @machines) . observations_of(@machines) : '')
		. "<h2>Each machine</h2>\n" . join('', map { card_of($_, $claims, $ids, @machines == 1) } @machines)
		. "</body>\n</html>\n";
}

sub cell {
	my ($text, $class) = @_;
	return '<td' . (defined $class ? qq{ class="$class"} : '') . '>' . xml($text) . '</td>';
}

sub verdict_class {
	my ($machine) = @_;
	return {0 => 'pass', 1 => 'fail', 3 => 'skip'}->{$machine->{code}} // 'error';
}

sub table_of {
	my @rows = map { my $machine = $_;
		my %count;
		$count{$_->{kind}}++ for values %{$machine->{tests}};
		'<tr>' . cell($machine->{name}) . cell($machine->{word}, verdict_class($machine)) . cell($machine->{silicon})
			. cell($machine->{banner}{cpu} // '?') . cell($machine->{banner}{version} // '?')
			. join('', map { cell($count{$_} // '', 'number') } kinds()) . cell($machine->{state}) . "</tr>\n"
	} @_;
	return qq{<div class="wide"><table>\n<tr>}
		. join('', map { "<th>$_</th>" } qw(machine verdict silicon processor version), kinds(), 'log') . "</tr>\n@rows</table></div>\n";
}

sub matrix_of {
	my ($claims, @machines) = @_;
	my %names = map { $_ => 1 } map { keys %{$_->{tests}} } @machines;
	my @tests = differing_tests(@machines);
	my $same = keys(%names) - @tests;
	my $text = "<h2>Where machines differ</h2>\n<p>$same of " . keys(%names)
		. ' tests have the same result wherever they ran.</p>' . "\n";
	return $text unless @tests;
	$text .= '<p>' . join(' ', map { qq{<span class="$class{$_->[0]}"><code>&#160;$_->[0]&#160;</code></span> $_->[1]} }
		['.', 'pass'], ['F', 'fail'], ['E', 'error'], ['s', 'skip'], ['x', 'expected by an erratum'], ['o', 'observed'],
		['-', 'not run'], ['?', 'log not whole']) . qq{</p>\n<div class="wide"><table class="matrix">\n<tr><th class="test">test</th>}
		. join('', map { '<th class="machine">' . xml($_->{name}) . '</th>' } @machines) . "</tr>\n";
	for my $test (@tests) {
		my $claim = $claims->{$test->{name}} ? xml($claims->{$test->{name}}{claim}) : '';
		$text .= qq{<tr><td class="test" title="$claim">} . xml($test->{name}) . '</td>'
			. join('', map { cell($_, $class{$_}) } split //, $test->{letters}) . "</tr>\n";
	}
	return "$text</table></div>\n";
}

# What the silicon does where no manual says: a row for each answer.
sub observations_of {
	my @machines = grep { $_->{code} != 4 } @_;
	my %answers;
	for my $machine (@machines) {
		for my $key (keys %{$machine->{observations}}) {
			push @{$answers{$key}{$machine->{observations}{$key}{value}}}, $machine->{name};
		}
	}
	my @keys = sort grep { keys %{$answers{$_}} > 1 } keys %answers;
	my $text = "<h2>What no manual settles</h2>\n<p>" . (keys(%answers) - @keys) . ' of ' . keys(%answers)
		. " observations are the same on all machines that made them.</p>\n";
	return $text unless @keys;
	$text .= "<table>\n<tr><th>observed</th><th>value</th><th>machines</th></tr>\n";
	for my $key (@keys) {
		my %machines = %{$answers{$key}};
		for my $value (sort { @{$machines{$b}} <=> @{$machines{$a}} || $a cmp $b } keys %machines) {
			my @names = @{$machines{$value}};
			$text .= '<tr>' . cell($key) . cell($value)
				. cell(@names > 8 ? scalar(@names) . ' machines' : join(', ', @names), 'text') . "</tr>\n";
		}
	}
	return "$text</table>\n";
}

sub rows { return "<table>\n" . join('', map { '<tr>' . join('', map { cell($_, 'text') } @$_) . "</tr>\n" } @_) . "</table>\n" }

# A heading and a table, or nothing.
sub section {
	my ($heading, @rows) = @_;
	return @rows ? "<h3>$heading</h3>\n" . rows(@rows) : '';
}

sub card_of {
	my ($machine, $claims, $ids, $open) = @_;
	my $text = '<details' . ($open || $machine->{code} % 3 ? ' open=""' : '') . '><summary><span class="' . verdict_class($machine)
		. qq{">&#160;$machine->{word}&#160;</span> <b>} . xml($machine->{name}) . '</b> ' . xml($machine->{file}) . "</summary>\n"
		. '<p>' . xml("$machine->{word} ($machine->{code}): $machine->{why}") . "</p>\n";
	for my $name (sort grep { $machine->{tests}{$_}{kind} =~ /^(?:fail|error)$/ } keys %{$machine->{tests}}) {
		my $claim = $claims->{$name} ? ": $claims->{$name}{claim}" : '';
		$text .= '<h3>' . xml($name . $claim) . "</h3>\n<p>" . xml(source_of($name, $claims, $ids)) . "</p>\n<pre>"
			. xml(join("\n", grep({ !/^# time / } @{$machine->{tests}{$name}{notes}}), $machine->{tests}{$name}{line})) . "</pre>\n";
	}
	$text .= section('Units', map { [$_->{title}, unit_line($_)] } @{$machine->{units}});
	$text .= section('Errata met', map { [$_, join(' ', @{$machine->{errata}{$_}})] } sort keys %{$machine->{errata}});
	$text .= section('Observed, where no manual settles it', map { my $observation = $machine->{observations}{$_};
		[$_, $observation->{value}, source_of($observation->{test}, $claims, $ids)] } sort keys %{$machine->{observations}});
	$text .= section('Figures', map { [$_, figure_words($machine->{figures}{$_})] } sort keys %{$machine->{figures}});
	$text .= section('Skipped', map { [$machine->{skipped}{$_}, $_] } sort keys %{$machine->{skipped}});
	$text .= section('Banner', map { [$_, $machine->{banner}{$_}] } sort keys %{$machine->{banner}});
	return "$text</details>\n";
}

1;
