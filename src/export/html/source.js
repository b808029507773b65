/*
 * Annotated source: the lines of a kernel with their PC samples. Only the rows in view are
 * elements, because a file may have 100,000 lines.
 */

const source = data.source;
const SOURCE_ROW = 21; // pixels
const CONTEXT = 3; // lines without samples that are shown around those with some
const LITTLE = 5; // percent; less frequent reasons are in the tooltip only
const LINE_MAX = 1000; // characters of a line that are shown
const TAB = 4;
const KERNEL_OPTIONS = 2000;
const [FILE, LINE, INLINED, SAMPLES, REASONS, CODE] = [0, 1, 2, 3, 4, 5];
/* Of causes; FILE and LINE are the cause. */
const [AT_FILE, AT_LINE, REASON, CAUSED, SHARED] = [2, 3, 4, 5, 6];

/* `rows` are the listing; `opened` has the lines with visible instructions and the opened gaps. */
const listing = { kernel: 0, rows: [], current: 0, opened: new Set(), isWhole: false, query: "", matches: null, first: 0, last: -1 };
const fileLines = []; // by file: its text, split into lines

const baseName = (path) => path.replace(/^.*\/(?=[^/])/, "");
const textLines = (file) => fileLines[file] || (fileLines[file] = source.files[file][1] ? source.files[file][1].replace(/\r?\n$/, "").split(/\r?\n/) : []);

/* Tabs as spaces, control characters visible. */
function readable(text) {
	let made = "";
	for (const part of text.slice(0, LINE_MAX)) {
		if (part === "\t") made += " ".repeat(TAB - (made.length % TAB));
		else if (part < " " || part === "\x7f") made += "\ufffd";
		else made += part;
	}
	return text.length > LINE_MAX ? made + "…" : made;
}

// ---------------------------------------------------------------- reasons

