"""NVTX ranges: our declarations beside NVIDIA's headers, and a program that uses the real NVTX."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from built import ROOT
from test_cmd_program import libproton, tree
from test_cupti_abi import find

COMPILER = shutil.which(os.environ.get("CC", "cc"))
HEADERS = find(os.path.join("nvtx3", "nvToolsExt.h"))
needs_nvtx = pytest.mark.skipif(
    not COMPILER or not HEADERS, reason="needs a C compiler and nvtx3/nvToolsExt.h (of CUDA)"
)

CONSTANTS = {
    "NVTX_TABLE_CALLBACKS": "NVTX_ETID_CALLBACKS",
    "NVTX_E_NOT_TRACKED": "NVTX_NO_PUSH_POP_TRACKING",
    "NVTX_MODULE_CORE": "NVTX_CB_MODULE_CORE",
    "NVTX_MODULE_CORE2": "NVTX_CB_MODULE_CORE2",
    "NVTX_CORE_PUSH_EX": "NVTX_CBID_CORE_RangePushEx",
    "NVTX_CORE_PUSH_A": "NVTX_CBID_CORE_RangePushA",
    "NVTX_CORE_PUSH_W": "NVTX_CBID_CORE_RangePushW",
    "NVTX_CORE_POP": "NVTX_CBID_CORE_RangePop",
    "NVTX_CORE2_DOMAIN_PUSH_EX": "NVTX_CBID_CORE2_DomainRangePushEx",
    "NVTX_CORE2_DOMAIN_POP": "NVTX_CBID_CORE2_DomainRangePop",
    "NVTX_CORE2_REGISTER_STRING_A": "NVTX_CBID_CORE2_DomainRegisterStringA",
    "NVTX_CORE2_REGISTER_STRING_W": "NVTX_CBID_CORE2_DomainRegisterStringW",
    "NVTX_CORE2_DOMAIN_CREATE_A": "NVTX_CBID_CORE2_DomainCreateA",
    "NVTX_CORE2_DOMAIN_CREATE_W": "NVTX_CBID_CORE2_DomainCreateW",
    "NVTX_TEXT_NONE": "NVTX_MESSAGE_UNKNOWN",
    "NVTX_TEXT_ASCII": "NVTX_MESSAGE_TYPE_ASCII",
    "NVTX_TEXT_WIDE": "NVTX_MESSAGE_TYPE_UNICODE",
    "NVTX_TEXT_REGISTERED": "NVTX_MESSAGE_TYPE_REGISTERED",
    "sizeof(struct nvtx_attributes)": "sizeof(nvtxEventAttributes_t)",
    "sizeof(struct nvtx_callbacks)": "sizeof(NvtxExportTableCallbacks)",
}
FIELDS = {
    ("nvtx_attributes", "version"): ("nvtxEventAttributes_t", "version"),
    ("nvtx_attributes", "size"): ("nvtxEventAttributes_t", "size"),
    ("nvtx_attributes", "payload"): ("nvtxEventAttributes_t", "payload"),
    ("nvtx_attributes", "message_type"): ("nvtxEventAttributes_t", "messageType"),
    ("nvtx_attributes", "message"): ("nvtxEventAttributes_t", "message"),
    ("nvtx_callbacks", "get_module_table"): ("NvtxExportTableCallbacks", "GetModuleFunctionTable"),
}

# Only newer headers have the payload extension.
PAYLOAD = """
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours)
#define AT(ours, theirs) \\
    SAME(offsetof(struct nvtx_extension, ours), offsetof(nvtxExtModuleInfo_t, theirs))
