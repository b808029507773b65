"""Orders of calls of a server's worker, on a machine with the fake driver.

    serving_orders.py ORDER          with the client of serving_client.py
    vllm_wrapper.py CHECKOUT ORDER   with the one of a vLLM checkout

Each function of ORDERS gets `make(directory, **options)`, which makes a client.
"""

import ctypes
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable

import msgpack
from fake_driver import LAUNCH_STRUCT, PC_STRUCT

STEPS = 5
BATCHES = (1, 2, 4, 8)  # a graph for each


exec(LAUNCH_STRUCT + PC_STRUCT)  # classes Launch and Pc


class Machine:
    """The fake GPU: kernels, and graphs of two kernels."""

    def __init__(self) -> None:
        self.cupti = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
        ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
        self.cupti.fake_graph_launch.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_bool]
        self.context = ctypes.create_string_buffer(1)
        self.now_ns = 1000
        for mine, name in (Launch, "fake_launch_bytes"), (Pc, "fake_pc_bytes"):  # noqa: F821
            assert ctypes.sizeof(mine) == ctypes.c_uint32.in_dll(self.cupti, name).value

    def launch(self, name: bytes) -> None:
        driver_call = 307  # CUPTI_CALL_LAUNCH_KERNEL
        one = Launch(  # noqa: F821
            call=driver_call,
            name=name,
            context=ctypes.addressof(self.context),
            records=1,
            start_ns=self.now_ns,
            end_ns=self.now_ns + 100,
        )
        self.now_ns += 200
        self.cupti.fake_launch(ctypes.byref(one))

    def capture(self, batch: int) -> int:
        """An executable graph; its kernels are in scopes of the batch's own."""
        from triton.profiler import scope

        graph = self.cupti.fake_graph_create()
        with scope(f"batch_{batch}"):
            for part in ("attention", "mlp"):
                with scope(part):
                    self.cupti.fake_graph_capture_kernel(graph, b"node")
        exec = self.cupti.fake_graph_instantiate(graph)
        self.cupti.fake_graph_destroy(graph)
        return exec

    def replay(self, graph: int) -> None:
        self.cupti.fake_graph_launch(graph, b"node", False)

    def sample(self, count: int) -> None:
        """As if the hardware had taken samples of an instruction."""
        pc = Pc(1, b"node", b"wait", 16, count)  # noqa: F821
        self.cupti.fake_pcs_take(ctypes.byref(self.context), ctypes.byref(pc))


def run_steps(client: Any, machine: Machine, graphs: list[int], count: int = STEPS) -> None:
    """Each step launches a kernel, and replays a graph if there is one."""
    for number in range(count):
        client.step()
        with client.annotate_context_manager(f"step_{number % 2}"):
            machine.launch(b"sample")
            if graphs:
                machine.replay(graphs[number % len(graphs)])


def counts_of(path: Path) -> dict[str, int]:
    """The executions of each kernel by path."""
    if path.suffix == ".hatchet_msgpack":
        root = msgpack.loads(path.read_bytes(), raw=False, strict_map_key=False)[0]
    else:
        root = json.loads(path.read_text())[0]
    found: dict[str, int] = {}

    def visit(node: dict[str, Any], above: str) -> None:
        for child in node["children"]:
            name = f"{above}/{child['frame']['name']}".lstrip("/")
            if child["metrics"].get("count"):
                found[name] = found.get(name, 0) + child["metrics"]["count"]
            visit(child, name)

    visit(root, "")
    return found


