/* Session summary: recorded and lost data, as numbers and as a line of text. */
#include "base/mutex.h"
#include "record/session/session_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "record/sets/session.h"

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

/* "12,345,678 WORD", and `plural` after it unless there is one. */
static void write_count(struct out *out, uint64_t value, const char *word, const char *plural)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);

	for (int i = 0; i < length; i++)
		out_printf(out, "%s%c", i && (length - i) % 3 == 0 ? "," : "", digits[i]);
	out_printf(out, "%s%s", word, value == 1 ? "" : plural);
}

/* "recorded 54 kernel launches and 12 instrumented launches in 3 contexts, 1.5 s" */
static void write_recorded(struct out *out, const struct session *session)
{
	double seconds = (double)(clock_monotonic_ns() - session->start_ns) / 1e9;
	uint64_t kernels = store_counters_get(&session->store, COUNTER_KERNELS);
	uint64_t inside = store_counters_get(&session->store, COUNTER_INSIDE);

	out_text(out, "recorded ");
	if (kernels || !inside)
		write_count(out, kernels, " kernel launch", "es");
	out_text(out, kernels && inside ? " and " : "");
	if (inside)
		write_count(out, inside, " instrumented launch", "es");
	out_text(out, " in ");
	write_count(out, store_context_count(&session->store), " context", "s");
	/* without an exponent, as in 1.23e+03 */
	out_printf(out, seconds < 1000 ? ", %.3g s" : ", %.0f s", seconds);
}

void summary_make(const struct session *session, const char *hint)
{
	const struct store *store = &session->store;
	bool has_kernels = store_counters_get(store, COUNTER_KERNELS) ||
			   store_counters_get(store, COUNTER_INSIDE);
	bool has_hint = !has_kernels && session->backend->no_kernels;
	const char *no_kernels = has_hint ? session->backend->no_kernels() : NULL;
	AT_END(out_fini) struct out out;

	out_init(&out, -1);
	if (has_kernels || store_context_count(store)) {
		write_recorded(&out, session);
		if (no_kernels)
			out_printf(&out, "; %s", no_kernels);
	} else {
		out_printf(&out, "nothing was recorded: %s",
			   no_kernels ? no_kernels
				      : "no kernel ran and no scope was entered while the session "
					"was active");
	}
	for (int i = 0; i < COUNTER_COUNT; i++) {
		uint64_t count = store_counters_get(store, (enum counter)i);

		if (!store_counter_kinds[i].is_loss || !count)
			continue;
		out_printf(&out, "; %s: ", store_counter_kinds[i].name);
		write_count(&out, count, "", "");
	}
	if (hint && !store_counters_are_zero(store, true)) /* there is something to view */
		out_printf(&out, "; %s", hint);
	pthread_mutex_lock(&lock);
	snprintf(last, sizeof(last), "%.*s", (int)out.length, out.bytes ? out.bytes : "");
	is_last_quiet = session->flags & PROTON_SESSION_QUIET;
	is_last_taken = false;
	is_last_late = atomic_load(&ending_process) == getpid();
	pthread_mutex_unlock(&lock);
}

void proton_last_summary(char *text, size_t capacity)
{
	MUTEX_HOLD(&lock);
	snprintf(text, capacity, "%s", last);
	is_last_taken = true;
}

bool summary_take(bool is_early_wanted, char *text, size_t capacity, bool *was_taken_out)
{
	MUTEX_HOLD(&lock);
	*was_taken_out = is_last_taken;
	bool is_here = *last && !is_last_quiet && !is_last_taken &&
		       (is_early_wanted || is_last_late);
	if (is_here) {
		snprintf(text, capacity, "%s", last);
		*last = '\0';
	}
	return is_here;
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
			.name = store_counter_kinds[i].name,
			.value = store_counters_get(&session->store, (enum counter)i),
			.is_loss = store_counter_kinds[i].is_loss,
		};
	if (capacity > COUNTER_COUNT)
		counters[COUNTER_COUNT] = (struct proton_counter){
			.name = "contexts",
			.value = store_context_count(&session->store),
		};
	pthread_mutex_unlock(&session->lock);
	pthread_mutex_unlock(&registry.lock);
	return COUNTER_COUNT + 1;
}
