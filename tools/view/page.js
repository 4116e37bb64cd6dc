// SPDX-License-Identifier: MIT
// The page of `view html`: counters, calls, code, last branches.
'use strict';
const all = selector => Array.from(document.querySelectorAll(selector));
const json = element => JSON.parse(element.textContent);
const element = id => document.getElementById(id);
const grouped = number => number.toLocaleString('en').replace(/,/g, '\u202f');

const about = json(element('about'));
const streams = all('.stream').map(json);
const profiles = all('.profile'), listings = all('.listing');
const said = element('said');

document.title = about.path.replace(/.*\//, '');
document.querySelector('h1').textContent = document.title;
element('what').textContent = `${about.file} ${about.version}, branches of ${about.silicon} silicon, ` +
	`${about.cpus} CPUs, ${grouped(about.bytes)} bytes`;
element('flaw').textContent = [about.flaw, ...streams.filter(stream => stream.left_out).map(stream =>
	`the newest ${grouped(about.newest)} branches of ${stream.name} are shown, ${grouped(stream.left_out)} older ones are not`)]
	.filter(sentence => sentence).join('; ');
document.querySelector('pre').textContent = element('licence').textContent;

// Counters: a row for each task or CPU.
const columns = [
	['branches', 'taken branches'], ['instructions', 'that are known to be executed'], ['calls', 'stays on the stack'],
	['predicted', 'branches that the processor had predicted'], ['events', 'interrupts, exceptions and system calls'],
	['tail_calls', 'jumps to another function'], ['unwound', 'longjmp() and the like'],
	['unmatched_returns', 'to where no known call goes back'], ['repairs', 'places that the code does not explain', true],
	['discontinuities', 'branches missing without a mark', true], ['gaps', 'marked places where records are missing', true],
	['missing', 'records in gaps', true], ['bytes', 'of the trace'],
];

function cell(row, kind, text, title)
{
	const made = document.createElement(kind);
	made.textContent = text;
	made.title = title;
	row.append(made);
	return made;
}

function fillTable()
{
	const head = document.querySelector('#streams thead tr');
	cell(head, 'th', '', '');
	for (const [name, title] of columns)
		cell(head, 'th', name.replace(/_/g, ' '), title);
	streams.forEach((stream, index) => {
		const row = document.createElement('tr');
		cell(row, 'td', stream.name, 'show its calls');
		for (const [name, title, wrong] of columns)
			if (wrong && stream[name])
				cell(row, 'td', grouped(stream[name]), title).className = 'wrong';
			else
				cell(row, 'td', grouped(stream[name]), title);
		row.onclick = () => choose(index);
		document.querySelector('#streams tbody').append(row);
	});
}

// Calls: speedscope in a frame, anew for each stream that is chosen.
let chosen = -1;

// The bytes of a script element: gzip in base64.
async function unpack(text)
{
	const binary = atob(text), packed = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++)
		packed[i] = binary.charCodeAt(i);
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Places in speedscope's script, and what is added there. A frame is chosen; another part is shown; calls.js makes the
// profile; numbers have a unit, and room for it; a narrow screen has no room for what is of no use in this page.
const narrow = '"@media (max-width: 600px)":{display:"none"},';
const additions = [
	['setSelectedNode(n,a){', 'parent.showFrame(a&&a.frame);'],
	['this.setSelectedFrame=n=>{', 'parent.showFrame(n);'],
	['setConfigSpaceViewportRect(n,a){', 'n=="CHRONO"&&parent.callsZoomed(this,a);'],
	['n(s);let c=e.map((h,_)=>({key:_,...h}));', 'return parent.buildProfile(s,c.map(h=>me.getOrInsert(s.frames,h)),Zn,me,l);'],
	['forEachCall:t.forEachCall.bind(t),', 'forEachCall:t.forEachSeen,made:t.made,'],
	['constructor(e){this.source=e;', 'e.made&&e.made(this);'], ['this.flamechart=a;', 'a.renderer=this;'],
	['format(e){return e.toLocaleString()', "+' instr.'"],
	['toolbarRight:{', narrow], ['toolbarCenter:{', narrow],
	['statsTableCell:{', 'whiteSpace:"nowrap",'], ['gridTemplateColumns:"120px 120px 1fr"', ',gridTemplateColumns:"160px 160px 1fr"'],
];

async function load(frame, index)
{
	const {name, end, frames} = streams[index], bytes = await unpack(profiles[index].textContent);
	if (index != chosen)
		return;
	showFrame(null);
	const its = frame.contentDocument;
	its.open();
	its.write('<!DOCTYPE html><html><head><title>-</title></head><body></body></html>');
	its.close();
	frame.contentWindow.location.hash = '#localProfilePath=none'; // speedscope waits for loadFileFromBase64()
	const style = its.createElement('style'), script = its.createElement('script');
	style.textContent = element('style').textContent.replace(/@font-face{[^}]*}/, '');
	script.textContent = additions.reduce((text, [place, more]) => text.replace(place, place + more), element('viewer').textContent);
	its.head.append(style);
	its.body.append(script);
	new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
		document.body.dataset.shown = streams[chosen].name;
		said.textContent = '';
	}))).observe(its.querySelector('title'), {childList: true});
	// The file that speedscope reads has all but the calls.
	const profile = {type: 'evented', unit: 'none', name: '', startValue: 0, endValue: end, events: []};
	const parse = frame.contentWindow.JSON.parse;
	frame.contentWindow.JSON.parse = text => {
		const parsed = parse(text);
		if (parsed.profiles) {
			Object.assign(parsed.profiles[0], {name, events: bytes});
			parsed.shared.frames = frames;
		}
		return parsed;
	};
	frame.contentWindow.speedscope.loadFileFromBase64('trace.speedscope.json', btoa(JSON.stringify({profiles: [profile], shared: {frames: []}})));
}

