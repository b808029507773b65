/* Parsing lines of MLIR text, and writing markers as MLIR. */
#include "intra/ttgir/mlir_text.h"

#include <stdio.h>

#define PREFIX_TRIES 1000u

bool mlir_opens_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[trimmed.length - 1] == '{';
}

bool mlir_closes_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[0] == '}';
}

bool mlir_begins_partition(struct slice trimmed)
{
	return slice_take(&trimmed, "default") || slice_take(&trimmed, "partition");
}

/* ------------------------------------------------------------------ lines */

/* "%x = ", "%x:3 = " or "%x, %y = "; returns the first SSA name. */
static struct slice take_results(struct slice *rest)
{
	const char *equals = rest->length && rest->at[0] == '%' ? slice_find(*rest, " = ") : NULL;
	struct slice name = {rest->at, 0};

	if (!equals)
		return name;
	for (name.length = 1; slice_is_name_char(name.at[name.length]);)
		name.length++;
	*rest = slice_between(equals + 3, slice_end(*rest));
	return name;
}

void mlir_line_read(struct slice line, struct mlir_line *out)
{
	struct slice rest = slice_trim(line);
	const char *location = slice_ends(rest, ")") ? slice_find_last(rest, " loc(") : NULL;

	*out = (struct mlir_line){.indent = slice_between(line.at, rest.at)};
	out->location = slice_between(location ? location + 1 : slice_end(rest), slice_end(rest));
	out->result = take_results(&rest);
	slice_take(&rest, "\""); /* the generic form, as of "tt.reduce" */
	out->op = slice_take_name(&rest);
	if (out->op.length && (out->op.at[0] == '.' || !memchr(out->op.at, '.', out->op.length)))
		out->op.length = 0;
	out->rest = rest;
}

bool mlir_is_loop(const struct mlir_line *line)
{
	return slice_is(line->op, "scf.for") || slice_is(line->op, "scf.while");
}

/* ------------------------------------------------------------------ markers */

int mlir_writer_init(struct mlir_writer *writer, struct slice text, bool is_amd,
		     struct proton_error *err)
{
	*writer = (struct mlir_writer){
		.is_amd = is_amd || slice_find(text, "ttg.target = \"hip:"),
	};
	out_init(&writer->out, -1);
	for (uint32_t i = 0; i < PREFIX_TRIES; i++) {
		snprintf(writer->prefix, MLIR_PREFIX_MAX, "%%proton_");
		if (i)
			snprintf(writer->prefix, MLIR_PREFIX_MAX, "%%proton_v%u_", i);
		if (!slice_find(text, writer->prefix))
			return PROTON_OK;
	}
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "all SSA names of the form %%proton_... are in use");
}

int mlir_writer_finish(struct mlir_writer *writer, bool is_changed, char **text_out,
		       size_t *length_out, struct proton_error *err)
{
	if (is_changed)
		return out_finish_text(&writer->out, text_out, length_out, err);
	out_fini(&writer->out);
	return PROTON_OK;
}

void mlir_write_line(struct mlir_writer *writer, struct slice line)
{
	out_bytes(&writer->out, line.at, line.length);
	out_byte(&writer->out, '\n');
}

static void write_quoted(const struct marker *marker, struct out *out)
{
	out_byte(out, '"');
	for (size_t i = 0; i < marker->name_length; i++) {
		unsigned char c = (unsigned char)marker->name[i];

		if (c == '"' || c == '\\' || c < ' ' || c >= 127)
			out_printf(out, "\\%02X", c);
		else
			out_byte(out, (char)c);
	}
	out_byte(out, '"');
}

void mlir_write_marker(struct mlir_writer *writer, struct slice indent, struct slice location,
		       const struct marker *marker)
{
	struct out *out = &writer->out;

	out_bytes(out, indent.at, indent.length);
	if (writer->is_record) {
		out_text(out, marker->is_end ? "proton.record end " : "proton.record start ");
		write_quoted(marker, out);
	} else {
		out_printf(out, "%s%u = tt.elementwise_inline_asm \"", writer->prefix,
			   writer->marker_count);
		marker_write(marker->is_event, marker->is_end, marker->name, marker->name_length,
			     out);
		out_printf(out,
			   "\" {constraints = \"=%c\", packed_element = 1 : i32, pure = false} "
			   "-> i32",
			   writer->is_amd ? 'v' : 'r');
		out_text(out, location.length ? " " : "");
		out_bytes(out, location.at, location.length);
	}
	out_byte(out, '\n');
	writer->marker_count++;
}
