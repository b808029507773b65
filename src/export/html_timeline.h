/*
 * The time line of the HTML report: the slices of one process or several, track by track, as
 * numbers like those of html_tree.h. A track has a name and a number of slices; one without is the
 * process of the next ones. Per slice: nanoseconds since the start of the slice before it
 * on its track, its duration, and the index of its context. A context is the index of a name, and
 * the place of a frame among the frames of the page, or of the nearest one above it.
 */
#pragma once

#include "export/export.h"
#include "export/html_tree.h"
#include "export/timeline.h"

#define HTML_SLICES_MAX UINT64_C(4000000) /* a browser needs 25 bytes for each */

struct html_timeline {
	const struct export_view *page;
	uint32_t *place; /* by node of the page's profile */
	struct json_writer json, names;
	struct out text, names_out;
	struct html_bytes slices, contexts;
	struct strings known;         /* names */
	struct hash_table numbers;    /* of names, by their id; + 1 */
	struct hash_table context_of; /* (name, place) -> context + 1 */
	struct hash_table children;   /* (parent, name) -> node, in the page's profile */
	uint64_t duration_ns, slice_count;
	uint32_t name_count, context_count, left_out;
	/* The process that is added. */
	const struct profile *profile;
	struct timeline timeline;
	const struct trace_part *part;
	uint64_t base_ns;
	uint32_t *node_of;     /* node of the page's profile, by node; NULL: the same */
	struct hash_table own; /* (node, kind of launch) -> context + 1 */
	uint64_t before_ns;    /* start of the last slice of the track */
	uint64_t track_slices;
};

/* Begins an object in `out`, which fails if memory runs out. */
void html_timeline_init(struct html_timeline *line, const struct export_view *page,
			struct out *out);
/*
 * Adds a process, in the order of their numbers: the profile of the page, or one that was merged to
 * it, which has a trace. A process that does not fit into the page is counted only.
 */
void html_timeline_add(struct html_timeline *line, const struct profile *profile,
		       const struct trace_part *part);
/* Ends the object, and releases everything. */
void html_timeline_end(struct html_timeline *line);
