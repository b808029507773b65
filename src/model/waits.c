/* Waiting in collectives: series of occurrences, their sums, loading. */
#include "model/waits.h"

#include "base/array.h"
#include "model/clamped.h"
#include "model/merge.h"
#include "model/profile.h"

#define SERIES_MAX 65536u
#define ITEMS_MAX 16384u                /* per series; the recorder has fewer */
#define ITEMS_ALL_MAX ((size_t)1 << 19) /* in all series: 12 MiB */
#define GROUP_BYTES_MAX 4096u

void waits_free(struct profile_waits *waits)
{
	if (!waits)
		return;
	for (size_t i = 0; i < waits->count; i++)
		free(waits->series[i].items);
	free(waits->series);
	free(waits->durations);
	hash_table_fini(&waits->index);
	free(waits);
}

static struct profile_waits *waits_of(struct profile *profile)
{
	if (!profile->waits)
		profile->waits = calloc(1, sizeof(*profile->waits));
	if (!profile->waits)
		profile->out_of_memory = true;
	return profile->waits;
}

/* ------------------------------------------------------------------ series */

static uint64_t key_of_wait(const struct row_wait *row)
{
	return hash_pair(row->node * 2 + (row->flags & COLLECTIVE_HOST), row->group);
}

/* The series with the node, kind and communicator of `row`; NULL: too many, or out of memory. */
static struct wait_series *series_at(struct profile *profile, const struct row_wait *row)
{
	struct profile_waits *waits = waits_of(profile);
	uint32_t found = waits ? hash_table_find(&waits->index, key_of_wait(row)) : 0;

	if (found)
		return &waits->series[found - 1];
	if (!waits || waits->count >= SERIES_MAX)
		return NULL;
	if (!ARRAY_ADD(waits->series, waits->count,
		       (struct wait_series){.row = {.node = row->node,
						    .flags = row->flags & COLLECTIVE_HOST,
						    .group = row->group,
						    .groups = 1,
						    .stride = 1}}) ||
	    !hash_table_add(&waits->index, key_of_wait(row), (uint32_t)waits->count)) {
		profile->out_of_memory = true;
		return NULL;
	}
	return &waits->series[waits->count - 1];
}

/* Drops every second occurrence. */
static void halve_series(struct profile_waits *waits, struct wait_series *series)
{
	uint32_t kept = (series->row.rows + 1) / 2;

	for (uint32_t i = 1; i < kept; i++)
		series->items[i] = series->items[2 * i];
	waits->occurrences -= series->row.rows - kept;
	series->row.rows = kept;
	series->row.stride *= 2;
	struct row_occurrence *items = kept ? realloc(series->items, kept * sizeof(*items)) : NULL;
	if (items) {
		series->items = items;
		series->capacity = kept;
	}
}

static void widen_series(struct profile_waits *waits, struct wait_series *series, uint32_t stride)
{
	while (series->row.stride < stride)
		halve_series(waits, series);
}

/* The occurrences of a series when the source's are added. */
static uint32_t expected(const struct wait_series *series, uint32_t serial)
{
	uint64_t end = series->serial == serial ? series->end : 0;
	uint64_t rows = (end + series->row.stride - 1) / series->row.stride;

	rows = rows < ITEMS_MAX ? rows : ITEMS_MAX;
	return rows > series->row.rows ? (uint32_t)rows : series->row.rows;
}

/*
 * Makes the strides so large that the occurrences of the source fit, before any is added: a few
 * bytes of a file may be an occurrence that is far away.
 */
static void make_space(struct profile_waits *waits)
{
	size_t sum;

	do {
		sum = 0;
		for (size_t i = 0; i < waits->count; i++)
			sum += expected(&waits->series[i], waits->serial);
		for (size_t i = 0; i < waits->count && sum > ITEMS_ALL_MAX; i++)
			if (expected(&waits->series[i], waits->serial) > 1)
				halve_series(waits, &waits->series[i]);
	} while (sum > ITEMS_ALL_MAX);
}

/* The order of equal durations: another one each time, and the same in any grouping. */
static uint32_t order_of_rank(uint32_t number, uint32_t rank)
{
	uint32_t x = (number * 0x9e3779b9u ^ rank) * 0x85ebca6bu;

	return (x ^ x >> 15) * 0xc2b2ae35u;
}

static bool is_later(const struct row_occurrence *a, const struct row_occurrence *b,
		     uint32_t number)
{
	uint32_t lot_a = order_of_rank(number, a->last_rank);
	uint32_t lot_b = order_of_rank(number, b->last_rank);

	if (a->code != b->code)
		return a->code < b->code;
	return lot_a != lot_b ? lot_a < lot_b : a->last_rank < b->last_rank;
}

