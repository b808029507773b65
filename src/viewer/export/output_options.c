/* Options of proton-viewer about the output: their table, and choice of the format. */
#include "viewer/export/output_options.h"

#include <string.h>

#include "base/array.h"

/* --csv and --json are aliases: each is --export with one of the formats. */
static enum options_result choose_format(struct output_options *output, const char *option,
					 const char *name, struct proton_error *err)
{
	const char *before = output->option;

	if (before && strcmp(before, option) != 0)
		return OPTIONS_REFUSE(err, "Cannot specify both %s and %s", before, option);
	output->option = option;
	output->exporter = exporter_find(name, err);
	return output->exporter ? OPTIONS_RUN : OPTIONS_BAD;
}

static enum options_result parse_export(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--export", value, err);
}

static enum options_result parse_csv(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--csv", "table", err);
}

static enum options_result parse_json(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--json", "json", err);
}

#define MEMBER(name) .member = offsetof(struct output_options, name)

/* clang-format off: one row per option */
static const struct option_row rows[] = {
	{.help = "Output"},
	{0, "export", "FORMAT", "write in a format of the list below", .parse = parse_export},
	{0, "csv", NULL, "alias of --export table", .parse = parse_csv},
	{0, "json", NULL, "alias of --export json", .parse = parse_json},
	{'o', "output", "FILE", "write to FILE; its suffix selects the format", MEMBER(path)},
	{0, "no-clobber", NULL, "do not replace an existing FILE of -o", MEMBER(no_clobber)},
};
/* clang-format on */

struct option_table output_options_init(struct output_options *output)
{
	*output = (struct output_options){0};
	return (struct option_table){rows, ARRAY_LENGTH(rows), output};
}

enum options_result output_options_finish(struct output_options *output, struct proton_error *err)
{
	if (output->path && !output->exporter) {
		output->option = "--export";
		output->exporter = exporter_of_path(output->path, err);
		if (!output->exporter)
			return OPTIONS_BAD;
	}
	if (output->path && strcmp(output->path, "-") == 0)
		output->path = NULL;
	return OPTIONS_RUN;
}
