/*
 * CUDA backend: kernels on NVIDIA GPUs, recorded through CUPTI's activity records and API
 * callbacks. CUPTI is subscribed once per process and released after the last session.
 *
 * CUPTI has its own threads, which a forked child lacks: CUPTI calls there wait for them forever.
 * So if the driver reports its initialization (backend.h), CUPTI is not touched before that;
 * until then the libraries are only loaded. In the child of a process that has touched CUPTI,
 * nothing of it is called.
 */
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/activity.h"
#include "backend/cuda/append.h"
#include "backend/cuda/attach.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/counters.h"
#include "backend/cuda/interface.h"
#include "backend/cuda/pcs/pc_sampling.h"
#include "backend/cuda/synchronize.h"
#include "backend/cuda/windows.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/flush_thread.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "backend/gpu/tensors.h"
#include "base/clock.h"
#include "base/message.h"
#include "driver/driver.h"
#include "driver/gpu_state.h"
#include "record/backend.h"
#include "record/nvtx/nvtx.h"
#include "record/record.h"
#include "record/thread/record_launch.h"

/* Life cycle: one caller of backend_use.c changes it at a time, and fork; a flush may read it. */
static _Atomic enum {
	STATE_OFF,       /* not started, or orphaned: cupti_api.h */
	STATE_POSTPONED, /* started; CUPTI is not touched before the driver is initialized */
	STATE_FAILED,    /* CUPTI could not be started when the driver was initialized */
	STATE_ON,        /* CUPTI is subscribed and records */
	STATE_BETWEEN,   /* windows: the next one opens CUPTI */
	STATE_RESTING,   /* started, but all sessions are deactivated: nothing is recorded */
} state;
static struct attach_wishes wishes;
static _Atomic pid_t cupti_process; /* process in which CUPTI was touched; 0: none */

static bool is_usable(void)
{
	return !backend_is_interpreting() && driver_cuda_is_likely();
}

static int check_mode(const char *mode, struct proton_error *err)
{
	struct cuda_mode unused;

	return cuda_mode_read(mode, &unused, err);
}

/* A call that is allowed before cuInit() and reports whether cuInit() was called. */
static bool driver_is_initialized(void)
{
	int count;

	return libcuda.cuDeviceGetCount(&count) == 0;
}

static void on_idle(void)
{
	backend_use_rest(&cuda_backend, flush_thread_is_idle);
}

static void on_round(void)
{
	gpu_state_sample();
	counters_on_round();
}

/* CUPTI is used from here on. On failure it is released. */
static int begin_recording(struct proton_error *err)
{
	atomic_store(&cupti_process, getpid());
	TRY(attach_begin(&wishes, err));
	flush_thread_start(on_idle, on_round);
	atomic_store(&state, STATE_ON);
	if (wishes.mode.in_windows)
		windows_open();
	return PROTON_OK;
}

/* No kernel was launched yet, unless the driver did not report its initialization. */
static int check_postponed(struct proton_error *err)
{
	if (atomic_load(&state) == STATE_POSTPONED && driver_is_initialized())
		return err_set(err, PROTON_E_STATE,
			       "no GPU activity was recorded: CUDA was initialized without "
			       "calling the library named in CUDA_INJECTION64_PATH; the "
			       "program may have changed that variable");
	return PROTON_OK;
}

static int flush_cuda(struct proton_error *err)
{
	uint64_t begin_ns = clock_monotonic_ns();
	uint64_t launched = launches_count();
	uint32_t last_shared = launches_last_shared();
	bool in_doubt = false;

	if (atomic_load(&state) != STATE_ON)
		return check_postponed(err);
	callbacks_check();
	/* Waiting for a context ends its captures: then only the records are waited for. */
	if (!captured_may_open())
		in_doubt = !contexts_synchronize(synchronize_unless_captured);
	tensors_collect();
	int status = activity_flush(launched, last_shared, in_doubt, err);
	pc_sampling_flush();
	counters_flush();
	tensors_settle();
	captured_nodes_forget_destroyed(begin_ns);
	return status;
}

/* ------------------------------------------------------------------ windows */

/* False: records stay on, and it is tried again. */
static bool close_window(bool is_end)
{
	struct window_edge end;

	flush_cuda(NULL);
	bool leaves = windows_should_leave(activity_graph_kernels()) || is_end;
	if (!attach_pause(&wishes, leaves, &end)) {
		windows_wait();
		return false;
	}
	atomic_store(&state, STATE_BETWEEN);
	windows_close(&end);
	return true;
}

static void open_window(void)
{
	struct proton_error err;

	if (flush_thread_is_idle())
		windows_wait();
	else if (windows_may_open() && begin_recording(&err) != PROTON_OK) {
		message_once("kernels are not recorded in a window: %s", err.text);
		windows_wait();
	}
}

/* On the thread of windows. */
static void move_window(void)
{
	if (atomic_load(&state) == STATE_ON)
		close_window(false);
	else if (atomic_load(&state) == STATE_BETWEEN)
		open_window();
}

static int start_cuda(const char *mode, struct proton_error *err)
{
	pid_t touched = atomic_load(&cupti_process);

	if (touched && touched != getpid())
		return err_set(err, PROTON_E_STATE,
			       "CUPTI does not work in a process forked after CUPTI was used; "
			       "start a new process instead (multiprocessing: "
			       "\"spawn\"), or start the first session after the fork");
	int status = cupti_api_load(err);
	if (status == PROTON_OK)
		status = cuda_mode_read(mode, &wishes.mode, err);
	if (status == PROTON_OK)
		status = correlate_init(err);
	if (status != PROTON_OK)
		return status;
	gpu_state_clear();
	tensors_start(&append_reader);
	if (wishes.mode.in_windows)
		windows_start(&wishes.mode.windows, move_window);
	if (backend_use_awaits_driver() && !driver_is_initialized())
		atomic_store(&state, STATE_POSTPONED);
	else
		status = begin_recording(err);
	if (status == PROTON_OK)
		nvtx_attach();
	return status;
}

