/* The distance between two names: restricted Damerau-Levenshtein. */
#include "base/edit_distance.h"

#include <string.h>

#define NAME_MAX_BYTES 64

size_t edit_distance(const char *a, const char *b, size_t limit)
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
