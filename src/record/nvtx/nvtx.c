/*
 * NVTX push/pop ranges as scopes.
 *
 * Each thread keeps a stack of the ranges it has pushed: their domain, and the scope that each
 * entered. A pop ends the innermost range of its domain. Ranges of other domains above it, with
 * scopes that end too, stay in the stack as placeholders until their own pop. A pop without a push
 * changes nothing; ranges that are never popped end with the last session.
 */
#include "record/nvtx/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/utf8.h"
#include "record/names/frames.h"
#include "record/sets/session.h"
#include "record/thread/thread.h"

/* ------------------------------------------------------------------ the environment */

/*
 * NVTX_INJECTION64_PATH, the variable that names NVTX's injection library, in this process. The
 * program's other threads may read the environment at any time. These functions are called only
 * during the start or stop of one backend, so never concurrently.
 */

#define VARIABLE "NVTX_INJECTION64_PATH"

static char *entry;       /* "VARIABLE=path", made once */
static char foreign[256]; /* the other tool that the variable names; "" if none */

/* Path of this library, malloc'd; NULL if unknown. */
static char *own_path(void)
{
	Dl_info info;
	void *address;
	char *(*self)(void) = own_path;

	memcpy(&address, &self, sizeof(address)); /* a pointer to code, which C cannot cast */
	if (!dladdr(address, &info) || !info.dli_fname)
		return NULL;
	return realpath(info.dli_fname, NULL);
}

static bool make_entry(void)
{
	if (entry)
		return true;
	AUTO_FREE char *path = own_path();
	if (path && asprintf(&entry, VARIABLE "=%s", path) < 0)
		entry = NULL;
	return entry;
}

void nvtx_attach(void)
{
	const char *given = environment_get(VARIABLE);

	if (!nvtx_is_wanted() || !make_entry())
		return;
	if (!given || !*given)
		environment_append(entry);
	else if (strcmp(given, entry + strlen(VARIABLE "=")) != 0) /* set by a parent otherwise */
		snprintf(foreign, sizeof(foreign), "%s", given);
}

void nvtx_report_other(void)
{
	if (*foreign)
		message_once(VARIABLE " is already set to %s; NVTX ranges go to that tool and are "
				      "not recorded",
			     foreign);
}

void nvtx_detach(void)
{
	if (entry)
		environment_remove(entry);
}

/* ------------------------------------------------------------------ ranges */

#define WIDE_MAX 65536u                /* characters read from a wide message */
#define STRING_TAG 0x50525458ull       /* upper half of string handles of this library */
#define NAME_OF_NONE "(unnamed range)" /* for a range without a message */

struct range {
	const void *domain;
	uint64_t token;
	uint32_t serial; /* serial of the scope; 0: it has ended */
};

#define GROUP_MAX 8u

/* Calls between ncclGroupStart() and ncclGroupEnd(), which launches their kernels. */
struct group {
	uint32_t depth;
	uint32_t count; /* above GROUP_MAX: more are not kept */
	uint64_t communicators[GROUP_MAX];
};

struct ranges {
	struct group group;
	uint32_t generation;
	size_t count;
	size_t capacity;
	struct range *items;
};

enum choice {
	CHOICE_NONE, /* the environment decides */
	CHOICE_ON,
	CHOICE_OFF,
};

static _Thread_local struct ranges self;
static pthread_key_t exit_key; /* has the items */
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;
static _Atomic int choice;
static _Atomic bool is_on;
static _Atomic uint32_t group_start = FRAME_NONE; /* frames of NCCL's functions */
static _Atomic uint32_t group_end = FRAME_NONE;

static void make_exit_key(void)
{
	pthread_key_create(&exit_key, free);
}

/* The calling thread's ranges, without ranges of sessions that have ended. */
static struct ranges *ranges_get(void)
{
	uint32_t generation = atomic_load_explicit(&session_generation, memory_order_relaxed);

	if (self.generation != generation) {
		self.generation = generation;
		self.group = (struct group){0};
		self.count = 0;
	}
	return &self;
}

static bool ranges_grow(struct ranges *ranges)
{
	if (!array_reserve(&ranges->items, &ranges->capacity, ranges->count + 1,
			   sizeof(*ranges->items)))
		return false;
	pthread_once(&exit_key_once, make_exit_key);
	pthread_setspecific(exit_key, ranges->items);
	return true;
}

/* ------------------------------------------------------------------ enabling */