/* Adds to occurrence `number` of a series, which is a multiple of its stride. */
static void add_occurrence(struct profile *profile, struct wait_series *series, uint32_t number,
			   const struct row_occurrence *added)
{
	uint32_t at = number / series->row.stride;

	if (!added->ranks)
		return;
	if (at >= ITEMS_MAX) {
		profile->is_damaged = true;
		return;
	}
	if (!array_reserve(&series->items, &series->capacity, (size_t)at + 1,
			   sizeof(*series->items))) {
		profile->out_of_memory = true;
		return;
	}
	if (at >= series->row.rows) {
		memset(series->items + series->row.rows, 0,
		       (at + 1 - series->row.rows) * sizeof(*series->items));
		profile->waits->occurrences += at + 1 - series->row.rows;
		series->row.rows = at + 1;
	}
	struct row_occurrence *item = &series->items[at];
	if (!item->ranks || is_later(added, item, number)) {
		item->last_rank = added->last_rank;
		item->code = added->code;
	}
	item->sum_ns = clamped_u64(item->sum_ns, added->sum_ns);
	item->ranks = clamped_u32(item->ranks, added->ranks);
}

/* The series of the target for a node of a source; NULL: there is none. */
static struct wait_series *target_series(struct profile *target, const struct merge_maps *maps,
					 uint32_t node, uint32_t flags, const char *group)
{
	struct row_wait key = {.node = maps->nodes[node], .flags = flags};

	if (maps->other && key.node == maps->other)
		return NULL;
	key.group = profile_add_text(target, group);
	return series_at(target, &key);
}

/* ------------------------------------------------------------------ one rank */

static const char *group_of(const struct profile *source, const struct row_durations *row,
			    uint32_t metric)
{
	uint32_t node = row->node;

	if (row->group || metric == UINT32_MAX)
		return profile_text(source, row->group);
	do {
		for (uint32_t v = source->nodes[node].first_value; v; v = source->values[v].next)
			if (source->values[v].metric == metric)
				return profile_text(source, source->values[v].as.string);
		node = source->nodes[node].parent;
	} while (node);
	return "";
}

static uint32_t group_metric(const struct profile *source)
{
	for (uint32_t i = 0; i < source->metric_count; i++)
		if (source->metrics[i].type == PROTON_METRIC_STRING &&
		    strcmp(profile_text(source, source->metrics[i].name), GROUP_METRIC) == 0)
			return i;
	return UINT32_MAX;
}

const char *waits_group(const struct profile *source, const struct row_durations *row)
{
	return group_of(source, row, group_metric(source));
}

static void add_durations(struct profile *target, struct wait_series *series,
			  const struct row_durations *row, uint32_t rank)
{
	for (uint32_t i = 0; i < row->count; i++) {
		uint32_t number = row->first + i * row->stride;
		struct row_occurrence one = {
			.sum_ns = duration_of_code(row->code[i]),
			.ranks = 1,
			.last_rank = rank,
			.code = row->code[i],
		};

		if (!(number & (series->row.stride - 1)))
			add_occurrence(target, series, number, &one);
	}
}

/* The series of a source's row; NULL: there is none. */
static struct wait_series *series_of(struct profile *target, const struct profile *source,
				     const struct merge_maps *maps, uint32_t metric, size_t i)
{
	const struct row_durations *row = &source->waits->durations[i];

	return target_series(target, maps, row->node, row->flags, group_of(source, row, metric));
}

/* Notes which occurrences a row of this source has; `time_ns` is its rank's. */
static void announce(struct profile_waits *waits, struct wait_series *series,
		     const struct row_durations *row, uint64_t time_ns)
{
	uint64_t end = row->first + (uint64_t)row->count * row->stride;

	if (series->serial != waits->serial) {
		series->serial = waits->serial;
		series->end = 0;
		series->row.ranks++;
		series->row.time_ns = clamped_u64(series->row.time_ns, time_ns);
	}
	series->end = end > series->end ? end : series->end;
	widen_series(waits, series, row->stride);
}

void waits_add(struct profile *target, const struct profile *source, const struct merge_maps *maps,
	       uint32_t rank, uint64_t kernel_ns)
{
	const struct profile_waits *from = source->waits;
	uint64_t run_ns = source->end_ns > source->start_ns ? source->end_ns - source->start_ns : 0;
	uint32_t metric = group_metric(source);
	struct profile_waits *waits = from && from->duration_count ? waits_of(target) : NULL;
	struct wait_series *series;

	if (!waits)
		return;
	waits->serial++;
	for (size_t i = 0; i < from->duration_count && !target->out_of_memory; i++)
		if ((series = series_of(target, source, maps, metric, i)))
			announce(waits, series, &from->durations[i],
				 from->durations[i].flags & COLLECTIVE_HOST ? run_ns : kernel_ns);
	make_space(waits);
	for (size_t i = 0; i < from->duration_count && !target->out_of_memory; i++)
		if ((series = series_of(target, source, maps, metric, i)))
			add_durations(target, series, &from->durations[i], rank);
}

