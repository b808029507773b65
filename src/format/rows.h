/*
 * Row layouts of a profile file's tables: written in place by the recorder, read by the loader.
 * docs/format.md is normative for these layouts and must change together with this file.
 *
 * All integers are little-endian. Row 0 of strings, frames, nodes, values, kernels, histograms and
 * configs is reserved (the empty string, the root's frame, the root, and "none"), so 0 ends a list.
 * Row 0 of events, samples and launches, which only traces have, is reserved too, and row 0 of the
 * tables of PC sampling.
 */
#pragma once

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the profile file is little-endian and mapped without conversion"
#endif

#define PROFILE_FILE_MAGIC "\x89PROTON\n"
#define PROFILE_FILE_MAJOR 1
#define PROFILE_FILE_MINOR 0
#define PROFILE_FILE_HEADER_BYTES 65536u
#define PROFILE_FILE_MAX_TABLES 32u
#define PROFILE_FILE_MAX_EXTENTS 2048u

enum table_id {
#define TABLE(name, id, ...) TABLE_##name = id,
#include "format/tables.def"
#undef TABLE
	TABLE_COUNT
};

enum frame_kind {
	FRAME_ROOT = 0,
	FRAME_NAME = 1,   /* a scope, a state, a special frame such as "<captured_at>" */
	FRAME_SOURCE = 2, /* file:line@function */
	FRAME_KERNEL = 3, /* work that runs on a device */
};

struct row_frame {
	uint32_t kind; /* enum frame_kind */
	uint32_t name; /* string: the name, or the function of a source frame */
	uint32_t file; /* string, source frames only */
	uint32_t line;
};

/* A node's parent always precedes it. */
struct row_node {
	uint32_t parent;
	uint32_t frame;
	uint32_t first_epoch; /* epochs in which the context was entered: the first */
	uint32_t last_epoch;  /* and the last; epochs in between have a row in values or kernels */
	uint32_t first_value;
	uint32_t first_kernel;
};

enum metric_flag {
	METRIC_EXCLUSIVE = 1,
	METRIC_PROPERTY = 2,
};

struct row_metric {
	uint32_t name;
	uint16_t type;  /* enum proton_metric_type */
	uint16_t flags; /* enum metric_flag */
};

/* `metric` of a value row that only records that the node was entered in `epoch`. */
#define METRIC_ENTERED UINT32_MAX

struct row_value {
	uint32_t next;
	uint32_t metric; /* row of TABLE_METRICS */
	uint32_t epoch;
	uint32_t reserved;
	union {
		int64_t int64;
		double float64;
		uint64_t string; /* id of a string */
		uint64_t vector; /* first word of TABLE_VECTORS */
	} as;
};

struct row_kernel {
	uint32_t next;
	uint32_t device; /* row of TABLE_DEVICES */
	uint32_t epoch;
	uint32_t histogram; /* row of TABLE_HISTOGRAMS; 0 while count is 1: min_ns is enough then */
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns;
	uint64_t max_ns;
};

/*
 * Histogram of durations with two buckets per power of two: bucket i counts durations d with
 * histogram_bucket(d) == i. Bucket 0 also counts all shorter durations, bucket 63 all longer ones.
 * Counts stop at their maximum instead of wrapping.
 */
#define HISTOGRAM_BUCKETS 64u
#define HISTOGRAM_FIRST_LOG2 5u /* bucket 0 begins at 32 ns */

