/*
 * Command proton-merge: merges the profiles of a job's ranks into one file, in one process or, if
 * started by mpirun or srun, in several. Exit status 0; 2 with a message.
 *
 * Each process merges a range of the ranks. In log2 rounds the later half of the processes sends
 * its parts of the tree to the earlier half, as packed profile files.
 */
#include <errno.h>
#include <libproton/proton.h>
#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/guest.h"
#include "base/message.h"
#include "base/option_table.h"
#include "base/printable.h"
#include "base/replace.h"
#include "format/rank.h"
#include "format/target.h"
#include "model/ranks.h"
#include "model/save_profile.h"
#include "viewer/export/export_check.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/input.h"
#include "viewer/query/pattern.h"
#include "viewer/ranks/processes.h"
#include "viewer/ranks/rank_columns.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_report.h"

#include <getopt.h>

struct merge_options {
	const char *output;
	const char *list;
	size_t max_nodes;
	size_t columns;
	const char *names; /* --rank-names */
	bool allow_partial;
	bool allow_mixed;
};

static const char usage[] =
	"usage: proton-merge [OPTIONS] DIRECTORY|FILE...\n"
	"       mpirun -n 8 proton-merge [OPTIONS] DIRECTORY|FILE...\n"
	"\n"
	"Merge the profiles of a job's ranks into one file, for proton-viewer --ranks.\n";

/* Unlike --max-nodes, it may be 0. */
static enum options_result parse_columns(void *into, const char *value, struct proton_error *err)
{
	struct merge_options *options = into;

	if (strcmp(value, "0") != 0)
		return options_parse_count(&options->columns, "columns", value, err);
	options->columns = 0;
	return OPTIONS_RUN;
}

#define MEMBER(name) .member = offsetof(struct merge_options, name)

static const struct option_row rows[] = {
	{.help = "Options"},
	{'o', "output", "FILE", "the result (default: NAME.ranks.proton, for NAME.ranks)",
	 MEMBER(output)},
	{0, "allow-partial", NULL, "merge even if ranks are missing, killed or damaged",
	 MEMBER(allow_partial)},
	{0, "allow-mixed", NULL, "sum ranks that are not of one launch, and mark the result",
	 MEMBER(allow_mixed)},
	{0, "max-nodes", "N", "maximum number of nodes (default: 1000000)", MEMBER(max_nodes),
	 .is_count = true},
	/* For triton_proton.ranks: a file with the paths of all files, one per line. */
	{0, "list", "FILE", NULL, MEMBER(list)},
	{0, "columns", "N", "frames with the time of each rank (default: 256)",
	 .parse = parse_columns},
	{0, "rank-names", "REGEX", "parts of names that differ from rank to rank", MEMBER(names)},
	{'h', "help", .help = "print this help"},
	OPTION_COMPLETION,
	OPTION_VERSION,
};

/* The output for the first input: NAME.ranks.proton, malloc'd. */
static char *output_for(const struct merge_options *options, const char *path)
{
	size_t length = strlen(path);

	if (options->output)
		return xstrdup(options->output);
	while (length > 1 && path[length - 1] == '/')
		length--;
	return xasprintf("%.*s%s", (int)length, path,
			 rank_is_job(path, length) ? ".proton" : ".ranks.proton");
}

/* ------------------------------------------------------------------ processes */

/* The list of files of process 0, as texts one after the other, in all processes. */
static char **share_paths(struct processes self, const struct input *input, size_t *count_out)
{
	char *bytes = NULL;
	size_t length = 0, capacity = 0, used = 0;

	for (size_t i = 0; input && i < input->count; i++) {
		size_t size = strlen(input->paths[i]) + 1;

		xreserve(&bytes, &capacity, length + size, 1);
		memcpy(bytes + length, input->paths[i], size);
		length += size;
	}
	if (self.count > 1)
		processes_share(&bytes, &length);
	*count_out = 0;
	for (size_t i = 0; i < length; i++)
		*count_out += !bytes[i];
	char **paths = xcalloc(*count_out + 1, sizeof(*paths));
	for (size_t i = 0; i < *count_out; i++) {
		paths[i] = bytes + used;
		used += strlen(bytes + used) + 1;
	}
	if (!*count_out)
		free(bytes);
	return paths;
}

