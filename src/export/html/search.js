/* Search: matching frames, drawn or not, and navigation between matches. */

/*
 * Substring, case-insensitive; "whole name"; /regex/ as written. undefined: not a regular
 * expression.
 */
function matcherOf(text) {
	if (!text) return null;
	if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
		try {
			const expression = new RegExp(text.slice(1, -1));
			return (name) => expression.test(name);
		} catch (error) {
			return undefined;
		}
	}
	if (text.length > 2 && text.startsWith('"') && text.endsWith('"')) return (name) => name === text.slice(1, -1);
	const wanted = text.toLowerCase();
	return (name) => name.toLowerCase().includes(wanted);
}

function markFound() {
	graph.classList.toggle("searching", state.search !== null);
	for (const [id, made] of drawn) made.classList.toggle("hit", state.search !== null && state.search.has(id));
	for (const [id, made, narrow] of drawnRests)
		made.classList.toggle("hit", state.search !== null && (state.foundBelow.has(id) || narrow.some((node) => state.hitInside[node])));
}

const unpacked = [null, null]; // undrawn frames by side, and weights by metric

function prunedFrames(side) {
	const pruned = (side ? data.before : data.now).pruned;
	if (!unpacked[side] && pruned) {
		unpacked[side] = { runs: unpack(pruned.runs), levels: unpack(pruned.levels), frames: unpack(pruned.frames), listed: new Map(), summed: new Map() };
		if (pruned.summed_frames) {
			unpacked[side].counts = unpack(pruned.summed_count);
			unpacked[side].hasChildren = unpack(pruned.has_children);
		}
	}
	return unpacked[side];
}

function prunedWeights(side, key) {
	const known = unpacked[side][key];
	const metric = model.metrics[state.metric];
	const from = metric && metric.pruned[side];
	if (!known.has(state.metric)) known.set(state.metric, from && from[key] ? unpackWeights(from[key]) : []);
	return known.get(state.metric);
}

/* Searches the undrawn frames; `inside`: nodes with subtrees that match as a whole. */
function searchPruned(found, matches, inside) {
	const side = state.sized === "old" ? 1 : 0;
	const pruned = prunedFrames(side);
	if (!pruned) return;
	const hits = (side ? data.before : data.now).frames.map((name) => matches(name));
	const weights = prunedWeights(side, "listed");
	let at = 0;
	for (let run = 0; run < pruned.runs.length; run += 2) {
		const above = model.idOf[side][pruned.runs[run]];
		const start = inside[above] ? 0 : Infinity;
		let covered = start; // deeper levels are inside a matching frame
		for (const end = at + pruned.runs[run + 1]; at < end; at++) {
			const level = pruned.levels[at];
			if (level <= covered) covered = start;
			if (!hits[pruned.frames[at]]) continue;
			found.pruned++;
			found.below.add(above);
			if (covered !== Infinity) continue;
			found.sum += weights[at] || 0;
			covered = level;
		}
	}
	if (!pruned.counts) return;
	/* The smallest frames have only sums by name: exact if nothing is below the matches. */
	const summed = prunedWeights(side, "summed");
	let [sum, isExact] = [0, true];
	hits.forEach((isHit, frame) => {
		if (!isHit) return;
		found.pruned += pruned.counts[frame];
		sum += summed[frame] || 0;
		if (frame && pruned.hasChildren[frame]) isExact = false;
	});
	if (isExact) found.sum += sum;
	else found.perhaps = sum;
	found.isAnywhere = true; // their parents are unknown
}

function foundText(found) {
	const whole = weights[0];
	let text = frames(state.search.size + found.pruned);
	if (found.pruned) text += ` (${count(found.pruned)} not drawn)`;
	if (!whole || !model.metrics.length) return text;
	const [least, most] = [percent(found.sum, whole), percent(Math.min(whole, found.sum + found.perhaps), whole)];
	return `${text}, ${least === most ? least : `${least} to ${most}`} % of ${model.metrics[state.metric].name}`;
}

/* Ancestors of matching frames, and these frames. */
function leadingTo(found) {
	const leads = new Uint8Array(model.count);
	for (let id of found) for (; id && !leads[id]; id = model.parent[id]) leads[id] = 1;
	return leads;
}

