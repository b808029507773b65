/* Why a time changed: facts of both sides, and the first cause among these facts. */
#include "viewer/numbers/why.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/frame_names.h"

/* Rates and clocks that differ by less are taken as the same. */
#define SAME_WITHIN 0.01
/* How much of a change has to be explained: by counts, and by clocks, which all kernels share. */
#define HALF_OF_IT 0.5
#define MAIN_PART 0.75 /* clocks are sampled */

struct kernel_side {
	uint64_t count, ns;
	double flops, bytes;
	uint64_t code;               /* CRCs of its code objects; 0: not known */
	struct launch_config config; /* with the longest time */
	uint64_t config_ns;
};

struct why_kernel {
	char *name;
	struct kernel_side sides[WHY_SIDES];
};

/* In the order of importance. */
static const struct {
	const char *key, *name;
} versions[] = {
	{"nvidia_driver", "the NVIDIA driver"},
	{"cuda_driver", "the driver's CUDA"},
	{"cupti", "CUPTI"},
	{"host", "the machine"},
};

struct why_machine {
	char *devices;
	char *versions[ARRAY_LENGTH(versions)];
	char *reasons; /* for lower clocks */
	struct sum {
		double total;
		size_t count;
	} mhz, watts, others; /* means of runs; others: processes on the GPU */
};

static void machine_free(struct why_machine *machine)
{
	if (!machine)
		return;
	for (size_t i = 0; i < ARRAY_LENGTH(versions); i++)
		free(machine->versions[i]);
	FREE_ALL(machine->devices, machine->reasons, machine);
}

void why_fini(struct why *why)
{
	for (size_t i = 0; i < why->count; i++)
		free(why->kernels[i].name);
	free(why->kernels);
	hash_table_fini(&why->index);
	for (int side = 0; side < WHY_SIDES; side++)
		machine_free(why->machines[side]);
}

/* ------------------------------------------------------------------ facts about kernels */

static struct why_kernel *kernel_of(struct why *why, const struct profile *profile, uint32_t frame)
{
	uint32_t string = profile->frames[frame].name;
	uint64_t hash =
		hash_bytes(profile_text(profile, string), string_length(&profile->strings, string));
	uint32_t found = hash_table_find(&why->index, hash);

	if (found)
		return &why->kernels[found - 1];
	XADD(why->kernels, why->count,
	     (struct why_kernel){.name = name_text(profile, frame, NAMES_SHORT)});
	if (!hash_table_add(&why->index, hash, (uint32_t)why->count))
		xgive_up();
	return &why->kernels[why->count - 1];
}

static void add_configs(struct kernel_side *side, const struct profile *profile, uint32_t config)
{
	for (; config; config = profile->configs[config].next) {
		const struct row_config *row = &profile->configs[config];

		if (row->flags & CONFIG_OTHER || row->total_ns < side->config_ns)
			continue;
		side->config = row->config;
		side->config_ns = row->total_ns;
	}
}

/* The launch metadata. */
static void add_work(struct kernel_side *side, const struct profile *profile, uint32_t value)
{
	for (; value; value = profile->values[value].next) {
		const struct profile_value *row = &profile->values[value];
		const struct row_metric *metric = &profile->metrics[row->metric];
		const char *name = profile_text(profile, metric->name);
		double number = metric->type == PROTON_METRIC_INT64 ? (double)row->as.int64
								    : row->as.float64;

		if (!profile_is_number(metric->type))
			continue;
		if (strncmp(name, "flops", 5) == 0)
			side->flops += number;
		if (strcmp(name, "bytes") == 0)
			side->bytes += number;
	}
}

static void add_code(struct why *why, enum why_side side, const struct profile *profile)
{
	for (size_t i = 0; profile->samples && i < profile->samples->function_count; i++) {
		const struct profile_function *function = &profile->samples->functions[i];
		uint64_t hash = hash_bytes(profile_text(profile, function->name),
					   string_length(&profile->strings, function->name));
		uint32_t found = hash_table_find(&why->index, hash);

		/* Runs of a side are of one program: more of them change nothing. */
		if (found && !why->runs[side])
			why->kernels[found - 1].sides[side].code ^= function->crc;
	}
}

