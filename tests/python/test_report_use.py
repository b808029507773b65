"""Using the HTML report: tooltip, from the table to the graph, Back and Forward, phones."""

import json
from pathlib import Path

import pytest
from browser import Browser
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
    viewer,
)

pytestmark = needs_browser

HASH = "location.hash"
PHONES = [(320, 640), (360, 740), (390, 844), (420, 900)]


def model(path: Path) -> Path:
    """gemm occurs in three layers and once in a warm-up, next to kernels with similar names."""
    layers = [
        scope(f"layer{i}", kernel("gemm", 1000 + i, 2), kernel("gemm_bias", 500), kernel("k", 1))
        for i in range(3)
    ]
    return profile(path, scope("model", *layers), scope("warm-up", kernel("softmax", 4000)))


def row(name: str) -> str:
    rows = "[...document.querySelectorAll('#kernels tbody tr')]"
    return f"{rows}.find(e => e.cells[0].textContent === {json.dumps(name)})"


def tooltip(browser: Browser) -> str:
    """The current text of the tooltip, without waiting; "" without one."""
    return browser.run("(e => e.hidden ? '' : e.innerText)(document.getElementById('tip'))")


def settled(browser: Browser) -> str:
    """The address once the page has written what is shown."""
    browser.run("new Promise(done => setTimeout(done, 300))", awaits=True)
    return browser.run(HASH)


# ------------------------------------------------------------------ tooltip


def test_the_tooltip_is_there_at_once(browser):
    report(browser, DATA / "mixed.hatchet")
    assert tooltip(browser) == ""
    browser.hover(frame("flash_fwd"))
    shows = tooltip(browser).splitlines()
    assert shows[0] == "flash_fwd" and shows[1] == "time/ms: 60.000 µs, 13.51 %"
    browser.hover(frame("mlp"))
    assert tooltip(browser).splitlines()[0] == "mlp"
    assert "itself: 0" in tooltip(browser)
    browser.hover("document.getElementById('legend')")
    assert tooltip(browser) == ""
    browser.hover(frame("mlp"))
    browser.key("Escape")
    assert tooltip(browser) == ""
    # No second one of the browser's comes later.
    assert browser.run("document.querySelectorAll('[title], svg title').length") == 0


def test_the_tooltip_has_names_without_end_and_stays_in_the_window(browser, tmp_path):
    long = "void kernel<" + "Layout_" * 300 + ">(float*)"
    path = profile(tmp_path / "x.hatchet", kernel("first", 900), kernel(long, 100))
    for width in (1400, 360):
        browser.window(width, 800)
        report(browser, path, "--names", "raw")
        for name in ("first", long):
            browser.hover(frame(name))
            assert tooltip(browser).startswith(name)
            box = browser.run(
                "(r => [r.left, r.top, r.right, r.bottom])(document.getElementById('tip')"
                ".getBoundingClientRect())"
            )
            assert box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= 800


def test_the_tooltip_comes_with_the_keyboard(browser):
    report(browser, DATA / "mixed.hatchet")
    browser.key("/", "/")
    browser.key("Tab")
    assert focused(browser) == "ROOT"
    browser.key("ArrowDown")
    assert tooltip(browser).startswith("backward\n")
    browser.key("Tab")
    assert tooltip(browser) == ""


# ------------------------------------------------------------------ from the table to the graph


