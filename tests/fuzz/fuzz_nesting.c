/*
 * Fuzz target for nesting with overwritten records. The input is a program of scopes, loops and
 * branches that a warp runs. The decoder must find the true parents, as far as the records or the
 * program determine them.
 */
#include <stdlib.h>
#include <string.h>

#include "intra/decode/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define SCOPES 6u
#define OPS_MAX 64u
#define DEPTH_MAX 12u
#define RUNS_MAX 600u    /* executions of scopes */
#define TURNS_MAX 10000u /* all loops */
#define RING_LOG_MAX 5u
#define NOBODY UINT32_MAX

enum op {
	OP_END, /* end of a body */
	OP_SCOPE,
	OP_WHOLE, /* a scope that is one record */
	OP_LOOP,
	OP_BRANCH,
	OP_LEAVE, /* a branch that exits the kernel */
	OP_COUNT,
};

struct step {
	uint8_t op;
	uint8_t scope; /* or iterations of a loop */
	uint32_t end;  /* after the end of its body */
};

/* An execution as it happened. */
struct run {
	uint64_t start;
	uint64_t end; /* 0: it did not end */
	uint32_t outer;
	uint8_t scope;
};

static struct {
	struct step steps[OPS_MAX];
	uint32_t step_count;
	uint8_t may[SCOPES]; /* sets of scopes: open at some start, ... */
	uint8_t must[SCOPES];
	bool is_started[SCOPES];
	/* The warp. */
	const uint8_t *choices;
	const uint8_t *choices_end;
	struct run runs[RUNS_MAX];
	uint32_t run_count;
	uint32_t turn_count;
	struct instrument_record records[2 * RUNS_MAX];
	uint32_t record_count;
	uint64_t clock;
	bool is_over;
} program;

static struct instrument_layout layout;

static uint8_t take(const uint8_t **at, const uint8_t *end)
{
	return *at < end ? *(*at)++ : 0;
}

/* ------------------------------------------------------------------ the program */

static bool has_body(uint8_t op)
{
	return op >= OP_SCOPE && op <= OP_BRANCH;
}

/* Parses until the end of a body; the kernel does not exit within a record. */
static void parse(const uint8_t **at, const uint8_t *end, uint32_t depth, bool is_whole)
{
	while (program.step_count < OPS_MAX - DEPTH_MAX && *at < end) {
		uint8_t byte = *(*at)++;
		struct step *step = &program.steps[program.step_count];

		*step = (struct step){.op = byte % OP_COUNT, .scope = byte / OP_COUNT % SCOPES};
		if (step->op == OP_END)
			break;
		if ((step->op == OP_LEAVE && is_whole) ||
		    (has_body(step->op) && depth == DEPTH_MAX))
			continue;
		program.step_count++;
		if (has_body(step->op))
			parse(at, end, depth + 1, is_whole || step->op == OP_WHOLE);
		step->end = program.step_count;
	}
}

/* Static nesting: every path, whether or not the warp takes it. */
static void look_through(uint32_t from, uint32_t to, uint8_t open)
{
	for (uint32_t i = from; i < to; i = program.steps[i].end) {
		const struct step *step = &program.steps[i];
		uint8_t scope = step->scope;
		bool is_scope = step->op == OP_SCOPE || step->op == OP_WHOLE;

		if (is_scope) {
			program.may[scope] |= open;
			program.must[scope] &= open;
			program.is_started[scope] = true;
		}
		if (has_body(step->op))
			look_through(i + 1, step->end,
				     (uint8_t)(is_scope ? open | 1u << scope : open));
	}
}

static bool is_in_itself(void)
{
	for (uint32_t scope = 0; scope < SCOPES; scope++)
		if (program.may[scope] >> scope & 1)
			return true;
	return false;
}

