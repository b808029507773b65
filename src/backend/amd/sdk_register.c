/*
 * Registration with rocprofiler-sdk. Three contexts, and one for PC sampling (sdk_pc_sampling.c):
 *
 * - code objects: started at once and always on, because sessions that start later need the names
 *   of kernels that are loaded by then;
 * - profiling: calls that launch, markers, and the buffer of dispatches; started by the first
 *   session. It is not stopped afterwards: calls of HIP are not reliably reported after a second
 *   start. The callbacks look at sdk_state instead;
 * - memory: copies and memsets; started by the first session that wants them.
 *
 * Buffers are lossless: a full one makes the launching thread wait. The library keeps 32 bytes of
 * headers for each byte of a buffer, and reads half of them in each flush, while others wait. So
 * buffers are small: each of these takes 8 MiB.
 */

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "backend/amd/sdk_backend.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/amd_gpus.h"
#include "driver/amd_library.h"
#include "record/backend.h"

#define OPERATIONS_MAX 256u
#define REGISTER_IS_BUSY 2 /* ROCP_REG_DEADLOCK: HIP registers on another thread */
#define BUSY_MAX 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two, and Kineto */
static bool was_tried;
static struct proton_error failure; /* why the registration failed; PROTON_OK if it worked */

static _Atomic bool was_called; /* the tool, whether it could register or not */
static _Atomic bool is_registered;
static _Atomic uint32_t registered_version;

/* Written during the registration. */
static struct sdk_context code_context;
static struct sdk_thread thread;

/* ------------------------------------------------------------------ services */

/* True in the child of a process that had registered. No lock of this backend is taken there. */
static bool is_orphan(void)
{
	return sdk_state_now() == SDK_ORPHANED;
}

static void on_code_object(struct sdk_callback_record record, uint64_t *user, void *data)
{
	const struct sdk_kernel_symbol *symbol = record.payload;
	const struct sdk_code_object *object = record.payload;

	/* In a forked child a thread of the parent may have held the lock of the names. */
	if (record.phase != SDK_PHASE_LOAD || is_orphan())
		return;
	if (record.operation == SDK_CODE_OBJECT_KERNEL_SYMBOL && symbol->size >= sizeof(*symbol))
		kernel_symbols_add(symbol);
	else if (record.operation == SDK_CODE_OBJECT_LOAD && object->size >= sizeof(*object) &&
		 sdk_pc_sampling_is_configured())
		sdk_code_objects_add(object);
}

/* A buffer of records of `kind`, delivered on the backend's thread, if there is one. */
static int add_buffer(struct sdk_context context, int kind, struct sdk_buffer *buffer,
		      struct proton_error *err)
{
	size_t wanted = records_buffer_bytes();
	size_t bytes = wanted < SDK_BUFFER_BYTES ? wanted : SDK_BUFFER_BYTES;

	TRY(SDK_CALL(err, create_buffer, context, bytes, bytes / 2, SDK_POLICY_LOSSLESS,
		     sdk_records_on_buffer, NULL, buffer));
	if (thread.handle && sdk.assign_callback_thread)
		sdk.assign_callback_thread(*buffer, thread);
	return SDK_CALL(err, configure_buffer_tracing_service, context, kind, NULL, 0, *buffer);
}

static int add_calls(struct sdk_context context, bool of_memory, int request,
		     struct proton_error *err)
{
	int32_t operations[OPERATIONS_MAX];
	size_t count = sdk_kinds_calls(of_memory, operations, OPERATIONS_MAX);
	int status = PROTON_OK;

	/* An empty list would be all calls. */
	if (count)
		status = SDK_CALL(err, configure_callback_tracing_service, context, sdk_kinds.hip,
				  operations, count, sdk_callbacks_on_call, NULL);
	return status
		       ?: SDK_CALL(err, configure_external_correlation_id_request_service, context,
				   &request, 1, sdk_callbacks_on_request, NULL);
}

/* ROCTX ranges are optional. */
static void add_markers(struct sdk_context context)
{
	int32_t operations[] = {sdk_kinds_operation(sdk_kinds.marker, "roctxRangePushA"),
				sdk_kinds_operation(sdk_kinds.marker, "roctxRangePop")};

	sdk_kinds.range_push = operations[0];
	if (operations[0] >= 0 && operations[1] >= 0)
		sdk.configure_callback_tracing_service(context, sdk_kinds.marker, operations, 2,
						       sdk_callbacks_on_marker, NULL);
}

