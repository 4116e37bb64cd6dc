#!/usr/bin/perl
# SPDX-License-Identifier: MIT
#
# browser.pl [SCREENSHOT.png]: opens what `view html` makes in Chromium without a network, by WebDriver, clicks, and
# compares with `view stats` and `view calls`; prints TAP. A part of `make check-view`.
# browser.pl --open PAGE [SCREENSHOT.png]: prints how many seconds it takes until the calls are shown, and how many of CPU. In the
# screenshot a call is chosen: the third from above, where a third of the time has passed.
use strict;
use warnings;
use File::Temp 'tempdir';
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use Time::HiRes qw(sleep time);

use constant PATIENCE => 300; # seconds
use constant OUTERMOST => 153; # pixels from the viewer's edge to the row of the outermost call
use constant CALL => 20; # from one row to the next

chdir(($0 =~ m{(.*)/})[0] . '/../../..') or die "browser: $!\n";
die "browser: there is no chromedriver: make deps FOR=check-view\n" unless grep { -x "$_/chromedriver" } split /:/, $ENV{PATH};
for (qw(view view-test/test_stack view-test/stepped)) {
	die "browser: there is no build/$_: make check-view\n" unless ($ARGV[0] // '') eq '--open' || -x "build/$_";
}
my $scratch = tempdir(CLEANUP => 1);
my $http = HTTP::Tiny->new(timeout => PATIENCE);
my ($driver, $base) = (0, '');
my ($number, $failed) = (0, 0);

start_driver();
if (($ARGV[0] // '') eq '--open') {
	die "usage: browser.pl --open PAGE [SCREENSHOT.png]\n" unless defined $ARGV[1];
	my ($began, $used) = (time, processor_seconds());
	open_page($ARGV[1]);
	my $took = time - $began;
	$used = processor_seconds() - $used;
	if ($ARGV[2]) {
		point(calls_at(1 / 3, OUTERMOST + 2 * CALL));
		# Of a canvas with WebGL Chromium leaves out what an opaque part hides, upside down where it has no GPU.
		run(q{element('calls').contentDocument.querySelectorAll('div').forEach(one => {
			if (getComputedStyle(one).backgroundColor == 'rgb(255, 255, 255)')
				one.style.opacity = 0.99;
		})});
		sleep 1;
		screenshot($ARGV[2]);
	}
	stop_driver();
	printf "%.1f %.1f\n", $took, $used;
	exit 0;
}
check();
exit($failed ? 1 : 0);

END {
	local $?;
	stop_driver();
}

# Of the browser and all its processes, so far.
sub processor_seconds {
	my (%parent, %ticks);
	for my $stat (glob '/proc/[0-9]*/stat') {
		open(my $in, '<', $stat) or next;
		my ($pid, $rest) = (<$in> // '') =~ /^(\d+) .*\) (.*)/s or next;
		my @field = split ' ', $rest;
		$parent{$pid} = $field[1];
		$ticks{$pid} = $field[11] + $field[12] + $field[13] + $field[14]; # utime, stime, and those of children that ended
	}
	my $sum = 0;
	for my $pid (keys %ticks) {
		my $of = $pid;
		$of = $parent{$of} while $parent{$of} && $of != $driver;
		$sum += $ticks{$pid} if $of == $driver;
	}
	return $sum / 100;
}

sub stop_driver {
	return unless $driver;
	eval { ask('DELETE', '') } if $base =~ /session/;
	kill 'TERM', $driver;
	waitpid $driver, 0;
	$driver = 0;
}

# With a port that nothing listens on; the browser resolves no name.
sub start_driver {
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "browser: $!\n";
	my $port = $socket->sockport;
	close($socket);
	$driver = fork // die "browser: $!\n";
	if (!$driver) {
		open(STDOUT, '>', "$scratch/driver.log");
		open(STDERR, '>&', \*STDOUT);
		exec 'chromedriver', "--port=$port";
		exit 127;
	}
	$base = "http://127.0.0.1:$port";
	for (1 .. 200) {
		last if eval { ask('GET', '/status') };
		sleep 0.1;
	}
	my $session = ask('POST', '/session', {capabilities => {alwaysMatch => {
		'goog:loggingPrefs' => {browser => 'ALL'},
		timeouts => {pageLoad => 1000 * PATIENCE, script => 1000 * PATIENCE},
		'goog:chromeOptions' => {args => ['--headless=new', '--no-sandbox', '--enable-unsafe-swiftshader', '--window-size=1280,900',
			'--host-resolver-rules=MAP * ~NOTFOUND']}}}});
	$base .= "/session/$session->{sessionId}";
}

sub ask {
	my ($method, $path, $body) = @_;
	my $answer = $http->request($method, "$base$path",
		{headers => {'content-type' => 'application/json'}, content => $body ? encode_json($body) : ''});
	die "browser: $path: $answer->{status} " . substr($answer->{content}, 0, 500) . "\n" unless $answer->{success};
	return decode_json($answer->{content})->{value};
}

sub run {
	my ($script) = @_;
	return ask('POST', '/execute/sync', {script => "return $script", args => []});
}

# Until the viewer has the calls of a stream on the screen.
sub wait_shown {
	for (1 .. 10 * PATIENCE) {
		my $shown = run('document.body.dataset.shown');
		return $shown if $shown;
		sleep 0.1;
	}
	die "browser: the calls are not shown\n";
}

sub open_page {
	my ($page) = @_;
	my $path = $page =~ m{^/} ? $page : `pwd` =~ s/\n/\/$page/r;
	ask('POST', '/url', {url => "file://$path"});
	return wait_shown();
}

sub click {
	my ($using, $value) = @_;
	my $element = ask('POST', '/element', {using => $using, value => $value});
	ask('POST', '/element/' . (values %$element)[0] . '/click', {});
}

sub screenshot {
	my ($file) = @_;
	my $png = decode_base64(ask('GET', '/screenshot'));
	open(my $out, '>:raw', $file) or die "browser: $file: $!\n";
	print $out $png;
	close($out) or die "browser: $file: $!\n";
	return length $png;
}

sub result {
	my ($right, $claim) = @_;
	$number++;
	$failed++ unless $right;
	print $right ? '' : 'not ', "ok $number browser: $claim\n";
	return $right;
}

sub view {
	return scalar qx{build/view @_ 2>/dev/null};
}

# How many colours the screen has where the calls are.
sub colours {
	return ask('POST', '/execute/async', {args => [ask('GET', '/screenshot')], script => q{
		const [png, done] = arguments, image = new Image(), calls = document.getElementById('calls').getBoundingClientRect();
		image.onload = () => {
			const copy = document.createElement('canvas'), pen = copy.getContext('2d');
			copy.width = image.width;
			copy.height = image.height - calls.top - 100;
			pen.drawImage(image, 0, -calls.top - 100);
			done(new Set(new Uint32Array(pen.getImageData(0, 0, copy.width, copy.height).data.buffer)).size);
		};
		image.src = 'data:image/png;base64,' + png;}});
}

sub check {
	my ($page, $trace) = ("$scratch/page.html", "$scratch/trace.spt");
	my $program = '-p build/view-test/stepped';
	$| = 1;
	print "1..14\n";
	qx{build/view-test/test_stack build/view-test/stepped $trace $scratch/records $scratch/counts};
	view("html $program -o $page $trace");
	my $shown = open_page($page);
	result($shown eq 'task 1 (stepped)' && -s "$scratch/records" > 0, 'the page shows the calls of its task without a network');

	my @cells = @{run(q{Array.from(document.querySelectorAll('#streams tbody td'), cell => cell.textContent.replace(/\D/g, ''))})};
	my ($branches, $predicted) = view("stats $program $trace") =~ /(\d+) branches, \d+ instructions, (\d+) predicted/;
	my ($walked, $events, $tails, $unwound) = view("calls $program $trace") =~ /(\d+)[^,\n]*\n[^\n]*?: (\d+) events, (\d+) tail calls, (\d+) unwound/;
	result($cells[1] == $branches && $cells[4] == $predicted && $cells[5] == $events && $cells[6] == $tails && $cells[7] == $unwound,
		'its counters are those of stats and calls');

	ask('POST', '/frame', {id => 0});
	click('xpath', '//*[contains(text(), "Sandwich")]');
	sleep 1;
	my $text = run('document.body.innerText');
	my %own;
	for (split /\n/, view("calls $program $trace")) {
		$own{$3} += $2 - $1 + 1 if /^. +(\d+),(\d+) +(\S+)/;
	}
	my ($hottest) = sort { $own{$b} <=> $own{$a} } keys %own;
	my $figure = reverse(reverse($own{$hottest}) =~ s/(\d{3})(?=\d)/$1,/gr);
	result($text =~ /\b\Q$figure\E\b/ && $text =~ /\b\Q$hottest\E\b/, "a click shows the functions: $hottest has $figure instructions, as calls says");

	click('xpath', '//tr[td[contains(., "descend")]]');
	ask('POST', '/frame', {id => undef});
	code_is('descend', 'a click on a function');
	ask('POST', '/frame', {id => 0});
	click('xpath', '//*[contains(text(), "Left Heavy")]');
	sleep 1;
	ask('POST', '/frame', {id => undef});
	my $colours = colours();
	result($colours > 20, "a click shows the call tree, in $colours colours");

	my @errors = grep { $_->{level} eq 'SEVERE' && $_->{message} !~ m{^file:///none } } @{ask('POST', '/se/log', {type => 'browser'})};
	result(!@errors, 'the browser reports no error') or print map { "# $_->{message}\n" } @errors;

	open_page($page);
	point(calls_at(0.5, OUTERMOST));
	code_is('_start', 'a click on the outermost call in the order of time');
	zoomed();
	narrow($page);
	two_streams($ARGV[0] // "$scratch/two.png");
	many_tasks();
}

# A place in the calls in the order of time, `across` from left to right.
sub calls_at {
	my ($across, $down) = @_;
	return map { int } @{run("(at => [at.left + $across * at.width, at.top + $down])(element('calls').getBoundingClientRect())")};
}

# Presses the button at a place; with `$to` lets go of it there.
sub point {
	my ($x, $y, $to) = @_;
	my @moved = defined $to ? {type => 'pointerMove', duration => 100, x => int $to, y => int $y} : ();
	ask('POST', '/actions', {actions => [{type => 'pointer', id => 'mouse', parameters => {pointerType => 'mouse'}, actions => [
		{type => 'pointerMove', duration => 0, x => int $x, y => int $y}, {type => 'pause', duration => 200},
		{type => 'pointerDown', button => 0}, @moved, {type => 'pointerUp', button => 0}]}]});
	sleep 1;
}

# Whether each instruction of `name` that is shown ran as often as single steps say, all that ran are, and each line is as
# often as that one of its instructions which ran most often.
sub code_is {
	my ($name, $click) = @_;
	my ($start, $size) = map { hex } qx{nm -S build/view-test/stepped} =~ /^([0-9a-f]+) ([0-9a-f]+) . \Q$name\E$/m;
	my (%ran, %shown, %line, %times);
	open(my $counts, '<', "$scratch/counts") or die "browser: $!\n";
	while (<$counts>) {
		my ($address, $count) = /^(\S+) (\d+)/;
		$ran{hex($address) - $start} = $count if hex $address >= $start && hex $address < $start + $size;
	}
	my $rows = run(q{Array.from(document.querySelectorAll('#columns tr[data-key]'), row => [row.dataset.key, ...Array.from(row.cells, cell => cell.innerText)])});
	for (@$rows) {
		my ($key, $times, $place) = @$_;
		$times = $times =~ s/\D//gr || 0;
		$place =~ /^\+0x(.*)/ or $line{$key} = $times, next;
		$shown{hex $1} = $times if $times;
		$times{$key} = $times if $times > ($times{$key} // -1);
	}
	my $head = run(q{document.querySelector('#code h2').innerText});
	my $same = keys %ran && keys %ran == keys %shown && !grep { $ran{$_} != ($shown{$_} // 0) } keys %ran;
	my @wrong = grep { $_ ne '' && $line{$_} != ($times{$_} // -1) } keys %line;
	result($head =~ /\Q$name\E: / && $same && !@wrong, "$click shows how often each line and instruction of $name ran: " . keys(%ran) . ' of them');
}

# Where calls are too short to be objects, as in a page of many, a zoom makes each that takes time in that part.
sub zoomed {
	my ($before, $all, $same, $summed) = @{run(q{(() => {
		const open = [], every = [], found = [];
		seen.all((node, at) => open.push([node.frame.name, at]), (node, at) => every.push([...open.pop(), at]));
		// It begins within a call that is short.
		const [, begin] = every.find(([, start, end]) => start > 0.4 * seen.end && end - start > 2 && end - start < 12);
		const [from, to] = [begin + 1, begin + 0.05 * seen.end];
		const visit = call => {
			if (call.end > from && call.start < to)
				found.push([call.frame < 0 ? 'short' : seen.frames[call.frame].name, call.start, call.end].join());
			call.children.forEach(visit);
		};
		seen.least = seen.end / 8;
		seen.find(seen.least);
		seen.roots.forEach(visit);
		const before = found.splice(0).length;
		seen.zoom(from, to);
		seen.roots.forEach(visit);
		const each = every.filter(([, start, end]) => end > from && start < to && end > start).map(call => call.join());
		const summed = node => node.children.reduce((sum, child) => sum + child.totalWeight, node.selfWeight) == node.totalWeight &&
			node.children.every(summed);
		const {groupedCalltreeRoot: tree} = seen.profile, total = tree.children.reduce((sum, child) => sum + child.totalWeight, tree.selfWeight);
		return [before, each.length, each.sort().join() == found.sort().join(), tree.children.every(summed) && total == seen.end];
	})()})};
	result($before < $all && $all > 100 && $same, "a zoom finds each of $all calls, of which $before are objects before");
	result($summed, 'what a call of the tree takes is its own and that of those in it');
}

# A screen of 390 pixels: nothing is wider, what is clicked is not covered, code is above the calls until it is closed.
sub narrow {
	my ($page) = @_;
	my $metrics = sub { ask('POST', '/goog/cdp/execute', {cmd => "Emulation.$_[0]DeviceMetricsOverride", params => $_[1]}) };
	$metrics->('set', {width => 390, height => 844, deviceScaleFactor => 1, mobile => JSON::PP::true});
	open_page($page);
	my $fits = run('document.documentElement.scrollWidth <= 390 && innerWidth == 390');
	my $tabs = run(q{['Time Order', 'Left Heavy', 'Sandwich'].filter(name => {
		const its = element('calls').contentDocument, tab = Array.from(its.querySelectorAll('div')).findLast(one => one.innerText.endsWith(name));
		const at = tab.getBoundingClientRect(), there = its.elementFromPoint((at.left + at.right) / 2, (at.top + at.bottom) / 2);
		return at.right <= 390 && (tab.contains(there) || there.contains(tab) && there.innerText == tab.innerText);
	}).length});
	point(calls_at(0.5, OUTERMOST));
	my $visible = q{(at => at.bottom <= innerHeight && at.right <= 390 && at.width > 20 && at.height > 10)(document.querySelector('#code button').getBoundingClientRect())};
	my $opened = run($visible);
	my $lines = run(q{document.querySelectorAll('#columns tr').length});
	click('css selector', '#code button');
	my $closed = !run($visible);
	$metrics->('clear', {});
	result($fits && $tabs == 3 && $opened && $lines > 5 && $closed, "at 390 pixels nothing is wider, and calls and code can be clicked");
}

# A stay that is clicked is the part that the calls show; where these show another part, so do the lanes.
sub linked {
	my ($left, $top, $x, $row, $start, $finish) = @{run(q{(() => {
		const stay = streams[chosen].stays.reduce((a, b) => b.finish - b.start > a.finish - a.start ? b : a);
		const lanes = element('timeline').getBoundingClientRect();
		return [lanes.left, lanes.top, xOf((stay.from + stay.to) / 2), rows.findIndex(row => row.stays.includes(stay)), stay.start, stay.finish];
	})()})};
	point($left + $x, $top + 18 * $row + 9);
	my ($from, $to, $whole) = @{run('[calls.origin.x, calls.origin.x + calls.size.x, shown[1] - shown[0] >= total]')};
	my $near = 0.02 * ($finish - $start) + 2;
	result($finish > $start && !$whole && abs($from - $start) < $near && abs($to - $finish) < $near,
		"a stay of @{[int($finish - $start)]} instructions that is clicked is what the calls show");
	point(calls_at(0.5, OUTERMOST));
	ask('POST', '/frame', {id => 0});
	ask('POST', '/actions', {actions => [{type => 'key', id => 'keys', actions => [map { {type => $_, value => '0'} } 'keyDown', 'keyUp']}]});
	sleep 1;
	ask('POST', '/frame', {id => undef});
	my ($all, $lanes) = @{run('[calls.size.x >= streams[chosen].end, shown[0] == 0 && shown[1] == total]')};
	result($all && $lanes, 'where the calls show all again, so do the lanes');
}

# The tasks of a timeline that is as high as it can be; the others are counted.
sub many_tasks {
	my $used = processor_seconds();
	qx{tools/view/tests/hostile.sh --page $scratch/many.html 2>/dev/null};
	open_page("$scratch/many.html");
	my ($rows, $last) = @{run('[rows.length, rows[rows.length - 1].name]')};
	$used = processor_seconds() - $used;
	result($rows == 901 && $last eq 'and 53401 tasks more' && $used <= 20, "54,300 tasks on one CPU, after $used s of CPU");
}

# A second task, chosen by a click, and a screenshot with more than a blank page.
sub two_streams {
	my ($png) = @_;
	qx{./run-qemu.sh -q -s 2 -l $scratch/log --trace $scratch/two.spt -t user_hello -a 'trace=cpus trace_size=400000'};
	view("html -o $scratch/two.html $scratch/two.spt");
	my $first = open_page("$scratch/two.html");
	my ($other) = grep { $_ ne $first } ('CPU 0', 'CPU 1');
	click('xpath', "//tr[td[text()='$other']]");
	my $second = wait_shown();
	my $rows = run('rows.map(row => row.name).join()');
	result($second eq $other && $rows =~ /CPU 0,CPU 1,task/ && screenshot($png) > 20_000, "a click shows the calls of $other; CPUs and tasks have rows");
	linked();
}
