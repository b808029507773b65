/* Mixtures: finding ranks of several launches, and marking their sum. */
#include "viewer/ranks/rank_merge.h"

#include <stdio.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/message.h"
#include "format/rank.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"

#define VALUES_NAMED 3u /* values in a message */
#define LINES_MAX 5u    /* messages of a kind */

static const struct kind {
	const char *key; /* in the information of a profile */
	const char *name;
	size_t member;      /* its offset in struct row_rank */
	const char *absent; /* the text of 0 or "" */
	bool is_text;
} kinds[] = {
	{"rank", "rank in the profile", offsetof(struct row_rank, flags), "one", false},
	{"world_size", "number of ranks", offsetof(struct row_rank, world), "none", false},
	{"attempt", "restarts", offsetof(struct row_rank, attempt), "0", false},
	{"job", "job", offsetof(struct row_rank, job), "none", true},
	{"launch", "launch", offsetof(struct row_rank, launch), "none", true},
	{"launcher", "launcher", offsetof(struct row_rank, process), "none", true},
};
#define KIND_RANK (&kinds[0])
#define KIND_LAUNCHER (&kinds[5])

/* ------------------------------------------------------------------ one rank */

char *rank_mix_of_file(const struct profile *profile, const char *path)
{
	uint32_t rank = rank_of_name(path);
	uint32_t recorded, world;

	if (profile->ranks)
		return xasprintf("%s is a merged file of %zu ranks", path, profile->ranks->count);
	if (!rank_parse(profile_info_text(profile, "rank"), &recorded))
		return NULL;
	if (rank != RANK_NONE && rank != recorded)
		return xasprintf("%s was recorded by rank %u", path, recorded);
	if (rank_parse(profile_info_text(profile, "world_size"), &world) && recorded >= world)
		return xasprintf("%s has rank %u of %u ranks", path, recorded, world);
	return NULL;
}

char *rank_mix_of_two(const struct profile *first, const char *first_path,
		      const struct profile *second, const char *second_path)
{
	for (const struct kind *kind = kinds; kind < kinds + ARRAY_LENGTH(kinds); kind++) {
		const char *left = profile_info_text(first, kind->key);
		const char *right = profile_info_text(second, kind->key);
		const char *absent = kind == KIND_RANK ? "none" : kind->absent;

		if (strcmp(left, right) != 0)
			return xasprintf("%s: %s in %s, %s in %s",
					 kind == KIND_RANK ? kind->key : kind->name,
					 *left ? left : absent, first_path, *right ? right : absent,
					 second_path);
	}
	return NULL;
}

/* ------------------------------------------------------------------ all ranks */

/* A value that has to be equal in all rows of its scope. */
struct scope_value {
	uint64_t scope;
	uint32_t value;
	uint32_t row;
};

struct check {
	const struct rank_job *job;
	struct profile *merged;
	struct scope_value *entries;
	size_t count;
	const struct kind *kind;
	size_t lines;
	char *names; /* the kinds that differ; NULL: the ranks are of one launch */
};

/* Launchers are compared on each host, and there by the number of torchrun's agent. */
static uint64_t scope_of(const struct profile *merged, const struct row_rank *row)
{
	const char *host = profile_text(merged, row->host);
	const char *process = profile_text(merged, row->process);
	const char *end = strstr(process, "process");

	return hash_stored(host, strlen(host)) * 31 +
	       hash_stored(process, end ? (size_t)(end - process) : 0);
}

static uint32_t value_of(const struct row_rank *row, const struct kind *kind)
{
	uint32_t value;

	memcpy(&value, (const char *)row + kind->member, sizeof(value));
	return kind == KIND_RANK ? value & RANK_UNNAMED : value;
}

/* A value as text, in `number` if it is one. */
static const char *text_of(const struct check *check, uint32_t value, char number[static 16])
{
	const struct kind *kind = check->kind;
	const char *text = number;

	snprintf(number, 16, "%u", value);
	if (kind->is_text)
		text = profile_text(check->merged, value);
	else if (kind == KIND_RANK)
		text = "none";
	return value && *text ? text : kind->absent;
}

ARRAY_ORDER(compare_entries, struct scope_value,
	    ORDER_OF(a->scope, b->scope) ?: ORDER_OF(a->value, b->value)
	    ?: ORDER_OF(a->row, b->row))

static void take_entries(struct check *check)
{
	const struct profile_ranks *ranks = check->merged->ranks;

	check->count = 0;
	for (size_t i = 0; i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		/* The sum of unlike files has no values that differ. */
		if (row->state == RANK_MISSING || row->state == RANK_DAMAGED ||
		    (row->files > 1 && row->mixed) ||
		    (check->kind == KIND_LAUNCHER && !row->process))
			continue;
		check->entries[check->count++] = (struct scope_value){
			.scope = check->kind == KIND_LAUNCHER ? scope_of(check->merged, row) : 0,
			.value = value_of(row, check->kind),
			.row = (uint32_t)i,
		};
	}
	ARRAY_SORT(check->entries, check->count, compare_entries);
}

/* The end of the entries from `start` that are equal in value too, or in scope only. */
static size_t end_of_equal(const struct check *check, size_t start, bool has_value)
{
	const struct scope_value *first = &check->entries[start];
	size_t end = start;

	while (end < check->count && check->entries[end].scope == first->scope &&
	       (!has_value || check->entries[end].value == first->value))
		end++;
	return end;
}

static const char *path_of(const struct check *check, const struct row_rank *row)
{
	return check->job->paths[check->job->starts[row->number]];
}

