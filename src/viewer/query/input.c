/*
 * Input files of proton-viewer: expands directories, loads profiles, prints warnings about losses.
 */
#include "viewer/query/input.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/message.h"
#include "format/rank.h"
#include "model/ranks.h"
#include "model/warp_metrics.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"

#define PARTIAL_NAMED_MAX 3u /* scopes in a message */

/* In order of preference among several forms of the same profile. */
static const char *const suffixes[] = {".proton", ".hatchet", ".hatchet_msgpack"};

const char *input_display_name(const char *path)
{
	return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* The start of a file's suffix, and its index in `suffixes`; NULL: none. */
static const char *suffix_of(const char *name, size_t *kind_out)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < ARRAY_LENGTH(suffixes); i++) {
		size_t suffix = strlen(suffixes[i]);

		if (length > suffix && strcmp(name + length - suffix, suffixes[i]) == 0) {
			*kind_out = i;
			return name + length - suffix;
		}
	}
	return NULL;
}

bool input_is_profile_name(const char *name)
{
	size_t kind;

	return name[0] != '.' && suffix_of(name, &kind) != NULL;
}

/* NAME.ranks, or one of the directories in it: 000-999. */
static bool is_of_ranks(const char *name)
{
	return rank_is_job(name, strlen(name)) || rank_is_range(name, strlen(name));
}

static int is_profile(const struct dirent *entry)
{
	return input_is_profile_name(entry->d_name) ||
	       (is_of_ranks(entry->d_name) && entry->d_type != DT_REG);
}

static void add_path(struct input *input, const char *directory, const char *name)
{
	XADD(input->paths, input->count,
	     xasprintf("%s%s%s", directory, *directory ? "/" : "", name));
}

static int compare_entry(const void *name, const void *entry)
{
	return strverscmp(name, (*(struct dirent *const *)entry)->d_name);
}

/* True if the directory has a preferred form of the profile `name`. Entries are sorted. */
static bool is_there_already(struct dirent **entries, int count, const char *name)
{
	size_t kind = 0;
	const char *suffix = suffix_of(name, &kind);
	bool is_found = false;

	for (size_t i = 0; i < kind && i < ARRAY_LENGTH(suffixes) && !is_found; i++) {
		char other[sizeof(entries[0]->d_name) + 16];

		snprintf(other, sizeof(other), "%.*s%s", (int)(suffix - name), name, suffixes[i]);
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
		is_found = bsearch(other, entries, (size_t)count, sizeof(*entries), compare_entry);
	}
	return is_found;
}

/* NAME.ranks, the directories in it, and the directory that contains it. */
#define DEPTH_MAX 3

static void add_entries(struct input *input, const char *path, int depth)
{
	struct dirent **entries;
	int count = scandir(path, &entries, is_profile, versionsort);

	if (count < 0) {
		message("cannot read %s: %s", path, strerror(errno));
		input->has_failed = true;
		return;
	}
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (is_of_ranks(name) && depth < DEPTH_MAX) {
			AUTO_FREE char *below = xasprintf("%s/%s", path, name);

			add_entries(input, below, depth + 1);
		} else if (!is_of_ranks(name) && !is_there_already(entries, count, name)) {
			add_path(input, path, name);
		}
	}
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
}

static void add_directory(struct input *input, const char *path)
{
	size_t before = input->count;

	add_entries(input, path, 1);
	if (input->count == before && !input->has_failed) {
		message("cannot read %s: it is a directory without profiles (.proton, .hatchet or "
			".hatchet_msgpack)",
			path);
		input->has_failed = true;
	}
}

/* Labels are file names without suffix; with the directory if they are not unique otherwise. */
static void make_labels(struct input *input)
{
	bool is_ambiguous = false;

	input->labels = xcalloc(input->unit_count, sizeof(*input->labels));
	for (size_t i = 0; i < input->unit_count; i++) {
		const char *path = input_display_name(input->units[i].name);
		const char *name = basename(path);
		size_t kind;
		const char *suffix = suffix_of(name, &kind);

		input->labels[i] = xstrndup(name, suffix ? (size_t)(suffix - name) : strlen(name));
		is_ambiguous = is_ambiguous ||
			       (i && strcmp(input->labels[i], input->labels[i - 1]) == 0);
	}
	for (size_t i = 0; is_ambiguous && i < input->unit_count; i++) {
		free(input->labels[i]);
		input->labels[i] = xstrdup(input->units[i].name);
	}
}

