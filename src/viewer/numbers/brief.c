/* --brief: kernels and their intervals, the claims of all rules in order, and the verdict. */
#include "viewer/numbers/brief.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/estimates.h"
#include "model/regroup.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"

#define NAME_COLUMNS 60
#define COMMAND_NAME_MAX 100 /* bytes of a kernel's name in a command */
#define LOST_SHARE 0.01      /* of the records: fewer do not change a claim */
#define MODEL_ERROR 0.05     /* of a gain: rules are no more exact than that */

const char *const brief_words[] = {
	[BRIEF_LOW] = "low", [BRIEF_MEDIUM] = "medium", [BRIEF_HIGH] = "high"};
const char *const brief_verdicts[] = {
	[BRIEF_NONE] = "none", [BRIEF_ONE] = "one", [BRIEF_TIE] = "tie", [BRIEF_LOST] = "lost"};

enum brief_confidence brief_judge(bool is_measured, uint64_t count, uint64_t enough,
				  double relative)
{
	if (count < enough / 10 || count < 2)
		return BRIEF_LOW;
	return is_measured && count >= enough && relative <= 0.1 ? BRIEF_HIGH : BRIEF_MEDIUM;
}

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
		double start = (double)histogram_bucket_start_ns(i);
		double middle = start * (i % 2 ? 7.0 / 6 : 1.25);

		sum += profile->histograms[kernel->histogram].bucket[i] * (middle - mean) *
		       (middle - mean);
	}
	/* No variance is above a quarter of the range's square (Popoviciu). */
	return kernel->histogram ? fmin(sum / count, range * range / 4) : range * range / 4;
}

static void read_kernel(const struct brief *brief, uint32_t node, const double *halves,
			struct brief_kernel *item)
{
	const struct profile *profile = brief->kernels;
	uint32_t frame = profile->nodes[node].frame;
	double squares = 0;
	double peak_s;

	item->node = node;
	item->stored = profile_text(profile, profile->frames[frame].name);
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		const struct profile_kernel *kernel = &profile->kernels[k];

		item->total_ns += (double)kernel->total_ns;
		item->count += kernel->count;
		if (kernel->count)
			squares += (double)kernel->count * variance_of(profile, kernel);
	}
	item->half_ns = sqrt(squares);
	if (item->count > 1)
		item->half_ns *= repeats_student_t((double)item->count - 1);
	if (halves)
		item->half_ns = halves[node];
	peak_s = fmax(util_min_flop_time_s(&brief->util, node),
		      util_min_byte_time_s(&brief->util, node));
	item->peak_ns = peak_s > 0 ? peak_s * 1e9 : NAN;
}

static char *shown_name(const struct brief *brief, const struct brief_kernel *item)
{
	struct out raw, clean;
	char *text;

	out_init(&raw, -1);
	out_init(&clean, -1);
	name_write_shown(&raw, brief->kernels, brief->kernels->nodes[item->node].frame, NAME_FULL,
			 brief->options->style.names);
	text_clean(&clean, raw.bytes, raw.length);
	raw.length = 0;
	text_shorten(&raw, clean.bytes, clean.length, NAME_COLUMNS, "...", false);
	text = xstrndup(raw.bytes, raw.length);
	out_fini(&raw);
	out_fini(&clean);
	return text;
}

ARRAY_ORDER(by_time, struct brief_kernel,
	    ORDER_OF(b->total_ns, a->total_ns) ?: ORDER_OF(a->node, b->node))

static void read_kernels(struct brief *brief)
{
	const struct profile *profile = brief->kernels;
	double *halves = estimates_halves(profile, false);
	double squares = 0;

	brief->items = xcalloc(profile->node_count, sizeof(*brief->items));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		struct brief_kernel *item = &brief->items[brief->item_count];

		if (!profile->nodes[i].first_kernel)
			continue;
		read_kernel(brief, i, halves, item);
		brief->item_count++;
		brief->total_ns += item->total_ns;
		brief->launches += item->count;
		squares += item->half_ns * item->half_ns;
	}
	brief->half_ns = sqrt(squares);
	ARRAY_SORT(brief->items, brief->item_count, by_time);
	for (size_t i = 0; i < brief->item_count; i++)
		brief->items[i].name = shown_name(brief, &brief->items[i]);
	free(halves);
}

