# SPDX-License-Identifier: MIT
# Rows in which every two choices of any two factors meet, for tools/mutants and tools/pairs. A choice is a number.
package Spoor::Covering;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(covering_array pair_key all_pairs pairs_of complete);

# The pair of choice `x` of factor `one` and choice `y` of factor `two`, whichever is named first.
sub pair_key {
	my ($one, $x, $two, $y) = @_;
	return $one < $two ? "$one $x $two $y" : "$two $y $one $x";
}

# All pairs that `forbids` does not have. An array is {sizes => choices of each factor, forbids => pairs}, and
# {used => {}} if of choices that add as many pairs the one that is in fewer rows is to be taken, not the first.
sub all_pairs {
	my ($array) = @_;
	my @sizes = @{$array->{sizes}};
	my %pairs;
	for my $one (0 .. $#sizes) {
		for my $two ($one + 1 .. $#sizes) {
			for my $x (0 .. $sizes[$one] - 1) {
				$pairs{pair_key($one, $x, $two, $_)} = 1 for 0 .. $sizes[$two] - 1;
			}
		}
	}
	delete @pairs{keys %{$array->{forbids}}};
	return %pairs;
}

sub pairs_of {
	my @row = @_;
	return map { my $one = $_; map { pair_key($one, $row[$one], $_, $row[$_]) } $one + 1 .. $#row } 0 .. $#row;
}

# How many of the pairs the row, with undef where nothing is chosen yet, gains by the choice.
sub gain {
	my ($pairs, $row, $factor, $choice) = @_;
	return scalar grep { defined $row->[$_] && $pairs->{pair_key($_, $row->[$_], $factor, $choice)} } 0 .. $#$row;
}

# The row with a choice of every factor, the ones first that add most missing pairs; undef: there is none.
sub complete {
	my ($array, $missing, @row) = @_;
	my ($forbids, $used) = @$array{qw(forbids used)};
	my ($factor) = grep { !defined $row[$_] } 0 .. $#{$array->{sizes}};
	return \@row unless defined $factor;
	my @choices = grep { !gain($forbids, \@row, $factor, $_) } 0 .. $array->{sizes}[$factor] - 1;
	my %gain = map { $_ => gain($missing, \@row, $factor, $_) } @choices;
	my %rows = map { $_ => $used->{"$factor $_"} // 0 } @choices;
	for my $choice (sort { $gain{$b} <=> $gain{$a} || $rows{$a} <=> $rows{$b} || $a <=> $b } @choices) {
		my @next = @row;
		$next[$factor] = $choice;
		my $whole = complete($array, $missing, @next);
		return $whole if $whole;
	}
	return undef;
}

# The rows, each time the same, by greedy choice; and how many pairs no row can have since other pairs are forbidden.
sub covering_array {
	my ($array) = @_;
	my %missing = all_pairs($array);
	my ($impossible, @rows) = (0);
	while (%missing) {
		my $pair = (sort keys %missing)[0];
		my ($one, $x, $two, $y) = split ' ', $pair;
		my @row;
		@row[$one, $two] = ($x, $y);
		my $whole = complete($array, \%missing, @row);
		$impossible++ unless $whole;
		delete @missing{$whole ? pairs_of(@$whole) : $pair};
		next unless $whole;
		push @rows, $whole;
		if ($array->{used}) { $array->{used}{"$_ $whole->[$_]"}++ for 0 .. $#$whole }
	}
	return (\@rows, $impossible);
}

1;
