# SPDX-License-Identifier: MIT
# The monitor of a QEMU that was given `-qmp unix:SOCKET,server=on,wait=off`.
package Spoor::Qmp;
use strict;
use warnings;
use Exporter 'import';
use IO::Socket::UNIX;

our @EXPORT_OK = qw(ask qmp);

use constant PATIENCE => 60; # seconds for an answer

# A connection that takes commands; undef: QEMU is not there, or not yet.
sub qmp {
	my ($socket) = @_;
	my $qmp = IO::Socket::UNIX->new(Peer => $socket) or return;
	$qmp->autoflush(1);
	return defined ask($qmp, '{"execute": "qmp_capabilities"}') ? $qmp : undef;
}

# The line of the answer to a command; undef if QEMU refuses it, or is gone. What else QEMU tells is passed over.
sub ask {
	my ($qmp, $json) = @_;
	local $SIG{ALRM} = sub { die "QEMU does not answer\n" };
	local $SIG{PIPE} = 'IGNORE';
	alarm PATIENCE;
	print $qmp "$json\n";
	my $line;
	while (defined($line = <$qmp>)) {
		last if $line =~ /^\{"(?:return|error)"/;
	}
	alarm 0;
	return defined $line && $line =~ /^\{"return"/ ? $line : undef;
}

1;
