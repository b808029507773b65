/*
 * Trace events of the program's threads: writing and ending.
 *
 * Lock order: the list of threads, a thread, a session. The end of a session takes the first two,
 * so no session may be locked around it.
 */
#include "record/thread/thread_trace.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"

pthread_mutex_t thread_trace_list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct trace_thread *threads;
static struct trace_thread *threads_of_parent;

/* ------------------------------------------------------------------ threads */

void thread_trace_add(struct trace_thread *thread)
{
	MUTEX_HOLD(&thread_trace_list_lock);
	thread->previous = NULL;
	thread->next = threads;
	if (threads)
		threads->previous = thread;
	threads = thread;
}

void thread_trace_give_back(struct trace_thread *thread)
{
	/* Its sessions do not end: that takes this lock too. */
	thread_trace_lock(thread);
	for (uint32_t i = 0; i < TRACE_MAX; i++) {
		struct trace_writer *writer = &thread->writers[i];

		if (!writer->serial)
			continue;
		pthread_mutex_lock(&writer->session->lock);
		store_event_rows_give_back(&writer->session->store, &writer->events, TABLE_EVENTS);
		store_event_rows_give_back(&writer->session->store, &writer->samples,
					   TABLE_SAMPLES);
		pthread_mutex_unlock(&writer->session->lock);
		*writer = (struct trace_writer){0};
	}
	thread_trace_unlock(thread);
}

void thread_trace_remove(struct trace_thread *thread)
{
	MUTEX_HOLD(&thread_trace_list_lock);
	if (thread->previous)
		thread->previous->next = thread->next;
	else
		threads = thread->next;
	if (thread->next)
		thread->next->previous = thread->previous;
}

void thread_trace_close(uint32_t index)
{
	MUTEX_HOLD(&thread_trace_list_lock);
	for (struct trace_thread *thread = threads; thread; thread = thread->next) {
		thread_trace_lock(thread);
		thread->writers[index] = (struct trace_writer){0};
		thread_trace_unlock(thread);
	}
}

void thread_trace_each(void (*visit)(struct trace_thread *thread))
{
	MUTEX_HOLD(&thread_trace_list_lock);
	for (struct trace_thread *thread = threads; thread; thread = thread->next)
		visit(thread);
}

/* Other threads do not exist in the child; their state stays reachable, for leak checkers. */
static void keep_others(void)
{
	struct trace_thread **last = &threads_of_parent;

	while (*last)
		last = &(*last)->next;
	*last = threads;
	threads = NULL;
}

void thread_trace_fork_child(struct trace_thread *own)
{
	if (own)
		thread_trace_remove(own);
	keep_others();
	if (!own)
		return;
	*own = (struct trace_thread){0};
	thread_trace_add(own);
}

/* ------------------------------------------------------------------ events */

/* The writer for an entry's session, made at the thread's first event in it. */
static struct trace_writer *writer_of(struct trace_thread *thread, const struct config_entry *entry)
{
	struct trace_writer *writer = &thread->writers[entry->trace - 1];
	char name[17] = "";

	if (writer->serial == entry->serial)
		return writer;
	struct session *session = session_lock_entry(entry);
	if (!session)
		return NULL;
	prctl(PR_GET_NAME, name, 0, 0, 0);
	*writer = (struct trace_writer){
		.serial = entry->serial,
		.session = session,
		.lane = store_event_thread_lane(&session->store, (uint64_t)syscall(SYS_gettid),
						name),
	};
	pthread_mutex_unlock(&session->lock);
	return writer;
}

/* A row of `table` that only this thread uses; 0 if there is none. */
static uint32_t take_row(const struct trace_writer *writer, struct reserved_rows *rows,
			 enum table_id table)
{
	if (rows->next != rows->end)
		return rows->next++;
	/* Also in a session that is about to end: the value of this sample is in its tree. */
	MUTEX_HOLD(&writer->session->lock);
	return store_event_rows_next(&writer->session->store, rows, table);
}

