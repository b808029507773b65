/*
 * Heat map of ranks: rows are ranks or hosts, columns are frames with the largest time that could
 * go. A color is the difference from the mean of the frame over all ranks. It is a canvas, because
 * it may have 100,000 cells; the cell at the cursor is text below it, too.
 */

const HEAT_FRAMES = [20, 60]; // columns; the last choice is all
const HEAT_LABELS = 120; // pixels for the names of frames
const HEAT_LEFT = 110; // and for those of rows
const HEAT_HEIGHT = 560; // for the cells, if there are many rows
const HEAT_SPAN = [0.05, 2]; // the smallest and largest difference with full color
const [MAXIMUM, WHO, MEAN] = [0, 1, 2];
const [FIRST, LAST, SIZE, FIRST_HOST, LAST_HOST] = [0, 1, 2, 3, 4];

const heat = { part: MAXIMUM, isHosts: false, columns: HEAT_FRAMES[0], row: 0, column: 0, box: null };

const gridNow = () => (heat.isHosts ? data.ranks.byHost : data.ranks.byRank);
const shownColumns = () => data.ranks.columns.slice(0, heat.columns);
const msText = (ns) => formatNumber(styleFor(ns / 1e6, false), ns / 1e6) + " ms";

function rowName(row) {
	if (heat.isHosts) {
		const first = row[FIRST_HOST] || "unknown host";
		return row[FIRST_HOST] === row[LAST_HOST] ? first : `${first} … ${row[LAST_HOST]}`;
	}
	return row[FIRST] === row[LAST] ? "rank " + row[FIRST] : `ranks ${row[FIRST]}–${row[LAST]}`;
}

/* Difference from the mean of the frame; null: no time. */
function differenceAt(row, column) {
	const value = gridNow().cells[column][heat.part][row];
	return value ? value / data.ranks.columns[column].mean - 1 : null;
}

function cellText(row, column) {
	const place = gridNow().rows[row];
	const frame = data.ranks.columns[column];
	const cells = gridNow().cells[column];
	const lines = [`${rowName(place)}${heat.isHosts || !place[FIRST_HOST] ? "" : " on " + place[FIRST_HOST]}`, frame.path];
	if (!cells[MAXIMUM][row]) return [...lines, "no kernel time"].join("\n");
	const change = (value) => signed(formatNumber(PERCENT, (100 * value) / frame.mean - 100)) + " %";
	if (place[SIZE] > 1) {
		lines.push(`maximum ${msText(cells[MAXIMUM][row])} (${change(cells[MAXIMUM][row])}), rank ${cells[WHO][row]}`);
		lines.push(`mean of ${count(place[SIZE])} ranks ${msText(cells[MEAN][row])} (${change(cells[MEAN][row])})`);
	} else {
		lines.push(`${msText(cells[MAXIMUM][row])} (${change(cells[MAXIMUM][row])})`);
	}
	lines.push(`mean of all ranks ${msText(frame.mean)}`);
	return lines.join("\n");
}

// ---------------------------------------------------------------- colors

