"""Other trees in the report: folded, from the inside, around a frame, without hidden frames."""

import json
import random
from pathlib import Path

import pytest
from report_support import (  # noqa: F401 (fixtures)
    browser,
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
)

pytestmark = needs_browser


# Goes to an address of the open page, and waits until it is shown.
GO = """new Promise(done => {{ addEventListener("hashchange", () => done(1), {{once: true}});
location.hash = {address}; }})"""


def values(browser) -> dict[str, str]:
    """The first metric of each drawn frame, by its name."""
    return dict(label.split(", time/ns: ") for label in shown(browser))


def requests(path: Path, count: int = 40) -> Path:
    """Requests with the same inside; one kernel is different in each."""
    made = []
    for i in range(count):
        decode = scope("decode", kernel("gemm", 100 + i), kernel(f"k_{i % 3}", 10))
        made.append(scope(f"request_{i}", decode, scope(f"step_{i % 4}", kernel("copy", 5))))
    return profile(path, scope("serve", *made), scope("request_7", kernel("gemm", 100)))


def test_numbered_siblings_are_one_with_their_sum(browser, tmp_path):
    report(browser, requests(tmp_path / "x.hatchet"), "-m", "time/ns,count,avg_time/ns")
    folded = sum(100 + i + 15 for i in range(40))
    drawn = values(browser)
    share = 100 * folded / (folded + 100)
    assert drawn["request_# ×40"] == f"{folded / 1000:.4f} µs, {share:.2f} %"
    assert "request_7" in drawn  # fewer than 30 beside it
    steps = sorted(name for name in drawn if name.startswith("step_"))
    assert steps == [f"step_{i}" for i in range(4)]
    assert drawn["k_0"].startswith("140 ns")  # kernels keep their names
    browser.click_element(frame("request_# ×40"))
    rows = browser.run(
        "[...document.querySelectorAll('#details tbody tr')].map(r => r.cells[1].textContent)"
    )
    assert rows == [str(folded), "120", f"{folded / 120:.2f}"]
    browser.click("#fold")
    assert sum(name.startswith("request_") for name in names(browser)) == 41
    address = browser.run("location.hash")
    assert address == "#fold=no"
    browser.open(Path("report.html"), address)
    assert "request_39" in names(browser)
    browser.click("#fold")
    assert "request_39" not in names(browser)


def test_a_search_for_a_folded_frame_unfolds(browser, tmp_path):
    report(browser, requests(tmp_path / "x.hatchet"), "-m", "time/ns")
    assert search_for(browser, "request_39").startswith("1 frame,")
    assert names(browser, ".frame.hit") == ["request_39"]
    assert browser.run("document.getElementById('fold').ariaPressed") == "false"


def test_callers_from_the_inside(browser, tmp_path):
    path = profile(
        tmp_path / "x.hatchet", scope("a", scope("b", kernel("k", 60)), kernel("k", 20)),
        scope("c", kernel("k", 10), kernel("other", 10)),
    )
    report(browser, path, "-m", "time/ns")
    set_value(browser, "tree", "callers", "change")
    labels = shown(browser)
    assert labels[0].startswith("ROOT, time/ns: 100 ns")
    assert sorted(label.split(" ns,")[0].replace(", time/ns:", "") for label in labels[1:]) == [
        "a 20", "a 60", "b 60", "c 10", "c 10", "k 90", "other 10",
    ]  # fmt: skip
    address = browser.run("location.hash")
    assert address == "#tree=callers"
    browser.open(Path("report.html"), address)
    assert shown(browser) == labels


def nanoseconds(number: str) -> float:
    return float(number.split()[0])


def details(browser) -> dict[str, str]:
    rows = "[...document.querySelectorAll('#details tbody tr')].map(r => [...r.cells].slice(0, 2)"
    return dict(browser.run(rows + ".map(c => c.textContent))"))


def test_extremes_and_utilization_from_the_inside_where_they_are_known(browser, tmp_path):
    kernels = {"a": kernel("gemm", 400, flops16=4000.0), "b": kernel("gemm", 900, flops16=900.0)}
    kernels["c"] = kernel("copy", 50, flops16=5.0)
    path = profile(tmp_path / "x.hatchet", *(scope(name, one) for name, one in kernels.items()))
    report(browser, path, "-m", "time/ns,min_time/ns,max_time/ns,util", "--peaks", "flops16=1e13")
    known = {}
    for above in kernels:
        browser.run(f"document.querySelector('.frame[aria-label^=\"{above},\"]').click()")
        browser.key("ArrowDown")
        known[above] = details(browser)
        assert len(known[above]) == 4
        browser.run("document.getElementById('reset').click()")
    set_value(browser, "tree", "callers", "change")
    for name, expected in [*known.items(), ("copy", known["c"])]:
        browser.run(f"document.querySelector('.frame[aria-label^=\"{name},\"]').click()")
        assert (text(browser, "#details h2"), details(browser)) == (name, expected)
        browser.run("document.getElementById('reset').click()")
    browser.run("document.querySelector('.frame[aria-label^=\"gemm,\"]').click()")
    both = details(browser)
    assert [nanoseconds(both[f"{end}_time/ns"]) for end in ("min", "max")] == [400, 900]
    assert "util" not in both  # is not a sum, nor one of the two
    # Without its caller, gemm stands for both in the tree of calls.
    set_value(browser, "tree", "calls", "change")
    set_value(browser, "hide", "/^[ab]$/", "change")
    browser.run("document.querySelector('.frame[aria-label^=\"gemm,\"]').click()")
    assert details(browser) == both
    browser.run("document.getElementById('reset').click()")
    browser.run("document.querySelector('.frame[aria-label^=\"c,\"]').click()")
    assert details(browser) == {k: v for k, v in known["c"].items() if k != "util"}


