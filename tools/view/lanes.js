// SPDX-License-Identifier: MIT
// The page of `view html`: lanes of CPUs and tasks, and what they have to do with its calls.
'use strict';

// Time: which task ran on which CPU, by the stamps of the scheduler. Times are ticks since the first of them.
const TASK = 18, MOST_ROWS = 900; // a canvas has at most 32767 pixels of a screen
const MOST_MARKS = 100000; // of gaps
let rows = [], total = 0, shown = [0, 0]; // what part of the time is drawn
const colour = id => `hsl(${id * 137.5 % 360} 60% ${id ? 65 : 85}%)`;

// A stay of a task on a CPU: from its arrival to its departure, in time, in instructions, and on the axis of its calls.
function staysOf(stream, begin)
{
	const stays = [];
	let open = null;
	for (const [tsc, cpu, task, arrives, at, place] of stream.stamps) {
		const time = Number(BigInt(tsc) - begin);
		if (open)
			stays.push({...open, to: time, last: at, finish: place});
		open = arrives ? {of: stream, cpu, task, from: time, first: at, start: place} : null;
	}
	if (open)
		stays.push({...open, to: total, last: stream.instructions, finish: stream.end});
	return stays;
}

// By key, the lowest first.
function groupsOf(stays, keyOf)
{
	const groups = new Map();
	for (const stay of stays) {
		const key = keyOf(stay);
		if (!groups.has(key))
			groups.set(key, []);
		groups.get(key).push(stay);
	}
	return [...groups].sort(([a], [b]) => a - b);
}

function makeRows()
{
	const times = streams.flatMap(stream => stream.stamps.map(stamp => BigInt(stamp[0])));
	if (!times.length)
		return;
	const begin = times.reduce((a, b) => a < b ? a : b);
	total = Number(times.reduce((a, b) => a > b ? a : b) - begin);
	shown = [0, total];
	const names = new Map(about.names);
	streams.forEach(stream => stream.stays = staysOf(stream, begin));
	const stays = streams.flatMap(stream => stream.stays);
	for (const [cpu, its] of groupsOf(stays, stay => stay.cpu))
		rows.push({name: `CPU ${cpu}`, colourOf: stay => colour(stay.task), stays: its});
	for (const [task, its] of groupsOf(stays, stay => stay.task))
		rows.push({name: names.get(task) || `task ${task}`, colourOf: stay => colour(stay.cpu * 3 + 1), stays: its});
	if (rows.length > MOST_ROWS) {
		const more = rows.length - MOST_ROWS;
		rows.length = MOST_ROWS;
		rows.push({name: `and ${more} tasks more`, stays: []});
	}
}

const left = () => Math.min(170, element('timeline').clientWidth / 4); // of the lanes: names are there
const lane = () => element('timeline').clientWidth - left() - 10;
const xOf = time => left() + (time - shown[0]) * lane() / Math.max(1, shown[1] - shown[0]);
const timeAt = x => shown[0] + Math.min(1, Math.max(0, (x - left()) / lane())) * (shown[1] - shown[0]);

// With as many digits as tell two places of the axis apart.
function timeText(ticks)
{
	if (!about.tsc_hz)
		return `${grouped(Math.round(ticks))} ticks`;
	const pixel = (shown[1] - shown[0]) * 1000 / about.tsc_hz / 500;
	return `${(ticks * 1000 / about.tsc_hz).toFixed(Math.min(6, Math.max(3, Math.ceil(-Math.log10(pixel || 1)))))} ms`;
}

// Where the gaps of a stay are: those of a stream are in the order of their positions.
function gapsIn(stay, most)
{
	const gaps = stay.of.gap_list, found = [];
	let low = 0, high = gaps.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (gaps[middle][0] < stay.first)
			low = middle + 1;
		else
			high = middle;
	}
	for (; found.length < most && low < gaps.length && gaps[low][0] <= stay.last; low++)
		found.push(gaps[low][0]);
	return found;
}

function drawTimeline()
{
	const canvas = element('timeline'), ratio = devicePixelRatio, pen = canvas.getContext('2d');
	if (!rows.length)
		return;
	canvas.width = canvas.clientWidth * ratio;
	canvas.height = (rows.length + 1) * TASK * ratio;
	canvas.style.height = `${(rows.length + 1) * TASK}px`;
	pen.scale(ratio, ratio);
	pen.font = '12px sans-serif';
	let marks = MOST_MARKS;
	const edge = left();
	rows.forEach((row, at) => {
		for (const stay of row.stays) {
			const from = Math.max(edge, xOf(stay.from)), to = Math.min(edge + lane(), xOf(stay.to));
			if (to < edge || from > edge + lane())
				continue;
			pen.fillStyle = row.colourOf(stay);
			pen.globalAlpha = stay.of == streams[chosen] ? 1 : 0.45;
			pen.fillRect(from, at * TASK + 2, Math.max(1, to - from), TASK - 4);
			pen.globalAlpha = 1;
			pen.fillStyle = '#b00';
			const gaps = gapsIn(stay, marks);
			marks -= gaps.length;
			for (const position of gaps) {
				const x = xOf(stay.from + (stay.to - stay.from) * (position - stay.first) / Math.max(1, stay.last - stay.first));
				if (x >= edge && x <= edge + lane())
					pen.fillRect(x, at * TASK, 2, TASK);
			}
		}
		pen.fillStyle = '#222';
		pen.fillText(row.name, 0, (at + 0.75) * TASK, edge - 8);
	});
	pen.fillStyle = '#666';
	const ticks = Math.max(2, Math.min(8, Math.floor(lane() / 100)));
	for (let tick = 0; tick <= ticks; tick++) {
		const x = edge + tick * lane() / ticks;
		pen.fillRect(x, 0, 0.5, rows.length * TASK);
		pen.textAlign = tick == ticks ? 'right' : 'center';
		pen.fillText(timeText(shown[0] + (shown[1] - shown[0]) * tick / ticks), x, (rows.length + 0.75) * TASK);
	}
}

