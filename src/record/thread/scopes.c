/*
 * Entering and exiting scopes.
 *
 * A scope's context is looked up in a small per-thread cache, keyed by (parent, frame). An entry
 * also remembers the config (set of active sessions and their phases) for which every session has
 * noted the scope; while that stays the same, entering takes no lock at all.
 */
#include "record/thread/thread.h"

#include <pthread.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "record/names/frames.h"
#include "record/sets/session.h"
#include "record/thread/thread_self.h"

static inline uint32_t cache_index(uint32_t parent, uint32_t frame)
{
	return hash_u64((uint64_t)parent << 32 | frame) % CACHE_ENTRIES;
}

/* Notes in every active session with scopes that `context` was entered. */
static void note_entered(uint32_t context, uint32_t config_id)
{
	struct session_walk walk = {.sessions = config_id, .lock = session_lock_entry};

	while (session_walk(&walk))
		if (!walk.entry->wants_source) /* source contexts contain no scopes */
			store_enter(&walk.session->store, context);
}

/* The name of a scope to enter. */
struct entered {
	const char *text; /* NULL: only if the name is known */
	size_t length;
	uint64_t *known; /* owned by the caller: word << 32 | frame, see frames.h; or NULL */
};

/* Separate and cold, as is all code that a known scope does not need: inlining cost 2 ns of 13. */
__attribute__((cold)) static uint32_t learn(struct thread *thread, uint32_t parent, uint32_t frame,
					    uint32_t config, const struct entered *name)
{
	uint32_t context =
		name ? scope_names_enter(parent, name->text, name->length, registry_rename, &frame)
		     : context_tree_child(parent, frame);

	if (context == SCOPE_NAMES_NONE)
		return context;
	if (frame != FRAME_NONE && !context_tree_is_lost(parent, context))
		thread->cache[cache_index(parent, frame)] = (struct cache_entry){
			.parent = parent, .frame = frame, .context = context, .config = config};
	note_entered(context, config);
	reused_names_note(context); /* last: the sessions may note it in a later phase */
	if (name && name->known)
		*name->known = frame == FRAME_OTHER || frame == FRAME_NONE
				       ? 0
				       : (uint64_t)reused_names_word(frame) << 32 | frame;
	return context;
}

static inline uint32_t enter_context(struct thread *thread, uint32_t parent, uint32_t frame,
				     uint32_t config, const struct entered *name)
{
	const struct cache_entry *entry = &thread->cache[cache_index(parent, frame)];

	if (entry->parent != parent || entry->frame != frame || entry->config != config || !config)
		return learn(thread, parent, frame, config, name);
	return entry->context;
}

/* The frame of a name if known; 0: unknown. */
static inline uint32_t find_name(const struct entered *name)
{
	uint32_t frame = name->known ? (uint32_t)*name->known : 0;

	if (frame && reused_names_word(frame) == *name->known >> 32)
		return frame;
	return name->text ? frames_find_name(name->text, name->length) : 0;
}

static __attribute__((noinline)) void begin_scope(struct thread *thread, struct scope *scope,
						  uint32_t config)
{
	struct proton_context where = {.shadow = scope->context, .sessions = config};

	thread_begin_event(thread, EVENT_SCOPE, where, &scope->event);
	thread->has_events = true;
}

/* Makes space for one more scope. The lock is for note_open(). */
static __attribute__((noinline)) bool grow(struct thread *thread)
{
	thread_trace_lock(&thread->trace);
	bool has_space = array_reserve(&thread->stack.scopes, &thread->stack.capacity,
				       thread->stack.depth + 1, sizeof(*thread->stack.scopes));
	thread_trace_unlock(&thread->trace);
	if (!has_space)
		name_limits_lose();
	return has_space;
}

static inline __attribute__((always_inline)) uint64_t enter(uint32_t frame,
							    const struct entered *name,
							    bool is_timed)
{
	struct thread *thread = thread_get();
	uint64_t work = 0;

	if (!thread || frame == FRAME_NONE || thread->stack.depth >= (1u << TOKEN_DEPTH_BITS) - 1)
		return 0;
	if (__builtin_expect(thread->stack.depth == thread->stack.capacity, 0) && !grow(thread))
		return 0;
	bool is_outermost = section_begin(thread);
	uint32_t config = thread_current_config();
	if (name)
		frame = find_name(name);
	uint32_t context = __builtin_expect(thread_has_work(), 0)
				   ? thread_context_of_work(thread, &work)
				   : thread_scope_context(thread);
	context = enter_context(thread, context, frame, config, name);
	if (name && context == SCOPE_NAMES_NONE) {
		section_end(thread, is_outermost);
		return 0;
	}
	struct scope *scope = &thread->stack.scopes[thread->stack.depth];
	__atomic_store_n(&scope->context, context, __ATOMIC_RELAXED);
	scope->config = config;
	thread_set_depth(thread, thread->stack.depth + 1);
	section_end(thread, is_outermost);
	thread_publish_main(thread);
	scope->own = thread_below_state(thread, context);
	scope->serial = ++thread->entered ? thread->entered : ++thread->entered;
	scope->event.count = 0;
	scope->is_left = false;
	scope->work = work;
	scope->place = __builtin_expect(config & CONFIG_SCOPED, 0) ? thread_context_place() : 0;
	if (__builtin_expect(config & CONFIG_TRACED, 0))
		begin_scope(thread, scope, config);
	/* Last, to exclude the cost of entering from the measured time. */
	scope->start_ns = is_timed ? clock_monotonic_ns() : 0;
	return (uint64_t)(uint16_t)thread->generation << (TOKEN_THREAD_BITS + TOKEN_DEPTH_BITS) |
	       (uint64_t)thread->stack.ordinal << TOKEN_DEPTH_BITS | thread->stack.depth;
}