function rgbOf(variable) {
	const text = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
	return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/* From the color of cards at 0 to that of good or bad at 1. */
function mix(from, to, share) {
	return "rgb(" + from.map((value, i) => Math.round(value + (to[i] - value) * share)).join(",") + ")";
}

/* The difference with full color: that of the farthest cell, within limits. */
function spanNow() {
	let largest = 0;
	for (let column = 0; column < shownColumns().length; column++)
		for (let row = 0; row < gridNow().rows.length; row++) largest = Math.max(largest, Math.abs(differenceAt(row, column) || 0));
	return Math.min(HEAT_SPAN[1], Math.max(HEAT_SPAN[0], largest));
}

// ---------------------------------------------------------------- drawing

function shorten(context, text, room) {
	if (context.measureText(text).width <= room) return text;
	let length = text.length;
	while (length > 1 && context.measureText(text.slice(0, length) + "…").width > room) length--;
	return text.slice(0, length) + "…";
}

/* Sizes in CSS pixels: at most a cell of 24, and at least one pixel a row. */
function measure() {
	const rows = gridNow().rows.length;
	const columns = shownColumns().length;
	const room = byId("heat-scroll").clientWidth - HEAT_LEFT - HEAT_LABELS;
	const height = rows > 200 ? Math.max(1, HEAT_HEIGHT / rows) : Math.max(3, Math.min(24, Math.floor(HEAT_HEIGHT / rows)));
	const width = Math.max(6, Math.min(40, Math.floor(room / columns)));
	return { width, height, rows, columns, left: HEAT_LEFT, top: HEAT_LABELS };
}

function drawLabels(context, box) {
	context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--soft");
	context.font = "11px system-ui, sans-serif";
	context.textBaseline = "middle";
	const everyRow = Math.ceil(13 / box.height);
	context.textAlign = "right";
	for (let row = 0; row < box.rows; row += everyRow)
		context.fillText(shorten(context, rowName(gridNow().rows[row]), box.left - 8), box.left - 6, box.top + (row + 0.5) * box.height);
	context.textAlign = "left";
	const everyColumn = Math.ceil(12 / box.width);
	for (let column = 0; column < box.columns; column += everyColumn) {
		context.save();
		context.translate(box.left + (column + 0.5) * box.width, box.top - 5);
		context.rotate(-Math.PI / 4);
		context.fillText(shorten(context, data.ranks.columns[column].label, HEAT_LABELS * 1.3), 0, 0);
		context.restore();
	}
}

function drawCells(context, box, span) {
	const [card, bad, good, line] = ["--card", "--bad", "--accent", "--line"].map(rgbOf);
	const gap = box.height >= 6 && box.width >= 6 ? 1 : 0;
	for (let column = 0; column < box.columns; column++) {
		for (let row = 0; row < box.rows; row++) {
			const value = differenceAt(row, column);
			const share = value === null ? 0 : Math.min(1, Math.abs(value) / span);
			context.fillStyle = value === null ? mix(card, line, 0.6) : mix(card, value > 0 ? bad : good, share);
			const top = Math.round((box.top + row * box.height) * 2) / 2;
			const bottom = Math.round((box.top + (row + 1) * box.height) * 2) / 2;
			context.fillRect(box.left + column * box.width, top, box.width - gap, Math.max(0.5, bottom - top - gap));
		}
	}
}

function drawHeat() {
	if (!data.ranks) return;
	const canvas = byId("heat");
	const box = (heat.box = measure());
	const [width, height] = [box.left + box.columns * box.width + HEAT_LABELS, box.top + box.rows * box.height + 4];
	const span = spanNow();
	heat.row = Math.min(heat.row, box.rows - 1);
	heat.column = Math.min(heat.column, box.columns - 1);
	const context = fitCanvas(canvas, width, height);
	canvas.dataset.box = [box.left, box.top, box.width, box.height, box.rows, box.columns].join(" "); // for tests
	drawCells(context, box, span);
	drawLabels(context, box);
	context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
	context.strokeRect(box.left + heat.column * box.width - 0.5, box.top + heat.row * box.height - 0.5, box.width, Math.max(box.height, 2));
	byId("heat-cell").textContent = cellText(heat.row, heat.column).replace(/\n/g, " · ");
	byId("heat-scale").textContent = `Red: above the mean of the frame, blue: below. Full color: ${formatNumber(PERCENT, 100 * span)} %. Gray: no kernel time.`;
	const binned = box.rows < data.ranks.count && !heat.isHosts ? `, ${count(box.rows)} rows` : "";
	byId("heat-about").textContent = `${count(data.ranks.count)} ranks${binned}, ${count(box.columns)} of ${count(data.ranks.columns.length)} frames`;
}

// ---------------------------------------------------------------- use

function cellAt(event) {
	const place = byId("heat").getBoundingClientRect();
	const column = Math.floor((event.clientX - place.left - heat.box.left) / heat.box.width);
	const row = Math.floor((event.clientY - place.top - heat.box.top) / heat.box.height);
	return column >= 0 && column < heat.box.columns && row >= 0 && row < heat.box.rows ? [row, column] : null;
}

function onHeatMove(event) {
	const cell = cellAt(event);
	tipOnCanvas(byId("heat"), cell ? cellText(...cell) : "");
}

function goToCell(row, column) {
	heat.row = Math.max(0, Math.min(heat.box.rows - 1, row));
	heat.column = Math.max(0, Math.min(heat.box.columns - 1, column));
	drawHeat();
}

function onHeatKey(event) {
	const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [-Infinity, 0], End: [Infinity, 0] };
	const step = steps[event.key];
	if (event.key === "Enter") return showColumn();
	if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
	goToCell(heat.row + step[0], heat.column + step[1]);
	event.preventDefault();
}

