/* Output of a view: on the screen, or as the format that was asked for. */
#include "viewer/export/report_show.h"

#include "base/message.h"
#include "viewer/export/save.h"
#include "viewer/print/screen.h"

#define EXIT_BAD 2

struct job {
	const struct options *options;
	report_write_fn *write;
	const void *context;
};

static int write_format(const void *context, struct out *out, struct proton_error *err)
{
	const struct job *job = context;
	struct report report = {
		.format = job->options->output.exporter->format,
		.out = out,
		.options = job->options,
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

int report_show_text(const struct options *options, const struct profile *profile,
		     report_write_fn *write, const void *context)
{
	struct out out;

	screen_begin(&out, profile, &options->style);
	write(context, &(struct report){.out = &out, .options = options});
	return screen_finish(&out, profile) ? 0 : EXIT_BAD;
}

int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context)
{
	const struct job job = {options, write, context};
	struct proton_error err;

	if (!options->output.exporter)
		return report_show_text(options, profile, write, context);
	if (save_output(&options->output, profile, write_format, &job, &err) == PROTON_OK)
		return 0;
	message("%s", err.text);
	return EXIT_BAD;
}
