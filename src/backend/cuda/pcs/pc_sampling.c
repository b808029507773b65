/* PC sampling: which contexts are sampled, from the start of a session to its end. */
#include "backend/cuda/pcs/pc_sampling.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/hold.h"
#include "backend/cuda/pcs/pcs_parts.h"
#include "backend/cuda/sampling_hooks.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/record.h"

#define SHARE_MAX 15u /* percent of samples without a function that are not worth a warning */
#define SHARE_SAMPLES_MIN 1000u
#define RECEIVED_MIN 97u /* percent of the expected samples */
#define CHECKED_MAX 16u
#define CLOSE_NS 200000000ull  /* to wait for threads that launch or load modules */
#define CREATE_NS 20000000ull  /* to wait while a context is created, which takes 100 ms or more */
#define RETRY_NS 1000000000ull /* after a launch has waited in vain, none waits for so long */
#define FLUSH_QUIET_NS (PCS_WORKER_SLEEP_MS * 1000000ull + 5000000)
#define FLUSH_MIN_NS (FLUSH_QUIET_NS + 35000000)
#define FLUSH_MAX_NS 500000000ull
#define FLUSH_POLL_US 5000u
#define FLUSH_EXPECTED_MIN 1000u /* samples */

static _Atomic(void *) checked[CHECKED_MAX]; /* contexts that need no check; under pcs_lock */
static _Atomic uint64_t next_try_ns;         /* no launch waits before */
static _Atomic bool has_run;                 /* since the backend started */
static uint32_t last_period;                 /* of a context that is disabled; under pcs_lock */
static bool second_was_noted;                /* guarded by pcs_lock, as the following */
static bool was_enabled;                     /* a context, since the backend started */
static bool was_refused;                     /* the same, and the reason was printed */
static uint64_t launched_before;             /* launches_count() then */
static _Atomic uint32_t flushed_shared;
static _Atomic uint64_t flushed_launched;
static uint64_t flushed_expected; /* samples, at the end of the last flush; under pcs_lock */
static uint64_t flushed_seen;

static const struct sampling_hooks off, closing, on; /* the states, below */

static bool is_sampling(void)
{
	return sampling_hooks_get() == &on;
}

static struct pcs_context *find_context(const void *context)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++)
		if (pcs_contexts[i].context == context)
			return &pcs_contexts[i];
	return NULL;
}

/* An enabled context on a GPU (UINT32_MAX: any), or one with a full buffer. pcs_lock is held. */
static struct pcs_context *find_enabled(uint32_t device, bool is_full)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++)
		if (pcs_contexts[i].context && (!is_full || pcs_contexts[i].is_full) &&
		    (device == UINT32_MAX || pcs_contexts[i].device == device))
			return &pcs_contexts[i];
	return NULL;
}

static bool has_context(void)
{
	return find_enabled(UINT32_MAX, false);
}

/* Prints the reason, once in a process. */
static void note_refused(const struct proton_error *why)
{
	message_once("PCs are not sampled: %s", why->text);
	was_refused = true;
}

/* Can the context be enabled? It is not yet, and its GPU has no other one. pcs_lock is held. */
static bool can_add(void *context, struct pcs_context *added)
{
	*added = (struct pcs_context){.context = context};
	if (find_context(context) || !find_context(NULL) ||
	    libcupti.cuptiGetDeviceId(context, &added->device) != CUPTI_OK ||
	    libcupti.cuptiGetContextId(context, &added->id) != CUPTI_OK)
		return false;
	if (!find_enabled(added->device, false))
		return true;
	if (!second_was_noted)
		message("PCs of a second CUDA context on GPU %u are not sampled: CUPTI samples "
			"one context per GPU",
			added->device);
	second_was_noted = true;
	return false;
}

/* Enables a context if it can be. The gate is closed, and pcs_lock is held. */
static int add_context(void *context, struct proton_error *err)
{
	struct pcs_context *place = find_context(NULL);
	struct pcs_context added;

	if (!can_add(context, &added))
		return PROTON_OK;
	int status = pcs_context_enable(&added, err);
	if (added.is_kept)
		*place = added;
	if (status != PROTON_OK)
		return status;
	*place = added;
	was_enabled = true;
	pcs_drain_start();
	return PROTON_OK;
}

