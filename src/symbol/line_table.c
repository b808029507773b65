/*
 * Line table: rows of the code object become segments with frames; lines of the PTX or .debug_info
 * add calls.
 */
#include "symbol/line_table.h"

#include "base/array.h"
#include "symbol/code_object.h"
#include "symbol/inlined_calls.h"
#include "symbol/line_program.h"
#include "symbol/ptx_lines.h"

struct line_table {
	struct code_object code_object; /* only functions, with names in `frames` */
	struct line_frames frames;
	struct segments segments;
	bool wants_ptx;
};

/* ------------------------------------------------------------------ segments */

static bool add_segment(struct segments *segments, struct segment segment)
{
	struct segment *last = segments->count ? &segments->segments[segments->count - 1] : NULL;

	if (last && last->section == segment.section && last->value == segment.value &&
	    last->info == segment.info)
		return true;
	return ARRAY_ADD(segments->segments, segments->count, segment);
}

/* By place; at one place the last row counts, and a sequence that starts after one that ends. */
static int compare_rows(const void *left, const void *right, void *data)
{
	const struct line_rows *rows = data;
	uint32_t i = *(const uint32_t *)left, j = *(const uint32_t *)right;
	const struct line_row *a = &rows->rows[i], *b = &rows->rows[j];

	return ORDER_OF(a->section, b->section)
		       ?: ORDER_OF(a->address, b->address)
		       ?: ORDER_OF(b->is_end, a->is_end)
		       ?: ORDER_OF(i, j);
}

/* Indexes of the rows with a section. NULL if out of memory. */
static uint32_t *sort_rows(struct line_rows *rows, size_t *count_out)
{
	uint32_t *order = calloc(rows->count + 1, sizeof(*order));
	size_t count = 0;

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->rows[i].section)
			order[count++] = i;
	qsort_r(order, count, sizeof(*order), compare_rows, rows);
	*count_out = count;
	return order;
}

/* `values`: one for each row, or NULL: the lines of the rows. */
static int make_segments(struct segments *segments, struct line_rows *rows, const uint32_t *values,
			 enum line_info info)
{
	size_t count = 0;
	AUTO_FREE uint32_t *order = sort_rows(rows, &count);
	int status = order ? PROTON_OK : PROTON_E_NOMEM;

	for (size_t i = 0; i < count && status == PROTON_OK; i++) {
		const struct line_row *row = &rows->rows[order[i]];
		const struct line_row *next = i + 1 < count ? &rows->rows[order[i + 1]] : NULL;
		uint32_t value = values ? values[order[i]] : row->line;
		struct segment segment = {.begin = row->address, .section = row->section};

		if (next && next->section == row->section && next->address == row->address)
			continue;
		if (!row->is_end && value) {
			segment.value = value;
			segment.info = info;
		}
		if (!add_segment(segments, segment))
			status = PROTON_E_NOMEM;
	}
	return status;
}

/* ------------------------------------------------------------------ frames of rows */

/* The name of a symbol: a noinline function that follows a kernel K is "$K$NAME". */
static const char *name_of(const struct code_object_function *function)
{
	return function->name[0] == '$' ? strrchr(function->name, '$') + 1 : function->name;
}

/*
 * The name of the function that code at a place was inlined from; NULL: unknown. Triton stores the
 * kernel's name, which says nothing.
 */
static const char *inlined_function(struct line_table *table, const char *name, uint32_t section,
				    uint64_t offset)
{
	const struct code_object *object = &table->code_object;
	uint64_t places[] = {offset, 0};

	for (int i = 0; i < 2; i++) {
		uint32_t function = code_object_function_at(object, section, places[i]);

		if (function != CODE_OBJECT_NONE &&
		    strcmp(name_of(&object->functions[function]), name) == 0)
			return NULL;
	}
	return line_frames_text(&table->frames, name, strlen(name));
}