/* Frames of the same name get the names of those above them, which come first. */
function labelColumns(columns) {
	for (const column of columns) {
		const same = columns.filter((other) => other.name === column.name && other !== column).map((other) => other.path.split(" > "));
		const path = column.path.split(" > ");
		let size = 1;
		while (size < path.length && same.some((other) => other.slice(-size).join() === path.slice(-size).join())) size++;
		column.label = size > 1 ? path.slice(-size, -1).join(" > ") + " > " + column.name : column.name;
	}
}

/* The frame of a column: others may have its name. */
function showColumn() {
	const { name, path } = shownColumns()[heat.column];
	const frame = frameOf(name);
	const isIt = (own, node) => own === frame && (pathOf(node, base).slice(1).map((id) => frameNames[base.frame[id]]).join(" > ") || name) === path;
	const node = base.frame.findIndex(isIt);
	showInGraph(name, node < 0 ? undefined : node);
}

function startRanks() {
	byId("tab-ranks").hidden = !data.ranks && !data.waits;
	if (!data.ranks) {
		for (const part of byId("panel-ranks").children) part.hidden = part.id !== "rank-waits"; // no times of ranks
		return;
	}
	const ranks = data.ranks;
	labelColumns(ranks.columns);
	for (const size of [...HEAT_FRAMES.filter((size) => size < ranks.columns.length), ranks.columns.length])
		byId("heat-frames").append(element("option", { value: size }, size === ranks.columns.length ? `all ${size}` : `first ${size}`));
	heat.columns = Math.min(HEAT_FRAMES[0], ranks.columns.length);
	byId("heat-frames").onchange = (event) => {
		heat.columns = Number(event.target.value);
		drawHeat();
	};
	const choose = (first, second, set) => onChoice(first, second, (isSecond) => {
		press(first, second, isSecond);
		set(isSecond);
		drawHeat();
	});
	choose("rows-ranks", "rows-hosts", (isSecond) => (heat.isHosts = isSecond));
	choose("cells-max", "cells-mean", (isSecond) => (heat.part = isSecond ? MEAN : MAXIMUM));
	if (ranks.problemCount) {
		const named = ranks.problems.slice(0, 10).map(([rank, what, host]) => `${rank} (${what}${host ? " on " + host : ""})`).join(", ");
		byId("rank-problems").textContent = `${count(ranks.problemCount)} rank${ranks.problemCount === 1 ? " is" : "s are"} not finished: ${named}${ranks.problemCount > 10 ? ", …" : ""}`;
		byId("rank-problems").hidden = false;
	}
	const canvas = byId("heat");
	canvas.addEventListener("pointermove", onHeatMove);
	canvas.addEventListener("click", (event) => cellAt(event) && goToCell(...cellAt(event)));
	canvas.addEventListener("dblclick", (event) => cellAt(event) && showColumn());
	byId("heat-graph").onclick = showColumn;
	canvas.addEventListener("keydown", onHeatKey);
	redrawWithTheme("ranks", drawHeat);
}
