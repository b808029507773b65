/* --brief: the kernels, the claims of all rules with their confidence and commands, a verdict. */
#include "viewer/numbers/brief.h"

#include <inttypes.h>
#include <math.h>

#include "base/array.h"
#include "base/printable.h"
#include "model/estimates.h"
#include "model/regroup.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"

#define NEAR_PEAK 0.8        /* a kernel that cannot gain much */
#define EXPLAINED 0.1        /* part of the kernel time: a claim of it says enough */
#define LOST_SHARE 0.01      /* fewer lost records do not change a claim */
#define MODEL_ERROR 0.05     /* relative error of each gain, at least */
#define COMMAND_NAME_MAX 100 /* bytes of a kernel's name in a command */
#define NAME_BYTES 60        /* and in a text */

/* ------------------------------------------------------------------ kernels */

/* Variance of the times of single launches; NAN: not known. */
static double variance_of(const struct profile *profile, const struct profile_kernel *kernel)
{
	double count = (double)kernel->count;
	double mean = (double)kernel->total_ns / count;
	double range = (double)kernel->max_ns - (double)kernel->min_ns;
	double sum = 0;

	if (kernel->count < 2 || kernel->min_ns == KERNEL_TIME_UNKNOWN)
		return NAN;
	for (uint32_t i = 0; kernel->histogram && i < HISTOGRAM_BUCKETS; i++) {
		double middle = (double)histogram_bucket_start_ns(i) * (i % 2 ? 7.0 / 6 : 1.25);

		sum += profile->histograms[kernel->histogram].bucket[i] * (middle - mean) *
		       (middle - mean);
	}
	/* No variance is above a quarter of the range's square (Popoviciu). */
	return kernel->histogram ? fmin(sum / count, range * range / 4) : range * range / 4;
}

/* The number of recorded executions, if their count is an estimate. */
static uint64_t recorded_of(const struct brief *brief, uint32_t node)
{
	const struct raw_metric *samples = metrics_find(&brief->metrics, ESTIMATES_SAMPLES);
	double count = samples ? metrics_own_number(&brief->metrics, samples, node) : 0;

	return (uint64_t)fmin(fmax(0, count), 1e18);
}

static char *shown_name(const struct brief *brief, uint32_t frame)
{
	AUTO_FREE char *whole = name_text(brief->kernels, frame, brief->options->style.names);
	bool is_long = strlen(whole) > NAME_BYTES;
	return xasprintf("%.*s%s", NAME_BYTES, whole, is_long ? "..." : "");
}

static void read_kernel(const struct brief *brief, uint32_t node, const double *halves,
			struct brief_kernel *item)
{
	const struct profile *profile = brief->kernels;
	uint32_t frame = profile->nodes[node].frame;
	double squares = 0;
	double peak_s = fmax(util_min_flop_time_s(&brief->util, node),
			     util_min_byte_time_s(&brief->util, node));

	item->node = node;
	item->stored = profile_text(profile, profile->frames[frame].name);
	item->name = shown_name(brief, frame);
	item->peak_ns = peak_s > 0 ? peak_s * 1e9 : NAN;
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		const struct profile_kernel *kernel = &profile->kernels[k];

		item->total_ns += (double)kernel->total_ns;
		item->count += kernel->count;
		squares += (double)kernel->count * variance_of(profile, kernel);
	}
	item->half_ns = sqrt(squares) * repeats_student_t(fmax(1, (double)item->count - 1));
	item->recorded = item->count;
	if (halves) {
		item->half_ns = halves[node];
		item->recorded = recorded_of(brief, node);
	}
}

ARRAY_ORDER(by_time, struct brief_kernel,
	    ORDER_OF(b->total_ns, a->total_ns) ?: ORDER_OF(a->node, b->node))

static void read_kernels(struct brief *brief)
{
	const struct profile *profile = brief->kernels;
	AUTO_FREE double *halves = estimates_halves(profile, false);

	brief->items = xcalloc(profile->node_count, sizeof(*brief->items));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		struct brief_kernel *item = &brief->items[brief->item_count];

		if (!profile->nodes[i].first_kernel)
			continue;
		read_kernel(brief, i, halves, item);
		brief->item_count++;
		brief->total_ns += item->total_ns;
		brief->launches += item->count;
	}
	ARRAY_SORT(brief->items, brief->item_count, by_time);
}

/* ------------------------------------------------------------------ commands */

static void put_word(struct out *out, const char *word)
{
	size_t space = 4 * strlen(word) + 16;
	AUTO_FREE char *quoted = xcalloc(space, 1);

	shell_quote(quoted, space, word);
	out_text(out, quoted);
}

