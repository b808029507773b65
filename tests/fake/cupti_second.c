/*
 * Records of the second interface of the fake libcupti: each subscriber selects fields, and gets
 * them in a layout of this file's choice: in the reverse order, with fields that were not selected,
 * wider than in the first interface, and with entries that are larger than those declared. So does
 * another tool, which is here too. Hardware times can be requested before the first subscription.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/cupti_state.h"
#include "fake/entries.h"

#define KINDS 64
#define LAYOUTS 32 /* by kind */
#define FIELDS 32
#define UNKNOWN_FIELD 900

/* An entry of a later version. */
struct entry {
	struct cupti_field_layout declared;
	uint64_t later[2];
};

/* Never freed, and not changed after it was made: other threads may still read it. */
struct selection {
	struct selection *next;
	struct cupti_record_layout layout;
	struct entry entries[FIELDS];
};

static struct {
	struct selection *_Atomic kinds[KINDS];
	_Atomic bool has_selections; /* CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS */
} selected[SUBSCRIBERS];
static struct selection *_Atomic all;
static _Atomic bool has_hardware_times;
static _Atomic int layout_fault;
static _Atomic int refused_attribute;

/* Where the record of the first interface has a field. `bytes`: in the second one. */
struct source {
	int id;
	uint16_t at;
	uint16_t own;
	uint16_t bytes;
};

#define AT(struct_name, member) offsetof(struct struct_name, member)
#define SOURCE_NODE UINT16_MAX /* not in the record */

static const struct source kernel_sources[] = {
	{0, AT(cupti_kernel, kind), 4, 4},
	{4, AT(cupti_kernel, registers_per_thread), 2, 2},
	{7, AT(cupti_kernel, start_ns), 8, 8},
	{8, AT(cupti_kernel, end_ns), 8, 8},
	{10, AT(cupti_kernel, device_id), 4, 4},
	{11, AT(cupti_kernel, context_id), 4, 8},
	{12, AT(cupti_kernel, stream_id), 4, 8},
	{13, AT(cupti_kernel, grid[0]), 4, 4},
	{14, AT(cupti_kernel, grid[1]), 4, 4},
	{15, AT(cupti_kernel, grid[2]), 4, 4},
	{16, AT(cupti_kernel, block[0]), 4, 4},
	{17, AT(cupti_kernel, block[1]), 4, 4},
	{18, AT(cupti_kernel, block[2]), 4, 4},
	{19, AT(cupti_kernel, static_shared_bytes), 4, 4},
	{20, AT(cupti_kernel, dynamic_shared_bytes), 4, 4},
	{22, AT(cupti_kernel, correlation_id), 4, 8},
	{24, AT(cupti_kernel, name), 8, 8},
	{31, AT(cupti_kernel, graph_node_id), 8, 8},
	{48, SOURCE_NODE, 8, 8},
	{-1, 0, 0, 0},
};

static const struct source memcpy_sources[] = {
	{0, AT(cupti_memcpy, kind), 4, 4},           {1, AT(cupti_memcpy, copy_kind), 1, 1},
	{2, AT(cupti_memcpy, source_kind), 1, 1},    {3, AT(cupti_memcpy, destination_kind), 1, 1},
	{5, AT(cupti_memcpy, bytes), 8, 8},          {6, AT(cupti_memcpy, start_ns), 8, 8},
	{7, AT(cupti_memcpy, end_ns), 8, 8},         {8, AT(cupti_memcpy, device_id), 4, 4},
	{10, AT(cupti_memcpy, stream_id), 4, 4},     {11, AT(cupti_memcpy, correlation_id), 4, 8},
	{12, AT(cupti_memcpy, graph_node_id), 8, 8}, {-1, 0, 0, 0},
};

