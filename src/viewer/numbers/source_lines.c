/* Samples of PC sampling by kernel and source line, collected from the tree. */
#include "viewer/numbers/source_lines.h"

#include <strings.h>

#include "base/array.h"
#include "model/samples.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

/* Longer chains of calls count in their innermost lines only. */
#define CHAIN_MAX 64u

/* A sampled node, and one of the lines that it counts for. */
struct line_of_node {
	uint32_t kernel; /* frame */
	uint32_t file;
	uint32_t line;
	uint32_t node;
	bool is_outermost; /* the first line of its chain */
};

struct collector {
	struct source_report *report;
	uint32_t samples_metric;
	uint8_t *reason_of; /* by metric: index of reasons + 1 */
	uint32_t *kernels;  /* by node: the kernel above, or the node itself */
	bool *is_wanted;    /* by node: a kernel that is asked for; NULL: all are */
	struct line_of_node *entries;
	size_t count;
};

/* ------------------------------------------------------------------ reading */

static void find_metrics(struct collector *collector)
{
	struct source_report *report = collector->report;
	const struct profile *profile = report->profile;
	const size_t prefix = sizeof(SAMPLES_REASON) - 1;

	collector->samples_metric = UINT32_MAX;
	collector->reason_of = xcalloc(profile->metric_count, 1);
	for (uint32_t i = 0; i < profile->metric_count; i++) {
		const char *name = profile_text(profile, profile->metrics[i].name);

		if (profile->metrics[i].type != PROTON_METRIC_INT64)
			continue;
		if (strcasecmp(name, SAMPLES_ALL) == 0)
			collector->samples_metric = i;
		if (strncasecmp(name, SAMPLES_REASON, prefix) != 0 ||
		    report->reason_count == SOURCE_REASONS_MAX)
			continue;
		report->reasons[report->reason_count++] = (struct source_reason){
			i, name + prefix, stall_reason_find(name, strlen(name))};
		collector->reason_of[i] = (uint8_t)report->reason_count;
	}
}

/* Adds the node's own samples; false if it has none. */
static bool add_samples(const struct collector *collector, uint32_t node,
			struct source_samples *samples)
{
	const struct profile *profile = collector->report->profile;
	bool has_any = false;

	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next) {
		const struct profile_value *value = &profile->values[v];

		if (value->metric >= profile->metric_count)
			continue;
		uint8_t reason = collector->reason_of[value->metric];
		if (value->as.int64 <= 0 || (!reason && value->metric != collector->samples_metric))
			continue;
		has_any = true;
		if (reason)
			samples->by_reason[reason - 1] += (uint64_t)value->as.int64;
		else
			samples->all += (uint64_t)value->as.int64;
	}
	return has_any;
}

/* Adds an entry for each line in the chain of calls that leads to a sampled node. */
static void add_chain(struct collector *collector, uint32_t node)
{
	const struct profile *profile = collector->report->profile;
	uint32_t kernel = collector->kernels[node];
	size_t first = collector->count;
	uint32_t depth = 0;

	for (uint32_t at = node; at != kernel && depth < CHAIN_MAX;
	     at = profile->nodes[at].parent, depth++) {
		const struct row_frame *frame = &profile->frames[profile->nodes[at].frame];
		struct line_of_node entry = {profile->nodes[kernel].frame, frame->file, frame->line,
					     node, false};
		size_t i = first;

		while (i < collector->count && (collector->entries[i].file != entry.file ||
						collector->entries[i].line != entry.line))
			i++;
		if (i == collector->count) /* else: a recursive call */
			XADD(collector->entries, collector->count, entry);
	}
	if (collector->count == first)
		XADD(collector->entries, collector->count,
		     (struct line_of_node){.kernel = profile->nodes[kernel].frame, .node = node});
	collector->entries[collector->count - 1].is_outermost = true;
}

