/* What a record costs. See cost.h. */
#include "backend/instrument/cost.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/instrument/driver.h"
#include "base/array.h"
#include "base/note.h"
#include "format/number.h"

/* Of one record; no clock is that slow to read. */
#define CYCLES_MAX 1e6

static struct {
	struct decode_cost cost;
	bool is_given; /* by the user */
	bool is_wanted;
} own;

/* A number of cycles as JSON writes it, in front of `end`; false if there is none. */
static bool read_cycles(const char **text, char end, int32_t *out)
{
	const char *at = *text;
	double cycles;

	while (*at >= '0' && *at <= '9')
		at++;
	if (at == *text)
		return false;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9';)
			at++;
	if (*at != end)
		return false;
	cycles = number_to_double(*text);
	if (cycles > CYCLES_MAX)
		return false;
	*out = (int32_t)lround(cycles * DECODE_CYCLE);
	*text = end ? at + 1 : at;
	return true;
}

/* "EMPTY,SCOPE", in cycles. */
static bool read_cost(const char *text, struct decode_cost *out)
{
	return read_cycles(&text, ',', &out->empty) && read_cycles(&text, 0, &out->scope);
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
	{90, {.empty = 13 * DECODE_CYCLE, .scope = 14 * DECODE_CYCLE}}, /* H200: 13.45 and 14.0 */
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
