/* viewer/export: values that are stored once per run of equal ones, and the memory they take. */
#include "unit/tap.h"

#include "viewer/export/export_measure.h"

#define NODES 100u

static double *values_of(uint32_t count, double (*value)(uint32_t node))
{
	double *values = malloc(count * sizeof(*values));

	CHECK(values != NULL);
	for (uint32_t i = 0; i < count; i++)
		values[i] = value(i);
	return values;
}

static double thirds(uint32_t node)
{
	return node < 40 ? 1.5 : node < 70 ? NAN : -0.0;
}

static double each(uint32_t node)
{
	return node;
}

TEST(equal_values_in_a_row_are_stored_once)
{
	struct measure measure = {.total.values = values_of(NODES, thirds)};
	struct export_metric metric = {0};

	CHECK_U64(measure_pack(&measure, &metric, NODES),
		  3 * (8 + 8 + 4) + sizeof(measure) + sizeof(metric));
	CHECK_U64(metric.total.run_count, 3);
	CHECK(!metric.total.exact && !metric.own.values);
	for (uint32_t i = 0; i < NODES; i++) {
		double value = export_value(&metric.total, i);

		CHECK_EQ(export_run_of(&metric.total, i), i < 40 ? 0 : i < 70 ? 1 : 2);
		CHECK(i >= 40 && i < 70 ? isnan(value) : value == thirds(i));
	}
	measure_fini(&measure);
}

TEST(exact_values_that_differ_begin_another_run)
{
	struct measure measure = {.own.values = values_of(NODES, thirds)};
	struct export_metric metric = {0};

	measure.own.exact = calloc(NODES, sizeof(*measure.own.exact));
	CHECK(measure.own.exact != NULL);
	for (uint32_t i = 90; i < NODES; i++)
		measure.own.exact[i] = (int64_t)1 << 60;
	CHECK_U64(measure_pack(&measure, &metric, NODES),
		  4 * (8 + 8 + 4) + sizeof(measure) + sizeof(metric));
	CHECK_U64(metric.own.run_count, 4);
	CHECK_EQ(export_exact(&metric.own, 89), 0);
	CHECK_EQ(export_exact(&metric.own, 90), (int64_t)1 << 60);
	measure_fini(&measure);
}

TEST(values_that_all_differ_are_unchanged)
{
	struct measure measure = {.total.values = values_of(NODES, each)};
	struct export_metric metric = {.total.values = measure.total.values};

	CHECK_U64(measure_pack(&measure, &metric, NODES),
		  NODES * 8 + sizeof(measure) + sizeof(metric));
	CHECK(!metric.total.starts);
	CHECK_NEAR(export_value(&metric.total, 77), 77, 0);
	measure.total.exact = calloc(NODES, sizeof(*measure.total.exact));
	CHECK_U64(measure_pack(&measure, &metric, NODES),
		  NODES * 16 + sizeof(measure) + sizeof(metric));
	measure_fini(&measure);
}
