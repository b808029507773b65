/*
 * Durations of collectives, by occurrence, in rows of the profile file.
 *
 * A series has at most SERIES_ROWS_MAX rows. When they are full, every second duration is dropped,
 * and from then on only every second occurrence is recorded: the rest covers the whole run, and has
 * the same occurrences in all ranks.
 */
#include "record/store/store.h"

#include <inttypes.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "record/names/frames.h"
#include "record/store/store_rows.h"

#define SERIES_ROWS_MAX 256u /* even; 12,800 durations */
#define ROWS_MAX 16384u      /* of all series: 2 MiB */

enum {
	KIND_UNKNOWN,
	KIND_OTHER,
	KIND_COLLECTIVE
};

/* ------------------------------------------------------------------ names */

/* Parts of kernel names, mangled or not. */
static const char *const names[] = {
	"ncclDevKernel", "ncclKernel",
	"ncclSymk",      "ncclSymDevKernel",
	"rcclKernel",    "mscclKernel",
	"msccl_",        "mscclpp",
	"nvshmem",       "rocshmem",
	"multimem_",     "cross_device_re",
	"quickreduce",   "allreduce_fusion_kernel",
	"one_shot_all_", "two_shot_all_",
	"oneShotAll",    "twoShotAll",
	"oneshotAll",    "twoshotAll",
	"oneshot_all",   "twoshot_all",
};

static regex_t own_names;
static bool has_own_names;

static void compile_own_names(void)
{
	const char *text = environment_get("PROTON_COLLECTIVES");

	if (!text || !*text)
		return;
	has_own_names = regcomp(&own_names, text, REG_EXTENDED | REG_NOSUB) == 0;
	if (!has_own_names)
		message("PROTON_COLLECTIVES is ignored: \"%s\" is not a regular expression", text);
}

bool store_collectives_match(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, compile_own_names);
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (strstr(name, names[i]))
			return true;
	return has_own_names && regexec(&own_names, name, 0, NULL, 0) == 0;
}

static bool is_collective(struct store *store, uint32_t node)
{
	uint32_t frame = store_node_rows(store)[node].frame;
	const struct row_frame *row = &store_frame_rows(store)[frame];
	const char *strings = profile_file_rows(&store->file, TABLE_STRINGS);
	uint8_t *kinds = store->collectives.kind_of_frame.base;

	if (!region_reaches(&store->collectives.kind_of_frame, frame + 1ull)) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return false;
	}
	if (kinds[frame] == KIND_UNKNOWN)
		kinds[frame] = store_collectives_match(strings + (uint64_t)row->name * 8 + 4)
				       ? KIND_COLLECTIVE
				       : KIND_OTHER;
	return kinds[frame] == KIND_COLLECTIVE;
}

/* ------------------------------------------------------------------ series */

bool store_collectives_has(const struct store *store, uint32_t node)
{
	const uint32_t *series = store_map_at(&store->collectives.series_of_node, node);

	return series && __atomic_load_n(series, __ATOMIC_RELAXED);
}

/* The text that the ranks of a communicator have in common, in the file. */
static uint32_t new_group(struct store *store, uint64_t communicator)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "communicator %016" PRIx64, communicator);

	return communicator ? store_new_string(store, text, (size_t)length) : 0;
}

/* NULL: no memory. */
static struct collective_series *series_of(struct store *store, uint32_t node,
					   uint64_t communicator)
{
	struct collectives *own = &store->collectives;
	uint32_t *newest = store_map_reach(&own->series_of_node, node);

	if (!newest)
		return NULL;
	for (uint32_t i = *newest; i; i = own->series[i - 1].next)
		if (own->series[i - 1].communicator == communicator)
			return &own->series[i - 1];
	if (!ARRAY_ADD(own->series, own->count,
		       (struct collective_series){.stride = 1,
						  .node = node,
						  .next = *newest,
						  .group = new_group(store, communicator),
						  .communicator = communicator}))
		return NULL;
	/* relaxed: threads without the lock only test it */
	__atomic_store_n(newest, (uint32_t)own->count, __ATOMIC_RELAXED);
	return &own->series[own->count - 1];
}

static void free_row(struct store *store, uint32_t row)
{
	store_free_row(store, TABLE_DURATIONS, row);
	store->collectives.rows--;
}

