"""The HTML report in a browser: what it draws, its use, and that its numbers are the CLI's."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from browser import Browser, find_browser
from cmd_support import executable

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium (Debian: chromium)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(PROGRAM, tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(autouse=True)
def no_errors(browser):
    browser.color_scheme("light")
    browser.errors.clear()
    yield
    assert browser.errors == []


def viewer(*arguments: object) -> str:
    command = [executable("proton-viewer"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def report(browser: Browser, path: Path, *arguments: object) -> Path:
    """The page of a profile, opened."""
    viewer("-o", "report.html", *arguments, path)
    browser.open(Path("report.html"))
    return Path("report.html")


def profile(path: Path, *children: dict, **root: float) -> Path:
    metrics = {"count": 0, "time (ns)": 0} | root
    frame = {"name": "ROOT", "type": "function"}
    tree = {"children": list(children), "frame": frame, "metrics": metrics}
    path.write_text(json.dumps([tree, {"CUDA": {"0": {"arch": "90"}}}]))
    return path


def kernel(name: str, time_ns: int, count: int = 1, **metrics: float) -> dict:
    built_in = {"count": count, "time (ns)": time_ns, "device_id": "0", "device_type": "CUDA"}
    frame = {"name": name, "type": "function"}
    return {"children": [], "frame": frame, "metrics": built_in | metrics}


def scope(name: str, *children: dict) -> dict:
    frame = {"name": name, "type": "function"}
    return {"children": list(children), "frame": frame, "metrics": {}}


def shown(browser: Browser) -> list[str]:
    """Labels of the frames that are drawn."""
    return browser.run("[...document.querySelectorAll('.frame')].map(e => e.ariaLabel)")


def names(browser: Browser) -> list[str]:
    """The whole names of the frames that are drawn."""
    return browser.run("[...document.querySelectorAll('.frame')].map(e => e.title.split('\\n')[0])")


def text(browser: Browser, selector: str) -> str:
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def frame(name: str) -> str:
    return f"[...document.querySelectorAll('.frame')].find(e => e.title.startsWith('{name}\\n'))"


def focused(browser: Browser) -> str:
    return browser.run("document.activeElement.title.split('\\n')[0]")


def tree_rows(path: Path, metrics: str) -> list[tuple[list[str], str]]:
    """What the CLI prints: the numbers and the name of each line."""
    count = len(metrics.split(","))
    rows = []
    for line in viewer("--names", "raw", "-m", metrics, path).splitlines()[1:]:
        if not line:
            break
        *numbers, name = line.split(None, count)
        rows.append((numbers, re.sub(r"^[│├└─ ]*", "", name)))
    return rows


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("sample", ["cuda", "mixed", "up_tree", "up_python", "sort", "metadata"])
def test_the_graph_has_the_numbers_of_the_tree(browser, sample):
    path = DATA / f"{sample}.hatchet"
    report(browser, path, "--names", "raw")
    expected = sorted(
        f"{time} ms, {share} %"
        for (time, share), _ in tree_rows(path, "time/ms,time/%")
        if time != "0" and float(share) > 0.05
    )
    labels = sorted(label.rpartition(", time/ms: ")[2] for label in shown(browser))
    assert [label for label in labels if float(label.split()[-2]) > 0.05] == expected


@pytest.mark.parametrize("sample", ["cuda", "mixed", "up_tree", "up_python", "cpu", "hip"])
def test_the_details_have_the_numbers_of_the_tree(browser, sample):
    path = DATA / f"{sample}.hatchet"
    report(browser, path)
    cells = "[...document.querySelectorAll('#details tbody tr')].map(r => [...r.cells].map(c =>"
    rows = browser.run(f"{cells} c.textContent))")
    assert len(rows) > 2 or sample == "cpu"
    expected = viewer("-m", ",".join(row[0] for row in rows), path).splitlines()[-1 :: -1]
    root = next(line for line in expected if line.endswith("ROOT")).split()
    assert [row[1] for row in rows] == root[:-1]


def test_numbers_are_rounded_as_the_viewer_rounds(browser, tmp_path):
    values = [0.5, 1.5, 2.5, 0.125, 0.375, 1000.005, 0.045, 3e-9, 12345.675, 99999.5, -2.5]
    made = [kernel(f"k{i}", 100, v=value) for i, value in enumerate(values)]
    path = profile(tmp_path / "x.hatchet", *made, v=0)
    report(browser, path, "-m", "v,time/ns")
    rows = {name: numbers[0] for numbers, name in tree_rows(path, "v")}
    browser.run("document.getElementById('metric').selectedIndex = 1")
    browser.run("document.getElementById('metric').dispatchEvent(new Event('change'))")
    for i in range(len(values)):
        browser.click_element(frame(f"k{i}"))
        assert text(browser, "#details h2") == f"k{i}"
        assert text(browser, "#details tbody td:nth-child(2)") == rows[f"k{i}"], values[i]
        browser.key("Escape")


def test_the_table_has_the_numbers_of_top(browser):
    path = DATA / "cuda.hatchet"
    report(browser, path)
    metrics = "time/ms,time/%,count,avg_time/us"
    top = [line.split() for line in viewer("--top", "-m", metrics, path).splitlines()[1:]]
    rows = browser.run(
        "[...document.querySelectorAll('#kernels tbody tr')].map(r => [...r.cells].map(c =>"
        " c.textContent))"
    )
    expected = sorted([line[-1], *line[:4]] for line in top if len(line) == 5)
    assert len(expected) == 3 and sorted(row[:5] for row in rows) == expected


def test_the_cards_are_the_totals(browser):
    report(browser, DATA / "up_tree.hatchet")
    cards = "[...document.querySelectorAll('.card')].map"
    values = f"{cards}(e => [...e.children].map(c => c.innerText))"
    assert browser.run(values)[:2] == [["time", "0.016449ms"], ["count", "4"]]


# ------------------------------------------------------------------ use


def test_a_click_zooms_and_escape_goes_back(browser):
    report(browser, DATA / "mixed.hatchet")
    whole = shown(browser)
    browser.click_element(frame("mlp"))
    zoomed = names(browser)
    assert sorted(zoomed) == ["ROOT", "forward", "gelu", "gemm", "mlp"]
    width = "document.getElementById('graph').clientWidth"
    assert browser.run(f"{frame('mlp')}.offsetWidth > {width} - 3")
    assert text(browser, "#crumbs").endswith("mlp") and text(browser, "#details h2") == "mlp"
    browser.key("Escape")
    assert shown(browser) == whole
    browser.click_element(frame("attention"))
    browser.click("#reset")
    assert shown(browser) == whole


def test_the_keyboard_is_enough(browser):
    report(browser, DATA / "mixed.hatchet")
    browser.run("document.querySelector('.frame').focus()")
    moves = [("ArrowDown", "backward"), ("ArrowRight", "forward"), ("ArrowDown", "mlp")]
    moves += [("ArrowRight", "attention"), ("ArrowUp", "forward"), ("ArrowLeft", "backward")]
    for key, name in moves:
        browser.key(key)
        assert focused(browser) == name, key
        assert text(browser, "#details h2") == name
    browser.key("Enter")
    assert len(shown(browser)) < 5 and focused(browser) == "backward"
    browser.key("Escape")
    browser.click("#flame")
    browser.run("document.querySelector('.frame[tabindex=\"0\"]').focus()")
    browser.key("ArrowUp")
    assert focused(browser) == "backward"
    assert browser.run("document.querySelectorAll('.frame[tabindex=\"0\"]').length") == 1


def test_tab_reaches_every_control(browser):
    report(browser, DATA / "mixed.hatchet")
    reached = []
    for _ in range(8):
        browser.key("Tab")
        reached.append(browser.run("document.activeElement.id || document.activeElement.className"))
    wanted = ["skip", "theme", "tab-graph", "metric", "icicle", "flame", "search"]
    assert reached == [*wanted, "frame"]  # the button is off until something is zoomed
    browser.run("document.getElementById('tab-graph').focus()")
    browser.key("ArrowRight")
    assert browser.run("document.activeElement.id") == "tab-kernels"
    assert browser.run("!document.getElementById('panel-kernels').hidden")


def test_a_search_highlights(browser):
    report(browser, DATA / "mixed.hatchet")
    browser.key("/", "/")
    browser.type("gemm")
    hits = "[...document.querySelectorAll('.frame.hit')].map(e => e.title.split('\\n')[0])"
    assert browser.run(hits) == ["gemm", "gemm"]
    whole, gemm = (sum(values) for values in ([444050], [240000, 120000]))
    assert text(browser, "#found") == f"2 frames, {100 * gemm / whole:.2f} % of time/ms"
    browser.key("Escape")
    assert browser.run(hits) == [] and text(browser, "#found") == ""
    browser.type("/^(mlp|gelu)$/")
    assert sorted(browser.run(hits)) == ["gelu", "mlp"]
    assert text(browser, "#found") == f"2 frames, {100 * 129000 / whole:.2f} % of time/ms"


def test_the_table_sorts_and_filters(browser):
    report(browser, DATA / "mixed.hatchet")
    browser.click("#tab-kernels")
    column = "[...document.querySelectorAll('#kernels tbody tr')].map(r => r.cells[0].textContent)"
    first = browser.run(column)
    assert first[:4] == ["gemm", "flash_fwd", "softmax", "gelu"]
    sort = "[...document.querySelectorAll('#kernels th button')].find(e => e.textContent === '{}')"
    browser.click_element(sort.format("count"))
    assert browser.run(column)[:2] == ["gemm", "gelu"]
    browser.click_element(sort.format("Kernel"))
    assert browser.run(column) == sorted(first)
    assert browser.run("document.querySelector('th[aria-sort]').ariaSort") == "ascending"
    browser.click("#filter")
    browser.type("GE")
    assert browser.run(column) == ["gelu", "gemm"]
    browser.click("#kernels tbody button")
    assert text(browser, "#found").startswith("1 frame,")


def test_the_roofline(browser):
    report(browser, DATA / "mixed.hatchet")
    browser.click("#tab-roofline")
    labels = browser.run("[...document.querySelectorAll('#roofline circle')].map(e => e.ariaLabel)")
    assert [label.partition(":")[0] for label in labels] == ["gemm", "flash_fwd"]
    assert "750.00 Tflop/s" in labels[0]
    report(browser, DATA / "sort.hatchet")
    assert "has none" in text(browser, "#roofline")


def test_dark_and_light(browser):
    report(browser, DATA / "mixed.hatchet")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.color_scheme("dark")
    dark = browser.run(paper)
    assert dark != light
    browser.click("#theme")
    assert browser.run(paper) == light
    browser.click("#theme")
    assert browser.run(paper) == dark


# ------------------------------------------------------------------ what it is made of


def test_it_needs_nothing_else(browser):
    page = report(browser, DATA / "mixed.hatchet")
    assert [url.partition(":")[0] for url in browser.requests] == ["file"]
    content = page.read_text()
    assert not re.search(r'(src|href)="(?!#)|@import|url\(', content)


def test_names_cannot_break_out(browser, tmp_path):
    hostile = ["</script><script>document.title='bad'</script>", "<img src=x onerror=alert(1)>"]
    hostile += ["<!-- <script>", "a\u2028b", "\\u003c", "quote\" 'and'"]
    path = profile(tmp_path / "x.hatchet", *[kernel(name, 100) for name in hostile])
    report(browser, path)
    assert sorted(names(browser)) == sorted([*hostile, "ROOT"])
    assert browser.run("document.title").endswith("Proton")
    assert browser.run("document.images.length") == 0


def test_losses_are_told(browser):
    report(browser, DATA / "losses.hatchet")
    notices = text(browser, "#notices")
    assert "did not finish" in notices and "vendor buffers dropped: 12" in notices


def test_small_frames_of_large_profiles_are_left_out(browser, tmp_path):
    made = [scope(f"s{i}", *[kernel(f"k{j}", 10 + j) for j in range(500)]) for i in range(50)]
    path = profile(tmp_path / "x.hatchet", *made)
    page = report(browser, path)
    assert "12,500 frames with no more than" in text(browser, "#notices")
    assert page.stat().st_size < 2_000_000
    browser.click_element(frame("s7"))
    value = text(browser, "#details tbody td:nth-child(2)")
    assert value == next(n[0] for n, name in tree_rows(path, "time/ms") if name == "s7")
    browser.click("#tab-kernels")
    assert browser.run("document.querySelectorAll('#kernels tbody tr').length") == 200
    browser.click("#more")
    assert browser.run("document.querySelectorAll('#kernels tbody tr').length") == 500


def test_many_narrow_frames_are_one(browser, tmp_path):
    path = profile(tmp_path / "x.hatchet", *[kernel(f"k{i}", 10) for i in range(15000)])
    report(browser, path)
    assert len(shown(browser)) == 1
    assert text(browser, ".rest") == "15,000 narrower frames"


# ------------------------------------------------------------------ two profiles


def test_a_comparison(browser, tmp_path):
    old = profile(
        tmp_path / "old.hatchet",
        scope("step", kernel("slower", 1000), kernel("gone", 500), kernel("same", 700)),
    )
    new = profile(
        tmp_path / "new.hatchet",
        scope("step", kernel("same", 700), kernel("slower", 1500), kernel("new", 300)),
    )
    report(browser, new, "-m", "time/ns,count", "--diff", old)
    assert text(browser, "#title").endswith("old.hatchet")
    assert "before 2200 ns, +13.64 %" in text(browser, ".card .change")
    labels = {label.partition(",")[0]: label for label in shown(browser)}
    assert labels["slower"].endswith("1000 ns before, 1500 ns after +50.00 %")
    assert labels["new"].endswith("new") and "gone" not in labels
    browser.run("document.getElementById('sized').value = 'old'")
    browser.run("document.getElementById('sized').dispatchEvent(new Event('change'))")
    assert {label.partition(",")[0] for label in shown(browser)} >= {"gone", "slower"}
    browser.click("#tab-kernels")
    rows = browser.run(
        "[...document.querySelectorAll('#kernels tbody tr')].map(r => [...r.cells].map(c =>"
        " c.textContent))"
    )
    assert [row[0] for row in rows][-1] == "same"
    assert rows[0][4] in ("+50.00 %", "gone")
