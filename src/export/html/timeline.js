/*
 * Time line of a trace: tracks of slices on a canvas, because it may have a million. The selected
 * slice is text below it, and reached by keyboard.
 */

const LINE_ROW = 18; // pixels of a level of slices
const LINE_HEAD = 16; // and of the name of a track or a process
const line = { rows: [], heads: [], names: [], nodes: [], from: 0, to: 0, row: 0, at: 0, height: 0 };

/* Levels of a track: lists of slices that follow each other, in order. */
async function readTimeline() {
	if (!data.timeline) return;
	const packed = { bytes: await inflate(data.timeline.contexts), at: 0 };
	for (const next = numbersOf(packed); packed.at < packed.bytes.length; ) {
		line.names.push(next());
		line.nodes.push(next());
	}
	const next = numbersOf({ bytes: await inflate(data.timeline.slices), at: 0 });
	let process = "";
	for (const [name, size] of data.timeline.tracks) {
		const isProcess = size === undefined;
		line.heads.push({ name, isProcess, top: (line.height += LINE_HEAD) });
		if (isProcess) process = ", " + name;
		if (isProcess) continue;
		const levels = [];
		for (let i = 0, start = 0; i < size; i++) {
			start += next();
			const end = start + next();
			let level = 0;
			while (levels[level] && levels[level].ends[levels[level].ends.length - 1] > start) level++;
			if (!levels[level]) levels[level] = { starts: [], ends: [], contexts: [] };
			levels[level].starts.push(start);
			levels[level].ends.push(end);
			levels[level].contexts.push(next());
		}
		levels.forEach((row, level) => line.rows.push({ ...row, place: name + process, top: line.height + level * LINE_ROW }));
		line.height += levels.length * LINE_ROW + 6;
	}
	line.to = data.timeline.duration;
	const { leftOut } = data.timeline;
	const shown = line.heads.filter((head) => head.isProcess).length;
	byId("line-left").hidden = !leftOut;
	byId("line-left").textContent = `${shown} of ${shown + leftOut} processes are shown: the others do not fit into the page. A report with --rank shows one.`;
}

/* The first slice of a row that ends after a time. */
function sliceAfter(row, time) {
	let [low, high] = [0, row.ends.length];
	while (low < high) {
		const middle = (low + high) >> 1;
		if (row.ends[middle] > time) high = middle;
		else low = middle + 1;
	}
	return low;
}

const sliceName = (row, at) => data.timeline.names[line.names[row.contexts[at]]];

/* How far it is scrolled. The canvas is as high as what is seen of it: browsers refuse large ones. */
const lineTop = () => byId("line").getBoundingClientRect().top - byId("line-space").getBoundingClientRect().top;

function drawTimeline() {
	const canvas = byId("line");
	const width = byId("line-scroll").clientWidth - 20;
	const style = getComputedStyle(document.documentElement);
	const [ink, inkOfPage, soft, light, sat] = ["--frame-ink", "--ink", "--soft", "--light", "--sat"].map((name) => style.getPropertyValue(name).trim());
	const height = Math.min(line.height, Math.round(0.72 * window.innerHeight));
	const context = fitCanvas(canvas, width, height);
	byId("line-space").style.height = line.height + "px";
	const top = lineTop();
	context.translate(0, -top);
	context.font = "11px system-ui, sans-serif";
	context.textBaseline = "middle";
	const perPixel = (line.to - line.from) / width;
	let count = 0;
	const isSeen = (place) => place.top > top - LINE_ROW && place.top < top + height + LINE_HEAD;
	for (const head of line.heads.filter(isSeen)) {
		context.fillStyle = head.isProcess ? inkOfPage : soft;
		context.fillText(shorten(context, head.name, width), 0, head.top - LINE_HEAD / 2);
	}
	for (const [index, row] of line.rows.entries()) {
		if (!isSeen(row)) continue;
		for (let at = sliceAfter(row, line.from); at < row.starts.length && row.starts[at] < line.to; ) {
			const left = Math.max(0, (row.starts[at] - line.from) / perPixel);
			const size = Math.max(1, Math.min(width, (row.ends[at] - line.from) / perPixel) - left);
			const name = sliceName(row, at);
			context.fillStyle = `hsl(${HUES[kindOf(frameOf(name))] + (hashOf(name) % 17) - 8}, ${sat}, ${light})`;
			context.fillRect(left, row.top, size > 3 ? size - 1 : size, LINE_ROW - 2);
			if (index === line.row && at === line.at) {
				context.strokeStyle = ink;
				context.lineWidth = 2;
				context.strokeRect(left + 1, row.top + 1, Math.max(1, size - 3), LINE_ROW - 4);
			}
			context.fillStyle = ink;
			if (size > 30) context.fillText(shorten(context, name, size - 8), left + 4, row.top + LINE_ROW / 2 - 1);
			count++;
			/* Slices that end in the same pixel are not drawn again. */
			at = Math.max(at + 1, sliceAfter(row, line.from + (left + Math.max(1, size)) * perPixel - perPixel / 2));
		}
	}
	canvas.dataset.drawn = count; // for tests
	const row = line.rows[line.row];
	const text = row && line.at < row.starts.length ? sliceText(row, line.at) : "";
	byId("line-slice").textContent = text.replace(/\n/g, " · ");
	byId("line-range").textContent = `${duration(Math.round(line.to - line.from))} of ${duration(data.timeline.duration)}, from ${duration(Math.round(line.from))}`;
}

