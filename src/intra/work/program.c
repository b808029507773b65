/* Reading a kernel in TTIR. */
#include "intra/work/program.h"

#include "base/array.h"
#include "base/hash.h"
#include "intra/ttgir/mlir_text.h"

#define SHAPE_MAX (1u << 24)
#define VALUES_MAX 65536u
#define RESULTS_MAX 256u /* of one operation */

struct reading {
	struct program *program;
	const struct mlir_regions *text;
	struct hash_table by_name; /* indices of `names`, which are values, + 1 */
	struct slice *names;
	bool is_out_of_memory;
	bool has_too_many; /* values */
};

static const char *const names_of_ops[] = {
#define OP(name, names) [OP_##name] = (names),
#include "intra/work/operations.def"
#undef OP
};

/* Arithmetic: one floating-point operation per element, and two. */
static const char flops_1[] =
	"arith.addf arith.subf arith.mulf arith.divf arith.remf arith.maximumf arith.minimumf "
	"arith.maxnumf arith.minnumf math.exp math.exp2 math.log math.log2 math.sqrt math.rsqrt "
	"math.sin math.cos math.tanh math.erf math.powf tt.precise_sqrt tt.precise_divf "
	"tt.extern_elementwise";
static const char flops_2[] = "math.fma tt.clampf";

/* ------------------------------------------------------------------ types */

/* "f16", "!tt.ptr<f16>", "128x64xf16, #layout". Elements that are not numbers have no bits. */
static void read_element(struct slice text, struct program_type *out)
{
	out->is_pointer = slice_take(&text, "!tt.ptr<");
	out->is_float = text.length && (*text.at == 'f' || *text.at == 'b');
	if (!out->is_float && text.length && *text.at != 'i' && *text.at != 'u' && *text.at != 's')
		return;
	while (text.length && (*text.at < '0' || *text.at > '9') && *text.at != '>' &&
	       *text.at != ',')
		slice_skip(&text, 1);
	if (!slice_take_number(&text, 128, &out->bits))
		out->bits = 64; /* "index" */
}

static struct program_type read_type(struct slice text)
{
	struct program_type type = {0};
	uint32_t dimension;

	type.is_descriptor = slice_take(&text, "!tt.tensordesc<");
	if (slice_take(&text, "tensor<") || slice_take(&text, "<") || type.is_descriptor) {
		slice_take(&text, "tensor<");
		while (slice_take_number(&text, SHAPE_MAX, &dimension) && slice_take(&text, "x")) {
			if (type.rank == TILE_RANK)
				return (struct program_type){0};
			type.shape[type.rank++] = dimension;
		}
	}
	read_element(text, &type);
	return type;
}

/* The next of the types in "(a, b) -> c", "a to b", "a * b -> c". */
static bool take_type(struct slice *rest, struct program_type *out)
{
	static const char *const words[] = {"to ", "->", "(", ")", ",", "*", " ", "scale "};
	bool is_word = true;

	while (is_word) {
		is_word = false;
		for (size_t i = 0; i < ARRAY_LENGTH(words) && !is_word; i++)
			is_word = slice_take(rest, words[i]);
	}
	if (!rest->length)
		return false;
	*out = read_type(*rest);
	/* Its end: outside of brackets, a comma or blank. */
	for (uint32_t depth = 0; rest->length; slice_skip(rest, 1)) {
		char c = *rest->at;

		if (!depth && strchr(" ,)", c))
			break;
		depth += c == '<';
		depth -= c == '>' && depth;
	}
	return true;
}

/* ------------------------------------------------------------------ values */

static uint32_t add_value(struct reading *reading, struct slice name)
{
	struct program *program = reading->program;
	uint32_t value = program->value_count;

	reading->has_too_many |= value >= VALUES_MAX;
	if (reading->has_too_many)
		return 0;
	if (!ARRAY_ADD(reading->names, program->value_count, name) ||
	    (name.length &&
	     !hash_table_add(&reading->by_name, hash_bytes(name.at, name.length), value + 1)))
		reading->is_out_of_memory = true;
	return value;
}

