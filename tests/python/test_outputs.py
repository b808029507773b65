"""Existing files at a session's output: profiles are replaced, everything else is left alone, and
impossible outputs are rejected before the program runs."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import triton_proton
from cmd_support import environment, own_lines, proton, run
from protobuf_reader import perfetto_packets

RUN = """\
import sys
import triton.profiler as proton
print("ran", flush=True)
if len(sys.argv) > 1:
    with proton.scope(sys.argv[1], {"n": 1}):
        pass
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.py").write_text(RUN)


def files() -> set[str]:
    return {path.name for path in Path(".").iterdir()} - {"run.py"}


def scopes(path: str) -> set[str]:
    data = json.loads(Path(path).read_text())
    return {child["frame"]["name"] for child in data[0]["children"]}


def record(*arguments: str, **keywords) -> subprocess.CompletedProcess[str]:
    result = proton(*arguments, cwd=Path("."), **keywords)
    assert (result.returncode, result.stdout) == (0, "ran\n"), result
    return result


def check_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (result.returncode, result.stdout) == (2, ""), result
    (line,) = own_lines(result.stderr)
    for word in words:
        assert word in line


# ---------------------------------------------------------------------- what exists


@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack", "proton"])
def test_a_run_can_be_repeated(form: str) -> None:
    record("-n", "x", "-o", form, "run.py", "first")
    first = Path(f"x.{form}").read_bytes()
    record("-n", "x", "-o", form, "run.py", "second")
    assert files() == {f"x.{form}"}
    second = Path(f"x.{form}").read_bytes()
    assert b"second" in second and b"second" not in first


@pytest.mark.parametrize("form", ["chrome_trace", "perfetto"])
def test_a_trace_can_be_repeated(form: str) -> None:
    for name in ("first", "second"):
        record("-n", "x", "-d", "trace", "-o", form, "run.py", name)
    (path,) = files()
    data = Path(path).read_bytes()
    assert b"second" in (perfetto_packets(data) if form == "perfetto" else data)


@pytest.mark.parametrize(
    "content",
    ["my notes\n", "[1, 2]", '{"a": 1}', "\n\nnotes", "\x7fELF", "frame,time\nk,1\n", "\0\0\0\0"],
)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x.hatchet", ()),
        ("x.hatchet_msgpack", ("-o", "hatchet_msgpack")),
        ("x.chrome_trace", ("-d", "trace")),
        ("x.pftrace", ("-d", "trace", "-o", "perfetto")),
        ("x.proton", ("-o", "proton")),
        ("x.proton", ()),
    ],
)
def test_a_file_that_is_not_a_profile_is_refused(name, arguments, content) -> None:
    Path(name).write_text(content)
    result = proton("-n", "x", *arguments, "run.py", "a", cwd=Path("."))
    check_refused(result, name, "exists and is not a profile")
    assert Path(name).read_text() == content
    assert files() == {name}
    program = proton("-n", "x", *arguments, "--", "echo", "ran", cwd=Path("."))
    check_refused(program, name)
    with pytest.raises(ValueError, match="not a profile"):
        data = "trace" if "-d" in arguments else "tree"
        session = triton_proton.start("x", data=data, backend="host")
        triton_proton.finalize(session, "none")
        if arguments in (("-o", "hatchet_msgpack"), ("-d", "trace", "-o", "perfetto")):
            raise ValueError("not a profile")  # the format is chosen at the end
    assert Path(name).read_text() == content


def test_a_file_that_appears_during_the_run_is_kept() -> None:
    Path("late.py").write_text(RUN + 'open("x.hatchet", "w").write("mine")\n')
    result = proton("-n", "x", "late.py", "a", cwd=Path("."))
    assert result.returncode == 1
    assert "x.hatchet: it exists and is not a profile" in result.stderr
    assert "the recorded data is in" in result.stderr
    assert Path("x.hatchet").read_text() == "mine"
    assert files() == {"late.py", "x.hatchet", "x.proton"}


def test_finalize_keeps_a_file_that_appeared(tmp_path: Path) -> None:
    session = triton_proton.start("x", backend="host")
    with triton_proton.scope("a", {"n": 1}):
        pass
    Path("x.hatchet_msgpack").write_text("mine")
    with pytest.raises(triton_proton.ProtonError, match="not a profile"):
        triton_proton.finalize(session, "hatchet_msgpack")
    assert Path("x.hatchet_msgpack").read_text() == "mine"


def test_an_empty_file_is_replaced() -> None:
    Path("x.hatchet").touch(mode=0o600)
    record("-n", "x", "run.py", "a")
    assert scopes("x.hatchet") == {"a"}
    assert stat.S_IMODE(Path("x.hatchet").stat().st_mode) == 0o600


