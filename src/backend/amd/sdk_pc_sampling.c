/*
 * PC sampling with rocprofiler-sdk: docs/design/pc-sampling.md. A sample carries the number of its
 * dispatch, so its launch is known exactly. It may arrive before the record of its dispatch; it
 * waits for that until the next flush.
 *
 * The library configures the service only while the tool registers, mostly before a session's mode
 * is known. So it is configured if ROCPROFILER_PC_SAMPLING_BETA_ENABLED is 1 then, which AMD
 * demands anyway. Between sessions its context is stopped.
 */
#include <inttypes.h>
#include <strings.h>

#include "backend/amd/sdk_backend.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/mutex.h"
#include "record/backend.h"
#include "record/sets/record_sessions.h"
#include "record/thread/record_launch.h"

#define NAME "pcsampling"
#define METHOD_VARIABLE "PROTON_ROCPROFILER_PC_SAMPLING_METHOD"
#define INTERVAL_VARIABLE "PROTON_PC_SAMPLING_INTERVAL"
#define BETA_VARIABLE "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
#define CYCLES_DEFAULT 131072u
#define MICROSECONDS_DEFAULT 1000u

#define DISPATCHES 65536u /* the latest ones; a power of two */
#define WAITING_MAX (1u << 18)
#define BATCH 512u

/* A dispatch and where its kernel is attributed. */
struct dispatch {
	uint64_t id;                 /* 0: unused */
	struct proton_context where; /* empty: its samples are not for the profile */
};

struct waiting {
	uint64_t dispatch_id;
	struct pc_sample sample;
};

/* Samples of one dispatch that have not been added yet. */
struct batch {
	struct pc_sample samples[BATCH];
	size_t count;
	struct proton_context where;
};

/* True between start and stop in the mode "pcsampling". */
static _Atomic bool is_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct dispatch *dispatches;
static struct waiting *waiting;
static size_t waiting_count;
static struct batch batch;
static uint64_t highest;         /* dispatch with a record */
static uint32_t last_sessions;   /* those at the latest dispatch */
static _Atomic uint64_t cost_ns; /* read without the lock */

/* By the library's reason for not issuing, then the instruction was issued, then unknown. */
static uint32_t reasons[12];
#define REASON_ISSUED 10u
#define REASON_UNKNOWN 11u

/* The names of upstream Proton. */
static const char *const reason_names[] = {
	"misc",
	"no_instruction",
	"alu_dependency",
	"waitcnt",
	"internal_instruction",
	"barrier",
	"not_selected",
	"arbiter_win_ex_stall",
	"other_wait",
	"sleeping",
	[REASON_ISSUED] = "selected",
	[REASON_UNKNOWN] = "unknown",
};

/* ------------------------------------------------------------------ dispatches */

static bool is_running(void)
{
	return atomic_load_explicit(&is_on, memory_order_relaxed);
}

static void note_dispatch(uint64_t id, struct proton_context where)
{
	MUTEX_HOLD(&lock);
	if (dispatches)
		dispatches[id % DISPATCHES] = (struct dispatch){id, where};
	if (id > highest)
		highest = id;
	if (where.sessions)
		last_sessions = where.sessions;
}

void sdk_pc_sampling_ignore_dispatch(uint64_t dispatch_id)
{
	if (dispatch_id && is_running())
		note_dispatch(dispatch_id, (struct proton_context){0});
}

static const struct dispatch *find_dispatch(uint64_t id)
{
	const struct dispatch *dispatch = dispatches ? &dispatches[id % DISPATCHES] : NULL;

	return id && dispatch && dispatch->id == id ? dispatch : NULL;
}

/* ------------------------------------------------------------------ adding */

static void add_batch(void)
{
	if (batch.count)
		record_launch_samples(batch.where, batch.samples, batch.count);
	batch.count = 0;
}

static void add_sample(struct proton_context where, const struct pc_sample *sample)
{
	if (proton_context_is_empty(where))
		return;
	if (batch.count == BATCH || memcmp(&batch.where, &where, sizeof(where)) != 0)
		add_batch();
	batch.where = where;
	batch.samples[batch.count++] = *sample;
}

