/* LLVM IR emitter: the parts that are the same for NVIDIA and AMD. */
#include "intra/llvm/emit.h"

#include <inttypes.h>
#include <stdio.h>

static void write_unchanged(const struct emit *emit, struct slice line)
{
	out_bytes(emit->out, line.at, line.length);
	out_byte(emit->out, '\n');
}

/* ------------------------------------------------------------------ templates */

static const struct emit_value *find_value(struct slice name, const struct emit_value *values,
					   size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (slice_is(name, values[i].name))
			return &values[i];
	return NULL;
}

/* The name of the placeholder at `at`, which is a "<"; empty if it is not a placeholder. */
static struct slice name_at(const char *at)
{
	struct slice name = {at + 1, 0};

	while (name.at[name.length] >= 'a' && name.at[name.length] <= 'z')
		name.length++;
	if (name.at[name.length] != '>')
		name.length = 0;
	return name;
}

void emit_template(struct out *out, const char *text, const struct emit_value *values, size_t count)
{
	const char *at;

	for (; (at = strchr(text, '<')) != NULL; text = at) {
		struct slice name = name_at(at);
		const struct emit_value *value = find_value(name, values, count);

		out_bytes(out, text, (size_t)(at - text));
		if (!value) {
			out_byte(out, *at++);
			continue;
		}
		if (value->text.at)
			out_bytes(out, value->text.at, value->text.length);
		else
			out_printf(out, "%" PRId64, value->number);
		at = name.at + name.length + 1;
	}
	out_text(out, text);
}

/* ------------------------------------------------------------------ bytes used */

static struct emit_operand operand(struct plan_value value)
{
	struct emit_operand made;

	if (value.origin == VALUE_PHI || value.origin == VALUE_CODE)
		snprintf(made.text, sizeof(made.text), "%%proton.%c.%u",
			 value.origin == VALUE_PHI ? 'i' : 'n', value.number);
	else
		snprintf(made.text, sizeof(made.text), "%u", value.number);
	return made;
}

static struct emit_operand used_after(const struct emit *emit, uint32_t block)
{
	return operand(plan_used_after(emit->plan, block));
}

static bool varies(const struct emit *emit, uint32_t block)
{
	enum value_origin origin = emit->plan->used[block].origin;

	return origin == VALUE_PHI || origin == VALUE_CODE;
}

/* ------------------------------------------------------------------ sums */

static struct emit_operand sum_operand(const struct emit *emit, uint32_t variable,
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
	return sum_operand(emit, variable, sum_plan_value(emit->sums, variable, block, marker));
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
	struct slice from;

	if (site->start != PLAN_NONE) {
		from = markers[emit->plan->sites[site->start].clock].result;
	} else if (begin != PLAN_NONE && markers[marker].marker.is_end) {
		struct emit_operand start = operand_before(emit, begin, block, marker);
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
	struct emit_operand before = sum_operand(emit, variable, value);
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
	struct emit_operand open =
		v->kind == SUM_INSIDE ? operand_before(emit, v->open, block, marker) : before;
	EMIT(emit->out, text, EMIT_NUMBER("marker", marker), EMIT_TEXT("before", before.text),
	     EMIT_TEXT("name", v->kind == SUM_MIN ? "min" : "max"),
	     EMIT_NUMBER("change", is_end ? -1 : 1), EMIT_TEXT("open", open.text));
}

/* After a marker's clock read: adds to its sum, and counts. */
static void write_sum(const struct emit *emit, uint32_t block, uint32_t marker)
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
	return sum_operand(emit, word, value);
}

/* ------------------------------------------------------------------ phis */

/* Writes a phi, after its name: a variable of the sums, or the bytes used. */
static void write_phi(const struct emit *emit, uint32_t block, uint32_t variable)
{
	const struct plan_block *b = &emit->plan->blocks[block];

	out_text(emit->out, " = phi i32 ");
	for (uint32_t i = 0; i < b->predecessor_count; i++) {
		uint32_t from = emit->plan->predecessors[b->first_predecessor + i];
		const struct ir_block *end = &emit->function->blocks[from];

		out_printf(emit->out, "%s[ %s, ", i ? ", " : "",
			   emit->sums ? operand_before(emit, variable, from,
						       end->first_marker + end->marker_count)
						.text
				      : used_after(emit, from).text);
		ir_function_write_label(emit->function, emit->out, from);
		out_text(emit->out, " ]");
	}
	out_byte(emit->out, '\n');
}

static void write_phis(const struct emit *emit, uint32_t block)
{
	for (uint32_t v = 0; emit->sums && v < emit->sums->variable_count; v++) {
		if (!plan_is_phi(emit->plan, sum_plan_entry(emit->sums, v, block), block))
			continue;
		out_printf(emit->out, "  %%proton.s.%u.%u", v, block);
		write_phi(emit, block, v);
	}
	if (!emit->sums && plan_is_phi(emit->plan, emit->plan->used[block], block)) {
		out_printf(emit->out, "  %%proton.i.%u", block);
		write_phi(emit, block, 0);
	}
}

