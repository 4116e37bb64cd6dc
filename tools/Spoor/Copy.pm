# SPDX-License-Identifier: MIT
# Copies of the tree in which the monitor is changed, for tools/faults and tools/mutate.
package Spoor::Copy;
use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(LOCK_EX LOCK_NB);
use File::Basename qw(dirname);

my $lock; # held until the tool ends

our @EXPORT_OK = 'make_copy';

# `copies`: where; the images are built here first, and are there then: an older object would be linked to what is changed.
# In a CI a warning of the compiler ends a build: of what is wrong on purpose it does not.
sub make_copy {
	my ($copy, @others) = @_;
	delete $ENV{CI};
	system('mkdir', '-p', dirname($copy)) == 0 && open($lock, '>', "$copy.lock") or exit 2;
	flock($lock, LOCK_EX | LOCK_NB) or die "$copy: another run of this tool has it\n";
	my $own = (split '/', $copy)[1];
	system('make -s build/monitor.elf32 build/spoor.elf32 >/dev/null') == 0 or die "'make images' fails\n";
	system('rm', '-rf', $copy, @others) == 0 && system('mkdir', '-p', "$copy/build") == 0 or exit 2;
	system("git ls-files -co --exclude-standard -z | xargs -0 cp -p --parents -t $copy") == 0 or exit 2;
	system("cp -rp \$(ls -d build/* | grep -vxE 'build/($own|faults|mutate|check|linux|mutants|ubsan)') $copy/build/") == 0 or exit 2;
	system('cp', '-rp', $copy, $_) == 0 or exit 2 for @others;
}

1;