/* ------------------------------------------------------------------ the awaited scope */

static _Atomic(const char *) range_name; /* NULL: none */
static _Atomic uint64_t range_token;     /* 0: not entered */
static _Atomic(void (*)(bool is_begin)) change_session;

/* Names are kept: other threads may read an earlier one. */
struct range_text {
	struct range_text *next;
	char name[];
};

bool scopes_await_range(const char *name, void (*change)(bool is_begin))
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next one */
	static struct range_text *texts;
	struct range_text *text;
	size_t bytes = strlen(name) + 1;

	pthread_mutex_lock(&lock);
	for (text = texts; text && strcmp(text->name, name) != 0;)
		text = text->next;
	if (!text && (text = malloc(sizeof(*text) + bytes)) != NULL) {
		text->next = texts;
		memcpy(text->name, name, bytes);
		texts = text;
	}
	pthread_mutex_unlock(&lock);
	if (!text)
		return false;
	atomic_store(&change_session, change);
	atomic_store(&range_name, text->name);
	return true;
}

static bool begin_range(const char *name, size_t length)
{
	const char *awaited = atomic_load(&range_name);

	if (!awaited || strlen(awaited) != length || memcmp(awaited, name, length) != 0 ||
	    !atomic_compare_exchange_strong(&range_name, &awaited, NULL))
		return false;
	atomic_load (&change_session)(true);
	return true;
}

static void end_range(void)
{
	atomic_store(&range_token, 0);
	atomic_load (&change_session)(false);
}

bool proton_range_is_awaited(void)
{
	return atomic_load_explicit(&range_name, memory_order_relaxed);
}

#define TO_NUL SIZE_MAX

/* Nothing is recorded; a session may begin with this scope: `name`, or that of the frame. */
static __attribute__((noinline)) uint64_t enter_awaited(uint32_t frame, const char *name,
							size_t length, bool is_timed)
{
	struct entered entered = {.text = name, .length = length};
	uint32_t frame_length = 0;

	if (!proton_range_is_awaited() || frame == FRAME_NONE)
		return 0;
	if (!name)
		entered.text = frames_text(frames_get(frame)->name, &frame_length);
	if (!name || length == TO_NUL)
		entered.length = name ? strlen(name) : frame_length;
	if (!begin_range(entered.text, entered.length))
		return 0;
	uint64_t token = enter(frame, name ? &entered : NULL, is_timed);
	atomic_store(&range_token, token);
	return token;
}

uint64_t proton_scope_enter_frame(uint32_t frame)
{
	return session_any_live() ? enter(frame, NULL, false)
				  : enter_awaited(frame, NULL, 0, false);
}

uint64_t proton_scope_enter_timed_frame(uint32_t frame)
{
	return session_any_live() ? enter(frame, NULL, true) : enter_awaited(frame, NULL, 0, true);
}

static __attribute__((noinline)) uint64_t enter_name(const char *text, size_t length,
						     uint64_t *known, bool is_timed)
{
	const struct entered name = {
		.text = text,
		.length = length == TO_NUL ? strlen(text) : length,
		.known = known,
	};

	return enter(0, &name, is_timed);
}

uint64_t proton_scope_enter(const char *name)
{
	return session_any_live() ? enter_name(name, TO_NUL, NULL, false)
				  : enter_awaited(0, name, TO_NUL, false);
}

uint64_t proton_scope_enter_timed(const char *name)
{
	return session_any_live() ? enter_name(name, TO_NUL, NULL, true)
				  : enter_awaited(0, name, TO_NUL, true);
}

uint64_t proton_scope_enter_name(const char *name, size_t length, uint64_t *known)
{
	return session_any_live() ? enter_name(name, length, known, false)
				  : enter_awaited(0, name, length, false);
}

uint64_t proton_scope_enter_timed_name(const char *name, size_t length, uint64_t *known)
{
	return session_any_live() ? enter_name(name, length, known, true)
				  : enter_awaited(0, name, length, true);
}

static struct scope *scope_at(uint64_t token, const struct thread *thread)
{
	uint64_t depth = token & ((1u << TOKEN_DEPTH_BITS) - 1);

	if (depth == 0 || depth > thread->stack.depth ||
	    token >> (TOKEN_THREAD_BITS + TOKEN_DEPTH_BITS) != (uint16_t)thread->generation)
		return NULL;
	return &thread->stack.scopes[depth - 1];
}