static const struct source peer_sources[] = {
	{0, AT(cupti_memcpy_peer, kind), 4, 4},
	{1, AT(cupti_memcpy_peer, copy_kind), 1, 1},
	{2, AT(cupti_memcpy_peer, source_kind), 1, 1},
	{3, AT(cupti_memcpy_peer, destination_kind), 1, 1},
	{5, AT(cupti_memcpy_peer, bytes), 8, 8},
	{6, AT(cupti_memcpy_peer, start_ns), 8, 8},
	{7, AT(cupti_memcpy_peer, end_ns), 8, 8},
	{8, AT(cupti_memcpy_peer, device_id), 4, 4},
	{10, AT(cupti_memcpy_peer, stream_id), 4, 4},
	{15, AT(cupti_memcpy_peer, correlation_id), 4, 8},
	{16, AT(cupti_memcpy_peer, graph_node_id), 8, 8},
	{-1, 0, 0, 0},
};

static const struct source memset_sources[] = {
	{0, AT(cupti_memset, kind), 4, 4},           {2, AT(cupti_memset, bytes), 8, 8},
	{3, AT(cupti_memset, start_ns), 8, 8},       {4, AT(cupti_memset, end_ns), 8, 8},
	{5, AT(cupti_memset, device_id), 4, 4},      {7, AT(cupti_memset, stream_id), 4, 4},
	{8, AT(cupti_memset, correlation_id), 4, 8}, {10, AT(cupti_memset, memory_kind), 2, 2},
	{11, AT(cupti_memset, graph_node_id), 8, 8}, {-1, 0, 0, 0},
};

static const struct source *find(uint32_t kind, int id)
{
	const struct source *sources = kind == CUPTI_KIND_CONCURRENT_KERNEL ? kernel_sources
				       : kind == CUPTI_KIND_MEMCPY          ? memcpy_sources
				       : kind == CUPTI_KIND_MEMCPY_PEER     ? peer_sources
									    : memset_sources;

	while (sources->id != id && sources->id >= 0)
		sources++;
	return sources->id == id ? sources : NULL;
}

static void add_entry(struct selection *to, int id, size_t bytes)
{
	struct cupti_record_layout *layout = &to->layout;
	size_t offset = (layout->record_bytes + bytes - 1) / bytes * bytes;

	to->entries[layout->count++].declared =
		(struct cupti_field_layout){sizeof(struct entry), id, offset, bytes, bytes};
	layout->record_bytes = offset + bytes;
}

/* Fields that this version does not know are refused. */
static bool is_known(uint32_t kind, int id)
{
	return find(kind, id) &&
	       (kind != CUPTI_KIND_CONCURRENT_KERNEL || id < CUPTI_KERNEL_SOURCE_GRAPH_NODE_ID ||
		version_code() >= CUPTI_VERSION_SOURCE_NODES);
}

static struct selection *select_fields(uint32_t kind, const struct cupti_field_selection *fields)
{
	struct selection *made = calloc(1, sizeof(*made));

	made->layout.size = sizeof(made->layout) + 8;
	made->layout.fields = &made->entries[0].declared;
	add_entry(made, CUPTI_FIELD_KIND, 4);
	for (size_t i = fields->count; i-- > 1;) {
		if (i == fields->count / 2)
			add_entry(made, UNKNOWN_FIELD, 8);
		if (!is_known(kind, fields->fields[i])) {
			free(made);
			return NULL;
		}
		add_entry(made, fields->fields[i], find(kind, fields->fields[i])->bytes);
	}
	made->layout.record_bytes = (made->layout.record_bytes + 15) / 8 * 8;
	return made;
}

int fake_cuptiActivityEnable_v2(void *subscriber, int kind, struct cupti_activity_config *config)
{
	int at = subscribe_index(subscriber);
	struct selection *made;
	int result;

	subscribe_use("cuptiActivityEnable_v2");
	if (at < 1 || !config || config->size < sizeof(*config) ||
	    config->selection.size != sizeof(config->selection) || config->selection.count < 1 ||
	    config->selection.fields[0] != CUPTI_FIELD_KIND || config->selection.count >= FIELDS ||
	    !selected[at].has_selections)
		return 1;
	made = select_fields((uint32_t)kind, &config->selection);
	if (!made)
		return 1;
	result = records_enable(at, kind, true);
	if (result != CUPTI_OK) {
		free(made);
		return result;
	}
	made->next = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &made->next, made))
		;
	atomic_store(&selected[at].kinds[kind], made);
	return CUPTI_OK;
}

