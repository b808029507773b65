/*
 * Making a profile from bytes of any format we read: .proton, .hatchet (JSON), .hatchet_msgpack.
 * Every loader survives hostile bytes: it returns E_FORMAT with a sentence, or a profile marked
 * is_damaged that holds all that could be read.
 */
#ifndef MODEL_LOAD_H
#define MODEL_LOAD_H

#include "base/err.h"
#include "format/profile_view.h"
#include "model/profile.h"

#define PHASE_ALL UINT32_MAX

/*
 * hatchet files (JSON and MessagePack), what becomes what:
 * - "time (ns)" and "count" that stand together with "device_id" and "device_type" are a kernel.
 *   Its
 *   minimum, maximum and histogram are known if it ran once or if the file is one of ours.
 * - "time (ns)" or "count" on a node without a device (old example files), and device_id or
 *   device_type on a node without those two (cycle metrics), are ordinary metrics of that name.
 *   rollup.h adds "time (ns)" and "count" of kernels and of metrics together.
 * - Names that stand on ROOT are inclusive metrics, all others METRIC_EXCLUSIVE; a zero on ROOT is
 *   no value. Number types are kept; a metric that is integer here and double there is a double.
 * - A frame "file:line@function" is a source frame, another one with a kernel a kernel frame.
 */

/*
 * The phase(s) of a view. E_RANGE: "Phase N has no data.". *out is the caller's, profile_free().
 * The events of a trace stay those of the view, which has to live as long as profile->trace is
 * used.
 */
int profile_load_view(const struct profile_view *view, uint32_t phase, struct profile **out,
		      struct proton_error *err);
int profile_load_hatchet(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err);
int profile_load_msgpack(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err);

/* Any of them, told apart by the first bytes. `name` is used in error texts. */
int profile_load_bytes(const char *name, const char *bytes, size_t length, struct profile **out,
		       struct proton_error *err);
/* A file, or "-" for standard input. */
int profile_load_file(const char *path, struct profile **out, struct proton_error *err);

#endif