/* The scope of a token, NULL if it has ended. *thread_out is the calling thread if it owns it. */
static struct scope *scope_of(uint64_t token, struct thread **thread_out)
{
	*thread_out = thread_get();
	return *thread_out ? scope_at(token, *thread_out) : NULL;
}

static uint32_t ordinal_of(uint64_t token)
{
	return token >> TOKEN_DEPTH_BITS & ((1u << TOKEN_THREAD_BITS) - 1);
}

static bool is_of_other_thread(uint64_t token, const struct thread *thread)
{
	return ordinal_of(token) != thread->stack.ordinal;
}

uint32_t scopes_serial(uint64_t token)
{
	struct thread *thread;
	const struct scope *scope = scope_of(token, &thread);

	return scope && !is_of_other_thread(token, thread) ? scope->serial : 0;
}

static __attribute__((noinline)) void add_cpu_time(struct thread *thread, struct scope *scope,
						   uint64_t end_ns)
{
	static _Atomic uint32_t name_id; /* looked up once */
	struct proton_metric metric = {
		.name = "cpu_time (ns)(exc)",
		.name_id = atomic_load_explicit(&name_id, memory_order_relaxed),
		.type = PROTON_METRIC_INT64,
		.value.int64 = (int64_t)(end_ns - scope->start_ns),
	};

	if (!metric.name_id) {
		metric.name_id = proton_metric_name(metric.name);
		atomic_store_explicit(&name_id, metric.name_id, memory_order_relaxed);
	}
	proton_metrics_add(thread_locate_scope(thread, scope, scope->own), &metric, 1, NULL);
}

/* Ends the events of `scope` and of scopes entered after it that were never exited. */
static __attribute__((noinline)) void end_events(struct thread *thread, const struct scope *scope,
						 uint64_t end_ns)
{
	for (size_t i = thread->stack.depth; i-- > (size_t)(scope - thread->stack.scopes);) {
		struct trace_event *event = &thread->stack.scopes[i].event;

		if (event->count)
			thread_trace_end(&thread->trace, event,
					 end_ns ? end_ns : clock_monotonic_ns());
	}
	if (scope == thread->stack.scopes && !thread->other_count)
		thread->has_events = false;
}

/* Ends the measurements of `scope`, and cuts the stack back to it. */
static inline void leave_scope(struct thread *thread, struct scope *scope)
{
	uint64_t end_ns = scope->start_ns ? clock_monotonic_ns() : 0;

	if (__builtin_expect(thread->has_events, 0))
		end_events(thread, scope, end_ns);
	if (scope->start_ns)
		add_cpu_time(thread, scope, end_ns);
	thread_set_depth(thread, (size_t)(scope - thread->stack.scopes));
	if (__builtin_expect(thread->has_tasks, 0))
		while (thread->stack.depth && scope[-1].is_left) {
			scope--;
			thread_set_depth(thread, thread->stack.depth - 1);
		}
}

/* Exits a scope of another task, such as a closed generator; the task's later ones stay. */
static __attribute__((cold)) bool leave_in_task(struct thread *thread, uint64_t token)
{
	if (!task_switch_to(thread, ordinal_of(token)))
		return ordinal_of(token) & TASK_ORDINAL; /* it has ended */
	thread->is_following = true;
	struct scope *scope = scope_at(token, thread);
	if (scope && scope == &thread->stack.scopes[thread->stack.depth - 1]) {
		leave_scope(thread, scope);
	} else if (scope && !scope->is_left) {
		if (scope->event.count)
			thread_trace_end(&thread->trace, &scope->event, clock_monotonic_ns());
		if (scope->start_ns)
			add_cpu_time(thread, scope, clock_monotonic_ns());
		scope->event.count = 0;
		scope->is_left = true;
	}
	thread->is_following = false;
	task_follow(thread);
	return true;
}

static inline int exit_scope(uint64_t token, struct proton_error *err)
{
	struct thread *thread;

	if (!token || !session_any_live())
		return PROTON_OK;
	struct scope *scope = scope_of(token, &thread);
	if (!thread ||
	    token >> (TOKEN_THREAD_BITS + TOKEN_DEPTH_BITS) != (uint16_t)thread->generation)
		return PROTON_OK;
	if (is_of_other_thread(token, thread)) {
		if (leave_in_task(thread, token))
			return PROTON_OK;
		return err_set(err, PROTON_E_STATE,
			       "a scope must be exited on the thread that entered it");
	}
	if (!scope)
		return PROTON_OK;
	leave_scope(thread, scope);
	thread_publish_main(thread);
	return PROTON_OK;
}

int proton_scope_exit(uint64_t token, struct proton_error *err)
{
	int status = exit_scope(token, err);

	if (token &&
	    __builtin_expect(atomic_load_explicit(&range_token, memory_order_relaxed) == token, 0))
		end_range();
	return status;
}

struct proton_context proton_scope_context(uint64_t token)
{
	struct thread *thread;

	if (!token || !session_any_live())
		return (struct proton_context){0};
	struct scope *scope = scope_of(token, &thread);
	if (!scope || is_of_other_thread(token, thread))
		return (struct proton_context){0};
	return thread_locate_scope(thread, scope, scope->own);
}
