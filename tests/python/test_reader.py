"""Profiles in Python: the same numbers as the viewer's, whatever takes them."""

import csv
import gzip
import io
import math
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

import triton_proton
from cmd_support import executable
from rank_support import write_job
from support import run_command
from triton_proton import ProtonError
from triton_proton.reader import Profile, Table

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
PROFILES = sorted(path for path in DATA.iterdir() if "finished" not in path.name)
NUMBERS = ("time/ns", "count")


@pytest.fixture(autouse=True)
def no_warnings():
    """Warnings of damaged and empty profiles are looked at where they are tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def view(*arguments: Any, status: int | None = 0) -> str:
    """The output of proton-viewer; with another status, its messages."""
    command = [executable("proton-viewer"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == status or status is None, done.stderr
    if done.returncode == 2:
        return done.stderr.decode().replace("proton-viewer: ", "").rstrip("\n")
    return done.stdout.decode("utf-8", "replace")


def unpacked(path: Path, directory: Path) -> Path:
    """The viewer does not read gzip."""
    if path.suffix != ".gz":
        return path
    target = directory / path.stem
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target


def csv_rows(text: str) -> tuple[list[str], list[list[str]]]:
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    if head[-1] == "partial":
        head, rows = head[:-1], [row[:-1] for row in rows]
    return head, rows


def as_csv(value: Any) -> Any:
    """The value of a field of CSV: numbers compare as numbers, text without changes for CSV."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    try:
        return float(value)
    except ValueError:
        return value.lstrip("'") if isinstance(value, str) else value


def check_table(table: Table, text: str) -> None:
    names, rows = csv_rows(text)
    assert table.columns == names
    found = [table._rows.column(i).tolist() for i in range(len(names))]
    assert len(table) == len(rows)
    for i, row in enumerate(rows):
        assert [as_csv(column[i]) for column in found] == [as_csv(field) for field in row]