/* ------------------------------------------------------------------ definitions and attributes */

/*
 * Keeps only parameter attributes that still hold: the kernel now writes through this parameter,
 * and later versions of LLVM may infer other attributes.
 */
static void define_line(const struct emit *emit)
{
	struct slice line = emit->function->lines[emit->function->define_line];
	const char *name = emit->function->last_parameter.at;
	const char *at = slice_find_last(slice_between(line.at, name), "ptr addrspace(1) ");
	struct slice attributes = slice_between(at + strlen("ptr addrspace(1) "), name);

	out_bytes(emit->out, line.at, (size_t)(attributes.at - line.at));
	while (attributes.length) {
		struct slice word = slice_take_until(&attributes, ' ');

		if (!slice_is_any(word, "noundef inreg nofree"))
			continue;
		out_bytes(emit->out, word.at, word.length);
		out_byte(emit->out, ' ');
	}
	write_unchanged(emit, slice_between(name, slice_end(line)));
}

/*
 * Drops AMD function attributes that LLVM inferred before instrumentation: that the kernel does not
 * need these inputs. LLVM never infers that a function with markers does not touch memory, because
 * inline assembly might.
 */
static void attributes_line(const struct emit *emit, struct slice line)
{
	static const char *const gone[] = {
		"\"amdgpu-no-workgroup-id-x\"",  "\"amdgpu-no-workgroup-id-y\"",
		"\"amdgpu-no-workgroup-id-z\"",  "\"amdgpu-no-workitem-id-x\"",
		"\"amdgpu-no-implicitarg-ptr\"",
	};

	ir_write_without(line, gone, ARRAY_LENGTH(gone), emit->out);
	out_byte(emit->out, '\n');
}

/* ------------------------------------------------------------------ records */

static void write_record(const struct emit *emit, uint32_t block, uint32_t marker)
{
	const struct plan_site *site = &emit->plan->sites[marker];
	struct slice end = emit->function->markers[site->clock].result;
	struct emit_address address = {PLAN_NONE, site->slot * INSTRUMENT_RECORD_BYTES};
	char clock[64];
	char word[64];

	if (varies(emit, block))
		address.block = block;
	else
		address.offset_bytes += emit->plan->used[block].number &
					(emit->layout->ring_bytes - 1);
	if (site->start == PLAN_NONE) {
		snprintf(clock, sizeof(clock), "%.*s", (int)end.length, end.at);
		snprintf(word, sizeof(word), "%" PRId32, (int32_t)(site->code << 24));
	} else {
		struct slice start =
			emit->function->markers[emit->plan->sites[site->start].clock].result;

		snprintf(clock, sizeof(clock), "%.*s", (int)start.length, start.at);
		snprintf(word, sizeof(word), "%%proton.w.%u", marker);
		EMIT(emit->out,
		     "  %proton.d.<marker> = sub i32 <end>, <start>\n"
		     "  %proton.l.<marker> = icmp ult i32 %proton.d.<marker>, <max>\n"
		     "  %proton.c.<marker> = select i1 %proton.l.<marker>, i32 %proton.d.<marker>, "
		     "i32 <max>\n"
		     "  %proton.w.<marker> = or disjoint i32 %proton.c.<marker>, <code>\n",
		     EMIT_NUMBER("marker", marker), EMIT_SLICE("end", end),
		     EMIT_SLICE("start", start), EMIT_NUMBER("max", INSTRUMENT_DURATION_MAX),
		     EMIT_NUMBER("code", (int32_t)(site->code << 24)));
	}
	emit->target->store(emit, address, marker, clock, word);
}

/*
 * Before the first record of a block where the number of bytes used is unknown at compile time:
 * computes the address of the block's group. Not earlier: ptxas does not move instructions across a
 * clock read, so the address would occupy a register until then.
 */
static void open_group(const struct emit *emit, uint32_t block)
{
	struct emit_operand used = operand(emit->plan->used[block]);

	if (!varies(emit, block))
		return;
	emit->target->group(emit, block, used.text);
	out_printf(emit->out, "  %%proton.n.%u = add i32 %s, %u\n", block, used.text,
		   emit->plan->blocks[block].slot_count * INSTRUMENT_RECORD_BYTES);
}

