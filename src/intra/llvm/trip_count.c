/*
 * The number of iterations of a loop with constant bounds, as Triton's `range(0, SIZE, BLOCK)` has
 * if both are constexpr:
 *
 *   %i = phi i64 [ 0, %before ], [ %next, %latch ]
 *   %next = add nuw nsw i64 %i, 1024
 *   %more = icmp samesign ult i64 %i, 7168
 *   br i1 %more, label %header, label %after
 */
#include "base/array.h"
#include "intra/llvm/ir_function.h"

#define TRIPS_MAX 4096u
#define WORDS_MAX 13u

struct loop {
	const struct ir_function *function;
	uint32_t header;
	uint32_t latch;
};

struct counter {
	uint32_t bits;
	uint64_t value; /* that the condition has in the first iteration */
	uint64_t step;
};

/* The words of an instruction, without commas and flags, up to its metadata. */
struct words {
	struct slice at[WORDS_MAX];
	uint32_t count;
};

static struct words split(struct slice line)
{
	struct words words = {.count = 0};

	line = slice_trim(line);
	while (line.length && words.count < WORDS_MAX && *line.at != '!') {
		struct slice word = slice_take_until(&line, ' ');

		word.length -= slice_ends(word, ",");
		if (!slice_is_any(word, "nuw nsw samesign"))
			words.at[words.count++] = word;
	}
	return words;
}

/* Reads "NAME = OPCODE ..." in blocks from the header to `last`; false if it has other words. */
static bool find_definition(const struct loop *loop, uint32_t last, struct slice name,
			    const char *opcode, uint32_t count, struct words *out)
{
	const struct ir_block *blocks = loop->function->blocks;

	for (uint32_t i = blocks[loop->header].first_line; i < blocks[last].end_line; i++) {
		struct slice rest = slice_trim(loop->function->lines[i]);

		if (!slices_equal(slice_take_until(&rest, ' '), name))
			continue;
		*out = split(loop->function->lines[i]);
		return out->count == count && slice_is(out->at[1], "=") &&
		       slice_is(out->at[2], opcode);
	}
	return false;
}

/* The width of an integer type, or 0. */
static uint32_t bits_of(struct slice type)
{
	uint32_t bits;

	return slice_take(&type, "i") && slice_take_number(&type, 64, &bits) && !type.length &&
			       bits > 1
		       ? bits
		       : 0;
}

static bool read_constant(struct slice word, uint64_t *out)
{
	bool is_negative = slice_take(&word, "-");
	uint32_t number;

	if (!slice_take_number(&word, UINT32_MAX, &number) || word.length)
		return false;
	*out = is_negative ? -(uint64_t)number : number;
	return true;
}

/* True if the operand is the label of the block. */
static bool is_label(const struct loop *loop, struct slice operand, uint32_t block)
{
	return slice_take(&operand, "%") &&
	       slices_equal(operand, loop->function->blocks[block].label);
}

/* The value that the phi `name` has in the next iteration is `next`. */
static bool read_phi(const struct loop *loop, struct slice name, struct counter *counter,
		     struct slice *next)
{
	struct words words; /* "%i = phi i64 [ 0 %before ] [ %next %latch ]" */

	if (!find_definition(loop, loop->header, name, "phi", 12, &words))
		return false;
	bool is_first = is_label(loop, words.at[6], loop->latch);
	counter->bits = bits_of(words.at[3]);
	*next = words.at[is_first ? 5 : 9];
	return counter->bits && is_first != is_label(loop, words.at[10], loop->latch) &&
	       read_constant(words.at[is_first ? 9 : 5], &counter->value);
}

/* Reads the counter of which `name` is the value in this iteration, or in the next one. */
static bool read_counter(const struct loop *loop, struct slice name, struct counter *counter)
{
	struct words add; /* "%next = add i64 %i 1024" */
	struct slice next = name;
	struct slice after;
	bool is_next = find_definition(loop, loop->latch, name, "add", 6, &add);

	if (!is_next && (!read_phi(loop, name, counter, &next) ||
			 !find_definition(loop, loop->latch, next, "add", 6, &add) ||
			 !slices_equal(add.at[4], name)))
		return false;
	if (!read_phi(loop, add.at[4], counter, &after) || !slices_equal(after, next) ||
	    bits_of(add.at[3]) != counter->bits || !read_constant(add.at[5], &counter->step))
		return false;
	counter->value += is_next ? counter->step : 0;
	return true;
}

static int64_t as_signed(uint64_t value, uint32_t bits)
{
	return (int64_t)(value << (-bits & 63)) >> (-bits & 63);
}

/* -1: the predicate is unknown. */
static int compare(struct slice predicate, uint64_t a, uint64_t b, uint32_t bits)
{
	uint64_t mask = UINT64_MAX >> (-bits & 63);
	int order = slice_starts(predicate, "s") ? ORDER_OF(as_signed(a, bits), as_signed(b, bits))
						 : ORDER_OF(a & mask, b & mask);

	if (slice_is_any(predicate, "eq ne"))
		return slice_is(predicate, "eq") == !order;
	if (slice_is_any(predicate, "ult slt"))
		return order < 0;
	if (slice_is_any(predicate, "ule sle"))
		return order <= 0;
	if (slice_is_any(predicate, "ugt sgt"))
		return order > 0;
	return slice_is_any(predicate, "uge sge") ? order >= 0 : -1;
}

uint32_t trip_count(const struct ir_function *function, uint32_t header, uint32_t latch)
{
	const struct loop loop = {function, header, latch};
	struct counter counter;
	struct slice last = {"", 0};
	struct words branch;    /* "br i1 %more label %header label %after" */
	struct words condition; /* "%more = icmp ult i64 %i 7168" */
	uint64_t limit;

	for (uint32_t i = function->blocks[latch].first_line; i < function->blocks[latch].end_line;
	     i++)
		if (ir_is_instruction(function->lines[i]))
			last = function->lines[i];
	branch = split(last);
	if (branch.count != 7 || !slice_is(branch.at[0], "br"))
		return 0;
	bool goes_on = is_label(&loop, branch.at[4], header);
	if (goes_on == is_label(&loop, branch.at[6], header) ||
	    !find_definition(&loop, latch, branch.at[2], "icmp", 7, &condition) ||
	    !read_constant(condition.at[6], &limit) ||
	    !read_counter(&loop, condition.at[5], &counter) ||
	    bits_of(condition.at[4]) != counter.bits)
		return 0;
	for (uint32_t i = 1; i <= TRIPS_MAX; i++) {
		int result = compare(condition.at[3], counter.value, limit, counter.bits);

		if (result < 0)
			return 0;
		if (result != goes_on)
			return i;
		counter.value += counter.step;
	}
	return 0;
}
