/*
 * Modules and functions of PC sampling: cubins by CRC, the function handle of each launch, and the
 * launches of serialized mode.
 *
 * CUPTI reports samples by cubin and function name, and kernel records by name alone. A program may
 * have several functions of one name (Triton's specializations of a kernel). So the handle of a
 * function is associated with its cubin when the program gets it from a module, and the launch
 * callback notes the handle under the launch's correlation ID.
 */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/pcs/pcs_parts.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mutex.h"
#include "base/region.h"
#include "record/session/session_parts.h"
#include "record/store/devices.h"

#define HANDLES_MAX 65536u
#define LAUNCHES (1u << 20) /* as in correlate.c */
#define SERIALIZED_LAUNCHES (1u << 16)
#define CRC_CACHE 1024u
#define NAMES 1024u
#define CUBIN_MAX_BYTES (64u << 20)
#define WANTED_MAX 64u
#define ASK_NS 2000000000ull        /* since the first event */
#define ASK_EVENTS 8192u            /* of MODULE_PROFILED */
#define ASK_PAUSE_NS 20000000000ull /* until a module is asked for again */

/* A sampled function without a cubin. */
struct pcs_wanted {
	uint64_t crc;
	uint32_t function; /* of gpu_functions_get() */
	bool was_taken;
};

/* A function or module of the program; NULL: unloaded. Launches read it without the lock. */
struct handle {
	const void *_Atomic handle;
	_Atomic uint64_t crc;
};

/* A launch in flight: its correlation ID and its function. */
struct launch {
	_Atomic uint32_t correlation;
	_Atomic uint32_t handle; /* index of handles; 0: not known */
};

