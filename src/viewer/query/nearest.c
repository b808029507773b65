/* Suggestions for misspelled metric names, by edit distance. */
#include "viewer/query/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "viewer/print/xalloc.h"

#define SUGGESTIONS 3

struct suggestion {
	const char *name;
	size_t distance;
};

/* Keeps `best` sorted; among equal distances, the first stays first. */
static void consider(struct suggestion *best, const char *name, const char *wanted)
{
	size_t limit = 1 + strlen(wanted) / 3;
	size_t distance = edit_distance(wanted, name, limit);
	struct suggestion new = {name, distance};

	if (distance > limit && strlen(wanted) >= 3 && strstr(name, wanted))
		new.distance = limit; /* part of a longer name: "stalled" */
	else if (distance > limit)
		return;
	for (size_t i = 0; i < SUGGESTIONS; i++) {
		if (best[i].name && best[i].distance <= new.distance)
			continue;
		struct suggestion old = best[i];

		best[i] = new;
		new = old;
	}
}

void nearest_names(const struct metrics *metrics, nearest_derived_fn derived_at, const char *name,
		   char *text, size_t capacity)
{
	struct suggestion best[SUGGESTIONS] = {{0}};
	char *wanted = xstrdup(name);
	const char *derived;
	const char *family;
	size_t used;

	metrics_lower_case(wanted);
	for (size_t i = 0; (derived = derived_at(metrics, i, &family)) != NULL; i++)
		consider(best, derived, wanted);
	for (size_t i = 0; i < metrics->count; i++)
		consider(best, metrics->raws[i].name, wanted);
	free(wanted);
	text[0] = '\0';
	used = best[0].name ? (size_t)snprintf(text, capacity, " (near: %.40s", best[0].name) : 0;
	for (size_t i = 1; i < SUGGESTIONS && best[i].name && used < capacity; i++)
		used += (size_t)snprintf(text + used, capacity - used, ", %.40s", best[i].name);
	if (best[0].name && used < capacity)
		snprintf(text + used, capacity - used, ")");
}
