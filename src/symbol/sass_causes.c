/* Searches backward in the control flow of a function. */
#include "symbol/sass_causes.h"

#include "base/array.h"
#include "symbol/sass_operands.h"

/* Steps of all searches in a function; a legitimate one needs a few thousand per instruction. */
#define STEPS_PER_INSTRUCTION 20000u
/* A result of arithmetic is there after so many instructions. */
#define LATENCY_INSTRUCTIONS 8u
#define NO_SCOREBOARD 7u
#define UNCOMMITTED 0x80u /* in the state of groups */

enum search {
	SEARCH_SCOREBOARDS, /* state: scoreboards that are looked for */
	SEARCH_REGISTERS,   /* state: numbers of operands */
	SEARCH_COPIES,      /* state: 1 << groups that may be pending */
	SEARCH_MMAS,
	SEARCH_STORES,
	SEARCH_PATHS, /* all instructions since the last barrier */
	SEARCH_ALL,
};

struct flow {
	struct sass_operands operands;
	uint8_t sets, waits; /* scoreboards, a bit for each */
	bool begins_block;
	uint32_t target; /* + 1; 0: none */
};

struct sass_causes {
	struct flow *items;
	uint32_t count;
	uint32_t *first_before; /* index of `before`, by instruction */
	uint32_t *before;       /* predecessors */
	uint8_t *seen;          /* states, by instruction, in one search */
	uint8_t *pending;
	bool *is_found;
	uint32_t *queue; /* a ring: each instruction is in it once */
	uint32_t queue_first, queue_count;
	uint32_t *found;
	uint32_t found_count;
	uint64_t budget;
	uint32_t from; /* where the search began */
	enum search search;
};

/* ------------------------------------------------------------------ control flow */

static void read_control(struct flow *item, const uint8_t *code)
{
	struct reader reader = reader_of((struct span){code + 8, 8});
	uint64_t control = reader_uint(&reader, 8) >> 41;
	uint32_t after_write = control >> 5 & 7;
	uint32_t after_read = control >> 8 & 7;

	if (after_write != NO_SCOREBOARD)
		item->sets |= (uint8_t)(1u << after_write);
	if (after_read != NO_SCOREBOARD)
		item->sets |= (uint8_t)(1u << after_read);
	item->waits = control >> 11 & 0x3f;
}

static void read_items(struct sass_causes *causes, const struct sass *sass, uint32_t function,
		       const uint8_t *code)
{
	for (uint32_t i = 0; i < causes->count; i++) {
		struct flow *item = &causes->items[i];
		const char *text = sass_at(sass, function, (uint64_t)i * SASS_BYTES);

		sass_operands_read(text ? text : "", &item->operands);
		read_control(item, code + (size_t)i * SASS_BYTES);
		if (!item->operands.label)
			continue;
		uint64_t label = sass_label(sass, function, item->operands.label,
					    item->operands.label_length);
		if (label / SASS_BYTES < causes->count)
			item->target = (uint32_t)(label / SASS_BYTES) + 1;
	}
}

/* Adds `from` before `to`; with `before` NULL it is only counted. */
static void add_edge(struct sass_causes *causes, uint32_t from, uint32_t to)
{
	if (causes->before)
		causes->before[--causes->first_before[to + 1]] = from;
	else
		causes->first_before[to + 1]++;
}

static void add_edges(struct sass_causes *causes)
{
	for (uint32_t i = 0; i < causes->count; i++) {
		const struct flow *item = &causes->items[i];

		if (item->operands.goes_on && i + 1 < causes->count)
			add_edge(causes, i, i + 1);
		if (item->target)
			add_edge(causes, i, item->target - 1);
	}
}

