/*
 * The report's page: draws the profile that stands in the page as JSON (written by src/export/html.c).
 * Numbers are printed as proton-viewer prints them: figure() is figure_write() of src/viewer/figure.c.
 */
"use strict";
(() => {
const data = JSON.parse(document.getElementById("profile").textContent);
const isDiff = data.before !== null;
const byId = (id) => document.getElementById(id);
const ROWS = [24, 36]; // pixels of a level, at least and at most
const GRAPH_HEIGHT = 430; // what few levels may fill
const LEAST_WIDTH = 0.35; // pixels; narrower frames are not drawn
const TABLE_ROWS = [200, 5000]; // of kernels: at first, and more at a click
const ROOFLINE_POINTS = 2000;

function element(tag, properties, ...children) {
	const made = document.createElement(tag);
	for (const [key, value] of Object.entries(properties || {})) {
		if (key === "class") made.className = value;
		else if (key.includes("-") || key === "role" || key === "for") made.setAttribute(key, value);
		else made[key] = value;
	}
	made.append(...children);
	return made;
}

function drawing(tag, attributes, ...children) {
	const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
	made.append(...children);
	return made;
}

// ---------------------------------------------------------------- numbers

/* printf("%.*f"): a tie goes to the even digit, where toFixed() goes up. */
function fixed(value, decimals) {
	const long = Math.abs(value).toFixed(Math.min(100, decimals + 30));
	const point = long.length - 30;
	const text = Math.abs(value).toFixed(decimals);
	if (/^50*$/.test(long.slice(point))) {
		const down = decimals ? long.slice(0, point) : long.slice(0, point - 1);
		if ("02468".includes(down[down.length - 1])) return (value < 0 ? "-" : "") + down;
	}
	return (value < 0 ? "-" : "") + text;
}

function exponential(value, decimals) {
	return value.toExponential(decimals).replace(/e([+-])(\d)$/, "e$10$2");
}

/* The style of a column: figure_style_for() of src/viewer/figure.c. */
function styleFor(largest, isInteger) {
	if (largest >= 1e15 || (largest > 0 && largest < 1e-6)) return { scientific: true, decimals: 4 };
	if (isInteger) return { scientific: false, decimals: 0 };
	const magnitude = largest > 0 ? Math.floor(Math.log10(largest)) : 0;
	let decimals = 4 - magnitude;
	if (decimals < 2) decimals = largest < 1e7 ? 2 : 0;
	return { scientific: false, decimals };
}

function figure(style, value) {
	if (value === null || !Number.isFinite(value)) return "-";
	if (value === 0) return "0";
	if (style.scientific) return exponential(value, style.decimals);
	if (Math.abs(value) < 0.5 * Math.pow(10, -style.decimals)) return exponential(value, 0);
	return fixed(value, style.decimals);
}

const PERCENT = { scientific: false, decimals: 2 };
const percent = (part, whole) => (whole ? figure(PERCENT, (100 * part) / whole) : "-");
const signed = (text) => (/^[-0]/.test(text) && !/[1-9]/.test(text) ? "0" : text.startsWith("-") ? "−" + text.slice(1) : "+" + text);

function changePercent(before, after) {
	if (!before) return after ? "new" : "";
	if (!after) return "gone";
	return signed(figure(PERCENT, (100 * (after - before)) / before)) + " %";
}

const UNITS = { nanoseconds: "ns", microseconds: "µs", milliseconds: "ms", seconds: "s", bytes: "B", percent: "%" };
const unitOf = (metric) => UNITS[metric.unit] || "";
const withUnit = (metric, text) => (unitOf(metric) && text !== "-" ? text + " " + unitOf(metric) : text);

const count = (number) => number.toLocaleString("en-GB");
const frames = (number) => `${count(number)} frame${number === 1 ? "" : "s"}`;

/* Five bits a character, the lowest first: see src/export/html_pruned.h. */
const DIGITS = new Uint8Array(128);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].forEach((digit, value) => (DIGITS[digit.charCodeAt(0)] = value));

function unpack(text) {
	const numbers = [];
	let [value, scale] = [0, 1];
	for (let i = 0; i < text.length; i++) {
		const digit = DIGITS[text.charCodeAt(i)];
		value += (digit & 31) * scale;
		scale *= 32;
		if (digit & 32) continue;
		numbers.push(value);
		[value, scale] = [0, 1];
	}
	return numbers;
}

function unpackWeights({ unit, values }) {
	const numbers = unpack(values);
	const weights = [];
	for (let i = 0; i < numbers.length; i++) {
		weights.push(numbers[i] * unit);
		if (!numbers[i]) for (let more = numbers[++i]; more > 0; more--) weights.push(0);
	}
	return weights;
}

// ---------------------------------------------------------------- the tree

for (const profile of isDiff ? [data.now, data.before] : [data.now])
	for (const kernel of profile.kernels) kernel[0] = profile.frames[kernel[0]];

/* One tree of one profile, or of two: nodes are the same if their paths are. */
function buildModel() {
	const names = [];
	const parent = [];
	const children = [];
	const numbers = []; // of the node in data.now and in data.before, -1: not there
	const idOf = [[], []]; // the reverse, by side
	const add = (name, above) => {
		const id = names.length;
		names.push(name);
		parent.push(above);
		children.push([]);
		numbers.push([-1, -1]);
		if (id) children[above].push(id);
		return id;
	};
	[data.now, data.before].forEach((profile, side) => {
		if (!profile) return;
		const taken = new Map(); // "parent, name" to how many were seen
		const first = new Map(); // the same to the nodes of data.now, in order
		for (let id = 1; side && id < names.length; id++) {
			const key = parent[id] + " " + names[id];
			if (first.has(key)) first.get(key).push(id);
			else first.set(key, [id]);
		}
		profile.frame.forEach((frame, number) => {
			const name = profile.frames[frame];
			let id = 0;
			if (number === 0) {
				if (!names.length) add(name, 0);
			} else {
				const above = idOf[side][profile.parent[number]];
				const key = above + " " + name;
				const same = first.get(key) || [];
				const seen = taken.get(key) || 0;
				taken.set(key, seen + 1);
				id = seen < same.length ? same[seen] : add(name, above);
			}
			idOf[side][number] = id;
			numbers[id][side] = number;
		});
	});
	/* What a drawn frame has below it that is not drawn, by node. */
	const perNode = (values, side) => numbers.map((n) => (values && n[side] >= 0 ? values[n[side]] : 0));
	const below = [data.now, data.before].map((profile, side) => perNode(profile && profile.pruned && unpack(profile.pruned.below), side));
	const metrics = data.now.metrics.map((metric, index) => {
		const otherIndex = isDiff ? data.before.metrics.findIndex((m) => m.name === metric.name) : -1;
		const other = otherIndex < 0 ? null : data.before.metrics[otherIndex];
		const prunedOf = (profile, at) => (profile && at >= 0 && profile.pruned && profile.pruned.metrics[at]) || null;
		const pruned = [prunedOf(data.now, index), prunedOf(data.before, otherIndex)];
		const pick = (from, side, key) => numbers.map((n) => (from && from[key] && n[side] >= 0 ? from[key][n[side]] : null));
		const made = {
			name: metric.name, unit: metric.unit, inclusive: metric.inclusive, adds: metric.adds,
			style: { decimals: metric.decimals, scientific: metric.scientific },
			now: pick(metric, 0, "values"), old: pick(other, 1, "values"),
			nowWeights: pick(metric, 0, "weights"), oldWeights: pick(other, 1, "weights"),
			pruned, below: pruned.map((from, side) => perNode(from && from.below, side)),
		};
		if (other && other.decimals > made.style.decimals) made.style.decimals = other.decimals;
		return made;
	});
	return { names, parent, children, metrics, below, idOf, count: names.length };
}

const model = buildModel();
const kernelNames = new Set([...data.now.kernels, ...(isDiff ? data.before.kernels : [])].map((kernel) => kernel[0]));

/* What frames are as wide as: of an inclusive metric its value, of another what is added below. */
function weightsOf(metric, side) {
	const values = metric.inclusive ? metric[side] : metric[side + "Weights"];
	return values.map((value) => Math.max(0, value || 0));
}

function pathOf(id) {
	const path = [id];
	while (id) path.unshift((id = model.parent[id]));
	return path;
}

// ---------------------------------------------------------------- head

function writeHead() {
	const now = data.now;
	const info = new Map(now.info);
	const command = info.get("command");
	const parts = [];
	const devices = now.devices.map((d) => `${d.type} ${d.id}${d.name || d.arch ? " " + (d.name || d.arch) : ""}`);
	const base = (path) => path.replace(/^.*\/(?=.)/, "");
	byId("title").textContent = (command || base(now.title)) + (isDiff ? " compared with " + base(data.before.title) : "");
	byId("title").title = now.title + (isDiff ? "\n" + data.before.title : "");
	if (command) parts.push(base(now.title));
	if (devices.length > 6) parts.push(devices.slice(0, 6).join(", ") + `, ${devices.length - 6} more`);
	else if (devices.length) parts.push(devices.join(", "));
	if (now.duration !== null) parts.push(figure(styleFor(now.duration / 1e9, false), now.duration / 1e9) + " s");
	if (info.get("host")) parts.push(info.get("host"));
	if (now.start) parts.push(new Date(now.start).toLocaleString());
	for (const [key, value] of now.info) if (key !== "command" && key !== "host") parts.push(`${key}: ${value}`);
	byId("run").textContent = parts.join(" · ");
	document.title = byId("title").textContent + " – Proton";
	byId("foot").textContent = `proton-viewer ${data.version}. Numbers are those of proton-viewer; everything is in this file.`;
	for (const profile of isDiff ? [now, data.before] : [now]) {
		const which = isDiff ? base(profile.title) + ": " : "";
		const notice = (text) => byId("notices").append(element("p", { class: "notice" }, which + text));
		if (profile.unfinished) notice("The run did not finish: its process was killed, or is still recording. This is what had been recorded.");
		if (profile.damaged) notice("The file is damaged; this is what could be read.");
		for (const [name, count] of profile.losses) notice(`Lost: ${name.replace(/^lost:? */, "")}: ${count}`);
		if (profile.pruned) notice(prunedText(profile));
	}
}

/* Rounded up: no frame that is not drawn has more. */
function atMost(percents) {
	const step = Math.pow(10, Math.floor(Math.log10(percents)) - 1);
	return percents > 0 ? Number((Math.ceil(percents / step) * step).toPrecision(2)) : 0;
}

function prunedText(profile) {
	const side = profile === data.now ? 0 : 1;
	const metric = model.metrics.find((one) => one.adds && one.pruned[side]);
	let text = `${frames(profile.pruned.count)} with at most ${atMost(100 * profile.pruned.share)} % of any metric ${profile.pruned.count === 1 ? "is" : "are"} not drawn`;
	if (metric) {
		const sum = metric.below[side].reduce((all, value) => all + value, 0);
		const whole = weightsOf(metric, side ? "old" : "now")[0];
		text += `: together ${withUnit(metric, figure(metric.style, sum))}, ${percent(sum, whole)} % of ${metric.name}`;
	}
	return text + ". They count in the frames above them, in searches and in the table of kernels.";
}

function writeCards() {
	const card = (label, value, unit, change) => byId("cards").append(element("div", { class: "card" },
		element("div", { class: "label" }, label),
		element("div", { class: "value" }, value, ...(unit ? [element("span", { class: "unit" }, unit)] : [])),
		...(change ? [change] : [])));
	for (const metric of model.metrics) {
		if (!metric.inclusive || !metric.adds || metric.unit === "percent") continue;
		const [now, old] = [metric.now[0] || 0, metric.old[0] || 0];
		let change = null;
		if (isDiff) {
			change = element("div", { class: "change" }, `before ${withUnit(metric, figure(metric.style, old))}, ${changePercent(old, now)}`);
			if (metric.unit.endsWith("seconds") && now !== old) change.classList.add(now > old ? "worse" : "better");
		}
		card(unitOf(metric) ? metric.name.replace(/ \((ns|us|ms|s)\)$|\/(ns|us|ms|s)$/, "") : metric.name, figure(metric.style, now), unitOf(metric), change);
	}
	if (data.now.kernels.length) card("kernels by name", String(data.now.kernels.length), "");
}

// ---------------------------------------------------------------- flame graph

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

// ---------------------------------------------------------------- kernels

const [NAME, COUNT, TOTAL, LEAST, MOST, FLOPS, BYTES, UTIL, HISTOGRAM] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const table = { sort: 1, isDown: true, limit: TABLE_ROWS[0], filter: null, columns: [], rows: [] };

const rate = (amount, ns, unit) => (amount === null || !ns ? null : amount / (ns / 1e9) / unit);
/* The shortest duration of a bucket in ns: histogram_bucket_start_ns() of src/format/rows.h. */
const bucketStart = (index) => Math.pow(2, Math.floor(index / 2) + 5) * (index % 2 ? 1.5 : 1);

function duration(ns) {
	for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= size) return Number((ns / size).toPrecision(3)) + " " + unit;
	return ns + " ns";
}