/* The paths in a file, in its order. Files of other processes need not exist here. */
static void read_list(struct input *input, const char *path)
{
	struct proton_error err;
	size_t length;
	char *text;

	*input = (struct input){0};
	if (file_read_all(path, NULL, &text, &length, &err) != PROTON_OK) {
		message("%s", err.text);
		input->has_failed = true;
		return;
	}
	for (char *line = text; *line;) {
		size_t size = strcspn(line, "\n");

		XADD(input->paths, input->count, xstrndup(line, size));
		line += size + (line[size] == '\n');
	}
	free(text);
}

/* A rank that cannot be read is damaged, but a name that is not there is a mistake. */
static void read_names(struct input *input, char *const *names, size_t count)
{
	struct stat status;

	rank_input_init(input, names, count);
	for (size_t i = 0; i < count; i++) {
		if (stat(names[i], &status) == 0 || strcmp(names[i], "-") == 0)
			continue;
		message("cannot open %s: %s", names[i], strerror(errno));
		input->has_failed = true;
	}
}

/* The result takes the place of its file, which must not be one of the profiles. */
static void check_output(struct input *input, const char *path)
{
	struct proton_error err;
	struct stat output;
	const char *found = stat(path, &output) < 0 ? NULL : output_find_input(input, &output);

	if (found)
		message("cannot write %s: it is an input (%s); choose another output", path, found);
	else if (output_check_place(path, &err) != PROTON_OK)
		message("%s", err.text);
	else if (target_is_standard_output(path))
		message("the merged file is binary and cannot go to standard output; name a file");
	else
		return;
	input->has_failed = true;
}

static int send_parts(int to, struct rank_parts *parts, struct proton_error *err)
{
	uint64_t count = parts->count;
	int status = PROTON_OK;

	processes_send(to, &count, sizeof(count));
	for (size_t i = 0; i < parts->count && status == PROTON_OK; i++) {
		struct rank_part *part = &parts->items[i];
		uint64_t head[3];

		status = rank_part_pack(part, err);
		if (status != PROTON_OK)
			break;
		head[0] = part->level;
		head[1] = part->index;
		head[2] = part->length;
		processes_send(to, head, sizeof(head));
		processes_send(to, part->bytes, part->length);
	}
	return status;
}

static int receive_parts(struct rank_job *job, int from, struct rank_parts *parts,
			 struct proton_error *err)
{
	int status = PROTON_OK;
	uint64_t count;

	processes_receive(from, &count, sizeof(count));
	for (uint64_t i = 0; i < count && status == PROTON_OK; i++) {
		struct rank_part part;
		uint64_t head[3];

		processes_receive(from, head, sizeof(head));
		part = (struct rank_part){
			.level = (uint32_t)head[0], .index = head[1], .length = head[2]};
		part.bytes = xcalloc(part.length + 1, 1);
		processes_receive(from, part.bytes, part.length);
		status = rank_merge_part(job, parts, part, err);
	}
	return status;
}

/* The first of the chunks that a process merges. */
static size_t first_chunk(int number, struct processes self, const struct rank_job *job)
{
	return rank_job_chunks(job) * (size_t)number / (size_t)self.count;
}

/* Merges this process's range; in process 0, all parts are then in `parts`. */
static int merge_range(struct processes self, struct rank_job *job, struct rank_parts *parts,
		       struct proton_error *err)
{
	int status = rank_merge_chunks(job, first_chunk(self.number, self, job),
				       first_chunk(self.number + 1, self, job), parts, err);

