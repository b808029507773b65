/* Roofline: operations per second over operations per byte, below the peak rates of the devices. */

const ROOFLINE_POINTS = 2000;
const LETTER = 7; // approximate width of a letter in pixels
const WIDTHS = [4, 8, 16, 32, 64];

function power(exponent) {
	const text = String(exponent).replace(/[-\d]/g, (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]);
	return exponent >= 0 && exponent <= 3 ? String(Math.pow(10, exponent)) : "10" + text;
}

/* Roofs by device; equal devices share one. */
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

/* `room`: the width of the drawing, which keeps letters as large as elsewhere on the page. */
function drawRoofline(room) {
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
		byId("roofline").replaceChildren(element("p", { class: "empty" }, "A roofline needs kernels with flops and bytes, and this profile has none. Launch metadata of Triton kernels gives both."));
		return;
	}
	const ridges = roofs.flatMap((roof) => roof.flops.map(([, flops]) => Math.log10(flops / roof.bytes)));
	const tops = roofs.flatMap((roof) => roof.flops.map(([, flops]) => Math.log10(flops)));
	const xs = [...points.map((point) => point.x), ...ridges];
	const ys = [...points.map((point) => point.y), ...tops];
	const [x0, x1] = [Math.floor(Math.min(...xs) - 0.3), Math.ceil(Math.max(...xs) + 0.5)];
	const [y0, y1] = [Math.floor(Math.min(...ys) - 0.3), Math.ceil(Math.max(...ys) + 0.2)];
	const isNarrow = room < 600;
	const [width, height, left, bottom] = [room, isNarrow ? 380 : 520, isNarrow ? 52 : 70, 46];
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
	const labels = []; // [left, right, y] of placed names
	points.sort((a, b) => b.time - a.time).forEach((point, index) => {
		const radius = 3 + 10 * Math.sqrt(point.time / longest);
		const label = `${point.name}: ${formatNumber(styleFor(Math.pow(10, point.y - 12), false), Math.pow(10, point.y - 12))} Tflop/s, ${Number(Math.pow(10, point.x).toPrecision(4))} operations per byte`;
		const circle = drawing("circle", { cx: px(point.x), cy: py(point.y), r: radius, tabindex: 0, role: "img", "aria-label": label, "data-tip": label.replace(": ", "\n") });
		svg.append(circle);
		if (index >= (isNarrow ? 5 : 20)) return;
		/* On the side with more space, and not longer than that. */
		const spaces = [width - px(point.x) - radius - 5, px(point.x) - radius - 5];
		const isRight = spaces[0] >= spaces[1] || spaces[0] >= 44 * LETTER;
		const letters = Math.min(44, Math.floor(spaces[isRight ? 0 : 1] / LETTER));
		const shown = point.name.length > letters ? point.name.slice(0, Math.max(0, letters - 1)) + "…" : point.name;
		const at = px(point.x) + (isRight ? radius + 5 : -radius - 5);
		const [from, to] = isRight ? [at, at + LETTER * shown.length] : [at - LETTER * shown.length, at];
		const y = py(point.y) + 4;
		const isFree = (line) => labels.every(([l, r, other]) => r < from || l > to || Math.abs(other - line) > 14);
		const found = [0, 15, -15, 30, -30, 45, 60, 75, 90].map((step) => y + step).find(isFree);
		if (found === undefined) return;
		labels.push([from, to, found]);
		text(shown, { class: "name", x: at, y: found, "text-anchor": isRight ? "start" : "end" });
	});
	byId("roofline").replaceChildren(svg);
}

let rooflineWidth = 0;

function startRoofline() {
	const fit = () => {
		const width = Math.max(320, Math.min(1100, byId("roofline").clientWidth - 20 || 1100));
		if (width === rooflineWidth) return;
		rooflineWidth = width;
		drawRoofline(width);
	};
	fit();
	new ResizeObserver(fit).observe(byId("roofline"));
}
