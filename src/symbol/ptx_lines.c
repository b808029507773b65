/* Source lines of PTX text: parser of .file and .loc. */
#include "symbol/ptx_lines.h"

#include "base/array.h"
#include "base/slice.h"

/* Nested calls and numbers of files beyond these are unknown. */
#define CALLS_MAX 64
#define FILES_MAX 1024u

struct place {
	const char *file;
	uint32_t line, column;
};

struct parser {
	struct line_frames *frames;
	struct slice *files; /* by number; empty: none */
	size_t file_count, file_capacity;
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ files */

static bool take_word(struct slice *line, const char *word)
{
	*line = slice_trim(*line);
	return slice_take(line, word);
}

static bool take_number(struct slice *line, uint32_t *number_out)
{
	*line = slice_trim(*line);
	return slice_take_number(line, UINT32_MAX, number_out);
}

static const char *keep_line(struct parser *parser, struct slice text)
{
	const char *kept = line_frames_text(parser->frames, text.at, text.length);

	parser->is_out_of_memory |= !kept;
	return kept;
}

/* .file 1 "/src/k.py" */
static void read_file(struct parser *parser, struct slice line)
{
	uint32_t number;

	if (!take_word(&line, ".file") || !take_number(&line, &number) || !take_word(&line, "\"") ||
	    number >= FILES_MAX)
		return;
	struct slice path = slice_take_until(&line, '"');
	if (!array_reserve(&parser->files, &parser->file_capacity, number + 1,
			   sizeof(*parser->files))) {
		parser->is_out_of_memory = true;
		return;
	}
	while (parser->file_count <= number)
		parser->files[parser->file_count++] = (struct slice){0};
	path.at = keep_line(parser, path);
	if (path.at)
		parser->files[number] = path;
}

/* The path that ends in this name; the name itself if several do, or none. */
static const char *path_of(struct parser *parser, struct slice name)
{
	const char *found = NULL;

	for (size_t i = 0; i < parser->file_count; i++) {
		struct slice path = parser->files[i];
		size_t before = path.length - name.length;

		if (path.length < name.length || !path.length ||
		    memcmp(path.at + before, name.at, name.length) != 0 ||
		    (before && path.at[before - 1] != '/'))
			continue;
		if (found && found != path.at)
			return keep_line(parser, name);
		found = path.at;
	}
	return found ? found : keep_line(parser, name);
}

/* ------------------------------------------------------------------ .loc */

/* Cuts ":NUMBER" from the end. */
static bool cut_number(struct slice *text, uint32_t *number_out)
{
	const char *colon = slice_find_last(*text, ":");

	if (!colon)
		return false;
	struct slice digits = slice_between(colon + 1, slice_end(*text));
	if (!slice_take_number(&digits, UINT32_MAX, number_out) || digits.length)
		return false;
	text->length = (size_t)(colon - text->at);
	return true;
}

/* The calls of a comment, innermost first. False if it cannot be parsed. */
static bool read_calls(struct parser *parser, struct slice comment, struct place *calls,
		       size_t *count_out)
{
	size_t count = 0;

	while (slice_take_past(&comment, "@[ ")) {
		struct place *place = &calls[count];
		const char *next = slice_find(comment, " @[ ");
		const char *end = slice_find(comment, " ]");

		if (!end || ++count == CALLS_MAX)
			return false;
		struct slice call = slice_between(comment.at, next && next < end ? next : end);
		if (!cut_number(&call, &place->column))
			return false;
		/* A column of 0 is left out. */
		if (!cut_number(&call, &place->line)) {
			place->line = place->column;
			place->column = 0;
		}
		place->file = path_of(parser, call);
	}
	*count_out = count;
	return true;
}

static uint32_t add_frame(struct parser *parser, struct place place, uint32_t caller)
{
	struct line_frame frame = {
		.file = place.file, .line = place.line, .column = place.column, .caller = caller};
	uint32_t number = place.file ? line_frames_add(parser->frames, frame) : 0;

	parser->is_out_of_memory |= !number;
	return number;
}

/* .loc 1 6 18    // k.py:6:18 @[ k.py:10:16 ]. False for another line. */
static bool read_loc(struct parser *parser, struct slice line, uint32_t *frame_out)
{
	struct place calls[CALLS_MAX];
	struct place place;
	uint32_t file, frame = 0;
	size_t count;

	*frame_out = 0;
	if (!take_word(&line, ".loc") || !take_number(&line, &file) ||
	    !take_number(&line, &place.line) || !take_number(&line, &place.column))
		return false;
	/* With attributes, the cubin has the calls; without a comment, they are unknown. */
	if (!take_word(&line, "//") || file >= parser->file_count || !parser->files[file].length ||
	    !read_calls(parser, line, calls, &count))
		return true;
	while (count--)
		frame = add_frame(parser, calls[count], frame);
	place.file = parser->files[file].at;
	*frame_out = add_frame(parser, place, frame);
	return true;
}

static bool is_function(struct slice line)
{
	while (take_word(&line, ".visible") || take_word(&line, ".weak") ||
	       take_word(&line, ".extern"))
		;
	return take_word(&line, ".entry") || take_word(&line, ".func");
}

/* ------------------------------------------------------------------ the text */

/* Reads .file, or with `ptx` the rest. */
static void each_line(struct parser *parser, struct slice text, struct ptx_lines *ptx)
{
	struct slice line;

	for (uint32_t number = 1; slice_take_line(&text, &line) && !parser->is_out_of_memory;
	     number++) {
		uint32_t frame = 0;

		if (!ptx) {
			read_file(parser, line);
			continue;
		}
		if (!read_loc(parser, line, &frame) && !is_function(line))
			continue;
		if (!ARRAY_ADD(ptx->lines, ptx->count, (struct ptx_line){number, frame}))
			parser->is_out_of_memory = true;
	}
}

struct sorting {
	const struct ptx_lines *ptx;
	const struct line_frames *frames;
};

static int compare_source(const struct line_frame *frame, const char *file, uint64_t line)
{
	return ORDER_OF((uintptr_t)frame->file, (uintptr_t)file) ?: ORDER_OF(frame->line, line);
}

static int compare_sources(const void *left, const void *right, void *data)
{
	const struct sorting *sorting = data;
	const struct ptx_line *lines = sorting->ptx->lines;
	const struct line_frame *frames = sorting->frames->frames;
	const struct line_frame *a = &frames[lines[*(const uint32_t *)left].frame - 1];
	const struct line_frame *b = &frames[lines[*(const uint32_t *)right].frame - 1];

	return compare_source(a, b->file, b->line)
		       ?: ORDER_OF(a->caller, b->caller)
		       ?: ORDER_OF(a->column, b->column);
}

static int sort_sources(struct ptx_lines *ptx, const struct line_frames *frames)
{
	struct sorting sorting = {ptx, frames};

	ptx->by_source = calloc(ptx->count + 1, sizeof(*ptx->by_source));
	if (!ptx->by_source)
		return PROTON_E_NOMEM;
	for (uint32_t i = 0; i < ptx->count; i++)
		if (ptx->lines[i].frame)
			ptx->by_source[ptx->source_count++] = i;
	qsort_r(ptx->by_source, ptx->source_count, sizeof(*ptx->by_source), compare_sources,
		&sorting);
	return PROTON_OK;
}

int ptx_lines_read(struct ptx_lines *ptx, const char *text, size_t length,
		   struct line_frames *frames)
{
	struct parser parser = {.frames = frames};
	struct slice all = {text, length};

