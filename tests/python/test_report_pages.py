"""Every page of the report in three widths and both themes: what is there, and can be read."""

import json
from pathlib import Path

import pytest
from report_support import (  # noqa: F401 (fixtures)
    DATA,
    browser,
    kernel,
    names,
    needs_browser,
    no_errors,
    profile,
    report,
    scope,
    search_for,
    text,
    viewer,
)
from test_ranks_waiting import record

pytestmark = needs_browser

WIDTHS = [(1400, 1000), (800, 900), (390, 844)]
PAGES = {
    "mixed": (["mixed.hatchet"], ["graph", "kernels", "roofline"]),
    "samples": (["-m", "num_samples,time/ms", "up_pc.hatchet"], ["graph", "kernels", "source"]),
    "ranks": (["job.ranks"], ["graph", "ranks"]),
    "warps": (["warps.hatchet"], ["graph", "warps"]),
    "diff": (["--diff", "backward.hatchet", "backward_slow.hatchet"], ["graph", "kernels"]),
    "losses": (["losses.hatchet"], ["graph"]),
}

# WCAG 2.1, 1.4.3: the contrast of texts, with the colors below them and their opacity.
CONTRAST = """(() => {
const parse = (text) => {
  const numbers = text.match(/[\\d.]+/g).map(Number);
  const scale = text.startsWith("color(") ? 255 : 1;
  return [...numbers.slice(0, 3).map((n) => n * scale), numbers.length > 3 ? numbers[3] : 1];
};
const over = (top, below) => below.map((n, i) => top[i] * top[3] + n * (1 - top[3]));
const light = (color) => color.slice(0, 3).map((n) => n / 255)
  .map((n) => (n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4))
  .reduce((sum, n, i) => sum + n * [0.2126, 0.7152, 0.0722][i], 0);
const faults = [];
let count = 0;
for (const element of document.querySelectorAll("body *")) {
  const style = getComputedStyle(element);
  const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!isText || !element.getClientRects().length || style.visibility === "hidden") continue;
  if (element.closest("svg, option, .skip, #tip, :disabled")) continue;
  const chain = [];
  for (let at = element; at; at = at.parentElement) chain.unshift(at);
  let below = [255, 255, 255];
  let opacity = 1;
  for (const at of chain) {
    const own = getComputedStyle(at);
    opacity *= Number(own.opacity);
    below = over(parse(own.backgroundColor), below);
  }
  const ink = parse(style.color);
  const [a, b] = [light(over([...ink.slice(0, 3), ink[3] * opacity], below)), light(below)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const minimum = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  count++;
  if (contrast < minimum) faults.push(`${element.tagName}#${element.id}.${element.className} ` +
    `${element.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
}
return [count, faults];
})()"""

OVERFLOW = """[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length &&
!e.closest('.skip, #graph, .wide, #heat-scroll, #listing, #details') &&
e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
.map(e => e.tagName + '#' + e.id + '.' + e.className)
.concat(document.documentElement.scrollWidth > innerWidth ? ['page'] : [])"""

# Elements that a screenshot of a page contains, by tab, and their minimum number.
SEEN = {
    "graph": (".frame", 2),
    "kernels": ("#kernels tbody tr", 1),
    "roofline": ("#roofline circle", 2),
    "source": ("#waits li", 1),
    "ranks": ("#heat", 1),
    "warps": ("#warps", 1),
}


def seen(browser, selector: str) -> int:
    """Elements with an area, inside the width of the window."""
    boxes = f"[...document.querySelectorAll({json.dumps(selector)})].map(e =>"
    return browser.run(
        f"{boxes} e.getBoundingClientRect()).filter(r => r.width > 0 && r.height > 0 &&"
        " r.left < innerWidth && r.right > 0).length"
    )


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_whole_and_can_be_read(browser, tmp_path, monkeypatch, name):
    arguments, tabs = PAGES[name]
    monkeypatch.chdir(DATA)
    viewer("-o", tmp_path / "report.html", *arguments)
    browser.open(tmp_path / "report.html")
    for width, height in WIDTHS:
        browser.window(width, height, is_phone=width < 500)
        for theme in ("light", "dark"):
            browser.color_scheme(theme)
            for tab in tabs:
                browser.run(f"document.getElementById('tab-{tab}').click()")
                where = (name, width, theme, tab)
                selector, minimum = SEEN[tab]
                assert seen(browser, selector) >= minimum, where
                assert seen(browser, "#title") == 1 and seen(browser, "[role=tab]") > 1, where
                assert browser.run(OVERFLOW) == [], where
                count, faults = browser.run(CONTRAST)
                assert count >= 5 and faults == [], where


