"""`make gpu-report`: tests/gpu can be run on any machine, and its report says which tests ran."""

import json
import sys
from pathlib import Path

import pytest
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "tests" / "gpu"


def run(path: Path, *tests: str, alone: bool = False) -> tuple[int, dict]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    command += ["--each-alone"] if alone else []
    done = run_command([*command, "--report", str(path)], cwd=ROOT, status=None)
    assert f"gpu report: {path}" in done.stdout, done.stdout + done.stderr
    return done.returncode, json.loads(path.read_text())


def has_gpu() -> bool:
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available()


def test_without_a_gpu_every_file_is_skipped_with_its_reason(tmp_path):
    if has_gpu():
        pytest.skip("this machine has a GPU")
    status, report = run(tmp_path / "report.json", "tests/gpu")
    assert status == 5  # pytest's for no tests
    assert report["report"] == 1
    assert report["machine"]["gpus"] == [] and report["machine"]["vendor"] is None
    assert report["machine"]["proton"] and report["machine"]["python"]
    files = {f"tests/gpu/{path.name}" for path in GPU.glob("test_*.py")}
    assert set(report["tests"]) == files
    assert report["counts"] == {"skipped": len(files)}
    texts = {name: test["text"] for name, test in report["tests"].items()}
    assert texts["tests/gpu/test_cuda.py"] == "Skipped: needs a GPU"
    assert texts["tests/gpu/test_amd.py"] == "Skipped: needs a GPU of AMD"


@pytest.mark.parametrize("alone", [False, True], ids=["together", "alone"])
def test_outcomes_are_counted_and_failures_have_their_text(alone, tmp_path):
    for name in ("conftest.py", "gpus.py"):
        (tmp_path / name).write_text((GPU / name).read_text())
    # It takes each process 2 s.
    (tmp_path / "torch.py").write_text("raise ImportError('not needed')\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "def test_other(): pytest.skip('not here')\n"
        "import os\n"
        "def test_crash():\n"
        "    if 'PROTON_GPU_TEST_ALONE' not in os.environ: pytest.skip('together')\n"
        "    os.abort()\n"
    )
    status, report = run(tmp_path / "report.json", str(tmp_path / "test_it.py"), alone=alone)
    assert status == 1
    assert report["counts"] == {"passed": 1, "failed": 1 + alone, "skipped": 2 - alone}
    tests = {name.split("::")[1]: test for name, test in report["tests"].items()}
    assert "text" not in tests["test_good"]
    assert "assert 1 == 2" in tests["test_bad"]["text"]
    assert tests["test_other"]["text"] == "Skipped: not here"
