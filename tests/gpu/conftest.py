"""The report of a run on a GPU: --report FILE writes the machine, what ran and how it ended.

`make gpu-report` runs all tests here and writes gpu-report.json. With AMD GPUs it first runs
`proton doctor --amd`, which is part of the report, and each test in its own process: a process
registers with rocprofiler-sdk once, and a test that crashes ends no other. With `pytest -n COUNT`
each process uses another NVIDIA GPU, so tests of several GPUs are skipped.
"""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpus
import pytest

REPORT_VERSION = 1
TEXT_MAX = 8000
LIBRARY = re.compile(
    r"/(lib(amdhip64|hsa-runtime64|rocprofiler|roctracer|roctx|cuda|cupti|nvidia-ml)[\w.-]*)$"
)
VARIABLE = re.compile(
    r"^(ROC|HIP|HSA|AMD|CUDA|GPU|TRITON|PROTON)\w*(VISIBLE|ORDINAL|PATH|LIB|BETA)"
)


def pytest_addoption(parser):
    parser.addoption("--report", metavar="FILE", help="write the machine and all outcomes")


    parser.addoption("--each-alone", action="store_true", help="each test in its own process")


def _is_apart(config) -> bool:
    return config.getoption("--each-alone", False) or (
        gpus.VENDOR == gpus.AMD and not os.environ.get("PROTON_GPU_TEST_ALONE")
    )


def _run_alone(item) -> tuple[str, str, float]:
    """(outcome, text, seconds) of a test in a new process."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name, "report.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", item.nodeid]
        start = time.time()
        done = subprocess.run(
            [*command, "--report", str(report)], cwd=item.config.rootpath,
            env=os.environ | {"PROTON_GPU_TEST_ALONE": "1"}, capture_output=True, text=True,
            timeout=900,
        )
        tests = json.loads(report.read_text())["tests"] if report.exists() else {}
    output = (done.stdout + done.stderr)[-TEXT_MAX:]
    (test,) = list(tests.values())[:1] or [{"outcome": "failed", "text": output}]
    return test["outcome"], test.get("text", output), time.time() - start


def pytest_runtest_protocol(item, nextitem):
    if os.environ.get("PROTON_GPU_TEST_ALONE") or not _is_apart(item.config):
        return None
    outcome, text, seconds = _run_alone(item)
    report = pytest.TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome=outcome,
        longrepr=(str(item.path), 0, text) if outcome == "skipped" else text, when="call",
        duration=seconds,
    )
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _diagnose() -> dict | None:
    """The result of `proton doctor --amd`, on a machine with AMD GPUs."""
    if gpus.VENDOR != gpus.AMD or os.environ.get("PROTON_GPU_TEST_ALONE"):
        return None
    with tempfile.TemporaryDirectory() as name:
        report = Path(name, "doctor.json")
        command = [sys.executable, "-m", "triton_proton.doctor", "--amd", "--report", str(report)]
        subprocess.run(command, timeout=900)
        return json.loads(report.read_text()) if report.exists() else None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[dict]:
    torch = gpus.torch
    if gpus.VENDOR is None:
        return []
    found = []
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        found.append(
            {
                "name": properties.name,
                "arch": getattr(properties, "gcnArchName", f"{properties.major}{properties.minor}"),
                "processors": properties.multi_processor_count,
                "memory_bytes": properties.total_memory,
            }
        )
    return found


def _libraries() -> list[str]:
    """Vendor libraries in this process."""
    maps = _read("/proc/self/maps") or ""
    paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split()) > 5}
    return sorted(path for path in paths if LIBRARY.search(path))


def machine() -> dict:
    """The machine, as a reader needs to know it."""
    torch = gpus.torch
    return {
        "vendor": gpus.VENDOR,
        "gpus": _devices(),
        "proton": _version("triton-proton"),
        "triton": _version("triton"),
        "torch": getattr(torch, "__version__", None),
        "hip": getattr(getattr(torch, "version", None), "hip", None),
        "cuda": getattr(getattr(torch, "version", None), "cuda", None),
        "rocm": _read(os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), ".info", "version")),
        "amdgpu": _read("/sys/module/amdgpu/version"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": _libraries(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if VARIABLE.search(k)},
    }


class Report:
    """Collects outcomes; a module that is skipped counts as one test."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.start = time.time()
        self.doctor = _diagnose()
        self.tests: dict[str, dict] = {}

    def _add(self, report, outcome: str) -> None:
        test = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "outcome": "passed"})
        test["seconds"] = round(test["seconds"] + getattr(report, "duration", 0.0), 3)
        if outcome == "passed":
            return
        test["outcome"] = outcome
        text = report.longrepr
        # A skip is (file, line, reason).
        test["text"] = (text[2] if isinstance(text, tuple) else str(text))[-TEXT_MAX:]

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self._add(report, report.outcome)

    def pytest_runtest_logreport(self, report):
        self._add(report, report.outcome)

    def pytest_sessionfinish(self, session):
        counts: dict[str, int] = {}
        for test in self.tests.values():
            counts[test["outcome"]] = counts.get(test["outcome"], 0) + 1
        text = {
            "report": REPORT_VERSION,
            "seconds": round(time.time() - self.start, 1),
            "machine": machine(),
            "doctor": self.doctor,
            "counts": counts,
            "tests": self.tests,
        }
        Path(self.path).write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(f"gpu report: {os.path.abspath(self.path)}")


def pytest_configure(config):
    path = config.getoption("--report", None)
    if path:
        config.pluginmanager.register(Report(path), "gpu_report")
