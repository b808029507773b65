"""The page of ranks in the HTML report: a heat map of ranks, or hosts, and frames."""

import json
import re
from pathlib import Path

import pytest
from rank_support import MS, merge, write_job, write_rank
from report_support import (  # noqa: F401 (fixtures)
    browser,
    needs_browser,
    no_errors,
    report,
    set_value,
    text,
)

pytestmark = needs_browser


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def merged(name: str, *arguments: str) -> Path:
    result = merge(Path.cwd(), *arguments, name)
    assert result.returncode == 0, result.stderr
    return Path(f"{name}.proton")


def open_ranks(browser, path: Path) -> None:
    report(browser, path)
    browser.click("#tab-ranks")


def page_data(browser) -> dict:
    content = browser.run("document.getElementById('profile').textContent")
    return json.loads(content)["ranks"]


def cell(browser) -> str:
    return text(browser, "#heat-cell")


def box(browser) -> list[float]:
    """Left, top, width and height of the first cell; numbers of rows and columns."""
    return [float(x) for x in browser.run("document.getElementById('heat').dataset.box").split()]


def place_of(browser, row: int, column: int) -> list[float]:
    """The middle of a cell in the window."""
    left, top, width, height, *_ = box(browser)
    start = browser.run(
        "(e => [e.left, e.top])(document.getElementById('heat').getBoundingClientRect())"
    )
    return [start[0] + left + (column + 0.5) * width, start[1] + top + (row + 0.5) * height]


def send(browser, event: str, row: int, column: int) -> None:
    x, y = place_of(browser, row, column)
    settings = f"{{clientX: {x}, clientY: {y}, bubbles: true, pointerType: 'mouse'}}"
    browser.run(
        f"document.getElementById('heat').dispatchEvent(new PointerEvent('{event}', {settings}))"
    )


def color(browser, row: int, column: int) -> list[int]:
    """Red, green and blue of a cell, left of its middle."""
    left, top, width, height, *_ = box(browser)
    x, y = left + (column + 0.3) * width, top + (row + 0.5) * height
    context = "document.getElementById('heat').getContext('2d')"
    scale = "(window.devicePixelRatio || 1)"
    return browser.run(
        f"[...{context}.getImageData({x} * {scale}, {y} * {scale}, 1, 1).data].slice(0, 3)"
    )


def test_cells_have_the_times_of_ranks_and_frames(browser):
    write_job(Path.cwd())
    open_ranks(browser, merged("out.ranks"))
    assert text(browser, "#heat-about") == "8 ranks, 7 of 7 frames"
    found = page_data(browser)
    names = [column["name"] for column in found["columns"]]
    assert names[0] == "gemm" and set(names[1:]) == {
        *("forward", "ROOT", "step", "allreduce", "expert", "moe")
    }
    gemm = found["byRank"]["cells"][0]
    assert gemm[0] == [(40 if rank == 3 else 20) * MS + rank for rank in range(8)]
    assert gemm[1] == list(range(8)) and gemm[2] == gemm[0]
    moe = found["byRank"]["cells"][names.index("moe")]
    assert moe[0] == [0, 0, 0, 0, 4 * MS, 5 * MS, 6 * MS, 7 * MS]


def test_colors_are_red_above_the_mean_blue_below_and_gray_without_time(browser):
    write_job(Path.cwd())
    open_ranks(browser, merged("out.ranks"))
    slow, fast = color(browser, 3, 0), color(browser, 2, 0)
    assert slow[0] > slow[2] + 50 and fast[2] > fast[0] + 10
    names = [column["name"] for column in page_data(browser)["columns"]]
    none = color(browser, 1, names.index("moe"))
    assert max(none) - min(none) < 12 and max(none) < 250
    browser.click("#theme")
    assert max(color(browser, 1, names.index("moe"))) < 100
    browser.click("#theme")  # the page keeps it for the next test


def test_cell_is_chosen_by_keyboard_and_pointer(browser):
    write_job(Path.cwd())
    open_ranks(browser, merged("out.ranks"))
    assert cell(browser).startswith(
        "rank 0 on host0 · step > forward > gemm · 20.000 ms (−11.11 %)"
    )
    browser.run("document.getElementById('heat').focus()")
    for _ in range(3):
        browser.key("ArrowDown")
    assert cell(browser).startswith(
        "rank 3 on host0 · step > forward > gemm · 40.000 ms (+77.78 %)"
    )
    browser.key("ArrowLeft")  # already at the edge
    assert "rank 3" in cell(browser)
    send(browser, "click", 6, 0)
    assert cell(browser).startswith("rank 6 on host1")


