/* Tabs, theme, keys, and the start of the page. The other scripts come before this one. */

const TABS = ["graph", "kernels", "roofline"];

function showTab(wanted) {
	for (const name of TABS) {
		const isShown = name === wanted;
		byId("panel-" + name).hidden = !isShown;
		byId("tab-" + name).setAttribute("aria-selected", isShown);
		byId("tab-" + name).tabIndex = isShown ? 0 : -1;
	}
	if (wanted === "graph") draw();
}

function startTabs() {
	TABS.forEach((name, index) => {
		const tab = byId("tab-" + name);
		tab.onclick = () => showTab(name);
		tab.onkeydown = (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (!step) return;
			const next = TABS[(index + step + TABS.length) % TABS.length];
			showTab(next);
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
			/* Then it is forgotten. */
		}
		label();
	};
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
	label();
}

document.addEventListener("keydown", (event) => {
	const isTyping = event.target.matches("input, select");
	if (event.key === "/" && !isTyping) {
		showTab("graph");
		byId("search").focus();
		event.preventDefault();
	} else if (event.key === "Escape") {
		if (isTyping && event.target.value && event.target.type === "search") {
			event.target.value = "";
			event.target.dispatchEvent(new Event("input"));
		} else if (!byId("panel-graph").hidden) {
			zoom(0);
		}
	}
});

writeHead();
writeCards();
startTheme();
startTabs();
startGraph();
startKernels();
startRoofline();
