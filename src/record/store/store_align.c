/*
 * Alignment of warps with the slice of their kernel. A launch has times from two clocks: the vendor
 * library's record has the time of the kernel. The kernel's own records have the times of its warps
 * on the device's global timer, and are moved to the program's clock by an estimate. If both are
 * known, the warps are moved into the kernel's time, which all other events in the trace relate to.
 */
#include <stdlib.h>

#include "base/array.h"
#include "record/store/store_rows.h"

void store_align_note(struct store *store, const struct intra_span *span)
{
	if (!span->link || !span->count ||
	    !array_reserve(&store->spans, &store->span_capacity, store->span_count + 1,
			   sizeof(*store->spans)))
		return; /* keep the estimated times */
	store->spans[store->span_count++] = *span;
}

ARRAY_ORDER(compare_spans, struct intra_span,
	    ORDER_OF(a->link, b->link) ?: ORDER_OF(a->first, b->first))

/* The first waiting launch of `link`; a launch that a hook named may be several kernels. */
static struct intra_span *find_span(const struct store *store, uint32_t link, uint32_t node)
{
	struct intra_span *spans = store->spans;

	for (size_t at = ARRAY_COUNT_BEFORE(store->span_count, i, spans[i].link < link);
	     at < store->span_count && spans[at].link == link; at++)
		if (!spans[at].is_aligned && spans[at].node == node)
			return &spans[at];
	return NULL;
}

/*
 * The kernel takes a microsecond or two longer than its warps: the launch, and detecting the end.
 * Half of the difference is put before the warps and half after them, because neither clock tells
 * more.
 */
static void move_span(const struct store *store, struct intra_span *span,
		      const struct row_event *kernel)
{
	int64_t slack_ns = (int64_t)(kernel->end_ns - kernel->start_ns) -
			   (int64_t)(span->end_ns - span->start_ns);
	uint64_t by_ns = kernel->start_ns + (uint64_t)(slack_ns / 2) - span->start_ns;

	for (uint32_t row = span->first; row < span->first + span->count; row++) {
		struct row_event *event = store_event_at(store, row);

		event->start_ns += by_ns;
		event->end_ns += by_ns;
	}
	span->is_aligned = true;
}

void store_align(struct store *store)
{
	uint64_t rows = store->file.tables[TABLE_EVENTS].rows;
	size_t left = 0;

	if (!store->span_count)
		return;
	ARRAY_SORT(store->spans, store->span_count, compare_spans);
	for (uint64_t row = 1; row < rows; row++) {
		const struct row_event *event = store_event_at(store, (uint32_t)row);
		struct intra_span *span;

		/* acquire: a thread that fills a row stores the kind last */
		if (__atomic_load_n(&event->kind, __ATOMIC_ACQUIRE) != EVENT_KERNEL || !event->link)
			continue;
		span = find_span(store, event->link, event->node);
		if (span)
			move_span(store, span, event);
	}
	for (size_t i = 0; i < store->span_count; i++)
		if (!store->spans[i].is_aligned)
			store->spans[left++] = store->spans[i];
	store->span_count = left;
}