/* Two passes: counts, then the edges from the end of each instruction's part. */
static bool link_items(struct sass_causes *causes)
{
	uint32_t edges = 0;

	add_edges(causes);
	for (uint32_t i = 0; i <= causes->count; i++)
		edges = causes->first_before[i] += edges;
	causes->before = calloc(edges + 1u, sizeof(*causes->before));
	if (!causes->before)
		return false;
	add_edges(causes);
	/* Each part is shifted by one: it has been filled from its end. */
	memmove(causes->first_before, causes->first_before + 1,
		causes->count * sizeof(*causes->first_before));
	causes->first_before[causes->count] = edges;
	for (uint32_t i = 0; i < causes->count; i++) {
		const struct flow *last = i ? &causes->items[i - 1] : NULL;

		causes->items[i].begins_block |= !last || last->target || !last->operands.goes_on;
		if (causes->items[i].target)
			causes->items[causes->items[i].target - 1].begins_block = true;
	}
	return true;
}

int sass_causes_open(const struct sass *sass, uint32_t function, struct sass_causes **causes_out,
		     struct proton_error *err)
{
	struct span code = sass_code(sass, function);
	size_t count = code.length / SASS_BYTES;
	struct sass_causes *causes = calloc(1, sizeof(*causes));
	bool is_complete = causes && count < UINT32_MAX / 2;

	if (is_complete) {
		causes->count = (uint32_t)count;
		causes->budget = (uint64_t)count * STEPS_PER_INSTRUCTION;
		causes->items = calloc(count + 1, sizeof(*causes->items));
		causes->first_before = calloc(count + 2, sizeof(*causes->first_before));
		causes->seen = calloc(count + 1, sizeof(*causes->seen));
		causes->pending = calloc(count + 1, sizeof(*causes->pending));
		causes->is_found = calloc(count + 1, sizeof(*causes->is_found));
		causes->queue = calloc(count + 1, sizeof(*causes->queue));
		causes->found = calloc(count + 1, sizeof(*causes->found));
		is_complete = causes->items && causes->first_before && causes->seen &&
			      causes->pending && causes->is_found && causes->queue && causes->found;
	}
	if (is_complete) {
		read_items(causes, sass, function, code.bytes);
		is_complete = link_items(causes);
	}
	if (!is_complete) {
		sass_causes_close(causes);
		return err_nomem(err);
	}
	*causes_out = causes;
	return PROTON_OK;
}

void sass_causes_close(struct sass_causes *causes)
{
	if (causes)
		FREE_ALL(causes->items, causes->first_before, causes->before, causes->seen,
			 causes->pending, causes->is_found, causes->queue, causes->found, causes);
}

uint32_t sass_causes_block(const struct sass_causes *causes, uint64_t pc)
{
	uint64_t at = pc / SASS_BYTES;

	while (at && at < causes->count && !causes->items[at].begins_block)
		at--;
	return (uint32_t)(at * SASS_BYTES);
}

/* ------------------------------------------------------------------ search */

static void add_found(struct sass_causes *causes, uint32_t at)
{
	if (causes->is_found[at])
		return;
	causes->is_found[at] = true;
	causes->found[causes->found_count++] = at;
}

/* Operands that the instruction makes: removed from the state if it always does. */
static uint8_t cross_registers(struct sass_causes *causes, uint32_t at, uint8_t state)
{
	const struct sass_operands *from = &causes->items[causes->from].operands;
	const struct sass_operands *made = &causes->items[at].operands;

	if (causes->from - at > LATENCY_INSTRUCTIONS) /* also one that is after it */
		return 0;
	for (uint32_t i = 0; i < SASS_READS_MAX && from->reads[i].count; i++) {
		if (!(state & 1u << i) ||
		    !sass_registers_meet(&from->reads[i], 1, made->writes, SASS_WRITES_MAX))
			continue;
		if (!causes->items[at].sets) /* else a scoreboard is waited for */
			add_found(causes, at);
		if (!made->is_guarded)
			state &= (uint8_t) ~(1u << i);
	}
	return state;
}

/*
 * Bit k of the state: k later groups may be pending. UNCOMMITTED: before a wait for all groups,
 * only copies that are in no group yet.
 */
static uint8_t cross_groups(struct sass_causes *causes, uint32_t at, uint8_t state,
			    enum sass_operation operation, enum sass_operation wait)
{
	const struct sass_operands *operands = &causes->items[at].operands;