/* [index, count], of the reasons of waiting, in falling order. */
function waitsOf(pairs) {
	const waits = [];
	for (let i = 0; i < pairs.length; i += 2) if (!source.reasons[pairs[i]][2]) waits.push([pairs[i], pairs[i + 1]]);
	return waits.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

const exactShare = (part, whole) => fixed(whole ? (100 * part) / whole : 0, 2);
const rounded = (part, whole) => fixed(whole ? (100 * part) / whole : 0, 0);

function reasonText(samples, pairs) {
	const waits = waitsOf(pairs).filter((wait) => (100 * wait[1]) / samples >= LITTLE).slice(0, 3);
	return waits.map(([reason, number]) => `${source.reasons[reason][0]} ${rounded(number, samples)} %`).join(", ") || "-";
}

/* "a.py:43 (80 %), a.py:44 (20 %), shared out": the lines of causes, or with AT_FILE those that wait. */
function placesText(causes, at) {
	const sums = new Map();
	let all = 0;
	for (const item of causes) {
		const name = item[at] < 0 ? "code without a line" : `${baseName(source.files[item[at]][0])}:${item[at + 1]}`;
		const [number, shared] = sums.get(name) || [0, 0];
		sums.set(name, [number + item[CAUSED], shared + item[SHARED]]);
		all += item[CAUSED];
	}
	const most = [...sums].sort((a, b) => b[1][0] - a[1][0]).slice(0, 3).filter(([, sum], index) => !index || (100 * sum[0]) / all >= LITTLE);
	return most.map(([name, sum]) => `${name} (${rounded(sum[0], all)} %)`).concat(most.some(([, sum]) => sum[1]) ? "shared out" : []).join(", ");
}

/* Where the samples with a reason, at a line or anywhere, are caused; nothing if that is `line` itself. */
function causedBy(reason, isHere, line) {
	const causes = kernelNow().causes.filter((item) => item[REASON] === reason && isHere(item));
	if (!causes.length || (line && causes.every((item) => item[FILE] === line[FILE] && item[LINE] === line[LINE]))) return "";
	return ", caused by " + placesText(causes, FILE);
}

/* The causes that a line is. */
const causesOf = (line) => kernelNow().causes.filter((item) => item[FILE] === line[FILE] && item[LINE] === line[LINE]);
const causedOf = (line) => causesOf(line).reduce((sum, item) => sum + item[CAUSED], 0);

function lineText(line) {
	const caused = causedOf(line);
	const reasons = line[SAMPLES] ? reasonText(line[SAMPLES], line[REASONS]) : "";
	return [reasons, caused ? `causes ${exactShare(caused, kernelNow().caused)} %` : ""].filter((part) => part).join(" · ");
}

function reasonTip(title, samples, pairs, line) {
	const lines = [title, `${count(samples)} samples, ${percent(samples, kernelNow().samples[0])} % of the kernel`];
	const isHere = (item) => item[AT_FILE] === line[FILE] && item[AT_LINE] === line[LINE];
	if (line && causedOf(line)) lines.push(`causes ${exactShare(causedOf(line), kernelNow().caused)} %, waited for at ${placesText(causesOf(line), AT_FILE)}`);
	for (let i = 0, all = []; i < pairs.length; i += 2) {
		all.push([pairs[i], pairs[i + 1]]);
		if (i + 2 < pairs.length) continue;
		for (const [reason, number] of all.sort((a, b) => b[1] - a[1])) {
			const [name, words] = source.reasons[reason];
			lines.push(`${name} ${percent(number, samples)} %${words ? ": " + words : ""}${line ? causedBy(reason, isHere, line) : ""}`);
		}
	}
	return lines.join("\n");
}

const kernelNow = () => source.kernels[listing.kernel];

// ---------------------------------------------------------------- rows

function fileRows(rows, file, lines) {
	const kernel = kernelNow();
	const text = file < 0 ? [] : textLines(file);
	const own = lines.reduce((sum, index) => sum + (kernel.lines[index][INLINED] ? 0 : kernel.lines[index][SAMPLES]), 0);
	if (file >= 0) rows.push({ kind: "file", file, samples: own });
	let next = 1; // the first line of text that is not in a row yet
	const plain = (from, to) => {
		for (let line = from; line <= to; line++) rows.push({ kind: "line", file, line, text: text[line - 1] });
	};
	/* Text without samples; one row is the middle of a long part, and opens it. */
	const between = (from, to, head, tail) => {
		const key = `${file}:${from}`;
		if (listing.isWhole || listing.opened.has(key) || to - from + 1 <= head + tail + 1) return plain(from, to);
		plain(from, from + head - 1);
		rows.push({ kind: "gap", key, size: to - from + 1 - head - tail });
		plain(to - tail + 1, to);
	};
	lines.forEach((index, at) => {
		const entry = kernel.lines[index];
		if (text.length && entry[LINE] > next) between(next, Math.min(entry[LINE] - 1, text.length), at ? CONTEXT : 0, CONTEXT);
		rows.push({ kind: "line", file, line: entry[LINE], entry, index, text: text[entry[LINE] - 1] });
		next = Math.max(next, entry[LINE] + 1);
		if (listing.opened.has(index)) for (const item of entry[CODE] || []) rows.push({ kind: "code", item, index });
	});
	if (next <= text.length) between(next, text.length, CONTEXT, 0);
}

function makeRows() {
	const kernel = kernelNow();
	const byFile = new Map();
	kernel.lines.forEach((entry, index) => {
		if (!byFile.has(entry[FILE])) byFile.set(entry[FILE], []);
		byFile.get(entry[FILE]).push(index);
	});
	listing.rows = [];
	for (const [file, lines] of byFile) fileRows(listing.rows, file, lines);
	listing.width = listing.rows.reduce((most, row) => Math.max(most, (row.text || (row.item && row.item[2]) || "").length), 0);
	listing.hot = [...kernel.lines.keys()].filter((index) => !kernel.lines[index][INLINED] && kernel.lines[index][FILE] >= 0)
		.filter((index) => kernel.lines[index][SAMPLES]).sort((a, b) => kernel.lines[b][SAMPLES] - kernel.lines[a][SAMPLES] || a - b);
	listing.current = Math.min(listing.current, listing.rows.length - 1);
	searchSource();
	byId("listing-rows").style.height = listing.rows.length * SOURCE_ROW + "px";
	byId("listing-rows").style.width = `calc(${Math.min(listing.width, LINE_MAX) * 1.3 + 8}ch + 420px)`;
	byId("listing").setAttribute("aria-rowcount", listing.rows.length);
	drawRows(true);
}

function cells(samples, reasons, number) {
	const whole = kernelNow().samples[0];
	const cell = (name, text) => element("span", { class: name, role: "gridcell" }, text);
	const share = cell("part", samples === null ? "" : exactShare(samples, whole));
	if (samples !== null) share.style.setProperty("--part", (100 * samples) / whole + "%");
	return [cell("samples", samples === null ? "" : count(samples)), share, cell("reasons", reasons), cell("number", number)];
}

/* The tooltip is that of the reasons: one of the whole row would hide the lines below. */
function explain(made, text) {
	made.querySelector(".reasons").dataset.tip = text;
	made.setAttribute("aria-label", text.replace(/\n/g, ", "));
}

const nameOfLine = (row) => (row.file < 0 ? "line not known" : `${source.files[row.file][0]}:${row.line}`);

function rowElement(row, at) {
	const made = element("div", { class: `row ${row.kind}`, role: "row", tabIndex: at === listing.current ? 0 : -1, "data-row": at, "aria-rowindex": at + 1 });
	made.style.top = at * SOURCE_ROW + "px";
	if (row.kind === "file") {
		const [path, text, isLarge] = source.files[row.file];
		const why = text ? "" : isLarge ? "source text not kept: the file is too large" : "no source text in the profile";
		made.append(element("b", {}, path), element("span", { class: "soft" }, [`${percent(row.samples, kernelNow().samples[0])} %`, why].filter((part) => part).join(" · ")));
	} else if (row.kind === "gap") {
		made.append(...cells(null, "", ""), element("span", { class: "soft" }, `⋯ ${count(row.size)} lines without samples`));
		made.setAttribute("aria-expanded", "false");
	} else if (row.kind === "code") {
		const [variant, offset, text, samples, reasons] = row.item;
		const place = (variant ? variant + ":" : "") + "0x" + offset.toString(16).padStart(4, "0");
		made.append(...cells(samples, reasonText(samples, reasons), ""), element("code", { role: "gridcell" }, element("i", {}, place), " " + text));
		explain(made, reasonTip(`${place} ${text}`.trim(), samples, reasons));
	} else {
		const entry = row.entry;
		made.append(...cells(entry && entry[SAMPLES] ? entry[SAMPLES] : null, entry ? lineText(entry) : "", row.file < 0 ? "?" : row.line || "-"));
		made.append(element("code", { role: "gridcell" }, row.file < 0 ? "line not known" : readable(row.text || ""), ...(entry && entry[INLINED] ? [element("i", {}, " inlined")] : [])));
		if (entry) explain(made, reasonTip(nameOfLine(row), entry[SAMPLES], entry[REASONS], entry));
		if (entry && entry[CODE] && entry[CODE].length) made.setAttribute("aria-expanded", listing.opened.has(row.index));
		if (!entry) made.classList.add("idle");
		if (listing.matches && listing.matches(row)) made.classList.add("hit");
	}
	if (at === listing.current) made.setAttribute("aria-selected", "true");
	return made;
}

/* The rows in view, and some above and below them. */
function drawRows(isNew) {
	const box = byId("listing");
	const first = Math.max(0, Math.floor(box.scrollTop / SOURCE_ROW) - 12);
	const last = Math.min(listing.rows.length - 1, Math.ceil((box.scrollTop + (box.clientHeight || 600)) / SOURCE_ROW) + 12);
	if (!isNew && first === listing.first && last === listing.last) return;
	[listing.first, listing.last] = [first, last];
	const hadFocus = box.contains(document.activeElement) && document.activeElement !== box;
	const made = [];
	for (let at = first; at <= last; at++) made.push(rowElement(listing.rows[at], at));
	/* The current row keeps the focus and the tab stop when it is not in view. */
	if (listing.rows.length && (listing.current < first || listing.current > last)) made.push(rowElement(listing.rows[listing.current], listing.current));
	byId("listing-rows").replaceChildren(...made);
	if (hadFocus) focusRow();
}

function focusRow() {
	const made = byId("listing-rows").querySelector(`[data-row="${listing.current}"]`);
	if (made) made.focus({ preventScroll: true });
}

function goToRow(at, takesFocus) {
	if (at < 0 || at >= listing.rows.length) return;
	const box = byId("listing");
	listing.current = at;
	const top = at * SOURCE_ROW;
	if (top < box.scrollTop + SOURCE_ROW) box.scrollTop = top - box.clientHeight / 3;
	else if (top + 2 * SOURCE_ROW > box.scrollTop + box.clientHeight) box.scrollTop = top - (2 * box.clientHeight) / 3;
	drawRows(true);
	if (takesFocus) focusRow();
}

/* Selects a line of the kernel, by its index. */
function goToLine(index, takesFocus) {
	goToRow(listing.rows.findIndex((row) => row.kind === "line" && row.entry && row.index === index), takesFocus);
	rememberSource(false);
}

function openRow(at, isOpen) {
	const row = listing.rows[at];
	const key = row.kind === "gap" ? row.key : row.index;
	if (row.kind === "code") {
		listing.opened.delete(row.index);
		listing.current = listing.rows.findIndex((other) => other.kind === "line" && other.index === row.index);
	} else if (row.kind === "gap" || (row.entry && row.entry[CODE] && row.entry[CODE].length)) {
		if (isOpen === undefined ? !listing.opened.has(key) : isOpen) listing.opened.add(key);
		else listing.opened.delete(key);
		listing.current = at;
	} else {
		return;
	}
	makeRows();
	goToRow(listing.current, true);
}

// ---------------------------------------------------------------- search

function searchSource() {
	const matches = matcherOf(listing.query);
	listing.matches = matches ? (row) => row.kind === "line" && (matches(row.text || "") || matches(nameOfLine(row))) : null;
	const found = listing.matches ? listing.rows.filter(listing.matches).length : 0;
	byId("source-found").textContent = matches === undefined ? "not a regular expression" : listing.matches ? `${count(found)} line${found === 1 ? "" : "s"}` : "";
}

function stepSource(step) {
	if (!listing.matches) return;
	const { rows } = listing;
	for (let i = 1; i <= rows.length; i++) {
		const at = (listing.current + step * i + rows.length * 2) % rows.length;
		if (listing.matches(rows[at])) return goToRow(at, false);
	}
}

/* The next line in the order of samples. */
function stepHot(step) {
	const row = listing.rows[listing.current];
	const at = row ? listing.hot.indexOf(row.index) : -1;
	const next = listing.hot[at < 0 ? 0 : (at + step + listing.hot.length) % listing.hot.length];
	if (next !== undefined) goToLine(next, true);
}

// ---------------------------------------------------------------- kernel

function writeWaits() {
	const kernel = kernelNow();
	const whole = kernel.samples[0];
	const counts = new Map();
	for (let i = 0; i < kernel.samples[1].length; i += 2) counts.set(kernel.samples[1][i], kernel.samples[1][i + 1]);
	const waits = kernel.waits.slice(0, 3).filter(([reason], at) => !at || (100 * counts.get(reason)) / whole >= LITTLE);
	byId("waits").replaceChildren(...waits.map(([reason, index]) => {
		const [name, words] = source.reasons[reason];
		const line = index < 0 ? null : kernel.lines[index];
		const place = line ? ` at ${baseName(source.files[line[FILE]][0])}:${line[LINE]}` : "";
		const causes = causedBy(reason, () => true, line);
		const text = [element("b", {}, `${name} ${rounded(counts.get(reason), whole)} %`), words || place ? ": " + words + place + causes : causes];
		return element("li", {}, line ? element("button", { type: "button", onclick: () => goToLine(index, true) }, ...text) : element("span", {}, ...text));
	}));
	if (!waits.length) byId("waits").append(element("li", {}, element("span", {}, "no stall reasons were recorded")));
	byId("kernel-name").textContent = kernel.name;
	byId("kernel-samples").textContent = `${count(whole)} samples, ${percent(whole, source.samples)} %` +
		(kernel.apportioned ? `; ${count(kernel.apportioned)} divided between contexts by kernel time` : "");
}

function showKernel(index) {
	listing.kernel = index;
	listing.opened = new Set();
	listing.current = 0;
	byId("source-kernel").value = index;
	byId("listing").scrollTop = 0;
	writeWaits();
	makeRows();
	const hottest = listing.rows.findIndex((row) => row.kind === "line" && row.index === listing.hot[0]);
	if (hottest >= 0) goToRow(hottest, false);
}

/* Shows the source of a kernel, or a line of it, from the flame graph. */
function showSource(name, frame) {
	const index = source.kernels.findIndex((kernel) => kernel.name === name);
	const place = /^(.*):(\d+)@/.exec(frame || "");
	showTab("source");
	showKernel(index);
	const line = place ? kernelNow().lines.findIndex((entry) => entry[FILE] >= 0 && entry[LINE] === Number(place[2]) && baseName(source.files[entry[FILE]][0]) === baseName(place[1])) : -1;
	if (line >= 0) goToLine(line, true);
	else focusRow();
	remember(true);
}

/* The kernel with samples that a frame is, or is a line of. */
function sampledKernelOf(id) {
	if (!source) return null;
	return pathOf(id).reverse().map(nameOf).find((name) => sampledNames.has(name)) || null;
}
const sampledNames = new Set(source ? source.kernels.map((kernel) => kernel.name) : []);

// ---------------------------------------------------------------- address

const nthOfName = (index) => source.kernels.slice(0, index).filter((kernel) => kernel.name === source.kernels[index].name).length;

function sourceAddress() {
	const row = listing.rows[listing.current];
	const parts = ["kernel=" + encode(kernelNow().name) + (nthOfName(listing.kernel) ? ";" + nthOfName(listing.kernel) : "")];
	if (row && row.entry && row.file >= 0) parts.push(`line=${row.line};${encode(baseName(source.files[row.file][0]))}`);
	if (listing.isWhole) parts.push("lines=all");
	if (listing.query) parts.push("find=" + encode(listing.query));
	return parts;
}

function restoreSource(wanted) {
	const [name, nth] = (wanted.get("kernel") || "").split(";");
	const same = [...source.kernels.keys()].filter((index) => source.kernels[index].name === decode(name));
	const [line, file] = (wanted.get("line") || "").split(";");
	setWhole(wanted.get("lines") === "all");
	listing.query = decode(wanted.get("find") || "") || "";
	byId("source-search").value = listing.query;
	showKernel(same[Number(nth || 0)] || 0);
	const index = kernelNow().lines.findIndex((entry) => entry[FILE] >= 0 && entry[LINE] === Number(line) && baseName(source.files[entry[FILE]][0]) === decode(file || ""));
	if (index >= 0) goToRow(listing.rows.findIndex((row) => row.entry && row.index === index), false);
}

const rememberSource = (isStep) => state.tab === "source" && remember(isStep);

// ---------------------------------------------------------------- start

function setWhole(isWhole) {
	listing.isWhole = isWhole;
	press("sampled-lines", "all-lines", isWhole);
}

function onSourceKey(event) {
	if (event.altKey || event.ctrlKey || event.metaKey) return;
	const page = Math.max(1, Math.floor(byId("listing").clientHeight / SOURCE_ROW) - 2);
	const last = listing.rows.length - 1;
	const at = listing.current;
	const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(last, at + page), PageUp: Math.max(0, at - page), Home: 0, End: last };
	if (event.key in moves) {
		goToRow(moves[event.key], true);
		rememberSource(false);
	} else if (event.key === "Enter" || event.key === " ") openRow(at);
	else if (event.key === "ArrowRight") openRow(at, true);
	else if (event.key === "ArrowLeft") openRow(at, false);
	else if (event.key === "n" || event.key === "p") stepHot(event.key === "n" ? 1 : -1);
	else return;
	event.preventDefault();
}

