"""Mode objects and peak rates."""

import dataclasses

import pytest

import triton_proton as proton
from triton_proton import _libproton, mode, specs


def test_pc_sampling():
    assert str(mode.PCSampling()) == "pcsampling:interval=1000"
    assert str(mode.PCSampling(interval=7)) == "pcsampling:interval=7"
    for bad in (0, -1, 1.5, "3", True):
        with pytest.raises(ValueError, match="Interval must be a positive integer."):
            mode.PCSampling(interval=bad)


def test_instrumentation_defaults():
    default = mode.Default()
    assert default.name == "default" and mode.MMA().name == "mma"
    assert default.metric_type is mode.metric_types["cycle"]
    assert default.sampling_strategy is mode.sampling_strategies["none"]
    assert default.granularity is mode.granularities["warp"]
    assert default.buffer_strategy is mode.buffer_strategies["circular"]
    assert default.buffer_type is mode.buffer_types["shared"]
    assert (default.sampling_options, default.buffer_size, default.optimizations) == ("", 0, [])
    with pytest.raises(dataclasses.FrozenInstanceError):
        default.buffer_size = 3


def test_names_become_members():
    made = mode.Default(granularity="warp_group_2", optimizations="time_shift, clock32")
    assert made.granularity is mode.granularities["warp_group_2"]
    assert made.optimizations == [mode.optimizations["time_shift"], mode.optimizations["clock32"]]
    assert made == mode.Default(
        granularity=made.granularity, optimizations=["time_shift", mode.Optimize.CLOCK32]
    )
    same = mode.Default(granularity="warp_group_2", optimizations="time_shift,clock32")
    assert hash(made) == hash(same)
    assert str(made).startswith("default:metric_type=cycle:")
    assert "granularity=warp_group_2" in str(made)
    assert str(made).endswith("optimizations=time_shift,clock32")


@pytest.mark.parametrize(
    "options, text",
    [
        ({"metric_type": "joule"}, "Unknown metric_type: joule"),
        ({"granularity": "thread"}, "Unknown granularity: thread; available: cta, warp, "),
        ({"buffer_type": mode.Granularity.CTA}, "Unknown buffer_type: cta"),
        ({"optimizations": "fast"}, "Unknown optimization: fast"),
        ({"buffer_strategy": None}, "Unknown buffer_strategy: None"),
        ({"optimizations": None}, "Unknown optimization: None"),
        ({"auto": 3}, "Unknown automatic scope: 3"),
        ({"sampling_options": [0, -1]}, "sampling_options must be warp numbers, not -1"),
        ({"sampling_options": [True]}, "sampling_options must be warp numbers, not True"),
    ],
)
def test_unknown_values(options, text):
    with pytest.raises(ValueError, match=text):
        mode.Default(**options)


def test_ways_to_say_the_same():
    assert mode.Default(buffer_type="shared_mem") == mode.Default(buffer_type="shared")
    assert mode.Default(optimizations=mode.Optimize.CLOCK32).optimizations == [
        mode.Optimize.CLOCK32
    ]
    listed = mode.Default(sampling_strategy="selective", sampling_options=[3, 0])
    assert listed == mode.Default(sampling_strategy="selective", sampling_options="3,0")
    assert mode.Default(sampling_options=2).sampling_options == "2"
    assert mode.Default(sampling_options=range(3)).sampling_options == "0,1,2"
    # In the order in which they are listed, as in upstream's classes.
    placed = mode.Default("cycle", "selective", "0", "cta", "circular", "global", 64, "clock32")
    assert placed.granularity is mode.Granularity.CTA and placed.buffer_size == 64


