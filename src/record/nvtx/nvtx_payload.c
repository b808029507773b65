/* Payloads of NVTX ranges: schemas, and the communicator in a payload. */
#include "record/nvtx/nvtx.h"

#include <stdatomic.h>
#include <strings.h>

#include "base/array.h"

#define SCHEMAS_MAX 256u
#define ENTRIES_MAX 64u
#define OFFSET_MAX 4096u
#define DATA_MAX 16u
#define RANKS_MAX (1u << 24)

/* An integer in a payload. */
struct field {
	uint32_t offset;
	uint32_t bytes; /* 0: there is none */
};

/* A schema that has a communicator. Without padding: it is compared by its bytes. */
struct schema {
	const void *domain;
	uint64_t id;
	size_t size; /* 0: not known */
	struct field communicator, ranks;
};

static struct schema schemas[SCHEMAS_MAX];
static _Atomic bool are_ready[SCHEMAS_MAX];
static _Atomic uint32_t schema_count; /* also entries that found no space */
static _Atomic uint64_t next_id = NVTX_SCHEMA_DYNAMIC_START;

/* ------------------------------------------------------------------ schemas */

static const uint8_t integer_bytes[NVTX_ENTRY_ADDRESS + 1] = {
	[NVTX_ENTRY_CHAR] = 1,
	1,
	sizeof(short),
	sizeof(short),
	sizeof(int),
	sizeof(int),
	sizeof(long),
	sizeof(long),
	sizeof(long long),
	sizeof(long long),
	1,
	1,
	2,
	2,
	4,
	4,
	8,
	8,
	[NVTX_ENTRY_SIZE] = sizeof(size_t),
	sizeof(void *),
};

/* The size of one element of a type, which is also its alignment; 0: not known. */
static uint32_t bytes_of(const struct nvtx_schema_entry *entry)
{
	if (entry->flags & NVTX_ENTRY_RELATIVE)
		return 0;
	if (entry->flags & NVTX_ENTRY_POINTER)
		return sizeof(void *);
	return entry->type < ARRAY_LENGTH(integer_bytes) ? integer_bytes[entry->type] : 0;
}

static bool is_communicator(const char *name)
{
	return (strcasestr(name, "communicator") && !strcasestr(name, "parent")) ||
	       strcasecmp(name, "commHash") == 0 || strcasecmp(name, "comm hash") == 0;
}

static bool is_rank_count(const char *name)
{
	return strcasestr(name, "ranks") || strcasecmp(name, "No. of devices") == 0;
}

/* The offset of an entry, after one that ends at `end`; above OFFSET_MAX: not known. */
static uint64_t offset_of(const struct nvtx_schema *schema, size_t index, uint64_t end)
{
	const struct nvtx_schema_entry *entry = &schema->entries[index];
	uint64_t alignment = bytes_of(entry);

	if (entry->offset || !index)
		return entry->offset;
	if (schema->fields & NVTX_SCHEMA_ALIGNMENT && schema->alignment &&
	    schema->alignment < alignment)
		alignment = schema->alignment;
	if (!alignment || end > OFFSET_MAX)
		return UINT64_MAX;
	return (end + alignment - 1) / alignment * alignment;
}

/* The end of an entry, for the next one without an offset; above OFFSET_MAX: not known. */
static uint64_t end_of(const struct nvtx_schema_entry *entry, uint64_t offset)
{
	uint32_t kind = entry->flags & NVTX_ENTRY_ARRAY;
	uint64_t length = kind && !(entry->flags & NVTX_ENTRY_POINTER) ? entry->length : 1;
	uint32_t bytes = bytes_of(entry);

	if (!bytes || offset > OFFSET_MAX || length > OFFSET_MAX ||
	    (kind && kind != NVTX_ENTRY_ARRAY_FIXED && !(entry->flags & NVTX_ENTRY_POINTER)))
		return UINT64_MAX;
	return offset + bytes * length;
}

