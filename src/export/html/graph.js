/* Flame graph: layout, drawing, mouse and keyboard. */

const isTouched = matchMedia("(pointer: coarse)").matches;
const ROWS = isTouched ? [32, 40] : [24, 36]; // pixels per level, minimum and maximum
const GRAPH_HEIGHT = 430; // height that few levels may fill
const LEAST_WIDTH = 0.35; // pixels; narrower frames are not drawn

const state = { tab: "graph", metric: 0, zoom: 0, selected: 0, isIcicle: true, sized: "now", query: "", search: null };
let weights = [];
let drawn = new Map(); // node to element
let drawnRests = []; // [parent node, element, narrow nodes] of boxes for nodes without an element
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

/* In a comparison red means more than before, blue less; stronger colors mean larger changes. */
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
	const now = withUnit(metric, metric.now[id]);
	if (isDiff) {
		const old = withUnit(metric, metric.old[id]);
		return `${model.names[id]}\n${metric.name}: ${old} before, ${now} after ${changePercent(metric.old[id], metric.now[id])}`;
	}
	const share = metric.inclusive ? `, ${percent(metric.now[id], metric.now[0])} %` : "";
	return `${model.names[id]}\n${metric.name}: ${now}${share}`;
}

/* The exclusive value of a frame; 0 if only rounding leaves a rest. */
function itself(metric, id) {
	const value = metric.now[id];
	if (value === null) return null;
	const kids = model.children[id].map((kid) => metric.now[kid] || 0);
	const inside = kids.reduce((sum, part) => sum + part, metric.below[0][id]);
	const rounding = (kids.length + model.below[0][id] + 8) * Number.EPSILON * Math.max(Math.abs(value), Math.abs(inside));
	return Math.abs(value - inside) <= rounding ? 0 : value - inside;
}

const TIP_METRICS = 6; // in addition to the drawn metric

function frameTip(id) {
	const drawnMetric = model.metrics[state.metric];
	const lines = [describe(id)];
	if (!isDiff && model.children[id].length && drawnMetric.inclusive) lines.push(`itself: ${withUnit(drawnMetric, itself(drawnMetric, id))}`);
	const others = model.metrics.filter((metric) => metric !== drawnMetric && metric.now[id] !== null);
	if (!isDiff) for (const metric of others.slice(0, TIP_METRICS)) lines.push(`${metric.name}: ${withUnit(metric, metric.now[id])}`);
	return lines.join("\n");
}

/* A source frame without its directories; the tooltip has the full name. */
const labelOf = (id) => model.names[id].replace(/^.*\/(?=[^/]*:\d+@)/, "");