static void add_kernels(struct why *why, enum why_side which, const struct profile *profile)
{
	ARRAY_EACH(node, profile->nodes, profile->node_count) {
		if (!node->first_kernel)
			continue;
		struct kernel_side *side = &kernel_of(why, profile, node->frame)->sides[which];
		for (uint32_t k = node->first_kernel; k; k = profile->kernels[k].next) {
			side->count += profile->kernels[k].count;
			side->ns += profile->kernels[k].total_ns;
			add_configs(side, profile, profile->kernels[k].first_config);
		}
		add_work(side, profile, node->first_value);
	}
	add_code(why, which, profile);
}

/* ------------------------------------------------------------------ facts about machines */

static char *device_names(const struct profile *profile)
{
	char *names = xstrdup("");

	ARRAY_EACH(device, profile->devices, profile->device_count) {
		const char *name = profile_text(profile, *profile_text(profile, device->name)
								 ? device->name
								 : device->arch);

		if (!*name || strstr(names, name))
			continue;
		char *longer = xasprintf("%s%s%s", names, *names ? ", " : "", name);
		free(names);
		names = longer;
	}
	return names;
}

/* The second of three numbers: the mean. */
static void add_mean(const char *text, struct sum *sum)
{
	char *end;

	strtod(text, &end);
	text = end;
	double mean = strtod(text, &end);
	if (end == text || !isfinite(mean) || mean < 0)
		return;
	sum->total += mean;
	sum->count++;
}

static void add_state(struct why_machine *machine, const struct profile *profile)
{
	for (size_t i = 0; i < profile->info_count; i++) {
		const char *key = profile_text(profile, profile->info[i].key);
		const char *value = profile_text(profile, profile->info[i].value);
		const char *what = strchr(key, '_');

		if (strncmp(key, "gpu", 3) != 0 || !what)
			continue;
		if (strcmp(what, "_sm_clock_mhz") == 0)
			add_mean(value, &machine->mhz);
		else if (strcmp(what, "_power_limit_w") == 0)
			add_mean(value, &machine->watts);
		else if (strcmp(what, "_other_processes") == 0)
			add_mean(value, &machine->others);
		else if (strcmp(what, "_throttle_reasons") == 0 &&
			 (!machine->reasons || strcmp(machine->reasons, "none") == 0)) {
			free(machine->reasons);
			machine->reasons = xstrdup(value);
		}
	}
}

void why_add(struct why *why, enum why_side side, const struct profile *profile)
{
	struct why_machine *machine = why->machines[side];

	if (!machine) {
		machine = why->machines[side] = xcalloc(1, sizeof(*machine));
		machine->devices = device_names(profile);
		for (size_t i = 0; i < ARRAY_LENGTH(versions); i++)
			machine->versions[i] = xstrdup(profile_info_text(profile, versions[i].key));
	}
	add_state(machine, profile);
	add_kernels(why, side, profile);
	why->runs[side]++;
}

/* ------------------------------------------------------------------ causes */

/* Values of a run of each side. */
struct change {
	double before, after;
};

static double relative(struct change change)
{
	return change.before > 0 ? change.after / change.before - 1 : INFINITY;
}

static bool is_same(struct change change)
{
	return fabs(change.after - change.before) <=
	       SAME_WITHIN * fmax(fabs(change.before), fabs(change.after));
}

/* True if a value that the time is in proportion to has changed by `share` of the time or more. */
static bool explains(struct change value, struct change time, double share)
{
	double part = relative(value) / relative(time);

	return !is_same(value) && (isnan(part) || part >= share);
}

#define OF_RUN(why, kernel, field)                                                                 \
	((struct change){                                                                          \
		(double)(kernel)->sides[WHY_BEFORE].field / (double)(why)->runs[WHY_BEFORE],       \
		(double)(kernel)->sides[WHY_AFTER].field / (double)(why)->runs[WHY_AFTER]})

static double difference(const struct why *why, const struct why_kernel *kernel)
{
	struct change ns = OF_RUN(why, kernel, ns);

	return ns.after - ns.before;
}

static const struct why_kernel *largest_change(const struct why *why)
{
	const struct why_kernel *largest = &why->kernels[0];

	for (size_t i = 1; i < why->count; i++)
		if (fabs(difference(why, &why->kernels[i])) > fabs(difference(why, largest)))
			largest = &why->kernels[i];
	return largest;
}

