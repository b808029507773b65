"""What proton-viewer -o does to files that exist: an input is never the output, and no other file
is damaged."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from cmd_support import environment, executable, run, temporary_name

DATA = Path(__file__).parent.parent / "data" / "viewer"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "in.hatchet"
    shutil.copy(DATA / "cuda.hatchet", path)
    return path


def view(*arguments: str | Path, cwd: Path, **keywords) -> subprocess.CompletedProcess[str]:
    return run([executable("proton-viewer"), *map(str, arguments)], cwd, **keywords)


def check_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (result.returncode, result.stdout) == (2, "")
    for word in words:
        assert word in result.stderr
    assert result.stderr.count("\n") == 1


def links(path: Path) -> dict[str, Path]:
    """Other names of a file."""
    directory = path.parent
    (directory / "sub").mkdir()
    (directory / "symbolic").symlink_to(path.name)
    (directory / "sub" / "chain").symlink_to("../symbolic")
    os.link(path, directory / "hard")
    (directory / "same").symlink_to(".")
    return {
        "itself": path,
        "absolute": path.resolve(),
        "detour": directory / "sub" / ".." / path.name,
        "symbolic": directory / "symbolic",
        "chain": directory / "sub" / "chain",
        "hard": directory / "hard",
        "directory": directory / "same" / path.name,
    }


@pytest.mark.parametrize("form", ["pprof", "csv", "hatchet", "html"])
@pytest.mark.parametrize(
    "name", ["itself", "absolute", "detour", "symbolic", "chain", "hard", "directory"]
)
def test_the_input_is_not_the_output(name: str, form: str, sample: Path) -> None:
    before = sample.read_bytes()
    output = links(sample)[name]
    result = view("--export", form, "-o", output, "in.hatchet", cwd=sample.parent)
    check_refused(result, "cannot write", "it is an input (in.hatchet)")
    assert sample.read_bytes() == before
    # And the other way round.
    result = view("--export", form, "-o", "in.hatchet", output, cwd=sample.parent)
    check_refused(result, "it is an input")
    assert sample.read_bytes() == before


def test_no_input_of_several_is_the_output(sample: Path, tmp_path: Path) -> None:
    shutil.copy(sample, tmp_path / "two.hatchet")
    before = sample.read_bytes()
    for output in ("in.hatchet", "two.hatchet"):
        check_refused(
            view("-o", output, "in.hatchet", "two.hatchet", cwd=tmp_path), "it is an input"
        )
    check_refused(
        view("--diff", "two.hatchet", "--export", "csv", "-o", "two.hatchet", sample, cwd=tmp_path),
        "it is an input (two.hatchet)",
    )
    assert (tmp_path / "two.hatchet").read_bytes() == before == sample.read_bytes()


def test_a_profile_in_an_input_directory_is_not_the_output(sample: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for name in ("0.hatchet", "1.hatchet", "1.hatchet_msgpack"):
        shutil.copy(sample, ranks / name)
    (ranks / "2.hatchet").symlink_to("../in.hatchet")
    before = sample.read_bytes()
    for output in ("ranks/0.hatchet", "ranks/1.hatchet_msgpack", "in.hatchet"):
        for arguments in (["ranks"], ["ranks/"], ["--diff", "ranks", "ranks/0.hatchet"]):
            result = view("--export", "csv", "-o", output, *arguments, cwd=tmp_path)
            check_refused(result, "it is an input")
    assert sample.read_bytes() == before
    for path in ranks.iterdir():
        assert path.read_bytes() == before
    # A new file in it, and one that is not read, are fine.
    for output in ("ranks/sum.hatchet", "ranks/table.csv", "ranks/table.csv"):
        assert view("-o", output, "ranks", cwd=tmp_path).returncode == 0


def test_standard_streams_are_compared_too(sample: Path, tmp_path: Path) -> None:
    viewer = executable("proton-viewer")
    before = sample.read_bytes()
    for command in (
        f"{viewer} --export pprof in.hatchet >> in.hatchet", f"{viewer} in.hatchet >> in.hatchet",
        f"{viewer} --csv - < in.hatchet >> in.hatchet",
        f"{viewer} --export csv -o in.hatchet - < in.hatchet",
        f"{viewer} --export csv -o in.hatchet < in.hatchet /dev/stdin",
    ):
        result = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment(), text=True, capture_output=True,
            timeout=300,
        )
        assert (result.returncode, result.stdout) == (2, ""), command
        assert "it is an input" in result.stderr
        assert sample.read_bytes() == before, command


# ---------------------------------------------------------------------- what exists at the output


def test_no_clobber_keeps_existing_files(sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.csv"
    assert view("--no-clobber", "-o", output, sample, cwd=tmp_path).returncode == 0
    written = output.read_bytes()
    assert written
    output.write_text("mine")
    check_refused(view("--no-clobber", "-o", output, sample, cwd=tmp_path), "x.csv exists")
    assert output.read_text() == "mine"
    assert view("-o", output, sample, cwd=tmp_path).returncode == 0
    assert output.read_bytes() == written


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_are_kept(mode: int, sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.csv"
    output.write_text("old")
    output.chmod(mode)
    assert view("-o", output, sample, cwd=tmp_path).returncode == 0
    assert output.read_text() != "old"
    assert stat.S_IMODE(output.stat().st_mode) == mode


def test_a_symbolic_link_is_written_through(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.csv").write_text("old")
    (tmp_path / "x.csv").symlink_to("there/x.csv")
    assert view("-o", "x.csv", sample, cwd=tmp_path).returncode == 0
    assert (tmp_path / "x.csv").is_symlink()
    assert (tmp_path / "there" / "x.csv").read_text().startswith("path,name")
    (tmp_path / "there" / "x.csv").unlink()
    check_refused(view("-o", "x.csv", sample, cwd=tmp_path), "symbolic link", "does not exist")
    assert (tmp_path / "x.csv").is_symlink()


def test_a_file_that_is_not_regular_is_written_to(sample: Path, tmp_path: Path) -> None:
    expected = view("--export", "csv", sample, cwd=tmp_path).stdout
    for output in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        result = view("--export", "csv", "-o", output, sample, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (0, expected)
    before = os.stat("/dev/null")
    assert view("--export", "csv", "-o", "/dev/null", sample, cwd=tmp_path).returncode == 0
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    os.mkfifo(tmp_path / "pipe.csv")
    command = [executable("proton-viewer"), "-o", "pipe.csv", str(sample)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment()) as process:
        assert (tmp_path / "pipe.csv").read_text() == expected
        assert process.wait(timeout=300) == 0
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)
    with open(tmp_path / "appended", "w") as file:
        file.write("before\n")
        file.flush()
        command = [executable("proton-viewer"), "--export", "csv", "-o", "/dev/stdout", str(sample)]
        subprocess.run(command, stdout=file, check=True, env=environment(), timeout=300)
    assert (tmp_path / "appended").read_text() == "before\n" + expected


def test_impossible_outputs_are_rejected(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "directory.csv").mkdir()
    for output, word in {
        "directory.csv": "it is a directory",
        "missing/x.csv": "No such file or directory",
        "in.hatchet/x.csv": "Not a directory",
        "x" * 300 + ".csv": "File name too long",
        "": "empty",
    }.items():
        check_refused(view("--export", "csv", "-o", output, sample, cwd=tmp_path), word)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory.csv", "in.hatchet"]


# ---------------------------------------------------------------------- temporary files


def test_leftovers_of_a_crash_are_removed_by_the_next_run(sample: Path, tmp_path: Path) -> None:
    (tmp_path / temporary_name("x.csv")).write_text("half")
    (tmp_path / temporary_name("y.csv")).write_text("of another name")
    (tmp_path / ".x.csv.1234567812345678.tmp").write_text("of another program")
    assert view("-o", "x.csv", sample, cwd=tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "in.hatchet", "x.csv", temporary_name("y.csv"), ".x.csv.1234567812345678.tmp"
    }


@pytest.mark.parametrize("option, form", [("--csv", "table"), ("--json", "json")])
@pytest.mark.parametrize(
    "arguments", [[], ["--top", "-n", "1"], ["--warps"], ["--diff", "in.hatchet"]]
)
def test_csv_and_json_are_aliases_of_exports(
    option: str, form: str, arguments: list[str], sample: Path
) -> None:
    if arguments == ["--warps"]:
        shutil.copy(DATA / "warps.hatchet", sample)
    directory = sample.parent
    alias = view(option, *arguments, "in.hatchet", cwd=directory)
    assert (alias.returncode, alias.stderr) == (0, "")
    assert alias.stdout.count("\n") > 1 or form == "json"
    assert view("--export", form, *arguments, "in.hatchet", cwd=directory).stdout == alias.stdout
    view(option, "-o", "out", *arguments, "in.hatchet", cwd=directory)
    assert (directory / "out").read_text() == alias.stdout
    check_refused(view(option, "--export", form, "in.hatchet", cwd=directory), option, "--export")
