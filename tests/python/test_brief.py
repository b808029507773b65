"""proton-viewer --brief: claims with their evidence, in profiles with planted causes."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import triton_proton as proton
from cmd_support import environment, executable, run
from planted import CAUSES, PEAKS, SIZES, kernel, write
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from evidence import cases, is_right  # noqa: E402

SCHEMA = json.loads((ROOT / "docs" / "brief.schema.json").read_text())
LINES_MAX = 40


def brief(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run where the profile is: commands name it as a user does."""
    return run([executable("proton-viewer"), "--brief", *options, path.name], path.parent)


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def check(value: Any, schema: dict[str, Any], at: str = "$") -> None:
    """As a validator of JSON Schema, for the keywords that the schema uses."""
    known = {"$schema", "title", "description", "type", "required", "additionalProperties"}
    assert schema.keys() <= known | {"properties", "items", "enum", "const"}, at
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        assert any(
            number and (name == "number" or isinstance(value, int)) if name in ("number", "integer")
            else isinstance(value, TYPES[name])
            for name in types
        ), f"{at}: {value!r} is not {types}"  # fmt: skip
    assert value in schema.get("enum", [value]), f"{at}: {value!r}"
    assert value == schema.get("const", value), f"{at}: {value!r}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= value.keys(), at
        assert schema.get("additionalProperties", True) or value.keys() <= properties.keys(), at
        for name, part in value.items():
            check(part, properties.get(name, {}), f"{at}.{name}")
    if isinstance(value, list):
        for i, part in enumerate(value):
            check(part, schema.get("items", {}), f"{at}[{i}]")


def test_the_check_of_the_schema_can_fail() -> None:
    for bad in ({"brief_version": 2}, {"claims": [{}]}, {"launches": 1.5}, {"verdict": "maybe"}):
        for name, part in bad.items():
            with pytest.raises(AssertionError):
                check(part, SCHEMA["properties"][name])
    with pytest.raises(AssertionError):
        check({}, SCHEMA)


def run_printed(command: str, cwd: Path) -> None:
    """A command that a claim prints, as a user's shell runs it."""
    directory = str(Path(executable("proton-viewer")).parent)
    env = environment()
    env["PATH"] = f"{directory}:{env['PATH']}"
    result = run_command(["sh", "-c", command], cwd=cwd, env=env, status=None)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    assert "no frame matches" not in result.stderr, command


def evidence(path: Path) -> dict[str, Any]:
    """The JSON, after all that holds for any profile."""
    text = brief(path, *PEAKS)
    assert text.returncode == 0, text.stderr
    assert len(text.stdout.splitlines()) <= LINES_MAX
    markdown = brief(path, *PEAKS, "--markdown")
    assert markdown.returncode == 0, markdown.stderr
    assert len(markdown.stdout.splitlines()) <= LINES_MAX
    shown = brief(path, *PEAKS, "--json")
    assert shown.returncode == 0, shown.stderr
    data = json.loads(shown.stdout)
    check(data, SCHEMA)
    assert data["verdict_text"] in text.stdout or not data["verdict_text"].isprintable()
    gains = [claim["gain_ms"] for claim in data["claims"] if claim["gain_ms"] is not None]
    assert gains == sorted(gains, reverse=True)
    for claim in data["claims"]:
        if claim["low"] is not None and claim["high"] is not None:
            assert claim["low"] <= claim["number"] <= claim["high"], claim
        if claim["kind"] not in ("launch_gaps", "waiting_ranks", "slow_rank"):
            assert claim["gain_ms"] <= data["kernel_ms"]
        run_printed(claim["command"], path.parent)
    return data


def test_planted_causes_come_first_and_clean_profiles_have_none(tmp_path: Path) -> None:
    """`make evidence` prints the table, for other seeds too."""
    planted = []
    for name, kind, path in cases(7, tmp_path):
        data = evidence(path)
        if kind:
            planted.append(is_right(data, kind))
        else:
            assert is_right(data, kind), (name, data["claims"])
    assert len(planted) == len(CAUSES) * len(SIZES) and sum(planted) >= 0.8 * len(planted)


def two(tmp_path: Path, second: float, losses: dict[str, int] | None = None) -> Path:
    """Two kernels with the same problem; the time of the second as a share of the first's."""
    r = random.Random(3)
    made = [kernel(r, "one", 200, 100, memory=0.3, arithmetic=0.01)]
    made.append(kernel(r, "two", 200 * second, 100, memory=0.3, arithmetic=0.01))
    return write(tmp_path / "p.hatchet", made, losses)


def test_a_tie_names_no_single_cause(tmp_path: Path) -> None:
    data = evidence(two(tmp_path, 1.0))
    assert data["verdict"] == "tie"
    assert data["verdict_text"].startswith("no single cause: far from the peak (")
    assert data["verdict_text"].endswith("are within noise of one another")
    data = evidence(two(tmp_path, 0.5))
    assert data["verdict"] == "one"
    assert data["verdict_text"] == "most can be gained from: far from the peak (one)"


