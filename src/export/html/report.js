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
const TABLE_ROWS = 200;

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

// ---------------------------------------------------------------- the tree

/* One tree of one profile, or of two: nodes are the same if their paths are. */
function buildModel() {
	const names = [];
	const parent = [];
	const children = [];
	const numbers = []; // of the node in data.now and in data.before, -1: not there
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
		const idOf = new Array(profile.frame.length);
		const taken = new Map(); // "parent, name" to the nodes of that name, in order
		profile.frame.forEach((frame, number) => {
			const name = profile.frames[frame];
			if (number === 0) {
				idOf[0] = names.length ? 0 : add(name, 0);
			} else {
				const above = idOf[profile.parent[number]];
				const same = side ? children[above].filter((id) => names[id] === name) : [];
				const key = above + " " + name;
				const count = taken.get(key) || 0;
				taken.set(key, count + 1);
				idOf[number] = side && count < same.length ? same[count] : add(name, above);
			}
			numbers[idOf[number]][side] = number;
		});
	});
	const metrics = data.now.metrics.map((metric) => {
		const other = isDiff ? data.before.metrics.find((m) => m.name === metric.name) : null;
		const pick = (from, side, key) => numbers.map((n) => (from && from[key] && n[side] >= 0 ? from[key][n[side]] : null));
		const made = {
			name: metric.name, unit: metric.unit, inclusive: metric.inclusive, adds: metric.adds,
			style: { decimals: metric.decimals, scientific: metric.scientific },
			now: pick(metric, 0, "values"), old: pick(other, 1, "values"),
			nowOwn: pick(metric, 0, "own"), oldOwn: pick(other, 1, "own"),
		};
		if (other && other.decimals > made.style.decimals) made.style.decimals = other.decimals;
		return made;
	});
	return { names, parent, children, metrics, count: names.length };
}

const model = buildModel();
const kernelNames = new Set([...data.now.kernels, ...(isDiff ? data.before.kernels : [])].map((kernel) => kernel[0]));

/* What frames are as wide as: of an inclusive metric its value, of another what is added below. */
function weightsOf(metric, side) {
	const values = side === "old" ? metric.old : metric.now;
	if (metric.inclusive) return values.map((value) => Math.max(0, value || 0));
	const own = side === "old" ? metric.oldOwn : metric.nowOwn;
	const sums = own.map((value) => Math.max(0, value || 0));
	for (let id = model.count - 1; id > 0; id--) sums[model.parent[id]] += sums[id];
	return sums;
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
		if (profile.left_out) notice(`${profile.left_out.toLocaleString("en-GB")} frames with no more than ${Number((100 * profile.least_share).toPrecision(2))} % of any metric are not drawn; they count in the frames above them.`);
		if (profile.kernels_left_out) notice(`The ${profile.kernels_left_out} kernels with the least time are not in the table.`);
	}
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
	if (data.now.kernels.length) card("kernels by name", String(data.now.kernels.length + data.now.kernels_left_out), "");
}

// ---------------------------------------------------------------- flame graph

const state = { metric: 0, zoom: 0, selected: 0, isIcicle: true, sized: "now", search: null };
let weights = [];
let drawn = new Map(); // node to its element
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
	const tooNarrow = []; // [how many, left, width, level]
	const above = pathOf(state.zoom);
	above.slice(0, -1).forEach((id, level) => placed.push([id, 0, 1, level]));
	const stack = [[state.zoom, 0, 1, above.length - 1]];
	while (stack.length) {
		const [id, left, width, level] = stack.pop();
		placed.push([id, left, width, level]);
		const kids = model.children[id].filter((kid) => weights[kid] > 0).sort((a, b) => weights[b] - weights[a] || a - b);
		const inside = kids.reduce((sum, kid) => sum + weights[kid], 0);
		const whole = Math.max(weights[id], inside);
		let at = left;
		for (const kid of kids) {
			const part = (weights[kid] / whole) * width;
			if (part * pixels < LEAST_WIDTH) {
				const others = kids.slice(kids.indexOf(kid));
				const rest = (others.reduce((sum, other) => sum + weights[other], 0) / whole) * width;
				if (rest * pixels >= 1) tooNarrow.push([others.length, at, rest, level + 1]);
				break;
			}
			stack.push([kid, at, part, level + 1]);
			at += part;
		}
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
	const levels = 1 + [...placed, ...tooNarrow].reduce((most, frame) => Math.max(most, frame[3]), 0);
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
	for (const [count, left, width, level] of tooNarrow) {
		const text = `${count.toLocaleString("en-GB")} narrower frames`;
		const made = element("div", { class: "rest", title: text + ": zoom in to see them" }, width * pixels < 90 ? "" : text);
		place(made, left, width, level, levels, row);
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
	const self = (metric, values) => values[id] === null ? null
		: values[id] - model.children[id].reduce((sum, kid) => sum + (values[kid] || 0), 0);
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
}

function search(text) {
	const matches = matcherOf(text);
	state.search = null;
	byId("found").textContent = matches === undefined ? "no regular expression" : "";
	if (matches) {
		const known = new Map();
		const inside = new Uint8Array(model.count);
		let sum = 0;
		state.search = new Set();
		for (let id = 0; id < model.count; id++) {
			const name = model.names[id];
			if (!known.has(name)) known.set(name, id > 0 && matches(name));
			const covered = id > 0 && inside[model.parent[id]];
			if (known.get(name)) {
				state.search.add(id);
				if (!covered) sum += weights[id];
			}
			inside[id] = covered || known.get(name) ? 1 : 0;
		}
		const share = weights[0] && model.metrics.length ? `, ${percent(sum, weights[0])} % of ${model.metrics[state.metric].name}` : "";
		byId("found").textContent = `${state.search.size} frame${state.search.size === 1 ? "" : "s"}${share}`;
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
const table = { sort: 1, isDown: true, all: false, filter: null, columns: [], rows: [] };

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
	const shown = table.all ? rows : rows.slice(0, TABLE_ROWS);
	byId("kernels").tBodies[0].replaceChildren(...shown.map((row) => {
		const name = nameOf(row);
		const button = element("button", { type: "button", title: name + "\nShow in the graph", onclick: () => showInGraph(name) }, name);
		return element("tr", {}, element("td", {}, button), ...table.columns.slice(1).map((other) => cellOf(other, row)));
	}));
	byId("filtered").textContent = table.filter ? `${rows.length} of ${table.rows.length} kernels` : `${rows.length} kernels`;
	byId("more").hidden = shown.length === rows.length;
	byId("more").textContent = `Show all ${rows.length} kernels`;
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
		table.all = true;
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
	const points = data.now.kernels.filter((kernel) => kernel[FLOPS] > 0 && kernel[BYTES] > 0 && kernel[TOTAL] > 0).map((kernel) => ({
		name: kernel[NAME], time: kernel[TOTAL],
		x: Math.log10(kernel[FLOPS] / kernel[BYTES]), y: Math.log10(kernel[FLOPS] / (kernel[TOTAL] / 1e9)),
	}));
	const roofs = roofsOf(data.now.devices);
	const missing = data.now.kernels.length - points.length;
	byId("roofline-note").textContent = missing && points.length ? `${missing} kernel${missing === 1 ? " has" : "s have"} no flops or no bytes and ${missing === 1 ? "is" : "are"} not drawn.` : "";
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