void waits_copy(struct profile *target, const struct profile *source, const struct merge_maps *maps)
{
	const struct profile_waits *from = source->waits;
	struct profile_waits *waits = from && from->duration_count ? waits_of(target) : NULL;

	for (size_t i = 0; waits && i < from->duration_count; i++) {
		struct row_durations row = from->durations[i];
		const char *group = profile_text(source, row.group);

		row.node = maps->nodes[row.node];
		row.group = profile_add_text(target, group);
		if (!ARRAY_ADD(waits->durations, waits->duration_count, row))
			target->out_of_memory = true;
	}
}

/* ------------------------------------------------------------------ parts */

void waits_add_part(struct profile *target, const struct profile *source,
		    const struct merge_maps *maps)
{
	const struct profile_waits *from = source->waits;

	if (!from || !waits_of(target))
		return;
	for (size_t i = 0; i < from->count && !target->out_of_memory; i++) {
		const struct wait_series *part = &from->series[i];
		struct wait_series *series = target_series(target, maps, part->row.node,
							   part->row.flags,
							   profile_text(source, part->row.group));

		if (!series)
			continue;
		widen_series(target->waits, series, part->row.stride);
		series->row.ranks = clamped_u32(series->row.ranks, part->row.ranks);
		series->row.time_ns = clamped_u64(series->row.time_ns, part->row.time_ns);
		for (uint32_t k = 0; k < part->row.rows; k++)
			if (!(k * part->row.stride & (series->row.stride - 1)))
				add_occurrence(target, series, k * part->row.stride,
					       &part->items[k]);
	}
	make_space(target->waits);
}

/* ------------------------------------------------------------------ the whole job */

/* The waiting for one rank. */
struct late {
	uint32_t rank;
	uint32_t count;
	uint64_t wait_ns;
};

ARRAY_ORDER(compare_late, struct late, ORDER_OF(a->rank, b->rank))

static bool is_worse(const struct late *late, uint64_t ns, uint32_t rank, uint32_t count)
{
	if (!count || late->wait_ns != ns)
		return !count || late->wait_ns > ns;
	return late->rank < rank;
}

static void add_top(struct row_wait *row, const struct late *late, uint32_t of)
{
	uint32_t at = WAIT_TOP;

	while (at &&
	       is_worse(late, row->top_ns[at - 1], row->top_rank[at - 1], row->top_count[at - 1]))
		at--;
	if (at == WAIT_TOP)
		return;
	for (uint32_t i = WAIT_TOP - 1; i > at; i--) {
		row->top_ns[i] = row->top_ns[i - 1];
		row->top_rank[i] = row->top_rank[i - 1];
		row->top_count[i] = row->top_count[i - 1];
		row->top_of[i] = row->top_of[i - 1];
	}
	row->top_ns[at] = late->wait_ns;
	row->top_rank[at] = late->rank;
	row->top_count[at] = late->count;
	row->top_of[at] = of;
}

static uint64_t multiply_limited(uint64_t value, uint32_t factor)
{
	uint64_t product;

	return __builtin_mul_overflow(value, factor, &product) ? UINT64_MAX : product;
}

/* Fills `late`, one per occurrence that can be compared, and adds up the row; their number. */
static uint32_t compare(const struct wait_series *series, struct row_wait *row, struct late *late)
{
	uint32_t count = 0;

	ARRAY_EACH(item, series->items, series->row.rows) {
		uint64_t all =
			multiply_limited(duration_of_code((uint16_t)item->code), item->ranks);
		uint64_t wait = item->sum_ns > all ? item->sum_ns - all : 0;

		if (item->ranks < 2)
			continue;
		wait = multiply_limited(wait, series->row.stride);
		row->wait_ns = clamped_u64(row->wait_ns, wait);
		row->total_ns = clamped_u64(row->total_ns,
					    multiply_limited(item->sum_ns, series->row.stride));
		late[count++] = (struct late){item->last_rank, 1, wait};
	}
	row->occurrences += count;
	return count;
}

/* Adds a series to the row of its context. */
static bool sum_series(const struct wait_series *series, struct row_wait *row)
{
	AUTO_FREE struct late *late = calloc((size_t)series->row.rows + 1, sizeof(*late));
	uint32_t count = late ? compare(series, row, late) : 0;
	uint32_t at = 0;

	if (!late)
		return false;
	ARRAY_SORT(late, count, compare_late);
	while (at < count) {
		struct late sum = late[at];

		for (at++; at < count && late[at].rank == sum.rank; at++) {
			sum.count++;
			sum.wait_ns = clamped_u64(sum.wait_ns, late[at].wait_ns);
		}
		add_top(row, &sum, count);
	}
	row->ranks = clamped_u32(row->ranks, series->row.ranks);
	row->groups++;
	row->time_ns = clamped_u64(row->time_ns, series->row.time_ns);
	row->stride = series->row.stride > row->stride ? series->row.stride : row->stride;
	return true;
}

