/* The time line of the HTML report: the slices of traces as numbers. */
#include "export/html_timeline.h"

#define NAMES_BYTES_MAX ((size_t)1 << 30) /* address space for names */

/* ------------------------------------------------------------------ names and frames */

static void add_entry(struct html_timeline *line, struct hash_table *table, uint64_t hash,
		      uint32_t value)
{
	out_fail(line->json.out, hash_table_add(table, hash, value) ? 0 : ENOMEM);
}

static uint32_t number_name(struct html_timeline *line, const char *name, size_t length)
{
	uint32_t id = strings_add(&line->known, name, length);
	uint32_t number = hash_table_find(&line->numbers, hash_u64(id));

	out_fail(line->json.out, id == STRING_NONE ? ENOMEM : 0);
	if (number || line->json.out->errnum)
		return number - 1;
	json_string(&line->names, string_text(&line->known, id), string_length(&line->known, id));
	add_entry(line, &line->numbers, hash_u64(id), ++line->name_count);
	return line->name_count - 1;
}

/* The number of a node's name, as the page writes it. */
static uint32_t name_of_node(struct html_timeline *line, const struct profile *profile,
			     uint32_t node)
{
	struct export_view view = *line->page;

	view.profile = profile;
	line->text.length = 0;
	view.write_name(&line->text, &view, profile->nodes[node].frame);
	out_fail(line->json.out, line->text.errnum);
	return number_name(line, line->text.bytes, line->text.length);
}

/* By the names in their paths. A node that the page lacks or hides is its parent there. */
static void find_nodes(struct html_timeline *line)
{
	const struct profile *page = line->page->profile;
	const struct profile *profile = line->profile;
	bool is_known = line->children.count;

	for (uint32_t i = 1; !is_known && i < page->node_count; i++)
		add_entry(line, &line->children,
			  hash_pair(page->nodes[i].parent, name_of_node(line, page, i)), i);
	line->node_of[0] = 0;
	for (uint32_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = line->node_of[profile->nodes[i].parent];
		uint64_t hash = hash_pair(parent, name_of_node(line, profile, i));
		uint32_t found = hash_table_find(&line->children, hash);

		line->node_of[i] = found ? found : parent;
	}
}

static uint32_t context_of(struct html_timeline *line, const struct timeline_slice *slice)
{
	bool is_launch = slice->event && slice->event->kind == EVENT_LAUNCH &&
			 !(slice->event->flags & EVENT_NAMED);
	const char *launch = is_launch ? timeline_launch_name(slice->event->flags) : NULL;
	uint64_t own = hash_pair(slice->node, is_launch ? slice->event->flags + 1u : 0);
	uint32_t found = hash_table_find(&line->own, own);
	uint32_t node = line->node_of ? line->node_of[slice->node] : slice->node;
	uint32_t place = line->place[line->page->owner[node]];

	if (found)
		return found - 1;
	uint32_t name = launch ? number_name(line, launch, strlen(launch))
			       : name_of_node(line, line->profile, slice->node);
	found = hash_table_find(&line->context_of, hash_pair(name, place));
	if (!found) {
		html_put_number(&line->contexts, name);
		html_put_number(&line->contexts, place);
		found = ++line->context_count;
		add_entry(line, &line->context_of, hash_pair(name, place), found);
	}
	add_entry(line, &line->own, own, found);
	return found - 1;
}

/* ------------------------------------------------------------------ slices */

static void begin_track(void *context, const struct timeline_track *track)
{
	struct html_timeline *line = context;
	char name[128];
	size_t length = timeline_track_name(&line->timeline, track, name, sizeof(name));

	line->before_ns = line->base_ns;
	line->track_slices = 0;
	json_line_break(&line->json);
	json_begin_array(&line->json);
	json_string(&line->json, name, length);
}