int fake_cuptiActivityDisable_v2(void *subscriber, int kind, struct cupti_activity_config *config)
{
	int at = subscribe_index(subscriber);

	subscribe_use("cuptiActivityDisable_v2");
	return at < 1 ? 1 : records_enable(at, kind, false);
}

size_t second_encode(int at, const void *record, uint8_t *out)
{
	uint32_t kind = *(const uint32_t *)record;
	const struct selection *from = atomic_load(&selected[at].kinds[kind % KINDS]);

	if (!from)
		return 0;
	memset(out, 0xa5, from->layout.record_bytes);
	for (size_t i = 0; i < from->layout.count; i++) {
		const struct cupti_field_layout *entry = &from->entries[i].declared;
		const struct source *source =
			entry->field == UNKNOWN_FIELD ? NULL : find(kind, entry->field);
		uint64_t value = 0;

		if (!source)
			continue;
		if (source->at == SOURCE_NODE)
			value = graphs_source(((const struct cupti_kernel *)record)->graph_node_id);
		else
			memcpy(&value, (const char *)record + source->at, source->own);
		memcpy(out + entry->offset, &value, entry->bytes);
	}
	return from->layout.record_bytes;
}

/* ------------------------------------------------------------------ layouts */

/* A copy of a layout with a fault. */
static struct cupti_record_layout *spoil(const struct selection *good, int fault)
{
	struct selection *bad = malloc(sizeof(*bad));
	struct cupti_field_layout *last;

	*bad = *good;
	bad->next = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &bad->next, bad))
		;
	bad->layout.fields = &bad->entries[0].declared;
	last = &bad->entries[bad->layout.count - 1].declared;
	if (fault == FAKE_LAYOUT_NO_FIELD)
		last->field = UNKNOWN_FIELD;
	else if (fault == FAKE_LAYOUT_OUTSIDE)
		last->offset = bad->layout.record_bytes - 1;
	else if (fault == FAKE_LAYOUT_WIDTH)
		last->bytes = 3;
	else if (fault == FAKE_LAYOUT_SMALL_ENTRY)
		bad->entries[0].declared.size = 8;
	return fault == FAKE_LAYOUT_NO_KIND ? NULL : &bad->layout;
}

const struct cupti_complete_info *second_info(int at)
{
	static _Thread_local struct cupti_record_layout *layouts[LAYOUTS];
	static _Thread_local struct cupti_complete_info info;
	int fault = atomic_load(&layout_fault);

	for (int kind = 0; kind < LAYOUTS; kind++) {
		struct selection *good = atomic_load(&selected[at].kinds[kind]);

		layouts[kind] = !good                      ? NULL
				: fault > FAKE_LAYOUT_NONE ? spoil(good, fault)
							   : &good->layout;
	}
	info = (struct cupti_complete_info){
		.size = sizeof(info) + 8,
		.layouts = fault == FAKE_LAYOUT_NONE ? NULL : layouts,
		.layout_count = LAYOUTS,
	};
	return &info;
}

FAKE_EXPORT void fake_set_layout(int layout)
{
	atomic_store(&layout_fault, layout);
}

int fake_cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer, size_t valid_bytes,
				       struct cupti_activity **record)
{
	int at = subscribe_index(subscriber);
	uint8_t *next = buffer;