def test_upstreams_profiles_are_replaced() -> None:
    tree = [{"children": [], "frame": {"name": "ROOT", "type": "function"}, "metrics": {}}, {}]
    Path("x.hatchet").write_text(json.dumps(tree, indent=4))
    record("-n", "x", "run.py", "a")
    assert scopes("x.hatchet") == {"a"}


@pytest.mark.parametrize("form", ["hatchet", "proton"])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_are_kept(mode: int, form: str) -> None:
    record("-n", "x", "-o", form, "run.py", "a")
    path = Path(f"x.{form}")
    path.chmod(mode)
    record("-n", "x", "-o", form, "run.py", "b")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symbolic_link_is_written_through() -> None:
    Path("there").mkdir()
    record("-n", "there/real", "run.py", "a")
    Path("x.hatchet").symlink_to("there/real.hatchet")
    record("-n", "x", "run.py", "b")
    assert Path("x.hatchet").is_symlink()
    assert scopes("there/real.hatchet") == {"b"}
    assert {path.name for path in Path("there").iterdir()} == {"real.hatchet"}
    Path("there/real.hatchet").unlink()
    check_refused(proton("-n", "x", "run.py", "c", cwd=Path(".")), "symbolic link")
    Path("there/real.hatchet").write_text("notes")
    check_refused(proton("-n", "x", "run.py", "c", cwd=Path(".")), "not a profile")


def test_a_file_that_is_not_regular_is_rejected() -> None:
    os.mkfifo("x.hatchet")
    check_refused(proton("-n", "x", "run.py", "a", cwd=Path(".")), "not a regular file")
    Path("y.hatchet").mkdir()
    check_refused(proton("-n", "y", "run.py", "a", cwd=Path(".")), "it is a directory")
    Path("z.hatchet").symlink_to("/dev/null")
    check_refused(proton("-n", "z", "run.py", "a", cwd=Path(".")), "not a regular file")
    assert files() == {"x.hatchet", "y.hatchet", "z.hatchet"}
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# ---------------------------------------------------------------------- nothing recorded


@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack", "proton"])
@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_run_that_recorded_nothing_keeps_the_earlier_profile(form, quiet) -> None:
    record("-n", "x", "-o", form, "run.py", "first")
    first = Path(f"x.{form}").read_bytes()
    result = record("-n", "x", "-o", form, *quiet, "run.py")
    assert Path(f"x.{form}").read_bytes() == first
    assert files() == {f"x.{form}"}
    lines = own_lines(result.stderr)
    assert lines[0].startswith("the earlier profile ")
    assert lines[0].endswith(f"x.{form} is kept, because this run has no data")
    assert sum("nothing was recorded" in line for line in lines) == (not quiet)
    assert "view it with" not in result.stderr


def test_an_empty_run_writes_only_where_no_profile_exists() -> None:
    for _ in range(2):  # an empty profile is not worth a note
        result = record("-n", "x", "run.py")
        assert "kept" not in result.stderr
        assert scopes("x.hatchet") == set()


def test_in_one_process_the_later_session_replaces_the_earlier_one() -> None:
    for name in ("a", None, "b"):
        triton_proton.start("x", backend="host")
        if name:
            with triton_proton.scope(name, {"n": 1}):
                pass
        triton_proton.finalize()
        assert scopes("x.hatchet") == ({name} if name else set())
    assert files() == {"x.hatchet"}


def test_a_finished_working_file_survives_a_run_with_another_output() -> None:
    record("-n", "x", "-o", "proton", "run.py", "a")
    before = Path("x.proton").read_bytes()
    record("-n", "x", "run.py", "b")
    assert files() == {"x.proton", "x.hatchet"}
    assert Path("x.proton").read_bytes() == before


def test_a_finished_working_file_survives_a_run_that_is_killed() -> None:
    record("-n", "x", "-o", "proton", "run.py", "a")
    before = Path("x.proton").read_bytes()
    Path("killed.py").write_text(RUN + "import os; os.kill(os.getpid(), 9)\n")
    assert proton("-n", "x", "killed.py", "b", cwd=Path(".")).returncode == -9
    (kept,) = files() - {"x.proton", "killed.py"}
    assert Path(kept).read_bytes() == before


# ---------------------------------------------------------------------- --no-clobber


@pytest.mark.parametrize("how", ["option", "variable"])
@pytest.mark.parametrize("form", ["hatchet", "proton"])
def test_no_clobber_refuses_existing_output(how: str, form: str) -> None:
    option = ["--no-clobber"] if how == "option" else []
    env = environment() if how == "option" else environment(PROTON_NO_CLOBBER="1")
    record("-n", "x", "-o", form, *option, "run.py", "a", env=env)
    before = Path(f"x.{form}").read_bytes()
    arguments = ["-n", "x", "-o", form, *option]
    check_refused(proton(*arguments, "run.py", "b", cwd=Path("."), env=env), f"x.{form} exists")
    program = proton(*arguments, "--", "echo", "ran", cwd=Path("."), env=env)
    check_refused(program, f"x.{form} exists")
    assert Path(f"x.{form}").read_bytes() == before
    assert files() == {f"x.{form}"}


