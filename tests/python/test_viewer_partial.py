"""Incomplete input, given to every view of proton-viewer: exit status, and one message.

Users may look at a part of a profile, with a warning. Gates, comparisons and output for other
programs are rejected, unless --allow-partial accepts it; then the output is marked.
"""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import executable

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"

LIVE = """
import sys
import triton_proton as proton
proton.start("live", backend="host")
for i in range(10):
    with proton.scope(f"s{i}", {"count": 1}):
        pass
print(flush=True)
sys.stdin.readline()
"""

# Output for users, and output for other programs.
FOR_USERS = {
    "tree": [],
    "top": ["--group", "scope", "-m", "count"],
    "bottom-up": ["--bottom-up", "-m", "count"],
    "list": ["--list"],
    "sorted": ["--print-sorted"],
    "merge": ["--merge", "mean"],
    "html": ["--export", "html"],
}
FOR_PROGRAMS = {
    "csv": ["--csv"],
    "json": ["--json"],
    "top csv": ["--group", "scope", "--csv", "-m", "count"],
    "gate": ["--fail-if", "count > 1e9"],
    "gate and merge": ["--merge", "max", "--fail-if", "count > 1e9"],
    "diff": ["-m", "count", "--diff", str(DATA / "cuda.hatchet")],
    "diff json": ["-m", "count", "--json", "--diff", str(DATA / "cuda.hatchet")],
    "csv file": ["--export", "csv"],
    "folded": ["--export", "folded", "-m", "count"],
    "speedscope": ["--export", "speedscope", "-m", "count"],
    "pprof": ["--export", "pprof", "-m", "count"],
    "hatchet": ["--export", "hatchet"],
    "hatchet_msgpack": ["--export", "hatchet_msgpack"],
}


