/* Sharing out stalls between the instructions that cause them. */
#include "viewer/numbers/source_causes.h"

#include "base/array.h"
#include "model/sample_lines.h"
#include "model/samples.h"
#include "symbol/code_object.h"
#include "symbol/sass_causes.h"
#include "viewer/print/xalloc.h"

/* Samples of a stall that an instruction causes. */
struct part {
	uint32_t pc;
	uint64_t samples;
};

/* Samples of an instruction with one reason; `parts` from `first` on. */
struct stall {
	const struct profile_pc *pc;
	uint32_t reason;
	enum sass_wait wait;
	size_t first, count;
};

struct function {
	const struct source_report *report;
	struct sass_causes *causes;
	struct lines lines;
	struct stall *stalls; /* by offset */
	size_t stall_count;
	struct part *parts;
	size_t part_count;
	uint64_t *issued; /* samples that a block issued, at its first instruction */
	uint64_t *sums;   /* by instruction, of one stall at a barrier */
	size_t length;    /* instructions */
};

static void add_part(struct function *function, uint32_t pc, uint64_t samples)
{
	if (samples)
		XADD(function->parts, function->part_count, (struct part){pc, samples});
}

/* The k-th of parts that add up to `samples`, in proportion to weights that add up to `all`. */
static uint64_t part_of(uint64_t samples, uint64_t before, uint64_t weight, uint64_t all)
{
	return (uint64_t)((__uint128_t)samples * (before + weight) / all -
			  (__uint128_t)samples * before / all);
}

static uint64_t issued_at(const struct function *function, uint32_t pc)
{
	return 1 + function->issued[sass_causes_block(function->causes, pc) / SASS_BYTES];
}

/* Between producers of a result. */
static void share_out(struct function *function, const struct stall *stall, const uint32_t *pcs,
		      size_t count)
{
	uint64_t before = 0, all = 0;

	for (size_t i = 0; i < count; i++)
		all += issued_at(function, pcs[i]);
	for (size_t i = 0; i < count; i++) {
		uint64_t weight = issued_at(function, pcs[i]);

		add_part(function, pcs[i], part_of(stall->pc->samples, before, weight, all));
		before += weight;
	}
}

/* Adds up what the instructions since the barrier before wait for; returns the sum. */
static uint64_t sum_paths(struct function *function, const uint32_t *pcs, size_t count)
{
	uint64_t all = 0;
	size_t i = 0;

	for (size_t k = 0; k < function->stall_count; k++) {
		const struct stall *stall = &function->stalls[k];

		while (i < count && pcs[i] < stall->pc->offset)
			i++;
		if (i == count || pcs[i] != stall->pc->offset || stall->wait == SASS_WAIT_BARRIER)
			continue;
		for (size_t p = stall->first; p < stall->first + stall->count; p++) {
			function->sums[function->parts[p].pc / SASS_BYTES] +=
				function->parts[p].samples;
			all += function->parts[p].samples;
		}
	}
	return all;
}

/* At a barrier: the other warps do, or wait for, what this one has done or waited for. */
static void share_out_barrier(struct function *function, const struct stall *stall,
			      const uint32_t *pcs, size_t count)
{
	uint64_t before = 0;

	memset(function->sums, 0, function->length * sizeof(*function->sums));
	uint64_t all = sum_paths(function, pcs, count);
	if (!all)
		add_part(function, stall->pc->offset, stall->pc->samples);
	for (size_t i = 0; i < function->length && all; i++) {
		add_part(function, (uint32_t)(i * SASS_BYTES),
			 part_of(stall->pc->samples, before, function->sums[i], all));
		before += function->sums[i];
	}
}

static void find_parts(struct function *function, struct stall *stall)
{
	const uint32_t *pcs;
	size_t count = sass_causes_of(function->causes, stall->pc->offset, stall->wait, &pcs);

	stall->first = function->part_count;
	if (!count)
		add_part(function, stall->pc->offset, stall->pc->samples);
	else if (stall->wait == SASS_WAIT_BARRIER)
		share_out_barrier(function, stall, pcs, count);
	else
		share_out(function, stall, pcs, count);
	stall->count = function->part_count - stall->first;
}

/* ------------------------------------------------------------------ lines */

static void line_of(struct function *function, uint32_t pc, uint32_t *file, uint32_t *line)
{
	struct profile *profile = function->report->profile;
	uint32_t number = lines_frame(&function->lines, pc, 0);
	uint32_t frame = number ? lines_profile_frame(&function->lines, number) : 0;

	*file = number ? profile->frames[frame].file : 0;
	*line = number ? profile->frames[frame].line : 0;
}

static void add_lines(struct function *function, const struct stall *stall,
		      struct source_causes *causes)
{
	struct source_cause item = {.reason = stall->reason};
	size_t first = causes->count;
	bool is_shared = false;

	line_of(function, stall->pc->offset, &item.at_file, &item.at_line);
	for (size_t i = stall->first; i < stall->first + stall->count; i++) {
		line_of(function, function->parts[i].pc, &item.file, &item.line);
		item.samples = function->parts[i].samples;
		causes->samples += item.samples;
		XADD(causes->items, causes->count, item);
		is_shared |= item.file != causes->items[first].file ||
			     item.line != causes->items[first].line;
	}
	for (size_t i = first; i < causes->count && is_shared; i++)
		causes->items[i].shared = causes->items[i].samples;
}

ARRAY_ORDER(compare_items, struct source_cause,
	    ORDER_OF(a->file, b->file) ?: ORDER_OF(a->line, b->line)
	    ?: ORDER_OF(a->at_file, b->at_file) ?: ORDER_OF(a->at_line, b->at_line)
	    ?: ORDER_OF(a->reason, b->reason))

