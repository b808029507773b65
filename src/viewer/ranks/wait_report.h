/* The waiting of ranks in collectives, as text and JSON. */
#ifndef VIEWER_RANKS_WAIT_REPORT_H
#define VIEWER_RANKS_WAIT_REPORT_H

#include "base/buf.h"
#include "format/json_write.h"
#include "model/profile.h"
#include "viewer/query/frame_names.h"

/* True if there are collectives that several ranks took part in. */
bool wait_report_is_there(const struct profile *profile);
/* Some lines per context, the one with the longest waiting first; `limit` contexts. */
void wait_report_text(const struct profile *profile, size_t limit, enum name_style names,
		      struct out *out);
/* The member "waits": all contexts. */
void wait_report_json(const struct profile *profile, struct json_writer *json);

#endif
