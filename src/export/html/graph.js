/* The flame graph: what is drawn of the tree, its search, and its use by mouse and keyboard. */

const state = { metric: 0, zoom: 0, selected: 0, isIcicle: true, sized: "now", search: null };
let weights = [];
let drawn = new Map(); // node to its element
let drawnRests = []; // [node above, element] of boxes for what has no element of its own
const graph = byId("graph");

function hashOf(text) {
	let hash = 0;
	for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
	return hash >>> 0;
}

const HUES = { kernel: 28, source: 212, scope: 158 };
function kindOf(name) {
	return kernelNames.has(name) ? "kernel" : /:?\d+@|\.py@/.test(name) ? "source" : "scope";
}

/* In a comparison red is more than before, blue is less, the stronger the more. */
function colour(made, id) {
	const name = model.names[id];
	if (!isDiff) {
		made.style.setProperty("--hue", HUES[kindOf(name)] + (hashOf(name) % 17) - 8);
		made.style.setProperty("--shade", (hashOf(name) % 7) - 3);
		return;
	}
	const metric = model.metrics[state.metric];
	const [now, old] = [metric.now[id] || 0, metric.old[id] || 0];
	const change = old || now ? (now - old) / Math.max(old, now) : 0;
	made.style.setProperty("--hue", change > 0 ? 8 : 215);
	made.style.setProperty("--sat", Math.round(Math.min(1, Math.abs(change) * 2.5) * 70) + "%");
	made.style.setProperty("--shade", 0);
}

function describe(id) {
	const metric = model.metrics[state.metric];
	const now = withUnit(metric, figure(metric.style, metric.now[id]));
	if (isDiff) {
		const old = withUnit(metric, figure(metric.style, metric.old[id]));
		return `${model.names[id]}\n${metric.name}: ${old} before, ${now} after ${changePercent(metric.old[id], metric.now[id])}`;
	}
	const share = metric.inclusive ? `, ${percent(metric.now[id], metric.now[0])} %` : "";
	return `${model.names[id]}\n${metric.name}: ${now}${share}`;
}

/* A source frame without its directories; the whole name is in the title. */
const labelOf = (id) => model.names[id].replace(/^.*\/(?=[^/]*:\d+@)/, "");

/* The frames to draw: [node, left, width, level], positions as shares of the width. */
function layOut(pixels) {
	const placed = [];
	const tooNarrow = []; // [narrower frames, frames not drawn, left, width, level, what they are below]
	const metric = model.metrics[state.metric];
	const side = state.sized === "old" ? 1 : 0;
	const above = pathOf(state.zoom);
	above.slice(0, -1).forEach((id, level) => placed.push([id, 0, 1, level]));
	const stack = [[state.zoom, 0, 1, above.length - 1]];
	while (stack.length) {
		const [id, left, width, level] = stack.pop();
		placed.push([id, left, width, level]);
		const kids = model.children[id].filter((kid) => weights[kid] > 0).sort((a, b) => weights[b] - weights[a] || a - b);
		const inside = kids.reduce((sum, kid) => sum + weights[kid], 0);
		const below = metric ? Math.max(0, metric.below[side][id]) : 0;
		const whole = Math.max(weights[id], inside + below);
		let at = left;
		let [narrow, rest] = [0, below];
		for (const kid of kids) {
			const part = (weights[kid] / whole) * width;
			if (part * pixels < LEAST_WIDTH) {
				const others = kids.slice(kids.indexOf(kid));
				rest += others.reduce((sum, other) => sum + weights[other], 0);
				narrow = others.length;
				break;
			}
			stack.push([kid, at, part, level + 1]);
			at += part;
		}
		rest = whole ? (rest / whole) * width : 0;
		if (rest * pixels >= 1) tooNarrow.push([narrow, model.below[side][id], at, rest, level + 1, id]);
	}
	return { placed, tooNarrow };
}

function place(made, left, width, level, levels, row) {
	made.style.left = 100 * left + "%";
	made.style.width = `max(1px, calc(${100 * width}% - 1px))`;
	made.style.top = (state.isIcicle ? level : levels - 1 - level) * row + "px";
}