/* A regular expression for the name, up to what is not ASCII. */
static void put_kernel(struct out *out, const char *name)
{
	char pattern[2 * COMMAND_NAME_MAX + 1];
	size_t length = 0;

	for (size_t i = 0; i < COMMAND_NAME_MAX && name[i] >= ' ' && name[i] < 127; i++) {
		if (strchr("\\.[]()*+?{}|^$", name[i]))
			pattern[length++] = '\\';
		pattern[length++] = name[i];
	}
	pattern[length] = '\0';
	if (!length)
		return;
	out_text(out, " -i ");
	put_word(out, pattern);
}

static char *command_of(const struct brief *brief, const struct brief_claim *claim)
{
	const struct query_options *query = &brief->options->query;
	struct out out;
	size_t length;

	out_init(&out, -1);
	out_printf(&out, "proton-viewer %s", claim->rule->view);
	if (claim->kernel)
		put_kernel(&out, claim->kernel->stored);
	if (query->rank != RANK_NONE)
		out_printf(&out, " --rank %" PRIu32, query->rank);
	if (query->allow_mixed)
		out_text(&out, " --allow-mixed");
	if (query->peaks) {
		out_text(&out, " --peaks ");
		put_word(&out, query->peaks);
	}
	for (size_t i = 0; i < query->path_count; i++) {
		out_text(&out, i == 0 && query->paths[0][0] == '-' ? " -- " : " ");
		put_word(&out, query->paths[i]);
	}
	return out_take(&out, &length) ?: (xgive_up(), NULL);
}

/* ------------------------------------------------------------------ claims */

static void claim_fini(struct brief_claim *claim)
{
	FREE_ALL(claim->text, claim->command);
}

static enum brief_confidence judge(const struct brief_claim *claim)
{
	uint64_t enough = claim->rule->enough;

	if (claim->is_suspicion || claim->count < enough / 10 || claim->count < 2)
		return BRIEF_LOW;
	return !claim->is_modeled && claim->count >= enough && claim->half <= 0.1 * claim->number
		       ? BRIEF_HIGH
		       : BRIEF_MEDIUM;
}

/* A kernel gains at most its distance from the peak. */
static void limit_gain(struct brief_claim *claim)
{
	const struct brief_kernel *kernel = claim->kernel;
	double spare = kernel->total_ns - (isnan(kernel->peak_ns) ? 0 : kernel->peak_ns);

	claim->gain_ns = fmin(claim->gain_ns, spare);
	if (kernel->peak_ns >= NEAR_PEAK * kernel->total_ns)
		claim->gain_ns = 0;
	claim->gain_half = fmax(claim->gain_half, kernel->half_ns / kernel->total_ns);
}

static void try_rule(struct brief *brief, const struct brief_rule *rule,
		     const struct brief_kernel *kernel)
{
	struct brief_claim claim = {.rule = rule, .kernel = kernel};

	if (!rule->find(brief, kernel, &claim))
		return;
	claim.gain_half = fmax(MODEL_ERROR, claim.half / claim.number);
	if (claim.kernel)
		limit_gain(&claim);
	if (claim.gain_ns <= 0 || claim.gain_ns < BRIEF_PART * brief->total_ns) {
		claim_fini(&claim);
		return;
	}
	claim.confidence = judge(&claim);
	claim.command = command_of(brief, &claim);
	XADD(brief->claims, brief->claim_count, claim);
}

/* True if another claim says why, about the same kernel or about as much time. */
static bool is_explained(const struct brief *brief, const struct brief_claim *claim)
{
	ARRAY_EACH(other, brief->claims, brief->claim_count) {
		if (other->rule->is_general || other->confidence == BRIEF_LOW)
			continue;
		if (other->kernel == claim->kernel ||
		    (isnan(claim->kernel->peak_ns) &&
		     other->gain_ns >= EXPLAINED * brief->total_ns))
			return true;
	}
	return false;
}

/* Unknown gains come last. */
ARRAY_ORDER(by_gain, struct brief_claim,
	    ORDER_OF(isnan(a->gain_ns), isnan(b->gain_ns)) ?: ORDER_OF(b->gain_ns, a->gain_ns)
	    ?: ORDER_OF(a->rule, b->rule) ?: ORDER_OF(a->kernel, b->kernel))

