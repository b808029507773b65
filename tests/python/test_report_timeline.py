"""The time line of the report: every slice of a trace, drawn, selected and zoomed."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from report_support import (  # noqa: F401 (fixtures)
    browser,
    needs_browser,
    no_errors,
    text,
    viewer,
)
from rank_support import step, write_rank
from test_report_pages import CONTRAST, OVERFLOW, WIDTHS, seen
from test_trace_ranks import COLLECTIVE, chrome, processes, rank_file, write_job

pytestmark = needs_browser

TRACE = """
    import sys
    import triton_proton as proton
    from triton_proton import _libproton

    proton.start("out", backend="host", data="trace")
    for step in range(int(sys.argv[1])):
        with proton.scope("step"):
            for name in ("gemm", "</script>copy"):
                with proton.scope("op_" + name[-4:]):
                    _libproton.kernel_begin(name)
                    _libproton.kernel_end()
    proton.finalize(output_format="proton")
    """


def record(cwd: Path, steps: int) -> Path:
    command = [sys.executable, "-c", textwrap.dedent(TRACE), str(steps)]
    subprocess.run(command, cwd=cwd, check=True, timeout=120)
    return cwd / "out.proton"


def slices(path: Path) -> list[tuple[str, float, float]]:
    """Name, duration and start in nanoseconds, of the exported trace."""
    viewer("-o", "out.chrome_trace", path)
    events = json.loads(Path("out.chrome_trace").read_text())["traceEvents"]
    found = [e for e in events if e["ph"] == "X"]
    first = min(e["ts"] for e in found)
    return [(e["name"], e["dur"] * 1000, (e["ts"] - first) * 1000) for e in found]


def nanoseconds(words: str) -> float:
    number, unit = words.split()
    return float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


def selected(browser: Browser) -> tuple[str, float, float]:
    name, size, rest = text(browser, "#line-slice").split(" · ")
    return name, nanoseconds(size), nanoseconds(rest.split(",")[0].removeprefix("at "))


def rows(browser: Browser, steps: int) -> list[tuple[str, float, float]]:
    """All slices, by keyboard: each row from its first to its last slice."""
    browser.run("document.getElementById('line').focus()")
    found = []
    for sizes in (steps, 2 * steps, 2 * steps):
        for _ in range(2 * steps):
            browser.key("ArrowLeft")
        found.append(selected(browser))
        for _ in range(sizes - 1):
            browser.key("ArrowRight")
            found.append(selected(browser))
        browser.key("ArrowDown")
    return found


def test_it_has_the_slices_of_the_trace(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = record(tmp_path, 4)
    viewer("-o", "report.html", path)
    browser.open(Path("report.html"))
    browser.click("#tab-timeline")
    found = sorted(rows(browser, 4), key=lambda one: (one[0], one[2]))
    expected = sorted(slices(path), key=lambda one: (one[0], one[2]))
    assert len(found) == 20 and [one[0] for one in found] == [one[0] for one in expected]
    for index in (1, 2):  # three digits are shown
        assert [one[index] for one in found] == pytest.approx(
            [one[index] for one in expected], rel=6e-3, abs=1
        )


def test_it_zooms_moves_and_leads_to_the_graph(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    viewer("-o", "report.html", record(tmp_path, 300))
    browser.open(Path("report.html"), "#tab=timeline")
    whole = text(browser, "#line-range")
    drawn = "Number(document.getElementById('line').dataset.drawn)"
    assert 3 <= browser.run(drawn) <= 1500  # slices of less than a pixel are drawn as one
    for _ in range(30):
        browser.run("document.getElementById('line-in').click()")
    assert text(browser, "#line-range").startswith("20 ns of ")
    assert browser.run(drawn) <= 10
    # A selected slice that is not in view is brought into it.
    start = nanoseconds(text(browser, "#line-range").rpartition("from ")[2])
    browser.run("document.getElementById('line').focus()")
    browser.key("ArrowRight")
    _, size, at = selected(browser)
    now = nanoseconds(text(browser, "#line-range").rpartition("from ")[2])
    if at + size < 0.9 * start:  # not one that takes most of the time
        assert now <= 1.01 * (at + size)
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    assert selected(browser)[0] in ("gemm", "</script>copy")
    name = selected(browser)[0]
    browser.click("#line-whole")
    assert text(browser, "#line-range") == whole
    browser.click("#line-graph")
    assert browser.run("!document.getElementById('panel-graph').hidden")
    assert text(browser, "#details h2") == name


def test_it_can_be_read_in_every_width(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    viewer("-o", "report.html", record(tmp_path, 20))
    browser.open(Path("report.html"), "#tab=timeline")
    for width, height in WIDTHS:
        browser.window(width, height, is_phone=width < 500)
        for theme in ("light", "dark"):
            browser.color_scheme(theme)
            browser.until(f"({OVERFLOW}).length === 0")  # the canvas follows the window
            assert seen(browser, "#line") == 1, (width, theme)
            assert browser.run(CONTRAST)[1] == [], (width, theme)
    pixels = (
        "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter("
        "(n, i) => i % 4 === 3 && n > 0).length)(document.getElementById('line'))"
    )
    assert browser.run(pixels) > 300  # something is drawn, how much depends on the times


def test_a_profile_without_a_trace_has_none(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.hatchet").write_text('[{"frame":{"name":"ROOT"},"metrics":{"v":1},"children":[]},{}]')
    viewer("-o", "report.html", "x.hatchet")
    browser.open(Path("report.html"), "#tab=timeline")
    assert browser.run("document.getElementById('tab-timeline').hidden")
    assert browser.run("!document.getElementById('panel-graph').hidden")


# ------------------------------------------------------------------ several processes


def numbers(packed: str) -> Iterator[int]:
    """Seven bits a byte, lowest first."""
    value = shift = 0
    for byte in gzip.decompress(base64.b64decode(packed)):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def page_timeline(page: Path) -> dict:
    found = re.search(r'id="profile">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(found[1])["timeline"]


Slices = dict[str, list[tuple[str, float, float]]]


def page_slices(page: Path) -> Slices:
    """Name, start and duration of the slices of each process."""
    line = page_timeline(page)
    pairs = list(numbers(line["contexts"]))
    values = numbers(line["slices"])
    found: Slices = {}
    for name, *sizes in line["tracks"]:
        start = 0
        for _ in range(sizes[0] if sizes else 0):
            start += next(values)
            size, context = next(values), next(values)
            found[process].append((line["names"][pairs[2 * context]], start, size))
        if not sizes:
            process = name
            found[process] = []
    assert next(values, None) is None
    return found


def joined_slices(trace: dict) -> Slices:
    """The same of the joined trace."""
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    process = processes(trace)
    found: Slices = {}
    for e in events:
        ns = (round(e["ts"] * 1000), round(e["dur"] * 1000))
        found.setdefault(process[e["pid"]], []).append((e["name"], *ns))
    return found


@pytest.mark.parametrize("is_merged", [False, True])
def test_ranks_are_those_of_the_joined_trace(tmp_path, monkeypatch, is_merged):
    monkeypatch.chdir(tmp_path)
    job = write_job(tmp_path, [0, 5_000_000, -70_000])
    expected = joined_slices(chrome(Path("j.chrome_trace"), job))
    if is_merged:
        viewer("-o", "out.ranks.proton", job)
        job = Path("out.ranks.proton")
    viewer("-o", "report.html", job)
    found = page_slices(Path("report.html"))
    assert list(found) == list(expected) and "(error " in list(found)[1]
    for name, slices in found.items():
        assert sorted(slices) == sorted(expected[name])
        assert len(slices) == 160


def test_ranks_have_their_tracks_and_frames(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    viewer("-o", "report.html", write_job(tmp_path, [0, 5_000_000, -70_000]))
    browser.open(Path("report.html"), "#tab=timeline")
    browser.run("document.getElementById('line').focus()")
    for _ in range(5):  # two levels of the thread and one of the stream, of each rank
        browser.key("ArrowDown")
    assert "GPU 0 Stream 7, rank 1, node1, pid 77, clock -4999" in text(browser, "#line-slice")
    assert "us (error " in text(browser, "#line-slice")
    assert selected(browser)[0] in ("gemm", COLLECTIVE)


def test_tracks_that_do_not_fit_are_scrolled_to(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = write_job(tmp_path, [1000 * rank for rank in range(9)])
    viewer("--allow-mixed", "-o", "report.html", job)
    browser.window(1400, 700)
    browser.open(Path("report.html"), "#tab=timeline")
    assert browser.run("document.getElementById('line').clientHeight") < 700
    browser.run("document.getElementById('line').focus()")
    for _ in range(26):
        browser.key("ArrowDown")
    assert "GPU 0 Stream 7, rank 8, " in text(browser, "#line-slice")
    browser.run("document.getElementById('line-scroll').scrollTop = 10000")
    ends = "['line', 'line-space'].map(id => document.getElementById(id)"
    canvas, space = browser.run(ends + ".getBoundingClientRect().bottom)")
    assert canvas == pytest.approx(space, abs=1)


TWO_SCOPES = """
    import triton_proton as proton
    from triton_proton import _libproton

    proton.start("out", backend="host", data="trace")
    for name in ("first", "second"):
        with proton.scope(name):
            _libproton.kernel_begin("gemm")
            for _ in range(10**4 if name == "first" else 1):
                pass
            _libproton.kernel_end()
    proton.finalize(output_format="proton")
    """


@pytest.mark.parametrize("options", [[], ["--diff", "out.proton"]])
@pytest.mark.parametrize("before", ["", "&tree=callers"])
def test_a_slice_leads_to_its_frame_among_others(browser, tmp_path, monkeypatch, options, before):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(TWO_SCOPES)]
    subprocess.run(command, check=True, timeout=120)
    viewer("-o", "report.html", *options, "out.proton")
    for steps, scope in enumerate(("first", "second")):
        browser.open(Path("report.html"), "#tab=timeline" + before)
        browser.run("document.getElementById('line').focus()")
        browser.key("ArrowDown")
        for _ in range(steps):
            browser.key("ArrowRight")
        assert selected(browser)[0] == "gemm"
        browser.key("Enter")
        assert text(browser, "#details h2") == "gemm"
        browser.until("location.hash.includes('tab') === false")
        assert f"{scope}/gemm" in browser.run("location.hash")


def test_slices_of_a_rank_lead_to_the_merged_tree_without_hidden_frames(
    browser, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(TWO_SCOPES)]
    for rank in range(2):
        names = {"PROTON_RANKS": "on", "RANK": str(rank), "WORLD_SIZE": "2"}
        subprocess.run(command, env=os.environ | names, check=True, timeout=120)
    viewer("-o", "report.html", "--hide", "second", "out.ranks")
    browser.open(Path("report.html"), "#tab=timeline")
    for steps, path in enumerate(("first/gemm", "gemm")):
        browser.open(Path("report.html"), "#tab=timeline")
        browser.run("document.getElementById('line').focus()")
        for _ in range(3):  # to the kernels of the second rank
            browser.key("ArrowDown")
        browser.key("ArrowLeft")
        for _ in range(steps):
            browser.key("ArrowRight")
        assert ", rank 1, " in text(browser, "#line-slice")
        browser.key("Enter")
        browser.until("location.hash.includes('tab') === false")
        hash_parts = browser.run("location.hash").lstrip("#").split("&")
        assert f"select={path}" in hash_parts or f"zoom={path}" in hash_parts


def test_a_job_of_trees_and_files_of_two_launches_have_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rank(tmp_path / "tree.ranks", 0, step(0, 1), world=1)
    viewer("-o", "report.html", "tree.ranks")
    assert page_timeline(Path("report.html")) is None
    rank_file(Path("a.proton"), 0, 0, host="a")
    rank_file(Path("b.proton"), 1, 0, host="b")
    Path("c.proton").write_bytes(Path("b.proton").read_bytes()[:70000])
    viewer("--allow-mixed", "-o", "report.html", "a.proton", "b.proton")
    assert [name.split(",")[0] for name in page_slices(Path("report.html"))] == ["rank 0", "rank 1"]


def test_a_copy_of_a_job_is_shown_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = write_job(tmp_path, [0, 5_000_000, -70_000])
    viewer("-o", "one.html", job)
    shutil.copytree(job, "copy.ranks")
    viewer("-o", "two.html", job, "copy.ranks")
    assert page_slices(Path("two.html")) == page_slices(Path("one.html"))
    (tmp_path / "copy.ranks" / "000-999" / "rank000001.proton").rename("b.proton")
    viewer("-o", "joined.chrome_trace", job, "b.proton")
    assert len(processes(json.loads(Path("joined.chrome_trace").read_text()))) == 3
