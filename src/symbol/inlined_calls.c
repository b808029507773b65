/* Inlined calls: the tree of .debug_info becomes ranges that do not overlap. */
#include "symbol/inlined_calls.h"

#include "base/array.h"
#include "symbol/debug_info.h"

/* Levels of entries that are followed; LLVM's inliner stops far earlier. */
#define DEPTH_MAX 256
/* From an inlined call to the entry that has its name: an origin, then a specification. */
#define STEPS_MAX 4

/* Code of a call, with the code of the calls inside it. */
struct extent {
	uint64_t begin, end; /* in the section */
	uint32_t section;
	uint32_t call; /* index + 1 */
};

struct walk {
	struct inlined_calls *calls;
	const struct code_object *object;
	struct debug_info debug;
	struct extent *extents;
	size_t count, limit;
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ entries */

/* The name of the function that an entry is of. Its origin or specification may have it. */
static const char *function_name(struct debug_info *debug, struct debug_entry entry)
{
	const char *name = NULL;

	for (int step = 0; step < STEPS_MAX; step++) {
		const struct debug_value *linkage = &entry.values[ATTRIBUTE_LINKAGE_NAME];
		const struct debug_value *origin = &entry.values[ATTRIBUTE_ORIGIN];
		struct reader reader = reader_of(debug->unit);

		if (linkage->form)
			return debug_info_text(debug, linkage);
		if (!name)
			name = debug_info_text(debug, &entry.values[ATTRIBUTE_NAME]);
		if (!origin->form)
			origin = &entry.values[ATTRIBUTE_SPECIFICATION];
		reader.at = debug_info_reference(debug, origin);
		if (!reader.at || !debug_info_read(debug, &reader, &entry))
			break;
	}
	return name;
}

static bool add_extent(void *user, uint64_t begin, uint64_t end)
{
	struct walk *walk = user;
	struct extent extent = {.call = (uint32_t)walk->calls->count};

	if (walk->count == walk->limit)
		return false;
	if (begin >= end ||
	    !code_object_find_code(walk->object, begin, &extent.section, &extent.begin))
		return true;
	extent.end = extent.begin + (end - begin);
	walk->is_out_of_memory |= !ARRAY_ADD(walk->extents, walk->count, extent);
	return !walk->is_out_of_memory;
}

/* Adds a call. Returns its index + 1. */
static uint32_t add_call(struct walk *walk, const struct debug_entry *entry, uint32_t caller)
{
	struct inlined_calls *calls = walk->calls;
	const struct debug_value *values = entry->values;
	struct inlined_call call = {
		.function = function_name(&walk->debug, *entry),
		.lines = walk->debug.root.values[ATTRIBUTE_LINES].number,
		.file = values[ATTRIBUTE_CALL_FILE].number,
		.line = (uint32_t)values[ATTRIBUTE_CALL_LINE].number,
		.column = (uint32_t)values[ATTRIBUTE_CALL_COLUMN].number,
		.caller = caller,
	};

	if (!ARRAY_ADD(calls->calls, calls->count, call)) {
		walk->is_out_of_memory = true;
		return 0;
	}
	debug_info_ranges(&walk->debug, entry, add_extent, walk);
	return (uint32_t)calls->count;
}

static void walk_unit(struct walk *walk)
{
	struct reader reader = reader_of(walk->debug.unit);
	uint32_t callers[DEPTH_MAX] = {0};
	struct debug_entry entry;
	size_t depth = 0;

	reader.at = walk->debug.entries;
	while (reader_has_more(&reader) && !walk->is_out_of_memory &&
	       debug_info_read(&walk->debug, &reader, &entry)) {
		uint32_t caller = callers[depth];

		if (!entry.tag) {
			if (!depth--)
				return;
			continue;
		}
		if (entry.tag == TAG_INLINED_SUBROUTINE)
			caller = add_call(walk, &entry, caller);
		if (!entry.has_children)
			continue;
		if (++depth == DEPTH_MAX)
			return;
		callers[depth] = caller;
	}
}

/* ------------------------------------------------------------------ ranges */

/* Callers are before the calls inside them. */
ARRAY_ORDER(compare_extents, struct extent,
	    ORDER_OF(a->section, b->section) ?: ORDER_OF(a->begin, b->begin)
	    ?: ORDER_OF(a->call, b->call))

static bool add_range(struct inlined_calls *calls, uint32_t section, uint64_t begin, uint32_t call)
{
	struct segments *ranges = &calls->ranges;
	struct segment *last = ranges->count ? &ranges->segments[ranges->count - 1] : NULL;

	if (last && last->section == section && last->begin == begin) {
		last->value = call;
		return true;
	}
	return ARRAY_ADD(ranges->segments, ranges->count,
			 (struct segment){.begin = begin, .section = section, .value = call});
}

/* Ends the extents on the stack that end before `begin`, or all of another section. */
static bool pop_call(struct inlined_calls *calls, struct extent *stack, size_t *depth,
		     uint32_t section, uint64_t begin)
{
	while (*depth) {
		const struct extent *top = &stack[*depth - 1];
		uint32_t outer = *depth > 1 ? stack[*depth - 2].call : 0;

		if (top->section == section && top->end > begin)
			return true;
		(*depth)--;
		if (!add_range(calls, top->section, top->end, outer))
			return false;
	}
	return true;
}

/* The calls inside a call are inside its code; a corrupt file may have others, which are cut. */
static int make_ranges(struct inlined_calls *calls, struct extent *extents, size_t count)
{
	AUTO_FREE struct extent *stack = calloc(count + 1, sizeof(*stack));
	size_t depth = 0;
	bool is_ok = stack != NULL;

	ARRAY_SORT(extents, count, compare_extents);
	for (size_t i = 0; i < count && is_ok; i++) {
		struct extent extent = extents[i];

		is_ok = pop_call(calls, stack, &depth, extent.section, extent.begin);
		if (depth && stack[depth - 1].end < extent.end)
			extent.end = stack[depth - 1].end;
		stack[depth++] = extent;
		is_ok = is_ok && add_range(calls, extent.section, extent.begin, extent.call);
	}
	is_ok = is_ok && pop_call(calls, stack, &depth, UINT32_MAX, 0);
	return is_ok ? PROTON_OK : PROTON_E_NOMEM;
}

int inlined_calls_read(struct inlined_calls *calls, const struct code_object *object)
{
	struct walk walk = {
		.calls = calls,
		.object = object,
		.limit = object->file.length,
	};
	size_t offset = 0;
	int status = PROTON_E_NOMEM;

	*calls = (struct inlined_calls){0};
	debug_info_init(&walk.debug, object);
	while (debug_info_next_unit(&walk.debug, &offset)) {
		calls->is_known = true;
		walk_unit(&walk);
	}
	if (!walk.is_out_of_memory && !walk.debug.is_out_of_memory)
		status = make_ranges(calls, walk.extents, walk.count);
	FREE_ALL(walk.debug.table, walk.extents);
	return status;
}

void inlined_calls_fini(struct inlined_calls *calls)
{
	FREE_ALL(calls->calls, calls->ranges.segments);
	*calls = (struct inlined_calls){0};
}
