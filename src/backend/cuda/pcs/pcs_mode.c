/* Parser for the mode "pcsampling". */
#include "backend/cuda/pcs/pcs_mode.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME "pcsampling"
#define WINDOW_MIN_NS 1000000ull
#define DISTANCE_MAX_NS 3600000000000ull

struct word {
	const char *at;
	size_t length;
};

bool pcs_mode_is(const char *mode)
{
	size_t length = strcspn(mode, ":");

	return length == strlen(NAME) && strncasecmp(mode, NAME, length) == 0;
}

static bool begins_with(struct word word, const char *text)
{
	return word.length >= strlen(text) && memcmp(word.at, text, strlen(text)) == 0;
}

/* A decimal number at the start of a word, which is shortened; false: none, or too large. */
static bool take_number(struct word *word, uint64_t *out)
{
	uint64_t number = 0;
	size_t i = 0;

	for (; i < word->length && word->at[i] >= '0' && word->at[i] <= '9'; i++)
		if (__builtin_mul_overflow(number, 10u, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(word->at[i] - '0'), &number))
			return false;
	word->at += i;
	word->length -= i;
	*out = number;
	return i;
}

/* A time with a unit. */
static bool take_time(struct word *word, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

	if (!take_number(word, out))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!begins_with(*word, units[i].name))
			continue;
		word->at += strlen(units[i].name);
		word->length -= strlen(units[i].name);
		return !__builtin_mul_overflow(*out, units[i].ns, out);
	}
	return false;
}

/* The power of two nearest to `cycles`, as its exponent. */
static uint32_t period_of(uint64_t cycles)
{
	uint32_t log2 = 63u - (uint32_t)__builtin_clzll(cycles);

	if (log2 < 63 && cycles - (1ull << log2) > (1ull << log2) / 2)
		log2++;
	return log2 < PCS_PERIOD_MIN   ? PCS_PERIOD_MIN
	       : log2 > PCS_PERIOD_MAX ? PCS_PERIOD_MAX
				       : log2;
}

static int read_interval(struct word value, struct pcs_mode *out, struct proton_error *err)
{
	struct word rest = value;
	uint64_t cycles;

	if (!take_number(&rest, &cycles) || rest.length || !cycles)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: " NAME ": the interval is not a number of cycles: %.*s; use "
			       "32 to 2147483648, which is rounded to a power of two",
			       (int)value.length, value.at);
	out->period = period_of(cycles);
	out->has_interval = true;
	return PROTON_OK;
}

static int read_windows(struct word value, struct pcs_mode *out, struct proton_error *err)
{
	struct word rest = value;
	bool is_read = take_time(&rest, &out->window_ns) && begins_with(rest, "/");

	if (is_read) {
		rest.at++;
		rest.length--;
		is_read = take_time(&rest, &out->distance_ns) && !rest.length;
	}
	if (!is_read || out->window_ns < WINDOW_MIN_NS || out->distance_ns > DISTANCE_MAX_NS ||
	    out->distance_ns <= out->window_ns)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: " NAME
			       ": the windows are not a length and a longer distance: "
			       "%.*s; use for example 30ms/1s (units: us, ms, s; at least 1ms, at "
			       "most 3600s)",
			       (int)value.length, value.at);
	return PROTON_OK;
}

static int read_option(struct word option, struct pcs_mode *out, struct proton_error *err)
{
	if (begins_with(option, "interval="))
		return read_interval((struct word){option.at + 9, option.length - 9}, out, err);
	if (begins_with(option, "windows="))
		return read_windows((struct word){option.at + 8, option.length - 8}, out, err);
	if (option.length == strlen("serialized") && begins_with(option, "serialized")) {
		out->is_serialized = true;
		return PROTON_OK;
	}
	return err_set(err, PROTON_E_INVALID,
		       "cupti: unsupported option of " NAME ": %.*s; available: interval=CYCLES, "
		       "windows=LENGTH/DISTANCE, serialized",
		       (int)option.length, option.at);
}

int pcs_mode_read(const char *mode, struct pcs_mode *out, struct proton_error *err)
{
	const char *at = mode + strcspn(mode, ":");
	int status = PROTON_OK;

	*out = (struct pcs_mode){.period = PCS_PERIOD_DEFAULT};
	while (*at && status == PROTON_OK) {
		size_t length = strcspn(at + 1, ":");

		status = read_option((struct word){at + 1, length}, out, err);
		at += 1 + length;
	}
	if (status == PROTON_OK && out->is_serialized && out->window_ns)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: " NAME ": serialized sampling has no windows; remove "
			       "one of the options");
	if (status == PROTON_OK && !out->has_interval && (out->is_serialized || out->window_ns))
		out->period = PCS_PERIOD_DENSE;
	return status;
}
