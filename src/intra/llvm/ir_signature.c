/* Parser for function signatures in "define" and "call" lines of LLVM IR. */
#include <string.h>

#include "base/array.h"
#include "intra/llvm/ir_function.h"

/* Words before the return type. */
static const char kept[] = "define internal private dso_local tail notail call fastcc ccc coldcc";
/* Attributes of the return value, and fast-math flags of a call. */
static const char dropped[] = "noundef zeroext signext noext inreg nonnull noalias nnan ninf nsz "
			      "arcp afn contract reassoc fast";
/* Attributes with parentheses. */
static const char dropped_calls[] = "range nofpclass dereferenceable dereferenceable_or_null";

/* The position after the parentheses or the quoted text at `at`; NULL. */
static const char *after_parentheses(const char *at, const char *end)
{
	struct slice rest = slice_between(at + 1, end);

	if (*at == '"')
		return slice_take_past(&rest, "\"") ? rest.at : NULL;
	slice_skip(&rest, slice_before(rest, ")").length);
	return slice_take(&rest, ")") ? rest.at : NULL;
}

/*
 * The word at `at` if it may precede a return type; else empty. *is_kept: keep it in the new line.
 */
static struct slice next_word(const char *at, const char *end, bool *is_kept)
{
	static const struct slice none = {NULL, 0};
	struct slice rest = slice_between(at, end);
	struct slice word = slice_take_name(&rest);
	const char *after = rest.at;

	*is_kept = slice_is_any(word, kept);
	if (after == end)
		return none;
	if (*after == ' ')
		return *is_kept || slice_is_any(word, dropped) ? word : none;
	if (*after != '(' || !slice_is_any(word, dropped_calls))
		return none;
	after = after_parentheses(after, end);
	if (!after || after == end || *after != ' ')
		return none;
	return (struct slice){at, (size_t)(after - at)};
}

/*
 * The position of the return type. Words before it that are kept are written to `out`, if not NULL.
 */
static const char *skip_words(struct slice before, struct out *out)
{
	const char *end = before.at + before.length;
	const char *at = before.at;
	bool is_kept;
	struct slice word;

	while ((word = next_word(at, end, &is_kept)).length) {
		if (is_kept && out) {
			out_bytes(out, word.at, word.length);
			out_byte(out, ' ');
		}
		at = word.at + word.length + 1;
	}
	return at;
}

static bool has_number_between(struct slice type, const char *prefix, const char *suffix)
{
	uint32_t unused;

	return slice_take(&type, prefix) && slice_take_number(&type, UINT32_MAX, &unused) &&
	       slice_is(type, suffix);
}

static bool is_aggregate(struct slice type)
{
	int depth = 0;

	for (size_t i = 0; i < type.length; i++) {
		char c = type.at[i];

		if (c == '"' || c == '@' || c == '%')
			return false;
		depth += (c == '{' || c == '[' || c == '<') - (c == '}' || c == ']' || c == '>');
		if (depth == 0)
			return i && i + 1 == type.length;
	}
	return false;
}

static bool is_type(struct slice type)
{
	return slice_is_any(type, "void half bfloat float double ptr") ||
	       has_number_between(type, "i", "") ||
	       has_number_between(type, "ptr addrspace(", ")") || is_aggregate(type);
}

/* A call may be followed by attributes, which are dropped, and metadata, not by operand bundles. */
static bool is_after_call(const char *at, const char *end)
{
	while (at && end - at > 1 && at[0] == ' ' && at[1] != '[')
		for (at++; at && at < end && *at != ' ' && *at != ',';)
			at = *at == '"' || *at == '(' ? after_parentheses(at, end) : at + 1;
	return at && (at == end || (end - at > 2 && memcmp(at, ", !", 3) == 0));
}

bool ir_signature_read(struct slice line, const char *at, struct ir_signature *out)
{
	const char *end = line.at + line.length;
	struct slice name = ir_name_at(at + 1, end);
	const char *after = name.at + name.length;
	const char *close;
	const char *type;
	bool is_call = line.length && *line.at == ' ';

	*out = (struct ir_signature){.name = {at, name.length + 1}};
	if (!name.length || after == end || *after != '(')
		return false;
	close = after_parentheses(after, end);
	if (!close)
		return false;
	out->arguments = slice_between(after + 1, close - 1);
	out->after = slice_between(close, end);
	line = slice_trim(line);
	if (*line.at == '%') {
		const char *equals = slice_find(line, " = ");

		if (!equals || equals > at)
			return false;
		out->result = slice_between(line.at, equals);
		line.at = equals + 3;
	}
	out->before = slice_between(line.at, at);
	type = skip_words(out->before, NULL);
	if (type >= at || at[-1] != ' ')
		return false;
	out->type = slice_between(type, at - 1);
	out->before.length = (size_t)(type - line.at);
	return is_type(out->type) && !slice_find(out->arguments, "...") &&
	       (is_call ? slice_find(out->before, "call ") && is_after_call(close, end)
			: slice_find(out->before, "define ") && slice_find(out->after, "{"));
}

void ir_signature_before(const struct ir_signature *signature, struct out *out)
{
	skip_words(signature->before, out);
}

void ir_signature_arguments(const struct ir_signature *signature, struct out *out)
{
	static const char *const gone[] = {"returned "}; /* it is no longer the return value */

	ir_write_without(signature->arguments, gone, ARRAY_LENGTH(gone), out);
}
