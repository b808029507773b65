/*
 * Instrumentation backend: profiles kernels instrumented by the pass in src/intra. Each launch
 * writes its records into a device buffer. The launching thread takes one from the pool and queues
 * it after the launch; reader threads do the rest (launch_queue.h).
 */
#include <pthread.h>

#include <libproton/proton.h>

#include "backend/intra/device_buffers.h"
#include "backend/intra/launch_queue.h"
#include "backend/intra/launch_timer.h"
#include "backend/intra/loaded_kernels.h"
#include "base/clock.h"
#include "driver/driver.h"
#include "record/backend.h"
#include "record/record.h"
#include "record/sets/record_sessions.h"
#include "record/sets/session.h"

/* An alignment that every buffer has; a larger one is space for one more CTA: layout.h. */
#define ALIGNMENT 256u
#define CTA_BYTES_MAX ((size_t)64 << 20)

/* The buffer for the launch that this thread is about to make. */
struct pending {
	struct buffer *buffer;
	size_t bytes; /* requested */
	uint64_t before_ns;
	bool is_asked; /* requested and not launched yet */
	bool is_captured;
};

static _Thread_local struct pending pending;
static _Thread_local bool is_measured; /* the launch is one of a loop, and not captured */
static _Thread_local int capture_mode; /* before proton_instrument_load_begin() */
static atomic_bool is_running;
static _Atomic uint32_t launches_kept;
static _Atomic uint32_t budget; /* percent; 0: none */

/* ------------------------------------------------------------------ launches */

/* The launch failed after a buffer was requested. A kernel may still be using the buffer. */
static void abandon(uint64_t stream)
{
	struct buffer *buffer = pending.buffer;

	pending = (struct pending){0};
	if (!buffer || buffer->is_of_graph)
		return;
	buffer->launch.kernel = NULL;
	buffer->launch.stream = stream;
	launch_queue_put(&buffer->launch);
}

static bool is_capturing(uint64_t stream)
{
	int status = 0;

	return driver.cuStreamIsCapturing(driver_handle(stream), &status) != 0 || status != 0;
}

uint64_t proton_instrument_buffer(size_t bytes, size_t alignment, uint64_t stream)
{
	struct trace_event earlier; /* of a launch that is not instrumented */

	/* Without a registered kernel, the request is not from an instrumented kernel. */
	if (!atomic_load_explicit(&is_running, memory_order_relaxed) || !driver_is_bound())
		return 0;
	if (pending.is_asked)
		abandon(stream);
	record_take_launch(&earlier);
	pending = (struct pending){.bytes = bytes, .is_asked = true};
	if (!bytes || alignment > CTA_BYTES_MAX)
		return 0;
	if (!atomic_load_explicit(&session_config, memory_order_relaxed))
		return 0; /* every session is paused */
	size_t needed = alignment > ALIGNMENT ? bytes + alignment : bytes;
	pending.is_captured = is_capturing(stream);
	pending.buffer = device_buffers_take(needed, pending.is_captured);
	pending.before_ns = clock_monotonic_ns();
	return pending.buffer ? pending.buffer->address : 0;
}

static size_t used_bytes(const struct pending *asked, const struct instrument_layout *layout)
{
	size_t ctas = asked->bytes / layout_requested(layout);
	size_t used = (ctas + layout->cta_stride - 1) / layout->cta_stride * layout->cta_bytes;

	return used < asked->buffer->bytes ? used : asked->buffer->bytes;
}

/* True if traces keep this launch of its kernel. */
static bool is_kept(struct kernel *kernel, struct proton_context where)
{
	uint32_t kept = atomic_load_explicit(&launches_kept, memory_order_relaxed);

	if (!record_wants_intra(where))
		return false;
	if (kernel->layout.sum_count) {
		loaded_kernels_omit(kernel, OMITTED_WITHOUT_RECORDS);
		return false;
	}
	if (kept == INSTRUMENT_LAUNCHES_ALL ||
	    atomic_fetch_add_explicit(&kernel->run.kept, 1, memory_order_relaxed) < kept)
		return true;
	loaded_kernels_omit(kernel, OMITTED_UNTRACED);
	return false;
}