struct row_histogram {
	uint32_t bucket[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t duration_ns)
{
	if (duration_ns < (1u << HISTOGRAM_FIRST_LOG2))
		return 0;
	uint32_t log2 = 63u - (uint32_t)__builtin_clzll(duration_ns);
	uint32_t index = (log2 - HISTOGRAM_FIRST_LOG2) * 2 +
			 (uint32_t)(duration_ns >> (log2 - 1) & 1);
	return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

/* The shortest duration, in ns, that bucket `index` counts. */
static inline uint64_t histogram_bucket_start_ns(uint32_t index)
{
	uint64_t power = 1ull << (index / 2 + HISTOGRAM_FIRST_LOG2);

	return index % 2 ? power + power / 2 : power;
}

/* Launch configuration; all 0 if unknown. */
struct launch_config {
	uint32_t grid[3];  /* blocks */
	uint32_t block[3]; /* threads */
	uint32_t registers_per_thread;
	uint32_t static_shared_bytes;
	uint32_t dynamic_shared_bytes;
};

static inline uint64_t shared_bytes_of(const struct launch_config *config)
{
	return (uint64_t)config->static_shared_bytes + config->dynamic_shared_bytes;
}

/* Maximum number of separate configurations per kernel row; further ones share one more row. */
#define CONFIGS_PER_KERNEL 16u

enum config_flag {
	CONFIG_OTHER = 1, /* all further configurations together; `config` is 0 */
};

/* One configuration of one kernel row. */
struct row_config {
	uint64_t count;
	uint64_t total_ns;
	uint32_t kernel; /* row of TABLE_KERNELS; 0: the row is unused */
	uint32_t next;   /* circular list of the kernel's rows; readers go by `kernel` */
	uint32_t flags;  /* enum config_flag */
	struct launch_config config;
};

struct row_device {
	uint32_t type; /* string: "CUDA", "HIP", "CPU" */
	uint32_t id;   /* ordinal within its type */
	uint32_t arch; /* string */
	uint32_t name; /* string */
	uint64_t clock_khz;
	uint64_t memory_clock_khz;
	uint64_t bus_width_bits;
	uint64_t processors; /* streaming multiprocessors, compute units or cores */
};

struct row_info {
	uint32_t key; /* string */
	uint32_t value;
};

struct row_counter {
	uint32_t name;
	uint32_t is_loss;
	uint64_t value;
};

enum epoch_flag {
	EPOCH_COMPLETE = 1, /* all work launched in it has been recorded */
	EPOCH_CLEARED = 2,
	EPOCH_CLOSED = 4, /* takes no more rows, because its phase is being written to a file */
};

/* An epoch is one life of a phase: clearing the current phase begins another epoch of it. */
struct row_epoch {
	uint32_t phase;
	uint32_t flags;
	uint64_t start_ns; /* Unix time */
	uint64_t end_ns;   /* 0 for the current epoch */
};

enum lane_kind {
	LANE_THREAD = 1, /* a thread of the program */
	LANE_STREAM = 2, /* a stream of a device */
	LANE_UNIT = 3,   /* a sub-track of a warp of an instrumented kernel */
};

/* Location of a unit: an SM number on NVIDIA GPUs, bit fields on AMD GPUs. */
#define LANE_AMD (1u << 31)      /* AMD: the fields below, each given by its first bit */
#define LANE_AMD_UNIT 0          /* 8 bits: CU, or WGP, in the shader array */
#define LANE_AMD_ARRAY 8         /* 1 bit: shader array in the engine */
#define LANE_AMD_ENGINE 16       /* 8 bits: shader engine in the die */
#define LANE_AMD_DIE 24          /* 4 bits: the die (XCC) */
#define LANE_AMD_WGP (1u << 9)   /* units are WGPs, of two CUs each */
#define LANE_AMD_DIES (1u << 10) /* the chip has several dies */

/* Track of a trace: its events follow each other or nest. */
struct row_lane {
	uint32_t kind;   /* enum lane_kind */
	uint32_t device; /* row of TABLE_DEVICES; not of threads */
	/*
	 * Threads: the system's thread id. Streams: the driver's stream id. Units: the CTA number
	 * in the lower half, the SM or CU that it ran on in the upper half.
	 */
	uint64_t id;
	/*
	 * Threads: order of first appearance, from 0. Units: the warp in the lower half, the
	 * sub-track in the upper half, both from 0.
	 */
	uint32_t number;
	uint32_t name; /* string; may be empty; units: the kernel's name */
};

enum event_kind {
	EVENT_NONE = 0, /* a row that is reserved but not filled */
	EVENT_SCOPE = 1,
	EVENT_LAUNCH = 2, /* a call that launches work for a device */
	EVENT_KERNEL = 3,
	EVENT_COPY = 4,
	EVENT_SET = 5,
	EVENT_UNIT = 6,    /* a warp of an instrumented kernel, from start to end */
	EVENT_SECTION = 7, /* an intra-kernel scope */
	/*
	 * Not an event: `start_ns` is the size in bytes of the memory copy or memset in the
	 * previous row, if its `detail` cannot represent it.
	 */
	EVENT_SIZE = 8,
};

enum event_flag {
	EVENT_OF_GRAPH = 1,  /* a graph launch, or work that ran as part of one */
	EVENT_NAMED = 2,     /* a launch with the launched kernel as its node */
	EVENT_OF_MEMORY = 4, /* a launch of a memory copy or memset */
	EVENT_ASYNC = 8,     /* a section that ran asynchronously to its warp */
	EVENT_PARTIAL = 16,  /* a section that was recorded in part: it took at least this long */
};

/*
 * Trace event with a duration. A thread fills the rows that it has reserved: it stores `kind` last,
 * and `end_ns` when the event ends.
 */
struct row_event {
	uint64_t start_ns; /* Unix time from a monotonic clock */
	uint64_t end_ns;   /* 0 while the event is open */
	uint32_t node;
	uint32_t lane;
	uint32_t epoch;
	/*
	 * scopes, launches: first sample; units: 0; sections that ended in another warp: the first
	 * lane of that warp + 1, else 0; others: the launch (events)
	 */
	uint32_t link;
	/*
	 * launches: correlation ID; kernels: row of launches; units: ns spent writing the records;
	 * sections: cycles; others: bytes; UINT32_MAX: see EVENT_SIZE
	 */
	uint32_t detail;
	uint16_t kind;  /* enum event_kind */
	uint16_t flags; /* enum event_flag; units: clock rate of the SM or CU in MHz */
};

/* A metric value given to an event. */
struct row_sample {
	uint32_t next;
	uint32_t metric; /* row of TABLE_METRICS */
	union {
		int64_t int64;
		double float64;
		uint64_t string;
		uint64_t vector;
	} as;
};

/* Launch configuration of kernel events; equal configurations mostly share a row. */
struct row_launch {
	struct launch_config config;
	uint32_t reserved;
};

/* Why a content is not stored. */
enum blob_flag {
	BLOB_LEFT_OUT = 1, /* it exceeds the limit of the file or of the process */
};

/* Machine code of a sampled module. */
struct row_code_object {
	uint64_t crc; /* as by cuptiGetCubinCrc() */
	uint64_t bytes;
	uint32_t blob;  /* first word in TABLE_BLOBS; 0: not known, or left out */
	uint32_t flags; /* enum blob_flag */
};

/* A function of a module that was launched or sampled during PC sampling. */
struct row_function {
	uint64_t crc;         /* of its code object; 0: not known, the name alone identifies it */
	uint32_t name;        /* string, mangled */
	uint32_t code_object; /* row of TABLE_CODE_OBJECTS; 0: none, as without samples */
};

/* Samples of one instruction with one stall reason. */
struct row_pc {
	uint32_t function; /* row of TABLE_FUNCTIONS; 0: the row is unused */
	uint32_t offset;   /* in bytes from the start of the function */
	uint32_t reason;   /* string: the vendor's name of the stall reason */
	uint32_t epoch;
	uint32_t node; /* the kernel's node; 0: not known, see row_run */
	uint32_t reserved;
	uint64_t samples;
	uint64_t not_issued; /* a subset, taken while the scheduler issued nothing */
};

/* Time of a function in a kernel row while samples were taken. */
struct row_run {
	uint32_t kernel; /* row of TABLE_KERNELS; 0: the row is unused */
	uint32_t function;
	uint32_t next; /* circular list of the kernel's rows; readers go by `kernel` */
	uint32_t reserved;
	uint64_t sampled_ns;
};

/* Text of a source file that samples refer to. */
struct row_source {
	uint32_t path; /* string */
	uint32_t flags;
	uint64_t bytes;
	uint64_t hash; /* FNV-1a of the whole file, 64 bits */
	uint32_t blob; /* first word in TABLE_BLOBS; 0: not stored */
	uint32_t reserved;
};

enum rank_state {
	RANK_FINISHED = 1,
	RANK_KILLED = 2, /* or still recording */
	RANK_DAMAGED = 3,
	RANK_MISSING = 4,   /* no profile; only `rank` is known */
	RANK_DUPLICATE = 5, /* another profile has the same rank; both are in the sums */
};

/* One rank of a merged job. */
struct row_rank {
	uint32_t rank;
	uint32_t state; /* enum rank_state */
	uint32_t host;  /* string, as the next two; may be empty */
	uint32_t job;
	uint32_t gpu; /* UUID of its first GPU */
	uint32_t pid;
	uint32_t attempt;
	uint32_t world;   /* number of ranks in its environment; 0: unknown */
	uint64_t shape;   /* hash of the paths of its tree: equal trees have equal ones */
	uint64_t time_ns; /* of its kernels */
	uint64_t kernels;
	uint64_t lost;    /* sum of its loss counters */
	uint32_t version; /* string: the version of Proton that recorded it; may be empty */
	uint32_t reason;  /* string: why it is damaged; may be empty */
	uint32_t number;  /* place of the rank in the order of the files */
	uint32_t files;   /* that were added up */
	uint32_t launch;  /* string: the launcher's number of the launch; may be empty */
	uint32_t process; /* string: its process on this host; may be empty */
	uint32_t mixed;   /* string: how the rank differs from most others; empty: it does not */
	uint32_t flags;   /* enum rank_flag */
};

enum rank_flag {
	RANK_UNNAMED = 1, /* the profile does not say which rank it is of */
};

#define SPREAD_BUCKETS 32u
#define SPREAD_TOP 8u

/* The kernel time of a node and all nodes below it, over the ranks that have any. */
struct row_spread {
	uint32_t node;
	uint32_t ranks;
	uint32_t min_rank;
	uint32_t max_rank;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t squares; /* sum of squares in us^2; stops at its maximum */
	/* Ranks by time: bucket i begins at 2^(i + 9) ns; the first and last are open. */
	uint32_t bucket[SPREAD_BUCKETS];
	uint32_t top_rank[SPREAD_TOP]; /* the ranks with the largest times, the largest first */
	uint64_t top_ns[SPREAD_TOP];   /* 0: there are no more */
};

union spread_number {
	int64_t int64;
	double float64;
};

/* The values of a metric in a node, over the ranks that have one. */
struct row_value_spread {
	uint32_t node;
	uint32_t metric;
	uint32_t type; /* enum proton_metric_type of the numbers: int64 or double */
	uint32_t ranks;
	uint32_t min_rank;
	uint32_t max_rank;
	union spread_number sum;
	union spread_number min;
	union spread_number max;
	double squares; /* sum of squares */
	/* Ranks by value: bucket i begins at 4^(i - 2); the first and last are open. */
	uint32_t bucket[SPREAD_BUCKETS];
	uint32_t top_rank[SPREAD_TOP]; /* the ranks with the largest values, the largest first */
	union spread_number top[SPREAD_TOP]; /* as many as there are ranks */
};

/* A node with the kernel time of each rank: column i has the cells from i times rows of ranks. */
struct row_column {
	uint32_t node;
	uint32_t reserved;
};

/*
 * Durations on a logarithmic scale in 2 bytes: exact below 4096 ns, else rounded down by less than
 * 1 in 2048. Longer durations have larger codes.
 */
static inline uint16_t duration_code(uint64_t duration_ns)
{
	if (duration_ns < 4096)
		return (uint16_t)duration_ns;
	uint32_t shift = 52u - (uint32_t)__builtin_clzll(duration_ns);
	if (shift > 30)
		return UINT16_MAX;
	return (uint16_t)((shift << 11) + (uint32_t)(duration_ns >> shift));
}

static inline uint64_t duration_of_code(uint16_t code)
{
	return code < 4096 ? code : (uint64_t)((code & 2047u) | 2048u) << ((code >> 11) - 1);
}

enum collective_flag {
	COLLECTIVE_HOST = 1,    /* a scope with a group, timed on the CPU; else a kernel */
	COLLECTIVE_LIMITED = 2, /* complete rows: the job has more than are kept while merging */
};

#define DURATIONS_PER_ROW 50u

/* Durations of a collective in one context: of occurrence `first`, of `first + stride`, ... */
struct row_durations {
	uint32_t node;   /* 0: the row is unused */
	uint32_t flags;  /* enum collective_flag */
	uint32_t next;   /* for the writer: the row with the following occurrences; 0: none */
	uint32_t stride; /* a power of two */
	uint32_t count;
	uint32_t group; /* string: the communicator; "": not known, see the metric "group" */
	uint32_t first;
	uint16_t code[DURATIONS_PER_ROW];
};

#define WAIT_TOP 8u

/* Waiting in the collectives of a context, over ranks. */
struct row_wait {
	uint32_t node;
	uint32_t flags;  /* enum collective_flag */
	uint32_t group;  /* string: the members of the communicator, or "" */
	uint32_t groups; /* number of communicators */
	uint32_t ranks;
	uint32_t stride; /* one in so many occurrences is compared */
	uint32_t rows;   /* in TABLE_OCCURRENCES, after the previous row's; 0: complete */
	uint32_t reserved;
	uint64_t occurrences;      /* compared, over all groups */
	uint64_t total_ns;         /* of all ranks, as if all were compared */
	uint64_t wait_ns;          /* part of it that was waiting */
	uint64_t time_ns;          /* the ranks' kernel time, or their run time (host) */
	uint64_t top_ns[WAIT_TOP]; /* waiting for a rank that came last, the longest first */
	uint32_t top_rank[WAIT_TOP];
	uint32_t top_count[WAIT_TOP]; /* occurrences in which it came last; 0: no more ranks */
	uint32_t top_of[WAIT_TOP];    /* occurrences of its group */
};

/* One occurrence in the ranks that have been merged so far. */
struct row_occurrence {
	uint64_t sum_ns;
	uint32_t ranks;
	uint32_t last_rank; /* with the shortest duration */
	uint32_t code;      /* that duration */
	uint32_t reserved;
};

enum profile_file_state {
	PROFILE_FILE_STARTING = 0,  /* nothing is recorded yet */
	PROFILE_FILE_RECORDING = 1, /* also the state after the process was killed */
	PROFILE_FILE_FINISHED = 2,
};

struct file_table {
	uint32_t id;
	uint32_t row_bytes;
	uint64_t rows; /* complete rows; stored after the rows themselves */
};

struct file_extent {
	uint32_t table;
	uint32_t reserved;
	uint64_t offset; /* file offset */
	uint64_t bytes;
};

/* The first PROFILE_FILE_HEADER_BYTES bytes. A table consists of its extents in order. */
struct file_header {
	char magic[8];
	uint16_t major; /* other major: unreadable; higher minor: skip unknown tables */
	uint16_t minor;
	uint32_t header_bytes;
	uint32_t state; /* enum profile_file_state */
	uint32_t pid;
	uint64_t start_ns; /* Unix time */
	uint64_t end_ns;   /* 0 while recording */
	uint32_t table_count;
	uint32_t extent_count;
	struct file_table tables[PROFILE_FILE_MAX_TABLES];
	struct file_extent extents[PROFILE_FILE_MAX_EXTENTS];
};

/*
 * A packed file, which is finished: this header, `table_count` times struct packed_table, and the
 * packed tables. The fields have the offsets of struct file_header.
 */
#define PACKED_FILE_MAJOR 2
#define PACKED_FILE_MINOR 0

struct packed_header {
	char magic[8];
	uint16_t major; /* PACKED_FILE_MAJOR */
	uint16_t minor;
	uint32_t header_bytes; /* where the first table may begin */
	uint32_t state;        /* PROFILE_FILE_FINISHED */
	uint32_t pid;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t table_count;
	uint32_t reserved;
};

#define PACKED_RAW 0              /* the rows themselves; `offset` is a multiple of 8 */
#define PACKED_STRINGS UINT64_MAX /* entries of strings, see format/pack.h */

struct packed_table {
	uint32_t id;
	uint32_t row_bytes;
	uint64_t rows;
	uint64_t columns; /* see format/pack.h, or PACKED_RAW or PACKED_STRINGS */
	uint64_t offset;  /* in the file */
	uint64_t bytes;
};

_Static_assert(sizeof(struct packed_header) == 48, "layout");
_Static_assert(sizeof(struct packed_table) == 40, "layout");
#define TABLE(name, id, row, bytes, ...) _Static_assert(sizeof(row) == (bytes), "layout");
#include "format/tables.def"
#undef TABLE
_Static_assert(sizeof(struct file_header) == 48 + 32 * 16 + 2048 * 24, "layout");
_Static_assert(sizeof(struct file_header) <= PROFILE_FILE_HEADER_BYTES, "layout");
