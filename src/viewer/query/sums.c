/* Sums of profiles. */
#include "viewer/query/sums.h"

#include "model/profile.h"
#include "viewer/print/xalloc.h"

struct merge *sum_begin(struct profile **sum_out)
{
	struct merge *merge;

	*sum_out = profile_new();
	merge = *sum_out ? merge_new(*sum_out) : NULL;
	if (!merge)
		xgive_up();
	return merge;
}

void sum_add(struct merge *merge, struct profile *source)
{
	merge_source(merge, source);
	merge_tree(merge);
	profile_free(source);
}

struct profile *sum_end(struct merge *merge, struct profile *sum)
{
	merge_free(merge);
	if (sum->out_of_memory)
		xgive_up();
	return sum;
}