/* Queues the launch that this thread has made. */
static void queue_launch(struct kernel *kernel, uint64_t stream)
{
	struct pending asked = pending;
	struct buffer *buffer = asked.buffer;
	struct proton_context where = proton_context_here();

	if (!buffer && kernel && !proton_context_is_empty(where))
		loaded_kernels_omit(kernel, OMITTED_UNSAMPLED);
	if (!buffer || !kernel || proton_context_is_empty(where)) {
		if (buffer && !kernel)
			record_count(COUNTER_LOST_DAMAGED, 1);
		abandon(stream);
		return;
	}
	pending = (struct pending){0};
	/* Inside a named launch, a hook has already entered the kernel's frame. */
	if (!record_is_in_op())
		where = proton_context_enter(where, kernel->frame);
	struct launch *launch = &buffer->launch;
	launch->kernel = kernel;
	launch->stream = stream;
	launch->where = where;
	launch->used_bytes = used_bytes(&asked, &kernel->layout);
	launch->before_ns = asked.before_ns;
	struct loop *loop = atomic_load(&kernel->loop);
	launch->weight = loop && !asked.is_captured ? closed_loop_weight(loop) : 1;
	launch->is_traced = is_kept(kernel, where);
	record_take_launch(&launch->event);
	launch_queue_put(launch);
}

/* True if the caller has something to do for the kernel's loop. */
static bool has_request(struct kernel *kernel)
{
	struct loop *loop = atomic_load(&kernel->loop);
	bool is_wanted;

	if (!loop) /* relaxed: the exchange decides */
		return atomic_load_explicit(&budget, memory_order_relaxed) &&
		       !atomic_load_explicit(&kernel->run.is_offered, memory_order_relaxed) &&
		       !atomic_exchange(&kernel->run.is_offered, true);
	launch_timers_read();
	return closed_loop_choose(loop, &is_wanted) != kernel->variant || is_wanted;
}

void proton_instrument_launching(uint64_t function, uint64_t stream)
{
	if (!atomic_load_explicit(&is_running, memory_order_relaxed) || !driver_is_bound())
		return;
	struct kernel *kernel = loaded_kernels_find(function);
	struct loop *loop = kernel ? atomic_load(&kernel->loop) : NULL;
	is_measured = loop && !is_capturing(stream);
	launch_timer_begin(is_measured && closed_loop_is_timed(loop) ? loop : NULL,
			   kernel ? kernel->variant : 0, stream);
}

bool proton_instrument_launched(uint64_t function, uint64_t stream)
{
	bool was_captured = pending.is_captured;

	launch_timer_end(stream);
	if (!pending.is_asked && !is_measured)
		return false;
	struct kernel *kernel = loaded_kernels_find(function);
	if (pending.is_asked)
		queue_launch(kernel, stream);
	/* Loading a kernel would invalidate a capture. */
	if (!kernel || was_captured || (atomic_load(&kernel->loop) && !is_measured))
		return false;
	is_measured = false;
	return has_request(kernel);
}

/* ------------------------------------------------------------------ closed loops */

int proton_instrument_loop(uint64_t function, const char *names, uint32_t first,
			   const char *decisions, struct proton_error *err)
{
	struct kernel *kernel = loaded_kernels_find(function);

	if (!kernel)
		return err_set(err, PROTON_E_INVALID, "no such instrumented kernel");
	struct loop *loop = closed_loop_new(names, first, atomic_load(&budget), decisions);
	if (!loop)
		return err_nomem(err);
	kernel->variant = LOOP_FIRST;
	atomic_store(&kernel->loop, loop);
	return PROTON_OK;
}

static struct loop *loop_of(uint64_t function)
{
	struct kernel *kernel = loaded_kernels_find(function);

	return kernel ? atomic_load(&kernel->loop) : NULL;
}

