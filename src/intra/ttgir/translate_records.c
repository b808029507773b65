/*
 * Translation of `proton.record` and event operations, which users add to dumped TTGIR, into
 * markers.
 *
 * An event is an SSA value in the text, but a marker needs its name. So its SSA name is followed
 * from `proton.allocate_event` into the partitions that get it as an argument. The allocation
 * becomes a constant, which keeps other uses of the value valid.
 */
#include "intra/ttgir/ttgir.h"

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
	struct mlir_writer writer;
	struct proton_error *err;
	struct event *events; /* in text order; the last definition of an SSA name counts */
	uint32_t event_count;
	uint32_t operands[OPERANDS_MAX]; /* of the last warp_specialize: events, or NO_EVENT */
	uint32_t operand_count;
	uint32_t line;
};

static int refuse_record(const struct translation *t, const char *what)
{
	return err_set(t->err, PROTON_E_FORMAT, "line %u: %s", t->line, what);
}

/* ------------------------------------------------------------------ names */

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
	slice_skip(rest, name->length + 1);
	return name->length > 0;
}

/* Decodes MLIR's escapes in a name, which is truncated to the maximum length. */
static void unescape(struct slice name, struct marker *out)
{
	for (size_t i = 0; i < name.length && out->name_length < MARKER_NAME_MAX; i++) {
		char c = name.at[i];

		if (c == '\\' && i + 1 < name.length) {
			int byte = slice_hex_byte(name, ++i);

			c = name.at[i];
			if (byte >= 0) {
				c = (char)byte;
				i++;
			} else if (c == 'n') {
				c = '\n';
			} else if (c == 't') {
				c = '\t';
			}
		}
		out->name[out->name_length++] = c ? c : ' ';
	}
}

static void write_marker(struct translation *t, const struct mlir_line *line, bool is_event,
			 bool is_end, struct slice name)
{
	struct marker marker = {.is_event = is_event, .is_end = is_end};

	unescape(name, &marker);
	mlir_write_marker(&t->writer, line->indent, line->location, &marker);
}

/* ------------------------------------------------------------------ events */

static int add_event(struct translation *t, struct slice value, struct slice name)
{
	if (t->event_count == EVENTS_MAX)
		return refuse_record(t, "too many events");
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
	*rest = slice_trim(*rest);
	struct slice name = {rest->at, 0};
	if (!rest->length || rest->at[0] != '%')
		return name;
	while (name.length < rest->length && !strchr(" ,:)#\t\r", rest->at[name.length]))
		name.length++;
	slice_skip(rest, name.length);
	return name;
}

/* Removes the next item of "A, B"; empty after the last. */
static struct slice take_item(struct slice *rest)
{
	struct slice item = slice_before(*rest, ",");

	slice_skip(rest, item.length);
	slice_take(rest, ",");
	return slice_trim(item);
}

/* Finds the event operands of "ttg.warp_specialize(%a, %b)". */
static void read_operands(struct translation *t, struct slice rest)
{
	struct slice item;

	t->operand_count = 0;
	if (!slice_take(&rest, "("))
		return;
	rest = slice_before(rest, ")");
	while (t->operand_count < OPERANDS_MAX && (item = take_item(&rest)).length)
		t->operands[t->operand_count++] = find_event(t, item);
}

/* The arguments of "partition0(%arg1: i32, ...)" are the operands of the warp_specialize above. */
static int read_arguments(struct translation *t, struct slice rest)
{
	struct slice item;

	if (!t->event_count)
		return PROTON_OK;
	rest = slice_before(rest, ")");
	for (uint32_t i = 0; i < t->operand_count && (item = take_item(&rest)).length; i++) {
		if (t->operands[i] == NO_EVENT)
			continue;
		TRY(add_event(t, take_register(&item), t->events[t->operands[i]].name));
	}
	return PROTON_OK;
}

static int allocate(struct translation *t, const struct mlir_line *line)
{
	struct out *out = &t->writer.out;
	struct slice rest = line->rest;
	struct slice name;

	if (!line->result.length || !take_quoted(&rest, &name))
		return refuse_record(
			t, "not of the form: %event = proton.allocate_event \"name\" : i32");
	out_bytes(out, line->indent.at, line->indent.length);
	out_bytes(out, line->result.at, line->result.length);
	out_printf(out, " = arith.constant %u : i32%s", t->event_count,
		   line->location.length ? " " : "");
	mlir_write_line(&t->writer, line->location);
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
		return refuse_record(
			t, "not of the form: proton.record start \"name\", or end \"name\"");
	write_marker(t, line, false, is_end, name);
	return PROTON_OK;
}

static int translate_event(struct translation *t, const struct mlir_line *line)
{
	struct slice rest = line->rest;
	bool is_end;

	if (!take_side(&rest, &is_end))
		return refuse_record(t, "not of the form: proton.event start %event : i32, or end");
	struct slice value = take_register(&rest);
	uint32_t event = find_event(t, value);
	if (event == NO_EVENT)
		return err_set(t->err, PROTON_E_FORMAT,
			       "line %u: %.*s is not defined by an earlier proton.allocate_event",
			       t->line, value.length > 60 ? 60 : (int)value.length, value.at);
	write_marker(t, line, true, is_end, t->events[event].name);
	return PROTON_OK;
}

static int translate_operation(struct translation *t, const struct mlir_line *line)
{
	if (slice_is(line->op, "proton.record"))
		return translate_record(t, line);
	if (slice_is(line->op, "proton.event"))
		return translate_event(t, line);
	if (slice_is(line->op, "proton.allocate_event"))
		return allocate(t, line);
	return err_set(t->err, PROTON_E_FORMAT,
		       "line %u: unknown operation %.*s; expected proton.record, proton.event or "
		       "proton.allocate_event",
		       t->line, line->op.length > 40 ? 40 : (int)line->op.length, line->op.at);
}

static int translate(struct translation *t, struct slice text)
{
	struct slice whole;
	int status = PROTON_OK;

	for (t->line = 1; status == PROTON_OK && slice_take_line(&text, &whole); t->line++) {
		struct slice trimmed = slice_trim(whole);
		struct mlir_line line;

		mlir_line_read(whole, &line);
		if (slice_take(&trimmed, "partition")) {
			if (slice_take_past(&trimmed, "("))
				status = read_arguments(t, trimmed);
		} else if (slice_is(line.op, "ttg.warp_specialize")) {
			read_operands(t, line.rest);
		} else if (slice_find(line.op, "proton.") == line.op.at) {
			status = translate_operation(t, &line);
			continue;
		}
		out_bytes(&t->writer.out, whole.at, (size_t)(text.at - whole.at));
	}
	return status;
}

int ttgir_translate_records(const char *text, size_t length, bool is_amd,
			    struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {text, length};
	struct translation t = {.err = err};

	*result = (struct ttgir_result){0};
	if (!slice_find(whole, "proton."))
		return PROTON_OK;
	TRY(mlir_writer_init(&t.writer, whole, is_amd, err));
	t.events = calloc(EVENTS_MAX, sizeof(*t.events));
	int status = t.events ? translate(&t, whole) : err_nomem(err);
	result->scope_count = t.writer.marker_count;
	if (status == PROTON_OK)
		status = mlir_writer_finish(&t.writer, t.writer.marker_count || t.event_count,
					    &result->text, &result->length, err);
	out_fini(&t.writer.out);
	free(t.events);
	return status;
}

void ttgir_result_fini(struct ttgir_result *result)
{
	free(result->text);
	free(result->names);
	free(result->note);
	*result = (struct ttgir_result){0};
}
