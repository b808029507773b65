/* --fail-if: parsing and checking gates. */
#include "viewer/numbers/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/derive.h"
#include "viewer/query/filter.h"

static const char *skip_spaces(const char *text)
{
	return text + strspn(text, " \t");
}

static char *trimmed(const char *text, size_t length)
{
	while (length > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		length--;
	}
	while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		length--;
	return xstrndup(text, length);
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
	return skip_spaces(end);
}

/* "time > 3" would mean three nanoseconds. Percentages are the same in every unit. */
static int check_unit(struct gate *gate, struct proton_error *err)
{
	char *metric;

	if (!derive_lacks_unit(gate->metric))
		return PROTON_OK;
	if (gate->kind != GATE_CHANGE_PERCENT)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\": %.40s has no unit; write %.40s/ms "
			       "(or /s, /us, /ns)",
			       gate->text, gate->metric, gate->metric);
	metric = xasprintf("%s/ms", gate->metric);
	free(gate->metric);
	gate->metric = metric;
	return PROTON_OK;
}

int gate_parse(struct gate *gate, const char *text, struct proton_error *err)
{
	size_t length = strcspn(text, "<>");
	const char *rest;

	*gate = (struct gate){.text = xstrdup(text)};
	gate->metric = trimmed(text, length);
	if (!text[length] || !*gate->metric)
		return refuse_gate(gate, err);
	gate->is_above = text[length] == '>';
	gate->is_equal_bad = text[length + 1] == '=';
	rest = parse_amount(gate, skip_spaces(text + length + 1 + gate->is_equal_bad));
	if (!rest)
		return refuse_gate(gate, err);
	if (strncmp(rest, "in", 2) == 0 && (rest[2] == ' ' || rest[2] == '\t')) {
		gate->pattern = trimmed(rest + 2, strlen(rest + 2));
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

double gate_judged(const struct gate *gate, double before, double after)
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
	double left = gate_judged(gate, a->before, a->after);
	double right = gate_judged(gate, b->before, b->after);

	if (a->is_failed != b->is_failed)
		return a->is_failed;
	return gate->is_above ? left > right : left < right;
}

static void add_finding(struct gate_result *result, struct gate_finding *finding)
{
	const struct gate *gate = result->gate;

	if (is_value_bad(gate, gate_judged(gate, finding->before, finding->after))) {
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
	XADD(result->findings, result->finding_capacity, result->finding_count, *finding);
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
	bool *matches = NULL;

	*result = (struct gate_result){.gate = gate, .label = numbers->label};
	if (gate->kind != GATE_VALUE && !numbers->before)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\" compares with a baseline and requires --diff",
			       gate->text);
	if (gate->pattern) {
		int status = filter_matches(profile, gate->pattern, &matches, err);

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
	free(matches);
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
