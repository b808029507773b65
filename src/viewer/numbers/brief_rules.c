/* --brief: the kinds of claims, and how each is found in a profile. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/numbers/brief.h"
#include "viewer/numbers/occupancy.h"
#include "viewer/numbers/source_causes.h"
#include "viewer/numbers/warps_report.h"
#include "viewer/print/xalloc.h"

#define ENOUGH_LAUNCHES 30
#define ENOUGH_SAMPLES 1000
#define ENOUGH_COLLECTIVES 10
#define FAR 0.6           /* of the peak */
#define LOSS_MIN 0.15     /* of a kernel's time, before a configuration is blamed */
#define OCCUPANCY_MIN 0.3 /* of the warps of a multiprocessor */
#define STALL_MIN 0.35    /* of a kernel's samples */
#define PATH_MIN 0.3      /* of its critical path */
#define IDLE_MIN 0.2      /* of the time between the first and the last work */
#define IMBALANCE_MIN 0.1
#define NAME_BYTES 100 /* of a frame in a claim */

static double share_of_time(const struct brief *brief, const struct brief_kernel *kernel)
{
	return brief->total_ns > 0 ? 100 * kernel->total_ns / brief->total_ns : 0;
}

/* Numbers without an interval: they follow from the program, not from its timing. */
static void set_exact(struct brief_claim *claim, double number, const char *unit)
{
	claim->number = claim->low = claim->high = number;
	claim->unit = unit;
}

static void set_time(struct brief_claim *claim, double total_ns, double half_ns, double unit_ns)
{
	claim->number = total_ns / unit_ns;
	claim->low = fmax(0, total_ns - half_ns) / unit_ns;
	claim->high = (total_ns + half_ns) / unit_ns;
	if (isnan(half_ns))
		claim->low = claim->high = NAN;
}

static void set_evidence(struct brief_claim *claim, const char *record, uint64_t count,
			 const char *counted)
{
	claim->record = record;
	claim->count = count;
	claim->counted = counted;
}

static bool is_copy(const struct brief_kernel *kernel)
{
	return strncmp(kernel->stored, "Memcpy ", 7) == 0 ||
	       strncmp(kernel->stored, "Memset ", 7) == 0;
}

static bool is_short(const struct brief_kernel *kernel)
{
	return kernel->total_ns < BRIEF_SHORT_NS * (double)kernel->count;
}

/* ------------------------------------------------------------------ launch configurations */

/* The share of the time of launches with a configuration that is lost. */
typedef double loss_fn(const char *arch, const struct row_device *device,
		       const struct launch_config *config);

struct losses {
	double lost_ns;
	const struct row_config *worst;
	const struct row_device *device; /* of the worst */
	uint64_t count;                  /* launches of configurations with a loss */
};

static double ctas_of(const struct launch_config *config)
{
	return (double)config->grid[0] * config->grid[1] * config->grid[2];
}

static double loss_of_few(const char *arch, const struct row_device *device,
			  const struct launch_config *config)
{
	(void)arch;
	return 1 - ctas_of(config) / (double)device->processors;
}

static double loss_of_tail(const char *arch, const struct row_device *device,
			   const struct launch_config *config)
{
	struct occupancy occupancy;
	double waves;

	if (!occupancy_of(arch, config, &occupancy))
		return 0;
	waves = ctas_of(config) / (occupancy.ctas * (double)device->processors);
	return waves > 1 ? 1 - waves / ceil(waves) : 0;
}

static double loss_of_occupancy(const char *arch, const struct row_device *device,
				const struct launch_config *config)
{
	struct occupancy occupancy;

	if (ctas_of(config) < (double)device->processors ||
	    !occupancy_of(arch, config, &occupancy) || !occupancy.limit)
		return 0;
	return occupancy.share < OCCUPANCY_MIN ? 1 - occupancy.share : 0;
}