static void collect(struct collector *collector, const uint8_t *state)
{
	const struct profile *profile = collector->report->profile;

	collector->kernels = xcalloc(profile->node_count, sizeof(*collector->kernels));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		bool is_source = profile->frames[node->frame].kind == FRAME_SOURCE;
		uint32_t kernel = is_source ? collector->kernels[node->parent] : i;
		struct source_samples samples = {0};

		collector->kernels[i] = kernel;
		if (kernel && state[i] == NODE_SHOWN && add_samples(collector, i, &samples) &&
		    (!collector->is_wanted || collector->is_wanted[kernel]))
			add_chain(collector, i);
		collector->report->samples += samples.all;
	}
}

/* ------------------------------------------------------------------ lines and kernels */

ARRAY_ORDER(compare_entries, struct line_of_node,
	    ORDER_OF(a->kernel, b->kernel) ?: ORDER_OF(a->file, b->file)
	    ?: ORDER_OF(a->line, b->line))

static void make_lines(struct collector *collector, struct source_kernel *kernel,
		       const struct line_of_node *entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct line_of_node *entry = &entries[i];

		if (i == 0 || compare_entries(entry, &entries[i - 1]) != 0) {
			XADD(kernel->lines, kernel->line_count,
			     (struct source_line){
				     .file = entry->file, .line = entry->line, .is_inlined = true});
		}
		struct source_line *line = &kernel->lines[kernel->line_count - 1];
		line->is_inlined = line->is_inlined && !entry->is_outermost;
		add_samples(collector, entry->node, &line->samples);
		if (entry->is_outermost)
			add_samples(collector, entry->node, &kernel->samples);
	}
}

/* Files by their samples; lines that are not known come last. */
ARRAY_ORDER(compare_lines, struct source_line,
	    ORDER_OF(!a->file, !b->file) ?: ORDER_OF(b->file_samples, a->file_samples)
	    ?: ORDER_OF(a->file, b->file) ?: ORDER_OF(a->line, b->line))

/* The kernel's own file comes first, then files of inlined functions. */
static void sort_lines(struct source_kernel *kernel)
{
	struct source_line *lines = kernel->lines;

	for (size_t i = 0, end; i < kernel->line_count; i = end) {
		uint64_t samples = 0;

		for (end = i; end < kernel->line_count && lines[end].file == lines[i].file; end++)
			samples += lines[end].is_inlined ? 0 : lines[end].samples.all;
		for (size_t k = i; k < end; k++)
			lines[k].file_samples = samples;
	}
	ARRAY_SORT(lines, kernel->line_count, compare_lines);
}

ARRAY_ORDER(compare_places, struct source_line,
	    ORDER_OF(a->file, b->file) ?: ORDER_OF(a->line, b->line)
	    ?: ORDER_OF(b->samples.all, a->samples.all))

void source_lines_settle(struct source_kernel *kernel)
{
	struct source_line *lines = kernel->lines;
	size_t count = 0;

	ARRAY_SORT(lines, kernel->line_count, compare_places);
	for (size_t i = 0; i < kernel->line_count; i++)
		if (!count || lines[count - 1].file != lines[i].file ||
		    lines[count - 1].line != lines[i].line)
			lines[count++] = lines[i];
	kernel->line_count = count;
	sort_lines(kernel);
}

ARRAY_ORDER(compare_kernels, struct source_kernel,
	    ORDER_OF(b->samples.all, a->samples.all) ?: ORDER_OF(a->frame, b->frame))

static void make_kernels(struct collector *collector)
{
	struct source_report *report = collector->report;
	size_t first = 0;

	ARRAY_SORT(collector->entries, collector->count, compare_entries);
	for (size_t i = 1; i <= collector->count; i++) {
		const struct line_of_node *entries = &collector->entries[first];

		if (i < collector->count && entries[i - first].kernel == entries->kernel)
			continue;
		XADD(report->kernels, report->kernel_count,
		     (struct source_kernel){.frame = entries->kernel});
		struct source_kernel *kernel = &report->kernels[report->kernel_count - 1];
		make_lines(collector, kernel, entries, i - first);
		sort_lines(kernel);
		first = i;
	}
	ARRAY_SORT(report->kernels, report->kernel_count, compare_kernels);
}

