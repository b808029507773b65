/* --fail-if: parsing and checking gates, and reporting their results. */
#include "viewer/numbers/gate.h"

#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "base/message.h"
#include "base/slice.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/derive.h"
#include "viewer/query/filter.h"
#include "viewer/query/frame_names.h"

static char *copy_trimmed(const char *text, size_t length)
{
	struct slice trimmed = slice_trim((struct slice){text, length});

	return xstrndup(trimmed.at, trimmed.length);
}

static int refuse_gate(const struct gate *gate, struct proton_error *err)
{
	return err_set(
		err, PROTON_E_INVALID,
		"invalid --fail-if \"%.100s\"; expected METRIC OP [+|-]NUMBER[%%] [in REGEX], "
		"where OP is <, <=, > or >=",
		gate->text);
}

/* "[+|-]NUMBER[%]"; returns what follows, or NULL. */
static const char *parse_amount(struct gate *gate, const char *text)
{
	bool has_sign = *text == '+' || *text == '-';
	char *end;

	/* Only digits: strtod() also accepts signs, "inf" and hexadecimal numbers. */
	if (!strchr("0123456789.", text[has_sign]) || !text[has_sign])
		return NULL;
	gate->amount = strtod(text, &end);
	if (end == text || !isfinite(gate->amount) || memchr(text, 'x', (size_t)(end - text)) ||
	    memchr(text, 'X', (size_t)(end - text)))
		return NULL;
	gate->kind = has_sign ? GATE_CHANGE : GATE_VALUE;
	if (*end == '%') {
		gate->is_percent = !has_sign;
		if (has_sign)
			gate->kind = GATE_CHANGE_PERCENT;
		else if (strcmp(gate->metric, "imbalance") != 0)
			return NULL;
		end++;
	}
	gate->amount_text = xstrndup(text, (size_t)(end - text));
	return end + strspn(end, " \t");
}

/* "time > 3" would mean three nanoseconds. Percentages are the same in every unit. */
static int check_unit(struct gate *gate, struct proton_error *err)
{
	if (!derive_lacks_unit(gate->metric))
		return PROTON_OK;
	if (gate->kind != GATE_CHANGE_PERCENT)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\": %.40s has no unit; write %.40s/ms "
			       "(or /s, /us, /ns)",
			       gate->text, gate->metric, gate->metric);
	char *metric = xasprintf("%s/ms", gate->metric);
	free(gate->metric);
	gate->metric = metric;
	return PROTON_OK;
}

int gate_parse(struct gate *gate, const char *text, struct proton_error *err)
{
	size_t length = strcspn(text, "<>");

	*gate = (struct gate){.text = xstrdup(text)};
	gate->metric = copy_trimmed(text, length);
	if (!text[length] || !*gate->metric)
		return refuse_gate(gate, err);
	gate->is_above = text[length] == '>';
	gate->is_equal_bad = text[length + 1] == '=';
	const char *rest = text + length + 1 + gate->is_equal_bad;
	rest = parse_amount(gate, rest + strspn(rest, " \t"));
	if (!rest)
		return refuse_gate(gate, err);
	if (strncmp(rest, "in", 2) == 0 && (rest[2] == ' ' || rest[2] == '\t')) {
		gate->pattern = copy_trimmed(rest + 2, strlen(rest + 2));
		rest = "";
	}
	if (*rest || (gate->pattern && !*gate->pattern))
		return refuse_gate(gate, err);
	return check_unit(gate, err);
}

void gate_fini(struct gate *gate)
{
	FREE_ALL(gate->text, gate->metric, gate->pattern, gate->amount_text);
	*gate = (struct gate){0};
}

double share_percent(double part, double whole)
{
	return whole == 0 ? NAN : 100 * part / fabs(whole);
}

double change_percent(double before, double after)
{
	if (before == after)
		return 0;
	return 100 * (after - before) / fabs(before);
}

/* The number that the limit is compared with. */
static double judged_of(const struct gate *gate, double before, double after)
{
	double change = difference_without_noise(after - before, fmax(fabs(before), fabs(after)));

	switch (gate->kind) {
	case GATE_CHANGE:
		return change;
	case GATE_CHANGE_PERCENT:
		return change == 0 ? 0 : change_percent(before, after);
	case GATE_VALUE:
		break;
	}
	return after;
}

static bool is_value_bad(const struct gate *gate, double value)
{
	if (value == gate->amount)
		return gate->is_equal_bad;
	return gate->is_above ? value > gate->amount : value < gate->amount;
}

