/* Attaching to CUPTI and leaving it. */
#include "backend/cuda/attach.h"

#include <pthread.h>
#include <unistd.h>

#include "backend/cuda/activity.h"
#include "backend/cuda/call_gate.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/counters.h"
#include "backend/cuda/hold.h"
#include "backend/cuda/interface.h"
#include "backend/cuda/kernel_times.h"
#include "backend/cuda/pcs/pc_sampling.h"
#include "backend/cuda/system_call.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "base/clock.h"
#include "base/guest.h"
#include "base/message.h"
#include "driver/driver.h"
#include "record/record.h"
#include "record/thread/captured.h"
#include "record/thread/thread.h"

/*
 * Each attach keeps 0.57 MB of GPU memory in use until the process ends, which is CUPTI's own and
 * which nothing gives back (CUPTI 13.0 to 13.5). With 13.0 a session that stays attached while
 * graphs replay keeps 0.054 MB, with 13.5 nothing (versions between them: not measured). So a
 * process attaches at most so often, and 1,000 sessions keep 64 MB at most.
 */
#define ATTACHES_MAX 100u
#define ATTACHES_MAX_BEFORE_13_5 19u
#define ATTACH_BYTES 570000ull
#define WINDOW_BYTES_BEFORE_13_5 54000ull
/* Without graphs, being attached costs a launch 0.3 us, and nothing else. */
#define ATTACHES_WITHOUT_GRAPHS 8u
/* Attaching takes 15 ms, and enabling PC sampling the first time 45 to 150 ms (H100). */
#define ATTACH_HOLD_NS 500000000ull
#define SAMPLING_ATTEMPTS 3u
#define POLL_US 50u
#define DEVICES "/dev/nvidia"

static bool is_attached; /* changed by one caller of backend_use.c at a time, as the following */
static _Atomic uint32_t attaches; /* of this process */
static bool was_recording;        /* since CUPTI was attached */
static bool is_recording;
static _Atomic uint32_t
	kept_windows; /* in which graphs were replayed, and that did not leave CUPTI */

static void note_left(void)
{
	is_attached = false;
	was_recording = false;
	counters_leave();
	pc_sampling_leave();
	replayed_graphs_clear();
	captured_clear();
}

/* Takes CUPTI down, after records and sampling were disabled. */
static bool finalize(bool is_released)
{
	if (!interface_finalize(is_released))
		return false;
	callbacks_forget();
	note_left();
	return true;
}

/* On failure CUPTI is released. */
static void undo_begin(bool has_records)
{
	if (has_records)
		activity_stop(true);
	is_recording = false;
	callbacks_set_between(false);
	bool is_released = callbacks_release();
	callbacks_stop();
	replayed_graphs_unwatch();
	if (interface_is_second()) /* other tools may use the first one again */
		finalize(is_released);
}

/* For threads that are not held: true, and the gate is closed, if none is in such a call. */
static bool close_gate(bool is_first)
{
	if (hold_is_on())
		return false;
	if (is_first)
		system_call_await_ioctl(DEVICES, CALL_GATE_LONG_NS);
	return call_gate_close_between_captures(CALL_GATE_CHANGES, CALL_GATE_LONG_NS);
}

/*
 * CUPTI enables no records while a context is enabled for sampling (NOT_COMPATIBLE), and it stays
 * configured as the earlier session wanted.
 */
static int end_earlier_sampling(struct proton_error *err)
{
	for (uint32_t i = 0; i < SAMPLING_ATTEMPTS; i++) {
		pc_sampling_prepare();
		if (!pc_sampling_has_context())
			return PROTON_OK;
	}
	return err_set(err, PROTON_E_STATE,
		       "PC sampling of an earlier session could not be ended yet, because other "
		       "threads capture CUDA graphs, or load modules or create contexts, all the "
		       "time; start the session again later");
}

static int try_begin(const struct attach_wishes *wishes, struct proton_error *err)
{
	bool is_first = !is_attached;

	if (is_first)
		hold_start();
	TRY(callbacks_start(!wishes->mode.samples, err));
	attaches += is_first;
	is_attached = true;
	int status = end_earlier_sampling(err);
	if (status != PROTON_OK) {
		callbacks_stop(); /* they count calls until it has ended */
		return status;
	}
	bool is_closed = close_gate(is_first);
	status = activity_start(was_recording, wishes->mode.in_windows, err);
	if (is_closed)
		call_gate_open();
	bool has_records = status == PROTON_OK;
	if (has_records)
		callbacks_set_between(false);
	was_recording |= has_records;
	is_recording = has_records;
	if (status == PROTON_OK && wishes->memory)
		status = callbacks_set_memory(true, err);
	if (status == PROTON_OK && wishes->mode.samples)
		status = pc_sampling_start(&wishes->mode.sampling, err);
	if (status == PROTON_OK && wishes->mode.counts)
		counters_start(wishes->mode.counters_overhead);
	if (status != PROTON_OK)
		undo_begin(has_records);
	return status;
}

