/* Reading and writing the record layout of an instrumented kernel as text. */
#include "intra/layout.h"

#include "base/array.h"
#include "base/slice.h"

#define SCOPE_MAX INSTRUMENT_CODE_MAX

static const char first_line[] = "proton-instrument 1";

uint32_t layout_scope(struct instrument_layout *layout, const char *name, size_t length)
{
	for (uint32_t i = 0; i < layout->scope_count; i++)
		if (strlen(layout->scopes[i]) == length &&
		    memcmp(layout->scopes[i], name, length) == 0)
			return i;
	if (layout->scope_count == SCOPE_MAX)
		return UINT32_MAX;
	if (!layout->scopes)
		layout->scopes = calloc(SCOPE_MAX, sizeof(*layout->scopes));
	if (!layout->scopes)
		return UINT32_MAX;
	layout->scopes[layout->scope_count] = strndup(name, length);
	if (!layout->scopes[layout->scope_count])
		return UINT32_MAX;
	return layout->scope_count++;
}

uint32_t layout_code(struct instrument_layout *layout, uint32_t scope, enum instrument_kind kind)
{
	for (uint32_t i = 1; i <= layout->code_count; i++)
		if (layout->codes[i].scope == scope && layout->codes[i].kind == kind)
			return i;
	if (layout->code_count == INSTRUMENT_CODE_MAX)
		return 0;
	layout->codes[++layout->code_count] = (struct instrument_code){
		.scope = (uint16_t)scope,
		.kind = (uint16_t)kind,
	};
	return layout->code_count;
}

struct instrument_nesting *layout_nesting(struct instrument_layout *layout)
{
	if (layout->nesting)
		return layout->nesting;
	layout->nesting = calloc(SCOPE_MAX, sizeof(*layout->nesting));
	for (uint32_t i = 0; layout->nesting && i < SCOPE_MAX; i++)
		layout->nesting[i].parent = INSTRUMENT_NO_SCOPE;
	return layout->nesting;
}

bool layout_sum(struct instrument_layout *layout, uint16_t scope, uint16_t parent)
{
	if (layout->sum_count == INSTRUMENT_SUM_MAX)
		return false;
	if (!layout->sums)
		layout->sums = calloc(INSTRUMENT_SUM_MAX, sizeof(*layout->sums));
	if (!layout->sums)
		return false;
	layout->sums[layout->sum_count++] = (struct instrument_sum){
		.scope = scope,
		.parent = parent,
		.inside_word = INSTRUMENT_NO_SUM,
		.min_word = INSTRUMENT_NO_SUM,
		.max_word = INSTRUMENT_NO_SUM,
	};
	return true;
}

static bool add_count(struct instrument_layout *layout, struct instrument_sum_count count)
{
	return ARRAY_ADD(layout->sum_counts, layout->sum_counts_count, count);
}

bool layout_sum_count(struct instrument_layout *layout, uint32_t sum, uint32_t word, bool is_end)
{
	for (uint32_t i = 0; i < layout->sum_counts_count; i++) {
		struct instrument_sum_count *count = &layout->sum_counts[i];

		if (count->sum == sum && count->word == word && count->is_end == is_end) {
			count->times++;
			return true;
		}
	}
	return add_count(layout,
			 (struct instrument_sum_count){(uint16_t)sum, (uint16_t)word, 1, is_end});
}

void layout_drop_sums(struct instrument_layout *layout)
{
	free(layout->sums);
	free(layout->sum_counts);
	layout->sums = NULL;
	layout->sum_count = 0;
	layout->sum_counts = NULL;
	layout->sum_counts_count = 0;
}

void layout_fini(struct instrument_layout *layout)
{
	layout_drop_sums(layout);
	free(layout->nesting);
	free(layout->warning);
	for (uint32_t i = 0; i < layout->scope_count; i++)
		free(layout->scopes[i]);
	free(layout->scopes);
	*layout = (struct instrument_layout){0};
}

