/* Flame graph: views, layout, drawing, mouse and keyboard. */

const isTouched = matchMedia("(pointer: coarse)").matches;
const ROWS = isTouched ? [32, 40] : [24, 36]; // pixels per level, minimum and maximum
const GRAPH_HEIGHT = 430; // height that few levels may fill
const LEAST_WIDTH = 0.35; // pixels; narrower frames share a box
const DRAWN_MAX = 20000; // frames; of more, the narrower ones share boxes
const LEVELS_MAX = 250; // below the zoomed frame, and a box for the rest
const ABOVE_MAX = 20; // levels above it
const BOXES = [40, 24]; // for frames that are all too narrow: their number, and minimum width in pixels
const BOX_WIDTH = 14; // pixels; that of the zoomed frame has at least so many

/* `part`: the shown children of the zoomed frame, by their places in the order of weight. */
const state = { tab: "graph", metric: 0, zoom: 0, part: null, selected: 0, isIcicle: true, sized: "now", query: "", search: null };
const view = { about: null, isInverted: false, hide: "", folds: true };
const folded = foldNumbers(base);
const isFoldable = folded !== null;
let weights = [];
let drawn = new Map(); // node to element
let drawnBoxes = []; // [box, element] of boxes for narrow frames
const graph = byId("graph");

function hashOf(text) {
	let hash = 0;
	for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
	return hash >>> 0;
}

const HUES = { kernel: 28, source: 212, scope: 158 };
function kindOf(frame) {
	return kernelFrames.has(frame) ? "kernel" : /:?\d+@|\.py@/.test(frameNames[frame]) ? "source" : "scope";
}

/* In a comparison red means more than before, blue less; stronger colors mean larger changes. */
function colour(made, id) {
	const name = nameOf(id);
	if (id === model.up) made.style.setProperty("--sat", "0%");
	if (!isDiff) {
		made.style.setProperty("--hue", HUES[kindOf(model.frame[id])] + (hashOf(name) % 17) - 8);
		made.style.setProperty("--shade", (hashOf(name) % 7) - 3);
		return;
	}
	const metric = metrics[state.metric];
	const [now, old] = [nowOf(metric, id) || 0, oldOf(metric, id) || 0];
	const change = old || now ? (now - old) / Math.max(old, now) : 0;
	made.style.setProperty("--hue", change > 0 ? 8 : 215);
	made.style.setProperty("--sat", Math.round(Math.min(1, Math.abs(change) * 2.5) * 70) + "%");
	made.style.setProperty("--shade", 0);
}

/* How many numbered frames are folded to one. */
const timesText = (id) => (model.times && model.times[id] > 1 ? ` ×${count(model.times[id])}` : "");

function describe(id) {
	const metric = metrics[state.metric];
	const name = nameOf(id) + timesText(id);
	const now = withUnit(metric, nowOf(metric, id));
	if (isDiff) {
		const old = withUnit(metric, oldOf(metric, id));
		return `${name}\n${metric.name}: ${old} before, ${now} after ${changePercent(oldOf(metric, id), nowOf(metric, id))}`;
	}
	const share = metric.inclusive ? `, ${percent(nowOf(metric, id), nowOf(metric, 0))} %` : "";
	return `${name}\n${metric.name}: ${now}${share}`;
}

/* The exclusive value of a frame; 0 if only rounding leaves a rest. */
function itself(metric, id) {
	const value = nowOf(metric, id);
	const kids = kidsOf(id).filter((kid) => kid !== model.up);
	const inside = kids.reduce((sum, kid) => sum + (nowOf(metric, kid) || 0), 0);
	const rounding = (kids.length + 8) * Number.EPSILON * Math.max(Math.abs(value), Math.abs(inside));
	return Math.abs(value - inside) <= rounding ? 0 : value - inside;
}

const TIP_METRICS = 6; // in addition to the drawn metric