static void find_claims(struct brief *brief)
{
	size_t kept = 0;

	for (const struct brief_rule *rule = brief_rules; rule->kind; rule++) {
		if (rule->is_of_profile)
			try_rule(brief, rule, NULL);
		for (size_t i = 0; !rule->is_of_profile && i < brief->item_count; i++)
			if (brief->items[i].total_ns >= BRIEF_PART * brief->total_ns)
				try_rule(brief, rule, &brief->items[i]);
	}
	/* General claims are the last. */
	for (size_t i = 0; i < brief->claim_count; i++) {
		if (brief->claims[i].rule->is_general && is_explained(brief, &brief->claims[i]))
			claim_fini(&brief->claims[i]);
		else
			brief->claims[kept++] = brief->claims[i];
	}
	brief->claim_count = kept;
	ARRAY_SORT(brief->claims, brief->claim_count, by_gain);
}

/* ------------------------------------------------------------------ the verdict */

static double lost_share(const struct brief *brief)
{
	const struct profile *profile = brief->profile;
	double lost = 0;

	for (size_t i = 0; i < profile->counter_count; i++)
		if (profile->counters[i].is_loss)
			lost += (double)profile->counters[i].value;
	return lost / fmax(1, lost + (double)brief->launches);
}

static char *cause_of(const struct brief_claim *claim)
{
	return claim->kernel ? xasprintf("%s (%s)", claim->rule->title, claim->kernel->name)
			     : xstrdup(claim->rule->title);
}

static void conclude(struct brief *brief)
{
	const struct brief_claim *claims = brief->claims;
	AUTO_FREE char *first = cause_of(&claims[0]);
	AUTO_FREE char *second = brief->claim_count > 1 ? cause_of(&claims[1]) : NULL;

	if (second && claims[0].gain_ns * (1 - claims[0].gain_half) <=
			      claims[1].gain_ns * (1 + claims[1].gain_half)) {
		brief->verdict = "tie";
		brief->verdict_text =
			xasprintf("no single cause: %s and %s are within noise of one another",
				  first, second);
	} else {
		brief->verdict = "one";
		brief->verdict_text =
			xasprintf("most can be gained from: %s%s", first,
				  claims[0].confidence == BRIEF_LOW ? ", with low confidence" : "");
	}
}

static void refuse(struct brief *brief, char *text)
{
	brief->verdict = "lost";
	brief->verdict_text = text;
	for (size_t i = 0; i < brief->claim_count; i++)
		brief->claims[i].confidence = BRIEF_LOW;
}

static void find_verdict(struct brief *brief)
{
	double lost = lost_share(brief);

	brief->verdict = "none";
	if (lost > LOST_SHARE)
		refuse(brief, xasprintf("no cause is certain: %.1f %% of the records were lost",
					100 * lost));
	else if (profile_is_partial(brief->profile))
		refuse(brief, xstrdup("no cause is certain: the profile is incomplete"));
	else if (brief->claim_count)
		conclude(brief);
	else if (brief->total_ns > 0)
		brief->verdict_text =
			xasprintf("nothing was found that can gain %.0f %% of the kernel time",
				  100 * BRIEF_PART);
	else
		brief->verdict_text = xstrdup("no cause found: the profile has no kernel times");
}

static void list_unknown(struct brief *brief)
{
	size_t count = 0;

	if (!brief->profile->trace)
		brief->unknown[count++] = "launch gaps (record with -d trace)";
	if (!brief->item_count || isnan(brief->items[0].peak_ns))
		brief->unknown[count++] = util_is_possible(&brief->metrics) &&
							  !util_is_known(&brief->metrics)
						  ? "peak rates of this device (--peaks)"
						  : "distance from the peak (-k triton)";
	if (!rollup_has(brief->profile, SAMPLES_ALL))
		brief->unknown[count++] = "stall reasons (--mode pcsampling)";
	if (brief->kernels->config_count < 2)
		brief->unknown[count] = "launch configurations";
}

int brief_init(struct brief *brief, struct profile *profile, const uint8_t *state,
	       const struct options *options, struct proton_error *err)
{
	*brief = (struct brief){.options = options, .profile = profile, .state = state};
	int status = profile_regroup(profile, REGROUP_KERNEL, 0, NULL, NULL, &brief->kernels, err);
	if (status)
		return status;
	metrics_init(&brief->metrics, brief->kernels);
	util_init(&brief->util, &brief->metrics);
	read_kernels(brief);
	find_claims(brief);
	list_unknown(brief);
	find_verdict(brief);
	return PROTON_OK;
}

void brief_fini(struct brief *brief)
{
	for (size_t i = 0; i < brief->item_count; i++)
		free(brief->items[i].name);
	for (size_t i = 0; i < brief->claim_count; i++)
		claim_fini(&brief->claims[i]);
	if (brief->kernels) {
		util_fini(&brief->util);
		metrics_fini(&brief->metrics);
	}
	FREE_ALL(brief->items, brief->claims, brief->verdict_text);
	profile_free(brief->kernels);
}
