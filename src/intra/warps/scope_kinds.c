/* Scope kinds: which scopes are waits or partitions, by their names. */
#include "intra/warps/segments.h"

#include <ctype.h>

#include "base/array.h"
#include "intra/mode.h"
#include "intra/ttgir/find_operations.h"

/* Automatic scopes of operations that wait for work started by their own warp. */
static const char own_waits[] = "async_wait dot_wait store_wait tdm_wait";
/* As a word anywhere in a name: "wait for A", "empty_barrier". */
static const char *const wait_words[] = {"wait", "waits", "waiting", "barrier", "barriers"};

static bool is_wait_word(struct slice word)
{
	for (size_t i = 0; i < ARRAY_LENGTH(wait_words); i++)
		if (strlen(wait_words[i]) == word.length &&
		    strncasecmp(wait_words[i], word.at, word.length) == 0)
			return true;
	return false;
}

static bool has_wait_word(struct slice name)
{
	size_t start = 0;

	for (size_t i = 0; i <= name.length; i++) {
		if (i < name.length && isalpha((unsigned char)name.at[i]))
			continue;
		if (is_wait_word((struct slice){name.at + start, i - start}))
			return true;
		start = i + 1;
	}
	return false;
}

/* "partition3" */
static bool is_numbered_partition(struct slice name)
{
	uint32_t number;

	return slice_take(&name, "partition") && slice_take_number(&name, UINT32_MAX, &number) &&
	       !name.length;
}

/* A name is the operation, optionally followed by '@' and its location. */
static enum warps_kind kind_of(const char *name)
{
	struct slice word = {name, strcspn(name, "@")};

	if (is_numbered_partition(word))
		return WARPS_PARTITION;
	if (slice_is(word, "default"))
		return WARPS_DEFAULT;
	if (slice_is_any(word, own_waits))
		return WARPS_WAIT_OWN;
	if (has_wait_word(word) || (operations_kinds_of_scope(word) & INSTRUMENT_AUTO_WAITS))
		return WARPS_WAIT;
	return WARPS_WORK;
}

void warps_kinds_read(const struct instrument_layout *layout, struct warps_kinds *out)
{
	*out = (struct warps_kinds){0};
	for (uint32_t i = 0; i < layout->scope_count; i++)
		out->of[i] = (uint8_t)kind_of(layout->scopes[i]);
	for (uint32_t i = 1; i <= layout->code_count; i++) {
		struct instrument_code code = layout->codes[i];
		bool is_event = code.kind == INSTRUMENT_EVENT_START ||
				code.kind == INSTRUMENT_EVENT_END;

		if (is_event)
			out->is_async[code.scope] = true;
		else if (warps_is_wait(out->of[code.scope]))
			out->has_waits = true;
		out->is_worth_it = out->is_worth_it || is_event ||
				   out->of[code.scope] != WARPS_WORK;
	}
}
