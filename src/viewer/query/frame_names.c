/* Frame names: formats of source frames and styles of C++ names. */
#include "viewer/query/frame_names.h"

#include "symbol/demangle.h"
#include "viewer/print/xalloc.h"

/* Parts of a source frame; pointers into the text, which the struct does not own. */
struct source {
	const char *file;
	size_t file_length;
	const char *function;
	size_t function_length;
	const char *line; /* NULL: `number` */
	size_t line_length;
	uint32_t number;
};

/*
 * Splits "file:line@function" at the first ":digits@": the name of a function may contain '@' or
 * ':', but a file name is hardly ever followed by a line number.
 */
static bool split_source(const char *text, size_t length, struct source *source)
{
	const char *end = text + length;
	const char *colon = text;

	while ((colon = memchr(colon, ':', (size_t)(end - colon))) != NULL) {
		const char *digits = ++colon;
		const char *p = digits;

		while (p < end && *p >= '0' && *p <= '9')
			p++;
		if (p == digits || p == end || *p != '@' || digits - 1 == text)
			continue;
		source->file = text;
		source->file_length = (size_t)(digits - 1 - text);
		source->line = digits;
		source->line_length = (size_t)(p - digits);
		source->function = p + 1;
		source->function_length = (size_t)(end - p - 1);
		return true;
	}
	return false;
}

static void skip_directories(struct source *source)
{
	const char *slash = memrchr(source->file, '/', source->file_length);

	if (!slash)
		return;
	source->file_length -= (size_t)(slash + 1 - source->file);
	source->file = slash + 1;
}

static void write_source(struct out *out, struct source *source, enum name_format format)
{
	if (format != NAME_FULL)
		skip_directories(source);
	if (format != NAME_FUNCTION_LINE)
		out_bytes(out, source->file, source->file_length);
	if (format == NAME_FULL || format == NAME_FILE_FUNCTION_LINE)
		out_byte(out, ':');
	if (format != NAME_FILE_FUNCTION) {
		if (source->line)
			out_bytes(out, source->line, source->line_length);
		else
			out_u64(out, source->number);
	}
	out_byte(out, '@');
	out_bytes(out, source->function, source->function_length);
}

void name_write(struct out *out, const struct profile *profile, uint32_t frame,
		enum name_format format)
{
	const struct row_frame *row = &profile->frames[frame];
	const char *name = profile_text(profile, row->name);
	size_t length = string_length(&profile->strings, row->name);
	struct source source = {0};

	if (row->kind == FRAME_SOURCE) {
		source.file = profile_text(profile, row->file);
		source.file_length = string_length(&profile->strings, row->file);
		source.function = name;
		source.function_length = length;
		source.number = row->line;
		write_source(out, &source, format);
	} else if (format != NAME_FULL && row->kind != FRAME_ROOT &&
		   split_source(name, length, &source)) {
		write_source(out, &source, format);
	} else if (row->kind == FRAME_ROOT && length == 0) {
		out_text(out, "ROOT");
	} else {
		out_bytes(out, name, length);
	}
}

void name_write_styled(struct out *out, const struct profile *profile, uint32_t frame,
		       enum name_format format, enum name_style style)
{
	const struct row_frame *row = &profile->frames[frame];
	const char *name = profile_text(profile, row->name);
	size_t length = string_length(&profile->strings, row->name);

	if (style == NAMES_RAW || row->kind == FRAME_SOURCE ||
	    !demangle(out, name, length, style == NAMES_SHORT ? DEMANGLE_SHORT : DEMANGLE_FULL))
		name_write(out, profile, frame, format);
}

void name_write_shown(struct out *out, const struct profile *profile, uint32_t frame,
		      enum name_format format, enum name_style style)
{
	size_t before = out->length;

	name_write_styled(out, profile, frame, format, style);
	if (out->length == before)
		out_text(out, "<unnamed>");
}

char *name_text(const struct profile *profile, uint32_t frame, enum name_style style)
{
	struct out name;
	size_t length;

	out_init(&name, -1);
	name_write_styled(&name, profile, frame, NAME_FULL, style);
	char *text = out_take(&name, &length);
	if (!text)
		xgive_up();
	return text;
}
