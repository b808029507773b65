/* PC sampling service of rocprofiler-sdk: choice of a configuration per GPU, and its life. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/amd/sdk_backend.h"
#include "backend/gpu/records.h"
#include "base/environment.h"
#include "base/message.h"
#include "record/backend.h"

#define NAME "pcsampling"
#define METHOD_VARIABLE "PROTON_ROCPROFILER_PC_SAMPLING_METHOD"
#define INTERVAL_VARIABLE "PROTON_PC_SAMPLING_INTERVAL"
#define BETA_VARIABLE "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
#define CYCLES_DEFAULT 131072u
#define MICROSECONDS_DEFAULT 1000u
#define CONFIGS_MAX 16u

/* Written while the tool registers. */
static struct proton_error failure = {.status = PROTON_E_STATE}; /* PROTON_OK: configured */
static struct sdk_context context;
static struct sdk_buffer buffer; /* of all GPUs */
static size_t gpu_count;
static int used_method; /* the first GPU's, as the next two */
static uint64_t used_interval;
static uint64_t wanted_interval; /* 0: the default */

/* The configurations of a GPU. */
struct offers {
	struct sdk_sampling_config configs[CONFIGS_MAX];
	size_t count;
};

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

static int read_mode(const char *mode, uint64_t *interval, struct proton_error *err)
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

int sdk_pc_sampling_check_mode(const char *mode, struct proton_error *err)
{
	uint64_t interval;

	return read_mode(mode, &interval, err);
}

void sdk_pc_sampling_want(const char *mode)
{
	uint64_t interval;

	if (read_mode(mode, &interval, NULL) == PROTON_OK)
		wanted_interval = interval;
}

/* ------------------------------------------------------------------ choice */

static bool is_acknowledged(void)
{
	const char *text = environment_get(BETA_VARIABLE);

	return text && (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0 ||
			strcasecmp(text, "on") == 0 || strcasecmp(text, "yes") == 0);
}

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

/* Stochastic samples have stall reasons. NULL: there is none of the method. */
static const struct sdk_sampling_config *choose_config(const struct offers *offers, int method)
{
	const struct sdk_sampling_config *best = NULL;

	for (size_t i = 0; i < offers->count; i++) {
		const struct sdk_sampling_config *config = &offers->configs[i];

		if (method ? config->method != method
			   : config->method != SDK_METHOD_STOCHASTIC &&
				     config->method != SDK_METHOD_HOST_TRAP)
			continue;
		if (!best ||
		    (config->method == SDK_METHOD_STOCHASTIC && best->method != config->method))
			best = config;
	}
	return best;
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

static int collect_configs(const struct sdk_sampling_config *configs, size_t count, void *data)
{
	struct offers *offers = data;
	const char *at = (const char *)configs;

	for (size_t i = 0; i < count && offers->count < CONFIGS_MAX; i++) {
		const struct sdk_sampling_config *config = (const void *)at;

		if (config->size < sizeof(*config))
			break;
		offers->configs[offers->count++] = *config;
		at += config->size;
	}
	return SDK_OK;
}

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

/* Queries, chooses and configures. Returns the library's status. */
static int try_agent(uint64_t agent, int method, uint64_t *interval_out, int *method_out)
{
	struct offers offers = {.count = 0};
	const struct sdk_sampling_config *config;
	int status = sdk.query_pc_sampling_agent_configurations(agent, collect_configs, &offers);

	if (status != SDK_OK)
		return status;
	config = choose_config(&offers, method);
	if (!config)
		return SDK_E_AGENT_ARCH_NOT_SUPPORTED;
	*interval_out = fit_interval(config, wanted_interval);
	*method_out = config->method;
	return sdk.configure_pc_sampling_service(context, agent, config->method, config->unit,
						 *interval_out, buffer, 0);
}

static void add_agent(const struct sdk_agent *agent, int method)
{
	uint64_t interval = 0;
	int chosen = 0;
	int status = try_agent(agent->id, method, &interval, &chosen);

	/* Another process was faster: the query now returns what it has configured. */
	if (status == SDK_E_NOT_AVAILABLE)
		status = try_agent(agent->id, method, &interval, &chosen);
	if (status != SDK_OK) {
		refuse_gpu(status, agent->name ? agent->name : "the GPU");
		return;
	}
	if (!gpu_count++) {
		used_method = chosen;
		used_interval = interval;
	}
}

static int add_buffer(void)
{
	struct sdk_thread thread = {0};
	int status = sdk.create_buffer(context, SDK_BUFFER_BYTES, SDK_BUFFER_BYTES / 4,
				       SDK_POLICY_LOSSLESS, sdk_samples_on_buffer, NULL, &buffer);

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
	int status;

	if (!is_acknowledged())
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
	status = sdk.create_context(&context);
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

int sdk_pc_sampling_start(const char *mode, struct proton_error *err)
{
	uint64_t interval;
	int status = read_mode(mode, &interval, err);

	if (status == PROTON_OK)
		status = check_configured(err);
	if (status != PROTON_OK)
		return status;
	if (interval && interval != used_interval)
		message_once("PC sampling uses the interval %" PRIu64 " instead of %" PRIu64
			     ": it must be one that the GPU offers, and it is fixed when Proton "
			     "registers with rocprofiler-sdk; " INTERVAL_VARIABLE
			     " sets it before that",
			     used_interval, interval);
	sdk_samples_start();
	status = SDK_CALL(err, start_context, context);
	atomic_store(&sdk_samples_are_on, status == PROTON_OK);
	return status;
}

void sdk_pc_sampling_flush(void)
{
	if (!sdk_samples_run())
		return;
	sdk.flush_buffer(buffer);
	sdk_samples_settle();
}

void sdk_pc_sampling_stop(void)
{
	if (!sdk_samples_run())
		return;
	sdk.stop_context(context);
	sdk_pc_sampling_flush();
	atomic_store(&sdk_samples_are_on, false);
	sdk_samples_clear();
}

void sdk_pc_sampling_describe(backend_add_fn add, void *user)
{
	bool is_stochastic = used_method == SDK_METHOD_STOCHASTIC;

	if (!sdk_samples_run())
		return;
	add(user, "pc_sampling", is_stochastic ? "stochastic" : "host-trap");
	gpu_describe_number(add, user, "pc_sampling_interval", used_interval);
	add(user, "pc_sampling_unit", is_stochastic ? "cycles" : "microseconds");
	if (wanted_interval && wanted_interval != used_interval)
		gpu_describe_number(add, user, "pc_sampling_interval_requested", wanted_interval);
	gpu_describe_number(add, user, "overhead_pc_sampling_ns", sdk_samples_cost_ns());
}

void sdk_pc_sampling_forked(void)
{
	atomic_store(&sdk_samples_are_on, false);
	sdk_samples_forked();
	sdk_code_objects_forked();
}
