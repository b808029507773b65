/* Names that differ from rank to rank: addresses, ranks and process ids in them. */
#include "viewer/ranks/rank_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ADDRESS_DIGITS_MIN 6u

static size_t hex_digits(const char *text)
{
	return strspn(text, "0123456789abcdefABCDEF");
}

/* The length of what stands for `number` at `at`, a whole run of digits; else 0. */
static size_t length_of_number(const char *at, uint32_t number)
{
	size_t digits = strspn(at, "0123456789");
	unsigned long value = digits && digits < 10 ? strtoul(at, NULL, 10) : UINT32_MAX;

	return value == number ? digits : 0;
}

/* True if `end`, in `text`, follows "rank" and at most one separator. */
static bool follows_rank(const char *text, const char *end)
{
	if (end > text && strchr(" _-=:#", end[-1]))
		end--;
	return end - text >= 4 && strncasecmp(end - 4, "rank", 4) == 0;
}

/* Bytes at `at` that become "*"; 0: none. */
static size_t length_to_hide(const char *text, const char *at, uint32_t rank, uint32_t pid)
{
	char before = at > text ? at[-1] : ' ';
	size_t length;

	if (!isdigit((unsigned char)*at))
		return 0;
	if (at - text >= 2 && before == 'x' && at[-2] == '0' &&
	    hex_digits(at) >= ADDRESS_DIGITS_MIN)
		return hex_digits(at);
	if (isdigit((unsigned char)before))
		return 0;
	if (follows_rank(text, at))
		return length_of_number(at, rank);
	length = pid >= 100 && !isalnum((unsigned char)before) ? length_of_number(at, pid) : 0;
	return length && !isalnum((unsigned char)at[length]) ? length : 0;
}

/* The first letter of an address may be a letter: "0xabc...". */
static size_t length_of_address(const char *text, const char *at)
{
	bool is_start = at - text >= 2 && at[-1] == 'x' && at[-2] == '0';

	return is_start && hex_digits(at) >= ADDRESS_DIGITS_MIN ? hex_digits(at) : 0;
}

/* Writes the name to `out`, of the same size; false: it is unchanged. */
static bool unify(const char *text, uint32_t rank, uint32_t pid, char *out)
{
	bool is_changed = false;
	const char *at = text;

	while (*at) {
		size_t length = length_of_address(text, at);

		if (!length)
			length = length_to_hide(text, at, rank, pid);
		if (length) {
			*out++ = '*';
			at += length;
			is_changed = true;
		} else {
			*out++ = *at++;
		}
	}
	*out = '\0';
	return is_changed;
}

void rank_names_unify(struct profile *profile, uint32_t rank)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", profile->pid);
	for (size_t i = 1; i < profile->frame_count; i++) {
		const char *text = profile_text(profile, profile->frames[i].name);
		bool may_differ = strstr(text, "0x") || strcasestr(text, "rank") ||
				  strstr(text, pid);
		char *name = may_differ ? malloc(strlen(text) + 1) : NULL;

		if (name && unify(text, rank, profile->pid, name))
			profile->frames[i].name = profile_string(profile, name, strlen(name));
		free(name);
	}
}