function frameTip(id) {
	const drawnMetric = metrics[state.metric];
	const lines = [describe(id)];
	if (!isDiff && kidsOf(id).length && drawnMetric.inclusive) lines.push(`itself: ${withUnit(drawnMetric, itself(drawnMetric, id))}`);
	const others = metrics.filter((metric) => metric !== drawnMetric && !Number.isNaN(nowOf(metric, id)));
	if (!isDiff) for (const metric of others.slice(0, TIP_METRICS)) lines.push(`${metric.name}: ${withUnit(metric, nowOf(metric, id))}`);
	return lines.join("\n");
}

/* A source frame without its directories; the tooltip has the full name. */
const labelOf = (id) => nameOf(id).replace(/^.*\/(?=[^/]*:\d+@)/, "") + timesText(id);

// ---------------------------------------------------------------- views

function changeView(changes) {
	setView({ ...view, ...changes });
	setMetric(state.metric);
	remember(true);
}

/* Sets what tree is shown, from its root; the caller draws it. */
function setView(wanted) {
	if (Object.keys(view).every((key) => view[key] === wanted[key]) && model.view) return;
	Object.assign(view, wanted);
	const isHidden = matchingFrames(matcherOf(view.hide) || (() => false));
	const shown = view.folds && isFoldable ? folded : base.frame;
	const isPlain = shown === base.frame && !view.isInverted && view.about === null && !isHidden.includes(1);
	model = isPlain ? base : makeView(base, { ...view, shown, isHidden });
	model.view = true;
	Object.assign(state, { zoom: 0, part: null, selected: 0 });
	byId("hide").value = view.hide;
	byId("fold").setAttribute("aria-pressed", view.folds);
	byId("about").hidden = view.about === null;
	byId("about").textContent = view.about === null ? "" : "Callers and callees of " + frameNames[view.about];
	byId("tree").value = view.about !== null ? "about" : view.isInverted ? "callers" : "calls";
}

// ---------------------------------------------------------------- layout

let sorted = { id: -1 };

/* The children of a frame with a weight, the largest first. */
function kidsByWeight(id) {
	if (sorted.id !== id || sorted.weights !== weights) {
		const kids = Uint32Array.from(kidsOf(id).filter((kid) => weights[kid] > 0 && kid !== model.up));
		sorted = { id, weights, kids: kids.sort((a, b) => weights[b] - weights[a] || a - b) };
	}
	return sorted.kids;
}

/* Boxes of about the same weight for children that are all too narrow to be drawn. */
function cutInBoxes(id, from, to, whole, left, width, level, pixels) {
	const kids = kidsByWeight(id);
	const boxes = [];
	const most = Math.min(BOXES[0], Math.max(2, Math.floor((width * pixels) / BOXES[1])));
	for (let at = from, done = 0; at < to; ) {
		const first = at;
		let part = 0;
		while (at < to && (at === first || done + part < (whole * (boxes.length + 1)) / most)) part += weights[kids[at++]];
		boxes.push({ id, from: first, to: at, left: left + (done / whole) * width, width: (part / whole) * width, level });
		done += part;
	}
	return boxes;
}

/*
 * The frames to draw: [node, left, width, level], positions as shares of the width; and boxes. null:
 * more than DRAWN_MAX.
 */