/* A marker's line: reads the clock into the marker's result, and stores the record. */
static void write_marker(const struct emit *emit, uint32_t block, uint32_t marker)
{
	const struct ir_marker *this = &emit->function->markers[marker];
	const struct plan_site *site = &emit->plan->sites[marker];
	struct slice clock = emit->function->markers[site->clock].result;

	if (site->clock == marker)
		emit->target->clock(emit, this);
	else /* the SSA name must stay defined */
		out_printf(emit->out, "  %.*s = add i32 %.*s, 0\n", (int)this->result.length,
			   this->result.at, (int)clock.length, clock.at);
	if (emit->sums)
		write_sum(emit, block, marker);
	if (emit->sums || !site->stores)
		return;
	if (site->slot == 0)
		open_group(emit, block);
	write_record(emit, block, marker);
}

/* ------------------------------------------------------------------ callees */

/* Return type of an instrumented callee: its value, if any, and the bytes used. */
static void write_type(struct out *out, struct slice type)
{
	if (slice_is(type, "void"))
		out_text(out, "i32");
	else
		out_printf(out, "{ %.*s, i32 }", (int)type.length, type.at);
}

/* Writes "BEFORE TYPE @NAME(ARGUMENTS, i32 USED, ...)". */
static void write_signature(const struct emit *emit, const struct ir_signature *signature,
			    const char *used)
{
	struct out *out = emit->out;

	ir_signature_before(signature, out);
	write_type(out, signature->type);
	out_byte(out, ' ');
	out_bytes(out, signature->name.at, signature->name.length);
	out_byte(out, '(');
	ir_signature_arguments(signature, out);
	out_printf(out, "%si32 %s", signature->arguments.length ? ", " : "", used);
	emit->target->context(emit);
	out_byte(out, ')');
}

/*
 * Copies only the debug location of a call. Without it LLVM would drop all debug info of the
 * kernel. Other metadata may describe the old result type.
 */
static void write_location(struct out *out, struct slice after)
{
	uint32_t number;

	if (slice_take_past(&after, ", !dbg !") && slice_take_number(&after, UINT32_MAX, &number))
		out_printf(out, ", !dbg !%u", number);
}

static void write_call(const struct emit *emit, uint32_t block)
{
	const struct ir_signature *call = &emit->function->blocks[block].call->signature;
	struct out *out = emit->out;

	out_printf(out, "  %%proton.%s.%u = ", slice_is(call->type, "void") ? "given" : "call",
		   block + 1);
	write_signature(emit, call, used_after(emit, block).text);
	write_location(out, call->after);
	out_byte(out, '\n');
	if (!slice_is(call->type, "void"))
		EMIT(out,
		     "  <result> = extractvalue { <type>, i32 } %proton.call.<block>, 0\n"
		     "  %proton.given.<block> = extractvalue { <type>, i32 } "
		     "%proton.call.<block>, 1\n",
		     EMIT_SLICE("result", call->result), EMIT_SLICE("type", call->type),
		     EMIT_NUMBER("block", block + 1));
	emit->target->given(emit, block + 1);
}

static void write_return(const struct emit *emit, uint32_t block, struct slice line)
{
	struct slice type = emit->function->signature.type;
	const char *end = line.at + line.length;
	const char *value = slice_find(line, "ret ") + 4;
	const char *metadata = slice_find(line, ", !");
	struct out *out = emit->out;
	struct emit_operand used = used_after(emit, block);

	if (!metadata)
		metadata = end;
	EMIT(out,
	     slice_is(type, "void")
		     ? "  ret i32 <used>"
		     : "  %proton.value.<block> = insertvalue { <type>, i32 } poison, <value>, 0\n"
		       "  %proton.both.<block> = insertvalue { <type>, i32 } "
		       "%proton.value.<block>, "
		       "i32 <used>, 1\n"
		       "  ret { <type>, i32 } %proton.both.<block>",
	     EMIT_TEXT("used", used.text), EMIT_NUMBER("block", block), EMIT_SLICE("type", type),
	     EMIT_SLICE("value", ((struct slice){value, (size_t)(metadata - value)})));
	out_bytes(out, metadata, (size_t)(end - metadata));
	out_byte(out, '\n');
}

static void write_callee_define(const struct emit *emit)
{
	write_signature(emit, &emit->function->signature, "%proton.given.0");
	write_unchanged(emit, emit->function->signature.after);
}

/* ------------------------------------------------------------------ blocks */

/* The first instructions of a function, in its first block. */
static void write_entry(const struct emit *emit)
{
	if (emit->function->is_callee)
		emit->target->given(emit, 0);
	else
		emit->target->entry(emit);
}

static void write_line(const struct emit *emit, uint32_t index, uint32_t line)
{
	const struct ir_block *block = &emit->function->blocks[index];
	struct slice text = emit->function->lines[line];

	if (block->call && line + 1 == block->end_line)
		write_call(emit, index);
	else if (!block->is_return || !slice_starts(text, "ret "))
		write_unchanged(emit, text);
	else if (emit->function->is_callee)
		write_return(emit, index, text);
	else
		out_text(emit->out, "  br label %proton.fin\n");
}