/* The frame of each row; 0: none. NULL if out of memory. */
static uint32_t *frames_of_rows(struct line_table *table, const struct line_rows *rows)
{
	uint32_t *frames = calloc(rows->count + 1, sizeof(*frames));

	for (size_t i = 0; frames && i < rows->count; i++) {
		const struct line_row *row = &rows->rows[i];
		struct line_frame frame = {
			.file = row->file,
			.line = row->line,
			.column = row->column,
			.caller = row->caller ? frames[row->caller - 1] : 0,
		};

		if (!row->file)
			continue;
		if (row->function)
			frame.function =
				inlined_function(table, row->function, row->section, row->address);
		frames[i] = line_frames_add(&table->frames, frame);
		if (!frames[i]) {
			free(frames);
			frames = NULL;
		}
	}
	return frames;
}

/* ------------------------------------------------------------------ joining */

static bool is_before(const struct segment *a, const struct segment *b)
{
	return a->section != b->section ? a->section < b->section : a->begin < b->begin;
}

/* A segment, or one after all others. */
static struct segment segment_at(const struct segments *segments, size_t index)
{
	return index < segments->count
		       ? segments->segments[index]
		       : (struct segment){.section = UINT32_MAX, .begin = UINT64_MAX};
}

/* Where calls are from: the PTX, or .debug_info. */
struct joining {
	struct line_table *table;
	const struct ptx_lines *ptx;
	const struct inlined_calls *calls;
	uint32_t *frames;   /* for each call, where it was called */
	const char **names; /* for each call, the function; NULL: unknown */
	bool is_out_of_memory;
};

/*
 * Adds the calls of the line of PTX to a segment, if both agree about the source line, or the calls
 * of all PTX of the source line. The assembler gives instructions that it moved or merged another
 * source line than line of PTX.
 */
static struct segment add_ptx_calls(struct joining *joining, struct segment segment,
				    uint32_t ptx_line)
{
	const struct ptx_lines *ptx = joining->ptx;
	struct line_table *table = joining->table;
	const struct line_frame *frames = table->frames.frames;
	const struct line_frame *innermost = &frames[segment.value - 1];
	uint32_t exact = ptx_line ? ptx_lines_at(ptx, ptx_line) : 0;

	if (!exact || frames[exact - 1].file != innermost->file ||
	    frames[exact - 1].line != innermost->line)
		exact = ptx_lines_of(ptx, innermost->file, innermost->line, &table->frames);
	if (exact) {
		segment.value = exact;
		segment.info = LINE_INFO_CALLS;
	}
	return segment;
}

static struct segment add_inlined_calls(struct joining *joining, struct segment segment,
					uint32_t call)
{
	struct line_frames *frames = &joining->table->frames;
	struct line_frame frame = frames->frames[segment.value - 1];

	segment.info = LINE_INFO_CALLS;
	if (!call)
		return segment;
	frame.caller = joining->frames[call - 1];
	frame.function = joining->names[call - 1];
	segment.value = line_frames_add(frames, frame);
	joining->is_out_of_memory |= !segment.value;
	return segment;
}

/* Splits segments of lines where `others` change, and adds the calls of both to the table. */
static int join_segments(struct joining *joining, const struct segments *lines,
			 const struct segments *others)
{
	struct segment line = {0}, other = {0};
	size_t i = 0, j = 0;

	while (i < lines->count || j < others->count) {
		struct segment a = segment_at(lines, i), b = segment_at(others, j);
		bool is_line = !is_before(&b, &a), is_other = !is_before(&a, &b);
		struct segment segment = {.begin = is_line ? a.begin : b.begin,
					  .section = is_line ? a.section : b.section};

		line = is_line ? a : line;
		other = is_other ? b : other;
		i += is_line;
		j += is_other;
		if (line.section == segment.section) {
			segment.value = line.value;
			segment.info = line.info;
		}
		if (segment.value)
			segment = (joining->ptx ? add_ptx_calls : add_inlined_calls)(
				joining, segment,
				other.section == segment.section ? other.value : 0);
		if (!add_segment(&joining->table->segments, segment))
			return PROTON_E_NOMEM;
	}
	return joining->is_out_of_memory ? PROTON_E_NOMEM : PROTON_OK;
}

/* ------------------------------------------------------------------ calls of the PTX */

