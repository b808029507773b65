/*
 * The names of user metrics, process-wide: a name with its suffix is parsed once and then
 * known by a small integer.
 */
#ifndef RECORD_NAMES_METRIC_NAMES_H
#define RECORD_NAMES_METRIC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define METRIC_NAME_NONE UINT32_MAX

struct metric_name {
	uint32_t text;  /* frames_string() of the name without suffix */
	uint32_t flags; /* enum metric_flag */
};

/*
 * "(exc)", "(pty)" and "(inc)" at the end of a name are taken off with the blanks before them and
 * become flags. METRIC_NAME_NONE, counted as lost, past LIMITS_METRICS and
 * when memory is out.
 */
uint32_t metric_name_add(const char *name);
struct metric_name metric_name_get(uint32_t id);
/* False for a number that metric_name_add() has not given out. */
bool metric_name_exists(uint32_t id);

#endif