	if (operands->operation == wait && !operands->groups)
		return state & (UNCOMMITTED | 1) ? UNCOMMITTED : 0;
	if (operands->is_commit && (operation == SASS_MMA) == (operands->operation == SASS_MMA))
		state = (uint8_t)((state & (UNCOMMITTED - 1)) >> 1 | (state & 1));
	if (operands->operation == operation && state & (UNCOMMITTED | 1))
		add_found(causes, at);
	return state;
}

/* Returns the state before the instruction. */
static uint8_t cross(struct sass_causes *causes, uint32_t at, uint8_t state)
{
	const struct flow *item = &causes->items[at];

	switch (causes->search) {
	case SEARCH_SCOREBOARDS:
		if (item->sets & state)
			add_found(causes, at);
		return state & (uint8_t)~item->waits;
	case SEARCH_REGISTERS:
		return cross_registers(causes, at, state);
	case SEARCH_COPIES:
		return cross_groups(causes, at, state, SASS_COPY, SASS_COPY_WAIT);
	case SEARCH_MMAS:
		return cross_groups(causes, at, state, SASS_MMA, SASS_MMA_WAIT);
	case SEARCH_STORES:
		if (item->operands.operation == SASS_STORE)
			add_found(causes, at);
		return state;
	case SEARCH_PATHS:
		if (item->operands.operation == SASS_BARRIER)
			return 0;
		add_found(causes, at);
		return state;
	default:
		return state;
	}
}

static void push_before(struct sass_causes *causes, uint32_t at, uint8_t state)
{
	for (uint32_t i = causes->first_before[at]; i < causes->first_before[at + 1]; i++) {
		uint32_t before = causes->before[i];
		uint8_t added = state & (uint8_t) ~(causes->seen[before] | causes->pending[before]);

		if (!added)
			continue;
		if (!causes->pending[before])
			causes->queue[(causes->queue_first + causes->queue_count++) %
				      (causes->count + 1)] = before;
		causes->pending[before] |= added;
	}
}

/* `seen` has the result too. */
static void walk(struct sass_causes *causes, enum search search, uint32_t from, uint8_t state)
{
	causes->search = search;
	causes->from = from;
	memset(causes->seen, 0, causes->count);
	push_before(causes, from, state);
	while (causes->queue_count) {
		uint32_t at = causes->queue[causes->queue_first];
		uint8_t added = causes->pending[at];

		causes->queue_first = (causes->queue_first + 1) % (causes->count + 1);
		causes->queue_count--;
		causes->pending[at] = 0;
		causes->seen[at] |= added;
		if (!causes->budget)
			continue;
		causes->budget--;
		push_before(causes, at, cross(causes, at, added));
	}
}

/* Drops those that are not marked any more. */
static void keep_found(struct sass_causes *causes)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < causes->found_count; i++)
		if (causes->is_found[causes->found[i]])
			causes->found[count++] = causes->found[i];
	causes->found_count = count;
}

/* If the instruction uses registers of some of its producers, the others are dropped. */
static void keep_used(struct sass_causes *causes, uint32_t from)
{
	const struct sass_operands *user = &causes->items[from].operands;
	uint32_t count = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < causes->found_count; i++) {
			uint32_t at = causes->found[i];
			const struct sass_operands *made = &causes->items[at].operands;
			bool is_used = sass_registers_meet(made->writes, SASS_WRITES_MAX,
							   user->reads, SASS_READS_MAX) ||
				       sass_registers_meet(made->writes, SASS_WRITES_MAX,
							   user->writes, SASS_WRITES_MAX) ||
				       sass_registers_meet(made->reads, SASS_READS_MAX,
							   user->writes, SASS_WRITES_MAX);

			if (pass == 0)
				count += is_used;
			else if (count && !is_used)
				causes->is_found[at] = false;
		}
	}
	keep_found(causes);
}

/* Can `to` be executed before `from`? */
static bool reaches(struct sass_causes *causes, uint32_t to, uint32_t from)
{
	walk(causes, SEARCH_ALL, from, 1);
	return causes->seen[to];
}

/*
 * An mbarrier is waited for by consumers of bulk loads, and by a partition that loads: in its loop,
 * it waits until consumers elsewhere arrive, which have used the buffer.
 */