/* Adds up a loss over all configurations. False: it is not worth a claim. */
static bool find_losses(const struct brief *brief, const struct brief_kernel *kernel,
			loss_fn *loss_of, struct losses *losses)
{
	const struct profile *profile = brief->kernels;
	double worst_ns = 0;

	*losses = (struct losses){0};
	for (uint32_t k = profile->nodes[kernel->node].first_kernel; k;
	     k = profile->kernels[k].next) {
		const struct row_device *device = &profile->devices[profile->kernels[k].device];

		for (uint32_t c = profile->kernels[k].first_config; c && device->processors;
		     c = profile->configs[c].next) {
			const struct row_config *config = &profile->configs[c];
			double loss = ctas_of(&config->config) > 0
					      ? loss_of(profile_text(profile, device->arch), device,
							&config->config)
					      : 0;
			double lost_ns = loss * (double)config->total_ns;

			if (loss <= 0)
				continue;
			losses->lost_ns += lost_ns;
			losses->count += config->count;
			if (lost_ns < worst_ns)
				continue;
			worst_ns = lost_ns;
			losses->worst = config;
			losses->device = device;
		}
	}
	return losses->worst && losses->lost_ns >= LOSS_MIN * kernel->total_ns;
}

static void set_losses(struct brief_claim *claim, const struct losses *losses)
{
	set_evidence(claim, "launch configuration", losses->count, "launches");
	claim->gain_ns = losses->lost_ns;
}

static bool find_few_ctas(const struct brief *brief, const struct brief_kernel *kernel,
			  struct brief_claim *claim)
{
	struct losses losses;
	double ctas;

	if (!find_losses(brief, kernel, loss_of_few, &losses))
		return false;
	ctas = ctas_of(&losses.worst->config);
	claim->text = xasprintf("%s (%.0f %% of the kernel time) is launched with %.0f CTA%s, the "
				"GPU has %" PRIu64 " multiprocessors",
				kernel->name, share_of_time(brief, kernel), ctas,
				ctas > 1 ? "s" : "", losses.device->processors);
	set_exact(claim, ctas / (double)losses.device->processors, "CTAs per multiprocessor");
	set_losses(claim, &losses);
	claim->assumption = "if the same work used all multiprocessors";
	claim->confidence = brief_judge(true, losses.count, ENOUGH_LAUNCHES,
					kernel->half_ns / kernel->total_ns);
	return true;
}

static bool find_tail(const struct brief *brief, const struct brief_kernel *kernel,
		      struct brief_claim *claim)
{
	struct losses losses;
	struct occupancy occupancy;
	double waves;

	if (!find_losses(brief, kernel, loss_of_tail, &losses) ||
	    !occupancy_of(profile_text(brief->kernels, losses.device->arch), &losses.worst->config,
			  &occupancy))
		return false;
	waves = ctas_of(&losses.worst->config) /
		(occupancy.ctas * (double)losses.device->processors);
	claim->text = xasprintf("%s (%.0f %% of the kernel time) runs %.0f CTAs in %.2f waves: the "
				"last one leaves multiprocessors idle",
				kernel->name, share_of_time(brief, kernel),
				ctas_of(&losses.worst->config), waves);
	set_exact(claim, waves, "waves");
	set_losses(claim, &losses);
	claim->assumption = "if CTAs take equally long and the waves were full";
	claim->confidence = brief_judge(false, losses.count, ENOUGH_LAUNCHES, 0);
	return true;
}

static bool find_occupancy(const struct brief *brief, const struct brief_kernel *kernel,
			   struct brief_claim *claim)
{
	const struct launch_config *config;
	struct losses losses;
	struct occupancy occupancy;
	bool is_far = kernel->peak_ns < FAR * kernel->total_ns;

