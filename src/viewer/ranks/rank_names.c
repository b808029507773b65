/* Names that differ from rank to rank: addresses, ranks and process ids in them. */
#include "viewer/ranks/rank_merge.h"

#include <ctype.h>
#include <strings.h>

#include "format/rank.h"

#define ADDRESS_DIGITS_MIN 6u

static size_t hex_digits(const char *text)
{
	return strspn(text, "0123456789abcdefABCDEF");
}

/* The length of what stands for `number` at `at`, a whole run of digits; else 0. */
static size_t length_of_number(const char *at, uint32_t number)
{
	uint64_t value = 0;
	size_t digits = 0;

	for (; digits < 10 && isdigit((unsigned char)at[digits]); digits++)
		value = value * 10 + (uint64_t)(at[digits] - '0');
	return digits < 10 && value == number ? digits : 0;
}

/* True if `end`, in `text`, follows "rank" and at most one separator. */
static bool follows_rank(const char *text, const char *end)
{
	if (end > text && strchr(" _-=:#", end[-1]))
		end--;
	return end - text >= 4 && (end[-1] | 32) == 'k' && strncasecmp(end - 4, "rank", 4) == 0;
}

/* Bytes at `at` that become "*"; 0: none. */
static size_t length_to_hide(const char *text, const char *at, uint32_t rank, uint32_t pid)
{
	char before = at > text ? at[-1] : ' ';

	/* An address may begin with a letter: 0xabc... */
	if (before == 'x' && at - text >= 2 && at[-2] == '0' &&
	    hex_digits(at) >= ADDRESS_DIGITS_MIN)
		return hex_digits(at);
	if (!isdigit((unsigned char)*at) || isdigit((unsigned char)before))
		return 0;
	if (follows_rank(text, at))
		return length_of_number(at, rank);
	size_t length = pid >= 100 && !isalnum((unsigned char)before) ? length_of_number(at, pid)
								      : 0;
	return length && !isalnum((unsigned char)at[length]) ? length : 0;
}

/* The first place with something to hide; NULL: none. */
static const char *first_to_hide(const char *text, uint32_t rank, uint32_t pid)
{
	for (const char *at = text; *at; at++)
		if (isxdigit((unsigned char)*at) && length_to_hide(text, at, rank, pid))
			return at;
	return NULL;
}

/* The name without these parts, malloc'd; NULL: it is unchanged, or out of memory. */
static char *hide_by_rules(const char *text, uint32_t rank, uint32_t pid)
{
	const char *at = first_to_hide(text, rank, pid);
	char *name = at ? malloc(strlen(text) + 1) : NULL;
	char *out = name;

	if (!name)
		return NULL;
	memcpy(name, text, (size_t)(at - text));
	out += at - text;
	while (*at) {
		size_t length = length_to_hide(text, at, rank, pid);

		*out++ = length ? '*' : *at;
		at += length ? length : 1;
	}
	*out = '\0';
	return name;
}

/* The same for what the user's expression matches. */
static char *hide_by_pattern(const char *text, const regex_t *pattern)
{
	regmatch_t match;
	int flags = 0;
	char *name, *out;

	if (regexec(pattern, text, 1, &match, 0) != 0)
		return NULL;
	name = out = malloc(strlen(text) + 1);
	while (name && *text && regexec(pattern, text, 1, &match, flags) == 0) {
		size_t before = (size_t)match.rm_so;
		bool is_empty = match.rm_eo == match.rm_so;

		if (is_empty && !text[before])
			break;
		memcpy(out, text, before);
		out += before;
		*out++ = is_empty ? text[before] : '*';
		text += is_empty ? match.rm_so + 1 : match.rm_eo;
		flags = REG_NOTBOL;
	}
	if (name)
		memcpy(out, text, strlen(text) + 1);
	return name;
}

void rank_names_unify(struct profile *profile, uint32_t rank, const regex_t *pattern)
{
	for (size_t i = 1; i < profile->frame_count; i++) {
		const char *text = profile_text(profile, profile->frames[i].name);
		char *by_rules = hide_by_rules(text, rank, profile->pid);
		char *by_pattern = pattern ? hide_by_pattern(by_rules ? by_rules : text, pattern)
					   : NULL;
		const char *name = by_pattern ? by_pattern : by_rules;

		if (name)
			profile->frames[i].name = profile_add_text(profile, name);
		free(by_pattern);
		free(by_rules);
	}
}

/* ------------------------------------------------------------------ files */

static uint32_t rank_at(const char *at, size_t min_digits)
{
	size_t length = strspn(at, "0123456789");
	char digits[16] = "";
	uint32_t rank = RANK_NONE;

	if (length < min_digits || length >= sizeof(digits))
		return RANK_NONE;
	memcpy(digits, at, length);
	return rank_parse(digits, &rank) ? rank : RANK_NONE;
}

uint32_t rank_of_name(const char *path)
{
	const char *name = basename(path);

	return strncmp(name, "rank", 4) == 0 ? rank_at(name + 4, 6) : RANK_NONE;
}

uint32_t rank_in_name(const char *path)
{
	const char *at = strstr(basename(path), "rank");

	return at ? rank_at(at + 4, 1) : RANK_NONE;
}
