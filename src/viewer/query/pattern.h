/*
 * Regular expressions as users of Python write them, on top of POSIX extended ones: a pattern is
 * searched anywhere in a name. Understood besides POSIX: \d \w \s and their opposites (also in
 * brackets, opposites only outside), (?:...), a leading (?i), lazy quantifiers (which match the
 * same names), \A and \Z. Look-ahead, look-behind and named groups are refused.
 */
#ifndef VIEWER_QUERY_PATTERN_H
#define VIEWER_QUERY_PATTERN_H

#include <regex.h>
#include <stdbool.h>

#include "base/err.h"

/* E_INVALID with a sentence. */
int pattern_compile(regex_t *regex, const char *pattern, struct proton_error *err);
bool pattern_matches(const regex_t *regex, const char *text);
void pattern_fini(regex_t *regex);

#endif