void proton_nvtx_enable(bool enable)
{
	atomic_store_explicit(&choice, enable ? CHOICE_ON : CHOICE_OFF, memory_order_relaxed);
	atomic_store_explicit(&is_on, enable, memory_order_relaxed);
}

/* Reading the environment at every range would be too slow. */
bool nvtx_is_wanted(void)
{
	int asked = atomic_load_explicit(&choice, memory_order_relaxed);
	bool enable = asked == CHOICE_ON ||
		      (asked == CHOICE_NONE && !environment_is("TRITON_ENABLE_NVTX", false));

	atomic_store_explicit(&is_on, enable, memory_order_relaxed);
	return enable;
}

/* ------------------------------------------------------------------ messages */

static uint32_t frame_of(const char *text)
{
	if (!text || !*text)
		text = NAME_OF_NONE;
	return proton_scope_frame(text, strlen(text));
}

#define SMALL 256u

/* The text in UTF-8: in `small`, or allocated for the caller to free; NULL if out of memory. */
static char *utf8_of(const wchar_t *wide, char small[SMALL])
{
	char *text = small;
	size_t count = 0, used = 0;

	while (wide && count < WIDE_MAX && wide[count])
		count++;
	if (4 * count >= SMALL)
		text = malloc(4 * count + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < count; i++)
		used += utf8_encode((uint32_t)wide[i], text + used);
	text[used] = '\0';
	return text;
}

static uint32_t frame_of_wide(const wchar_t *wide)
{
	char small[SMALL];
	char *text = utf8_of(wide, small);
	uint32_t frame = text ? frame_of(text) : FRAME_NONE;

	if (text != small)
		free(text);
	return frame;
}

/* The handle of a registered string or domain: its frame. */
static const void *handle_of(uint32_t frame)
{
	if (frame == FRAME_NONE)
		return NULL;
	return (const void *)(uintptr_t)(STRING_TAG << 32 | frame);
}

static uint32_t frame_of_handle(const void *handle)
{
	uintptr_t value = (uintptr_t)handle;

	/* NULL: it was registered before this tool was loaded. */
	return value >> 32 == STRING_TAG ? (uint32_t)value : frame_of(NULL);
}

/* ------------------------------------------------------------------ ranges */

static int level_of(const struct ranges *ranges, size_t count, const void *domain)
{
	int level = 0;

	for (size_t i = 0; i < count; i++)
		level += ranges->items[i].domain == domain;
	return level;
}

/* If false, the caller need not make a frame of the message. */
static bool is_recorded(void)
{
	return (session_any_live() || proton_range_is_awaited()) &&
	       atomic_load_explicit(&is_on, memory_order_relaxed);
}

/* Returns the level of the new range in its domain, from 0. Its name is `text`, or the frame's. */
static int push_range(const void *domain, const char *text, uint32_t frame)
{
	if (text && !*text)
		text = NAME_OF_NONE;
	uint64_t token = text ? proton_scope_enter(text) : proton_scope_enter_frame(frame);
	struct ranges *ranges = token ? ranges_get() : NULL; /* a session may have begun with it */
	if (!ranges || (ranges->count == ranges->capacity && !ranges_grow(ranges))) {
		proton_scope_exit(token, NULL);
		return NVTX_E_NOT_TRACKED;
	}
	ranges->items[ranges->count++] = (struct range){
		.domain = domain,
		.token = token,
		.serial = scopes_serial(token),
	};
	return level_of(ranges, ranges->count - 1, domain);
}

/* Returns the level of the range that ended. */
static int pop_range(const void *domain)
{
	struct ranges *ranges = session_any_live() ? ranges_get() : NULL;
	size_t at = ranges ? ranges->count : 0;

	while (at && ranges->items[at - 1].domain != domain)
		at--;
	if (!at)
		return NVTX_E_NOT_TRACKED;
	struct range *range = &ranges->items[--at];
	/* The token of a scope that has ended may belong to another scope by now. */
	if (range->serial && scopes_serial(range->token) == range->serial)
		proton_scope_exit(range->token, NULL);
	ranges->count--;
	memmove(range, range + 1, (ranges->count - at) * sizeof(*range));
	return level_of(ranges, at, domain);
}

/* ------------------------------------------------------------------ communicators */

static void note_communicator(struct nvtx_communicator communicator)
{
	if (communicator.id && communicator.ranks)
		communicators_note(communicator.id, communicator.ranks);
}

