/*
 * Which frames views show: --frames, --hide and --show. Lines of Triton, PyTorch and Python's
 * library are hidden unless asked for: a launch ends in Triton's, and its user looks for his own.
 */
#pragma once

#include "base/option_table.h"
#include "model/profile.h"

struct hiding {
	unsigned owners;  /* hidden ones: a bit for each enum frame_owner */
	bool is_set;      /* by --frames */
	const char *hide; /* patterns */
	const char *show;
};

void hiding_init(struct hiding *hiding);
/* The value of --frames for struct query_options: user, all, or no-NAME,... */
enum options_result hiding_parse(void *query, const char *value, struct proton_error *err);
/* The first of these options that was given; NULL: none. */
const char *hiding_option(const struct hiding *hiding);

/* Which nodes are hidden, malloc'd, and their number. E_INVALID: a pattern is not an expression. */
int hiding_find(const struct hiding *hiding, const struct profile *profile, bool **is_hidden_out,
		size_t *count_out, struct proton_error *err);
/*
 * Removes the hidden frames from a profile (model/fold.h). This is the one step between reading and
 * all views.
 */
int hiding_fold(const struct hiding *hiding, struct profile *profile, struct proton_error *err);
/* True if this command has hidden lines of libraries, which its user did not ask for. */
bool hiding_is_unasked(void);
/* The number of frames that this command has hidden. */
size_t hiding_count(void);
/* Says that no frame matches the pattern of -i or -e. */
void hiding_report_none(const char *pattern);
