"""Reports in a browser: fixtures, small profiles, and what a page shows."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, find_browser
from cmd_support import executable

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
PROGRAM = find_browser()
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium (Debian: chromium)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    started = Browser(PROGRAM, tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(autouse=True)
def no_errors(browser: Browser) -> Iterator[None]:
    browser.color_scheme("light")
    browser.window(1400, 1000)
    browser.errors.clear()
    yield
    assert browser.errors == []


def viewer(*arguments: object) -> str:
    command = [executable("proton-viewer"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=300)
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


NAME = (
    "(e => e.ariaLabel.slice(0, e.ariaLabel.lastIndexOf(', ' +"
    " document.getElementById('metric').selectedOptions[0].textContent + ': ')))"
)


def names(browser: Browser, selector: str = ".frame") -> list[str]:
    """The whole names of the frames that are drawn."""
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map({NAME})")


def text(browser: Browser, selector: str) -> str:
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def frame(name: str) -> str:
    return f"[...document.querySelectorAll('.frame')].find(e => {NAME}(e) === {json.dumps(name)})"


def focused(browser: Browser) -> str:
    return browser.run(f"{NAME}(document.activeElement)")


def tree_rows(path: Path, metrics: str) -> list[tuple[list[str], str]]:
    """The CLI's output: the numbers and the name of each line."""
    count = len(metrics.split(","))
    rows = []
    for line in viewer("--names", "raw", "-m", metrics, path).splitlines()[1:]:
        if not line:
            break
        *numbers, name = line.split(None, count)
        rows.append((numbers, re.sub(r"^[│├└─ ]*", "", name)))
    return rows


def set_value(browser: Browser, element: str, value: object, event: str) -> None:
    browser.run(f"document.getElementById('{element}').value = {json.dumps(value)}")
    browser.run(f"document.getElementById('{element}').dispatchEvent(new Event('{event}'))")


def search_for(browser: Browser, wanted: str) -> str:
    set_value(browser, "search", wanted, "input")
    return text(browser, "#found")


def choose_metric(browser: Browser, name: str) -> None:
    select = "document.getElementById('metric')"
    index = f"[...{select}.options].findIndex(e => e.textContent === {json.dumps(name)})"
    browser.run(f"{select}.selectedIndex = {index}")
    browser.run(f"{select}.dispatchEvent(new Event('change'))")