static struct nvtx_communicator communicator_of(const void *domain,
						const struct nvtx_attributes *attributes)
{
	if (attributes->payload_type != NVTX_PAYLOAD_EXTENDED || attributes->payload_count < 0)
		return (struct nvtx_communicator){0};
	return nvtx_payload_communicator(
		domain, (const struct nvtx_payload_data *)(uintptr_t)attributes->payload,
		(size_t)attributes->payload_count);
}

/* True for NCCL's functions that make and end communicators. */
static bool is_about_communicators(uint32_t frame)
{
	uint32_t length;

	return frame != FRAME_NONE &&
	       strncmp(frames_text(frames_get(frame)->name, &length), "ncclComm", 8) == 0;
}

static void add_to_group(struct group *group, uint64_t communicator)
{
	for (uint32_t i = 0; i < group->count && i < GROUP_MAX; i++)
		if (group->communicators[i] == communicator)
			return;
	if (group->count < GROUP_MAX)
		group->communicators[group->count] = communicator;
	group->count += group->count <= GROUP_MAX;
}

/*
 * The communicator of all kernels that ncclGroupEnd() launches; 0: none. Kernels of several
 * communicators cannot be told apart: their sum is compared between ranks with the same ones.
 */
static uint64_t end_group(struct group *group)
{
	uint64_t sum = 0;

	if (!group->depth || --group->depth)
		return 0;
	for (uint32_t i = 0; group->count <= GROUP_MAX && i < group->count; i++)
		sum += group->communicators[i];
	if (sum && group->count > 1)
		communicators_note(sum, COMMUNICATORS_SEVERAL + group->count);
	group->count = 0;
	return sum;
}

/* A range that may be a function of NCCL. */
static int push_call(const void *domain, uint32_t frame, struct nvtx_communicator communicator)
{
	struct ranges *ranges = ranges_get();

	if (communicator.id && is_about_communicators(frame))
		communicator.id = 0;
	if (communicator.id && ranges->group.depth)
		add_to_group(&ranges->group, communicator.id);
	else if (frame == atomic_load_explicit(&group_start, memory_order_relaxed))
		ranges->group.depth++;
	else if (frame == atomic_load_explicit(&group_end, memory_order_relaxed))
		communicator.id = end_group(&ranges->group);
	if (communicator.id)
		frame = communicators_frame(frame, communicator.id);
	return push_range(domain, NULL, frame);
}

/* ------------------------------------------------------------------ NVTX's functions */

static int push_text(const void *domain, const char *text)
{
	return push_range(domain, text ? text : "", 0);
}

static int push_wide(const void *domain, const wchar_t *wide)
{
	char small[SMALL];
	char *text = utf8_of(wide, small);
	int level = text ? push_text(domain, text) : NVTX_E_NOT_TRACKED;

	if (text != small)
		free(text);
	return level;
}

static int push_attributes(const void *domain, const struct nvtx_attributes *attributes)
{
	struct nvtx_communicator communicator = {0};
	int32_t type = NVTX_TEXT_NONE;
	uint32_t frame;

	if (attributes && attributes->size >= sizeof(*attributes)) {
		communicator = communicator_of(domain, attributes);
		type = attributes->message_type;
	}
	if (type == NVTX_TEXT_REGISTERED)
		frame = frame_of_handle(attributes->message.registered);
	else if (!communicator.id && type == NVTX_TEXT_WIDE)
		return push_wide(domain, attributes->message.wide);
	else if (!communicator.id)
		return push_text(domain,
				 type == NVTX_TEXT_ASCII ? attributes->message.ascii : NULL);
	else if (type == NVTX_TEXT_WIDE)
		frame = frame_of_wide(attributes->message.wide);
	else
		frame = frame_of(type == NVTX_TEXT_ASCII ? attributes->message.ascii : NULL);
	return push_call(domain, frame, communicator);
}

int nvtx_push(const char *message)
{
	return is_recorded() ? push_text(NULL, message) : NVTX_E_NOT_TRACKED;
}

static int push_w(const wchar_t *message)
{
	return is_recorded() ? push_wide(NULL, message) : NVTX_E_NOT_TRACKED;
}

static int push_ex(const struct nvtx_attributes *attributes)
{
	return is_recorded() ? push_attributes(NULL, attributes) : NVTX_E_NOT_TRACKED;
}

int nvtx_pop(void)
{
	return pop_range(NULL);
}

