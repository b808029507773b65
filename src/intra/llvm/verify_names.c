/*
 * Verification of generated SSA names: each is defined once, and none is used without a definition.
 */
#include "intra/llvm/verify_names.h"

#include <stdbool.h>
#include <string.h>

#include "intra/llvm/ir_names.h"

#define PREFIX "proton."
#define PREFIX_LENGTH (sizeof(PREFIX) - 1)

/* The text of a function, and the names it defines. */
struct body {
	const char *at;
	const char *end;
	struct ir_names names;
};

static bool is_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-' || c == '$';
}

static struct slice name_at(const char *at, const char *end)
{
	struct slice name = {.at = at};

	while (at + name.length < end && is_of_name(at[name.length]))
		name.length++;
	return name;
}

static const char *end_of_line(const char *at, const char *end)
{
	const char *line_end = memchr(at, '\n', (size_t)(end - at));

	return line_end ? line_end : end;
}

/* The next "%proton.NAME" in [*at, end), without the "%"; *at advances past it. */
static bool next_use(const char **at, const char *end, struct slice *name)
{
	const char *found = memmem(*at, (size_t)(end - *at), "%" PREFIX, PREFIX_LENGTH + 1);

	if (!found)
		return false;
	*name = name_at(found + 1, end);
	*at = name->at + name->length;
	return true;
}

/* The name that a line defines: "  %proton.NAME = ..." or "proton.NAME:"; false if none. */
static bool definition(const char *line, const char *line_end, struct slice *name)
{
	size_t length = (size_t)(line_end - line);

	if (length > 3 + PREFIX_LENGTH && memcmp(line, "  %" PREFIX, 3 + PREFIX_LENGTH) == 0) {
		*name = name_at(line + 3, line_end);
		return name->at + name->length + 2 < line_end &&
		       memcmp(name->at + name->length, " =", 2) == 0;
	}
	if (length > PREFIX_LENGTH && memcmp(line, PREFIX, PREFIX_LENGTH) == 0) {
		*name = name_at(line, line_end);
		return name->at + name->length < line_end && name->at[name->length] == ':';
	}
	return false;
}

static int mistake(const char *what, struct slice name, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "internal error: the generated LLVM IR %s %.*s",
		       what, (int)name.length, name.at);
}

/* The first line is the signature with the parameters. */
static int find_definitions(struct body *body, struct proton_error *err)
{
	const char *line_end = end_of_line(body->at, body->end);
	const char *at = body->at;
	struct slice name;

	while (next_use(&at, line_end, &name))
		if (!ir_names_add(&body->names, name, 0))
			return mistake("defines twice", name, err);
	while (line_end < body->end) {
		const char *line = line_end + 1;

		line_end = end_of_line(line, body->end);
		if (definition(line, line_end, &name) && !ir_names_add(&body->names, name, 0))
			return mistake("defines twice", name, err);
	}
	return PROTON_OK;
}

static int find_uses(const struct body *body, struct proton_error *err)
{
	const char *at = body->at;
	struct slice name;

	while (next_use(&at, body->end, &name))
		if (ir_names_find(&body->names, name) == IR_NAME_NONE)
			return mistake("does not define", name, err);
	return PROTON_OK;
}

static uint32_t count_definitions(const struct body *body)
{
	const char *at = body->at;
	struct slice name;
	uint32_t count = 0;

	for (; next_use(&at, body->end, &name); count++)
		;
	for (at = body->at;
	     (at = memmem(at, (size_t)(body->end - at), "\n" PREFIX, PREFIX_LENGTH + 1)); at++)
		count++;
	return count;
}

static int check_body(struct body *body, struct proton_error *err)
{
	int status;

	if (!ir_names_init(&body->names, count_definitions(body)))
		return err_nomem(err);
	status = find_definitions(body, err);
	if (status == PROTON_OK)
		status = find_uses(body, err);
	ir_names_fini(&body->names);
	return status;
}

int verify_names(const char *text, size_t length, struct proton_error *err)
{
	const char *end = text + length;
	int status = PROTON_OK;

	for (const char *line = text; line < end && status == PROTON_OK;
	     line = end_of_line(line, end) + 1) {
		struct body body = {.at = line};
		const char *close;

		if ((size_t)(end - line) < 7 || memcmp(line, "define ", 7) != 0)
			continue;
		close = memmem(line, (size_t)(end - line), "\n}", 2);
		body.end = close ? close : end;
		status = check_body(&body, err);
		line = body.end < end ? body.end : end - 1;
	}
	return status;
}
