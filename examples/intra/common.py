"""Command-line options of the intra-kernel examples, and a session that follows them."""

from __future__ import annotations

import argparse

import triton_proton as proton


def parse_options(description: str) -> argparse.Namespace:
    """The command line of an example."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--op-measure", action="store_true", help="cycles per scope (.hatchet), not a timeline"
    )
    parser.add_argument("--warp-sampling", action="store_true", help="record in some warps only")
    parser.add_argument("--warp-ids", default="0", help="which, for example 0,1,2,3")
    parser.add_argument(
        "--increase-accuracy", action="store_true", help="take the cost of records off"
    )
    parser.add_argument(
        "--gmem_buffer", "--gmem-buffer", action="store_true", help="records in global memory"
    )
    return parser.parse_args()


def mode_of(options: argparse.Namespace, **more: object) -> proton.mode.Default:
    """The mode that the options ask for."""
    if options.warp_sampling:
        more |= {"sampling_strategy": "selective", "sampling_options": options.warp_ids}
    if options.gmem_buffer:
        more["buffer_type"] = "global"
    if options.increase_accuracy:
        more["optimizations"] = "clock32,time_shift"
    return proton.mode.Default(**more)


def start(name: str, options: argparse.Namespace, **more: object) -> None:
    """Begin to instrument kernels and to record into `name`."""
    proton.start(
        name,
        backend="instrumentation",
        data="tree" if options.op_measure else "trace",
        mode=mode_of(options, **more),
    )