/* "number of ranks: 8 in a.proton and 3 more, 4 in b.proton" */
static void print_values(struct check *check, size_t start, size_t end)
{
	const struct row_rank *rows = check->merged->ranks->rows;
	const struct row_rank *row = &rows[check->entries[start].row];
	bool is_local = check->kind == KIND_LAUNCHER;
	size_t values = 0;
	char number[16];
	struct out out;

	if (check->lines++ >= LINES_MAX)
		return;
	out_init(&out, -1);
	out_printf(&out, "%s%s%s:", check->kind->name, is_local ? " on host " : "",
		   is_local ? profile_text(check->merged, row->host) : "");
	for (size_t next; start < end; start = next) {
		next = end_of_equal(check, start, true);
		if (values++ >= VALUES_NAMED)
			continue;
		row = &rows[check->entries[start].row];
		out_printf(&out, "%s %s in %s", values > 1 ? "," : "",
			   text_of(check, check->entries[start].value, number),
			   path_of(check, row));
		if (next > start + 1)
			out_printf(&out, " and %zu more", next - start - 1);
	}
	if (values > VALUES_NAMED)
		out_printf(&out, ", and %zu others", values - VALUES_NAMED);
	out_byte(&out, '\0');
	if (out.errnum)
		xgive_up();
	message("%s", out.bytes);
	out_fini(&out);
}

static void mark_rank(struct check *check, uint32_t row_number, const char *text)
{
	struct row_rank *row = &check->merged->ranks->rows[row_number];

	if (!row->mixed)
		row->mixed = profile_add_text(check->merged, text);
}

/* Marks the entries that have another value than most. */
static void mark_others(struct check *check, size_t start, size_t end)
{
	size_t best = start, best_count = 0;
	char text[400], number[16];

	for (size_t i = start; i < end; i = end_of_equal(check, i, true)) {
		size_t count = end_of_equal(check, i, true) - i;

		if (count > best_count) {
			best_count = count;
			best = i;
		}
	}
	for (size_t i = start; i < end; i++) {
		if (check->entries[i].value == check->entries[best].value)
			continue;
		snprintf(text, sizeof(text), "%s: %s", check->kind->name,
			 text_of(check, check->entries[i].value, number));
		mark_rank(check, check->entries[i].row, text);
	}
}

static void note_kind(struct check *check, const char *what)
{
	AUTO_FREE char *before = check->names;

	check->names = xasprintf("%s%s%s", before ? before : "", before ? ", " : "", what);
}

static void check_kind(struct check *check, const struct kind *kind)
{
	bool is_noted = false;

	check->kind = kind;
	check->lines = 0;
	take_entries(check);
	for (size_t start = 0, end; start < check->count; start = end) {
		end = end_of_equal(check, start, false);
		if (end_of_equal(check, start, true) == end)
			continue;
		print_values(check, start, end);
		mark_others(check, start, end);
		if (!is_noted)
			note_kind(check, kind->name);
		is_noted = true;
	}
}

/* Differences that were found while the files of each rank were read. */
static void check_files(struct check *check)
{
	const struct profile_ranks *ranks = check->merged->ranks;
	size_t lines = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		if (!ranks->rows[i].mixed)
			continue;
		if (lines++ < LINES_MAX)
			message("%s", profile_text(check->merged, ranks->rows[i].mixed));
	}
	if (lines > LINES_MAX)
		message("the same is true of %zu more ranks", lines - LINES_MAX);
	if (lines)
		note_kind(check, "files of a rank");
}

/* The row before a duplicate is of the same rank. */
static void check_duplicates(struct check *check)
{
	const struct profile_ranks *ranks = check->merged->ranks;
	size_t lines = 0;

	for (size_t i = 1; i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		if (row->state != RANK_DUPLICATE)
			continue;
		if (lines++ < LINES_MAX)
			message("rank %u has several profiles: %s and %s", row->rank,
				path_of(check, row - 1), path_of(check, row));
		mark_rank(check, (uint32_t)i, "duplicate");
	}
	if (lines)
		note_kind(check, "duplicates");
}

static int decide_mixture(struct check *check, struct proton_error *err)
{
	const struct profile_ranks *ranks = check->merged->ranks;
	size_t marked = 0, count = 0;
	char text[300];

	if (!check->names)
		return PROTON_OK;
	if (!check->job->is_mixed_allowed)
		return err_set(err, PROTON_E_FORMAT,
			       "cannot merge the ranks: they are not of one launch of a job; name "
			       "or keep the files of one only, or use --allow-mixed to sum them");
	for (size_t i = 0; i < ranks->count; i++) {
		count += ranks->rows[i].state != RANK_MISSING;
		marked += ranks->rows[i].mixed != 0;
	}
	snprintf(text, sizeof(text), "%zu of %zu ranks differ in: %s", marked, count, check->names);
	profile_info(check->merged, RANKS_MIXED, text);
	return check->merged->out_of_memory ? err_nomem(err) : PROTON_OK;
}

int rank_mix_check(const struct rank_job *job, struct profile *merged, struct proton_error *err)
{
	struct check check = {.job = job, .merged = merged};

	if (!merged->ranks)
		return PROTON_OK;
	check.entries = xcalloc(merged->ranks->count + 1, sizeof(*check.entries));
	check_files(&check);
	check_duplicates(&check);
	for (const struct kind *kind = kinds; kind < kinds + ARRAY_LENGTH(kinds); kind++)
		check_kind(&check, kind);
	int status = decide_mixture(&check, err);
	free(check.entries);
	free(check.names);
	return status;
}