const struct brief_kernel *brief_kernel_named(const struct brief *brief, const char *stored)
{
	for (size_t i = 0; i < brief->item_count; i++)
		if (strcmp(brief->items[i].stored, stored) == 0)
			return &brief->items[i];
	return NULL;
}

/* ------------------------------------------------------------------ commands */

static void put_quoted(struct out *out, const char *text, size_t length)
{
	out_byte(out, '\'');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\'')
			out_text(out, "'\\'");
		out_byte(out, text[i]);
	}
	out_byte(out, '\'');
}

/* As the shell takes it: in quotes only where they are needed. */
static void put_word(struct out *out, const char *text, size_t length)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./=,:+-";

	if (length && strspn(text, plain) >= length)
		out_bytes(out, text, length);
	else
		put_quoted(out, text, length);
}

/* A regular expression for the name, up to what is not ASCII. */
static void put_kernel(struct out *out, const char *option, const char *name)
{
	struct out pattern;

	out_init(&pattern, -1);
	for (size_t i = 0; i < COMMAND_NAME_MAX && name[i] >= ' ' && name[i] < 127; i++) {
		if (strchr("\\.[]()*+?{}|^$", name[i]))
			out_byte(&pattern, '\\');
		out_byte(&pattern, name[i]);
	}
	if (pattern.length) {
		out_printf(out, " %s", option);
		put_word(out, pattern.bytes, pattern.length);
	}
	out_fini(&pattern);
}

static char *command_of(const struct brief *brief, const struct brief_claim *claim)
{
	const struct query_options *query = &brief->options->query;
	struct out out;
	char *text;

	out_init(&out, -1);
	out_printf(&out, "proton-viewer %s", claim->rule->view);
	if (claim->kernel && claim->rule->with_kernel)
		put_kernel(&out, claim->rule->with_kernel, claim->kernel->stored);
	if (query->rank != RANK_NONE)
		out_printf(&out, " --rank %" PRIu32, query->rank);
	if (query->allow_mixed)
		out_text(&out, " --allow-mixed");
	if (query->allow_partial)
		out_text(&out, " --allow-partial");
	for (size_t i = 0; i < query->path_count; i++) {
		out_text(&out, i == 0 && query->paths[0][0] == '-' ? " -- " : " ");
		put_word(&out, query->paths[i], strlen(query->paths[i]));
	}
	text = xstrndup(out.bytes, out.length);
	out_fini(&out);
	return text;
}

/* ------------------------------------------------------------------ claims */

static void claim_fini(struct brief_claim *claim)
{
	free(claim->text);
	free(claim->command);
}

static void try_rule(struct brief *brief, const struct brief_rule *rule,
		     const struct brief_kernel *kernel)
{
	struct brief_claim claim = {.rule = rule, .kernel = kernel, .unit = "ms"};

	if (!rule->find(brief, kernel, &claim))
		return;
	if (claim.kernel && claim.kernel->peak_ns >= BRIEF_NEAR * claim.kernel->total_ns) {
		claim_fini(&claim);
		return;
	}
	if (claim.kernel) {
		double spare = claim.kernel->total_ns;

		if (!isnan(claim.kernel->peak_ns))
			spare -= claim.kernel->peak_ns;
		claim.gain_ns = fmin(claim.gain_ns, spare);
		claim.half_ns = claim.gain_ns * claim.kernel->half_ns / claim.kernel->total_ns;
	}
	claim.half_ns = fmax(claim.half_ns, MODEL_ERROR * claim.gain_ns);
	if (claim.gain_ns < BRIEF_PART * brief->total_ns) {
		claim_fini(&claim);
		return;
	}
	claim.command = command_of(brief, &claim);
	XADD(brief->claims, brief->claim_capacity, brief->claim_count, claim);
}

