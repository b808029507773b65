/*
 * Parser of SASS: an optional guard "@!P0 ", the opcode with its suffixes, and operands, which
 * commas separate. The first operand is written, unless the opcode has no result.
 */
#include "symbol/sass_operands.h"

#include "base/array.h"
#include "base/slice.h"

static const struct {
	const char *opcode; /* its beginning */
	enum sass_operation operation;
} operations[] = {
	{"BRA", SASS_BRANCH},
	{"JMP", SASS_BRANCH},
	{"BRX", SASS_BRANCH},
	{"JMX", SASS_BRANCH},
	{"EXIT", SASS_END},
	{"RET", SASS_END},
	{"BAR.", SASS_BARRIER},
	{"LDGSTS", SASS_COPY},
	{"UTMASTG", SASS_COPY},
	{"UTMAREDG", SASS_COPY},
	{"LDGDEPBAR", SASS_COPY_COMMIT},
	{"UTMACMDFLUSH", SASS_COPY_COMMIT},
	{"DEPBAR", SASS_COPY_WAIT},
	{"HGMMA", SASS_MMA},
	{"QGMMA", SASS_MMA},
	{"IGMMA", SASS_MMA},
	{"BGMMA", SASS_MMA},
	{"WARPGROUP.DEPBAR", SASS_MMA_WAIT},
	{"UTMALDG", SASS_BULK_LOAD},
	{"UBLKCP", SASS_BULK_LOAD},
	{"SYNCS.PHASECHK", SASS_TRY_WAIT},
	{"ST", SASS_STORE},
	{"RED", SASS_STORE},
};

/* Opcodes without a result. */
static const char *const no_results[] = {"BRA",       "BRX", "JMX",  "RET",      "BAR",
					 "ST",        "RED", "UTMA", "WARPSYNC", "BMOV",
					 "NANOSLEEP", "R2B", "UBLK"};

static bool starts_with_any(struct slice opcode, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (slice_starts(opcode, texts[i]))
			return true;
	return false;
}

static enum sass_operation operation_of(struct slice opcode)
{
	for (size_t i = 0; i < ARRAY_LENGTH(operations); i++)
		if (slice_starts(opcode, operations[i].opcode))
			return operations[i].operation;
	/* With a number of bytes to come, it does not end what others wait for. */
	return slice_starts(opcode, "SYNCS.ARRIVE") && slice_find(opcode, ".A1T0") ? SASS_ARRIVE
										   : SASS_OTHER;
}

/* Removes a register from the beginning; false: there is none, or RZ, PT and the like. */
static bool take_register(struct slice *text, struct sass_registers *out)
{
	static const struct {
		const char *name;
		uint16_t first, count;
	} files[] = {{"UR", 256, 64}, {"UP", 328, 8}, {"R", 0, 255}, {"P", 320, 8}};
	uint32_t number;

	for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
		struct slice rest = *text;

		if (!slice_take(&rest, files[i].name) ||
		    !slice_take_number(&rest, files[i].count - 1u, &number))
			continue;
		*text = rest;
		*out = (struct sass_registers){(uint16_t)(files[i].first + number), 1};
		if (slice_starts(rest, ".64"))
			out->count = 2;
		return true;
	}
	return false;
}

/* The number of registers of an access, by the suffixes of the opcode. */
static uint16_t width_of(struct slice opcode)
{
	if (slice_find(opcode, ".128") || slice_find(opcode, "MMA") || slice_find(opcode, ".M88.4"))
		return 4;
	return slice_find(opcode, ".64") || slice_find(opcode, ".WIDE") ||
			       slice_find(opcode, ".M88.2")
		       ? 2
		       : 1;
}

static void add_registers(struct sass_registers *list, size_t max, struct sass_registers added)
{
	size_t i = 0;

	while (i < max && list[i].count)
		i++;
	if (i < max)
		list[i] = added;
}

/* An operand reads all of its registers, in an address too. */
static void read_operand(struct slice operand, uint16_t width, struct sass_operands *out)
{
	bool is_start = true; /* where a word begins */

	while (operand.length) {
		struct sass_registers found;

		if (is_start && take_register(&operand, &found)) {
			if (width > found.count && found.first < 256)
				found.count = width;
			add_registers(out->reads, SASS_READS_MAX, found);
		} else {
			is_start = !slice_is_name_char(*operand.at) && *operand.at != '.';
			slice_skip(&operand, 1);
		}
	}
}

