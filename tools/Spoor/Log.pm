# SPDX-License-Identifier: MIT
# The console log of one boot and the verdict on it, by the contract of docs/console.md.
package Spoor::Log;
use strict;
use warnings;
use Exporter 'import';
use Spoor::Units qw(read_unit unit_fault unit_of);

our @EXPORT_OK = qw(LINE_MOST BYTES_MOST LINES_MOST bare parse_log read_log judge_linux judge_log verdict_word progress kinds skip_reasons plain time_of);

# No more is a log (docs/console.md): bytes of a line and of all, lines. A verdict is no longer than QUOTED.
use constant {LINE_MOST => 1 << 16, BYTES_MOST => 64 << 20, LINES_MOST => 1_000_000, QUOTED => 4096};

my @kinds = qw(pass fail skip error xfail obs);
my %rc_of_status = (33 => 0, 35 => 1, 37 => 2, 39 => 3);
my $done_line = qr/^# SPOOR DONE silicon=(native|guest|virtual|none)( rehearsal=yes)? /
	. join(' ', map { "$_=(\\d{1,6})" } @kinds) . ' rc=([0-4])(?: slow=(\d{1,6}))?(?: units=([a-z,]+))?(?: restarts=([1-9]\d{0,5}))?';
my $number = qr/[1-9]\d{0,5}/;
my @verdict_words = ('pass', 'FAIL', 'ERROR', 'SKIPPED', 'CRASH');
my %verdict_words = (124 => 'TIMEOUT', 130 => 'INTERRUPTED');

# The kinds of results, in the order of the DONE line.
sub kinds { return @kinds }

# Text of a log, for a terminal: a line in printable ASCII.
sub plain { return $_[0] =~ s/[^ -~]/?/gr }

# Returns the log `name`, of one that is too long for parse_log() its end; or nothing, with $!.
sub read_log {
	my ($name) = @_;
	my $text = '';
	open(my $in, '<:raw', $name) or return;
	while (read($in, $text, 1 << 20, length $text)) {
		$text = substr($text, -BYTES_MOST - 1) if length $text > 2 * BYTES_MOST;
	}
	return close($in) ? $text : undef;
}

# A line without what a serial line adds: NULs when it is plugged, and CRs always.
sub bare {
	my ($line) = @_;
	$line =~ s/^\0+//;
	chop $line while substr($line, -1) eq "\r";
	return $line;
}

# Why the text that is referred to is more than a log can have, or nothing.
sub excess {
	my ($text) = @_;
	return 'the log has more than ' . BYTES_MOST . ' bytes' if length $$text > BYTES_MOST;
	return 'the log has more than ' . LINES_MOST . ' lines' if $$text =~ tr/\n// > LINES_MOST;
	return;
}