	if (!find_losses(brief, kernel, loss_of_occupancy, &losses) ||
	    !occupancy_of(profile_text(brief->kernels, losses.device->arch), &losses.worst->config,
			  &occupancy))
		return false;
	config = &losses.worst->config;
	claim->text = xasprintf(
		"%s (%.0f %% of the kernel time) fills %.0f %% of the warps of a multiprocessor, "
		"limited by %s (%" PRIu32 " registers%s, %" PRIu64 " bytes of shared memory)",
		kernel->name, share_of_time(brief, kernel), 100 * occupancy.share, occupancy.limit,
		config->registers_per_thread,
		config->registers_per_thread >= 255 ? ", the maximum: it may spill" : "",
		(uint64_t)config->static_shared_bytes + config->dynamic_shared_bytes);
	set_exact(claim, occupancy.share, "occupancy");
	set_losses(claim, &losses);
	claim->assumption = "if its time fell as its warps rise";
	/* Fast kernels have a low occupancy, too. */
	claim->confidence = is_far ? brief_judge(false, losses.count, ENOUGH_LAUNCHES, 0)
				   : BRIEF_LOW;
	return true;
}

/* ------------------------------------------------------------------ times of kernels */

static bool find_far_from_peak(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	double flop_s = util_min_flop_time_s(&brief->util, kernel->node);
	double byte_s = util_min_byte_time_s(&brief->util, kernel->node);
	double share = kernel->peak_ns / kernel->total_ns;

	if (!(share < FAR) || is_short(kernel))
		return false;
	claim->text = xasprintf("%s (%.0f %% of the kernel time) reaches %.0f %% of the peak of %s",
				kernel->name, share_of_time(brief, kernel), 100 * share,
				flop_s > byte_s ? "arithmetic" : "the memory");
	set_exact(claim, share, "of the peak");
	claim->low = kernel->peak_ns / (kernel->total_ns + kernel->half_ns);
	claim->high = kernel->peak_ns / fmax(kernel->peak_ns, kernel->total_ns - kernel->half_ns);
	if (isnan(kernel->half_ns))
		claim->high = NAN;
	set_evidence(claim, "roofline of flops and bytes", kernel->count, "launches");
	claim->gain_ns = kernel->total_ns - kernel->peak_ns;
	claim->assumption = "if it ran at the peak";
	claim->confidence = brief_judge(flop_s > 0 && byte_s > 0, kernel->count, ENOUGH_LAUNCHES,
					kernel->half_ns / kernel->total_ns);
	return true;
}

static bool find_dominant(const struct brief *brief, const struct brief_kernel *kernel,
			  struct brief_claim *claim)
{
	if (kernel->total_ns < 0.5 * brief->total_ns || is_copy(kernel) || is_short(kernel) ||
	    kernel->peak_ns < FAR * kernel->total_ns)
		return false;
	claim->text = xasprintf("%s takes %.0f %% of the kernel time; why is not known",
				kernel->name, share_of_time(brief, kernel));
	set_time(claim, kernel->total_ns, kernel->half_ns, 1e6);
	set_evidence(claim, "kernel times", kernel->count, "launches");
	claim->gain_ns = kernel->total_ns;
	claim->assumption = "if it took no time at all";
	claim->confidence = brief_judge(false, kernel->count, ENOUGH_LAUNCHES, 0);
	return true;
}

/* Kernels of a kind, together. */
static struct brief_kernel sum_of(const struct brief *brief,
				  bool (*is_one)(const struct brief_kernel *kernel))
{
	struct brief_kernel sum = {0};

	for (size_t i = 0; i < brief->item_count; i++) {
		const struct brief_kernel *kernel = &brief->items[i];

		if (!is_one(kernel))
			continue;
		sum.count += kernel->count;
		sum.total_ns += kernel->total_ns;
		sum.half_ns = hypot(sum.half_ns, kernel->half_ns);
	}
	return sum;
}

static void set_sum(struct brief_claim *claim, const struct brief_kernel *sum)
{
	set_evidence(claim, "kernel times", sum->count, "launches");
	claim->gain_ns = sum->total_ns;
	claim->half_ns = sum->half_ns;
	claim->confidence =
		brief_judge(true, sum->count, ENOUGH_LAUNCHES, sum->half_ns / sum->total_ns);
}

