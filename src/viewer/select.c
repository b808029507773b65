/* The filters of the command line. See select.h. */
#include "viewer/select.h"

#include "viewer/filter.h"
#include "viewer/say.h"

int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err)
{
	const char *pattern = options->include ? options->include : options->exclude;
	size_t matches = 0;
	int status = PROTON_OK;

	if (options->include)
		status = filter_include(profile, state, pattern, &matches, err);
	else if (options->exclude)
		status = filter_exclude(profile, state, pattern, &matches, err);
	if (status)
		return status;
	if (pattern && matches == 0)
		say("no frame matches \"%s\"", pattern);
	return PROTON_OK;
}

int select_nodes(const struct options *options, const struct profile *profile,
		 const struct metric_column *first, uint8_t *state, struct proton_error *err)
{
	int status = select_paths(options, profile, state, err);

	if (status || !options->has_threshold)
		return status;
	if (!first->values)
		return err_set(err, PROTON_E_INVALID,
			       "--threshold needs a number as first metric, and %s is none",
			       first->name);
	filter_threshold(profile, state, first->values, options->threshold);
	return PROTON_OK;
}