// The last branches before each signal, and before the end.
function fillLast({name, ends, signals})
{
	const list = document.querySelector('#last div'), unseen = signals - ends.length + 1;
	document.querySelector('#last summary').textContent = `the last branches of ${name} before ` +
		(signals ? `${signals == 1 ? 'a signal' : `${grouped(signals)} signals`} and the end` : 'the end');
	list.replaceChildren();
	for (const {what, position, branches} of [...ends].reverse()) {
		const head = document.createElement('div'), table = document.createElement('table');
		head.textContent = `before ${what}, after instruction ${grouped(position)}, the newest last:`;
		for (const [from, to] of branches) {
			const row = document.createElement('tr');
			cell(row, 'td', from, 'the branch is from here');
			cell(row, 'td', `\u2192 ${to}`, 'and to here');
			table.append(row);
		}
		list.append(head, table);
	}
	if (unseen > 0)
		list.append(`and before ${grouped(unseen)} signals more, later than those`);
}

function choose(index)
{
	const frame = document.createElement('iframe'), count = streams[index].calls;
	chosen = index;
	calls = wanted = null;
	fillLast(streams[index]);
	shown = [0, total];
	drawTimeline();
	all('#streams tbody tr').forEach((row, at) => row.classList.toggle('chosen', at == index));
	document.body.dataset.shown = '';
	said.textContent = count ? `loading ${grouped(count)} calls of ${streams[index].name}` :
		`no call of ${streams[index].name} is in this page`;
	frame.title = frame.id = 'calls';
	element('calls').replaceWith(frame);
	if (count)
		setTimeout(load, 0, frame, index);
}

// Code: of the frame that is chosen, how often each line and each instruction ran.
const HOLE = 9; // lines from one that is known to the next
let listing = null, listed = -1;

async function listingOf(index)
{
	if (listed != index) {
		const text = listings[index].textContent;
		listing = text ? JSON.parse(new TextDecoder().decode(await unpack(text))) : {functions: [], sources: []};
		listed = index;
	}
	return listing;
}

function tableOf(heads)
{
	const table = document.createElement('table'), head = document.createElement('tr');
	heads.forEach(([text, title]) => cell(head, 'th', text, title));
	table.append(head);
	return table;
}

const spaced = text => (text || '').replace(/\t/g, '    ');

// `key`: what a line and its instructions have in common.
function rowOf(table, count, most, place, text, key)
{
	const row = document.createElement('tr'), times = cell(row, 'td', count ? grouped(count) : '', '');
	times.style.background = `linear-gradient(to left, #fc9 ${100 * Math.log1p(count) / Math.log1p(most)}%, transparent 0)`;
	cell(row, 'td', place, '');
	cell(row, 'td', text, '');
	row.className = count ? '' : 'never';
	row.dataset.key = key;
	table.append(row);
}

