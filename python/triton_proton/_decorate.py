"""Scopes and states as decorators.

A scope is open exactly while the decorated function's own code runs. Generators and coroutines
enter it before each step and exit it after the step, so other work of the thread between two steps
is not attributed to it. Metrics of the scope are added once per call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any


class _Steps:
    """Drives a generator or coroutine step by step, each step inside the context manager."""

    def __init__(self, inner: Any, manager: Any) -> None:
        self._inner = inner
        self._next_manager = manager

    def _step(self, method: Callable[..., Any], *args: Any) -> Any:
        manager = self._next_manager
        self._next_manager = _again(manager)
        with manager:
            return method(*args)

    def __iter__(self) -> "_Steps":
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self._step(self._inner.send, None)

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *args: Any) -> Any:
        return self._step(self._inner.throw, *args)

    def close(self) -> None:
        self._step(self._inner.close)


def _again(manager: Any) -> Any:
    """The context manager for the second and later steps of a call."""
    without_metrics = getattr(manager, "_without_metrics", None)
    return without_metrics() if without_metrics is not None else manager


def decorate(manager: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` run inside the context manager `manager`, which is entered at each call."""
    if not callable(function):
        raise TypeError(f"a scope or state decorates functions, not {type(function).__name__}")
    if inspect.isasyncgenfunction(function):
        return _decorate_async_generator(manager, function)

    def plain(*args: Any, **kwargs: Any) -> Any:
        with manager:
            return function(*args, **kwargs)

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _Steps(function(*args, **kwargs), manager))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(function(*args, **kwargs), manager)

    is_coroutine = inspect.iscoroutinefunction(function)
    is_generator = inspect.isgeneratorfunction(function)
    return functools.wraps(function)(
        coroutine if is_coroutine else generator if is_generator else plain
    )


def _decorate_async_generator(manager: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        later = _again(manager)
        step = _Steps(generator.__anext__().__await__(), manager)
        while True:
            try:
                value = await step
            except StopAsyncIteration:
                return
            try:
                sent = yield value
            except GeneratorExit:
                await _Steps(generator.aclose().__await__(), later)
                raise
            except BaseException as error:
                step = _Steps(generator.athrow(error).__await__(), later)
            else:
                step = _Steps(generator.asend(sent).__await__(), later)

    return wrapper