static void follow_mbarrier(struct sass_causes *causes, uint32_t at)
{
	bool is_loader = false, has_others = false;

	for (uint32_t i = 0; i < causes->count; i++)
		if (causes->items[i].operands.operation == SASS_BULK_LOAD && !is_loader)
			is_loader = reaches(causes, i, at) && reaches(causes, at, i);
	for (uint32_t i = 0; i < causes->count && is_loader; i++)
		if (causes->items[i].operands.operation == SASS_ARRIVE && !has_others)
			has_others = !(reaches(causes, i, at) && reaches(causes, at, i));
	for (uint32_t i = 0; i < causes->count; i++)
		if (causes->items[i].operands.operation ==
		    (has_others ? SASS_ARRIVE : SASS_BULK_LOAD))
			add_found(causes, i);
}

/* Replaces instructions that ask an mbarrier by what that waits for, if anything is known. */
static void follow_mbarriers(struct sass_causes *causes)
{
	uint32_t asking = 0;

	for (uint32_t i = 0; i < causes->found_count; i++)
		if (causes->items[causes->found[i]].operands.operation == SASS_TRY_WAIT)
			asking = causes->found[i] + 1;
	if (!asking)
		return;
	follow_mbarrier(causes, asking - 1);
	for (uint32_t i = 0; i < causes->found_count && causes->found_count > 1; i++)
		if (causes->items[causes->found[i]].operands.operation == SASS_TRY_WAIT)
			causes->is_found[causes->found[i]] = false;
	keep_found(causes);
}

static void find_scoreboards(struct sass_causes *causes, uint32_t from)
{
	walk(causes, SEARCH_SCOREBOARDS, from, causes->items[from].waits);
	if (causes->found_count > 1)
		keep_used(causes, from);
	if (causes->items[from].operands.operation == SASS_TRY_WAIT && !causes->found_count)
		add_found(causes, from);
	follow_mbarriers(causes);
}

static void find(struct sass_causes *causes, uint32_t from, enum sass_wait wait)
{
	const struct sass_operands *operands = &causes->items[from].operands;
	uint8_t groups = (uint8_t)(2u << operands->groups);

	if (wait == SASS_WAIT_BARRIER) {
		/* The warp may be past the barrier already. */
		if (operands->operation != SASS_BARRIER && from &&
		    causes->items[from - 1].operands.operation == SASS_BARRIER)
			from--;
		if (causes->items[from].operands.operation == SASS_BARRIER)
			walk(causes, SEARCH_PATHS, from, 1);
	} else if (wait == SASS_WAIT_STORES) {
		walk(causes, SEARCH_STORES, from, 1);
	} else if (operands->operation == SASS_COPY_WAIT) {
		walk(causes, SEARCH_COPIES, from, groups);
	} else if (operands->operation == SASS_MMA_WAIT) {
		walk(causes, SEARCH_MMAS, from, groups);
	} else if (wait == SASS_WAIT_SCOREBOARD) {
		find_scoreboards(causes, from);
	} else if (wait == SASS_WAIT_LATENCY) {
		walk(causes, SEARCH_REGISTERS, from, (1u << SASS_READS_MAX) - 1);
	}
}

ARRAY_ORDER(compare_pcs, uint32_t, ORDER_OF(*a, *b))

size_t sass_causes_of(struct sass_causes *causes, uint64_t pc, enum sass_wait wait,
		      const uint32_t **pcs_out)
{
	uint64_t from = pc / SASS_BYTES;

	*pcs_out = causes->found;
	if (from >= causes->count || wait == SASS_WAIT_NONE)
		return 0;
	find(causes, (uint32_t)from, wait);
	size_t count = causes->found_count;
	while (causes->found_count)
		causes->is_found[causes->found[--causes->found_count]] = false;
	if (!causes->budget) /* the search has not ended */
		return 0;
	ARRAY_SORT(causes->found, count, compare_pcs);
	for (size_t i = 0; i < count; i++)
		causes->found[i] *= SASS_BYTES;
	return count;
}