/* True if the change may be noise, and the gate would pass without a change. */
static bool is_excused(const struct gate *gate, const struct gate_finding *finding)
{
	return gate->kind != GATE_VALUE && !isnan(finding->low) && !is_value_bad(gate, 0) &&
	       verdict_of(finding->low, finding->high, true) == VERDICT_NOISE;
}

/* True if `a` is a worse finding than `b`: failed, or farther in the direction of the limit. */
static bool is_worse(const struct gate *gate, const struct gate_finding *a,
		     const struct gate_finding *b)
{
	double left = judged_of(gate, a->before, a->after);
	double right = judged_of(gate, b->before, b->after);

	if (a->is_failed != b->is_failed)
		return a->is_failed;
	return gate->is_above ? left > right : left < right;
}

static void add_finding(struct gate_result *result, struct gate_finding *finding)
{
	const struct gate *gate = result->gate;

	if (is_value_bad(gate, judged_of(gate, finding->before, finding->after))) {
		finding->is_noise = is_excused(gate, finding);
		finding->is_failed = !finding->is_noise;
	}
	result->failed += finding->is_failed;
	result->within_noise += finding->is_noise;
	if (result->checked++ == 0 || is_worse(gate, finding, &result->worst))
		result->worst = *finding;
	/* Noise may fill only half of the list, which leaves space for failures. */
	if (result->finding_count >= (finding->is_failed  ? GATE_FINDINGS_MAX
				      : finding->is_noise ? GATE_FINDINGS_MAX / 2
							  : 0))
		return;
	XADD(result->findings, result->finding_count, *finding);
}

static struct gate_finding finding_of(const struct gate_numbers *numbers, uint32_t node)
{
	return (struct gate_finding){
		.node = node,
		.before = numbers->before ? numbers->before[node] : NAN,
		.after = numbers->after[node],
		.low = numbers->low ? numbers->low[node] : NAN,
		.high = numbers->high ? numbers->high[node] : NAN,
	};
}

int gate_check(const struct gate *gate, const struct profile *profile, const uint8_t *state,
	       const struct gate_numbers *numbers, struct gate_result *result,
	       struct proton_error *err)
{
	AUTO_FREE bool *matches = NULL;

	*result = (struct gate_result){.gate = gate, .label = numbers->label};
	if (gate->kind != GATE_VALUE && !numbers->before)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\" compares with a baseline and requires --diff",
			       gate->text);
	if (gate->pattern) {
		int status = filter_matches(profile, NULL, gate->pattern, &matches, err);

		if (status)
			return status;
	}
	for (uint32_t i = 0; i < profile->node_count; i++) {
		struct gate_finding finding = finding_of(numbers, i);

		if (matches ? !matches[i] : numbers->is_inclusive && i > 0)
			continue;
		if (state[i] == NODE_GONE || isnan(finding.after) ||
		    (gate->kind != GATE_VALUE && isnan(finding.before)))
			continue;
		add_finding(result, &finding);
	}
	if (result->checked == 0)
		return err_set(
			err, PROTON_E_INVALID,
			"--fail-if \"%.100s\" cannot be checked: no selected frame has a value",
			gate->text);
	return PROTON_OK;
}

void gate_result_fini(struct gate_result *result)
{
	free(result->findings);
	*result = (struct gate_result){0};
}

#define PRINTED_MAX 5

static const char *operator_of(const struct gate *gate)
{
	return gate->is_above ? (gate->is_equal_bad ? ">=" : ">")
			      : (gate->is_equal_bad ? "<=" : "<");
}

/* ------------------------------------------------------------------ messages */

/* " (before 3, after 3.2, 95 % interval +4.1% to +9.9%)", or "" of a value. */
static void put_change(char *text, size_t capacity, const struct gate *gate,
		       const struct gate_finding *finding)
{
	bool is_percent = gate->kind == GATE_CHANGE_PERCENT && finding->before != 0;
	double low = is_percent ? share_percent(finding->low, finding->before) : finding->low;
	double high = is_percent ? share_percent(finding->high, finding->before) : finding->high;
	const char *unit = is_percent ? "%" : "";

	text[0] = '\0';
	if (gate->kind == GATE_VALUE)
		return;
	size_t used = (size_t)snprintf(text, capacity, " (before %.6g, after %.6g", finding->before,
				       finding->after);
	if (!isnan(low) && used < capacity)
		used += (size_t)snprintf(text + used, capacity - used,
					 ", %.0f %% interval %+.3g%s to %+.3g%s",
					 100 * REPEATS_CONFIDENCE, low, unit, high, unit);
	if (used < capacity)
		snprintf(text + used, capacity - used, ")");
}