function draw() {
	const pixels = graph.clientWidth || 1000;
	const { placed, tooNarrow } = layOut(pixels);
	const levels = 1 + [...placed.map((frame) => frame[3]), ...tooNarrow.map((rest) => rest[4])].reduce((most, level) => Math.max(most, level), 0);
	const hadFocus = graph.contains(document.activeElement);
	const above = new Set(pathOf(state.zoom).slice(0, -1));
	drawn = new Map();
	graph.replaceChildren();
	const row = Math.max(ROWS[0], Math.min(ROWS[1], Math.floor(GRAPH_HEIGHT / levels)));
	graph.style.height = levels * row + "px";
	graph.style.setProperty("--row", row - 1 + "px");
	if (!weights[0] && !weights[state.zoom]) {
		graph.append(element("p", { class: "empty" }, `There is no ${model.metrics.length ? model.metrics[state.metric].name : "number"} to draw.`));
		return;
	}
	if (!placed.some((frame) => frame[0] === state.selected)) state.selected = state.zoom;
	for (const [id, left, width, level] of placed) {
		const isThin = width * pixels < 26;
		const made = element("div", {
			class: "frame" + (isThin ? " thin" : "") + (above.has(id) ? " above" : ""),
			role: "treeitem", tabIndex: id === state.selected ? 0 : -1, title: describe(id),
			"aria-level": level + 1, "aria-selected": id === state.selected, "data-node": id,
			"aria-label": describe(id).replace("\n", ", "),
		}, isThin ? "" : labelOf(id));
		if (model.children[id].length) made.setAttribute("aria-expanded", "true");
		place(made, left, width, level, levels, row);
		colour(made, id);
		drawn.set(id, made);
		graph.append(made);
	}
	drawnRests = [];
	for (const [narrow, below, left, width, level, id] of tooNarrow) {
		const texts = [];
		if (narrow) texts.push(`${count(narrow)} narrower frames`);
		if (below) texts.push(`${frames(below)} not drawn`);
		const title = texts.join(" and ") + (narrow ? ": zoom in to see the narrower ones" : ", see the note above");
		const made = element("div", { class: "rest", title: below ? title : texts[0] + ": zoom in to see them" }, width * pixels < 90 ? "" : texts.join(", "));
		place(made, left, width, level, levels, row);
		drawnRests.push([id, made]);
		graph.append(made);
	}
	markFound();
	if (hadFocus) drawn.get(state.selected).focus({ preventScroll: true });
	writeCrumbs();
	byId("reset").disabled = state.zoom === 0;
}

function writeCrumbs() {
	const path = pathOf(state.zoom);
	byId("crumbs").replaceChildren();
	if (path.length < 2) return;
	const shown = path.length > 7 ? [path[0], null, ...path.slice(-5)] : path;
	shown.forEach((id, index) => {
		if (index) byId("crumbs").append(element("span", {}, "›"));
		if (id === null) byId("crumbs").append(element("span", {}, "…"));
		else byId("crumbs").append(element("button", { type: "button", title: model.names[id], onclick: () => zoom(id) }, labelOf(id)));
	});
}

function writeDetails() {
	const id = state.selected;
	const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
	const rows = [];
	const self = (metric, values) => {
		if (values[id] === null) return null;
		const rest = values[id] - metric.below[0][id] - model.children[id].reduce((sum, kid) => sum + (values[kid] || 0), 0);
		return Math.abs(rest) <= 1e-12 * Math.abs(values[id]) ? 0 : rest; // what rounding leaves of nothing
	};
	for (const metric of model.metrics) {
		const now = figure(metric.style, metric.now[id]);
		if (isDiff) {
			const change = (metric.now[id] || 0) - (metric.old[id] || 0);
			rows.push(row("td", [metric.name, figure(metric.style, metric.old[id]), now, metric.adds ? signed(figure(metric.style, change)) : "", changePercent(metric.old[id], metric.now[id])]));
			continue;
		}
		const adds = metric.inclusive && metric.adds;
		rows.push(row("td", [metric.name, now, adds ? percent(metric.now[id], metric.now[0]) : "", adds ? figure(metric.style, self(metric, metric.now)) : ""]));
	}
	const head = isDiff ? ["", "before", "after", "change", "%"] : ["", "value", "% of all", "itself"];
	byId("details").replaceChildren(element("h2", {}, model.names[id]),
		element("table", {}, element("thead", {}, row("th", head)), element("tbody", {}, ...rows)));
}

function select(id, takesFocus) {
	const before = drawn.get(state.selected);
	if (before) {
		before.tabIndex = -1;
		before.setAttribute("aria-selected", "false");
	}
	state.selected = id;
	const now = drawn.get(id);
	if (now) {
		now.tabIndex = 0;
		now.setAttribute("aria-selected", "true");
		if (takesFocus) {
			now.focus({ preventScroll: true });
			now.scrollIntoView({ block: "nearest" });
		}
	}
	writeDetails();
}

function zoom(id) {
	state.zoom = id;
	state.selected = id;
	draw();
	writeDetails();
	const made = drawn.get(id);
	if (made) made.scrollIntoView({ block: "nearest" });
}

function setMetric(index) {
	state.metric = index;
	weights = model.metrics.length ? weightsOf(model.metrics[index], state.sized) : new Array(model.count).fill(0);
	draw();
	writeDetails();
}

/* "text" anywhere, in any case; "/regex/" as the author wrote it. */
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
	const wanted = text.toLowerCase();
	return (name) => name.toLowerCase().includes(wanted);
}

function markFound() {
	graph.classList.toggle("searching", state.search !== null);
	for (const [id, made] of drawn) made.classList.toggle("hit", state.search !== null && state.search.has(id));
	for (const [id, made] of drawnRests) made.classList.toggle("hit", state.search !== null && state.foundBelow.has(id));
}