static void write_nesting(const struct instrument_layout *layout, struct out *out)
{
	for (uint32_t i = 0; layout->nesting && i < layout->scope_count; i++) {
		if (!layout->nesting[i].is_known)
			continue;
		out_printf(out, "around %u", i);
		for (uint32_t other = 0; other < layout->scope_count; other++)
			if (layout_may_contain(layout, other, i))
				out_printf(out, " %u", other);
		out_byte(out, '\n');
		if (layout->nesting[i].parent != INSTRUMENT_NO_SCOPE)
			out_printf(out, "parent %u %u\n", i, layout->nesting[i].parent);
	}
}

static void write_sums(const struct instrument_layout *layout, struct out *out)
{
	ARRAY_EACH(sum, layout->sums, layout->sum_count) {
		/* INSTRUMENT_NO_SUM becomes 0. */
		out_printf(out, "sum %u %u %u %u %u %u\n", sum->scope, (uint16_t)(sum->parent + 1),
			   sum->start_reads, sum->end_reads, sum->records_before,
			   (uint16_t)(sum->inside_word + 1));
	}
	for (uint32_t i = 0; i < layout->sum_count; i++)
		if (layout->sums[i].min_word != INSTRUMENT_NO_SUM)
			out_printf(out, "extremes %u %u %u\n", i, layout->sums[i].min_word,
				   layout->sums[i].max_word);
	ARRAY_EACH(count, layout->sum_counts, layout->sum_counts_count) {
		out_printf(out, "%s %u %u %u\n", count->is_end ? "ends" : "starts", count->sum,
			   count->word, count->times);
	}
}

void layout_write(const struct instrument_layout *layout, struct out *out)
{
	out_printf(out, "%s\nvendor %s\nwarps %u\nwarps_per_unit %u\nring %u\nslack %u\ncta %u\n",
		   first_line, layout->is_amd ? "amd" : "nvidia", layout->warp_count,
		   layout->warps_per_unit, layout->ring_bytes, layout->slack_bytes,
		   layout->cta_bytes);
	out_printf(out, "cta_stride %u\nunits", layout->cta_stride);
	for (uint32_t i = 0; i < layout->unit_count; i++)
		out_printf(out, " %u", layout->units[i]);
	out_byte(out, '\n');
	for (uint32_t i = 0; i < layout->scope_count; i++) {
		out_text(out, "scope ");
		for (const char *c = layout->scopes[i]; *c; c++) {
			if (*c == '\n')
				out_text(out, "\\n");
			else if (*c == '\\')
				out_text(out, "\\\\");
			else
				out_byte(out, *c);
		}
		out_byte(out, '\n');
	}
	for (uint32_t i = 1; i <= layout->code_count; i++)
		out_printf(out, "code %u %u\n", layout->codes[i].scope, layout->codes[i].kind);
	write_nesting(layout, out);
	write_sums(layout, out);
	if (layout->warning)
		out_printf(out, "warning %s\n", layout->warning);
}

/* ------------------------------------------------------------------ reading */

static bool read_number(struct slice *line, uint32_t *out)
{
	return slice_take_number(line, UINT32_MAX, out) && (!line->length || slice_take(line, " "));
}

/* Reads `count` numbers; false if there are fewer. */
static bool read_numbers(struct slice line, uint32_t count, uint32_t *out)
{
	for (uint32_t i = 0; i < count; i++)
		if (!read_number(&line, &out[i]))
			return false;
	return true;
}

static bool read_scope(struct slice line, struct instrument_layout *layout)
{
	uint32_t count = layout->scope_count;
	char name[512];
	size_t length = 0;

	while (line.length) {
		char c = *line.at;

		if (slice_take(&line, "\\n"))
			c = '\n';
		else if (!slice_take(&line, "\\\\") && c == '\\')
			return false;
		else if (c != '\\')
			slice_skip(&line, 1);
		if (length == sizeof(name) || !c)
			return false;
		name[length++] = c;
	}
	/* A duplicate name would shift the index of every later scope. */
	return length && layout_scope(layout, name, length) == count;
}

static bool read_units(struct slice line, struct instrument_layout *layout)
{
	uint32_t warp;

	while (line.length) {
		if (layout->unit_count == INSTRUMENT_UNIT_MAX || !read_number(&line, &warp) ||
		    warp >= INSTRUMENT_UNIT_MAX)
			return false;
		layout->units[layout->unit_count++] = (uint8_t)warp;
	}
	return true;
}