static void add_slice(void *context, const struct timeline_slice *slice)
{
	struct html_timeline *line = context;
	uint64_t start_ns = slice->start_ns + (uint64_t)line->part->shift_ns;
	uint64_t end_ns = slice->end_ns + (uint64_t)line->part->shift_ns;

	start_ns = start_ns > line->before_ns ? start_ns : line->before_ns;
	end_ns = end_ns > start_ns ? end_ns : start_ns;
	html_put_number(&line->slices, start_ns - line->before_ns);
	html_put_number(&line->slices, end_ns - start_ns);
	html_put_number(&line->slices, context_of(line, slice));
	if (end_ns - line->base_ns > line->duration_ns)
		line->duration_ns = end_ns - line->base_ns;
	line->before_ns = start_ns;
	line->track_slices++;
}

static void end_track(void *context, const struct timeline_track *track)
{
	struct html_timeline *line = context;

	(void)track;
	json_uint64(&line->json, line->track_slices);
	json_end_array(&line->json);
}

/* ------------------------------------------------------------------ the whole */

void html_timeline_init(struct html_timeline *line, const struct export_view *page, struct out *out)
{
	uint32_t level = 0, count = 0, node = 0;

	*line = (struct html_timeline){
		.page = page, .text = OUT_IN_MEMORY, .names_out = OUT_IN_MEMORY};
	html_bytes_init(&line->slices);
	html_bytes_init(&line->contexts);
	json_writer_init(&line->json, out, false);
	json_writer_init(&line->names, &line->names_out, false);
	json_begin_object(&line->json);
	json_key_array(&line->json, "tracks");
	json_begin_array(&line->names);
	line->place = calloc(page->profile->node_count, sizeof(*line->place));
	if (!line->place || strings_init(&line->known, NAMES_BYTES_MAX, NULL) != PROTON_OK) {
		out_fail(out, ENOMEM);
		return;
	}
	do
		line->place[node] = count++;
	while ((node = export_view_next(page, node, &level)) != 0);
}

static void add_process(struct html_timeline *line)
{
	const struct timeline_sink sink = {line, begin_track, add_slice, end_track};

	if (line->profile != line->page->profile) {
		line->node_of = malloc((line->profile->node_count + 1) * sizeof(uint32_t));
		if (!line->node_of) {
			out_fail(line->json.out, ENOMEM);
			return;
		}
		find_nodes(line);
	}
	if (*line->part->name) {
		json_line_break(&line->json);
		json_begin_array(&line->json);
		json_text(&line->json, line->part->name);
		json_end_array(&line->json);
	}
	timeline_walk(&line->timeline, &sink, line->json.out);
}

void html_timeline_add(struct html_timeline *line, const struct profile *profile,
		       const struct trace_part *part)
{
	if (line->json.out->errnum)
		return;
	if (timeline_init(&line->timeline, profile, NULL) != PROTON_OK)
		out_fail(line->json.out, ENOMEM);
	line->profile = profile;
	line->part = part;
	line->base_ns = part->base_ns ? part->base_ns : line->timeline.base_ns;
	if (part->number && line->slice_count + line->timeline.count > HTML_SLICES_MAX) {
		line->left_out++;
	} else if (!line->json.out->errnum) {
		line->slice_count += line->timeline.count;
		add_process(line);
	}
	/* The memory that is of one process. */
	timeline_fini(&line->timeline);
	hash_table_fini(&line->own);
	free(line->node_of);
	line->node_of = NULL;
}

void html_timeline_end(struct html_timeline *line)
{
	struct json_writer *json = &line->json;

	json_end_array(json);
	json_key_double(json, "duration", (double)line->duration_ns);
	json_key_uint64(json, "leftOut", line->left_out);
	json_end_array(&line->names);
	json_key(json, "names");
	json_string_quoted(json, line->names_out.bytes, line->names_out.length);
	json_key(json, "contexts");
	html_bytes_write(&line->contexts, json);
	json_key(json, "slices");
	html_bytes_write(&line->slices, json);
	json_end_object(json);
	out_fail(json->out, line->names_out.errnum);
	html_bytes_fini(&line->slices);
	html_bytes_fini(&line->contexts);
	out_fini(&line->text);
	out_fini(&line->names_out);
	strings_fini(&line->known);
	hash_table_fini(&line->numbers);
	hash_table_fini(&line->context_of);
	hash_table_fini(&line->children);
	free(line->place);
}
