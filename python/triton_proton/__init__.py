"""Proton: a GPU profiler for Triton.

    import triton_proton as proton

    proton.start("matmul", hook="triton")
    with proton.scope("layer 0"):
        kernel[grid](x, y)
    proton.finalize()

writes `matmul.hatchet`; `proton-viewer -m time/ms matmul.hatchet` shows it. Importing this package
loads neither Triton nor PyTorch.

PYTEST_DONT_REWRITE: under `proton pytest` it is imported before pytest, which warns about that.
"""

from __future__ import annotations

import os as _os
from typing import Any as _Any

from . import _libproton
from ._libproton import ProtonError

# Source paths contain the user's program, without frames of this package or of starting a script.
_libproton.hide_frames(
    [
        _os.path.dirname(_os.path.abspath(__file__)) + "/", "<frozen runpy>",
        _os.path.join(_os.path.dirname(_os.__file__), "runpy.py"),
    ]
)

from . import _rocm  # noqa: E402

_rocm.prepare()

from . import context, data, mode, specs  # noqa: E402
from ._alias import install_as_triton_profiler  # noqa: E402
from ._control import listen, snapshot  # noqa: E402
from ._modules import annotate, deannotate  # noqa: E402
from ._schedule import schedule, step  # noqa: E402
from .profile import (  # noqa: E402
    DEFAULT_PROFILE_NAME,
    activate,
    deactivate,
    finalize,
    profile,
    start,
)
from . import _compiled, ranks  # noqa: E402
from ._bench import bench  # noqa: E402
from .reader import load  # noqa: E402
from .scope import cpu_timed_scope, enter_scope, exit_scope, scope  # noqa: E402
from .state import enter_state, exit_state, metadata_state, state  # noqa: E402


_compiled.follow()


def load_ipython_extension(shell: _Any) -> None:
    """`%load_ext triton_proton` in IPython and Jupyter: then `%%proton` profiles a cell."""
    from ._magic import register

    register(shell)


__version__ = _libproton.version()

__all__ = [
    "DEFAULT_PROFILE_NAME",
    "ProtonError",
    "activate",
    "annotate",
    "bench",
    "context",
    "cpu_timed_scope",
    "data",
    "deactivate",
    "deannotate",
    "enter_scope",
    "enter_state",
    "exit_scope",
    "exit_state",
    "finalize",
    "install_as_triton_profiler",
    "listen",
    "load",
    "metadata_state",
    "mode",
    "profile",
    "ranks",
    "schedule",
    "scope",
    "snapshot",
    "specs",
    "start",
    "state",
    "step",
]