/* Without these events, all work within a call that launches a graph is the graph's. */
static void add_graph_events(struct sdk_context context)
{
	int32_t operation = sdk_kinds_operation(sdk_kinds.graph, "_EXEC_LAUNCH");

	if (operation >= 0 &&
	    sdk.configure_callback_tracing_service(context, sdk_kinds.graph, &operation, 1,
						   sdk_callbacks_on_graph, NULL) == SDK_OK)
		atomic_store(&sdk_contexts.has_graph_events, true);
}

static int add_code_objects(struct proton_error *err)
{
	return SDK_CALL(err, create_context, &code_context)
		       ?: SDK_CALL(err, configure_callback_tracing_service, code_context,
				   sdk_kinds.code_object, NULL, 0, on_code_object, NULL)
		       ?: SDK_CALL(err, start_context, code_context);
}

static int add_profiling(struct proton_error *err)
{
	int status = SDK_CALL(err, create_context, &sdk_contexts.profiling)
			     ?: add_calls(sdk_contexts.profiling, false,
					  sdk_kinds.request_dispatch, err)
			     ?: add_buffer(sdk_contexts.profiling, sdk_kinds.dispatch,
					   &sdk_contexts.dispatches, err);

	if (status == PROTON_OK) {
		add_markers(sdk_contexts.profiling);
		add_graph_events(sdk_contexts.profiling);
	}
	return status;
}

/* Without it, sessions that want copies are refused. */
static bool add_memory(void)
{
	return sdk_kinds.copy != SDK_KIND_NONE && sdk_kinds.request_copy != SDK_KIND_NONE &&
	       sdk.create_context(&sdk_contexts.memory) == SDK_OK &&
	       add_calls(sdk_contexts.memory, true, sdk_kinds.request_copy, NULL) == PROTON_OK &&
	       add_buffer(sdk_contexts.memory, sdk_kinds.copy, &sdk_contexts.copies, NULL) ==
		       PROTON_OK;
}

/* ------------------------------------------------------------------ Kineto */

/*
 * Kineto, the library of torch.profiler, as a second tool. If the SDK is initialized when it
 * starts, it takes itself for registered and has no GPU events. So it is registered here, too.
 */
#define TOOLS "ROCP_TOOL_LIBRARIES"
#define ANY_TIME 10302u /* since 1.3.2 tools may register at any time */

static bool kineto_is_registered; /* guarded by the lock */

