# SPDX-License-Identifier: MIT
# A formatter of TAP::Harness for parts that run beside each other: each line at once, with its part's name in front.
package Spoor::Lines;
use strict;
use warnings;
use parent 'TAP::Formatter::Base';

sub open_test {
	my ($self, $name, $parser) = @_;
	return Spoor::Lines::Session->new({name => $name, formatter => $self, parser => $parser});
}

package Spoor::Lines::Session;
use parent 'TAP::Formatter::Session';

sub result {
	my ($self, $result) = @_;
	$self->formatter->_output($self->name . ': ' . $self->_format_for_output($result) . "\n");
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
