"""A client that drives `triton.profiler` as a worker of an inference server does.

The order of its calls is that of vLLM's worker. Without graphs, each request for a profile is a
session: start, a scope for each step, deactivate, finalize with a format. With graphs, one session
lives from the capture until the worker ends, and each request is a phase of it: its end advances
the phase, deactivates with a flush, and reads, writes and clears the phase.
"""

import contextlib
import glob
import inspect
import json
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

DEFAULTS = dict(
    context="shadow",
    data="tree",
    backend=None,
    mode=None,
    hook=None,
    output_format=None,
    graph_attribution=False,
    flush_interval=0,  # steps of a part; 0: a request has one file
)


def make_config(directory: str, **changes: Any) -> SimpleNamespace:
    assert changes.keys() <= DEFAULTS.keys(), changes
    return SimpleNamespace(directory=directory, **{**DEFAULTS, **changes})


class Client:
    def __init__(self, config: SimpleNamespace, worker: str) -> None:
        import triton.profiler

        self.proton = triton.profiler
        self.config = config
        self.prefix = os.path.join(config.directory, f"proton_{worker}_pid{os.getpid()}")
        self.session = None
        self.is_kept = False  # the session lives until shutdown
        self.is_running = False
        self.runs = self.steps = self.parts = self.phase = 0
        self.pending: list[tuple[int, str]] = []  # phases to write
        self.exporter = ThreadPoolExecutor(max_workers=1)
        assert "output_format" in inspect.signature(self.proton.finalize).parameters

    def _begin(self, path: str) -> None:
        os.makedirs(self.config.directory, exist_ok=True)
        options = ("context", "data", "backend", "mode", "hook")
        self.session = self.proton.start(
            name=path, **{name: getattr(self.config, name) for name in options}
        )
        assert self.session is not None

    @contextlib.contextmanager
    def capture_cuda_graphs(self):
        if not self.config.graph_attribution:
            yield
            return
        if self.session is None:
            self._begin(os.path.join(self.config.directory, ".graphs"))
        else:
            self.proton.activate(session=self.session)
        self.is_kept = True
        yield
        captured, self.phase = self.phase, self.proton.data.advance_phase(self.session)
        self.proton.deactivate(session=self.session, flushing=True)
        assert self.proton.data.is_phase_complete(self.session, captured)
        self.proton.data.clear(self.session, captured)

    def start(self) -> None:
        self.path = f"{self.prefix}_run{self.runs}"
        self.runs += 1
        self.steps = self.parts = 0
        if self.is_kept:
            self.proton.activate(session=self.session)
        else:
            self._begin(self.path)
        self.is_running = True

    def step(self) -> None:
        interval = self.config.flush_interval
        if self.is_running and interval and self.steps and self.steps % interval == 0:
            self._advance()
            self._export_complete()
        self.steps += 1

    def annotate_context_manager(self, name: str):
        return self.proton.scope(name) if self.is_running else contextlib.nullcontext()

    def stop(self) -> None:
        self.is_running = False
        if self.is_kept:
            self._advance()
            self.proton.deactivate(session=self.session, flushing=True)
            for future in self._export_complete():
                future.result(timeout=60)
            assert not self.pending
            return
        self.proton.deactivate(session=self.session)
        if self.config.output_format is None:
            self.proton.finalize(session=self.session)
        else:
            self.proton.finalize(session=self.session, output_format=self.config.output_format)
        self.session = None

    def shutdown(self) -> None:
        if self.is_running:
            self.stop()
        if self.is_kept:
            self.proton.finalize(session=self.session)
            for path in glob.glob(os.path.join(self.config.directory, ".graphs.*")):
                os.remove(path)
        self.exporter.shutdown()

    # ---------------------------------------------------------------- phases

    def _advance(self) -> None:
        part = f".part_{self.parts}" if self.config.flush_interval else ""
        self.parts += 1
        self.pending.append((self.phase, self.path + part))
        self.phase = self.proton.data.advance_phase(self.session)

    def _export_complete(self) -> list[Any]:
        """Write what is complete on the exporter's thread."""
        futures = []
        while self.pending:
            if not self.proton.data.is_phase_complete(self.session, self.pending[0][0]):
                break
            futures.append(self.exporter.submit(self._export, *self.pending.pop(0)))
        return futures

    def _export(self, phase: int, path: str) -> None:
        data = self.proton.data
        if self.config.output_format == "hatchet_msgpack":
            with open(path + ".hatchet_msgpack", "wb") as file:
                file.write(data.get_msgpack(self.session, phase))
        else:
            with open(path + ".hatchet", "w", encoding="utf-8") as file:
                json.dump(data.get(self.session, phase), file)
        data.clear(self.session, phase)
