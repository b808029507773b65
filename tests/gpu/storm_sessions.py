"""Sessions of random modes and lengths while threads make all kinds of driver calls: see storm.c.

    storm_sessions.py LIBRARY THREADS SESSIONS SEED [--kinds KIND,...] [--options NUMBER,...]

THREADS is "python" (threads of Python make the calls) or "c" (threads that Python does not know).
With threads of C a session before they begin attaches to CUPTI (docs/design/other-tools.md).

Prints a line of JSON: the results of the driver, and the median and longest seconds of starts and
ends. --kinds and --options narrow a failure down to kinds of threads and entries of OPTIONS.
"""

import argparse
import ctypes
import faulthandler
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Optional

import triton_proton as proton

KINDS = ("launch", "replay", "capture", "update", "module", "stream", "host", "context")
OPTIONS = (
    {},
    {},
    {"data": "trace"},
    {"context": "python"},
    {"mode": "pcsampling"},
    {"mode": "pcsampling:windows=5ms/20ms"},
    {"mode": "default:windows=5ms/20ms:overhead=100%:memory=1GB"},
)
STALLED = 60  # seconds in which a thread has to return from its calls
LIMIT = 420  # seconds: on a host with 4 GPUs, creating and destroying a context takes one
HOST = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Storm:
    def __init__(self, path: str, is_python: bool, kinds: list[str]) -> None:
        self.library = ctypes.CDLL(path)
        self.library.storm_open.restype = ctypes.c_void_p
        self.library.storm_rounds.restype = ctypes.c_uint64
        self.is_python = is_python
        self.must_end = False
        self.hosts = 0
        # Of Python: it waits for the interpreter's lock in a thread of the driver.
        self.host = HOST(self.count_host) if is_python else HOST()
        self.names = [kind for kind in KINDS if kind in kinds]
        self.states = [self.open(KINDS.index(kind), 0) for kind in self.names]
        if self.library.storm_devices() > 1:
            more = [kind for kind in KINDS[:2] if kind in kinds]
            self.names += [f"{kind} of GPU 1" for kind in more]
            self.states += [self.open(KINDS.index(kind), 1) for kind in more]
        self.results = [0] * len(self.states)
        self.threads: list[threading.Thread] = []
        self.rounds = [(-1, 0.0)] * len(self.states)

    def open(self, kind: int, device: int) -> ctypes.c_void_p:
        result = ctypes.c_int()
        state = self.library.storm_open(kind, device, self.host, ctypes.byref(result))
        assert result.value == 0, (KINDS[kind], result.value)
        return ctypes.c_void_p(state)

    def count_host(self, _: int) -> None:
        self.hosts += 1

    def begin(self) -> None:
        if not self.is_python:
            for state in self.states:
                assert self.library.storm_start(state) == 0
            return
        for i in range(len(self.states)):
            self.threads.append(threading.Thread(target=self.run, args=(i,), daemon=True))
            self.threads[-1].start()

    def run(self, i: int) -> None:
        while not self.must_end and not self.results[i]:
            self.results[i] = self.library.storm_round(self.states[i])

    def has_failed(self) -> bool:
        if self.is_python:
            return any(self.results)
        return any(self.library.storm_result(state) for state in self.states)

    def stalled(self) -> list[str]:
        """The kinds of threads that have not returned from their calls for long."""
        now = time.monotonic()
        for i, state in enumerate(self.states):
            rounds = self.library.storm_rounds(state)
            if rounds != self.rounds[i][0]:
                self.rounds[i] = (rounds, now)
        return [
            name for name, (_, since) in zip(self.names, self.rounds) if now - since > STALLED
        ]

    def end(self) -> list[int]:
        self.must_end = True
        for thread in self.threads:
            thread.join()
        if not self.is_python:
            self.results = [self.library.storm_join(state) for state in self.states]
        return [
            result or self.library.storm_check(state)
            for result, state in zip(self.results, self.states)
        ]


def attempt(action: Callable[[], Optional[int]]) -> Optional[int]:
    """None after the one error that a busy host may cause; the next session tries again."""
    try:
        return action()
    except proton.ProtonError as error:
        if "could not be ended yet" not in str(error):
            raise
        print(error, file=sys.stderr)
        return None


def session(name: str, options: dict, choice: random.Random, times: dict) -> None:
    """A session, perhaps deactivated for a while; adds the seconds of its start and end."""
    begin = time.monotonic()
    number = attempt(lambda: proton.start(name, **options))
    if number is None:
        return
    times["start"].append(time.monotonic() - begin)
    time.sleep(choice.uniform(0, 0.04))
    if choice.random() < 0.3:
        proton.deactivate(number, flushing=choice.random() < 0.5)
        time.sleep(choice.choice((0, 0.01, 1.2)))
        attempt(lambda: proton.activate(number))
        time.sleep(choice.uniform(0, 0.02))
    begin = time.monotonic()
    proton.finalize(number)
    times["end"].append(time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("threads", choices=("python", "c"))
    parser.add_argument("sessions", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--options", default=",".join(map(str, range(len(OPTIONS)))))
    arguments = parser.parse_args()
    count, seed = arguments.sessions, arguments.seed
    options = [OPTIONS[int(number)] for number in arguments.options.split(",")]
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    choice = random.Random(seed)
    storm = Storm(arguments.library, arguments.threads == "python", arguments.kinds.split(","))
    times: dict[str, list[float]] = {"start": [], "end": []}
    done = 0
    began = time.monotonic()
    if not storm.is_python:  # the first subscription under such threads: "Not solved" there
        session(f"storm{seed}", {}, choice, times)
    storm.begin()
    for done in range(1, count + 1):
        session(f"storm{seed}", choice.choice(options), choice, times)
        if done % 5 == 0:
            print(f"{done} sessions after {time.monotonic() - began:.1f} s", file=sys.stderr)
        if storm.has_failed():
            break
        if storm.stalled():
            print(f"no call has returned for {STALLED} s: {storm.stalled()}", file=sys.stderr)
            os._exit(2)  # such a thread cannot be joined
    results = storm.end()
    print(
        json.dumps(
            {
                "results": dict(zip(storm.names, results)),
                "sessions": done,
                "start": statistics.median_low(times["start"]),
                "end": statistics.median_low(times["end"]),
                "longest": max(times["start"] + times["end"]),
            }
        ),
        flush=True,
    )
    os._exit(any(results))


if __name__ == "__main__":
    sys.exit(main())
