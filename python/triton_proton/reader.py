"""Profiles in Python: the tables of proton-viewer.

    profile = triton_proton.load("matmul.proton")
    profile.metrics("time/ms", "util").top().df

A `Profile` is a selection of a loaded profile; methods return new ones and change nothing. The
numbers come from the viewer. pandas and pyarrow are imported where they are needed.
"""

from __future__ import annotations

import html
import json
import os
import stat
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _libproton
from ._libproton import ProtonError
from ._reader import Column, Files
from ._reader import Table as _Rows

__all__ = ["Node", "Nodes", "Profile", "Ranks", "Table", "load"]

_Path = Union[str, "os.PathLike[str]"]
_Options = dict[str, Any]

_REFUSED = 2  # EXIT_BAD of the viewer
_GATE_FAILED = 3  # EXIT_GATE
_ALL_LEVELS = 2**32 - 1
_HTML_MAX = 16 << 20
_GZIP = b"\x1f\x8b"
# As of format/profile_view.h, for files that are compressed.
_UNZIPPED_PER_BYTE = 100
_UNZIPPED_MORE = 40 << 20


def load(
    source: Union[int, _Path, Iterable[_Path]],
    *,
    rank: Optional[int] = None,
    merge: Optional[str] = None,
    allow_mixed: bool = False,
) -> Profile:
    """Read a profile: a path, several, or a session that is recording.

    Every format is read, also compressed by gzip, and a directory NAME.ranks as a job. Several
    paths are merged: summed, or with `merge` "mean", "min", "max" or "spread". rank: only a number,
    for one rank. Raises OSError for a path that cannot be opened, and ProtonError with the viewer's
    message if it is not a profile. Warnings tell what a profile lacks.
    """
    folder = None
    if isinstance(source, int):
        folder = tempfile.TemporaryDirectory(prefix="proton-")
        name = os.path.join(folder.name, f"session_{source}")
        source = _libproton.snapshot(source, name, "proton")
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not paths:
        raise ValueError("load() needs at least one path")
    files = _Loaded([os.fspath(path) for path in paths], folder)
    given = {"rank": rank, "merge": merge, "allow-mixed": allow_mixed}
    options = {name: value for name, value in given.items() if value not in (None, False)}
    files.load(options)
    return Profile(files, options)


def _unzip(path: str, packed: bytes) -> bytes:
    """The content of a gzip file; it may have several members."""
    limit = len(packed) * _UNZIPPED_PER_BYTE + _UNZIPPED_MORE
    parts = []
    try:
        while packed:
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(packed, limit + 1))
            limit -= len(parts[-1])
            if limit < 0:
                raise _error(f"cannot read {path}: it would take too much memory for its size")
            if not member.eof:
                raise _error(f"cannot read {path}: the compressed file is not complete")
            packed = member.unused_data
    except zlib.error as error:
        raise _error(f"cannot read {path}: it is not valid gzip ({error})") from None
    return b"".join(parts)


def _error(message: str) -> ProtonError:
    error = ProtonError(message)
    error.status = -1  # PROTON_E_INVALID
    return error


def _warn(message: str) -> None:
    """A warning at the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


class _Loaded:
    """Files in memory, shared by the profiles that are made of them."""

    def __init__(self, paths: list[str], folder: Any) -> None:
        self.paths = paths
        self.files = Files()
        self._folder = folder  # removed with the last profile
        self._warned: set[str] = set()
        for path in paths:
            if path != "-" and stat.S_ISREG(os.stat(path).st_mode):
                with open(path, "rb") as file:
                    if file.read(2) == _GZIP:
                        file.seek(0)
                        self.files.add(os.fsencode(path), _unzip(path, file.read()))

    def _words(self, options: _Options) -> list[bytes]:
        words = []
        for name, value in options.items():
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}" if one is True else f"--{name}={one}" for one in values]
        return [os.fsencode(word) for word in (*words, "--", *self.paths)]

    def _take(self, status: int, output: Any, messages: bytes) -> Any:
        lines = messages.decode("utf-8", "replace").splitlines()
        lines = [line for line in dict.fromkeys(lines) if line not in self._warned]
        if status == _REFUSED:
            raise _error("\n".join(lines) or "the profile cannot be shown")
        self._warned.update(lines)
        for line in lines:
            _warn(line)
        return output

    def load(self, options: _Options) -> None:
        self._take(*self.files.load(self._words(options)))

    def run(self, options: _Options, base: Optional[_Loaded], is_table: bool) -> Any:
        files = base.files if base else None
        return self._take(*self.files.run(self._words(options), files, is_table))


# ---------------------------------------------------------------------- tables


class Table:
    """Rows of named columns, in the order of the viewer.

    `table[name]` is a column: a sequence, and for numbers a buffer that numpy takes without a copy.
    Where there is no value, it has None, and the buffer NaN or 0. pyarrow, Polars and DuckDB take a
    table without a copy.
    """

    def __init__(self, rows: Optional[_Rows]) -> None:
        self._made = rows

    @property
    def _rows(self) -> _Rows:
        assert self._made is not None
        return self._made

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._rows.names

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> Column:
        names = self.columns
        if name not in names:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(names)}")
        return self._rows.column(names.index(name))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        values = [self._rows.column(i).tolist() for i in range(len(names))]
        return (dict(zip(names, row)) for row in zip(*values))

    def __bool__(self) -> bool:
        return True

    @property
    def df(self) -> Any:
        """A pandas data frame. Integers with gaps have the type Int64."""
        import numpy
        import pandas

        series: dict[int, Any] = {}
        for i in range(len(self.columns)):
            column = self._rows.column(i)
            if column.kind == "str":
                series[i] = pandas.Series(column.tolist(), dtype=object)
            elif column.kind == "int" and column.null_count:
                mask = numpy.frombuffer(column.mask(), dtype=bool)
                series[i] = pandas.arrays.IntegerArray(numpy.array(column), mask.copy())
            else:
                series[i] = numpy.asarray(column)
        frame = pandas.DataFrame(series)
        frame.columns = self.columns
        return frame

    def to_arrow(self) -> Any:
        """A table of pyarrow, which shares the memory."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> Optional[str]:
        try:
            return self.df._repr_html_()
        except ImportError:
            return None


