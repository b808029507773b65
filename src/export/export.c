/* Table of the output formats for whole profiles. */
#include "export/export.h"

#include <strings.h>

#include "base/replace.h"

static const struct export_format formats[] = {
	{EXPORT_HATCHET, export_hatchet, .needs_trace = false},
	{EXPORT_MSGPACK, export_msgpack, .needs_trace = false},
	{EXPORT_CHROME_TRACE, export_chrome_trace, .needs_trace = true},
	{EXPORT_PERFETTO, export_perfetto, .needs_trace = true},
};

const struct export_format *export_format_at(size_t index)
{
	return index < sizeof(formats) / sizeof(formats[0]) ? &formats[index] : NULL;
}

const struct export_format *export_format_find(const char *name)
{
	const struct export_format *format;

	for (size_t i = 0; (format = export_format_at(i)); i++)
		if (strcasecmp(format->name, name) == 0)
			return format;
	return NULL;
}

int export_to_file(const struct export_format *format, const struct profile *profile,
		   const char *path, bool no_clobber, struct proton_error *err)
{
	struct file_replace file;

	TRY(file_replace_begin(&file, path, err));
	file.is_exclusive = no_clobber;
	return file_replace_end(&file, format->write(profile, &file.out, err), err);
}