struct serialized_launch {
	uint32_t correlation;
	bool is_named;
	struct proton_context where;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct handle handles[HANDLES_MAX];               /* 0: none */
static uint32_t handle_count = 1;
static struct map by_handle;
static struct {
	uint32_t module;
	const char *cubin;
	size_t bytes;
	uint64_t crc;
} crc_cache[CRC_CACHE];
static struct pcs_wanted wanted[WANTED_MAX];
static uint32_t wanted_count;
static uint32_t wanted_next;
static bool is_asking;               /* MODULE_PROFILED is enabled */
static uint64_t asked_ns;            /* since the first event; 0: none yet */
static uint64_t ask_ended_ns;        /* when it was disabled */
static bool asks_for_all;            /* modules may have been loaded before the session */
static uint64_t asked_from;          /* event_count then */
static _Atomic uint64_t event_count; /* of MODULE_PROFILED, in the session */
static struct serialized_launch serialized[SERIALIZED_LAUNCHES];
/* By address of the name, as in activity.c; on the thread that reads records. */
static struct {
	const char *name;
	uint64_t crc;
	uint32_t function;
} names[NAMES];

static struct region launches;
static _Atomic uint32_t last_sessions;
static _Thread_local uint64_t loaded_crc;   /* the module loaded last on this thread */
static _Thread_local const void *launching; /* the function that this thread launches */
static _Thread_local uint64_t launching_crc;
static _Thread_local uint32_t launching_session;
static _Atomic uint32_t session_number;

/* ------------------------------------------------------------------ handles */

/* relaxed: an entry is complete before its index can be found, and is not used again */
static uint64_t crc_at(uint32_t index)
{
	return atomic_load_explicit(&handles[index].crc, memory_order_relaxed);
}

static bool is_handle_at(uint32_t index, const void *handle)
{
	return index &&
	       atomic_load_explicit(&handles[index].handle, memory_order_relaxed) == handle;
}

static void write_handle(uint32_t index, const void *handle, uint64_t crc)
{
	atomic_store_explicit(&handles[index].crc, crc, memory_order_relaxed);
	atomic_store_explicit(&handles[index].handle, handle, memory_order_relaxed);
}

static uint64_t crc_of_handle(const void *handle)
{
	uint32_t index = handle ? map_find(&by_handle, (uintptr_t)handle) : 0;

	/* A removed key may be found: compare. */
	return is_handle_at(index, handle) ? crc_at(index) : 0;
}

/* The lock is held. */
static void set_handle(const void *handle, uint64_t crc)
{
	uint32_t index = map_find(&by_handle, (uintptr_t)handle);

	if (!handle || !crc)
		return;
	if (is_handle_at(index, handle)) {
		write_handle(index, handle, crc);
		return;
	}
	if (handle_count == HANDLES_MAX)
		return;
	write_handle(handle_count, handle, crc);
	if (map_insert(&by_handle, (uintptr_t)handle, handle_count))
		handle_count++;
}

/* The driver may use the handles of an unloaded module again. */
static void forget_handles(uint64_t crc)
{
	for (uint32_t i = 1; i < handle_count; i++) {
		const void *handle = handles[i].handle;

		if (crc_at(i) != crc || !handle)
			continue;
		map_remove(&by_handle, (uintptr_t)handle);
		write_handle(i, NULL, crc);
	}
}

static bool returns_handle(uint32_t call)
{
	switch (call) {
#define H(name, number) case number:
#define M(name, number)
#include "backend/cuda/pcs_module_calls.def"
#undef M
		return true;
	default:
		return false;
	}
}

void pcs_modules_on_call(uint32_t call, const struct cupti_callback_data *data)
{
	const int *result = data->function_return_value;
	void *const *const *params = data->function_params;
	const void *created;

	if (data->site == CUPTI_SITE_ENTER) {
		loaded_crc = 0;
		call_gate_pass(CALL_GATE_LAUNCH);
		return;
	}
	call_gate_leave(CALL_GATE_LAUNCH);
	if ((result && *result != 0) || !returns_handle(call) || !params || !params[0])
		return;
	created = *params[0];
	MUTEX_HOLD(&lock);
	if (call == CUPTI_CALL_MODULE_GET_FUNCTION)
		set_handle(created, crc_of_handle(params[1]));
	else
		set_handle(created, loaded_crc);
}

void pcs_modules_on_query(const struct cupti_callback_data *data)
{
	if (data->site == CUPTI_SITE_ENTER)
		call_gate_pass(CALL_GATE_QUERY);
	else
		call_gate_leave(CALL_GATE_QUERY);
}

/* ------------------------------------------------------------------ modules */

/* The CRC of a module's cubin. MODULE_PROFILED comes for every launch: the last ones are kept. */
static uint64_t crc_of(const struct cupti_module_data *module)
{
	struct cubin_crc_params params = {
		.size = sizeof(params),
		.cubin_bytes = module->cubin_bytes,
		.cubin = module->cubin,
	};
	uint32_t slot = module->id % CRC_CACHE;
	uint64_t crc = 0;

	pthread_mutex_lock(&lock);
	if (crc_cache[slot].module == module->id && crc_cache[slot].cubin == module->cubin &&
	    crc_cache[slot].bytes == module->cubin_bytes)
		crc = crc_cache[slot].crc;
	pthread_mutex_unlock(&lock);
	if (crc || !module->cubin || !module->cubin_bytes || !libcupti.cuptiGetCubinCrc ||
	    libcupti.cuptiGetCubinCrc(&params) != CUPTI_OK)
		return crc;
	pthread_mutex_lock(&lock);
	crc_cache[slot].module = module->id;
	crc_cache[slot].cubin = module->cubin;
	crc_cache[slot].bytes = module->cubin_bytes;
	crc_cache[slot].crc = params.crc;
	pthread_mutex_unlock(&lock);
	return params.crc;
}

/* The end of a launch is not seen if the session has ended. */
static bool is_launching(void)
{
	return launching &&
	       launching_session == atomic_load_explicit(&session_number, memory_order_relaxed);
}

void pcs_modules_on_event(uint32_t event, const struct cupti_module_data *module)
{
	uint64_t crc = crc_of(module);

	/* relaxed: pcs_modules_tick() needs no exact number */
	if (event == CUPTI_RESOURCE_MODULE_PROFILED)
		atomic_fetch_add_explicit(&event_count, 1, memory_order_relaxed);
	if (!crc)
		return;
	code_objects_add(crc, module->cubin, module->cubin_bytes);
	if (event == CUPTI_RESOURCE_MODULE_LOADED)
		loaded_crc = crc;
	MUTEX_HOLD(&lock);
	if (event == CUPTI_RESOURCE_MODULE_UNLOAD_STARTING) {
		forget_handles(crc);
		crc_cache[module->id % CRC_CACHE].crc = 0;
	} else if (is_launching()) { /* its module was loaded before the start, or lazily */
		set_handle(launching, crc);
		launching_crc = crc;
	}
}

uint64_t pcs_modules_events(void)
{
	return atomic_load_explicit(&event_count, memory_order_relaxed);
}

/* The lock is held. The caller enables the event without it. */
static void begin_asking(void)
{
	is_asking = true;
	asked_ns = 0;
	asked_from = pcs_modules_events();
}

void pcs_modules_want(uint64_t crc, uint32_t function)
{
	bool is_new = true, begins = false;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < wanted_count; i++)
		is_new &= wanted[i].crc != crc;
	if (is_new && crc) {
		/* Full: the oldest is replaced, and may come again. */
		is_new = wanted_count < WANTED_MAX;
		wanted[wanted_next++ % WANTED_MAX] =
			(struct pcs_wanted){.crc = crc, .function = function};
		wanted_count += wanted_count < WANTED_MAX;
	}
	begins = crc && !is_asking &&
		 (is_new || clock_monotonic_ns() - ask_ended_ns >= ASK_PAUSE_NS);
	if (begins)
		begin_asking();
	pthread_mutex_unlock(&lock);
	/* Without the lock: CUPTI may hold its own while a callback waits for this one. */
	if (begins)
		callbacks_ask_modules(true);
}