	for (int step = 1; step < self.count && status == PROTON_OK; step *= 2) {
		if (self.number % (2 * step)) {
			return send_parts(self.number - step, parts, err);
		}
		if (self.number + step < self.count)
			status = receive_parts(job, self.number + step, parts, err);
	}
	return status;
}

/* ------------------------------------------------------------------ columns */

/* A rank_times_use: sends times to process 0. */
static void send_cells(void *context, size_t first, size_t ranks, const uint64_t *cells)
{
	const size_t *columns = context;
	const uint64_t head[2] = {first, ranks};

	processes_send(0, head, sizeof(head));
	processes_send(0, cells, ranks * *columns * sizeof(*cells));
}

/* Receives what send_cells() sends, up to a piece without ranks. */
static void receive_cells(int from, struct rank_cells *into)
{
	size_t columns = into->merged->ranks->column_count;
	uint64_t head[2];

	for (;;) {
		processes_receive(from, head, sizeof(head));
		if (!head[1])
			break;
		AUTO_FREE uint64_t *cells = xcalloc(head[1] * columns + 1, sizeof(*cells));
		processes_receive(from, cells, head[1] * columns * sizeof(*cells));
		rank_cells_put(into, head[0], head[1], cells);
	}
}

/*
 * Process 0 chooses the nodes and tells the others their paths. These send the times of their
 * ranks. `merged`: the sum of all ranks in process 0; NULL: there are no columns.
 */
static int gather_columns(struct processes self, const struct rank_job *job, struct profile *merged,
			  struct proton_error *err)
{
	size_t columns = 0;
	uint32_t *nodes = merged ? rank_nodes_worth(merged, job->columns, &columns) : NULL;
	struct rank_path *paths = merged ? rank_paths_of(merged, nodes, columns) : NULL;
	size_t length = columns * sizeof(*paths);
	struct rank_cells cells = {0};
	int status = PROTON_OK;

	if (self.count > 1)
		processes_share((char **)&paths, &length);
	columns = length / sizeof(*paths);
	if (merged)
		rank_cells_init(&cells, merged, nodes, columns);
	if (columns && merged)
		status = rank_times_read(&job->times, paths, columns, rank_cells_put, &cells, err);
	else if (columns)
		status = rank_times_read(&job->times, paths, columns, send_cells, &columns, err);
	if (status == PROTON_OK && columns && !merged)
		send_cells(&columns, 0, 0, NULL);
	for (int from = 1; status == PROTON_OK && columns && merged && from < self.count; from++)
		receive_cells(from, &cells);
	FREE_ALL(cells.rows, nodes, paths);
	return status;
}

/* ------------------------------------------------------------------ the result */

static int write_result(const struct profile *profile, const char *path, struct proton_error *err)
{
	struct file_replace file;
	int status = target_check(path, false, NULL, err);

	if (status == PROTON_OK)
		status = file_replace_begin(&file, path, err);
	if (status != PROTON_OK)
		return status;
	file_replace_clean(file.path);
	return file_replace_end(&file, profile_save(profile, &file.out, err), err);
}

/* The sum of all ranks; an error if some are not finished and have to be. */
static int sum_ranks(const struct merge_options *options, struct rank_job *job,
		     struct rank_parts *parts, struct profile **out, struct proton_error *err)
{
	int status = rank_merge_finish(job, parts, out, err);

	if (status != PROTON_OK || rank_report_state(*out) || options->allow_partial)
		return status;
	profile_free(*out);
	*out = NULL;
	return err_set(err, PROTON_E_FORMAT,
		       "cannot merge the ranks: some are not finished; use --allow-partial to "
		       "merge the others");
}

static void report_result(const struct profile_ranks *ranks, const char *path)
{
	size_t count = ranks ? ranks->count : 0;
	size_t there = 0;
	char of[32] = "";
	char quoted[1024];

	for (size_t i = 0; i < count; i++)
		there += ranks->rows[i].state != RANK_MISSING;
	shell_quote(quoted, sizeof(quoted), path);
	if (there < count)
		snprintf(of, sizeof(of), " of %zu", count);
	message("merged %zu%s rank%s; view them with: proton-viewer --ranks %s", there, of,
		count == 1 ? "" : "s", quoted);
}

