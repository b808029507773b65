/*
 * Translation of `proton.record` and event operations, which users add to dumped TTGIR, into
 * markers.
 *
 * An event is an SSA value in the text, but a marker needs its name. So its SSA name is followed
 * from `proton.allocate_event` into the partitions that get it as an argument. The allocation
 * becomes a constant, which keeps other uses of the value valid.
 */
#include "intra/ttgir/ttgir.h"

#include <stdlib.h>

#include "intra/marker.h"
#include "intra/ttgir/mlir_text.h"

#define EVENTS_MAX 4096u
#define OPERANDS_MAX 256u
#define NO_EVENT UINT32_MAX

struct event {
	struct slice name;  /* as written, with escapes */
	struct slice value; /* SSA name of the event */
};

struct translation {
	struct out *out;
	struct proton_error *err;
	struct event *events; /* in text order; the last definition of an SSA name counts */
	uint32_t event_count;
	uint32_t operands[OPERANDS_MAX]; /* of the last warp_specialize: events, or NO_EVENT */
	uint32_t operand_count;
	char prefix[MLIR_PREFIX_MAX];
	uint32_t marker_count;
	uint32_t line;
	bool is_amd;
};

static int refuse(const struct translation *t, const char *what)
{
	return err_set(t->err, PROTON_E_FORMAT, "line %u: %s", t->line, what);
}

/* ------------------------------------------------------------------ names */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Removes "NAME" and returns its text with escapes. */
static bool take_quoted(struct slice *rest, struct slice *name)
{
	*rest = slice_trim(*rest);
	if (!slice_take(rest, "\""))
		return false;
	*name = (struct slice){rest->at, 0};
	while (name->length < rest->length && rest->at[name->length] != '"')
		name->length += rest->at[name->length] == '\\' ? 2 : 1;
	if (name->length >= rest->length)
		return false;
	rest->at += name->length + 1;
	rest->length -= name->length + 1;
	return name->length > 0;
}

/* Decodes MLIR's escapes in a name; truncated to the maximum length of a marker name. */
static struct slice unescape(struct slice name, char buffer[MARKER_NAME_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < name.length && used < MARKER_NAME_MAX; i++) {
		char c = name.at[i];

		if (c == '\\' && i + 1 < name.length) {
			int high = hex_digit(name.at[i + 1]);
			int low = i + 2 < name.length ? hex_digit(name.at[i + 2]) : -1;

			c = name.at[++i];
			if (high >= 0 && low >= 0) {
				c = (char)(high * 16 + low);
				i++;
			} else if (c == 'n') {
				c = '\n';
			} else if (c == 't') {
				c = '\t';
			}
		}
		buffer[used++] = c ? c : ' ';
	}
	return (struct slice){buffer, used};
}

static void write_marker(struct translation *t, const struct mlir_line *line, bool is_event,
			 bool is_end, struct slice name)
{
	char buffer[MARKER_NAME_MAX];
	struct mlir_marker marker = {
		.indent = line->indent,
		.location = line->location,
		.prefix = t->prefix,
		.number = t->marker_count++,
		.is_amd = t->is_amd,
		.is_event = is_event,
		.is_end = is_end,
		.name = unescape(name, buffer),
	};

	mlir_marker_write(&marker, t->out);
}

/* ------------------------------------------------------------------ events */

static int add_event(struct translation *t, struct slice value, struct slice name)
{
	if (t->event_count == EVENTS_MAX)
		return refuse(t, "too many events");
	t->events[t->event_count++] = (struct event){.name = name, .value = value};
	return PROTON_OK;
}

static uint32_t find_event(const struct translation *t, struct slice value)
{
	for (uint32_t i = t->event_count; i > 0; i--)
		if (slices_equal(t->events[i - 1].value, value))
			return i - 1;
	return NO_EVENT;
}

/* Removes "%x". */
static struct slice take_register(struct slice *rest)
{
	struct slice name;

	*rest = slice_trim(*rest);
	name = (struct slice){rest->at, 0};
	if (!rest->length || rest->at[0] != '%')
		return name;
	while (name.length < rest->length && !strchr(" ,:)#\t\r", rest->at[name.length]))
		name.length++;
	rest->at += name.length;
	rest->length -= name.length;
	return name;
}

/* Removes the next item of "A, B)"; false after the last. */
static bool take_item(struct slice *rest, struct slice *item)
{
	size_t depth = 0;
	size_t i = 0;

	if (!rest->length)
		return false;
	for (; i < rest->length; i++) {
		char c = rest->at[i];

		if (depth == 0 && (c == ',' || c == ')'))
			break;
		if (c == '(' || c == '[' || c == '<' || c == '{')
			depth++;
		else if ((c == ')' || c == ']' || c == '>' || c == '}') && depth)
			depth--;
	}
	*item = slice_trim((struct slice){rest->at, i});
	if (i < rest->length && rest->at[i] == ',') {
		rest->at += i + 1;
		rest->length -= i + 1;
	} else {
		rest->length = 0;
	}
	return item->length > 0;
}

/* Finds the event operands of "ttg.warp_specialize(%a, %b)". */
static void read_operands(struct translation *t, struct slice rest)
{
	struct slice item;

	t->operand_count = 0;
	if (!slice_take(&rest, "("))
		return;
	while (t->operand_count < OPERANDS_MAX && take_item(&rest, &item))
		t->operands[t->operand_count++] = find_event(t, item);
}