/* The latest value with the name: MLIR uses a name again only where the other is not visible. */
static uint32_t find_value(const struct reading *reading, struct slice name)
{
	uint64_t hash = hash_bytes(name.at, name.length);
	uint64_t at = hash;
	uint32_t value;
	uint32_t found = PROGRAM_NO_VALUE;

	while ((value = hash_table_next(&reading->by_name, hash, &at)))
		if (reading->names && slices_equal(reading->names[value - 1], name) &&
		    (found == PROGRAM_NO_VALUE || value - 1 > found))
			found = value - 1;
	return found;
}

/* The value of "%name" or "%name#2", of which the name has been taken. */
static uint32_t read_use(const struct reading *reading, struct slice name, struct slice *rest)
{
	uint32_t value = find_value(reading, name);
	uint32_t number = 0;

	if (slice_take(rest, "#"))
		slice_take_number(rest, RESULTS_MAX, &number);
	if (value == PROGRAM_NO_VALUE || number >= reading->program->value_count - value)
		return PROGRAM_NO_VALUE;
	return value + number;
}

static void add_operand(struct reading *reading, struct program_line *line, uint32_t value)
{
	struct program *program = reading->program;

	if (!ARRAY_ADD(program->operands, program->operand_count, value))
		reading->is_out_of_memory = true;
	else
		line->operand_count++;
}

static void read_operands(struct reading *reading, struct program_line *line, struct slice rest)
{
	struct slice name;

	while (slice_take_value(&rest, '%', &name))
		add_operand(reading, line, read_use(reading, name, &rest));
}

/* "%i = %a to %b step %c iter_args(%x = %y, ...)": names before "=" are results of the line. */
static void read_loop(struct reading *reading, struct program_line *line, struct slice rest)
{
	struct slice defined[64];
	uint32_t count = 0;
	struct slice name;

	while (slice_take_value(&rest, '%', &name)) {
		struct slice after = slice_trim(rest);

		if (slice_take(&after, "=") && count < ARRAY_LENGTH(defined))
			defined[count++] = name;
		else
			add_operand(reading, line, read_use(reading, name, &rest));
	}
	line->number = reading->program->value_count;
	line->other = count;
	for (uint32_t i = 0; i < count; i++)
		add_value(reading, defined[i]);
}

/* Results are known by their first name: the others are "%name#1" and so on. */
static void add_results(struct reading *reading, struct program_line *line, struct slice text)
{
	struct slice name;
	struct slice rest = slice_trim(text);
	uint32_t count = 1;

	if (!slice_find(rest, " = ") || *rest.at != '%' || !slice_take_value(&rest, '%', &name))
		return;
	if (slice_take(&rest, ":"))
		slice_take_number(&rest, RESULTS_MAX, &count);
	count += !count;
	line->first_result = reading->program->value_count;
	line->result_count = count;
	add_value(reading, name);
	while (--count)
		add_value(reading, (struct slice){"", 0});
	/* "%a, %b = ..." */
	while (slice_take(&rest, ", ") && slice_take_value(&rest, '%', &name)) {
		add_value(reading, name);
		line->result_count++;
	}
}

/* ------------------------------------------------------------------ lines */

static int64_t number_after(struct slice text, const char *key)
{
	return mlir_number_after(text, key);
}

/* "64", "-1", "true", "dense<64>"; a number with a fraction is not known. */
static void read_constant(struct slice rest, struct program_line *line)
{
	uint32_t number;
	uint64_t large = 0;

	rest = slice_trim(rest);
	slice_take(&rest, "dense<");
	line->is_known = true;
	if (slice_take(&rest, "true"))
		line->number = 1;
	else if (!slice_take(&rest, "false")) {
		bool is_negative = slice_take(&rest, "-");
		line->is_known = rest.length && *rest.at >= '0' && *rest.at <= '9';
		while (rest.length && *rest.at >= '0' && *rest.at <= '9' && large < 1u << 30) {
			struct slice digit = {rest.at, 1};

			slice_take_number(&digit, 9, &number);
			large = large * 10 + number;
			slice_skip(&rest, 1);
		}
		line->number = is_negative ? -(int64_t)large : (int64_t)large;
		line->is_known &= rest.length && (*rest.at == ' ' || *rest.at == '>');
	}
}

