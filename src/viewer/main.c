/* proton-viewer: load, derive, filter, print. Exit status 0, or 2 with a sentence. */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "model/load.h"
#include "viewer/export_run.h"
#include "viewer/filter.h"
#include "viewer/options.h"
#include "viewer/picture.h"
#include "viewer/progress.h"
#include "viewer/say.h"
#include "viewer/select.h"
#include "viewer/xalloc.h"

#define EXIT_BAD 2
#define DEFAULT_METRICS 3

static int complain(const struct proton_error *err)
{
	say("%s", err->text);
	return EXIT_BAD;
}

static const char *display_name(const char *path)
{
	return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* What a reader of the numbers has to know before believing them. */
static void say_what_is_missing(const char *path, const struct profile *profile)
{
	const char *name = display_name(path);

	if (profile->is_unfinished)
		say("%s: the run did not finish (its process was killed, or is "
		    "still recording); this is what had been recorded",
		    name);
	if (profile->is_damaged)
		say("%s is damaged; this is what could be read", name);
	for (size_t i = 0; i < profile->counter_count; i++) {
		const struct profile_counter *counter = &profile->counters[i];
		const char *cause = profile_text(profile, counter->name);

		if (counter->is_loss && counter->value)
			say("%s%s: %" PRIu64, strncmp(cause, "lost", 4) == 0 ? "" : "lost: ", cause,
			    counter->value);
	}
}

static bool has_number(const struct metrics *metrics, const char *name)
{
	const struct raw_metric *raw = metrics_find(metrics, name);

	return raw && raw->source == RAW_NUMBER;
}

/* What to show when nobody asked for anything: time if there is any, else what comes first. */
static size_t default_metrics(const struct metrics *metrics, const char **names)
{
	static const char *const kernel_names[] = {"time/ms", "time/%", "count"};
	size_t count = 0;

	if (has_number(metrics, "time")) {
		for (size_t i = 0; i < ARRAY_LENGTH(kernel_names); i++) {
			if (i < 2 || has_number(metrics, kernel_names[i]))
				names[count++] = kernel_names[i];
		}
		return count;
	}
	if (has_number(metrics, "cpu_time"))
		names[count++] = "cpu_time/ms";
	/* Numbers first; text only if there is nothing else. */
	for (int is_text = 0; is_text <= (count == 0); is_text++) {
		for (size_t i = 0; i < metrics->count && count < DEFAULT_METRICS; i++) {
			const struct raw_metric *raw = &metrics->raws[i];

			if ((raw->source != RAW_NUMBER) == is_text &&
			    strcmp(raw->name, "cpu_time") != 0)
				names[count++] = raw->label;
		}
	}
	return count;
}

static int derive_columns(struct picture *picture, struct metric_column *columns,
			  const char **names, size_t count, struct proton_error *err)
{
	struct derive derive;
	int status = PROTON_OK;

	derive_init(&derive, picture->metrics);
	for (size_t i = 0; i < count && status == PROTON_OK; i++) {
		status = derive_column(&derive, names[i], &columns[i], err);
		picture->column_count += status == PROTON_OK;
	}
	derive_fini(&derive);
	return status;
}

static void print(const struct options *options, const struct picture *picture, struct out *out)
{
	if (options->csv) {
		csv_print(picture, out);
		return;
	}
	tree_print(picture, out);
	if (options->print_sorted)
		sorted_print(picture, out);
}

/* A reader that has seen enough (`| head`) is no error. */
static int finish(struct out *out, struct proton_error *err)
{
	bool is_cut_short = out_finish(out, err) && out->errnum == EPIPE;
	int status = out->errnum && !is_cut_short ? complain(err) : 0;

	out_fini(out);
	return status;
}

static int show(const struct options *options, const struct metrics *metrics, uint8_t *state,
		struct out *out, struct proton_error *err)
{
	size_t wanted = options->metric_count ? options->metric_count : DEFAULT_METRICS;
	struct metric_column *columns = xcalloc(wanted, sizeof(*columns));
	struct picture picture = {
		.profile = metrics->profile,
		.metrics = metrics,
		.state = state,
		.columns = columns,
		.depth = options->depth,
		.format = options->format,
		.term = term_probe(options->color),
	};
	const char *names[DEFAULT_METRICS];
	int status;

	if (options->metric_count)
		status = derive_columns(&picture, columns, options->metrics, wanted, err);
	else
		status = derive_columns(&picture, columns, names, default_metrics(metrics, names),
					err);
	if (status == PROTON_OK)
		status = select_nodes(options, picture.profile, &columns[0], state, err);
	if (status == PROTON_OK)
		print(options, &picture, out);
	for (size_t i = 0; i < wanted; i++)
		metric_column_fini(&columns[i]);
	free(columns);
	return status;
}

/* True if nothing was measured anywhere. */
static bool is_empty(const struct profile *profile, const uint8_t *state)
{
	if (profile->nodes[0].first_value || profile->nodes[0].first_kernel)
		return false;
	for (size_t i = 1; i < profile->node_count; i++) {
		if (state[i] == NODE_SHOWN)
			return false;
	}
	return true;
}

static void say_is_empty(const char *path, const struct profile *profile)
{
	if (profile->node_count == 1)
		say("%s is an empty profile: it has no frames", display_name(path));
	else
		say("%s has %zu frames, but nothing was measured in any of them",
		    display_name(path), profile->node_count - 1);
}

static int view(const struct options *options, struct profile *profile)
{
	struct proton_error err = {0};
	uint8_t *state = filter_prune(profile);
	struct metrics metrics;
	struct out out;
	int status = PROTON_OK;

	out_init(&out, STDOUT_FILENO);
	metrics_init(&metrics, profile);
	if (options->list)
		list_print(&metrics, &out);
	else if (metrics.count == 0 || is_empty(profile, state))
		say_is_empty(options->path, profile);
	else
		status = show(options, &metrics, state, &out, &err);
	metrics_fini(&metrics);
	free(state);
	if (status) {
		out_fini(&out);
		return complain(&err);
	}
	return finish(&out, &err);
}

static bool is_export(const struct options *options)
{
	return options->export_format || options->output;
}

static int export(const struct options *options, struct profile *profile)
{
	struct proton_error err = {0};

	return export_run(options, profile, &err) ? complain(&err) : 0;
}

static int load(const struct options *options, struct profile **profile_out)
{
	struct proton_error err = {0};
	int status = is_export(options) ? export_check(options, &err) : PROTON_OK;

	if (status == PROTON_OK) {
		progress_begin("reading", options->path);
		status = profile_load_file(options->path, profile_out, &err);
		progress_end();
	}
	return status ? complain(&err) : 0;
}

int main(int argc, char **argv)
{
	struct options options;
	struct profile *profile = NULL;
	enum options_result result;
	int status = 0;

	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	result = options_parse(&options, argc, argv);
	if (result == OPTIONS_RUN)
		status = load(&options, &profile);
	if (profile) {
		say_what_is_missing(options.path, profile);
		status = is_export(&options) ? export(&options, profile) : view(&options, profile);
	}
	profile_free(profile);
	options_fini(&options);
	if (result == OPTIONS_BAD)
		return EXIT_BAD;
	if (result == OPTIONS_DONE && (fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		say("%s", strerror(errno));
		return EXIT_BAD;
	}
	return status;
}
