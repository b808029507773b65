/* Table of kernels by name. */

const [NAME, COUNT, TOTAL, LEAST, MOST, FLOPS, BYTES, UTIL, HISTOGRAM] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const TABLE_ROWS = [200, 5000]; // first, and after a click
const HOTTEST = 5;
const table = { sort: 1, isDown: true, limit: TABLE_ROWS[0], query: "", filter: null, columns: [], rows: [] };

const rate = (amount, ns, unit) => (amount === null || !ns ? null : amount / (ns / 1e9) / unit);
/* The shortest duration of a bucket in ns: histogram_bucket_start_ns() of src/format/rows.h. */
const bucketStart = (index) => Math.pow(2, Math.floor(index / 2) + 5) * (index % 2 ? 1.5 : 1);

function duration(ns) {
	for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= size) return Number((ns / size).toPrecision(3)) + " " + unit;
	return ns + " ns";
}

function histogram(kernel) {
	const buckets = kernel[HISTOGRAM];
	if (!buckets.length) return [];
	const first = Math.max(0, buckets[0][0] - 1);
	const last = Math.max(buckets[buckets.length - 1][0] + 1, first + 11);
	const most = buckets.reduce((high, bucket) => Math.max(high, bucket[1]), 0);
	const bar = Math.max(2, Math.min(8, Math.floor(96 / (last - first + 1))));
	const text = buckets.map(([index, count]) => `${count} of ${duration(bucketStart(index))} to ${duration(bucketStart(index + 1))}`).join("\n");
	const made = drawing("svg", { width: 96, height: 20, role: "img", "aria-label": "Durations: " + text.replace(/\n/g, ", "), "data-tip": "Durations\n" + text });
	for (const [index, count] of buckets) {
		const height = Math.max(1.5, (count / most) * 19);
		made.append(drawing("rect", { x: (index - first) * bar, y: 20 - height, width: bar - 1, height, rx: 1, fill: "var(--bar)" }));
	}
	return [made];
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
			{ title: "change", value: (row) => difference(row[1][TOTAL], row[0][TOTAL]) / 1e6, isChange: true, sortBy: (row) => Math.abs(row[0][TOTAL] - row[1][TOTAL]) },
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
	if (column.draw) return element("td", { role: "cell", "data-label": column.title }, ...column.draw(row));
	const value = column.value(row);
	const cell = element("td", { role: "cell", "data-label": column.title }, column.text ? column.text(row) : column.isChange ? signed(formatNumber(column.style, value)) : formatNumber(column.style, value));
	if (column.isShare) {
		cell.className = "share";
		cell.style.setProperty("--part", value + "%");
	}
	if (column.isChange && value) cell.className = value > 0 ? "worse" : "better";
	return cell;
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
		const button = element("button", { type: "button", "data-tip": name + "\nShow in the graph" }, name);
		const made = element("tr", { role: "row" }, element("td", { role: "cell" }, button), ...table.columns.slice(1).map((other) => cellOf(other, row)));
		made.onclick = () => {
			const selection = getSelection(); // of a number, for copying
			if (selection.isCollapsed || !made.contains(selection.anchorNode)) showInGraph(name);
		};
		return made;
	}));
	const kernels = `${table.rows.length} kernel${table.rows.length === 1 ? "" : "s"}`;
	byId("filtered").textContent = table.filter ? `${rows.length} of ${kernels}` : kernels;
	byId("more").hidden = shown.length === rows.length;
	byId("more").textContent = rows.length - shown.length <= TABLE_ROWS[1] ? `Show all ${rows.length} kernels` : `Show ${TABLE_ROWS[1]} more of ${rows.length} kernels`;
	byId("kernels").querySelectorAll("th").forEach((head, index) => {
		if (index === table.sort) head.setAttribute("aria-sort", table.isDown ? "descending" : "ascending");
		else head.removeAttribute("aria-sort");
	});
}

function setFilter(text) {
	const field = byId("filter");
	if (field.value === text && table.query === text) return;
	field.value = text;
	table.query = text;
	table.filter = matcherOf(text) || null;
	writeTable();
}

/* For narrow windows, where graph and table are below: the kernels with the longest total time. */
function writeHottest() {
	const kernels = [...data.now.kernels].sort((a, b) => b[TOTAL] - a[TOTAL]);
	const whole = kernels.reduce((sum, kernel) => sum + kernel[TOTAL], 0);
	byId("hottest").hidden = !whole;
	byId("hottest-list").append(...kernels.slice(0, HOTTEST).filter((kernel) => kernel[TOTAL]).map((kernel) => {
		const share = (100 * kernel[TOTAL]) / whole;
		const button = element("button", { type: "button", onclick: () => showInGraph(kernel[NAME]) },
			element("span", { class: "name" }, kernel[NAME]), " ",
			element("span", { class: "number" }, formatNumber(PERCENT, share) + " % · " + duration(kernel[TOTAL])));
		button.style.setProperty("--part", share + "%");
		return element("li", {}, button);
	}));
}

function startKernels() {
	makeColumns();
	styleColumns();
	writeHottest();
	byId("kernels").setAttribute("role", "table");
	byId("kernels").tHead.append(element("tr", { role: "row" }, ...table.columns.map((column, index) => {
		if (column.draw) return element("th", { role: "columnheader" }, column.title);
		return element("th", { role: "columnheader" }, element("button", { type: "button", onclick: () => {
			table.isDown = table.sort === index ? !table.isDown : index > 0;
			table.sort = index;
			writeTable();
		} }, column.title));
	})));
	byId("filter").oninput = (event) => {
		const isStep = !event.target.value !== !table.query;
		setFilter(event.target.value);
		remember(isStep);
	};
	byId("more").onclick = () => {
		table.limit += TABLE_ROWS[1];
		writeTable();
	};
	writeTable();
}
