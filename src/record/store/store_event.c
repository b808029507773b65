/* Trace events of a session; rows for the program's threads are filled by thread_trace.c. */

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "record/names/frames.h"
#include "record/store/store_rows.h"

/* The offset from monotonic time to Unix time: constant for the life of the process. */
static _Atomic uint64_t unix_offset_ns;

uint64_t store_event_unix_offset_ns(void)
{
	uint64_t offset_ns = atomic_load_explicit(&unix_offset_ns, memory_order_relaxed);
	uint64_t expected = 0;

	if (offset_ns)
		return offset_ns;
	offset_ns = clock_real_ns() - clock_monotonic_ns();
	if (!atomic_compare_exchange_strong(&unix_offset_ns, &expected, offset_ns))
		offset_ns = expected;
	return offset_ns;
}

int store_event_init(struct store *store, struct proton_error *err)
{
	/* By its row 0 readers see that it is a trace. */
	if (!profile_file_append(&store->file, TABLE_EVENTS, 1))
		return err_errno(err, store->file.errnum, "cannot create the profile");
	store_commit(store, TABLE_EVENTS);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ lanes */

static uint32_t add_lane(struct store *store, const struct row_lane *lane)
{
	uint64_t index = store->file.tables[TABLE_LANES].rows;
	struct row_lane *row = store_append(store, TABLE_LANES, 1);

	if (!row) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return LANE_NONE;
	}
	*row = *lane;
	store_commit(store, TABLE_LANES);
	return (uint32_t)index;
}

uint32_t store_event_thread_lane(struct store *store, uint64_t id, const char *name)
{
	return add_lane(store,
			&(struct row_lane){.kind = LANE_THREAD,
					   .id = id,
					   .number = store->thread_count++,
					   .name = store_new_string(store, name, strlen(name))});
}

static uint32_t stream_lane(struct store *store, uint32_t device, uint32_t stream)
{
	const struct row_lane *rows = profile_file_rows(&store->file, TABLE_LANES);
	uint64_t count = store->file.tables[TABLE_LANES].rows;
	uint32_t *cached = &store->lanes[(device * 31 + stream) % STORE_LANE_CACHE];

	if (*cached < count && rows[*cached].kind == LANE_STREAM &&
	    rows[*cached].device == device && rows[*cached].id == stream)
		return *cached;
	for (uint32_t i = 0; i < count; i++)
		if (rows[i].kind == LANE_STREAM && rows[i].device == device && rows[i].id == stream)
			return *cached = i;
	return *cached = add_lane(store, &(struct row_lane){.kind = LANE_STREAM,
							    .device = device,
							    .id = stream});
}

/* ------------------------------------------------------------------ device events */

/* The row of a launch configuration: the latest one with its hash, or a new one. */
static uint32_t launch_of(struct store *store, const struct launch_config *config)
{
	struct row_launch wanted = {.config = *config};
	struct row_launch *rows = profile_file_rows(&store->file, TABLE_LAUNCHES);

	if (!config->grid[0])
		return 0; /* unknown */
	uint32_t *cached =
		&store->launches[hash_bytes(&wanted, sizeof(wanted)) % STORE_LAUNCH_CACHE];
	if (*cached && memcmp(&rows[*cached], &wanted, sizeof(wanted)) == 0)
		return *cached;
	uint32_t row = store_new_row(store, TABLE_LAUNCHES);
	if (!row)
		return 0;
	rows[row] = wanted;
	store_commit(store, TABLE_LAUNCHES);
	return *cached = row;
}

/* Fills a row: the kind last, as threads do. */
static void fill_event(struct row_event *row, struct row_event event)
{
	uint16_t kind = event.kind;

	event.kind = EVENT_NONE;
	*row = event;
	/* release: readers of the kind find the rest of the row filled */
	__atomic_store_n(&row->kind, kind, __ATOMIC_RELEASE);
}

/* The row for a device's event, and the next one for a large size; 0: there is no space. */
static uint32_t take_rows(struct store *store, bool has_size)
{
	struct reserved_rows *rows = &store->own_events;

	if (has_size && rows->next + 1 == rows->end)
		rows->next++; /* stays unused */
	return store_event_rows_next(store, rows, TABLE_EVENTS);
}

/* The launch's row, if of the same epoch: others may have been cleared and used again. */
static uint32_t launch_event(const struct store *store, const struct trace_event *launch,
			     uint32_t epoch)
{
	uint32_t row = trace_event_row(launch, store->trace_serial);

	return row && store_event_at(store, row)->epoch == epoch ? row : 0;
}