/* Finds the node of `context`, which usually exists; false if there is no space for it. */
static bool find_node(struct trace_writer *writer, const struct config_entry *entry,
		      uint32_t context, uint32_t *node_out)
{
	*node_out = store_find_node(&writer->session->store, context);
	if (*node_out || context == PROTON_CONTEXT_ROOT)
		return true;
	struct session *session = session_lock_entry(entry);
	if (!session)
		return false;
	*node_out = store_make_node(&writer->session->store, context, entry->epoch);
	pthread_mutex_unlock(&session->lock);
	return *node_out != 0;
}

static void begin_in(struct trace_thread *thread, const struct config_entry *entry,
		     const struct trace_begin *begin, struct trace_event *event)
{
	struct trace_writer *writer = writer_of(thread, entry);
	bool has_source = entry->wants_source && begin->kind != EVENT_SCOPE;
	uint32_t node;

	if (!writer || !find_node(writer, entry, has_source ? begin->source : begin->shadow, &node))
		return;
	uint32_t at = take_row(writer, &writer->events, TABLE_EVENTS);
	if (!at)
		return;
	struct row_event *row = store_event_at(&writer->session->store, at);
	row->start_ns = begin->start_ns + store_event_unix_offset_ns();
	row->node = node;
	row->lane = writer->lane;
	row->epoch = entry->epoch;
	row->link = trace_event_row(begin->launch, entry->serial);
	row->detail = begin->detail;
	row->flags = begin->flags;
	/* release: readers of the kind find the rest of the row filled */
	__atomic_store_n(&row->kind, begin->kind, __ATOMIC_RELEASE);
	event->at[event->count].serial = entry->serial;
	event->at[event->count].row = at;
	event->count++;
}

void thread_trace_begin(struct trace_thread *thread, const struct config *config,
			const struct trace_begin *begin, struct trace_event *event)
{
	event->count = 0;
	thread_trace_lock(thread);
	for (uint32_t i = 0; i < config->count; i++)
		if (config->entries[i].trace)
			begin_in(thread, &config->entries[i], begin, event);
	thread_trace_unlock(thread);
}

void thread_trace_add_sample(struct trace_thread *thread, const struct config_entry *entry,
			     uint32_t event, const struct row_value *value)
{
	struct trace_writer *writer = &thread->writers[entry->trace - 1];
	uint32_t at = take_row(writer, &writer->samples, TABLE_SAMPLES);

	if (at)
		store_event_link_sample(&writer->session->store, event, at, value);
}

static struct row_event *open_row(const struct trace_thread *thread,
				  const struct trace_event *event, uint32_t i)
{
	for (uint32_t w = 0; w < TRACE_MAX; w++)
		if (thread->writers[w].serial == event->at[i].serial)
			return store_event_at(&thread->writers[w].session->store, event->at[i].row);
	return NULL; /* the session has ended */
}

void thread_trace_end(struct trace_thread *thread, struct trace_event *event, uint64_t end_ns)
{
	uint64_t end_unix_ns = end_ns + store_event_unix_offset_ns();

	thread_trace_lock(thread);
	for (uint32_t i = 0; i < event->count; i++) {
		struct row_event *row = open_row(thread, event, i);

		if (row)
			/* release: the thread's last store to a row that others may use again */
			__atomic_store_n(&row->end_ns, end_unix_ns, __ATOMIC_RELEASE);
	}
	thread_trace_unlock(thread);
	event->count = 0;
}

void thread_trace_set_detail(struct trace_thread *thread, const struct trace_event *event,
			     uint32_t detail)
{
	thread_trace_lock(thread);
	for (uint32_t i = 0; i < event->count; i++) {
		struct row_event *row = open_row(thread, event, i);

		if (row && !row->detail)
			row->detail = detail;
	}
	thread_trace_unlock(thread);
}
