/* Results of gates: messages on standard error, and the "gates" of --json. */
#include "viewer/numbers/gate_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "viewer/numbers/repeats.h"
#include "viewer/query/frame_names.h"

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
	size_t used;

	text[0] = '\0';
	if (gate->kind == GATE_VALUE)
		return;
	used = (size_t)snprintf(text, capacity, " (before %.6g, after %.6g", finding->before,
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
	double judged = gate_judged(gate, finding->before, finding->after);
	char value[40];
	char *name = name_text(profile, profile->nodes[finding->node].frame, NAMES_RAW);
	char change[200];

	snprintf(value, sizeof(value), gate->kind == GATE_VALUE ? "%.6g%s" : "%+.6g%s", judged,
		 gate->kind == GATE_CHANGE_PERCENT || gate->is_percent ? "%" : "");
	put_change(change, sizeof(change), gate, finding);
	message("gate %s: %s %s %s %s in %s%s%s", finding->is_failed ? "failed" : "passed",
		result->label, value, operator_of(gate), gate->amount_text, name, change,
		finding->is_noise ? ": within noise" : "");
	free(name);
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
	char *name = name_text(profile, profile->nodes[finding->node].frame, NAMES_RAW);

	json_begin_object(json);
	json_key_text(json, "frame", name);
	free(name);
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