def test_options_that_upstream_lacks():
    assert "launches" not in str(mode.Default())
    assert str(mode.Default(launches=8)).endswith(":launches=8:optimizations=")
    made = mode.Default(auto="loads, dots", cta=4, launches="all", optimizations="clock32")
    assert made.auto == ["loads", "dots"]
    assert str(made).endswith(":auto=loads,dots:cta=4:launches=all:optimizations=clock32")
    assert str(mode.Default(auto="all", budget=5)).endswith(":auto=all:budget=5:optimizations=")
    assert ":auto=all:budget=off:" in str(mode.Default(auto="all", budget="off"))
    assert "budget" not in str(mode.Default(auto="all"))
    for bad, text in (
        ({"budget": 0}, 'budget must be a percentage from 1 to 100 or "off", not 0'),
        ({"budget": 101}, "not 101"),
        ({"budget": "much"}, "not 'much'"),
        ({"budget": 2.5}, "not 2.5"),
        ({"budget": True}, "not True"),
        ({"auto": "branches"}, "Unknown automatic scope: branches; available: loads, "),
        ({"cta": 0}, "cta must be a positive integer, not 0"),
        ({"launches": "some"}, "launches must be a positive integer or \"all\", not 'some'"),
    ):
        with pytest.raises(ValueError, match=text):
            mode.Default(**bad)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auto": ["all"], "budget": 7},
        {"auto": ["all"], "cta": 2, "launches": 3, "buffer_size": 4096, "buffer_type": "global"},
        {"sampling_strategy": "selective", "sampling_options": "3,0", "granularity": "warp_2"},
        {"optimizations": "clock32,time_shift,sched_stores,sched_barriers"},
    ],
)
def test_the_library_reads_the_text_of_a_mode(options):
    for kind in (mode.Default, mode.MMA):
        described = _libproton.instrument_mode(str(kind(**options)))
        assert described["launches"] == options.get("launches", 8)
        assert described["cta_stride"] == options.get("cta", 1)
        assert described["time_shift"] == ("optimizations" in options)
    with pytest.raises(ValueError, match='"flush" is not supported'):
        _libproton.instrument_mode(str(mode.Default(buffer_strategy="flush")))


def test_all_names():
    assert set(mode.granularities) == {
        "cta", "warp", "warp_2", "warp_4", "warp_8",
        "warp_group", "warp_group_2", "warp_group_4", "warp_group_8",
    }  # fmt: skip
    assert set(mode.buffer_strategies) == {"circular", "flush"}
    assert set(mode.sampling_strategies) == {"none", "selective"}
    assert set(mode.optimizations) == {"time_shift", "sched_stores", "sched_barriers", "clock32"}


def test_a_mode_object_reaches_the_backend():
    with pytest.raises(ValueError, match="unsupported mode: pcsampling:interval=5"):
        proton.start("test", backend="host", mode=mode.PCSampling(interval=5))


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("CUDA", "80", 8, 108, 1410000), 624e12),
        (("CUDA", "80", 16, 108, 1410000), 312e12),
        (("CUDA", "89", 8, 128, 2520000), 330.3e12),
        (("CUDA", "90", 8, 114, 1755000), 1513e12),
        (("CUDA", 90, 64, 57, 1755000), 1513e12 / 16),
        (("CUDA", "100", 8, 148, 1000000), 148 * 16384e9),
        (("HIP", "gfx942", 8, 304, 2100000), 4096 * 304 * 2.1e9),
        (("HIP", "gfx90a", 16, 110, 1700000), 1024 * 110 * 1.7e9 / 2),
    ],
)
def test_max_flops(arguments, expected):
    assert specs.max_flops(*arguments) == pytest.approx(expected)


def test_max_bps():
    assert specs.max_bps("CUDA", "90", 5120, 1593000) == pytest.approx(2.0390e12, rel=1e-4)
    assert specs.max_bps("HIP", "gfx950", 0, 0) == 8.0e12


@pytest.mark.parametrize("function", [specs.max_flops, specs.max_bps])
def test_unknown_devices(function):
    rest = (8, 1, 1) if function is specs.max_flops else (1, 1)
    with pytest.raises(ValueError, match="Unsupported architecture: gfx1"):
        function("HIP", "gfx1", *rest)
    with pytest.raises(ValueError, match="Unsupported device type: TPU"):
        function("TPU", "v5", *rest)