static int domain_push_ex(const void *domain, const struct nvtx_attributes *attributes)
{
	/* Also while nothing is recorded: communicators are made once. */
	if (attributes && attributes->size >= sizeof(*attributes))
		note_communicator(communicator_of(domain, attributes));
	return is_recorded() ? push_attributes(domain, attributes) : NVTX_E_NOT_TRACKED;
}

/* A range without a message. */
static int push_payload(const void *domain, const struct nvtx_payload_data *data, size_t count)
{
	note_communicator(nvtx_payload_communicator(domain, data, count));
	return is_recorded() ? push_text(domain, NULL) : NVTX_E_NOT_TRACKED;
}

static int pop_payload(const void *domain, const struct nvtx_payload_data *data, size_t count)
{
	note_communicator(nvtx_payload_communicator(domain, data, count));
	return pop_range(domain);
}

static const void *register_string_a(const void *domain, const char *text)
{
	uint32_t frame = frame_of(text);

	if (text && strcmp(text, "ncclGroupStart") == 0)
		atomic_store_explicit(&group_start, frame, memory_order_relaxed);
	else if (text && strcmp(text, "ncclGroupEnd") == 0)
		atomic_store_explicit(&group_end, frame, memory_order_relaxed);
	return handle_of(frame);
}

static const void *register_string_w(const void *domain, const wchar_t *text)
{
	return handle_of(frame_of_wide(text));
}

static const void *domain_create_a(const char *name)
{
	return handle_of(frame_of(name));
}

static const void *domain_create_w(const wchar_t *name)
{
	return handle_of(frame_of_wide(name));
}

/* ------------------------------------------------------------------ entry point */

struct entry {
	uint32_t id;
	nvtx_function function;
};

#define ENTRY(id, function)                                                                        \
	{                                                                                          \
		(id), (nvtx_function)(function)                                                    \
	}

static const struct entry core[] = {
	ENTRY(NVTX_CORE_PUSH_EX, push_ex),
	ENTRY(NVTX_CORE_PUSH_A, nvtx_push),
	ENTRY(NVTX_CORE_PUSH_W, push_w),
	ENTRY(NVTX_CORE_POP, nvtx_pop),
};

static const struct entry core2[] = {
	ENTRY(NVTX_CORE2_DOMAIN_PUSH_EX, domain_push_ex),
	ENTRY(NVTX_CORE2_DOMAIN_POP, pop_range),
	ENTRY(NVTX_CORE2_REGISTER_STRING_A, register_string_a),
	ENTRY(NVTX_CORE2_REGISTER_STRING_W, register_string_w),
	ENTRY(NVTX_CORE2_DOMAIN_CREATE_A, domain_create_a),
	ENTRY(NVTX_CORE2_DOMAIN_CREATE_W, domain_create_w),
};

static bool install(const struct nvtx_callbacks *callbacks, uint32_t module,
		    const struct entry *entries, size_t count)
{
	nvtx_function **table = NULL;
	unsigned int size = 0;

	if (!callbacks->get_module_table(module, &table, &size) || !table)
		return false;
	for (size_t i = 0; i < count; i++)
		if (entries[i].id < size && table[entries[i].id])
			*table[entries[i].id] = entries[i].function;
	return true;
}

int InitializeInjectionNvtx2(nvtx_get_table_fn get_table)
{
	const struct nvtx_callbacks *callbacks = get_table(NVTX_TABLE_CALLBACKS);

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) ||
	    frames_init(NULL) != PROTON_OK)
		return 0;
	nvtx_is_wanted();
	if (!install(callbacks, NVTX_MODULE_CORE, core, ARRAY_LENGTH(core)))
		return 0;
	install(callbacks, NVTX_MODULE_CORE2, core2, ARRAY_LENGTH(core2));
	return 1;
}

static const struct entry payload[] = {
	ENTRY(NVTX_PAYLOAD_REGISTER_SCHEMA, nvtx_payload_register),
	ENTRY(NVTX_PAYLOAD_PUSH, push_payload),
	ENTRY(NVTX_PAYLOAD_POP, pop_payload),
};

int InitializeInjectionNvtxExtension(struct nvtx_extension *extension)
{
	if (!extension || extension->struct_size < sizeof(*extension) ||
	    extension->module != NVTX_EXTENSION_PAYLOAD || !extension->segment_count)
		return 0;
	const struct nvtx_segment *segment = &extension->segments[0];
	for (size_t i = 0; i < ARRAY_LENGTH(payload); i++)
		if (payload[i].id < segment->slot_count)
			segment->slots[payload[i].id] = (intptr_t)payload[i].function;
	return 1;
}
