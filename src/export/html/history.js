/*
 * State of the page in its address: #zoom=model/step&search=gemm. Back, Forward and links restore
 * it. Frames are identified by their path, so a link also works on another profile of the same
 * program; frames that it lacks are ignored.
 */

const LONGEST_PATH = 4000; // characters; longer paths are replaced by the index of the frame
const QUIET_MS = 200; // browsers reject changes of the address at every key

/* encodeURIComponent() rejects unpaired surrogates. */
const encode = (text) => encodeURIComponent(text.replace(/[\ud800-\udfff]/gu, "\ufffd"));

function decode(text) {
	try {
		return decodeURIComponent(text);
	} catch (error) {
		return null;
	}
}

/* A frame with the same name as an earlier sibling gets its number after ";". */
function stepText(id) {
	const same = kidsOf(model.parent[id]).filter((kid) => model.frame[kid] === model.frame[id]);
	return encode(nameOf(id)) + (same.length > 1 && same[0] !== id ? ";" + (same.indexOf(id) + 1) : "");
}

function pathText(id) {
	const text = pathOf(id).slice(1).map(stepText).join("/");
	return text.length <= LONGEST_PATH ? text : `;${id};${hashOf(nameOf(id))}`;
}

/* null: this profile has no such frame. */
function nodeOfPath(text) {
	const byNumber = /^;(\d+);(\d+)$/.exec(text);
	if (byNumber) {
		const id = Number(byNumber[1]);
		return id < model.count && hashOf(nameOf(id)) === Number(byNumber[2]) ? id : null;
	}
	let id = 0;
	for (const step of text.split("/")) {
		const [name, which] = step.split(";");
		const wanted = decode(name);
		const same = kidsOf(id).filter((kid) => nameOf(kid).replace(/[\ud800-\udfff]/gu, "\ufffd") === wanted);
		id = same[which ? Number(which) - 1 : 0];
		if (id === undefined) return null;
	}
	return id;
}

function addressOfState() {
	const parts = [];
	const metric = metrics[state.metric];
	if (state.tab !== "graph") parts.push("tab=" + state.tab);
	if (state.tab === "source") parts.push(...sourceAddress());
	if (metric && state.metric !== FIRST_METRIC) parts.push("metric=" + encode(metric.name));
	if (state.sized === "old") parts.push("sized=before");
	if (!state.isIcicle) parts.push("view=flame");
	if (view.about !== null) parts.push("about=" + encode(frameNames[view.about]));
	if (view.isInverted) parts.push("tree=callers");
	if (view.hide) parts.push("hide=" + encode(view.hide));
	if (!view.folds && isFoldable) parts.push("fold=no");
	if (state.zoom) parts.push("zoom=" + pathText(state.zoom));
	if (state.part) parts.push("part=" + state.part.join("-"));
	if (state.selected !== state.zoom) parts.push("select=" + (state.selected ? pathText(state.selected) : ""));
	if (state.query) parts.push("search=" + encode(state.query));
	if (byId("filter").value) parts.push("filter=" + encode(byId("filter").value));
	return parts.length ? "#" + parts.join("&") : "";
}

let writtenAddress = location.hash;
let pendingAddress = null; // of the current entry, written after a pause
let pendingTimer = 0;

function writeAddress(how, address) {
	clearTimeout(pendingTimer);
	pendingAddress = null;
	if (address === writtenAddress) return;
	try {
		history[how](null, "", address || location.href.split("#")[0]);
		writtenAddress = location.hash;
	} catch (error) {
		/* A page inside another one may have no history. */
	}
}

/* Call after a change of the view: a step that Back undoes, or one more of the same kind. */
function remember(isStep) {
	const address = addressOfState();
	if (isStep) {
		if (pendingAddress !== null) writeAddress("replaceState", pendingAddress);
		writeAddress("pushState", address);
		return;
	}
	pendingAddress = address;
	clearTimeout(pendingTimer);
	pendingTimer = setTimeout(() => writeAddress("replaceState", address), QUIET_MS);
}

function parseAddress(address) {
	const wanted = new Map();
	for (const part of address.replace(/^#/, "").split("&")) {
		const at = part.indexOf("=");
		if (at > 0) wanted.set(part.slice(0, at), part.slice(at + 1));
	}
	return wanted;
}

/* Shows the state in an address; other settings get their defaults. */
function restore(address) {
	const wanted = parseAddress(address);
	const textOf = (key) => decode(wanted.get(key) || "") || "";
	const about = frameOfName.get(textOf("about"));
	setView({ about: about === undefined ? null : about, isInverted: wanted.get("tree") === "callers", hide: textOf("hide"), folds: wanted.get("fold") !== "no" });
	const zoomed = wanted.get("zoom") ? nodeOfPath(wanted.get("zoom")) : 0;
	const selected = wanted.has("select") ? (wanted.get("select") ? nodeOfPath(wanted.get("select")) : 0) : zoomed;
	const metric = metrics.findIndex((one) => one.adds && one.name === textOf("metric"));
	const tab = TABS.includes(wanted.get("tab")) ? wanted.get("tab") : "graph";
	const hadTab = state.tab;
	const part = /^(\d+)-(\d+)$/.exec(wanted.get("part") || "");
	state.zoom = zoomed || 0;
	state.part = part && zoomed !== null ? [Number(part[1]), Number(part[2])] : null;
	state.selected = selected || state.zoom;
	if (wanted.get("select") === "") state.selected = 0;
	state.query = textOf("search");
	byId("search").value = state.query;
	showOnly(tab);
	if (tab === "source") restoreSource(wanted);
	setFilter(textOf("filter"));
	setDirection(wanted.get("view") !== "flame");
	setMetric(metric < 0 ? FIRST_METRIC : metric, isDiff && wanted.get("sized") === "before" ? "old" : "now");
	byId("absent").hidden = zoomed !== null && selected !== null;
	if (tab !== hadTab && document.activeElement === document.body) byId("tab-" + tab).focus({ preventScroll: true });
	const made = drawn.get(state.selected);
	if (made && state.selected) made.scrollIntoView({ block: "nearest" });
}

function startHistory() {
	const onMove = () => {
		if (location.hash === writtenAddress) return;
		clearTimeout(pendingTimer);
		pendingAddress = null;
		writtenAddress = location.hash;
		restore(location.hash);
	};
	addEventListener("popstate", onMove);
	addEventListener("hashchange", onMove);
	if (location.hash) restore(location.hash);
}