def test_callers_and_callees_of_a_frame(browser, tmp_path):
    inner = scope("f", kernel("k", 30), scope("f", kernel("deep", 5)))
    other = scope("b", scope("f", kernel("k", 8)))
    path = profile(tmp_path / "x.hatchet", scope("a", inner), other)
    report(browser, path, "-m", "time/ns")
    browser.click_element(frame("f"))
    browser.click("#details .actions button")
    drawn = shown(browser)
    assert [label.split(",")[0] for label in drawn][0] == "f"
    # Counted once where it calls itself; its callers are above it, with its time in them.
    sums = {name: value.split(" ns")[0] for name, value in values(browser).items()}
    assert (sums["callers"], sums["k"], sums["a"], sums["b"]) == ("43", "38", "35", "8")
    tops = {name: browser.run(f"{frame(name)}.offsetTop") for name in ("a", "callers", "k")}
    root = browser.run("document.querySelector('.frame').offsetTop")
    assert tops["a"] < tops["callers"] < root < tops["k"]
    address = browser.run("location.hash")
    assert address.startswith("#about=f")
    browser.click_element(frame("b"))  # zooms among the callers
    assert "a" not in names(browser)
    browser.open(Path("report.html"), address)
    assert shown(browser) == drawn
    browser.key("Escape")
    assert "ROOT" in names(browser)


def test_kernels_of_hidden_frames_move_up(browser, tmp_path):
    hidden = scope("wrapper", scope("launch.py:1@run", kernel("k", 30)), kernel("k", 3))
    path = profile(tmp_path / "x.hatchet", scope("user", hidden), scope("other", kernel("x", 7)))
    report(browser, path, "-m", "time/ns")
    set_value(browser, "hide", "/wrapper|launch/", "change")
    drawn = values(browser)
    assert sorted(drawn) == ["ROOT", "k", "other", "user", "x"]
    assert drawn["k"].startswith("33 ns") and drawn["user"].startswith("33 ns")
    assert drawn["ROOT"].startswith("40 ns")
    browser.open(Path("report.html"), browser.run("location.hash"))
    assert values(browser) == drawn
    # A kernel that is hidden counts in the frame above it.
    set_value(browser, "hide", "k", "change")
    assert values(browser)["wrapper"].startswith("33 ns")
    browser.click_element(frame("user"))
    set_value(browser, "hide", "", "change")
    browser.click_element(frame("wrapper"))
    browser.click("#details .actions button:nth-child(2)")
    assert browser.run("document.getElementById('hide').value") == '"wrapper"'
    assert "wrapper" not in names(browser)


def test_a_comparison_has_these_trees_too(browser, tmp_path):
    old = requests(tmp_path / "old.hatchet")
    new = requests(tmp_path / "new.hatchet", 50)
    report(browser, new, "-m", "time/ns", "--diff", old)
    sums = [sum(115 + i for i in range(count)) for count in (40, 50)]
    label = next(one for one in shown(browser) if one.startswith("request_#"))
    assert f"{sums[0] / 1000:.4f} µs before" in label
    assert label.endswith(f"+{100 * (sums[1] - sums[0]) / sums[0]:.2f} %")


def test_no_tree_loses_time(browser, tmp_path):
    """A property: the root has the same numbers in every tree, and the children add up to it."""
    for seed in range(2):
        chance = random.Random(seed)

        def some(depth: int, chance: random.Random = chance) -> dict:
            name = chance.choice(["f", "g", f"step_{chance.randrange(60)}", "lib.py:3@run"])
            if depth > 4 or chance.random() < 0.2:
                return kernel(chance.choice("abc"), chance.randrange(1, 1000))
            return scope(name, *[some(depth + 1) for _ in range(chance.randrange(1, 6))])

        path = profile(tmp_path / "x.hatchet", *[some(0) for _ in range(60)])
        report(browser, path, "-m", "time/ns,count")
        whole = shown(browser)[0]
        tips = set()
        for fold in ("yes", "no"):
            for tree in ("calls", "callers"):
                for hide in ("", "f", "/^(g|step)/", "lib", "/./"):
                    address = f"#tree={tree}&fold={fold}&hide={hide}"
                    browser.run(GO.format(address=json.dumps(address)), awaits=True)
                    assert shown(browser)[0] == whole, address
                    cells = "[...document.querySelectorAll('#details tbody td:nth-child({})')]"
                    numbers = browser.run(f"{cells.format(2)}.map(e => e.textContent)")
                    tips.add(json.dumps(numbers))
                    itself = browser.run(f"{cells.format(4)}.map(e => e.textContent)")
                    # Only with everything hidden, the root has the time itself.
                    assert (itself == numbers) == (hide == "/./"), address
        assert len(tips) == 1


ODD = ["#about=none", "#part=5-2", "#part=0-99999", "#tree=x&hide=/(/"]


@pytest.mark.parametrize("address", ODD)
def test_an_odd_address_shows_something(browser, tmp_path, address):
    report(browser, requests(tmp_path / "x.hatchet"), "-m", "time/ns")
    browser.open(Path("report.html"), address)
    assert names(browser)[0] == "ROOT"
