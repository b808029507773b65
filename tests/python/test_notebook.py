"""A notebook that profiles a cell: executed by Jupyter's own client, and looked at in a browser."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from report_support import browser, needs_browser  # noqa: F401 (fixture)

for name in ("nbclient", "nbformat", "ipykernel"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"no {name} (pip install nbclient ipykernel)", allow_module_level=True)

import nbclient  # noqa: E402
import nbformat  # noqa: E402

CELL = """%%proton -b host {options}
import triton_proton as proton

def work():
    with proton.scope("inner", {{"things": 7}}):
        pass

with proton.scope("outer"):
    work()
"""


def execute(tmp_path: Path, *cells: str, allow_errors: bool = False) -> list:
    """The outputs of the cells after the extension is loaded."""
    notebook = nbformat.v4.new_notebook()
    sources = ["%load_ext triton_proton", *cells]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    client = nbclient.NotebookClient(
        notebook, timeout=300, startup_timeout=300, allow_errors=allow_errors,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells[1:]]


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Jupyter's files, and its kernel with this Python."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share" / "jupyter"))


def text_of(outputs: list) -> str:
    return "".join(one.get("text", "") for one in outputs)


def test_a_cell_is_profiled_and_its_report_is_shown(tmp_path: Path):
    shown, rows, kept = execute(
        tmp_path, CELL.format(options=""),
        "for row in _.metrics('things').select(frames='all'): print(row['frame'], row['things'])",
        CELL.format(options="-n kept -c python") + "print('ran')",
    )
    result = next(one for one in shown if one.output_type == "execute_result")
    assert result.data["text/html"].startswith("<iframe srcdoc=")
    assert result.data["text/plain"].startswith("<Profile ")
    assert text_of(rows).splitlines() == ["ROOT 7", "outer 7", "inner 7"]
    assert "ran" in text_of(kept) and (tmp_path / "kept.proton").exists()
    assert not list(tmp_path.glob("cell*"))


def test_the_cells_of_the_guide_run(tmp_path: Path):
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "notebooks.md"
    fences = re.compile(r"^```(?:python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    notebook = [cell for cell in fences.findall(page.read_text()) if re.match("%|_", cell)]
    assert len(notebook) == 3
    shown = execute(tmp_path, *notebook)[-1]
    result = next(one for one in shown if one.output_type == "execute_result")
    assert "samples" in result.data["text/plain"]


def test_python_frames_begin_in_the_cell(tmp_path: Path):
    cell = """%%proton -b host -c python
import triton_proton as proton
def work():
    with proton.scope("inner", {"things": 7}):
        pass
work()
"""
    _, names = execute(tmp_path, cell, "print([n.name for n in _.select(frames='all').nodes])")
    found = [name.rsplit("@", 1)[-1] for name in ast.literal_eval(text_of(names))]
    assert found == ["ROOT", "<module>", "work"]


def test_wrong_options_and_errors_of_the_cell_are_shown(tmp_path: Path):
    for cell, message in (
        ("%%proton --nothing\n1", "unrecognized arguments: --nothing"),
        ("%%proton -b host -c nothing\n1", "ValueError: "),
        ("%%proton -b host\n1 / 0", "ZeroDivisionError"),
    ):
        (outputs,) = execute(tmp_path, cell, allow_errors=True)
        errors = [one.ename + ": " + one.evalue for one in outputs if one.output_type == "error"]
        # IPython prints an error of usage as a line.
        assert message in "".join([*errors, text_of(outputs)])


@needs_browser
def test_the_report_works_in_its_frame(tmp_path: Path, browser):  # noqa: F811
    (shown,) = execute(tmp_path, CELL.format(options=""))
    result = next(one for one in shown if one.output_type == "execute_result")
    # In a notebook the frame has another origin, into which a test cannot look.
    cell = result.data["text/html"].replace('sandbox="', 'sandbox="allow-same-origin ')
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><title>cell</title>{cell}", encoding="utf-8")
    browser.errors.clear()
    browser.open(page)
    inside = "document.querySelector('iframe').contentDocument"
    browser.until(f"'ready' in {inside}.documentElement.dataset")
    text = browser.run(f"{inside}.body.innerText")
    assert "outer" in text and "things" in text
    assert browser.run("document.querySelector('iframe').clientHeight") > 300
    assert browser.errors == []