static bool read_code(struct slice line, struct instrument_layout *layout)
{
	uint32_t count = layout->code_count;
	uint32_t at[2]; /* scope, kind */

	return read_numbers(line, 2, at) && at[0] < layout->scope_count &&
	       at[1] <= INSTRUMENT_EVENT_END && layout_code(layout, at[0], at[1]) == count + 1;
}

static bool read_around(struct slice line, struct instrument_layout *layout)
{
	struct instrument_nesting *nesting = layout_nesting(layout);
	uint32_t scope, other;

	if (!nesting || !read_number(&line, &scope) || scope >= layout->scope_count)
		return false;
	nesting[scope].is_known = true;
	while (line.length) {
		if (!read_number(&line, &other) || other >= layout->scope_count)
			return false;
		scope_set_add(&nesting[scope].around, other);
	}
	return true;
}

static bool read_parent(struct slice line, struct instrument_layout *layout)
{
	struct instrument_nesting *nesting = layout_nesting(layout);
	uint32_t at[2]; /* scope, parent */

	if (!nesting || !read_numbers(line, 2, at) || at[0] >= layout->scope_count ||
	    at[1] >= layout->scope_count || !nesting[at[0]].is_known)
		return false;
	nesting[at[0]].parent = (uint16_t)at[1];
	return true;
}

static bool read_sum(struct slice line, struct instrument_layout *layout)
{
	uint32_t numbers[6];

	if (!read_numbers(line, ARRAY_LENGTH(numbers), numbers))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
		if (numbers[i] > INSTRUMENT_SUM_MAX * INSTRUMENT_SUM_ONE)
			return false;
	/* The sum around it comes first. */
	if (numbers[0] >= layout->scope_count || numbers[1] > layout->sum_count ||
	    !layout_sum(layout, (uint16_t)numbers[0], (uint16_t)(numbers[1] - 1)))
		return false;
	struct instrument_sum *sum = &layout->sums[layout->sum_count - 1];
	sum->start_reads = (uint16_t)numbers[2];
	sum->end_reads = (uint16_t)numbers[3];
	sum->records_before = (uint16_t)numbers[4];
	sum->inside_word = (uint16_t)(numbers[5] - 1);
	return true;
}

static bool read_count(struct slice line, struct instrument_layout *layout, bool is_end)
{
	uint32_t at[3]; /* sum, word, times */

	return read_numbers(line, 3, at) && at[0] < layout->sum_count && at[1] <= UINT16_MAX &&
	       at[2] <= UINT16_MAX &&
	       add_count(layout, (struct instrument_sum_count){(uint16_t)at[0], (uint16_t)at[1],
							       (uint16_t)at[2], is_end});
}

static bool read_extremes(struct slice line, struct instrument_layout *layout)
{
	uint32_t at[3]; /* sum, words */

	if (!read_numbers(line, 3, at) || at[0] >= layout->sum_count ||
	    at[1] >= INSTRUMENT_NO_SUM || at[2] >= INSTRUMENT_NO_SUM)
		return false;
	layout->sums[at[0]].min_word = (uint16_t)at[1];
	layout->sums[at[0]].max_word = (uint16_t)at[2];
	return true;
}

static bool read_warning(struct slice line, struct instrument_layout *layout)
{
	free(layout->warning);
	layout->warning = strndup(line.at, line.length);
	return layout->warning;
}

static bool read_vendor(struct slice line, struct instrument_layout *layout)
{
	struct slice vendor = slice_take_until(&line, ' ');

	layout->is_amd = slice_is(vendor, "amd");
	return layout->is_amd || slice_is(vendor, "nvidia");
}