void store_event_add_device(struct store *store, uint32_t node, uint32_t device, uint32_t epoch,
			    const struct execution *execution)
{
	uint32_t lane = stream_lane(store, device, execution->stream);
	uint64_t detail = execution->is_memory ? execution->bytes
					       : launch_of(store, &execution->config);
	bool has_size = execution->is_memory && detail >= UINT32_MAX;
	uint32_t at = lane == LANE_NONE ? 0 : take_rows(store, has_size);

	if (!at)
		return;
	if (has_size)
		fill_event(store_event_at(store, store->own_events.next++),
			   (struct row_event){
				   .start_ns = detail,
				   .lane = lane,
				   .epoch = epoch,
				   .kind = EVENT_SIZE,
			   });
	fill_event(store_event_at(store, at),
		   (struct row_event){
			   .start_ns = execution->start_ns + store_event_unix_offset_ns(),
			   .end_ns = execution->end_ns + store_event_unix_offset_ns(),
			   .node = node,
			   .lane = lane,
			   .epoch = epoch,
			   .link = launch_event(store, execution->launch, epoch),
			   .detail = detail < UINT32_MAX ? (uint32_t)detail : UINT32_MAX,
			   .kind = execution->is_set      ? EVENT_SET
				   : execution->is_memory ? EVENT_COPY
							  : EVENT_KERNEL,
			   .flags = execution->is_of_graph ? EVENT_OF_GRAPH : 0,
		   });
}

/* ------------------------------------------------------------------ intra-kernel events */

/* Lanes in a row for a unit of kernel `frame` on `device` (a row): the first, or LANE_NONE. */
static uint32_t unit_lanes(struct store *store, uint32_t device, uint32_t frame,
			   const struct intra_unit *unit)
{
	uint64_t first = store->file.tables[TABLE_LANES].rows;
	struct row_lane *rows = store_append(store, TABLE_LANES, unit->line_count);
	uint32_t name = store_string(store, frames_get(frame)->name);

	if (!rows) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return LANE_NONE;
	}
	for (uint32_t line = 0; line < unit->line_count; line++)
		rows[line] = (struct row_lane){
			.kind = LANE_UNIT,
			.device = device,
			.id = (uint64_t)unit->processor << 32 | unit->cta,
			.number = line << 16 | unit->warp,
			.name = name,
		};
	store_commit(store, TABLE_LANES);
	return (uint32_t)first;
}

static void note_span(struct store *store, const struct intra_span *span)
{
	/* Without memory the estimated times are kept. */
	if (span->link && span->count)
		(void)ARRAY_ADD(store->spans, store->span_count, *span);
}

static uint32_t make_node(struct store *store, struct proton_context where, uint32_t epoch,
			  bool wants_source)
{
	return store_make_node(store, wants_source ? where.source : where.shadow, epoch);
}

/* Makes the nodes of the scopes, and the lanes of the units. False: there is no space. */
static bool make_rows(struct store *store, const struct intra_launch *launch, uint32_t epoch,
		      bool wants_source, uint32_t *nodes, uint32_t *lanes)
{
	uint32_t device = store_device(store, launch->device);
	bool has_space = device != UINT32_MAX;

	for (size_t i = 0; has_space && i < launch->node_count; i++)
		nodes[i] = make_node(store, launch->nodes[i], epoch, wants_source);
	for (size_t i = 0; has_space && i < launch->unit_count; i++) {
		lanes[i] = unit_lanes(store, device, launch->frame, &launch->units[i]);
		has_space = lanes[i] != LANE_NONE;
	}
	return has_space;
}

static void fill_rows(struct store *store, const struct intra_launch *launch, uint32_t epoch,
		      struct intra_span *span, const uint32_t *nodes, const uint32_t *lanes)
{
	uint64_t offset_ns = store_event_unix_offset_ns();
	struct row_event *row = store_event_at(store, span->first);

	for (size_t i = 0; i < launch->unit_count; i++, row++) {
		const struct intra_unit *unit = &launch->units[i];

		*row = (struct row_event){
			.start_ns = unit->start_ns + offset_ns,
			.end_ns = unit->end_ns + offset_ns,
			.node = span->node,
			.lane = lanes[i],
			.epoch = epoch,
			.detail = unit->finalize_ns,
			.kind = EVENT_UNIT,
			.flags = unit->clock_mhz,
		};
		if (row->start_ns < span->start_ns)
			span->start_ns = row->start_ns;
		if (row->end_ns > span->end_ns)
			span->end_ns = row->end_ns;
	}
	for (size_t i = 0; i < launch->event_count; i++, row++) {
		const struct intra_event *event = &launch->events[i];

		*row = (struct row_event){
			.start_ns = event->start_ns + offset_ns,
			.end_ns = event->end_ns + offset_ns,
			.node = nodes[event->node],
			.lane = lanes[event->unit] + event->line,
			.epoch = epoch,
			.link = event->end_step ? lanes[(int64_t)event->unit + event->end_step] + 1
						: 0,
			.detail = event->cycles,
			/* without its node it counts as a row that is not filled */
			.kind = nodes[event->node] ? EVENT_SECTION : EVENT_NONE,
			.flags = (uint16_t)((event->is_async ? EVENT_ASYNC : 0) |
					    (event->is_partial ? EVENT_PARTIAL : 0)),
		};
	}
}

