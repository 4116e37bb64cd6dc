# SPDX-License-Identifier: MIT
# A copy of the tree in which the monitor is changed, for tools/faults and tools/mutate.
package Spoor::Copy;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = 'make_copy';

# `copy`: where; it is built as this tree is.
sub make_copy {
	my ($copy) = @_;
	my $own = (split '/', $copy)[1];
	system('rm', '-rf', $copy) == 0 && system('mkdir', '-p', "$copy/build") == 0 or exit 2;
	system("git ls-files -co --exclude-standard -z | xargs -0 cp -p --parents -t $copy") == 0 or exit 2;
	system("cp -rp \$(ls -d build/* | grep -vxE 'build/($own|faults|mutate)') $copy/build/") == 0 or exit 2;
}

1;
