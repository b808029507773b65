"""`proton watch` in another process: planted loads of a GPU. Skipped without one.

    python -m pytest tests/gpu/test_watch_loads.py
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import gpus
import pytest

gpus.need(gpus.NVIDIA, "PM sampling")

LOADS = {
    # 8192^3 in bf16: 96.7 % of the tensor cores' peak were measured on an H200.
    "matmul": """
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        step = lambda: a @ a
    """,
    "copy": """
        a = torch.empty(1 << 30, device="cuda", dtype=torch.uint8); b = torch.empty_like(a)
        step = lambda: b.copy_(a)
    """,
    "to the GPU": """
        a = torch.empty(1 << 28, dtype=torch.uint8).pin_memory()
        b = torch.empty_like(a, device="cuda")
        step = lambda: b.copy_(a, non_blocking=True)
    """,
    "idle": """
        a = torch.empty(1, device="cuda")
        step = lambda: time.sleep(0.01)
    """,
}
LOOP = """
import time, torch
{load}
begin = time.monotonic()
while time.monotonic() - begin < 8:
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
"""


@pytest.mark.parametrize("load", LOADS)
def test_planted_loads_are_seen_from_another_process(tmp_path: Path, load: str):
    code = LOOP.format(load=textwrap.dedent(LOADS[load]))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        command = [str(Path(sys.executable).parent / "proton"), "watch", "--json", "--count", "3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        other.terminate()
    assert done.returncode == 0, done.stderr
    update = json.loads(done.stdout.splitlines()[1])  # the whole second is within the load
    print(load, update)
    assert update["samples"] > 80 and not update["lost"]
    if load == "matmul":
        assert update["sm_active_pct"] > 90 and update["tensor_pct"] > 60
    elif load == "copy":
        assert update["dram_read_pct"] > 30 and update["dram_write_pct"] > 30
        assert update["tensor_pct"] < 1
    elif load == "to the GPU":
        assert update["pcie_read_bytes_per_s"] > 5e9
    else:
        assert update["sm_active_pct"] < 5 and update["dram_read_pct"] < 5
