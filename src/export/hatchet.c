/*
 * hatchet JSON: [tree, devices], for llnl-hatchet and the viewers. See
 * docs/design/hatchet-output.md. tree_write.c traverses the profile; this file implements the
 * syntax.
 */
#include "export/export.h"

#include "export/tree_write.h"
#include "format/json_write.h"

/*
 * Indentation is most of a formatted file; with this many nodes it would be hundreds of megabytes.
 * Larger profiles have one node per line.
 */
#define PRETTY_NODES_MAX 100000u

enum layout {
	LAYOUT_PRETTY,
	LAYOUT_LINES,
	LAYOUT_COMPACT,
};

struct hatchet {
	struct json_writer json; /* first member: the functions below cast to it */
	enum layout layout;
};

static void begin_map(void *context, uint64_t pairs)
{
	(void)pairs;
	json_begin_object(context);
}

static void end_map(void *context)
{
	json_end_object(context);
}

static void begin_array(void *context, uint64_t elements)
{
	(void)elements;
	json_begin_array(context);
}

static void end_array(void *context)
{
	json_end_array(context);
}

static void key(void *context, const char *text)
{
	json_key(context, text);
}

static void quoted_key(void *context, const char *bytes, size_t length)
{
	json_key_quoted(context, bytes, length);
}

static void quoted(void *context, const char *bytes, size_t length)
{
	json_string_quoted(context, bytes, length);
}

static void string(void *context, const char *text, size_t length)
{
	json_string(context, text, length);
}

static void int64(void *context, int64_t value)
{
	json_int64(context, value);
}

static void uint64(void *context, uint64_t value)
{
	json_uint64(context, value);
}

static void float64(void *context, double value)
{
	json_double(context, value);
}

static void boolean(void *context, bool value)
{
	json_bool(context, value);
}

static bool has_failed(void *context)
{
	return ((struct hatchet *)context)->json.out->errnum != 0;
}

static void whole(void *context, bool begin)
{
	struct hatchet *hatchet = context;

	if (hatchet->layout == LAYOUT_PRETTY || (hatchet->layout == LAYOUT_LINES && !begin))
		out_byte(hatchet->json.out, '\n');
}

static void before_part(void *context)
{
	struct hatchet *hatchet = context;

	if (hatchet->layout == LAYOUT_LINES)
		json_line_break(&hatchet->json);
}

/* On one line even in a formatted file, which users read. */
static void extras(void *context, bool begin)
{
	struct hatchet *hatchet = context;

	hatchet->json.is_pretty = !begin && hatchet->layout == LAYOUT_PRETTY;
}

static const struct tree_format format = {
	.is_children_first = true,
	.encode = json_quote,
	.begin_map = begin_map,
	.end_map = end_map,
	.begin_array = begin_array,
	.end_array = end_array,
	.key = key,
	.encoded_key = quoted_key,
	.encoded = quoted,
	.string = string,
	.int64 = int64,
	.uint64 = uint64,
	.float64 = float64,
	.boolean = boolean,
	.has_failed = has_failed,
	.whole = whole,
	.before_part = before_part,
	.extras = extras,
};

static int export_json(const struct profile *profile, struct out *out, enum layout layout,
		       struct proton_error *err)
{
	struct hatchet hatchet = {.layout = layout};

	json_writer_init(&hatchet.json, out, layout == LAYOUT_PRETTY);
	return tree_write(profile, &format, &hatchet, err);
}

int export_hatchet(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_json(profile, out,
			   profile->node_count > PRETTY_NODES_MAX ? LAYOUT_LINES : LAYOUT_PRETTY,
			   err);
}

int export_hatchet_compact(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_json(profile, out, LAYOUT_COMPACT, err);
}
