"""SECURITY.md lists the environment variables that name code to run or what is opened."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Variables that the sources read and that name neither: numbers, words, switches, texts.
VALUES = {
    "TEARDOWN_CUPTI",
    *("AMD_DIRECT_DISPATCH", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM"),
    *("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("PROTON_BACKEND", "PROTON_BACKWARD", "PROTON_COLLECTIVES", "PROTON_COMPILED"),
    *("PROTON_CUPTI_INTERFACE", "PROTON_INSTRUMENT_COST", "PROTON_KERNEL_TIMES"),
    *("PROTON_MAX_CHILDREN", "PROTON_MAX_CONTEXTS", "PROTON_MAX_NAMES", "PROTON_MERGE_PIPE"),
    *("PROTON_NO_CLOBBER", "PROTON_PC_SAMPLING_INTERVAL", "PROTON_QUIET", "PROTON_RANK"),
    *("PROTON_RANKS", "PROTON_RANKS_TIMEOUT", "PROTON_ROCPROFILER_PC_SAMPLING_METHOD"),
    *("ROCPROFILER_LOG_LEVEL", "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"),
    *("ROCPROFILER_REGISTER_ENABLED", "ROCPROFILER_REGISTER_FORCE_LOAD"),
    *("TRITON_ENABLE_NVTX", "TRITON_INTERPRET"),
    *("TRITON_PROFILE_BUFFER_SIZE", "TRITON_PROTON_DISABLE"),
    # Set by launchers, and the id of a launch.
    *("GROUP_RANK", "PROTON_LAUNCH", "SLURM_JOB_ID_HET_GROUP_0", "SLURM_RESTART_COUNT"),
    *("LOCAL_RANK", "LSB_JOBID", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_APID", "PALS_LOCAL_RANKID"),
    *("PALS_RANKID", "PBS_JOBID", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "RANK"),
    *("SLURM_JOB_ID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEPID"),
    *("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_TOPOLOGY_ADDR"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"),
    "WORLD_SIZE",
    # No variables: words in files that read some.
    *("AMD", "CUDA", "NVIDIA"),
}
NAME = r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)"'


def variables_of_c():
    """Names given to environment_get(); in files that search by other expressions, all names."""
    for path in (ROOT / "src").rglob("*.[ch]"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        is_indirect = re.search(r'environment_get\(\s*[^"\s]|library_search_', text)
        if is_indirect or path.name == "inject_environment.c":
            yield from re.findall(NAME, text)
        else:
            yield from re.findall(r"environment_get\(\s*" + NAME, text)


def variables_of_python():
    for path in (ROOT / "python" / "triton_proton").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "environ" in text:
            yield from re.findall(r'"((?:[A-Z][A-Z0-9]*_)+[A-Z0-9]+|PATH|HOME|PYTHONPATH)"', text)


def test_every_variable_that_names_code_or_a_path_is_in_the_table():
    read = {*variables_of_c(), *variables_of_python()}
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z][^|]*) \|", text, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    handover = (ROOT / "src" / "cli" / "handover.h").read_text(encoding="utf-8")
    prefix = re.search(r'HANDOVER_PREFIX "(\w+)"', handover)[1]
    assert listed - {prefix + "*"} == read - VALUES
    assert prefix + "*" in listed
    assert VALUES <= read