/* The function in PyTorch's library. NULL: not loaded, or its Kineto does not use the SDK. */
static void *find_configure(const char **path_out)
{
	void *library = amd_library_get_loaded(AMD_TORCH);
	void *symbol = library ? dlsym(library, "rocprofiler_configure") : NULL;
	struct link_map *map;

	if (!symbol || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		return NULL;
	*path_out = map->l_name;
	return symbol;
}

/* If PyTorch was loaded after the registration. Old versions take no more tools: a message. */
static void kineto_add(uint32_t version, bool is_starting)
{
	const char *path;
	void *symbol = kineto_is_registered ? NULL : find_configure(&path);
	sdk_configure_fn configure;

	if (!symbol)
		return;
	if (version < ANY_TIME) {
		if (is_starting)
			message_once("torch.profiler has no GPU events in this process: Proton has "
				     "registered with rocprofiler-sdk before PyTorch was loaded, "
				     "and versions before 1.3.2 take tools only once; import "
				     "torch before triton_proton, or update ROCm");
		return;
	}
	memcpy(&configure, &symbol, sizeof(configure)); /* a pointer to code */
	kineto_is_registered = true;
	sdk.force_configure(configure);
}

/* ------------------------------------------------------------------ registration */

/* Called by the library, once. On failure it forgets everything that was made. */
static int initialize(sdk_finalize_client_fn finalize, void *data)
{
	struct proton_error *err = &failure;
	int status = sdk_kinds_find(err) ?: add_code_objects(err);

	if (status == PROTON_OK && sdk.create_callback_thread &&
	    sdk.create_callback_thread(&thread) != SDK_OK)
		thread.handle = 0; /* then the library's own thread delivers the records */
	if (status != PROTON_OK || add_profiling(err) != PROTON_OK)
		return -1;
	atomic_store(&sdk_contexts.has_memory, add_memory());
	sdk_pc_sampling_configure();
	failure.status = PROTON_OK;
	atomic_store(&is_registered, true);
	return 0;
}

/* At exit, once, in children too. The library would throw away the records in buffers now. */
static void finalize_tool(void *data)
{
	if (is_orphan())
		return;
	sdk_contexts_flush();
	sdk_pc_sampling_flush();
	atomic_store(&sdk_state, SDK_ENDED);
}

/* The tool's rocprofiler_configure(); NULL: wrong version, or it was registered before. */
static struct sdk_configure_result *configure_tool(uint32_t version, const char *version_text,
						   uint32_t priority, struct sdk_client *client)
{
	static struct sdk_configure_result result = {
		.size = sizeof(result),
		.initialize = initialize,
		.finalize = finalize_tool,
	};
	uint32_t none = 0;

	atomic_store(&was_called, true);
	/* Before 1.0 the client has other fields. */
	if (sdk_api_check_version(version, &failure) != PROTON_OK ||
	    sdk_api_load(&failure) != PROTON_OK ||
	    !atomic_compare_exchange_strong(&registered_version, &none, version))
		return NULL;
	client->name = "Proton";
	return &result;
}

/* If PyTorch is loaded, the environment names its Kineto, which registers in the same call. */
static int force_configure(void)
{
	static char *entry; /* once; other threads may read it later */
	const char *before = environment_get(TOOLS);
	AUTO_FREE char *earlier = before ? strdup(before) : NULL;
	const char *path;

	/* The library does not load the last of several tools unless a colon follows. */
	if (find_configure(&path) && asprintf(&entry, TOOLS "=%s%s%s:", before ? before : "",
					      before && *before ? ":" : "", path) < 0)
		entry = NULL;
	if (entry)
		kineto_is_registered = before ? setenv(TOOLS, entry + strlen(TOOLS "="), 1) == 0
					      : environment_append(entry);
	int status = sdk.force_configure(configure_tool);
	if (entry && earlier)
		setenv(TOOLS, earlier, 1);
	else if (entry)
		environment_remove(entry);
	return status;
}

/* For libproton_rocprofiler.so. */
void *proton_rocprofiler_configure(uint32_t version, const char *version_text, uint32_t priority,
				   void *client)
{
	return configure_tool(version, version_text, priority, client);
}

int sdk_register_check_hip(struct proton_error *err)
{
	const char *enabled = environment_get("ROCPROFILER_REGISTER_ENABLED");
	bool is_off = enabled && strcmp(enabled, "0") == 0;

	if ((amd_library_get_loaded(AMD_REGISTER) && !is_off) || !amd_gpus_are_open())
		return PROTON_OK;
	return err_set(err, PROTON_E_STATE,
		       "the HIP of this process does not give its functions to rocprofiler-sdk, "
		       "because %s; %s the backend \"roctracer\"",
		       is_off ? "ROCPROFILER_REGISTER_ENABLED is 0"
			      : "it was built without librocprofiler-register",
		       is_off ? "remove the variable, or use" : "use");
}

/*
 * HIP may have been initialized before, without a tool. librocprofiler-register has kept its
 * functions then, and gives them to the library that has a tool now. From 1.3 on the library has
 * asked for them.
 */
static int take_hip(struct proton_error *err)
{
	void *library = amd_library_get_loaded(AMD_REGISTER);
	void *symbol = library ? dlsym(library, "rocprofiler_register_invoke_nonpropagated_"
						"registrations")
			       : NULL;
	int (*invoke)(void);

	memcpy(&invoke, &symbol, sizeof(invoke)); /* a pointer to code */
	for (int i = 0; invoke && invoke() == REGISTER_IS_BUSY && i < BUSY_MAX; i++)
		usleep(1000);
	if (!invoke && library && amd_gpus_are_open())
		return err_set(err, PROTON_E_STATE,
			       "HIP was initialized before Proton could register with "
			       "rocprofiler-sdk, and its librocprofiler-register is too old for "
			       "that; import Proton before the first use of the GPU, or run the "
			       "program with the command `proton`");
	return sdk_register_check_hip(err);
}

/*
 * The library sets the first variable, and from 1.3 on the second: children load the library, and
 * in wheels it does not have the name by which they would look for it. Variables that are there can
 * be set while other threads read the environment.
 */
static void name_for_children(bool is_on)
{
	static char force[] = "ROCPROFILER_REGISTER_FORCE_LOAD=1";
	static char *named;

	if (!is_on) {
		environment_remove(force);
		environment_remove(named);
		return;
	}
	if (!environment_get("ROCPROFILER_REGISTER_FORCE_LOAD"))
		environment_append(force);
	if (!environment_get("ROCPROFILER_REGISTER_LIBRARY") &&
	    asprintf(&named, "ROCPROFILER_REGISTER_LIBRARY=%s",
		     amd_library_path(AMD_ROCPROFILER_SDK)) > 0)
		environment_append(named);
}

static bool is_initialized(void)
{
	int initialized = 0;

	sdk.is_initialized(&initialized);
	return initialized;
}

/*
 * The library replaces the function of HSA that makes queues when it gets HSA's functions: it does
 * not see older queues (rocprofiler-sdk, hsa/queue_controller.cpp). If another tool has
 * initialized it, it may see them.
 */
static int check_queues(struct proton_error *err)
{
	if (!amd_library_get_loaded(AMD_HIP) || is_initialized() || !amd_gpus_have_queue())
		return PROTON_OK;
	return err_set(err, PROTON_E_STATE,
		       "HIP made a queue before Proton could register with rocprofiler-sdk, which "
		       "does not see it; import Proton before the first use of the GPU, or run the "
		       "program with the command `proton`");
}

static int register_once(struct proton_error *err)
{
	int status = sdk_api_load(err);

	if (status != PROTON_OK)
		return status; /* may be found later */
	was_tried = true;
	if (atomic_load(&was_called))
		return failure.status; /* HIP's registration has called the tool */
	if (check_queues(&failure) != PROTON_OK)
		return failure.status;
	failure.status = PROTON_OK;
	name_for_children(true);
	status = force_configure();
	/* Registered even if a search for HIP has failed (1.3.2). */
	if (atomic_load(&is_registered))
		return take_hip(&failure);
	name_for_children(false);
	if (status != SDK_OK)
		return sdk_api_status(status, "rocprofiler_force_configure", &failure);
	if (failure.status == PROTON_OK)
		err_set(&failure, PROTON_E_STATE, "rocprofiler-sdk did not call Proton back");
	return failure.status;
}

int sdk_register(struct proton_error *err)
{
	int status = PROTON_OK;

	if (is_orphan())
		return err_set(err, PROTON_E_STATE,
			       "rocprofiler-sdk does not work in a process forked after Proton "
			       "has registered with it; start a new process instead "
			       "(multiprocessing: \"spawn\"), or import Proton after the fork");
	MUTEX_HOLD(&lock);
	if (!was_tried)
		status = register_once(err);
	if (was_tried && failure.status != PROTON_OK)
		status = err_set(err, failure.status, "%s", failure.text);
	if (status == PROTON_OK)
		kineto_add(sdk_register_version(), false);
	return status;
}

bool sdk_register_is_up_to_hip(void)
{
	const char *libraries = environment_get("ROCP_TOOL_LIBRARIES");

	return backend_use_awaits_driver() && !atomic_load(&registered_version) && libraries &&
	       strstr(libraries, "libproton_rocprofiler");
}

void sdk_register_early(void)
{
	const char *named = environment_get("PROTON_BACKEND");

	if (named && *named && backend_select(named, NULL) != &rocprofiler_backend)
		return;
	if (backend_is_interpreting() || !amd_library_is_likely() || is_orphan())
		return;
	if (!atomic_load(&is_registered)) {
		if (!sdk_register_is_up_to_hip())
			sdk_register(NULL);
		return;
	}
	MUTEX_HOLD(&lock);
	kineto_add(sdk_register_version(), true);
}

bool sdk_register_is_too_late(struct proton_error *err)
{
	if (is_orphan() || atomic_load(&is_registered))
		return false;
	return (is_initialized() || amd_library_get_loaded(AMD_HIP)) &&
	       sdk_register(err) == PROTON_E_STATE;
}

uint32_t sdk_register_version(void)
{
	return atomic_load(&registered_version);
}
