/*
 * Regular expressions in Python's syntax, on top of POSIX extended ones. A pattern may match
 * anywhere in a name. Supported in addition to POSIX: \d \w \s and their opposites (in brackets
 * only the former), (?:...), a leading (?i), lazy quantifiers (which match the same names), \A and
 * \Z. Lookaround and named groups are rejected.
 */
#ifndef VIEWER_QUERY_PATTERN_H
#define VIEWER_QUERY_PATTERN_H

#include <regex.h>
#include <stdbool.h>

#include "base/err.h"

/* E_INVALID with a message. */
int pattern_compile(regex_t *regex, const char *pattern, struct proton_error *err);
/* The same for regexec() that tells where the match is. */
int pattern_compile_spans(regex_t *regex, const char *pattern, struct proton_error *err);
bool pattern_matches(const regex_t *regex, const char *text);
void pattern_fini(regex_t *regex);

#endif
