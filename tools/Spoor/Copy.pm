# SPDX-License-Identifier: MIT
# A copy of the tree in which the monitor is changed, for tools/faults and tools/mutate.
package Spoor::Copy;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(make_copy read_text write_text);

# `copy`: where; it is built as this tree is.
sub make_copy {
	my ($copy) = @_;
	my $own = (split '/', $copy)[1];
	system('rm', '-rf', $copy) == 0 && system('mkdir', '-p', "$copy/build") == 0 or exit 2;
	system("git ls-files -co --exclude-standard -z | xargs -0 cp -p --parents -t $copy") == 0 or exit 2;
	system("cp -rp \$(ls -d build/* | grep -vxE 'build/($own|faults|mutate)') $copy/build/") == 0 or exit 2;
}

sub read_text {
	my ($path) = @_;
	open(my $in, '<', $path) or die "$path: $!\n";
	local $/;
	return <$in> // '';
}

sub write_text {
	my ($path, $text) = @_;
	open(my $out, '>', $path) or die "$path: $!\n";
	print $out $text;
	close($out) or die "$path: $!\n";
}

1;
