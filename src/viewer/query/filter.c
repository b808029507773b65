/*
 * Filters of nodes: include, exclude, threshold, and removal of launch metadata.
 *
 * A node's parent precedes it. A forward pass over the nodes therefore passes values down the tree
 * and a backward pass passes them up, at any depth.
 */
#include "viewer/query/filter.h"

#include "viewer/print/xalloc.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/pattern.h"

#define METADATA_FRAME "__proton_launch_metadata"

static bool is_metadata(const char *name)
{
	size_t length = strlen(METADATA_FRAME);

	return strncmp(name, METADATA_FRAME, length) == 0 &&
	       (name[length] == '\0' || name[length] == ':');
}

uint8_t *filter_prune(struct profile *profile)
{
	uint8_t *state = xcalloc(profile->node_count, sizeof(*state));
	AUTO_FREE bool *frame_is_metadata =
		xcalloc(profile->frame_count, sizeof(*frame_is_metadata));
	AUTO_FREE bool *keeps = xcalloc(profile->node_count, sizeof(*keeps));

	for (size_t i = 0; i < profile->frame_count; i++)
		frame_is_metadata[i] = is_metadata(profile_text(profile, profile->frames[i].name));
	for (size_t i = 1; i < profile->node_count; i++) {
		struct profile_node *node = &profile->nodes[i];

		if (state[node->parent] == NODE_GONE || frame_is_metadata[node->frame]) {
			state[i] = NODE_GONE;
			node->first_value = 0;
			node->first_kernel = 0;
		}
	}
	for (size_t i = profile->node_count; i-- > 1;) {
		const struct profile_node *node = &profile->nodes[i];

		if (state[i] == NODE_GONE)
			continue;
		if (node->first_value || node->first_kernel)
			keeps[i] = true;
		if (keeps[i])
			keeps[node->parent] = true;
		else
			state[i] = NODE_GONE;
	}
	return state;
}

/* For each frame, whether its full name matches the pattern. Evaluated on demand. */
struct matcher {
	const struct profile *profile;
	regex_t regex;
	struct out name;
	int8_t *known; /* per frame: 0 not evaluated yet, 1 matches, -1 does not */
};

static bool matches_styled(struct matcher *matcher, uint32_t frame, enum name_style style)
{
	matcher->name.length = 0;
	name_write_styled(&matcher->name, matcher->profile, frame, NAME_FULL, style);
	out_byte(&matcher->name, '\0');
	return !matcher->name.errnum &&
	       regexec(&matcher->regex, matcher->name.bytes, 0, NULL, 0) == 0;
}

/* The root represents the whole run and never matches. */
static bool matches(struct matcher *matcher, size_t node)
{
	uint32_t frame = matcher->profile->nodes[node].frame;

	if (node == 0)
		return false;
	if (matcher->known[frame] == 0) {
		/* A pattern may match the stored name or the demangled one. */
		matcher->known[frame] = matches_styled(matcher, frame, NAMES_RAW) ||
							matches_styled(matcher, frame, NAMES_FULL)
						? 1
						: -1;
	}
	return matcher->known[frame] == 1;
}

int filter_matches(const struct profile *profile, const uint8_t *state, const char *pattern,
		   bool **matches_out, struct proton_error *err)
{
	struct matcher matcher = {.profile = profile};
	int status = pattern_compile(&matcher.regex, pattern, REG_NOSUB, err);

	if (status)
		return status;
	matcher.known = xcalloc(profile->frame_count, sizeof(*matcher.known));
	out_init(&matcher.name, -1);
	bool *found = xcalloc(profile->node_count, sizeof(*found));
	for (size_t i = 1; i < profile->node_count; i++)
		found[i] = (!state || state[i] == NODE_SHOWN) && matches(&matcher, i);
	regfree(&matcher.regex);
	out_fini(&matcher.name);
	free(matcher.known);
	*matches_out = found;
	return PROTON_OK;
}

int filter_include(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err)
{
	AUTO_FREE bool *keeps = NULL;
	int status = filter_matches(profile, state, pattern, &keeps, err);

	if (status)
		return status;
	*matches_out = 0;
	for (size_t i = 1; i < profile->node_count; i++) {
		*matches_out += keeps[i];
		keeps[i] = keeps[i] || (state[i] == NODE_SHOWN && keeps[profile->nodes[i].parent]);
	}
	for (size_t i = profile->node_count; i-- > 1;) {
		if (keeps[i])
			keeps[profile->nodes[i].parent] = true;
		else if (state[i] == NODE_SHOWN)
			state[i] = NODE_HIDDEN;
	}
	return PROTON_OK;
}

int filter_exclude(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err)
{
	AUTO_FREE bool *found = NULL;
	int status = filter_matches(profile, state, pattern, &found, err);

	if (status)
		return status;
	*matches_out = 0;
	for (size_t i = 1; i < profile->node_count; i++) {
		bool is_below = state[profile->nodes[i].parent] == NODE_HIDDEN;

		if (state[i] != NODE_SHOWN || (!is_below && !found[i]))
			continue;
		*matches_out += !is_below;
		state[i] = NODE_HIDDEN;
	}
	return PROTON_OK;
}

/* The nodes that match, and all below them. */
static int find_subtrees(const struct profile *profile, const char *pattern, bool **found_out,
			 const char **none_out, struct proton_error *err)
{
	size_t count = 0;
	bool *found;
	int status = filter_matches(profile, NULL, pattern, &found, err);

	if (status)
		return status;
	for (size_t i = 0; i < profile->node_count; i++) {
		count += found[i];
		found[i] = found[i] || found[profile->nodes[i].parent];
	}
	if (!count && !*none_out)
		*none_out = pattern;
	*found_out = found;
	return PROTON_OK;
}

int filter_select(const struct profile *profile, const char *include, const char *exclude,
		  bool **keeps_out, const char **none_out, struct proton_error *err)
{
	bool *keeps = NULL, *excluded = NULL;
	int status = PROTON_OK;

	*none_out = NULL;
	if (include)
		status = find_subtrees(profile, include, &keeps, none_out, err);
	if (status == PROTON_OK && exclude)
		status = find_subtrees(profile, exclude, &excluded, none_out, err);
	for (size_t i = 0; excluded && i < profile->node_count; i++)
		excluded[i] = !excluded[i] && (!keeps || keeps[i]);
	if (excluded || status) {
		free(keeps);
		keeps = excluded;
	}
	if (status == PROTON_OK)
		*keeps_out = keeps;
	return status;
}

void filter_require(const struct profile *profile, uint8_t *state, const bool *is_enough)
{
	AUTO_FREE bool *keeps = xcalloc(profile->node_count, sizeof(*keeps));

	for (size_t i = profile->node_count; i-- > 1;) {
		if (state[i] != NODE_SHOWN)
			continue;
		if (is_enough[i])
			keeps[i] = true;
		if (keeps[i])
			keeps[profile->nodes[i].parent] = true;
		else
			state[i] = NODE_BELOW;
	}
}