/* The innermost scope that is ordered with all others. */
static uint16_t parent_of(uint32_t scope)
{
	uint16_t parent = INSTRUMENT_NO_SCOPE;

	for (uint16_t p = 0; p < SCOPES; p++) {
		bool is_it = program.must[scope] >> p & 1;

		for (uint32_t q = 0; q < SCOPES; q++)
			if (q != p && program.must[scope] >> q & 1 && !(program.must[p] >> q & 1) &&
			    !(program.must[q] >> p & 1))
				is_it = false;
		if (is_it && (parent == INSTRUMENT_NO_SCOPE || program.must[p] >> parent & 1))
			parent = p;
	}
	return parent;
}

static void make_layout(uint32_t ring_log, bool has_nesting)
{
	static const char *const names[SCOPES] = {"a", "b", "c", "d", "e", "f"};
	struct instrument_nesting *nesting;

	layout = (struct instrument_layout){
		.unit_count = 1,
		.warps_per_unit = 1,
		.warp_count = 1,
		.ring_bytes = INSTRUMENT_RECORD_BYTES << ring_log,
		.cta_stride = 1,
	};
	layout.cta_bytes = ((uint32_t)layout_ring_at(&layout, 1) + 127u) / 128u * 128u;
	for (uint32_t scope = 0; scope < SCOPES; scope++) {
		layout_scope(&layout, names[scope], 1);
		for (uint32_t kind = INSTRUMENT_SCOPE; kind <= INSTRUMENT_END; kind++)
			layout_code(&layout, scope, kind);
	}
	nesting = has_nesting ? layout_nesting(&layout) : NULL;
	for (uint32_t scope = 0; nesting && scope < SCOPES; scope++) {
		program.must[scope] &= (uint8_t) ~(1u << scope);
		nesting[scope].is_known = program.is_started[scope];
		if (!program.is_started[scope])
			program.must[scope] = 0;
	}
	for (uint32_t scope = 0; nesting && scope < SCOPES; scope++) {
		nesting[scope].around.bits[0] = program.may[scope];
		nesting[scope].parent = parent_of(scope);
	}
}

/* ------------------------------------------------------------------ the warp */

static void record(uint8_t scope, enum instrument_kind kind, uint64_t clock, uint64_t duration)
{
	program.records[program.record_count++] = (struct instrument_record){
		(uint32_t)clock, (1u + scope * 3u + kind) << 24 | (uint32_t)duration};
}

static uint8_t choose(void)
{
	program.clock += 1;
	return take(&program.choices, program.choices_end);
}

static void run(uint32_t from, uint32_t to, uint32_t outer);

static void run_scope(uint32_t at, uint32_t outer)
{
	const struct step *step = &program.steps[at];
	uint32_t index = program.run_count++;
	struct run *it = &program.runs[index];

	program.clock += 3;
	*it = (struct run){.start = program.clock, .outer = outer, .scope = step->scope};
	if (step->op == OP_SCOPE)
		record(step->scope, INSTRUMENT_START, program.clock, 0);
	run(at + 1, step->end, index);
	if (program.is_over)
		return;
	program.clock += 3;
	it->end = program.clock;
	if (step->op == OP_SCOPE)
		record(step->scope, INSTRUMENT_END, program.clock, 0);
	else
		record(step->scope, INSTRUMENT_SCOPE, it->start, it->end - it->start);
}

static void run(uint32_t from, uint32_t to, uint32_t outer)
{
	for (uint32_t i = from; i < to && !program.is_over; i = program.steps[i].end) {
		const struct step *step = &program.steps[i];

		if (step->op == OP_LEAVE)
			program.is_over = choose() % 8 == 1;
		else if (step->op == OP_BRANCH && choose() & 1)
			run(i + 1, step->end, outer);
		for (uint32_t turn = 0; step->op == OP_LOOP && turn < step->scope * 2u; turn++)
			if (program.turn_count++ < TURNS_MAX)
				run(i + 1, step->end, outer);
		if ((step->op == OP_SCOPE || step->op == OP_WHOLE) && program.run_count < RUNS_MAX)
			run_scope(i, outer);
	}
}

static void store(uint8_t *cta)
{
	uint32_t capacity = layout.ring_bytes / INSTRUMENT_RECORD_BYTES;
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.count = program.record_count,
		.end_clock = program.clock + 1,
	};

	memcpy(cta, &header, sizeof(header));
	for (uint32_t i = 0; i < program.record_count; i++)
		memcpy(cta + layout_ring_at(&layout, 0) +
			       (size_t)(i % capacity) * INSTRUMENT_RECORD_BYTES,
		       &program.records[i], INSTRUMENT_RECORD_BYTES);
}

