"""Triton's driver of AMD GPUs without torch, for programs beside a played libamdhip64."""

from __future__ import annotations

from triton.backends.amd import driver as amd

STREAM = 7


class Driver(amd.HIPDriver):
    """Answers what the real one asks torch for."""

    def __init__(self):
        self.utils = amd.HIPUtils()
        self.launcher_cls = amd.HIPLauncher

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return STREAM
