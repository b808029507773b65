"""The stages of one kernel's compilation with the passes in them.

Profiling must not break a program that works: if a stage fails with markers or records, the kernel
is compiled without them, and a warning gives the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from . import _libproton
from ._markers import arguments_of, carry_markers, markers_of, name_of, parse_instead, put_back
from ._markers import removed_markers, without_markers
from ._registers import SHARED_KIB, Costs, Fitting, add_warning

RECORD_BYTES = 8


class Passes(NamedTuple):
    """A mode, whether it has automatic scopes, and whether these have a budget."""

    mode: str
    has_autos: bool
    has_budget: bool = False
    # In Triton's cache key; without a comma, which separates Triton's own modes.
    name: str = ""
    # The automatic scopes, one per line; "": the kernel is plain; None: the budget decides.
    only: Optional[str] = None


class Insertion(NamedTuple):
    """A module with automatic scopes."""

    module: Any
    text: Optional[str]  # None: the module is unchanged
    needed: int  # records that a warp makes in one pass
    omitted: Optional[str]  # which scopes, and why


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
        self._arguments = -1  # their number in TTGIR; -1: unknown
        self._stride = 1  # of CTAs, as the budget requires
        self._found = ""  # all automatic scopes, one per line
        can_compare = {"ptx", "cubin"} <= stages.keys() or "amdgcn" in stages
        self._fitting = Fitting(stages, arch) if can_compare else None
        if "ttgir" in stages:
            stages["ttgir"] = carry_markers(stages["ttgir"], arch)
        stages["llir"] = self._llir_stage
        for index, name in enumerate(later):
            stages[name] = self._with_way_back(index, stages[name])

    # ---- LLVM IR

    def _llir_stage(self, src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        def make(module: Any, metadata: dict[str, Any] = metadata) -> Any:
            return self._make_llir(module, metadata, *more, **named)

        before = str(src)
        if self._passes.only == "":
            return make(without_markers(before, src))
        if not self._passes.has_autos and not markers_of(before):
            return make(src)
        kept = dict(metadata)
        self._name = name_of(src)
        try:
            return self._instrumented(src, before, metadata, make)
        except Exception as error:  # perhaps because of the markers
            self._plain = None
            put_back(metadata, kept)
            text = make(without_markers(before, src))
            self._report(f"{self._name} was not instrumented: {error}")
            return text

    def _instrumented(
        self, src: Any, before: str, metadata: dict[str, Any], make: Callable[..., Any]
    ) -> Any:
        kept = dict(metadata)
        self._arguments = arguments_of(src, self._name)

        @functools.cache
        def plain() -> tuple[Any, dict[str, Any]]:
            after = dict(kept)
            return make(without_markers(before, src), after), after

        def try_scopes(inserted: Insertion) -> tuple[Any, Optional[dict[str, Any]]]:
            put_back(metadata, kept)
            return self._try_instrument(inserted.module, metadata, make)

        inserted, records = self._insert_automatic(src, before, 0), 0
        text, made = try_scopes(inserted)
        if made is not None and 0 < made["ring_bytes"] < inserted.needed * RECORD_BYTES:
            # Automatic scopes were chosen for a larger ring buffer.
            records = made["ring_bytes"] // RECORD_BYTES
            inserted = self._insert_automatic(src, before, records, is_used=True)
            text, made = try_scopes(inserted)
        if made is None:
            if inserted.omitted:
                self._report(f"{self._name}: {inserted.omitted}")
            return text
        if self._fitting is not None:
            self._fitting.records_follow(plain, self._name)
        version = self._version(text, made, metadata, inserted.omitted)
        if self._passes.only and version.costs is not None and version.costs.is_too_much():
            text, after = plain()
            put_back(metadata, after)
            return text
        if version.costs is not None and version.costs.is_too_much():

            def with_fewer(*how: Any) -> Optional[Version]:
                fewer = self._insert_automatic(src, before, records, True, how)
                if fewer.text in known:
                    return None
                known.add(fewer.text)
                text, made = try_scopes(fewer)
                return made and self._version(text, made, metadata, fewer.omitted)

            known = {inserted.text}
            version, every = _cheaper(version, with_fewer), version
            if version.costs and not markers_of(before):
                self._report(f"{self._name}: {_without_all(every)}")
                text, after = plain()
                put_back(metadata, after)
                return text
        put_back(metadata, version.after)
        if version.omitted:
            self._report(f"{self._name}: {version.omitted}")
            add_warning(metadata, version.omitted)
        if self._passes.has_budget:
            metadata["proton_scopes"] = self._found
        self._plain = version.text, version.before
        self._latest = version.made["text"]
        return self._latest

    def _version(
        self, text: Any, made: dict[str, Any], metadata: dict[str, Any], omitted: Optional[str]
    ) -> Version:
        """A version of the kernel; its costs are measured if there is a budget.

        Sums have the shortest and the longest execution if those cost nothing.
        """
        before = dict(metadata)
        savings = _savings(made) if self._fitting is not None else []
        is_tried = self._passes.has_budget or bool(savings)
        version = self._try_out(text, made, before, omitted, is_tried)
        for saving in savings:
            costs = version.costs
            if costs is not None and not costs:
                break
            fewer = self._run_pass(text, before, **saving)
            other = self._try_out(text, fewer, before, omitted, is_tried)
            if other.costs is not None and (costs is None or other.costs.is_less_than(costs)):
                version = other
        put_back(metadata, version.after)
        return version if self._passes.has_budget else version._replace(costs=None)

    def _try_out(
        self,
        text: Any,
        made: dict[str, Any],
        before: dict[str, Any],
        omitted: Optional[str],
        is_tried: bool,
    ) -> Version:
        after, costs = dict(before), None
        self._describe(made, after)
        if self._fitting is not None and is_tried:
            costs = self._fitting.try_out(made["text"], after)
        return Version(text, made, before, after, omitted, costs)

    def _insert_automatic(
        self, src: Any, before: str, records: int, is_used: bool = False, fewer: Sequence[Any] = ()
    ) -> Insertion:
        """The module with automatic scopes for a ring buffer of `records`; 0: not known yet.

        `fewer`: the percentage of their registers that must be saved, scopes to omit, and what more
        scopes would cost.
        """
        text, needed, omitted, self._stride = None, 0, None, 1
        if self._passes.has_autos:
            try:
                text, needed, omitted, self._stride, found = _libproton.instrument_ttgir(
                    before, self._passes.mode, self._is_amd, False, records,
                    *(fewer or (0, "", "", 0)), self._passes.only or "",
                )
                self._found = found or ""
            except Exception as error:
                self._report(f"{self._name}: no automatic scopes inserted: {error}")
        if text is None and is_used:
            text = before  # the stage has changed the module
        module = src if text is None else parse_instead(text, src)
        return Insertion(module, text, needed, omitted)

    def _try_instrument(
        self, module: Any, metadata: dict[str, Any], make: Callable[[Any], Any]
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
            made = self._run_pass(text, metadata) or {}
        except Exception as error:
            self._report(f"{self._name} was not instrumented: {error}")
            return text, None
        if made.get("ignored"):
            self._report(
                f"{self._name}: {made['ignored']} scope markers ignored, so these scopes are "
                f"lost: {made['reason']}"
            )
        if made.get("records_reason"):
            self._report(
                f"{self._name}: records instead of sums, and long loops may overwrite some: "
                f"{made['records_reason']}"
            )
        return text, made if "text" in made else None

    def _run_pass(
        self, text: str, metadata: dict[str, Any], hoist: bool = False, extremes: bool = True
    ) -> Any:
        limit, per_processor = SHARED_KIB.get(self._arch, (0, 0))
        mode = self._passes.mode
        if self._stride > 1:  # every n-th CTA records, as the budget requires
            mode = _with(mode, "cta", str(self._stride))
        return _libproton.instrument_llvm(
            text,
            self._arch,
            int(metadata["num_warps"]),
            self._warp_size,
            int(metadata["shared"] or 0),
            limit << 10,
            per_processor << 10,
            self._arguments,
            mode,
            hoist,
            extremes,
        )

    def _describe(self, made: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Put what an instrumented kernel needs into its metadata."""
        size = made["requested"]
        if self._is_amd:
            # Triton's launcher for AMD multiplies this by the grid, which does not count the CTAs
            # that a cluster adds; NVIDIA's does.
            size *= int(metadata.get("num_ctas") or 1)
        metadata["shared"] = made["shared"]
        metadata["profile_scratch_size"] = size
        metadata["profile_scratch_align"] = made["alignment"]
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
                put_back(metadata, kept)
                for _, make in self._rest[: index + 1]:
                    made = make(made, metadata)
                self._report(f"{self._name} was not instrumented: {error}")
                return made

        return stage


