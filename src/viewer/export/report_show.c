/* Output of a view: on the screen, or as the format that was asked for. */
#include "viewer/export/report_show.h"

#include <errno.h>
#include <unistd.h>

#include "base/message.h"
#include "export/bounds.h"
#include "viewer/export/save.h"
#include "viewer/print/pager.h"
#include "viewer/print/xalloc.h"

struct job {
	const struct options *options;
	report_write_fn *write;
	const void *context;
};

static int write_format(const void *context, struct out *out, struct proton_error *err)
{
	const struct job *job = context;
	const struct exporter *exporter = job->options->output.exporter;
	struct report report = {
		.format = exporter ? exporter->format : REPORT_TEXT,
		.out = out,
		.options = job->options,
		.target = job->options->output.target,
	};

	json_writer_init(&report.json, out, false);
	if (report.format == REPORT_JSON)
		json_begin_object(&report.json);
	job->write(job->context, &report);
	if (report.format == REPORT_JSON) {
		json_end_object(&report.json);
		out_byte(out, '\n');
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ text */

/* On a terminal, text is collected before a pager gets it. */
static void begin_text(struct out *out, const struct profile *profile,
		       const struct style_options *style)
{
	bool is_paged = !style->no_pager && isatty(STDOUT_FILENO) == 1;

	out_init(out, is_paged ? -1 : STDOUT_FILENO);
	out->limit = bounds_output(profile);
}

/*
 * Writes the rest and releases `out`. A reader that closes the pipe early (`| head`) is not an
 * error. False: a message was printed.
 */
static bool finish_text(struct out *out, const struct profile *profile)
{
	bool is_over = out_is_over(out);
	struct proton_error err = {0};
	struct out raw = *out;
	bool is_cut_short;
	bool has_failed;

	if (raw.fd < 0) {
		out_init(out, STDOUT_FILENO);
		if (raw.errnum || !pager_show(raw.bytes, raw.length))
			out_bytes(out, raw.bytes, raw.length);
		out->errnum = out->errnum ? out->errnum : raw.errnum;
		out_fini(&raw);
	}
	is_cut_short = out_finish(out, &err) && out->errnum == EPIPE;
	if ((is_over || out_is_over(out)) && !is_cut_short)
		bounds_refuse(profile, &err);
	has_failed = out->errnum && !is_cut_short;
	if (has_failed)
		message("%s", err.text);
	out_fini(out);
	return !has_failed;
}

int report_show_text(const struct options *options, const struct profile *profile,
		     report_write_fn *write, const void *context)
{
	struct out out;

	begin_text(&out, profile, &options->style);
	write(context, &(struct report){.out = &out, .options = options});
	return finish_text(&out, profile) ? 0 : EXIT_BAD;
}

int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context)
{
	const struct job job = {options, write, context};
	struct proton_error err;

	if (!options->output.exporter && !options->output.target)
		return report_show_text(options, profile, write, context);
	if (save_output(&options->output, profile, write_format, &job, &err) == PROTON_OK)
		return 0;
	message("%s", err.text);
	return EXIT_BAD;
}
