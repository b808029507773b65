/* From buffers to profiles, in the background. See collect.h. */
#include "backend/instrument/collect.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/instrument/driver.h"
#include "backend/instrument/kernels.h"
#include "backend/instrument/lanes.h"
#include "backend/instrument/tally.h"
#include "base/clock.h"
#include "base/note.h"
#include "record/devices.h"
#include "record/intra.h"

/* What is copied back at once; larger buffers come in pieces. */
#define STAGE_BYTES ((size_t)16 << 20)
#define CONTEXT_MAX 64u
/* From a launch that finds the device idle to its first instruction; as a rule of thumb. */
#define LAUNCH_LATENCY_NS 4000

/*
 * Slices of one kernel in a trace whose mode does not say how many launches to keep: some 60 MB as
 * Chrome's JSON. The first launch is kept whatever it has.
 */
#define EVENTS_DEFAULT 800000u

/* How often the thread looks for work, and how many times before it waits to be woken: 100 ms. */
#define LOOK_NS 500000
#define LOOKS 200

/* What the thread keeps for each context of the driver. */
struct place {
	void *context;
	void *stream;
	uint32_t device;
	double clock_mhz;
	/* device + offset = program: known to be between these, which launches narrow. */
	int64_t offset_least_ns;
	int64_t offset_most_ns;
	bool has_offset;
	struct decode_cost cost;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	pthread_cond_t is_done;
	pthread_t thread;
	bool is_running;
	bool is_stopping;
	bool is_waiting;      /* the thread, for work */
	struct buffer *first; /* the queue */
	struct buffer **last;
	uint64_t put; /* how many ever */
	uint64_t done;
	struct buffer *graphs; /* buffers that belong to graphs */
	struct buffer *left;   /* the same of sessions that have ended */
} shared = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.has_work = PTHREAD_COND_INITIALIZER,
	.is_done = PTHREAD_COND_INITIALIZER,
	.last = &shared.first,
};

static pthread_mutex_t totals_lock = PTHREAD_MUTEX_INITIALIZER; /* of every kernel's totals */

/* The thread's own. */
static struct {
	struct instrument_mode mode;
	struct decode_cost cost; /* that the user has given */
	bool is_cost_given;
	struct place places[CONTEXT_MAX];
	uint32_t place_count;
	void *stage; /* pinned */
	struct lanes lanes;
	bool has_failed; /* said once */
} own;

/* ------------------------------------------------------------------ one buffer */

static void fail(const char *call, int result)
{
	record_intra_count(INTRA_DAMAGED, 1);
	if (own.has_failed || result == 4) /* the driver is being shut down */
		return;
	own.has_failed = true;
	note("records of an instrumented kernel cannot be read: %s failed (%d)", call, result);
}

/* What a record costs, by 10 x major + minor of the chip: measured with bench/intra.py. */
static const struct {
	uint64_t chip;
	struct decode_cost cost;
} known_costs[] = {
	{90, {.empty_cycles = 13, .scope_cycles = 14}}, /* H200: 13.45 and 14.0 */
};

/* The context is current. The user's word comes before what we know of the chip. */
static struct decode_cost cost_here(void)
{
	struct decode_cost none = {0};
	int major = 0;
	int minor = 0;
	int device = 0;

	if (!own.mode.time_shift || own.is_cost_given)
		return own.cost;
	if (driver.cuCtxGetDevice(&device) == 0 &&
	    driver.cuDeviceGetAttribute(&major, DRIVER_ATTRIBUTE_CC_MAJOR, device) == 0 &&
	    driver.cuDeviceGetAttribute(&minor, DRIVER_ATTRIBUTE_CC_MINOR, device) == 0)
		for (size_t i = 0; i < sizeof(known_costs) / sizeof(known_costs[0]); i++)
			if (known_costs[i].chip == (uint64_t)major * 10 + (uint64_t)minor)
				return known_costs[i].cost;
	note("time_shift takes nothing off: what a record costs on sm_%d is not known; "
	     "PROTON_INSTRUMENT_COST says it, bench/intra.py measures it",
	     major * 10 + minor);
	return none;
}

/* The context is current. NULL when it cannot be used. */
static struct place *place_of(void *context)
{
	struct place *place;
	uint64_t clock_khz;

