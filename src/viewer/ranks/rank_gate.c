/* Gates of --ranks: which number a gate is about, and its check. */
#include "viewer/ranks/rank_gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "viewer/print/xalloc.h"

static double percent_of(const struct rank_row *row)
{
	return 100 * rank_row_imbalance(row);
}

static double ranks_of_row(const struct rank_row *row)
{
	return row->ranks;
}

static const struct number {
	const char *name;
	bool has_unit; /* that of the metric */
	double (*of)(const struct rank_row *row);
} numbers[] = {
	{"imbalance", false, percent_of}, {"could_go", true, rank_row_saving},
	{"mean", true, rank_row_mean},    {"min", true, rank_row_min},
	{"max", true, rank_row_max},      {"ranks", false, ranks_of_row},
};

/* The number with this name, and what its values are divided by. NULL: none. */
static const struct number *find(const char *name, const char *metric, double *divisor_out)
{
	size_t length = strcspn(name, "/");
	double ns = rank_time_divisor(metric);
	char unit[16];
	double wanted;

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		if (strlen(numbers[i].name) != length ||
		    strncmp(name, numbers[i].name, length) != 0)
			continue;
		*divisor_out = 1;
		if (!numbers[i].has_unit || ns == 0)
			return name[length] ? NULL : &numbers[i];
		snprintf(unit, sizeof(unit), "time%s", name + length);
		wanted = rank_time_divisor(unit);
		*divisor_out = wanted / ns;
		return wanted > 0 ? &numbers[i] : NULL;
	}
	return NULL;
}

static int check_percent(const struct gate *gate, struct proton_error *err)
{
	if (strcmp(gate->metric, "imbalance") != 0 || gate->kind != GATE_VALUE || gate->is_percent)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "--fail-if \"%.100s\": imbalance is in percent; write %s%%", gate->text,
		       gate->amount_text);
}

static double *unknown(size_t count)
{
	double *values = xcalloc(count, sizeof(*values));

	for (size_t i = 0; i < count; i++)
		values[i] = NAN;
	return values;
}

int rank_gate_check(const struct gate *gate, const struct rank_rows *rows,
		    const struct rank_diff *diff, struct gate_result *result,
		    struct proton_error *err)
{
	size_t count = rows->profile->node_count;
	double divisor = 1;
	const struct number *number = find(gate->metric, rows->metric, &divisor);
	struct gate_numbers values = {.is_inclusive = rows->is_inclusive};
	double *after;
	double *before;
	uint8_t *state;
	int status = check_percent(gate, err);

	*result = (struct gate_result){.gate = gate};
	if (!number)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\": --ranks has no %.60s; available: imbalance, "
			       "ranks, and %s",
			       gate->text, gate->metric,
			       rank_time_divisor(rows->metric) > 0
				       ? "could_go/ms, mean/ms, min/ms, max/ms (or /s, /us, /ns)"
				       : "could_go, mean, min, max");
	if (status != PROTON_OK)
		return status;
	state = xcalloc(count, 1);
	values.label = gate->metric;
	values.after = after = unknown(count);
	for (size_t i = 0; i < rows->count; i++)
		after[rows->items[i].node] = number->of(&rows->items[i]) / divisor;
	values.before = before = diff ? unknown(count) : NULL;
	for (size_t i = 0; diff && i < diff->count; i++)
		if (diff->items[i].before.ranks && diff->items[i].after.ranks)
			before[diff->items[i].after.node] = number->of(&diff->items[i].before) /
							    divisor;
	status = gate_check(gate, rows->profile, state, &values, result, err);
	free(state);
	free(after);
	free(before);
	return status;
}