function search(text) {
	const matches = matcherOf(text);
	state.query = text;
	state.search = null;
	state.hits = [];
	byId("found").textContent = matches === undefined ? "not a regular expression" : "";
	if (matches) {
		const known = new Map();
		const isMatch = (name) => {
			if (!known.has(name)) known.set(name, matches(name));
			return known.get(name);
		};
		const inside = new Uint8Array(model.count);
		const found = { sum: 0, perhaps: 0, pruned: 0, below: new Set(), isAnywhere: false };
		state.search = new Set();
		for (let id = 1; id < model.count; id++) {
			const covered = inside[model.parent[id]];
			const isFound = isMatch(model.names[id]);
			if (isFound) state.search.add(id);
			if (isFound && !covered) found.sum += weights[id];
			inside[id] = covered || isFound ? 1 : 0;
		}
		searchPruned(found, isMatch, inside);
		state.foundBelow = found.below;
		state.foundAnywhere = found.isAnywhere;
		state.hitInside = leadingTo(state.search);
		state.hits = [...state.search].filter((id) => weights[id] > 0).sort((a, b) => weights[b] - weights[a] || a - b);
		byId("found").textContent = foundText(found);
	}
	markFound();
	writeHit();
}

/* ---------------------------------------------------------------- from hit to hit */

function writeHit() {
	const hits = state.hits || [];
	const at = hits.indexOf(state.selected);
	byId("hits").hidden = hits.length < 1;
	byId("hit").textContent = at < 0 ? "" : `${count(at + 1)} of ${count(hits.length)}`;
}

/* Selects the next match, largest first, and zooms in if it is too narrow. */
function stepHit(step) {
	const hits = state.hits || [];
	if (!hits.length) return;
	const at = hits.indexOf(state.selected);
	const id = hits[at < 0 ? (step > 0 ? 0 : hits.length - 1) : (at + step + hits.length) % hits.length];
	showNode(id);
	remember(true);
}

const isVisible = (id) => drawn.has(id) && !drawn.get(id).classList.contains("thin");

function showNode(id) {
	if (!isVisible(id)) zoomTo(model.parent[id], id);
	if (!isVisible(id)) zoomTo(id);
	select(id, false);
	drawn.get(id).scrollIntoView({ block: "nearest" });
}

/* The deepest common ancestor. */
function commonAbove(nodes) {
	let common = null;
	for (const node of nodes) {
		const path = pathOf(model.parent[node]);
		let same = 0;
		while (common && same < common.length && common[same] === path[same]) same++;
		common = common ? common.slice(0, same) : path;
	}
	return common ? common[common.length - 1] : 0;
}

/* Selects another metric for kernels without a value of the current one. */
function chooseMetricFor(nodes) {
	const has = (index, side) => {
		const values = weightsOf(model.metrics[index], side);
		return nodes.some((id) => values[id] > 0);
	};
	for (const side of isDiff ? [state.sized, state.sized === "now" ? "old" : "now"] : [state.sized]) {
		const choices = [state.metric, ...model.metrics.keys()].filter((index) => model.metrics[index] && model.metrics[index].adds);
		const index = choices.find((choice) => has(choice, side));
		if (index === undefined) continue;
		if (index !== state.metric || side !== state.sized) setMetric(index, side);
		return;
	}
}

/* Shows all places of a kernel: searched, in view, the largest one selected. */
function showInGraph(name) {
	const wanted = `"${name}"`;
	showTab("graph");
	byId("search").value = wanted;
	search(wanted);
	if (state.search.size && !state.hits.length) chooseMetricFor([...state.search]);
	const below = [...state.foundBelow].flatMap((id) => (model.children[id].length ? model.children[id][0] : id));
	zoomTo(state.foundAnywhere ? 0 : commonAbove([...state.hits, ...below]));
	if (state.hits.length) {
		if (!drawn.has(state.hits[0])) showNode(state.hits[0]);
		select(state.hits[0], true);
	} else {
		byId("tab-graph").focus();
	}
	remember(true);
}

function startSearch() {
	const field = byId("search");
	field.oninput = () => {
		const isStep = !field.value !== !state.query;
		search(field.value);
		remember(isStep);
	};
	field.onkeydown = (event) => {
		if (event.key !== "Enter") return;
		stepHit(event.shiftKey ? -1 : 1);
		event.preventDefault();
	};
	byId("hit-before").onclick = () => stepHit(-1);
	byId("hit-after").onclick = () => stepHit(1);
}