function layOutFrom(pixels, leastWidth) {
	const placed = [];
	const boxes = [];
	let above = pathOf(state.zoom);
	if (above.length > ABOVE_MAX) above = [0, ...above.slice(1 - ABOVE_MAX)];
	const isUp = state.zoom >= model.up; // among callers
	above.slice(0, -1).forEach((id, level) => placed.push([id, 0, 1, isUp ? -level : level]));
	const last = above.length - 1;
	const stack = [[state.zoom, 0, 1, isUp ? -last : last]];
	while (stack.length) {
		const [id, left, width, level] = stack.pop();
		placed.push([id, left, width, level]);
		if (placed.length > DRAWN_MAX) return null;
		const range = id === state.zoom && state.part ? kidsByWeight(id).subarray(...state.part) : kidsOf(id);
		const first = range.length && range !== null && id === state.zoom && state.part ? state.part[0] : 0;
		const isZoomed = id === state.zoom;
		const next = level + (id >= model.up ? -1 : 1);
		const whole = Math.max(isZoomed && state.part ? 0 : weights[id], range.reduce((sum, kid) => sum + (kid === model.up ? 0 : weights[kid]), 0));
		const least = Math.abs(level) >= last + LEVELS_MAX ? Infinity : (leastWidth / pixels / width) * whole;
		const wide = [];
		let [narrow, rest] = [0, 0];
		for (const kid of range) {
			if (kid === model.up) stack.push([kid, 0, 1, -1]);
			else if (weights[kid] >= least && weights[kid] > 0) wide.push(kid);
			else if (weights[kid] > 0) {
				narrow++;
				rest += weights[kid];
			}
		}
		wide.sort((a, b) => weights[b] - weights[a] || a - b);
		let at = left;
		for (const kid of wide) {
			const part = (weights[kid] / whole) * width;
			stack.push([kid, at, part, next]);
			at += part;
		}
		const from = first + wide.length;
		if (isZoomed && narrow && !wide.length) {
			boxes.push(...cutInBoxes(id, from, from + narrow, rest, left, width, next, pixels));
			continue;
		}
		rest = narrow ? (rest / whole) * width : 0;
		if (isZoomed && narrow && rest * pixels < BOX_WIDTH) {
			rest = BOX_WIDTH / pixels;
			at = 1 - rest;
		}
		if (rest * pixels >= 1) boxes.push({ id, from, to: from + narrow, left: at, width: rest, level: next, isDeep: least === Infinity });
	}
	return { placed, boxes };
}

function layOut(pixels) {
	for (let least = LEAST_WIDTH; ; least *= 2) {
		const made = layOutFrom(pixels, least);
		if (made) return made;
	}
}

function draw() {
	const pixels = graph.clientWidth || 1000;
	const { placed, boxes } = layOut(pixels);
	let [low, high] = [0, 0];
	for (const level of [...placed.map((frame) => frame[3]), ...boxes.map((box) => box.level)]) [low, high] = [Math.min(low, level), Math.max(high, level)];
	const levels = 1 + high - low;
	const hadFocus = graph.contains(document.activeElement);
	const above = new Set(pathOf(state.zoom).slice(0, -1));
	drawn = new Map();
	drawnBoxes = [];
	graph.replaceChildren();
	const row = Math.max(ROWS[0], Math.min(ROWS[1], Math.floor(GRAPH_HEIGHT / levels)));
	graph.style.height = levels * row + "px";
	graph.style.setProperty("--row", row - 1 + "px");
	if (!weights[0] && !weights[state.zoom]) {
		graph.append(element("p", { class: "empty" }, `There is no ${metrics.length ? metrics[state.metric].name : "number"} to draw.`));
		return;
	}
	const place = (made, left, width, level) => {
		made.style.left = 100 * left + "%";
		made.style.width = `max(1px, calc(${100 * width}% - 1px))`;
		made.style.top = (state.isIcicle ? level - low : high - level) * row + "px";
		graph.append(made);
	};
	if (!placed.some((frame) => frame[0] === state.selected)) state.selected = state.zoom;
	for (const [id, left, width, level] of placed) {
		const isThin = width * pixels < 26;
		const made = element("div", {
			class: "frame" + (isThin ? " thin" : "") + (above.has(id) ? " above" : ""),
			role: "treeitem", tabIndex: id === state.selected ? 0 : -1,
			"aria-level": Math.abs(level) + 1, "aria-selected": id === state.selected, "data-node": id,
			"aria-label": describe(id).replace("\n", ", "),
		}, isThin ? "" : labelOf(id));
		if (model.end[id] > id + 1) made.setAttribute("aria-expanded", "true");
		place(made, left, width, level);
		colour(made, id);
		drawn.set(id, made);
	}
	for (const box of boxes) {
		const text = `${count(box.to - box.from)} ${box.isDeep ? "deeper" : "narrower"} frame${box.to - box.from === 1 ? "" : "s"}`;
		const made = element("div", {
			class: "rest" + (box.width * pixels < 26 ? " thin" : ""), role: "treeitem", tabIndex: box.id === state.zoom ? 0 : -1,
			"aria-label": text + ", zoom in", "data-tip": text + "\nClick to zoom in", "data-box": drawnBoxes.length,
		}, box.width * pixels < 90 ? "" : text);
		place(made, box.left, box.width, box.level);
		drawnBoxes.push([box, made]);
	}
	markFound();
	if (hadFocus) focusSelected();
	writeCrumbs();
	byId("reset").disabled = state.zoom === 0 && !state.part;
	hideTipOfGone();
}

