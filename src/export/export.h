/*
 * Output formats for whole profiles, one file per format, and the table of those that the recorder
 * writes. An exporter converts a profile to bytes.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

struct export_format {
	const char *name;   /* the option value; case-insensitive */
	const char *suffix; /* of the file, without the dot */
	/* Writes the profile; errors of `out` are sticky and reported by out_finish(). */
	int (*write)(const struct profile *profile, struct out *out, struct proton_error *err);
	bool needs_trace; /* requires events: profile->trace */
};

/* NULL past the last one. */
const struct export_format *export_format_at(size_t index);
/* NULL if no format has that name. */
const struct export_format *export_format_find(const char *name);

/* Writes `path` atomically. `no_clobber`: fails if the file exists by then. */
int export_to_file(const struct export_format *format, const struct profile *profile,
		   const char *path, bool no_clobber, struct proton_error *err);

/* Names and suffixes of this table and the viewer's (viewer/export/exporters.c). */
#define EXPORT_HATCHET "hatchet", "hatchet"
#define EXPORT_MSGPACK "hatchet_msgpack", "hatchet_msgpack"
#define EXPORT_CHROME_TRACE "chrome_trace", "chrome_trace"
#define EXPORT_PERFETTO "perfetto", "pftrace"

/* The recorder's table, for messages. */
#define EXPORT_NAMES "hatchet, hatchet_msgpack, chrome_trace, perfetto"

/* A process of a trace of several; its numbers and names are then those of no other process. */
struct trace_part {
	uint32_t number, count;
	const char *name;
	int64_t shift_ns;         /* is added to its times */
	uint64_t base_ns;         /* of several: the earliest time of all, after that */
	struct gzip_writer *gzip; /* Chrome: compresses the output; NULL: does not */
};

/* Appends a process, in the order of their numbers. */
int export_chrome_part(const struct profile *profile, const struct trace_part *part,
		       struct out *out, struct proton_error *err);
int export_perfetto_part(const struct profile *profile, const struct trace_part *part,
			 struct out *out, struct proton_error *err);

int export_hatchet(const struct profile *profile, struct out *out, struct proton_error *err);
int export_hatchet_compact(const struct profile *profile, struct out *out,
			   struct proton_error *err);
int export_chrome_trace(const struct profile *profile, struct out *out, struct proton_error *err);
int export_chrome_gzip(const struct profile *profile, struct out *out, struct proton_error *err);
int export_perfetto(const struct profile *profile, struct out *out, struct proton_error *err);
int export_msgpack(const struct profile *profile, struct out *out, struct proton_error *err);
