"""Every page of the report by the rules of axe-core for WCAG 2.2 A and AA, in both themes.

axe-core is in the wheel of axe-playwright-python, which .ci/run installs; only its script is used.
"""

import importlib.util
import json
from pathlib import Path

import pytest
from report_support import (  # noqa: F401 (fixtures)
    DATA,
    browser,
    kernel,
    needs_browser,
    no_errors,
    profile,
    scope,
    viewer,
)
from test_report_pages import PAGES
from test_report_timeline import record

PACKAGE = importlib.util.find_spec("axe_playwright_python")
pytestmark = [
    needs_browser,
    pytest.mark.skipif(PACKAGE is None, reason="no axe-core (pip install axe-playwright-python)"),
]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
COLORS = ["color-contrast", "link-in-text-block"]  # the rules that depend on the theme
FOUND = """.then(result => [result.passes.length, result.violations.flatMap(rule =>
rule.nodes.map(node => `${rule.id} ${node.target}: ${node.failureSummary}`))])"""


def axe() -> str:
    """The script of axe-core."""
    return (Path(PACKAGE.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(browser, is_color: bool = False) -> list[str]:
    if not browser.run("'axe' in window"):
        browser.run(axe() + "; 0")
    only = {"type": "rule", "values": COLORS} if is_color else {"type": "tag", "values": TAGS}
    run = f"axe.run(document, {json.dumps({'runOnly': only, 'resultTypes': ['violations']})})"
    passed, found = browser.run(run + FOUND, awaits=True)
    assert passed >= (1 if is_color else 10)  # rules that apply to the page
    return found


def tabs(browser) -> list[str]:
    return browser.run(
        "[...document.querySelectorAll('[role=tab]')].filter(e => !e.hidden).map(e => e.id)"
    )


def judge_tabs(browser, expected: list[str]) -> None:
    assert {f"tab-{name}" for name in expected} <= set(tabs(browser))
    for tab in tabs(browser):
        browser.run(f"document.getElementById('{tab}').click()")
        for theme in ("light", "dark"):
            browser.color_scheme(theme)
            assert violations(browser, theme == "dark") == [], (tab, theme)


@pytest.mark.parametrize("name", PAGES)
def test_pages_follow_the_guidelines(browser, tmp_path, monkeypatch, name):
    arguments, expected = PAGES[name]
    monkeypatch.chdir(DATA)
    viewer("-o", tmp_path / "report.html", *arguments)
    browser.open(tmp_path / "report.html")
    judge_tabs(browser, expected)


def test_the_time_line_follows_the_guidelines(browser, tmp_path):
    viewer("-o", tmp_path / "report.html", record(tmp_path, 20))
    browser.open(tmp_path / "report.html")
    judge_tabs(browser, ["timeline"])


def test_the_graph_in_use_follows_the_guidelines(browser, tmp_path):
    """Boxes, numbered frames, a search with hits, a zoom and a narrow window."""
    many = [scope(f"request_{i}", kernel("k", 10)) for i in range(40)]
    narrow = scope("narrow", *[kernel(f"n{i}", 1) for i in range(3000)])
    path = profile(tmp_path / "x.hatchet", *many, narrow, kernel("large", 900))
    viewer("-o", tmp_path / "report.html", path)
    for address in ("", "#search=large", "#zoom=narrow", "#tree=callers", "#about=k"):
        browser.open(tmp_path / "report.html", address)
        for width in (1400, 390):
            browser.window(width, 900, is_phone=width < 500)
            assert violations(browser) == [], (address, width)


def test_a_field_without_a_name_and_a_pale_text_are_violations(browser, tmp_path):
    viewer("-o", tmp_path / "report.html", DATA / "mixed.hatchet")
    browser.open(tmp_path / "report.html")
    browser.run("document.body.append(document.createElement('input'))")
    assert [found.split()[0] for found in violations(browser)] == ["label"]
    browser.run("document.getElementById('run').style.color = '#ddd'")
    assert [found.split()[0] for found in violations(browser, True)] == ["color-contrast"]