function writeCrumbs() {
	const path = pathOf(state.zoom);
	byId("crumbs").replaceChildren();
	if (path.length < 2 && !state.part) return;
	const shown = path.length > 7 ? [path[0], null, ...path.slice(-5)] : path;
	shown.forEach((id, index) => {
		if (index) byId("crumbs").append(element("span", {}, "›"));
		if (id === null) byId("crumbs").append(element("span", {}, "…"));
		else byId("crumbs").append(element("button", { type: "button", "data-tip": nameOf(id), onclick: () => zoom(id) }, labelOf(id)));
	});
	if (state.part) byId("crumbs").append(element("span", {}, `› frames ${count(state.part[0] + 1)} to ${count(state.part[1])} of ${count(kidsByWeight(state.zoom).length)}, by size`));
}

function writeDetails() {
	const id = state.selected;
	const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
	const rows = [];
	for (const metric of metrics) {
		const [now, old] = [nowOf(metric, id), oldOf(metric, id)];
		if (Number.isNaN(now) && Number.isNaN(old)) continue;
		if (isDiff) {
			const change = difference(old || 0, now || 0);
			rows.push(row("td", [metric.name, formatNumber(metric.style, old), formatNumber(metric.style, now), metric.adds ? signed(formatNumber(metric.style, change)) : "", changePercent(old, now)]));
			continue;
		}
		const adds = metric.inclusive && metric.adds;
		rows.push(row("td", [metric.name, formatNumber(metric.style, now), adds ? percent(now, nowOf(metric, 0)) : "", adds ? formatNumber(metric.style, itself(metric, id)) : ""]));
	}
	const head = isDiff ? ["", "before", "after", "change", "%"] : ["", "value", "% of all", "itself"];
	const sampled = sampledKernelOf(id);
	const button = (text, onclick, kind = "") => element("button", { type: "button", class: kind, onclick }, text);
	const buttons = id && id !== model.up ? [
		button("Callers and callees", () => changeView({ about: model.frame[id], isInverted: false })),
		button("Hide", () => changeView({ about: null, hide: `"${nameOf(id)}"` })),
	] : [];
	if (sampled) buttons.push(button("Source lines", () => showSource(sampled, nameOf(id)), "to-source"));
	byId("details").replaceChildren(element("div", { class: "actions" }, ...buttons), element("h2", {}, nameOf(id) + timesText(id)),
		rows.length ? element("table", {}, element("thead", {}, row("th", head)), element("tbody", {}, ...rows)) : element("p", { class: "quiet" }, "Nothing was measured in this frame itself."));
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
	writeHit();
}

function zoomTo(id, selected = id, part = null) {
	state.zoom = id;
	state.part = part;
	state.selected = selected;
	draw();
	writeDetails();
	writeHit();
	const made = drawn.get(state.selected);
	if (made) made.scrollIntoView({ block: "nearest" });
}

function zoom(id, part = null) {
	if (id === state.zoom && id === state.selected && part === state.part) return;
	zoomTo(id, id, part);
	remember(true);
}

function setMetric(index, side = state.sized) {
	state.metric = index;
	state.sized = side;
	byId("metric").value = index;
	byId("sized").value = side;
	weights = metrics.length ? weightsOf(metrics[index], side === "old" ? 1 : 0) : new Float64Array(model.count);
	draw();
	writeDetails();
	search(state.query);
}

