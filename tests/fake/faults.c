/* Fault injection: reads requests and counts calls.
 *
 * There are two ways to request a fault: fake_fail() from a C test, and $FAKE_CUPTI_FAIL,
 * "name=code", from a test of programs; the latter fails every call.
 */
#include "fake/faults.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake_cupti.h"

#define ENTRY_MAX 128

static struct {
	_Atomic uint32_t calls;
	_Atomic uint32_t first; /* number of the first call that fails, from 1; 0: none */
	_Atomic uint32_t count;
	_Atomic int code;
} state[ENTRY_MAX];

static bool environment_has(const char *name, int *code)
{
	const char *wanted = getenv("FAKE_CUPTI_FAIL");
	size_t length = strlen(name);

	if (!wanted || strncmp(wanted, name, length) != 0 || wanted[length] != '=')
		return false;
	*code = atoi(wanted + length + 1);
	return true;
}

static size_t index_of(const char *name)
{
	size_t i = 0;

	for (; i < fault_entry_count && i < ENTRY_MAX; i++)
		if (strcmp(fault_entries[i], name) == 0)
			return i;
	for (const char *const *more = fault_more; more && *more && i < ENTRY_MAX; more++, i++)
		if (strcmp(*more, name) == 0)
			return i;
	abort(); /* a test that names an unknown entry point */
}

bool fault_strikes_scripted(size_t index, int *code)
{
	uint32_t call = atomic_fetch_add(&state[index].calls, 1) + 1;
	uint32_t first = atomic_load(&state[index].first);

	if (first && call >= first && call - first < atomic_load(&state[index].count)) {
		*code = atomic_load(&state[index].code);
		return true;
	}
	return false;
}

static bool strikes(size_t index, const char *name, int *code)
{
	return fault_strikes_scripted(index, code) || environment_has(name, code);
}

bool fault_strikes(size_t index, int *code)
{
	return strikes(index, fault_entries[index], code);
}

bool fault_strikes_more(const char *name, int *code)
{
	return strikes(index_of(name), name, code);
}

FAKE_EXPORT void fake_fail(const char *name, uint32_t first, uint32_t count, int code)
{
	size_t i = index_of(name);

	atomic_store(&state[i].calls, 0);
	atomic_store(&state[i].code, code);
	atomic_store(&state[i].count, count);
	atomic_store(&state[i].first, first);
}

FAKE_EXPORT uint32_t fake_calls(const char *name)
{
	return atomic_load(&state[index_of(name)].calls);
}
