/* Record overhead per chip: from the environment, else by calibration. */
#include "backend/intra/record_overhead.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/intra/calibrate.h"
#include "base/environment.h"
#include "base/message.h"
#include "format/number.h"

/* Maximum cycles per record; no clock is slower. */
#define CYCLES_MAX 1e6

#define CHIP_MAX 16u

/* Per chip: devices of one kind have the same overhead. */
struct measured {
	int chip; /* 10 x major + minor; 0: AMD or unknown */
	bool is_known;
	struct decode_overhead overhead;
	struct proton_error failure;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static struct measured measured[CHIP_MAX];
static uint32_t measured_count;

static struct {
	struct decode_overhead overhead;
	bool is_given; /* set by the user */
	bool is_wanted;
} own;

/* Parses a number of cycles in JSON syntax, followed by `end`; false if there is none. */
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

/* Parses "EMPTY,SCOPE", in cycles. */
static bool read_overhead(const char *text, struct decode_overhead *out)
{
	return read_cycles(&text, ',', &out->empty) && read_cycles(&text, 0, &out->scope);
}

/* The device may only have been busy. */
static void forget_failures(void)
{
	uint32_t kept = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < measured_count; i++)
		if (measured[i].is_known)
			measured[kept++] = measured[i];
	measured_count = kept;
	pthread_mutex_unlock(&lock);
}

int record_overhead_start(const struct instrument_mode *mode, struct proton_error *err)
{
	const char *text = environment_get("PROTON_INSTRUMENT_COST");

	forget_failures();
	own.overhead = (struct decode_overhead){0};
	own.is_wanted = mode->time_shift;
	if (own.is_wanted && text && !read_overhead(text, &own.overhead))
		return err_set(
			err, PROTON_E_INVALID,
			"PROTON_INSTRUMENT_COST must be two comma-separated cycle counts, not "
			"\"%s\"",
			text);
	own.is_given = text != NULL;
	return PROTON_OK;
}

/* The lock is held. A failed calibration is not repeated in the same run. */
static const struct measured *measured_on(int chip)
{
	static struct measured none;
	struct measured *it;

	for (uint32_t i = 0; i < measured_count; i++)
		if (measured[i].chip == chip)
			return &measured[i];
	it = measured_count < CHIP_MAX ? &measured[measured_count++] : &none;
	*it = (struct measured){.chip = chip};
	it->is_known = calibrate(CALIBRATE_LIMIT_NS, &it->overhead, &it->failure) == PROTON_OK;
	return it;
}

struct decode_overhead record_overhead_on(const struct device *device)
{
	struct decode_overhead overhead;
	const struct measured *it;

	if (!own.is_wanted || own.is_given)
		return own.overhead;
	pthread_mutex_lock(&lock);
	it = measured_on(device ? (int)strtol(device->arch, NULL, 10) : 0);
	overhead = it->overhead;
	if (!it->is_known)
		message("time_shift has no effect: the record overhead on this GPU is unknown "
			"(%s); set PROTON_INSTRUMENT_COST (bench/intra.py measures it)",
			it->failure.text);
	pthread_mutex_unlock(&lock);
	return overhead;
}

void record_overhead_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	calibrate_forget();
}