static bool find_short_kernels(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	struct brief_kernel sum = sum_of(brief, is_short);

	(void)kernel;
	if (sum.count < 100 || sum.total_ns < 0.3 * brief->total_ns)
		return false;
	claim->text = xasprintf("%" PRIu64 " of %" PRIu64 " launches are of kernels below %.0f us",
				sum.count, brief->launches, BRIEF_SHORT_NS / 1e3);
	set_time(claim, sum.total_ns / (double)sum.count, sum.half_ns / (double)sum.count, 1e3);
	claim->unit = "us each";
	set_sum(claim, &sum);
	claim->assumption = "if others did their work, without the gaps between them";
	return true;
}

static bool find_copies(const struct brief *brief, const struct brief_kernel *kernel,
			struct brief_claim *claim)
{
	struct brief_kernel sum = sum_of(brief, is_copy);

	(void)kernel;
	if (sum.total_ns < 0.2 * brief->total_ns || !sum.count)
		return false;
	claim->text = xasprintf("memory copies and memsets take %.0f %% of the time of the GPU",
				share_of_time(brief, &sum));
	set_time(claim, sum.total_ns, sum.half_ns, 1e6);
	set_sum(claim, &sum);
	claim->assumption = "if none of them were needed";
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
		const struct row_event *launch;

		if (!event || event->kind < EVENT_KERNEL || event->kind > EVENT_SET ||
		    event->end_ns <= event->start_ns)
			continue;
		launch = trace_event(trace, event->link);
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

static void add_gap(struct gaps *gaps, uint64_t busy_until_ns, const struct work *next)
{
	double gap_ns = (double)(next->start_ns - busy_until_ns);

	gaps->idle_ns += gap_ns;
	gaps->squares += gap_ns * gap_ns;
	gaps->count++;
	if (next->launch_ns > busy_until_ns)
		gaps->late_ns += gap_ns;
}

static struct gaps sum_gaps(const struct work *list, size_t count)
{
	struct gaps gaps = {0};
	uint64_t end_ns = 0;

	for (size_t i = 0; i < count; i++) {
		bool is_first = i == 0 || list[i].device != list[i - 1].device;

		if (is_first)
			end_ns = list[i].start_ns;
		if (list[i].start_ns > end_ns)
			add_gap(&gaps, end_ns, &list[i]);
		gaps.span_ns += list[i].start_ns > end_ns ? (double)(list[i].start_ns - end_ns) : 0;
		if (list[i].end_ns <= end_ns)
			continue;
		gaps.span_ns += (double)(list[i].end_ns -
					 (list[i].start_ns > end_ns ? list[i].start_ns : end_ns));
		end_ns = list[i].end_ns;
	}
	return gaps;
}

static bool find_launch_gaps(const struct brief *brief, const struct brief_kernel *kernel,
			     struct brief_claim *claim)
{
	struct gaps gaps = {0};
	struct work *list;
	size_t count;
	double half_ns, share;