/* Appends every second duration of `from` to `to`; they may be the same. */
static void take_half(struct row_durations *to, uint32_t at, const struct row_durations *from)
{
	for (uint32_t i = 0; i < DURATIONS_PER_ROW; i += 2)
		to->code[at + i / 2] = from->code[i];
}

/* Halves a series of full rows: two rows become one. */
static void thin_rows(struct store *store, struct collective_series *series)
{
	struct row_durations *rows = store_durations_rows(store);
	uint32_t at = series->first_row;

	while (at && rows[at].next) {
		uint32_t second = rows[at].next;

		/* A reader of a killed process's file finds a row that is empty or consistent. */
		__atomic_store_n(&rows[at].count, 0, __ATOMIC_RELEASE);
		take_half(&rows[at], 0, &rows[at]);
		take_half(&rows[at], DURATIONS_PER_ROW / 2, &rows[second]);
		rows[at].stride *= 2;
		rows[at].next = rows[second].next;
		free_row(store, second);
		series->rows--;
		__atomic_store_n(&rows[at].count, DURATIONS_PER_ROW, __ATOMIC_RELEASE);
		series->last_row = at;
		at = rows[at].next;
	}
	series->stride *= 2;
}

static void append_row(struct store *store, struct collective_series *series, uint32_t flags,
		       uint32_t number, uint64_t duration_ns)
{
	struct row_durations *rows = store_durations_rows(store);
	uint32_t at = series->last_row;

	if (!at || rows[at].count == DURATIONS_PER_ROW) {
		uint32_t row = store->collectives.rows < ROWS_MAX
				       ? store_new_row(store, TABLE_DURATIONS)
				       : 0;

		if (!row) {
			store_counters_add(store, COUNTER_LOST_COLLECTIVE, 1);
			return;
		}
		store_commit(store, TABLE_DURATIONS);
		store->collectives.rows++;
		rows = store_durations_rows(store);
		rows[row] = (struct row_durations){
			.flags = flags,
			.stride = series->stride,
			.group = series->group,
			.first = number,
		};
		if (at)
			rows[at].next = row;
		else
			series->first_row = row;
		series->last_row = row;
		series->rows++;
		at = row;
		__atomic_store_n(&rows[row].node, series->node, __ATOMIC_RELEASE);
	}
	rows[at].code[rows[at].count] = duration_code(duration_ns);
	__atomic_store_n(&rows[at].count, rows[at].count + 1, __ATOMIC_RELEASE);
}

static void add_collective(struct store *store, struct collective_series *series, uint32_t epoch,
			   uint32_t flags, uint64_t duration_ns)
{
	if (!series || series->count == UINT32_MAX)
		return;
	uint32_t number = series->count++;
	series->epoch = epoch;
	if (number & (series->stride - 1))
		return;
	if (series->rows == SERIES_ROWS_MAX &&
	    store_durations_rows(store)[series->last_row].count == DURATIONS_PER_ROW) {
		thin_rows(store, series);
		if (number & (series->stride - 1))
			return;
	}
	append_row(store, series, flags, number, duration_ns);
}

void store_collectives_add(struct store *store, uint32_t node, uint32_t epoch, uint32_t flags,
			   uint64_t duration_ns)
{
	if (node)
		add_collective(store, series_of(store, node, 0), epoch, flags, duration_ns);
}

void store_collectives_kernel(struct store *store, uint32_t node, uint32_t scopes, uint32_t epoch,
			      uint64_t duration_ns)
{
	if (node && is_collective(store, node))
		add_collective(store, series_of(store, node, communicators_of(scopes)), epoch, 0,
			       duration_ns);
}

void store_collectives_drop_epoch(struct store *store, uint32_t epoch)
{
	for (size_t i = 0; i < store->collectives.count; i++) {
		struct collective_series *series = &store->collectives.series[i];

		if (series->epoch != epoch)
			continue;
		for (uint32_t row = series->first_row; row;) {
			uint32_t next = store_durations_rows(store)[row].next;

			free_row(store, row);
			row = next;
		}
		series->first_row = series->last_row = 0;
		series->rows = series->count = 0;
		series->stride = 1;
	}
}
