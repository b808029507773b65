/* The tree: reading its columns (src/export/html_tree.h), two profiles as one, and views of it. */

async function inflate(text) {
	const packed = atob(text);
	const bytes = new Uint8Array(packed.length);
	for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Gives one number after the other: html_put_number() of src/export/html_tree.c. */
function numbersOf(input) {
	const { bytes } = input;
	return () => {
		let byte = bytes[input.at++];
		let value = byte & 127;
		for (let scale = 128; byte > 127; scale *= 128) {
			byte = bytes[input.at++];
			value += (byte & 127) * scale;
		}
		return value;
	};
}

/* Reads a profile's frames, depth first, and the columns of its metrics. */
async function readTree(profile) {
	const input = { bytes: await inflate(profile.tree), at: 0 };
	const next = numbersOf(input);
	const nameBytes = next();
	const names = JSON.parse(new TextDecoder().decode(input.bytes.subarray(input.at, input.at + nameBytes)));
	input.at += nameBytes;
	const count = next();
	const tree = { names, count, parent: new Uint32Array(count), frame: new Uint32Array(count) };
	const path = [0];
	for (let id = 1, level = 0; id <= count; id++) {
		level += 1 - next();
		if (id === count) break;
		tree.parent[id] = path[level - 1];
		path[level] = id;
	}
	for (let id = 0; id < count; id++) tree.frame[id] = next();
	const readColumn = (column) => {
		if (column.as === "ratio") return;
		const raw = (column.raw = new Float64Array(count));
		if (column.as === "doubles") {
			const all = new Uint8Array(raw.buffer);
			for (let byte = 0; byte < 8; byte++) for (let id = 0; id < count; id++) all[8 * id + byte] = input.bytes[input.at++];
			return;
		}
		const none = [];
		for (let id = 0; id < count; id++) {
			const code = next() - 1;
			if (code < 0) none.push(id);
			else raw[id] = (code % 2 ? -(code + 1) / 2 : code / 2) * column.times;
		}
		if (column.sums) for (let id = count - 1; id > 0; id--) raw[tree.parent[id]] += raw[id];
		for (const id of none) raw[id] = NaN;
	};
	for (const metric of profile.metrics) {
		readColumn(metric.column);
		if (metric.own) readColumn(metric.own);
	}
	return tree;
}

/* Makes a tree of parents and frames: a parent has one child of a frame. */
class TreeMaker {
	constructor(root) {
		this.parent = [0];
		this.frame = [root];
		this.resize(1 << 12);
	}
	resize(size) {
		this.table = new Int32Array(size);
		for (let id = 1; id < this.parent.length; id++) this.table[this.slot(this.parent[id], this.frame[id], () => false)] = id;
	}
	/* Where it is in the table, or is to be. */
	slot(parent, frame, isSame) {
		const mask = this.table.length - 1;
		let at = Math.imul(Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame, 0x85ebca6b), 0xc2b2ae35);
		for (at = (at ^ (at >>> 15)) & mask; this.table[at] && !isSame(this.table[at]); ) at = (at + 1) & mask;
		return at;
	}
	/* `isTaken`: for children of the same frame that are different. */
	child(parent, frame, isTaken) {
		const at = this.slot(parent, frame, (id) => this.parent[id] === parent && this.frame[id] === frame && !(isTaken && isTaken(id)));
		if (this.table[at]) return this.table[at];
		const id = this.parent.length;
		this.table[at] = id;
		this.parent.push(parent);
		this.frame.push(frame);
		if (2 * id > this.table.length) this.resize(4 * this.table.length);
		return id;
	}
	/* The tree depth first; `place`: where its nodes are. */
	finish() {
		const count = this.parent.length;
		const size = new Uint32Array(count).fill(1);
		for (let id = count - 1; id > 0; id--) size[this.parent[id]] += size[id];
		const place = new Uint32Array(count);
		const free = new Uint32Array(count).fill(1);
		const tree = { count, place, parent: new Uint32Array(count), frame: new Uint32Array(count), end: new Uint32Array(count) };
		for (let id = 0; id < count; id++) {
			const above = this.parent[id];
			if (id) {
				place[id] = free[above];
				free[above] += size[id];
				free[id] = place[id] + 1;
			}
			tree.parent[place[id]] = place[above];
			tree.frame[place[id]] = this.frame[id];
			tree.end[place[id]] = place[id] + size[id];
		}
		return tree;
	}
}