void pcs_modules_ask(void)
{
	pthread_mutex_lock(&lock);
	begin_asking();
	asks_for_all = true;
	pthread_mutex_unlock(&lock);
	callbacks_ask_modules(true);
}

/* A program that launches nothing is not asked in vain. The lock is held. */
static bool is_asked_enough(void)
{
	uint64_t events = pcs_modules_events() - asked_from;
	uint64_t now_ns = clock_monotonic_ns();

	if (events && !asked_ns)
		asked_ns = now_ns;
	return events >= ASK_EVENTS || (asked_ns && now_ns - asked_ns > ASK_NS);
}

void pcs_modules_tick(void)
{
	bool is_done = true;

	pthread_mutex_lock(&lock);
	if (pcs_statistics.samples)
		asks_for_all = false; /* from now on, kernels that lack a cubin */
	for (uint32_t i = 0; i < wanted_count; i++)
		is_done &= code_objects_sampled(wanted[i].crc) != CODE_OBJECT_UNKNOWN;
	bool is_ending = is_asking && ((is_done && !asks_for_all) || is_asked_enough());
	if (is_ending) {
		is_asking = asks_for_all = false;
		ask_ended_ns = clock_monotonic_ns();
		if (is_done)
			wanted_count = wanted_next = 0;
	}
	pthread_mutex_unlock(&lock);
	if (is_ending)
		callbacks_ask_modules(false);
}

/* ------------------------------------------------------------------ Triton's cache */

/* CUPTI gives an earlier module's cubin at a launch, but kernels may then run only in graphs. */

/* The functions that are still without a cubin, each once. */
static size_t take_wanted(struct pcs_wanted taken[WANTED_MAX])
{
	size_t count = 0;

	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < wanted_count; i++) {
		if (!wanted[i].was_taken &&
		    code_objects_sampled(wanted[i].crc) == CODE_OBJECT_UNKNOWN)
			taken[count++] = wanted[i];
		wanted[i].was_taken = true;
	}
	return count;
}

