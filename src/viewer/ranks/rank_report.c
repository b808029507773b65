/* Messages about the ranks of a merged job. */
#include "viewer/ranks/rank_report.h"

#include <stdio.h>
#include <string.h>

#include "base/message.h"
#include "model/merge.h"
#include "model/ranks.h"

#define NAMED_MAX 5u

/* "killed: 3, 17, 18 and 4 more" */
static size_t report_of_state(const struct profile_ranks *ranks, uint32_t state)
{
	char text[256] = "";
	size_t used = 0;
	size_t count = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->rows[i].state != state)
			continue;
		if (count++ < NAMED_MAX)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
						 count > 1 ? ", " : "", ranks->rows[i].rank);
	}
	if (count > NAMED_MAX)
		snprintf(text + used, sizeof(text) - used, " and %zu more", count - NAMED_MAX);
	if (count)
		message("%zu rank%s %s: %s", count, count > 1 ? "s are" : " is",
			rank_state_name(state), text);
	return count;
}

bool rank_report_state(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t bad = 0;

	if (!ranks)
		return true;
	for (uint32_t state = RANK_KILLED; state <= RANK_MISSING; state++)
		bad += report_of_state(ranks, state);
	for (uint32_t node = profile->nodes[0].first_child; node;
	     node = profile->nodes[node].next_sibling) {
		const struct profile_frame *frame = &profile->frames[profile->nodes[node].frame];

		if (strcmp(profile_text(profile, frame->name), MERGE_OTHER) == 0)
			message("the limit of nodes is reached: names differ from rank to rank; "
				"the others are summed in " MERGE_OTHER);
	}
	return bad == 0;
}
