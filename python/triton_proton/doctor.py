"""`proton doctor`: can this user profile this machine's GPUs? It takes about a minute.

Each check runs in its own process, because a process registers with rocprofiler-sdk once, and CUPTI
has one user at a time. It launches kernels with PyTorch and compares the profile with them.
Messages of failed checks say what to do. The report is for an issue.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional, Sequence

from . import _libproton
from ._programs import is_tritons

_TIMEOUT_S = 60
_LAUNCHES = 10
_TEXT_MAX = 4000
_BETA = "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
_VARIABLE = re.compile(
    r"^(CUDA|NVIDIA|ROC|HIP|HSA|AMD|GPU_|TRITON_(LIB|ROC|HSA)|PROTON_|TEARDOWN_|LD_LIBRARY)"
)

_OWN_LINE = re.compile(r"proton: |[\w.]*(Error|Exit): |has not ended")

# The functions of all children; `out` is the result of a check.
_HEAD = f"""
import json, os, sys
out = {{}}

def ours():
    global proton
    import triton_proton as proton

def use(how):  # how CUDA or HIP is used before
    global torch
    import torch
    if how == "devices":
        out["devices"] = torch.cuda.device_count()
        hip = getattr(torch.version, "hip", None)
        out["driver"] = "HIP " + hip if hip else "CUDA " + str(torch.version.cuda)
    elif how == "queue":
        torch.ones(1024, device="cuda").add_(1)
        torch.cuda.synchronize()

def work():
    x = torch.ones(1 << 18, device="cuda")
    torch.cuda.synchronize()
    with proton.scope("work"):
        for _ in range({_LAUNCHES}):
            x.add_(1)