/* The arguments of "partition0(%arg1: i32, ...)" are the operands of the warp_specialize above. */
static int read_arguments(struct translation *t, struct slice rest)
{
	struct slice item;

	if (!t->event_count)
		return PROTON_OK;
	rest = slice_trim(rest);
	for (uint32_t i = 0; i < t->operand_count && take_item(&rest, &item); i++) {
		int status;

		if (t->operands[i] == NO_EVENT)
			continue;
		status = add_event(t, take_register(&item), t->events[t->operands[i]].name);
		if (status != PROTON_OK)
			return status;
	}
	return PROTON_OK;
}

static int allocate(struct translation *t, const struct mlir_line *line)
{
	struct slice rest = line->rest;
	struct slice name;

	if (!line->result.length || !take_quoted(&rest, &name))
		return refuse(t, "not of the form: %event = proton.allocate_event \"name\" : i32");
	out_bytes(t->out, line->indent.at, line->indent.length);
	out_bytes(t->out, line->result.at, line->result.length);
	out_printf(t->out, " = arith.constant %u : i32", t->event_count);
	if (line->location.length) {
		out_byte(t->out, ' ');
		out_bytes(t->out, line->location.at, line->location.length);
	}
	out_byte(t->out, '\n');
	return add_event(t, line->result, name);
}

/* ------------------------------------------------------------------ operations */

/* Removes "start" or "end". */
static bool take_side(struct slice *rest, bool *is_end)
{
	*rest = slice_trim(*rest);
	*is_end = slice_take(rest, "end ");
	return *is_end || slice_take(rest, "start ");
}

static int translate_record(struct translation *t, const struct mlir_line *line)
{
	struct slice rest = line->rest;
	struct slice name;
	bool is_end;

	if (!take_side(&rest, &is_end) || !take_quoted(&rest, &name))
		return refuse(t, "not of the form: proton.record start \"name\", or end \"name\"");
	write_marker(t, line, false, is_end, name);
	return PROTON_OK;
}

static int translate_event(struct translation *t, const struct mlir_line *line)
{
	struct slice rest = line->rest;
	struct slice value;
	uint32_t event;
	bool is_end;

	if (!take_side(&rest, &is_end))
		return refuse(t, "not of the form: proton.event start %event : i32, or end");
	value = take_register(&rest);
	event = find_event(t, value);
	if (event == NO_EVENT)
		return err_set(t->err, PROTON_E_FORMAT,
			       "line %u: %.*s is not defined by an earlier proton.allocate_event",
			       t->line, value.length > 60 ? 60 : (int)value.length, value.at);
	write_marker(t, line, true, is_end, t->events[event].name);
	return PROTON_OK;
}

static int translate_line(struct translation *t, struct slice text, bool *is_done)
{
	struct mlir_line line;
	struct slice trimmed = slice_trim(text);

	*is_done = false;
	if (slice_take(&trimmed, "partition")) {
		const char *open = slice_find(trimmed, "(");

		if (!open)
			return PROTON_OK;
		trimmed.length -= (size_t)(open + 1 - trimmed.at);
		trimmed.at = open + 1;
		return read_arguments(t, trimmed);
	}
	mlir_line_read(text, &line);
	if (slice_is(line.op, "ttg.warp_specialize")) {
		read_operands(t, line.rest);
		return PROTON_OK;
	}
	if (line.op.length < 7 || memcmp(line.op.at, "proton.", 7) != 0)
		return PROTON_OK;
	*is_done = true;
	if (slice_is(line.op, "proton.record"))
		return translate_record(t, &line);
	if (slice_is(line.op, "proton.event"))
		return translate_event(t, &line);
	if (slice_is(line.op, "proton.allocate_event"))
		return allocate(t, &line);
	return err_set(t->err, PROTON_E_FORMAT,
		       "line %u: unknown operation %.*s; expected proton.record, proton.event or "
		       "proton.allocate_event",
		       t->line, line.op.length > 40 ? 40 : (int)line.op.length, line.op.at);
}

static int translate(struct translation *t, struct slice text)
{
	struct slice line;

	while (mlir_take_line(&text, &line)) {
		bool is_done;
		int status;

		t->line++;
		status = translate_line(t, line, &is_done);
		if (status != PROTON_OK)
			return status;
		if (is_done)
			continue;
		out_bytes(t->out, line.at, line.length);
		if (line.at + line.length < text.at)
			out_byte(t->out, '\n');
	}
	return PROTON_OK;
}

int ttgir_translate_records(const char *text, size_t length, bool is_amd,
			    struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {text, length};
	struct out out;
	struct translation t = {
		.out = &out,
		.err = err,
		.is_amd = is_amd || mlir_is_amd(whole),
	};
	int status;

	*result = (struct ttgir_result){0};
	if (!slice_find(whole, "proton."))
		return PROTON_OK;
	if (!mlir_unused_prefix(whole, t.prefix))
		return err_set(err, PROTON_E_FORMAT,
			       "all SSA names of the form %%proton_... are in use");
	t.events = calloc(EVENTS_MAX, sizeof(*t.events));
	if (!t.events)
		return err_nomem(err);
	out_init(&out, -1);
	status = translate(&t, whole);
	if (status == PROTON_OK)
		status = out_finish(&out, err);
	if (status == PROTON_OK && (t.marker_count || t.event_count)) {
		result->text = out_take(&out, &result->length);
		result->scope_count = t.marker_count;
		if (!result->text)
			status = err_nomem(err);
	}
	out_fini(&out);
	free(t.events);
	return status;
}

void ttgir_result_fini(struct ttgir_result *result)
{
	free(result->text);
	free(result->note);
	*result = (struct ttgir_result){0};
}
