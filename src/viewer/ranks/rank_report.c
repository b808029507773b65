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

/* Why ranks are damaged: the first few. */
static void report_reasons(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t count = 0;

	for (size_t i = 0; i < ranks->count && count < NAMED_MAX; i++) {
		const char *reason = profile_text(profile, ranks->rows[i].reason);

		if (!*reason)
			continue;
		message("rank %u: %s", ranks->rows[i].rank, reason);
		count++;
	}
}

/* Versions differ in what they record: times are comparable, names may not be. */
static void report_versions(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	const struct row_rank *first = NULL;

	for (size_t i = 0; i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		if (!row->version)
			continue;
		if (!first)
			first = row;
		if (row->version == first->version)
			continue;
		message("ranks were recorded by different versions of Proton: %s (rank %u) and %s "
			"(rank %u); frames may differ",
			profile_text(profile, first->version), first->rank,
			profile_text(profile, row->version), row->rank);
		return;
	}
}

bool rank_report_state(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t bad = 0;

	if (!ranks)
		return true;
	/* Duplicates are accepted already (rank_mix.h). */
	for (uint32_t state = RANK_KILLED; state <= RANK_MISSING; state++)
		bad += report_of_state(ranks, state);
	report_reasons(profile);
	report_versions(profile);
	for (uint32_t node = profile->nodes[0].first_child; node;
	     node = profile->nodes[node].next_sibling) {
		const struct profile_frame *frame = &profile->frames[profile->nodes[node].frame];

		if (strcmp(profile_text(profile, frame->name), MERGE_OTHER) == 0)
			message("the limit of nodes is reached: names differ from rank to rank; "
				"the others are summed in " MERGE_OTHER
				"; name the parts that differ with --rank-names");
	}
	return bad == 0;
}
