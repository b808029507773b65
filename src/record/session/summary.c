/* Session summary: recorded and lost data, as numbers and as a line of text. */
#include "record/session/session_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/sets/registry.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[1024];
static bool is_last_quiet;           /* its session is quiet */
static bool is_last_taken;           /* printed, or about to be */
static bool is_last_late;            /* its session ended after a signal that ends the program */
static _Atomic pid_t ending_process; /* that a signal is ending; 0: none */

void summary_note_signal(bool has_arrived)
{
	atomic_store(&ending_process, has_arrived ? getpid() : 0);
}

/* "12,345,678" into `text`. */
static const char *grouped(uint64_t value, char text[32])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	int at = 0;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

static void append_text(char *text, size_t capacity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void append_text(char *text, size_t capacity, const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, capacity - used, format, args);
	va_end(args);
}

/* "54 kernel launches and 12 instrumented launches" */
static void append_launches(char *text, size_t capacity, const struct store *store)
{
	uint64_t kernels = store_counters_get(store, COUNTER_KERNELS);
	uint64_t inside = store_counters_get(store, COUNTER_INSIDE);
	char number[32];

	if (kernels || !inside)
		append_text(text, capacity, "%s kernel launch%s", grouped(kernels, number),
			    kernels == 1 ? "" : "es");
	if (kernels && inside)
		append_text(text, capacity, " and %s instrumented launch%s",
			    grouped(inside, number), inside == 1 ? "" : "es");
	else if (inside)
		append_text(text, capacity, "%s instrumented launch%s", grouped(inside, number),
			    inside == 1 ? "" : "es");
}

void summary_make(const struct session *session, const char *hint)
{
	const struct store *store = &session->store;
	double seconds = (double)(clock_monotonic_ns() - session->start_ns) / 1e9;
	uint64_t kernels = store_counters_get(store, COUNTER_KERNELS);
	uint64_t contexts = store_context_count(store);
	bool has_kernels = kernels || store_counters_get(store, COUNTER_INSIDE);
	bool has_hint = !has_kernels && session->backend->no_kernels;
	const char *no_kernels = has_hint ? session->backend->no_kernels() : NULL;
	char text[sizeof(last)] = "";
	char number[32];

	if (!has_kernels && !contexts) {
		append_text(
			text, sizeof(text), "nothing was recorded: %s",
			no_kernels ? no_kernels
				   : "no kernel ran and no scope was entered while the session was "
				     "active");
	} else {
		append_text(text, sizeof(text), "recorded ");
		append_launches(text, sizeof(text), store);
		append_text(text, sizeof(text), " in %s context%s", grouped(contexts, number),
			    contexts == 1 ? "" : "s");
		if (seconds < 1000)
			append_text(text, sizeof(text), ", %.3g s", seconds);
		else /* avoids 1.23e+03 */
			append_text(text, sizeof(text), ", %.0f s", seconds);
		if (no_kernels)
			append_text(text, sizeof(text), "; %s", no_kernels);
	}
	for (int i = 0; i < COUNTER_COUNT; i++) {
		enum counter counter = (enum counter)i;

		if (store_counters_is_loss(counter) && store_counters_get(store, counter))
			append_text(text, sizeof(text), "; %s: %s", store_counters_name(counter),
				    grouped(store_counters_get(store, counter), number));
	}
	if (hint && !store_counters_are_zero(store, true)) /* there is something to view */
		append_text(text, sizeof(text), "; %s", hint);
	pthread_mutex_lock(&lock);
	memcpy(last, text, sizeof(last));
	is_last_quiet = session->flags & PROTON_SESSION_QUIET;
	is_last_taken = false;
	is_last_late = atomic_load(&ending_process) == getpid();
	pthread_mutex_unlock(&lock);
}

void proton_last_summary(char *text, size_t capacity)
{
	pthread_mutex_lock(&lock);
	snprintf(text, capacity, "%s", last);
	is_last_taken = true;
	pthread_mutex_unlock(&lock);
}

bool summary_take(bool is_early_wanted, char *text, size_t capacity)
{
	bool is_here;

	pthread_mutex_lock(&lock);
	is_here = *last && !is_last_quiet && !is_last_taken && (is_early_wanted || is_last_late);
	if (is_here) {
		snprintf(text, capacity, "%s", last);
		*last = '\0';
	}
	pthread_mutex_unlock(&lock);
	return is_here;
}

bool summary_was_taken(void)
{
	bool was_taken;

	pthread_mutex_lock(&lock);
	was_taken = is_last_taken;
	pthread_mutex_unlock(&lock);
	return was_taken;
}

int proton_statistics(int id, struct proton_counter *counters, size_t capacity,
		      struct proton_error *err)
{
	struct session *session = registry_get(id, err);

	if (!session)
		return PROTON_E_RANGE;
	pthread_mutex_lock(&session->lock);
	store_counters_add_folded(&session->store);
	for (size_t i = 0; i < COUNTER_COUNT && i < capacity; i++)
		counters[i] = (struct proton_counter){
			.name = store_counters_name((enum counter)i),
			.value = store_counters_get(&session->store, (enum counter)i),
			.is_loss = store_counters_is_loss((enum counter)i),
		};
	if (capacity > COUNTER_COUNT)
		counters[COUNTER_COUNT] = (struct proton_counter){
			.name = "contexts",
			.value = store_context_count(&session->store),
		};
	pthread_mutex_unlock(&session->lock);
	registry_put();
	return COUNTER_COUNT + 1;
}