static void read_entries(const struct nvtx_schema *schema, struct schema *out)
{
	uint64_t end = 0;

	for (size_t i = 0; i < schema->entry_count && i < ENTRIES_MAX; i++) {
		const struct nvtx_schema_entry *entry = &schema->entries[i];
		uint64_t offset = offset_of(schema, i, end);
		struct field field = {(uint32_t)offset, bytes_of(entry)};

		end = end_of(entry, offset);
		if (offset > OFFSET_MAX || !entry->name || !field.bytes ||
		    entry->flags & (NVTX_ENTRY_POINTER | NVTX_ENTRY_ARRAY))
			continue;
		if (!out->communicator.bytes && is_communicator(entry->name))
			out->communicator = field;
		else if (!out->ranks.bytes && is_rank_count(entry->name))
			out->ranks = field;
	}
}

/* The newest schema with this id; NULL: it is not known, or has no communicator. */
static const struct schema *find_schema(const void *domain, uint64_t id)
{
	uint32_t count = atomic_load_explicit(&schema_count, memory_order_relaxed);

	/* acquire: pairs with add_schema(), which has filled the schema */
	for (uint32_t i = count < SCHEMAS_MAX ? count : SCHEMAS_MAX; i-- > 0;)
		if (atomic_load_explicit(&are_ready[i], memory_order_acquire) &&
		    schemas[i].id == id && schemas[i].domain == domain)
			return &schemas[i];
	return NULL;
}

static void add_schema(const struct schema *made)
{
	const struct schema *known = find_schema(made->domain, made->id);

	if (known ? memcmp(known, made, sizeof(*made)) == 0 : !made->communicator.bytes)
		return;
	uint32_t at = atomic_load_explicit(&schema_count, memory_order_relaxed);
	do {
		if (at >= SCHEMAS_MAX)
			return;
	} while (!atomic_compare_exchange_weak_explicit(
		&schema_count, &at, at + 1, memory_order_relaxed, memory_order_relaxed));
	schemas[at] = *made;
	atomic_store_explicit(&are_ready[at], true, memory_order_release);
}

uint64_t nvtx_payload_register(const void *domain, const struct nvtx_schema *schema)
{
	struct schema made = {.domain = domain};

	if (!schema)
		return 0;
	made.id = schema->fields & NVTX_SCHEMA_ID ? schema->id : 0;
	if (!made.id)
		made.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
	if (schema->fields & NVTX_SCHEMA_SIZE)
		made.size = schema->size;
	if (schema->fields & NVTX_SCHEMA_ENTRIES && schema->fields & NVTX_SCHEMA_ENTRY_COUNT &&
	    schema->entries)
		read_entries(schema, &made);
	add_schema(&made);
	return made.id;
}

/* ------------------------------------------------------------------ payloads */

/* 0 if it is not in the payload. */
static uint64_t read_field(const struct nvtx_payload_data *data, size_t size, struct field field)
{
	uint64_t value = 0;

	if (field.bytes && field.bytes <= size && field.offset <= size - field.bytes)
		memcpy(&value, (const char *)data->bytes + field.offset, field.bytes);
	return value;
}

struct nvtx_communicator nvtx_payload_communicator(const void *domain,
						   const struct nvtx_payload_data *data,
						   size_t count)
{
	struct nvtx_communicator found = {0};

	for (size_t i = 0; data && count <= DATA_MAX && i < count && !found.id; i++) {
		const struct schema *schema = find_schema(domain, data[i].schema);
		size_t size = data[i].size;

		if (!schema || !data[i].bytes)
			continue;
		if (size == SIZE_MAX)
			size = schema->size;
		found.id = read_field(&data[i], size, schema->communicator);
		uint64_t ranks = read_field(&data[i], size, schema->ranks);
		found.ranks = ranks <= RANKS_MAX ? (uint32_t)ranks : 0;
	}
	return found;
}