/* True if another claim says why: about the same kernel, or about a fifth of all the time. */
static bool is_explained(const struct brief *brief, const struct brief_claim *claim)
{
	for (size_t i = 0; i < brief->claim_count; i++) {
		const struct brief_claim *other = &brief->claims[i];

		if (other == claim || other->rule->is_general || other->confidence == BRIEF_LOW)
			continue;
		if (other->kernel == claim->kernel ||
		    (isnan(claim->kernel->peak_ns) && other->gain_ns >= 0.2 * brief->total_ns))
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

	for (size_t r = 0; r < brief_rule_count; r++) {
		const struct brief_rule *rule = &brief_rules[r];

		if (rule->is_of_profile)
			try_rule(brief, rule, NULL);
		for (size_t i = 0; !rule->is_of_profile && i < brief->item_count; i++) {
			if (brief->items[i].total_ns < BRIEF_PART * brief->total_ns)
				break;
			try_rule(brief, rule, &brief->items[i]);
		}
	}
	/* Claims that are not general come first in the table, and are kept. */
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

static uint64_t lost_records(const struct profile *profile)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < profile->counter_count; i++)
		if (profile->counters[i].is_loss &&
		    __builtin_add_overflow(lost, profile->counters[i].value, &lost))
			return UINT64_MAX;
	return lost;
}

static char *cause_of(const struct brief_claim *claim)
{
	return claim->kernel ? xasprintf("%s (%s)", claim->rule->title, claim->kernel->name)
			     : xstrdup(claim->rule->title);
}

static void conclude(struct brief *brief)
{
	uint64_t lost = lost_records(brief->profile);
	double share = (double)lost / ((double)lost + (double)brief->launches);
	const struct brief_claim *claims = brief->claims;
	char *first = brief->claim_count ? cause_of(&claims[0]) : NULL;
	char *second = brief->claim_count > 1 ? cause_of(&claims[1]) : NULL;

	if (lost && share > LOST_SHARE) {
		brief->verdict = BRIEF_LOST;
		brief->verdict_text = xasprintf("no cause is certain: %.1f %% of the records were "
						"lost",
						100 * share);
	} else if (profile_is_partial(brief->profile)) {
		brief->verdict = BRIEF_LOST;
		brief->verdict_text = xstrdup("no cause is certain: the profile is incomplete");
	} else if (!first) {
		brief->verdict_text =
			brief->total_ns > 0
				? xasprintf("no cause found that concerns %.0f %% of the time",
					    100 * BRIEF_PART)
				: xstrdup("no cause found: the profile has no kernel times");
	} else if (second &&
		   claims[0].gain_ns - claims[1].gain_ns <= claims[0].half_ns + claims[1].half_ns) {
		brief->verdict = BRIEF_TIE;
		brief->verdict_text =
			xasprintf("no single cause: %s and %s are within noise of one another",
				  first, second);
	} else {
		brief->verdict = BRIEF_ONE;
		brief->verdict_text = xasprintf("most can be gained from: %s", first);
	}
	for (size_t i = 0; brief->verdict == BRIEF_LOST && i < brief->claim_count; i++)
		brief->claims[i].confidence = BRIEF_LOW;
	free(first);
	free(second);
}

static void list_unknown(struct brief *brief)
{
	bool has_configs = brief->kernels->config_count > 1;
	bool has_peaks = brief->item_count && !isnan(brief->items[0].peak_ns);
	size_t count = 0;

	if (!brief->profile->trace)
		brief->unknown[count++] = "launch gaps (record with -d trace)";
	if (!has_peaks)
		brief->unknown[count++] = "distance from the peak (-k triton)";
	if (!rollup_has(brief->profile, SAMPLES_ALL))
		brief->unknown[count++] = "stall reasons (--mode pcsampling)";
	if (!has_configs)
		brief->unknown[count] = "launch configurations";
}

int brief_init(struct brief *brief, struct profile *profile, const uint8_t *state,
	       const struct options *options, struct proton_error *err)
{
	int status;

	*brief = (struct brief){.options = options, .profile = profile, .state = state};
	status = profile_regroup(profile, REGROUP_KERNEL, NULL, NULL, &brief->kernels, err);
	if (status)
		return status;
	metrics_init(&brief->metrics, brief->kernels);
	util_init(&brief->util, &brief->metrics);
	read_kernels(brief);
	find_claims(brief);
	list_unknown(brief);
	conclude(brief);
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
	*brief = (struct brief){0};
}