class Ranks(Table):
    """A row per rank of a job; `frames` and `groups` compare them."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile._view(ranks="ranks"))
        self._profile = profile

    @property
    def frames(self) -> Table:
        """Per frame: how a metric is spread over the ranks, the slowest rank and the imbalance."""
        return Table(self._profile._view(ranks="frames"))

    @property
    def groups(self) -> Table:
        """The same per group of ranks."""
        return Table(self._profile._view(ranks="groups"))


# ---------------------------------------------------------------------- profiles


class Profile(Table):
    """A loaded profile as a table: a row per frame of the tree, with metrics as columns."""

    def __init__(self, files: _Loaded, options: _Options, base: Optional[_Loaded] = None) -> None:
        super().__init__(None)
        self._files = files
        self._options = options
        self._base = base

    def _with(self, **options: Any) -> Profile:
        given = {name: value for name, value in options.items() if value not in (None, False)}
        return Profile(self._files, {**self._options, **given}, self._base)

    def _only(self, *kept: str) -> Profile:
        return Profile(self._files, {k: v for k, v in self._options.items() if k in kept})

    def _run(self, is_table: bool, options: _Options) -> Any:
        # A comparison is of complete profiles, unless its caller allows others.
        partial = {} if self._base else {"allow-partial": True}
        return self._files.run({**partial, **self._options, **options}, self._base, is_table)

    def _view(self, **options: Any) -> _Rows:
        return self._run(True, {"csv": True, **options})[0]

    @property
    def _is_tree(self) -> bool:
        return not {"top", "group", "bottom-up"} & self._options.keys()

    @property
    def _rows(self) -> _Rows:
        if self._made is None:
            is_cut = "depth" in self._options or not self._is_tree
            self._made = self._view(**({} if is_cut else {"depth": _ALL_LEVELS}))
        return self._made

    # ------------------------------------------------------------------ selection

    def select(
        self,
        include: Optional[str] = None,
        *,
        exclude: Optional[str] = None,
        frames: Optional[str] = None,
        hide: Optional[str] = None,
        show: Optional[str] = None,
        threshold: Union[None, float, str] = None,
        depth: Optional[int] = None,
        names: Optional[str] = None,
    ) -> Profile:
        """Only a part, by the options of the viewer.

        include: paths through frames that this regular expression matches. exclude: a pattern of
        frames to leave out, with their subtrees. frames: "user" or "all". threshold: a
        minimum for the first metric, or METRIC=VALUE. names: "raw", "short" or "full" C++ names.
        """
        given = dict(include=include, exclude=exclude, frames=frames, hide=hide, show=show)
        return self._with(**given, threshold=threshold, depth=depth, names=names)

    def metrics(self, *names: str, peaks: Optional[str] = None) -> Profile:
        """With these metrics, recorded or derived ("time/ms", "util"); sorted by the first.

        peaks: rates for util, as "flops16=989e12,bytes=3.35e12". `metric_names` has the names.
        """
        if not names:
            raise ValueError("metrics() needs the name of a metric; see metric_names")
        return self._with(metrics=",".join(names), peaks=peaks)

    @property
    def metric_names(self) -> list[str]:
        """The names that `metrics` takes with this profile."""
        kept = self._only("rank", "merge", "allow-mixed", "frames", "hide", "show")
        return Table(kept._view(list=True))["metric"].tolist()

    @property
    def is_partial(self) -> bool:
        """True if the program was killed or is still recording, or if a file is damaged."""
        shown = {"depth": 1} if self._is_tree else {"rows": 1}
        return bool(json.loads(self._run(False, {"json": True, **shown}))["partial"])

    def top(self, rows: Optional[int] = None) -> Profile:
        """The kernels, those with the largest first metric first."""
        return self.group("kernel", rows)

    def group(self, by: str, rows: Optional[int] = None) -> Profile:
        """A flat table by "kernel", "scope", "file", "module", "layer", "operator", "shape" or
        "device"."""
        return self._with(group=by, rows=rows)

    def callers(self) -> Profile:
        """The callers of each kernel, innermost first."""
        return self._with(**{"bottom-up": True})

    def diff(self, base: Profile, *, allow_partial: bool = False) -> Profile:
        """The changes since `base`, the largest first; several files are runs.

        This profile's selection applies to both. allow_partial: compare incomplete profiles, too.
        """
        changed = self._with(**{"diff": base._files.paths, "allow-partial": allow_partial})
        changed._base = base._files
        return changed

    def failures(self, *gates: str) -> list[str]:
        """The messages about gates that fail, as with `--fail-if`; empty if none does.

        A gate is a condition that must not be true: "time/ms > 3", of `diff` also "time > +5%".
        """
        words = self._files._words({**self._options, "fail-if": list(gates), "csv": True})
        base = self._base.files if self._base else None
        status, output, messages = self._files.files.run(words, base, False)
        if status == _GATE_FAILED:
            return messages.decode("utf-8", "replace").splitlines()
        self._files._take(status, output, messages)
        return []

    # ------------------------------------------------------------------ other views

    @property
    def nodes(self) -> Nodes:
        """The frames, each after its parent."""
        return Nodes(self)

    @property
    def ranks(self) -> Ranks:
        """The ranks of a job."""
        return Ranks(self)

    def source(self, kernel: Optional[str] = None) -> Table:
        """PC samples and stall reasons per source line, of all kernels or one."""
        return Table(self._view(source=True if kernel is None else kernel))

    def warps(self) -> Table:
        """Busy, waiting and idle time of warps, per kernel, role and scope."""
        return Table(self._view(warps=True))

    def evidence(self) -> dict[str, Any]:
        """Causes of slowness: the claims of `proton-viewer --brief`, the largest gain first.

        Each has a number with its interval, its source, an upper bound of the gain, a confidence
        and a command. `verdict` is "one", "tie", "lost" or "none"; docs/brief.schema.json has the
        layout.
        """
        kept = self._only("rank", "allow-mixed", "frames", "hide", "show", "peaks")
        return json.loads(kept._run(False, {"brief": True, "json": True}))

    def to_json(self) -> str:
        """The JSON of `proton-viewer --json`."""
        return self._run(False, {"json": True}).decode()

    def __str__(self) -> str:
        return self._run(False, {}).decode().rstrip("\n")

    def __repr__(self) -> str:
        options = "".join(f" --{name}={value}" for name, value in self._options.items())
        return f"<Profile {', '.join(self._files.paths)}{options}>"

    def _repr_html_(self) -> Optional[str]:
        """The report of the viewer, in a frame."""
        try:
            page = self._run(False, {"export": "html"}).decode()
        except ProtonError:
            return None
        if len(page) > _HTML_MAX:
            return f"<p>The report has {len(page) >> 20} MB: select a part of the profile.</p>"
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Proton" '
            'style="width: 100%; height: 30em; border: 0; resize: vertical"></iframe>'
        )


@dataclass(frozen=True, repr=False, slots=True)
class Node:
    """A frame in the tree; `node["time/ms"]` is a metric, None if it has no value."""

    _profile: Profile
    row: int

    def __getitem__(self, metric: str) -> Any:
        return self._profile[metric][self.row]

    def _number(self, column: str, default: Any) -> Any:
        return self[column] if column in self._profile.columns else default

    @property
    def name(self) -> str:
        return self["frame"]

    @property
    def depth(self) -> int:
        """The level: 0 for the root, and for all rows of a flat table."""
        return self._number("depth", 0)

    @property
    def parent(self) -> Optional[Node]:
        row = self._number("parent", None)
        return None if row is None else Node(self._profile, row)

    @property
    def children(self) -> list[Node]:
        """Found by a walk through what is below."""
        children, row, depth = [], self.row + 1, self.depth + 1
        while row < len(self._profile) and depth > 1 - bool(self.row == 0):
            node = Node(self._profile, row)
            if node.depth < depth:
                break
            if node.depth == depth:
                children.append(node)
            row += 1
        return children

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root to this frame."""
        names, node = [self.name], self.parent
        while node is not None:
            names.append(node.name)
            node = node.parent
        return tuple(reversed(names))

    def __repr__(self) -> str:
        return f"<Node {self.name}>"


class Nodes(Sequence[Node]):
    """The rows of a profile as frames."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __len__(self) -> int:
        return len(self._profile)

    def __getitem__(self, row: Any) -> Any:
        rows = range(len(self))[row]
        if isinstance(rows, range):
            return [Node(self._profile, one) for one in rows]
        return Node(self._profile, rows)