/* Predicates of arith.cmpi. */
static int64_t read_predicate(struct slice rest)
{
	static const char *const names[] = {"slt", "sle", "sgt", "sge", "eq",
					    "ne",  "ult", "ule", "ugt", "uge"};
	struct slice word = slice_take_name(&rest);

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (slice_is(word, names[i]))
			return i < 6 ? (int64_t)i : (int64_t)i - 6;
	return -1;
}

/* "order = array<i32: 1, 0>" as digits of base 8. */
static int64_t read_order(struct slice rest)
{
	int64_t order = 0;
	uint32_t dimension;
	uint32_t count = 0;

	if (!slice_take_past(&rest, "array<i32: "))
		return -1;
	while (slice_take_number(&rest, TILE_RANK - 1, &dimension) && count < TILE_RANK) {
		order |= (int64_t)dimension << (3 * count++);
		slice_take(&rest, ", ");
	}
	return order;
}

static uint32_t find_label(const struct reading *reading, struct slice *rest)
{
	if (!slice_take_past(rest, "^"))
		return PROGRAM_NO_LINE;
	struct slice name = slice_take_name(rest);
	for (uint32_t i = reading->program->body; i <= reading->program->end; i++) {
		struct slice line = reading->text->at[i].trimmed;

		if (slice_take(&line, "^") && slices_equal(slice_take_name(&line), name))
			return i;
	}
	return PROGRAM_NO_LINE;
}

static void read_details(struct reading *reading, struct slice rest, struct program_line *line)
{
	switch (line->op) {
	case OP_CONSTANT:
		read_constant(rest, line);
		break;
	case OP_PROGRAM_ID:
	case OP_PROGRAM_COUNT:
		rest = slice_trim(rest);
		line->number = rest.length && *rest.at >= 'x' && *rest.at <= 'z' ? *rest.at - 'x'
										 : 0;
		break;
	case OP_RANGE:
		line->number = number_after(rest, "start = ");
		break;
	case OP_EXPAND:
	case OP_SCAN:
		line->number = number_after(rest, "axis = ");
		break;
	case OP_TRANSPOSE:
		line->number = read_order(rest);
		break;
	case OP_COMPARE:
		line->number = read_predicate(slice_trim(rest));
		break;
	case OP_DOT:
		/* Packed elements of 4 bits: two in each. */
		line->number = slice_find(rest, "lhs = e2m1") ? 2 : 1;
		break;
	case OP_BRANCH:
	case OP_BRANCH_IF:
		line->number = find_label(reading, &rest);
		line->other = find_label(reading, &rest);
		break;
	default:
		break;
	}
}

static void read_types(struct slice rest, struct program_line *line)
{
	struct slice before = slice_before(rest, " : ");

	rest = slice_between(slice_end(before), slice_end(rest));
	if (!slice_take(&rest, " : "))
		return;
	for (size_t i = 0; i < ARRAY_LENGTH(line->types); i++) {
		if (i && (line->op == OP_DOT || line->op == OP_REDUCE))
			slice_take_past(&rest, " ->"); /* the result */
		if (!take_type(&rest, &line->types[i]))
			return;
	}
}

/* The operation of a name; one that may do anything is unknown. */
static void find_operation(struct slice name, struct slice rest, struct program_line *line)
{
	static const char *const harmless[] = {"arith.", "math.",       "tt.",        "llvm.intr.",
					       "ub.",    "gpu.barrier", "ttg.barrier"};

	if (slice_is(name, "tt.elementwise_inline_asm") && slice_find(rest, "pure = true")) {
		line->op = OP_ASSEMBLY;
		return;
	}
	line->op = OP_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LENGTH(harmless); i++)
		if (slice_starts(name, harmless[i]))
			line->op = OP_OTHER;
	for (size_t i = 0; i < ARRAY_LENGTH(names_of_ops); i++)
		if (slice_is_any(name, names_of_ops[i]))
			line->op = (enum program_op)i;
	line->flops = slice_is_any(name, flops_1) + 2 * slice_is_any(name, flops_2);
}