static bool is_checked(const void *context)
{
	for (uint32_t i = 0; i < CHECKED_MAX; i++)
		/* relaxed: a thread that reads an older value takes the lock */
		if (atomic_load_explicit(&checked[i], memory_order_relaxed) == context)
			return true;
	return false;
}

static void note_checked(void *context)
{
	static uint32_t next;

	atomic_store_explicit(&checked[next++ % CHECKED_MAX], context, memory_order_relaxed);
}

static void forget_checked(void)
{
	for (uint32_t i = 0; i < CHECKED_MAX; i++)
		atomic_store_explicit(&checked[i], NULL, memory_order_relaxed);
}

/* The driver may have locks that a thread with pcs_lock waits for: then waiting for it ends. */
static bool take_lock(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();

	while (pthread_mutex_trylock(&pcs_lock) != 0) {
		if (clock_monotonic_ns() - start_ns >= limit_ns)
			return false;
		usleep(200);
	}
	return true;
}

/* pcs_lock is held. If threads are loading modules now, a later launch tries again. */
static void add_if_new(void *context, uint64_t limit_ns)
{
	struct pcs_context added;
	struct proton_error err;

	if (!is_sampling() || is_checked(context))
		return;
	if (can_add(context, &added)) {
		if (!pcs_state_close_gate(limit_ns)) {
			atomic_store(&next_try_ns, clock_monotonic_ns() + RETRY_NS);
			return;
		}
		if (add_context(context, &err) != PROTON_OK)
			note_refused(&err);
		call_gate_open();
	}
	note_checked(context);
}

/*
 * A thread that is counted at the gate does not wait for the lock: the thread that has it may be
 * waiting for the counted ones (each launch took 200 ms in storms on an H100).
 */
static void check_context(void *context, bool is_launch)
{
	uint64_t limit_ns = is_launch ? CLOSE_NS : CREATE_NS;

	if (!context || is_checked(context) || clock_monotonic_ns() < atomic_load(&next_try_ns) ||
	    !take_lock(is_launch && call_gate_counts_here() ? 0 : limit_ns))
		return; /* a later launch tries again */
	add_if_new(context, is_launch ? CLOSE_NS : 0);
	pthread_mutex_unlock(&pcs_lock);
}

/* ------------------------------------------------------------------ hooks */

static void on_context(void *context)
{
	check_context(context, false);
}

static void begin_launch(uint32_t call, const struct cupti_callback_data *data,
			 struct proton_context where, bool is_kernel)
{
	check_context(data->context, true);
	pcs_modules_begin_launch(call, data, where, is_kernel);
}

static void pass_launch(uint32_t call, const struct cupti_callback_data *data,
			struct proton_context where, bool is_kernel)
{
	call_gate_pass(CALL_GATE_LAUNCH);
}

static void leave_launch(const struct cupti_callback_data *data)
{
	call_gate_leave(CALL_GATE_LAUNCH);
}

static void on_context_destroy(void *context)
{
	if (!take_lock(CLOSE_NS))
		return; /* the next read fails, and forgets it */
	forget_checked();
	struct pcs_context *found = context ? find_context(context) : NULL;
	if (found && pcs_state_close_gate_between_captures(0)) {
		pcs_context_finish(found);
		call_gate_open();
	} else if (found) {
		pcs_context_read(found);
	}
	if (found)
		pcs_context_forget(found); /* CUPTI forgets it with the context */
	pthread_mutex_unlock(&pcs_lock);
}

/* Sampling has been used, and CUPTI was left. */
static const struct sampling_hooks off = {
	.on_query = pcs_modules_on_query,
	.on_context_destroy = on_context_destroy,
	.on_module_event = pcs_modules_on_event,
	.captured_crc = pcs_modules_captured_crc,
};

/*
 * Sampling has stopped, and CUPTI is attached: launches are counted still. A context may be
 * enabled, and a launch that was not counted could be in flight when sampling starts again.
 */
