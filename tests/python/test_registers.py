"""Limiting the registers that records use: the choice of a limit, without ptxas."""

import struct

import pytest
from triton_proton import _registers
from triton_proton._libproton import cubin_needs
from triton_proton._registers import Fitting, fit, limited

PTX = ".visible .entry k(\n)\n.reqntid 128\n{\n}\n"


def cubin(registers: int, stack: int = 0, more: bytes = b"") -> bytes:
    """An ELF file with what is read of one: a section with names, and .nv.info."""
    names = b"\0.names\0.nv.info\0"
    info = struct.pack("<BBH", 3, 0x50, 0)  # a value in place
    info += struct.pack("<BBHII", 4, 0x2F, 8, 1, registers)
    info += struct.pack("<BBHII", 4, 0x11, 8, 1, stack) + more
    sections = [
        struct.pack("<II16xQQ24x", 0, 0, 0, 0), struct.pack("<II16xQQ24x", 1, 3, 64, len(names)),
        struct.pack("<II16xQQ24x", 8, 1, 64 + len(names), len(info)),
    ]
    table = 64 + len(names) + len(info)
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H20xQ10xHHH", 190, table, 64, 3, 1)
    return head.ljust(64, b"\0") + names + info + b"".join(sections)


def test_needs_are_read():
    assert cubin_needs(cubin(40, 8)) == (40, 8)
    # A callee: its stack follows the caller's.
    callee = struct.pack("<BBHII", 4, 0x2F, 8, 2, 50) + struct.pack("<BBHII", 4, 0x11, 8, 2, 16)
    assert cubin_needs(cubin(40, 8, callee)) == (50, 24)


def test_other_bytes_are_refused():
    whole = cubin(40)
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            cubin_needs(whole[:length])
    with pytest.raises(ValueError):
        cubin_needs(b"\x7fELF\x02" + b"\xff" * 200)


def test_a_limit_is_put_after_the_number_of_threads():
    assert limited(PTX, 48) == ".visible .entry k(\n)\n.reqntid 128\n.maxnreg 48\n{\n}\n"
    for ptx in (limited(PTX, 48), "", PTX + PTX, PTX.replace("{", ".minnctapersm 2\n{")):
        with pytest.raises(ValueError):
            limited(ptx, 40)


def tried(made: tuple, plain: tuple, results: dict):
    """The choice of fit(), and the limits that it has tried."""
    limits = []

    def assemble(ptx: str) -> bytes:
        limit = int(ptx.split(".maxnreg ")[1].split()[0])
        limits.append(limit)
        return cubin(*results[limit])  # a KeyError is ptxas that cannot

    chosen = cubin_needs(fit(PTX, cubin(*made), lambda: cubin(*plain), assemble))
    return chosen, limits


@pytest.mark.parametrize(
    "made, plain, results, chosen, limits",
    [
        ((32,), (8,), {}, (32, 0), []),  # costs nothing
        ((96,), (90,), {}, (96, 0), []),  # as many as the kernel was given
        ((123,), (96,), {96: (94,)}, (94, 0), [96]),
        ((125,), (75,), {80: (80, 16), 81: (81,)}, (81, 0), [80, 81]),
        ((60,), (48,), {54: (52,)}, (52, 0), [48, 54]),
        ((60,), (48,), {48: (48, 8), 54: (54, 8)}, (60, 0), [48, 54]),
        ((80, 8), (84,), {88: (86,)}, (86, 0), [88]),  # ptxas takes too few
        ((255, 16), (255, 16), {}, (255, 16), []),
        ((36,), (20,), {32: (32,)}, (32, 0), [32]),
        # ptxas falls to few registers: the smallest local memory is better than its choice.
        ((32, 3072), (255,), {255: (255, 784)}, (255, 784), [255]),
        ((56, 2048), (120,), {120: (120, 96), 126: (126, 64)}, (126, 64), [120, 126]),
        ((56, 64), (120,), {120: (120, 64), 126: (126, 72)}, (56, 64), [120, 126]),
        ((255, 16), (251,), {}, (255, 16), [255]),
    ],
)
def test_registers_are_chosen(made, plain, results, chosen, limits):
    assert tried(made, plain, results) == (chosen, limits)


@pytest.mark.parametrize(
    "arch, registers, shared, warps, expected",
    [
        ("sm_90", 32, 0, 4, 16),
        ("sm_90", 33, 0, 4, 12),
        ("sm_90", 255, 0, 4, 2),
        ("sm_90", 255, 0, 8, 1),
        ("sm_90", 32, 100 << 10, 4, 2),
        ("sm_89", 32, 0, 4, 12),
        ("sm_90", 16, 0, 1, 32),
        ("sm_75", 255, 0, 4, 2),
    ],
)
def test_ctas_of_a_multiprocessor_are_counted(arch, registers, shared, warps, expected):
    assert _registers.ctas_of(arch, registers, {"shared": shared, "num_warps": warps}) == expected


