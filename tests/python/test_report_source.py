"""The page of annotated source in the HTML report: rows, instructions, search, keyboard."""

import csv
import io
import json
from pathlib import Path

import pytest
import test_pcsampling_mode as sampling
import test_stall_causes as causes
from report_support import (  # noqa: F401 (fixtures)
    DATA,
    browser,
    choose_metric,
    frame,
    kernel,
    names,
    needs_browser,
    no_errors,
    profile,
    report,
    set_value,
    text,
    viewer,
)

pytestmark = needs_browser

ROWS = (
    "[...document.querySelectorAll('#listing .row')].sort((a, b) => a.dataset.row - b.dataset.row)"
)


def listed(browser) -> list[list[str]]:
    """Samples, share, reasons, line and text of the rows in view that are lines."""
    cells = f"{ROWS}.filter(r => r.classList.contains('line')).map(r => [...r.children].map"
    return browser.run(f"{cells}(c => c.textContent))")


def open_source(browser) -> None:
    browser.click("#tab-source")


def current(browser) -> str:
    return browser.run("document.querySelector('.row[aria-selected]').textContent")


def lines(name: str, *numbers: tuple[str, int, int], **more: int) -> dict:
    """A kernel with samples at lines: (file, line, samples)."""
    made = kernel(name, 1000)
    made["metrics"] |= more
    for file, line, samples in numbers:
        metrics = {"num_samples": samples, "stalled_long_scoreboard": samples - samples // 4}
        metrics["stalled_selected"] = samples // 4
        frame = {"name": f"{file}:{line}@{name}", "type": "function"}
        made["children"].append({"children": [], "frame": frame, "metrics": metrics})
    return made


@pytest.fixture(scope="module")
def sampled(tmp_path_factory) -> Path:
    """A profile with source text and machine code, of a Triton kernel and a callee."""
    pytest.importorskip("triton")
    directory = tmp_path_factory.mktemp("sampled")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("TRITON_CACHE_DIR", str(directory / "cache"))
        sampling.run('proton.finalize(session, "proton")')
    return directory / "test.proton"


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_lines_have_the_numbers_of_the_command_line(browser):
    path = DATA / "up_pc.hatchet"
    report(browser, path)
    open_source(browser)
    set_value(browser, "source-kernel", 1, "change")
    table = csv.DictReader(io.StringIO(viewer("--source", "^mm$", "--csv", path)))
    expected = [(row["line"], row["samples"]) for row in table]
    assert len(expected) == 7
    assert [(row[3], row[0]) for row in listed(browser)] == expected
    assert text(browser, "#kernel-name") == "mm"
    assert text(browser, "#kernel-samples") == "564 samples, 47.32 %"
    printed = viewer("--source", "^mm$", "-f", "file_function_line", path).splitlines()[1:4]
    items = "[...document.querySelectorAll('#waits li')].map(e => e.textContent)"
    assert browser.run(items) == printed
    reasons = [line[20:].split("  ")[0] for line in viewer("--source", "^mm$", path).splitlines()]
    assert [row[2] for row in listed(browser)] == reasons[-7:]


def test_a_profile_without_samples_has_no_such_tab(browser):
    report(browser, DATA / "cuda.hatchet")
    assert browser.run("document.getElementById('tab-source').hidden")
    browser.run("document.getElementById('tab-kernels').click()")
    browser.run("document.getElementById('tab-kernels').focus()")
    browser.key("ArrowRight")
    assert browser.run("document.activeElement.id") == "tab-roofline"


def test_source_text_is_shown_around_sampled_lines(browser, sampled):
    report(browser, sampled)
    open_source(browser)
    load = sampling.line_of("LOAD")
    rows = {row[3]: row for row in listed(browser)}
    assert rows[str(load)][4] == "    v = tl.load(x + at)  # LOAD"
    assert rows[str(load)][0] and not rows[str(load - 4)][0]
    folded = browser.run("document.querySelector('.row.gap').textContent")
    assert folded.startswith("⋯ ") and folded.endswith(" lines without samples")
    before = len(listed(browser))
    browser.click(".row.gap")
    assert len(listed(browser)) > before
    browser.click("#all-lines")
    assert not browser.run("document.querySelectorAll('.row.gap').length")
    assert listed(browser)[0][3:] == ["1", ""] and listed(browser)[1][4].startswith("import ctypes")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    if causes.CC is None or causes.find("nvdisasm") is None:
        pytest.skip("no nvdisasm")
    return causes.Kernels(tmp_path_factory.mktemp("kernels"))


def test_lines_say_what_they_wait_for_and_what_waits_for_them(browser, kernels, monkeypatch):
    monkeypatch.setenv("PROTON_NVDISASM_PATH", causes.find("nvdisasm"))
    at = kernels.offsets("matmul", r"DEPBAR\.LE SB0")[0]
    printed = kernels.view({"matmul": [[at, "long_scoreboard", 1000]]}).splitlines()[1]
    assert ", caused by kernels.py:" in printed and printed.endswith(", shared out")
    path = kernels.directory / "test.proton"
    known = json.loads(viewer("--source", "--json", path))["kernels"][0]["lines"]
    report(browser, path)
    open_source(browser)
    assert text(browser, "#waits") == printed
    rows = {row[3]: row for row in listed(browser)}
    for line in known:
        row = rows[str(line["line"])]
        assert row[0] == ("1,000" if line["samples"] else "") and row[4].strip()
        share = f"causes {line['caused']:.2f} %"
        assert (share in row[2]) == (line["caused"] > 0), row
    (waiting,) = [line for line in known if line["samples"]]
    (cause, *_) = [line for line in known if not line["samples"]]

    def tip(line):
        row = f"{ROWS}.find(r => r.querySelector('.number')?.textContent === '{line['line']}')"
        return browser.run(f"{row}.querySelector('.reasons').dataset.tip").split("\n")

    assert printed.partition(", caused by ")[2] in tip(waiting)[-1]
    waits = f"waited for at kernels.py:{waiting['line']} (100 %), shared out"
    assert tip(cause)[-1].endswith(waits)


def test_a_line_shows_its_instructions_on_request(browser, sampled):
    found = viewer("--source", "--sass", "--json", sampled)
    line = sampling.line_of("LOAD")
    (wanted,) = [one for one in json.loads(found)["kernels"][0]["lines"] if one["line"] == line]
    report(browser, sampled, "--sass")
    open_source(browser)
    assert not browser.run("document.querySelectorAll('.row.code').length")
    row = f"{ROWS}.find(r => r.querySelector('.number')?.textContent === '{line}')"
    browser.run(f"{row}.click()")
    shown = browser.run(
        "[...document.querySelectorAll('.row.code code')].map(e => e.textContent.trim())"
    )
    expected = [
        f"0x{one['offset']:04x} {one.get('sass', '')}".strip() for one in wanted["instructions"]
    ]
    assert len(expected) > 2 and shown == expected
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    browser.key("ArrowLeft")
    assert not browser.run("document.querySelectorAll('.row.code').length")
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "false"


def test_keys_move_between_lines_and_hot_lines(browser, tmp_path):
    made = lines("k", ("a.py", 3, 10), ("a.py", 7, 90), ("a.py", 20, 50))
    report(browser, profile(tmp_path / "p.hatchet", made, num_samples=0))
    open_source(browser)
    browser.click("#hottest-line")
    assert current(browser).startswith("9060.00")
    browser.key("n")
    assert current(browser).startswith("5033.33")
    browser.key("n")
    assert current(browser).startswith("106.67")
    browser.key("p")
    browser.key("ArrowUp")
    assert current(browser).startswith("9060.00")
    browser.key("Home")
    assert current(browser).startswith("a.py")
    browser.key("End")
    assert current(browser).startswith("5033.33")


def test_a_hundred_thousand_lines_are_searched_and_scrolled(browser, tmp_path):
    made = lines("k", *[("big.py", line, 1 + line % 7) for line in range(1, 100_001)])
    report(browser, profile(tmp_path / "p.hatchet", made, num_samples=0), "-m", "num_samples")
    open_source(browser)
    assert browser.run("document.getElementById('listing').ariaRowCount") == "100001"
    assert browser.run("document.querySelectorAll('.row').length") < 200
    browser.run("document.getElementById('source-search').value = '/:9999\\\\d$/'")
    browser.run("document.getElementById('source-search').dispatchEvent(new Event('input'))")
    assert text(browser, "#source-found") == "10 lines"
    browser.run("document.getElementById('source-search').focus()")
    browser.key("Enter")
    assert [row[3] for row in listed(browser) if row[3] == "99990"]
    assert browser.run("document.querySelectorAll('.row.hit').length") == 10
    browser.run("document.getElementById('listing').scrollTop = 1e6")
    browser.until("document.querySelector('[data-row=\"47619\"]') !== null")
    assert browser.run("document.querySelectorAll('.row').length") < 200


def test_the_address_leads_to_the_line(browser, tmp_path):
    one = lines("one", ("a.py", 3, 10), ("a.py", 7, 9))
    two = lines("two", ("b.py", 5, 4), ("b.py", 8, 2))
    path = report(browser, profile(tmp_path / "p.hatchet", one, two, num_samples=0))
    open_source(browser)
    set_value(browser, "source-kernel", 1, "change")
    browser.run("document.querySelector('.row[aria-selected]').focus()")
    browser.key("ArrowDown")
    browser.until("location.hash.includes('line=8')")
    address = browser.run("location.hash")
    assert address == "#tab=source&kernel=two&line=8;b.py"
    browser.open(path, address)
    assert text(browser, "#kernel-name") == "two" and current(browser).startswith("233.33")
    browser.open(path, "#tab=source&kernel=gone&line=x")
    assert text(browser, "#kernel-name") == "one"


def test_flame_graph_and_source_lead_to_each_other(browser, tmp_path):
    made = lines("k", ("a.py", 3, 10), ("a.py", 7, 90))
    report(browser, profile(tmp_path / "p.hatchet", made, num_samples=0))
    choose_metric(browser, "num_samples")
    assert "a.py:7@k" in names(browser)
    browser.click_element(frame("a.py:3@k"))
    browser.click(".to-source")
    assert current(browser).startswith("1010.00")
    browser.click("#samples-graph")
    assert browser.run("document.getElementById('metric').selectedOptions[0].textContent") == (
        "num_samples"
    )
    assert text(browser, "#details h2") == "k"


def test_divided_samples_and_missing_lines_are_named(browser, tmp_path):
    made = lines("k", ("a.py", 3, 10), num_samples=6, num_samples_apportioned=12)
    report(browser, profile(tmp_path / "p.hatchet", made, num_samples=0))
    open_source(browser)
    assert text(browser, "#kernel-samples") == (
        "16 samples, 100.00 %; 12 divided between contexts by kernel time"
    )
    assert listed(browser)[-1][3:] == ["?", "line not known"]
    assert text(browser, ".row.file").endswith("no source text in the profile")


def test_text_of_a_source_file_cannot_end_the_script(browser, tmp_path):
    name = "</script><img src=x onerror=alert(1)>"
    made = lines("k", (name, 3, 10))
    path = report(browser, profile(tmp_path / "p.hatchet", made, num_samples=0))
    assert name not in path.read_text()
    open_source(browser)
    assert name in text(browser, ".row.file")