/* Missing space is counted by the functions that need it. */
bool store_event_add_intra(struct store *store, const struct intra_launch *launch, uint32_t epoch,
			   bool wants_source)
{
	uint64_t count = launch->unit_count + launch->event_count;
	struct intra_span span = {
		.count = (uint32_t)count,
		.link = trace_event_row(launch->event, store->trace_serial),
		.node = make_node(store, launch->where, epoch, wants_source),
		.start_ns = UINT64_MAX,
	};
	AUTO_FREE uint32_t *nodes = calloc(launch->node_count + 1, sizeof(*nodes));
	AUTO_FREE uint32_t *lanes = calloc(launch->unit_count + 1, sizeof(*lanes));
	bool has_memory = nodes && lanes;

	if (has_memory && span.node &&
	    make_rows(store, launch, epoch, wants_source, nodes, lanes)) {
		if (count < UINT32_MAX)
			span.first = store_event_rows_take(store, TABLE_EVENTS, span.count);
		if (span.first) {
			fill_rows(store, launch, epoch, &span, nodes, lanes);
			store_event_rows_seal(store, span.first, span.count);
			note_span(store, &span);
		} else {
			store_counters_add(store, COUNTER_LOST_STORAGE, count - 1);
		}
	}
	return has_memory;
}

/* ------------------------------------------------------------------ alignment */

/*
 * Alignment of warps with the slice of their kernel. A launch has times from two clocks: the vendor
 * library's record has the time of the kernel. The kernel's own records have the times of its warps
 * on the device's global timer, and are moved to the program's clock by an estimate. If both are
 * known, the warps are moved into the kernel's time, which all other events in the trace relate to.
 */

ARRAY_ORDER(compare_spans, struct intra_span,
	    ORDER_OF(a->link, b->link) ?: ORDER_OF(a->first, b->first))

/* The first waiting launch of `link`; a launch that a hook named may be several kernels. */
static struct intra_span *find_span(const struct store *store, uint32_t link, uint32_t node)
{
	struct intra_span *spans = store->spans;

	for (size_t at = ARRAY_COUNT_BEFORE(store->span_count, i, spans[i].link < link);
	     at < store->span_count && spans[at].link == link; at++)
		if (!spans[at].is_aligned && spans[at].node == node)
			return &spans[at];
	return NULL;
}

/*
 * The kernel takes a microsecond or two longer than its warps: the launch, and detecting the end.
 * Half of the difference is put before the warps and half after them, because neither clock tells
 * more.
 */
static void move_span(const struct store *store, struct intra_span *span,
		      const struct row_event *kernel)
{
	int64_t slack_ns = (int64_t)(kernel->end_ns - kernel->start_ns) -
			   (int64_t)(span->end_ns - span->start_ns);
	uint64_t by_ns = kernel->start_ns + (uint64_t)(slack_ns / 2) - span->start_ns;

	for (uint32_t row = span->first; row < span->first + span->count; row++) {
		struct row_event *event = store_event_at(store, row);

		event->start_ns += by_ns;
		event->end_ns += by_ns;
	}
	span->is_aligned = true;
}

void store_event_align(struct store *store)
{
	uint64_t rows = store->file.tables[TABLE_EVENTS].rows;
	size_t left = 0;

	if (!store->span_count)
		return;
	ARRAY_SORT(store->spans, store->span_count, compare_spans);
	for (uint64_t row = 1; row < rows; row++) {
		const struct row_event *event = store_event_at(store, (uint32_t)row);

		/* acquire: a thread that fills a row stores the kind last */
		if (__atomic_load_n(&event->kind, __ATOMIC_ACQUIRE) != EVENT_KERNEL || !event->link)
			continue;
		struct intra_span *span = find_span(store, event->link, event->node);
		if (span)
			move_span(store, span, event);
	}
	for (size_t i = 0; i < store->span_count; i++)
		if (!store->spans[i].is_aligned)
			store->spans[left++] = store->spans[i];
	store->span_count = left;
}

/* ------------------------------------------------------------------ metrics of events */

void store_event_link_sample(const struct store *store, uint32_t event, uint32_t at,
			     const struct row_value *value)
{
	struct row_sample *rows = profile_file_rows(&store->file, TABLE_SAMPLES);
	struct row_event *row = store_event_at(store, event);

	rows[at].next = row->link;
	rows[at].metric = value->metric;
	memcpy(&rows[at].as, &value->as, sizeof(rows[at].as));
	/* release: readers of the link find the sample filled */
	__atomic_store_n(&row->link, at, __ATOMIC_RELEASE);
}
