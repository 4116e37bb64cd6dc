# SPDX-License-Identifier: MIT
# A formatter of TAP::Harness for parts that run beside each other: each line at once, with its part's name in front.
# failures() returns the lines of the failed tests and up to 20 of the comments after each: what a reader of the last page sees.
package Spoor::Lines;
use strict;
use warnings;
use parent 'TAP::Formatter::Base';

my (@failures, %room);

sub failures { return @failures }

sub open_test {
	my ($self, $name, $parser) = @_;
	return Spoor::Lines::Session->new({name => $name, formatter => $self, parser => $parser});
}

package Spoor::Lines::Session;
use parent 'TAP::Formatter::Session';

sub result {
	my ($self, $result) = @_;
	my $name = $self->name;
	my $line = "$name: " . $self->_format_for_output($result) . "\n";
	$self->formatter->_output($line);
	$room{$name} = $result->is_ok ? 0 : 21 if $result->is_test;
	push @failures, $line if ($result->is_test || $result->is_comment) && $room{$name} && $room{$name}-- > 0;
}

sub close_test {
	my ($self) = @_;
	my $parser = $self->parser;
	$self->parser(undef);
	$self->formatter->_output($self->formatter->_format_name($self->name));
	return $self->_output_test_failure($parser) if $parser->has_problems;
	$self->formatter->_output($self->_make_ok_line($self->time_report($self->formatter, $parser)));
}

1;