/* ------------------------------------------------------------------ checks */

static uint64_t end_of(const struct run *it)
{
	return it->end ? it->end : UINT64_MAX;
}

/* True if the execution is this run, or for a partial execution may be part of it. */
static bool is_of(const struct decode_execution *execution, const struct run *it)
{
	if (execution->scope != it->scope)
		return false;
	if (!execution->is_partial)
		return execution->start == it->start && decode_end_of(execution) == it->end;
	return execution->start >= it->start && decode_end_of(execution) <= end_of(it);
}

static const struct run *find(const struct decode_execution *execution)
{
	for (uint32_t i = 0; i < program.run_count; i++)
		if (is_of(execution, &program.runs[i]))
			return &program.runs[i];
	abort(); /* nothing like that ran */
}

/* The decoded parent of an execution is a true ancestor. */
static void check_parent(const struct decoder *decoder, const struct decode_execution *execution)
{
	const struct decode_execution *parent;
	uint32_t outer = find(execution)->outer;

	if (execution->parent == DECODE_NONE)
		return;
	parent = &decoder->executions[execution->parent];
	if (parent->start > execution->start || decode_end_of(parent) < decode_end_of(execution))
		abort();
	while (outer != NOBODY && !is_of(parent, &program.runs[outer]))
		outer = program.runs[outer].outer;
	if (outer == NOBODY)
		abort();
}

static bool is_reported_in(const struct decoder *decoder, const struct decode_execution *execution,
			   const struct run *outer)
{
	for (uint32_t at = execution->parent; at != DECODE_NONE;
	     at = decoder->executions[at].parent)
		if (is_of(&decoder->executions[at], outer))
			return true;
	return false;
}

/* An ancestor that ended, or that always contains it, is decoded as an ancestor. */
static void check_ancestors(const struct decoder *decoder, const struct decode_execution *execution)
{
	const struct instrument_nesting *nesting = layout.nesting;

	for (uint32_t outer = find(execution)->outer; outer != NOBODY;
	     outer = program.runs[outer].outer) {
		const struct run *it = &program.runs[outer];
		bool is_known = it->end != 0;

		/* If a scope may contain itself, a record may be an inner one's. */
		if (nesting && !layout_may_contain(&layout, it->scope, it->scope))
			is_known |= nesting[execution->scope].parent == it->scope;
		if (is_known && !is_reported_in(decoder, execution, it))
			abort();
	}
}

static void check(const struct decoder *decoder)
{
	bool has_dropped = decoder->units[0].dropped;

	for (size_t i = 0; i < decoder->execution_count; i++) {
		const struct decode_execution *execution = &decoder->executions[i];

		if (execution->is_partial) {
			find(execution);
			continue;
		}
		check_parent(decoder, execution);
		/* Without static nesting the second END of a scope in itself is unpaired. */
		if (layout.nesting || !is_in_itself() || !has_dropped)
			check_ancestors(decoder, execution);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const uint8_t *at = bytes;
	const uint8_t *end = bytes + length;
	uint8_t head = take(&at, end);
	struct decoder decoder;
	uint8_t *cta;

	memset(&program, 0, sizeof(program));
	memset(program.must, 0xff, sizeof(program.must));
	parse(&at, end, 0, false);
	look_through(0, program.step_count, 0);
	make_layout(head % (RING_LOG_MAX + 1), head & 0x80);
	program.choices = bytes; /* once more */
	program.choices_end = end;
	run(0, program.step_count, NOBODY);
	cta = calloc(1, layout.cta_bytes);
	if (cta)
		store(cta);
	decoder_init(&decoder, &layout, (struct decode_overhead){0, 0});
	if (cta && decode_cta(&decoder, cta))
		check(&decoder);
	decoder_fini(&decoder);
	layout_fini(&layout);
	free(cta);
	return 0;
}
