# SPDX-License-Identifier: MIT
# Faults made mechanically from C, a token at a time: what of a file can be changed, and into what.
package Spoor::Mutation;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(kinds_of_mutations mutations apply names_of choices_of entries_of);

my @kinds = ('operator', 'border', 'constant', 'dropped statement', 'exchanged arguments', 'state of all', 'write of the neighbour');
sub kinds_of_mutations { return @kinds }

my %operator = ('==' => '!=', '!=' => '==', '&&' => '||', '||' => '&&', '+' => '-', '-' => '+', '&' => '|', '|' => '&', '^' => '|',
	'<<' => '>>', '>>' => '<<', '|=' => '=', '&=' => '|=', '+=' => '-=', '-=' => '+=', '%' => '/', '/' => '%', '*' => '+',
	'++' => '--', '--' => '++', '<' => '>=', '>=' => '<', '>' => '<=', '<=' => '>', '>>=' => '<<=');
my %border = ('<' => '<=', '<=' => '<', '>' => '>=', '>=' => '>');
my %assigns = map { $_ => 1 } qw(= += -= |= &= <<= >>= ++ --);
my %keyword = map { $_ => 1 } qw(if else for while do switch case default return break continue goto sizeof);
my $type = qr/^(?:const|static|struct|enum|union|unsigned|signed|int|char|short|long|void|bool|volatile|register|u?int\d+_t|size_t)$/;
my $token = qr/(?<comment>\/\*.*?\*\/|\/\/[^\n]*)|(?<pre>^[ \t]*\#(?:[^\n\\]|\\.)*)|(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<word>[A-Za-z_]\w*)|(?<number>\d\w*)|(?<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*\/%&|^]=|[^\s\w])/sm;

# The enumerators of a header, and its macros that are constants: a list of families, each a list of names in their order.
sub names_of {
	my ($text) = @_;
	$text =~ s{/\*.*?\*/}{}gs;
	my @families;
	while ($text =~ /\benum\b[^{};]*\{([^}]*)\}/g) {
		push @families, [$1 =~ /\b([A-Z][A-Z0-9_]+)\b(?=\s*(?:=[^,]*)?(?:,|$))/g];
	}
	my %by_prefix;
	push @{$by_prefix{$2}}, $1 while $text =~ /^#define (([A-Z0-9]+)_[A-Z0-9_]+)\s/mg;
	return grep { @$_ > 1 } @families, map { $by_prefix{$_} } sort keys %by_prefix;
}

# The enumerations of a header's struct of behaviour, each with its unit, its field and its choices.
sub choices_of {
	my ($unit, $body) = $_[0] =~ s{/\*.*?\*/}{}gsr =~ /struct (\w+)_behaviour \{(.*?)\n\}/s or return;
	my @found;
	push @found, {unit => $unit, choices => $1, field => $2} while $body =~ /enum \{([^}]*)\} (\w+);/g;
	return @found;
}

# The mutants that a text lists: `path | function | source: why`, lines with -, lines with +. Of a line that is none of these
# the line instead.
sub entries_of {
	my @entries;
	for (split /\n/, $_[0]) {
		next if /^#/ || $_ eq '';
		if (/^(\S+) \| (.+?) \| (.+?): (.+)$/) {
			push @entries, {path => $1, function => $2, source => $3, why => $4, before => '', after => ''};
		} elsif (/^-(.*)/ && @entries) { $entries[-1]{before} .= " $1" }
		elsif (/^\+(.*)/ && @entries) { $entries[-1]{after} .= " $1" }
		else { return $_ }
	}
	return map { +{%$_, before => flat($_->{before}), after => flat($_->{after})} } @entries;
}