static void write_block(const struct emit *emit, uint32_t index)
{
	const struct ir_block *block = &emit->function->blocks[index];
	uint32_t marker = block->first_marker;
	uint32_t line = block->first_line;

	write_phis(emit, index);
	/* Phis stay first. */
	while (line < block->end_line && slice_find(emit->function->lines[line], " = phi "))
		write_unchanged(emit, emit->function->lines[line++]);
	if (index == 0)
		write_entry(emit);
	for (; line < block->end_line; line++) {
		if (marker < block->first_marker + block->marker_count &&
		    emit->function->markers[marker].line == line)
			write_marker(emit, index, marker++);
		else
			write_line(emit, index, line);
	}
}

static void write_end(const struct emit *emit)
{
	uint32_t end = emit->function->block_count;
	struct plan_value used = emit->plan->used[end];

	if (emit->sums)
		used = (struct plan_value){VALUE_CONSTANT, sum_plan_bytes(emit->sums)};
	out_text(emit->out, "\nproton.fin:\n");
	write_phis(emit, end);
	emit->target->finish(emit, operand(used).text);
}

static const char *const sum_declarations[] = {
	"declare i32 @llvm.umin.i32(i32, i32)",
	"declare i32 @llvm.umax.i32(i32, i32)",
	NULL,
};

static bool is_declared(const struct emit *emit, const char *name)
{
	for (uint32_t i = 0; i < emit->function->line_count; i++) {
		struct slice line = emit->function->lines[i];

		if (slice_take(&line, "declare ") && slice_find(line, name))
			return true;
	}
	return false;
}

static void write_declarations(const struct emit *emit, const char *const *lines)
{
	for (; lines && *lines; lines++) {
		const char *name = strchr(*lines, '@');
		char call[128];

		snprintf(call, sizeof(call), "%.*s", (int)(strchr(name, '(') + 1 - name), name);
		if (!is_declared(emit, call))
			out_printf(emit->out, "\n%s\n", *lines);
	}
}

static bool has_shared_memory(const struct emit *emit)
{
	for (uint32_t i = 0; i < emit->function->define_line; i++)
		if (slice_starts(emit->function->lines[i], "@global_smem ="))
			return true;
	return false;
}

/* Lines from *line to before `end`, which are outside instrumented functions. */
static void write_outside(const struct emit *emit, uint32_t *line, uint32_t end)
{
	for (; *line < end; ++*line) {
		struct slice text = emit->function->lines[*line];

		if (*line > emit->function->end_line && slice_starts(text, "attributes #"))
			attributes_line(emit, text);
		else
			write_unchanged(emit, text);
	}
}

/* From "define" to before "}". */
static void write_function(const struct emit *emit)
{
	const struct ir_function *function = emit->function;
	uint32_t line = function->define_line + 1;

	if (function->is_callee)
		write_callee_define(emit);
	else
		define_line(emit);
	for (uint32_t b = 0; b < function->block_count; b++) {
		/* blank lines, comments and the label before the block */
		for (; line < function->blocks[b].first_line; line++)
			write_unchanged(emit, function->lines[line]);
		write_block(emit, b);
		line = function->blocks[b].end_line;
	}
	if (!function->is_callee)
		write_end(emit);
}

/* Callees defined before `end`, and the lines around them. */
static void write_callees(const struct emit *emit, uint32_t *next, uint32_t *line, uint32_t end)
{
	const struct callees *callees = emit->function->callees;

	for (; callees && *next < callees->count; ++*next) {
		struct emit inner = *emit;

		inner.function = &callees->functions[*next];
		inner.plan = &emit->plan[1 + *next];
		if (inner.function->define_line >= end)
			break;
		write_outside(emit, line, inner.function->define_line);
		write_function(&inner);
		*line = inner.function->end_line;
	}
	write_outside(emit, line, end);
}

void emit_text(const struct emit *emit)
{
	const struct ir_function *function = emit->function;
	uint32_t next_callee = 0, line = 0;

	/* Comments belong to the function, so callees are written before them. */
	write_callees(emit, &next_callee, &line, function->define_line);
	if (emit->buffer == INSTRUMENT_BUFFER_SHARED && !has_shared_memory(emit))
		out_text(emit->out,
			 "@global_smem = external addrspace(3) global [0 x i8], align 16\n\n");
	write_function(emit);
	line = function->end_line;
	write_outside(emit, &line, line + 1);
	write_declarations(emit, emit->target->declarations);
	if (emit->sums && emit->sums->has_extremes)
		write_declarations(emit, sum_declarations);
	write_callees(emit, &next_callee, &line, function->line_count);
}
