/* Memory that a loaded profile takes in any view and export: an upper limit. */
#ifndef MODEL_PROFILE_COST_H
#define MODEL_PROFILE_COST_H

#include "model/profile.h"

/* In bytes. */
uint64_t profile_cost(const struct profile *profile);

#endif