static int merge_files(struct processes self, const struct merge_options *options,
		       struct rank_job *job, const char *path, struct proton_error *err)
{
	struct profile *merged = NULL;
	AT_END(rank_parts_fini) struct rank_parts parts = {0};
	int status = merge_range(self, job, &parts, err);

	if (status == PROTON_OK && self.number == 0)
		status = sum_ranks(options, job, &parts, &merged, err);
	if (job->columns && (status == PROTON_OK || self.number == 0)) {
		int columns = gather_columns(self, job, merged, err);

		status = status == PROTON_OK ? columns : status;
	}
	if (status == PROTON_OK && merged)
		status = write_result(merged, path, err);
	if (status == PROTON_OK && merged)
		report_result(merged->ranks, path);
	profile_free(merged);
	return status;
}

/* Prints a message if it fails. */
static int merge_inputs(struct processes self, const struct merge_options *options, char **inputs,
			size_t input_count)
{
	struct proton_error err = {0};
	struct input input = {0};
	struct rank_job job;
	char *output = output_for(options, input_count ? inputs[0] : "job");
	regex_t names;
	size_t count;
	int status = PROTON_OK;

	if (options->names)
		status = pattern_compile(&names, options->names, 0, &err);
	if (status != PROTON_OK) {
		if (self.number == 0)
			message("--rank-names: %s", err.text);
		free(output);
		return EXIT_BAD;
	}
	if (self.number == 0) {
		if (options->list)
			read_list(&input, options->list);
		else
			read_names(&input, inputs, input_count);
		check_output(&input, output);
	}
	/* If an input has failed, no process has a file. */
	char **paths = share_paths(self, input.has_failed ? NULL : &input, &count);
	input_fini(&input);
	rank_job_init(&job, paths, count);
	job.columns = options->columns;
	job.names = options->names ? &names : NULL;
	job.is_mixed_allowed = options->allow_mixed;
	job.is_quiet = self.number != 0;
	if (options->max_nodes)
		job.max_nodes = options->max_nodes;
	if (self.number == 0 && !count) {
		status = PROTON_E_INVALID; /* a message was printed */
	} else if (count) {
		status = merge_files(self, options, &job, output, &err);
		if (status != PROTON_OK)
			message("%s", err.text);
	}
	rank_job_fini(&job);
	FREE_ALL(output, count ? paths[0] : NULL, paths);
	if (options->names)
		regfree(&names);
	return status == PROTON_OK ? 0 : EXIT_BAD;
}

int main(int argc, char **argv)
{
	struct merge_options options = {.columns = RANK_COLUMNS_DEFAULT};
	const struct option_table table = {rows, ARRAY_LENGTH(rows), &options};
	struct proton_error err = {0};
	int status = 0;

	message_set_name("proton-merge");
	standard_occupy();
	struct processes self = processes_begin(&argc, &argv);
	enum options_result result =
		options_read(&table, 1, NULL, argc, argv, "proton-merge", &err);
	if (result == OPTIONS_HELP && self.number == 0) {
		fputs(usage, stdout);
		options_print(&table, 1);
	}
	if (result == OPTIONS_RUN && argc == optind && !options.list) {
		err_set(&err, PROTON_E_INVALID, "no ranks to merge: name a directory or files");
		result = OPTIONS_BAD;
	}
	if (result == OPTIONS_BAD) {
		message("%s", err.text);
		status = EXIT_BAD;
	} else if (!self.is_idle && (result == OPTIONS_RUN || result == OPTIONS_LAST)) {
		status = merge_inputs(self, &options, argv + optind, (size_t)(argc - optind));
	}
	fflush(stdout);
	processes_end(status);
	return status;
}