def steps_of(count: int) -> dict[str, int]:
    return {f"step_{which}/sample": (count + 1 - which) // 2 for which in range(2)}


def replays_of(count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in range(count):
        batch = BATCHES[number % len(BATCHES)]
        for part in ("attention", "mlp"):
            path = f"step_{number % 2}/<captured_at>/batch_{batch}/{part}/node"
            found[path] = found.get(path, 0) + 1
    return found


# ---------------------------------------------------------------------- the orders


def eager(make: Callable[..., Any]) -> None:
    """Each request has its session, with a format."""
    machine = Machine()
    for output_format in (None, "hatchet", "hatchet_msgpack"):
        directory = f"out_{output_format}"
        client = make(directory, output_format=output_format, hook="triton")
        run_steps(client, machine, [])  # outside of a request
        for request in range(2):
            client.start()
            run_steps(client, machine, [], STEPS + request)
            client.stop()
        client.shutdown()
        files = sorted(Path(directory).iterdir())
        assert {path.suffix for path in files} == {"." + (output_format or "hatchet")}
        assert [counts_of(path) for path in files] == [steps_of(STEPS), steps_of(STEPS + 1)]


def graphs(make: Callable[..., Any]) -> None:
    """Several graphs are captured before the first request, and another between two."""
    machine = Machine()
    for output_format in ("hatchet", "hatchet_msgpack"):
        directory = f"out_{output_format}"
        client = make(directory, output_format=output_format, graph_attribution=True)
        with client.capture_cuda_graphs():
            machine.launch(b"warmup")
            captured = [machine.capture(batch) for batch in BATCHES[:-1]]
        run_steps(client, machine, captured)  # outside of a request
        with client.capture_cuda_graphs():
            captured.append(machine.capture(BATCHES[-1]))
        for request in range(2):
            client.start()
            run_steps(client, machine, captured, STEPS + request)
            client.stop()
            run_steps(client, machine, captured)
        client.shutdown()
        files = sorted(Path(directory).iterdir())  # the session's own is gone
        assert {path.suffix for path in files} == {"." + output_format}
        expected = [{**steps_of(n), **replays_of(n)} for n in (STEPS, STEPS + 1)]
        assert [counts_of(path) for path in files] == expected


def parts(make: Callable[..., Any]) -> None:
    """A phase of some steps is written by another thread while the next one is recorded."""
    machine = Machine()
    client = make("out", graph_attribution=True, flush_interval=2)
    with client.capture_cuda_graphs():
        captured = [machine.capture(batch) for batch in BATCHES]
    total: dict[str, int] = {}
    for _ in range(2):
        client.start()
        run_steps(client, machine, captured, 8)
        client.stop()
    client.shutdown()
    files = sorted(Path("out").iterdir())
    assert len(files) == 8
    for path in files:
        for name, count in counts_of(path).items():
            total[name] = total.get(name, 0) + count
    expected = {**steps_of(8), **replays_of(8)}
    assert total == {name: 2 * count for name, count in expected.items()}


def _with_graphs(make: Callable[..., Any], samples: int = 0, **options: Any) -> list[Path]:
    """A session that begins after graphs were captured; its files."""
    machine = Machine()
    client = make("out", **options)
    captured = [machine.capture(batch) for batch in BATCHES]
    machine.replay(captured[0])
    client.start()
    run_steps(client, machine, captured)
    captured.append(machine.capture(16))
    machine.replay(captured[-1])
    if samples:
        machine.sample(samples)
    client.stop()
    client.shutdown()
    return sorted(Path("out").iterdir())


def trace(make: Callable[..., Any]) -> None:
    """A trace of replayed graphs, captured before the session and in it."""
    (path,) = _with_graphs(make, data="trace", output_format="chrome_trace")
    events = json.loads(path.read_text())["traceEvents"]
    nodes = [e for e in events if e.get("name") == "node" and e["ph"] == "X"]
    assert len(nodes) == 2 * (STEPS + 1), len(nodes)
    assert {"step_0", "step_1", "sample"} <= {e.get("name") for e in events}


def count_all(paths: list[Path], name: str) -> int:
    """The executions of a kernel in all files."""
    counts = [counts_of(path) for path in paths]
    return sum(n for each in counts for path, n in each.items() if path.endswith(name))


def periodic_flushing(make: Callable[..., Any]) -> None:
    """The recorder writes phases itself, and graphs are replayed in each."""
    paths = _with_graphs(make, mode="periodic_flushing:format=hatchet")
    assert count_all(paths, "node") == 2 * (STEPS + 1)
    assert count_all(paths, "sample") == STEPS


def pc_sampling(make: Callable[..., Any]) -> None:
    """The hardware takes samples while graphs are replayed."""
    (path,) = _with_graphs(make, samples=70, mode="pcsampling")
    assert count_all([path], "sample") == STEPS
    text = path.read_text()
    assert sum(int(n) for n in re.findall(r'"num_samples": (\d+)', text)) == 70, text


ORDERS = {
    order.__name__: order
    for order in (eager, graphs, parts, trace, periodic_flushing, pc_sampling)
}


def main() -> None:
    import triton_proton
    from serving_client import Client, make_config

    triton_proton.install_as_triton_profiler()
    ORDERS[sys.argv[1]](lambda directory, **o: Client(make_config(directory, **o), "rank0"))
    print(f"{sys.argv[1]}: ok")


if __name__ == "__main__":
    main()
