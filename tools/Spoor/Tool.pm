# SPDX-License-Identifier: MIT
# What programs of tools/ share: they run at the top of the tree, print the comment at their head for -h, take options,
# run a part of a list, and read and write files. Each begins with `use FindBin; use lib $FindBin::RealBin; use Spoor::Tool`; tools/ is above it.
package Spoor::Tool;
use strict;
use warnings;
use Exporter 'import';
use FindBin;

our @EXPORT = qw(options part_of turn read_lines read_text write_text);

my $name = $FindBin::Script;
exec((__FILE__ =~ m{(.*)/})[0] . '/help', "$FindBin::RealBin/$name") if ($ARGV[0] // '') =~ /^(?:-h|--help)$/;
chdir(($FindBin::Bin =~ m{(.*)/tools(?:/|$)})[0]) or die "$name: $!\n";

# Takes the options out of @ARGV: `--name => \$flag`, which becomes 1, or `--name => [\$value, pattern]`. Returns the other words.
sub options {
	my %option = @_;
	my @words;
	while (defined(my $word = shift @ARGV)) {
		my $to = $option{$word};
		my ($value, $pattern) = ref($to) eq 'ARRAY' ? @$to : ();
		if ($value && ($ARGV[0] // '') =~ /^(?:$pattern)$/) { $$value = shift @ARGV }
		elsif ($to && !$value)                              { $$to = 1 }
		elsif ($word =~ /^-/) { die "$name: $word is unknown, or has no such value; the file's head says what there is\n" }
		else { push @words, $word }
	}
	return @words;
}

# Every N-th of a list, from the K-th on (1 to N): `part` is K/N.
sub part_of {
	my ($part, @all) = @_;
	my ($first, $each) = $part =~ m{^(\d+)/(\d+)$};
	die "$name: no part is $part\n" unless $first && $first <= $each;
	return @all[grep { $_ % $each == $first - 1 } 0 .. $#all];
}

# 1 to `parts`, another one at the next commit and on the next day.
sub turn {
	my ($parts) = @_;
	my $commit = hex(substr(`git rev-parse HEAD 2>/dev/null` || '0', 0, 7));
	return 1 + ($commit + int(time / 86400)) % $parts;
}

# Without their ends; none of a file that is not there.
sub read_lines {
	my ($path) = @_;
	return unless -f $path;
	return map { s/\r$//r } split(/\n/, read_text($path));
}

sub read_text {
	my ($path) = @_;
	open(my $in, '<:raw', $path) or die "$name: $path: $!\n";
	local $/;
	return <$in> // '';
}

sub write_text {
	my ($path, @text) = @_;
	open(my $out, '>', $path) or die "$name: $path: $!\n";
	print $out @text;
	close($out) or die "$name: $path: $!\n";
}

1;
