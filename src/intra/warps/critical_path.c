/*
 * Critical path of a CTA: what its end had to wait for, back to its start. The path is always in
 * one unit and goes back in time along the unit's segments. At a wait that blocked, it continues
 * according to what ended the wait, in this order:
 *
 * 1. An async event whose end the unit recorded during the wait or right after it: the path runs
 * through that event and continues where and when it was started.
 * 2. At a barrier, the unit that was the last to start or end something during the wait, so
 * probably the last to arrive: the path continues there.
 * 3. Unknown: the wait itself is on the path, which continues in the same unit before the wait.
 *
 * If a unit is idle, the path moves to one that is not. Time never increases along the path, and
 * stays equal for at most two steps. Every segment and event is entered at most once, so the work
 * is linear in them except for a bounded search among candidates.
 */
#include "base/array.h"
#include "intra/warps/segments.h"

/*
 * A shorter wait did not block: this is the time of clock reads and of a successful test of a
 * barrier in shared memory. It is also too short for a detour through another unit.
 */
#define BLOCKED_CYCLES 100u
/* Maximum cycles between a wait and the record of the event's end after it. */
#define ASYNC_LATE 128u
/* Maximum candidates checked per wait, in a unit and among async events. */
#define CANDIDATES 16u

struct path {
	struct warps *warps;
	struct warps_sums *sums;
	uint64_t time; /* everything after it is attributed */
	uint32_t unit;
	/* By unit: the last segment that starts before `time`, or a later one. */
	uint32_t at[INSTRUMENT_UNIT_MAX];
};

static bool has_segments(const struct path *path, uint32_t unit)
{
	return path->warps->first[unit] < path->warps->first[unit + 1];
}

/* The unit's segment just before `time`. */
static const struct warps_segment *segment_at(struct path *path, uint32_t unit)
{
	const struct warps_segment *segments = path->warps->segments;

	while (segments[path->at[unit]].start >= path->time)
		path->at[unit]--;
	return &segments[path->at[unit]];
}

/* Attributes the time from `start` to the current position to a scope of the current unit. */
static void take_segment(struct path *path, uint32_t scope, uint64_t start)
{
	warps_cell(path->sums, path->unit, scope)->path += path->time - start;
	path->time = start;
}

/* ------------------------------------------------------------------ what ended a wait */

/* Number of async ends, in their order, that `unit` has seen until `clock`. */
static size_t ends_until(const struct warps *warps, uint32_t unit, uint64_t clock)
{
	const struct warps_async_end *ends = warps->async_ends;

	return ARRAY_COUNT_BEFORE(warps->async_end_count, i,
				  ends[i].unit < unit ||
					  (ends[i].unit == unit && ends[i].clock <= clock));
}

/* Until when an end may belong to the wait: the unit may soon wait for something else. */
static uint64_t late_until(const struct path *path, const struct warps_segment *wait)
{
	const struct warps *warps = path->warps;
	const struct warps_segment *end = warps->segments + warps->first[path->unit + 1];
	uint64_t until = wait->end + ASYNC_LATE;

	if (path->time < wait->end)
		return path->time; /* the path entered the wait in the middle */
	for (const struct warps_segment *next = wait + 1; next < end && next->start < until; next++)
		if (warps_is_wait(next->kind) && !next->is_idle)
			return next->start;
	return until;
}

/*
 * The event that ended the wait; NULL if none. Of several with the same end, the last to start.
 */
static const struct decode_execution *find_async(const struct path *path,
						 const struct warps_segment *wait)
{
	const struct warps *warps = path->warps;
	const struct decode_execution *best = NULL;
	size_t after = ends_until(warps, path->unit, late_until(path, wait));

	for (uint32_t tries = 0; after && tries < CANDIDATES; tries++) {
		const struct warps_async_end *end = &warps->async_ends[--after];
		const struct decode_execution *it = &warps->decoder->executions[end->execution];

		if (end->unit != path->unit || end->clock <= wait->start ||
		    (best && end->clock < path->time))
			break;
		if (it->start < path->time && (!best || it->start > best->start))
			best = it;
	}
	return best;
}

/*
 * The latest time in (wait->start, time] at which `unit` started or ended something that may have
 * ended the wait; 0 if there is none. Units that wait for the same barrier arrive when their wait
 * starts, not when it ends.
 */
