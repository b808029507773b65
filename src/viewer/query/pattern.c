/* Regular expressions in Python's syntax: translated to POSIX and compiled by libc. */
#include "viewer/query/pattern.h"

#include "base/buf.h"

struct class
{
	char letter;
	const char *members; /* inside brackets */
};

static const struct class classes[] = {
	{'d', "0-9"},
	{'w', "[:alnum:]_"},
	{'s', "[:space:]"},
	{0, NULL},
};

static const char *class_members(char letter)
{
	for (const struct class *class = classes; class->letter; class ++) {
		if (class->letter == letter)
			return class->members;
	}
	return NULL;
}

/* An escape outside brackets; `p` points after the backslash. Returns the text after the escape. */
static const char *translate_escape(struct out *out, const char *p)
{
	const char *members = class_members((char)(*p | 0x20));

	if (members) {
		out_text(out, *p & 0x20 ? "[" : "[^");
		out_text(out, members);
		out_byte(out, ']');
	} else if (*p == 'A') {
		out_byte(out, '^');
	} else if (*p == 'Z' || *p == 'z') {
		out_byte(out, '$');
	} else if (*p == 'n') {
		out_byte(out, '\n');
	} else if (*p == 't') {
		out_byte(out, '\t');
	} else {
		out_byte(out, '\\');
		out_byte(out, *p);
	}
	return p + 1;
}

/*
 * Contents of a bracket expression. POSIX has no escapes in it, so special members are kept apart.
 */
struct bracket {
	struct out members; /* the others */
	bool has_bracket;
	bool has_dash;
	bool has_caret;
};

/* The last character of "[:alpha:]" and the like at `p`, which is '['; NULL if there is none. */
static const char *class_end(const char *p)
{
	const char *end = p[1] == ':' || p[1] == '.' || p[1] == '=' ? strchr(p + 2, ']') : NULL;

	return end && end[-1] == p[1] ? end : NULL;
}

static void add_escaped(struct bracket *bracket, char c, struct proton_error *err)
{
	if (class_members(c))
		out_text(&bracket->members, class_members(c));
	else if (class_members((char)(c | 0x20)) && c != ']')
		err_set(err, PROTON_E_INVALID, "\\%c is not supported in brackets", c);
	else if (c == ']')
		bracket->has_bracket = true;
	else if (c == '-')
		bracket->has_dash = true;
	else if (c == '^')
		bracket->has_caret = true;
	else
		out_byte(&bracket->members, c);
}

/* `p` points after '[' or "[^"; returns the closing ']', or the end of the text. */
static const char *read_bracket(struct bracket *bracket, const char *p, struct proton_error *err)
{
	if (*p == ']') {
		bracket->has_bracket = true;
		p++;
	}
	for (; *p && *p != ']'; p++) {
		const char *end = *p == '[' ? class_end(p) : NULL;

		if (end) {
			out_bytes(&bracket->members, p, (size_t)(end + 1 - p));
			p = end;
		} else if (*p == '-' && (bracket->members.length == 0 || p[1] == ']')) {
			bracket->has_dash = true; /* not a range but a literal '-' */
		} else if (*p == '\\' && p[1]) {
			add_escaped(bracket, *++p, err);
		} else {
			out_byte(&bracket->members, *p);
		}
	}
	if (!*p)
		err_set(err, PROTON_E_INVALID, "unmatched [");
	return p;
}

/* Writes members where POSIX takes them literally: ']' first, '-' last. '[' is written already. */
static void write_bracket(struct out *out, const struct bracket *bracket, bool is_negated)
{
	if (bracket->has_bracket)
		out_byte(out, ']');
	/*
	 * A leading caret would negate: "[\^]" becomes an escaped caret, "[\^-]" starts with the
	 * dash.
	 */
	if (bracket->has_caret && !bracket->has_bracket && bracket->members.length == 0 &&
	    !is_negated) {
		if (bracket->has_dash) {
			out_text(out, "-^]");
		} else {
			out->length--;
			out_text(out, "\\^");
		}
		return;
	}
	out_bytes(out, bracket->members.bytes, bracket->members.length);
	if (bracket->has_caret)
		out_byte(out, '^');
	if (bracket->has_dash)
		out_byte(out, '-');
	out_byte(out, ']');
}

/* A bracket expression; `p` points after '['. Returns the text after the expression. */
static const char *translate_bracket(struct out *out, const char *p, struct proton_error *err)
{
	struct bracket bracket = {0};
	bool is_negated = *p == '^';

	out_init(&bracket.members, -1);
	out_byte(out, '[');
	if (is_negated)
		out_byte(out, *p++);
	p = read_bracket(&bracket, p, err);
	write_bracket(out, &bracket, is_negated);
	out_fini(&bracket.members);
	return *p ? p + 1 : p;
}

static int translate(struct out *out, const char *pattern, int *flags, struct proton_error *err)
{
	const char *p = pattern;

	err->status = PROTON_OK;
	if (strncmp(p, "(?i)", 4) == 0) {
		*flags |= REG_ICASE;
		p += 4;
	}
	while (*p && err->status == PROTON_OK) {
		if (*p == '\\' && p[1]) {
			p = translate_escape(out, p + 1);
		} else if (*p == '[') {
			p = translate_bracket(out, p + 1, err);
		} else if (strncmp(p, "(?:", 3) == 0) {
			out_byte(out, '(');
			p += 3;
		} else if (strncmp(p, "(?", 2) == 0) {
			err_set(err, PROTON_E_INVALID,
				"groups that begin with (?%c are not supported", p[2] ? p[2] : ' ');
		} else if (p > pattern && *p == '?' && strchr("*+?}", p[-1]) &&
			   !(p > pattern + 1 && p[-2] == '\\')) {
			p++; /* lazy or greedy: both match the same names */
		} else {
			out_byte(out, *p++);
		}
	}
	out_byte(out, '\0');
	return err->status;
}

int pattern_compile(regex_t *regex, const char *pattern, int flags, struct proton_error *err)
{
	struct proton_error cause = {0};
	AT_END(out_fini) struct out posix;

	out_init(&posix, -1);
	flags |= REG_EXTENDED;
	int status = translate(&posix, pattern, &flags, &cause);
	if (status == PROTON_OK && posix.errnum) {
		status = err_nomem(&cause);
	} else if (status == PROTON_OK) {
		int code = regcomp(regex, posix.bytes, flags);

		if (code) {
			regerror(code, regex, cause.text, sizeof(cause.text));
			status = PROTON_E_INVALID;
		}
	}
	if (status)
		err_set(err, status, "\"%.200s\" is not a regular expression: %.200s", pattern,
			cause.text);
	return status;
}
