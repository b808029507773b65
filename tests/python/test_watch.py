"""`proton watch`: the counters of a whole GPU, with the fake libraries (tests/fake/cupti_pm.c)."""

import json
import os
import pty
import re
import signal
import subprocess
import time

from cmd_support import environment, executable, proton
from fake_driver import libraries

PEAK = ".avg.pct_of_peak_sustained_elapsed"
# Name of the metric, of which the fake's values are made, by column.
PERCENT = {
    "sm_active": f"TPC.TriageCompute.sm__cycles_active{PEAK}",
    "tensor": f"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime{PEAK}",
    "dram_read": f"FBSP.TriageCompute.dramc__read_throughput{PEAK}",
    "busy": f"FE_B.TriageCompute.gr__cycles_active{PEAK}",
}
BYTES = {
    "pcie_read": "PCI.TriageCompute.pcie__read_bytes.sum",
    "pcie_write": "PCI.TriageCompute.pcie__write_bytes.sum",
}


def fakes(**changes: str | None) -> dict[str, str]:
    return environment(**{**libraries(), **changes})


def watch(tmp_path, *arguments: str, **changes: str | None):
    return proton("watch", *arguments, cwd=tmp_path, env=fakes(**changes))


def test_json_has_means_and_maxima(tmp_path):
    began = time.time_ns()
    done = watch(tmp_path, "--json", "--count", "2")
    assert (done.returncode, done.stderr) == (0, "")
    updates = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(updates) == 2
    for update in updates:
        assert update["device"] == 0 and update["lost"] is False
        assert began < update["time_ns"] < time.time_ns()
        assert 20 < update["samples"] <= 200  # of 10 ms; a busy machine reads late
        for key, metric in PERCENT.items():  # half of the samples have 20 more
            assert abs(update[f"{key}_pct"] - (len(metric) / 2 + 10)) < 0.5
            assert update[f"{key}_max_pct"] == len(metric) / 2 + 20
        for key, metric in BYTES.items():  # in 10 ms
            assert round(update[f"{key}_bytes_per_s"]) == len(metric) * 100_000
            assert round(update[f"{key}_max_bytes_per_s"]) == len(metric) * 100_000
    assert updates[1]["time_ns"] > updates[0]["time_ns"]
    assert not [key for key in updates[0] if "nvlink" in key]  # this GPU has none


def test_a_file_gets_a_line_for_each_update(tmp_path):
    done = watch(tmp_path, "-c", "1", FAKE_PM_CHIP="GB202", FAKE_PM_ROOM="3")
    assert (done.returncode, done.stderr) == (0, "")
    heading, values = done.stdout.splitlines()
    assert heading.split("  ")[-1] == "DRAM read" and heading.split() == [
        "SM", "active", "tensor", "DRAM", "read",
    ]  # fmt: skip
    names = (f"sm__cycles_active{PEAK}", f"sm__pipe_tensor_cycles_active{PEAK}")
    for value, name in zip(re.findall(r"([\d.]+) %", values), names):
        assert abs(float(value) - (len(name) / 2 + 10)) < 0.6


def test_lost_samples_are_reported(tmp_path):
    done = watch(tmp_path, "--json", "-c", "1", FAKE_PM_HARDWARE="2")
    assert json.loads(done.stdout)["lost"] is True
    done = watch(tmp_path, "-c", "1", FAKE_PM_HARDWARE="2")
    assert done.stdout.splitlines()[1].endswith("  samples were lost")


def read_all(fd: int) -> str:
    text = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            return text.decode()
        text += part


def test_a_terminal_is_drawn_again_in_place(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [executable("proton"), "watch", "-c", "2"], stdout=theirs, env=fakes(), cwd=tmp_path
    )
    os.close(theirs)
    text = read_all(ours)
    assert process.wait(timeout=60) == 0
    text = text.replace("\r", "")
    assert text.count("\x1b[?7l") == text.count("\x1b[?7h") == 2  # no line is wrapped
    text = text.replace("\x1b[?7l", "").replace("\x1b[?7h", "")
    first, second = text.split("\x1b[11A\x1b[J")
    assert max(map(len, first.splitlines() + second.splitlines())) < 80
    assert first.count("\n") == second.count("\n") == 11  # ten columns and a heading
    assert first.startswith("GPU 0 Fake GPU 0, mean and maximum of 1 s\n")
    line = next(line for line in second.splitlines() if line.startswith("PCIe read"))
    assert re.fullmatch(r"PCIe read +3\.8 MB/s +3\.8 MB/s  ██", line)
    line = next(line for line in second.splitlines() if line.startswith("SM active"))
    assert re.fullmatch(r"SM active   █{7}\S? +4[45]\.\d % +5[45]\.\d %  ▄▄", line)


def test_a_signal_ends_it_with_status_0(tmp_path):
    process = subprocess.Popen(
        [executable("proton"), "watch", "--json"],
        stdout=subprocess.PIPE, env=fakes(), cwd=tmp_path, text=True,
    )  # fmt: skip
    assert json.loads(process.stdout.readline())["samples"]
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert all(json.loads(line) for line in rest.splitlines())


def test_a_full_disk_ends_it_with_the_reason(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [executable("proton"), "watch", "-c", "1"],
            stdout=full, stderr=subprocess.PIPE, env=fakes(), cwd=tmp_path, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "proton: cannot write the output: No space left on device\n"


def test_errors_give_reason_and_remedy(tmp_path):
    for arguments, status, text in (
        (["x"], 2, "unexpected argument: x; see proton watch --help"),
        (["-d", "one"], 2, "--device is not the number of a GPU: one; see nvidia-smi -L"),
        (["-d", "2"], 1, "there is no GPU 2; this machine has 2"),
        (["-i", "0"], 2, "--interval"),
    ):
        done = watch(tmp_path, *arguments)
        assert done.returncode == status and done.stdout == ""
        assert done.stderr.startswith("proton: ") and text in done.stderr
        assert done.stderr.count("\n") == 1
    done = watch(tmp_path, FAKE_CUPTI_FAIL="cuptiPmSamplingEnable=35")
    assert done.returncode == 1 and "restricts profiling to administrators" in done.stderr
    done = watch(tmp_path, PROTON_CUPTI_PATH=str(tmp_path / "none.so"))
    assert done.returncode == 1 and "libcupti" in done.stderr


def test_the_library_of_an_injection_is_not_loaded(tmp_path):
    done = watch(tmp_path, "--json", "-c", "1", CUDA_INJECTION64_PATH=str(tmp_path / "none.so"))
    assert (done.returncode, done.stderr) == (0, "")
