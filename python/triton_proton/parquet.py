"""The profiles of all ranks of a job as one Parquet file: `proton-viewer --export parquet`.

A row is a metric of a frame in a rank: rank, host, node, path, name, metric, value and own. `value`
is that of the tree, with the frames below; `own` is without them. Needs pyarrow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import Any, Optional

from ._message import print_line
from ._programs import need_program

BLOCK_BYTES = 8 << 20  # of CSV, in memory at a time


def _unmark(column: Any, compute: Any) -> Any:
    """The texts without the apostrophe that proton-viewer puts before possible formulas."""
    marked = compute.starts_with(column, pattern="'")
    return compute.if_else(marked, compute.utf8_slice_codeunits(column, 1), column)


def convert(stream: Any, path: str) -> int:
    """Write the CSV of `proton-viewer --export long` to a Parquet file; the number of rows."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    texts = ("host", "path", "name", "metric")
    types: dict[str, Any] = dict.fromkeys(texts, pyarrow.string())
    types |= {"rank": pyarrow.uint32(), "node": pyarrow.uint32()}
    types |= {"value": pyarrow.float64(), "own": pyarrow.float64()}
    reader = pyarrow.csv.open_csv(
        stream,
        read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types),
    )
    rows = 0
    with pyarrow.parquet.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            table = pyarrow.Table.from_batches([batch])
            for name in texts:
                index = table.schema.get_field_index(name)
                plain = _unmark(table.column(name), pyarrow.compute)
                table = table.set_column(index, name, plain)
            writer.write_table(table)
            rows += table.num_rows
    return rows


def export(
    paths: list[str],
    output: str,
    metrics: Optional[list[str]] = None,
    allow_partial: bool = False,
    viewer: Optional[str] = None,
    allow_mixed: bool = False,
) -> int:
    """Write the ranks in `paths` to the Parquet file `output`; the number of rows.

    paths: as for `proton-viewer`. metrics: as for `proton-viewer -m`; all if None. Raises
    ImportError without pyarrow, and RuntimeError if the profiles cannot be read.
    """
    import pyarrow.csv  # noqa: F401  before anything is read

    program = viewer or need_program("proton-viewer")
    command = [program, "--export", "long", "-o", "-"]
    if metrics:
        command += ["-m", ",".join(metrics)]
    if allow_partial:
        command.append("--allow-partial")
    if allow_mixed:
        command.append("--allow-mixed")
    directory = os.path.dirname(os.path.abspath(output))
    descriptor, temporary = tempfile.mkstemp(suffix=".parquet.tmp", dir=directory)
    os.close(descriptor)
    try:
        with subprocess.Popen([*command, "--", *paths], stdout=subprocess.PIPE) as process:
            try:
                rows = convert(process.stdout, temporary)
                failure = None
            except Exception as error:  # an empty stream, if the viewer printed an error
                rows, failure = 0, error
            process.stdout.close()  # type: ignore[union-attr]
        if process.returncode:
            raise RuntimeError("")  # the viewer printed why
        if failure:
            raise failure
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, output)
        return rows
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def main() -> int:
    """Run as `proton-viewer --export parquet` runs it."""
    parser = argparse.ArgumentParser(prog="python -m triton_proton.parquet", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="FILE|DIRECTORY")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--metric", action="append", help="metrics; all by default")
    parser.add_argument("--allow-partial", action="store_true")
    parser.add_argument("--allow-mixed", action="store_true")
    parser.add_argument("--no-clobber", action="store_true")
    parser.add_argument("--viewer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    name = "proton-viewer" if arguments.viewer else "proton"
    if arguments.no_clobber and os.path.exists(arguments.output):
        print_line(f"{name}: {arguments.output} exists and --no-clobber is set; choose another")
        return 2
    try:
        export(
            arguments.paths, arguments.output, arguments.metric, arguments.allow_partial,
            arguments.viewer, arguments.allow_mixed,
        )
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        print_line(
            f"{name}: cannot write Parquet: {sys.executable} has no pyarrow; pip install pyarrow "
            "there, or set PROTON_PYTHON to a Python that has it"
        )
        return 2
    except (RuntimeError, OSError, ValueError) as error:
        if str(error):
            print_line(f"{name}: cannot write {arguments.output}: {error}")
        return 2
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the destructors of pyarrow: one aborted the process after the file was written.
    os._exit(status)