/* A file while units are made. */
struct member {
	char *path;
	const char *name; /* its unit */
	size_t order;     /* number of the first file with that name */
	bool is_found;
};

ARRAY_ORDER(compare_members, struct member,
	    ORDER_OF(a->order, b->order) ?: strverscmp(a->path, b->path))

static void free_units(struct input *input)
{
	for (size_t i = 0; i < input->unit_count; i++) {
		FREE_ALL(input->units[i].name, input->labels[i]);
	}
	FREE_ALL(input->units, input->labels);
}

void input_regroup(struct input *input, const char *const *names)
{
	AUTO_FREE struct member *members = xcalloc(input->count, sizeof(*members));
	struct input_unit *units = xcalloc(input->count, sizeof(*units));
	AT_END(hash_table_fini) struct hash_table orders = {0}; /* by name; + 1 */
	struct input_unit *unit = units - 1;
	const char *twin = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < input->count; i++) {
		uint64_t hash = names[i] ? hash_bytes(names[i], strlen(names[i])) : 0;
		size_t order = names[i] ? hash_table_find(&orders, hash) : 0;

		if (names[i] && !order && !hash_table_add(&orders, hash, (uint32_t)i + 1))
			xgive_up();
		if (names[i])
			members[kept++] = (struct member){input->paths[i], names[i],
							  order ? order : i + 1,
							  input->is_found[i]};
		else
			free(input->paths[i]);
	}
	ARRAY_SORT(members, kept, compare_members);
	input->count = 0;
	for (size_t i = 0; i < kept; i++) {
		const struct member *at = &members[i];

		if (!i || at->order != at[-1].order)
			*++unit = (struct input_unit){
				.name = xstrdup(at->name), .first = input->count, .is_job = true};
		else if (strcmp(at->path, at[-1].path) == 0) {
			free(at[-1].path);
			input->count--;
			unit->count--;
			twin = at->path;
		}
		unit->is_job &= strcmp(at->name, at->path) != 0;
		input->is_found[input->count] = at->is_found;
		input->paths[input->count++] = at->path;
		unit->count++;
	}
	if (twin)
		message("%s is named twice: it is counted once", twin);
	free_units(input);
	input->units = units;
	input->unit_count = (size_t)(unit + 1 - units);
	make_labels(input);
}

void input_init(struct input *input, char *const *paths, size_t count)
{
	size_t found = 0;

	*input = (struct input){0};
	for (size_t i = 0; i < count; i++) {
		struct stat status;

		bool is_directory = strcmp(paths[i], "-") != 0 && stat(paths[i], &status) == 0 &&
				    S_ISDIR(status.st_mode);

		if (is_directory)
			add_directory(input, paths[i]);
		else
			add_path(input, "", paths[i]);
		while (found < input->count)
			XADD(input->is_found, found, is_directory);
	}
	input_regroup(input, (const char *const *)input->paths);
}

void input_fini(struct input *input)
{
	for (size_t i = 0; i < input->count; i++)
		free(input->paths[i]);
	FREE_ALL(input->paths, input->is_found);
	free_units(input);
	for (size_t i = 0; i < input->looked_count; i++) {
		free(input->looked[i].path);
		profile_free(input->looked[i].profile);
	}
	FREE_ALL(input->looked, input->seen);
	profile_free(input->roster);
	*input = (struct input){0};
}

struct merge *sum_begin(struct profile **sum_out)
{
	*sum_out = profile_new();
	struct merge *merge = *sum_out ? merge_new(*sum_out) : NULL;
	if (!merge)
		xgive_up();
	return merge;
}

void sum_add(struct merge *merge, struct profile *source)
{
	merge_tree(merge, source);
	profile_free(source);
}

struct profile *sum_end(struct merge *merge, struct profile *sum)
{
	merge_free(merge);
	if (sum->out_of_memory)
		xgive_up();
	return sum;
}