# All mutants of `text`, the file `path`: each has kind, path, function, its body, line, what, before, after, edits (offset, length, text).
# `families`: names_of() its headers; `left`: names of what the processor may choose; `fields`: of struct vcpu's member `unit`, those
# of this unit.
sub mutations {
	my ($path, $text, $families, $left, $unit, $fields) = @_;
	my %file = (path => $path, text => $text, left => {map { $_ => 1 } @$left}, unit => $unit, next => {}, found => []);
	for my $family (@$families) {
		$file{next}{$family->[$_]} = $family->[($_ + 1) % @$family] for grep { !$file{left}{$family->[$_]} } 0 .. $#$family;
	}
	$file{tokens} = [tokens_of($text)];
	match_brackets(\%file);
	mark_functions(\%file);
	for my $at (grep { defined $file{tokens}[$_]{function} } 0 .. $#{$file{tokens}}) {
		change_token(\%file, $at);
		change_statement(\%file, $at) if begins_statement(\%file, $at);
		exchange_arguments(\%file, $at) if $file{tokens}[$at]{text} eq '(';
	}
	share_state(\%file, $_) for @$fields;
	return @{$file{found}};
}

# `text` with the edits, the last of them first.
sub apply {
	my ($text, $edits) = @_;
	substr($text, $_->[0], $_->[1]) = $_->[2] for sort { $b->[0] <=> $a->[0] } @$edits;
	return $text;
}

sub tokens_of {
	my ($text) = @_;
	my @tokens;
	while ($text =~ /$token/g) {
		my ($class) = grep { defined $+{$_} } qw(comment pre string word number sign);
		next if $class eq 'comment' || $class eq 'pre';
		push @tokens, {class => $class, text => $+{$class}, at => $-[0]};
	}
	return @tokens;
}

sub match_brackets {
	my ($file) = @_;
	my @open;
	my $tokens = $file->{tokens};
	for my $at (0 .. $#$tokens) {
		if ($tokens->[$at]{text} =~ /^[(\[{]$/) { push @open, $at }
		elsif ($tokens->[$at]{text} =~ /^[)\]}]$/) {
			my $from = pop @open;
			@{$tokens->[$from]}{qw(match)} = ($at);
			@{$tokens->[$at]}{qw(match)} = ($from);
		}
	}
}

# Bodies of functions, and the values of tables that are no tables of hooks.
sub mark_functions {
	my ($file) = @_;
	my $tokens = $file->{tokens};
	for (my $at = 1; $at < @$tokens; $at++) {
		next unless $tokens->[$at]{text} eq '{';
		my ($end, $name) = ($tokens->[$at]{match});
		if ($tokens->[$at - 1]{text} eq ')') {
			$name = $tokens->[$tokens->[$at - 1]{match} - 1]{text};
		} elsif ($tokens->[$at - 1]{text} eq '=') {
			my $before = $at - 2;
			$before = $tokens->[$before]{match} - 1 while $tokens->[$before]{text} eq ']';
			$name = $tokens->[$before]{text};
			undef $name if $name =~ /_clean$/;
		}
		if (defined $name) {
			my $body = substr($file->{text}, $tokens->[$at]{at}, $tokens->[$end]{at} - $tokens->[$at]{at});
			@{$tokens->[$_]}{qw(function body)} = ($name, $body) for $at + 1 .. $end - 1;
		}
		$at = $end;
	}
}

