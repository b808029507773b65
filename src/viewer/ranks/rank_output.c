/* Output of the views of ranks. */
#include "viewer/ranks/rank_output.h"

#include "base/message.h"
#include "viewer/export/save.h"
#include "viewer/print/screen.h"

#define EXIT_BAD 2

static int write_csv(const void *context, struct out *out, struct proton_error *err)
{
	const struct rank_output *output = context;

	(void)err;
	output->csv(output->context, out);
	return PROTON_OK;
}

static int write_json(const void *context, struct out *out, struct proton_error *err)
{
	const struct rank_output *output = context;

	(void)err;
	output->json(output->context, out);
	return PROTON_OK;
}

int rank_output_show(const struct rank_output *output, const struct options *options)
{
	const struct exporter *exporter = options->output.exporter;
	struct proton_error err;
	struct out out;

	if (exporter) {
		/* The formats are JSON and CSV tables; only JSON has a suffix. */
		if (save_output(&options->output, output->profile,
				exporter->suffix ? write_json : write_csv, output,
				&err) == PROTON_OK)
			return 0;
		message("%s", err.text);
		return EXIT_BAD;
	}
	screen_begin(&out, output->profile, &options->style);
	output->print(output->context, &out);
	return screen_finish(&out, output->profile) ? 0 : EXIT_BAD;
}
