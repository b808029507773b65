"""`proton doctor --amd`: checks of this machine's AMD GPUs, in about a minute.

Each check runs in its own process, because a process registers with rocprofiler-sdk once. It
launches kernels with PyTorch and compares the profile with them. The report is for an issue.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional, Sequence

_TIMEOUT_S = 60
_LAUNCHES = 10
_TEXT_MAX = 4000
_BETA = "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
_VARIABLE = re.compile(r"^(ROC|HIP|HSA|AMD|GPU_|TRITON_(LIB|ROC|HSA)|PROTON_|LD_LIBRARY)")

# The functions of all children; `out` is the result of a check.
_HEAD = f"""
import json, os, sys
out = {{}}

def ours():
    global proton
    import triton_proton as proton

def use(how):  # how HIP is used before
    global torch
    import torch
    if how == "devices":
        out["devices"] = torch.cuda.device_count()
        out["hip"] = torch.version.hip
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

# name, code, variables, whether the result is only information
_CHECKS = (
    ("PyTorch sees the GPUs", "use('devices')", {}, False),
    ("kernels, Proton first", "ours(); use(''); start(); work(); finish()", {}, False),
    ("kernels, HIP first", "use('devices'); ours(); start(); work(); finish()", {}, False),
    ("kernels, a queue of HIP first", "use('queue'); ours(); start(); work(); finish()", {}, False),
    (
        "kernels, roctracer",
        "ours(); use(''); start(backend='roctracer'); work(); finish()",
        {},
        True,
    ),
    ("a graph's kernels", "ours(); use(''); start(); replay(); finish()", {}, False),
    (
        "kernels beside torch.profiler",
        "ours(); use(''); start()\n"
        "from torch.profiler import ProfilerActivity, profile\n"
        "with profile(activities=[ProfilerActivity.CUDA]) as other: work()\n"
        "out['events'] = len(other.events())\n"
        "finish()",
        {},
        True,
    ),
    (
        "PC samples",
        "ours(); use(''); start(mode='pcsampling')\n"
        "for _ in range(50): work()\n"
        "finish(); out['kernels'] //= 50",
        {_BETA: "1"},
        True,
    ),
)
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
        errors += f"\nended after {_TIMEOUT_S} s"
    found = re.findall(r"^doctor: (\{.*\})$", output, re.MULTILINE)
    if found:
        return json.loads(found[-1]), errors
    if child.returncode < 0:
        errors += f"\nended by {signal.Signals(-child.returncode).name}"
    return {}, errors


def _own_lines(errors: str) -> str:
    """The last thing that Proton or Python printed."""
    lines = [line for line in errors.splitlines() if re.match(r"proton: |\w*(Error|Exit): ", line)]
    lines = [line for line in lines if "experimental" not in line] or errors.splitlines()[-1:]
    return lines[-1].removeprefix("proton: ") if lines else "no output"


def _queue_path(errors: str) -> Optional[str]:
    """As the library logs it (1.3): interposition, or the intercepted queue of earlier versions."""
    found = re.search(r"\[queue-interposition\] ROCPROFILER_QUEUE_INTERPOSITION=(\w+)", errors)
    return found and ("interposition" if found[1] == "true" else "intercept")


def _judge(name: str, found: dict, errors: str) -> tuple[bool, str]:
    if not found:
        return False, _own_lines(errors)
    if "kernels" not in found:
        count = found.get("devices", 0)
        return count > 0, f"{count} GPUs, HIP {found.get('hip')}"
    wanted = _LAUNCHES
    text = f"{found['kernels']} of {wanted} kernels"
    is_ok = found["kernels"] == wanted
    info = found["info"]
    for key in ("rocprofiler_sdk", "roctracer"):
        if key in info:
            text += f", {key.replace('_', '-')} {info[key]} in {info[key + '_path']}"
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


def _device() -> tuple[bool, str]:
    kfd = os.environ.get("PROTON_KFD_DEVICE", "/dev/kfd")
    if not os.path.exists(kfd):
        return False, f"no {kfd}: no AMD GPU, no driver, or a container without the device"
    if not os.access(kfd, os.R_OK | os.W_OK):
        return False, f"{kfd} may not be opened: sudo usermod -aG render,video $USER, log in again"
    return True, kfd


def _check_all() -> list[dict]:
    results = []

    def add(name: str, is_ok: bool, text: str, is_info: bool = False, errors: str = "") -> None:
        outcome = "ok" if is_ok else "differs" if is_info else "FAILED"
        print(f"{outcome:8}{name}: {text}", flush=True)
        result = {"name": name, "outcome": outcome, "text": text}
        results.append(result | ({} if is_ok else {"errors": errors[-_TEXT_MAX:]}))

    add("device", *_device())
    if results[0]["outcome"] != "ok":
        return results
    for name, code, variables, is_info in _CHECKS:
        with tempfile.TemporaryDirectory() as directory:
            found, errors = _run(code, directory, variables)
        add(name, *_judge(name, found, errors), is_info, errors)
        if "devices" in found and not found["devices"]:
            return results
    with tempfile.TemporaryDirectory() as directory:
        code = "ours(); use(''); work()"
        prefix = [sys.executable, "-m", "triton_proton", "-n", "doctor", "--"]
        found, errors = _run(code, directory, {}, prefix)
        if Path(directory, "doctor.hatchet").exists():
            found, more = _run("report(sys.argv[0][:-8] + 'doctor.hatchet')", directory, {})
            errors += more
    add(_COMMAND, *_judge(_COMMAND, found, errors), False, errors)
    return results


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="proton doctor", description="Check what works on this machine's GPUs."
    )
    parser.add_argument("--amd", action="store_true", required=True, help="AMD GPUs, with PyTorch")
    parser.add_argument("--report", metavar="FILE", help="write the results as JSON")
    options = parser.parse_args(arguments)
    results = _check_all()
    bad = [result for result in results if result["outcome"] != "ok"]
    if options.report:
        variables = {k: v for k, v in sorted(os.environ.items()) if _VARIABLE.match(k)}
        text = json.dumps({"doctor": 1, "checks": results, "environment": variables}, indent=1)
        Path(options.report).write_text(text + "\n", encoding="utf-8")
    print(f"{len(results) - len(bad)} of {len(results)} checks are as on the developers' fakes")
    if bad:
        report = options.report or "the output of `proton doctor --amd --report doctor.json`"
        print(f"send {report} in an issue: each check that differs has the library's output there")
    return 1 if any(result["outcome"] == "FAILED" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