function rowOfFile(table, text)
{
	const row = document.createElement('tr');
	cell(row, 'td', text, '').colSpan = 3;
	row.className = 'of-file';
	table.append(row);
}

function instructionsOf(functions, most)
{
	const table = tableOf([['times', 'how often the instruction ran'], ['byte', 'from the start of the function'], ['instruction', '']]);
	for (const its of functions) {
		rowOfFile(table, `${its.start} of ${its.file}`);
		let last = 0;
		for (const [offset, count, source, line, text] of its.rows) {
			if (offset - last > 15)
				rowOfFile(table, 'nothing ran');
			rowOf(table, count, most, `+0x${offset.toString(16)}`, text, source < 0 ? '' : `${source}:${line}`);
			last = offset;
		}
	}
	return table;
}

// A line ran as often as that one of its instructions which ran most often.
function linesOf(functions, sources, most)
{
	const table = tableOf([['times', 'how often the line ran: the most of its instructions'], ['line', ''], ['source', '']]), found = new Map();
	for (const [, count, source, line] of functions.flatMap(its => its.rows))
		if (source >= 0) {
			if (!found.has(source))
				found.set(source, new Map());
			found.get(source).set(line, Math.max(count, found.get(source).get(line) || 0));
		}
	if (!found.size)
		rowOfFile(table, 'its source is not known');
	for (const [source, counts] of found) {
		const {name, newer, lines} = sources[source], texts = new Map(lines), numbers = [...counts.keys()].sort((a, b) => a - b);
		rowOfFile(table, name + (newer ? ': newer than the program, so lines may be others' : lines.length ? '' : ': was not there'));
		numbers.forEach((line, at) => {
			for (let between = numbers[at - 1] + 1; at && line - numbers[at - 1] <= HOLE && between < line; between++)
				rowOf(table, 0, most, between, spaced(texts.get(between)), '');
			if (at && line - numbers[at - 1] > HOLE)
				rowOfFile(table, '\u22ee');
			rowOf(table, counts.get(line), most, line, spaced(texts.get(line)), `${source}:${line}`);
		});
	}
	return table;
}

// `frame` of speedscope, whose key is its place in the stream's frames; null: none.
async function showFrame(frame)
{
	const index = chosen;
	if (!frame) {
		element('code').classList.remove('full');
		element('columns').replaceChildren();
		document.querySelector('#code h2 span').textContent = 'a click on a call: how often its lines and instructions ran';
		return;
	}
	const {frames, name} = streams[index], within = frames[frame.key]?.within, number = within ?? frame.key;
	const {functions, sources} = await listingOf(index), its = functions.filter(one => one.frame == number);
	const title = within == null ? frame.name : `${frame.name}, here in ${frames[within].name}`;
	const most = its.reduce((more, one) => one.rows.reduce((a, row) => Math.max(a, row[1]), more), 1);
	const ran = its.reduce((sum, one) => one.rows.reduce((a, row) => a + row[1], sum), 0);
	if (index != chosen)
		return;
	document.querySelector('#code h2 span').textContent = its.length ? `${title}: ${grouped(ran)} instructions in ${name}` :
		`${title}: its code is not known`;
	const columns = [linesOf(its, sources, most), instructionsOf(its, most)].map(table => {
		const column = document.createElement('div');
		column.append(table);
		column.className = table.rows.length > 2 ? '' : 'short';
		return column;
	});
	element('columns').replaceChildren(...(its.length ? columns : []));
	element('code').classList.add('full');
}

// A click on a line shows its instructions, and the other way round.
element('columns').onclick = event => {
	const row = event.target.closest('tr'), key = row && row.dataset.key;
	all('#columns tr.same').forEach(one => one.classList.remove('same'));
	if (!key)
		return;
	const same = all(`#columns tr[data-key="${key}"]`), own = row.closest('div');
	same.forEach(one => one.classList.add('same'));
	const other = same.find(one => one.closest('div') != own);
	if (other)
		other.scrollIntoView({block: 'center'});
};
document.querySelector('#code button').onclick = () => showFrame(null);
showFrame(null);
