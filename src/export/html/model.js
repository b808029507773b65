/* Model of the page: the tree of one profile or of two, and the page header. */

// ---------------------------------------------------------------- the tree

for (const profile of isDiff ? [data.now, data.before] : [data.now])
	for (const kernel of profile.kernels) kernel[0] = profile.frames[kernel[0]];

/* One tree of one profile or of two: nodes with the same path are the same. */
function buildModel() {
	const names = [];
	const parent = [];
	const children = [];
	const numbers = []; // node indices in data.now and in data.before, -1: missing
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
		const taken = new Map(); // "parent, name" to the number of occurrences
		const first = new Map(); // the same key to the nodes of data.now, in order
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
	/* Values of undrawn frames below a drawn one, by node. */
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

/* The width of frames: inclusive values, or sums of exclusive values. */
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
	for (const [key, value] of now.info) if (key !== "command" && key !== "host") parts.push(`${key}: ${value}`);
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
		for (const [name, count] of profile.losses) notice(`Lost: ${name.replace(/^lost:? */, "")}: ${count}`);
		if (profile.pruned) notice(prunedText(profile), "notice quiet");
	}
}

/* Rounded up: no undrawn frame has more. */
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
		text += `: together ${withUnit(metric, sum)}, ${percent(sum, whole)} % of ${metric.name}`;
	}
	return text + ". They count in the frames above them, in searches and in the table of kernels.";
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
	for (const metric of model.metrics) {
		if (!metric.inclusive || !metric.adds || metric.unit === "percent") continue;
		if (data.source && /^(num_)?stalled_/.test(metric.name)) continue; // those of each line are more useful
		const [now, old] = [metric.now[0] || 0, metric.old[0] || 0];
		let change = null;
		if (isDiff) {
			change = element("div", { class: "change" }, `before ${cardAmount(metric, old).join(" ").trim()}, ${changePercent(old, now)}`);
			if (metric.unit.endsWith("seconds") && difference(old, now)) change.classList.add(now > old ? "worse" : "better");
		}
		const name = unitOf(metric) ? metric.name.replace(/ \((ns|us|ms|s)\)$|\/(ns|us|ms|s)$/, "") : metric.name;
		card(name, cardAmount(metric, now), `${metric.name}: ${formatNumber(metric.style, now)}`, change);
	}
	if (data.now.kernels.length) card("kernels by name", [count(data.now.kernels.length), ""], "kernels by name: " + data.now.kernels.length);
}