/* Samples that belong to no launch. */
static void add_unknown(const struct pc_sample *samples, size_t count, uint64_t unknown,
			uint64_t losses)
{
	struct sample_totals totals = {.unknown = unknown, .losses = losses};

	if (!count && !unknown && !losses)
		return;
	for (size_t i = 0; i < count; i++)
		totals.samples += samples[i].samples;
	record_samples(last_sessions, &rocprofiler_backend, samples, count, &totals);
}

/* False if there is no space. */
static bool wait_for(uint64_t dispatch_id, const struct pc_sample *sample)
{
	struct waiting *last = waiting_count ? &waiting[waiting_count - 1] : NULL;

	if (last && last->dispatch_id == dispatch_id && last->sample.function == sample->function &&
	    last->sample.offset == sample->offset && last->sample.reason == sample->reason) {
		last->sample.samples += sample->samples;
		last->sample.not_issued += sample->not_issued;
		return true;
	}
	return waiting_count < WAITING_MAX &&
	       ARRAY_ADD(waiting, waiting_count, (struct waiting){dispatch_id, *sample});
}

/* A dispatch that is older than others with a record, and has none, will not get one. */
static void settle_waiting(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < waiting_count; i++) {
		const struct dispatch *dispatch = find_dispatch(waiting[i].dispatch_id);

		if (dispatch)
			add_sample(dispatch->where, &waiting[i].sample);
		else if (waiting[i].dispatch_id <= highest)
			add_unknown(&waiting[i].sample, 1, 0, 0);
		else
			waiting[kept++] = waiting[i];
	}
	waiting_count = kept;
	add_batch();
}

/* ------------------------------------------------------------------ records of samples */

/* The part that both kinds of records have. */
struct taken {
	struct sdk_pc pc;
	uint64_t dispatch_id;
	uint32_t reason;
	bool is_scheduler_idle;
};

/* False for a record that is shorter than what is read, or of another kind. */
static bool read_record(const struct sdk_record_header *header, struct taken *out)
{
	const struct sdk_host_trap_sample *trap = header->payload;
	const struct sdk_stochastic_sample *sample = header->payload;

	if (header->kind == SDK_SAMPLE_STOCHASTIC &&
	    sample->size >= offsetof(struct sdk_stochastic_sample, other5)) {
		uint32_t reason = sample->snapshot & SDK_SNAPSHOT_REASON;

		*out = (struct taken){
			.pc = sample->pc,
			.dispatch_id = sample->dispatch_id,
			.reason = sample->bits & SDK_SAMPLE_ISSUED ? REASON_ISSUED
				  : reason < REASON_ISSUED         ? reason
								   : 0,
			.is_scheduler_idle = !(sample->snapshot & SDK_SNAPSHOT_ISSUED),
		};
		return true;
	}
	if (header->kind != SDK_SAMPLE_HOST_TRAP ||
	    trap->size < offsetof(struct sdk_host_trap_sample, other3))
		return false;
	*out = (struct taken){
		.pc = trap->pc, .dispatch_id = trap->dispatch_id, .reason = REASON_UNKNOWN};
	return true;
}

/* Returns false if the sample could not be added. */
static bool take_sample(const struct sdk_record_header *header, uint64_t *unknown)
{
	struct pc_sample sample = {.samples = 1};
	struct taken taken;

	if (header->kind != SDK_SAMPLE_INVALID && !read_record(header, &taken))
		return false;
	if (header->kind == SDK_SAMPLE_INVALID ||
	    !sdk_code_objects_find(taken.pc.code_object, taken.pc.offset, &sample.function,
				   &sample.offset)) {
		(*unknown)++;
		return true;
	}
	sample.reason = reasons[taken.reason];
	sample.not_issued = taken.is_scheduler_idle;
	const struct dispatch *dispatch = find_dispatch(taken.dispatch_id);
	if (dispatch)
		add_sample(dispatch->where, &sample);
	else
		return wait_for(taken.dispatch_id, &sample);
	return true;
}

static void on_samples(struct sdk_context from, struct sdk_buffer full,
		       struct sdk_record_header **headers, size_t count, void *data,
		       uint64_t dropped)
{
	uint64_t start_ns = clock_thread_ns();
	uint64_t unknown = 0;

	if (!is_running() || sdk_state_now() == SDK_ORPHANED)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		if (headers[i]->category == SDK_CATEGORY_PC_SAMPLING &&
		    !take_sample(headers[i], &unknown))
			dropped++;
	add_batch();
	add_unknown(NULL, 0, unknown, dropped);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add_explicit(&cost_ns, clock_thread_ns() - start_ns, memory_order_relaxed);
}

