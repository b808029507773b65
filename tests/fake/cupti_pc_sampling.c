/*
 * PC sampling of the fake libcupti, with the behavior measured on an H200 (CUPTI 13.0):
 *
 * - Samples become readable some time after they were taken, or when sampling is stopped.
 * - A read into the buffer that CUPTI was configured with fails.
 * - The total of a read that has no space for all PCs counts the samples of the others already; the
 *   next read does not count them again.
 * - Dropped samples are never counted. A full buffer shows in a read, which delivers nothing from
 *   then on, until the context is disabled and enabled.
 * - A second context of a device can be enabled, but gets no samples.
 * - Samples of a module loaded between two sessions, while no context is enabled but CUPTI
 *   attached, count as not of the user, in all later sessions until cuptiFinalize().
 * - The same holds for the samples of graphs, if one was replayed between the first call of CUPTI
 *   and enabling.
 * - Sampling begins when a context is configured, unless start and stop were asked for.
 * - cuptiFinalize() with an enabled context succeeds; later sessions start, and get no samples.
 * - Starting, stopping, enabling or disabling while another thread launches a kernel, replays a
 *   graph (8 of 8 on an H100) or loads a module may hang: here it aborts.
 * - Kernel records cannot be enabled while a context is enabled for sampling.
 * - When a context is destroyed its samples are gone, and all calls with it fail.
 *
 * Not measured, but allowed by the documentation: a thread of CUPTI still writes to the buffer that
 * a context was configured with after the context was disabled or destroyed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/cupti_state.h"
#include "fake/entries.h"

#define E_INVALID_PARAMETER 1
#define E_INVALID_OPERATION 7
#define E_SIZE_NOT_SUFFICIENT 10
#define CONTEXTS 16
#define MODULES 64
#define FUNCTIONS 4096
#define ENTRIES 65536
#define REASON_FIRST 3u /* the two totals come first, with a gap */

static const char *const reason_names[] = {
	"long_scoreboard",  "wait",    "selected",           "not_selected",     "no_instructions",
	"warpgroup_arrive", "barrier", "math_pipe_throttle", "short_scoreboard",
};
#define REASONS (sizeof(reason_names) / sizeof(reason_names[0]))

struct entry {
	struct fake_pc pc;
	bool is_decoded;
	bool is_counted; /* in a total */
};

struct context {
	void *context;
	bool is_enabled;
	bool is_started;
	bool is_wedged;
	bool is_destroyed;
	bool is_full;
	bool has_control; /* start and stop */
	uint32_t period;
	uint32_t mode;
	struct pcs_data *configured;
	struct pcs_data *earlier; /* the buffer before it was disabled */
	struct entry *entries;
	size_t count;
	uint64_t non_user;
};

struct module {
	char *bytes;
	size_t length;
	uint64_t crc;
	bool is_unknown; /* its samples are not of the user */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct context contexts[CONTEXTS];
static struct module modules[MODULES]; /* a handle is the address of an entry */
static struct {
	struct module *module;
	char name[64];
} functions[FUNCTIONS];
static size_t module_count;
static size_t function_count;
static bool was_enabled;      /* some context has been */
static _Atomic uint32_t busy; /* launches and loadings of modules */
static _Thread_local uint32_t busy_here;
static bool is_spoiled;           /* cuptiFinalize() was called while one was */
static _Atomic bool was_replayed; /* a graph, since CUPTI was attached */
static bool are_graphs_unknown;
static _Atomic uint32_t watched_call;
static _Atomic uint32_t unwatched_changes;

/* ------------------------------------------------------------------ contexts */

static struct context *find(const void *context)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (contexts[i].context == context && context)
			return &contexts[i];
	return NULL;
}

static struct context *find_or_add(void *context)
{
	struct context *found = find(context);

	for (int i = 0; i < CONTEXTS && !found; i++)
		if (!contexts[i].context)
			found = &contexts[i];
	if (!found)
		abort();
	found->context = context;
	return found;
}

/* Tests choose a context's device: the byte that it points to. Small numbers are contexts too. */
static uint32_t device_of(const void *context)
{
	return (uintptr_t)context < 4096 ? 0 : *(const uint8_t *)context;
}

static bool is_any_enabled(void)
{
	bool is_any = false;

	for (int i = 0; i < CONTEXTS; i++)
		is_any |= contexts[i].is_enabled;
	return is_any;
}

static bool samples(const struct context *context)
{
	return context->is_enabled && context->configured &&
	       (context->is_started || !context->has_control);
}

