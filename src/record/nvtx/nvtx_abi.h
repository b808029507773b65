/*
 * ABI of NVTX 3: the part of its tool interface that is used here, declared without NVIDIA's
 * headers. tests/python/test_cupti_abi.py compares it with the real ones where they are installed.
 *
 * At its first call, each copy of NVTX in a process (it is a header, so one per library that uses
 * it) loads the file named by NVTX_INJECTION64_PATH and calls its InitializeInjectionNvtx2() with a
 * function that returns NVTX's tables. A table is an array of pointers to NVTX's function pointers.
 * The tool stores its functions there; the others become no-ops.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NVTX_TABLE_CALLBACKS 1u
#define NVTX_E_NOT_TRACKED (-2) /* of push and pop: no such range */

enum nvtx_module {
	NVTX_MODULE_CORE = 1,
	NVTX_MODULE_CORE2 = 5,
};

enum nvtx_core {
	NVTX_CORE_PUSH_EX = 8,
	NVTX_CORE_PUSH_A = 9,
	NVTX_CORE_PUSH_W = 10,
	NVTX_CORE_POP = 11,
};

enum nvtx_core2 {
	NVTX_CORE2_DOMAIN_PUSH_EX = 4,
	NVTX_CORE2_DOMAIN_POP = 5,
	NVTX_CORE2_REGISTER_STRING_A = 10,
	NVTX_CORE2_REGISTER_STRING_W = 11,
	NVTX_CORE2_DOMAIN_CREATE_A = 12,
	NVTX_CORE2_DOMAIN_CREATE_W = 13,
};

enum nvtx_message_type {
	NVTX_TEXT_NONE = 0,
	NVTX_TEXT_ASCII = 1,
	NVTX_TEXT_WIDE = 2,
	NVTX_TEXT_REGISTERED = 3,
};

union nvtx_message {
	const char *ascii;
	const wchar_t *wide;
	const void *registered; /* handle returned by this library's register functions */
};

/* The attributes of a range, version 2. */
struct nvtx_attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t payload_count; /* with NVTX_PAYLOAD_EXTENDED */
	uint64_t payload;
	int32_t message_type;
	union nvtx_message message;
};

typedef void (*nvtx_function)(void);

struct nvtx_callbacks {
	size_t struct_size;
	/* 1 if there is such a module; `*size_out` is the number of entries. */
	int (*get_module_table)(uint32_t module, nvtx_function ***table_out,
				unsigned int *size_out);
};

typedef const void *(*nvtx_get_table_fn)(uint32_t table);

/*
 * Extensions have other entry points: a copy of NVTX calls the library's
 * InitializeInjectionNvtxExtension() at the first call of an extension. The tool stores its
 * functions in the slots of the segments.
 */
#define NVTX_EXTENSION_PAYLOAD 2u

enum nvtx_payload {
	NVTX_PAYLOAD_REGISTER_SCHEMA = 0,
	NVTX_PAYLOAD_PUSH = 3,
	NVTX_PAYLOAD_POP = 4,
};

/* Type of a payload: `payload` is the address of an array of struct nvtx_payload_data. */
#define NVTX_PAYLOAD_EXTENDED ((int32_t)0xdfbd0009)

/* Bytes with a layout that was registered before, such as the arguments of an NCCL function. */
struct nvtx_payload_data {
	uint64_t schema;
	size_t size; /* SIZE_MAX: the schema's */
	const void *bytes;
};

enum nvtx_entry_flag {
	NVTX_ENTRY_POINTER = 1 << 1,
	NVTX_ENTRY_RELATIVE = 3 << 2, /* an offset from the start, or from the entry */
	NVTX_ENTRY_ARRAY = 7 << 4,
	NVTX_ENTRY_ARRAY_FIXED = 1 << 4,
};

enum nvtx_entry_type {
	NVTX_ENTRY_CHAR = 1,
	NVTX_ENTRY_INT = 5,
	NVTX_ENTRY_UINT64 = 18,
	NVTX_ENTRY_SIZE = 22,
	NVTX_ENTRY_ADDRESS = 23,
	NVTX_ENTRY_CHAR32 = 27, /* the last one of C */
};

/* A field of a schema. */
struct nvtx_schema_entry {
	uint64_t flags; /* enum nvtx_entry_flag, and others */
	uint64_t type;  /* enum nvtx_entry_type, or the id of a schema */
	const char *name;
	const char *description;
	uint64_t length; /* number of elements, of an array */
	uint64_t offset; /* 0: the next one by its alignment */
	const void *semantics;
	const void *reserved;
};

enum nvtx_schema_field {
	NVTX_SCHEMA_ENTRIES = 1 << 4,
	NVTX_SCHEMA_ENTRY_COUNT = 1 << 5,
	NVTX_SCHEMA_SIZE = 1 << 6,
	NVTX_SCHEMA_ALIGNMENT = 1 << 7,
	NVTX_SCHEMA_ID = 1 << 8,
};

#define NVTX_SCHEMA_DYNAMIC_START (1ull << 32) /* ids that the tool gives */

struct nvtx_schema {
	uint64_t fields; /* enum nvtx_schema_field: which are set */
	const char *name;
	uint64_t type;
	uint64_t flags;
	const struct nvtx_schema_entry *entries;
	size_t entry_count;
	size_t size;
	size_t alignment; /* the maximum, of packed structs; 0: natural */
	uint64_t id;      /* 0: the tool gives one */
	void *extension;
};

struct nvtx_segment {
	size_t id;
	size_t slot_count;
	intptr_t *slots; /* functions */
};

struct nvtx_extension {
	uint16_t version;
	uint16_t struct_size;
	uint16_t module;
	uint16_t compatible_with;
	size_t segment_count;
	struct nvtx_segment *segments;
	nvtx_function get_export;
	const void *info;
};

_Static_assert(offsetof(struct nvtx_attributes, payload) == 24, "NVTX ABI");
_Static_assert(offsetof(struct nvtx_attributes, message_type) == 32, "NVTX ABI");
_Static_assert(offsetof(struct nvtx_attributes, message) == 40, "NVTX ABI");
_Static_assert(sizeof(struct nvtx_attributes) == 48, "NVTX ABI");
_Static_assert(offsetof(struct nvtx_extension, segments) == 16, "NVTX ABI");
_Static_assert(sizeof(struct nvtx_extension) == 40, "NVTX ABI");
_Static_assert(sizeof(struct nvtx_schema_entry) == 64, "NVTX ABI");
_Static_assert(sizeof(struct nvtx_schema) == 80, "NVTX ABI");
