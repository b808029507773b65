"""Flops and bytes of the kernels that torch.compile generates or calls, from the compiled graph.

When Inductor has decided which kernels there are, and before it generates code, one node of each
kernel gets "BUFFER:BYTES:BITS:FLOPS" in its source (_compiled.py), with the name of the newest
buffer that the kernel writes: its call contains that name. A number that is not known is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Optional

_BUFFER = "buf"


class _Unknown(Exception):
    """A size that may change, addresses that depend on data, an operator without a formula."""


def note(scheduler: Any) -> None:
    """Tell the sources of the nodes the work of each kernel."""
    for kernel in _kernels(scheduler.nodes):
        try:
            _note_kernel(scheduler, kernel)
        except Exception:
            continue  # not known, or another PyTorch; the program's compilation continues


def _kernels(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        if type(node).__name__ == "GroupedSchedulerNode":  # in that order, but not fused
            yield from _kernels(node.snodes)
        else:
            yield node


def _note_kernel(scheduler: Any, kernel: Any) -> None:
    parts = list(kernel.get_nodes())
    written = [name for name in kernel.get_buffer_names() if name.startswith(_BUFFER)]
    written = [name for name in written if _is_kept(scheduler, name, parts)]
    newest = max(written, key=lambda name: int(name[len(_BUFFER) :]))
    flops = ":"
    templates = [part for part in parts if part.is_extern() or part.is_template()]
    if templates:
        node = _operator_of(templates[0].node)
        bits, count = flops_of(node)
        flops = f"{bits}:{count}"
    bytes_ = _bytes_of(node) if parts[0].is_extern() else _moved(kernel, written)
    sources = (
        origin.meta["from_node"][0]
        for part in parts
        for origin in part.node.get_origins()
        if origin.op == "call_function" and origin.meta.get("from_node")
    )
    source = next(source for source in sources if hasattr(source, "work"))
    source.work[newest] = f"{newest}:{bytes_}:{flops}"


def _operator_of(call: Any) -> Any:
    """The node of the graph that a kernel of a library, or a template, computes."""
    node = call.get_origin_node()
    if node is None:  # it has several results, which are nodes too
        overload = call.op_overload
        (node,) = (origin for origin in call.get_origins() if origin.target is overload)
    return node


# ------------------------------------------------------------------ bytes


def _is_kept(scheduler: Any, name: str, parts: list[Any]) -> bool:
    """Whether another kernel reads a buffer, or the program. Else it stays in registers."""
    return any(user.node not in parts for user in scheduler.name_to_buf[name].users)


def _moved(kernel: Any, written: list[str]) -> int:
    """Compulsory traffic of a fused kernel: each part of a buffer that it reads or writes, once."""
    made = set(kernel.get_buffer_names())
    reads = [dep for dep in kernel.read_writes.reads if dep.name not in made]
    writes = [dep for dep in kernel.read_writes.writes if dep.name in written]
    return _bytes_in(reads) + _bytes_in(writes)


def _bytes_in(accesses: list[Any]) -> int:
    from torch._inductor.virtualized import V

    found: dict[str, int] = {}
    for access in accesses:
        if type(access).__name__ == "WeakDep":
            continue  # only an order
        if type(access).__name__ != "MemoryDep" or access.is_indirect():
            raise _Unknown
        found[access.name] = found.get(access.name, 0) + int(access.get_numel())
    # Parts of a buffer may overlap.
    return sum(
        min(count, int(V.graph.get_numel(name))) * V.graph.get_dtype(name).itemsize
        for name, count in found.items()
    )


def _bytes_of(node: Any) -> int:
    """Each input and output tensor of an operator once, without what a stride of 0 repeats."""
    from ._compiled import tensors

    found = [*tensors(node.all_input_nodes), *tensors(node)]
    return sum(_distinct(tensor) * tensor.dtype.itemsize for tensor in found)


def _distinct(tensor: Any) -> int:
    strides = tensor.stride()
    return math.prod(n for n, stride in zip(_sizes(tensor), strides) if type(stride) is not int
                     or stride != 0)


def _sizes(tensor: Any) -> list[int]:
    if any(type(size) is not int for size in tensor.shape):
        raise _Unknown
    return list(tensor.shape)


# ------------------------------------------------------------------ flops

# An addition and a multiplication are two operations. Counted are products of matrices and
# convolutions, as in torch.utils.flop_counter; not biases, exponentials and the like.


def _product(a: Any, b: Any) -> int:
    """(..., M, K) times (..., K, N): each of the M K elements of `a` takes part in N sums."""
    return 2 * math.prod(_sizes(a)) * _sizes(b)[-1]


def _convolution(x: Any, weight: Any, out: Any, transposed: bool) -> int:
    """Each output, or if transposed each input, meets the filters of its group once.

    weight: (outputs, inputs of a group, ...), transposed (inputs, outputs of a group, ...).
    Multiplications with padding count, as in an implicit product of matrices.
    """
    return 2 * math.prod(_sizes(x if transposed else out)) * math.prod(_sizes(weight)[1:])


def _convolution_backward(given: dict[str, Any]) -> int:
    """Each product of the forward pass gives one for each gradient that is wanted."""
    wanted = sum(bool(is_wanted) for is_wanted in given["output_mask"][:2])
    return wanted * _convolution(
        given["input"], given["weight"], given["grad_output"], given["transposed"]
    )


def _attention(given: dict[str, Any], of_q: int, of_v: int) -> int:
    """Products over the dimensions of q and k, and of v, for each pair of a query and a key.

    Forward: Q K^T; P V. Backward (Dao et al., FlashAttention, algorithm 4): Q K^T again, dS K,
    dS^T Q; P^T dO, dO V^T. Pairs that a causal mask excludes do not count.
    """
    batch, heads, queries, dim_q = _sizes(given["query"])
    keys, dim_v = _sizes(given["value"])[-2:]
    pairs = queries * keys
    if given["is_causal"]:
        if queries != keys:
            raise _Unknown  # implementations align the mask differently
        pairs = queries * (queries + 1) // 2
    return 2 * batch * heads * pairs * (of_q * dim_q + of_v * dim_v)


# From an operator's arguments by name.
_FORMULAS: dict[str, Callable[[dict[str, Any]], int]] = {
    "aten::addmm": lambda given: _product(given["mat1"], given["mat2"]),
    "aten::baddbmm": lambda given: _product(given["batch1"], given["batch2"]),
    "aten::convolution": lambda given: _convolution(
        given["input"], given["weight"], given["out"], given["transposed"]
    ),
    "aten::convolution_backward": _convolution_backward,
    **{
        f"aten::{name}": lambda given: _product(given["self"], given["mat2"])
        for name in ("mm", "bmm", "_scaled_mm", "_int_mm")
    },
}
for _kind in ("flash_attention", "efficient_attention", "cudnn_attention"):
    _name = f"aten::_scaled_dot_product_{_kind}"
    _FORMULAS[_name] = lambda given: _attention(given, 1, 1)
    _FORMULAS[f"{_name}_backward"] = lambda given: _attention(given, 3, 2)
for _end in ("", "_backward"):
    _FORMULAS[f"aten::_scaled_dot_product_flash_attention_for_cpu{_end}"] = _FORMULAS[
        f"aten::_scaled_dot_product_flash_attention{_end}"
    ]


def _value(argument: Any) -> Any:
    """A node's tensor; other arguments are themselves."""
    return argument.meta.get("val") if hasattr(argument, "all_input_nodes") else argument


def flops_of(node: Any) -> tuple[int, int]:
    """The width of the operands in bits and the operations of a node."""
    schema = getattr(node.target, "_schema", None)
    formula: Optional[Callable[[dict[str, Any]], int]] = _FORMULAS.get(getattr(schema, "name", ""))
    if schema is None or formula is None:
        raise _Unknown
    names = [argument.name for argument in schema.arguments]
    given = {argument.name: argument.default_value for argument in schema.arguments}
    given.update(zip(names, node.args))
    given.update(node.kwargs)
    given = {name: _value(argument) for name, argument in given.items()}
    given["out"] = _value(node)
    if not all(given.get("grad_input_mask", [True])[:3]):
        raise _Unknown  # which products an implementation leaves out
    operand = next(given[name] for name in ("mat1", "batch1", "query", "self", "input", *names)
                   if hasattr(given.get(name), "dtype"))
    if operand.dtype.is_complex:
        raise _Unknown
    return operand.dtype.itemsize * 8, formula(given)
