/* Finished work: matching its record with its launch, and times of records. */
#include "backend/gpu/records.h"

#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/tensors.h"
#include "base/clock.h"
#include "base/environment.h"
#include "record/record.h"

#define BUFFER_DEFAULT_BYTES (4u << 20) /* CUPTI recommends 1 to 10 MB */

size_t records_buffer_bytes(void)
{
	const char *text = environment_get("TRITON_PROFILE_BUFFER_SIZE");
	long long wanted = text ? strtoll(text, NULL, 10) : 0;

	if (wanted <= 0)
		return BUFFER_DEFAULT_BYTES;
	if (wanted < RECORDS_BUFFER_MIN_BYTES)
		wanted = RECORDS_BUFFER_MIN_BYTES;
	return ((size_t)wanted + 4095) & ~(size_t)4095;
}

static bool find_launch(uint32_t correlation, enum counter lost, struct correlation *launch_out)
{
	await_records_note();
	if (correlate_take(correlation, launch_out))
		return true;
	if (!launches_is_older(correlation))
		record_count(lost, 1);
	return false;
}

bool records_find_kernel(uint32_t correlation, uint64_t node, struct correlation *launch_out)
{
	if (!find_launch(correlation, COUNTER_LOST_UNMATCHED, launch_out))
		return false;
	bool is_empty = proton_context_is_empty(launch_out->where);
	/* Every session was paused. But a node's value must not go to the next replay. */
	if (is_empty && !(launch_out->is_shared && node))
		return false;
	if (launch_out->is_shared)
		await_records_note_shared(correlation);
	return true;
}

bool records_find_memory(uint32_t correlation, struct correlation *launch_out)
{
	if (!find_launch(correlation, COUNTER_LOST_MEMORY, launch_out))
		return false;
	await_records_note_shared(correlation);
	return !proton_context_is_empty(launch_out->where);
}

/* False for invalid times: they are counted by cause and never added to a sum. */
static bool check_times(uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns && end_ns > start_ns)
		return true;
	record_count(start_ns && end_ns ? COUNTER_LOST_TIME : COUNTER_LOST_NO_TIME, 1);
	return false;
}

static void add_record(const struct correlation *launch, uint64_t node, struct execution *execution)
{
	/* An append kernel of Proton is only recorded to show that it ran. */
	if (!tensors_is_append(execution->frame) &&
	    !check_times(execution->start_ns, execution->end_ns))
		return;
	execution->launch = launch->launch;
	execution->is_of_graph = node != 0;
	if (node) {
		captured_nodes_record(launch->where, node, execution);
		return;
	}
	if (launch->is_named && !execution->is_memory)
		execution->frame = 0;
	record_kernel(launch->where, execution);
}

void records_add(const struct correlation *launch, uint64_t node, struct execution *execution)
{
	add_record(launch, launch->is_shared ? node : 0, execution);
	/* Last: a flush that sees it finds the kernel in the profile. */
	if (!launch->is_shared && !execution->is_memory)
		await_records_note_complete();
}

_Atomic uint64_t record_times_offset_ns;

/* The best of several tries: the shortest interval around the library's time. */
void record_times_measure(bool (*read)(uint64_t *now_ns), clockid_t clock)
{
	uint64_t offset_ns = clock_monotonic_ns() - clock_read_ns(clock);
	uint64_t best_ns = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before_ns = clock_monotonic_ns();
		uint64_t theirs_ns = 0;

		if (!read(&theirs_ns) || !theirs_ns)
			break;
		uint64_t taken_ns = clock_monotonic_ns() - before_ns;
		if (taken_ns < best_ns) {
			best_ns = taken_ns;
			offset_ns = before_ns + taken_ns / 2 - theirs_ns;
		}
	}
	atomic_store_explicit(&record_times_offset_ns, offset_ns, memory_order_relaxed);
}
