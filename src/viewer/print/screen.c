/* Text of the viewer on standard output, through a pager on a terminal. */
#include "viewer/print/screen.h"

#include <errno.h>
#include <unistd.h>

#include "base/message.h"
#include "export/bounds.h"
#include "viewer/print/pager.h"

void screen_begin(struct out *out, const struct profile *profile, const struct style_options *style)
{
	bool is_paged = !style->no_pager && isatty(STDOUT_FILENO) == 1;

	out_init(out, is_paged ? -1 : STDOUT_FILENO);
	out->limit = bounds_output(profile);
}

bool screen_finish(struct out *out, const struct profile *profile)
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
