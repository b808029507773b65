"""The HTML report in a browser: its figures, its use, and numbers equal to the CLI's."""

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
    set_value,
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
        (float(time), share)
        for (time, share), _ in tree_rows(path, "time/ms,time/%")
        if time != "0" and float(share) > 0.05
    )
    units = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}
    labels = []
    for label in shown(browser):
        number, unit, share, _ = label.rpartition(", time/ms: ")[2].replace(",", "").split()
        assert 1 <= float(number) < 1000  # in a unit that fits
        labels.append((float(number) * units[unit], share))
    labels = sorted(label for label in labels if float(label[1]) > 0.05)
    assert [share for _, share in labels] == [share for _, share in expected]
    # As many digits as in the tree, and up to five where it has fewer.
    assert [time for time, _ in labels] == pytest.approx([time for time, _ in expected], rel=1e-2)


@pytest.mark.parametrize("sample", ["cuda", "mixed", "up_tree", "up_python", "cpu", "hip"])
def test_the_details_have_the_numbers_of_the_tree(browser, sample):
    path = DATA / f"{sample}.hatchet"
    report(browser, path)
    cells = "[...document.querySelectorAll('#details tbody tr')].map(r => [...r.cells].map(c =>"
    rows = browser.run(f"{cells} c.textContent))")
    if sample == "cpu":  # nothing was measured in the root
        assert text(browser, "#details p") == "Nothing was measured in this frame itself."
        return
    assert len(rows) > 2
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
    assert browser.run(values)[:2] == [["time", "16.449µs"], ["count", "4"]]


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
    for _ in range(10):
        browser.key("Tab")
        reached.append(browser.run("document.activeElement.id || document.activeElement.className"))
    wanted = ["skip", "theme", "tab-graph", "metric", "icicle", "flame", "tree", "hide", "search"]
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


def zoom_to(browser, wanted: str) -> int:
    """Opens the boxes that contain a frame, found by a search, until it is drawn; the clicks."""
    search_for(browser, json.dumps(wanted))
    for clicks in range(8):
        if names(browser, ".frame.hit"):
            return clicks
        browser.click(".rest.hit")
    raise AssertionError(f"{wanted} is not drawn after {clicks} clicks")


def test_every_frame_is_reached_by_zooming(browser, tmp_path):
    """Frames that are too narrow share a box; zooming into it shows them, or smaller boxes."""
    made = [kernel(f"k{i}", 100_000 if i < 3 else 10 + i % 7) for i in range(60_000)]
    path = profile(tmp_path / "x.hatchet", scope("s", *made), scope("one", kernel("tiny", 1)))
    report(browser, path)
    assert text(browser, "#notices") == ""
    assert 1 <= zoom_to(browser, "k59999") <= 4
    address = browser.run("location.hash")
    assert re.search(r"zoom=s&part=\d+-\d+", address)
    assert re.search(r"frames [\d,]+ to [\d,]+ of 60,000, by size", text(browser, "#crumbs"))
    drawn = shown(browser)
    browser.click_element(frame("k59999"))
    assert text(browser, "#details h2") == "k59999"
    browser.go(-1)
    assert shown(browser) == drawn
    browser.open(Path("report.html"), address)
    assert shown(browser) == drawn
    browser.key("Escape")
    browser.key("Escape")
    assert 1 <= zoom_to(browser, "tiny") <= 4
    # A box can be opened with the keyboard.
    browser.click("#reset")
    browser.click_element(frame("s"))
    browser.run("document.querySelector('.rest[tabindex=\"0\"]').focus()")
    browser.key("Enter")
    assert "part=" in browser.run("location.hash")


def test_deep_trees_are_drawn_in_parts(browser, tmp_path):
    inner = kernel("innermost", 10)
    for i in range(300):
        inner = scope(f"level_{i % 7}", inner)
    report(browser, profile(tmp_path / "x.hatchet", inner))
    assert 200 < len(shown(browser)) < 300
    assert text(browser, ".rest") == "1 deeper frame"
    clicks = zoom_to(browser, "innermost")
    assert 1 <= clicks <= 3
    assert text(browser, "#crumbs").startswith("ROOT")
    browser.click_element(frame("innermost"))
    assert text(browser, "#details h2") == "innermost"


