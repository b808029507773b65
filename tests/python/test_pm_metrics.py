"""The metrics of PM sampling against CUPTI's own host library, which needs no GPU.

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

# Prints the columns of each chip in the arguments that CUPTI takes in a single pass.
PROGRAM = """
#include "backend/cuda/pm_sampling.c"
#include "backend/cuda/profiler_host.c"
#include <dlfcn.h>
#include <stdio.h>

struct cupti_api libcupti;
int cupti_api_load(struct proton_error *err) { return 0; }
void cupti_api_preload_host(void) {}
int cupti_api_error(int result, const char *call, struct proton_error *err) { return result; }
int err_set(struct proton_error *err, int status, const char *format, ...) { return status; }

int main(int argc, char **argv)
{
    void *library;

    dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    library = dlopen(argv[2], RTLD_NOW);
#define O(name, args) *(void **)&libcupti.name = dlsym(library, #name);
#define V O
#include "backend/cuda/cupti_symbols.def"
    for (int i = 3; i < argc; i++) {
        struct pm_sampling pm = {.host = {.type = HOST_PM_SAMPLING, .chip = argv[i]}};

        choose_metrics(&pm);
        printf("%s %d", argv[i], (int)try_metrics(&pm, pm.count));
        for (size_t k = 0; k < pm.count; k++)
            printf(" %d", (int)pm.columns[k]);
        puts("");
        profiler_host_fini(&pm.host);
    }
    return 0;
}
"""
ALL = range(12)
# Columns by their number in enum pm_column, which also is their order of importance.
CHIPS = {
    "GH100": list(ALL),
    "GB100": list(ALL),
    "GA100": [0, 1, 2, 3, 5, 6, 7, 8, 11],  # no instructions
    "AD102": [0, 1, 2, 3, 4, 6, 7, 8, 11],
    "GB202": [0, 1, 2, 3, 4, 6, 7, 8, 11],
    "GB10B": [0, 1, 4, 6, 11],
}


@pytest.mark.skipif(not WHEELS or not CC, reason="needs PROTON_TEST_CUPTI_WHEELS and a compiler")
def test_the_metrics_of_each_chip_fit_into_a_pass(tmp_path: Path):
    (tmp_path / "metrics.c").write_text(PROGRAM)
    program = tmp_path / "metrics"
    subprocess.run(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-w", *INCLUDES, "-o", program, tmp_path / "metrics.c"]
        + [ROOT / "src" / "base" / "array.c", "-ldl", "-lm"],
        check=True,
        timeout=300,
    )
    places = os.path.join(WHEELS, "13.[01].*", "nvidia", "cu13", "lib", "libnvperf_host.so")
    hosts = glob.glob(places)
    assert hosts
    for host in hosts:
        cupti = glob.glob(os.path.join(os.path.dirname(host), "libcupti.so.13"))[0]
        command = [str(program), host, cupti, *CHIPS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        lines = [line.split() for line in done.stdout.splitlines()]
        assert {chip: list(map(int, columns)) for chip, _, *columns in lines} == CHIPS, host
        assert all(fits == "1" for _, fits, *_ in lines)
