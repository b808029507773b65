/* --strip: reads a profile file, and writes its stripped copy. */
#include "viewer/export/export_run.h"

#include <stdlib.h>

#include "base/replace.h"
#include "format/profile_strip.h"
#include "format/target.h"
#include "viewer/query/input.h"

static int write_copy(const struct profile_view *view, const char *path, bool no_clobber,
		      struct proton_error *err)
{
	struct file_replace file;
	int status = target_check(path, no_clobber, NULL, err);

	if (status == PROTON_OK)
		status = file_replace_begin(&file, path, err);
	if (status != PROTON_OK)
		return status;
	file.is_exclusive = no_clobber;
	return file_replace_end(&file, profile_strip(view, &file.out, err), err);
}

int strip_run(const char *path, const char *output, bool no_clobber, struct proton_error *err)
{
	struct profile_view view;
	char *bytes;
	size_t length;
	int status = file_read_all(path, NULL, &bytes, &length, err);

	if (status != PROTON_OK)
		return status;
	if (!profile_view_recognize(bytes, length))
		status = err_set(err, PROTON_E_FORMAT,
				 "cannot strip %s: it is not a .proton file; record or merge with "
				 "that format",
				 input_display_name(path));
	else
		status = profile_view_open(&view, bytes, length, err);
	if (status == PROTON_OK) {
		if (view.is_damaged || view.state != PROFILE_FILE_FINISHED)
			status = err_set(err, PROTON_E_FORMAT,
					 "cannot strip %s: it is not complete",
					 input_display_name(path));
		else
			status = write_copy(&view, output, no_clobber, err);
		profile_view_fini(&view);
	}
	free(bytes);
	return status;
}