def test_many_wide_levels_are_drawn_in_parts(browser, tmp_path):
    """Chains of 60 frames beside each other, each of a pixel: more elements than browsers like."""

    def chain(i: int) -> dict:
        inner = kernel(f"k{i}", 10)
        for level in range(60):
            inner = scope(f"c{level}x", inner)
        return inner

    path = profile(tmp_path / "x.hatchet", *[scope(f"s{i}x", chain(i)) for i in range(900)])
    report(browser, path)
    browser.click("#fold") if browser.run("!document.getElementById('fold').hidden") else None
    assert browser.run("document.querySelectorAll('.frame').length") <= 20_000
    assert 1 <= zoom_to(browser, "k77") <= 4


def test_boxes_have_all_children_once(browser, tmp_path):
    """Opening all boxes, level by level, shows each child once."""
    path = profile(tmp_path / "x.hatchet", *[kernel(f"k{i}", 10 + i % 3) for i in range(9000)])
    report(browser, path)
    found = []
    boxes = [""]
    while boxes:
        browser.open(Path("report.html"), boxes.pop())
        found += [name for name in names(browser) if name != "ROOT"]
        if (count := browser.run("document.querySelectorAll('.rest').length")) > 1:
            assert count <= 41
        address = browser.run("location.hash")
        for i in range(count):
            browser.run(f"document.querySelectorAll('.rest')[{i}].click()")
            boxes.append(browser.run("location.hash"))
            browser.run(f"location.hash = {json.dumps(address)}")
            browser.until(f"document.querySelectorAll('.rest').length === {count}")
    assert sorted(found) == sorted(f"k{i}" for i in range(9000))


def test_a_browser_that_cannot_unpack_shows_the_table(browser, tmp_path):
    page = report(browser, DATA / "mixed.hatchet")
    browser.errors.append("the tree is not read")  # ends the wait
    with browser.before_pages("delete window.DecompressionStream"):
        browser.open(page)
    browser.errors.clear()
    assert "cannot unpack the report; open it with Chrome" in text(browser, "#plain-why")
    rows = browser.run("[...document.querySelectorAll('#plain tbody tr')].map(r => r.innerText)")
    assert rows[0].split("\t") == ["gemm", "360.00 µs", "81.07", "16", "22.50 µs"]
    assert browser.run("document.querySelector('main').getClientRects().length") == 0


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


def test_a_search_counts_all_frames(browser, tmp_path):
    path = tmp_path / "x.hatchet"
    root = nested_profile(path)
    report(browser, path, "-m", "time/ns,count,v")
    browser.click("#fold")
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


def test_sizes_of_exclusive_metrics_count_all_frames(browser, tmp_path):
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
    set_value(browser, "filter", "/^k7$/", "input")
    assert browser.run(rows) == 1


def test_a_narrow_frame_is_not_drawn(browser, tmp_path):
    inner = scope("inner", *[kernel(f"k{i}", 10) for i in range(15000)])
    path = profile(tmp_path / "x.hatchet", inner, kernel("large", 1000))
    report(browser, path)
    assert len(shown(browser)) == 3
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
    assert "before 2.2000 µs, +13.64 %" in text(browser, ".card .change")
    labels = {label.partition(",")[0]: label for label in shown(browser)}
    assert labels["slower"].endswith("1.0000 µs before, 1.5000 µs after +50.00 %")
    assert labels["new"].endswith("new") and "gone" not in labels
    set_value(browser, "sized", "old", "change")
    assert {label.partition(",")[0] for label in shown(browser)} >= {"gone", "slower"}
    browser.click("#tab-kernels")
    rows = browser.run(
        "[...document.querySelectorAll('#kernels tbody tr')].map(r => [...r.cells].map(c =>"
        " c.textContent))"
    )
    assert [row[0] for row in rows][-1] == "same"
    assert rows[0][4] in ("+50.00 %", "gone")


def test_a_comparison_has_all_frames_of_both(browser, tmp_path):
    """A frame that is small on one side only is neither new nor gone."""
    sizes = [10 + i for i in range(25000)]
    old = profile(tmp_path / "old.hatchet", *[kernel(f"k{i}", sizes[i]) for i in range(25000)])
    new = profile(tmp_path / "new.hatchet", *[kernel(f"k{i}", sizes[-i]) for i in range(25000)])
    report(browser, new, "-m", "time/ns", "--diff", old)
    search = "/^k1$|^k24999$/"  # small before, large after, and the other way round
    value = 100 * (sizes[-1] + sizes[-24999]) / sum(sizes)
    assert search_for(browser, search) == f"2 frames, {value:.2f} % of time/ns"
    set_value(browser, "sized", "old", "change")
    value = 100 * (sizes[1] + sizes[24999]) / sum(sizes)
    assert text(browser, "#found") == f"2 frames, {value:.2f} % of time/ns"
    labels = shown(browser)
    assert not any(label.endswith(("new", "gone")) for label in labels)