struct search {
	struct pcs_wanted wanted[WANTED_MAX];
	size_t count;
	bool has_found;
};

/* Adds the file if it is the cubin with this CRC. */
static bool take_cubin(const char *path, uint64_t crc)
{
	const struct file_limits limits = {.max_bytes = CUBIN_MAX_BYTES};
	struct cubin_crc_params params = {.size = sizeof(params)};
	struct stat st;
	char *bytes;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !st.st_size ||
	    file_read_all(path, &limits, &bytes, &params.cubin_bytes, NULL) != PROTON_OK)
		return false;
	params.cubin = bytes;
	bool is_equal = libcupti.cuptiGetCubinCrc(&params) == CUPTI_OK && params.crc == crc;
	if (is_equal)
		code_objects_add(crc, bytes, params.cubin_bytes);
	free(bytes);
	return is_equal;
}

/* Each directory has the cubin of one kernel. */
static bool visit_file(void *user, const char *directory)
{
	struct search *search = user;

	for (size_t i = 0; i < search->count; i++) {
		const char *name = gpu_functions_get(search->wanted[i].function)->name;
		char path[PATH_MAX];
		int length = snprintf(path, sizeof(path), "%s/%s.cubin", directory, name);

		if (length < 0 || (size_t)length >= sizeof(path) ||
		    !take_cubin(path, search->wanted[i].crc))
			continue;
		search->wanted[i] = search->wanted[--search->count];
		search->has_found = true;
		break;
	}
	return search->count != 0;
}

/* Triton's names are identifiers; mangled C++ names are of other compilers. */
static bool is_triton_name(const char *name)
{
	return strncmp(name, "_Z", 2) != 0 && !strchr(name, '/');
}

void pcs_modules_search(void)
{
	const struct sample_totals none = {0};
	struct pcs_wanted taken[WANTED_MAX];
	struct search search = {.count = 0};
	size_t count = take_wanted(taken);

	for (size_t i = 0; i < count; i++)
		if (is_triton_name(gpu_functions_get(taken[i].function)->name))
			search.wanted[search.count++] = taken[i];
	if (!search.count)
		return;
	sample_sources_walk_caches(visit_file, &search);
	if (search.has_found) /* the sessions look for cubins that they lack */
		record_samples(pcs_modules_last_sessions(), &cuda_backend, NULL, 0, &none);
}

/* ------------------------------------------------------------------ launches */

static struct launch *slot_of(uint32_t correlation)
{
	return (struct launch *)launches.base + correlation % LAUNCHES;
}

static void note_launch(uint32_t correlation, uint32_t handle)
{
	if (!launches.base)
		return;
	atomic_store_explicit(&slot_of(correlation)->handle, handle, memory_order_relaxed);
	/* release: pairs with the acquire in crc_of_launch() */
	atomic_store_explicit(&slot_of(correlation)->correlation, correlation,
			      memory_order_release);
}

static uint64_t crc_of_launch(uint32_t correlation)
{
	if (!launches.base || atomic_load_explicit(&slot_of(correlation)->correlation,
						   memory_order_acquire) != correlation)
		return 0;
	return crc_at(atomic_load_explicit(&slot_of(correlation)->handle, memory_order_relaxed));
}

/* The function that a launch call gets. */
static const void *function_of(uint32_t call, const void *params)
{
	void *const *words = params;

	if (!params || call == CUPTI_CALL_GRAPH_LAUNCH || call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ ||
	    call == CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE)
		return NULL;
	/* (configuration, function, ...); the others begin with the function. */
	if (call == CUPTI_CALL_LAUNCH_KERNEL_EX || call == CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ)
		return words[1];
	return words[0];
}

void pcs_modules_begin_launch(uint32_t call, const struct cupti_callback_data *data,
			      struct proton_context where, bool is_kernel)
{
	const void *function = function_of(call, data->function_params);
	uint32_t index = function ? map_find(&by_handle, (uintptr_t)function) : 0;

