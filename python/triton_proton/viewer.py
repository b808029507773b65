"""Profile viewer for Python: the functions of `triton.profiler.viewer`.

    tree, metrics = viewer.parse(["time/ms", "util"], "matmul.hatchet")
    viewer.print_tree(tree, metrics)

`parse`, `apply_diff_profile`, `print_tree` and `show_metrics` run `proton-viewer` and have no other
dependencies. Functions on data frames (`read`, `derive_metrics`, `tree.dataframe`, ...) need pandas
and llnl-hatchet, which are imported on demand. `python -m triton_proton.viewer ...` is
`proton-viewer ...`.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import shutil
import subprocess
import sys
from typing import Any, Optional, Union

from . import _command
from ._frames import *  # noqa: F403
from ._frames import INCLUSIVE, bare_names, derive_metrics, emit_warnings, filter_frames
from ._frames import __all__ as _names_of_frames
from ._frames import format_frames, get_raw_metrics
from ._message import print_line, printable
from ._programs import become, need_program

__all__ = [
    *_names_of_frames,
    "ParsedProfile",
    "apply_diff_profile",
    "main",
    "parse",
    "print_tree",
    "read",
    "show_metrics",
]

_FileName = Union[str, "os.PathLike[str]"]

# ---------------------------------------------------------------------- proton-viewer


def _view(arguments: list[str]) -> str:
    """The output of `proton-viewer` with these arguments; its error message as an exception."""
    program = need_program("proton-viewer")
    environment = dict(os.environ, COLUMNS=str(shutil.get_terminal_size().columns))
    done = subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        encoding="utf-8",
        errors="replace",
    )
    message = done.stderr.strip().removeprefix("proton-viewer: ")
    if done.returncode != 0:
        unsupported = message.startswith(("Unsupported", "Cannot specify"))
        raise (ValueError if unsupported else RuntimeError)(message or "proton-viewer failed")
    for line in done.stderr.splitlines():
        print_line(line)
    return done.stdout


def _check_readable(filename: _FileName) -> str:
    """The path as str; the error of open() if it cannot be read."""
    path = _command.readable(os.fspath(filename))
    with open(path, "rb"):
        return path


def _filters(
    include: Optional[str], exclude: Optional[str], threshold: Optional[float]
) -> list[str]:
    if include and exclude:
        raise ValueError("Cannot specify both include and exclude")
    arguments = []
    for option, value in (("--include", include), ("--exclude", exclude)):
        if value:
            arguments.append(f"{option}={value}")
    if threshold:
        arguments.append(f"--threshold={threshold}")
    return arguments


class ParsedProfile:
    """The result of `parse`: the hatchet GraphFrame of a profile, created on first use.

    All attributes of a GraphFrame (`dataframe`, `graph`, `tree()`, `filter()`, ...) can be used;
    the first use needs pandas and llnl-hatchet. Until then `print_tree` needs neither.
    """

    _own = frozenset(("_arguments", "_make", "_made"))

    def __init__(self, arguments: list[str], make: Any) -> None:
        self._arguments = arguments  # arguments of proton-viewer: filters and file
        self._make = make  # () -> GraphFrame
        self._made: Any = None

    def graph_frame(self) -> Any:
        """The hatchet GraphFrame itself."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ParsedProfile._own:
            raise AttributeError(name)
        return getattr(self.graph_frame(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ParsedProfile._own:
            object.__setattr__(self, name, value)
        else:
            setattr(self.graph_frame(), name, value)

    def _combine(self, operate: Any, other: Any) -> Any:
        return operate(self.graph_frame(), _graph_frame(other))

    __add__ = functools.partialmethod(_combine, operator.add)
    __sub__ = functools.partialmethod(_combine, operator.sub)
    __mul__ = functools.partialmethod(_combine, operator.mul)
    __truediv__ = functools.partialmethod(_combine, operator.truediv)

    def __repr__(self) -> str:
        return f"<ParsedProfile {self._arguments[-1]}>"


def _graph_frame(gf: Any) -> Any:
    return gf.graph_frame() if isinstance(gf, ParsedProfile) else gf


def parse(
    metrics: Union[str, list[str]],
    filename: _FileName,
    include: Optional[str] = None,
    exclude: Optional[str] = None,
    threshold: Optional[float] = None,
) -> tuple[Any, list[str]]:
    """Read a profile and derive metrics from it: (tree, names of the metrics).

    metrics: as for `proton-viewer -m`. include, exclude: regular expressions of frame names.
    threshold: minimum of the first metric. Names of inclusive metrics end in " (inc)". `tree` is
    for `print_tree`, and has the attributes of a hatchet GraphFrame. Raises OSError for a file that
    cannot be opened, RuntimeError for a metric that it lacks, ValueError for an unknown unit.
    """
    path = _check_readable(filename)
    names = bare_names(metrics)
    filters = _filters(include, exclude, threshold)
    options = ["--json", "--allow-partial", "--depth=1", "-m", ",".join(names)]
    head = json.loads(_view([*options, "--", path]))
    derived = [one["name"] + (INCLUSIVE if one["inclusive"] else "") for one in head["metrics"]]

    def make() -> Any:
        gf, inclusive, exclusive, devices = read(path)
        columns = derive_metrics(gf, names, inclusive, exclusive, devices)
        return filter_frames(gf, include, exclude, threshold, columns[0])

    return ParsedProfile([*filters, "--", path], make), derived


def apply_diff_profile(
    gf: Any,
    derived_metrics: list[str],
    diff_file: _FileName,
    metrics: Union[str, list[str]],
    include: Optional[str],
    exclude: Optional[str],
    threshold: Optional[float],
) -> Any:
    """The difference of `gf` and the profile in `diff_file`, as a tree like that of `parse`."""
    baseline, _ = parse(metrics, diff_file, include, exclude, threshold)

    def make() -> Any:
        import copy

        sides = [copy.copy(_graph_frame(gf)), copy.copy(_graph_frame(baseline))]
        for side in sides:
            side.inc_metrics = [name for name in derived_metrics if name.endswith(INCLUSIVE)]
            side.exc_metrics = [name for name in derived_metrics if not name.endswith(INCLUSIVE)]
        return sides[0].sub(sides[1])

    if isinstance(gf, ParsedProfile) and gf._made is None:
        return ParsedProfile([f"--diff={_check_readable(diff_file)}", *gf._arguments], make)
    return make()


def print_tree(
    gf: Any,
    metrics: Union[str, list[str]],
    depth: int = 100,
    format: Optional[str] = None,
    print_sorted: bool = False,
) -> None:
    """Print a tree of `metrics`; with `print_sorted` also all frames by the first metric.

    gf: the result of `parse`, `read` or `apply_diff_profile`. format: format of source frames, as
    for `proton-viewer -f`.
    """
    if isinstance(gf, ParsedProfile) and gf._made is None:
        arguments = ["-m", ",".join(bare_names(metrics)), f"--depth={depth}"]
        if format:
            arguments.append(f"--format={format}")
        if print_sorted:
            arguments.append("--print-sorted")
        if sys.stdout is not None and sys.stdout.isatty():
            arguments.append("--color=always")
        print(_view([*arguments, *gf._arguments]), end="")
        return
    frame = format_frames(_graph_frame(gf), format).copy()
    frame.dataframe["name"] = frame.dataframe["name"].map(printable)
    columns = [metrics] if isinstance(metrics, str) else list(metrics)
    print(frame.tree(metric_column=columns, expand_name=True, depth=depth, render_header=False))
    if print_sorted:
        ordered = frame.dataframe.sort_values(by=[columns[0]], ascending=False)
        print(f"Sorted kernels by metric {columns[0]}")
        for name, value in zip(ordered["name"][1:], ordered[columns[0]][1:]):
            shown = name if len(name) <= 100 else name[:100] + "..."
            print(f"{shown:105} {value:.4}")
    emit_warnings(frame, columns)


def show_metrics(file_name: _FileName) -> None:
    """Print the metrics of the profile, and those that can be derived from them."""
    print(_view(["--list", "--", _check_readable(file_name)]), end="")


def read(filename: _FileName) -> tuple[Any, list[str], list[str], dict[str, Any]]:
    """(GraphFrame, inclusive columns, other columns, devices) of a profile in any format.

    Columns of the GraphFrame with inclusive values end in " (inc)".
    """
    path = _check_readable(filename)
    try:
        with open(path, encoding="utf-8") as file:
            database = json.load(file)
    except ValueError:
        database = None
    if not isinstance(database, list):  # another format, or a corrupt file: proton-viewer reads it
        database = json.loads(_view(["--export=hatchet", "-o", "-", "--", path]))
    gf, inclusive, exclusive, devices = get_raw_metrics(database)
    if not inclusive and not exclusive:
        raise ValueError(f"{path} has no metrics")
    gf.update_inclusive_columns()
    return gf, inclusive, exclusive, devices


def main() -> None:
    """Run `proton-viewer` in place of this process."""
    become("proton-viewer")


if __name__ == "__main__":
    main()