def _savings(made: dict[str, Any]) -> list[dict[str, bool]]:
    """Options for the pass that may make a kernel with the same scopes cheaper."""
    ways = [{"hoist": True}] if made.get("can_hoist") else []
    if made.get("extremes"):
        ways += [{"extremes": False}, *({**way, "extremes": False} for way in ways)]
    return ways


# Loops and partitions only, with so many levels of nested loops; 0: all levels. The last one has
# other scopes instead.
_LEVELS = (0, 2, 1, None)


def _cheaper(
    every: Version, with_fewer: Callable[[int, str, str, int], Optional[Version]]
) -> Version:
    """The kernel with so few scopes that they cost nothing, or at most half as much as all.

    `with_fewer` makes one with a percentage less of the registers that the scopes need, without
    some scopes, with a note about the costs of more, and with so many levels of loops, 0 for all.
    """
    assert every.costs is not None
    best, costly = every, ""
    for less, levels in ((every.costs.less(), 0), *((100, levels) for levels in _LEVELS)):
        without = costly if levels is None else ""
        try:
            fewer = with_fewer(less, without, str(every.costs), levels or 0)
        except Exception:  # there are other versions
            continue
        if fewer is None or fewer.costs is None:
            continue
        if fewer.costs.is_half_of(best.costs) or (best.costs and not fewer.costs):
            best = fewer
        if not fewer.costs.is_too_much():
            break
        words = {name.partition("@")[0] for name in fewer.scopes()}
        costly = "\n".join(n for n in every.scopes() if n.partition("@")[0] in words)
    return best


def _without_all(every: Version) -> str:
    """Why a kernel has no automatic scope."""
    count = sum("@" in name for name in every.scopes())
    return (
        f"{count} of {count} automatic scopes were omitted, because with any its scopes would cost "
        f"{every.costs}; to have them nevertheless, set budget=off"
    )


def with_records(mode: str) -> str:
    """The mode with records, unless it chooses sums."""
    tree = _libproton.instrument_mode(mode)["tree"]
    return _with(mode, "tree", "records") if tree == "auto" else mode


def _with(mode: str, key: str, value: str) -> str:
    parts = [part for part in mode.split(":") if part.partition("=")[0].strip() != key]
    return ":".join([*parts, f"{key}={value}"])
