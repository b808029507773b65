/*
 * Verification of generated SSA names: each is defined once, and none is used without a definition.
 */
#include "intra/llvm/verify_names.h"

#include <stdbool.h>

#include "intra/llvm/ir_names.h"

#define PREFIX "proton."

/* The text of a function, and the names it defines. */
struct body {
	struct slice text;
	struct ir_names names;
};

/* Removes the text up to and with the next "%proton.NAME" and returns NAME. */
static bool next_use(struct slice *rest, struct slice *name)
{
	bool is_found = slice_take_past(rest, "%" PREFIX);

	*name = slice_take_name(rest);
	return is_found;
}

/* The NAME that a line defines: "  %proton.NAME = ..." or "proton.NAME:"; false if none. */
static bool definition(struct slice line, struct slice *name)
{
	bool is_label = !slice_take(&line, "  %");

	if (!slice_take(&line, PREFIX))
		return false;
	*name = slice_take_name(&line);
	return slice_take(&line, is_label ? ":" : " =");
}

static int mistake(const char *what, struct slice name, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "internal error: the generated LLVM IR %s " PREFIX "%.*s", what,
		       (int)name.length, name.at);
}

/* The first line is the signature with the parameters. */
static int find_definitions(struct body *body, struct proton_error *err)
{
	struct slice rest = body->text;
	struct slice line = slice_take_until(&rest, '\n');
	struct slice name;

	while (next_use(&line, &name))
		if (!ir_names_add(&body->names, name, 0))
			return mistake("defines twice", name, err);
	while (slice_take_line(&rest, &line))
		if (definition(line, &name) && !ir_names_add(&body->names, name, 0))
			return mistake("defines twice", name, err);
	return PROTON_OK;
}

static int find_uses(const struct body *body, struct proton_error *err)
{
	struct slice rest = body->text;
	struct slice name;

	while (next_use(&rest, &name))
		if (ir_names_find(&body->names, name) == IR_NAME_NONE)
			return mistake("does not define", name, err);
	return PROTON_OK;
}

static int check_body(struct body *body, struct proton_error *err)
{
	struct slice rest = body->text;
	uint32_t count = 0;
	int status;

	while (slice_take_past(&rest, PREFIX))
		count++;
	if (!ir_names_init(&body->names, count))
		return err_nomem(err);
	status = find_definitions(body, err);
	if (status == PROTON_OK)
		status = find_uses(body, err);
	ir_names_fini(&body->names);
	return status;
}

int verify_names(const char *text, size_t length, struct proton_error *err)
{
	struct slice rest = {text, length};
	struct slice line;
	int status = PROTON_OK;

	while (status == PROTON_OK && slice_take_line(&rest, &line)) {
		struct slice from = slice_between(line.at, slice_end(rest));
		struct body body = {.text = from};
		const char *close;

		if (!slice_take(&line, "define "))
			continue;
		close = slice_find(from, "\n}");
		body.text.length = close ? (size_t)(close - from.at) : from.length;
		rest = slice_between(slice_end(body.text), slice_end(rest));
		status = check_body(&body, err);
	}
	return status;
}