static void read_line(struct reading *reading, uint32_t at)
{
	const struct mlir_region_line *text = &reading->text->at[at];
	struct program_line *line = &reading->program->lines[at];
	struct slice rest = text->line.rest;

	line->end = text->end;
	line->next = text->next;
	line->first_operand = (uint32_t)reading->program->operand_count;
	if (!text->is_code)
		return;
	if (slice_starts(text->trimmed, "^")) {
		struct slice name;

		line->op = OP_LABEL;
		line->first_result = reading->program->value_count;
		rest = text->trimmed;
		for (; slice_take_value(&rest, '%', &name); line->result_count++)
			add_value(reading, name);
		return;
	}
	if (!text->line.op.length)
		return;
	slice_take(&rest, "\""); /* the generic form has it */
	find_operation(text->line.op, rest, line);
	if (line->op == OP_FOR || line->op == OP_WHILE)
		read_loop(reading, line, slice_before(rest, " : "));
	else
		read_operands(reading, line, slice_before(rest, " : "));
	read_details(reading, rest, line);
	/* A line that opens a region has its types at the end of it. */
	if ((line->op == OP_REDUCE || line->op == OP_SCAN) && line->end != PROGRAM_NO_LINE)
		rest = reading->text->at[line->end].trimmed;
	read_types(rest, line);
	add_results(reading, line, text->text);
}

static void read_parameters(struct reading *reading, struct slice rest)
{
	struct program *program = reading->program;
	struct slice name;

	while (slice_take_value(&rest, '%', &name)) {
		struct program_type type = {0};

		if (slice_take(&rest, ":"))
			take_type(&rest, &type);
		if (!ARRAY_ADD(program->parameters, program->parameter_count, type))
			reading->is_out_of_memory = true;
		add_value(reading, name);
	}
	/* After a descriptor come its sizes and strides; its pointer has no name. */
	for (uint32_t i = 0; i < program->parameter_count; i++) {
		struct program_type *type = &program->parameters[i];
		struct program_line parts = {0};

		type->parts = (uint32_t)program->operand_count;
		if (!type->is_descriptor)
			continue;
		add_operand(reading, &parts, add_value(reading, (struct slice){"", 0}));
		for (uint32_t j = 1; j <= 2 * type->rank; j++)
			add_operand(reading, &parts,
				    i + j < program->parameter_count ? i + j : PROGRAM_NO_VALUE);
	}
}

static bool find_kernel(struct reading *reading)
{
	for (uint32_t i = 0; i < reading->text->count; i++) {
		const struct mlir_region_line *line = &reading->text->at[i];

		if (!line->is_code || !slice_is(line->line.op, "tt.func") ||
		    !slice_find(line->trimmed, " public @") || line->end == MLIR_NO_LINE)
			continue;
		reading->program->body = i + 1;
		reading->program->end = line->end;
		read_parameters(reading, line->trimmed);
		return true;
	}
	return false;
}

int program_read(struct slice text, struct program *out, struct proton_error *err)
{
	struct mlir_regions regions;
	struct reading reading = {.program = out, .text = &regions};
	int status = mlir_regions_read(text, &regions, err);

	*out = (struct program){0};
	if (status != PROTON_OK)
		return status;
	out->line_count = regions.count;
	out->lines = calloc((size_t)regions.count + 1, sizeof(*out->lines));
	if (!out->lines)
		reading.is_out_of_memory = true;
	else if (!find_kernel(&reading))
		status = err_set(err, PROTON_E_UNSUPPORTED, "there is no kernel");
	for (uint32_t i = out->body; out->lines && i < out->end && status == PROTON_OK; i++)
		read_line(&reading, i);
	if (reading.has_too_many)
		status = err_set(err, PROTON_E_UNSUPPORTED, "there are too many values");
	if (reading.is_out_of_memory)
		status = err_nomem(err);
	hash_table_fini(&reading.by_name);
	free(reading.names);
	mlir_regions_fini(&regions);
	if (status != PROTON_OK)
		program_fini(out);
	return status;
}

void program_fini(struct program *program)
{
	free(program->lines);
	free(program->operands);
	free(program->parameters);
	*program = (struct program){0};
}