	for (uint32_t i = 0; i < own.place_count; i++)
		if (own.places[i].context == context)
			return &own.places[i];
	if (own.place_count == CONTEXT_MAX)
		return NULL;
	place = &own.places[own.place_count];
	*place = (struct place){.context = context};
	if (driver.cuStreamCreate(&place->stream, DRIVER_STREAM_NON_BLOCKING) != 0)
		return NULL;
	place->device = driver_device(&clock_khz);
	place->clock_mhz = clock_khz ? (double)clock_khz / 1000 : 1000;
	place->cost = cost_here();
	own.place_count++;
	return place;
}

/*
 * A launch cannot begin before it is made nor be seen to have ended before it has: each one narrows
 * what the device's timer can differ by from our clock. Where the two drift, we begin anew.
 */
static void narrow_offset(struct place *place, uint64_t before_ns, uint64_t after_ns,
			  const struct lanes *lanes)
{
	uint64_t first_ns = UINT64_MAX;
	uint64_t last_ns = 0;
	int64_t least;
	int64_t most;

	for (size_t i = 0; i < lanes->unit_count; i++) {
		if (lanes->units[i].start_ns < first_ns)
			first_ns = lanes->units[i].start_ns;
		if (lanes->units[i].end_ns > last_ns)
			last_ns = lanes->units[i].end_ns;
	}
	if (!lanes->unit_count)
		return;
	least = (int64_t)(before_ns - first_ns);
	most = (int64_t)(after_ns - last_ns);
	if (place->has_offset && least <= place->offset_most_ns && most >= place->offset_least_ns) {
		if (least < place->offset_least_ns)
			least = place->offset_least_ns;
		if (most > place->offset_most_ns)
			most = place->offset_most_ns;
	}
	place->offset_least_ns = least;
	place->offset_most_ns = most;
	place->has_offset = true;
}

static int64_t offset_of(const struct place *place)
{
	int64_t room = place->offset_most_ns - place->offset_least_ns;

	if (room < 0)
		room = 0;
	return place->offset_least_ns +
	       (room / 2 < LAUNCH_LATENCY_NS ? room / 2 : LAUNCH_LATENCY_NS);
}

struct collecting {
	struct buffer *buffer;
	struct place *place;
	struct decoder decoder;
	struct tally *tally;
	uint32_t next_slot;
	bool wants_lanes;
};

/* For kernels that are too short to measure the clock, what longer ones have shown is best. */
static void note_clock(struct place *place, const struct decoder *decoder)
{
	for (uint32_t i = 0; i < decoder->layout->unit_count; i++) {
		const struct decode_unit *unit = &decoder->units[i];
		double mhz = unit->is_there ? decode_mhz(decoder->layout, unit, 0) : 0;

		if (mhz > 0)
			place->clock_mhz = mhz;
	}
}

/* The whole CTAs in `bytes` bytes of the stage. */
static bool decode_piece(struct collecting *collecting, size_t bytes)
{
	const struct instrument_layout *layout = collecting->decoder.layout;

	for (size_t at = 0; at + layout->cta_bytes <= bytes; at += layout->cta_bytes) {
		uint32_t cta = collecting->next_slot++ * layout->cta_stride;

		if (at + 3 * (size_t)layout->cta_bytes <= bytes)
			decode_prefetch(layout,
					(const char *)own.stage + at + 2 * layout->cta_bytes);
		if (!decode_cta(&collecting->decoder, (const char *)own.stage + at) ||
		    !tally_add(collecting->tally, &collecting->decoder))
			return false;
		note_clock(collecting->place, &collecting->decoder);
		if (collecting->wants_lanes &&
		    !lanes_add(&own.lanes, &collecting->decoder, collecting->tally, cta,
			       collecting->place->clock_mhz))
			return false;
	}
	return true;
}

static int copy_piece(const struct collecting *collecting, size_t at, size_t bytes)
{
	int result = driver.cuMemcpyDtoHAsync_v2(own.stage, collecting->buffer->address + at, bytes,
						 collecting->place->stream);

	if (result == 0)
		result = driver.cuStreamSynchronize(collecting->place->stream);
	return result;
}