/* The frames to draw: [node, left, width, level], positions as shares of the width. */
function layOut(pixels) {
	const placed = [];
	const tooNarrow = []; // [narrow nodes, frames not drawn, left, width, level, parent]
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
		let [narrow, rest] = [[], below];
		for (const kid of kids) {
			const part = (weights[kid] / whole) * width;
			if (part * pixels < LEAST_WIDTH) {
				narrow = kids.slice(kids.indexOf(kid));
				rest += narrow.reduce((sum, other) => sum + weights[other], 0);
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
			role: "treeitem", tabIndex: id === state.selected ? 0 : -1,
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
		if (narrow.length) texts.push(`${count(narrow.length)} narrower frame${narrow.length === 1 ? "" : "s"}`);
		if (below) texts.push(`${frames(below)} not drawn`);
		const canZoom = narrow.length && id !== state.zoom;
		const tip = texts.join("\n") + (canZoom ? "\nClick to zoom in" : "");
		const made = element("div", { class: "rest" + (canZoom ? " zooms" : "") + (width * pixels < 26 ? " thin" : ""), "data-tip": tip, "data-above": id }, width * pixels < 90 ? "" : texts.join(", "));
		place(made, left, width, level, levels, row);
		drawnRests.push([id, made, narrow]);
		graph.append(made);
	}
	markFound();
	if (hadFocus) drawn.get(state.selected).focus({ preventScroll: true });
	writeCrumbs();
	byId("reset").disabled = state.zoom === 0;
	hideTipOfGone();
}

function writeCrumbs() {
	const path = pathOf(state.zoom);
	byId("crumbs").replaceChildren();
	if (path.length < 2) return;
	const shown = path.length > 7 ? [path[0], null, ...path.slice(-5)] : path;
	shown.forEach((id, index) => {
		if (index) byId("crumbs").append(element("span", {}, "›"));
		if (id === null) byId("crumbs").append(element("span", {}, "…"));
		else byId("crumbs").append(element("button", { type: "button", "data-tip": model.names[id], onclick: () => zoom(id) }, labelOf(id)));
	});
}

function writeDetails() {
	const id = state.selected;
	const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
	const rows = [];
	for (const metric of model.metrics) {
		const now = formatNumber(metric.style, metric.now[id]);
		if (isDiff) {
			const change = difference(metric.old[id] || 0, metric.now[id] || 0);
			rows.push(row("td", [metric.name, formatNumber(metric.style, metric.old[id]), now, metric.adds ? signed(formatNumber(metric.style, change)) : "", changePercent(metric.old[id], metric.now[id])]));
			continue;
		}
		const adds = metric.inclusive && metric.adds;
		rows.push(row("td", [metric.name, now, adds ? percent(metric.now[id], metric.now[0]) : "", adds ? formatNumber(metric.style, itself(metric, id)) : ""]));
	}
	const head = isDiff ? ["", "before", "after", "change", "%"] : ["", "value", "% of all", "itself"];
	const sampled = sampledKernelOf(id);
	const button = sampled && element("button", { type: "button", class: "to-source", onclick: () => showSource(sampled, model.names[id]) }, "Source lines");
	byId("details").replaceChildren(...(button ? [button] : []), element("h2", {}, model.names[id]),
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
	writeHit();
}

function zoomTo(id, selected = id) {
	state.zoom = id;
	state.selected = selected;
	draw();
	writeDetails();
	writeHit();
	const made = drawn.get(state.selected);
	if (made) made.scrollIntoView({ block: "nearest" });
}

function zoom(id) {
	if (id === state.zoom && id === state.selected) return;
	zoomTo(id);
	remember(true);
}

function setMetric(index, side = state.sized) {
	state.metric = index;
	state.sized = side;
	byId("metric").value = index;
	byId("sized").value = side;
	weights = model.metrics.length ? weightsOf(model.metrics[index], side) : new Array(model.count).fill(0);
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
	const inner = () => model.children[id].filter((kid) => drawn.has(kid)).sort((a, b) => weights[b] - weights[a])[0];
	const outer = () => (id ? model.parent[id] : id);
	const moves = {
		ArrowLeft: () => beside(id, -1), ArrowRight: () => beside(id, 1),
		ArrowDown: state.isIcicle ? inner : outer, ArrowUp: state.isIcicle ? outer : inner,
		Home: () => 0,
	};
	if (moves[event.key] && drawn.has(id)) {
		const next = moves[event.key]();
		if (next !== undefined && drawn.has(next)) {
			select(next, true);
			remember(false);
		}
	} else if (event.key === "Enter" || event.key === " ") {
		zoom(id);
		focusSelected();
	} else if (event.key === "Backspace") {
		zoom(model.parent[state.zoom]);
		focusSelected();
	} else {
		return;
	}
	event.preventDefault();
}

function focusSelected() {
	const made = drawn.get(state.selected);
	if (made) made.focus({ preventScroll: true });
}

function setDirection(isIcicle) {
	state.isIcicle = isIcicle;
	byId("icicle").setAttribute("aria-pressed", isIcicle);
	byId("flame").setAttribute("aria-pressed", !isIcicle);
	draw();
	byId("graph-scroll").scrollTop = isIcicle ? 0 : graph.clientHeight;
}

const FIRST_METRIC = Math.max(0, model.metrics.findIndex((metric) => metric.adds));

function startGraph() {
	model.metrics.forEach((metric, index) => {
		if (metric.adds) byId("metric").append(element("option", { value: index }, metric.name));
	});
	if (!model.metrics.some((metric) => metric.adds)) byId("metric").disabled = true;
	byId("metric").onchange = (event) => {
		setMetric(Number(event.target.value));
		remember(true);
	};
	byId("sized-label").hidden = !isDiff;
	byId("sized").onchange = (event) => {
		setMetric(state.metric, event.target.value);
		remember(true);
	};
	for (const [name, isIcicle] of [["icicle", true], ["flame", false]]) {
		byId(name).onclick = () => {
			setDirection(isIcicle);
			remember(true);
		};
	}
	byId("reset").onclick = () => zoom(0);
	graph.onclick = (event) => {
		const made = event.target.closest(".frame, .rest.zooms");
		if (!made) return;
		zoom(Number(made.dataset.node || made.dataset.above));
		focusSelected();
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
	setMetric(FIRST_METRIC);
	let width = graph.clientWidth;
	new ResizeObserver(() => {
		if (!graph.clientWidth || graph.clientWidth === width) return;
		width = graph.clientWidth;
		draw();
	}).observe(graph);
}