const sides = isDiff ? [data.now, data.before] : [data.now];
const frameNames = []; // of both profiles and of views
const frameOfName = new Map();

function frameOf(name) {
	if (!frameOfName.has(name)) frameOfName.set(name, frameNames.push(name) - 1);
	return frameOfName.get(name);
}

/* One tree of one profile or of two: frames with the same path are the same. */
async function readBase() {
	const trees = [];
	for (const side of sides) trees.push(await readTree(side));
	for (const tree of trees) {
		const frames = tree.names.map(frameOf);
		for (let id = 0; id < tree.count; id++) tree.frame[id] = frames[tree.frame[id]];
	}
	sides.forEach((side, at) => {
		for (const kernel of side.kernels) kernel[0] = trees[at].names[kernel[0]];
		side.instrumented = side.instrumented.map((frame) => trees[at].names[frame]);
	});
	const maker = new TreeMaker(trees[0].frame[0]);
	const made = trees.map((tree) => {
		const idOf = new Uint32Array(tree.count);
		const taken = new Set();
		for (let id = 1; isDiff && id < tree.count; id++) {
			idOf[id] = maker.child(idOf[tree.parent[id]], tree.frame[id], (other) => taken.has(other));
			taken.add(idOf[id]);
		}
		return idOf;
	});
	const base = isDiff ? maker.finish() : trees[0];
	if (!isDiff) {
		const end = (base.end = new Uint32Array(base.count));
		for (let id = base.count - 1; id >= 0; id--) {
			end[id] = end[id] || id + 1;
			if (end[base.parent[id]] < end[id]) end[base.parent[id]] = end[id];
		}
	}
	const spread = (column, side) => {
		if (!column || !column.raw || !isDiff) return column && column.raw;
		const raw = new Float64Array(base.count).fill(NaN);
		column.raw.forEach((value, id) => (raw[base.place[made[side][id]]] = value));
		return raw;
	};
	base.raw = sides.map((profile, side) => profile.metrics.map((metric) => spread(metric.column, side)));
	base.own = sides.map((profile, side) => profile.metrics.map((metric) => spread(metric.own, side)));
	base.up = base.count;
	base.ofNow = (id) => (isDiff ? base.place[made[0][id]] : id); // the number of a frame in the newer profile
	return base;
}

/* The values that frames have themselves, by side and metric: views are summed from them. */
function findOwn(tree) {
	sides.forEach((profile, side) => profile.metrics.forEach((metric, index) => {
		const raw = tree.raw[side][index];
		if (!metric.adds || tree.own[side][index]) return;
		const own = (tree.own[side][index] = raw.slice());
		if (!metric.inclusive) return;
		const inside = new Float64Array(tree.count);
		for (let id = tree.count - 1; id >= 0; id--) {
			if (id) inside[tree.parent[id]] += Number.isNaN(raw[id]) ? inside[id] : raw[id];
			own[id] = Math.abs(raw[id] - inside[id]) <= 1e-12 * Math.abs(raw[id]) ? 0 : raw[id] - inside[id];
		}
	}));
}

/* ---------------------------------------------------------------- views */

const FOLD_MIN = 30; // siblings with names that differ in numbers only

/* The frame as which a frame is shown, per frame of the tree; null: nothing is folded. */
function foldNumbers(tree) {
	const patterns = frameNames.map((name, frame) => (/\d/.test(name) && kindOf(frame) === "scope" ? name.replace(/\d+/g, "#") : null));
	const total = new Map();
	for (const pattern of patterns) if (pattern) total.set(pattern, (total.get(pattern) || 0) + 1);
	const folded = patterns.map((pattern) => (pattern && total.get(pattern) >= FOLD_MIN ? frameOf(pattern) : -1));
	if (!folded.some((frame) => frame >= 0)) return null;
	const siblings = new Map();
	const keyOf = (id) => tree.parent[id] * frameNames.length + folded[tree.frame[id]];
	for (let id = 1; id < tree.count; id++) if (folded[tree.frame[id]] >= 0) siblings.set(keyOf(id), (siblings.get(keyOf(id)) || 0) + 1);
	const shown = tree.frame.slice();
	let isAny = false;
	for (let id = 1; id < tree.count; id++) {
		if (folded[tree.frame[id]] < 0 || siblings.get(keyOf(id)) < FOLD_MIN) continue;
		shown[id] = folded[tree.frame[id]];
		isAny = true;
	}
	return isAny ? shown : null;
}