/* ------------------------------------------------------------------ service */

/* Written while the tool registers. */
static struct proton_error failure = {.status = PROTON_E_STATE}; /* PROTON_OK: configured */
static struct sdk_context context;
static struct sdk_buffer buffer; /* of all GPUs */
static size_t gpu_count;
static int used_method; /* the first GPU's, as the next two */
static uint64_t used_interval;
static uint64_t wanted_interval; /* 0: the default */
static uint64_t mode_interval;   /* of the session's mode; 0: none */

/* ------------------------------------------------------------------ mode */

bool sdk_pc_sampling_is_mode(const char *mode)
{
	size_t length = strcspn(mode, ":");

	return length == strlen(NAME) && strncasecmp(mode, NAME, length) == 0;
}

/* A positive decimal number; 0: something else. */
static uint64_t read_number(const char *text)
{
	char *end;
	unsigned long long number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;

	return number && !*end && number < INT64_MAX ? number : 0;
}

int sdk_pc_sampling_read_mode(const char *mode, uint64_t *interval, struct proton_error *err)
{
	const char *option = mode + strcspn(mode, ":");

	*interval = 0;
	if (!*option)
		return PROTON_OK;
	if (strncmp(option, ":interval=", strlen(":interval=")) != 0)
		return err_set(err, PROTON_E_INVALID,
			       "rocprofiler: unsupported option of " NAME
			       ": %s; available: interval=N",
			       option + 1);
	*interval = read_number(option + strlen(":interval="));
	if (!*interval)
		return err_set(err, PROTON_E_INVALID,
			       "rocprofiler: " NAME ": the interval is not a number: %s; use "
			       "cycles (stochastic sampling, a power of two) or microseconds "
			       "(host-trap sampling)",
			       option + strlen(":interval="));
	return PROTON_OK;
}

void sdk_pc_sampling_want(const char *mode)
{
	sdk_pc_sampling_read_mode(mode, &mode_interval, NULL);
	wanted_interval = mode_interval;
}

/* ------------------------------------------------------------------ choice */

/* The method that the user demands; 0: any, -1: the name is unknown. */
static int read_method(void)
{
	const char *text = environment_get(METHOD_VARIABLE);

	if (!text || !*text)
		return 0;
	if (strcmp(text, "stochastic") == 0)
		return SDK_METHOD_STOCHASTIC;
	return strcmp(text, "host-trap") == 0 ? SDK_METHOD_HOST_TRAP : -1;
}

/* The best configuration of a GPU. */
struct choice {
	int method; /* the only one; 0: any */
	bool is_found;
	struct sdk_sampling_config config;
};

/* Stochastic samples have stall reasons. */
static int choose_config(const struct sdk_sampling_config *configs, size_t count, void *data)
{
	struct choice *choice = data;
	const struct sdk_sampling_config *config = configs;

	for (size_t i = 0; i < count && config->size >= sizeof(*config); i++) {
		bool is_stochastic = config->method == SDK_METHOD_STOCHASTIC;
		bool is_known = is_stochastic || config->method == SDK_METHOD_HOST_TRAP;

		if ((choice->method ? config->method == choice->method : is_known) &&
		    (!choice->is_found ||
		     (is_stochastic && choice->config.method != SDK_METHOD_STOCHASTIC))) {
			choice->config = *config;
			choice->is_found = true;
		}
		config = (const void *)((const char *)config + config->size);
	}
	return SDK_OK;
}

/* The interval that is nearest to the wanted one and that the GPU accepts. */
static uint64_t fit_interval(const struct sdk_sampling_config *config, uint64_t wanted)
{
	uint64_t interval = wanted                                    ? wanted
			    : config->method == SDK_METHOD_STOCHASTIC ? CYCLES_DEFAULT
								      : MICROSECONDS_DEFAULT;
	uint64_t power = 1;

	if (interval < config->min_interval)
		interval = config->min_interval;
	if (interval > config->max_interval)
		interval = config->max_interval;
	if (!(config->flags & SDK_SAMPLING_POWER_OF_2))
		return interval;
	while (power < interval && power < 1ull << 62)
		power *= 2;
	if (power > config->max_interval ||
	    (power / 2 >= config->min_interval && interval - power / 2 < power - interval))
		power /= 2;
	return power;
}