def test_costs_of_scopes_are_reported(monkeypatch, capfd):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    needs = {"plain": (64, 0), "records": (80, 16), "cheap": (64, 0)}
    stages = {
        "ptx": lambda src, metadata: f"// {src}\n{PTX}",
        "cubin": lambda src, metadata: cubin(*needs[src.split()[1]]),
    }
    layouts = {}
    for text in ("records", "cheap"):
        fitting = Fitting(stages, "sm_90")
        fitting.records_follow(lambda: ("plain", {"num_warps": 4}), "kernel of " + text)
        metadata = {"num_warps": 4, "proton_layout": "layout\nwarning 1 scope was omitted\n"}
        stages["cubin"](stages["ptx"](text, {}), metadata)
        layouts[text] = metadata["proton_layout"]
    assert layouts["cheap"] == "layout\nwarning 1 scope was omitted\n"
    assert layouts["records"] == (
        "layout\nwarning 1 scope was omitted; its scopes cost 16 bytes of local memory per thread "
        "and 2 of 8 CTAs per multiprocessor\n"
    )
    reported = capfd.readouterr().err
    assert reported == (
        "proton: kernel of records: its scopes cost 16 bytes of local memory per thread and 2 of 8 "
        "CTAs per multiprocessor; use fewer scopes, or fewer kinds in auto=\n"
    )


def pipeline():
    """Stages like Triton's, with machine code that uses 60 registers more with records."""
    seen = []

    def ptx(src, metadata):
        return f"// {src}\n{PTX}"

    def make(src, metadata):
        seen.append((src.splitlines()[0], ".maxnreg" in src, dict(metadata)))
        return cubin(40 if "plain" in src or ".maxnreg" in src else 100)

    return {"ptx": ptx, "cubin": make}, seen


def test_a_kernel_with_records_is_assembled_again():
    stages, seen = pipeline()
    fitting = Fitting(stages, "sm_90")
    fitting.records_follow(lambda: ("plain", {"shared": 1}), "kernel")
    made = stages["cubin"](stages["ptx"]("records", {"shared": 2}), {"shared": 2})
    assert cubin_needs(made) == (40, 0)
    assert seen == [
        ("// records", False, {"shared": 2}),
        ("// plain", False, {"shared": 1}),
        ("// records", True, {"shared": 2}),
    ]
    # The next kernel knows nothing of it.
    seen.clear()
    stages["cubin"](stages["ptx"]("another", {}), {})
    assert len(seen) == 1


def test_a_stage_that_was_replaced_later_stays(capsys):
    stages, seen = pipeline()
    Fitting(stages, "sm_90").records_follow(lambda: ("plain", {}), "kernel")
    stages["ptx"]("records", {})
    stages["cubin"]("// mine\n" + PTX, {})
    assert len(seen) == 1
    # Unreadable machine code is unchanged.
    stages, _ = pipeline()
    stages["cubin"] = lambda src, metadata: b"no machine code"
    Fitting(stages, "sm_90").records_follow(lambda: ("plain", {}), "kernel")
    assert stages["cubin"](stages["ptx"]("records", {}), {}) == b"no machine code"


def test_triton_prints_nothing_about_rejected_attempts(capsys):
    scope = {}
    exec("def stage(src, metadata):\n    print('a whole kernel')\n    raise OSError", scope)
    with pytest.raises(OSError):
        _registers.quietly(scope["stage"], PTX, {})
    assert capsys.readouterr().out == "" and "print" not in scope


def test_a_text_that_was_tried_out_is_not_assembled_again():
    stages, seen = pipeline()
    fitting = Fitting(stages, "sm_90")
    fitting.records_follow(lambda: ("plain", {"shared": 1, "num_warps": 4}), "kernel")
    costs = fitting.try_out("records", {"shared": 2, "num_warps": 4})
    assert costs[:4] == (0, 0, 12, 0) and not costs and len(seen) == 3
    metadata = {"shared": 2, "num_warps": 4}
    assert cubin_needs(stages["cubin"](stages["ptx"]("records", metadata), metadata)) == (40, 0)
    assert len(seen) == 3
    stages["cubin"](stages["ptx"]("records", metadata), metadata)  # another kernel
    assert len(seen) == 4
    fitting.records_follow(lambda: ("plain", {"num_warps": 4}), "kernel")
    fitting.try_out("records", {})
    stages["cubin"](stages["ptx"]("others", metadata), metadata)
    assert seen[-2][0] == "// others" or seen[-1][0] == "// others"


def test_costs_are_compared():
    costs = _registers.Costs
    assert costs(8, 1, 4).is_half_of(costs(16, 2, 4))
    assert costs(0, 0, 4).is_half_of(costs(8, 0, 4))
    assert not costs(8, 1, 4).is_half_of(costs(16, 0, 4))
    assert not costs(9, 0, 4).is_half_of(costs(16, 2, 4))
    assert costs(0, 0, 4, 40).is_half_of(costs(0, 0, 4, 48))
    assert not costs(0, 0, 4, 41).is_half_of(costs(0, 0, 4, 48))
    assert str(costs(0, 1, 4, 40)) == "1 of 4 CTAs per multiprocessor"
    assert str(costs(0, 0, 4, 40)) == "40 more registers per thread"
    assert costs(0, 0, 4, 33).is_too_much() and not costs(0, 0, 4, 33)
    assert not costs(0, 0, 4, 32).is_too_much() and costs(0, 1, 4).is_too_much()
    # The percentage of the registers that must be saved.
    assert costs(0, 1, 4, 40, 10).less() == 75
    assert costs(120, 0, 4, 0, 6).less() == 80
    assert costs(0, 1, 4, 6, 6).less() == 50  # shared memory, or an estimate
