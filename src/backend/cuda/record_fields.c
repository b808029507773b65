/* Fields of activity records: which are selected, and where a layout has them. */
#include "backend/cuda/record_fields.h"

#include "base/array.h"

#define LAYOUT_FIELDS_MAX 256u
#define RECORD_BYTES_MAX 4096u

struct field {
	int id;
	uint16_t at; /* in struct record_values */
	uint16_t bytes;
	uint32_t since; /* version of CUPTI; records without the field are useful if not 0 */
};

#define FIELD(id, member)                                                                          \
	{                                                                                          \
		id, offsetof(struct record_values, member),                                        \
			sizeof(((struct record_values *)NULL)->member), 0                          \
	}

static const struct field kernel_fields[] = {
#define KERNEL_FIELD(id, member) FIELD(id, as.kernel.member),
	RECORD_KERNEL_FIELDS(KERNEL_FIELD)
#undef KERNEL_FIELD
		{CUPTI_KERNEL_SOURCE_GRAPH_NODE_ID, offsetof(struct record_values, source_node_id),
		 8, CUPTI_VERSION_SOURCE_NODES},
};

/* Fields that copies on a device and between two have under the same id. */
#define COPY_FIELDS(copy)                                                                          \
	FIELD(CUPTI_FIELD_KIND, as.copy.kind), FIELD(CUPTI_MEMCPY_COPY_KIND, as.copy.copy_kind),   \
		FIELD(CUPTI_MEMCPY_SOURCE_KIND, as.copy.source_kind),                              \
		FIELD(CUPTI_MEMCPY_DESTINATION_KIND, as.copy.destination_kind),                    \
		FIELD(CUPTI_MEMCPY_BYTES, as.copy.bytes),                                          \
		FIELD(CUPTI_MEMCPY_START, as.copy.start_ns),                                       \
		FIELD(CUPTI_MEMCPY_END, as.copy.end_ns),                                           \
		FIELD(CUPTI_MEMCPY_DEVICE_ID, as.copy.device_id),                                  \
		FIELD(CUPTI_MEMCPY_STREAM_ID, as.copy.stream_id)

static const struct field memcpy_fields[] = {
	COPY_FIELDS(memcpy),
	FIELD(CUPTI_MEMCPY_CORRELATION_ID, as.memcpy.correlation_id),
	FIELD(CUPTI_MEMCPY_GRAPH_NODE_ID, as.memcpy.graph_node_id),
};

static const struct field memcpy_peer_fields[] = {
	COPY_FIELDS(memcpy_peer),
	FIELD(CUPTI_MEMCPY_PEER_CORRELATION_ID, as.memcpy_peer.correlation_id),
	FIELD(CUPTI_MEMCPY_PEER_GRAPH_NODE_ID, as.memcpy_peer.graph_node_id),
};

static const struct field memset_fields[] = {
	FIELD(CUPTI_FIELD_KIND, as.memset.kind),
	FIELD(CUPTI_MEMSET_BYTES, as.memset.bytes),
	FIELD(CUPTI_MEMSET_START, as.memset.start_ns),
	FIELD(CUPTI_MEMSET_END, as.memset.end_ns),
	FIELD(CUPTI_MEMSET_DEVICE_ID, as.memset.device_id),
	FIELD(CUPTI_MEMSET_STREAM_ID, as.memset.stream_id),
	FIELD(CUPTI_MEMSET_CORRELATION_ID, as.memset.correlation_id),
	FIELD(CUPTI_MEMSET_MEMORY_KIND, as.memset.memory_kind),
	FIELD(CUPTI_MEMSET_GRAPH_NODE_ID, as.memset.graph_node_id),
};

_Static_assert(ARRAY_LENGTH(kernel_fields) <= RECORD_FIELDS_MAX, "they fit in a plan");

static const struct field *fields_of(int kind, size_t *count)
{
	switch (kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
		*count = ARRAY_LENGTH(kernel_fields);
		return kernel_fields;
	case CUPTI_KIND_MEMCPY:
		*count = ARRAY_LENGTH(memcpy_fields);
		return memcpy_fields;
	case CUPTI_KIND_MEMCPY_PEER:
		*count = ARRAY_LENGTH(memcpy_peer_fields);
		return memcpy_peer_fields;
	default: /* CUPTI_KIND_MEMSET */
		*count = ARRAY_LENGTH(memset_fields);
		return memset_fields;
	}
}

size_t record_fields_select(int kind, uint32_t version, int *ids)
{
	size_t count;
	const struct field *fields = fields_of(kind, &count);
	size_t selected = 0;

	for (size_t i = 0; i < count; i++)
		if (fields[i].since <= version)
			ids[selected++] = fields[i].id;
	return selected;
}

/* NULL if the layout lacks the field. */
static const struct cupti_field_layout *find_field(const struct cupti_record_layout *layout, int id)
{
	/* Later versions may have larger entries. */
	size_t stride = layout->fields ? layout->fields->size : 0;

	if (stride < sizeof(*layout->fields) || layout->count > LAYOUT_FIELDS_MAX)
		return NULL;
	for (size_t i = 0; i < layout->count; i++) {
		const void *at = (const char *)layout->fields + i * stride;
		const struct cupti_field_layout *entry = at;

		if (entry->field == id)
			return entry;
	}
	return NULL;
}

static bool is_valid(const struct cupti_record_layout *layout,
		     const struct cupti_field_layout *entry)
{
	size_t bytes = entry->bytes;

	return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) &&
	       layout->record_bytes >= bytes && entry->offset <= layout->record_bytes - bytes;
}

bool record_fields_plan(int kind, const struct cupti_record_layout *layout,
			struct record_plan *plan)
{
	size_t count;
	const struct field *fields = fields_of(kind, &count);

	plan->count = 0;
	plan->is_usual = kind == CUPTI_KIND_CONCURRENT_KERNEL;
	if (!layout || layout->size < sizeof(*layout) || layout->record_bytes > RECORD_BYTES_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct cupti_field_layout *entry = find_field(layout, fields[i].id);

		if (!entry && fields[i].since) {
			plan->is_usual = false;
			continue;
		}
		if (!entry || !is_valid(layout, entry))
			return false;
		plan->moves[plan->count].from = (uint32_t)entry->offset;
		plan->is_usual &= entry->bytes >= fields[i].bytes;
		plan->moves[plan->count].to = fields[i].at;
		/* A wider field has the lower bytes first; a narrower one leaves zeros. */
		plan->moves[plan->count].bytes =
			(uint16_t)(entry->bytes < fields[i].bytes ? entry->bytes : fields[i].bytes);
		plan->count++;
	}
	return count;
}