/*
 * Is the operand with this number written? Comparisons and additions have predicates after the
 * first result, atomic operations a register after a predicate.
 */
static bool is_written(struct slice opcode, size_t number, struct sass_registers found)
{
	static const char *const predicates[] = {"ISETP", "FSETP", "DSETP",  "HSETP2",
						 "PLOP3", "LEA",   "UISETP", "UPLOP3",
						 "ULEA",  "SHFL",  "ATOM",   "R2P"};

	if (number == 0)
		return !starts_with_any(opcode, no_results, ARRAY_LENGTH(no_results));
	if (number == 1)
		return starts_with_any(opcode, predicates, ARRAY_LENGTH(predicates)) &&
		       !slice_find(opcode, ".X") &&
		       (found.first >= 320 || slice_starts(opcode, "ATOM") ||
			slice_starts(opcode, "SHFL"));
	return number == 2 && (slice_starts(opcode, "IADD3") || slice_starts(opcode, "UIADD3")) &&
	       found.first >= 320;
}

static void take_operand(struct slice opcode, size_t number, struct slice operand,
			 struct sass_operands *out)
{
	uint16_t width = width_of(opcode);
	bool is_store = out->operation == SASS_STORE || out->operation == SASS_COPY;
	struct sass_registers found;
	struct slice rest = operand;

	if (take_register(&rest, &found) && is_written(opcode, number, found)) {
		if (found.first < 320 && width > found.count)
			found.count = width;
		add_registers(out->writes, SASS_WRITES_MAX, found);
		return;
	}
	read_operand(operand, is_store && number && *operand.at == 'R' ? width : 1, out);
}

/* The groups that may be pending: the last operand of "DEPBAR.LE SB0, 0x1". */
static uint8_t groups_of(struct slice last)
{
	unsigned long number = last.length ? strtoul(last.at, NULL, 0) : 0;

	return number < 5 ? (uint8_t)number : 5;
}

void sass_operands_read(const char *text, struct sass_operands *out)
{
	struct slice rest = slice_of(text);
	struct slice guard = {0}, opcode, operand = {0};
	size_t number = 0;

	*out = (struct sass_operands){.goes_on = true};
	if (slice_take(&rest, "@"))
		guard = slice_take_until(&rest, ' ');
	opcode = slice_take_until(&rest, ' ');
	out->operation = operation_of(opcode);
	out->is_guarded = guard.length && !slice_is(guard, "PT");
	read_operand(guard, 1, out);
	while (rest.length) {
		operand = slice_trim(slice_take_until(&rest, ','));
		if (operand.length > 2 && *operand.at == '`') {
			out->label = operand.at + 2; /* `(.L_x_1) */
			out->label_length = strcspn(out->label, ")");
		} else if (operand.length) {
			take_operand(opcode, number, operand, out);
		}
		/* A branch may have another predicate as an operand. */
		if (out->operation == SASS_BRANCH && number == 0 && operand.length &&
		    *operand.at != '`')
			out->is_guarded = true;
		number++;
	}
	if (out->operation == SASS_COPY_WAIT || out->operation == SASS_MMA_WAIT)
		out->groups = groups_of(operand);
	out->is_commit = out->operation == SASS_COPY_COMMIT ||
			 (out->operation == SASS_MMA && slice_is(operand, "gsb0"));
	if (out->operation == SASS_BRANCH || out->operation == SASS_END)
		out->goes_on = out->is_guarded;
	else
		out->label = NULL;
}

bool sass_registers_meet(const struct sass_registers *a, size_t a_count,
			 const struct sass_registers *b, size_t b_count)
{
	for (size_t i = 0; i < a_count && a[i].count; i++)
		for (size_t k = 0; k < b_count && b[k].count; k++)
			if (a[i].first < b[k].first + b[k].count &&
			    b[k].first < a[i].first + a[i].count)
				return true;
	return false;
}