/* "time/ms 3.21 > 3.00 in matmul" */
static void report_finding(const struct gate_result *result, const struct profile *profile,
			   const struct gate_finding *finding)
{
	const struct gate *gate = result->gate;
	double judged = judged_of(gate, finding->before, finding->after);
	char value[40];
	AUTO_FREE char *name = name_text(profile, profile->nodes[finding->node].frame, NAMES_RAW);
	char change[200];

	snprintf(value, sizeof(value), gate->kind == GATE_VALUE ? "%.6g%s" : "%+.6g%s", judged,
		 gate->kind == GATE_CHANGE_PERCENT || gate->is_percent ? "%" : "");
	put_change(change, sizeof(change), gate, finding);
	message("gate %s: %s %s %s %s in %s%s%s", finding->is_failed ? "failed" : "passed",
		result->label, value, operator_of(gate), gate->amount_text, name, change,
		finding->is_noise ? ": within noise" : "");
}

void gate_report_result(const struct gate_result *result, const struct profile *profile)
{
	const struct gate *gate = result->gate;

	for (int is_noise = 0; is_noise <= 1; is_noise++) {
		size_t count = is_noise ? result->within_noise : result->failed;
		size_t printed = 0;

		for (size_t i = 0; i < result->finding_count && printed < PRINTED_MAX; i++) {
			if (result->findings[i].is_noise != is_noise)
				continue;
			report_finding(result, profile, &result->findings[i]);
			printed++;
		}
		if (count > printed)
			message("gate %s: %s: %zu more frames%s", is_noise ? "passed" : "failed",
				gate->text, count - printed, is_noise ? ": within noise" : "");
	}
}

/* ------------------------------------------------------------------ json */

static void put_finding(struct json_writer *json, const struct gate_result *result,
			const struct gate_finding *finding, const struct profile *profile)
{
	AUTO_FREE char *name = name_text(profile, profile->nodes[finding->node].frame, NAMES_RAW);

	json_begin_object(json);
	json_key_text(json, "frame", name);
	json_key_bool(json, "failed", finding->is_failed);
	if (isnan(finding->before)) {
		json_key_double(json, "value", finding->after);
		json_end_object(json);
		return;
	}
	json_key_double(json, "before", finding->before);
	json_key_double(json, "after", finding->after);
	json_key_double(json, "change", finding->after - finding->before);
	json_key_double(json, "change/%", change_percent(finding->before, finding->after));
	json_key_double(json, "low", finding->low);
	json_key_double(json, "high", finding->high);
	json_key_double(json, "low/%", share_percent(finding->low, finding->before));
	json_key_double(json, "high/%", share_percent(finding->high, finding->before));
	if (isnan(finding->low))
		json_key_double(json, "verdict", NAN);
	else
		json_key_text(json, "verdict",
			      verdict_words[verdict_of(finding->low, finding->high,
						       verdict_is_time(result->label))]);
	json_end_object(json);
}

static void put_result(struct json_writer *json, const struct gate_result *result,
		       const struct profile *profile)
{
	static const char *const kinds[] = {
		[GATE_VALUE] = "value",
		[GATE_CHANGE] = "change",
		[GATE_CHANGE_PERCENT] = "change/%",
	};

	json_line_break(json);
	json_begin_object(json);
	json_key_text(json, "gate", result->gate->text);
	json_key_text(json, "metric", result->label);
	json_key_text(json, "kind", kinds[result->gate->kind]);
	json_key_text(json, "operator", operator_of(result->gate));
	json_key_double(json, "limit", result->gate->amount);
	json_key_bool(json, "failed", result->failed > 0);
	json_key_uint64(json, "checked", result->checked);
	json_key_uint64(json, "failures", result->failed);
	json_key_uint64(json, "within_noise", result->within_noise);
	json_key_array(json, "frames");
	for (size_t i = 0; i < result->finding_count; i++)
		put_finding(json, result, &result->findings[i], profile);
	if (!result->finding_count)
		put_finding(json, result, &result->worst, profile);
	json_end_array(json);
	json_end_object(json);
}

void gate_write_json(struct json_writer *json, const struct gate_result *results, size_t count,
		     const struct profile *profile)
{
	json_key_array(json, "gates");
	for (size_t i = 0; i < count; i++)
		put_result(json, &results[i], profile);
	json_end_array(json);
}
