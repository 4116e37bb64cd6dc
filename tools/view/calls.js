// SPDX-License-Identifier: MIT
// The page of `view html`: the calls of a stream for speedscope. Its tree of calls and its sums are exact, and made in one pass.
// In the order of time a call is an object only if it is wide enough to be seen; a zoom makes those of the part that is shown.
'use strict';

const MANY = 200000; // calls: of fewer each is an object
const PARTS = 8192; // of what is shown: a call as wide as one is seen
const FEWEST = 2048; // where fewer of the least calls fit into what is shown, there may be more to see
const SHORT = {key: 'short', name: '[calls that are too short to be seen: zoom in]'};

let seen = null; // the Calls that speedscope shows

// Calls enter(frame, at) and leave(at) for each entry of the bytes that profile.h describes.
function walk(bytes, enter, leave)
{
	const length = bytes.length;
	let next = 0, at = 0;
	const number = () => {
		let byte = bytes[next++], value = byte & 127, weight = 128;
		for (; byte > 127; weight *= 128) {
			byte = bytes[next++];
			value += (byte & 127) * weight;
		}
		return value;
	};
	while (next < length) {
		const entered = number();
		at += number();
		if (entered)
			enter(entered - 1, at);
		else
			leave(at);
	}
	return at;
}

// The same without calls of functions that have not returned: speedscope's "flatten recursion".
function walkFlattened(bytes, enter, leave)
{
	const open = [], stack = [];
	return walk(bytes, (frame, at) => {
		open[frame] = (open[frame] || 0) + 1;
		stack.push(frame);
		if (open[frame] == 1)
			enter(frame, at);
	}, at => {
		if (!--open[stack.pop()])
			leave(at);
	});
}

class Calls
{
	// Makes all of `profile` but what is in the order of time. `Node`, `frames`: speedscope's.
	constructor(profile, frames, Node, Frame, bytes, walked)
	{
		Object.assign(this, {profile, frames, Node, bytes, walked, nodes: new Map(), short: new Frame(SHORT)});
		this.end = profile.getTotalWeight();
		this.count = this.sum();
		this.zoomed = [0, this.end];
		this.least = this.count > MANY ? this.end / PARTS : 0;
		this.find(this.least);
		profile.appendOrderCalltreeRoot = profile.groupedCalltreeRoot; // of callers and callees alone, which are groups
		profile.forEachSeen = (open, close) => this.visit(open, close);
		profile.forEachCall = (open, close) => this.all(open, close);
		profile.made = chart => {
			this.chart = chart;
			seen = this;
		};
		profile.sortGroupedCallTree();
	}

	// The tree of calls and the sums of each function. Returns how many calls there are.
	sum()
	{
		const {frames, profile, Node} = this, nodes = [profile.groupedCalltreeRoot], children = [new Map()], self = [0], total = [0];
		const times = frames.map(() => ({open: 0, since: 0, self: 0, total: 0}));
		const stack = [0], since = [0], its = [-1];
		let top = 0, before = 0, count = 0;
		const pass = at => {
			self[top] += at - before;
			if (top)
				times[its[its.length - 1]].self += at - before;
			before = at;
		};
		this.walked(this.bytes, (frame, at) => {
			pass(at);
			let child = children[top].get(frame);
			if (child === undefined) {
				const node = new Node(frames[frame], nodes[top]);
				nodes[top].children.push(node);
				child = nodes.push(node) - 1;
				children[top].set(frame, child);
				children.push(new Map());
				self.push(0);
				total.push(0);
			}
			if (!times[frame].open++)
				times[frame].since = at;
			top = child;
			stack.push(child);
			since.push(at);
			its.push(frame);
			count++;
		}, at => {
			pass(at);
			total[stack.pop()] += at - since.pop();
			const time = times[its.pop()];
			if (!--time.open)
				time.total += at - time.since;
			top = stack[stack.length - 1];
		});
		nodes.forEach((node, at) => Object.assign(node, {selfWeight: self[at], totalWeight: total[at]}));
		times.forEach((time, at) => Object.assign(frames[at], {selfWeight: time.self, totalWeight: time.total}));
		return count;
	}