def test_pointer_shows_the_cell_in_a_tooltip(browser):
    write_job(Path.cwd())
    open_ranks(browser, merged("out.ranks"))
    for row, name in ((3, "rank 3"), (4, "rank 4")):
        send(browser, "pointermove", row, 0)
        assert text(browser, "#tip").startswith(name)


def test_rows_are_hosts_on_request(browser):
    write_job(Path.cwd())
    open_ranks(browser, merged("out.ranks"))
    browser.click("#rows-hosts")
    assert box(browser)[4] == 2
    assert cell(browser).startswith(
        "host0 · step > forward > gemm · maximum 40.000 ms (+77.78 %), rank 3"
    )
    assert "mean of 4 ranks 25.000 ms (+11.11 %)" in cell(browser)
    assert "Full color: 77.78 %" in text(browser, "#heat-scale")
    browser.click("#cells-mean")
    assert "Full color: 11.11 %" in text(browser, "#heat-scale")
    browser.click("#rows-ranks")
    assert box(browser)[4] == 8


def test_many_ranks_share_rows(browser):
    """One of 1000 ranks is slow: the maximum of its row shows it, with its number."""
    for rank in range(1000):
        tree = {"gemm": (20 if rank == 777 else 10) * MS}
        write_rank(Path("big.ranks"), rank, tree, world=1000, host=f"node{rank // 2}")
    open_ranks(browser, merged("big.ranks"))
    assert text(browser, "#heat-about") == "1,000 ranks, 400 rows, 2 of 2 frames"
    found = page_data(browser)
    rows = found["byRank"]["rows"]
    assert len(rows) == 400 and sum(row[2] for row in rows) == 1000
    assert rows[0][:2] == [0, 2] and rows[-1][1] == 999
    slow = [row[0] <= 777 <= row[1] for row in rows].index(True)
    largest, who, mean = found["byRank"]["cells"][0]
    assert largest[slow] == 20 * MS and who[slow] == 777 and mean[slow] < 20 * MS
    assert [value for value in largest if value != 10 * MS] == [20 * MS]
    send(browser, "click", slow, 0)
    expected = r"ranks 77\d–77\d on node38\d · .* maximum 20.000 ms .*, rank 777"
    assert re.match(expected, cell(browser))
    browser.click("#rows-hosts")
    assert len(page_data(browser)["byHost"]["rows"]) == 400
    assert browser.run("document.getElementById('heat').getBoundingClientRect().height") < 900


def test_number_of_frames_can_be_chosen(browser):
    for rank in range(2):
        tree = {f"kernel{i:02}": (i + rank) * MS for i in range(1, 31)}
        write_rank(Path("out.ranks"), rank, tree, world=2)
    open_ranks(browser, merged("out.ranks"))
    assert box(browser)[5] == 20
    set_value(browser, "heat-frames", 31, "change")
    assert box(browser)[5] == 31
    assert text(browser, "#heat-about") == "2 ranks, 31 of 31 frames"


def test_ranks_that_are_not_finished_are_named(browser):
    source = write_job(Path.cwd())
    (source / "000-999" / "rank000005.hatchet").unlink()
    path = merged("out.ranks", "--allow-partial")
    report(browser, path, "--allow-partial")
    browser.click("#tab-ranks")
    problems = text(browser, "#rank-problems")
    assert problems == "1 rank is not finished: 5 (missing)"
    send(browser, "click", 5, 0)
    assert "no kernel time" in cell(browser)


def test_names_cannot_end_the_script(browser):
    for rank in range(2):
        write_rank(Path("out.ranks"), rank, {"</script><b>x": (rank + 1) * MS}, world=2, host="<i>")
    open_ranks(browser, merged("out.ranks"))
    assert "</script><b>x" in [column["name"] for column in page_data(browser)["columns"]]
    assert "on <i>" in cell(browser)


def test_page_is_in_the_address_and_only_in_merged_jobs(browser):
    write_job(Path.cwd())
    path = merged("out.ranks")
    open_ranks(browser, path)
    assert browser.run("location.hash") == "#tab=ranks"
    report(browser, path, "--top")
    assert browser.run("document.getElementById('tab-ranks').hidden")
    report(browser, Path("out.ranks"))  # merged on the way
    assert not browser.run("document.getElementById('tab-ranks').hidden")
    report(browser, *sorted(Path("out.ranks").rglob("*.hatchet")))  # so were these
    assert not browser.run("document.getElementById('tab-ranks').hidden")
    report(browser, next(Path("out.ranks").rglob("*.hatchet")))
    assert browser.run("document.getElementById('tab-ranks').hidden")
