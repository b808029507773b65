/* Options of proton-viewer about what is read, selected and compared: their table and parsing. */
#include "viewer/query/query_options.h"

#include <math.h>

#include "base/array.h"
#include "viewer/numbers/utilization.h"
#include "viewer/print/xalloc.h"

static enum options_result parse_metrics(void *into, const char *value, struct proton_error *err)
{
	struct query_options *query = into;
	char *rest, *part;

	FREE_ALL(query->metrics_text, query->metrics);
	query->metrics = NULL;
	query->metric_count = 0;
	query->metrics_text = rest = xstrdup(value);
	while ((part = strsep(&rest, ",")) != NULL) {
		part += strspn(part, " ");
		size_t length = strlen(part);
		while (length > 0 && part[length - 1] == ' ')
			part[--length] = '\0';
		if (length == 0)
			continue;
		XADD(query->metrics, query->metric_count, part);
	}
	if (query->metric_count == 0)
		return OPTIONS_REFUSE(err, "--metrics needs at least one metric");
	return OPTIONS_RUN;
}

static enum options_result parse_threshold(void *into, const char *value, struct proton_error *err)
{
	struct query_options *query = into;
	const char *equals = strrchr(value, '=');
	const char *number = equals ? equals + 1 : value;
	char *end;
	double min = strtod(number, &end);

	if (end != number && strcmp(end, "%") == 0)
		return OPTIONS_REFUSE(
			err,
			"--threshold needs a number, not \"%s\"; for a share write the "
			"metric, as in time/%%=%.*s",
			number, (int)(end - number), number);
	if (end == number || *end || isnan(min))
		return OPTIONS_REFUSE(err, "--threshold needs a number, not \"%s\"", number);
	if (!equals) {
		query->threshold = min;
		query->has_threshold = true;
		return OPTIONS_RUN;
	}
	if (equals == value)
		return OPTIONS_REFUSE(err, "--threshold needs a metric before the \"=\" of \"%s\"",
				      value);
	XADD(query->thresholds, query->threshold_count,
	     (struct threshold){.metric = xstrndup(value, (size_t)(equals - value)), .min = min});
	return OPTIONS_RUN;
}

/* Several baselines are repeated runs, as the files of a directory are. */
static enum options_result parse_base(void *into, const char *value, struct proton_error *err)
{
	struct query_options *query = into;

	(void)err;
	XADD(query->bases, query->base_count, xstrdup(value));
	query->base = query->bases[0];
	return OPTIONS_RUN;
}

static enum options_result parse_gate(void *into, const char *value, struct proton_error *err)
{
	struct query_options *query = into;

	XADD(query->gates, query->gate_count, (struct gate){0});
	if (gate_parse(&query->gates[query->gate_count - 1], value, err))
		return OPTIONS_BAD;
	/* No other view has this form. */
	if (query->gates[query->gate_count - 1].is_percent)
		query->ranks = true;
	return OPTIONS_RUN;
}

/* --group, after its word is known. */
static enum options_result set_flat_mode(void *into, const char *value, struct proton_error *err)
{
	(void)value, (void)err;
	((struct query_options *)into)->mode = VIEW_FLAT;
	return OPTIONS_RUN;
}

static enum options_result group_by_kernel(void *into, const char *value, struct proton_error *err)
{
	((struct query_options *)into)->group_by = REGROUP_KERNEL;
	return set_flat_mode(into, value, err);
}

static enum options_result turn_over(void *into, const char *value, struct proton_error *err)
{
	(void)value, (void)err;
	((struct query_options *)into)->mode = VIEW_CALLERS;
	return OPTIONS_RUN;
}

static enum options_result parse_ranks(void *into, const char *value, struct proton_error *err)
{
	static const char *const tables[] = {
		[RANKS_FRAMES] = "frames", [RANKS_RANKS] = "ranks", [RANKS_GROUPS] = "groups"};
	struct query_options *query = into;

	query->ranks_table = RANKS_ALL;
	for (enum ranks_table i = RANKS_FRAMES; value && i <= RANKS_GROUPS; i++)
		if (strcmp(value, tables[i]) == 0)
			query->ranks_table = i;
	if (value && query->ranks_table == RANKS_ALL)
		return OPTIONS_REFUSE(err, "--ranks must be frames, ranks or groups, not \"%s\"",
				      value);
	return OPTIONS_RUN;
}

static enum options_result parse_rank(void *into, const char *value, struct proton_error *err)
{
	if (!rank_parse(value, &((struct query_options *)into)->rank))
		return OPTIONS_REFUSE(err, "--rank needs the number of a rank, not \"%s\"", value);
	return OPTIONS_RUN;
}

static enum options_result note_merge(void *into, const char *value, struct proton_error *err)
{
	struct query_options *query = into;

	(void)value, (void)err;
	query->is_sum_asked_for = query->merge_how == MERGE_SUM;
	return OPTIONS_RUN;
}

static enum options_result parse_peaks(void *into, const char *value, struct proton_error *err)
{
	((struct query_options *)into)->peaks = value;
	return peaks_set_own(value, err) ? OPTIONS_BAD : OPTIONS_RUN;
}

static const char *const groups[] = {
	[REGROUP_KERNEL] = "kernel", [REGROUP_SCOPE] = "scope",   [REGROUP_FILE] = "file",
	[REGROUP_MODULE] = "module", [REGROUP_LAYER] = "layer",   [REGROUP_OPERATOR] = "operator",
	[REGROUP_SHAPE] = "shape",   [REGROUP_DEVICE] = "device", NULL,
};
static const char *const merges[] = {
	[MERGE_SUM] = "sum", [MERGE_MEAN] = "mean",     [MERGE_MIN] = "min",
	[MERGE_MAX] = "max", [MERGE_SPREAD] = "spread", NULL,
};