function histogram(kernel) {
	const buckets = kernel[HISTOGRAM];
	if (!buckets.length) return document.createTextNode("");
	const first = Math.max(0, buckets[0][0] - 1);
	const last = Math.max(buckets[buckets.length - 1][0] + 1, first + 11);
	const most = buckets.reduce((high, bucket) => Math.max(high, bucket[1]), 0);
	const bar = Math.max(2, Math.min(8, Math.floor(96 / (last - first + 1))));
	const text = buckets.map(([index, count]) => `${count} of ${duration(bucketStart(index))} to ${duration(bucketStart(index + 1))}`).join("\n");
	const made = drawing("svg", { width: 96, height: 20, role: "img", "aria-label": "Durations: " + text.replace(/\n/g, ", ") }, drawing("title", {}));
	made.firstChild.textContent = text;
	for (const [index, count] of buckets) {
		const height = Math.max(1.5, (count / most) * 19);
		made.append(drawing("rect", { x: (index - first) * bar, y: 20 - height, width: bar - 1, height, rx: 1, fill: "var(--bar)" }));
	}
	return made;
}

function makeColumns() {
	const kernels = data.now.kernels;
	const whole = kernels.reduce((sum, kernel) => sum + kernel[TOTAL], 0);
	if (isDiff) {
		const old = new Map(data.before.kernels.map((kernel) => [kernel[NAME], kernel]));
		const names = new Set([...kernels.map((kernel) => kernel[NAME]), ...old.keys()]);
		const now = new Map(kernels.map((kernel) => [kernel[NAME], kernel]));
		const none = (name) => [name, 0, 0, null, null, null, null, null, []];
		table.rows = [...names].map((name) => [now.get(name) || none(name), old.get(name) || none(name)]);
		table.columns = [
			{ title: "Kernel", value: (row) => row[0][NAME] },
			{ title: "time/ms before", value: (row) => row[1][TOTAL] / 1e6 },
			{ title: "time/ms after", value: (row) => row[0][TOTAL] / 1e6 },
			{ title: "change", value: (row) => (row[0][TOTAL] - row[1][TOTAL]) / 1e6, isChange: true, sortBy: (row) => Math.abs(row[0][TOTAL] - row[1][TOTAL]) },
			{ title: "%", value: (row) => (row[1][TOTAL] ? (100 * (row[0][TOTAL] - row[1][TOTAL])) / row[1][TOTAL] : Infinity), text: (row) => changePercent(row[1][TOTAL], row[0][TOTAL]) },
			{ title: "count before", value: (row) => row[1][COUNT], isInteger: true },
			{ title: "count after", value: (row) => row[0][COUNT], isInteger: true },
		];
		if (kernels.some((kernel) => kernel[HISTOGRAM].length)) table.columns.push({ title: "durations after", draw: (row) => histogram(row[0]) });
		table.sort = 3;
		return;
	}
	const has = (field) => kernels.some((kernel) => kernel[field] !== null);
	table.rows = kernels;
	table.columns = [
		{ title: "Kernel", value: (row) => row[NAME] },
		{ title: "time/ms", value: (row) => row[TOTAL] / 1e6 },
		{ title: "time/%", value: (row) => (whole ? (100 * row[TOTAL]) / whole : null), style: PERCENT, isShare: true },
		{ title: "count", value: (row) => row[COUNT], isInteger: true },
		{ title: "avg_time/us", value: (row) => (row[COUNT] ? row[TOTAL] / row[COUNT] / 1e3 : null) },
	];
	if (has(LEAST)) {
		table.columns.push({ title: "min_time/us", value: (row) => (row[LEAST] === null ? null : row[LEAST] / 1e3) });
		table.columns.push({ title: "max_time/us", value: (row) => (row[MOST] === null ? null : row[MOST] / 1e3) });
	}
	if (kernels.some((kernel) => kernel[HISTOGRAM].length)) table.columns.push({ title: "durations", draw: histogram });
	if (has(FLOPS)) table.columns.push({ title: "tflop/s", value: (row) => rate(row[FLOPS], row[TOTAL], 1e12) });
	if (has(BYTES)) table.columns.push({ title: "gbyte/s", value: (row) => rate(row[BYTES], row[TOTAL], 1e9) });
	if (has(UTIL)) table.columns.push({ title: "util", value: (row) => row[UTIL] });
}