/* Prints why a profile is incomplete; false: the command needs a complete one. */
static bool is_accepted(struct input *input, const struct profile *profile, const char *name)
{
	bool is_refused = input->needs_complete && !input->is_partial_allowed;
	/* The table of the ranks says what a merged file lacks: see rank_job_input.h. */
	bool is_unfinished = profile->is_unfinished && !profile->ranks;
	const char *mixed = profile_info_text(profile, RANKS_MIXED);
	const char *refusal = is_refused ? " needs a complete profile; use --allow-partial to "
					   "accept this one"
					 : "";

	if (*mixed)
		message("%s is a sum of several launches: %s", name, mixed);

	if (is_unfinished)
		message("%s: incomplete recording (the process was killed or is still recording); "
			"%s%s",
			name,
			is_refused ? input->needs_complete : "showing the data recorded so far",
			refusal);
	if (profile->is_damaged && !(is_refused && is_unfinished))
		message("%s is corrupt; %s%s", name,
			is_refused ? input->needs_complete : "showing what could be read", refusal);
	if (is_refused)
		return !is_unfinished && !profile->is_damaged;
	input->is_cut |= profile->is_damaged && !input->is_partial_allowed;
	return true;
}

void input_store_fini(struct input_store *store)
{
	for (size_t i = 0; i < store->count; i++) {
		FREE_ALL(store->files[i].path, store->files[i].bytes.bytes);
	}
	free(store->files);
	profile_free(store->first);
	*store = (struct input_store){0};
}

bool input_store_add(struct input_store *store, const char *path, struct profile_bytes *bytes)
{
	char *name = strdup(path);

	if (!name || !ARRAY_ADD(store->files, store->count, (struct input_kept){name, *bytes})) {
		free(name);
		return false;
	}
	*bytes = (struct profile_bytes){0};
	return true;
}

/* The store's bytes of a file; none yet if it is new. */
static struct profile_bytes *kept_bytes(struct input_store *store, const char *path)
{
	for (size_t i = 0; store && i < store->count; i++)
		if (strcmp(store->files[i].path, path) == 0)
			return &store->files[i].bytes;
	if (!store)
		return NULL;
	if (!input_store_add(store, path, &(struct profile_bytes){0}))
		xgive_up();
	return &store->files[store->count - 1].bytes;
}

void input_put_back(struct input *input, const char *path, struct profile *profile)
{
	XADD(input->looked, input->looked_count, (struct looked){xstrdup(path), profile});
}

static struct profile *take_looked(struct input *input, const char *path)
{
	struct profile *profile = NULL;

	for (size_t i = 0; i < input->looked_count && !profile; i++) {
		if (strcmp(input->looked[i].path, path) != 0)
			continue;
		profile = input->looked[i].profile;
		input->looked[i].profile = NULL;
	}
	return profile;
}

struct profile *input_load(struct input *input, size_t index)
{
	struct profile *profile = take_looked(input, input->paths[index]);
	struct profile_bytes *kept = kept_bytes(input->store, input->paths[index]);
	struct proton_error err;
	const char *name = input_display_name(input->paths[index]);

	/* The file may have changed since its bytes were kept. */
	if (kept) {
		profile_free(profile);
		profile = NULL;
	}
	progress_begin("reading", input->paths[index]);
	int status =
		profile_load_next(input->paths[index], kept, &input->more_bytes, &profile, &err);
	progress_end();
	if (status) {
		message("%s", err.text);
		if (status == PROTON_E_FORMAT && input->is_partial_allowed)
			input->left_out++;
		else
			input->has_failed = true;
		return NULL;
	}
	if (!is_accepted(input, profile, name)) {
		profile_free(profile);
		input->has_failed = true;
		return NULL;
	}
	return profile;
}

struct profile *input_load_quietly(const char *path)
{
	struct profile *profile = NULL;

	if (strcmp(path, "-") != 0 && profile_load_file(path, &profile, NULL) == PROTON_OK)
		return profile;
	return NULL;
}

bool input_is_refused(const struct input *input)
{
	return input->needs_complete && input->has_failed;
}

struct profile *input_load_unit(struct input *input, const struct input_unit *unit)
{
	struct profile *sum;
	bool is_loaded = false;

