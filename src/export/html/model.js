/* Model of the page: the shown tree and its numbers, and the page header. */

// ---------------------------------------------------------------- the tree

const base = await readBase();
const kernelFrames = new Set(sides.flatMap((side) => [...side.kernels.map((kernel) => kernel[0]), ...side.instrumented].map(frameOf)));
const metrics = data.now.metrics.map((metric, index) => {
	const other = isDiff ? data.before.metrics.findIndex((one) => one.name === metric.name) : -1;
	const decimals = Math.max(metric.decimals, other < 0 ? 0 : data.before.metrics[other].decimals);
	return { ...metric, index: [index, other], style: { decimals, scientific: metric.scientific } };
});
let model = base;

const nameOf = (id) => frameNames[model.frame[id]];

function kidsOf(id) {
	const kids = [];
	for (let kid = id + 1; kid < model.end[id]; kid = model.end[kid]) kids.push(kid);
	return kids;
}

/* The value of a frame in one profile (0: now, 1: before); NaN: none. */
function valueOf(metric, side, id) {
	const index = metric.index[side];
	if (index === undefined || index < 0) return NaN;
	const { column } = sides[side].metrics[index];
	const raw = model.raw[side];
	if (column.as !== "ratio") return raw[index] ? raw[index][id] / (column.per || 1) : NaN;
	const whole = raw[column.whole][id] / column.scale;
	return whole === 0 ? NaN : raw[column.part][id] / whole / column.unit;
}

const nowOf = (metric, id) => valueOf(metric, 0, id);
const oldOf = (metric, id) => valueOf(metric, 1, id);

/* The width of frames: inclusive values, or sums of exclusive values; in the unit of the column. */
function weightsOf(metric, side) {
	const index = metric.index[side];
	const weights = new Float64Array(model.count);
	if (index < 0) return weights;
	const from = metric.inclusive ? model.raw[side][index] : model.own[side][index] || model.raw[side][index];
	for (let id = model.count - 1; id >= 0; id--) {
		if (from[id] > 0) weights[id] += from[id];
		if (!metric.inclusive && id && id !== model.up) weights[model.parent[id]] += weights[id];
	}
	return weights;
}

function pathOf(id, tree = model) {
	const path = [id];
	while (id) path.push((id = tree.parent[id]));
	return path.reverse();
}

// ---------------------------------------------------------------- head

/* "overhead_records_ns", "1459854": "overhead records: 1.46 ms". */
function infoText(key, value) {
	const [, name, unit] = /^(.*?)(_ns|_ms|_bytes)?$/.exec(key);
	const isNumber = unit && /^\d+$/.test(value);
	const text = !isNumber ? value : unit === "_bytes" ? scaled(Number(value), 1024, SIZES).join(" ") : duration(Number(value) * (unit === "_ms" ? 1e6 : 1));
	return `${(isNumber ? name : key).replace(/_/g, " ")}: ${text}`;
}

/* Times of several devices or ranks are sums, and longer than the run. */
function sumText(metric) {
	const devices = data.now.devices.length;
	if (!metric.unit.endsWith("seconds")) return "";
	return data.ranks ? `, sum of ${count(data.ranks.count)} ranks` : devices > 1 ? `, sum of ${count(devices)} devices` : "";
}

function writeHead() {
	const now = data.now;
	const info = new Map(now.info);
	const command = info.get("command");
	const parts = [];
	const devices = now.devices.map((d) => `${d.type} ${d.id}${d.name || d.arch ? " " + (d.name || d.arch) : ""}`);
	const base = (path) => path.replace(/^.*\/(?=.)/, "");
	/* The program without its directory, which is long for virtual environments. */
	const shortCommand = command && command.replace(/^\S*\/(?=[^\s/])/, "");
	byId("title").textContent = (shortCommand || base(now.title)) + (isDiff ? " compared with " + base(data.before.title) : "");
	byId("title").dataset.tip = [command, now.title, isDiff ? data.before.title : ""].filter((line) => line).join("\n");
	if (command) parts.push(base(now.title));
	if (devices.length > 6) parts.push(devices.slice(0, 6).join(", ") + `, ${devices.length - 6} more`);
	else if (devices.length) parts.push(devices.join(", "));
	if (now.duration !== null) parts.push(formatNumber(styleFor(now.duration / 1e9, false), now.duration / 1e9) + " s");
	if (info.get("host")) parts.push(info.get("host"));
	if (now.start) parts.push(new Date(now.start).toLocaleString());
	for (const [key, value] of now.info) if (key !== "command" && key !== "host") parts.push(infoText(key, value));
	byId("run").textContent = parts.join(" · ");
	document.title = byId("title").textContent + " – Proton";
	byId("foot").textContent = `proton-viewer ${data.version}. Numbers are those of proton-viewer; everything is in this file.`;
	for (const profile of isDiff ? [now, data.before] : [now]) {
		const which = isDiff ? base(profile.title) + ": " : "";
		const notice = (text, kind = "notice") => byId("notices").append(element("p", { class: kind }, which + text));
		if (profile.unfinished) notice("Incomplete recording: the process was killed or is still recording. The report shows the data recorded so far.");
		if (profile.damaged) notice("The file is corrupt; the report shows what could be read.");
		const mixed = new Map(profile.info).get("mixed");
		if (mixed) notice(`A sum of ranks of several launches: ${mixed}.`);
		const hiders = { "": "as lines of Triton, PyTorch and Python (shown by --frames all)", "--hide": "as lines of Triton, PyTorch and Python (shown by --frames all), or by --hide" };
		if (profile.hidden) notice(`${frames(profile.hidden)} hidden ${hiders[profile.hiddenBy] || "by " + profile.hiddenBy}. Frames below move up to the nearest frame that is shown.`, "notice quiet");
		for (const [name, count] of profile.losses) notice(`Lost: ${name.replace(/^lost:? */, "")}: ${count}`);
	}
}

/* Operations in units of 10^9 and above. */
function cardAmount(metric, value) {
	if (/^flops\d*$/.test(metric.name) && Math.abs(value) >= 1e4) return scaled(value, 1000, THOUSANDS);
	return amount(metric, value);
}

function writeCards() {
	const card = (label, [value, unit], exact, change) => byId("cards").append(element("div", { class: "card", "data-tip": exact },
		element("div", { class: "label" }, label),
		element("div", { class: "value" }, value, ...(unit ? [element("span", { class: "unit" }, unit)] : [])),
		...(change ? [change] : [])));
	for (const metric of metrics) {
		if (!metric.inclusive || !metric.adds || metric.unit === "percent") continue;
		if (data.source && /^(num_)?stalled_/.test(metric.name)) continue; // those of each line are more useful
		const [now, old] = [nowOf(metric, 0) || 0, oldOf(metric, 0) || 0];
		let change = null;
		if (isDiff) {
			change = element("div", { class: "change" }, `before ${cardAmount(metric, old).join(" ").trim()}, ${changePercent(old, now)}`);
			if (metric.unit.endsWith("seconds") && difference(old, now)) change.classList.add(now > old ? "worse" : "better");
		}
		const name = unitOf(metric) ? metric.name.replace(/ \((ns|us|ms|s)\)$|\/(ns|us|ms|s)$/, "") : metric.name;
		card(name + sumText(metric), cardAmount(metric, now), `${metric.name}: ${formatNumber(metric.style, now)}`, change);
	}
	if (data.now.kernels.length) card("kernels by name", [count(data.now.kernels.length), ""], "kernels by name: " + data.now.kernels.length);
}