/* Adds the samples of each kernel that were divided. Nodes are those that count. */
static void add_apportioned(const struct collector *collector, const uint8_t *state)
{
	struct source_report *report = collector->report;
	const struct profile *profile = report->profile;
	AUTO_FREE uint32_t *kernel_of_frame =
		xcalloc(profile->frame_count, sizeof(*kernel_of_frame));
	uint32_t metric = 0;

	while (metric < profile->metric_count &&
	       (profile->metrics[metric].type != PROTON_METRIC_INT64 ||
		strcasecmp(profile_text(profile, profile->metrics[metric].name),
			   SAMPLES_APPORTIONED) != 0))
		metric++;
	for (uint32_t k = 0; k < report->kernel_count; k++)
		kernel_of_frame[report->kernels[k].frame] = k + 1;
	for (uint32_t i = 1; metric < profile->metric_count && i < profile->node_count; i++) {
		uint32_t kernel = kernel_of_frame[profile->nodes[i].frame];

		if (!kernel || state[i] != NODE_SHOWN ||
		    (collector->is_wanted && !collector->is_wanted[i]))
			continue;
		for (uint32_t v = profile->nodes[i].first_value; v; v = profile->values[v].next)
			if (profile->values[v].metric == metric && profile->values[v].as.int64 > 0)
				report->kernels[kernel - 1].apportioned +=
					(uint64_t)profile->values[v].as.int64;
	}
}

int source_report_init(struct source_report *report, struct profile *profile, const uint8_t *state,
		       const char *kernel, struct proton_error *err)
{
	struct collector collector = {.report = report};
	int status = PROTON_OK;

	*report = (struct source_report){.profile = profile};
	if (kernel)
		status = filter_matches(profile, NULL, kernel, &collector.is_wanted, err);
	if (status)
		return status;
	find_metrics(&collector);
	collect(&collector, state);
	make_kernels(&collector);
	add_apportioned(&collector, state);
	FREE_ALL(collector.reason_of, collector.kernels, collector.is_wanted, collector.entries);
	return PROTON_OK;
}

void source_report_fini(struct source_report *report)
{
	for (size_t i = 0; i < report->kernel_count; i++)
		free(report->kernels[i].lines);
	free(report->kernels);
}

/* ------------------------------------------------------------------ what it waits for */

size_t source_waits(const struct source_report *report, const struct source_samples *samples,
		    uint32_t waits[SOURCE_REASONS_MAX])
{
	size_t count = 0;

	for (uint32_t r = 0; r < report->reason_count; r++) {
		const struct stall_reason *known = report->reasons[r].known;
		size_t at = count;

		if (!samples->by_reason[r] || (known && known->is_ready))
			continue;
		for (; at && samples->by_reason[waits[at - 1]] < samples->by_reason[r]; at--)
			waits[at] = waits[at - 1];
		waits[at] = r;
		count++;
	}
	return count;
}

uint32_t source_reason_of(const struct source_report *report, uint32_t name)
{
	uint32_t i = 0;

	while (i < report->reason_count &&
	       report->profile->metrics[report->reasons[i].metric].name != name)
		i++;
	return i;
}

const struct source_line *source_hottest(const struct source_kernel *kernel, uint32_t reason)
{
	const struct source_line *hottest = NULL;

	ARRAY_EACH(line, kernel->lines, kernel->line_count) {
		if (!line->file || line->is_inlined || !line->samples.by_reason[reason])
			continue;
		if (!hottest ||
		    line->samples.by_reason[reason] > hottest->samples.by_reason[reason])
			hottest = line;
	}
	return hottest;
}