/* The context of the device that was enabled first. */
static bool is_sampled(const struct context *context)
{
	for (const struct context *other = contexts; other < context; other++)
		if (other->is_enabled && device_of(other->context) == device_of(context->context))
			return false;
	return samples(context) && !context->is_wedged && !is_spoiled;
}

int fake_cuptiGetContextId(void *context, uint32_t *id)
{
	bool exists;

	pthread_mutex_lock(&lock);
	exists = context && !(find(context) && find(context)->is_destroyed);
	pthread_mutex_unlock(&lock);
	*id = (uint32_t)(uintptr_t)context;
	return exists ? CUPTI_OK : CUPTI_E_INVALID_CONTEXT;
}

int fake_cuptiGetDeviceId(void *context, uint32_t *ordinal)
{
	if (!context)
		return CUPTI_E_INVALID_CONTEXT;
	*ordinal = device_of(context);
	return CUPTI_OK;
}

/* Locks and returns the context of a call; NULL with *result and without the lock. */
static struct context *enter(const char *call, void *context, size_t size, size_t wanted,
			     int *result)
{
	struct context *found;

	subscribe_use(call);
	*result = size < wanted ? E_SIZE_NOT_SUFFICIENT : CUPTI_OK;
	pthread_mutex_lock(&lock);
	found = context ? find_or_add(context) : NULL;
	if (!found || found->is_destroyed)
		*result = CUPTI_E_INVALID_CONTEXT;
	if (*result == CUPTI_OK)
		return found;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* A thread of CUPTI that is late. */
static void write_late(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (contexts[i].earlier)
			contexts[i].earlier->pcs[0].reasons[0].samples = 1;
}

static int leave(int result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

/* The same for a call that excludes launches. */
static struct context *enter_alone(const char *call, struct pcs_params *params, int *result)
{
	if (!subscribe_wants(CUPTI_DOMAIN_DRIVER_API, atomic_load(&watched_call)))
		atomic_fetch_add(&unwatched_changes, 1);
	usleep(100); /* a thread that begins to load meets it */
	if (atomic_load(&busy) != busy_here) {
		fprintf(stderr, "fake: %s while another thread launches or loads\n", call);
		abort();
	}
	return enter(call, params->context, params->size,
		     offsetof(struct pcs_params, context) + sizeof(params->context), result);
}

#define ENTER(params, call, type, last)                                                            \
	enter(call, (params)->context, (params)->size,                                             \
	      offsetof(type, last) + sizeof((params)->last), &result)

int fake_cuptiPCSamplingEnable(struct pcs_params *params)
{
	int result;
	struct context *context = enter_alone("cuptiPCSamplingEnable", params, &result);

	if (!context)
		return result;
	write_late();
	if (context->is_enabled)
		return leave(E_INVALID_OPERATION);
	context->is_enabled = true;
	context->is_started = context->is_wedged = context->is_full = false;
	context->has_control = false;
	context->period = 11;
	context->mode = PCS_CONTINUOUS;
	was_enabled = true;
	are_graphs_unknown |= atomic_load(&was_replayed);
	return leave(CUPTI_OK);
}

/* ------------------------------------------------------------------ configuration */

int fake_cuptiPCSamplingGetNumStallReasons(struct pcs_reason_count_params *params)
{
	int result;
	struct context *context = ENTER(params, "cuptiPCSamplingGetNumStallReasons",
					struct pcs_reason_count_params, count);

	if (!context)
		return result;
	*params->count = 2 + 2 * REASONS;
	return leave(context->is_enabled ? CUPTI_OK : E_INVALID_OPERATION);
}

int fake_cuptiPCSamplingGetStallReasons(struct pcs_reason_names_params *params)
{
	int result;
	struct context *context = ENTER(params, "cuptiPCSamplingGetStallReasons",
					struct pcs_reason_names_params, names);

	if (!context)
		return result;
	snprintf(params->names[0], PCS_REASON_NAME_BYTES, "smsp__pcsamp_sample_count");
	snprintf(params->names[1], PCS_REASON_NAME_BYTES, "smsp__pcsamp_samples_data_dropped");
	params->indexes[0] = 0;
	params->indexes[1] = 1;
	for (uint32_t i = 0; i < 2 * REASONS; i++) {
		snprintf(params->names[2 + i], PCS_REASON_NAME_BYTES,
			 "smsp__pcsamp_warps_issue_stalled_%s%s", reason_names[i / 2],
			 i % 2 ? "_not_issued" : "");
		params->indexes[2 + i] = REASON_FIRST + i;
	}
	return leave(context->is_enabled ? CUPTI_OK : E_INVALID_OPERATION);
}

static int set_attribute(struct context *context, struct pcs_attribute *attribute)
{
	switch (attribute->type) {
	case PCS_ATTRIBUTE_PERIOD:
		if (attribute->value.number < 5 || attribute->value.number > 31)
			return E_INVALID_OPERATION;
		context->period = attribute->value.number;
		return CUPTI_OK;
	case PCS_ATTRIBUTE_COLLECTION_MODE:
		context->mode = attribute->value.number;
		return CUPTI_OK;
	case PCS_ATTRIBUTE_BUFFER:
		context->configured = attribute->value.pointer;
		return CUPTI_OK;
	case PCS_ATTRIBUTE_START_STOP:
		context->has_control = attribute->value.number;
		return CUPTI_OK;
	case PCS_ATTRIBUTE_SCRATCH_BYTES:
	case PCS_ATTRIBUTE_WORKER_SLEEP_MS:
		return CUPTI_OK;
	default:
		return E_INVALID_PARAMETER;
	}
}

int fake_cuptiPCSamplingSetConfigurationAttribute(struct pcs_attributes_params *params)
{
	int result;
	struct context *context = ENTER(params, "cuptiPCSamplingSetConfigurationAttribute",
					struct pcs_attributes_params, attributes);

	if (!context)
		return result;
	if (!context->is_enabled || context->is_started)
		return leave(E_INVALID_OPERATION);
	for (size_t i = 0; i < params->count; i++) {
		params->attributes[i].status = set_attribute(context, &params->attributes[i]);
		if (params->attributes[i].status != CUPTI_OK)
			result = params->attributes[i].status;
	}
	return leave(result);
}

int fake_cuptiPCSamplingGetConfigurationAttribute(struct pcs_attributes_params *params)
{
	int result;
	struct context *context = ENTER(params, "cuptiPCSamplingGetConfigurationAttribute",
					struct pcs_attributes_params, attributes);

	if (!context)
		return result;
	for (size_t i = 0; i < params->count; i++)
		if (params->attributes[i].type == PCS_ATTRIBUTE_PERIOD)
			params->attributes[i].value.number = context->period;
	return leave(CUPTI_OK);
}

/* ------------------------------------------------------------------ samples */

int fake_cuptiPCSamplingStart(struct pcs_params *params)
{
	int result;
	struct context *context = enter_alone("cuptiPCSamplingStart", params, &result);

	if (!context)
		return result;
	if (!context->is_enabled || context->is_started || !context->configured ||
	    !context->has_control)
		return leave(E_INVALID_OPERATION);
	context->is_started = true;
	return leave(CUPTI_OK);
}

int fake_cuptiPCSamplingStop(struct pcs_params *params)
{
	int result;
	struct context *context = enter_alone("cuptiPCSamplingStop", params, &result);

	if (!context)
		return result;
	if (!context->is_started)
		return leave(E_INVALID_OPERATION);
	context->is_started = false;
	for (size_t i = 0; i < context->count; i++)
		context->entries[i].is_decoded = true;
	return leave(CUPTI_OK);
}

static void fill_pc(struct pcs_pc *to, const struct fake_pc *pc)
{
	size_t reason = 0;

	while (reason < REASONS && strcmp(reason_names[reason], pc->reason) != 0)
		reason++;
	if (reason == REASONS)
		abort();
	to->crc = pc->crc;
	to->offset = pc->offset;
	to->function_index = 1;
	to->function = (char *)(uintptr_t)pc->function;
	to->correlation_id = pc->correlation;
	to->reasons[0] = (struct pcs_reason){REASON_FIRST + (uint32_t)reason * 2, pc->samples};
	to->reasons[1] =
		(struct pcs_reason){REASON_FIRST + (uint32_t)reason * 2 + 1, pc->not_issued};
	to->reason_count = pc->not_issued ? 2 : 1;
	/* Reasons that have no name, in the gap and after all others. */
	to->reasons[to->reason_count++] = (struct pcs_reason){REASON_FIRST - 1, 1000};
	to->reasons[to->reason_count++] = (struct pcs_reason){REASON_FIRST + 2 * REASONS, 1000};
}

/* The samples of an entry that no total has. */
static uint64_t count_entry(struct entry *entry)
{
	uint64_t samples = entry->is_counted ? 0 : entry->pc.samples;

	entry->is_counted = true;
	return samples;
}

static void read_data(struct context *context, struct pcs_data *data, bool reads_all)
{
	size_t kept = 0;

	data->count = data->remaining = 0;
	data->samples = data->non_user = context->non_user;
	data->dropped = 0;
	data->is_full = 0;
	context->non_user = 0;
	for (size_t i = 0; i < context->count; i++) {
		struct entry *entry = &context->entries[i];

		if ((entry->is_decoded || reads_all) && data->count < data->capacity) {
			fill_pc(&data->pcs[data->count++], &entry->pc);
			data->samples += count_entry(entry);
			continue;
		}
		if (entry->is_decoded) {
			data->remaining++;
			data->samples += count_entry(entry);
		}
		entry->is_decoded = true; /* by the time of the next read */
		context->entries[kept++] = *entry;
	}
	context->count = kept;
}

int fake_cuptiPCSamplingGetData(struct pcs_data_params *params)
{
	int result;
	struct context *context =
		ENTER(params, "cuptiPCSamplingGetData", struct pcs_data_params, data);
	struct pcs_data *data = params->data;

	if (!context)
		return result;
	if (!context->is_enabled)
		return leave(E_INVALID_OPERATION);
	if (context->is_full) {
		context->is_wedged = true;
		context->is_full = false;
		context->count = 0;
		data->is_full = 1;
		return leave(CUPTI_E_OUT_OF_MEMORY);
	}
	if (data == context->configured)
		return leave(CUPTI_E_OUT_OF_MEMORY);
	read_data(context, data, false);
	return leave(CUPTI_OK);
}

int fake_cuptiPCSamplingDisable(struct pcs_params *params)
{
	int result;
	struct context *context = enter_alone("cuptiPCSamplingDisable", params, &result);

	if (!context)
		return result;
	if (!context->is_enabled)
		return leave(E_INVALID_OPERATION);
	/* Measured with 13.0: it waits for the context, which ends captures in any mode. */
	if (subscribe_captures()) {
		fprintf(stderr, "fake: cuptiPCSamplingDisable invalidates a capture\n");
		abort();
	}
	if (context->configured)
		read_data(context, context->configured, true);
	context->is_enabled = context->is_started = false;
	context->count = 0;
	context->earlier = context->configured;
	context->configured = NULL;
	return leave(CUPTI_OK);
}

bool pc_sampling_is_any_enabled(void)
{
	bool is_any;

	pthread_mutex_lock(&lock);
	is_any = is_any_enabled();
	pthread_mutex_unlock(&lock);
	return is_any;
}

void pc_sampling_reset(void)
{
	pthread_mutex_lock(&lock);
	is_spoiled |= is_any_enabled();
	was_enabled = false;
	atomic_store(&was_replayed, false);
	are_graphs_unknown = false;
	for (int i = 0; i < MODULES; i++)
		modules[i].is_unknown = false;
	for (int i = 0; i < CONTEXTS; i++) {
		contexts[i].is_enabled = contexts[i].is_started = false;
		contexts[i].count = 0;
	}
	pthread_mutex_unlock(&lock);
}

void pc_sampling_context_destroyed(void *context)
{
	struct context *found;

	pthread_mutex_lock(&lock);
	found = find(context);
	if (found) {
		found->is_destroyed = true;
		if (found->configured)
			found->earlier = found->configured;
		found->configured = NULL;
		found->is_enabled = found->is_started = false;
		found->count = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ modules */

static uint64_t crc_of(const void *bytes, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
	return hash | 1;
}

int fake_cuptiGetCubinCrc(struct cubin_crc_params *params)
{
	params->crc = crc_of(params->cubin, params->cubin_bytes);
	return CUPTI_OK;
}

void pc_sampling_replay(void)
{
	if (!subscribe_is_detached())
		atomic_store(&was_replayed, true);
}

void pc_sampling_busy(bool is_begin)
{
	atomic_fetch_add(&busy, is_begin ? 1 : UINT32_MAX);
	busy_here += is_begin ? 1 : UINT32_MAX;
}

static void notify_module(uint32_t event, const struct module *slot, const struct module *module)
{
	struct cupti_module_data data = {
		.id = (uint32_t)(slot - modules) + 1,
		.cubin_bytes = module->length,
		.cubin = module->bytes,
	};
	struct cupti_resource_data resource = {.resource_descriptor = &data};

	subscribe_notify(CUPTI_DOMAIN_RESOURCE, event, &resource);
}

static void notify_call(uint32_t call, uint32_t site, const void *params)
{
	int result = 0;
	struct cupti_callback_data data = {
		.site = site, .function_params = params, .function_return_value = &result};

	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
}

FAKE_EXPORT void *fake_module_load(const void *cubin, size_t bytes)
{
	void *handle = NULL;
	const void *params[] = {&handle, cubin};
	struct module *module, loaded;

	notify_call(CUPTI_CALL_MODULE_LOAD_DATA, CUPTI_SITE_ENTER, params);
	pc_sampling_busy(true);
	subscribe_change(true);
	usleep(200);
	pthread_mutex_lock(&lock);
	module = &modules[module_count++ % MODULES];
	free(module->bytes); /* of the module that had this slot */
	*module = (struct module){.bytes = malloc(bytes), .length = bytes};
	memcpy(module->bytes, cubin, bytes);
	module->crc = crc_of(cubin, bytes);
	module->is_unknown = was_enabled && !is_any_enabled();
	loaded = *module;
	pthread_mutex_unlock(&lock);
	/* From the caller's bytes: threads that load more may take the slot. */
	loaded.bytes = (char *)(uintptr_t)cubin;
	notify_module(CUPTI_RESOURCE_MODULE_LOADED, module, &loaded);
	handle = module;
	subscribe_change(false);
	pc_sampling_busy(false);
	notify_call(CUPTI_CALL_MODULE_LOAD_DATA, CUPTI_SITE_EXIT, params);
	return handle;
}

FAKE_EXPORT void *fake_module_function(void *module, const char *name)
{
	void *handle = NULL;
	const void *params[] = {&handle, module, name};

	notify_call(CUPTI_CALL_MODULE_GET_FUNCTION, CUPTI_SITE_ENTER, params);
	pthread_mutex_lock(&lock);
	functions[function_count % FUNCTIONS].module = module;
	snprintf(functions[function_count % FUNCTIONS].name, sizeof(functions[0].name), "%s", name);
	handle = &functions[function_count++ % FUNCTIONS];
	pthread_mutex_unlock(&lock);
	notify_call(CUPTI_CALL_MODULE_GET_FUNCTION, CUPTI_SITE_EXIT, params);
	return handle;
}

FAKE_EXPORT void fake_module_unload(void *module)
{
	notify_module(CUPTI_RESOURCE_MODULE_UNLOAD_STARTING, module, module);
}

FAKE_EXPORT uint64_t fake_module_crc(void *module)
{
	return ((const struct module *)module)->crc;
}

void pc_sampling_launch(void *function)
{
	const struct module *found = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < function_count && i < FUNCTIONS && !found; i++)
		if (function == &functions[i])
			found = functions[i].module;
	pthread_mutex_unlock(&lock);
	if (found)
		notify_module(CUPTI_RESOURCE_MODULE_PROFILED, found, found);
}

/* ------------------------------------------------------------------ controls */

FAKE_EXPORT void fake_pcs_take(void *context, const struct fake_pc *pc)
{
	struct context *found;
	bool is_unknown;

	pthread_mutex_lock(&lock);
	is_unknown = pc->is_of_graph && are_graphs_unknown;
	found = find(context);
	for (size_t i = 0; i < module_count && i < MODULES; i++)
		is_unknown |= modules[i].crc == pc->crc && modules[i].is_unknown;
	if (found && is_sampled(found) && is_unknown) {
		found->non_user += pc->samples;
	} else if (found && is_sampled(found) && found->count < ENTRIES) {
		if (!found->entries)
			found->entries = calloc(ENTRIES, sizeof(*found->entries));
		found->entries[found->count++] = (struct entry){.pc = *pc};
	}
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT void fake_pcs_non_user(void *context, uint64_t samples)
{
	pthread_mutex_lock(&lock);
	if (find(context))
		find(context)->non_user += samples;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT void fake_pcs_fill(void *context)
{
	pthread_mutex_lock(&lock);
	if (find(context))
		find(context)->is_full = true;
	pthread_mutex_unlock(&lock);
}

/* Counts from here on. */
FAKE_EXPORT uint32_t fake_pcs_changes_without(uint32_t call)
{
	uint32_t count = atomic_exchange(&unwatched_changes, 0);

	return atomic_exchange(&watched_call, call) == call ? count : 0;
}

FAKE_EXPORT uint32_t fake_pcs_period(void *context)
{
	uint32_t period;

	pthread_mutex_lock(&lock);
	period = find(context) && find(context)->is_enabled ? find(context)->period : 0;
	pthread_mutex_unlock(&lock);
	return period;
}

FAKE_EXPORT bool fake_pcs_is_started(void *context)
{
	bool is_started;

	pthread_mutex_lock(&lock);
	is_started = find(context) && samples(find(context));
	pthread_mutex_unlock(&lock);
	return is_started;
}

FAKE_EXPORT bool fake_pcs_is_serialized(void *context)
{
	bool is_serialized;

	pthread_mutex_lock(&lock);
	is_serialized = find(context) && find(context)->mode == PCS_SERIALIZED;
	pthread_mutex_unlock(&lock);
	return is_serialized;
}