/*
 * Threads are held while CUPTI is attached: it crashes if a thread captures or instantiates a graph
 * at that moment (1 of 20 attaches on an H100). With PC sampling they are held until it is enabled:
 * one replay of a graph between the first call of CUPTI and enabling makes all samples of the
 * graphs of the process unknown (measured with 13.0 and 13.5).
 */
static bool hold_to_attach(const struct attach_wishes *wishes)
{
	if (wishes->mode.samples)
		attach_leave();
	return !is_attached && hold_begin_to_attach(DEVICES, attaches == 0);
}

static int attach_now(const struct attach_wishes *wishes, struct proton_error *err)
{
	int status = try_begin(wishes, err);

	if (status != PROTON_OK && interface_refuse_second())
		status = try_begin(wishes, err);
	return status;
}

/* A begin on another thread. */
struct beginning {
	const struct attach_wishes *wishes;
	void *context; /* current on the calling thread; may be NULL */
	struct proton_error err;
	int status;
	_Atomic bool is_done;
};

static void *begin_there(void *data)
{
	struct beginning *beginning = data;
	bool is_pushed = beginning->context && libcuda.cuCtxPushCurrent(beginning->context) == 0;
	void *popped;

	beginning->status = attach_now(beginning->wishes, &beginning->err);
	if (is_pushed)
		libcuda.cuCtxPopCurrent(&popped);
	atomic_store(&beginning->is_done, true);
	return NULL;
}

/*
 * Begins while threads are held, but not longer than the limit: a host function may wait for the
 * GIL, and CUPTI for the stream on which it runs. Then some samples are unknown, and nothing hangs.
 */
static int begin_held(const struct attach_wishes *wishes, struct proton_error *err)
{
	struct beginning beginning = {.wishes = wishes};
	uint64_t start_ns = clock_monotonic_ns();
	pthread_t thread;

	if (libcuda.cuCtxGetCurrent && libcuda.cuCtxGetCurrent(&beginning.context) != 0)
		beginning.context = NULL;
	if (own_thread_start(&thread, begin_there, &beginning) != 0) {
		hold_end();
		return attach_now(wishes, err);
	}
	while (!atomic_load(&beginning.is_done) && clock_monotonic_ns() - start_ns < ATTACH_HOLD_NS)
		usleep(POLL_US);
	hold_end();
	pthread_join(thread, NULL);
	if (beginning.status != PROTON_OK && err)
		*err = beginning.err;
	return beginning.status;
}

int attach_begin(const struct attach_wishes *wishes, struct proton_error *err)
{
	return hold_to_attach(wishes) ? begin_held(wishes, err) : attach_now(wishes, err);
}

/* ------------------------------------------------------------------ leaving */

static void explain(const char *why)
{
	message_once(
		"CUPTI stays attached after recording has ended, because %s; until it is left, "
		"each launch of a CUDA graph takes about 0.5 us of CPU time more for each of "
		"its nodes; it is left at the end of a session when this is not so",
		why);
}

/* Records that are missed may be with another tool: it has used the first interface. */
static bool may_be_taken(void)
{
	return !interface_is_second() && await_records_were_missed();
}

/*
 * CUPTI is not left if another tool seems to use it, because that tool would lose it: with the
 * first interface, missing records may be with another tool. With the second one
 * interface_finalize() asks CUPTI. Nor while the program exits: nothing is gained, and the driver
 * may be gone.
 */
static bool may_leave(void)
{
	return !record_program_ends() && !callbacks_were_ended() && !may_be_taken() &&
	       !counters_were_used();
}

static bool is_worth_leaving(const struct attach_wishes *wishes)
{
	bool has_graphs = replayed_graphs_any();
	bool has_sampled = wishes->mode.samples;
	uint32_t max = libcupti.version >= CUPTI_VERSION_KEEPS_NOTHING ? ATTACHES_MAX
								       : ATTACHES_MAX_BEFORE_13_5;

	/* Windows have their own budget, and decide before they attach. */
	if (attaches < (has_graphs || has_sampled ? max : ATTACHES_WITHOUT_GRAPHS) ||
	    (has_graphs && wishes->mode.in_windows))
		return true;
	if (has_graphs)
		explain("this process has attached many times, and each time leaves 0.57 MB of GPU "
			"memory in use");
	return false;
}