char *proton_instrument_decisions(uint64_t function)
{
	struct loop *loop = loop_of(function);
	AT_END(out_fini) struct out out;
	char *text = NULL;
	size_t length;

	out_init(&out, -1);
	if (loop && closed_loop_decisions(loop, &out))
		text = out_take(&out, &length);
	return text;
}

bool proton_instrument_wanted(uint64_t function, uint32_t *variant_out, uint32_t *first_out,
			      uint32_t *end_out)
{
	struct loop *loop = loop_of(function);

	return loop && closed_loop_wanted(loop, variant_out, first_out, end_out);
}

void proton_instrument_made(uint64_t function, uint32_t variant, uint64_t made)
{
	struct kernel *first = loaded_kernels_find(function);
	struct loop *loop = first ? atomic_load(&first->loop) : NULL;
	struct proton_error err;
	struct kernel *kernel;
	bool is_amd;

	if (!loop)
		return;
	kernel = made ? loaded_kernels_find(made) : NULL;
	if (made && variant == LOOP_PLAIN &&
	    loaded_kernels_add(made, first->name, NULL, &is_amd, &err) == PROTON_OK)
		kernel = loaded_kernels_find(made);
	if (kernel) {
		kernel->variant = variant;
		atomic_store(&kernel->loop, loop);
	}
	closed_loop_made(loop, variant, kernel != NULL);
}

uint32_t proton_instrument_choice(uint64_t function, bool is_usual)
{
	struct loop *loop = loop_of(function);

	return loop ? closed_loop_choice(loop, is_usual) : LOOP_FIRST;
}

bool proton_instrument_is_capturing(uint64_t stream)
{
	return driver_is_bound() && is_capturing(stream);
}

void proton_instrument_load_begin(void)
{
	capture_mode = driver_is_bound() ? driver_own_begin() : -1;
}

void proton_instrument_load_end(void)
{
	if (driver_is_bound())
		driver_own_end(capture_mode);
}

int proton_instrument_kernel(uint64_t function, const char *name, const char *layout,
			     struct proton_error *err)
{
	bool is_amd = false;

	if (!function || !name || !layout)
		return err_set(err, PROTON_E_INVALID,
			       "an instrumented kernel needs a function, a name and a layout");
	int status = loaded_kernels_add(function, name, layout, &is_amd, err);
	if (status == PROTON_OK) {
		status = driver_bind(is_amd, err);
		if (status != PROTON_OK)
			loaded_kernels_remove(function);
	}
	return status;
}

void proton_instrument_forget(uint64_t function)
{
	loaded_kernels_remove(function);
}

/* ------------------------------------------------------------------ the backend */

static bool is_usable(void)
{
	return false; /* kernels must be compiled for it, so only on request */
}

static int check_mode(const char *mode, struct proton_error *err)
{
	struct instrument_mode read;

	return instrument_mode_read(mode, &read, err);
}

static void forked_intra(void)
{
	atomic_store(&is_running, false);
	pending = (struct pending){0};
	is_measured = false;
	launch_queue_forget();
	device_buffers_forget();
	loaded_kernels_forget();
}

static int start_intra(const char *mode, struct proton_error *err)
{
	struct instrument_mode read;
	int status = instrument_mode_read(mode, &read, err);

	if (status == PROTON_OK)
		status = driver_look(err);
	if (status != PROTON_OK)
		return status;
	loaded_kernels_reset();
	TRY(launch_queue_start(&read, err));
	atomic_store(&launches_kept, read.launches);
	atomic_store(&budget, read.budget);
	atomic_store(&is_running, true);
	return PROTON_OK;
}

static int flush_intra(struct proton_error *err)
{
	launch_queue_flush();
	return PROTON_OK;
}

static void stop_intra(void)
{
	atomic_store(&is_running, false);
	launch_queue_stop();
}

static const char *explain_no_kernels(void)
{
	return "no kernel with scopes was launched; add scopes with triton_proton.language, or use "
	       "mode default:auto=all";
}

const struct backend instrument_backend = {
	.name = "instrumentation",
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start_intra,
	.flush = flush_intra,
	.no_kernels = explain_no_kernels,
	.stop = stop_intra,
	.forked = forked_intra,
};