/* One item for each cause, line and reason. */
static void merge_items(struct source_causes *causes)
{
	size_t count = 0;

	ARRAY_SORT(causes->items, causes->count, compare_items);
	for (size_t i = 0; i < causes->count; i++) {
		if (!count || compare_items(&causes->items[count - 1], &causes->items[i]) != 0) {
			causes->items[count++] = causes->items[i];
			continue;
		}
		causes->items[count - 1].samples += causes->items[i].samples;
		causes->items[count - 1].shared += causes->items[i].shared;
	}
	causes->count = count;
}

/* ------------------------------------------------------------------ functions */

static void read_stalls(struct function *function, const struct profile_function *from)
{
	const struct source_report *report = function->report;
	const struct profile_samples *samples = report->profile->samples;

	function->stalls = xcalloc(from->pc_count, sizeof(*function->stalls));
	for (size_t i = 0; i < from->pc_count; i++) {
		const struct profile_pc *pc = &samples->pcs[from->first_pc + i];
		uint32_t reason = source_reason_of(report, samples->reasons[pc->reason]);
		const struct stall_reason *known =
			reason < report->reason_count ? report->reasons[reason].known : NULL;

		if (pc->offset / SASS_BYTES >= function->length)
			continue;
		function->stalls[function->stall_count++] = (struct stall){
			.pc = pc, .reason = reason, .wait = known ? known->wait : SASS_WAIT_NONE};
		if (known && strcmp(known->name, "selected") == 0)
			function->issued[sass_causes_block(function->causes, pc->offset) /
					 SASS_BYTES] += pc->samples;
	}
}

/* `sass` has the function with this number. */
static void add_function(struct source_causes *causes, const struct source_report *report,
			 const struct profile_function *from, const struct sass *sass,
			 uint32_t number)
{
	struct function function = {.report = report,
				    .length = sass_code(sass, number).length / SASS_BYTES};

	if (!function.length || sass_causes_open(sass, number, &function.causes, NULL))
		return;
	function.issued = xcalloc(function.length, sizeof(*function.issued));
	function.sums = xcalloc(function.length, sizeof(*function.sums));
	lines_open(&function.lines, report->profile, report->profile->samples, from);
	read_stalls(&function, from);
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < function.stall_count; i++)
			if ((function.stalls[i].wait == SASS_WAIT_BARRIER) == (pass == 1))
				find_parts(&function, &function.stalls[i]);
	for (size_t i = 0; i < function.stall_count; i++)
		add_lines(&function, &function.stalls[i], causes);
	lines_close(&function.lines);
	sass_causes_close(function.causes);
	FREE_ALL(function.stalls, function.parts, function.issued, function.sums);
}

/* A disassembler is not run for code without causes. */
static bool is_cubin(const struct profile_code_object *code)
{
	struct code_object object;

	if (!code->length || code_object_open(&object, code->bytes, code->length, NULL))
		return false;
	bool is_nvidia = object.machine == MACHINE_NVIDIA;
	code_object_close(&object);
	return is_nvidia;
}

void source_causes_init(struct source_causes *causes, const struct source_report *report,
			const struct source_kernel *kernel, struct source_code *code)
{
	const struct profile *profile = report->profile;
	const struct profile_samples *samples = profile->samples;
	uint32_t name = profile->frames[kernel->frame].name;

	*causes = (struct source_causes){0};
	for (uint32_t i = 0; samples && i < samples->function_count; i++) {
		const struct profile_function *function = &samples->functions[i];

		if (function->name != name || !function->code_object ||
		    !is_cubin(&samples->code_objects[function->code_object - 1]))
			continue;
		struct sass *sass = source_code_sass(code, samples, function);
		if (sass)
			add_function(causes, report, function, sass,
				     sass_function(sass, profile_text(profile, name)));
	}
	merge_items(causes);
}

void source_causes_add_lines(const struct source_causes *causes, struct source_kernel *kernel)
{
	const struct source_cause *last = NULL;

	ARRAY_EACH(item, causes->items, causes->count) {
		if (!item->file || (last && last->file == item->file && last->line == item->line))
			continue;
		XADD(kernel->lines, kernel->line_count,
		     (struct source_line){.file = item->file, .line = item->line});
		last = item;
	}
	if (last)
		source_lines_settle(kernel);
}

uint64_t source_causes_of_line(const struct source_causes *causes, uint32_t file, uint32_t line)
{
	size_t i =
		ARRAY_COUNT_BEFORE(causes->count, k,
				   causes->items[k].file < file || (causes->items[k].file == file &&
								    causes->items[k].line < line));
	uint64_t sum = 0;

	for (; i < causes->count && causes->items[i].file == file && causes->items[i].line == line;
	     i++)
		sum += causes->items[i].samples;
	return sum;
}

size_t source_causes_of_reason(const struct source_causes *causes, uint32_t reason,
			       struct source_cause *out, size_t max, uint64_t *all_out)
{
	size_t count = 0;

	*all_out = 0;
	for (size_t from = 0, to; from < causes->count; from = to) {
		struct source_cause sum = {.file = causes->items[from].file,
					   .line = causes->items[from].line,
					   .reason = reason};
		size_t at;

		for (to = from; to < causes->count && causes->items[to].file == sum.file &&
				causes->items[to].line == sum.line;
		     to++) {
			if (causes->items[to].reason != reason)
				continue;
			sum.samples += causes->items[to].samples;
			sum.shared += causes->items[to].shared;
		}
		*all_out += sum.samples;
		if (count == max && sum.samples > out[max - 1].samples)
			count--;
		else if (count == max || !sum.samples)
			continue;
		for (at = count++; at && out[at - 1].samples < sum.samples; at--)
			out[at] = out[at - 1];
		out[at] = sum;
	}
	return count;
}