#ifdef NVTX_EXT_PAYLOAD_MODULEID
SAME(NVTX_EXTENSION_PAYLOAD, NVTX_EXT_PAYLOAD_MODULEID);
SAME(NVTX_PAYLOAD_PUSH, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(NVTX_PAYLOAD_POP, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME(sizeof(struct nvtx_extension), sizeof(nvtxExtModuleInfo_t));
SAME(sizeof(struct nvtx_segment), sizeof(nvtxExtModuleSegment_t));
AT(struct_size, structSize);
AT(module, moduleId);
AT(segment_count, segmentsCount);
AT(segments, segments);
SAME(offsetof(struct nvtx_segment, slots), offsetof(nvtxExtModuleSegment_t, functionSlots));
#endif
#ifdef NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
#define FIELD(mine, ours, real, theirs) SAME(offsetof(struct mine, ours), offsetof(real, theirs))
SAME(NVTX_PAYLOAD_REGISTER_SCHEMA, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
SAME(NVTX_PAYLOAD_EXTENDED, NVTX_PAYLOAD_TYPE_EXT);
SAME(NVTX_ENTRY_POINTER, NVTX_PAYLOAD_ENTRY_FLAG_POINTER);
SAME(NVTX_ENTRY_RELATIVE,
     NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE);
SAME(NVTX_ENTRY_ARRAY_FIXED, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE);
SAME(NVTX_ENTRY_ARRAY,
     NVTX_PAYLOAD_ENTRY_FLAG_IS_ARRAY | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX);
SAME(NVTX_ENTRY_CHAR, NVTX_PAYLOAD_ENTRY_TYPE_CHAR);
SAME(NVTX_ENTRY_INT, NVTX_PAYLOAD_ENTRY_TYPE_INT);
SAME(NVTX_ENTRY_UINT64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
SAME(NVTX_ENTRY_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_SIZE);
SAME(NVTX_ENTRY_ADDRESS, NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS);
SAME(NVTX_SCHEMA_ENTRIES, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
SAME(NVTX_SCHEMA_ENTRY_COUNT, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
SAME(NVTX_SCHEMA_SIZE, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE);
SAME(NVTX_SCHEMA_ALIGNMENT, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT);
SAME(NVTX_SCHEMA_ID, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
SAME(NVTX_SCHEMA_DYNAMIC_START, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
SAME(sizeof(struct nvtx_payload_data), sizeof(nvtxPayloadData_t));
FIELD(nvtx_payload_data, size, nvtxPayloadData_t, size);
FIELD(nvtx_payload_data, bytes, nvtxPayloadData_t, payload);
SAME(sizeof(struct nvtx_schema_entry), sizeof(nvtxPayloadSchemaEntry_t));
FIELD(nvtx_schema_entry, type, nvtxPayloadSchemaEntry_t, type);
FIELD(nvtx_schema_entry, name, nvtxPayloadSchemaEntry_t, name);
FIELD(nvtx_schema_entry, length, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
FIELD(nvtx_schema_entry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME(sizeof(struct nvtx_schema), sizeof(nvtxPayloadSchemaAttr_t));
FIELD(nvtx_schema, entries, nvtxPayloadSchemaAttr_t, entries);
FIELD(nvtx_schema, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
FIELD(nvtx_schema, size, nvtxPayloadSchemaAttr_t, payloadStaticSize);
FIELD(nvtx_schema, alignment, nvtxPayloadSchemaAttr_t, packAlign);
FIELD(nvtx_schema, id, nvtxPayloadSchemaAttr_t, schemaId);
FIELD(nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
FIELD(nvtx_attributes, payload_count, nvtxEventAttributes_t, reserved0);
#endif
#endif
"""


@needs_nvtx
def test_our_declarations_agree_with_the_real_headers(tmp_path: Path) -> None:
    lines = [
        "#include <stddef.h>", "#include <nvtx3/nvToolsExt.h>", '#include "record/nvtx/nvtx_abi.h"',
    ]
    for ours, theirs in CONSTANTS.items():
        lines.append(f'_Static_assert((long)({ours}) == (long)({theirs}), "{ours}");')
    for (struct, ours), (their, theirs) in FIELDS.items():
        lines.append(
            f"_Static_assert(offsetof(struct {struct}, {ours}) == offsetof({their}, {theirs}), "
            f'"{struct}.{ours}");'
        )
    source = tmp_path / "abi.c"
    source.write_text("\n".join(lines) + "\n" + PAYLOAD)
    for directory in HEADERS:
        include = os.path.dirname(directory)
        result = subprocess.run(
            [COMPILER, "-std=gnu11", "-fsyntax-only", f"-I{os.path.join(ROOT, 'src')}"]
            + [f"-I{include}", str(source)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, f"{directory}:\n{result.stderr}"


PROGRAM = r"""
#include <libproton/proton.h>
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif
#include <stdlib.h>

static void work(void)
{
    proton_kernel_begin(proton_frame("work", 4));
    proton_kernel_end();
}

int main(void)
{
    struct proton_session_options options = {.size = sizeof(options), .backend = "host"};
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
    };
    nvtxDomainHandle_t domain;
    int session;

    if (proton_start(&options, &session, NULL) != PROTON_OK)
        return 1;
    nvtxRangePushA("outer");
    domain = nvtxDomainCreateA("a domain");
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
#ifdef NVTX_EXT_PAYLOAD_MODULEID
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxRangePopPayload(domain, NULL, 0);
#endif
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxRangePushW(L"wide");
    nvtxMarkA("an NVTX mark");
    nvtxRangeEnd(nvtxRangeStartA("neither is this one"));
    work();
    nvtxRangePop();
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
    work();
    return proton_finalize(session, NULL, NULL) == PROTON_OK ? 0 : 2;
}
"""


# The calls that NCCL makes in ncclAllReduce().
COMMUNICATOR = r"""
#include <libproton/proton.h>
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif
#include <stddef.h>

#ifndef NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
int main(void)
{
    return 77;
}
#else
struct arguments {
    uint64_t communicator;
    size_t bytes;
};

int main(void)
{
    const nvtxPayloadSchemaEntry_t entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "Message size [bytes]", .offset = 8},
    };
    const nvtxPayloadSchemaAttr_t schema = {
        .fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID,
        .type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
        .entries = entries,
        .numEntries = 2,
        .payloadStaticSize = sizeof(struct arguments),
        .schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5,
    };
    struct proton_session_options options = {.size = sizeof(options), .backend = "host"};
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
    };
    int session;

    if (proton_start(&options, &session, NULL) != PROTON_OK)
        return 1;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "ncclAllReduce");
    nvtxPayloadSchemaRegister(domain, &schema);
    for (uint64_t i = 0; i < 4; i++) {
        struct arguments arguments = {0xabc + i % 2, 4096};
        nvtxPayloadData_t data[] = {{schema.schemaId, sizeof(arguments), &arguments}};

        attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        attributes.reserved0 = 1;
        attributes.payload.ullValue = (uintptr_t)data;
        nvtxDomainRangePushEx(domain, &attributes);
        proton_kernel_begin(proton_frame("work", 4));
        proton_kernel_end();
        nvtxDomainRangePop(domain);
    }
    return proton_finalize(session, NULL, NULL) == PROTON_OK ? 0 : 2;
}
#endif
"""


def build(tmp_path: Path, source: str) -> Path:
    """The library that the program in `tmp_path` is linked with."""
    (tmp_path / "program.c").write_text(source)
    library = libproton()
    subprocess.run(
        [COMPILER, "-w", "-I", os.path.join(ROOT, "include"), "-I", os.path.dirname(HEADERS[0])]
        + ["-o", "program", "program.c", str(library), f"-Wl,-rpath,{library.parent}", "-ldl"],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    return library


@needs_nvtx
def test_the_real_nvtx_passes_communicators(tmp_path: Path) -> None:
    library = build(tmp_path, COMMUNICATOR)
    env = dict(os.environ, NVTX_INJECTION64_PATH=str(library))
    result = subprocess.run(["./program"], cwd=tmp_path, env=env, timeout=300)
    if result.returncode == 77:
        pytest.skip("this NVTX has no payload schemas")
    assert result.returncode == 0
    assert tree(tmp_path / "proton.hatchet") == {
        "ncclAllReduce [communicator]": {"work": {}},
        "ncclAllReduce [communicator #2]": {"work": {}},
    }


@needs_nvtx
def test_a_program_with_the_real_nvtx(tmp_path: Path) -> None:
    """NVTX loads the library by the name that the cupti backend would have put there."""
    library = build(tmp_path, PROGRAM)
    for path, expected in (
        (str(library), {"outer": {"registered": {"wide": {"work": {}}}}, "work": {}}),
        (None, {"work": {}}),
    ):
        env = dict(os.environ)
        env.pop("NVTX_INJECTION64_PATH", None)
        if path:
            env["NVTX_INJECTION64_PATH"] = path
        subprocess.run(["./program"], cwd=tmp_path, env=env, check=True, timeout=300)
        assert tree(tmp_path / "proton.hatchet") == expected
