/* What a record costs. See cost.h. */
#include "backend/instrument/cost.h"

#include <stdlib.h>

#include "backend/instrument/driver.h"
#include "base/array.h"
#include "base/note.h"

static struct {
	struct decode_cost cost;
	bool is_given; /* by the user */
	bool is_wanted;
} own;

/* "EMPTY,SCOPE", in cycles. */
static bool read_cost(const char *text, struct decode_cost *out)
{
	char *end;
	unsigned long empty = strtoul(text, &end, 10);
	const char *second = end + 1;
	unsigned long scope;

	if (end == text || *end != ',')
		return false;
	scope = strtoul(second, &end, 10);
	if (end == second || *end || empty > UINT32_MAX || scope > UINT32_MAX)
		return false;
	*out = (struct decode_cost){.empty_cycles = (uint32_t)empty,
				    .scope_cycles = (uint32_t)scope};
	return true;
}

int cost_start(const struct instrument_mode *mode, struct proton_error *err)
{
	const char *text = getenv("PROTON_INSTRUMENT_COST");

	own.cost = (struct decode_cost){0};
	own.is_wanted = mode->time_shift;
	if (own.is_wanted && text && !read_cost(text, &own.cost))
		return err_set(err, PROTON_E_INVALID,
			       "PROTON_INSTRUMENT_COST is two numbers of cycles with a comma "
			       "between them, not \"%s\"",
			       text);
	own.is_given = text != NULL;
	return PROTON_OK;
}

/* What a record costs, by 10 x major + minor of the chip: measured with bench/intra.py. */
static const struct {
	uint64_t chip;
	struct decode_cost cost;
} known_costs[] = {
	{90, {.empty_cycles = 13, .scope_cycles = 14}}, /* H200: 13.45 and 14.0 */
};

struct decode_cost cost_here(void)
{
	struct decode_cost none = {0};
	int major = 0;
	int minor = 0;
	int device = 0;

	if (!own.is_wanted || own.is_given)
		return own.cost;
	if (driver.cuCtxGetDevice(&device) == 0 &&
	    driver.cuDeviceGetAttribute(&major, DRIVER_ATTRIBUTE_CC_MAJOR, device) == 0 &&
	    driver.cuDeviceGetAttribute(&minor, DRIVER_ATTRIBUTE_CC_MINOR, device) == 0)
		for (size_t i = 0; i < ARRAY_LENGTH(known_costs); i++)
			if (known_costs[i].chip == (uint64_t)major * 10 + (uint64_t)minor)
				return known_costs[i].cost;
	note("time_shift takes nothing off: what a record costs on sm_%d is not known; "
	     "PROTON_INSTRUMENT_COST says it, bench/intra.py measures it",
	     major * 10 + minor);
	return none;
}
