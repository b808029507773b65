/*
 * Regular expressions in Python's syntax, on top of POSIX extended ones. A pattern may match
 * anywhere in a name. Supported in addition to POSIX: \d \w \s and their opposites (in brackets
 * only the former), (?:...), a leading (?i), lazy quantifiers (which match the same names), \A and
 * \Z. Lookaround and named groups are rejected.
 */
#pragma once

#include <regex.h>

#include "base/err.h"

/*
 * For regexec(); release with regfree(). `flags`: REG_NOSUB, or 0 to know where the match is.
 * E_INVALID with a message.
 */
int pattern_compile(regex_t *regex, const char *pattern, int flags, struct proton_error *err);
