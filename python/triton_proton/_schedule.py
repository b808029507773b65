"""Sessions that begin and end by steps: `schedule` and `step`."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Optional, Union

from .flags import flags
from .profile import DEFAULT_PROFILE_NAME, activate, deactivate, finalize, start

_current: Optional["schedule"] = None
_lock = threading.RLock()  # `on_end` may start the next schedule


class schedule:
    """Record some steps of a program that calls `step` at the end of each.

        proton.schedule("train", wait=10, warmup=1, active=3, repeat=2, hook="triton")
        for batch in batches:
            train(batch)
            proton.step()

    A cycle is `wait` steps without a session, `warmup` steps in which the session is started but
    paused, and `active` steps that are recorded. Its profile is "train.cycle_1", "train.cycle_2"
    and so on, or "train" with `repeat=1`. After `repeat` cycles nothing more happens; 0 repeats
    them until the program ends. `on_end` is called with the path of each profile, without suffix.
    The other options are those of `start`. The schedule begins at once, and replaces an earlier
    one; `end` ends it.

    Under the `proton` command its session is paused outside of the active steps.
    """

    def __init__(
        self,
        name: Union[None, str, os.PathLike[str]] = None,
        *,
        wait: int = 0,
        warmup: int = 0,
        active: int,
        repeat: int = 0,
        on_end: Optional[Callable[[str], Any]] = None,
        **options: Any,
    ) -> None:
        global _current
        if min(wait, warmup, repeat) < 0 or active < 1:
            raise ValueError("wait, warmup and repeat are at least 0, active at least 1")
        self._name = DEFAULT_PROFILE_NAME if name is None else os.fspath(name)
        self._wait, self._warmup, self._active, self._repeat = wait, warmup, active, repeat
        self._on_end = on_end
        self._options = options
        self._step = 0  # in the cycle
        self._cycle = 1
        self._session: Optional[int] = None
        with _lock:
            if _current is not None:
                _current.end()
            _current = self
            if flags.command_line:
                deactivate()
            self._enter_step()

    def _path(self) -> str:
        return self._name if self._repeat == 1 else f"{self._name}.cycle_{self._cycle}"

    def _enter_step(self) -> None:
        """Do what is due at the beginning of the step `self._step`."""
        is_active = self._step == self._wait + self._warmup
        if self._step == self._wait:
            self._session = start(self._path(), **self._options)
            if not is_active and self._session is not None:
                deactivate(self._session)
        if is_active and (self._session is not None or flags.command_line):
            activate(self._session)

    def _end_cycle(self) -> None:
        if flags.command_line:
            deactivate()
        elif self._session is not None:
            session, self._session = self._session, None
            finalize(session)
        if self._on_end is not None:
            self._on_end(self._path())

    def _advance(self) -> None:
        self._step += 1
        if self._step == self._wait + self._warmup + self._active:
            self._end_cycle()
            self._step = 0
            self._cycle += 1
            if self._repeat and self._cycle > self._repeat:
                self.end()
        if _current is self:
            self._enter_step()

    def end(self) -> None:
        """End the schedule now; the steps of an unfinished cycle are written too."""
        global _current
        with _lock:
            if _current is self:
                _current = None
            if self._session is not None:
                self._end_cycle()


def step() -> None:
    """End a step of the schedule. Without one, nothing happens."""
    if _current is None:
        return
    with _lock:
        if _current is not None:
            _current._advance()
