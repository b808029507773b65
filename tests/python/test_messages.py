"""Messages about mistakes say what to type; completions and colors of the commands."""

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import triton_proton as proton
from cmd_support import environment, executable, run
from rank_support import merge, view, write_job

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
ONE = str(DATA / "cuda.hatchet")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("messages")
    write_job(directory)
    return directory


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--jsn", ONE], "unknown option --jsn; did you mean --json? See proton-viewer --help"),
        (["--fail-on", "x", ONE], "unknown option --fail-on; did you mean --fail-if?"),
        (["--ranks", "-o", "r.html", "out.ranks"], "for html omit --ranks: a report of a job"),
        (["--fail-if", "ranks < 128", "out.ranks"], "ranks is one of a job's ranks; add --ranks"),
        (["--fail-if", "could_go/ms > 5", "out.ranks"], "could_go/ms is one of a job's ranks; add"),
        (["--fail-if", "imbalance > 10", "out.ranks"], "its limit in percent: imbalance > 10%"),
        (["-m", "time/sec", ONE], "Unsupported unit sec in metric time/sec"),
        (["-m", "time/sec", ONE], "; units: s, ms, us, ns"),
        (["-t", "10%", ONE], "for a share write the metric, as in time/%=10"),
        (["--fail-if", "time/ms > 0x10", ONE], 'invalid --fail-if "time/ms > 0x10"'),
        (["--top", "-d", "1", ONE], "--depth has no effect on a flat table; use --rows"),
    ],
)
def test_viewer_says_what_to_type(job: Path, arguments: list[str], message: str) -> None:
    result = view(job, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-c", "print(1)"], '--context must be shadow, python or python+scopes, not "print(1)"'),
        (["pytests"], "cannot run 'pytests': No such file or directory; did you mean pytest?"),
        (["--modles", "x.py"], "unknown option --modles; did you mean --modules?"),
    ],
)
def test_proton_says_what_to_type(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run([executable("proton"), *arguments], tmp_path)
    assert result.returncode == 2 and message in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"context": "shadw"}, "expected shadow, python or python[+]scopes"),
        ({"data": "trea"}, "expected tree or trace"),
        ({"hook": "tritn"}, "expected triton"),
    ],
)
def test_api_lists_the_choices(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        proton.start("x", backend="host", **arguments)


def test_api_lists_the_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = proton.start("x", backend="host")
    known = "expected hatchet, hatchet_msgpack, chrome_trace, perfetto, proton or none"
    with pytest.raises(ValueError, match=known):
        proton.finalize(session, output_format="pdf")
    proton.finalize()


def test_command_to_view_a_profile_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import triton_proton as p\nwith p.scope('a', {'m': 1}): pass\n")
    result = run([executable("proton"), "-b", "host", "-n", "a b", "x.py"], tmp_path)
    assert "view it with: proton-viewer 'a b.hatchet'" in result.stderr, result.stderr
    write_job(tmp_path, "my job")
    assert "proton-viewer --ranks 'my job.ranks.proton'" in merge(tmp_path, "my job.ranks").stderr


def test_options_that_can_do_nothing_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import triton_proton as p\nwith p.scope('a'): pass\n")
    options = ["-b", "host", "--modules", "--torch-ops", "--memory"]
    env = environment(PROTON_RANK="banana")
    result = run([executable("proton"), *options, "x.py"], tmp_path, env=env)
    assert result.returncode == 0
    assert "--modules, --torch-ops had no effect: the program did not import torch" in result.stderr
    assert "no memory copies are recorded: backend host has none" in result.stderr
    assert result.stderr.count('PROTON_RANK: "banana" is not the number of a rank') >= 1


def test_python_that_cannot_be_started_is_not_called_broken(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    command = f"ulimit -n 4; exec {executable('proton')} x.py"
    result = run(["bash", "-c", command], tmp_path)
    assert result.returncode != 0
    assert "Too many open files" in result.stderr and "not a working" not in result.stderr


def test_list_is_written_for_programs() -> None:
    result = view(Path.cwd(), "--list", "--json", ONE)
    metrics = json.loads(result.stdout)["metrics"]
    assert {"metric": "time", "kind": "inclusive"} in metrics
    assert {"metric": "device_id", "kind": "exclusive"} in metrics
    assert {"metric": "time/ms", "kind": "derived"} in metrics
    rows = list(csv.DictReader(view(Path.cwd(), "--list", "--csv", ONE).stdout.splitlines()))
    assert rows == metrics


@pytest.mark.parametrize(
    "variables, has_color",
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_color_may_be_forced(variables: dict[str, str], has_color: bool) -> None:
    env = dict(os.environ, **variables)
    result = run([executable("proton-viewer"), ONE], Path.cwd(), env=env)
    assert ("\x1b[" in result.stdout) == has_color


# ---------------------------------------------------------------------- completions

COMMANDS = ["proton", "proton-viewer", "proton-merge"]


def completion(command: str, shell: str) -> str:
    result = subprocess.run(
        [executable(command), "--completion", shell], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0 and not result.stderr
    return result.stdout


def complete_in_bash(command: str, *words: str) -> list[str]:
    """The completions of the last word in bash."""
    function = "_" + command.replace("-", "_")
    quoted = " ".join(f"'{word}'" for word in (command, *words))
    script = (
        f"{completion(command, 'bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}\n"
        f'{function}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert not result.stderr
    return result.stdout.split()


def options_of(command: str) -> set[str]:
    """The long options in the help."""
    text = subprocess.run(
        [executable(command), "--help"], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    lines = [line.split() for line in text.splitlines() if line[:7].strip().startswith("-")]
    words = [word for line in lines for word in line[:2] if word.startswith("--")]
    return {word.partition("[")[0] for word in words}


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_all_options(command: str) -> None:
    assert set(complete_in_bash(command, "--")) == options_of(command)
    assert complete_in_bash(command, "--vers") == ["--version"]
    assert complete_in_bash(command, "file") == []


def test_bash_completes_values() -> None:
    merges = ["sum", "mean", "min", "max", "spread"]
    assert complete_in_bash("proton-viewer", "--merge", "") == merges
    assert complete_in_bash("proton-viewer", "--merge", "=", "m") == ["mean", "min", "max"]
    assert complete_in_bash("proton-viewer", "--merge", "=") == merges
    assert complete_in_bash("proton", "-c", "") == ["shadow", "python", "python+scopes"]
    assert complete_in_bash("proton", "--ranks", "me") == ["merge", "merge-keep"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_all_options(command: str, shell: str) -> None:
    text = completion(command, shell)
    for option in options_of(command):
        name = option if shell == "zsh" else f"-l {option.removeprefix('--')} "
        assert name in text, option
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, timeout=300, check=True)
    # Words are quoted as in bash.
    subprocess.run(["bash", "-n"], input=text, text=True, timeout=300, check=True)


def test_unknown_shells_are_refused() -> None:
    result = run([executable("proton"), "--completion", "tcsh"], Path.cwd())
    assert result.returncode == 2
    assert '--completion must be bash, zsh or fish, not "tcsh"' in result.stderr
