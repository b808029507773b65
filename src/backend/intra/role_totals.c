/* Warp role metrics: which CTAs are analyzed, and how results are added to the profile. */
#include "backend/intra/role_totals.h"

#include "base/buf.h"
#include "model/warp_metrics.h"

#define FIRST_LAUNCHES 8u
#define LATER_LAUNCHES 64u
#define CTAS_MAX 32u

#define NODE_METRICS_MAX 4u

/* ------------------------------------------------------------------ reporting */

/* Metrics of one node. Exclusive: the values of a role are not sums over its scopes. */
struct node_metrics {
	struct proton_metric values[NODE_METRICS_MAX];
	size_t count;
};

#define PUT(list, metric, value) put_metric(list, metric " (exc)", value)

static void put_metric(struct node_metrics *list, const char *name, uint64_t value)
{
	list->values[list->count++] = (struct proton_metric){
		.name = name,
		.type = PROTON_METRIC_INT64,
		.value.int64 = (int64_t)value,
	};
}

static void report(const struct node_metrics *list, struct proton_context where)
{
	if (list->count)
		proton_metrics_add(where, list->values, list->count, NULL);
}

static struct proton_context context_below(struct proton_context where, const char *name)
{
	return proton_context_enter(where, proton_frame(name, strlen(name)));
}

/* Name of a scope, or of the time outside scopes. */
static const char *scope_name(const struct instrument_layout *layout, uint32_t scope)
{
	return scope < layout->scope_count ? layout->scopes[scope] : WARPS_OUTSIDE_FRAME;
}

static void report_scope(const struct role_totals *totals, const struct warps_sums *sums,
			 uint32_t role, uint32_t scope)
{
	const struct instrument_layout *layout = totals->layout;
	bool is_wait = scope < layout->scope_count && warps_is_wait(totals->kinds.of[scope]);
	struct warps_cell cell = {0};
	struct node_metrics list = {0};

	for (uint32_t u = 0; u < sums->unit_count; u++) {
		if (totals->roles.of[u] != role)
			continue;
		cell.executions += warps_cell(sums, u, scope)->executions;
		cell.cycles += warps_cell(sums, u, scope)->cycles;
		cell.path += warps_cell(sums, u, scope)->path;
	}
	if (!cell.cycles && (!cell.executions || totals->kinds.is_async[scope]))
		return;
	if (is_wait)
		PUT(&list, WARPS_WAIT_CYCLES, cell.cycles);
	else
		PUT(&list, WARPS_BUSY_CYCLES, cell.cycles);
	if (!layout->sum_count)
		PUT(&list, WARPS_PATH_CYCLES, cell.path);
	report(&list, context_below(totals->role_where[role], scope_name(layout, scope)));
}

static void report_role(const struct role_totals *totals, const struct warps_sums *sums,
			uint32_t role)
{
	struct warps_unit unit = {0};
	struct node_metrics list = {0};

	for (uint32_t u = 0; u < sums->unit_count; u++) {
		if (totals->roles.of[u] != role)
			continue;
		unit.ctas += sums->units[u].ctas;
		unit.cycles += sums->units[u].cycles;
		unit.idle += sums->units[u].idle;
		unit.path += sums->units[u].path;
	}
	/* Warps without work, such as those allocated next to a partition with one warp. */
	if (unit.idle == unit.cycles && !unit.path)
		return;
	PUT(&list, WARPS_SAMPLED_WARPS, unit.ctas);
	PUT(&list, WARPS_WARP_CYCLES, unit.cycles);
	PUT(&list, WARPS_IDLE_CYCLES, unit.idle);
	if (!totals->layout->sum_count)
		PUT(&list, WARPS_PATH_CYCLES, unit.path);
	report(&list, totals->role_where[role]);
	for (uint32_t i = 0; i <= sums->scope_count; i++)
		report_scope(totals, sums, role, i);
}

