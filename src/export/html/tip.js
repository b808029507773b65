/* Tooltip of frames and of elements with data-tip, at the pointer or at the focused element; canvases. */

const TIP_GAP = 14; // pixels from the pointer
const tip = element("div", { id: "tip", "aria-hidden": "true", hidden: true });
let tipOwner = null;

function hideTip() {
	tip.hidden = true;
	tipOwner = null;
}

function hideTipOfGone() {
	if (tipOwner && !tipOwner.isConnected) hideTip();
}

/* Inside the window, and not below the pointer. */
function placeTip(x, y, above) {
	const { offsetWidth: width, offsetHeight: height } = tip;
	const right = document.documentElement.clientWidth;
	const bottom = document.documentElement.clientHeight;
	const left = Math.max(4, Math.min(x, right - width - 4));
	const top = y + height + 4 <= bottom ? y : Math.max(4, above - height);
	tip.style.left = left + "px";
	tip.style.top = top + "px";
}

function showTip(owner, x, y, above) {
	if (owner !== tipOwner) {
		const text = owner.dataset.node === undefined ? owner.dataset.tip : frameTip(Number(owner.dataset.node));
		const [first, ...more] = text.split("\n");
		tip.replaceChildren(element("b", {}, first), ...more.map((line) => element("div", {}, line)));
		tip.hidden = false;
		tipOwner = owner;
	}
	placeTip(x, y, above);
}

const tipOwnerOf = (target) => (target.closest ? target.closest(".frame, [data-tip]") : null);

/* The tooltip of what is at the pointer on a canvas. */
function tipOnCanvas(canvas, text) {
	if (text === (canvas.dataset.tip || "")) return;
	if (text) canvas.dataset.tip = text;
	else delete canvas.dataset.tip;
	hideTip(); // the page shows it again, with the new text
}

/* Clears a canvas. Its size is in CSS pixels. */
function fitCanvas(canvas, width, height) {
	const scale = window.devicePixelRatio || 1;
	const context = canvas.getContext("2d");
	canvas.width = Math.ceil(width * scale);
	canvas.height = Math.ceil(height * scale);
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	context.scale(scale, scale);
	return context;
}

function redrawWithTheme(tab, draw) {
	const redraw = () => state.tab === tab && draw();
	addEventListener("resize", redraw);
	new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

function startTip() {
	document.body.append(tip);
	const atPointer = (event) => {
		const owner = tipOwnerOf(event.target);
		if (owner) showTip(owner, event.clientX + TIP_GAP, event.clientY + TIP_GAP, event.clientY - TIP_GAP);
		else hideTip();
	};
	document.addEventListener("pointermove", (event) => event.pointerType !== "touch" && atPointer(event));
	document.addEventListener("pointerover", (event) => event.pointerType !== "touch" && atPointer(event));
	document.documentElement.addEventListener("pointerleave", hideTip);
	/* Touch screens have no hover: a tap on an element without another action. */
	document.addEventListener("click", (event) => {
		const owner = event.pointerType === "touch" && tipOwnerOf(event.target);
		if (owner && !owner.closest("button, .frame, .zooms, #kernels tr")) atPointer(event);
		else if (event.pointerType === "touch") hideTip();
	});
	document.addEventListener("focusin", (event) => {
		const owner = tipOwnerOf(event.target);
		if (!owner || !event.target.matches(":focus-visible")) return;
		const box = owner.getBoundingClientRect();
		showTip(owner, box.left, box.bottom + 4, box.top - 4);
	});
	document.addEventListener("focusout", hideTip);
	document.addEventListener("scroll", hideTip, { capture: true, passive: true });
}
