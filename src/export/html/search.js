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

/* Per frame: 1 if its name matches. */
const matchingFrames = (matches) => Uint8Array.from(frameNames, (name) => (matches(name) ? 1 : 0));

const hitsInside = (id) => state.search.before[model.end[id]] - state.search.before[id];
const isHit = (id) => state.search !== null && state.search.before[id + 1] > state.search.before[id];

function hasHit(box) {
	if (state.part || box.id === state.zoom) return kidsByWeight(box.id).subarray(box.from, box.to).some(hitsInside);
	let hits = hitsInside(box.id) - (isHit(box.id) ? 1 : 0);
	for (const id of drawn.keys()) if (id && model.parent[id] === box.id) hits -= hitsInside(id);
	return hits > 0;
}

function markFound() {
	graph.classList.toggle("searching", state.search !== null);
	for (const [id, made] of drawn) made.classList.toggle("hit", isHit(id));
	for (const [box, made] of drawnBoxes) made.classList.toggle("hit", state.search !== null && hasHit(box));
}

function foundText({ count: found, sum }) {
	const text = frames(found);
	return weights[0] && metrics.length ? `${text}, ${percent(sum, weights[0])} % of ${metrics[state.metric].name}` : text;
}

/* The matches of the shown tree; `before`: how many of them are before each frame. */
function findHits(hits) {
	const found = { before: new Uint32Array(model.count + 1), count: 0, sum: 0, drawable: 0, first: 0, last: 0, largest: 0 };
	for (let id = 1, covered = 0; id < model.count; id++) {
		const isMatch = hits[model.frame[id]];
		found.before[id + 1] = found.count += isMatch;
		if (!isMatch) continue;
		if (id >= covered && id < model.up) {
			found.sum += weights[id];
			covered = model.end[id];
		}
		if (!(weights[id] > 0)) continue;
		found.drawable++;
		found.first = found.first || id;
		found.last = id;
		if (!found.largest || weights[id] > weights[found.largest]) found.largest = id;
	}
	return found;
}

function search(text) {
	const matches = matcherOf(text);
	state.query = text;
	state.search = null;
	byId("found").textContent = matches === undefined ? "not a regular expression" : "";
	if (matches) {
		const hits = matchingFrames(matches);
		state.search = findHits(hits);
		/* A numbered frame by its number: it is found where frames are not folded. */
		if (!state.search.count && isFoldable && view.folds && base.frame.some((frame) => hits[frame])) {
			setView({ ...view, folds: false });
			return setMetric(state.metric);
		}
		byId("found").textContent = foundText(state.search);
	}
	markFound();
	writeHit();
}

/* ---------------------------------------------------------------- from hit to hit */

/* The matches with a weight, the largest first. */
function hitsByWeight() {
	const { search: found } = state;
	if (!found.sorted) {
		found.sorted = new Uint32Array(found.drawable);
		for (let id = found.first, at = 0; at < found.drawable; id++) if (isHit(id) && weights[id] > 0) found.sorted[at++] = id;
		found.sorted.sort((a, b) => weights[b] - weights[a] || a - b);
	}
	return found.sorted;
}

function writeHit() {
	const size = state.search ? state.search.drawable : 0;
	byId("hits").hidden = size < 1;
	const at = size && isHit(state.selected) && weights[state.selected] > 0 ? hitsByWeight().indexOf(state.selected) : -1;
	byId("hit").textContent = at < 0 ? "" : `${count(at + 1)} of ${count(size)}`;
}

/* Selects the next match, largest first, and zooms in if it is too narrow. */
function stepHit(step) {
	if (!state.search || !state.search.drawable) return;
	const hits = hitsByWeight();
	const at = hits.indexOf(state.selected);
	showNode(hits[at < 0 ? (step > 0 ? 0 : hits.length - 1) : (at + step + hits.length) % hits.length]);
	remember(true);
}

const isVisible = (id) => drawn.has(id) && !drawn.get(id).classList.contains("thin");

function showNode(id) {
	if (!isVisible(id)) zoomTo(model.parent[id], id);
	if (!isVisible(id)) zoomTo(id);
	select(id, false);
	drawn.get(id).scrollIntoView({ block: "nearest" });
}

/* The deepest frame above both, the first and the last of some. */
function commonAbove(first, last) {
	let id = model.parent[first];
	while (id && model.end[id] <= last) id = model.parent[id];
	return id;
}

/* Selects another metric for kernels without a value of the current one. */
function chooseMetricFor() {
	for (const side of isDiff ? [state.sized, state.sized === "now" ? "old" : "now"] : [state.sized]) {
		for (const index of [state.metric, ...metrics.keys()]) {
			if (!metrics[index].adds) continue;
			const values = weightsOf(metrics[index], side === "old" ? 1 : 0);
			if (!values.some((value, id) => value > 0 && isHit(id))) continue;
			return setMetric(index, side);
		}
	}
}

/*
 * Shows all places of a kernel: searched, in view, the largest one selected; or a frame of the
 * whole tree.
 */
function showInGraph(name, node) {
	const wanted = `"${node === undefined ? name : frameNames[base.frame[node]]}"`;
	showTab("graph");
	byId("search").value = wanted;
	search(wanted);
	if (model !== base && (!state.search.count || (node !== undefined && !model.placeOf))) {
		setView({ about: null, isInverted: false, hide: "", folds: view.folds });
		setMetric(state.metric);
	}
	if (state.search.count && !state.search.drawable) chooseMetricFor();
	const { drawable, first, last, largest } = state.search;
	const id = node === undefined ? largest : model === base ? node : model.placeOf[node];
	zoomTo(drawable ? commonAbove(first, last) : 0);
	if (drawable) {
		if (!drawn.has(id)) showNode(id);
		select(id, true);
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