	// Finds the calls that are seen: of this width where the zoom is, elsewhere as wide as a part of all. Short ones beside each
	// other are one, if that is wide enough.
	find(least)
	{
		const [from, to] = this.zoomed, coarse = least && this.end / PARTS;
		const starts = [], frames = [], ids = [], within = [], lists = [[]], runs = [null];
		let depth = 0, count = 0;
		const close = list => {
			const run = runs[list];
			runs[list] = null;
			if (run && run.end - run.start >= run.least)
				(lists[list] || (lists[list] = [])).push({id: -1, frame: -1, start: run.start, end: run.end, self: run.end - run.start, children: []});
		};
		this.walked(this.bytes, (frame, at) => {
			starts[depth] = at;
			frames[depth] = frame;
			ids[depth] = count++;
			within[depth++] = 0;
			lists[depth] = runs[depth] = null;
		}, at => {
			const start = starts[--depth], width = at - start, enough = at > from && start < to ? least : coarse, run = runs[depth];
			if (depth)
				within[depth - 1] += width;
			if (width >= enough) {
				close(depth + 1);
				close(depth);
				(lists[depth] || (lists[depth] = [])).push({id: ids[depth], frame: frames[depth], start, end: at,
					self: width - within[depth], children: lists[depth + 1] || []});
			} else if (run && start - run.end < enough) {
				run.end = at;
			} else {
				close(depth);
				runs[depth] = {start, end: at, least: enough};
			}
		});
		close(0);
		this.roots = lists[0] || [];
	}

	// Those that are seen, as objects that a call keeps while it is.
	visit(open, close)
	{
		const {frames, short, profile} = this, old = this.nodes, nodes = this.nodes = new Map();
		const visit = (call, parent) => {
			const node = old.get(call.id) || new this.Node(call.frame < 0 ? short : frames[call.frame], parent);
			node.totalWeight = call.end - call.start;
			node.selfWeight = call.self;
			if (call.id >= 0)
				nodes.set(call.id, node);
			open(node, call.start);
			call.children.forEach(child => visit(child, node));
			close(node, call.end);
		};
		this.roots.forEach(call => visit(call, profile.groupedCalltreeRoot));
	}

	// Each call, for a file that speedscope writes.
	all(open, close)
	{
		const stack = [];
		this.walked(this.bytes, (frame, at) => {
			stack.push({frame: this.frames[frame]});
			open(stack[stack.length - 1], at);
		}, at => close(stack.pop(), at));
	}

	// Another part is shown: where it has calls that were too short and no longer are, these are found.
	zoom(from, to)
	{
		const {chart, end, least} = this, wide = to - from;
		if (!chart || !chart.renderer || !least || !(wide > 0))
			return;
		const inside = from >= this.zoomed[0] && to <= this.zoomed[1], known = inside ? least : end / PARTS;
		if (known <= 1 || wide / known >= FEWEST)
			return;
		this.zoomed = [Math.max(0, from - wide), Math.min(end, to + wide)];
		this.least = wide / PARTS;
		this.find(this.least);
		// Those that speedscope has stay, and become as new ones are.
		const {renderer} = chart, old = renderer.layers;
		Object.assign(chart, new chart.constructor(chart.source));
		Object.assign(renderer, new renderer.constructor(renderer.gl, renderer.rowAtlas, chart, renderer.rectangleBatchRenderer,
			renderer.colorPassRenderer, renderer.options));
		this.chart = chart;
		chart.renderer = renderer;
		old.forEach(layer => layer.children.forEach(leaf => leaf.batch.free()));
	}
}

// speedscope shows another part of those in the order of time.
function showCalls(from, to)
{
	if (seen)
		seen.zoom(from, to);
}

// What speedscope calls instead of its buildProfile().
function buildProfile(profile, frames, Node, Frame, bytes)
{
	new Calls(profile, frames, Node, Frame, bytes, walk);
	profile.getProfileWithRecursionFlattened = () => {
		const flat = profile.shallowClone(), weights = frames.map(({selfWeight, totalWeight}) => ({selfWeight, totalWeight}));
		flat.groupedCalltreeRoot = new Node(profile.groupedCalltreeRoot.frame, null);
		flat.totalNonIdleWeight = null;
		new Calls(flat, frames, Node, Frame, bytes, walkFlattened);
		frames.forEach((frame, at) => Object.assign(frame, weights[at]));
		return flat;
	};
	return profile;
}