/*
 * A view of a tree. `shown`: the shown names of its frames. `isHidden`: by frame; children of a hidden
 * one move up. `isInverted`: frames that have a value themselves, their callers inside. `about`: a
 * frame with all that it calls, and its callers as a last child of the root.
 */
function makeView(tree, { shown, isHidden, isInverted, about }) {
	findOwn(tree);
	const maker = new TreeMaker(about === null ? tree.frame[0] : about);
	const at = new Int32Array(tree.count).fill(-1); // where a frame's own values go; -1: nowhere
	const whole = new Int32Array(about === null ? 0 : tree.count).fill(-1); // where its whole goes
	const callersOf = (id, node) => {
		for (; id; id = tree.parent[id]) if (!isHidden[tree.frame[id]]) node = maker.child(node, shown[id]);
		return node;
	};
	const owns = tree.own.flatMap((side) => side.filter((own) => own));
	at[0] = about === null ? 0 : -1;
	for (let id = 1; id < tree.count; id++) {
		const above = at[tree.parent[id]];
		if (isInverted) {
			if (owns.some((own) => own[id])) at[id] = callersOf(id, 0);
		} else if (about !== null && above < 0) {
			if (shown[id] === about) at[id] = 0;
		} else {
			at[id] = isHidden[tree.frame[id]] ? above : maker.child(above, shown[id]);
		}
	}
	const callees = maker.parent.length;
	if (about !== null) {
		const callers = maker.child(0, frameOf("callers"));
		for (let id = 1; id < tree.count; id++) if (at[id] === 0 && at[tree.parent[id]] < 0) whole[id] = callersOf(tree.parent[id], callers);
	}
	const made = maker.finish();
	made.up = about === null ? made.count : made.place[callees];
	if (about === null && !isInverted) made.placeOf = at.map((id) => made.place[id]);
	made.times = new Uint32Array(made.count);
	for (let id = 1; id < tree.count; id++) if (at[id] >= 0 && shown[id] !== tree.frame[id]) made.times[made.place[at[id]]]++;
	made.raw = sides.map(() => []);
	made.own = sides.map(() => []);
	const sum = (from, places, to) => {
		for (let id = 0; id < places.length; id++) {
			if (places[id] < 0 || Number.isNaN(from[id])) continue;
			const place = made.place[places[id]];
			to[place] = (to[place] || 0) + from[id];
		}
	};
	/* A number that does not add up: the one frame of a node has it, or it is the extreme of several. */
	const unite = (from, { name, inclusive }) => {
		const merge = /^min_/.test(name) ? Math.min : /^max_/.test(name) ? Math.max : () => NaN;
		const united = new Float64Array(made.count).fill(NaN);
		const isSet = new Uint8Array(made.count);
		for (let id = 1; id < tree.count; id++) {
			/* All of a hidden frame is in those above, but not in their own numbers. */
			if (at[id] < 0 || (inclusive && !isInverted && isHidden[tree.frame[id]])) continue;
			/* From the inside, nodes stand for what frames have themselves. */
			const value = isInverted && tree.end[id] > id + 1 ? NaN : from[id];
			let node = made.place[at[id]];
			do {
				united[node] = isSet[node] ? merge(united[node], value) : value;
				isSet[node] = 1;
				node = isInverted ? made.parent[node] : 0;
			} while (node);
		}
		if (about === null) united[0] = from[0]; // the whole is the same
		return united;
	};
	sides.forEach((profile, side) => profile.metrics.forEach((metric, index) => {
		if (!metric.adds) {
			if (tree.raw[side][index]) made.raw[side][index] = unite(tree.raw[side][index], metric);
			return;
		}
		const own = (made.own[side][index] = new Float64Array(made.count).fill(NaN));
		sum(tree.own[side][index], at, own);
		const raw = (made.raw[side][index] = own.slice());
		if (!metric.inclusive) return;
		sum(tree.raw[side][index], whole, raw);
		for (let id = made.count - 1; id > 0; id--) {
			const above = made.parent[id];
			if (id !== made.up && !Number.isNaN(raw[id])) raw[above] = (raw[above] || 0) + raw[id];
		}
		if (made.up < made.count) raw[made.up] = raw[0];
	}));
	return made;
}