DEEP = ["--depth", "100000"]
VIEWS: dict[str, tuple[Any, list[str]]] = {
    "tree": (lambda p: p, DEEP),
    "depth": (lambda p: p.select(depth=2), ["--depth", "2"]),
    "include": (lambda p: p.select("a"), [*DEEP, "-i", "a"]),
    "exclude": (lambda p: p.select(exclude="a"), [*DEEP, "-e", "a"]),
    "frames": (lambda p: p.select(frames="all"), [*DEEP, "--frames", "all"]),
    "hide": (lambda p: p.select(hide="e", show=None), [*DEEP, "--hide", "e"]),
    "top": (lambda p: p.top(), ["--top"]),
    "rows": (lambda p: p.top(3), ["--top", "-n", "3"]),
    "scopes": (lambda p: p.group("scope"), ["--group", "scope"]),
    "layers": (lambda p: p.select(depth=2).group("layer"), ["--group", "layer", "-d", "2"]),
    "callers": (lambda p: p.callers(), ["--bottom-up"]),
    "metrics": (lambda p: p.metrics(*NUMBERS), [*DEEP, "-m", ",".join(NUMBERS)]),
    "util": (lambda p: p.metrics("util", "gbyte/s"), [*DEEP, "-m", "util,gbyte/s"]),
    "threshold": (lambda p: p.select(threshold=0.1), [*DEEP, "-t", "0.1"]),
    "names": (lambda p: p.select(names="short"), [*DEEP, "--names", "short"]),
    "warps": (lambda p: p.warps(), ["--warps"]),
    "source": (lambda p: p.source(), ["--source"]),
    "ranks": (lambda p: p.ranks, ["--ranks=ranks"]),
    "frames of ranks": (lambda p: p.ranks.frames, ["--ranks=frames"]),
    "bad expression": (lambda p: p.select("("), [*DEEP, "-i", "("]),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_rows_and_the_errors_of_the_viewer(name: str, tmp_path: Path):
    made, arguments = VIEWS[name]
    shown = 0
    for path in PROFILES:
        plain = unpacked(path, tmp_path)
        text = view("--csv", "--allow-partial", *arguments, plain, status=None)
        try:
            table = made(triton_proton.load(plain))
            table._rows
        except ProtonError as error:
            lines = str(error).splitlines()  # what was a warning before is not repeated
            assert lines[-1] == text.splitlines()[-1], f"{name} of {path.name}"
            assert set(lines) <= set(text.splitlines())
            continue
        check_table(table, text)
        shown += 1
    assert shown or name == "bad expression"


def test_a_difference_has_the_rows_of_the_viewer(tmp_path: Path):
    pairs = [("cuda", "hip"), ("up_tree", "up_graph"), ("backward", "backward_slow")]
    for one, other in pairs:
        paths = [DATA / f"{name}.hatchet" for name in (one, other)]
        base, changed = map(triton_proton.load, paths)
        for view_name in ("tree", "top", "metrics"):
            made, arguments = VIEWS[view_name]
            text = view("--csv", *arguments, "--diff", paths[0], paths[1], status=None)
            check_table(made(changed.diff(base)), text)
            check_table(made(changed).diff(base), text)


def test_several_runs_of_each_side_have_intervals(tmp_path: Path):
    base = [DATA / "up_tree.hatchet", DATA / "up_op.hatchet"]
    runs = [DATA / "up_graph.hatchet", DATA / "up_pc.hatchet"]
    changed = triton_proton.load(runs).diff(triton_proton.load(base))
    options = [word for path in base for word in ("--diff", path)]
    check_table(changed, view("--csv", *DEEP, *options, *runs, status=None))
    assert any("verdict" in name for name in changed.columns)


def test_gates_that_fail_have_the_messages_of_the_viewer():
    base, changed = (DATA / f"{name}.hatchet" for name in ("backward", "backward_slow"))
    for paths, gates in (([changed], ["count > 0"]), ([changed, "--diff", base], ["time < +1%"])):
        words = ["--csv", *(word for gate in gates for word in ("--fail-if", gate))]
        done = run_command([executable("proton-viewer"), *paths, *words], status=3)
        profile = triton_proton.load(changed)
        profile = profile if len(paths) == 1 else profile.diff(triton_proton.load(base))
        assert profile.failures(*gates) == done.stderr.replace("proton-viewer: ", "").splitlines()
        assert profile.failures("count < 0") == []
    with pytest.raises(ProtonError, match="requires --diff"):
        triton_proton.load(changed).failures("time > +1%")


def test_a_job_has_its_ranks(tmp_path: Path):
    job = write_job(tmp_path)
    profile = triton_proton.load(job)
    check_table(profile, view("--csv", *DEEP, job))
    check_table(profile.ranks, view("--csv", "--ranks=ranks", job))
    check_table(profile.ranks.frames, view("--csv", "--ranks=frames", job))
    check_table(profile.ranks.groups, view("--csv", "--ranks=groups", job))
    check_table(triton_proton.load(job, rank=3), view("--csv", *DEEP, "--rank", "3", job))
    check_table(triton_proton.load(job, merge="mean"), view("--csv", *DEEP, "--merge", "mean", job))
    assert profile.ranks["rank"].tolist() == list(range(8))


def test_json_and_text_are_those_of_the_viewer():
    path = DATA / "cuda.hatchet"
    profile = triton_proton.load(path).top(2)
    assert profile.to_json() == view("--json", "--top", "-n", "2", path)
    assert str(profile) == view("--top", "-n", "2", path).rstrip("\n")
    assert "cuda.hatchet" in repr(profile)


def test_metric_names_are_those_of_the_list():
    path = DATA / "cuda.hatchet"
    names, rows = csv_rows(view("--list", "--csv", path))
    assert triton_proton.load(path).top().metric_names == [row[0] for row in rows]


def test_a_profile_stays_what_was_loaded(tmp_path: Path):
    path = tmp_path / "run.hatchet"
    shutil.copy(DATA / "cuda.hatchet", path)
    before = triton_proton.load(path)
    shutil.copy(DATA / "cuda.hatchet", tmp_path / "copy.hatchet")
    path.write_bytes((DATA / "hip.hatchet").read_bytes())
    after = triton_proton.load(path)
    path.unlink()
    check_table(before.top(), view("--csv", "--top", DATA / "cuda.hatchet"))
    check_table(after.top(), view("--csv", "--top", DATA / "hip.hatchet"))
    expected = view("--csv", *DEEP, "--diff", DATA / "cuda.hatchet", DATA / "hip.hatchet")
    check_table(after.diff(before), expected)


def test_every_format_is_read_also_compressed(tmp_path: Path):
    source = DATA / "up_tree.hatchet"
    rows = list(triton_proton.load(source))
    for path in (source, DATA / "up_tree.hatchet_msgpack"):
        packed = tmp_path / (path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert list(triton_proton.load(path)) == rows
        assert list(triton_proton.load(packed)) == rows
    halves = source.read_bytes()
    both = gzip.compress(halves[:100]) + gzip.compress(halves[100:])
    packed.write_bytes(both)
    assert list(triton_proton.load(packed)) == rows
    assert len(triton_proton.load(DATA / "finished.proton.gz")) > 1


def test_bad_files_are_one_exception(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        triton_proton.load(tmp_path / "none.proton")
    bad = tmp_path / "bad.proton"
    packed = gzip.compress((DATA / "cuda.hatchet").read_bytes())
    contents = {
        "it is not a profile": b"something else",
        "it is empty": b"",
        "is not complete": packed[:-20],
        "not valid gzip": packed[:10] + b"\xff" * 40,
        "too much memory": gzip.compress(b"[" * (64 << 20)),
        "it is compressed with zstd": gzip.compress(b"\x28\xb5\x2f\xfd1234"),
    }
    for message, content in contents.items():
        bad.write_bytes(content)
        with pytest.raises(ProtonError, match=message):
            triton_proton.load(bad)
    with pytest.raises(ProtonError, match="without profiles"):
        (tmp_path / "empty").mkdir()
        triton_proton.load(tmp_path / "empty")
    with pytest.raises(ValueError, match="at least one path"):
        triton_proton.load([])


def test_damaged_bytes_are_an_exception_or_a_profile(tmp_path: Path):
    """Every 16th byte of a small file is changed; `make sanitize` runs this."""
    content = gzip.decompress((DATA / "finished.proton.gz").read_bytes())
    path = tmp_path / "damaged.proton"
    outcomes = set()
    for at in range(0, min(len(content), 16384), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        try:
            profile = triton_proton.load(path)
            list(profile)
            profile.top().to_json()
            outcomes.add("read")
        except ProtonError as error:
            assert str(error)
            outcomes.add("refused")
    assert "read" in outcomes


def test_messages_of_the_viewer_are_warnings_once():
    path = DATA / "losses.hatchet"
    messages = run_command([executable("proton-viewer"), path]).stderr.splitlines()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        profile = triton_proton.load(path)
        profile.top().to_json()
        str(profile)
    found = [str(one.message) for one in caught]
    assert found and all("proton-viewer: " + text in messages for text in found)
    assert len(found) == len(set(found))
    assert {one.filename for one in caught} == {__file__}


def test_wrong_arguments_have_the_messages_of_the_viewer():
    profile = triton_proton.load(DATA / "cuda.hatchet")
    with pytest.raises(ProtonError, match="metric tyme/ms is not found .near: time/ms"):
        profile.metrics("tyme/ms").df
    with pytest.raises(ProtonError, match="--group"):
        profile.group("nothing").df
    with pytest.raises(ValueError, match="metric_names"):
        profile.metrics()
    with pytest.raises(KeyError, match="the columns are"):
        profile["nothing"]
    with pytest.raises(ProtonError, match="--ranks"):
        profile.ranks


def test_nodes_are_a_tree():
    profile = triton_proton.load(DATA / "up_tree.hatchet").metrics("time/ns")
    nodes = profile.nodes
    rows = list(profile)
    assert len(nodes) == len(profile) == len(rows)
    root = nodes[0]
    assert root.name == "ROOT" and root.parent is None and root.path == ("ROOT",)
    for node, row in zip(nodes, rows):
        assert node.depth == row["depth"] and node["time/ns"] == row["time/ns"]
        assert node.path[-1] == row["frame"] and len(node.path) == row["depth"] + 1
        assert node.children == [n for n in nodes if n.parent == node]
    assert nodes[-1] == nodes[len(nodes) - 1]
    assert [node.children for node in profile.top().nodes] == [[]] * len(profile.top())


def test_numpy_and_pandas_have_the_values():
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    profile = triton_proton.load(DATA / "mixed.hatchet")
    column = numpy.asarray(profile[profile.columns[-1]])
    assert column.shape == (len(profile),)
    for path in PROFILES:
        table = triton_proton.load(path) if "finished" not in path.name else None
        frame = table.df
        assert list(frame.columns) == table.columns and len(frame) == len(table)
        for name in table.columns:
            values = [None if pandas.isna(value) else value for value in frame[name]]
            assert values == [as_none(value) for value in table[name].tolist()]


def as_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def test_a_column_is_a_buffer_that_outlives_its_profile():
    profile = triton_proton.load(DATA / "cuda.hatchet")
    view_of = memoryview(profile["depth"])
    values = profile["depth"].tolist()
    del profile
    assert view_of.format == "q" and view_of.readonly and view_of.tolist() == values
    with pytest.raises(BufferError, match="tolist"):
        memoryview(triton_proton.load(DATA / "cuda.hatchet")["frame"])


def test_arrow_takes_the_memory():
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for path in PROFILES:
        profile = triton_proton.load(path)
        table = profile.to_arrow()
        table.validate(full=True)
        assert table.column_names == profile.columns
        for i, name in enumerate(table.column_names):
            found = [as_none(value) for value in table.column(i).to_pylist()]
            assert found == [as_none(v) for v in profile._rows.column(i).tolist()], name
    profile = triton_proton.load(DATA / "cuda.hatchet")
    address = pyarrow.py_buffer(profile["depth"]).address
    table = pyarrow.table(profile)
    assert table["depth"].chunk(0).buffers()[1].address == address
    del profile
    assert table["depth"][0].as_py() == 0


def test_a_stream_is_read_once_and_released_without_a_reader():
    for _ in range(1000):
        triton_proton.load(DATA / "empty.hatchet").__arrow_c_stream__()


def test_a_session_that_records_can_be_loaded(tmp_path: Path):
    session = triton_proton.start(str(tmp_path / "run"), backend="host")
    assert session is not None
    with triton_proton.scope("here", {"things": 3}):
        pass
    profile = triton_proton.load(session)
    with triton_proton.scope("later", {"things": 4}):
        pass
    triton_proton.finalize(session)
    row = next(row for row in profile.metrics("things") if row["frame"] == "here")
    assert row["things"] == 3
    assert all(node.name != "later" for node in profile.nodes)
    assert len(triton_proton.load(tmp_path / "run.hatchet")) == len(profile) + 1


def test_threads_may_read_at_once():
    from concurrent.futures import ThreadPoolExecutor

    paths = [path for path in PROFILES if path.suffix == ".hatchet"] * 3
    expected = [list(triton_proton.load(path)) for path in paths]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda path: list(triton_proton.load(path)), paths))
    assert repr(found) == repr(expected)


def test_polars_and_duckdb_take_a_profile():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    profile = triton_proton.load(DATA / "configs.hatchet").metrics("time/ns", "launch_config")
    rows = list(profile)
    assert polars.DataFrame(profile).rows(named=True) == rows
    assert duckdb.sql("SELECT frame FROM profile").fetchall() == [(r["frame"],) for r in rows]


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Its cells for Jupyter are run in test_notebook.py."""
    pytest.importorskip("pandas")
    shutil.copy(DATA / "cuda.hatchet", tmp_path / "before.hatchet")
    shutil.copy(DATA / "hip.hatchet", tmp_path / "after.hatchet")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = [cell for cell in guide_cells("notebooks.md") if not cell.startswith("_")]
    assert len(cells) == 2
    for cell in cells:
        exec(cell, names)
    assert names["frame"].columns.tolist() == ["frame", "time/ms", "count"]
    assert names["slow"] and names["changes"] and "frame" in capsys.readouterr().out


def guide_cells(page: str) -> list[str]:
    text = (DATA.parents[2] / "docs" / "guide" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_report_is_in_a_frame():
    profile = triton_proton.load(DATA / "cuda.hatchet")
    page = profile._repr_html_()
    assert page is not None and page.startswith("<iframe srcdoc=")
    assert "<script" not in page and "&lt;script" in page
