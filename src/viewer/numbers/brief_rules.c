/* --brief: the kinds of claims, and how each is found in a profile. */
#include <inttypes.h>
#include <math.h>

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/numbers/brief.h"
#include "viewer/numbers/repeats.h"
#include "viewer/numbers/source_causes.h"
#include "viewer/numbers/warps_report.h"
#include "viewer/print/xalloc.h"

/* Shares from which something is claimed; up to which for FAR and OCCUPANCY_MIN. */
#define FAR 0.6           /* peak rate */
#define LOSS_MIN 0.15     /* time of a kernel that its configuration costs */
#define OCCUPANCY_MIN 0.3 /* warps of a multiprocessor */
#define STALL_MIN 0.35    /* samples of a kernel */
#define PATH_MIN 0.3      /* critical path */
#define IDLE_MIN 0.2      /* time between the first and the last work */
#define SHORT_MIN 0.3     /* kernel time */
#define COPIES_MIN 0.2
#define DOMINANT_MIN 0.5
#define NAME_BYTES 100 /* for a frame in a claim */

/* "matmul (61 % of the kernel time)" */
#define KERNEL_FORMAT "%s (%.0f %% of the kernel time)"
#define KERNEL_OF(brief, kernel) (kernel)->name, percent((kernel)->total_ns, (brief)->total_ns)

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

/* ------------------------------------------------------------------ occupancy */

/*
 * How many CTAs of a launch fit on a multiprocessor (NVIDIA), and why no more: limits are those of
 * the table "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide.
 */
struct occupancy {
	uint32_t ctas;     /* at the same time on a multiprocessor */
	double share;      /* their warps, of the maximum */
	const char *limit; /* "registers", "shared memory"; NULL: threads or CTAs */
};

#define WARP_THREADS 32u
#define REGISTERS 65536u
#define REGISTERS_OF_WARP 256u /* registers are given out in such portions */
#define WARPS_TOGETHER 4u      /* and to as many warps at once */
#define SHARED_PORTION 128u
#define SHARED_OF_SYSTEM 1024u /* per CTA, from compute capability 8.0 on */

struct limits {
	const char *arch;
	uint32_t threads;
	uint32_t ctas;
	uint32_t shared_kib;
};