	*ptx = (struct ptx_lines){0};
	/* LLVM writes .file after its uses. */
	each_line(&parser, all, NULL);
	each_line(&parser, all, ptx);
	free(parser.files);
	return parser.is_out_of_memory ? PROTON_E_NOMEM : sort_sources(ptx, frames);
}

void ptx_lines_fini(struct ptx_lines *ptx)
{
	FREE_ALL(ptx->lines, ptx->by_source);
	*ptx = (struct ptx_lines){0};
}

uint32_t ptx_lines_at(const struct ptx_lines *ptx, uint32_t line)
{
	size_t count = ARRAY_COUNT_BEFORE(ptx->count, i, ptx->lines[i].line <= line);

	return count ? ptx->lines[count - 1].frame : 0;
}

/* The first position in by_source with this line or a later one. */
static size_t source_position(const struct ptx_lines *ptx, const struct line_frames *frames,
			      const char *file, uint64_t line)
{
	const struct line_frame *all = frames->frames;

	return ARRAY_COUNT_BEFORE(ptx->source_count, i,
				  compare_source(&all[ptx->lines[ptx->by_source[i]].frame - 1],
						 file, line) < 0);
}

uint32_t ptx_lines_of(const struct ptx_lines *ptx, const char *file, uint32_t line,
		      struct line_frames *frames)
{
	size_t first = source_position(ptx, frames, file, line);
	size_t end = source_position(ptx, frames, file, (uint64_t)line + 1);

	if (first == end)
		return 0;
	uint32_t a = ptx->lines[ptx->by_source[first]].frame;
	uint32_t b = ptx->lines[ptx->by_source[end - 1]].frame;
	struct line_frame frame = frames->frames[a - 1];
	if (frames->frames[b - 1].caller != frame.caller)
		return 0;
	if (a == b)
		return a;
	frame.column = 0;
	return line_frames_add(frames, frame);
}