def replay():
    x = torch.ones(1 << 18, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        x.mul_(2)
    with proton.scope("work"):
        for _ in range({_LAUNCHES} // 2):
            graph.replay()

def start(**options):
    proton.start("doctor", **options)

def finish():
    proton.finalize()
    report("doctor.hatchet")

def report(path):
    with open(path) as file:
        root = json.load(file)[0]
    def count(node):
        own = node["metrics"].get("count", 0) if node["metrics"].get("device_type") else 0
        return own + sum(count(child) for child in node["children"])
    def samples(node):
        return node["metrics"].get("num_samples", 0) + sum(map(samples, node["children"]))
    def named(node):
        return {{node["frame"]["name"]}}.union(*map(named, node["children"]))
    work = [child for child in root["children"] if child["frame"]["name"] == "work"]
    out["kernels"] = sum(map(count, work))
    out["samples"] = samples(root)
    out["is_captured"] = "<captured_at>" in named(root)
    out["info"] = root["proton"]["info"]
"""
_TAIL = 'print("doctor: " + json.dumps(out))\n'

_DEVICES = "use('devices')"
_FIRST = "ours(); use(''); start({}); {}; finish()"
_LATER = "use('{}'); ours(); start(); work(); finish()"
_KINETO = """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CUDA]) as other: work()
out['events'] = len(other.events())"""
_SAMPLES = (
    "ours(); use(''); start(mode='pcsampling')\n"
    "for _ in range(50): work()\n"
    "finish(); out['kernels'] //= 50"
)

# name, code, variables, whether the result is only information
_CHECKS = {
    "NVIDIA": (
        ("PyTorch sees the GPUs", _DEVICES, {}, False),
        ("kernels, Proton first", _FIRST.format("", "work()"), {}, False),
        ("kernels, CUDA first", _LATER.format("queue"), {}, False),
        ("a graph's kernels", _FIRST.format("", "replay()"), {}, False),
        (
            "kernels after torch.profiler",
            # Kineto gives CUPTI back in the next call, and never ends a process without one.
            f"ours(); use(''){_KINETO}\nuse('queue'); start(); work(); finish()",
            {"TEARDOWN_CUPTI": "1"},
            True,
        ),
        ("PC samples", _SAMPLES, {}, True),
    ),
    "AMD": (
        ("PyTorch sees the GPUs", _DEVICES, {}, False),
        ("kernels, Proton first", _FIRST.format("", "work()"), {}, False),
        ("kernels, HIP first", _LATER.format("devices"), {}, False),
        ("kernels, a queue of HIP first", _LATER.format("queue"), {}, False),
        ("kernels, roctracer", _FIRST.format("backend='roctracer'", "work()"), {}, True),
        ("a graph's kernels", _FIRST.format("", "replay()"), {}, False),
        (
            "kernels beside torch.profiler",
            f"ours(); use(''); start(){_KINETO}\nfinish()",
            {},
            True,
        ),
        ("PC samples", _SAMPLES, {_BETA: "1"}, True),
    ),
}
_COMMAND = "kernels of a program under the command"


def _run(
    code: str, directory: str, variables: dict[str, str], prefix: Sequence[str] = ()
) -> tuple[dict, str]:
    """The child's result, and its errors."""
    script = Path(directory, "check.py")
    script.write_text(_HEAD + code + "\n" + _TAIL)
    env = {name: value for name, value in os.environ.items() if name != "PROTON_BACKEND"}
    child = subprocess.Popen(
        [*prefix, sys.executable, str(script)],
        cwd=directory,
        env=env | {"ROCPROFILER_LOG_LEVEL": "info"} | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = child.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        output, errors = child.communicate()
        return {}, f"{errors}\nhas not ended after {_TIMEOUT_S} s"
    found = re.findall(r"^doctor: (\{.*\})$", output, re.MULTILINE)
    if found:
        return json.loads(found[-1]), errors
    if child.returncode < 0:
        errors += f"\nended by {signal.Signals(-child.returncode).name}"
    return {}, errors


def _own_lines(errors: str) -> str:
    """The last thing that Proton or Python printed."""
    lines = [line for line in errors.splitlines() if _OWN_LINE.match(line)]
    lines = [line for line in lines if "experimental" not in line] or errors.splitlines()[-1:]
    return lines[-1].removeprefix("proton: ") if lines else "no output"


def _queue_path(errors: str) -> Optional[str]:
    """As the library logs it (1.3): interposition, or the intercepted queue of earlier versions."""
    found = re.search(r"\[queue-interposition\] ROCPROFILER_QUEUE_INTERPOSITION=(\w+)", errors)
    return found and ("interposition" if found[1] == "true" else "intercept")


_LIBRARIES = {"cupti": "CUPTI", "rocprofiler_sdk": "rocprofiler-sdk", "roctracer": "roctracer"}


def _judge(name: str, found: dict, errors: str) -> tuple[bool, str]:
    if not found:
        return False, _own_lines(errors)
    if "kernels" not in found:
        count = found.get("devices", 0)
        return count > 0, f"{count} GPUs, {found['driver']}"
    wanted = _LAUNCHES
    text = f"{found['kernels']} of {wanted} kernels"
    is_ok = found["kernels"] == wanted
    info = found["info"]
    for key, shown in _LIBRARIES.items():
        if key in info:
            text += f", {shown} {info[key]} in {info[key + '_path']}"
    path = _queue_path(errors)
    if path:
        text += f", queues by {path}"
    if name.startswith("a graph"):
        is_ok = is_ok and found["is_captured"]
        text += "" if found["is_captured"] else ", without the scopes of the capture"
    if "events" in found:
        is_ok = is_ok and found["events"] > 0
        text += f", {found['events']} events in torch.profiler"
    if name == "PC samples":
        is_ok = is_ok and found["samples"] > 0
        text += f", {found['samples']} samples"
    return is_ok, text if is_ok else f"{text}; {_own_lines(errors)}"


def _device_of(vendor: str) -> str:
    if vendor == "AMD":
        return os.environ.get("PROTON_KFD_DEVICE", "/dev/kfd")
    return os.environ.get("PROTON_NVIDIA_DEVICE", "/dev/nvidiactl")


def _check_device(vendor: str) -> tuple[bool, str]:
    path = _device_of(vendor)
    if not os.path.exists(path):
        return False, f"no {path}: no {vendor} GPU, no driver, or a container without the device"
    if os.access(path, os.R_OK | os.W_OK):
        return True, path
    if vendor == "AMD":
        return False, f"{path} may not be opened: sudo usermod -aG render,video $USER, log in again"
    return False, f"{path} may not be opened by this user: see its permissions"


def _version_of(package: str) -> Optional[str]:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_command() -> tuple[bool, str]:
    path = shutil.which("proton")
    if path is None:
        return False, "`proton` is not on PATH: use `python -m triton_proton`"
    if is_tritons(path):
        return False, f"{path} is the command of Triton's profiler: use `triton-proton`"
    return True, path


class _Doctor:
    def __init__(self, prints: bool) -> None:
        self.results: list[dict] = []
        self._prints = prints

    def add(
        self, name: str, is_ok: bool, text: str, is_info: bool = False, errors: str = ""
    ) -> None:
        outcome = "ok" if is_ok else "differs" if is_info else "FAILED"
        if self._prints:
            print(f"{outcome:8}{name}: {text}", flush=True)
        result = {"name": name, "outcome": outcome, "text": text}
        self.results.append(result | ({} if is_ok else {"errors": errors[-_TEXT_MAX:]}))

    def check_package(self) -> None:
        where = Path(__file__).resolve().parent
        self.add("package", True, f"triton-proton {_libproton.version()} in {where}")
        self.add("command", *_check_command(), is_info=True)
        for package in ("triton", "torch"):
            found = _version_of(package)
            self.add(package, found is not None, found or "not installed", is_info=True)

    def check(self, vendor: str) -> None:
        is_ok, text = _check_device(vendor)
        self.add("device", is_ok, text)
        if not is_ok:
            return
        if importlib.util.find_spec("torch") is None:
            self.add("kernels", False, "PyTorch is not installed: none was launched", is_info=True)
            return
        for name, code, variables, is_info in _CHECKS[vendor]:
            with tempfile.TemporaryDirectory() as directory:
                found, errors = _run(code, directory, variables)
            self.add(name, *_judge(name, found, errors), is_info, errors)
            if code == _DEVICES and not found.get("devices"):
                return
        with tempfile.TemporaryDirectory() as directory:
            code = "ours(); use(''); work()"
            prefix = [sys.executable, "-m", "triton_proton", "-n", "doctor", "--"]
            found, errors = _run(code, directory, {}, prefix)
            if Path(directory, "doctor.hatchet").exists():
                found, more = _run("report(sys.argv[0][:-8] + 'doctor.hatchet')", directory, {})
                errors += more
        self.add(_COMMAND, *_judge(_COMMAND, found, errors), False, errors)

    def report(self) -> str:
        variables = {k: v for k, v in sorted(os.environ.items()) if _VARIABLE.match(k)}
        report = {"doctor": 1, "checks": self.results, "environment": variables}
        return json.dumps(report, indent=1) + "\n"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="proton doctor", description="Check whether this user can profile this machine's GPUs."
    )
    for vendor in _CHECKS:
        parser.add_argument(
            f"--{vendor.lower()}",
            action="append_const",
            const=vendor,
            dest="vendors",
            help=f"check {vendor} GPUs; without, those that this machine has",
        )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--report", metavar="FILE", help="write the results as JSON")
    options = parser.parse_args(arguments)
    doctor = _Doctor(prints=not options.json)
    doctor.check_package()
    # Those with a device; NVIDIA if there is none: then the answer says what is missing.
    found = [one for one in _CHECKS if os.path.exists(_device_of(one))]
    vendors = options.vendors or found or ["NVIDIA"]
    for vendor in vendors:
        doctor.check(vendor)
    bad = [result for result in doctor.results if result["outcome"] != "ok"]
    if options.report:
        Path(options.report).write_text(doctor.report(), encoding="utf-8")
    if options.json:
        print(doctor.report(), end="")
    else:
        print(f"{len(doctor.results) - len(bad)} of {len(doctor.results)} checks are ok")
    if bad and "AMD" in vendors and not options.json:
        report = options.report or "the output of `proton doctor --amd --report doctor.json`"
        print(f"send {report} in an issue: each check that differs has the library's output there")
    return 1 if any(result["outcome"] == "FAILED" for result in doctor.results) else 0


if __name__ == "__main__":
    sys.exit(main())
