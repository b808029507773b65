/*
 * Content of hatchet files, independent of the syntax: JSON and MessagePack share it and therefore
 * cannot differ. docs/design/hatchet-output.md has the rules.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

/* One member of a node's "metrics". */
struct plan_entry {
	uint32_t key; /* index in tree_plan.keys; sorted, unique */
	uint32_t order;
	uint32_t type; /* enum proton_metric_type, or one of these */
#define PLAN_UINT64 100u
#define PLAN_TEXT 101u
	union {
		int64_t int64; /* of metrics, as in struct profile_value */
		double float64;
		uint32_t string;
		uint32_t vector;
		uint64_t uint64;
		const char *text;
	} as;
};

struct plan_key {
	const char *text;
	size_t length;
	char *owned; /* a name allocated here */
};

/* A device of the device table. */
struct plan_device {
	uint32_t device; /* index of profile->devices */
	const char *type;
	char id[12]; /* its decimal number */
};

/* Members of a node's metrics that come from kernels, in alphabetical order. */
enum plan_built_in {
	BUILT_IN_COUNT,
	BUILT_IN_DEVICE_ID,
	BUILT_IN_DEVICE_TYPE,
	BUILT_IN_TIME,
	BUILT_INS
};

struct tree_plan {
	const struct profile *profile;
	struct plan_key *keys; /* sorted by text, unique */
	size_t key_count;
	uint32_t *metric_keys; /* by metric */
	uint32_t *user_keys;   /* the same for nodes with kernel metrics */
	uint32_t built_in_keys[BUILT_INS];
	struct plan_device *device_texts; /* by device of the profile */
	struct plan_device *devices;      /* devices in use, sorted by type and id as texts */
	size_t device_count;
	struct plan_entry *entries; /* of the last requested node */
	size_t entry_count, entry_capacity;
};

int tree_plan_init(struct tree_plan *plan, const struct profile *profile, struct proton_error *err);
void tree_plan_fini(struct tree_plan *plan);

/*
 * Fills plan->entries with the metrics of `node`, or of the sibling node that represents `kernel`
 * if it is not the node's first one. `is_rest`: with the metrics of ROOT that must not be among its
 * metrics, because readers take every name there for an inclusive metric. False if memory ran out.
 */
bool tree_plan_entries(struct tree_plan *plan, uint32_t node, uint32_t kernel, bool is_rest);
bool tree_plan_has_root_rest(const struct tree_plan *plan);

/* True if the minimum, maximum and histogram of a kernel are written: it ran more than once. */
bool tree_plan_has_range(const struct tree_plan *plan, uint32_t kernel);
/* The number of members of the "proton" object of a kernel's node; 0: no object. */
uint32_t tree_plan_kernel_extras(const struct tree_plan *plan, uint32_t kernel);
/* The number of different launch configurations of `kernel`. */
uint32_t tree_plan_configs(const struct tree_plan *plan, uint32_t kernel);
/* The number of members of the "proton" object of ROOT. */
uint32_t tree_plan_root_extras(const struct tree_plan *plan);
/* Loss counters are written if not zero, other counters always. */
bool tree_plan_shows_counter(const struct row_counter *counter, bool is_loss);
/* The number of written loss counters, or of other counters. */
uint32_t tree_plan_counters(const struct tree_plan *plan, bool is_loss);

/* Appends a string in the syntax of a format; never empty. */
typedef void plan_encode_fn(struct out *out, const char *text, size_t length);

/*
 * Cached encoded names of frames in one buffer: text i from offsets[i] to offsets[i + 1]. Frames
 * may share one long name, so all texts together can exceed the profile. Texts beyond a multiple of
 * its size are empty here and encoded on demand.
 */
struct plan_texts {
	const struct profile *profile;
	plan_encode_fn *encode;
	struct out bytes;
	size_t *offsets;
	struct out scratch, encoded; /* of the last requested text */
};

/* Release with plan_texts_fini(), even after an error. */
int plan_texts_init(struct plan_texts *texts, const struct profile *profile, plan_encode_fn *encode,
		    struct proton_error *err);
void plan_texts_fini(struct plan_texts *texts);

/* The encoded name; NULL if memory ran out. Valid until the next call. */
const char *plan_text(struct plan_texts *texts, uint32_t frame, size_t *length);
