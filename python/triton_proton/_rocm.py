"""ROCm from Python's wheels, and the early registration with rocprofiler-sdk.

ROCm's wheels keep their libraries where no loader looks. Their package `rocm_sdk` knows the paths,
and Triton has variables for them, which the library reads (src/driver/amd_library.c).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from typing import Optional

from . import _kineto, _libproton

TOOL = "libproton_rocprofiler.so"
HSA_TOOL = "libproton_hsa.so"
_PREFIX = "PROTON_RUN_"

# The library's name in rocm_sdk, and Triton's variables: a directory and a file, or a path alone.
_VARIABLES = {
    "amdhip64": (None, "TRITON_LIBHIP_PATH"),
    "rocprofiler-sdk": ("TRITON_ROCPROFILER_SDK_LIB_PATH", "TRITON_ROCPROFILER_SDK_LIBRARY"),
    "roctracer64": ("TRITON_ROCTRACER_LIB_PATH", "TRITON_ROCTRACER_LIBRARY"),
    "roctx64": ("TRITON_ROCTX_LIB_PATH", "TRITON_ROCTX_LIBRARY"),
}


def _is_likely() -> bool:
    return os.path.exists("/dev/kfd") or bool(os.environ.get("PROTON_HIP_PATH"))


def _loaded_hip() -> Optional[str]:
    """The libamdhip64 that this process has."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")
            if os.path.basename(path[2]).startswith("libamdhip64.so"):
                return "/" + path[2]
    return None


def _find(name: str) -> Optional[str]:
    try:
        return str(importlib.import_module("rocm_sdk").find_libraries(name)[0])
    except Exception:  # the package is not ours: whatever it raises, there is no such library
        return None


def name_libraries() -> None:
    """Set Triton's variables for the libraries of ROCm's wheels, unless they are set.

    Nothing is set if the process uses another HIP: its own ROCm has the right libraries.
    """
    try:
        if importlib.util.find_spec("rocm_sdk") is None:
            return
    except (ImportError, ValueError):
        return
    own = _find("amdhip64")
    loaded = _loaded_hip()
    if own is None or (loaded and os.path.realpath(loaded) != os.path.realpath(own)):
        return
    for name, (directory, file) in _VARIABLES.items():
        if file in os.environ or (directory and directory in os.environ):
            continue
        path = own if name == "amdhip64" else _find(name)
        if path is None:
            continue
        if directory:
            os.environ[directory] = os.path.dirname(path)
            os.environ[file] = os.path.basename(path)
        else:
            os.environ[file] = path


def is_loaded_by_hip() -> bool:
    """True if `proton` lets HIP load the recorder into this process and its children."""
    return TOOL in os.environ.get("ROCP_TOOL_LIBRARIES", "")


def _set_or_remove(variable: str, value: str) -> None:
    if value:
        os.environ[variable] = value
    else:
        os.environ.pop(variable, None)


def leave_children_alone() -> None:
    """Remove the recorder from the tools that ROCm loads into children."""
    hsa_tools = os.environ.get("HSA_TOOLS_LIB", "")
    if hsa_tools.endswith("/" + HSA_TOOL):
        # Proton's tool is the last one; a space in its path is escaped.
        rest = re.sub(r"(^| )(\\.|[^ \\])*$", "", hsa_tools)
        _set_or_remove("HSA_TOOLS_LIB", rest)
    tools = os.environ.get("ROCP_TOOL_LIBRARIES", "")
    rest = re.sub(rf"(^|:)[^:]*/{re.escape(TOOL)}:?$", "", tools)
    if rest == tools:
        return
    _set_or_remove("ROCP_TOOL_LIBRARIES", rest)
    if os.environ.get(_PREFIX + "SDK"):
        os.environ.pop("ROCPROFILER_REGISTER_LIBRARY", None)


def prepare() -> None:
    """Register with rocprofiler-sdk on a machine with ROCm, before HIP's first queue."""
    if sys.platform != "linux" or not _is_likely():
        return
    name_libraries()
    if not is_loaded_by_hip():
        _libproton.prepare()
    _kineto.follow_rocm()