static int join_ptx(struct line_table *table, const struct segments *lines, const char *text,
		    size_t length)
{
	struct segments ptx_segments = {0};
	AT_END(line_rows_fini) struct line_rows rows = {0};
	AT_END(ptx_lines_fini) struct ptx_lines ptx;
	struct joining joining = {.table = table, .ptx = &ptx};
	int status = ptx_lines_read(&ptx, text, length, &table->frames);

	if (status == PROTON_OK)
		status = line_rows_read(&rows, &table->code_object, ".nv_debug_line_sass",
					&table->frames);
	if (status == PROTON_OK)
		status = make_segments(&ptx_segments, &rows, NULL, LINE_INFO_NONE);
	if (status == PROTON_OK)
		status = join_segments(&joining, lines, &ptx_segments);
	free(ptx_segments.segments);
	return status;
}

/* ------------------------------------------------------------------ calls of .debug_info */

/* Places of inlined functions tell whether their name is the kernel's. */
static void name_calls(struct joining *joining)
{
	const struct inlined_calls *calls = joining->calls;

	ARRAY_EACH(range, calls->ranges.segments, calls->ranges.count) {
		for (uint32_t call = range->value; call && !joining->names[call - 1];
		     call = calls->calls[call - 1].caller) {
			const char *name = calls->calls[call - 1].function;

			if (!name)
				continue;
			joining->names[call - 1] = inlined_function(joining->table, name,
								    range->section, range->begin);
		}
	}
}

/* Callers come first, so their frames are known. */
static bool frame_calls(struct joining *joining, struct line_rows *rows)
{
	const struct inlined_calls *calls = joining->calls;

	for (size_t i = 0; i < calls->count; i++) {
		const struct inlined_call *call = &calls->calls[i];
		struct line_frame frame = {
			.file = line_rows_path(rows, call->lines, call->file,
					       &joining->table->frames),
			.line = call->line,
			.column = call->column,
		};

		if (call->caller) {
			frame.caller = joining->frames[call->caller - 1];
			frame.function = joining->names[call->caller - 1];
		}
		/* Without a file, the line is as if it were called by the caller. */
		joining->frames[i] = frame.file ? line_frames_add(&joining->table->frames, frame)
						: frame.caller;
		if (frame.file && !joining->frames[i])
			return false;
	}
	return true;
}

static int join_calls(struct line_table *table, const struct segments *lines,
		      struct line_rows *rows, const struct inlined_calls *calls)
{
	struct joining joining = {
		.table = table,
		.calls = calls,
		.frames = calloc(calls->count + 1, sizeof(*joining.frames)),
		.names = calloc(calls->count + 1, sizeof(*joining.names)),
	};
	int status = joining.frames && joining.names ? PROTON_OK : PROTON_E_NOMEM;

	if (status == PROTON_OK) {
		name_calls(&joining);
		status = frame_calls(&joining, rows) ? PROTON_OK : PROTON_E_NOMEM;
	}
	if (status == PROTON_OK)
		status = join_segments(&joining, lines, &calls->ranges);
	FREE_ALL(joining.frames, joining.names);
	return status;
}

/* Cubins have their calls in the line program, or not at all. */
static int add_debug_info(struct line_table *table, const struct segments *lines,
			  struct line_rows *rows)
{
	AT_END(inlined_calls_fini) struct inlined_calls calls;
	int status = inlined_calls_read(&calls, &table->code_object);

	if (status == PROTON_OK && calls.is_known)
		status = join_calls(table, lines, rows, &calls);
	else if (status == PROTON_OK)
		table->segments = *lines;
	return status;
}

/* ------------------------------------------------------------------ opening */

static int read_lines(struct line_table *table, const char *ptx, size_t ptx_length)
{
	struct segments lines = {0};
	AT_END(line_rows_fini) struct line_rows rows;
	AUTO_FREE uint32_t *frames = NULL;
	int status = line_rows_read(&rows, &table->code_object, ".debug_line", &table->frames);

	if (status == PROTON_OK) {
		frames = frames_of_rows(table, &rows);
		status = frames ? PROTON_OK : PROTON_E_NOMEM;
	}
	if (status == PROTON_OK)
		status = make_segments(&lines, &rows, frames,
				       rows.has_calls ? LINE_INFO_CALLS : LINE_INFO_INNERMOST);
	if (status == PROTON_OK && table->code_object.machine == MACHINE_AMD) {
		status = add_debug_info(table, &lines, &rows);
	} else if (status == PROTON_OK && ptx && !rows.has_calls) {
		status = join_ptx(table, &lines, ptx, ptx_length);
	} else {
		table->segments = lines;
		table->wants_ptx = lines.count && !rows.has_calls;
	}
	if (table->segments.segments != lines.segments)
		free(lines.segments);
	return status;
}