static int resume_cuda(struct proton_error *err)
{
	if (atomic_load(&state) != STATE_POSTPONED)
		return PROTON_OK;
	int status = begin_recording(err);
	if (status != PROTON_OK)
		atomic_store(&state, STATE_FAILED);
	return status;
}

static void prime_cuda(void)
{
	struct proton_error unused;

	if (!atomic_load(&cupti_process) && is_usable() && cupti_api_load(&unused) == PROTON_OK)
		interface_prime();
}

static int set_memory(bool is_wanted, struct proton_error *err)
{
	int status = PROTON_OK;

	if (is_wanted && wishes.mode.in_windows)
		return err_set(
			err, PROTON_E_INVALID,
			"cupti: memory copies are not recorded in windows; remove one of the "
			"options");
	if (atomic_load(&state) == STATE_ON)
		status = callbacks_set_memory(is_wanted, err);
	if (status == PROTON_OK || !is_wanted)
		wishes.memory = is_wanted;
	return status;
}

/* Adds the driver's version: the first word with a digit in "NVRM version: NVIDIA ...". */
static void add_kernel_module(backend_add_fn add, void *user)
{
	FILE *file = fopen("/proc/driver/nvidia/version", "re");
	char line[256] = "";
	char *rest = line;

	if (!file)
		return;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	for (char *word; (word = strsep(&rest, " \t\n"));) {
		if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
			add(user, "nvidia_driver", word);
			return;
		}
	}
}

/* The number of GPUs is known after the program has initialized CUDA, which Proton never does. */
static void describe(backend_add_fn add, void *user)
{
	char text[32];
	int count = 0;

	cupti_api_version_text(libcupti.version, text, sizeof(text));
	add(user, "cupti", text);
	add(user, "cupti_path", libcupti.path);
	snprintf(text, sizeof(text), "%d.%d", libcupti.driver / 1000, libcupti.driver % 1000 / 10);
	add(user, "cuda_driver", text);
	add_kernel_module(add, user);
	/* Else a thread may be subscribing. */
	if (atomic_load(&state) == STATE_ON && !wishes.mode.in_windows)
		interface_describe(add, user);
	attach_describe(add, user);
	if (wishes.mode.in_windows)
		windows_describe(add, user);
	if (captured_nodes_differing())
		gpu_describe_number(add, user, "graph_nodes_by_source", captured_nodes_differing());
	if (libcuda.cuDeviceGetCount(&count) == 0 && count > 0)
		gpu_describe_number(add, user, "gpus", (uint64_t)count);
	gpu_describe_overhead(add, user);
	gpu_state_describe(add, user);
	pc_sampling_describe(add, user);
	counters_describe(add, user);
}

static bool rest_windows(bool is_end)
{
	if (atomic_load(&state) == STATE_ON && !close_window(is_end) && !is_end)
		return false;
	if (atomic_load(&state) != STATE_ON && atomic_load(&state) != STATE_BETWEEN)
		return false;
	if (is_end)
		attach_end(&wishes);
	atomic_store(&state, STATE_RESTING);
	return true;
}

static bool rest_cuda(bool is_end)
{
	if (wishes.mode.in_windows)
		return rest_windows(is_end);
	if (atomic_load(&state) != STATE_ON || (!is_end && !attach_may_rest()))
		return false;
	attach_end(&wishes);
	atomic_store(&state, STATE_RESTING);
	return true;
}

static int wake_cuda(struct proton_error *err)
{
	if (atomic_load(&state) != STATE_RESTING)
		return PROTON_OK;
	if (!wishes.mode.in_windows)
		return begin_recording(err);
	atomic_store(&state, STATE_BETWEEN);
	windows_wait();
	return PROTON_OK;
}

static bool leave_cuda(void)
{
	if (cupti_is_orphaned() || attach_leave())
		return true;
	callbacks_release(); /* another tool is about to subscribe */
	return false;
}

static void stop_cuda(void)
{
	nvtx_detach();
	flush_thread_stop();
	windows_stop();
	rest_cuda(true);
	atomic_store(&state, STATE_OFF);
	wishes = (struct attach_wishes){0};
	pc_sampling_clear();
	counters_clear();
	launches_clear();
}

static void forked_cuda(void)
{
	append_forget();
	gpu_state_forked();
	atomic_store(&libcupti.is_orphaned, atomic_load(&cupti_process) != 0);
	atomic_store(&state, STATE_OFF);
	wishes = (struct attach_wishes){0};
	counters_forked();
	pc_sampling_forked();
	attach_forked();
}

const struct backend cuda_backend = {
	.name = "cupti",
	.records_gpu = true,
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start_cuda,
	.resume = resume_cuda,
	.prime = prime_cuda,
	.flush = flush_cuda,
	.read_metric = tensors_read,
	.set_memory = set_memory,
	.rest = rest_cuda,
	.wake = wake_cuda,
	.leave = leave_cuda,
	.describe = describe,
	.no_records = "the driver may restrict profiling to administrators "
		      "(NVreg_RestrictProfilingToAdminUsers), another profiler may be using the "
		      "GPU (nsys, ncu, torch.profiler, DCGM), or the GPU reported an error",
	.stop = stop_cuda,
	.forked = forked_cuda,
};