// Lanes and calls show the same part: `calls` is that of the calls in the order of time, `store` is speedscope's.
let calls = null, store = null, wanted = null;

// When the chosen stream was at `place` of its axis: in a stay, or at the nearer end of one.
function timeOf(place, later)
{
	const stays = streams[chosen].stays;
	const at = stays.findIndex(stay => later ? stay.finish >= place : stay.finish > place), stay = stays[at < 0 ? stays.length - 1 : at];
	const part = Math.min(1, Math.max(0, (place - stay.start) / Math.max(1, stay.finish - stay.start)));
	return stay.from + part * (stay.to - stay.from);
}

// Where the chosen stream was at a time, and between two stays: where the one before ended.
function placeOf(time)
{
	const stays = streams[chosen].stays, stay = stays.findLast(one => one.from <= time) || stays[0];
	const part = Math.min(1, Math.max(0, (time - stay.from) / Math.max(1, stay.to - stay.from)));
	return stay.start + part * (stay.finish - stay.start);
}

// speedscope shows another part of the calls. What this page asked for it may set once more, and narrower.
function callsZoomed(its, rectangle)
{
	const from = rectangle.origin.x, to = from + rectangle.size.x, end = streams[chosen].end;
	store = its;
	calls = rectangle;
	showCalls(from, to);
	if (!(to > from) || !rows.length || !streams[chosen].stays.length)
		return;
	if (wanted && !wanted.asked) {
		setTimeout(zoomCalls, 0);
		return;
	}
	if (wanted && Math.abs(from - wanted.from) + Math.abs(to - wanted.to) <= 0.01 * (to - from) + 4)
		return;
	const before = shown;
	wanted = null;
	shown = from <= 0 && to >= end ? [0, total] : [timeOf(from, false), timeOf(to, true)];
	if (!(shown[1] > shown[0]))
		shown[1] = shown[0] + 1;
	if (shown[0] != before[0] || shown[1] != before[1])
		requestAnimationFrame(drawTimeline);
}

function zoomCalls()
{
	if (!wanted || !calls || wanted.asked)
		return;
	wanted.asked = true;
	const {from, to} = wanted;
	store.setConfigSpaceViewportRect('CHRONO', calls.withOrigin(calls.origin.withX(from)).withSize(calls.size.withX(to - from)));
}

// The lanes show another part, and so do the calls of the chosen stream, where it has some in it.
function zoomTimeline(from, to)
{
	from = Math.max(0, from);
	shown = [from, Math.max(from + Math.min(1, total), Math.min(total, to))];
	drawTimeline();
	if (!streams[chosen].stays.length)
		return;
	const whole = shown[0] <= 0 && shown[1] >= total;
	const part = whole ? [0, streams[chosen].end] : [placeOf(shown[0]), placeOf(shown[1])];
	if (part[1] - part[0] < 1)
		return;
	wanted = {from: part[0], to: part[1], asked: false};
	zoomCalls();
}

function stayAt(event)
{
	const row = rows[Math.floor(event.offsetY / TASK)];
	const near = stay => event.offsetX >= xOf(stay.from) - 1 && event.offsetX <= xOf(stay.to) + 1;
	return row && row.stays.find(near);
}

let dragged = null; // where a pointer went down

element('timeline').onpointerdown = event => { dragged = event.offsetX; };
element('timeline').onpointermove = event => {
	const stay = stayAt(event);
	said.textContent = stay ? `task ${stay.task} on CPU ${stay.cpu}, ${timeText(stay.from)} to ` +
		`${timeText(stay.to)}: instructions ${grouped(stay.first + 1)} to ${grouped(stay.last)} of ${stay.of.name}` : '';
};
// A part that is dragged over is zoomed to; a stay that is clicked shows its calls.
element('timeline').onpointerup = event => {
	const [from, to] = [dragged, event.offsetX].sort((a, b) => a - b), stay = stayAt(event);
	if (dragged != null && to - from > 5) {
		zoomTimeline(timeAt(from), timeAt(to));
	} else if (stay) {
		if (stay.of != streams[chosen])
			choose(streams.indexOf(stay.of));
		zoomTimeline(stay.from, stay.to);
	}
	dragged = null;
};
element('timeline').ondblclick = () => zoomTimeline(0, total);
element('timeline').onwheel = event => {
	const time = timeAt(event.offsetX), by = Math.exp(event.deltaY / 300);
	if (!event.ctrlKey)
		return; // the header scrolls
	event.preventDefault();
	zoomTimeline(time - (time - shown[0]) * by, time + (shown[1] - time) * by);
};

fillTable();
makeRows();
onresize = drawTimeline;
choose(streams.reduce((best, stream, at) => stream.calls > streams[best].calls ? at : best, 0));