static const struct limits limits_of_archs[] = {
	{"70", 2048, 32, 96},   {"75", 1024, 16, 64},   {"80", 2048, 32, 164},
	{"86", 1536, 16, 100},  {"87", 1536, 16, 164},  {"89", 1536, 24, 100},
	{"90", 2048, 32, 228},  {"100", 2048, 32, 228}, {"103", 2048, 32, 228},
	{"110", 1536, 24, 228}, {"120", 1536, 24, 100}, {"121", 1536, 24, 100},
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t ctas_by_registers(const struct launch_config *config, uint64_t warps)
{
	uint64_t each =
		round_up((uint64_t)config->registers_per_thread * WARP_THREADS, REGISTERS_OF_WARP);

	return each ? REGISTERS / each / WARPS_TOGETHER * WARPS_TOGETHER / warps : UINT64_MAX;
}

static uint64_t ctas_by_shared(const struct launch_config *config, const struct limits *limits)
{
	uint64_t bytes = shared_bytes_of(config);

	if (limits->shared_kib > 96)
		bytes += SHARED_OF_SYSTEM;
	return bytes ? (uint64_t)limits->shared_kib * 1024 / round_up(bytes, SHARED_PORTION)
		     : UINT64_MAX;
}

/* False: the limits of the architecture ("90") are not known, or the launch cannot run there. */
static bool occupancy_of(const char *arch, const struct launch_config *config,
			 struct occupancy *out)
{
	uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
	uint64_t warps = round_up(threads, WARP_THREADS) / WARP_THREADS;

	ARRAY_EACH(limits, limits_of_archs, ARRAY_LENGTH(limits_of_archs)) {
		if (strcmp(arch, limits->arch) != 0 || !threads || threads > limits->threads)
			continue;
		uint64_t registers = ctas_by_registers(config, warps);
		uint64_t shared = ctas_by_shared(config, limits);
		uint64_t ctas = limits->threads / (warps * WARP_THREADS);
		ctas = ctas < limits->ctas ? ctas : limits->ctas;
		*out = (struct occupancy){0};
		if (registers < ctas && registers <= shared)
			out->limit = "registers";
		else if (shared < ctas)
			out->limit = "shared memory";
		ctas = registers < ctas ? registers : ctas;
		out->ctas = (uint32_t)(shared < ctas ? shared : ctas);
		out->share = (double)(out->ctas * warps * WARP_THREADS) / limits->threads;
		return out->ctas > 0;
	}
	return false;
}

/* ------------------------------------------------------------------ launch configurations */

/* A launch configuration on its device. */
struct launch {
	const struct row_config *row;
	double ctas, processors;
	struct occupancy occupancy;
	bool has_occupancy;
};

/* The share of the time of a launch that is lost. */
typedef double loss_fn(const struct launch *launch);

static double loss_of_few(const struct launch *launch)
{
	return 1 - launch->ctas / launch->processors;
}

static double waves_of(const struct launch *launch)
{
	return launch->ctas / (launch->occupancy.ctas * launch->processors);
}

static double loss_of_tail(const struct launch *launch)
{
	double waves = launch->has_occupancy ? waves_of(launch) : 0;

	return waves > 1 ? 1 - waves / ceil(waves) : 0;
}

static double loss_of_occupancy(const struct launch *launch)
{
	return launch->has_occupancy && launch->occupancy.limit &&
			       launch->ctas >= launch->processors &&
			       launch->occupancy.share < OCCUPANCY_MIN
		       ? 1 - launch->occupancy.share
		       : 0;
}

static struct launch launch_of(const struct profile *profile, const struct profile_kernel *kernel,
			       const struct row_config *row)
{
	const struct row_device *device = &profile->devices[kernel->device];
	const uint32_t *grid = row->config.grid;
	struct launch launch = {.row = row,
				.ctas = (double)grid[0] * grid[1] * grid[2],
				.processors = (double)device->processors};

	launch.has_occupancy =
		occupancy_of(profile_text(profile, device->arch), &row->config, &launch.occupancy);
	return launch;
}

/* Adds up a loss over all configurations; the worst is in *out. False: it is too small. */
static bool find_loss(const struct brief *brief, const struct brief_kernel *kernel,
		      loss_fn *loss_of, struct launch *out, struct brief_claim *claim)
{
	const struct profile *profile = brief->kernels;
	double worst_ns = 0;

	for (uint32_t k = profile->nodes[kernel->node].first_kernel; k;
	     k = profile->kernels[k].next) {
		for (uint32_t c = profile->kernels[k].first_config; c;
		     c = profile->configs[c].next) {
			struct launch launch =
				launch_of(profile, &profile->kernels[k], &profile->configs[c]);
			double lost_ns = launch.ctas > 0 && launch.processors > 0
						 ? loss_of(&launch) * (double)launch.row->total_ns
						 : 0;

			if (lost_ns <= 0)
				continue;
			claim->gain_ns += lost_ns;
			claim->count += launch.row->count;
			if (lost_ns > worst_ns) {
				worst_ns = lost_ns;
				*out = launch;
			}
		}
	}
	if (claim->count > kernel->recorded)
		claim->count = kernel->recorded;
	return worst_ns > 0 && claim->gain_ns >= LOSS_MIN * kernel->total_ns;
}

static bool find_few_ctas(const struct brief *brief, const struct brief_kernel *kernel,
			  struct brief_claim *claim)
{
	struct launch launch;

	if (!find_loss(brief, kernel, loss_of_few, &launch, claim))
		return false;
	claim->number = launch.ctas / launch.processors;
	claim->text = xasprintf(KERNEL_FORMAT " is launched with %.0f CTA%s, the GPU has %.0f "
					      "multiprocessors",
				KERNEL_OF(brief, kernel), launch.ctas, launch.ctas > 1 ? "s" : "",
				launch.processors);
	return true;
}

static bool find_tail(const struct brief *brief, const struct brief_kernel *kernel,
		      struct brief_claim *claim)
{
	struct launch launch;

	if (!find_loss(brief, kernel, loss_of_tail, &launch, claim))
		return false;
	claim->number = waves_of(&launch);
	claim->is_modeled = true;
	claim->text = xasprintf(KERNEL_FORMAT " runs %.0f CTAs in %.2f waves: the last one leaves "
					      "multiprocessors idle",
				KERNEL_OF(brief, kernel), launch.ctas, claim->number);
	return true;
}

static bool find_occupancy(const struct brief *brief, const struct brief_kernel *kernel,
			   struct brief_claim *claim)
{
	struct launch launch;

	if (!find_loss(brief, kernel, loss_of_occupancy, &launch, claim))
		return false;
	const struct launch_config *config = &launch.row->config;
	claim->number = launch.occupancy.share;
	claim->is_modeled = true;
	/* Fast kernels have a low occupancy, too. */
	claim->is_suspicion = !(kernel->peak_ns < FAR * kernel->total_ns);
	claim->text = xasprintf(
		KERNEL_FORMAT " fills %.0f %% of the warps of a multiprocessor, limited by %s "
			      "(%" PRIu32 " registers%s, %.0f bytes of shared memory)",
		KERNEL_OF(brief, kernel), 100 * claim->number, launch.occupancy.limit,
		config->registers_per_thread,
		config->registers_per_thread >= 255 ? ", the maximum: it may spill" : "",
		(double)shared_bytes_of(config));
	return true;
}

/* ------------------------------------------------------------------ times of kernels */

static bool is_copy(const struct brief_kernel *kernel)
{
	return strncmp(kernel->stored, "Memcpy ", 7) == 0 ||
	       strncmp(kernel->stored, "Memset ", 7) == 0;
}

static bool is_short(const struct brief_kernel *kernel)
{
	return kernel->total_ns < BRIEF_SHORT_NS * (double)kernel->count;
}

/* The sum of the kernels of a kind. */
static struct brief_kernel sum_of(const struct brief *brief,
				  bool (*is_one)(const struct brief_kernel *kernel))
{
	struct brief_kernel sum = {0};

	ARRAY_EACH(kernel, brief->items, brief->item_count) {
		if (!is_one(kernel))
			continue;
		sum.count += kernel->count;
		sum.recorded += kernel->recorded;
		sum.total_ns += kernel->total_ns;
		/* Single launches have no interval: all of their time is in doubt. */
		sum.half_ns = hypot(sum.half_ns,
				    isnan(kernel->half_ns) ? kernel->total_ns : kernel->half_ns);
	}
	return sum;
}

static void set_time(struct brief_claim *claim, const struct brief_kernel *kernel, double unit_ns)
{
	claim->number = kernel->total_ns / unit_ns;
	claim->half = kernel->half_ns / unit_ns;
	claim->count = kernel->recorded;
	claim->gain_ns = kernel->total_ns;
}

static bool find_short_kernels(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	struct brief_kernel sum = sum_of(brief, is_short);

	if (sum.count < 100 || sum.total_ns < SHORT_MIN * brief->total_ns)
		return false;
	set_time(claim, &sum, 1e3 * (double)sum.count);
	claim->text = xasprintf("%" PRIu64 " of %" PRIu64 " launches are of kernels below %.0f us",
				sum.count, brief->launches, BRIEF_SHORT_NS / 1e3);
	return true;
}

static bool find_copies(const struct brief *brief, const struct brief_kernel *kernel,
			struct brief_claim *claim)
{
	struct brief_kernel sum = sum_of(brief, is_copy);

	if (!sum.count || sum.total_ns < COPIES_MIN * brief->total_ns)
		return false;
	set_time(claim, &sum, 1e6);
	claim->text = xasprintf("memory copies and memsets take %.0f %% of the time of the GPU",
				percent(sum.total_ns, brief->total_ns));
	return true;
}

/* Names of cuBLAS and CUTLASS: products of TF32 have "s1688gemm" or "tf32". */
static bool is_fp32_product(const struct brief_kernel *kernel)
{
	return strstr(kernel->stored, "sgemm") || strstr(kernel->stored, "_ffma_");
}

static bool has_tf32(const struct profile *profile)
{
	ARRAY_EACH(device, profile->devices, profile->device_count) {
		if (strcmp(profile_text(profile, device->type), "CUDA") == 0 &&
		    strtol(profile_text(profile, device->arch), NULL, 10) >= 80)
			return true;
	}
	return false;
}

static bool find_fp32_products(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	struct brief_kernel sum = sum_of(brief, is_fp32_product);

	if (!sum.count || !has_tf32(brief->kernels))
		return false;
	set_time(claim, &sum, 1e6);
	claim->is_modeled = true;
	claim->text =
		xasprintf("matrix products of FP32 take %.0f %% of the time of the GPU, and do "
			  "not use its tensor cores, which take TF32 (less precise)",
			  percent(sum.total_ns, brief->total_ns));
	return true;
}

static bool find_far_from_peak(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	double flop_s = util_min_flop_time_s(&brief->util, kernel->node);
	double byte_s = util_min_byte_time_s(&brief->util, kernel->node);

	if (!(kernel->peak_ns < FAR * kernel->total_ns) || is_short(kernel))
		return false;
	claim->number = kernel->peak_ns / kernel->total_ns;
	claim->half = claim->number * kernel->half_ns / kernel->total_ns;
	claim->count = kernel->recorded;
	claim->gain_ns = kernel->total_ns;
	claim->is_modeled = !(flop_s > 0 && byte_s > 0);
	claim->text = xasprintf(KERNEL_FORMAT " reaches %.0f %% of the peak of %s",
				KERNEL_OF(brief, kernel), 100 * claim->number,
				flop_s > byte_s ? "arithmetic" : "the memory");
	return true;
}

static bool find_dominant(const struct brief *brief, const struct brief_kernel *kernel,
			  struct brief_claim *claim)
{
	if (kernel->total_ns < DOMINANT_MIN * brief->total_ns || is_copy(kernel) ||
	    is_short(kernel) || kernel->peak_ns < FAR * kernel->total_ns)
		return false;
	set_time(claim, kernel, 1e6);
	claim->is_modeled = true;
	claim->text = xasprintf("%s takes %.0f %% of the kernel time; why is not known",
				KERNEL_OF(brief, kernel));
	return true;
}

/* ------------------------------------------------------------------ traces */

struct work {
	uint64_t start_ns, end_ns;
	uint64_t launch_ns; /* when the host launched it; 0: not known */
	uint32_t device;
};

ARRAY_ORDER(by_start, struct work,
	    ORDER_OF(a->device, b->device) ?: ORDER_OF(a->start_ns, b->start_ns))

/* Kernels and copies by device and start; malloc'd. */
static struct work *read_work(const struct profile_trace *trace, size_t *count_out)
{
	struct work *list = xcalloc(trace->event_count, sizeof(*list));
	size_t count = 0;

	for (uint64_t i = 1; i < trace->event_count; i++) {
		const struct row_event *event = trace_event(trace, i);

		if (!event || event->kind < EVENT_KERNEL || event->kind > EVENT_SET ||
		    event->end_ns <= event->start_ns)
			continue;
		const struct row_event *launch = trace_event(trace, event->link);
		list[count++] = (struct work){
			.start_ns = event->start_ns,
			.end_ns = event->end_ns,
			.launch_ns = launch && launch->kind == EVENT_LAUNCH ? launch->start_ns : 0,
			.device = trace->lanes[event->lane].device,
		};
	}
	ARRAY_SORT(list, count, by_start);
	*count_out = count;
	return list;
}

struct gaps {
	double span_ns, idle_ns, late_ns; /* late: the host had not launched the next work */
	double squares;
	uint64_t count;
};

static struct gaps sum_gaps(const struct work *list, size_t count)
{
	struct gaps gaps = {0};
	uint64_t end_ns = 0;

	for (size_t i = 0; i < count; i++) {
		if (i == 0 || list[i].device != list[i - 1].device)
			end_ns = list[i].start_ns;
		if (list[i].start_ns > end_ns) {
			double gap_ns = (double)(list[i].start_ns - end_ns);
			gaps.idle_ns += gap_ns;
			gaps.squares += gap_ns * gap_ns;
			gaps.late_ns += list[i].launch_ns > end_ns ? gap_ns : 0;
			gaps.count++;
		}
		if (list[i].end_ns > end_ns) {
			gaps.span_ns += (double)(list[i].end_ns - end_ns);
			end_ns = list[i].end_ns;
		}
	}
	return gaps;
}

static bool find_launch_gaps(const struct brief *brief, const struct brief_kernel *kernel,
			     struct brief_claim *claim)
{
	size_t count;

	if (!brief->profile->trace)
		return false;
	AUTO_FREE struct work *list = read_work(brief->profile->trace, &count);
	struct gaps gaps = sum_gaps(list, count);
	if (!gaps.count || gaps.idle_ns < IDLE_MIN * gaps.span_ns)
		return false;
	claim->number = gaps.idle_ns / 1e6;
	claim->half = 2e-6 * sqrt(fmax(0, gaps.squares - gaps.idle_ns * gaps.idle_ns /
								 (double)gaps.count));
	claim->count = gaps.count;
	claim->gain_ns = gaps.idle_ns;
	claim->is_modeled = gaps.late_ns < gaps.idle_ns / 2;
	claim->text = xasprintf("the device is idle %.0f %% of %.3f ms, in %" PRIu64 " gaps; in "
				"%.0f %% of it, the host had not launched the next kernel",
				percent(gaps.idle_ns, gaps.span_ns), gaps.span_ns / 1e6, gaps.count,
				percent(gaps.late_ns, gaps.idle_ns));
	return true;
}

/* ------------------------------------------------------------------ samples and warps */

/* The line that causes the waiting; without machine code, where the warps wait. */
static char *line_of(const struct source_report *report, const struct source_kernel *kernel,
		     uint32_t reason)
{
	const struct source_line *line = source_hottest(kernel, reason);
	struct source_cause cause = {.file = line ? line->file : 0, .line = line ? line->line : 0};
	struct source_causes causes;
	AT_END(source_code_fini) struct source_code code;
	uint64_t all;

	source_code_init(&code, report, NULL);
	source_causes_init(&causes, report, kernel, &code);
	bool is_cause = source_causes_of_reason(&causes, reason, &cause, 1, &all) > 0;
	free(causes.items);
	if (!cause.file)
		return xstrdup("mostly at a line that is not known");
	return xasprintf("%s %s:%" PRIu32, is_cause ? "mostly caused by" : "mostly at",
			 profile_text(report->profile, cause.file), cause.line);
}

/* The longest kernel of the name of this frame; NULL: none. */
static const struct brief_kernel *kernel_of(const struct brief *brief, uint32_t frame)
{
	const char *stored = profile_text(brief->profile, brief->profile->frames[frame].name);

	for (size_t i = 0; i < brief->item_count; i++)
		if (strcmp(brief->items[i].stored, stored) == 0)
			return &brief->items[i];
	return NULL;
}

static bool claim_stall(const struct brief *brief, const struct source_report *report,
			struct brief_claim *claim)
{
	const struct source_kernel *kernel = &report->kernels[0];
	uint32_t waits[SOURCE_REASONS_MAX];
	double all = (double)kernel->samples.all;

	if (!source_waits(report, &kernel->samples, waits))
		return false;
	const struct source_reason *reason = &report->reasons[waits[0]];
	claim->kernel = kernel_of(brief, kernel->frame);
	claim->number = (double)kernel->samples.by_reason[waits[0]] / all;
	/* Waiting for arithmetic is what a fast kernel does. */
	if (!(claim->number >= STALL_MIN && claim->number <= 1) || !claim->kernel ||
	    strcmp(reason->name, "math_pipe_throttle") == 0)
		return false;
	claim->half = 1.96 * sqrt(claim->number * (1 - claim->number) / all) + 0.5 / all;
	claim->count = kernel->samples.all;
	claim->gain_ns = claim->kernel->total_ns * claim->number;
	AUTO_FREE char *line = line_of(report, kernel, waits[0]);
	claim->text = xasprintf(KERNEL_FORMAT " waits for %s (%s) in %.0f %% of its samples, %s",
				KERNEL_OF(brief, claim->kernel),
				reason->known ? reason->known->words : "an unknown reason",
				reason->name, 100 * claim->number, line);
	return true;
}

static bool find_stall(const struct brief *brief, const struct brief_kernel *kernel,
		       struct brief_claim *claim)
{
	AT_END(source_report_fini) struct source_report report = {0};
	return source_report_init(&report, brief->profile, brief->state, NULL, NULL) == PROTON_OK &&
	       report.kernel_count && claim_stall(brief, &report, claim);
}

/* The wait or the asynchronous work with the longest part of the critical path; NULL: none. */
static const struct warps_row *longest_of_path(const struct warps_kernel *kernel, double *path_out)
{
	const struct warps_row *longest = NULL;
	double max = 0;

	*path_out = 0;
	for (size_t i = 1; i < kernel->count; i++) {
		const struct warps_row *row = &kernel->rows[i];
		double path = row->number[WARPS_NUMBER_PATH];

		*path_out += path > 0 ? path : 0;
		if (row->scope == WARPS_NO_FRAME || !(path > max) ||
		    !(row->is_async || row->number[WARPS_NUMBER_WAIT] > 0))
			continue;
		longest = row;
		max = path;
	}
	return longest;
}

static void frame_name(const struct brief *brief, uint32_t frame, char name[NAME_BYTES])
{
	profile_frame_text(brief->profile, frame, name, NAME_BYTES);
}

static bool claim_path(const struct brief *brief, const struct warps_kernel *warps,
		       struct brief_claim *claim)
{
	const struct warps_row *kernel = &warps->rows[0];
	double path;
	const struct warps_row *row = longest_of_path(warps, &path);
	char name[NAME_BYTES], scope[NAME_BYTES];

	if (!row)
		return false;
	claim->number = row->number[WARPS_NUMBER_PATH] / path;
	if (!(claim->number >= PATH_MIN))
		return false;
	claim->kernel = kernel_of(brief, kernel->kernel);
	claim->count = (uint64_t)fmin(fmax(0, kernel->number[WARPS_NUMBER_SAMPLED_CTAS]), 1e18);
	claim->gain_ns = claim->kernel ? claim->number * claim->kernel->total_ns : NAN;
	frame_name(brief, kernel->kernel, name);
	frame_name(brief, row->scope, scope);
	claim->text = xasprintf("%s has %.0f %% of its critical path in %s", name,
				100 * claim->number, scope);
	return true;
}

static bool find_critical_path(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	AT_END(warps_report_fini) struct warps_report report;

	warps_report_init(&report, brief->profile, brief->state);
	return report.kernel_count && claim_path(brief, &report.kernels[0], claim);
}

/* ------------------------------------------------------------------ ranks */

/* The collective with the longest waiting, if that is worth a claim; NULL: none. */
static const struct row_wait *worst_wait(const struct brief *brief)
{
	const struct profile_waits *waits = brief->profile->waits;
	const struct row_wait *worst = NULL;

	for (size_t i = 0; waits && i < waits->count; i++) {
		const struct row_wait *row = &waits->series[i].row;

		if (row->occurrences && (double)row->wait_ns >= BRIEF_PART * (double)row->time_ns &&
		    row->time_ns && (!worst || row->wait_ns > worst->wait_ns))
			worst = row;
	}
	return worst;
}

static bool find_waiting_ranks(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	const struct row_wait *row = worst_wait(brief);
	char name[NAME_BYTES];

	if (!row)
		return false;
	claim->number = (double)row->wait_ns / (double)row->time_ns;
	claim->count = row->occurrences;
	claim->gain_ns = (double)row->wait_ns;
	claim->is_modeled = 2 * (double)row->top_count[0] < row->top_of[0];
	frame_name(brief, brief->profile->nodes[row->node].frame, name);
	claim->text = xasprintf("ranks wait %.0f %% of their %s time in %s; rank %" PRIu32
				" came last in %.0f %% of %" PRIu32,
				100 * claim->number,
				row->flags & COLLECTIVE_HOST ? "run" : "kernel", name,
				row->top_rank[0], percent(row->top_count[0], row->top_of[0]),
				row->top_of[0]);
	return true;
}

/* The leaf in which the slowest rank exceeds the mean most. */
static uint32_t slow_leaf(const struct profile *profile, uint32_t rank)
{
	const struct profile_ranks *ranks = profile->ranks;
	double max = 0;
	uint32_t leaf = 0;

	for (size_t i = 1; i < ranks->spread_count; i++) {
		const struct row_spread *spread = &ranks->spreads[i];
		double more = spread->ranks ? (double)spread->max_ns -
						      (double)spread->sum_ns / spread->ranks
					    : 0;

		if (spread->max_rank != rank || profile->nodes[spread->node].first_child ||
		    more <= max)
			continue;
		max = more;
		leaf = spread->node;
	}
	return leaf;
}

static bool find_slow_rank(const struct brief *brief, const struct brief_kernel *kernel,
			   struct brief_claim *claim)
{
	const struct profile *profile = brief->profile;
	const struct row_spread *spread = profile->ranks ? ranks_spread(profile, 0) : NULL;
	char name[NAME_BYTES];

	if (!spread || spread->ranks < 2 || worst_wait(brief))
		return false;
	double ranks = spread->ranks;
	double mean = (double)spread->sum_ns / ranks;
	double variance =
		fmax(0, (double)spread->squares * 1e6 / ranks - mean * mean); /* of us^2 */
	claim->number = spread_imbalance(spread);
	claim->half = sqrt(variance / (ranks - 1)) * repeats_student_t(ranks - 1) *
		      (1 + claim->number) / mean;
	claim->count = spread->ranks;
	claim->gain_ns = fmin((double)spread->sum_ns, claim->number * (double)spread->sum_ns);
	claim->is_modeled = true;
	frame_name(brief, profile->nodes[slow_leaf(profile, spread->max_rank)].frame, name);
	claim->text = xasprintf("rank %" PRIu32 " has %.0f %% more kernel time than the mean of "
				"%" PRIu32 " ranks, mostly in %s",
				spread->max_rank, 100 * claim->number, spread->ranks, name);
	return true;
}

/* ------------------------------------------------------------------ the table */

#define CONFIGS "launch configuration", "launches", 30
#define CONFIGS_VIEW "--top -m time/ms,count,launch_config"
#define TIMES "kernel times", "launches", 30

/* clang-format off: one row per kind; general ones last */
const struct brief_rule brief_rules[] = {
	{"few_ctas", "few CTAs", find_few_ctas, false, false, "CTAs per multiprocessor", CONFIGS,
	 "if the same work used all multiprocessors", CONFIGS_VIEW},
	{"tail_wave", "a tail wave", find_tail, false, false, "waves", CONFIGS,
	 "if CTAs take equally long and the waves were full", CONFIGS_VIEW},
	{"low_occupancy", "low occupancy", find_occupancy, false, false, "occupancy", CONFIGS,
	 "if its time fell as its warps rise", CONFIGS_VIEW},
	{"short_kernels", "many short kernels", find_short_kernels, true, false, "us each", TIMES,
	 "if they were fused into other kernels", "--top -m time/ms,count,avg_time/us"},
	{"memory_copies", "memory copies", find_copies, true, false, "ms", TIMES,
	 "if none of them were needed", "--top -i '^Mem(cpy|set) '"},
	{"fp32_products", "products of FP32", find_fp32_products, true, false, "ms", TIMES,
	 "if TF32 took no time", "--top -i 'sgemm|_ffma_'"},
	{"launch_gaps", "launch gaps", find_launch_gaps, true, false, "ms", "launch gaps", "gaps",
	 30, "if the host launched ahead", "-o gaps.pftrace"},
	{"stall", "waiting warps", find_stall, true, false, "share of samples", "PC samples",
	 "samples", 1000, "if its warps never waited for that", "--source"},
	{"critical_path", "the critical path", find_critical_path, true, false,
	 "share of the critical path", "warps", "CTAs", 30, "if that took no time", "--warps"},
	{"waiting_ranks", "waiting ranks", find_waiting_ranks, true, false, "share of the time",
	 "ranks", "collectives", 10, "if all ranks came at the same time (sum of all)", "--ranks"},
	{"slow_rank", "a slow rank", find_slow_rank, true, false, "above the mean", "ranks",
	 "ranks", 4, "if the other ranks wait for it (sum of all)", "--ranks"},
	{"far_from_peak", "far from the peak", find_far_from_peak, false, true, "share of the peak",
	 "roofline of flops and bytes", "launches", 30, "if it ran at the peak",
	 "--top -m time/ms,count,util"},
	{"dominant_kernel", "one kernel without a recorded reason", find_dominant, false, true,
	 "ms", TIMES, "if it took no time at all", "--top"},
	{0},
};
/* clang-format on */
