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

/* The phase(s) of a view. E_RANGE: "Phase N has no data.". *out is the caller's, profile_free(). */
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
