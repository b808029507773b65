/* Arrows from scopes to their backward kernels, found by the order of both in time. */
#include "export/timeline_backward.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/trace_events.h"

/* A run of a scope, or a backward kernel below it. */
struct moment {
	uint64_t ns;    /* kernels: when they were launched */
	uint32_t scope; /* node of the profile */
	uint32_t row;   /* of events */
	bool is_kernel;
};

struct moments {
	struct moment *rows;
	size_t count;
	size_t capacity;
};

/* Arrays by node. */
struct places {
	uint32_t *scopes; /* the scope above the innermost <backward> of the path; 0: none */
	bool *is_scope;   /* has a child <backward> */
};

/* False: out of memory. *any_out: there are backward kernels. */
static bool find_places(const struct profile *profile, struct places *places, bool *any_out)
{
	places->scopes = calloc(profile->node_count, sizeof(*places->scopes));
	places->is_scope = calloc(profile->node_count, sizeof(*places->is_scope));
	if (!places->scopes || !places->is_scope)
		return false;
	for (uint32_t node = 1; node < profile->node_count; node++) { /* parents come first */
		uint32_t parent = profile->nodes[node].parent;
		bool is_here = profile_is_scope(profile, node, "<backward>");

		places->scopes[node] = is_here ? parent : places->scopes[parent];
		places->is_scope[parent] |= is_here;
		*any_out |= is_here && parent;
	}
	return true;
}

static bool collect(const struct profile_trace *trace, const struct places *places,
		    struct moments *moments)
{
	for (uint64_t row = 1; row < trace->event_count; row++) {
		const struct row_event *event = trace_event(trace, row);
		bool is_kernel = event && event->kind == EVENT_KERNEL;
		const struct row_event *launch;
		uint32_t node, scope;

		if (!event || (!is_kernel && event->kind != EVENT_SCOPE) ||
		    event->flags & EVENT_OF_GRAPH)
			continue;
		node = trace->nodes[event->node] - 1;
		scope = is_kernel ? places->scopes[node] : places->is_scope[node] ? node : 0;
		if (!scope)
			continue;
		if (!array_reserve(&moments->rows, &moments->capacity, moments->count + 1,
				   sizeof(*moments->rows)))
			return false;
		launch = is_kernel ? trace_event(trace, event->link) : NULL;
		moments->rows[moments->count++] = (struct moment){
			.ns = launch && launch->kind == EVENT_LAUNCH ? launch->start_ns
								     : event->start_ns,
			.scope = scope,
			.row = (uint32_t)row,
			.is_kernel = is_kernel,
		};
	}
	return true;
}

ARRAY_ORDER(compare_moments, struct moment,
	    ORDER_OF(a->scope, b->scope) ?: ORDER_OF(a->ns, b->ns) ?: ORDER_OF(a->row, b->row))

ARRAY_ORDER(compare_kernels, struct backward_arrow, ORDER_OF(a->kernel, b->kernel))

ARRAY_ORDER(compare_rows, uint32_t, ORDER_OF(*a, *b))

static bool connect(struct timeline_backward *backward, const struct moments *moments)
{
	size_t arrow_capacity = 0;
	size_t scope_capacity = 0;
	uint32_t runs = 0; /* since the last backward kernel of the scope */

	for (size_t i = 0; i < moments->count; i++) {
		const struct moment *moment = &moments->rows[i];

		if (!i || moment[-1].scope != moment->scope)
			runs = 0;
		if (!moment->is_kernel) {
			runs++;
			continue;
		}
		if (runs == 1) {
			size_t count = backward->count;

			if (!array_reserve(&backward->arrows, &arrow_capacity, count + 1,
					   sizeof(*backward->arrows)) ||
			    !array_reserve(&backward->scopes, &scope_capacity, count + 1,
					   sizeof(*backward->scopes)))
				return false;
			backward->arrows[count] =
				(struct backward_arrow){moment->row, moment[-1].row};
			backward->scopes[backward->count++] = moment[-1].row;
		}
		runs = 0;
	}
	if (backward->count) {
		ARRAY_SORT(backward->arrows, backward->count, compare_kernels);
		ARRAY_SORT(backward->scopes, backward->count, compare_rows);
	}
	return true;
}

bool timeline_backward_init(struct timeline_backward *backward, const struct profile *profile)
{
	struct places places = {0};
	struct moments moments = {0};
	bool is_any = false;
	bool is_done;

	*backward = (struct timeline_backward){0};
	is_done = find_places(profile, &places, &is_any);
	if (is_done && is_any) {
		is_done = collect(profile->trace, &places, &moments);
		if (is_done && moments.count)
			ARRAY_SORT(moments.rows, moments.count, compare_moments);
		is_done = is_done && connect(backward, &moments);
	}
	FREE_ALL(places.scopes, places.is_scope, moments.rows);
	if (!is_done)
		timeline_backward_fini(backward);
	return is_done;
}

void timeline_backward_fini(struct timeline_backward *backward)
{
	free(backward->arrows);
	free(backward->scopes);
	*backward = (struct timeline_backward){0};
}

uint32_t timeline_backward_scope(const struct timeline_backward *backward, uint32_t kernel)
{
	struct backward_arrow key = {.kernel = kernel};
	const struct backward_arrow *found = backward->count ? bsearch(&key, backward->arrows,
								       backward->count, sizeof(key),
								       compare_kernels)
							     : NULL;

	return found ? found->scope : 0;
}

bool timeline_backward_is_start(const struct timeline_backward *backward, uint32_t scope)
{
	return backward->count &&
	       bsearch(&scope, backward->scopes, backward->count, sizeof(scope), compare_rows);
}
