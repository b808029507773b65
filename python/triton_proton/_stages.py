"""The stages of one kernel's compilation with the passes in them.

Profiling must not break a program that works: if a stage fails with markers or records, the kernel
is compiled without them, and a warning gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from . import _libproton
from ._markers import carry_markers, markers_of, removed_markers, without_markers
from ._mlir import arguments_of, name_of, parse_instead
from ._registers import SHARED_KIB, Costs, Fitting, add_warning

RECORD_BYTES = 8


_OUTER_KINDS = {"loops": 1 << 4, "partitions": 1 << 5}  # of INSTRUMENT_AUTO in src/intra/mode.h
_NAMES_IN_WARNING = 6


class Passes(NamedTuple):
    """A mode, whether it has automatic scopes, and the mode for a kernel where they cost much."""

    mode: str
    has_autos: bool
    fewer: str = ""


def fewer_scopes(mode: str, described: dict[str, Any]) -> str:
    """A mode with a budget, without the automatic scopes inside of loops; "" if there is none."""
    autos = described["autos"]
    kinds = [kind for kind, bit in _OUTER_KINDS.items() if autos & bit]
    if not described["budget"] or not kinds or not autos & ~sum(_OUTER_KINDS.values()):
        return ""
    parts = [part for part in mode.split(":")[1:] if not part.strip().startswith("auto")]
    return ":".join(["default", *parts, "auto=" + ",".join(kinds)])


class Version(NamedTuple):
    """A kernel's LLVM IR without and with records, as the pass described it."""

    text: Any
    made: dict[str, Any]
    before: dict[str, Any]  # the metadata without records
    after: dict[str, Any]
    omitted: Optional[str]
    costs: Optional[Costs]

    def scopes(self) -> list[str]:
        lines = self.made["layout"].splitlines()
        return [line[len("scope ") :] for line in lines if line.startswith("scope ")]