/* ------------------------------------------------------------------ registration */

/* Why a GPU is not sampled. The first cause is kept. */
static int refuse_gpu(int status, const char *name)
{
	if (failure.status != PROTON_E_STATE || failure.text[0])
		return failure.status;
	switch (status) {
	case SDK_E_NOT_AVAILABLE:
		return err_set(&failure, PROTON_E_BUSY,
			       "rocprofiler-sdk: PC samples of %s are not available: another "
			       "process takes them with another configuration, a debugger is "
			       "attached, or the HSA runtime is too old [status %d]",
			       name, status);
	case SDK_E_INCOMPATIBLE_KERNEL:
		return err_set(&failure, PROTON_E_VERSION,
			       "rocprofiler-sdk: the amdgpu driver does not support PC sampling; "
			       "update it [status %d]",
			       status);
	case SDK_OK:
	case SDK_E_AGENT_ARCH_NOT_SUPPORTED:
		return err_set(&failure, PROTON_E_UNSUPPORTED,
			       "rocprofiler-sdk offers no PC sampling%s%s on %s; MI200 and later "
			       "have host-trap sampling, MI300 and later also stochastic sampling",
			       environment_get(METHOD_VARIABLE) ? " of the method " : "",
			       environment_get(METHOD_VARIABLE) ? environment_get(METHOD_VARIABLE)
								: "",
			       name);
	default:
		return sdk_api_status(status, "rocprofiler_configure_pc_sampling_service",
				      &failure);
	}
}

static int try_agent(uint64_t agent, int method, struct choice *choice, uint64_t *interval_out)
{
	*choice = (struct choice){.method = method};
	int status = sdk.query_pc_sampling_agent_configurations(agent, choose_config, choice);
	if (status != SDK_OK)
		return status;
	if (!choice->is_found)
		return SDK_E_AGENT_ARCH_NOT_SUPPORTED;
	*interval_out = fit_interval(&choice->config, wanted_interval);
	return sdk.configure_pc_sampling_service(context, agent, choice->config.method,
						 choice->config.unit, *interval_out, buffer, 0);
}

static void add_agent(const struct sdk_agent *agent, int method)
{
	struct choice choice;
	uint64_t interval;
	int status = try_agent(agent->id, method, &choice, &interval);

	/* Another process was faster: the query now returns what it has configured. */
	if (status == SDK_E_NOT_AVAILABLE)
		status = try_agent(agent->id, method, &choice, &interval);
	if (status != SDK_OK) {
		refuse_gpu(status, agent->name ? agent->name : "the GPU");
	} else if (!gpu_count++) {
		used_method = choice.config.method;
		used_interval = interval;
	}
}

static int add_buffer(void)
{
	struct sdk_thread thread = {0};
	int status = sdk.create_buffer(context, SDK_BUFFER_BYTES, SDK_BUFFER_BYTES / 4,
				       SDK_POLICY_LOSSLESS, on_samples, NULL, &buffer);

	if (status == SDK_OK && sdk.create_callback_thread && sdk.assign_callback_thread &&
	    sdk.create_callback_thread(&thread) == SDK_OK)
		sdk.assign_callback_thread(buffer, thread);
	return status;
}

/* GPUs that HIP sees, as the library estimates it from variables; all if it has no estimate. */
static int collect_agents(int version, const struct sdk_agent **agents, size_t count, void *data)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < count; i++)
		if (agents[i]->size >= sizeof(struct sdk_agent) && agents[i]->type == SDK_AGENT_GPU)
			seen |= agents[i]->visibility & SDK_VISIBLE_TO_HIP;
	for (size_t i = 0; i < count; i++)
		if (agents[i]->size >= sizeof(struct sdk_agent) &&
		    agents[i]->type == SDK_AGENT_GPU && (agents[i]->visibility & seen) == seen)
			add_agent(agents[i], *(const int *)data);
	return SDK_OK;
}