/* True if CUPTI can be left now; holds the program's threads if that is needed. */
static bool begin_to_leave(bool has_sampled)
{
	const char *why = "some CUDA graphs were replayed while nothing was recorded";

	/* Threads that only launch kernels are not disturbed. */
	if (!replayed_graphs_any() && !has_sampled)
		return true;
	if (has_sampled && !thread_has_holder() && hold_misses_launches())
		why = "PC sampling was used, and other threads launch kernels";
	else if (!replayed_graphs_are_suspect() && hold_begin(driver_cuda_synchronize, &why))
		return true;
	if (replayed_graphs_any())
		explain(why);
	return false;
}

/* True if CUPTI may be left. */
static bool end_records(const struct attach_wishes *wishes)
{
	if (!is_recording)
		return true;
	if (wishes->memory)
		callbacks_set_memory(false, NULL);
	is_recording = false;
	return activity_stop(true);
}

static bool uses_graphs(void)
{
	return replayed_graphs_any() || hold_count_loose();
}

static void stay_attached(bool is_quiet)
{
	if (pc_sampling_has_context()) /* calls are counted until it is disabled */
		return;
	if (may_be_taken() && !uses_graphs() && is_quiet)
		callbacks_release();
	else
		callbacks_pause();
	if (callbacks_were_ended())
		note_left();
	replayed_graphs_unwatch();
}

/*
 * After records have ended. With PC sampling CUPTI has to be subscribed still: else it stays in
 * part (measured). Without, threads that launch kernels are not held, and its callbacks have to end
 * first.
 */
static bool leave_cupti(const struct attach_wishes *wishes)
{
	bool is_released = wishes->mode.samples && !interface_is_second();

	if (!is_released)
		is_released = callbacks_release();
	return !callbacks_were_ended() && finalize(is_released);
}

void attach_end(const struct attach_wishes *wishes)
{
	if (!is_attached) /* between windows */
		return;
	callbacks_check(); /* another tool may have taken CUPTI down */
	if (wishes->mode.counts)
		counters_stop();
	if (wishes->mode.samples)
		pc_sampling_read();
	bool may_finalize = may_leave() && is_worth_leaving(wishes) &&
			    begin_to_leave(wishes->mode.samples);
	if (wishes->mode.samples && !pc_sampling_stop(may_finalize) && may_finalize) {
		hold_end(); /* a thread that launches without being held is in the driver */
		may_finalize = false;
	}
	may_finalize = end_records(wishes) && may_finalize;
	/* Threads that are not held may have waited in callbacks, which they have to leave. */
	bool is_quiet = hold_is_on() || ((may_finalize || !uses_graphs()) && hold_is_quiet());
	if (!may_finalize || !is_quiet || !leave_cupti(wishes))
		stay_attached(is_quiet);
	hold_end();
	callbacks_set_between(false);
	callbacks_stop();
}

bool attach_pause(const struct attach_wishes *wishes, bool leaves, struct window_edge *end_out)
{
	callbacks_check();
	bool may_finalize = leaves && may_leave() && begin_to_leave(false);
	if (!may_finalize)
		callbacks_set_between(true);
	end_out->ns = hold_is_on() ? hold_since_ns() : clock_monotonic_ns();
	end_out->steps = record_steps();
	is_recording = !activity_stop(may_finalize);
	if (is_recording) {
		callbacks_set_between(false);
		hold_end();
		return false;
	}
	if (!may_finalize || (!hold_is_on() && !hold_is_quiet()) || !leave_cupti(wishes)) {
		callbacks_set_between(true);
		replayed_graphs_unwatch(); /* they may be replayed without records */
		kept_windows += replayed_graphs_any();
		if (callbacks_were_ended())
			note_left();
	}
	hold_end();
	contexts_clear();
	return true;
}

uint64_t attach_memory_bytes(bool and_next)
{
	bool keeps = libcupti.version < CUPTI_VERSION_KEEPS_NOTHING;
	uint64_t windows = kept_windows + (and_next && is_attached);

	return (attaches + (and_next && !is_attached)) * ATTACH_BYTES +
	       (keeps ? windows * WINDOW_BYTES_BEFORE_13_5 : 0);
}

bool attach_may_rest(void)
{
	return !replayed_graphs_any() || hold_count_loose() != 1;
}

bool attach_leave(void)
{
	if (!is_attached || pc_sampling_has_context())
		return !is_attached;
	/* Calls are not seen any more, but no graph that was replayed has been patched. */
	if (may_leave() && !replayed_graphs_are_suspect())
		finalize(callbacks_release());
	return !is_attached;
}

void attach_forked(void)
{
	is_attached = false;
}

void attach_describe(backend_add_fn add, void *user)
{
	gpu_describe_number(add, user, "cupti_attaches", attaches);
}