static const struct sampling_hooks closing = {
	.has_gate = true,
	.begin_launch = pass_launch,
	.end_launch = leave_launch,
	.on_module_call = pcs_modules_on_call,
	.on_query = pcs_modules_on_query,
	.on_context_destroy = on_context_destroy,
	.on_module_event = pcs_modules_on_event,
	.captured_crc = pcs_modules_captured_crc,
};

/* Between start and stop in the mode "pcsampling". */
static const struct sampling_hooks on = {
	.has_gate = true,
	.begin_launch = begin_launch,
	.end_launch = pcs_modules_end_launch,
	.on_module_call = pcs_modules_on_call,
	.on_query = pcs_modules_on_query,
	.on_context = on_context,
	.on_context_destroy = on_context_destroy,
	.on_module_event = pcs_modules_on_event,
	.captured_crc = pcs_modules_captured_crc,
	.attribute = pcs_modules_attribute,
};

static void set_hooks(const struct sampling_hooks *hooks)
{
	atomic_store(&sampling_hooks, hooks);
}

static void begin_gate(const struct sampling_hooks *hooks)
{
	if (!sampling_hooks_get()->has_gate)
		pcs_state_count_calls();
	set_hooks(hooks);
}

/* ------------------------------------------------------------------ life */

/* Logarithm of the cycles between two samples of a multiprocessor. pcs_lock is held. */
static uint32_t current_period(void)
{
	for (uint32_t i = PCS_CONTEXTS_MAX; i-- > 0;)
		if (pcs_contexts[i].context)
			return pcs_contexts[i].period;
	return last_period;
}

/* pcs_lock is held. */
static bool disable_all(void)
{
	bool is_closed = pcs_state_close_gate_between_captures(CALL_GATE_LONG_NS);

	last_period = current_period();
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX && is_closed; i++)
		if (pcs_contexts[i].context)
			pcs_context_finish(&pcs_contexts[i]);
	if (is_closed)
		call_gate_open();
	return !has_context();
}

/* CUPTI enables no records while a context is enabled, which the last stop has not disabled. */
static void disable_rest(void)
{
	struct proton_error err;

	if (!has_context())
		return;
	begin_gate(&closing);
	callbacks_set_modules(true, &err);
	if (disable_all())
		callbacks_set_modules(false, &err);
}

void pc_sampling_prepare(void)
{
	MUTEX_HOLD(&pcs_lock);
	disable_rest();
}

/* The primary context of a GPU, which PyTorch and the CUDA runtime use; NULL: it has none. */
static void *primary_context(int device)
{
	void *context = NULL;
	unsigned flags;
	int is_active = 0;

	if (!libcuda.cuDevicePrimaryCtxGetState || !libcuda.cuDevicePrimaryCtxRetain ||
	    !libcuda.cuDevicePrimaryCtxRelease ||
	    libcuda.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != 0 || !is_active ||
	    libcuda.cuDevicePrimaryCtxRetain(&context, device) != 0)
		return NULL;
	libcuda.cuDevicePrimaryCtxRelease(device); /* the program has retained it as well */
	return context;
}

/*
 * Enables the contexts that can be known: this thread's, and the primary ones. The gate is closed.
 * A GPU that others measure is an error only for this thread's.
 */
static int add_known(void *current, struct proton_error *err)
{
	struct proton_error why;
	int count = 0;
	int status = current ? add_context(current, err) : PROTON_OK;

	/*
	 * Another thread has destroyed it, perhaps long ago, and CUPTI knows one that was created
	 * at its address. If it lives, its next launch tries again.
	 */
	if (status == PROTON_E_STATE)
		status = PROTON_OK;

	if (libcuda.cuDeviceGetCount(&count) != 0)
		count = 0;
	for (int i = 0; i < count && status == PROTON_OK; i++) {
		void *context = primary_context(i);

		if (context && add_context(context, &why) != PROTON_OK)
			note_refused(&why);
	}
	return status;
}

/* pcs_lock is held. */
static int begin_known(struct proton_error *err)
{
	void *current = NULL;

	if (libcuda.cuCtxGetCurrent && libcuda.cuCtxGetCurrent(&current) != 0)
		current = NULL;
	if (!pcs_state_close_gate(CALL_GATE_LONG_NS))
		return PROTON_OK; /* the next launch tries again */
	int status = add_known(current, err);
	call_gate_open();
	if (status == PROTON_OK && has_context())
		pcs_modules_ask(); /* modules were loaded while nothing was attached */
	return status;
}

