/*
 * Loading profiles from any supported format: .proton, .hatchet (JSON), .hatchet_msgpack. Input is
 * untrusted: a loader returns E_FORMAT with an error message, or a profile marked is_damaged with
 * everything that could be read. A file that would take too much memory for its size is refused
 * (format/profile_view.h).
 */
#pragma once

#include "base/err.h"
#include "format/profile_view.h"
#include "model/profile.h"

#define PHASE_ALL UINT32_MAX

/*
 * How hatchet files (JSON and MessagePack) are read:
 *
 * - "time (ns)" and "count" together with "device_id" and "device_type" are a kernel. Its minimum,
 *   maximum and histogram are known if it ran once or if Proton wrote the file.
 * - "time (ns)" or "count" on a node without a device (old example files), and device_id or
 *   device_type on a node without those two (cycle metrics), are ordinary metrics of that name.
 *   rollup.h adds "time (ns)" and "count" of kernels and of metrics together.
 * - Metric names on ROOT are inclusive, all others METRIC_EXCLUSIVE; a zero on ROOT is not a value.
 *   Number types are kept; a metric with both integers and doubles is a double.
 * - A frame "file:line@function" is a source frame; any other frame with a kernel is a kernel
 *   frame.
 */

/*
 * Loads the phase(s) of a view. E_RANGE: "Phase N has no data.". Free *out with profile_free().
 * Trace events still belong to the view, which has to live as long as profile->trace is used.
 */
int profile_load_view(const struct profile_view *view, uint32_t phase, struct profile **out,
		      struct proton_error *err);
int profile_load_hatchet(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err);
int profile_load_msgpack(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err);

/* Detects the format by the first bytes. `name` is used in error messages. */
int profile_load_bytes(const char *name, const char *bytes, size_t length, struct profile **out,
		       struct proton_error *err);
/*
 * A file, "-" for standard input, or a path of an open descriptor (/dev/fd/3). Other FIFOs, sockets
 * and devices are refused.
 */
int profile_load_file(const char *path, struct profile **out, struct proton_error *err);
/* The bytes of a file, malloc'd. */
struct profile_bytes {
	char *bytes; /* NULL: not read yet */
	size_t length;
};

/*
 * Loads one of several files that become one result, unless it is in *out already. *more_bytes, 0
 * at first, is what they cost beyond what their sizes allow. `kept`, if it is not NULL, gets the
 * bytes when they are read for the first time.
 */
int profile_load_next(const char *path, struct profile_bytes *kept, uint64_t *more_bytes,
		      struct profile **out, struct proton_error *err);