const unpacked = [null, null]; // the frames that are not drawn, by side, and weights by metric

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

/* What a search finds among the frames that are not drawn; `inside`: nodes in which all is found. */
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
		let covered = start; // what is deeper than this level is in a frame that was found
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
	/* Of the smallest only sums by name are known: exact if nothing is below what was found. */
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
}

function foundText(found) {
	const whole = weights[0];
	let text = frames(state.search.size + found.pruned);
	if (found.pruned) text += ` (${count(found.pruned)} not drawn)`;
	if (!whole || !model.metrics.length) return text;
	const [least, most] = [percent(found.sum, whole), percent(Math.min(whole, found.sum + found.perhaps), whole)];
	return `${text}, ${least === most ? least : `${least} to ${most}`} % of ${model.metrics[state.metric].name}`;
}

function search(text) {
	const matches = matcherOf(text);
	state.search = null;
	byId("found").textContent = matches === undefined ? "no regular expression" : "";
	if (matches) {
		const known = new Map();
		const isMatch = (name) => {
			if (!known.has(name)) known.set(name, matches(name));
			return known.get(name);
		};
		const inside = new Uint8Array(model.count);
		const found = { sum: 0, perhaps: 0, pruned: 0, below: new Set() };
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
		byId("found").textContent = foundText(found);
	}
	markFound();
}

/* The frame beside one, on its level. */
function beside(id, step) {
	const rectangle = drawn.get(id).getBoundingClientRect();
	const level = [...drawn].filter(([, made]) => made.style.top === drawn.get(id).style.top)
		.map(([other, made]) => [other, made.getBoundingClientRect().left]).sort((a, b) => a[1] - b[1]);
	const index = level.findIndex(([other]) => other === id) + step;
	return rectangle && level[index] ? level[index][0] : id;
}

function onGraphKey(event) {
	const id = state.selected;
	const inner = () => model.children[id].filter((kid) => drawn.has(kid)).sort((a, b) => weights[b] - weights[a])[0];
	const outer = () => (id ? model.parent[id] : id);
	const moves = {
		ArrowLeft: () => beside(id, -1), ArrowRight: () => beside(id, 1),
		ArrowDown: state.isIcicle ? inner : outer, ArrowUp: state.isIcicle ? outer : inner,
		Home: () => 0,
	};
	if (moves[event.key] && drawn.has(id)) {
		const next = moves[event.key]();
		if (next !== undefined && drawn.has(next)) select(next, true);
	} else if (event.key === "Enter" || event.key === " ") {
		zoom(id);
	} else if (event.key === "Backspace") {
		zoom(model.parent[state.zoom]);
	} else {
		return;
	}
	event.preventDefault();
}

function setDirection(isIcicle) {
	state.isIcicle = isIcicle;
	byId("icicle").setAttribute("aria-pressed", isIcicle);
	byId("flame").setAttribute("aria-pressed", !isIcicle);
	draw();
	byId("graph-scroll").scrollTop = isIcicle ? 0 : graph.clientHeight;
}

function startGraph() {
	model.metrics.forEach((metric, index) => {
		if (metric.adds) byId("metric").append(element("option", { value: index }, metric.name));
	});
	if (!model.metrics.some((metric) => metric.adds)) byId("metric").disabled = true;
	byId("metric").onchange = (event) => {
		setMetric(Number(event.target.value));
		search(byId("search").value);
	};
	byId("sized-label").hidden = !isDiff;
	byId("sized").onchange = (event) => {
		state.sized = event.target.value;
		setMetric(state.metric);
		search(byId("search").value);
	};
	byId("icicle").onclick = () => setDirection(true);
	byId("flame").onclick = () => setDirection(false);
	byId("search").oninput = (event) => search(event.target.value);
	byId("reset").onclick = () => zoom(0);
	graph.onclick = (event) => {
		const made = event.target.closest(".frame");
		if (!made) return;
		zoom(Number(made.dataset.node));
		drawn.get(state.selected).focus({ preventScroll: true });
	};
	graph.onkeydown = onGraphKey;
	const legend = byId("legend");
	const sample = (style, text) => {
		const box = element("i");
		for (const [key, value] of Object.entries(style)) box.style.setProperty(key, value);
		legend.append(box, text);
	};
	if (isDiff) {
		sample({ "--hue": 8, "--sat": "70%" }, "more than before");
		sample({ "--hue": 215, "--sat": "70%" }, "less");
		sample({ "--hue": 0, "--sat": "0%" }, "the same");
	} else {
		sample({ "--hue": HUES.kernel }, "kernel");
		sample({ "--hue": HUES.source }, "source line");
		sample({ "--hue": HUES.scope }, "scope");
	}
	const first = model.metrics.findIndex((metric) => metric.adds);
	setMetric(first < 0 ? 0 : first);
	let width = graph.clientWidth;
	new ResizeObserver(() => {
		if (!graph.clientWidth || graph.clientWidth === width) return;
		width = graph.clientWidth;
		draw();
	}).observe(graph);
}