	if (at < 1)
		return 1;
	if (*record) {
		const struct selection *from =
			atomic_load(&selected[at].kinds[(*record)->kind % KINDS]);

		if (!from)
			return 1;
		next = (uint8_t *)*record + from->layout.record_bytes;
	}
	if (next + sizeof(struct cupti_activity) > buffer + valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = (void *)next;
	return CUPTI_OK;
}

void second_forget(int at)
{
	for (int kind = 0; kind < KINDS; kind++)
		atomic_store(&selected[at].kinds[kind], NULL);
	selected[at].has_selections = false;
	if (at == 0) /* cuptiFinalize() */
		has_hardware_times = false;
}

/* ------------------------------------------------------------------ attributes */

int fake_cuptiActivitySetAttribute_v2(void *subscriber, int attribute, size_t *value_bytes,
				      void *value)
{
	const char *hes = getenv("FAKE_CUPTI_HES");
	int at = subscribe_index(subscriber);

	subscribe_use("cuptiActivitySetAttribute_v2");
	if (attribute == CUPTI_ATTRIBUTE_HARDWARE_TIMES) {
		if (*value_bytes != 1 || (hes && *hes == '0') || !subscribe_is_idle())
			return 27; /* CUPTI_ERROR_NOT_SUPPORTED */
		has_hardware_times = *(const uint8_t *)value;
		return CUPTI_OK;
	}
	if (at < 1 || attribute == atomic_load(&refused_attribute))
		return 1;
	if (attribute == CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS)
		selected[at].has_selections = *(const uint8_t *)value;
	return CUPTI_OK;
}

FAKE_EXPORT void fake_refuse_attribute(int attribute)
{
	atomic_store(&refused_attribute, attribute);
}

int fake_cuptiActivityGetAttribute_v2(void *subscriber, int attribute, size_t *value_bytes,
				      void *value)
{
	if (attribute != CUPTI_ATTRIBUTE_HARDWARE_TIMES || *value_bytes < 1)
		return 1;
	*(uint8_t *)value = has_hardware_times;
	return CUPTI_OK;
}

int fake_cuptiGetTimestamp_v2(void *subscriber, uint64_t *timestamp_ns)
{
	return fake_cuptiGetTimestamp(timestamp_ns);
}

/* ------------------------------------------------------------------ another tool */

static void *other;
static _Atomic size_t other_kernels;

static void other_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
}

static void other_requested(uint8_t **buffer, size_t *bytes, size_t *max_records, const void *info)
{
	*bytes = 1 << 16;
	*buffer = malloc(*bytes);
	*max_records = 0;
}

static void other_completed(uint8_t *buffer, size_t bytes, size_t valid_bytes,
			    const struct cupti_complete_info *info)
{
	struct cupti_activity *record = NULL;

	while (fake_cuptiActivityGetNextRecord_v2(other, buffer, valid_bytes, &record) == CUPTI_OK)
		atomic_fetch_add(&other_kernels, record->kind == CUPTI_KIND_CONCURRENT_KERNEL);
	free(buffer);
}

FAKE_EXPORT int fake_second_subscribe(const char *name, bool is_shared)
{
	int fields[] = {CUPTI_FIELD_KIND, CUPTI_KERNEL_NAME, CUPTI_KERNEL_START};
	struct cupti_subscriber_params params = {
		.size = sizeof(params), .name = name, .allows_several = is_shared};
	struct cupti_activity_config config = {
		.size = sizeof(config),
		.selection = {.size = sizeof(config.selection), .count = 3, .fields = fields},
	};
	size_t size = 1;
	uint8_t on = 1;
	int result;

	result = fake_cuptiSubscribe_v2(&other, other_callback, NULL, &params);
	if (result != CUPTI_OK)
		return result;
	atomic_store(&other_kernels, 0);
	fake_cuptiActivitySetAttribute_v2(other, CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS, &size, &on);
	fake_cuptiActivityRegisterCallbacks_v2(other, other_requested, other_completed);
	return fake_cuptiActivityEnable_v2(other, CUPTI_KIND_CONCURRENT_KERNEL, &config);
}

FAKE_EXPORT size_t fake_second_count(void)
{
	fake_cuptiActivityFlushAll(0);
	return atomic_load(&other_kernels);
}

FAKE_EXPORT void fake_second_unsubscribe(void)
{
	fake_cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	fake_cuptiUnsubscribe(other);
	other = NULL;
}
