/* Gates. See gate.h. */
#include "viewer/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/filter.h"
#include "viewer/names.h"
#include "viewer/say.h"
#include "viewer/xalloc.h"

#define SAID_MOST 5

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

static int bad(const struct gate *gate, struct proton_error *err)
{
	return err_set(err, PROTON_E_INVALID,
		       "--fail-if \"%.100s\" is not METRIC >|<|>=|<= [+|-]NUMBER[%%] [in REGEX]",
		       gate->text);
}

/* "[+|-]NUMBER[%]"; returns what follows, or NULL. */
static const char *parse_amount(struct gate *gate, const char *text)
{
	bool has_sign = *text == '+' || *text == '-';
	char *end;

	/* strtod() knows signs, "inf" and hexadecimal numbers too; here it is digits. */
	if (!strchr("0123456789.", text[has_sign]) || !text[has_sign])
		return NULL;
	gate->amount = strtod(text, &end);
	if (end == text || !isfinite(gate->amount))
		return NULL;
	gate->kind = has_sign ? GATE_CHANGE : GATE_VALUE;
	if (*end == '%') {
		if (!has_sign)
			return NULL;
		gate->kind = GATE_CHANGE_PERCENT;
		end++;
	}
	return skip_spaces(end);
}

int gate_parse(struct gate *gate, const char *text, struct proton_error *err)
{
	size_t length = strcspn(text, "<>");
	const char *rest;

	*gate = (struct gate){.text = xstrndup(text, strlen(text))};
	gate->metric = trimmed(text, length);
	if (!text[length] || !*gate->metric)
		return bad(gate, err);
	gate->is_above = text[length] == '>';
	gate->is_equal_bad = text[length + 1] == '=';
	rest = parse_amount(gate, skip_spaces(text + length + 1 + gate->is_equal_bad));
	if (!rest)
		return bad(gate, err);
	if (strncmp(rest, "in", 2) == 0 && (rest[2] == ' ' || rest[2] == '\t')) {
		gate->pattern = trimmed(rest + 2, strlen(rest + 2));
		return *gate->pattern ? PROTON_OK : bad(gate, err);
	}
	return *rest ? bad(gate, err) : PROTON_OK;
}

void gate_fini(struct gate *gate)
{
	free(gate->text);
	free(gate->metric);
	free(gate->pattern);
	*gate = (struct gate){0};
}

double change_percent(double before, double after)
{
	if (before == after)
		return 0;
	return 100 * (after - before) / fabs(before);
}

static double judged(const struct gate *gate, double before, double after)
{
	switch (gate->kind) {
	case GATE_CHANGE:
		return after - before;
	case GATE_CHANGE_PERCENT:
		return change_percent(before, after);
	case GATE_VALUE:
		break;
	}
	return after;
}

static bool is_bad(const struct gate *gate, double value)
{
	if (value == gate->amount)
		return gate->is_equal_bad;
	return gate->is_above ? value > gate->amount : value < gate->amount;
}

static void say_failed(const struct gate *gate, const struct profile *profile, uint32_t node,
		       double before, double after)
{
	struct out name;

	out_init(&name, -1);
	name_write(&name, profile, profile->nodes[node].frame, NAME_FULL);
	out_byte(&name, '\0');
	if (gate->kind == GATE_VALUE)
		say("gate failed: %s: %s has %.6g", gate->text, name.bytes, after);
	else
		say("gate failed: %s: %s went from %.6g to %.6g (%+.3g%%)", gate->text, name.bytes,
		    before, after, change_percent(before, after));
	out_fini(&name);
}

int gate_check(const struct gate *gate, const struct profile *profile, const uint8_t *state,
	       const double *before, const double *after, bool is_inclusive, bool *holds_out,
	       struct proton_error *err)
{
	bool *matches = NULL;
	size_t checked = 0;
	size_t failed = 0;

	*holds_out = true;
	if (gate->kind != GATE_VALUE && !before)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\" is about a change and needs --diff",
			       gate->text);
	if (gate->pattern) {
		int status = filter_matches(profile, gate->pattern, &matches, err);

		if (status)
			return status;
	}
	for (uint32_t i = 0; i < profile->node_count; i++) {
		double old = before ? before[i] : NAN;

		if (matches ? !matches[i] : is_inclusive && i > 0)
			continue;
		if (state[i] == NODE_GONE || isnan(after[i]) ||
		    (gate->kind != GATE_VALUE && isnan(old)))
			continue;
		checked++;
		if (!is_bad(gate, judged(gate, old, after[i])))
			continue;
		if (failed++ < SAID_MOST)
			say_failed(gate, profile, i, old, after[i]);
	}
	free(matches);
	if (failed > SAID_MOST)
		say("gate failed: %s: and in %zu more frames", gate->text, failed - SAID_MOST);
	*holds_out = failed == 0;
	if (checked == 0)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\" cannot be checked: no frame that it is about "
			       "has a value",
			       gate->text);
	return PROTON_OK;
}
