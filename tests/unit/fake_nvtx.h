/* A fake NVTX: its tables, into which the tool puts its functions, and what NCCL does with them. */
#pragma once

#include "unit/tap.h"

#include <wchar.h>

#include "base/array.h"
#include "record/nvtx/nvtx.h"

static struct {
	int (*push_ex)(const struct nvtx_attributes *);
	int (*push_a)(const char *);
	int (*push_w)(const wchar_t *);
	int (*pop)(void);
	int (*domain_push_ex)(const void *, const struct nvtx_attributes *);
	int (*domain_pop)(const void *);
	const void *(*register_a)(const void *, const char *);
	const void *(*register_w)(const void *, const wchar_t *);
	const void *(*create_a)(const char *);
	const void *(*create_w)(const wchar_t *);
} nvtx;

/* The layout of NVTX: by number, NULL for missing functions. */
#define SLOT(field) ((nvtx_function *)(void *)&nvtx.field)
static nvtx_function others;
static nvtx_function *core[] = {
	NULL,          &others,      &others,      &others,   &others, &others, &others, &others,
	SLOT(push_ex), SLOT(push_a), SLOT(push_w), SLOT(pop), &others, &others, &others, &others,
};
static nvtx_function *core2[] = {
	NULL,           &others,        &others, &others, SLOT(domain_push_ex), SLOT(domain_pop),
	&others,        &others,        &others, &others, SLOT(register_a),     SLOT(register_w),
	SLOT(create_a), SLOT(create_w), &others, &others,
};
static unsigned int core2_size = ARRAY_LENGTH(core2);

static int get_module_table(uint32_t module, nvtx_function ***table_out, unsigned int *size_out)
{
	switch (module) {
	case NVTX_MODULE_CORE:
		*table_out = core;
		*size_out = ARRAY_LENGTH(core);
		return 1;
	case NVTX_MODULE_CORE2:
		*table_out = core2;
		*size_out = core2_size;
		return 1;
	default:
		return 0;
	}
}

static const struct nvtx_callbacks callbacks = {sizeof(callbacks), get_module_table};

static const void *get_table(uint32_t table)
{
	return table == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

__attribute__((unused)) static const void *get_no_table(uint32_t table)
{
	return NULL;
}

/* The slots of the payload extension. */
static intptr_t payload_slots[63];

__attribute__((unused)) static void load_payload_extension(void)
{
	struct nvtx_segment segment = {.slot_count = ARRAY_LENGTH(payload_slots),
				       .slots = payload_slots};
	struct nvtx_extension extension = {
		.struct_size = sizeof(extension),
		.module = NVTX_EXTENSION_PAYLOAD,
		.segment_count = 1,
		.segments = &segment,
	};

	CHECK_EQ(InitializeInjectionNvtxExtension(&extension), 1);
}

__attribute__((unused)) static uint64_t register_schema(const void *domain,
							const struct nvtx_schema *schema)
{
	return ((uint64_t(*)(const void *, const struct nvtx_schema *))
			payload_slots[NVTX_PAYLOAD_REGISTER_SCHEMA])(domain, schema);
}

__attribute__((unused)) static int pop_payload(const void *domain, const void *data, size_t count)
{
	return ((int (*)(const void *, const void *, size_t))payload_slots[NVTX_PAYLOAD_POP])(
		domain, data, count);
}
