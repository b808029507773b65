/* Tabs, theme, keyboard shortcuts, and start of the page. The other scripts are loaded before. */

const hasKernels = data.now.kernels.length > 0 || !data.warps; // else they were only instrumented
const TABS = ["graph", ...(hasKernels ? ["kernels"] : []), ...(data.source ? ["source"] : []), ...(data.ranks || data.waits ? ["ranks"] : []), ...(data.warps ? ["warps"] : []), ...(data.timeline ? ["timeline"] : []), "roofline"];

function showOnly(wanted) {
	state.tab = wanted;
	for (const name of TABS) {
		const isShown = name === wanted;
		byId("panel-" + name).hidden = !isShown;
		byId("tab-" + name).setAttribute("aria-selected", isShown);
		byId("tab-" + name).tabIndex = isShown ? 0 : -1;
	}
	if (wanted === "ranks") drawHeat();
	if (wanted === "timeline") drawTimeline();
}

function showTab(wanted) {
	showOnly(wanted);
	if (wanted === "graph") draw();
	if (wanted === "source") goToRow(listing.current, false);
}

function goToTab(wanted) {
	if (wanted === state.tab) return;
	showTab(wanted);
	remember(true);
}

function startTabs() {
	TABS.forEach((name, index) => {
		const tab = byId("tab-" + name);
		tab.onclick = () => goToTab(name);
		tab.onkeydown = (event) => {
			const targets = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TABS.length - 1 };
			if (!(event.key in targets) || event.altKey || event.ctrlKey || event.metaKey) return;
			const next = TABS[(targets[event.key] + TABS.length) % TABS.length];
			goToTab(next);
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
			/* Then the setting is not saved. */
		}
		label();
	};
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
	label();
}

/* One step back: to the whole profile, then out of the search. */
function leave() {
	const hadFocus = graph.contains(document.activeElement);
	if (state.zoom || state.part) {
		zoom(0);
	} else if (view.about !== null) {
		changeView({ about: null });
	} else if (state.query) {
		byId("search").value = "";
		byId("search").dispatchEvent(new Event("input"));
	}
	if (hadFocus) focusSelected();
}

document.addEventListener("keydown", (event) => {
	const isTyping = event.target.matches("input, select");
	const isCommand = event.altKey || event.ctrlKey || event.metaKey;
	if (event.key === "/" && !isTyping && !isCommand) {
		if (state.tab !== "source") goToTab("graph");
		byId(state.tab === "source" ? "source-search" : "search").focus();
		event.preventDefault();
	} else if (event.key === "Escape") {
		hideTip();
		if (isTyping && event.target.value && event.target.type === "search") {
			event.target.value = "";
			event.target.dispatchEvent(new Event("input"));
		} else if (!byId("panel-graph").hidden) {
			leave();
		}
	}
});

byId("plain").hidden = true;
document.body.classList.remove("plain");
writeHead();
writeCards();
startTheme();
startTabs();
startTip();
startGraph();
startSearch();
startKernels();
startRoofline();
startSource();
startRanks();
byId("tab-kernels").hidden = !hasKernels;
await readTimeline();
startTimeline();
byId("tab-warps").hidden = !data.warps;
byId("warps").textContent = data.warps;
byId("rank-waits").hidden = !data.waits;
byId("rank-waits").textContent = data.waits;
startHistory();
document.querySelector(".skip").onclick = (event) => {
	byId("main").focus();
	event.preventDefault(); // the address is the state of the page
};
document.documentElement.dataset.ready = "";