static bool read_line(struct slice line, struct instrument_layout *layout)
{
	const struct {
		const char *name;
		bool (*read)(struct slice line, struct instrument_layout *layout);
		uint32_t *number; /* if there is no function */
	} keys[] = {
		{"vendor", read_vendor, NULL},
		{"warps", NULL, &layout->warp_count},
		{"warps_per_unit", NULL, &layout->warps_per_unit},
		{"ring", NULL, &layout->ring_bytes},
		{"slack", NULL, &layout->slack_bytes},
		{"cta", NULL, &layout->cta_bytes},
		{"cta_stride", NULL, &layout->cta_stride},
		{"units", read_units, NULL},
		{"scope", read_scope, NULL},
		{"code", read_code, NULL},
		{"around", read_around, NULL},
		{"parent", read_parent, NULL},
		{"sum", read_sum, NULL},
		{"extremes", read_extremes, NULL},
		{"warning", read_warning, NULL},
	};
	struct slice name = slice_take_until(&line, ' ');

	if (slice_is(name, "starts") || slice_is(name, "ends"))
		return read_count(line, layout, slice_is(name, "ends"));
	for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
		if (slice_is(name, keys[i].name))
			return keys[i].read ? keys[i].read(line, layout)
					    : read_number(&line, keys[i].number);
	return true; /* a key of a later version */
}

static bool are_units_sane(const struct instrument_layout *layout)
{
	if (!layout->unit_count || !layout->warps_per_unit ||
	    layout->warp_count > INSTRUMENT_UNIT_MAX || layout->warps_per_unit > layout->warp_count)
		return false;
	for (uint32_t i = 0; i < layout->unit_count; i++)
		if (layout->units[i] >= layout->warp_count ||
		    (i && layout->units[i] <= layout->units[i - 1]))
			return false;
	return true;
}

/* True if no scope contains itself. */
static bool is_nesting_sane(const struct instrument_layout *layout)
{
	const struct instrument_nesting *nesting = layout->nesting;

	for (uint32_t i = 0; nesting && i < layout->scope_count; i++) {
		uint32_t depth = 0;

		for (uint32_t p = nesting[i].parent; p != INSTRUMENT_NO_SCOPE;
		     p = nesting[p].parent)
			if (++depth > layout->scope_count)
				return false;
	}
	return true;
}

/* True for one of `words`, or none. */
static bool is_word(uint16_t word, uint32_t words)
{
	return word == INSTRUMENT_NO_SUM || word < words;
}

/* True if all words are in the ring buffer. */
static bool are_sums_sane(const struct instrument_layout *layout)
{
	uint32_t words = layout->ring_bytes / (uint32_t)sizeof(uint32_t);

	for (uint32_t i = 0; i < layout->sum_counts_count; i++)
		if (layout->sum_counts[i].word >= words)
			return false;
	for (uint32_t i = 0; i < layout->sum_count; i++)
		if (!is_word(layout->sums[i].inside_word, words) ||
		    !is_word(layout->sums[i].min_word, words) ||
		    !is_word(layout->sums[i].max_word, words))
			return false;
	return layout->sum_count <= words;
}

static bool is_sane(const struct instrument_layout *layout)
{
	uint32_t ring = layout->ring_bytes;
	uint32_t slack = layout->slack_bytes;

	return are_units_sane(layout) && layout->cta_stride &&
	       layout->cta_bytes % INSTRUMENT_CTA_ALIGN == 0 && ring >= INSTRUMENT_RECORD_BYTES &&
	       ring <= (1u << 28) && (ring & (ring - 1)) == 0 &&
	       slack % INSTRUMENT_RECORD_BYTES == 0 && slack <= ring &&
	       layout_ring_at(layout, layout->unit_count) <= layout->cta_bytes &&
	       is_nesting_sane(layout) && are_sums_sane(layout);
}

static bool read_lines(struct slice text, struct instrument_layout *layout)
{
	struct slice line;

	if (!slice_take_line(&text, &line) || !slice_take(&line, first_line) ||
	    (line.length && *line.at != ' '))
		return false;
	while (slice_take_line(&text, &line))
		if (!read_line(line, layout))
			return false;
	return is_sane(layout);
}

int layout_read(const char *text, size_t length, struct instrument_layout *layout,
		struct proton_error *err)
{
	*layout = (struct instrument_layout){0};
	if (read_lines((struct slice){text, length}, layout))
		return PROTON_OK;
	layout_fini(layout);
	return err_set(err, PROTON_E_FORMAT, "the layout of the kernel's records is corrupt");
}