def test_lost_records_leave_no_certain_cause(tmp_path: Path) -> None:
    data = evidence(two(tmp_path, 0.5, {"record dropped by the vendor library": 50}))
    assert data["verdict"] == "lost"
    assert data["verdict_text"] == "no cause is certain: 20.0 % of the records were lost"
    assert {claim["confidence"] for claim in data["claims"]} == {"low"}
    assert evidence(two(tmp_path, 0.5, {"record dropped": 1}))["verdict"] == "one"


def test_an_incomplete_profile_leaves_no_certain_cause(tmp_path: Path) -> None:
    path = two(tmp_path, 0.5)
    root, devices = json.loads(path.read_text())
    root["proton"]["unfinished"] = True
    path.write_text(json.dumps([root, devices]))
    assert "no cause is certain: the profile is incomplete" in brief(path).stdout
    assert brief(path, "--json").returncode == 2
    data = json.loads(brief(path, "--json", "--allow-partial").stdout)
    check(data, SCHEMA)
    assert (data["partial"], data["verdict"]) == (True, "lost")


def test_an_empty_profile_is_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "p.hatchet", [])
    result = brief(path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "proton-viewer: p.hatchet is an empty profile: it has no frames\n"
    data = json.loads(brief(path, "--json").stdout)
    check(data, SCHEMA)
    assert (data["verdict"], data["claims"]) == ("none", [])


def test_numbers_come_from_the_profile(tmp_path: Path) -> None:
    r = random.Random(1)
    made = kernel(r, "k", 100, 64, memory=0.3, arithmetic=0.01)
    total = made["metrics"]["time (ns)"]
    (claim,) = evidence(write(tmp_path / "p.hatchet", [made]))["claims"]
    assert claim["kind"] == "far_from_peak"
    assert claim["number"] == pytest.approx(0.3, rel=1e-4)
    assert claim["gain_ms"] == pytest.approx(0.7 * total / 1e6, rel=1e-4)
    assert (claim["kernel"], claim["count"], claim["counted"]) == ("k", 64, "launches")
    # The range of the times bounds their variance: t(63) * sqrt(64) * range / 2.
    range_ns = made["proton"]["max (ns)"] - made["proton"]["min (ns)"]
    half = 1.998 * 8 * range_ns / 2
    assert claim["low"] == pytest.approx(0.3 * (1 - half / total), rel=1e-4)
    assert claim["confidence"] == "high"


def test_estimates_have_the_interval_and_the_count_of_what_was_recorded(tmp_path: Path) -> None:
    made = kernel(random.Random(1), "k", 100, 6400, memory=0.3, arithmetic=0.01)
    total = made["metrics"]["time (ns)"]
    windows = [0.12 * total, 0.16 * total] + [0.0] * 14  # the root of the squares is 0.2
    made["metrics"] |= {"time_windows (ns)": windows, "samples": 64}
    (claim,) = evidence(write(tmp_path / "p.hatchet", [made]))["claims"]
    assert claim["low"] == pytest.approx(0.3 * 0.8, rel=1e-4)
    assert claim["high"] == pytest.approx(0.3 * 1.2, rel=1e-4)
    assert (claim["count"], claim["confidence"]) == (64, "medium")


def test_one_launch_has_no_interval_and_low_confidence(tmp_path: Path) -> None:
    made = kernel(random.Random(1), "k", 100, 1, memory=0.3)
    (claim,) = evidence(write(tmp_path / "p.hatchet", [made]))["claims"]
    assert (claim["low"], claim["high"], claim["confidence"]) == (None, None, "low")


@pytest.mark.parametrize(
    "registers, shared, block, share",
    [(255, 0, 256, 1 / 8), (168, 0, 128, 3 / 16), (32, 227 << 10, 128, 1 / 16), (64, 0, 256, None)],
)
def test_occupancy_is_that_of_the_calculator(
    tmp_path: Path, registers: int, shared: int, block: int, share: float | None
) -> None:
    """Compute capability 9.0: 64 warps, 65536 registers and 228 KiB per multiprocessor."""
    made = kernel(
        random.Random(1), "k", 100, 64, memory=0.3, registers=registers, shared=shared, block=block
    )
    claims = evidence(write(tmp_path / "p.hatchet", [made]))["claims"]
    found = [claim["number"] for claim in claims if claim["kind"] == "low_occupancy"]
    assert found == ([] if share is None else [share])


ODD_NAMES = ["void a::b<(int)3, c*>(d [4])", "it's $HOME `x` \\ |^", "a\nb\x1b[0m", "é"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_commands_of_odd_names_run(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "it's a *dir*"
    directory.mkdir()
    made = kernel(random.Random(1), name, 100, 64, memory=0.3)
    data = evidence(write(directory / "odd 'name' $x.hatchet", [made]))
    assert data["claims"][0]["kernel"] == name


def test_several_profiles_are_summed_and_named_in_commands(tmp_path: Path) -> None:
    path = two(tmp_path, 0.5)
    other = tmp_path / "q.hatchet"
    other.write_bytes(path.read_bytes())
    result = run([executable("proton-viewer"), "--brief", "p.hatchet", "q.hatchet"], tmp_path)
    assert result.returncode == 0
    assert "this is the sum of 2 profiles" in result.stderr
    assert "launches: 400;" in result.stdout
    assert result.stdout.count("p.hatchet q.hatchet") == 2


def test_a_job_is_one_profile_and_two_jobs_are_summed(tmp_path: Path) -> None:
    jobs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        job = CAUSES["slow rank"][1](random.Random(name), tmp_path / name, 3.0)
        jobs.append(str(job.relative_to(tmp_path)))
    viewer = [executable("proton-viewer"), "--brief", "--json"]
    one = run([*viewer, jobs[0]], tmp_path)
    assert (one.returncode, one.stderr) == (0, "")
    both = run([*viewer, *jobs], tmp_path)
    assert both.returncode == 0
    other = run([*viewer, jobs[1]], tmp_path)
    sums = [json.loads(shown.stdout)["kernel_ms"] for shown in (one, other, both)]
    assert sums[0] + sums[1] == pytest.approx(sums[2])
    for claim in json.loads(both.stdout)["claims"]:
        run_printed(claim["command"], tmp_path)
    ranks = [run([*viewer, "--rank", str(rank), jobs[0]], tmp_path) for rank in range(4)]
    claims = [claim for rank in ranks for claim in json.loads(rank.stdout)["claims"]]
    assert [claim["kind"] for claim in claims] == ["dominant_kernel"]  # the slow rank
    assert re.search(rf" --rank \d {jobs[0]}$", claims[0]["command"])
    run_printed(claims[0]["command"], tmp_path)


def test_a_merged_file_is_the_job(tmp_path: Path) -> None:
    job = CAUSES["waiting ranks"][1](random.Random(1), tmp_path, 3.0)
    run_command([executable("proton-merge"), job.name], cwd=tmp_path)
    of_directory, of_file = evidence(job), evidence(tmp_path / "p.ranks.proton")
    for data in (of_directory, of_file):
        for claim in data["claims"]:
            claim.pop("command")
    assert of_directory == of_file
    assert of_file["claims"][0]["kind"] == "waiting_ranks"


@pytest.mark.parametrize(
    "options, message",
    [
        (["-m", "time/ms"], "--brief can be combined only with"),
        (["--diff", "p.hatchet"], "--brief can be combined only with"),
        (["-i", "a"], "--brief is about a whole profile"),
        (["--warps"], "Cannot specify both --brief and --warps"),
        (["--source"], "Cannot specify both --brief and --source"),
        (["--markdown", "--json"], "--markdown requires --brief, without --json"),
        (["--ranks"], "--ranks can be combined only with"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    tmp_path: Path, options: list[str], message: str
) -> None:
    result = brief(two(tmp_path, 0.5), *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_names_do_not_become_markdown(tmp_path: Path) -> None:
    made = kernel(random.Random(1), "a_b*c`<d>", 100, 64, memory=0.3)
    text = brief(write(tmp_path / "p.hatchet", [made]), *PEAKS, "--markdown").stdout
    assert "1. a\\_b\\*c\\`\\<d\\> (100 %" in text


def test_python_has_the_same_claims(tmp_path: Path) -> None:
    path = two(tmp_path, 0.5)
    loaded = proton.load(path).metrics("time/ms", peaks=PEAKS[1])
    result = run([executable("proton-viewer"), "--brief", "--json", *PEAKS, str(path)], tmp_path)
    assert loaded.evidence() == json.loads(result.stdout)
    assert [claim["kind"] for claim in loaded.evidence()["claims"]] == ["far_from_peak"] * 2


def test_the_number_of_claims_is_limited(tmp_path: Path) -> None:
    r = random.Random(1)
    made = [kernel(r, f"k{i}", 100 + i, 64, memory=0.3) for i in range(15)]
    path = write(tmp_path / "p.hatchet", made)
    assert len(evidence(path)["claims"]) == 0  # none has 5 % of the time to gain
    path = write(tmp_path / "p.hatchet", made[:12])
    assert len(evidence(path)["claims"]) == 12
    assert brief(path, *PEAKS).stdout.count("\n   $ ") == 8
    assert brief(path, *PEAKS, "-n", "3").stdout.count("\n   $ ") == 3
    assert brief(path, *PEAKS, "-n", "100").stdout.count("\n   $ ") == 8
