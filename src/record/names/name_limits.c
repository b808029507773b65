/* Limits on the number of names in a process. */
#include "record/names/frames.h"

#include <ctype.h>
#include <errno.h>

#include "base/environment.h"
#include "base/message.h"

#define CHILDREN_DEFAULT 131072u
#define CONTEXTS_DEFAULT (16u << 20)
#define NAMES_DEFAULT (256u << 10)
#define BYTES_PER_NAME 128u
/* Ids have 32 bits; the highest values have other meanings. */
#define LIMIT_MAX (1u << 30)
struct limits name_limits = {
	.children = CHILDREN_DEFAULT,
	.contexts = CONTEXTS_DEFAULT,
	.names = NAMES_DEFAULT,
	.name_bytes = (uint64_t)NAMES_DEFAULT * BYTES_PER_NAME,
};
static _Atomic uint64_t counts[LIMITS_COUNTS];

/* 0 means no limit. */
static void read_limit(const char *variable, uint32_t *limit)
{
	const char *text = environment_get(variable);
	char *end;

	if (!text || !*text)
		return;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*end || errno || !isdigit((unsigned char)*text)) {
		message("%s: \"%s\" is not a number; using %u", variable, text, *limit);
		return;
	}
	*limit = value == 0 || value > LIMIT_MAX ? LIMIT_MAX : (uint32_t)value;
}

void name_limits_read(void)
{
	read_limit("PROTON_MAX_CHILDREN", &name_limits.children);
	read_limit("PROTON_MAX_CONTEXTS", &name_limits.contexts);
	read_limit("PROTON_MAX_NAMES", &name_limits.names);
	name_limits.name_bytes = (uint64_t)name_limits.names * BYTES_PER_NAME;
}

void name_limits_count(enum limits_count count)
{
	atomic_fetch_add_explicit(&counts[count], 1, memory_order_relaxed);
}

uint64_t name_limits_counted(enum limits_count count)
{
	return atomic_load_explicit(&counts[count], memory_order_relaxed);
}

void name_limits_lose(void)
{
	name_limits_count(LIMITS_LOST);
	message_once("out of memory; data that does not fit is counted as lost, and the program "
		     "continues");
}