function startSource() {
	byId("tab-source").hidden = !source;
	if (!source) return;
	const select = byId("source-kernel");
	source.kernels.slice(0, KERNEL_OPTIONS).forEach((kernel, index) => select.append(element("option", { value: index }, `${percent(kernel.samples[0], source.samples)} %  ${kernel.name}`)));
	select.onchange = () => {
		showKernel(Number(select.value));
		rememberSource(true);
	};
	onChoice("sampled-lines", "all-lines", (isWhole) => {
		const row = listing.rows[listing.current];
		setWhole(isWhole);
		makeRows();
		goToRow(listing.rows.findIndex((other) => other.kind === "line" && row && other.line === row.line && other.file === row.file), false);
		rememberSource(true);
	});
	byId("source-search").oninput = (event) => {
		listing.query = event.target.value;
		searchSource();
		drawRows(true);
		rememberSource(false);
	};
	byId("source-search").onkeydown = (event) => {
		if (event.key !== "Enter") return;
		stepSource(event.shiftKey ? -1 : 1);
		event.preventDefault();
	};
	byId("hottest-line").onclick = () => goToLine(listing.hot[0], true);
	byId("hottest-line").disabled = !source.kernels.some((kernel) => kernel.lines.some((entry) => entry[FILE] >= 0));
	byId("samples-graph").onclick = () => {
		const metric = metrics.findIndex((one) => one.adds && /^num_samples/.test(one.name));
		if (metric >= 0) setMetric(metric);
		showInGraph(kernelNow().name);
	};
	const box = byId("listing");
	box.onscroll = () => drawRows(false);
	box.onkeydown = onSourceKey;
	byId("listing-rows").onclick = (event) => {
		const made = event.target.closest(".row");
		const selection = getSelection(); // of text, for copying
		if (!made || !selection.isCollapsed) return;
		const at = Number(made.dataset.row);
		const isCurrent = at === listing.current;
		goToRow(at, true);
		if (listing.rows[at].kind === "gap" || isCurrent || made.hasAttribute("aria-expanded")) openRow(at);
		rememberSource(false);
	};
	byId("source-hint").textContent = source.code ? "Click a line or press Enter to see its instructions." :
		"Instructions of a line: export the report with --sass.";
	new ResizeObserver(() => drawRows(true)).observe(box);
	showKernel(0);
}