	if (unit->count == 1)
		return input_load(input, unit->first);
	struct merge *merge = sum_begin(&sum);
	for (size_t i = 0; i < unit->count; i++) {
		struct profile *profile = input_load(input, unit->first + i);

		if (profile)
			sum_add(merge, profile);
		is_loaded |= profile != NULL;
	}
	sum_end(merge, sum);
	if (is_loaded)
		return sum;
	profile_free(sum);
	return NULL;
}

/* The remedy for a loss; the whole table is in docs/guide/failures.md. */
static const char *remedy_of(const char *cause)
{
	static const struct {
		const char *cause, *remedy;
	} remedies[] = {
		{"profile storage full", "free disk space, use fewer contexts, or clear phases"},
		{"without a known launch", "start the session before the launches of interest"},
		{"collective beyond", "use fewer scopes around collectives"},
		{"PC samples", "choose a larger interval, or windows (mode pcsampling)"},
		{"dropped by the vendor", "increase TRITON_PROFILE_BUFFER_SIZE"},
		{"after its phase was cleared", "clear phases only when they are complete"},
		{"name beyond the limits",
		 "remove request or step numbers from names, or increase PROTON_MAX_CHILDREN"},
		{"beyond 64 bits", "use a float metric or a coarser unit"},
		{"of a different type", "use one type per metric name and context"},
		{"record without a time",
		 "launch fewer kernels between flushes (phases), or update the driver"},
		{"ends before it starts", "update the driver or CUPTI, or use shorter sessions"},
		{"without a known call", "start the session before the copies of interest"},
		{"never received", "stop other tools that use CUPTI first"},
		{"record overwritten",
		 "increase buffer_size, or record fewer warps (sampling_options) or scopes"},
		{"unpaired intra-kernel", "extend the scopes to more of the kernel"},
		{"undecodable intra-kernel", "see the warnings on standard error"},
		{"device or CUDA graph metric", "use fewer tensors per graph replay"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(remedies); i++) {
		if (strstr(cause, remedies[i].cause))
			return remedies[i].remedy;
	}
	return NULL;
}

static bool has_partial(const struct profile *profile, const struct profile_node *node)
{
	for (uint32_t v = node->first_value; v; v = profile->values[v].next) {
		const struct row_metric *metric = &profile->metrics[profile->values[v].metric];

		if (strcmp(profile_text(profile, metric->name), SCOPE_PARTIAL_EXECUTIONS) == 0)
			return true;
	}
	return false;
}

/* Warns of intra-kernel scopes with cycles that are a lower bound, naming the first few. */
static void report_partial(const struct profile *profile)
{
	char names[256] = "";
	size_t used = 0, count = 0;

	for (size_t i = 0; i < profile->node_count; i++) {
		char name[80];

		if (!has_partial(profile, &profile->nodes[i]))
			continue;
		profile_frame_text(profile, profile->nodes[i].frame, name, sizeof(name));
		if (count++ < PARTIAL_NAMED_MAX)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 count > 1 ? ", " : "", name);
	}
	if (count)
		message("the cycles of %zu intra-kernel scope%s are a lower bound, because only a "
			"part was recorded (" SCOPE_PARTIAL_EXECUTIONS "): %s%s",
			count, count > 1 ? "s" : "", names,
			count > PARTIAL_NAMED_MAX ? ", ..." : "");
}

#define LOSSES_SHOWN 20

void input_report_losses(const struct profile *profile)
{
	size_t count = 0;

	ARRAY_EACH(counter, profile->counters, profile->counter_count) {
		const char *cause = profile_text(profile, counter->name);

		if (!counter->is_loss || !counter->value || ++count > LOSSES_SHOWN)
			continue;
		const char *remedy = remedy_of(cause);
		message("%s%s: %" PRIu64 "%s%s",
			strncmp(cause, "lost", 4) == 0 ? "" : "lost: ", cause, counter->value,
			remedy ? "; to avoid this: " : "", remedy ? remedy : "");
	}
	if (count > LOSSES_SHOWN)
		message("lost: %zu more counters are not shown", count - LOSSES_SHOWN);
	report_partial(profile);
}
