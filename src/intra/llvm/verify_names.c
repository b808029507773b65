/*
 * Verification of the pass's output: in each function, each name of the form %proton.NAME is
 * defined exactly once, and every used one is defined. Triton passes the text to LLVM, which aborts
 * the process on such an error.
 */
#include "intra/llvm/emit.h"

#define PREFIX "proton."

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

/* Checks a function. The first line is the signature with the parameters. */
static int check_names(struct slice body, struct ir_names *names, struct proton_error *err)
{
	const char *mistake = NULL;
	struct slice rest = body;
	struct slice line = slice_take_until(&rest, '\n');
	struct slice name;

	while (!mistake && next_use(&line, &name))
		mistake = ir_names_add(names, name, 0) ? NULL : "defines twice";
	while (!mistake && slice_take_line(&rest, &line))
		if (definition(line, &name) && !ir_names_add(names, name, 0))
			mistake = "defines twice";
	while (!mistake && next_use(&body, &name))
		mistake = ir_names_find(names, name) == IR_NAME_NONE ? "does not define" : NULL;
	return mistake ? err_set(err, PROTON_E_UNSUPPORTED,
				 "internal error: the generated LLVM IR %s " PREFIX "%.*s", mistake,
				 (int)name.length, name.at)
		       : PROTON_OK;
}

int verify_names(const char *text, size_t length, struct proton_error *err)
{
	struct slice rest = {text, length};
	struct slice line;
	int status = PROTON_OK;

	while (status == PROTON_OK && slice_take_line(&rest, &line)) {
		struct slice body = slice_between(line.at, slice_end(rest));
		struct slice left = body;
		struct ir_names names;
		uint32_t count = 0;

		if (!ir_is_define(line))
			continue;
		const char *close = slice_find(body, "\n}");
		body.length = close ? (size_t)(close - body.at) : body.length;
		rest = slice_between(slice_end(body), slice_end(rest));
		for (left.length = body.length; slice_take_past(&left, PREFIX);)
			count++;
		if (!ir_names_init(&names, count))
			return err_nomem(err);
		status = check_names(body, &names, err);
		ir_names_fini(&names);
	}
	return status;
}
