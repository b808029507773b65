/* Elements of the page, and numbers: formatNumber() prints as number_format_write() of src/viewer/print/number_format.c. */
const data = JSON.parse(document.getElementById("profile").textContent);
const isDiff = data.before !== null;
const byId = (id) => document.getElementById(id);
if (!("DecompressionStream" in window)) {
	byId("plain-why").textContent = "This browser cannot unpack the report; open it with Chrome 80, Firefox 113, Safari 16.4 or later.";
	return;
}

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

/* Two buttons, one of which is pressed. */
function press(first, second, isSecond) {
	byId(first).setAttribute("aria-pressed", !isSecond);
	byId(second).setAttribute("aria-pressed", isSecond);
}
function onChoice(first, second, choose) {
	byId(first).onclick = () => choose(false);
	byId(second).onclick = () => choose(true);
}

// ---------------------------------------------------------------- numbers

/* printf("%.*f"): ties go to the even digit, unlike in toFixed(). */
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

/* The style of a column: number_format_for() of src/viewer/print/number_format.c. */
function styleFor(largest, isInteger) {
	if (largest >= 1e15 || (largest > 0 && largest < 1e-6)) return { scientific: true, decimals: 4 };
	if (isInteger) return { scientific: false, decimals: 0 };
	const magnitude = largest > 0 ? Math.floor(Math.log10(largest)) : 0;
	let decimals = 4 - magnitude;
	if (decimals < 2) decimals = largest < 1e7 ? 2 : 0;
	return { scientific: false, decimals };
}

function formatNumber(style, value) {
	if (value === null || !Number.isFinite(value)) return "-";
	if (value === 0) return "0";
	if (style.scientific) return exponential(value, style.decimals);
	if (Math.abs(value) < 0.5 * Math.pow(10, -style.decimals)) return exponential(value, 0);
	return fixed(value, style.decimals);
}

const PERCENT = { scientific: false, decimals: 2 };
const percent = (part, whole) => (whole ? formatNumber(PERCENT, (100 * part) / whole) : "-");
const signed = (text) => (/^[-0]/.test(text) && !/[1-9]/.test(text) ? "0" : text.startsWith("-") ? "−" + text.slice(1) : "+" + text);

/*
 * after - before; 0 if they differ by rounding only: difference_without_noise() of
 * src/viewer/numbers/repeats.c.
 */
function difference(before, after) {
	const change = after - before;
	return Math.abs(change) <= 1e-12 * Math.max(Math.abs(before), Math.abs(after)) ? 0 : change;
}

function changePercent(before, after) {
	if (!before) return after ? "new" : "";
	if (!after) return "gone";
	return signed(formatNumber(PERCENT, (100 * difference(before, after)) / before)) + " %";
}

const UNITS = { nanoseconds: "ns", microseconds: "µs", milliseconds: "ms", seconds: "s", bytes: "B", percent: "%" };
const unitOf = (metric) => UNITS[metric.unit] || "";
const TIMES = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const THOUSANDS = ["", "k", "M", "G", "T", "P", "E"];

/* [text, unit] in the largest unit with a value of at least 1. */
function scaled(value, base, units) {
	let step = 0;
	while (step + 1 < units.length && Math.abs(value) >= base) {
		value /= base;
		step++;
	}
	/* 1023.999 MiB would be rounded to 1024.00 MiB. */
	if (step && step + 1 < units.length && Math.abs(value).toFixed(2) >= base) {
		value /= base;
		step++;
	}
	return [formatNumber(step || !Number.isInteger(value) ? PERCENT : styleFor(value, true), value), units[step]];
}

/* A single number: [text, unit], for times and sizes the largest unit of which there is one. */
function amount(metric, value) {
	const text = formatNumber(metric.style, value);
	const unit = unitOf(metric);
	if (text === "-" || !value) return [text, text === "-" ? "" : unit];
	if (unit === "B") return scaled(value, 1024, SIZES);
	const own = TIMES.find(([name]) => name === unit);
	if (!own || (Math.abs(value) >= 1 && Math.abs(value) < 1000)) return [text, unit];
	const ns = value * own[1];
	if (Math.abs(ns) < 1e-3) return ["0", unit];
	const [name, size] = TIMES.find((time) => Math.abs(ns) >= time[1]) || TIMES[3];
	return [formatNumber(styleFor(Math.abs(ns / size), false), ns / size), name];
}

const withUnit = (metric, value) => amount(metric, value).filter((part) => part).join(" ");

const count = (number) => number.toLocaleString("en-GB");
const frames = (number) => `${count(number)} frame${number === 1 ? "" : "s"}`;