	(void)kernel;
	if (!brief->profile->trace)
		return false;
	list = read_work(brief->profile->trace, &count);
	gaps = sum_gaps(list, count);
	free(list);
	if (!gaps.count || gaps.idle_ns < IDLE_MIN * gaps.span_ns)
		return false;
	half_ns = 2 *
		  sqrt(fmax(0, gaps.squares - gaps.idle_ns * gaps.idle_ns / (double)gaps.count));
	share = gaps.late_ns / gaps.idle_ns;
	claim->text = xasprintf("the GPU is idle %.0f %% of %.3f ms, in %" PRIu64 " gaps: before "
				"%.0f %% of it, the host had not launched the next kernel",
				100 * gaps.idle_ns / gaps.span_ns, gaps.span_ns / 1e6, gaps.count,
				100 * share);
	set_time(claim, gaps.idle_ns, half_ns, 1e6);
	set_evidence(claim, "launch gaps", gaps.count, "gaps");
	claim->gain_ns = gaps.idle_ns;
	claim->half_ns = half_ns;
	claim->assumption = "if the host launched ahead";
	claim->confidence =
		brief_judge(share >= 0.5, gaps.count, ENOUGH_LAUNCHES, half_ns / gaps.idle_ns);
	return true;
}

/* ------------------------------------------------------------------ samples and warps */

/* Wilson's 95 % interval of a share of samples. */
static void set_share(struct brief_claim *claim, uint64_t part, uint64_t all)
{
	double n = (double)all;
	double p = (double)part / n;
	double z2 = 1.96 * 1.96;
	double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
	double half = sqrt(z2 * (p * (1 - p) + z2 / (4 * n)) / n) / (1 + z2 / n);

	claim->number = p;
	claim->low = middle - half;
	claim->high = middle + half;
	claim->unit = "of the samples";
}

static char *line_text(const struct profile *profile, uint32_t file, uint32_t line)
{
	return file ? xasprintf("%s:%" PRIu32, profile_text(profile, file), line)
		    : xstrdup("a line that is not known");
}

/* The line that causes the waiting; without machine code, where the warps wait. */
static char *line_of(const struct source_report *report, const struct source_kernel *kernel,
		     uint32_t reason, bool *is_cause_out)
{
	const struct source_line *line = source_hottest(kernel, reason);
	struct source_cause cause = {0};
	struct source_causes causes;
	struct source_code code;
	uint64_t all;

	source_code_init(&code, report, NULL);
	source_causes_init(&causes, report, kernel, &code);
	*is_cause_out = source_causes_of_reason(&causes, reason, &cause, 1, &all) && cause.file;
	source_causes_fini(&causes);
	source_code_fini(&code);
	if (*is_cause_out)
		return line_text(report->profile, cause.file, cause.line);
	return line_text(report->profile, line ? line->file : 0, line ? line->line : 0);
}

/* True for reasons of kernels that are as fast as they can be. */
static bool is_arithmetic(const char *reason)
{
	return strcmp(reason, "math_pipe_throttle") == 0 || strcmp(reason, "dispatch_stall") == 0;
}

static bool claim_stall(const struct brief *brief, const struct source_report *report,
			struct brief_claim *claim)
{
	const struct source_kernel *kernel = &report->kernels[0];
	const struct profile *profile = report->profile;
	uint32_t waits[SOURCE_REASONS_MAX];
	const struct source_reason *reason;
	bool is_cause;
	uint64_t part;
	char *line;

	if (!source_waits(report, &kernel->samples, waits))
		return false;
	part = kernel->samples.by_reason[waits[0]];
	reason = &report->reasons[waits[0]];
	claim->kernel = brief_kernel_named(
		brief, profile_text(profile, profile->frames[kernel->frame].name));
	if ((double)part < STALL_MIN * (double)kernel->samples.all || !claim->kernel ||
	    is_arithmetic(reason->name))
		return false;
	line = line_of(report, kernel, waits[0], &is_cause);
	claim->text = xasprintf("%s (%.0f %% of the kernel time) waits for %s (%s) in %.0f %% of "
				"its samples, %s %s",
				claim->kernel->name, share_of_time(brief, claim->kernel),
				reason->known ? reason->known->words : "a reason without a name",
				reason->name, 100 * (double)part / (double)kernel->samples.all,
				is_cause ? "mostly caused by" : "mostly at", line);
	free(line);
	set_share(claim, part, kernel->samples.all);
	set_evidence(claim, "PC samples", kernel->samples.all, "samples");
	claim->gain_ns = claim->kernel->total_ns * claim->number;
	claim->assumption = "if its warps never waited for that";
	claim->confidence = brief_judge(true, kernel->samples.all, ENOUGH_SAMPLES,
					(claim->high - claim->low) / 2 / claim->number);
	return true;
}

static bool find_stall(const struct brief *brief, const struct brief_kernel *kernel,
		       struct brief_claim *claim)
{
	struct source_report report = {0};
	bool is_found = source_report_init(&report, brief->profile, brief->state, NULL, NULL) ==
				PROTON_OK &&
			report.kernel_count && claim_stall(brief, &report, claim);