static void report_async(const struct role_totals *totals, const struct warps_sums *sums,
			 uint32_t scope)
{
	const struct warps_async *async = &sums->asyncs[scope];
	struct node_metrics list = {0};

	if (!async->executions)
		return;
	PUT(&list, WARPS_ASYNC_CYCLES, async->cycles);
	if (totals->kinds.has_waits)
		PUT(&list, WARPS_OVERLAPPED_CYCLES, async->overlapped);
	PUT(&list, WARPS_PATH_CYCLES, async->path);
	report(&list, context_below(context_below(totals->warps, WARPS_ASYNC_FRAME),
				    scope_name(totals->layout, scope)));
}

static bool find_roles(struct role_totals *totals, const struct warps_sums *sums)
{
	AT_END(out_fini) struct out name;

	warps_roles_find(sums, &totals->kinds, &totals->roles);
	out_init(&name, -1);
	for (uint32_t role = 0; role < totals->roles.count; role++) {
		name.length = 0;
		warps_role_name(&totals->roles, totals->layout, role, &name);
		if (name.errnum)
			break;
		totals->role_where[role] =
			proton_context_enter(totals->warps, proton_frame(name.bytes, name.length));
	}
	totals->has_roles = !name.errnum;
	return totals->has_roles;
}

static void report_sums(struct role_totals *totals, const struct warps_sums *sums,
			struct node_metrics *list)
{
	if (!sums->ctas || (!totals->has_roles && !find_roles(totals, sums)))
		return;
	PUT(list, WARPS_SAMPLED_CTAS, sums->ctas);
	PUT(list, WARPS_CTA_CYCLES, sums->cycles);
	if (sums->unseen)
		PUT(list, WARPS_UNSEEN_CYCLES, sums->unseen);
	for (uint32_t role = 0; role < totals->roles.count; role++)
		report_role(totals, sums, role);
	for (uint32_t i = 0; i < sums->scope_count; i++)
		report_async(totals, sums, i);
}

/* ------------------------------------------------------------------ launches */

void role_totals_init(struct role_totals *totals, const struct instrument_layout *layout,
		      struct proton_context where)
{
	totals->layout = layout;
	warps_kinds_read(layout, &totals->kinds);
	if (totals->kinds.is_worth_it)
		totals->warps = context_below(where, WARPS_FRAME);
}

void role_reading_begin(struct role_reading *reading, struct role_totals *totals, uint64_t slots)
{
	reading->stride = 0;
	reading->totals = totals->kinds.is_worth_it ? totals : NULL;
	if (!reading->totals)
		return;
	/* relaxed: only the number matters */
	uint64_t launch = atomic_fetch_add_explicit(&totals->launches, 1, memory_order_relaxed);
	if (!slots || (launch >= FIRST_LAUNCHES && launch % LATER_LAUNCHES != 0))
		return;
	warps_sums_fini(&reading->sums);
	if (!warps_sums_init(&reading->sums, totals->layout))
		return;
	/* Spread over the grid, and different in each launch. */
	reading->stride = (slots + CTAS_MAX - 1) / CTAS_MAX;
	reading->phase = launch % reading->stride;
	decoder_begin(&reading->exact, totals->layout, (struct decode_overhead){0});
}

bool role_reading_add(struct role_reading *reading, const struct decoder *decoder, uint64_t slot,
		      const void *bytes)
{
	if (!reading->stride || slot % reading->stride != reading->phase)
		return true;
	if (decoder->overhead.empty || decoder->overhead.scope) {
		if (!decode_cta(&reading->exact, bytes))
			return false;
		decoder = &reading->exact;
	}
	return warps_add(&reading->warps, decoder, &reading->totals->kinds, &reading->sums);
}

void role_reading_commit(struct role_reading *reading, uint64_t ctas)
{
	struct node_metrics list = {0};

	if (!reading->totals || !ctas)
		return;
	PUT(&list, WARPS_RECORDED_CTAS, ctas);
	if (reading->stride)
		report_sums(reading->totals, &reading->sums, &list);
	report(&list, reading->totals->warps);
	reading->totals = NULL;
	reading->stride = 0;
}

void role_reading_fini(struct role_reading *reading)
{
	warps_fini(&reading->warps);
	warps_sums_fini(&reading->sums);
	decoder_fini(&reading->exact);
	*reading = (struct role_reading){0};
}