def test_a_kernel_of_the_table_is_found_in_the_graph(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.click("#tab-kernels")
    browser.click_element(f"{row('gemm')}.cells[3]")  # anywhere in the row
    assert browser.run("!document.getElementById('panel-graph').hidden")
    # Exactly that name, in all places, as large as they fit together.
    assert names(browser, ".frame.hit") == ["gemm"] * 3
    assert text(browser, "#crumbs").endswith("model") and "softmax" not in names(browser)
    share = 100 * 3003 / (3003 + 1500 + 3 + 4000)
    assert text(browser, "#found") == f"3 frames, {share:.2f} % of time/ms"
    assert text(browser, "#hit") == "1 of 3" and focused(browser) == "gemm"
    assert text(browser, "#details tbody td:nth-child(2)") == "0.0010020"
    places = []
    for _ in range(3):
        browser.click("#hit-after")
        places.append(text(browser, "#hit") + " " + text(browser, "#details tbody tr td + td"))
    assert places == ["2 of 3 0.0010010", "3 of 3 0.0010000", "1 of 3 0.0010020"]
    browser.click("#hit-before")
    assert text(browser, "#hit") == "3 of 3"


def test_a_kernel_in_one_place_is_shown_among_its_siblings(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.click("#tab-kernels")
    browser.click_element(f"{row('softmax')}.querySelector('button')")
    assert names(browser, ".frame.hit") == ["softmax"] and focused(browser) == "softmax"
    assert text(browser, "#crumbs").endswith("warm-up")
    assert text(browser, "#hit") == "1 of 1"


def test_a_kernel_with_quotes_and_signs_is_found(browser, tmp_path):
    odd = ['f<"a">(int*)', "/x/", '"', "a & b = c # 100%", "layer/1;2"]
    path = profile(tmp_path / "x.hatchet", scope("s", *[kernel(name, 10) for name in odd]))
    report(browser, path, "--names", "raw")
    for name in odd:
        browser.click("#tab-kernels")
        browser.click_element(f"{row(name)}.querySelector('button')")
        assert names(browser, ".frame.hit") == [name]
        browser.key("Enter")  # zooms
        browser.open(Path("report.html"), settled(browser))
        assert names(browser, ".frame.hit") == [name]
        assert text(browser, "#details h2") == name


def test_a_narrow_kernel_is_made_wide(browser, tmp_path):
    many = [kernel(f"k{i}", 100_000 + i) for i in range(15_000)]
    report(browser, profile(tmp_path / "x.hatchet", *many))
    set_value(browser, "filter", '"k7"', "input")
    browser.click("#tab-kernels")
    browser.click("#kernels tbody button")
    assert names(browser, ".frame.hit") == ["k7"] and focused(browser) == "k7"
    assert browser.run(f"{frame('k7')}.offsetWidth") > 1000


def test_a_kernel_without_a_number_in_the_graph_changes_the_metric(browser, tmp_path):
    with_tokens = scope("s", kernel("a", 10, tokens=5), kernel("b", 20))
    report(browser, profile(tmp_path / "x.hatchet", with_tokens, tokens=0), "-m", "time/ns,tokens")
    choose_metric(browser, "tokens")
    browser.click("#tab-kernels")
    browser.click_element(f"{row('b')}.querySelector('button')")
    assert browser.run("document.getElementById('metric').selectedOptions[0].text") == "time/ns"
    assert names(browser, ".frame.hit") == ["b"]


def test_a_kernel_that_is_gone_is_shown_in_the_profile_before(browser, tmp_path):
    old = profile(tmp_path / "old.hatchet", scope("s", kernel("gone", 500), kernel("same", 700)))
    new = profile(tmp_path / "new.hatchet", scope("s", kernel("same", 700)))
    report(browser, new, "-m", "time/ns", "--diff", old)
    browser.click("#tab-kernels")
    browser.click_element(f"{row('gone')}.querySelector('button')")
    assert names(browser, ".frame.hit") == ["gone"]
    assert browser.run("document.getElementById('sized').value") == "old"


def test_enter_goes_from_hit_to_hit(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.key("/", "/")
    browser.type("gemm")
    assert text(browser, "#hit") == "" and browser.run("document.activeElement.id") == "search"
    browser.key("Enter")
    assert text(browser, "#hit") == "1 of 6" and text(browser, "#details h2") == "gemm"
    browser.key("Enter", modifiers=8)
    assert text(browser, "#hit") == "6 of 6" and text(browser, "#details h2") == "gemm_bias"
    assert browser.run("document.activeElement.id") == "search"


# ------------------------------------------------------------------ Back, Forward, links


def test_back_and_forward(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    assert settled(browser) == ""
    whole = shown(browser)
    browser.click_element(frame("model"))
    zoomed = shown(browser)
    browser.click_element(frame("layer1"))
    browser.click("#tab-kernels")
    browser.click_element(f"{row('softmax')}.querySelector('button')")
    assert "zoom=warm-up" in browser.run(HASH)
    browser.go(-1)
    assert browser.run("!document.getElementById('panel-kernels').hidden")
    assert text(browser, "#found") == ""
    browser.go(-1)
    assert browser.run("!document.getElementById('panel-graph').hidden")
    assert text(browser, "#crumbs").endswith("layer1")
    browser.go(-1)
    assert shown(browser) == zoomed and names(browser, ".frame[aria-selected=true]") == ["model"]
    browser.go(-1)
    assert shown(browser) == whole and browser.run(HASH) == ""
    browser.go(1)
    assert shown(browser) == zoomed
    browser.go(1)
    browser.go(1)
    browser.go(1)
    assert names(browser, ".frame.hit") == ["softmax"]
    assert browser.run("document.getElementById('search').value") == '"softmax"'


def test_a_search_is_one_step_back(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.click_element(frame("model"))
    browser.key("/", "/")
    for letter in "gemm_bias":
        browser.key(letter, letter)
    assert settled(browser) == "#zoom=model&search=gemm_bias"
    browser.go(-1)
    assert browser.run(HASH) == "#zoom=model" and names(browser, ".frame.hit") == []
    assert browser.run("document.getElementById('search').value") == ""
    browser.go(1)
    assert len(names(browser, ".frame.hit")) == 3


def test_a_link_restores_all_of_it(browser, tmp_path):
    old = model(tmp_path / "old.hatchet")
    new = model(tmp_path / "new.hatchet")
    report(browser, new, "-m", "time/ns,count", "--diff", old)
    choose_metric(browser, "count")
    set_value(browser, "sized", "old", "change")
    browser.click("#flame")
    browser.click_element(frame("model"))
    browser.click_element(frame("layer1"))
    browser.key("ArrowUp")
    search_for(browser, "gemm")
    set_value(browser, "filter", "max", "input")
    properties = "e => [e.ariaLabel, e.className, e.ariaSelected, e.style.top, e.style.width]"
    state = (
        f"[...document.querySelectorAll('.frame')].map({properties}).concat("
        "[...document.querySelectorAll('input, select')].map(e => e.value),"
        " document.getElementById('kernels').textContent)"
    )
    before = browser.run(state)
    assert any("hit" in one[1] and one[2] == "true" for one in before[:9] if len(one) > 2)
    address = settled(browser)
    browser.open(Path("report.html"), address)
    assert browser.run(state) == before
    browser.click("#tab-roofline")
    browser.open(Path("report.html"), settled(browser))
    assert browser.run("!document.getElementById('panel-roofline').hidden")


def test_twins_have_separate_links(browser, tmp_path):
    twins = [scope("s", kernel("k", 100)), scope("t", kernel("x", 5)), scope("s", kernel("k", 70))]
    report(browser, profile(tmp_path / "x.hatchet", *twins), "-m", "time/ns")
    frames = "[...document.querySelectorAll('.frame')]"
    second = f"{frames}.find(e => e.ariaLabel.startsWith('s, time/ns: 70'))"
    browser.click_element(second)
    browser.open(Path("report.html"), settled(browser))
    assert text(browser, "#details tbody td:nth-child(2)") == "70"


ABSENT = [
    "#zoom=model/layer9/gemm", "#zoom=model;7&select=nothing", "#zoom=%E0%A4%A", "#zoom=;99999;1",
    "#zoom=;1;1", "#zoom=" + "a/" * 5000, "#metric=no%20such&sized=before&view=x&tab=nowhere",
    "#search=%&filter=%ff", "#search=/(/", "#main", "#=&&=#?", "#zoom=__proto__&select=constructor",
]


@pytest.mark.parametrize("address", ABSENT, ids=range(len(ABSENT)))
def test_a_link_to_a_missing_frame_shows_the_whole_graph(browser, tmp_path, address):
    path = model(tmp_path / "x.hatchet")
    report(browser, path)
    whole = shown(browser)
    browser.open(Path("report.html"), address)
    assert shown(browser) == whole
    is_reported = not browser.run("document.getElementById('absent').hidden")
    assert is_reported == address.startswith("#zoom=")
    browser.click_element(frame("model"))
    assert "layer1" in names(browser) and "softmax" not in names(browser)
    assert settled(browser) in ("#zoom=model", "#zoom=model&search=%2F(%2F")
    # The same while the page is open.
    browser.run(f"location.hash = {json.dumps(address)}")
    browser.until("document.querySelectorAll('.frame.above').length === 0")
    assert shown(browser) == whole


def test_a_link_works_on_another_run(browser, tmp_path):
    path = model(tmp_path / "x.hatchet")
    report(browser, path)
    browser.click_element(frame("model"))
    browser.click_element(frame("layer2"))
    address = settled(browser)
    document = json.loads(path.read_text())
    document[0]["children"].insert(0, scope("new", kernel("gemm", 77)))
    path.write_text(json.dumps(document))
    report(browser, path)
    browser.open(Path("report.html"), address)
    assert text(browser, "#crumbs").endswith("layer2")


def test_deep_paths_have_short_addresses(browser, tmp_path):
    inner = kernel("k", 10)
    for i in range(200):
        inner = scope(f"/home/user/a rather long directory/file_{i}.py:{i}@function", inner)
    report(browser, profile(tmp_path / "x.hatchet", inner))
    browser.run(f"{frame('k')}.click()")
    address = settled(browser)
    assert len(address) < 5000
    browser.open(Path("report.html"), address)
    assert text(browser, "#details h2") == "k" and focused_count(browser) == 1


def focused_count(browser: Browser) -> int:
    return browser.run("document.querySelectorAll('.frame[tabindex=\"0\"]').length")


def test_many_keys_do_not_flood_the_history(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.run("document.querySelector('.frame').focus()")
    length = browser.run("history.length")
    browser.key("ArrowDown")
    for _ in range(60):
        browser.key("ArrowRight")
        browser.key("ArrowLeft")
    assert settled(browser) == "#select=model"
    assert browser.run("history.length") == length


def test_the_skip_link_leaves_the_address(browser, tmp_path):
    report(browser, model(tmp_path / "x.hatchet"))
    browser.click_element(frame("model"))
    browser.run("document.querySelector('.skip').focus()")
    browser.key("Enter")
    assert browser.run("document.activeElement.id") == "main"
    assert browser.run(HASH) == "#zoom=model"


# ------------------------------------------------------------------ phones


def overflowing(browser: Browser) -> list[str]:
    """Elements that reach out of the window to the right, and what makes the page wider than it."""
    return browser.run(
        "[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length &&"
        " !e.closest('.skip, #graph') && (e.getBoundingClientRect().right >"
        " document.documentElement.clientWidth + 0.5)).map(e => e.tagName + '#' + e.id + '.' +"
        " (e.className.baseVal ?? e.className)).concat(document.documentElement.scrollWidth >"
        " document.documentElement.clientWidth ? ['page'] : [])"
    )


def long_profile(path: Path) -> Path:
    tree = scope("a_scope_name_without_any_space_" * 5, *[
        kernel(f"void at::native::kernel_{i}<" + "float,int," * 40 + ">", 10**9 + i, 3,
               flops16=10**15, bytes=524_288_000_000)
        for i in range(12)
    ])  # fmt: skip
    return profile(path, tree, flops16=0, bytes=0)


@pytest.mark.parametrize("sample", ["mixed", "losses", "up_python", "empty", "long"])
def test_a_phone_has_all_in_its_width(browser, tmp_path, sample):
    path = DATA / f"{sample}.hatchet"
    browser.window(*PHONES[0], is_phone=True)
    report(browser, long_profile(tmp_path / "x.hatchet") if sample == "long" else path)
    for tab in ("graph", "kernels", "roofline"):
        browser.tap(f"document.getElementById('tab-{tab}')")
        assert browser.run(f"!document.getElementById('panel-{tab}').hidden")
        for size in PHONES:
            browser.window(*size, is_phone=True)
            assert overflowing(browser) == [], (tab, size)


@pytest.mark.parametrize("size", PHONES, ids=str)
def test_a_phone_starts_with_the_answer(browser, tmp_path, size):
    browser.window(*size, is_phone=True)
    report(browser, long_profile(tmp_path / "x.hatchet"))
    bottom = "(e => e.getBoundingClientRect().bottom)(document.querySelector('{}'))"
    tops = [bottom.format(s) for s in (".card", "#hottest li:nth-child(3)")]
    total, third = (browser.run(expression) for expression in tops)
    assert total < third < size[1]  # on the first screen
    assert text(browser, ".card .label") == "time" and "12.000" in text(browser, ".card .value")
    assert text(browser, "#hottest li .number") == "8.33 % · 1 s"


def test_touch_works_like_the_mouse(browser):
    browser.window(390, 844, is_phone=True)
    report(browser, DATA / "mixed.hatchet")
    browser.tap(frame("mlp"))
    assert text(browser, "#crumbs").endswith("mlp") and text(browser, "#details h2") == "mlp"
    assert tooltip(browser) == ""  # it would be below the finger
    browser.tap("document.querySelector('#crumbs button')")
    assert "backward" in names(browser)
    browser.tap("document.querySelector('#hottest button')")
    assert names(browser, ".frame.hit") == ["gemm", "gemm"]
    sizes = browser.run(
        "[...document.querySelectorAll('button, select, input')].filter(e =>"
        " e.getClientRects().length).map(e => e.offsetHeight)"
    )
    assert min(sizes) >= 24


def test_a_wide_window_has_the_graph_first(browser):
    report(browser, DATA / "mixed.hatchet")
    assert browser.run("document.getElementById('hottest').getClientRects().length") == 0
    assert browser.run("document.getElementById('graph').getBoundingClientRect().top") < 500


# ------------------------------------------------------------------ numbers


def test_bytes_are_in_a_unit_that_fits(browser, tmp_path):
    sizes = {"a": 524_288_000_000, "b": 1023, "c": 1024**2 - 1}
    made = [kernel(name, 10, bytes=size) for name, size in sizes.items()]
    report(browser, profile(tmp_path / "x.hatchet", *made, bytes=0), "-m", "bytes,time/ms")
    cards = browser.run("[...document.querySelectorAll('.card')].map(e => e.innerText)")
    assert cards[0].split() == ["bytes", "488.28GiB"]  # with a margin between
    browser.hover("document.querySelector('.card')")
    assert tooltip(browser) == f"bytes: {sum(sizes.values())}"
    found = names_and_labels(browser)
    assert found["a"].startswith("bytes: 488.28 GiB, 100.00 %")
    browser.run("document.getElementById('details').scrollIntoView()")
    assert text(browser, "#details tbody td:nth-child(2)") == str(sum(sizes.values()))


def names_and_labels(browser: Browser) -> dict[str, str]:
    return dict(label.split(", ", 1) for label in shown(browser))


def test_sums_that_differ_in_rounding_are_the_same(browser, tmp_path):
    old = profile(tmp_path / "old.hatchet", scope("s", kernel("k", 10, v=0.1 + 0.2)), v=0)
    new = profile(tmp_path / "new.hatchet", scope("s", kernel("k", 10, v=0.3)), v=0)
    report(browser, new, "-m", "v,time/ns", "--diff", old)
    cells = "[...document.querySelectorAll('#details tbody tr')].map(r => [...r.cells].map(c =>"
    rows = browser.run(f"{cells} c.textContent))")
    assert rows[0][3:] == ["0", "0 %"]
    parts = [0.1] * 10 + [0.7, 1e-5]
    tree = scope("s", *[kernel(f"k{i}", 10, v=part) for i, part in enumerate(parts)])
    report(browser, profile(tmp_path / "x.hatchet", tree, v=0), "-m", "v,time/ns")
    browser.click_element(frame("s"))
    assert text(browser, "#details tbody td:nth-child(4)") == "0"


def test_a_number_below_the_unit_has_a_unit_that_fits(browser, tmp_path):
    """A mean of 3e-12 ms is nothing; one of 0.4 ns is not 4e-07 ms."""
    made = [kernel("a", 10, v=1), kernel("b", 1)]
    path = profile(tmp_path / "x.hatchet", *made, v=0)
    report(browser, path, "-m", "time/s")
    assert names_and_labels(browser)["b"].startswith("time/s: 1.0000 ns")
    huge = profile(tmp_path / "y.hatchet", kernel("a", 36 * 10**14))
    report(browser, huge, "-m", "time/ms")
    assert names_and_labels(browser)["a"].startswith("time/ms: 3600000.00 s")
    assert viewer("-m", "time/ms", huge).splitlines()[1].split()[0] == "3600000000"
