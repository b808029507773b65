"""Static nesting of scopes from the pass, compared with every path through random kernels."""

import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from built import TOOL  # noqa: E402
from test_instrument_records import functions, instrument, text_of  # noqa: E402

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")

NAMES = ("a", "b", "c")


def scope_call(item):
    """("start" or "end", name) of a marker of a scope, else None."""
    if not isinstance(item, tuple) or not item[0].startswith("record"):
        return None
    return item[0].partition(" ")[2], item[1]


def steps(made, place):
    """Where execution may be after `place`, a tuple of (function, block, item), innermost last."""
    *callers, (function, block, at) = place
    items, edges = made[function][block]
    if at < len(items):
        item = items[at]
        after = (*callers, (function, block, at + 1))
        return [(*after, (item, 0, 0))] if isinstance(item, int) else [after]
    if edges:
        return [(*callers, (function, edge, 0)) for edge in edges]
    return [tuple(callers)] if callers else []


def marker_at(made, place):
    function, block, at = place[-1]
    items, _ = made[function][block]
    return scope_call(items[at]) if at < len(items) else None


def may_end(made, place, name) -> bool:
    """Does a path from `place` end the scope before it starts it?"""
    queue, seen = [place], {place}
    while queue:
        place = queue.pop()
        marker = marker_at(made, place)
        if marker == ("end", name):
            return True
        if marker != ("start", name):
            more = [p for p in steps(made, place) if p not in seen]
            seen.update(more)
            queue += more
    return False


def walk(made):
    """By scope: all that may be open at its starts and ends, and what is at each start."""
    around = {name: set() for name in NAMES}
    starts: dict[str, list] = {name: [] for name in NAMES}
    first = (((0, 0, 0),), frozenset())
    queue, seen = [first], {first}
    while queue:
        place, is_open = queue.pop()
        marker = marker_at(made, place)
        if marker and marker[0] == "start":
            around[marker[1]] |= is_open
            starts[marker[1]].append((place, is_open))
            is_open = is_open | {marker[1]}
        elif marker:
            is_open = is_open - {marker[1]}
            around[marker[1]] |= is_open
        for place in steps(made, place):
            if (place, is_open) not in seen:
                seen.add((place, is_open))
                queue.append((place, is_open))
    return around, starts


def always_open(starts) -> dict[str, set]:
    """Scopes that are open at each start of another one."""
    return {
        name: set.intersection(*(set(is_open) for _, is_open in at)) - {name} if at else set()
        for name, at in starts.items()
    }


def outer_scopes(made, starts) -> dict[str, set]:
    """Those always open scopes that may end after one of the starts."""
    found = {}
    for name, must in always_open(starts).items():
        found[name] = {
            outer
            for outer in must
            if any(may_end(made, steps(made, place)[0], outer) for place, _ in starts[name])
        }
    return found


def innermost(outer: dict[str, set], name: str):
    """Of those around a scope: the innermost that has an order with all others."""
    comparable = [
        p
        for p in outer[name]
        if all(q == p or p in outer[q] or q in outer[p] for q in outer[name])
    ]
    return max(comparable, key=lambda p: sum(q in outer[p] for q in comparable), default=None)


@settings(
    max_examples=150, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    made=st.integers(0, 2).flatmap(lambda callees: functions(callees)),
    arch=st.sampled_from(["sm_90", "gfx942"]),
)
def test_nesting_is_that_of_every_path(made, arch):
    text = text_of(made, arch == "gfx942")
    threads = 64 if arch == "gfx942" else 32
    _, layout = instrument(text, arch, {"warps": 1, "threads": threads})
    names = layout["scope"]
    around = {}
    for line in layout.get("around", []):
        scope, *others = map(int, line.split())
        around[names[scope]] = {names[other] for other in others}
    parents = {
        names[scope]: names[parent]
        for scope, parent in (map(int, line.split()) for line in layout.get("parent", []))
    }
    want, starts = walk(made)
    always = always_open(starts)
    for name in NAMES:
        if not starts[name]:
            assert name not in around and name not in parents
            continue
        assert want[name] <= around[name]
        assert parents.get(name) in {None, *always[name]}
        if len(made) == 1:  # else all calls of a function are taken together
            assert around[name] == want[name]
            assert parents.get(name) == innermost(outer_scopes(made, starts), name)