static char *launches_cause(const struct why *why, const struct why_kernel *kernel)
{
	struct change count = OF_RUN(why, kernel, count);

	if (!explains(count, OF_RUN(why, kernel, ns), HALF_OF_IT))
		return NULL;
	return xasprintf("%s has %g launches, before %g", kernel->name, count.after, count.before);
}

/* Sizes of three dimensions. */
static void put_size(struct out *out, const char *what, const uint32_t after[3],
		     const uint32_t before[3])
{
	if (memcmp(after, before, 3 * sizeof(*after)) != 0)
		out_printf(out, ", %s %ux%ux%u, before %ux%ux%u", what, after[0], after[1],
			   after[2], before[0], before[1], before[2]);
}

static void put_number(struct out *out, const char *what, uint64_t after, uint64_t before)
{
	if (after != before)
		out_printf(out, ", %s %" PRIu64 ", before %" PRIu64, what, after, before);
}

/* The work of the launch metadata, or "". */
static bool put_work(struct out *out, const struct why *why, const struct why_kernel *kernel)
{
	struct change flops = OF_RUN(why, kernel, flops);
	struct change bytes = OF_RUN(why, kernel, bytes);
	struct change ns = OF_RUN(why, kernel, ns);
	struct change work = explains(flops, ns, HALF_OF_IT) ? flops : bytes;

	if (work.before == 0 || work.after == 0 || !explains(work, ns, HALF_OF_IT))
		return false;
	out_printf(out, ", %.4g %s, before %.4g", work.after,
		   work.after == flops.after ? "flops" : "bytes", work.before);
	return true;
}

/* Other shapes change the work and the grid; other code the registers, and perhaps the work. */
static char *launch_cause(const struct why *why, const struct why_kernel *kernel)
{
	const struct launch_config *before = &kernel->sides[WHY_BEFORE].config;
	const struct launch_config *after = &kernel->sides[WHY_AFTER].config;
	/* A file of another program may not have it. */
	bool is_known = before->block[0] && after->block[0];
	struct launch_config same = *before;
	struct out facts;
	bool is_work, is_code;
	size_t length;
	char *text, *cause;

	memcpy(same.grid, after->grid, sizeof(same.grid));
	is_code = is_known && memcmp(&same, after, sizeof(same)) != 0;
	out_init(&facts, -1);
	is_work = put_work(&facts, why, kernel);
	if (is_known) {
		put_size(&facts, "grid", after->grid, before->grid);
		put_size(&facts, "block", after->block, before->block);
		put_number(&facts, "registers", after->registers_per_thread,
			   before->registers_per_thread);
		put_number(&facts, "bytes of shared memory", shared_bytes_of(after),
			   shared_bytes_of(before));
	}
	text = out_take(&facts, &length) ?: (xgive_up(), NULL);
	cause = length ? xasprintf("%s %s%s", kernel->name,
				   is_work && is_code ? "has other shapes or code"
				   : is_work          ? "has other shapes"
				   : is_code          ? "is launched in another way"
						      : "has other shapes or blocks",
				   text)
		       : NULL;
	free(text);
	return cause;
}

static char *code_cause(const struct why *why, const struct why_kernel *kernel)
{
	uint64_t before = kernel->sides[WHY_BEFORE].code;
	uint64_t after = kernel->sides[WHY_AFTER].code;

	(void)why;
	if (!before || !after || before == after)
		return NULL;
	return xasprintf("the machine code of %s differs", kernel->name);
}

static char *gpu_cause(const struct why *why, const struct why_kernel *kernel)
{
	const char *before = why->machines[WHY_BEFORE]->devices;
	const char *after = why->machines[WHY_AFTER]->devices;

	(void)kernel;
	if (!*before || !*after || strcmp(before, after) == 0)
		return NULL;
	return xasprintf("another GPU: %s instead of %s", after, before);
}

/* NULL: nothing lowered the clocks. */
static const char *throttling(const struct why *why, enum why_side side)
{
	const char *reasons = why->machines[side]->reasons;

	return !reasons || strcmp(reasons, "none") == 0 || strcmp(reasons, "idle") == 0 ? NULL
											: reasons;
}

