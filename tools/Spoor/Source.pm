# SPDX-License-Identifier: MIT
# Whether a source is a row of docs/sources.md, or a path of the tree with a heading or words of it.
package Spoor::Source;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(sources source_flaws);

my $page = 'docs/sources.md';
my %source;

# Every source that the tables of docs/sources.md list, with its second cell.
sub sources {
	return \%source if %source;
	open(my $in, '<', $page) or die "$page: $!\n";
	while (<$in>) {
		$source{$1} = $2 if /^\| `([^`]+)` \| (.+) \|$/;
	}
	close($in);
	return \%source;
}

# What is wrong with the text of a source: a list of sentences, empty if nothing is.
sub source_flaws {
	my ($text) = @_;
	return 'no source' if $text eq '';
	return map { part_flaws($_) } split(/; /, $text);
}

sub part_flaws {
	my ($part) = @_;
	(my $name = $part) =~ s/: .*//s;
	my $known = sources();
	return () if $known->{$name};
	if ($name =~ /^(SDM Vol \d), (.+)$/) {
		my $manual = $1;
		return map { "no '$manual, $_' in $page" } grep { !$known->{"$manual, $_"} } split(/, | and /, $2);
	}
	my ($path, $heading, $words) = $name =~ /^([\w.\/-]+)(?:#([\w-]+)|, (.+))?$/;
	return "'$part' is neither in $page nor a path in the tree" unless defined $path && -f $path;
	open(my $in, '<', $path) or die "$path: $!\n";
	my $content = do { local $/; <$in> };
	return "no heading #$heading in $path" if defined $heading && !grep { $_ eq $heading } headings($content);
	return "no '$words' in $path" if defined $words && index($content, $words) < 0;
	return ();
}

# The anchors of a page's headings.
sub headings {
	return map { s/[^\w -]//gr =~ tr/ A-Z/-a-z/r } $_[0] =~ /^#+ (.+)$/mg;
}

1;