/* The bytes of the code object are not needed any more. */
static int keep_names(struct line_table *table)
{
	for (uint32_t i = 0; i < table->code_object.function_count; i++) {
		struct code_object_function *function = &table->code_object.functions[i];

		function->name =
			line_frames_text(&table->frames, function->name, strlen(function->name));
		if (!function->name)
			return PROTON_E_NOMEM;
	}
	table->code_object.file = table->code_object.names = (struct span){0};
	table->code_object.section_count = 0;
	return PROTON_OK;
}

int line_table_open(const void *object, size_t length, const char *ptx, size_t ptx_length,
		    struct line_table **table_out, struct proton_error *err)
{
	struct line_table *table = calloc(1, sizeof(*table));
	int status;

	if (!table)
		return err_nomem(err);
	/* Rows and lines are counted in 32 bits. */
	if (length > UINT32_MAX || ptx_length > UINT32_MAX)
		status = err_set(err, PROTON_E_INVALID,
				 "cannot read the line table: larger than 4 GiB");
	else
		status = code_object_open(&table->code_object, object, length, err);
	if (status == PROTON_OK)
		status = line_frames_init(&table->frames, length + ptx_length, err);
	if (status == PROTON_OK) {
		status = read_lines(table, ptx, ptx_length);
		if (status == PROTON_OK)
			status = keep_names(table);
		if (status != PROTON_OK)
			err_nomem(err);
	}
	if (status != PROTON_OK) {
		line_table_close(table);
		return status;
	}
	*table_out = table;
	return PROTON_OK;
}

void line_table_close(struct line_table *table)
{
	if (!table)
		return;
	code_object_close(&table->code_object);
	line_frames_fini(&table->frames);
	FREE_ALL(table->segments.segments, table);
}

/* ------------------------------------------------------------------ lookup */

bool line_table_wants_ptx(const struct line_table *table)
{
	return table->wants_ptx;
}

uint32_t line_table_function(const struct line_table *table, const char *name)
{
	return code_object_function_find(&table->code_object, name);
}

const struct line_frame *line_table_frame(const struct line_table *table, uint32_t frame)
{
	return &table->frames.frames[frame - 1];
}

uint32_t line_table_frame_count(const struct line_table *table)
{
	return (uint32_t)table->frames.count;
}

bool line_table_run(const struct line_table *table, uint32_t function, uint64_t pc,
		    struct line_run *run_out)
{
	const struct code_object *object = &table->code_object;
	const struct segment *segments = table->segments.segments;

	if (function >= object->function_count || pc >= object->functions[function].code_bytes)
		return false;
	const struct code_object_function *outer = &object->functions[function];
	uint32_t at = code_object_function_at(object, outer->section, outer->offset + pc);
	const struct code_object_function *inner = &object->functions[at];
	struct segment place =
		(struct segment){.begin = outer->offset + pc, .section = outer->section};
	size_t count =
		ARRAY_COUNT_BEFORE(table->segments.count, i, !is_before(&place, &segments[i]));
	uint64_t begin = inner->offset > outer->offset ? inner->offset : outer->offset;
	uint64_t end = outer->offset + outer->code_bytes;
	if (at + 1 < object->function_count && inner[1].section == outer->section &&
	    inner[1].offset < end)
		end = inner[1].offset;
	if (count < table->segments.count && segments[count].section == outer->section &&
	    segments[count].begin < end)
		end = segments[count].begin;
	*run_out = (struct line_run){.function = name_of(inner)};
	if (count && segments[count - 1].section == outer->section) {
		run_out->frame = segments[count - 1].value;
		run_out->info = segments[count - 1].info;
		begin = segments[count - 1].begin > begin ? segments[count - 1].begin : begin;
	}
	run_out->begin = begin - outer->offset;
	run_out->end = end - outer->offset;
	return true;
}
