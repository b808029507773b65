/* Patterns: translated, then compiled by libc. See pattern.h. */
#include "viewer/pattern.h"

#include <string.h>

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

/* An escape outside brackets; `p` points behind the backslash. Returns what follows it. */
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
 * A bracket expression; `p` points behind '['. POSIX knows no backslash there: members that
 * would need one go to where they stand for themselves, ']' first and '-' last.
 */
static const char *translate_bracket(struct out *out, const char *p, struct proton_error *err)
{
	struct out members;
	bool has_bracket = false;
	bool has_dash = false;
	bool has_caret = false;
	const char *start = p;

	out_init(&members, -1);
	out_byte(out, '[');
	if (*p == '^')
		out_byte(out, *p++);
	if (*p == ']') {
		has_bracket = true;
		p++;
	}
	for (; *p && *p != ']'; p++) {
		if (*p == '[' && (p[1] == ':' || p[1] == '.' || p[1] == '=')) {
			const char *end = strchr(p + 2, ']');

			if (end && end[-1] == p[1]) {
				out_bytes(&members, p, (size_t)(end + 1 - p));
				p = end;
				continue;
			}
		}
		if (*p == '-' && (members.length == 0 || p[1] == ']')) {
			has_dash = true; /* no range: it stands for itself */
			continue;
		}
		if (*p != '\\' || !p[1]) {
			out_byte(&members, *p);
			continue;
		}
		p++;
		if (class_members(*p))
			out_text(&members, class_members(*p));
		else if (class_members((char)(*p | 0x20)) && *p != ']')
			err_set(err, PROTON_E_INVALID, "\\%c is not supported in brackets", *p);
		else if (*p == ']')
			has_bracket = true;
		else if (*p == '-')
			has_dash = true;
		else if (*p == '^')
			has_caret = true;
		else
			out_byte(&members, *p);
	}
	if (!*p)
		err_set(err, PROTON_E_INVALID, "a [ has no ]");
	if (has_bracket)
		out_byte(out, ']');
	/*
	 * A caret that came first would negate: "[\^]" is an escaped caret, "[\^-]" a dash first.
	 */
	if (has_caret && !has_bracket && members.length == 0 && *start != '^') {
		if (has_dash) {
			out_text(out, "-^]");
		} else {
			out->length--;
			out_text(out, "\\^");
		}
		out_fini(&members);
		return *p ? p + 1 : p;
	}
	out_bytes(out, members.bytes, members.length);
	if (has_caret)
		out_byte(out, '^');
	if (has_dash)
		out_byte(out, '-');
	out_byte(out, ']');
	out_fini(&members);
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
			p++; /* lazy or greedy: the same names match */
		} else {
			out_byte(out, *p++);
		}
	}
	out_byte(out, '\0');
	return err->status;
}

int pattern_compile(regex_t *regex, const char *pattern, struct proton_error *err)
{
	struct proton_error cause = {0};
	struct out posix;
	int flags = REG_EXTENDED | REG_NOSUB;
	int status;

	out_init(&posix, -1);
	status = translate(&posix, pattern, &flags, &cause);
	if (status == PROTON_OK && posix.errnum) {
		status = err_set(&cause, PROTON_E_NOMEM, "out of memory");
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
	out_fini(&posix);
	return status;
}

bool pattern_matches(const regex_t *regex, const char *text)
{
	return regexec(regex, text, 0, NULL, 0) == 0;
}

void pattern_fini(regex_t *regex)
{
	regfree(regex);
}
