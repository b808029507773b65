/*
 * Invariants of any loaded profile, whatever its input: links stay inside
 * and lead forward, every exporter and the roll-up take it, and what was exported loads again.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "model/fold.h"
#include "model/load.h"
#include "model/rollup.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline void check_text(const struct profile *profile, uint32_t string)
{
	MUST((uint64_t)string * 8 < profile->strings.used);
	MUST(profile_text(profile, string)[string_length(&profile->strings, string)] == '\0');
}

static inline void check_configs(const struct profile *profile, uint32_t launch)
{
	size_t steps = 0;

	for (; launch; launch = profile->configs[launch].next) {
		MUST(launch < profile->config_count && steps++ <= CONFIGS_PER_KERNEL);
		MUST(!(profile->configs[launch].flags & CONFIG_OTHER) ||
		     !profile->configs[launch].next);
	}
}

static inline void check_lists(const struct profile *profile, uint32_t node)
{
	size_t steps = 0;

	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next) {
		const struct row_metric *metric;

		MUST(v < profile->value_count && steps++ < profile->value_count);
		MUST(profile->values[v].metric < profile->metric_count);
		metric = &profile->metrics[profile->values[v].metric];
		if (metric->type == PROTON_METRIC_STRING)
			check_text(profile, profile->values[v].as.string);
		if (metric->type == PROTON_METRIC_INT64_VECTOR ||
		    metric->type == PROTON_METRIC_DOUBLE_VECTOR) {
			uint32_t at = profile->values[v].as.vector;

			MUST(at < profile->word_count);
			MUST(profile->words[at] < profile->word_count - at);
		}
	}
	steps = 0;
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		MUST(k < profile->kernel_count && steps++ < profile->kernel_count);
		MUST(profile->kernels[k].device < profile->device_count);
		MUST(profile->kernels[k].histogram < profile->histogram_count);
		check_configs(profile, profile->kernels[k].first_config);
	}
}

static inline void check_samples(const struct profile *profile)
{
	const struct profile_samples *samples = profile->samples;

	for (size_t i = 0; i < samples->reason_count; i++)
		check_text(profile, samples->reasons[i]);
	for (size_t i = 0; i < samples->file_count; i++)
		check_text(profile, samples->files[i]);
	for (size_t i = 0; i < samples->source_count; i++)
		check_text(profile, samples->sources[i].path);
	for (size_t i = 0; i < samples->function_count; i++) {
		const struct profile_function *function = &samples->functions[i];

		check_text(profile, function->name);
		MUST(function->code_object <= samples->code_object_count);
		MUST(function->first_pc + function->pc_count <= samples->pc_count);
		MUST(!i || function[-1].samples >= function->samples);
	}
	for (size_t i = 0; i < samples->pc_count; i++)
		MUST(samples->pcs[i].reason < SAMPLES_REASONS_MAX);
}

static inline void check_ranks(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;

	for (size_t i = 0; i < ranks->count; i++) {
		check_text(profile, ranks->rows[i].host);
		check_text(profile, ranks->rows[i].reason);
	}
	for (size_t i = 1; i < ranks->spread_count; i++) {
		const struct row_spread *spread = &ranks->spreads[i];

		MUST(spread->node < profile->node_count && spread->ranks);
		MUST(ranks_spread(profile, spread->node) == spread);
	}
	for (size_t i = 1; i < ranks->values.count; i++) {
		const struct row_value_spread *row = &ranks->values.rows[i];

		MUST(row->node < profile->node_count && row->metric < profile->metric_count);
		MUST(value_spreads_find(&profile->ranks->values, row->node, row->metric) == row);
	}
	for (size_t i = 0; i < ranks->column_count; i++) {
		MUST(ranks->columns[i].node < profile->node_count);
		MUST(ranks_column(profile, ranks->columns[i].node));
	}
}

static inline void check_waits(const struct profile *profile)
{
	const struct profile_waits *waits = profile->waits;
	size_t occurrences = 0;

	for (size_t i = 0; i < waits->duration_count; i++) {
		MUST(waits->durations[i].node < profile->node_count);
		MUST(waits->durations[i].count <= DURATIONS_PER_ROW);
		check_text(profile, waits->durations[i].group);
	}
	for (size_t i = 0; i < waits->count; i++) {
		MUST(waits->series[i].row.node < profile->node_count);
		check_text(profile, waits->series[i].row.group);
		occurrences += waits->series[i].row.rows;
	}
	MUST(occurrences == waits->occurrences);
}

static inline void check_profile(const struct profile *profile)
{
	if (profile->ranks)
		check_ranks(profile);
	if (profile->waits)
		check_waits(profile);
	if (profile->samples)
		check_samples(profile);
	MUST(!profile->out_of_memory && profile->node_count >= 1 && profile->frame_count >= 1);
	for (uint32_t i = 0; i < profile->frame_count; i++) {
		check_text(profile, profile->frames[i].name);
		check_text(profile, profile->frames[i].file);
	}
	for (uint32_t i = 0; i < profile->metric_count; i++)
		check_text(profile, profile->metrics[i].name);
	for (uint32_t i = 0; i < profile->device_count; i++)
		check_text(profile, profile->devices[i].type);
	for (uint32_t i = 0; i < profile->node_count; i++) {
		MUST(i == 0 || profile->nodes[i].parent < i);
		MUST(profile->nodes[i].frame < profile->frame_count);
		MUST(profile->nodes[i].first_child == 0 || profile->nodes[i].first_child > i);
		MUST(profile->nodes[i].next_sibling == 0 || profile->nodes[i].next_sibling > i);
		check_lists(profile, i);
	}
	for (uint32_t i = 0; i < profile->metric_count; i++) {
		struct column column;

		if (rollup_metric(profile, profile_text(profile, profile->metrics[i].name), true,
				  &column, NULL) == PROTON_OK)
			column_fini(&column);
		if (i == 50)
			break;
	}
}

/* Exports, loads what came out, and exports that: both texts must be the same from then on. */
static inline void check_exports(const struct profile *profile)
{
	for (size_t i = 0; export_format_at(i); i++) {
		const struct export_format *format = export_format_at(i);
		struct profile *again = NULL;
		struct proton_error err;
		struct out out;

		if (format->needs_trace)
			continue; /* see check_trace() */
		out_init(&out, -1);
		MUST(format->write(profile, &out, &err) == PROTON_OK);
		MUST(out_finish(&out, &err) == PROTON_OK);
		if (profile_load_bytes("again", out.bytes, out.length, &again, &err) != PROTON_OK) {
			fprintf(stderr, "%s: %s\n", format->name, err.text);
			abort();
		}
		check_profile(again);
		MUST(again->node_count >= profile->node_count);
		profile_free(again);
		out_fini(&out);
	}
}

/* Every format of traces takes the events, whatever is in their rows. */
static inline void check_trace(const struct profile *profile)
{
	for (size_t i = 0; profile->trace && export_format_at(i); i++) {
		const struct export_format *format = export_format_at(i);
		struct proton_error err;
		struct out out;

		if (!format->needs_trace)
			continue;
		out_init(&out, -1);
		MUST(format->write(profile, &out, &err) == PROTON_OK);
		MUST(out_finish(&out, &err) == PROTON_OK);
		out_fini(&out);
	}
}

/* Hides about half of the nodes. The rest is a valid profile. */
static inline void check_fold(struct profile *profile)
{
	bool *is_hidden = calloc(profile->node_count, sizeof(*is_hidden));
	size_t count = profile->node_count;
	size_t hidden;

	for (uint32_t i = 0; i < count; i++)
		is_hidden[i] = (i * UINT32_C(2654435761)) >> 31;
	hidden = fold_allowed(profile, is_hidden);
	MUST(!is_hidden[0] && hidden < count);
	profile_fold(profile, is_hidden);
	MUST(profile->node_count <= count - hidden);
	check_profile(profile);
	check_trace(profile);
	free(is_hidden);
}