const sliceText = (row, at) => `${sliceName(row, at)}\n${duration(row.ends[at] - row.starts[at])}\nat ${duration(row.starts[at])}, ${row.place}`;

function showRange(from, to) {
	const size = Math.min(data.timeline.duration, Math.max(20, to - from));
	line.from = Math.max(0, Math.min(data.timeline.duration - size, from));
	line.to = line.from + size;
	drawTimeline();
}

/* `share`: the place that stays, as a share of the width. */
function zoomLine(factor, share = 0.5) {
	const size = (line.to - line.from) * factor;
	const fixedTime = line.from + share * (line.to - line.from);
	showRange(fixedTime - share * size, fixedTime + (1 - share) * size);
}

function sliceAt(event) {
	const box = byId("line").getBoundingClientRect();
	const time = line.from + ((event.clientX - box.left) / box.width) * (line.to - line.from);
	const y = event.clientY - box.top + lineTop();
	const index = line.rows.findIndex((row) => y >= row.top && y < row.top + LINE_ROW);
	const at = index < 0 ? 0 : sliceAfter(line.rows[index], time);
	return index >= 0 && line.rows[index].starts[at] <= time ? [index, at] : null;
}

/* Selects a slice, and moves to it where it is not in view. */
function selectSlice(index, at) {
	line.row = Math.max(0, Math.min(line.rows.length - 1, index));
	const row = line.rows[line.row];
	line.at = Math.max(0, Math.min(row.starts.length - 1, at));
	const [start, end] = [row.starts[line.at], row.ends[line.at]];
	const size = line.to - line.from;
	const height = byId("line").clientHeight;
	if (row.top < lineTop() + LINE_HEAD || row.top + LINE_ROW > lineTop() + height) byId("line-scroll").scrollTop = row.top - height / 3;
	if (end < line.from || start > line.to) showRange((start + end - size) / 2, (start + end + size) / 2);
	else drawTimeline();
}

/* The frame that the selected slice ran in. */
function showSlice() {
	const row = line.rows[line.row];
	showInGraph(sliceName(row, line.at), base.ofNow(line.nodes[row.contexts[line.at]]));
}

function onLineKey(event) {
	if (event.altKey || event.ctrlKey || event.metaKey) return;
	const row = line.rows[line.row];
	const beside = (step) => {
		const other = line.rows[line.row + step];
		if (other) selectSlice(line.row + step, sliceAfter(other, row.starts[line.at]));
	};
	const keys = {
		ArrowLeft: () => selectSlice(line.row, line.at - 1), ArrowRight: () => selectSlice(line.row, line.at + 1),
		ArrowUp: () => beside(-1), ArrowDown: () => beside(1), "+": () => zoomLine(0.5), "-": () => zoomLine(2),
		Home: () => showRange(0, data.timeline.duration), Enter: showSlice,
	};
	if (!keys[event.key]) return;
	keys[event.key]();
	event.preventDefault();
}

function startTimeline() {
	byId("tab-timeline").hidden = !data.timeline;
	if (!data.timeline) return;
	const canvas = byId("line");
	let drag = null;
	canvas.onkeydown = onLineKey;
	canvas.onwheel = (event) => {
		if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
		zoomLine(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth);
		event.preventDefault();
	};
	canvas.onpointerdown = (event) => (drag = { x: event.clientX, from: line.from });
	canvas.onpointerup = () => (drag = null);
	canvas.onpointermove = (event) => {
		if (drag && event.buttons) {
			const from = drag.from - ((event.clientX - drag.x) / canvas.clientWidth) * (line.to - line.from);
			return showRange(from, from + line.to - line.from);
		}
		const found = sliceAt(event);
		tipOnCanvas(canvas, found ? sliceText(line.rows[found[0]], found[1]) : "");
	};
	canvas.onclick = (event) => sliceAt(event) && selectSlice(...sliceAt(event));
	byId("line-in").onclick = () => zoomLine(0.5);
	byId("line-out").onclick = () => zoomLine(2);
	byId("line-whole").onclick = () => showRange(0, data.timeline.duration);
	byId("line-graph").onclick = showSlice;
	byId("line-scroll").onscroll = drawTimeline;
	redrawWithTheme("timeline", drawTimeline);
}
