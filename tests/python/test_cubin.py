"""src/symbol/code_object.c on machine code of NVIDIA's assembler, compared with cuobjdump."""

import re

import pytest
from nvidia_tools import assemble, code_object_tool, run
from triton_proton._libproton import cubin_needs

PTX = """
.version 8.6
.target sm_80
.address_size 64
.func (.param .b32 r) square(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    mad.lo.u32 %r2, %r1, %r1, 7;
    st.param.b32 [r], %r2;
    ret;
}
.visible .entry one(.param .u64 p)
{
    .reg .b32 %r<5>;
    .reg .b64 %d<3>;
    .shared .align 4 .b8 tile[4096];
    ld.param.u64 %d1, [p];
    ld.global.u32 %r1, [%d1];
    st.shared.u32 [tile], %r1;
    bar.sync 0;
    ld.shared.u32 %r2, [tile + 128];
    {
        .param .b32 a;
        .param .b32 b;
        st.param.b32 [a], %r2;
        call (b), square, (a);
        ld.param.b32 %r3, [b];
    }
    st.global.u32 [%d1], %r3;
    ret;
}
.visible .entry _Z3twoPi(.param .u64 p)
{
    .reg .b32 %r<5>;
    .reg .b64 %d<5>;
    .local .align 4 .b8 frame[256];
    ld.param.u64 %d1, [p];
    ld.global.u32 %r1, [%d1];
    and.b32 %r2, %r1, 252;
    cvt.u64.u32 %d2, %r2;
    mov.u64 %d3, frame;
    add.u64 %d4, %d3, %d2;
    st.local.u32 [%d4], %r1;
    st.local.u32 [frame], %r2;
    ld.local.u32 %r3, [%d4 + 4];
    st.global.u32 [%d1], %r3;
    ret;
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_functions_are_those_of_cuobjdump(tmp_path, arch):
    path = tmp_path / "k.cubin"
    assemble(PTX.replace("sm_80", arch), arch, path)
    usage = run("cuobjdump", "-res-usage", path)
    expected = {
        name: tuple(map(int, numbers))
        for name, *numbers in re.findall(
            r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage
        )
    }
    symbols = run("cuobjdump", "-elf", path)
    functions = {
        name: list(map(int, rest))
        for kind, name, *rest in code_object_tool(path)
        if kind == "function"
    }
    assert set(expected) == {"one", "_Z3twoPi"}
    assert set(functions) == {"one", "_Z3twoPi", "$one$square"}
    for name, needs in expected.items():
        symbol, code_bytes, *resources = functions[name]
        assert tuple(resources) == needs
        assert re.search(rf"^ 0x{symbol:x}\s+0\s+{code_bytes:#x}\s.*\s{name}$", symbols, re.M)
    assert functions["_Z3twoPi"][3] >= 256 and functions["one"][4] >= 4096
    assert 0 < functions["$one$square"][1] < functions["one"][1]
    # The limit on registers uses the maximum and the sum.
    assert cubin_needs(path.read_bytes()) == (
        max(needs[0] for needs in expected.values()), sum(needs[1] for needs in expected.values())
    )