def viewer(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [executable("proton-viewer"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=300)


def messages_of(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    lines = done.stderr.decode().splitlines()
    assert all(line.startswith("proton-viewer: ") for line in lines), lines
    return [line[len("proton-viewer: ") :] for line in lines]


def unpacked(name: str) -> bytes:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Incomplete profiles: name -> (path, what the message says of it)."""
    folder = tmp_path_factory.mktemp("partial")
    contents = {
        "cut.hatchet": ((DATA / "cuda.hatchet").read_bytes()[:-300], "is corrupt"),
        "cut.hatchet_msgpack": (
            (DATA / "up_tree.hatchet_msgpack").read_bytes()[:-50],
            "is corrupt",
        ),
        "killed.proton": (unpacked("unfinished.proton"), "incomplete recording"),
        "damaged.proton": (unpacked("finished.proton")[:-10], "is corrupt"),  # in its last table
    }
    result = {}
    for name, (data, printed) in contents.items():
        (folder / name).write_bytes(data)
        result[name] = (folder / name, printed)
    ranks = folder / "ranks"
    ranks.mkdir()
    (ranks / "0.hatchet").write_bytes((DATA / "cuda.hatchet").read_bytes())
    (ranks / "1.hatchet").write_bytes((DATA / "cuda.hatchet").read_bytes()[:-300])
    result["ranks"] = (ranks, "1.hatchet is corrupt")
    command = [sys.executable, "-c", LIVE]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        result["live.proton"] = (folder / "live.proton", "is still recording")
        yield result
        process.communicate(b"\n", timeout=300)


NAMES = [
    "cut.hatchet", "cut.hatchet_msgpack", "killed.proton", "damaged.proton", "live.proton", "ranks",
]


@pytest.mark.parametrize("view", FOR_USERS)
@pytest.mark.parametrize("name", NAMES)
def test_users_see_a_part_with_a_warning(inputs, name, view):
    path, printed = inputs[name]
    done = viewer(*FOR_USERS[view], path)
    ran_kernels = (name, view) != ("live.proton", "bottom-up")
    is_damaged = "corrupt" in printed
    assert done.returncode == (is_damaged if ran_kernels else 2)
    if is_damaged:
        assert viewer("--allow-partial", *FOR_USERS[view], path).returncode == 0
    assert bool(done.stdout) == ran_kernels
    assert any(printed in line for line in messages_of(done))


@pytest.mark.parametrize("view", FOR_PROGRAMS)
@pytest.mark.parametrize("name", NAMES)
def test_programs_and_gates_get_no_part_unless_it_is_allowed(inputs, name, view):
    path, printed = inputs[name]
    done = viewer(*FOR_PROGRAMS[view], path)
    (line,) = messages_of(done)
    assert done.returncode == 2 and not done.stdout
    assert printed in line and "needs a complete profile; use --allow-partial" in line
    done = viewer("--allow-partial", *FOR_PROGRAMS[view], path)
    assert done.returncode == 0 and done.stdout
    assert any(printed in line for line in messages_of(done))


@pytest.mark.parametrize("view", [v for v in FOR_PROGRAMS if "diff" in v])
@pytest.mark.parametrize("name", NAMES)
def test_an_incomplete_baseline_is_rejected(inputs, name, view):
    path, printed = inputs[name]
    options = [path if Path(option).is_absolute() else option for option in FOR_PROGRAMS[view]]
    done = viewer(*options, DATA / "cuda.hatchet")
    (line,) = messages_of(done)
    assert (done.returncode, done.stdout) == (2, b"") and printed in line
    assert viewer("--allow-partial", *options, DATA / "cuda.hatchet").returncode == 0


@pytest.mark.parametrize("name", ["cut.hatchet", "killed.proton"])
def test_a_report_that_compares_needs_complete_profiles(inputs, name):
    report = ["--export", "html", "--diff"]
    part, whole = inputs[name][0], DATA / "cuda.hatchet"
    for files in ([part, whole], [whole, part]):
        done = viewer(*report, *files)
        assert (done.returncode, done.stdout) == (2, b"")
        assert "--diff needs a complete profile" in messages_of(done)[0]
        assert viewer("--allow-partial", *report, *files).returncode == 0


@pytest.mark.parametrize("gate", ["count > 1", "count < 1e9", "count > 1e9"])
def test_a_gate_on_a_part_neither_fails_nor_passes(inputs, gate):
    done = viewer("--fail-if", gate, inputs["cut.hatchet"][0])
    assert (done.returncode, done.stdout) == (2, b"")
    done = viewer("--allow-partial", "--fail-if", gate, inputs["cut.hatchet"][0])
    assert done.returncode == (0 if gate == "count > 1e9" else 3)


@pytest.mark.parametrize("view", [*FOR_USERS, *FOR_PROGRAMS])
@pytest.mark.parametrize("kind", ["missing", "empty", "noise"])
def test_no_profile_is_an_error_everywhere(tmp_path, view, kind):
    path = tmp_path / "x.hatchet"
    if kind != "missing":
        path.write_bytes(b"" if kind == "empty" else b"noise\0" * 99)
    done = viewer(*(FOR_USERS | FOR_PROGRAMS)[view], path)
    (line,) = messages_of(done)
    assert (done.returncode, done.stdout) == (2, b"") and str(path) in line
    done = viewer("--allow-partial", *(FOR_USERS | FOR_PROGRAMS)[view], path)
    assert (done.returncode, done.stdout) == (2, b"") and str(path) in messages_of(done)[0]


@pytest.fixture
def one_bad(tmp_path):
    """A directory of two whole profiles and one that is empty, as a full disk leaves it."""
    for name in "02":
        (tmp_path / f"{name}.hatchet").write_bytes((DATA / "cuda.hatchet").read_bytes())
    (tmp_path / "1.hatchet").touch()
    return tmp_path


@pytest.mark.parametrize("view", FOR_USERS)
def test_users_see_the_good_files_of_a_directory(one_bad, view):
    done = viewer(*FOR_USERS[view], one_bad)
    assert done.returncode == 2 and done.stdout
    assert any("1.hatchet: it is empty" in line for line in messages_of(done))
    assert viewer("--allow-partial", *FOR_USERS[view], one_bad).returncode == 0


@pytest.mark.parametrize("view", FOR_PROGRAMS)
def test_programs_get_all_files_of_a_directory_or_none(one_bad, view):
    done = viewer(*FOR_PROGRAMS[view], one_bad)
    (line,) = messages_of(done)
    assert (done.returncode, done.stdout) == (2, b"") and "1.hatchet: it is empty" in line
    done = viewer("--allow-partial", *FOR_PROGRAMS[view], one_bad)
    assert done.returncode == 0 and done.stdout


def test_a_missing_file_is_never_left_out(one_bad):
    done = viewer("--allow-partial", "--csv", one_bad, one_bad / "3.hatchet")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("name", ["cut.hatchet", "killed.proton", "ranks"])
def test_output_with_allow_partial_is_marked(inputs, name):
    def output(*arguments: str) -> bytes:
        return viewer("--allow-partial", *arguments, inputs[name][0]).stdout

    assert json.loads(output("--json"))["partial"] is True
    assert json.loads(viewer("--json", DATA / "cuda.hatchet").stdout)["partial"] is False
    for option in (["--csv"], ["--export", "csv"], ["--merge", "mean", "--csv"]):
        head, *rows = output(*option).decode().splitlines()
        assert head.endswith(",partial") and rows and all(row.endswith(",1") for row in rows)
    speedscope = json.loads(output("--export", "speedscope", "-m", "count"))
    assert speedscope["name"].endswith(" (partial)")
    whole = gzip.decompress(output("--export", "pprof", "-m", "count"))
    assert b"partial: 1" in whole
    root = json.loads(output("--export", "hatchet"))[0]["proton"]
    assert root.get("damaged") or root.get("unfinished")


def test_a_file_left_out_is_marked(one_bad):
    assert json.loads(viewer("--allow-partial", "--json", one_bad).stdout)["partial"] is True
    done = viewer("--allow-partial", "--json", "--merge", "max", one_bad)
    assert json.loads(done.stdout)["partial"] is True


NOT_SELECTED = {
    "tree": ([], 0),
    "top": (["--top"], 2),
    "bottom-up": (["--bottom-up"], 2),
    "csv": (["--csv"], 0),
    "json": (["--json"], 0),
    "top csv": (["--top", "--csv"], 0),
    "top json": (["--top", "--json"], 0),
    "diff": (["--diff", str(DATA / "cuda.hatchet")], 0),
    "export": (["--export", "csv"], 0),
    "gate in a table": (["--top", "--fail-if", "count > 1"], 2),
    "gate in the tree": (["--fail-if", "count > 1e9"], 0),
}


@pytest.mark.parametrize("view", NOT_SELECTED)
def test_no_frame_selected_is_reported(view):
    options, status = NOT_SELECTED[view]
    done = viewer("-i", "nothing like that", *options, DATA / "cuda.hatchet")
    assert done.returncode == status
    assert messages_of(done)[0] == 'no frame matches "nothing like that"'
    if "json" in view:
        assert len(json.loads(done.stdout)["rows"]) == ("--top" not in options)
    if "csv" in view:
        assert re.match(rb"(node,parent,depth,)?frame", done.stdout)


@pytest.mark.parametrize("view", [*FOR_USERS, *FOR_PROGRAMS])
def test_a_profile_without_measurements_is_reported(view):
    done = viewer(*(FOR_USERS | FOR_PROGRAMS)[view], DATA / "empty.hatchet")
    assert done.returncode == (2 if view in {"gate", "gate and merge"} else 0) or done.stderr
    if "json" in view:
        json.loads(done.stdout)
    elif "csv" in view:
        assert done.stdout


def test_markdown_without_measurements_is_a_message():
    done = viewer("--export", "markdown", DATA / "empty.hatchet")
    assert (done.returncode, done.stdout) == (2, b"") and len(messages_of(done)) == 1


def test_gates_are_not_ignored_by_list():
    done = viewer("--list", "--fail-if", "count > 1", DATA / "cuda.hatchet")
    assert messages_of(done) == ["Cannot specify both --list and --fail-if"]
    assert (done.returncode, done.stdout) == (2, b"")