	launching = function;
	launching_session = atomic_load_explicit(&session_number, memory_order_relaxed);
	launching_crc = is_handle_at(index, function) ? crc_at(index) : 0;
	if (where.sessions)
		atomic_store_explicit(&last_sessions, where.sessions, memory_order_relaxed);
	call_gate_pass(CALL_GATE_LAUNCH);
	if (pcs_mode.is_serialized) {
		pthread_mutex_lock(&lock);
		serialized[data->correlation_id % SERIALIZED_LAUNCHES] =
			(struct serialized_launch){.correlation = data->correlation_id,
						   .is_named = is_kernel && record_is_in_op(),
						   .where = where};
		pthread_mutex_unlock(&lock);
	}
	if (launching_crc)
		note_launch(data->correlation_id, index);
}

/* The module of a function that was loaded earlier, or lazily, is known only now. */
void pcs_modules_end_launch(const struct cupti_callback_data *data)
{
	call_gate_leave(CALL_GATE_LAUNCH);
	if (launching_crc && crc_of_launch(data->correlation_id) != launching_crc)
		note_launch(data->correlation_id, map_find(&by_handle, (uintptr_t)launching));
	launching = NULL;
	launching_crc = 0;
}

uint64_t pcs_modules_captured_crc(void)
{
	return launching_crc;
}

bool pcs_modules_find_launch(uint32_t correlation, struct proton_context *where, bool *is_named)
{
	const struct serialized_launch *launch = &serialized[correlation % SERIALIZED_LAUNCHES];

	MUTEX_HOLD(&lock);
	bool is_found = launch->correlation == correlation &&
			!proton_context_is_empty(launch->where);
	*where = launch->where;
	*is_named = launch->is_named;
	return is_found;
}

uint32_t pcs_modules_last_sessions(void)
{
	return atomic_load_explicit(&last_sessions, memory_order_relaxed);
}

/* gpu_functions_add() without reading the name: C++ names have hundreds of characters. */
static uint32_t function_by_name(uint64_t crc, const char *name)
{
	size_t slot = hash_u64((uintptr_t)name ^ crc) % NAMES;

	if (names[slot].name != name || names[slot].crc != crc || !names[slot].function) {
		names[slot].name = name;
		names[slot].crc = crc;
		names[slot].function = gpu_functions_add(crc, name);
	}
	return names[slot].function;
}

void pcs_modules_attribute(const struct cupti_kernel *kernel, uint64_t crc,
			   struct execution *execution)
{
	if (!kernel->name)
		return;
	if (!crc)
		crc = crc_of_launch(kernel->correlation_id);
	execution->function = function_by_name(crc, kernel->name);
	if (!pcs_mode.is_serialized)
		pcs_windows_run(kernel, execution);
}

/* While nothing was attached, modules were unloaded and their handles used again. */
static void forget_all_handles(void)
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 1; i < handle_count; i++)
		if (handles[i].handle) {
			map_remove(&by_handle, (uintptr_t)handles[i].handle);
			write_handle(i, NULL, 0);
		}
	handle_count = 1;
	memset(crc_cache, 0, sizeof(crc_cache));
}

void pcs_modules_start(void)
{
	forget_all_handles();
	atomic_fetch_add_explicit(&session_number, 1, memory_order_relaxed);
	atomic_store(&event_count, 0);
	memset(names, 0, sizeof(names));
	if (!launches.base)
		region_reserve(&launches, LAUNCHES * sizeof(struct launch),
			       LAUNCHES * sizeof(struct launch), 1, NULL);
}

void pcs_modules_stop(void)
{
	callbacks_ask_modules(false);
	pthread_mutex_lock(&lock);
	is_asking = asks_for_all = false;
	wanted_count = wanted_next = 0;
	memset(serialized, 0, pcs_mode.is_serialized ? sizeof(serialized) : 0);
	pthread_mutex_unlock(&lock);
	atomic_store(&last_sessions, 0);
}
