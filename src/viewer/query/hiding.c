/* Hiding frames: libraries by the paths of their files, others by patterns. */
#include "viewer/query/hiding.h"

#include "base/array.h"
#include "base/message.h"
#include "model/fold.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/query_options.h"

#define BIT(owner) (1u << (owner))
#define LIBRARIES (BIT(OWNER_TRITON) | BIT(OWNER_TORCH) | BIT(OWNER_PYTHON))

static const struct {
	const char *name;
	unsigned owners;
} kinds[] = {
	{"no-triton", BIT(OWNER_TRITON)},
	{"no-torch", BIT(OWNER_TORCH)},
	{"no-python", BIT(OWNER_PYTHON)},
	{"no-packages", BIT(OWNER_PACKAGE) | BIT(OWNER_TRITON) | BIT(OWNER_TORCH)},
	{"user", LIBRARIES},
	{"all", 0},
};

static bool has_hidden_libraries;
static size_t hidden_count;

void hiding_init(struct hiding *hiding)
{
	has_hidden_libraries = false;
	*hiding = (struct hiding){.owners = LIBRARIES};
}

enum options_result hiding_parse(void *query, const char *value, struct proton_error *err)
{
	struct hiding *hiding = &((struct query_options *)query)->hiding;
	const char *word = value;

	hiding->owners = 0;
	for (;;) {
		size_t length = strcspn(word, ",");
		size_t i = 0;

		while (i < ARRAY_LENGTH(kinds) && (strlen(kinds[i].name) != length ||
						   memcmp(kinds[i].name, word, length) != 0))
			i++;
		if (i == ARRAY_LENGTH(kinds))
			return OPTIONS_REFUSE(err,
					      "--frames must be user, all, or some of no-triton, "
					      "no-torch, no-python and no-packages with commas "
					      "between them, not \"%s\"",
					      value);
		hiding->owners |= kinds[i].owners;
		if (!word[length])
			return OPTIONS_RUN;
		word += length + 1;
	}
}

const char *hiding_option(const struct hiding *hiding)
{
	return hiding->is_set ? "--frames"
	       : hiding->hide ? "--hide"
	       : hiding->show ? "--show"
			      : NULL;
}

bool hiding_is_unasked(void)
{
	return has_hidden_libraries;
}

size_t hiding_count(void)
{
	return hidden_count;
}

void hiding_report_none(const char *pattern)
{
	message("no frame matches \"%s\"%s", pattern,
		has_hidden_libraries ? "; lines of libraries are hidden: --frames all shows them"
				     : "");
}

/* False if kernels and what is below them are directly below the root. */
static bool has_callers(const struct profile *profile)
{
	for (uint32_t i = profile->nodes[0].first_child; i; i = profile->nodes[i].next_sibling)
		if (profile->nodes[i].first_child && !profile->nodes[i].first_kernel &&
		    profile->frames[profile->nodes[i].frame].kind != FRAME_KERNEL)
			return true;
	return false;
}

/* Once, however many files are read. */
static void report_empty(const struct hiding *hiding, const struct profile *profile)
{
	static bool is_reported;

	if (!is_reported && !has_callers(profile))
		message("all frames above the kernels are hidden; %s",
			hiding->show || hiding->hide ? "change --show or --hide"
						     : "they are lines of libraries, which "
						       "--frames all shows");
	is_reported = true;
}

/* Marks the nodes that --frames hides. */
static void hide_owners(const struct profile *profile, unsigned owners, bool *is_hidden)
{
	AUTO_FREE bool *is_owned = xcalloc(profile->frame_count, sizeof(*is_owned));

	for (uint32_t f = 0; f < profile->frame_count; f++)
		is_owned[f] = owners & BIT(frame_owner(profile, f));
	for (size_t i = 1; i < profile->node_count; i++)
		is_hidden[i] = is_owned[profile->nodes[i].frame];
}

/* Changes what is hidden where `pattern` matches, or does not. */
static int hide_matches(const struct profile *profile, const char *pattern, bool is_show,
			bool *is_hidden, struct proton_error *err)
{
	AUTO_FREE bool *matches = NULL;
	int status = filter_matches(profile, NULL, pattern, &matches, err);

	if (status)
		return status;
	for (size_t i = 1; i < profile->node_count; i++)
		is_hidden[i] = is_show ? !matches[i] : is_hidden[i] || matches[i];
	return PROTON_OK;
}

int hiding_find(const struct hiding *hiding, const struct profile *profile, bool **is_hidden_out,
		size_t *count_out, struct proton_error *err)
{
	bool *is_hidden = xcalloc(profile->node_count, sizeof(*is_hidden));
	int status = PROTON_OK;

	if (hiding->show)
		status = hide_matches(profile, hiding->show, true, is_hidden, err);
	else if (hiding->owners)
		hide_owners(profile, hiding->owners, is_hidden);
	if (status == PROTON_OK && hiding->hide)
		status = hide_matches(profile, hiding->hide, false, is_hidden, err);
	if (status != PROTON_OK) {
		free(is_hidden);
		return status;
	}
	*count_out = fold_allowed(profile, is_hidden);
	has_hidden_libraries |= *count_out && !hiding_option(hiding);
	hidden_count += *count_out;
	*is_hidden_out = is_hidden;
	return PROTON_OK;
}

int hiding_fold(const struct hiding *hiding, struct profile *profile, struct proton_error *err)
{
	AUTO_FREE bool *is_hidden = NULL;
	size_t count;

	TRY(hiding_find(hiding, profile, &is_hidden, &count, err));
	if (count)
		profile_fold(profile, is_hidden);
	if (profile->out_of_memory)
		xgive_up();
	if (count)
		report_empty(hiding, profile);
	return PROTON_OK;
}
