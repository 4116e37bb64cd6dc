# SPDX-License-Identifier: MIT
# What a file of a trace lacks, by the headers of its frames (docs/trace-stream.5). `view check` sees more.
package Spoor::Trace;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(trace_flaw);

use constant {FRAME_END => 5, HEADER => 32}; # bytes of a frame up to its time stamp

# Returns what is wrong with the file, as the end of a sentence, or nothing: each frame is there, the last one is END, and counts no
# task or CPU that could not be traced.
sub trace_flaw {
	my ($name) = @_;
	my ($flaw, $untraced) = read_frames($name);
	return "$flaw; is the disk full?" if defined $flaw;
	return $untraced ? "is not whole: $untraced tasks or CPUs could not be traced." : undef;
}

# Returns what is wrong with the frames, or undef, and what END counts.
sub read_frames {
	my ($name) = @_;
	open(my $in, '<:raw', $name) or return "cannot be read: $!";
	local $/ = "\0";
	my ($frames, $last, $untraced) = (0, 0);
	while (my $piece = <$in>) {
		return 'is cut within a frame' unless chomp $piece;
		next if $piece eq '';
		my $header = unstuffed($piece, HEADER);
		return 'has a damaged frame' if length $header < HEADER;
		($last, my $sequence, $untraced) = unpack 'C x3 L< x16 Q<', $header;
		return "lacks a frame, number $frames" if $sequence != $frames;
		$frames++;
	}
	return (undef, $untraced) if $last == FRAME_END;
	return $frames ? 'is cut: its last frame, END, is missing' : 'is empty';
}

# The first `count` bytes, or all, of what COBS made `piece` of.
sub unstuffed {
	my ($piece, $count) = @_;
	my $bytes = '';
	for (my $at = 0; $at < length $piece && length $bytes < $count;) {
		my $code = ord substr($piece, $at, 1);
		$bytes .= substr($piece, $at + 1, $code - 1) . ($code < 255 ? "\0" : '');
		$at += $code;
	}
	return substr($bytes, 0, $count);
}

1;
