"""The report of a run on a GPU: --report FILE writes the machine, what ran and how it ended.

`make gpu-report` runs all tests here and writes gpu-report.json.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import time
from pathlib import Path

import gpus

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
