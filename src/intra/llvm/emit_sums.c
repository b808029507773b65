/* LLVM IR emitter for phis, and for the additions of sums: the same for NVIDIA and AMD. */
#include <inttypes.h>
#include <stdio.h>

#include "intra/llvm/emit.h"

const char *const emit_sum_declarations[] = {
	"declare i32 @llvm.umin.i32(i32, i32)",
	"declare i32 @llvm.umax.i32(i32, i32)",
	NULL,
};

void emit_phi(const struct emit *emit, uint32_t block, uint32_t variable,
	      struct emit_operand (*operand)(const struct emit *emit, uint32_t variable,
					     uint32_t from))
{
	const struct plan_block *b = &emit->plan->blocks[block];

	out_text(emit->out, " = phi i32 ");
	for (uint32_t i = 0; i < b->predecessor_count; i++) {
		uint32_t from = emit->plan->predecessors[b->first_predecessor + i];

		out_printf(emit->out, "%s[ %s, ", i ? ", " : "",
			   operand(emit, variable, from).text);
		ir_function_write_label(emit->function, emit->out, from);
		out_text(emit->out, " ]");
	}
	out_byte(emit->out, '\n');
}

static struct emit_operand operand(const struct emit *emit, uint32_t variable,
				   struct plan_value value)
{
	static const char *const names[] = {
		[SUM_CYCLES] = "c", [SUM_COUNTER] = "n", [SUM_OPEN] = "o", [SUM_INSIDE] = "q",
		[SUM_BEGIN] = "b",  [SUM_MIN] = "min",   [SUM_MAX] = "max"};
	struct emit_operand made;

	if (value.origin == VALUE_PHI)
		snprintf(made.text, sizeof(made.text), "%%proton.s.%u.%u", variable, value.number);
	else if (value.origin == VALUE_CODE)
		snprintf(made.text, sizeof(made.text), "%%proton.%s.%u",
			 names[emit->sums->variables[variable].kind], value.number);
	else
		snprintf(made.text, sizeof(made.text), "%" PRId32,
			 value.origin == VALUE_CONSTANT ? (int32_t)value.number : 0);
	return made;
}

/* The value of the variable before a marker of a block. */
static struct emit_operand operand_before(const struct emit *emit, uint32_t variable,
					  uint32_t block, uint32_t marker)
{
	return operand(emit, variable, sum_plan_value(emit->sums, variable, block, marker));
}

static struct emit_operand operand_after(const struct emit *emit, uint32_t variable, uint32_t block)
{
	const struct ir_block *b = &emit->function->blocks[block];

	return operand_before(emit, variable, block, b->first_marker + b->marker_count);
}

void emit_sum_phis(const struct emit *emit, uint32_t block)
{
	for (uint32_t v = 0; v < emit->sums->variable_count; v++) {
		if (!plan_is_phi(emit->plan, sum_plan_entry(emit->sums, v, block), block))
			continue;
		out_printf(emit->out, "  %%proton.s.%u.%u", v, block);
		emit_phi(emit, block, v, operand_after);
	}
}

/* The variable with the clock at the start of the sum, or PLAN_NONE. */
static uint32_t begin_of(const struct sum_plan *sums, uint32_t sum)
{
	for (uint32_t v = 0; v < sums->variable_count; v++)
		if (sums->variables[v].kind == SUM_BEGIN && sums->variables[v].index == sum)
			return v;
	return PLAN_NONE;
}

/* Defines "%proton.d.MARKER", the duration of the execution that ends. False if it is unknown. */
static bool find_duration(const struct emit *emit, uint32_t sum, uint32_t block, uint32_t marker)
{
	const struct plan_site *site = &emit->plan->sites[marker];
	const struct ir_marker *markers = emit->function->markers;
	uint32_t begin = begin_of(emit->sums, sum);
	struct emit_operand start;
	struct slice from;

	if (site->start != PLAN_NONE) {
		from = markers[emit->plan->sites[site->start].clock].result;
	} else if (begin != PLAN_NONE && markers[marker].marker.is_end) {
		start = operand_before(emit, begin, block, marker);
		from = slice_of(start.text);
	} else {
		return false;
	}
	EMIT(emit->out, "  %proton.d.<marker> = sub i32 <end>, <start>\n",
	     EMIT_NUMBER("marker", marker), EMIT_SLICE("end", markers[site->clock].result),
	     EMIT_SLICE("start", from));
	return true;
}

