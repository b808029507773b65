"""The HTML report in a browser: its figures, its use, and numbers equal to the CLI's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_support import (  # noqa: F401 (fixtures)
    DATA,
    browser,
    choose_metric,
    focused,
    frame,
    kernel,
    names,
    needs_browser,
    no_errors,
    profile,
    report,
    scope,
    search_for,
    shown,
    text,
    tree_rows,
    viewer,
)

pytestmark = needs_browser


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    "sample", ["cuda", "mixed", "up_tree", "up_python", "sort", "metadata", "backward"]
)
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
    assert names(browser, ".frame.hit") == ["gemm", "gemm"]
    whole, gemm = (sum(values) for values in ([444050], [240000, 120000]))
    assert text(browser, "#found") == f"2 frames, {100 * gemm / whole:.2f} % of time/ms"
    browser.key("Escape")
    assert names(browser, ".frame.hit") == [] and text(browser, "#found") == ""
    browser.type("/^(mlp|gelu)$/")
    assert sorted(names(browser, ".frame.hit")) == ["gelu", "mlp"]
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


def test_the_page_loads_no_other_files(browser):
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


def test_a_script_that_is_not_of_the_page_does_not_run(browser, tmp_path):
    """If a name broke out all the same, the policy of the page would stop its scripts."""
    page = report(browser, DATA / "mixed.hatchet")
    planted = "<script>document.title='bad'</script><img src=x onerror=\"document.title='bad'\">"
    planted += "<p id=planted style='color: rgb(1, 2, 3)' onclick=\"document.title='bad'\">x</p>"
    text = page.read_text()
    assert text.count("Content-Security-Policy") == 1
    assert "unsafe" not in text.partition("<style>")[0]
    other = tmp_path / "planted.html"
    other.write_text(text.replace('<div id="notices"', planted + '<div id="notices"', 1))
    browser.open(other)
    browser.run("document.getElementById('planted').click()")
    assert browser.run("document.title").endswith("Proton")
    color = "getComputedStyle(document.getElementById('planted')).color"
    assert browser.run(color) != "rgb(1, 2, 3)"
    assert names(browser)  # the page itself works
    browser.errors.clear()  # those of the policy


def test_losses_are_shown(browser):
    report(browser, DATA / "losses.hatchet")
    notices = text(browser, "#notices")
    assert "Incomplete recording" in notices
    assert "record dropped by the vendor library: 12" in notices


def test_small_frames_of_large_profiles_are_not_drawn(browser, tmp_path):
    made = [scope(f"s{i}", *[kernel(f"k{j}", 10 + j) for j in range(500)]) for i in range(50)]
    path = profile(tmp_path / "x.hatchet", *made)
    page = report(browser, path)
    drawn = [10 + j for j in range(500) if 10 + j > 259]
    missing = 50 * (sum(10 + j for j in range(500)) - sum(drawn)) / 1e6
    whole = float(tree_rows(path, "time/ms")[0][0][0])
    start, _, end = text(browser, "#notices").partition(": together ")
    assert start == "12,500 frames with at most 0.004 % of any metric are not drawn"
    assert abs(float(end.split()[0]) - missing) < 1e-4
    assert f"ms, {100 * missing / whole:.2f} % of time/ms. They count in" in end
    assert page.stat().st_size < 2_000_000
    assert browser.run("[...document.querySelectorAll('.rest')].length") == 50
    browser.click_element(frame("s7"))
    value = text(browser, "#details tbody td:nth-child(2)")
    assert value == next(n[0] for n, name in tree_rows(path, "time/ms") if name == "s7")
    # Nothing is the scope's own, whatever is not drawn of what is inside.
    assert text(browser, "#details tbody td:nth-child(4)") == "0"
    browser.click("#tab-kernels")
    assert browser.run("document.querySelectorAll('#kernels tbody tr').length") == 200
    browser.click("#more")
    assert browser.run("document.querySelectorAll('#kernels tbody tr').length") == 500


def topmost(node: dict, matches, metric: str, inside: bool = False) -> tuple[int, float]:
    """Frames that match, and what is measured in them, counted once where they are nested."""
    found = [topmost(child, matches, metric, inside) for child in node["children"] if inside]
    own = node["metrics"].get(metric, 0)
    if inside:
        return sum(f[0] for f in found) + matches(node), own + sum(f[1] for f in found)
    count, value = 0, 0.0
    for child in node["children"]:
        more, part = topmost(child, matches, metric, matches(child))
        count, value = count + more, value + part
    return count, value


def nested_profile(path: Path) -> dict:
    """Scopes in scopes of the same and of other names; about half of it is not drawn."""

    def layer(step: int, i: int) -> dict:
        kernels = [kernel(f"gemm_{j % 7}_{i % 11}", 50 + 13 * j + i, v=j) for j in range(40)]
        inner = scope(f"block{i % 3}", *kernels[:20], scope("tail", *kernels[20:30]))
        return scope(f"layer{i}", inner, scope(f"block{(i + step) % 3}x", *kernels[30:]))

    steps = [scope(f"step{s}", *[layer(s, i) for i in range(60)]) for s in range(16)]
    nested = scope("block1", scope("step1", kernel("gemm_0_0", 3), scope("block1", kernel("k", 4))))
    profile(path, *steps, nested, v=0)
    return json.loads(path.read_text())[0]


def test_a_search_counts_frames_that_are_not_drawn(browser, tmp_path):
    path = tmp_path / "x.hatchet"
    root = nested_profile(path)
    report(browser, path, "-m", "time/ns,count,v")
    assert "not drawn" in text(browser, "#notices")
    expressions = ["gemm_0", "gemm_3_5", "^tail$", "block", "block1|gemm_0", "layer5$|gemm_1_1$"]
    expressions += ["step1$", "tail|^k$", "1x", "step|block1", "^gemm", "."]
    for metric, stored in [("time/ns", "time (ns)"), ("count", "count"), ("v", "v")]:
        choose_metric(browser, metric)
        whole = topmost(root, lambda _: True, stored)[1]
        for expression in expressions:
            frames, value = topmost(
                root, lambda n, e=expression: bool(re.search(e, n["frame"]["name"])), stored
            )
            found = search_for(browser, f"/{expression}/")
            assert found.startswith(f"{frames:,} frame"), expression
            assert found.endswith(f", {100 * value / whole:.2f} % of {metric}"), expression
    assert search_for(browser, "no such frame") == "0 frames, 0 % of v"


def test_a_search_among_too_many_frames_has_bounds(browser, tmp_path):
    """Where frames are too many to list, searches for kernels are exact and others have bounds."""
    more = {f"m{i}": 1 for i in range(100)}
    scopes = []
    for i in range(120):
        kernels = [kernel(f"a{j % 50}", 100 + j % 100) for j in range(440)]
        inner = scope("inner", *[kernel(f"b{j % 50}", 90) for j in range(440)], scope("none"))
        scopes.append(scope(f"s{i}", *kernels, inner))
    path = profile(tmp_path / "x.hatchet", *scopes, **dict.fromkeys(more, 0))
    document = json.loads(path.read_text())
    document[0]["children"][0]["metrics"] = more
    path.write_text(json.dumps(document))
    report(browser, path)
    root = document[0]
    whole = topmost(root, lambda _: True, "time (ns)")[1]
    for expression in ["^a7$", "^b", "^[ab]1", "^inner$"]:
        frames, value = topmost(
            root, lambda n, e=expression: bool(re.search(e, n["frame"]["name"])), "time (ns)"
        )
        found = search_for(browser, f"/{expression}/")
        assert found.startswith(f"{frames:,} frame"), expression
        assert found.endswith(f", {100 * value / whole:.2f} % of time/ms"), expression
    found = search_for(browser, "/^inner$|^b/")
    low, high = re.search(r", ([\d.]+) to ([\d.]+) % of time/ms$", found).groups()
    value = topmost(root, lambda n: n["frame"]["name"][0] in "ib", "time (ns)")[1]
    assert float(low) <= 100 * value / whole <= float(high)


def test_sizes_of_exclusive_metrics_count_frames_that_are_not_drawn(browser, tmp_path):
    """Values that frames have themselves are summed before frames are left out."""
    made = [kernel(f"k{j}", 10) for j in range(30000)]
    left = scope("left", *[c | {"metrics": c["metrics"] | {"x (exc)": 1}} for c in made])
    right = scope("right", kernel("r", 100, **{"x (exc)": 30000}))
    path = profile(tmp_path / "x.hatchet", left, right)
    report(browser, path, "-m", "x (exc),time/ns")
    choose_metric(browser, "x (exc)")
    assert search_for(browser, "/^r$/") == "1 frame, 50.00 % of x (exc)"
    widths = [browser.run(f"{frame(name)}.offsetWidth") for name in ("left", "right")]
    assert abs(widths[0] - widths[1]) < 3


def test_the_table_has_every_kernel(browser, tmp_path):
    path = profile(tmp_path / "x.hatchet", *[kernel(f"k{i}", 10 + i) for i in range(30000)])
    report(browser, path)
    rows = "document.querySelectorAll('#kernels tbody tr').length"
    assert text(browser, "#filtered") == "30000 kernels"
    assert text(browser, "#more") == "Show 5000 more of 30000 kernels"
    browser.click("#tab-kernels")
    browser.click("#more")
    assert browser.run(rows) == 5200
    browser.run("document.getElementById('filter').value = '/^k7$/'")
    browser.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert browser.run(rows) == 1


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


def test_a_comparison_draws_the_same_frames_of_both(browser, tmp_path):
    """A frame that is small on one side only is neither new nor gone."""
    sizes = [10 + i for i in range(25000)]
    old = profile(tmp_path / "old.hatchet", *[kernel(f"k{i}", sizes[i]) for i in range(25000)])
    new = profile(tmp_path / "new.hatchet", *[kernel(f"k{i}", sizes[-i]) for i in range(25000)])
    report(browser, new, "-m", "time/ns", "--diff", old)
    assert text(browser, "#notices").count("not drawn") == 2
    search = "/^k1$|^k24999$/"  # small before, large after, and the other way round
    value = 100 * (sizes[-1] + sizes[-24999]) / sum(sizes)
    assert search_for(browser, search) == f"2 frames, {value:.2f} % of time/ns"
    browser.run("document.getElementById('sized').value = 'old'")
    browser.run("document.getElementById('sized').dispatchEvent(new Event('change'))")
    value = 100 * (sizes[1] + sizes[24999]) / sum(sizes)
    assert text(browser, "#found") == f"2 frames, {value:.2f} % of time/ns"
    labels = shown(browser)
    assert not any(label.endswith(("new", "gone")) for label in labels)