int pc_sampling_start(const struct pcs_mode *mode, struct proton_error *err)
{
	if (!libcupti.cuptiPCSamplingEnable || !libcupti.cuptiPCSamplingGetData ||
	    !libcupti.cuptiGetCubinCrc)
		return err_set(err, PROTON_E_VERSION, "%s has no PC sampling", libcupti.path);
	MUTEX_HOLD(&pcs_lock);
	pcs_mode = *mode;
	last_period = mode->period;
	if (!atomic_exchange(&has_run, true)) { /* not if it was deactivated */
		pcs_statistics = (struct pcs_statistics){0};
		second_was_noted = false;
		was_enabled = was_refused = false;
		launched_before = launches_count();
		pcs_windows_clear();
	}
	atomic_store(&next_try_ns, 0);
	flushed_launched = 0;
	flushed_shared = 0;
	flushed_expected = flushed_seen = 0;
	pcs_modules_start();
	begin_gate(&on);
	int status = callbacks_set_modules(true, err);
	if (status == PROTON_OK)
		status = begin_known(err);
	if (status != PROTON_OK) {
		set_hooks(&closing);
		disable_all();
		atomic_store(&has_run, false);
	}
	return status;
}

static uint64_t samples_seen(void)
{
	return pcs_statistics.samples + pcs_statistics.profiler + pcs_statistics.unknown;
}

/* Percentage of `part`, which is not 0 samples. */
static void note_share(uint64_t part, uint64_t all, const char *what)
{
	if (all >= SHARE_SAMPLES_MIN && part * 100 > all * SHARE_MAX)
		message("%" PRIu64 " %% of the PC samples are %s", part * 100 / all, what);
}

/* Kernels ran, and nothing was sampled. */
static void note_nothing(void)
{
	if (!was_enabled && !was_refused && launches_count() != launched_before)
		message("no PCs were sampled: other threads launched kernels or loaded modules all "
			"the time, and PC sampling could not start; make the session longer, or "
			"start it before these threads");
	else if (was_enabled && pcs_windows_expected() >= FLUSH_EXPECTED_MIN)
		message("no PC samples arrived, and about %" PRIu64 " were expected; another tool "
			"may measure this GPU (DCGM, Nsight Compute), or CUPTI could not decode "
			"them in time",
			pcs_windows_expected());
}

/* Compares what arrived with what the kernels' time gives. */
static void note_received(uint64_t all)
{
	uint64_t expected = pcs_windows_expected();

	if (expected >= FLUSH_EXPECTED_MIN && all < expected / 100 * RECEIVED_MIN)
		message("%" PRIu64 " of about %" PRIu64 " expected PC samples arrived (%" PRIu64
			" %%, at an interval of %llu cycles): the GPU's clock was below its "
			"maximum, or samples were lost",
			all, expected, all * 100 / expected, 1ull << current_period());
}

static void note_losses(void)
{
	const struct pcs_statistics *seen = &pcs_statistics;
	uint64_t all = samples_seen();

	if (all)
		note_received(all);
	else
		note_nothing();

	note_share(seen->profiler, all,
		   "of code that CUPTI adds to kernels, or of modules that it does not know; they "
		   "are in no kernel (counter \"PC samples of profiler code\")");
	note_share(seen->unknown, all,
		   "without a function; they are in no kernel (counter \"PC samples without a "
		   "function\")");
}

void pc_sampling_read(void)
{
	if (!is_sampling())
		return;
	pcs_drain_stop();
	MUTEX_HOLD(&pcs_lock);
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++)
		if (pcs_contexts[i].context && !pcs_contexts[i].is_full)
			pcs_context_read(&pcs_contexts[i]);
}

