/*
 * PC samples of a profile: functions with their machine code and samples per instruction. The tree
 * has the same samples per source line, below the kernels (model/load_samples.c).
 */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;
struct profile_trace;
struct profile_view;

/* Metrics of a source line below a kernel, or of the kernel if its lines are not known. */
#define SAMPLES_ALL "num_samples"
#define SAMPLES_STALLED "num_stalled_samples" /* the warp was not selected to issue */
#define SAMPLES_REASON "stalled_"             /* prefix: one metric per stall reason */
#define SAMPLES_SELECTED "stalled_selected"   /* the warp issued an instruction */
#define SAMPLES_UNKNOWN "stalled_unknown"     /* no reason was sampled: it is not a metric */
/* Samples of a kernel that were divided in proportion to kernel time. */
#define SAMPLES_APPORTIONED "num_samples_apportioned"

struct profile_code_object {
	uint64_t crc;
	const uint8_t *bytes;
	size_t length;    /* 0: not stored */
	bool is_left_out; /* it exceeded a limit */
	bool wants_ptx;   /* its lines are known, but not the calls that were inlined */
};

/*
 * Path of the source that has the locations of the PTX of a cubin, by CRC: PTX with empty lines in
 * place of those without .file, .loc and functions.
 */
#define SAMPLES_PTX_PATH "ptx:%016" PRIx64

/* Samples of one instruction with one stall reason. */
struct profile_pc {
	uint32_t offset; /* in bytes from the start of the function */
	uint32_t reason; /* index of reasons */
	uint64_t samples;
	uint64_t not_issued; /* a subset, taken while the scheduler issued nothing */
};

struct profile_function {
	uint32_t name;        /* string, mangled */
	uint32_t code_object; /* index of code_objects + 1; 0: not known */
	uint64_t crc;
	uint64_t samples; /* exact */
	uint64_t not_issued;
	uint64_t apportioned; /* samples divided between several kernel nodes by their time */
	size_t first_pc;      /* sorted by offset, then reason */
	size_t pc_count;
};

struct profile_source {
	uint32_t path; /* string */
	const char *text;
	size_t length; /* 0: not stored */
	uint64_t hash; /* FNV-1a, 64 bits */
	bool is_left_out;
};

/* More files than the kernels of a program have; lines of further ones are in no list. */
#define SAMPLES_FILES_MAX 4096u

#define SAMPLES_REASONS_MAX 128u

struct profile_samples {
	struct profile_code_object *code_objects;
	struct profile_function *functions; /* with samples, in falling order */
	struct profile_pc *pcs;
	uint32_t *reasons; /* string: the metric's name, "stalled_wait" */
	struct profile_source *sources;
	uint32_t *files; /* string: each path of a sampled line, in order of appearance */
	size_t code_object_count;
	size_t function_count;
	size_t pc_count;
	size_t reason_count;
	size_t source_count;
	size_t file_count;
	uint8_t *content; /* code objects and texts */
	/* Samples by what is known of their line: nothing, the innermost one, all calls. */
	uint64_t known[3]; /* by enum line_info (symbol/line_table.h) */
};

void samples_free(struct profile_samples *samples);

/*
 * For the loader: adds the samples of the selected epochs to profile->samples, and as metrics to
 * the tree. Numbers of a function are exact. Samples of unknown launches are divided between the
 * nodes where their function ran, in proportion to its time there; the parts are integers that add
 * up to the whole. `maps`: those of the loader, with all strings of samples; `kernel_nodes`: by row
 * of a kernel, its node in the profile + 1.
 */
void load_samples(struct profile *profile, const struct profile_view *view,
		  const struct profile_trace *maps, const uint32_t *kernel_nodes);