/* The neighbor of a frame on its level. */
function beside(id, step) {
	const rectangle = drawn.get(id).getBoundingClientRect();
	const level = [...drawn].filter(([, made]) => made.style.top === drawn.get(id).style.top)
		.map(([other, made]) => [other, made.getBoundingClientRect().left]).sort((a, b) => a[1] - b[1]);
	const index = level.findIndex(([other]) => other === id) + step;
	return rectangle && level[index] ? level[index][0] : id;
}

function onGraphKey(event) {
	if (event.altKey || event.ctrlKey || event.metaKey) return; // the browser's shortcuts: Back, Forward
	const id = state.selected;
	const inner = () => [...drawn.keys()].filter((kid) => kid && model.parent[kid] === id && kid !== model.up).sort((a, b) => weights[b] - weights[a])[0];
	const outer = () => (id ? model.parent[id] : id);
	const moves = {
		ArrowLeft: () => beside(id, -1), ArrowRight: () => beside(id, 1),
		ArrowDown: state.isIcicle ? inner : outer, ArrowUp: state.isIcicle ? outer : inner,
		Home: () => 0,
	};
	const box = event.target.closest("[data-box]");
	if (box && (event.key === "Enter" || event.key === " ")) {
		zoomBox(box);
	} else if (moves[event.key] && drawn.has(id)) {
		const next = moves[event.key]();
		if (next !== undefined && drawn.has(next)) {
			select(next, true);
			remember(false);
		}
	} else if (event.key === "Enter" || event.key === " ") {
		zoom(id);
		focusSelected();
	} else if (event.key === "Backspace") {
		zoom(state.part ? state.zoom : model.parent[state.zoom]);
		focusSelected();
	} else {
		return;
	}
	event.preventDefault();
}

function zoomBox(made) {
	const [box] = drawnBoxes[made.dataset.box];
	zoom(box.id, [box.from, box.to]);
	focusSelected();
}

function focusSelected() {
	const made = drawn.get(state.selected);
	if (made) made.focus({ preventScroll: true });
}

function setDirection(isIcicle) {
	state.isIcicle = isIcicle;
	press("icicle", "flame", !isIcicle);
	draw();
	byId("graph-scroll").scrollTop = isIcicle ? 0 : graph.clientHeight;
}

const FIRST_METRIC = Math.max(0, metrics.findIndex((metric) => metric.adds));

function startGraph() {
	setView(view);
	metrics.forEach((metric, index) => {
		if (metric.adds) byId("metric").append(element("option", { value: index }, metric.name));
	});
	if (!metrics.some((metric) => metric.adds)) byId("metric").disabled = true;
	byId("metric").onchange = (event) => {
		setMetric(Number(event.target.value));
		remember(true);
	};
	byId("sized-label").hidden = !isDiff;
	byId("sized").onchange = (event) => {
		setMetric(state.metric, event.target.value);
		remember(true);
	};
	onChoice("icicle", "flame", (isFlame) => {
		setDirection(!isFlame);
		remember(true);
	});
	byId("reset").onclick = () => zoom(0);
	graph.onclick = (event) => {
		const made = event.target.closest(".frame, .rest");
		if (!made) return;
		if (made.dataset.box) return zoomBox(made);
		zoom(Number(made.dataset.node));
		focusSelected();
	};
	byId("tree").onchange = (event) => changeView({ about: null, isInverted: event.target.value === "callers" });
	byId("hide").onchange = (event) => changeView({ hide: event.target.value });
	byId("fold").hidden = !isFoldable;
	byId("fold").onclick = () => changeView({ folds: !view.folds });
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
	setMetric(FIRST_METRIC);
	let width = graph.clientWidth;
	new ResizeObserver(() => {
		if (!graph.clientWidth || graph.clientWidth === width) return;
		width = graph.clientWidth;
		draw();
	}).observe(graph);
}
