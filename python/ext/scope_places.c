/*
 * Scopes between the Python frames of a walk: context "python+scopes".
 *
 * A scope is entered by a frame that usually is still on the stack at a launch: `with` in a
 * function, or the method of PyTorch that calls the hooks of a module. Its place is the number of
 * frames from the root to that one, with its code and that of the next outer ones, as hashes. If
 * the frame has ended (a generator of contextlib, which is suspended), the next outer one counts.
 */
#include "python_frames.h"

#include "base/array.h"

#define LEVEL_MAX 0xffffu
#define CODES 3u        /* per place */
#define SCOPES_MAX 128u /* the innermost ones are left out; deeper recursion has no use */

static char mark; /* its address is that of no code object */
PyCodeObject *const scope_visit_code = (PyCodeObject *)&mark;

static uint64_t code_hash(const PyCodeObject *code)
{
	return (uint64_t)((uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
}

uint64_t scope_place(const struct frame_walk *walk, uint32_t index)
{
	uint32_t level = walk->count - index;
	uint64_t place = level < LEVEL_MAX ? level : LEVEL_MAX - 1;
	for (uint32_t i = 0; i < CODES && index + i < walk->count; i++)
		place |= code_hash(walk->visits[index + i].code) << (16 * (i + 1));
	return place;
}

/* The number of frames above the first one of the running task. */
static uint32_t frames_above_task(const struct frame_walk *walk, uint32_t total)
{
	uint32_t above = 0;
	while (above < total && !(walk->visits[total - 1 - above].code->co_flags &
				  (CO_COROUTINE | CO_ITERABLE_COROUTINE)))
		above++;
	return above < total ? above : 0;
}

/* The number of frames above a scope. */
static uint32_t frames_above(const struct frame_walk *walk, uint32_t total, uint64_t place)
{
	if (place == PROTON_PLACE_TASK)
		return frames_above_task(walk, total);
	uint32_t level = place & LEVEL_MAX;
	for (uint32_t i = 0; i < CODES && level > 0; i++, level--) {
		uint64_t hash = place >> (16 * (i + 1)) & 0xffff;
		if (level <= total && code_hash(walk->visits[total - level].code) == hash)
			return level;
	}
	return level < total ? level : total;
}

/* By member: one wide load would wait for the two stores that the walk has just made. */
static inline void move(struct frame_visit *to, const struct frame_visit *from)
{
	to->code = from->code;
	to->place = from->place;
}

bool scope_places_insert(struct frame_walk *walk, uint32_t total)
{
	struct proton_open_scope scopes[SCOPES_MAX];
	uint32_t above[SCOPES_MAX];
	uint32_t open = proton_scopes_open(scopes, SCOPES_MAX);
	uint32_t cut = total - walk->count;
	uint32_t count = 0, outer = 0;
	if (open == 0)
		return true;
	for (uint32_t i = 0; i < open; i++) {
		uint32_t at = frames_above(walk, total, scopes[i].place);
		if (cut > 0 && at <= cut)
			continue;
		outer = at - cut > outer ? at - cut : outer;
		above[count] = outer; /* a scope is inside the one before */
		scopes[count++] = scopes[i];
	}
	if (!array_reserve(&walk->visits, &walk->capacity, walk->count + count,
			   sizeof(*walk->visits)))
		return false;
	/* From the root, which is last: frames move away from it until all scopes are in. */
	uint32_t next = 0;
	for (uint32_t frames = 0; next < count; frames++) {
		uint32_t from = walk->count - 1 - frames;
		while (next < count && above[next] == frames) {
			walk->visits[from + count - next] = (struct frame_visit){
				scope_visit_code, (frame_place)scopes[next].frame};
			next++;
		}
		if (next < count)
			move(&walk->visits[from + count - next], &walk->visits[from]);
	}
	walk->count += count;
	return true;
}