def test_unknown_widths():
    for width in (0, -8, 12, 128):
        with pytest.raises(ValueError, match="Unsupported width: operands have 4, 8, 16"):
            specs.max_flops("CUDA", "90", width, 1, 1)


# Per clock and multiprocessor with 4 to 64 bits, from the vendors' data sheets; 80, 89 and gfx1250
# have rates of the whole device, in 1e12 per second. Last: bytes per second of the memory.
H100 = 1513e12 / (114 * 1755e6)
FIGURES = {
    ("CUDA", "70"): ((512, 512, 1024, 128, 64), None),
    ("CUDA", "75"): ((4096, 2048, 1024, 128, 4), None),
    ("CUDA", "80"): ((1248, 624, 312, 156, 78), None),
    ("CUDA", "86"): ((4096, 2048, 1024, 256, 4), None),
    ("CUDA", "87"): ((8192, 4096, 2048, 1024, 4), None),
    ("CUDA", "89"): ((660.6, 330.3, 165.15, 82.575, 41.2875), None),
    ("CUDA", "90"): ((H100, H100, H100 / 2, H100 / 4, H100 / 8), None),
    ("CUDA", "100"): ((32768, 16384, 8192, 4096, 2048), None),
    ("CUDA", "103"): ((49152, 16384, 8192, 4096, 4), None),
    ("CUDA", "110"): ((32768, 16384, 8192, 4096, 4), None),
    ("CUDA", "120"): ((4096, 2048, 1024, 256, 4), None),
    ("CUDA", "121"): ((4096, 2048, 1024, 256, 4), None),
    ("HIP", "gfx908"): ((1024, 1024, 1024, 256, 64), 1.2288e12),
    ("HIP", "gfx90a"): ((1024, 1024, 512, 256, 128), 3.2e12),
    ("HIP", "gfx940"): ((4096, 4096, 2048, 1024, 512), 5.3e12),
    ("HIP", "gfx941"): ((4096, 4096, 2048, 1024, 512), 5.3e12),
    ("HIP", "gfx942"): ((4096, 4096, 2048, 1024, 512), 5.3e12),
    ("HIP", "gfx950"): ((16384, 8192, 4096, 2048, 1024), 8.0e12),
    ("HIP", "gfx1100"): ((1024, 512, 512, 256, 8), 960e9),
    ("HIP", "gfx1101"): ((1024, 512, 512, 256, 8), 624e9),
    ("HIP", "gfx1200"): ((4096, 2048, 1024, 256, 4), 320e9),
    ("HIP", "gfx1201"): ((4096, 2048, 1024, 256, 4), 640e9),
    ("HIP", "gfx1250"): ((40000, 20000, 10000), 19.6e12),
}


@pytest.mark.parametrize("device", FIGURES, ids=lambda device: device[1])
def test_every_architecture(device):
    rates, memory = FIGURES[device]
    scale = 1e12 if device[1] in ("80", "89", "gfx1250") else 100 * 2e9
    for width, rate in zip((4, 8, 16, 32, 64), rates):
        assert specs.max_flops(*device, width, 100, 2e6) == pytest.approx(rate * scale), width
    expected = memory or 2 * 4096 * 1.5e9 / 8
    assert specs.max_bps(*device, 4096, 1.5e6) == pytest.approx(expected)


@pytest.mark.parametrize("width", [32, 64])
def test_a_rate_that_is_not_published_is_an_error(width):
    with pytest.raises(ValueError, match=f"no peak rate of gfx1250 is published .* {width} bits"):
        specs.max_flops("HIP", "gfx1250", width, 256, 2e6)


def test_features_of_a_target_do_not_matter():
    assert specs.max_bps("HIP", "gfx942:sramecc+:xnack-", 0, 0) == 5.3e12