/* NAN: not known. */
#define MEANS_OF_SIDES(why, field)                                                                 \
	((struct change){(why)->machines[WHY_BEFORE]->field.total /                                \
				 (double)(why)->machines[WHY_BEFORE]->field.count,                 \
			 (why)->machines[WHY_AFTER]->field.total /                                 \
				 (double)(why)->machines[WHY_AFTER]->field.count})

/* More processes make a kernel slower, and lower the clocks, too. */
static char *others_cause(const struct why *why, const struct why_kernel *kernel)
{
	struct change others = MEANS_OF_SIDES(why, others);
	double more = others.after - others.before; /* NAN is not above 0 */

	if (!(more * difference(why, kernel) > 0) || is_same(others))
		return NULL;
	return xasprintf("other processes on the GPU: %.3g, before %.3g", others.after,
			 others.before);
}

/* A kernel is never slower by more than the clock is. */
static char *clock_cause(const struct why *why, const struct why_kernel *kernel)
{
	struct change mhz = MEANS_OF_SIDES(why, mhz);
	struct change period = {1 / mhz.before, 1 / mhz.after};
	const char *reasons = throttling(why, mhz.after < mhz.before ? WHY_AFTER : WHY_BEFORE);

	if (!(mhz.before > 0 && mhz.after > 0) ||
	    !explains(period, OF_RUN(why, kernel, ns), MAIN_PART))
		return NULL;
	return xasprintf("the SM clock was %.0f MHz, before %.0f%s%s%s", mhz.after, mhz.before,
			 reasons ? " (" : "", reasons ? reasons : "", reasons ? ")" : "");
}

static char *power_cause(const struct why *why, const struct why_kernel *kernel)
{
	const char *before = throttling(why, WHY_BEFORE), *after = throttling(why, WHY_AFTER);
	struct change watts = MEANS_OF_SIDES(why, watts);

	(void)kernel;
	if (!isnan(watts.before) && !isnan(watts.after) && !is_same(watts))
		return xasprintf("the power limit is %.0f W, before %.0f", watts.after,
				 watts.before);
	if (!why->machines[WHY_BEFORE]->reasons || !why->machines[WHY_AFTER]->reasons ||
	    strcmp(before ? before : "", after ? after : "") == 0)
		return NULL;
	return xasprintf("clocks were lowered by: %s, before %s", after ? after : "nothing",
			 before ? before : "nothing");
}

static char *version_cause(const struct why *why, const struct why_kernel *kernel)
{
	(void)kernel;
	for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
		const char *before = why->machines[WHY_BEFORE]->versions[i];
		const char *after = why->machines[WHY_AFTER]->versions[i];

		if (*before && *after && strcmp(before, after) != 0)
			return xasprintf("%s is %s, before %s", versions[i].name, after, before);
	}
	return NULL;
}

static char *unknown_cause(const struct why *why, enum why_noise noise)
{
	bool has_clock = why->machines[WHY_BEFORE]->mhz.count &&
			 why->machines[WHY_AFTER]->mhz.count;

	return xasprintf(
		"not known: no difference in launches, configurations%s or versions explains it%s",
		has_clock ? ", clocks" : "",
		noise == WHY_NOISE_UNKNOWN ? "; one run of a side cannot show noise" : "");
}

char *why_sentence(const struct why *why, enum why_noise noise)
{
	/* The first one that says something. */
	static char *(*const causes[])(const struct why *why, const struct why_kernel *kernel) = {
		gpu_cause,    launches_cause, launch_cause, code_cause,
		others_cause, clock_cause,    power_cause,  version_cause,
	};
	const struct why_kernel *kernel;
	AUTO_FREE char *cause = NULL;

	if (!why->count || !why->runs[WHY_BEFORE] || !why->runs[WHY_AFTER])
		return NULL;
	kernel = largest_change(why);
	if (difference_without_noise(difference(why, kernel), OF_RUN(why, kernel, ns).after) == 0)
		return NULL;
	if (noise == WHY_NOISE_ONLY)
		return xstrdup("Why: noise: the interval of the change contains 0");
	for (size_t i = 0; i < ARRAY_LENGTH(causes) && !cause; i++)
		cause = causes[i](why, kernel);
	if (!cause)
		cause = unknown_cause(why, noise);
	return xasprintf("Why: %s", cause);
}