#define MEMBER(name) .member = offsetof(struct query_options, name)
#define GIVEN(name) .given = offsetof(struct query_options, name)

/* clang-format off: one row per option */
static const struct option_row rows[] = {
	{.help = "Metrics and filters"},
	{'m', "metrics", "A,B,...", "metrics to show, sorted by the first", .parse = parse_metrics},
	{'l', "list", NULL, "list the metrics of the profile", MEMBER(list)},
	{'i', "include", "REGEX", "show only paths through a matching frame", MEMBER(include)},
	{'e', "exclude", "REGEX", "omit matching frames and their subtrees", MEMBER(exclude)},
	{0, "frames", "WHICH",
	 "user (default) hides lines of Triton, PyTorch and Python;\n"
	 "all, or no-triton,no-torch,no-python,no-packages",
	 GIVEN(hiding.is_set), .parse = hiding_parse},
	{0, "hide", "REGEX", "hide matching frames; frames below them move up",
	 MEMBER(hiding.hide)},
	{0, "show", "REGEX", "hide all frames but kernels and matching ones", MEMBER(hiding.show)},
	{'t', "threshold", "VALUE", "minimum of the first metric, or METRIC=VALUE",
	 .parse = parse_threshold},
	{'d', "depth", "N", "maximum depth of the tree (default: 100), or of layers", MEMBER(depth),
	 .is_count = true, GIVEN(depth_is_set)},
	{0, "peaks", "RATES", "peak rates for util: flops16=989e12,bytes=3.35e12",
	 .parse = parse_peaks},
	{.help = "Views"},
	{0, "top", NULL, "flat table of kernels", .parse = group_by_kernel},
	{0, "group", "BY",
	 "flat table by kernel, scope, file, module, layer, operator,\n"
	 "shape or device",
	 MEMBER(group_by), groups, set_flat_mode},
	{0, "bottom-up", NULL, "callers of each kernel, innermost first", .parse = turn_over},
	{0, "brief", NULL, "causes of slowness with their evidence, in at most 40 lines",
	 MEMBER(brief)},
	{0, "markdown", NULL, "with --brief, as Markdown", MEMBER(markdown)},
	{0, "warps", NULL, "busy, waiting and idle time of warps, critical path", MEMBER(warps)},
	{0, "source", "[KERNEL]", "PC samples and stall reasons per source line", MEMBER(kernel),
	 GIVEN(source)},
	{0, "sass", NULL, "with --source or HTML, the instructions of each line", MEMBER(sass)},
	{0, "ranks", "[=TABLE]",
	 "spread of kernel time (or -m) over the ranks of a job,\n"
	 "or only the frames, ranks or groups",
	 GIVEN(ranks), .parse = parse_ranks},
	{0, "ranks-of", "FRAME", "times of all ranks in a frame, with a histogram",
	 MEMBER(ranks_of)},
	{0, "rank", "N", "show only this rank of a job", .parse = parse_rank},
	{'n', "rows", "N",
	 "maximum number of rows of --top, --group, --warps or\n--ranks, or of kernels of --source",
	 MEMBER(rows), .is_count = true},
	{.help = "Comparison"},
	{0, "diff", "BASE",
	 "compare with BASE, largest change first\n"
	 "(also -diff, --diff-profile; several for more runs);\n"
	 "for several runs of a side: means, intervals and verdicts",
	 .parse = parse_base},
	{0, "diff-profile", "BASE", NULL, .parse = parse_base},
	{0, "fail-if", "GATE",
	 "exit with status 3 if GATE is true: 'time > +5%',\n"
	 "'util < 0.5 in matmul'",
	 .parse = parse_gate},
	{0, "trend", NULL, "a row per run: time (or -m) of the selected kernels, and its change",
	 GIVEN(trend), .parse = group_by_kernel},
	{0, "merge", "HOW", "several files: sum (default), mean, min, max or spread",
	 MEMBER(merge_how), merges, note_merge},
	{0, "allow-partial", NULL, "accept incomplete profiles in gates, --diff and exports",
	 MEMBER(allow_partial)},
	{0, "strip", "FILE",
	 "only write a copy of a profile to FILE: without source text,\n"
	 "machine code, host, job, command line, UUIDs, directories",
	 MEMBER(strip)},
	{0, "allow-mixed", NULL, "sum ranks that are not of one launch of a job",
	 MEMBER(allow_mixed)},
};
/* clang-format on */

struct option_table query_options_init(struct query_options *query)
{
	*query = (struct query_options){.depth = DEPTH_DEFAULT, .rank = RANK_NONE};
	hiding_init(&query->hiding);
	peaks_forget_own();
	return (struct option_table){rows, ARRAY_LENGTH(rows), query};
}

void query_options_fini(struct query_options *query)
{
	for (size_t i = 0; i < query->threshold_count; i++)
		free(query->thresholds[i].metric);
	for (size_t i = 0; i < query->gate_count; i++)
		gate_fini(&query->gates[i]);
	for (size_t i = 0; i < query->base_count; i++)
		free(query->bases[i]);
	FREE_ALL(query->thresholds, query->gates, query->metrics, query->metrics_text,
		 query->bases);
}