bool pc_sampling_stop(bool is_held)
{
	if (!is_sampling())
		return true;
	pcs_drain_stop();
	pthread_mutex_lock(&pcs_lock);
	set_hooks(&closing);
	forget_checked();
	bool is_ready = disable_all();
	/*
	 * CUPTI is left while it is subscribed, which no call of another thread may meet. Threads
	 * that are not held have waited in callbacks, which they have to leave.
	 */
	is_ready = is_ready && is_held && !hold_misses_launches() && hold_is_quiet();
	note_losses();
	pthread_mutex_unlock(&pcs_lock);
	pcs_modules_stop();
	return is_ready;
}

bool pc_sampling_has_context(void)
{
	MUTEX_HOLD(&pcs_lock);
	return has_context();
}

void pc_sampling_leave(void)
{
	if (sampling_hooks_get()->has_gate)
		set_hooks(&off); /* no call is reported any more */
}

void pc_sampling_clear(void)
{
	atomic_store(&has_run, false);
}

/* Has none of many samples arrived since the last flush? pcs_lock is held. */
static bool is_nothing_here(void)
{
	return samples_seen() == flushed_seen &&
	       pcs_windows_expected() >= flushed_expected + FLUSH_EXPECTED_MIN;
}

/*
 * CUPTI needs up to 30 ms to decode samples, and longer on a machine with load: then there are none
 * at first. A stop would make it faster, but needs the other threads to launch nothing.
 */
void pc_sampling_flush(void)
{
	uint64_t launched = launches_count();
	uint32_t shared = launches_last_shared();
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t quiet_ns = start_ns;
	uint64_t now_ns = start_ns;
	uint64_t before = 0;
	bool is_waiting = true;

	if (!is_sampling() || (launched == flushed_launched && shared == flushed_shared))
		return;
	while (is_waiting && now_ns - start_ns < FLUSH_MAX_NS) {
		pthread_mutex_lock(&pcs_lock);
		for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++)
			if (pcs_contexts[i].context)
				pcs_context_read(&pcs_contexts[i]);
		if (samples_seen() != before)
			quiet_ns = clock_monotonic_ns();
		before = samples_seen();
		/* The thread raises the interval of a full buffer soon. */
		is_waiting = is_nothing_here() || find_enabled(UINT32_MAX, true);
		pthread_mutex_unlock(&pcs_lock);
		usleep(FLUSH_POLL_US);
		now_ns = clock_monotonic_ns();
		is_waiting |= now_ns - start_ns < FLUSH_MIN_NS;
		is_waiting |= now_ns - quiet_ns < FLUSH_QUIET_NS;
	}
	pthread_mutex_lock(&pcs_lock);
	flushed_seen = samples_seen();
	flushed_expected = pcs_windows_expected();
	pcs_modules_tick();
	pthread_mutex_unlock(&pcs_lock);
	flushed_launched = launched;
	flushed_shared = shared;
	pcs_modules_search();
}

/* In the child of a fork, which calls nothing of CUPTI. */
void pc_sampling_forked(void)
{
	set_hooks(&off);
	pc_sampling_clear();
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++)
		pcs_claim_release(&pcs_contexts[i]);
}

void pc_sampling_describe(backend_add_fn add, void *user)
{
	char text[96];

	if (!atomic_load(&has_run))
		return;
	MUTEX_HOLD(&pcs_lock);
	uint32_t period = current_period();
	if (pcs_mode.windows.length_ns)
		snprintf(text, sizeof(text), "windows of %" PRIu64 " ms every %" PRIu64 " ms",
			 pcs_mode.windows.length_ns / 1000000,
			 pcs_mode.windows.distance_ns / 1000000);
	else
		snprintf(text, sizeof(text), "%s",
			 pcs_mode.is_serialized ? "serialized" : "continuous");
	add(user, "pc_sampling", text);
	gpu_describe_number(add, user, "pc_sampling_interval", UINT64_C(1) << period);
	if (period != pcs_mode.period)
		gpu_describe_number(add, user, "pc_sampling_interval_requested",
				    UINT64_C(1) << pcs_mode.period);
	gpu_describe_number(add, user, "pc_sampling_expected", pcs_windows_expected());
	gpu_describe_number(add, user, "pc_sampling_received", samples_seen());
	gpu_describe_number(add, user, "pc_sampling_asked", pcs_modules_events());
	gpu_describe_number(add, user, "overhead_pc_sampling_ns", pcs_statistics.drain_ns);
}
