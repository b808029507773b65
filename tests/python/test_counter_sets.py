"""The sets of counters against CUPTI's own host library, which needs no GPU.

tools/cupti_wheels.py downloads wheels; PROTON_TEST_CUPTI_WHEELS names their directory. Later
versions than 13.1 refuse every call without a driver.
"""

import glob
import os
import subprocess
from pathlib import Path

import pytest

from fake_driver import CC, INCLUDES, ROOT

WHEELS = os.environ.get("PROTON_TEST_CUPTI_WHEELS", "")

# Prints the sets of each chip in the arguments: names, and whether they fit into a single pass.
PROGRAM = """
#include "backend/cuda/counter_sets.c"
#include "backend/cuda/profiler_host.c"
#include <dlfcn.h>

struct cupti_api libcupti;
void cupti_api_preload_host(void) {}
int cupti_api_error(int result, const char *call, struct proton_error *err) { return result; }

int main(int argc, char **argv)
{
    void *library;

    dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    library = dlopen(argv[2], RTLD_NOW);
#define O(name, args) *(void **)&libcupti.name = dlsym(library, #name);
#define V O
#include "backend/cuda/cupti_symbols.def"
    for (int i = 3; i < argc; i++) {
        struct profiler_host host = {.type = HOST_RANGE_PROFILER, .chip = argv[i]};
        struct counter_sets sets = {0};

        counter_sets_choose(&sets, &host);
        for (size_t k = 0; k < sets.count; k++) {
            printf("%s %d %d", argv[i], configure(&sets.set[k]), (int)sets.left_out);
            for (size_t m = 0; m < sets.set[k].count; m++)
                printf(" %s", sets.set[k].names[m]);
            puts("");
        }
        counter_sets_fini(&sets);
    }
    return 0;
}
"""
CHIPS = (
    "GV100 TU102 GA100 GA102 GA103 GA10B GH100 AD102 AD107 GB100 GB102 GB110 GB10B GB202 GB207 "
    "GB20B"
).split()
TENSOR = "sm__ops_path_tensor_"
VECTOR = "sm__sass_thread_inst_executed_op_"
# Operands that the chip has, and that are in some set.
OPERANDS = {
    "GV100": {"fp16"},
    "TU102": {"fp16", "int8"},
    "GA100": {"bf16", "fp16", "tf32", "int8", "fp64"},
    "AD102": {"bf16", "fp16", "fp8", "tf32", "int8", "fp64"},
    "GH100": {"bf16", "fp16", "fp8", "tf32", "int8", "fp64"},
    "GB100": {"bf16", "fp16", "fp4", "tf32", "int8", "fp64"},
}


@pytest.mark.skipif(not WHEELS or not CC, reason="needs PROTON_TEST_CUPTI_WHEELS and a compiler")
def test_the_sets_of_each_chip_fit_into_a_pass(tmp_path: Path):
    (tmp_path / "sets.c").write_text(PROGRAM)
    program = tmp_path / "sets"
    subprocess.run(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-w", *INCLUDES, "-o", program, tmp_path / "sets.c"]
        + [ROOT / "src" / "base" / "array.c", "-ldl", "-lm"],
        check=True,
        timeout=300,
    )
    hosts = glob.glob(os.path.join(WHEELS, "13.[01].*", "nvidia", "cu13", "lib",
                                   "libnvperf_host.so"))
    assert hosts
    for host in hosts:
        cupti = glob.glob(os.path.join(os.path.dirname(host), "libcupti.so.13"))[0]
        done = subprocess.run(
            [str(program), host, cupti, *CHIPS], capture_output=True, text=True, timeout=300,
            check=True,
        )
        sets: dict[str, list[list[str]]] = {chip: [] for chip in CHIPS}
        for line in done.stdout.splitlines():
            chip, fits, left, *names = line.split()
            assert fits == "1", line
            assert int(left) <= (1 if chip.startswith("GB20") else 0), line
            sets[chip].append(names)
        for chip, found in sets.items():
            check_sets(chip, found)


def check_sets(chip: str, sets: list[list[str]]) -> None:
    traffic = sets[0]
    assert "lts__t_bytes.sum" in traffic, chip
    assert any(name.startswith("dram__bytes") for name in traffic) == (
        chip not in ("GB10B", "GB20B", "GA10B")
    ), chip
    assert all(name.startswith(VECTOR) for name in sets[-1]), chip
    assert {VECTOR + f"f{one}_pred_on.sum" for one in ("add", "mul", "fma")} <= set(sets[-1]), chip
    counted = [name for one in sets for name in one]
    assert len(counted) == len(set(counted)), chip
    operands = {
        name.split("src_")[1].split("_")[0].split(".")[0] for name in counted if TENSOR in name
    }
    assert operands == OPERANDS.get(chip, operands), chip


def test_gh100_counts_common_products_in_the_first_set(tmp_path: Path):
    """As measured on an H200: bf16, fp16 and fp8 of hgmma beside bytes and warps."""
    if not WHEELS or not CC:
        pytest.skip("needs PROTON_TEST_CUPTI_WHEELS and a compiler")
    (tmp_path / "sets.c").write_text(PROGRAM)
    subprocess.run(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-w", *INCLUDES, "-o", tmp_path / "sets"]
        + [tmp_path / "sets.c", ROOT / "src" / "base" / "array.c", "-ldl", "-lm"],
        check=True,
        timeout=300,
    )
    (host, *_) = glob.glob(os.path.join(WHEELS, "13.0.*", "nvidia", "cu13", "lib"))
    done = subprocess.run(
        [str(tmp_path / "sets"), f"{host}/libnvperf_host.so", f"{host}/libcupti.so.13", "GH100"],
        capture_output=True, text=True, timeout=300, check=True,
    )
    first = done.stdout.splitlines()[0].split()[3:]
    assert first == [
        "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum",
        "sm__warps_active.avg.pct_of_peak_sustained_active", "lts__t_bytes.sum.peak_sustained",
        TENSOR + "src_bf16_dst_fp32.sum", TENSOR + "op_hgmma_src_fp16.sum", TENSOR + "src_fp8.sum",
    ]