class KernelStages:
    """Replaces the stages of a kernel from TTGIR on."""

    def __init__(
        self,
        stages: dict[str, Any],
        passes: Passes,
        arch: str,
        is_amd: bool,
        warp_size: int,
        report: Callable[[str], None],
    ) -> None:
        self._passes, self._arch, self._report = passes, arch, report
        self._is_amd, self._warp_size = is_amd, warp_size
        self._make_llir = stages["llir"]
        names = list(stages)
        later = names[names.index("llir") + 1 :]
        # From LLVM IR to machine code, without the passes.
        self._rest = [(name, stages[name]) for name in later]
        # The LLVM IR before instrumentation and its metadata, if it was instrumented.
        self._plain: Optional[tuple[str, dict[str, Any]]] = None
        self._latest: Any = None  # the result of the latest stage from LLVM IR on
        self._name = ""
        self._stride = 1  # of CTAs, as the budget requires
        self._fitting = Fitting(stages, arch) if "ptx" in stages and "cubin" in stages else None
        if "ttgir" in stages:
            stages["ttgir"] = carry_markers(stages["ttgir"], arch)
        stages["llir"] = self._llir_stage
        for index, name in enumerate(later):
            stages[name] = self._with_way_back(index, stages[name])

    # ---- LLVM IR

    def _llir_stage(self, src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        def make(module: Any) -> Any:
            return self._make_llir(module, metadata, *more, **named)

        before = str(src)
        if not self._passes.has_autos and not markers_of(before):
            return make(src)
        kept = dict(metadata)
        self._name = name_of(src)
        try:
            return self._instrumented(src, before, metadata, make)
        except Exception as error:  # perhaps because of the markers
            self._plain = None
            _put_back(metadata, kept)
            text = make(without_markers(before, src))
            self._report(f"{self._name} was not instrumented: {error}")
            return text

    def _instrumented(
        self, src: Any, before: str, metadata: dict[str, Any], make: Callable[[Any], Any]
    ) -> Any:
        kept = dict(metadata)
        arguments = arguments_of(src, self._name)
        module, needed, omitted = self._insert_automatic(src, before, 0)
        text, made = self._try_instrument(module, metadata, arguments, make)
        if made is not None and 0 < made["ring_bytes"] < needed * RECORD_BYTES:
            # Automatic scopes were chosen for a larger ring buffer.
            _put_back(metadata, kept)
            module, _, omitted = self._insert_automatic(
                src, before, made["ring_bytes"] // RECORD_BYTES, is_used=True
            )
            text, made = self._try_instrument(module, metadata, arguments, make)
        if made is None:
            if omitted:
                self._report(f"{self._name}: {omitted}")
            return text
        if self._fitting is not None:
            self._fitting.records_follow(text, metadata, self._name)
        version = self._version(text, made, metadata, omitted)
        if version.costs:
            _put_back(metadata, kept)
            version = self._with_fewer(version, src, before, metadata, arguments, make)
        _put_back(metadata, version.after)
        if version.omitted:
            self._report(f"{self._name}: {version.omitted}")
            add_warning(metadata, version.omitted)
        self._plain = version.text, version.before
        self._latest = version.made["text"]
        return self._latest

    def _version(
        self, text: Any, made: dict[str, Any], metadata: dict[str, Any], omitted: Optional[str]
    ) -> Version:
        """A version of the kernel; its costs are measured if there could be one with fewer."""
        before = dict(metadata)
        self._describe(made, metadata)
        costs = None
        if self._passes.fewer and self._fitting is not None:
            costs = self._fitting.try_out(made["text"], metadata)
        return Version(text, made, before, dict(metadata), omitted, costs)

    def _with_fewer(
        self,
        version: Version,
        src: Any,
        before: str,
        metadata: dict[str, Any],
        arguments: int,
        make: Callable[[Any], Any],
    ) -> Version:
        """The kernel without scopes inside of loops, if its records cost at most half as much."""
        assert self._fitting is not None and version.costs is not None
        module, _, omitted = self._insert_automatic(
            src, before, 0, is_used=True, mode=self._passes.fewer
        )
        try:
            text, made = self._try_instrument(module, metadata, arguments, make)
            if made is None:
                return version
            fewer = self._version(text, made, metadata, omitted)
        except Exception:  # the first version has been made
            return version
        if fewer.costs is None or not fewer.costs.is_half_of(version.costs):
            return version
        names = [name for name in version.scopes() if name not in fewer.scopes()]
        listed = ", ".join([*names[:_NAMES_IN_WARNING], *["..."][: len(names) // 7]])
        reason = (
            f"{len(names)} of {len(version.scopes())} scopes were omitted, because with them its "
            f"scopes would cost {version.costs}: {listed}"
        )
        reason += "" if version.omitted else "; for more, set budget=off"
        return fewer._replace(omitted="; ".join(filter(None, [version.omitted, reason])))

    def _insert_automatic(
        self, src: Any, before: str, records: int, is_used: bool = False, mode: str = ""
    ) -> tuple[Any, int, Optional[str]]:
        """The module with automatic scopes for a ring buffer of `records`; 0: not known yet.

        Also returns how many records a warp makes in one pass, and which scopes were omitted.
        """
        text, needed, omitted, self._stride = None, 0, None, 1
        if self._passes.has_autos:
            try:
                text, needed, omitted, self._stride = _libproton.instrument_ttgir(
                    before, mode or self._passes.mode, self._is_amd, False, records
                )
            except Exception as error:
                self._report(f"{self._name}: no automatic scopes inserted: {error}")
        if text is None and is_used:
            text = before  # the stage has changed the module
        return (src if text is None else parse_instead(text, src)), needed, omitted

    def _try_instrument(
        self,
        module: Any,
        metadata: dict[str, Any],
        arguments: int,
        make: Callable[[Any], Any],
    ) -> tuple[Any, Optional[dict[str, Any]]]:
        """The LLVM IR of a module, and what the pass makes of it; None if it is not changed."""
        markers = markers_of(str(module))
        text = make(module)
        if not isinstance(text, str):
            if markers:
                self._report(f"{self._name} was not instrumented: its LLVM IR is not text")
            return text, None
        if removed := removed_markers(markers, markers_of(text)):
            self._report(f"{self._name}: {removed}")
        if metadata.get("profile_scratch_size"):
            self._report(
                f"{self._name} was not instrumented: another tool has already instrumented it"
            )
            return text, None
        try:
            return text, self._insert_records(text, metadata, arguments)
        except Exception as error:
            self._report(f"{self._name} was not instrumented: {error}")
            return text, None

    def _insert_records(
        self, text: str, metadata: dict[str, Any], arguments: int
    ) -> Optional[dict[str, Any]]:
        limit, per_processor = SHARED_KIB.get(self._arch, (0, 0))
        made = _libproton.instrument_llvm(
            text,
            self._arch,
            int(metadata["num_warps"]),
            self._warp_size,
            int(metadata["shared"] or 0),
            limit << 10,
            per_processor << 10,
            arguments,
            _with_stride(self._passes.mode, self._stride),
        )
        if made is None:
            return None
        if made["ignored"]:
            self._report(
                f"{self._name}: {made['ignored']} scope markers ignored, so these scopes are "
                f"lost: {made['reason']}"
            )
        if made.get("records_reason"):
            self._report(
                f"{self._name}: records instead of sums, and long loops may overwrite some: "
                f"{made['records_reason']}"
            )
        return made if "text" in made else None

    def _describe(self, made: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Put what an instrumented kernel needs into its metadata."""
        size = made["cta_bytes"]
        if self._is_amd:
            # Triton's launcher for AMD multiplies this by the grid, which does not count the CTAs
            # that a cluster adds; NVIDIA's does.
            size *= int(metadata.get("num_ctas") or 1)
        metadata["shared"] = made["shared"]
        metadata["profile_scratch_size"] = size
        metadata["profile_scratch_align"] = 128
        metadata["proton_layout"] = made["layout"]

    # ---- machine code

    def _with_way_back(self, index: int, inner: Callable[..., Any]) -> Callable[..., Any]:
        """A stage after LLVM IR that makes its result without records if it fails with them."""

        def stage(src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
            try:
                made = inner(src, metadata, *more, **named)
                if src is self._latest:
                    self._latest = made
                return made
            except Exception as error:
                # A file that overrides a stage may be what failed.
                if self._plain is None or src is not self._latest:
                    raise
                (made, kept), self._plain = self._plain, None
                _put_back(metadata, kept)
                for _, make in self._rest[: index + 1]:
                    made = make(made, metadata)
                self._report(f"{self._name} was not instrumented: {error}")
                return made

        return stage


def _with_stride(mode: str, stride: int) -> str:
    """The mode with every n-th CTA recording, if the budget requires more than one."""
    if stride <= 1:
        return mode
    parts = [part for part in mode.split(":") if not part.strip().startswith("cta")]
    return ":".join([*parts, f"cta={stride}"])


def _put_back(metadata: dict[str, Any], kept: dict[str, Any]) -> None:
    metadata.clear()
    metadata.update(kept)