void waits_complete(struct profile *profile)
{
	struct profile_waits *from = profile->waits;

	if (!from)
		return;
	bool is_limited = from->count == SERIES_MAX;
	profile->waits = NULL;
	struct profile_waits *waits = waits_of(profile);
	for (size_t i = 0; waits && i < from->count; i++) {
		struct row_wait key = from->series[i].row;

		key.group = 0;
		struct wait_series *series = series_at(profile, &key);
		if (!series)
			continue;
		series->row.groups -= series->row.ranks == 0; /* it is new */
		series->row.flags |= is_limited ? COLLECTIVE_LIMITED : 0;
		if (!sum_series(&from->series[i], &series->row))
			profile->out_of_memory = true;
	}
	waits_free(from);
}

/* ------------------------------------------------------------------ files */

struct row_wait *waits_rows(const struct profile_waits *waits)
{
	struct row_wait *rows = calloc(waits->count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < waits->count; i++)
		rows[i] = waits->series[i].row;
	return rows;
}

struct row_occurrence *waits_occurrences(const struct profile_waits *waits)
{
	struct row_occurrence *rows = calloc(waits->occurrences + 1, sizeof(*rows));
	size_t at = 0;

	for (size_t i = 0; rows && i < waits->count; i++) {
		uint32_t count = waits->series[i].row.rows;

		if (count)
			memcpy(rows + at, waits->series[i].items, count * sizeof(*rows));
		at += count;
	}
	return rows;
}

static bool is_power(uint32_t stride)
{
	return stride && !(stride & (stride - 1));
}

static void load_durations(struct profile *profile, const struct profile_view *view,
			   const uint32_t *nodes)
{
	const struct row_durations *rows = view->table[TABLE_DURATIONS];

	for (uint64_t i = 1; i < view->rows[TABLE_DURATIONS]; i++) {
		struct row_durations row = rows[i];
		uint32_t length;

		if (!row.node || !row.count)
			continue;
		uint64_t last = row.first + (uint64_t)row.count * row.stride;
		if (row.count > DURATIONS_PER_ROW || !is_power(row.stride) || last > UINT32_MAX ||
		    row.node >= view->rows[TABLE_NODES]) {
			profile->is_damaged = true;
			continue;
		}
		if (!nodes[row.node]) /* it is not in the selected phase */
			continue;
		row.node = nodes[row.node] - 1;
		const char *group = profile_view_string(view, row.group, &length);
		row.group = length <= GROUP_BYTES_MAX ? profile_string(profile, group, length) : 0;
		struct profile_waits *waits = waits_of(profile);
		if (!waits || !ARRAY_ADD(waits->durations, waits->duration_count, row)) {
			profile->out_of_memory = true;
			return;
		}
	}
}

/* A series from its rows; false: they are wrong. */
static bool load_series(struct profile *profile, struct row_wait row, const char *group,
			uint32_t length, const struct row_occurrence *items)
{
	if (!is_power(row.stride) || row.rows > ITEMS_MAX || length > GROUP_BYTES_MAX ||
	    (uint64_t)row.rows * row.stride > UINT32_MAX)
		return false;
	row.group = profile_string(profile, group, length);
	struct wait_series *series = series_at(profile, &row);
	if (!series || series->row.ranks)
		return false;
	row.flags &= COLLECTIVE_HOST | COLLECTIVE_LIMITED;
	series->row = row;
	series->row.rows = 0;
	for (uint32_t k = 0; k < row.rows && !profile->out_of_memory; k++) {
		if (items[k].code > UINT16_MAX)
			return false;
		add_occurrence(profile, series, k * row.stride, &items[k]);
	}
	return true;
}

void waits_load(struct profile *profile, const struct profile_view *view, const uint32_t *nodes)
{
	const struct row_wait *rows = view->table[TABLE_WAITS];
	const struct row_occurrence *items = view->table[TABLE_OCCURRENCES];
	uint64_t left = view->rows[TABLE_OCCURRENCES];

	load_durations(profile, view, nodes);
	for (uint64_t i = 0; i < view->rows[TABLE_WAITS]; i++) {
		struct row_wait row = rows[i];
		uint32_t node = row.node < view->rows[TABLE_NODES] ? nodes[row.node] : 0;
		uint32_t length;
		const char *group = profile_view_string(view, row.group, &length);

		if (row.rows > left || !node) {
			profile->is_damaged = true;
			return;
		}
		row.node = node - 1;
		if (!load_series(profile, row, group, length, items))
			profile->is_damaged = true;
		if (row.rows)
			items += row.rows;
		left -= row.rows;
	}
}