static uint64_t last_activity(struct path *path, uint32_t unit, const struct warps_segment *wait)
{
	const struct warps_segment *first = path->warps->segments + path->warps->first[unit];
	const struct warps_segment *segment = segment_at(path, unit);
	bool is_same = warps_did_same(path->warps, unit, path->unit);

	if (segment->end > path->time) {
		if (segment == first)
			return 0;
		segment--;
	}
	for (uint32_t tries = 0; tries < CANDIDATES && segment->end > wait->start; tries++) {
		bool is_wait = warps_is_wait(segment->kind);

		if (!segment->is_idle && (is_wait ? !is_same && segment->end < path->time : true))
			return segment->end;
		if (segment-- == first)
			return 0;
	}
	return 0;
}

/* False if the unit that ended the wait is unknown. */
static bool follow_barrier(struct path *path, const struct warps_segment *wait)
{
	uint32_t unit_count = path->warps->decoder->layout->unit_count;
	uint32_t scope = wait->scope;
	uint32_t found = 0;
	uint64_t latest = 0;

	for (uint32_t u = 0; u < unit_count; u++) {
		uint64_t deed =
			u != path->unit && has_segments(path, u) ? last_activity(path, u, wait) : 0;
		bool is_other = deed && deed == latest &&
				warps_did_same(path->warps, found, path->unit) &&
				!warps_did_same(path->warps, u, path->unit);

		if (deed > latest || is_other) {
			latest = deed;
			found = u;
		}
	}
	if (!latest)
		return false;
	take_segment(path, scope, latest);
	path->unit = found;
	return true;
}

static void follow_async(struct path *path, const struct decode_execution *async)
{
	uint64_t start = async->start > path->warps->from ? async->start : path->warps->from;

	path->sums->asyncs[async->scope].path += path->time - start;
	path->time = start;
	path->unit = async->unit;
}

static void follow_wait(struct path *path, const struct warps_segment *wait)
{
	const struct decode_execution *async = NULL;
	bool has_blocked = wait->end - wait->start >= BLOCKED_CYCLES;

	if (has_blocked)
		async = find_async(path, wait);
	if (async)
		follow_async(path, async);
	else if (!has_blocked || wait->kind != WARPS_WAIT || !follow_barrier(path, wait))
		take_segment(path, wait->scope, wait->start);
}

/* ------------------------------------------------------------------ idle units */

/*
 * Moves to a unit that is not idle: one that works now before one that waits now, else the unit
 * that was active last. The gap after its end is on the path.
 */
static void leave_idle(struct path *path)
{
	uint32_t unit_count = path->warps->decoder->layout->unit_count;
	uint64_t best_end = path->warps->from;
	uint32_t best = path->unit;
	bool best_waits = false;

	for (uint32_t u = 0; u < unit_count; u++) {
		if (!has_segments(path, u))
			continue;
		const struct warps_segment *segment = segment_at(path, u);
		while (segment->is_idle && segment > path->warps->segments + path->warps->first[u])
			segment--;
		if (segment->is_idle)
			continue;
		bool waits = warps_is_wait(segment->kind);
		uint64_t end = segment->end < path->time ? segment->end : path->time;
		if (end > best_end || (end == best_end && best_waits && !waits)) {
			best = u;
			best_end = end;
			best_waits = waits;
		}
	}
	path->sums->units[best].path += path->time - best_end;
	path->time = best_end;
	path->unit = best;
}

/* ------------------------------------------------------------------ */

/* Starts at the end of the CTA, in the unit that ends last. */
static void begin_path(struct path *path)
{
	const struct decoder *decoder = path->warps->decoder;
	uint64_t latest = 0;

	path->time = path->warps->to;
	for (uint32_t u = 0; u < decoder->layout->unit_count; u++) {
		if (!has_segments(path, u))
			continue;
		path->at[u] = path->warps->first[u + 1] - 1;
		if (decoder->units[u].header.end_clock >= latest) {
			latest = decoder->units[u].header.end_clock;
			path->unit = u;
		}
	}
}

void warps_critical_path(struct warps *warps, struct warps_sums *sums)
{
	struct path path = {.warps = warps, .sums = sums};

	begin_path(&path);
	while (path.time > warps->from) {
		const struct warps_segment *segment = segment_at(&path, path.unit);

		if (segment->is_idle)
			leave_idle(&path);
		else if (warps_is_wait(segment->kind))
			follow_wait(&path, segment);
		else
			take_segment(&path, segment->scope, segment->start);
	}
}