# The line of an offset.
sub line_of {
	my ($file, $offset) = @_;
	return 1 + (substr($file->{text}, 0, $offset) =~ tr/\n//);
}

# Adds a mutant: `edits` change its lines.
sub add {
	my ($file, $kind, $at, $what, @edits) = @_;
	my ($first, $last) = (sort { $a <=> $b } map { ($_->[0], $_->[0] + $_->[1]) } @edits)[0, -1];
	my $text = $file->{text};
	my $begin = 1 + rindex($text, "\n", $first - 1);
	my $end = index($text, "\n", $last);
	my $before = substr($text, $begin, $end - $begin);
	my $after = apply($before, [map { [$_->[0] - $begin, $_->[1], $_->[2]] } @edits]);
	push @{$file->{found}}, {kind => $kind, path => $file->{path}, function => $file->{tokens}[$at]{function}, body => $file->{tokens}[$at]{body},
		line => line_of($file, $first), what => $what =~ s/\s+/ /gr, before => flat($before), after => flat($after), edits => \@edits};
}

sub flat { return $_[0] =~ s/\s+/ /gr =~ s/^ | $//gr }

# A token that another one can stand for.
sub change_token {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	my ($class, $text) = @{$tokens->[$at]}{qw(class text)};
	my @edit = ($tokens->[$at]{at}, length $text);
	my $to = sub { add($file, $_[0], $at, "$text becomes $_[1]", [@edit, $_[1]]) };
	return if is_declarator($file, $at);
	if ($class eq 'number') {
		return if $text !~ /^(0x[0-9a-f]+|\d+)([ul]*)$/i || $tokens->[$at - 1]{text} eq '[' && is_type_of_array($file, $at);
		my ($value, $suffix) = ($1, $2);
		my $hex = $value =~ /^0x/;
		no warnings "portable";
		$value = $hex ? hex($value) : $value;
		$to->('constant', ($hex ? sprintf('0x%x', $_) : $_) . $suffix) for $value + 1, $value > 1 ? $value - 1 : ();
	} elsif ($class eq 'word') {
		$to->('constant', $text eq 'true' ? 'false' : 'true') if $text =~ /^(?:true|false)$/;
		$to->('constant', $file->{next}{$text}) if $file->{next}{$text};
	} elsif ($class eq 'sign') {
		return if beside_choice($file, $at);
		if ($text =~ /^[!~]$/) { add($file, 'operator', $at, "$text dropped", [@edit, '']) }
		return if $text =~ /^[-+*&]$/ && !is_binary($file, $at) || $text =~ /^(?:\+\+|--)$/ && in_head($file, $at, 'for');
		$to->('operator', $operator{$text}) if $operator{$text};
		$to->('border', $border{$text}) if $border{$text};
	}
}

# Whether an operator has a value on its left.
sub is_binary {
	my ($file, $at) = @_;
	my $before = $file->{tokens}[$at - 1];
	return !$keyword{$before->{text}} if $before->{class} eq 'word';
	return 1 if $before->{class} eq 'number' || $before->{text} eq ']';
	return 0 if $before->{text} ne ')';
	return !grep { $file->{tokens}[$_]{text} !~ /$type|^\*$/ } $before->{match} + 1 .. $at - 2 ? 0 : 1;
}

# Whether it is a comparison with what the processor may choose, or joins one to another condition.
sub beside_choice {
	my ($file, $at) = @_;
	my $text = $file->{tokens}[$at]{text};
	return 0 unless $text =~ /^(?:==|!=|&&|\|\|)$/;
	my @near = $text =~ /=/ ? ($at - 1, $at + 1) : (operand($file, $at, -1), operand($file, $at, 1));
	return grep { $file->{left}{$file->{tokens}[$_]{text} // ''} } @near;
}

# The tokens of the condition before (-1) or after (1) the one at `at`, without what is in parentheses.
sub operand {
	my ($file, $at, $step) = @_;
	my ($tokens, @found) = ($file->{tokens});
	for ($at += $step; $at > 0 && $at < @$tokens; $at += $step) {
		my $text = $tokens->[$at]{text};
		if ($text =~ ($step > 0 ? qr/^[(\[]$/ : qr/^[)\]]$/)) { $at = $tokens->[$at]{match} }
		elsif ($text =~ /^(?:&&|\|\||[;,?:{}()=]|return)$/) { last }
		else { push @found, $at }
	}
	return @found;
}

# Whether it is in the parentheses after this keyword.
sub in_head {
	my ($file, $at, $word) = @_;
	my $tokens = $file->{tokens};
	for (my $before = $at - 1; $before >= 0 && defined $tokens->[$before]{function}; $before--) {
		if ($tokens->[$before]{text} =~ /^[)\]}]$/) { $before = $tokens->[$before]{match} }
		elsif ($tokens->[$before]{text} eq '(') { return $before && $tokens->[$before - 1]{text} eq $word }
		elsif ($tokens->[$before]{text} eq '{') { return 0 }
	}
	return 0;
}

sub begins_statement {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	my $before = $tokens->[$at - 1]{text};
	return 0 if $tokens->[$at]{text} =~ /^[{};]$/ || in_head($file, $at, 'for') || in_table($file, $at);
	return 1 if $before =~ /^[{};]$/ || $before =~ /^(?:else|do)$/;
	return $tokens->[$tokens->[$at - 1]{match} - 1]{text} =~ /^(?:if|for|while|switch)$/ if $before eq ')';
	return $before eq ':' && $tokens->[$at - 2]{text} eq 'default' || $before eq ':' && $tokens->[$at - 3]{text} eq 'case';
}

# Whether the innermost braces are of a value.
sub in_table {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	for (my $before = $at - 1; $before >= 0; $before--) {
		if ($tokens->[$before]{text} =~ /^[)\]}]$/) { $before = $tokens->[$before]{match} }
		elsif ($tokens->[$before]{text} eq '(') { return 0 }
		elsif ($tokens->[$before]{text} eq '{') {
			my $last = $tokens->[$before - 1]{text};
			return $last =~ /^[=,{]$/ || $last eq ')' && !is_head($file, $before - 1) && defined $tokens->[$before]{function};
		}
	}
	return 0;
}

