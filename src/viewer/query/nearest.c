/* Suggestions for misspelled metric names, by edit distance. */
#include "viewer/query/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/print/xalloc.h"

#define NAME_MAX_BYTES 64
#define SUGGESTIONS 3

size_t nearest_distance(const char *a, const char *b, size_t limit)
{
	size_t length_a = strlen(a);
	size_t length_b = strlen(b);
	size_t rows[3][NAME_MAX_BYTES + 1]; /* the current row of the table and the two before it */

	if (length_a > NAME_MAX_BYTES || length_b > NAME_MAX_BYTES)
		return limit + 1;
	for (size_t k = 0; k <= length_b; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= length_a; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i - 1) % 3];

		row[0] = i;
		for (size_t k = 1; k <= length_b; k++) {
			size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);

			if (above[k] + 1 < best)
				best = above[k] + 1;
			if (row[k - 1] + 1 < best)
				best = row[k - 1] + 1;
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    rows[(i - 2) % 3][k - 2] + 1 < best)
				best = rows[(i - 2) % 3][k - 2] + 1;
			row[k] = best;
		}
	}
	return rows[length_a % 3][length_b] > limit ? limit + 1 : rows[length_a % 3][length_b];
}

struct suggestion {
	const char *name;
	size_t distance;
};

/* Keeps `best` sorted; among equal distances, the first stays first. */
static void consider(struct suggestion *best, const char *name, const char *wanted)
{
	size_t limit = 1 + strlen(wanted) / 3;
	size_t distance = nearest_distance(wanted, name, limit);
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
	char *wanted = xstrndup(name, strlen(name));
	const char *derived;
	const char *family;
	size_t used;

	for (char *p = wanted; *p; p++) {
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + ('a' - 'A'));
	}
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