# The group and the microseconds of a line `# time`, or nothing. Its number is no more than 31 years.
sub time_of { return $_[0] =~ /^# time group=(\w+) us=(\d{1,15})$/ }

# The word for an exit code of the judge.
sub verdict_word {
	my ($code) = @_;
	return $verdict_words{$code} // $verdict_words[$code];
}

# Returns what a log says, for judge_log(). Its keys: lines; banner, key by key; results, each with line,
# kind, number, name and notes (the lines above it); plans, done, tests (of a list), units (read_unit(), and `at`: how many
# results were before), and what is wrong.
# Of a text that is too long the last lines are read.
sub parse_log {
	my ($text) = @_;
	my $excess = excess(\$text);
	$text = substr($text, -LINE_MOST) if defined $excess;
	chop $text while substr($text, -1) eq "\0";

	my %log = (lines => [map { bare($_) } split /\n/, $text], plans => [], headers => 0, banners => 0, banner => {},
		results => [], done => [], tests => [], units => [], notes => [], restarts => 0, excess => $excess);
	$log{cut} = $text ne '' && substr($text, -1) ne "\n" ? $log{lines}[-1] : undef;
	for (@{$log{lines}}) {
		my $before = !$log{headers};
		if (length > LINE_MOST) {
			$log{excess} //= 'a line has more than ' . LINE_MOST . ' bytes' unless $before;
			$_ = substr($_, -LINE_MOST);
		}
		tr/\0//d, s/\e(?:\[[0-?]*[ -\/]*[\@-~]|[ -\/]*[0-Z\\-~])//g if $before; # ECMA-48, 5.4 and 5.5
		$log{banners}++ if /^# spoor version=/;
		$log{panic} //= $_ if /panic/i && (/\bpanic:/i || /^# panic\b/);
		read_monitor(\%log, $_) if /^# monitor: /;
		next if defined $log{cut} && \$_ == \$log{lines}[-1];
		if ($before) { read_before_header(\%log, $_) } else { read_line(\%log, $_) }
	}
	return \%log;
}

# What the monitor says, wherever it does.
sub read_monitor {
	my ($log, $line) = @_;
	$log->{monitor} = $line;
	$log->{monitor_ran} = 1 if $line =~ /^# monitor: Spoor /;
	$log->{presented} //= $line if $line =~ /^# monitor: present=/;
	$log->{own_guest} //= $line if $line =~ /^# monitor: (?:the kernel runs as a guest with virtual BTS|(?:profile|variant|defect|erratum|interpret)=)/;
}

# Firmware and loader may say anything that does not look like a result; the banner follows.
sub read_before_header {
	my ($log, $line) = @_;
	if ($line eq 'KTAP version 1') {
		$log->{headers}++;
	} elsif ($line =~ /^# error: (.*)/) {
		$log->{refusal} //= $1;
	} elsif ($line =~ /$done_line$/) {
		read_done($log, $line);
	} elsif ($line =~ /^# test name=(\S+) group=(\S*) needs=(\S*) ids=(.*?)(?: claim=.*)?$/) {
		push @{$log->{tests}}, [$1, $2, $3, $4];
	} elsif ($line =~ /^# (?!monitor: |kind=)/ && $log->{banners}) {
		read_banner($log, $line);
	} elsif ($line !~ /^#/ && $line =~ /\bok\s+\d|^1\.\.\d/) {
		$log->{early} //= $line;
	}
}

# Keys that a banner has once. Another may be that of several units, a line each: record=, why=.
my %once = map { $_ => 1 } qw(version git contract command_line hypervisor silicon rehearsal);

sub read_banner {
	my ($log, $line) = @_;
	my @pairs = $line =~ /^# (command_line)="(.*)"$/;
	unless (@pairs) {
		push @pairs, $1, $2 // $3 while $line =~ / (\w+)=(?:"([^"]*)"|(\S*))/g;
	}
	my %here;
	while (my ($key, $value) = splice @pairs, 0, 2) {
		$log->{twice} //= $key if $here{$key}++ || $once{$key} && exists $log->{banner}{$key};
		$log->{banner}{$key} = $value;
	}
}

sub read_done {
	my ($log, $line) = @_;
	my %done;
	(@done{'silicon', 'rehearsal', @kinds, 'rc', 'slow', 'units', 'restarts'}) = $line =~ /$done_line$/;
	push @{$log->{done}}, \%done;
}

# Every line after the header.
sub read_line {
	my ($log, $line) = @_;
	my ($kind, $at, $name) = read_result($line);
	if ($line eq '' || $line =~ /^# monitor: [ -~]*$/) {
	} elsif ($line eq 'KTAP version 1') {
		$log->{headers}++;
	} elsif (@{$log->{done}} && $line !~ /$done_line$/) {
		$log->{late} //= $line;
	} elsif ($line =~ /$done_line$/) {
		read_done($log, $line);
	} elsif ($kind) {
		$log->{strange} //= "a result before the plan: $line" unless @{$log->{plans}};
		push @{$log->{results}}, {line => $line, kind => $kind, number => $at, name => $name,
			notes => $log->{notes}};
		$log->{notes} = [];
		$log->{strange} //= "a result after Bail out!: $line" if defined $log->{bail_out};
	} elsif ($line =~ /^1\.\.(0|$number)$/) {
		push @{$log->{plans}}, $1;
		$log->{strange} //= "a plan after results: $line" if @{$log->{results}};
	} elsif ($line =~ /^Bail out! [ -~]+$/) {
		$log->{strange} //= "a second Bail out!: $line" if defined $log->{bail_out};
		$log->{bail_out} = $line;
	} elsif (my $unit = read_unit($line)) {
		push @{$log->{units}}, {%$unit, at => scalar @{$log->{results}}};
	} elsif ($line =~ /^#(?: (?!error:|SPOOR DONE|time group=)[ -~]*)?$/ || time_of($line)) {
		push @{$log->{notes}}, $line;
		# The run goes on after what ended the kernel; a test is in error for it.
		@$log{'restarts', 'panic'} = ($log->{restarts} + 1, undef) if $line =~ /^# restart: /;
	} else {
		$log->{strange} //= $line =~ /^\s*(?:not )?ok\b/ ? "unreadable result: $line"
			: "not a line of the contract: $line";
	}
}

# Returns the kind, the number and the name; the kind is one of @kinds.
sub read_result {
	my ($line) = @_;
	return unless $line =~ /^(not )?ok ($number) ([a-z][a-z0-9_]*)(?: # (OBS|(SKIP|XFAIL|ERROR) [ -~]+))?$/;
	my ($not, $at, $name, $directive) = ($1, $2, $3, $5 // $4 // '');
	my $kind = $not ? {'' => 'fail', ERROR => 'error'}->{$directive}
		: {'' => 'pass', SKIP => 'skip', XFAIL => 'xfail', OBS => 'obs'}->{$directive};
	return ($kind, $at, $name);
}

# Returns the exit code, what is to be said of it, and the word before that. %how says how the run ended:
# status   QEMU's exit status, if there was one, or `signal:N`, `timeout` or `interrupt`
# errors   the lines that QEMU wrote on standard error
# again    options of the run that the kernel does not know
# list     true if a list of the tests was asked for
sub judge_log {
	my ($log, %how) = @_;
	my $said = eval { judge_status($log, %how); judge_whole($log); judge_list($log) if $how{list};
		judge_counts($log, %how) } // $@;
	die $said unless ref $said;
	return ($said->{code}, $said->{why}, $said->{word} // verdict_word($said->{code}));
}

# Ends judge_log().
sub verdict {
	my ($code, $why, $word) = @_;
	$why = substr($why, 0, QUOTED) . '...' if length($why // '') > QUOTED;
	die {code => $code, why => $why, word => $word};
}

# What QEMU's own end says, before any word of the guest counts.
sub judge_status {
	my ($log, %how) = @_;
	my $status = $how{status} // return;
	my $words = ($how{errors} // [])->[-1] // 'it said nothing';
	verdict(130, 'interrupted; ' . progress($log)) if $status eq 'interrupt';
	if ($status eq 'timeout') {
		my $hint = @{$log->{done}}
			? 'the run ended but the guest did not leave QEMU (end=halt?)'
			: 'raise it with -T or TIMEOUT_SCALE, or look at the guest with -g';
		verdict(124, progress($log) . "; $hint");
	}
	judge_qemu($status, $words);
	verdict(4, "the guest panicked: $log->{panic}") if defined $log->{panic};
	verdict(4, "the monitor ended the run: $1") if $status == 41
		&& ($log->{lines}[-1] // '') =~ /^# monitor: (.*)/;
	verdict(4, 'the guest panicked without a word; ' . progress($log)) if $status == 41;
	verdict(2, $log->{monitor} =~ s/^# //r) if $status == 37 && !$log->{headers}
		&& !defined $log->{refusal} && defined $log->{monitor};
	end_of_list($log) if $status == 33 && !$log->{headers};
	return if $status == 0 && leaves_by_itself($log);
	verdict(4, 'the guest reset or powered off: a triple fault, unless -a said end=reboot or '
		. 'end=poweroff; ' . progress($log)) if $status == 0;
	verdict(4, strange_status($status) . '; ' . progress($log)) unless exists $rc_of_status{$status};
}

# QEMU ended by itself, or was ended.
sub judge_qemu {
	my ($status, $words) = @_;
	verdict(2, "QEMU was stopped from outside: $words") if $words =~ /terminating on signal/;
	verdict(2, "QEMU was killed by signal $1: $words") if $status =~ /^signal:(\d+)$/;
	verdict(2, "QEMU could not run: $words") if $status == 1 || $status == 126 || $status == 127;
	verdict(2, 'QEMU was killed by signal ' . ($status - 128) . ": $words") if $status >= 128 && $status % 2 == 0;
}

# isa-debug-exit makes 2n + 1 of the guest's n. A shell says of a process that was killed 128 and the signal.
sub strange_status {
	my ($status) = @_;
	return "exit status $status is none of Spoor's" . ($status % 2 ? sprintf(': the guest wrote %XH to port F4H', $status >> 1) : '')
		. ($status > 128 ? ', or a wrapper of QEMU says signal ' . ($status - 128) : '');
}

# Returns as judge_log(), for a guest that is a Linux: its own last words decide, or the value that it writes to
# isa-debug-exit.
sub judge_linux {
	my ($log, %how) = @_;
	my $status = $how{status};
	my $words = ($how{errors} // [])->[-1] // 'it said nothing';
	my @lines = grep { /\S/ } map { s/\e\[[0-?]*[ -\/]*[\@-~]|[^ -~]//gr } @{$log->{lines}};
	my $last = 'the last line: ' . ($lines[-1] // 'none');
	my ($panic) = map { /\b(Kernel panic - .*)/ } @lines;
	my ($monitor) = grep { /^# monitor: / } reverse @lines;
	# After these words of Linux there are at most those of ACPI.
	my ($end) = grep { !/^# monitor: |^(?:\[ *[\d.]+\] )?(?:ACPI: |acpi_power_off called$)/ } reverse @lines;

	eval {
		verdict(130, "interrupted; $last") if $status eq 'interrupt';
		verdict(4, "the guest panicked: $panic") if defined $panic;
		verdict(124, "$last; raise it with -T or TIMEOUT_SCALE") if $status eq 'timeout';
		judge_qemu($status, $words);
		verdict($status == 37 ? 2 : 4, $monitor =~ s/^# //r)
			if $status =~ /^(?:37|41)$/ && ($lines[-1] // '') eq ($monitor // '-');
		verdict($rc_of_status{$status}, sprintf('the guest wrote %XH to port F4H', $status >> 1))
			if exists $rc_of_status{$status};
		verdict(4, strange_status($status) . "; $last") if $status;
		verdict(0, 'the guest powered off') if ($end // '') =~ /(?:^|\[ *[\d.]+\] )reboot: Power down$/;
		verdict(4, "the guest reset the machine; $last");
	};
	die $@ unless ref $@;
	return ($@->{code}, $@->{why}, $@->{word} // verdict_word($@->{code}));
}

# True if the kernel was asked to end without QEMU's exit value.
sub leaves_by_itself {
	my ($log) = @_;
	my ($end) = ($log->{banner}{command_line} // '') =~ /.*\bend=(\w+)/ or return 0;
	return @{$log->{done}} && $end =~ /^(?:reboot|poweroff)$/;
}

# vbts=list and the like: what was asked for is there, and nothing else.
sub end_of_list {
	my ($log) = @_;
	my ($first) = grep { $log->{lines}[$_] =~ /^# monitor: Spoor / } 0 .. $#{$log->{lines}};
	return if defined $log->{excess} || defined $log->{cut} || defined $log->{early} || !defined $first
		|| $log->{lines}[-1] ne '# monitor: that is all; nothing was booted'
		|| grep { !/^(?:# monitor: .*)?$/ } @{$log->{lines}}[$first .. $#{$log->{lines}}];
	verdict(0, 'nothing was booted', 'listed');
}

sub progress {
	my ($log) = @_;
	return 'the kernel did not reach its tests: no KTAP header; the last line: '
		. ($log->{lines}[-1] // 'none') unless $log->{headers};
	my $plan = $log->{plans}[0] // '?';
	my @results = @{$log->{results}};
	return "none of $plan results came" unless @results;
	return scalar(@results) . " of $plan results came, the last: $results[-1]{line}";
}

sub incomplete {
	verdict(4, shift() . '; read the log, nothing in it can be relied on');
}

# Banner, header, plan, every number once and in order, DONE: each exactly once, in one boot.
sub judge_whole {
	my ($log) = @_;
	my @results = @{$log->{results}};
	verdict(4, "the guest panicked: $log->{panic}") if defined $log->{panic};
	incomplete($log->{excess}) if defined $log->{excess};
	incomplete('the log is empty') unless @{$log->{lines}};
	incomplete("more than one boot in the log: the banner came $log->{banners} times, the KTAP header "
		. "$log->{headers} times") if $log->{headers} > 1 || $log->{banners} > 1;
	judge_refusal($log) if defined $log->{refusal};
	incomplete("the banner has $log->{twice}= twice") if defined $log->{twice};
	incomplete(progress($log)) unless $log->{headers};
	incomplete('there is no banner') unless $log->{banners};
	incomplete("the last line was cut: $log->{cut}") if defined $log->{cut} && @{$log->{plans}};
	incomplete("a result before the KTAP header: $log->{early}") if defined $log->{early};
	incomplete('there is no plan') unless @{$log->{plans}};
	incomplete($log->{strange}) if defined $log->{strange};
	incomplete('more than one plan: ' . join(', ', map { "1..$_" } @{$log->{plans}}))
		if @{$log->{plans}} > 1;
	incomplete('no DONE line; ' . progress($log)) unless @{$log->{done}};
	incomplete('more than one DONE line') if @{$log->{done}} > 1;
	incomplete("a line after the DONE line: $log->{late}") if defined $log->{late};
	for my $at (1 .. @results) {
		my $result = $results[$at - 1];
		incomplete("result $at expected, but this came: $result->{line}") if $result->{number} != $at;
	}
	my $plan = $log->{plans}[0];
	incomplete('plan 1..' . $plan . ', but ' . scalar(@results) . ' results') if $plan != @results;
	my ($differs) = grep { /^# monitor: .*\bdifferences=(?!0\b)/ } @{$log->{lines}};
	incomplete("the interpreter differs from the processor: $differs") if defined $differs;
}

# The kernel says why it does not come as far as a test.
sub judge_refusal {
	my ($log) = @_;
	my ($done) = @{$log->{done}};
	incomplete("a refusal and a header: $log->{refusal}") if $log->{headers};
	incomplete("refused, and no DONE line with rc=2: $log->{refusal}")
		unless @{$log->{done}} == 1 && $done->{rc} == 2;
	verdict(2, $log->{refusal});
}

sub judge_list {
	my ($log) = @_;
	incomplete('a list was asked for, but tests ran') if @{$log->{results}};
	verdict(2, 'no test has such a name or group') unless @{$log->{tests}};
}

# Banner, results, DONE line and exit status have to tell the same story.
sub judge_counts {
	my ($log, %how) = @_;
	my %done = %{$log->{done}[0]};
	my @results = @{$log->{results}};
	my $status = $how{status};
	my %count = map { $_ => 0 } @kinds;
	$count{$_->{kind}}++ for @results;

	for my $key (@kinds) {
		incomplete("DONE says $key=$done{$key}, but the results say $count{$key}")
			if $done{$key} != $count{$key};
	}
	my $slow = grep { $_->{line} =~ / # SKIP too slow: / } @results;
	incomplete("DONE says slow=$done{slow}, but the results say $slow") if ($done{slow} // $slow) != $slow;
	my $restarts = $done{restarts} // 0;
	incomplete("DONE says restarts=$restarts, but the log has $log->{restarts}") if $restarts != $log->{restarts} && !$log->{of_code};
	incomplete("DONE says restarts=$restarts, but only $count{error} results are in error") if $restarts > $count{error};
	my $silicon = $log->{banner}{silicon} // '';
	incomplete("DONE says silicon=$done{silicon}, but the banner says silicon=$silicon")
		if $done{silicon} ne $silicon;
	judge_rehearsal($log, %done);
	judge_silicon($silicon, $log->{banner}{hypervisor});
	judge_required($log);
	my $fault = unit_fault($log);
	incomplete($fault) if defined $fault;
	my $rc = $done{rc};
	incomplete("DONE says rc=$rc, but the exit status $status says rc=$rc_of_status{$status}")
		if $status && $rc != $rc_of_status{$status};
	my $due = $count{fail} ? '1' : $count{error} ? '2'
		: @results && $count{skip} == @results ? '3' : '[03]';
	incomplete("DONE says rc=$rc, which its own counts contradict") unless $rc =~ /^$due$/;
	incomplete("$log->{bail_out}, but DONE says rc=$rc") if defined $log->{bail_out} && $rc != 3;

	verdict(0) if $how{list};
	incomplete("DONE says rc=$rc with silicon=none: where there is no trace unit no test of one ran")
		if $silicon eq 'none' && $rc == 0 && @results && ($done{units} // 'bts') =~ /\b(?:bts|pebs|lbr|pt)\b/;
	judge_absence(@results) if $silicon eq 'none';
	verdict(2, 'no test ran: the plan is 1..0; -t or the words given match none') unless @results;
	my $observations = grep { /^# obs / } map { @{$_->{notes}} } @results;
	my $summary = join(', ', (map { "$count{$_} $_" } grep { $count{$_} } @kinds),
		$observations ? "$observations observation" . ($observations > 1 && 's') : (), "silicon=$silicon")
		. ($done{rehearsal} ? ': a rehearsal on virtual silicon, no chip was tested'
			: $silicon eq 'virtual' ? ': no chip was tested' : '')
		. (defined $done{units} ? "; the run was for units=$done{units}" : '');
	verdict($rc, $summary . advice($log, $rc, $how{again}));
}

# The hypervisor that the banner names, nothing on a bare machine, is one of this silicon.
sub judge_silicon {
	my ($silicon, $hypervisor) = @_;
	return unless defined $hypervisor;
	incomplete(qq{the banner says silicon=$silicon hypervisor="$hypervisor"}) if $silicon eq 'native' && $hypervisor ne ''
		|| $silicon eq 'guest' && $hypervisor eq '' || $silicon eq 'virtual' && $hypervisor ne 'SpoorMonitor';
}

# Where there is no trace unit, of the tests of one only those of its absence, which their names tell, can pass; figures of
# single-stepping need none, nor do samples at a counter's interrupt.
sub judge_absence {
	my ($pass) = grep { $_->{kind} eq 'pass' && $_->{name} =~ /^(?:bts|pebs|pt|samples)_/
		&& $_->{name} !~ /_(?:absent|bench_stepper|enumerated|interrupt_counts|refused|refuses|reported)(?:_|$)/ } @_;
	incomplete("the banner says silicon=none, no trace unit, but: $pass->{line}") if defined $pass;
}

# A test that require= names has no skip: the kernel makes a FAIL of it.
sub judge_required {
	my ($log) = @_;
	my ($globs) = ($log->{banner}{command_line} // '') =~ /.*(?:^| )require=(\S*)/ or return;
	my ($skip) = grep { $_->{kind} eq 'skip' && in_globs($_->{name}, $globs =~ tr/"//dr) } @{$log->{results}};
	incomplete("the banner says require=$globs, but: $skip->{line}") if defined $skip;
}

# The globs of the kernel's command line: those that begin with - leave out, and without any other all are taken.
sub in_globs {
	my ($name, $globs) = @_;
	my (@out, @in);
	for my $glob (grep { length } split /,/, $globs) {
		my $out = $glob =~ s/^-//;
		push @{$out ? \@out : \@in}, pattern_of($glob);
	}
	return (@out || @in) && !grep({ $name =~ $_ } @out) && (!@in || grep { $name =~ $_ } @in);
}

# What is between two stars is taken where it is first, and there only: other places would take exponential time.
sub pattern_of {
	my ($glob) = @_;
	my ($first, @rest) = map { join('', map { $_ eq '?' ? '.' : quotemeta } split //) } split /\*+/, $glob, -1;
	my $last = pop @rest // return qr/^$first$/;
	return qr/^$first@{[join '', map { "(?>.*?$_)" } @rest]}.*$last$/;
}

# A rehearsal shows another hypervisor's guest on virtual silicon: its log must say so everywhere,
# and no other log anywhere.
sub judge_rehearsal {
	my ($log, %done) = @_;
	my $mark = defined $done{rehearsal};
	my $banner = ($log->{banner}{rehearsal} // '') eq 'yes';
	my $own = $log->{own_guest} // (($log->{banner}{hypervisor} // '') eq 'SpoorMonitor'
		? 'the banner says hypervisor="SpoorMonitor"' : undef);
	my $silicon = "silicon=$done{silicon}";
	incomplete("DONE says $silicon, a rehearsal: that is a hypervisor's guest, or has no BTS")
		if $mark && $done{silicon} !~ /^(?:guest|none)$/;
	incomplete('of banner and DONE line only one says rehearsal=yes') if $mark != $banner;
	incomplete("DONE says $silicon without rehearsal=yes, but: $log->{presented}")
		if !$mark && defined $log->{presented};
	incomplete("DONE says $silicon rehearsal=yes, but the monitor presents no hypervisor")
		if $mark && $log->{monitor_ran} && !defined $log->{presented};
	incomplete("DONE says $silicon, but: $own")
		if !$mark && defined $own && $done{silicon} =~ /^(?:guest|native)$/;
}

sub advice {
	my ($log, $rc, $options) = @_;
	my @results = @{$log->{results}};
	my $kind = (undef, 'fail', 'error')[$rc];
	my $units = $log->{done}[0]{units};
	my %named = map { $_ => 1 } split /,/, $units // '';
	my @untested = map { $named{$_->{name}} && $_->{rc} ? $_->{name} : () } @{$log->{units}};
	my $untested = defined $units ? "not tested: @untested" : $log->{done}[0]{silicon} eq 'none' || defined $log->{bail_out}
		? 'nothing that needs a branch trace ran' : 'BTS was not tested';
	@results = grep { my $unit = unit_of($_->{name}); grep { $unit eq $_ } @untested } @results if $rc == 3 && @untested;
	return "; $untested" . join('', map { ": $_->[1]" } (skip_reasons(@results))[0]) if $rc == 3;
	return '' unless $kind;
	my ($first) = grep { $_->{kind} eq $kind } @results;
	my ($again) = map { /^# again: run-qemu\.sh (.*)/ } @{$first->{notes}};
	my ($lacks) = map { /^# required, but skipped: (.*)/ ? "; it lacks: $1" : () } @{$first->{notes}};
	return "; first: $first->{line}" . ($lacks // '') . '; again: ./run-qemu.sh '
		. ($again // "-t $first->{name}") . ($options ? " $options" : '');
}

# Returns [times, reason] of each reason why tests were skipped, the most frequent first.
sub skip_reasons {
	my %times;
	$times{$_}++ for map { $_->{line} =~ / # SKIP (.*)/ } @_;
	return map { [$times{$_}, $_] } sort { $times{$b} <=> $times{$a} || $a cmp $b } keys %times;
}

1;