	(void)kernel;
	source_report_fini(&report);
	return is_found;
}

/* The wait or the asynchronous work with the longest part of the critical path; NULL: none. */
static const struct warps_row *longest_of_path(const struct warps_kernel *kernel, double *path_out)
{
	const struct warps_row *longest = NULL;
	double max = 0;

	*path_out = 0;
	for (size_t i = 0; i < kernel->count; i++) {
		const struct warps_row *row = &kernel->rows[i];
		double path = row->number[WARPS_NUMBER_PATH];

		if (row->role == WARPS_NO_FRAME || isnan(path))
			continue;
		*path_out += path;
		if (row->scope == WARPS_NO_FRAME || path <= max ||
		    !(row->is_async || row->number[WARPS_NUMBER_WAIT] > 0))
			continue;
		longest = row;
		max = path;
	}
	return longest;
}

static bool claim_path(const struct brief *brief, const struct warps_kernel *warps,
		       struct brief_claim *claim)
{
	const struct profile *profile = brief->profile;
	const double *number = warps->rows[0].number;
	double path, share;
	const struct warps_row *row = longest_of_path(warps, &path);
	struct out name, scope;

	share = row ? row->number[WARPS_NUMBER_PATH] / path : 0;
	if (!(share >= PATH_MIN))
		return false;
	out_init(&name, -1);
	out_init(&scope, -1);
	name_write_shown(&name, profile, warps->rows[0].kernel, NAME_FULL,
			 brief->options->style.names);
	name_write_shown(&scope, profile, row->scope, NAME_FULL, brief->options->style.names);
	claim->text = xasprintf("%.*s has %.0f %% of its critical path in %.*s", (int)name.length,
				name.bytes, 100 * share, (int)scope.length, scope.bytes);
	out_fini(&name);
	out_fini(&scope);
	claim->kernel = brief_kernel_named(
		brief, profile_text(profile, profile->frames[warps->rows[0].kernel].name));
	set_exact(claim, share, "of the critical path");
	set_evidence(claim, "warps", (uint64_t)fmax(0, number[WARPS_NUMBER_SAMPLED_CTAS]), "CTAs");
	claim->gain_ns = claim->kernel ? share * claim->kernel->total_ns : NAN;
	claim->assumption = claim->kernel ? "if that took no time, and no other path were as long"
					  : "not known: the profile has no kernel times";
	claim->confidence = brief_judge(true, claim->count, ENOUGH_LAUNCHES, 0);
	return true;
}

static bool find_critical_path(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	struct warps_report report;
	bool is_found;

	(void)kernel;
	warps_report_init(&report, brief->profile, brief->state);
	is_found = report.kernel_count && claim_path(brief, &report.kernels[0], claim);
	warps_report_fini(&report);
	return is_found;
}

/* ------------------------------------------------------------------ ranks */

/* The collective with the longest waiting; NULL: none. */
static const struct row_wait *worst_wait(const struct brief *brief)
{
	const struct profile_waits *waits = brief->profile->waits;
	const struct row_wait *worst = NULL;

	for (size_t i = 0; waits && i < waits->count; i++) {
		const struct row_wait *row = &waits->series[i].row;

		if (row->occurrences && (!worst || row->wait_ns > worst->wait_ns))
			worst = row;
	}
	return worst && (double)worst->wait_ns >= BRIEF_PART * (double)worst->time_ns ? worst
										      : NULL;
}

static bool find_waiting_ranks(const struct brief *brief, const struct brief_kernel *kernel,
			       struct brief_claim *claim)
{
	const struct row_wait *row = worst_wait(brief);
	double last;
	char name[NAME_BYTES];

	(void)kernel;
	if (!row || !row->time_ns)
		return false;
	profile_frame_text(brief->profile, brief->profile->nodes[row->node].frame, name,
			   sizeof(name));
	last = row->top_of[0] ? (double)row->top_count[0] / row->top_of[0] : 0;
	claim->text = xasprintf("ranks wait %.0f %% of their %s time in %s; rank %" PRIu32
				" came last in %.0f %% of it",
				100 * (double)row->wait_ns / (double)row->time_ns,
				row->flags & COLLECTIVE_HOST ? "run" : "kernel", name,
				row->top_rank[0], 100 * last);
	set_exact(claim, (double)row->wait_ns / (double)row->time_ns, "of the time");
	set_evidence(claim, "ranks", row->occurrences, "collectives");
	claim->gain_ns = (double)row->wait_ns;
	claim->assumption = "of all ranks, if they came at the same time";
	claim->confidence = brief_judge(last >= 0.5, row->occurrences, ENOUGH_COLLECTIVES, 0);
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
		double more = (double)spread->max_ns - (double)spread->sum_ns / spread->ranks;

