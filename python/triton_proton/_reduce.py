"""The reduction of the profiles of a job through torch.distributed (gloo), without its group.

Internal: `ranks.py` calls `reduce` when the program ends. Ranks find out through the job's store
which of them are there. 64 ranks send their files to the first of them. These first ones run
`proton-merge`, which merges them as under MPI: its messages come through pipes, and are passed on
by gloo. The connections are separate, so pending work of the job's groups does no harm.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any, BinaryIO, NamedTuple, Optional

from ._programs import need_program

RANKS_PER_PROCESS = 64  # RANK_CHUNK of src/viewer/ranks/rank_merge.h

_REQUEST = struct.Struct("<IIQ")  # struct pipe_request of src/viewer/ranks/processes.c
_SEND, _RECEIVE = 1, 2

Files = list[tuple[str, bytes]]  # names and contents


class ReduceError(RuntimeError):
    """The ranks could not be merged."""


def _left(end: float) -> timedelta:
    """At least some time, because 0 means no limit."""
    return timedelta(seconds=max(end - time.monotonic(), 0.1))


# ---------------------------------------------------------------------- the job


class Job(NamedTuple):
    """The ranks that take part, and their store."""

    store: Any
    rank: int
    members: list[int]


def _agent_job(distributed: Any) -> Optional[Job]:
    """The job of torchrun: its store outlives the process group."""
    environment = os.environ
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    try:
        rank, world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        store = distributed.TCPStore(
            environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), is_master=False,
            timeout=timedelta(seconds=30),
        )
    except (KeyError, ValueError, RuntimeError):
        return None
    return Job(store, rank, list(range(world)))


def find_job(group: Any) -> Optional[Job]:
    """The job of this process; None: there is no process group, and torchrun has not started it."""
    is_of_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if "torch" not in sys.modules and not is_of_torchrun:
        return None
    try:
        import torch.distributed as distributed
    except ImportError:
        return None
    if not distributed.is_available() or not hasattr(distributed, "ProcessGroupGloo"):
        return None
    if not distributed.is_initialized():
        return _agent_job(distributed)
    members = list(range(distributed.get_world_size()))
    if group is not None:
        members = sorted(distributed.get_process_group_ranks(group))
    store = distributed.distributed_c10d._get_default_store()
    return Job(store, distributed.get_rank(), members)


# ---------------------------------------------------------------------- who is there


def _runs(ranks: list[int]) -> list[list[int]]:
    """Sorted numbers as pairs of the first and the last of each run."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return runs


def _agree(store: Any, job: Job, has_files: bool, end: float) -> list[int]:
    """The ranks with files: all, or those at the end of the time limit of any of them."""

    def publish(ranks: list[int]) -> None:
        if store.add("empty", 0):
            ranks = [rank for rank in ranks if not store.check([f"empty/{rank}"])]
        store.compare_set("present", "", json.dumps(_runs(ranks)))

    if not has_files:
        store.set(f"empty/{job.rank}", "1")
        store.add("empty", 1)
    store.set(f"ready/{job.rank}", "1")
    if store.add("count", 1) == len(job.members):
        publish(job.members)
    try:
        store.wait(["present"], _left(end))
    except RuntimeError:
        publish([rank for rank in job.members if store.check([f"ready/{rank}"])])
    runs = json.loads(store.get("present"))
    return [rank for first, last in runs for rank in range(first, last + 1)]


# ---------------------------------------------------------------------- messages


class Group:
    """Some of the ranks, connected by gloo. A peer is a position in `ranks`."""

    def __init__(self, store: Any, rank: int, ranks: list[int], end: float) -> None:
        import torch
        import torch.distributed as distributed

        self._torch = torch
        self._end = end
        self.size = len(ranks)
        self.index = ranks.index(rank)
        self._group = None
        if self.size > 1:
            self._group = distributed.ProcessGroupGloo(
                store, self.index, self.size, timeout=_left(end)
            )

    def _wait(self, work: Any) -> None:
        work.wait(_left(self._end))

    def _tensor(self, data: bytearray) -> Any:
        return self._torch.frombuffer(data, dtype=self._torch.uint8)

    def send_exactly(self, peer: int, data: bytearray) -> None:
        if data:
            self._wait(self._group.send([self._tensor(data)], peer, 0))

    def receive_exactly(self, peer: int, length: int) -> bytearray:
        data = bytearray(length)
        if data:
            self._wait(self._group.recv([self._tensor(data)], peer, 0))
        return data

    def send(self, peer: int, data: bytes) -> None:
        self.send_exactly(peer, bytearray(struct.pack("<Q", len(data))))
        self.send_exactly(peer, bytearray(data))

    def receive(self, peer: int) -> bytearray:
        (length,) = struct.unpack("<Q", self.receive_exactly(peer, 8))
        return self.receive_exactly(peer, length)


def _pack(files: Files) -> bytes:
    head = json.dumps([[name, len(content)] for name, content in files]).encode()
    return b"".join([struct.pack("<I", len(head)), head, *(content for _, content in files)])