def test_contrast_of_the_rest_of_the_graph(browser, tmp_path):
    """Boxes, frames of a search, callers and a folded frame, in both themes."""
    many = [scope(f"request_{i}", kernel("k", 10)) for i in range(40)]
    narrow = scope("narrow", *[kernel(f"n{i}", 1) for i in range(3000)])
    report(browser, profile(tmp_path / "x.hatchet", *many, narrow, kernel("large", 900)))
    for theme in ("light", "dark"):
        browser.color_scheme(theme)
        browser.run("document.getElementById('reset').click()")
        assert seen(browser, ".rest") == 1
        for wanted in ("", "large"):
            search_for(browser, wanted)
            assert browser.run(CONTRAST)[1] == [], (theme, wanted)


def test_the_contrast_of_a_pale_text_is_a_fault(browser, tmp_path):
    report(browser, DATA / "mixed.hatchet")
    browser.run("document.getElementById('run').style.opacity = 0.4")
    assert [fault.split()[0] for fault in browser.run(CONTRAST)[1]] == ["P#run."]


# ------------------------------------------------------------------ contents


def test_instrumented_kernels_are_kernels(browser):
    report(browser, DATA / "warps.hatchet")
    hues = browser.run(
        "Object.fromEntries([...document.querySelectorAll('.frame')].map(e =>"
        " [e.textContent, Number(e.style.getPropertyValue('--hue'))]))"
    )
    assert 20 <= hues["matmul_ws"] <= 36 and hues["step"] > 100
    # Without times there is no table of kernels.
    assert browser.run("document.getElementById('tab-kernels').hidden")
    browser.click("#tab-warps")
    assert text(browser, "#warps") == viewer("--warps", DATA / "warps.hatchet")


def test_waiting_ranks_are_named(browser, tmp_path, monkeypatch):
    report(browser, DATA / "job.ranks")
    # No collectives were recorded.
    assert browser.run("document.getElementById('rank-waits').hidden")
    assert text(browser, ".card .label") == "time, sum of 4 ranks"
    monkeypatch.chdir(tmp_path)
    record(tmp_path, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 0.1)
    report(browser, Path("out.ranks.proton"))
    browser.click("#tab-ranks")
    assert "; rank 1 on host" in text(browser, "#rank-waits")
    assert " came last in " in text(browser, "#rank-waits")
    assert seen(browser, "#rank-waits") == 1


def test_the_header_has_words_in_place_of_keys(browser, tmp_path):
    page = report(browser, DATA / "mixed.hatchet").read_text()
    keys = [["overhead_records_ns", "1459854"], ["windows_recorded_ms", "2500"]]
    keys += [["windows_memory_bytes", "1048576"], ["graph_nodes_by_source", "3"], ["x_ns", "?"]]
    made = page.replace('"info":[', '"info":[' + json.dumps(keys)[1:-1], 1)
    (tmp_path / "info.html").write_text(made)
    browser.open(tmp_path / "info.html")
    words = ["overhead records: 1.46 ms", "windows recorded: 2.5 s", "windows memory: 1.00 MiB"]
    words += ["graph nodes by source: 3", "x ns: ?"]
    assert text(browser, "#run").split(" · ")[1:] == words


def test_without_scripts_there_is_a_table(browser):
    page = report(browser, DATA / "mixed.hatchet")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    browser.errors.append("no script says that the page is ready")
    browser.open(page)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    browser.errors.clear()
    assert seen(browser, "#plain tbody tr") == 5 and seen(browser, "main, #theme") == 0
    assert browser.run(CONTRAST)[1] == [] and browser.run(OVERFLOW) == []


def test_ids_are_unique(browser):
    report(browser, DATA / "mixed.hatchet")
    ids = browser.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) > 50 and len(set(ids)) == len(ids)


def test_columns_of_the_heat_map_lead_to_the_graph(browser):
    report(browser, DATA / "job.ranks")
    browser.click("#tab-ranks")
    browser.run("document.getElementById('heat').focus()")
    for _ in range(3):
        browser.key("ArrowRight")
    path = text(browser, "#heat-cell").split(" · ")[1]
    assert path.endswith(" > gemm")
    browser.key("Enter")
    assert browser.run("!document.getElementById('panel-graph').hidden")
    assert text(browser, "#details h2") == "gemm"
    assert path.replace(" > ", "/") in browser.run("location.hash")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "2 frames hidden as lines of Triton, PyTorch and Python (shown by --frames all). F"),
        (["--frames", "no-torch"], "1 frame hidden by --frames. Frames below"),
        (["--hide", "a.py"], "3 frames hidden as lines of Triton, PyTorch and Python (shown by "),
        (["--show", "a.py"], "2 frames hidden by --show. Frames below"),
        (["--frames", "all"], ""),
    ],
)
def test_hidden_lines_are_counted_and_can_be_shown(browser, tmp_path, options, words):
    lines = scope("/l/site-packages/triton/jit.py:3@run", kernel("gemm", 5))
    lines = scope("/l/site-packages/torch/nn.py:3@call", lines)
    report(browser, profile(tmp_path / "x.hatchet", scope("/u/a.py:1@run", lines)), *options)
    notice = text(browser, "#notices")
    assert notice.startswith(words) and bool(notice) == bool(words)
    assert len(names(browser)) == 5 - int(words[:1] or 0)