function styleColumns() {
	for (const column of table.columns.slice(1)) {
		if (column.style || column.draw) continue;
		let largest = 0;
		for (const row of table.rows) {
			const value = column.value(row);
			if (value !== null && Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
		}
		column.style = styleFor(largest, column.isInteger);
	}
}

function cellOf(column, row) {
	if (column.draw) return element("td", {}, column.draw(row));
	const value = column.value(row);
	const cell = element("td", {}, column.text ? column.text(row) : column.isChange ? signed(figure(column.style, value)) : figure(column.style, value));
	if (column.isShare) {
		cell.className = "share";
		cell.style.setProperty("--part", value + "%");
	}
	if (column.isChange && value) cell.className = value > 0 ? "worse" : "better";
	return cell;
}

function showInGraph(name) {
	byId("search").value = name;
	search(name);
	showTab("graph");
	byId("search").focus();
}

function writeTable() {
	const column = table.columns[table.sort];
	const key = column.sortBy || column.value;
	const direction = table.isDown ? -1 : 1;
	const nameOf = table.columns[0].value;
	const rows = table.rows.filter((row) => !table.filter || table.filter(nameOf(row))).sort((a, b) => {
		const [left, right] = [key(a), key(b)];
		if (left === right) return 0;
		if (left === null || right === null) return left === null ? 1 : -1;
		return (left < right ? -1 : 1) * direction;
	});
	const shown = rows.slice(0, table.limit);
	byId("kernels").tBodies[0].replaceChildren(...shown.map((row) => {
		const name = nameOf(row);
		const button = element("button", { type: "button", title: name + "\nShow in the graph", onclick: () => showInGraph(name) }, name);
		return element("tr", {}, element("td", {}, button), ...table.columns.slice(1).map((other) => cellOf(other, row)));
	}));
	byId("filtered").textContent = table.filter ? `${rows.length} of ${table.rows.length} kernels` : `${rows.length} kernels`;
	byId("more").hidden = shown.length === rows.length;
	byId("more").textContent = rows.length - shown.length <= TABLE_ROWS[1] ? `Show all ${rows.length} kernels` : `Show ${TABLE_ROWS[1]} more of ${rows.length} kernels`;
	byId("kernels").querySelectorAll("th").forEach((head, index) => {
		if (index === table.sort) head.setAttribute("aria-sort", table.isDown ? "descending" : "ascending");
		else head.removeAttribute("aria-sort");
	});
}

function startKernels() {
	makeColumns();
	styleColumns();
	byId("kernels").tHead.append(element("tr", {}, ...table.columns.map((column, index) => {
		if (column.draw) return element("th", {}, column.title);
		return element("th", {}, element("button", { type: "button", onclick: () => {
			table.isDown = table.sort === index ? !table.isDown : index > 0;
			table.sort = index;
			writeTable();
		} }, column.title));
	})));
	byId("filter").oninput = (event) => {
		table.filter = matcherOf(event.target.value) || null;
		writeTable();
	};
	byId("more").onclick = () => {
		table.limit += TABLE_ROWS[1];
		writeTable();
	};
	writeTable();
}

// ---------------------------------------------------------------- roofline

const WIDTHS = [4, 8, 16, 32, 64];

function power(exponent) {
	const text = String(exponent).replace(/[-\d]/g, (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]);
	return exponent >= 0 && exponent <= 3 ? String(Math.pow(10, exponent)) : "10" + text;
}

/* Roofs by device; those of equal devices are one. */
function roofsOf(devices) {
	const roofs = [];
	for (const device of devices) {
		if (!device.bytes) continue;
		const label = device.name || `${device.type} ${device.arch}`;
		if (roofs.some((roof) => roof.label === label && roof.bytes === device.bytes)) continue;
		const flops = device.flops.map((value, index) => [WIDTHS[index], value]).filter(([, value]) => value);
		roofs.push({ label, bytes: device.bytes, flops });
	}
	return roofs;
}

function startRoofline() {
	const withBoth = data.now.kernels.filter((kernel) => kernel[FLOPS] > 0 && kernel[BYTES] > 0 && kernel[TOTAL] > 0);
	const points = withBoth.slice(0, ROOFLINE_POINTS).map((kernel) => ({
		name: kernel[NAME], time: kernel[TOTAL],
		x: Math.log10(kernel[FLOPS] / kernel[BYTES]), y: Math.log10(kernel[FLOPS] / (kernel[TOTAL] / 1e9)),
	}));
	const roofs = roofsOf(data.now.devices);
	const missing = data.now.kernels.length - withBoth.length;
	const notes = [];
	if (missing) notes.push(`${missing} kernel${missing === 1 ? " has" : "s have"} no flops or no bytes and ${missing === 1 ? "is" : "are"} not drawn.`);
	if (points.length < withBoth.length) notes.push(`Of the others the ${count(points.length)} with the most time are drawn.`);
	byId("roofline-note").textContent = points.length ? notes.join(" ") : "";
	if (!points.length) {
		byId("roofline").append(element("p", { class: "empty" }, "A roofline needs kernels with flops and bytes, and this profile has none. Launch metadata of Triton kernels gives both."));
		return;
	}
	const ridges = roofs.flatMap((roof) => roof.flops.map(([, flops]) => Math.log10(flops / roof.bytes)));
	const tops = roofs.flatMap((roof) => roof.flops.map(([, flops]) => Math.log10(flops)));
	const xs = [...points.map((point) => point.x), ...ridges];
	const ys = [...points.map((point) => point.y), ...tops];
	const [x0, x1] = [Math.floor(Math.min(...xs) - 0.3), Math.ceil(Math.max(...xs) + 0.5)];
	const [y0, y1] = [Math.floor(Math.min(...ys) - 0.3), Math.ceil(Math.max(...ys) + 0.2)];
	const [width, height, left, bottom] = [1100, 520, 70, 46];
	const px = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - 20);
	const py = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - bottom - 20);
	const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Operations per second over operations per byte" });
	const text = (content, attributes) => {
		const made = drawing("text", attributes);
		made.textContent = content;
		svg.append(made);
	};
	for (let x = x0; x <= x1; x++) {
		svg.append(drawing("line", { class: "grid", x1: px(x), x2: px(x), y1: py(y0), y2: py(y1) }));
		text(power(x), { x: px(x), y: height - bottom + 18, "text-anchor": "middle" });
	}
	for (let y = y0; y <= y1; y++) {
		svg.append(drawing("line", { class: "grid", x1: px(x0), x2: px(x1), y1: py(y), y2: py(y) }));
		text(power(y), { x: left - 8, y: py(y) + 4, "text-anchor": "end" });
	}
	text("operations per byte", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" });
	text("operations per second", { x: 16, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 16 ${height / 2})` });
	roofs.forEach((roof, index) => {
		const dash = index ? `${6 / index} 4` : "none";
		const memory = Math.log10(roof.bytes);
		const most = roof.flops.length ? Math.log10(Math.max(...roof.flops.map(([, flops]) => flops))) : y1;
		const start = Math.max(x0, y0 - memory);
		svg.append(drawing("path", { class: "roof", "stroke-dasharray": dash, d: `M${px(start)} ${py(start + memory)}L${px(Math.min(x1, most - memory))} ${py(Math.min(most, x1 + memory))}` }));
		for (const [bits, flops] of roof.flops) {
			const y = Math.log10(flops);
			svg.append(drawing("path", { class: "roof", "stroke-dasharray": dash, d: `M${px(Math.max(x0, y - memory))} ${py(y)}L${px(x1)} ${py(y)}` }));
			text(`${roof.label}, ${bits} bits: ${Number((flops / 1e12).toPrecision(4))} Tflop/s`, { x: px(x1) - 4, y: py(y) - 6 - 15 * index, "text-anchor": "end" });
		}
		const label = start + 0.15;
		text(`${Number((roof.bytes / 1e12).toPrecision(3))} Tbyte/s`, { x: px(label) + 10, y: py(label + memory) + 16 });
	});
	const longest = Math.max(...points.map((point) => point.time));
	const labels = []; // [left, right, y] of names that have found room
	points.sort((a, b) => b.time - a.time).forEach((point, index) => {
		const radius = 3 + 10 * Math.sqrt(point.time / longest);
		const label = `${point.name}: ${figure(styleFor(Math.pow(10, point.y - 12), false), Math.pow(10, point.y - 12))} Tflop/s, ${Number(Math.pow(10, point.x).toPrecision(4))} operations per byte`;
		const circle = drawing("circle", { cx: px(point.x), cy: py(point.y), r: radius, tabindex: 0, role: "img", "aria-label": label }, drawing("title", {}));
		circle.firstChild.textContent = label;
		svg.append(circle);
		if (index >= 20) return;
		const shown = point.name.length > 44 ? point.name.slice(0, 43) + "…" : point.name;
		const [from, to, y] = [px(point.x) + radius + 5, px(point.x) + radius + 5 + 7 * shown.length, py(point.y) + 4];
		const isFree = (at) => labels.every(([l, r, other]) => r < from || l > to || Math.abs(other - at) > 14);
		const found = [0, 15, -15, 30, -30, 45, 60, 75, 90].map((step) => y + step).find(isFree);
		if (found === undefined) return;
		labels.push([from, to, found]);
		text(shown, { class: "name", x: from, y: found });
	});
	byId("roofline").append(svg);
}

// ---------------------------------------------------------------- tabs, theme, keys

const TABS = ["graph", "kernels", "roofline"];

function showTab(wanted) {
	for (const name of TABS) {
		const isShown = name === wanted;
		byId("panel-" + name).hidden = !isShown;
		byId("tab-" + name).setAttribute("aria-selected", isShown);
		byId("tab-" + name).tabIndex = isShown ? 0 : -1;
	}
	if (wanted === "graph") draw();
}

function startTabs() {
	TABS.forEach((name, index) => {
		const tab = byId("tab-" + name);
		tab.onclick = () => showTab(name);
		tab.onkeydown = (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (!step) return;
			const next = TABS[(index + step + TABS.length) % TABS.length];
			showTab(next);
			byId("tab-" + next).focus();
			event.preventDefault();
		};
	});
}

function startTheme() {
	const root = document.documentElement;
	const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
	const label = () => (byId("theme").textContent = isDark() ? "Light" : "Dark");
	try {
		const kept = localStorage.getItem("proton-theme");
		if (kept === "dark" || kept === "light") root.dataset.theme = kept;
	} catch (error) {
		/* A page from a file may have no storage. */
	}
	byId("theme").onclick = () => {
		root.dataset.theme = isDark() ? "light" : "dark";
		try {
			localStorage.setItem("proton-theme", root.dataset.theme);
		} catch (error) {
			/* Then it is forgotten. */
		}
		label();
	};
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
	label();
}

document.addEventListener("keydown", (event) => {
	const isTyping = event.target.matches("input, select");
	if (event.key === "/" && !isTyping) {
		showTab("graph");
		byId("search").focus();
		event.preventDefault();
	} else if (event.key === "Escape") {
		if (isTyping && event.target.value && event.target.type === "search") {
			event.target.value = "";
			event.target.dispatchEvent(new Event("input"));
		} else if (!byId("panel-graph").hidden) {
			zoom(0);
		}
	}
});

writeHead();
writeCards();
startTheme();
startTabs();
startGraph();
startKernels();
startRoofline();
})();