/* Adds the duration, or the clock at one of its ends. */
static void add_cycles(const struct emit *emit, uint32_t sum, uint32_t block, uint32_t marker,
		       const char *before)
{
	const struct plan_site *site = &emit->plan->sites[marker];
	const struct ir_marker *markers = emit->function->markers;

	if (find_duration(emit, sum, block, marker)) {
		EMIT(emit->out, "  %proton.c.<marker> = add i32 <before>, %proton.d.<marker>\n",
		     EMIT_NUMBER("marker", marker), EMIT_TEXT("before", before));
		return;
	}
	EMIT(emit->out, "  %proton.c.<marker> = <change> i32 <before>, <clock>\n",
	     EMIT_NUMBER("marker", marker), EMIT_TEXT("before", before),
	     EMIT_TEXT("change", markers[marker].marker.is_end ? "add" : "sub"),
	     EMIT_SLICE("clock", markers[site->clock].result));
}

/* Keeps the clock of a start. */
static void keep_start(const struct emit *emit, uint32_t marker)
{
	uint32_t clock = emit->plan->sites[marker].clock;

	EMIT(emit->out, "  %proton.b.<marker> = add i32 <clock>, 0\n",
	     EMIT_NUMBER("marker", marker),
	     EMIT_SLICE("clock", emit->function->markers[clock].result));
}

static void change_variable(const struct emit *emit, uint32_t variable, uint32_t block,
			    uint32_t marker)
{
	const struct sum_variable *v = &emit->sums->variables[variable];
	struct plan_value value = sum_plan_value(emit->sums, variable, block, marker);
	struct emit_operand before = operand(emit, variable, value);
	struct emit_operand open;
	bool is_end = emit->function->markers[marker].marker.is_end;
	const char *text = NULL;

	if (v->kind == SUM_CYCLES)
		add_cycles(emit, v->index, block, marker, before.text);
	else if (v->kind == SUM_BEGIN && !is_end)
		keep_start(emit, marker);
	else if (v->kind == SUM_MIN || v->kind == SUM_MAX)
		text = "  %proton.<name>.<marker> = call i32 @llvm.u<name>.i32(i32 <before>, "
		       "i32 %proton.d.<marker>)\n";
	else if (v->kind == SUM_COUNTER && value.origin != VALUE_CONSTANT)
		text = "  %proton.n.<marker> = add i32 <before>, 1\n";
	else if (v->kind == SUM_OPEN && value.origin != VALUE_CONSTANT)
		text = "  %proton.o.<marker> = add i32 <before>, <change>\n";
	else if (v->kind == SUM_INSIDE)
		text = "  %proton.y.<marker> = icmp ne i32 <open>, 0\n"
		       "  %proton.z.<marker> = zext i1 %proton.y.<marker> to i32\n"
		       "  %proton.q.<marker> = add i32 <before>, %proton.z.<marker>\n";
	if (!text)
		return;
	open = v->kind == SUM_INSIDE ? operand_before(emit, v->open, block, marker) : before;
	EMIT(emit->out, text, EMIT_NUMBER("marker", marker), EMIT_TEXT("before", before.text),
	     EMIT_TEXT("name", v->kind == SUM_MIN ? "min" : "max"),
	     EMIT_NUMBER("change", is_end ? -1 : 1), EMIT_TEXT("open", open.text));
}

void emit_sum_marker(const struct emit *emit, uint32_t block, uint32_t marker)
{
	if (sum_plan_entry(emit->sums, 0, block).origin == VALUE_UNREACHED)
		return;
	for (uint32_t v = 0; v < emit->sums->variable_count; v++)
		if (sum_plan_changes(emit->sums, v, marker))
			change_variable(emit, v, block, marker);
}

struct emit_operand emit_sum_word(const struct emit *emit, uint32_t word)
{
	struct plan_value value = {VALUE_CONSTANT, 0};

	if (word < emit->sums->variable_count)
		value = sum_plan_entry(emit->sums, word, emit->function->block_count);
	return operand(emit, word, value);
}