sub is_head {
	my ($file, $at) = @_;
	return $file->{tokens}[$file->{tokens}[$at]{match} - 1]{text} =~ /^(?:if|for|while|switch)$/;
}

# Where the statement that begins here ends: its semicolon.
sub end_of {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	for (; $at < @$tokens; $at++) {
		return $at if $tokens->[$at]{text} eq ';';
		$at = $tokens->[$at]{match} if $tokens->[$at]{text} =~ /^[(\[{]$/;
	}
	return $#$tokens;
}

sub is_declaration {
	my ($file, $at) = @_;
	return $file->{tokens}[$at]{text} =~ $type;
}

# Whether the token is what a declaration declares, not a value that it gives.
sub is_declarator {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	my ($start, $value) = ($at, 0);
	while ($start > 0 && defined $tokens->[$start - 1]{function} && $tokens->[$start - 1]{text} !~ /^[;{}]$/) {
		$start--;
		$value = 1 if $tokens->[$start]{text} eq '=';
		$start = $tokens->[$start]{match} if $tokens->[$start]{text} =~ /^[)\]]$/;
	}
	return !$value && $tokens->[$start]{text} =~ $type && $tokens->[$start]{text} ne 'enum';
}

# Whether `[` before is of a declaration.
sub is_type_of_array {
	my ($file, $at) = @_;
	return is_declarator($file, $at - 1);
}

# Drops a statement, or turns a condition around; writes to the neighbour.
sub change_statement {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	my ($text, $end) = ($tokens->[$at]{text}, end_of($file, $at));
	my ($from, $to) = ($tokens->[$at]{at}, $tokens->[$end]{at});
	if ($text eq 'if' && $tokens->[$at + 1]{text} eq '(') {
		my ($open, $close) = ($at + 1, $tokens->[$at + 1]{match});
		return if grep { $file->{left}{$tokens->[$_]{text}} || $tokens->[$_]{text} =~ /behaviour/ } $open .. $close;
		my $condition = substr($file->{text}, $tokens->[$open]{at}, $tokens->[$close]{at} + 1 - $tokens->[$open]{at});
		add($file, 'operator', $at, "if $condition becomes if (!$condition)", [$tokens->[$open]{at}, 0, '(!'], [$tokens->[$close]{at} + 1, 0, ')']);
		return;
	}
	return if $keyword{$text} && $text !~ /^(?:break|continue)$/ || is_declaration($file, $at) || $tokens->[$at + 1]{text} eq ':';
	my $statement = substr($file->{text}, $from, $to - $from);
	return if $statement =~ /^\(void\)/;
	add($file, 'dropped statement', $at, "dropped: $statement", [$from, $to - $from, '']);
	write_to_neighbour($file, $at, $end, $statement);
}

my $other = <<'END';
#include "monitor/svm/guest.h"
#include "monitor/svm/processor.h"
static inline struct vcpu *the_other(const struct vcpu *vcpu)
{
	for (unsigned n = 0; n < 2; n++)
		if (processor_by_index(n) && &processor_by_index(n)->vcpu != vcpu)
			return &processor_by_index(n)->vcpu;
	return (struct vcpu *)vcpu;
}
END

# An assignment to the processor's state, or a call that may make one.
sub write_to_neighbour {
	my ($file, $at, $end, $statement) = @_;
	my $tokens = $file->{tokens};
	my @words = map { $tokens->[$_]{text} } $at .. $end;
	my @places;
	if ($words[0] eq 'vcpu' && $words[1] eq '->' && $words[2] ne 'silicon' && grep { $assigns{$_} } @words) {
		@places = $at;
	} elsif ($words[0] =~ /^(?:lbr|pmu|pt|state|ds)$/ && $words[1] eq '->' && grep { $assigns{$_} } @words) {
		@places = $at;
	} elsif ($tokens->[$at]{class} eq 'word' && $words[1] eq '(' && $words[2] eq 'vcpu') {
		@places = grep { $tokens->[$_]{text} eq 'vcpu' } $at .. $end;
	} else { return }
	my $name = $tokens->[$places[0]]{text};
	my $new = $name eq 'vcpu' ? 'the_other(vcpu)' : "(&the_other(vcpu)->$file->{unit})";
	add($file, 'write of the neighbour', $at, "of the other processor: $statement", map { [$tokens->[$_]{at}, length $name, $new] } @places);
	$file->{found}[-1]{prelude} = $other;
}

sub exchange_arguments {
	my ($file, $at) = @_;
	my $tokens = $file->{tokens};
	my $name = $tokens->[$at - 1];
	return if $name->{class} ne 'word' || $keyword{$name->{text}} || $name->{text} =~ $type || $name->{text} eq '__attribute__';
	my ($from, @parts) = ($at + 1);
	my $last = $tokens->[$at]{match};
	for (my $next = $at + 1; $next <= $last; $next++) {
		if ($next == $last || $tokens->[$next]{text} eq ',') {
			push @parts, [$tokens->[$from]{at}, $tokens->[$next - 1]{at} + length($tokens->[$next - 1]{text}) - $tokens->[$from]{at}] if $next > $from;
			$from = $next + 1;
		} elsif ($tokens->[$next]{text} =~ /^[(\[{]$/) { $next = $tokens->[$next]{match} }
	}
	for my $n (0 .. $#parts - 1) {
		my ($one, $two) = map { substr($file->{text}, $_->[0], $_->[1]) } @parts[$n, $n + 1];
		next if $one eq $two;
		add($file, 'exchanged arguments', $at, "$name->{text}($one, $two) becomes $name->{text}($two, $one)", [@{$parts[$n]}, $two], [@{$parts[$n + 1]}, $one]);
	}
}

# A field of which all processors have one: this file's part of such a mutant.
sub share_state {
	my ($file, $field) = @_;
	my @edits;
	my $of = qr/\bvcpu->$file->{unit}\.|(?<![\w>.])(?:$file->{unit}|state)->/;
	while ($file->{text} =~ /$of\Q$field\E\b/g) {
		push @edits, [$-[0], $+[0] - $-[0], 'state_of_all'];
	}
	return unless @edits;
	push @{$file->{found}}, {kind => 'state of all', path => $file->{path}, function => "struct $file->{unit}_state", body => '',
		line => line_of($file, $edits[0][0]), what => "$field is one for all processors", before => $field,
		after => "$field of all processors", edits => \@edits,
		prelude => "#include \"monitor/vcpu.h\"\n__attribute__((weak)) __typeof__(((struct vcpu *)0)->$file->{unit}.$field) state_of_all;\n"};
}

1;