void sdk_pc_sampling_configure(void)
{
	const char *interval = environment_get(INTERVAL_VARIABLE);
	int method = read_method();

	if (!environment_is(BETA_VARIABLE, true))
		return; /* a start prints the message */
	if (method < 0) {
		err_set(&failure, PROTON_E_INVALID,
			METHOD_VARIABLE " is \"%s\"; use stochastic or host-trap",
			environment_get(METHOD_VARIABLE));
		return;
	}
	if (!wanted_interval && interval && *interval)
		wanted_interval = read_number(interval);
	if (!sdk.query_pc_sampling_agent_configurations || !sdk.configure_pc_sampling_service) {
		err_set(&failure, PROTON_E_VERSION,
			"this version of rocprofiler-sdk has no PC sampling; update ROCm");
		return;
	}
	int status = sdk.create_context(&context);
	if (status == SDK_OK)
		status = add_buffer();
	if (status == SDK_OK)
		status = sdk.query_available_agents(SDK_AGENT_VERSION_0, collect_agents,
						    sizeof(struct sdk_agent), &method);
	if (gpu_count)
		failure.status = PROTON_OK;
	else
		refuse_gpu(status, "this machine");
}

bool sdk_pc_sampling_is_configured(void)
{
	return failure.status == PROTON_OK;
}

/* ------------------------------------------------------------------ life */

static int check_configured(struct proton_error *err)
{
	if (failure.status == PROTON_OK)
		return PROTON_OK;
	if (failure.text[0])
		return err_set(err, failure.status, "%s", failure.text);
	return err_set(err, PROTON_E_STATE,
		       "rocprofiler: PC sampling was not configured when Proton registered with "
		       "rocprofiler-sdk; set " BETA_VARIABLE "=1 before the program starts, with "
		       "which you accept that AMD calls the feature a beta that may hang the GPU");
}

static void start_samples(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < ARRAY_LENGTH(reason_names); i++)
		reasons[i] = store_samples_add_reason(reason_names[i]);
	if (!dispatches)
		dispatches = calloc(DISPATCHES, sizeof(*dispatches));
	atomic_store_explicit(&cost_ns, 0, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	record_observe_dispatches(note_dispatch);
}

static void clear_samples(void)
{
	record_observe_dispatches(NULL);
	MUTEX_HOLD(&lock);
	if (dispatches)
		memset(dispatches, 0, DISPATCHES * sizeof(*dispatches));
	free(waiting);
	waiting = NULL;
	waiting_count = 0;
	batch.count = 0;
	last_sessions = 0;
	highest = 0;
}

int sdk_pc_sampling_start(struct proton_error *err)
{
	TRY(check_configured(err));
	if (mode_interval && mode_interval != used_interval)
		message_once("PC sampling uses the interval %" PRIu64 " instead of %" PRIu64
			     ": it must be one that the GPU offers, and it is fixed when Proton "
			     "registers with rocprofiler-sdk; " INTERVAL_VARIABLE
			     " sets it before that",
			     used_interval, mode_interval);
	start_samples();
	int status = SDK_CALL(err, start_context, context);
	atomic_store(&is_on, status == PROTON_OK);
	return status;
}

void sdk_pc_sampling_flush(void)
{
	if (!is_running())
		return;
	sdk.flush_buffer(buffer);
	MUTEX_HOLD(&lock);
	settle_waiting();
}

void sdk_pc_sampling_stop(void)
{
	if (!is_running())
		return;
	sdk.stop_context(context);
	sdk_pc_sampling_flush();
	atomic_store(&is_on, false);
	clear_samples();
}

void sdk_pc_sampling_describe(backend_add_fn add, void *user)
{
	bool is_stochastic = used_method == SDK_METHOD_STOCHASTIC;

	if (!is_running())
		return;
	add(user, "pc_sampling", is_stochastic ? "stochastic" : "host-trap");
	gpu_describe_number(add, user, "pc_sampling_interval", used_interval);
	add(user, "pc_sampling_unit", is_stochastic ? "cycles" : "microseconds");
	if (wanted_interval && wanted_interval != used_interval)
		gpu_describe_number(add, user, "pc_sampling_interval_requested", wanted_interval);
	gpu_describe_number(add, user, "overhead_pc_sampling_ns",
			    atomic_load_explicit(&cost_ns, memory_order_relaxed));
}

void sdk_pc_sampling_forked(void)
{
	atomic_store(&is_on, false);
	pthread_mutex_init(&lock, NULL);
}