def _unpack(data: bytearray, directory: str) -> list[str]:
    """Writes the files into the directory; their names."""
    (length,) = struct.unpack_from("<I", data)
    at = 4 + length
    names = []
    for name, size in json.loads(bytes(data[4:at])):
        with open(os.path.join(directory, os.path.basename(name)), "wb") as file:
            file.write(memoryview(data)[at : at + size])
        names.append(os.path.basename(name))
        at += size
    return names


# ---------------------------------------------------------------------- proton-merge


def _read_exactly(stream: BinaryIO, length: int) -> bytearray:
    data = bytearray(length)
    at = 0
    while at < length:
        count = stream.readinto(memoryview(data)[at:])  # type: ignore[attr-defined]
        if not count:
            break
        at += count
    return data[:at]


def _pass_on(child: Any, group: Group) -> None:
    """Messages between proton-merge here and those of the other processes, until it ends."""
    while True:
        head = _read_exactly(child.stdout, _REQUEST.size)
        if len(head) < _REQUEST.size:
            return
        operation, peer, length = _REQUEST.unpack(head)
        if operation == _SEND:
            group.send_exactly(peer, _read_exactly(child.stdout, length))
        elif operation == _RECEIVE:
            child.stdin.write(group.receive_exactly(peer, length))
            child.stdin.flush()
        else:
            raise ReduceError("proton-merge wrote an unknown request")


def _lines_of(file: BinaryIO) -> list[str]:
    file.seek(0)
    text = file.read().decode("utf-8", "replace")
    return [line.removeprefix("proton-merge: ") for line in text.splitlines()]


def _merge(group: Group, directory: str, names: list[str], output: str) -> list[str]:
    """Runs proton-merge on the files of the directory; the lines of its standard error."""
    program = need_program("proton-merge", ReduceError)
    if group.index:
        group.send(0, "\n".join(names).encode())
    else:
        for peer in range(1, group.size):
            names = names + bytes(group.receive(peer)).decode().splitlines()
    with open(os.path.join(directory, "list"), "w", encoding="utf-8") as file:
        file.writelines(name + "\n" for name in names)
    environment = dict(os.environ, PROTON_MERGE_PIPE=f"{group.index}/{group.size}")
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [program, "--allow-partial", "--list", "list", "-o", output],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            _pass_on(child, group)
        except BaseException:
            child.kill()
            raise
        finally:
            for stream in (child.stdin, child.stdout):
                try:
                    stream.close()  # type: ignore[union-attr]
                except OSError:
                    pass
            status = child.wait()
        lines = _lines_of(errors)
    if status != 0:
        raise ReduceError("; ".join(lines) or f"proton-merge failed with status {status}")
    return lines


def _lead(
    job: Job, store: Any, present: list[int], files: Files, output: str, end: float
) -> list[str]:
    """Merges with the files of the ranks that follow, and tells them the outcome."""
    at = present.index(job.rank)
    near = _near(job, store, present, at, end)
    with tempfile.TemporaryDirectory(prefix="proton-ranks-") as directory:
        names = _unpack(bytearray(_pack(files)), directory)
        arrived = []
        for peer in range(1, near.size):
            try:
                names += _unpack(near.receive(peer), directory)
            except RuntimeError:
                # It has died since: a damaged rank. Without a name, all ranks after it would move.
                names.append(f"rank{present[at + peer]:06}.proton")
                continue
            arrived.append(peer)
        far = Group(_prefixed(store, "far"), job.rank, present[::RANKS_PER_PROCESS], end)
        lines = _merge(far, directory, names, output)
        _confirm(far)
    for peer in arrived:
        try:
            near.send_exactly(peer, bytearray(b"1"))
        except RuntimeError:
            pass  # it keeps its file
    return lines


def _confirm(far: Group) -> None:
    """Returns when process 0 has written the result."""
    if far.index:
        far.receive_exactly(0, 1)
    for peer in range(1, far.size if far.index == 0 else 0):
        far.send_exactly(peer, bytearray(b"1"))


def _near(job: Job, store: Any, present: list[int], first: int, end: float) -> Group:
    """The ranks that send their files to the one at the position `first`, and that one."""
    ranks = present[first : first + RANKS_PER_PROCESS]
    return Group(_prefixed(store, f"near/{first}"), job.rank, ranks, end)


def _prefixed(store: Any, prefix: str) -> Any:
    import torch.distributed as distributed

    return distributed.PrefixStore(prefix, store)


def reduce(job: Job, serial: int, files: Files, output: str, timeout: float) -> Optional[list[str]]:
    """Merges the files of all ranks into `output` of the first one.

    Returns the messages about the result on that rank, and None on others, when it has been
    written. Raises ReduceError, or RuntimeError of torch, when this rank is not in it.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = _prefixed(job.store, f"triton_proton/ranks/{attempt}/{serial}")
    present = _agree(store, job, bool(files), time.monotonic() + timeout)
    if not files:
        return None
    if job.rank not in present:
        raise ReduceError("the others did not wait any longer")
    end = time.monotonic() + timeout
    at = present.index(job.rank)
    first = at - at % RANKS_PER_PROCESS
    if at == first:
        lines = _lead(job, store, present, files, output, end)
        return None if at else lines
    near = _near(job, store, present, first, end)
    near.send(0, _pack(files))
    near.receive_exactly(0, 1)
    return None
