/* Trip counts of loops: parses the condition of the latch, and counts until it ends the loop. */
#include "intra/llvm/trip_count.h"

#include "base/array.h"

#define TRIPS_MAX 4096u

struct counter {
	struct slice name; /* "%i" */
	uint32_t bits;
	uint64_t start;
	uint64_t step;
};

/* The definition of `name` in the blocks, without "%name = "; empty if there is none. */
static struct slice definition_in(const struct ir_function *function, uint32_t first, uint32_t last,
				  struct slice name)
{
	for (uint32_t i = function->blocks[first].first_line; i < function->blocks[last].end_line;
	     i++) {
		struct slice rest = slice_trim(function->lines[i]);
		const char *at = rest.at;

		if (!slice_starts(rest, "%") || !slices_equal(ir_next_name(rest, &at), name))
			continue;
		slice_skip(&rest, name.length);
		if (slice_take(&rest, " = "))
			return rest;
	}
	return (struct slice){"", 0};
}

/* Takes the flags of an instruction and its type, "nuw nsw i64 "; false if it is not an integer. */
static bool take_type(struct slice *rest, uint32_t *bits)
{
	static const char *const flags[] = {"nuw", "nsw", "samesign"};
	struct slice word = slice_take_until(rest, ' ');

	while (slice_is_any(word, flags, ARRAY_LENGTH(flags)))
		word = slice_take_until(rest, ' ');
	return slice_take(&word, "i") && slice_take_number(&word, 64, bits) && !word.length &&
	       *bits > 1;
}

/* Takes a decimal number. */
static bool take_constant(struct slice *rest, uint64_t *out)
{
	bool is_negative = slice_take(rest, "-");
	uint32_t number;

	if (!slice_take_number(rest, UINT32_MAX, &number))
		return false;
	*out = is_negative ? -(uint64_t)number : number;
	return true;
}

static struct slice take_name(struct slice *rest)
{
	struct slice line = *rest;
	const char *at = line.at;
	struct slice name = ir_next_name(line, &at);

	if (name.at != line.at)
		return (struct slice){line.at, 0};
	*rest = slice_between(at, slice_end(line));
	return name;
}

/* Takes the next "[ VALUE, %LABEL ]" of a phi. */
static bool take_incoming(struct slice *rest, struct slice *value, struct slice *label)
{
	slice_take(rest, ", ");
	if (!slice_take(rest, "[ "))
		return false;
	*value = slice_take_until(rest, ',');
	if (!slice_take(rest, " %"))
		return false;
	*label = slice_take_until(rest, ' ');
	return slice_take(rest, "]");
}

/* The value that the phi `name` of `header` has in the next iteration is `next`. */
static bool read_phi(const struct ir_function *function, uint32_t header, uint32_t latch,
		     struct slice name, struct counter *counter, struct slice *next)
{
	struct slice rest = definition_in(function, header, header, name);
	bool has_start = false;
	struct slice value;
	struct slice label;

	*next = (struct slice){"", 0};
	if (!slice_take(&rest, "phi ") || !take_type(&rest, &counter->bits))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		if (!take_incoming(&rest, &value, &label))
			return false;
		if (slices_equal(label, function->blocks[latch].label))
			*next = value;
		else
			has_start = take_constant(&value, &counter->start) && !value.length;
	}
	counter->name = name;
	return has_start && next->length && !slice_starts(rest, ",") && !slice_find(rest, "[ ");
}

/* Reads "add i64 %i, 1024" as the step of a counter that begins there. */
static bool read_step(const struct ir_function *function, uint32_t header, uint32_t latch,
		      struct slice next, struct counter *counter)
{
	struct slice rest = definition_in(function, header, latch, next);
	struct slice after;
	struct slice name;
	uint32_t bits;

	if (!slice_take(&rest, "add ") || !take_type(&rest, &bits))
		return false;
	name = take_name(&rest);
	return name.length && slice_take(&rest, ", ") && take_constant(&rest, &counter->step) &&
	       (!rest.length || *rest.at == ',') &&
	       read_phi(function, header, latch, name, counter, &after) && bits == counter->bits &&
	       slices_equal(after, next);
}

static int64_t as_signed(uint64_t value, uint32_t bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* -1: the predicate is unknown. */
static int compare(struct slice predicate, uint64_t a, uint64_t b, uint32_t bits)
{
	static const char *const names[] = {"eq",  "ne",  "ult", "ule", "ugt",
					    "uge", "slt", "sle", "sgt", "sge"};
	uint64_t mask = UINT64_MAX >> (64 - bits);
	int64_t left = as_signed(a, bits);
	int64_t right = as_signed(b, bits);
	bool results[] = {
		left == right,
		left != right,
		(a & mask) < (b & mask),
		(a & mask) <= (b & mask),
		(a & mask) > (b & mask),
		(a & mask) >= (b & mask),
		left<right, left <= right, left>
			right,
		left >= right,
	};

	for (uint32_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (slice_is(predicate, names[i]))
			return results[i];
	return -1;
}

/* Iterations until the condition, as text after "icmp ", is not `goes_on` any more. */
static uint32_t count(const struct ir_function *function, uint32_t header, uint32_t latch,
		      struct slice rest, bool goes_on)
{
	struct counter counter = {.bits = 0};
	struct slice predicate = slice_take_until(&rest, ' ');
	struct slice next = {"", 0};
	struct slice name;
	uint64_t limit;
	uint64_t value;
	uint32_t bits;
	bool is_next;

	if (slice_is(predicate, "samesign"))
		predicate = slice_take_until(&rest, ' ');
	if (!take_type(&rest, &bits) || !(name = take_name(&rest)).length ||
	    !slice_take(&rest, ", ") || !take_constant(&rest, &limit) ||
	    (rest.length && *rest.at != ','))
		return 0;
	is_next = read_step(function, header, latch, name, &counter);
	if (!is_next && (!read_phi(function, header, latch, name, &counter, &next) ||
			 !read_step(function, header, latch, next, &counter) ||
			 !slices_equal(counter.name, name)))
		return 0;
	value = is_next ? counter.start + counter.step : counter.start;
	for (uint32_t i = 1; bits == counter.bits && i <= TRIPS_MAX; i++) {
		int result = compare(predicate, value, limit, bits);

		if (result < 0)
			return 0;
		if (result != goes_on)
			return i;
		value += counter.step;
	}
	return 0;
}

uint32_t trip_count(const struct ir_function *function, uint32_t header, uint32_t latch)
{
	struct slice rest = {"", 0};
	struct slice condition;
	struct slice then;
	struct slice other;

	for (uint32_t i = function->blocks[latch].first_line; i < function->blocks[latch].end_line;
	     i++)
		if (ir_is_instruction(function->lines[i]))
			rest = slice_trim(function->lines[i]);
	if (!slice_take(&rest, "br i1 "))
		return 0;
	condition = take_name(&rest);
	if (!condition.length || !slice_take(&rest, ", label %"))
		return 0;
	then = slice_take_until(&rest, ',');
	if (!slice_take(&rest, " label %"))
		return 0;
	other = slice_take_until(&rest, ',');
	if (slices_equal(then, function->blocks[header].label) ==
	    slices_equal(other, function->blocks[header].label))
		return 0;
	rest = definition_in(function, header, latch, condition);
	if (!slice_take(&rest, "icmp "))
		return 0;
	return count(function, header, latch, rest,
		     slices_equal(then, function->blocks[header].label));
}