/* Copies and decodes the launch's buffer; what was found is in the tally and the lanes. */
static bool read_buffer(struct collecting *collecting)
{
	size_t cta_bytes = collecting->decoder.layout->cta_bytes;
	size_t piece = STAGE_BYTES / cta_bytes * cta_bytes;
	size_t all = collecting->buffer->used_bytes / cta_bytes * cta_bytes;

	if (!piece || (!own.stage &&
		       driver.cuMemHostAlloc(&own.stage, STAGE_BYTES, DRIVER_HOST_PORTABLE) != 0)) {
		own.stage = NULL;
		fail("cuMemHostAlloc", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	for (size_t at = 0; at < all; at += piece) {
		size_t bytes = all - at < piece ? all - at : piece;
		int result = copy_piece(collecting, at, bytes);

		if (result) {
			fail("copying", result);
			return false;
		}
		if (!decode_piece(collecting, bytes)) {
			fail("decoding, for want of memory,", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	}
	return true;
}

static void add_totals(struct decode_totals *sum, const struct decode_totals *more)
{
	uint64_t *to = (uint64_t *)(void *)sum;
	const uint64_t *from = (const uint64_t *)(const void *)more;

	_Static_assert(sizeof(*sum) % sizeof(*to) == 0, "counters of 64 bits only");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

/* The launch has been decoded; false: this and later ones of the kernel are too many slices. */
static bool has_room(struct kernel *kernel)
{
	uint64_t events = own.lanes.unit_count + own.lanes.event_count;
	bool is_ok;

	pthread_mutex_lock(&totals_lock);
	is_ok = own.mode.has_launches || !kernel->traced ||
		kernel->traced_events + events <= EVENTS_DEFAULT;
	if (is_ok) {
		kernel->traced++;
		kernel->traced_events += events;
	}
	pthread_mutex_unlock(&totals_lock);
	return is_ok;
}

static void hand_on(struct collecting *collecting, uint64_t after_ns)
{
	struct buffer *buffer = collecting->buffer;
	struct kernel *kernel = buffer->kernel;
	const struct decode_totals *totals = &collecting->decoder.totals;
	uint64_t broken = 0;

	tally_commit(collecting->tally, totals->units, collecting->place->device);
	if (collecting->wants_lanes) {
		narrow_offset(collecting->place, buffer->before_ns, after_ns, &own.lanes);
		if (!has_room(kernel))
			atomic_fetch_add_explicit(&kernel->untraced, 1, memory_order_relaxed);
		else if (!lanes_commit(&own.lanes, collecting->tally, collecting->place->device,
				       offset_of(collecting->place)))
			fail("keeping events, for want of memory,", DRIVER_OUT_OF_MEMORY);
	}
	for (uint32_t i = 0; i < collecting->decoder.layout->scope_count; i++)
		broken += totals->broken[i];
	record_intra_count(INTRA_DROPPED, totals->dropped);
	record_intra_count(INTRA_BROKEN, broken);
	record_intra_count(INTRA_DAMAGED, totals->damaged);
	pthread_mutex_lock(&totals_lock);
	add_totals(&kernel->totals, totals);
	pthread_mutex_unlock(&totals_lock);
}

/* The launch has ended and its context is current. False: the buffer cannot be used again. */
static bool collect(struct buffer *buffer, uint64_t after_ns)
{
	struct collecting collecting = {.buffer = buffer, .place = place_of(buffer->context)};
	struct place *place = collecting.place;

	if (!place) {
		fail("cuStreamCreate", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	if (buffer->kernel) {
		decoder_init(&collecting.decoder, &buffer->kernel->layout, place->cost);
		collecting.tally = tally_of(buffer->kernel, buffer->where);
		collecting.wants_lanes = buffer->is_kept;
		if (collecting.tally && read_buffer(&collecting))
			hand_on(&collecting, after_ns);
		own.lanes.unit_count = 0;
		own.lanes.event_count = 0;
		decoder_fini(&collecting.decoder);
	}
	return driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, place->stream) == 0 &&
	       driver.cuStreamSynchronize(place->stream) == 0;
}

/* ------------------------------------------------------------------ the thread */

/* The first launch in the queue that has ended, else the oldest, NULL if none; locked. */
static struct buffer *take(void)
{
	struct buffer **at = &shared.first;
	struct buffer *buffer;

	while (*at && driver.cuEventQuery((*at)->event) == DRIVER_NOT_READY)
		at = &(*at)->next;
	if (!*at)
		at = &shared.first;
	buffer = *at;
	if (!buffer)
		return NULL;
	*at = buffer->next;
	if (shared.last == &buffer->next)
		shared.last = at;
	return buffer;
}

static void work(struct buffer *buffer)
{
	void *popped;
	bool is_good = false;
	int result = driver.cuCtxPushCurrent_v2(buffer->context);

	if (result == 0) {
		result = driver.cuEventSynchronize(buffer->event);
		if (result == 0)
			is_good = collect(buffer, clock_monotonic_ns());
		else
			fail("cuEventSynchronize", result);
		driver.cuCtxPopCurrent_v2(&popped);
	} else {
		fail("cuCtxPushCurrent", result);
	}
	if (is_good)
		pool_give(buffer);
	else
		pool_drop(buffer);
}

/*
 * While launches follow each other we look for them now and then: to wake a thread costs the
 * launching one more than all else that it does for us. The lock is held.
 */
static void wait_for_work(void)
{
	for (int idle = 0; !shared.first && !shared.is_stopping; idle++) {
		struct timespec until;

		if (idle >= LOOKS) {
			shared.is_waiting = true;
			pthread_cond_wait(&shared.has_work, &shared.lock);
			shared.is_waiting = false;
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&shared.has_work, &shared.lock, &until);
	}
}

static void *run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "proton-intra");
	driver_enter(); /* whoever captures a graph is not disturbed by us */
	pthread_mutex_lock(&shared.lock);
	for (;;) {
		struct buffer *buffer;

		wait_for_work();
		buffer = take();
		if (!buffer)
			break;
		pthread_mutex_unlock(&shared.lock);
		work(buffer);
		pthread_mutex_lock(&shared.lock);
		shared.done++;
		pthread_cond_broadcast(&shared.is_done);
	}
	pthread_mutex_unlock(&shared.lock);
	return NULL;
}

void collect_put(struct buffer *buffer)
{
	pthread_mutex_lock(&shared.lock);
	if (!shared.is_running) {
		/* The last session has ended meanwhile: it may be in use, so it is not reused. */
		pthread_mutex_unlock(&shared.lock);
		pool_drop(buffer);
		return;
	}
	buffer->next = NULL;
	*shared.last = buffer;
	shared.last = &buffer->next;
	shared.put++;
	if (shared.is_waiting)
		pthread_cond_signal(&shared.has_work);
	pthread_mutex_unlock(&shared.lock);
}

void collect_put_graph(struct buffer *buffer)
{
	pthread_mutex_lock(&shared.lock);
	buffer->next = shared.graphs;
	shared.graphs = buffer;
	pthread_mutex_unlock(&shared.lock);
}

/* "EMPTY,SCOPE", in cycles. */
static bool read_cost(const char *text, struct decode_cost *out)
{
	char *end;
	unsigned long empty = strtoul(text, &end, 10);
	const char *second = end + 1;
	unsigned long scope;

	if (end == text || *end != ',')
		return false;
	scope = strtoul(second, &end, 10);
	if (end == second || *end || empty > UINT32_MAX || scope > UINT32_MAX)
		return false;
	*out = (struct decode_cost){.empty_cycles = (uint32_t)empty,
				    .scope_cycles = (uint32_t)scope};
	return true;
}

int collect_start(const struct instrument_mode *mode, struct proton_error *err)
{
	const char *cost = getenv("PROTON_INSTRUMENT_COST");
	int result;

	own.mode = *mode;
	own.has_failed = false;
	own.cost = (struct decode_cost){0};
	if (mode->time_shift && cost && !read_cost(cost, &own.cost))
		return err_set(err, PROTON_E_INVALID,
			       "PROTON_INSTRUMENT_COST is two numbers of cycles with a comma "
			       "between them, not \"%s\"",
			       cost);
	own.is_cost_given = cost != NULL;
	shared.is_stopping = false;
	result = pthread_create(&shared.thread, NULL, run, NULL);
	if (result)
		return err_errno(err, result,
				 "cannot start the thread that reads kernels' records");
	pthread_mutex_lock(&shared.lock);
	shared.is_running = true;
	pthread_mutex_unlock(&shared.lock);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ flushing */

/* What a graph's last replay has left. The thread is idle: the calling thread takes its place. */
static void look_at_graph(struct buffer *buffer)
{
	int mode = driver_enter();
	void *popped;

	if (driver.cuCtxPushCurrent_v2(buffer->context) == 0) {
		/* Refused while something is captured: then the next flush looks. */
		if (driver.cuCtxSynchronize() == 0)
			collect(buffer, clock_monotonic_ns());
		driver.cuCtxPopCurrent_v2(&popped);
	}
	driver_leave(mode);
}

/* "; a, 12 of b" */
static void list_broken(const struct kernel *kernel, char *text, size_t capacity)
{
	size_t used = 0;

	for (uint32_t i = 0; i < kernel->layout.scope_count && used < capacity; i++)
		if (kernel->totals.broken[i])
			used += (size_t)snprintf(text + used, capacity - used,
						 "%s%" PRIu64 " of %s", used ? ", " : "",
						 kernel->totals.broken[i],
						 kernel->layout.scopes[i]);
}

/* Once per kernel what went wrong, not once per warp. */
static void report(struct kernel *kernel)
{
	const struct decode_totals *totals = &kernel->totals;
	uint64_t unsampled = atomic_exchange(&kernel->unsampled, 0);
	uint64_t untraced = atomic_exchange(&kernel->untraced, 0);
	uint32_t warps = 0;
	char broken[512] = "";

	record_intra_count(INTRA_UNSAMPLED, unsampled + untraced);
	if (untraced)
		note("%s: the timeline holds %" PRIu64 " launches and not %" PRIu64
		     " more: launches=all, or a number, in the mode keeps more",
		     kernel->name, kernel->traced, untraced);
	for (uint32_t i = 0; i < INSTRUMENT_UNIT_MAX; i++)
		warps += totals->dropped_warp[i] != 0;
	if (totals->dropped)
		note("%s: %" PRIu64 " of %" PRIu64
		     " records, in %u of its warps, were overwritten by "
		     "later ones: a larger buffer_size keeps more",
		     kernel->name, totals->dropped, totals->records, warps);
	list_broken(kernel, broken, sizeof(broken));
	if (*broken)
		note("%s: a start or an end is missing, or the compiler has moved it: %s",
		     kernel->name, broken);
	if (totals->damaged || totals->lost_units)
		note("%s: %" PRIu64 " records could not be read, %" PRIu64 " warps did not end",
		     kernel->name, totals->damaged, totals->lost_units);
	kernel->totals = (struct decode_totals){0};
}

void collect_flush(void)
{
	uint64_t until;

	pthread_mutex_lock(&shared.lock);
	until = shared.put;
	pthread_cond_signal(&shared.has_work);
	while (shared.is_running && shared.done < until)
		pthread_cond_wait(&shared.is_done, &shared.lock);
	/* Graphs are looked at in the thread's place, so it must be idle, and is while we lock. */
	while (shared.is_running && shared.graphs && shared.done < shared.put)
		pthread_cond_wait(&shared.is_done, &shared.lock);
	for (struct buffer *buffer = shared.graphs; buffer; buffer = buffer->next)
		look_at_graph(buffer);
	pthread_mutex_unlock(&shared.lock);
	pthread_mutex_lock(&totals_lock);
	kernels_visit(report);
	pthread_mutex_unlock(&totals_lock);
}

/* Contexts may be gone by the next run, and their handles used again. */
static void close_places(void)
{
	void *popped;

	for (uint32_t i = 0; i < own.place_count; i++) {
		if (driver.cuCtxPushCurrent_v2(own.places[i].context) != 0)
			continue;
		driver.cuStreamDestroy_v2(own.places[i].stream);
		if (own.stage && i == 0)
			driver.cuMemFreeHost(own.stage);
		driver.cuCtxPopCurrent_v2(&popped);
	}
	own.stage = NULL;
	own.place_count = 0;
}

void collect_stop(void)
{
	struct buffer *buffer;

	collect_flush();
	pthread_mutex_lock(&shared.lock);
	shared.is_stopping = true;
	shared.is_running = false;
	pthread_cond_signal(&shared.has_work);
	pthread_mutex_unlock(&shared.lock);
	pthread_join(shared.thread, NULL);
	/* Graphs live on and write into theirs: that memory is never given back. */
	pthread_mutex_lock(&shared.lock);
	while ((buffer = shared.graphs) != NULL) {
		shared.graphs = buffer->next;
		buffer->next = shared.left;
		shared.left = buffer;
	}
	pthread_mutex_unlock(&shared.lock);
	close_places();
	lanes_fini(&own.lanes);
	tally_clear();
	pool_empty();
}

void collect_forget(void)
{
	pthread_mutex_init(&shared.lock, NULL);
	pthread_mutex_init(&totals_lock, NULL);
	pthread_cond_init(&shared.has_work, NULL);
	pthread_cond_init(&shared.is_done, NULL);
	shared.is_running = false;
	shared.is_stopping = false;
	shared.is_waiting = false;
	shared.first = NULL;
	shared.last = &shared.first;
	shared.put = 0;
	shared.done = 0;
	shared.graphs = NULL;
	own.place_count = 0;
	own.stage = NULL;
}
