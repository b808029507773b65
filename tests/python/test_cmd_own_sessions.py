"""A script with its own sessions under `proton` reads the command's recording so far."""

from pathlib import Path

from cmd_support import environment, own_lines, proton
from fake_driver import CC, launcher, machine
from support import load, names

import pytest

# As Triton's tutorials end: the profile is printed by the script that made it.
SHOW = """
import triton.profiler as proton
import triton.profiler.viewer as viewer

proton.start("matmul", hook="triton")
proton.deactivate()
proton.activate(0)
with proton.scope("naive", {"tokens": 3}):
    pass
proton.deactivate(0)
proton.finalize()
tree, metrics = viewer.parse(["tokens"], "matmul.hatchet")
viewer.print_tree(tree, metrics)
"""
NOTE = "matmul.hatchet is not written under the proton command; reading the data recorded so far"


def run(text: str, place: Path, *options: str, status: int = 0, **variables: str):
    (place / "script.py").write_text(text)
    env = environment(**{"PROTON_BACKEND": "host", **variables})
    result = proton(*options, "script.py", cwd=place, env=env)
    assert result.returncode == status, result.stderr
    return result


def test_script_prints_its_profile(tmp_path):
    result = run(SHOW, tmp_path)
    assert result.stdout.splitlines()[-4:-2] == ["     3  ROOT", "     3  └─ naive"]
    assert own_lines(result.stderr)[0] == NOTE and len(own_lines(result.stderr)) == 2
    # The session is still that of the command, which records to the end and writes one file.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proton.hatchet", "script.py"]
    assert names(load(tmp_path / "proton.hatchet")) == {"naive"}


def test_later_data_is_in_the_file_of_the_command(tmp_path):
    text = SHOW.replace("proton.deactivate(0)\n", "")
    text += "with proton.scope('later', {'tokens': 4}):\n    pass\n"
    text += "viewer.show_metrics('./matmul.hatchet')\n"
    result = run(text, tmp_path, "-n", "out", TMPDIR=str(tmp_path))
    assert "later" not in result.stdout and "- tokens\n" in result.stdout
    assert len(own_lines(result.stderr)) == 2 and not list(tmp_path.glob("proton-*"))
    assert names(load(tmp_path / "out.hatchet")) == {"naive", "later"}


def test_an_older_profile_of_the_name_is_not_shown(tmp_path):
    run(SHOW.replace("naive", "old"), tmp_path, "-n", "matmul")
    result = run(SHOW, tmp_path)
    assert "naive" in result.stdout and "old" not in result.stdout


def test_a_file_written_since_is_read(tmp_path):
    write = (
        "import os, pathlib\nproton.finalize()\n"
        "pathlib.Path('matmul.hatchet').write_bytes(pathlib.Path('new.hatchet').read_bytes())\n"
    )
    run(SHOW.replace("naive", "new"), tmp_path, "-n", "new")
    result = run(SHOW.replace("proton.finalize()\n", write), tmp_path)
    assert "new" in result.stdout and "naive" not in result.stdout


def test_names_that_the_script_did_not_start_are_missing(tmp_path):
    result = run(SHOW.replace('"matmul.hatchet"', '"other.hatchet"'), tmp_path, status=1)
    assert "No such file or directory: 'other.hatchet'" in result.stderr


def test_sessions_go_by_both_names_of_the_parameter(tmp_path):
    text = SHOW.replace("deactivate(0)", "deactivate(session_id=0)").replace(
        "activate(0)\n", "activate(session_id=0)\n"
    )
    refused = (
        "for end in (proton.activate, proton.deactivate, proton.finalize):\n"
        "    try:\n        end(session_id=1)\n"
        "    except ValueError as error:\n        print(error)\n"
        "    else:\n        raise SystemExit('accepted')\n"
    )
    result = run(text + refused, tmp_path)
    assert result.stdout.count("when running from the command line") == 3


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("backend", ["cupti", "rocprofiler", "roctracer"])
def test_kernels_in_flight_are_waited_for(backend, tmp_path):
    """The session continues if it was active, and stays paused if it was not."""
    launch = (
        f"import ctypes\nlibrary = ctypes.CDLL({launcher()!r})\n"
        f"library.load()\n"
        f"while {backend!r} == 'roctracer' and not library.is_found():\n    pass\n"
        "def launch(name):\n"
        "    with proton.scope(name):\n"
        "        library.launch(b'kernel', 1000)\n"
    )
    text = SHOW.replace("proton.start", launch + "proton.start", 1)
    text = text.replace("proton.deactivate(0)\n", "launch('flying')\n")
    text = text.replace('["tokens"]', '["count"]')
    (tmp_path / "script.py").write_text(text + "launch('after')\n")
    options = () if backend == "cupti" else ("--no-children",)  # HIP does not call here
    result = proton(*options, "script.py", cwd=tmp_path, env=machine(backend))
    assert result.returncode == 0, result.stderr
    assert "flying" in result.stdout and "after" not in result.stdout
    assert names(load(tmp_path / "proton.hatchet")) == {"naive", "flying", "after"}