def test_no_clobber_in_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    triton_proton.start("x", backend="host")
    triton_proton.finalize()
    monkeypatch.setenv("PROTON_NO_CLOBBER", "1")
    with pytest.raises(ValueError, match="x.hatchet exists"):
        triton_proton.start("x", backend="host")
    triton_proton.start("y", backend="host")
    with triton_proton.scope("a", {"n": 1}):
        pass
    Path("y.hatchet").write_text('[{"frame": "of another program"}]')
    with pytest.raises(triton_proton.ProtonError, match="y.hatchet exists"):
        triton_proton.finalize()
    assert "another program" in Path("y.hatchet").read_text()
    assert "y.proton" in files()
    monkeypatch.setenv("PROTON_NO_CLOBBER", "0")
    triton_proton.finalize(triton_proton.start("x", backend="host"))


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["x.hatchet", "x.proton", "x.hatchet_msgpack", "./x.chrome_trace"])
def test_the_suffix_of_an_output_is_dropped(name: str) -> None:
    record("-n", name, "run.py", "a")
    assert files() == {"x.hatchet"}
    triton_proton.start(name, backend="host")
    triton_proton.finalize()
    assert files() == {"x.hatchet"}


@pytest.mark.parametrize("name", ["run.v1.2", "x.json", "x.hatchet.old", ".hatchet"])
def test_other_dots_are_part_of_the_name(name: str) -> None:
    record("-n", name, "run.py", "a")
    assert files() == {name + ".hatchet"}


BAD = {
    ".": "is a directory",
    "..": "is a directory",
    "sub/": "is a directory",
    "sub/.": "is a directory",
    "missing/x": "No such file",
    "run.py/x": "not a directory",
    "x" * 300: "too long",
    "/dev/null": "is a device or a pipe",
    "/dev/stdout": "is a device or a pipe",
    "pipe": "is a device or a pipe",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_refused_at_the_start(name: str) -> None:
    Path("sub").mkdir()
    os.mkfifo("pipe")
    for arguments in (["run.py"], ["--", "echo", "ran"], ["-o", "none", "run.py"]):
        check_refused(proton("-n", name, *arguments, cwd=Path(".")), BAD[name])
    with pytest.raises((ValueError, triton_proton.ProtonError), match=BAD[name]):
        triton_proton.start(name, backend="host")
    assert files() == {"sub", "pipe"}


def test_an_empty_name_is_refused_by_the_command() -> None:
    check_refused(proton("-n", "", "run.py", cwd=Path(".")), "the output name is empty")


def test_a_profile_file_cannot_go_to_standard_output() -> None:
    for arguments in (["run.py"], ["--", "echo", "ran"]):
        result = proton("-o", "proton", "-n", "-", *arguments, cwd=Path("."))
        check_refused(result, "cannot be written to standard output")
    code = "import triton_proton as p\np.start('-', backend='host')\n"
    code += "p.scope('a').__enter__()\n"
    code += "try:\n p.finalize(None, 'proton')\nexcept ValueError as error:\n"
    code += " import sys; print(error, file=sys.stderr)\n"
    result = run([sys.executable, "-c", code], Path("."))
    assert "cannot be written to standard output" in result.stderr
    assert "ROOT" in result.stdout  # the session lives on and is written at the end


def test_a_directory_of_that_name_does_no_harm() -> None:
    Path("proton").mkdir()
    record("run.py", "a")
    assert files() == {"proton", "proton.hatchet"}


# ---------------------------------------------------------------------- temporary files


def test_leftovers_of_a_killed_writer_are_removed_by_the_next_run() -> None:
    Path("big.py").write_text(
        "import os, signal, threading, time, triton.profiler as proton\n"
        "for i in range(60_000):\n"
        "    with proton.scope(f's{i}'): pass\n"
        "def kill():\n"
        "    end = time.monotonic() + 60\n"
        "    while not [n for n in os.listdir('.') if n.startswith('.x.')]:\n"
        "        assert time.monotonic() < end\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "threading.Thread(target=kill, daemon=True).start()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    assert proton("-n", "x", "big.py", cwd=Path(".")).returncode == -9
    stale = {name for name in files() if name.startswith(".x.hatchet.")}
    assert len(stale) == 1
    Path(".x.hatchet.0011223344556677.tmp").write_text("mine")
    record("-n", "x", "run.py", "a")
    assert not stale & files()
    assert Path(".x.hatchet.0011223344556677.tmp").read_text() == "mine"
