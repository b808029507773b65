/* Loading of PC samples: from table rows to profile->samples, and to metrics in the tree. */
#ifndef MODEL_LOAD_SAMPLES_H
#define MODEL_LOAD_SAMPLES_H

#include "format/profile_view.h"
#include "model/profile.h"

/* Maps of the loader of the tree; see load_profile.c. */
struct samples_source {
	const struct profile_view *view;
	const bool *is_selected;      /* by epoch */
	uint64_t epoch_count;         /* of is_selected */
	const uint32_t *nodes;        /* id of the view to id + 1 of the profile, 0 = none */
	const uint32_t *kernel_nodes; /* kernel row of the view to its node + 1 of the profile */
	const uint32_t *strings;      /* all strings of samples are mapped */
};

/*
 * Adds the samples of the selected epochs. Numbers of a function are exact. Samples of unknown
 * launches are divided between the nodes where their function ran, in proportion to its time there;
 * the parts are integers that add up to the whole.
 */
void load_samples(struct profile *profile, const struct samples_source *source);

#endif