		if (spread->max_rank == rank && !profile->nodes[spread->node].first_child &&
		    more > max) {
			max = more;
			leaf = spread->node;
		}
	}
	return leaf;
}

static bool find_slow_rank(const struct brief *brief, const struct brief_kernel *kernel,
			   struct brief_claim *claim)
{
	const struct profile *profile = brief->profile;
	const struct row_spread *spread = profile->ranks ? ranks_spread(profile, 0) : NULL;
	char name[NAME_BYTES];
	double mean, imbalance;

	(void)kernel;
	if (!spread || spread->ranks < 2 || worst_wait(brief))
		return false;
	mean = (double)spread->sum_ns / spread->ranks;
	imbalance = spread_imbalance(spread);
	if (!(imbalance >= IMBALANCE_MIN))
		return false;
	profile_frame_text(profile, profile->nodes[slow_leaf(profile, spread->max_rank)].frame,
			   name, sizeof(name));
	claim->text = xasprintf("rank %" PRIu32 " has %.0f %% more kernel time than the mean of "
				"%" PRIu32 " ranks, mostly in %s",
				spread->max_rank, 100 * imbalance, spread->ranks, name);
	set_exact(claim, imbalance, "above the mean");
	set_evidence(claim, "ranks", spread->ranks, "ranks");
	claim->gain_ns =
		fmin((double)spread->sum_ns, ((double)spread->max_ns - mean) * spread->ranks);
	claim->assumption = "of all ranks, if the others wait for it";
	claim->confidence = brief_judge(false, spread->ranks, 4, 0);
	return true;
}

/* ------------------------------------------------------------------ the table */

#define CONFIGS "--top -m time/ms,count,launch_config"

/* clang-format off: one row per kind; general ones last */
const struct brief_rule brief_rules[] = {
	{"few_ctas", "few CTAs", find_few_ctas, .view = CONFIGS, .with_kernel = "-i "},
	{"tail_wave", "a tail wave", find_tail, .view = CONFIGS, .with_kernel = "-i "},
	{"low_occupancy", "low occupancy", find_occupancy, .view = CONFIGS, .with_kernel = "-i "},
	{"short_kernels", "many short kernels", find_short_kernels, .is_of_profile = true,
	 .view = "--top -m time/ms,count,avg_time/us"},
	{"memory_copies", "memory copies", find_copies, .is_of_profile = true,
	 .view = "--top -i '^Mem(cpy|set) '"},
	{"launch_gaps", "launch gaps", find_launch_gaps, .is_of_profile = true,
	 .view = "-o gaps.pftrace"},
	{"stall", "waiting warps", find_stall, .is_of_profile = true, .view = "--source",
	 .with_kernel = "-i "},
	{"critical_path", "the critical path", find_critical_path, .is_of_profile = true,
	 .view = "--warps", .with_kernel = "-i "},
	{"waiting_ranks", "waiting ranks", find_waiting_ranks, .is_of_profile = true,
	 .view = "--ranks"},
	{"slow_rank", "a slow rank", find_slow_rank, .is_of_profile = true, .view = "--ranks"},
	{"far_from_peak", "far from the peak", find_far_from_peak, .is_general = true,
	 .view = "--top -m time/ms,count,util", .with_kernel = "-i "},
	{"dominant_kernel", "one kernel dominates", find_dominant, .is_general = true,
	 .view = "--top", .with_kernel = "-i "},
};
/* clang-format on */

const size_t brief_rule_count = ARRAY_LENGTH(brief_rules);
