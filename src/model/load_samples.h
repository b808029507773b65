/* Loading of PC samples: from table rows to profile->samples, and to metrics in the tree. */
#ifndef MODEL_LOAD_SAMPLES_H
#define MODEL_LOAD_SAMPLES_H

#include "format/profile_view.h"
#include "model/profile.h"

/*
 * Adds the samples of the selected epochs. Numbers of a function are exact. Samples of unknown
 * launches are divided between the nodes where their function ran, in proportion to its time there;
 * the parts are integers that add up to the whole. `maps`: those of the loader, with all strings of
 * samples; `kernel_nodes`: by row of a kernel, its node in the profile + 1.
 */
void load_samples(struct profile *profile, const struct profile_view *view,
		  const struct profile_trace *maps, const uint32_t *kernel_nodes);

#endif
