/*
 * Per-thread scope stacks and states, and the code that runs at every scope.
 *
 * A scope's context is looked up in a small per-thread cache, keyed by (parent, frame). An entry
 * also remembers the config (set of active sessions and their phases) for which every session has
 * noted the scope; while that stays the same, entering takes no lock at all.
 */
#include "record/thread/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "record/names/frames.h"
#include "record/names/reused_names.h"
#include "record/sets/registry.h"
#include "record/thread/thread_self.h"

/* A token: generation (16 bits) | thread (24) | depth (24); depth counts from 1, so never 0. */
#define TOKEN_DEPTH_BITS 24u
#define TOKEN_THREAD_BITS 24u
#define TASK_ORDINAL (1u << (TOKEN_THREAD_BITS - 1)) /* bit of the ordinals of tasks */

_Thread_local struct thread *thread_self;
static pthread_key_t exit_key;
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t thread_count;
static _Atomic uint32_t main_ordinal = UINT32_MAX;
static _Atomic uint32_t main_context; /* innermost scope of the main thread */
static _Atomic(proton_context_provider_fn) provider;
static _Atomic(proton_context_provider_fn) provider_depth;

static void thread_free(void *data)
{
	struct thread *thread = data;

	task_drop_all(thread);
	/* End everything that the thread has left open. */
	for (size_t i = thread->stack.depth; i-- > 0;)
		if (thread->stack.scopes[i].event.count)
			trace_end(&thread->trace, &thread->stack.scopes[i].event,
				  clock_monotonic_ns());
	trace_thread_remove(&thread->trace);
	thread_self = NULL;
	free(thread->stack.scopes);
	free(thread->others);
	free(thread);
}

static void make_exit_key(void)
{
	pthread_key_create(&exit_key, thread_free);
}

uint32_t thread_new_ordinal(bool is_task)
{
	uint32_t number = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed);

	return (number & (TASK_ORDINAL - 1)) | (is_task ? TASK_ORDINAL : 0);
}

struct thread *thread_new(void)
{
	struct thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		return NULL;
	pthread_once(&exit_key_once, make_exit_key);
	pthread_setspecific(exit_key, thread);
	thread->ordinal = thread_new_ordinal(false);
	thread->stack.ordinal = thread->ordinal;
	trace_thread_add(&thread->trace);
	thread_self = thread;
	return thread;
}

static inline void set_depth(struct thread *thread, size_t depth)
{
	/* release: pairs with note_open(), which finds the scopes below it filled */
	__atomic_store_n(&thread->stack.depth, depth, __ATOMIC_RELEASE);
}

void thread_renew(struct thread *thread, uint32_t generation)
{
	task_drop_all(thread);
	thread->generation = generation;
	set_depth(thread, 0);
	thread->kernel_depth = 0;
	thread->in_op = false;
	thread->has_events = false;
	thread->op_event.count = 0;
	thread->launch_event.count = 0;
}

static bool is_main(const struct thread *thread)
{
	return atomic_load_explicit(&main_ordinal, memory_order_relaxed) == thread->ordinal;
}

void thread_set_main(void)
{
	struct thread *thread = thread_get();

	atomic_store_explicit(&main_context, PROTON_CONTEXT_ROOT, memory_order_relaxed);
	atomic_store_explicit(&main_ordinal, thread ? thread->ordinal : UINT32_MAX,
			      memory_order_relaxed);
}

void thread_fork_child(void)
{
	/*
	 * The forking thread is the only one in the child; its scopes are dropped with the
	 * generation.
	 */
	if (thread_self) {
		task_drop_all(thread_self);
		thread_self->stack.state_depth = 0;
	}
	trace_fork_child(thread_self ? &thread_self->trace : NULL);
}

static struct thread *thread_of(struct trace_thread *trace)
{
	return (struct thread *)((char *)trace - offsetof(struct thread, trace));
}

static uint64_t wait_until_ns; /* guarded by the registry, as is the next */
static bool has_waited_in_vain;

static void wait_section(struct trace_thread *trace)
{
	struct thread *thread = thread_of(trace);
	/* acquire: pairs with section_end() */
	uint32_t section = atomic_load_explicit(&thread->section, memory_order_acquire);

	while (section & 1 &&
	       atomic_load_explicit(&thread->section, memory_order_acquire) == section) {
		if (clock_monotonic_ns() > wait_until_ns) {
			has_waited_in_vain = true;
			return;
		}
		sched_yield();
	}
}

bool threads_wait_sections(uint64_t timeout_ns)
{
	wait_until_ns = clock_monotonic_ns() + timeout_ns;
	has_waited_in_vain = false;
	trace_each_thread(wait_section);
	return !has_waited_in_vain;
}

static void note_stack(const struct stack *stack)
{
	size_t depth = __atomic_load_n(&stack->depth, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < depth; i++)
		names_note(__atomic_load_n(&stack->scopes[i].context, __ATOMIC_RELAXED));
}

static void note_open(struct trace_thread *trace)
{
	const struct thread *thread = thread_of(trace);

	trace_thread_lock(trace); /* while it is held, no stack moves or is replaced */
	note_stack(&thread->stack);
	for (size_t i = 0; i < thread->other_count; i++)
		note_stack(&thread->others[i]);
	trace_thread_unlock(trace);
}

void threads_note_open(void)
{
	trace_each_thread(note_open);
}

bool thread_is_in_section(void)
{
	return thread_self && atomic_load_explicit(&thread_self->section, memory_order_relaxed) & 1;
}

size_t thread_scope_depth(void)
{
	struct thread *thread = thread_get();

	return thread ? thread->stack.depth : 0;
}

size_t thread_source_depth(void)
{
	proton_context_provider_fn depth =
		atomic_load_explicit(&provider_depth, memory_order_acquire);

	return depth ? depth() : 0;
}

void proton_context_provider_set(proton_context_provider_fn provide,
				 proton_context_provider_fn depth)
{
	atomic_store_explicit(&provider, provide, memory_order_release);
	atomic_store_explicit(&provider_depth, depth, memory_order_release);
}

/* ------------------------------------------------------------------ contexts */

uint32_t thread_outer_context(const struct thread *thread)
{
	if (is_main(thread))
		return PROTON_CONTEXT_ROOT;
	return atomic_load_explicit(&main_context, memory_order_relaxed);
}

/* Innermost scope of the thread, else the current one of the main thread. */
static inline uint32_t scope_context(const struct thread *thread)
{
	if (thread->stack.depth)
		return thread->stack.scopes[thread->stack.depth - 1].context;
	if (thread->stack.task)
		return task_origin_context(thread);
	return thread_outer_context(thread);
}

uint32_t thread_scope_context(const struct thread *thread)
{
	return scope_context(thread);
}

static inline void publish_main(const struct thread *thread)
{
	if (is_main(thread))
		atomic_store_explicit(&main_context, scope_context(thread), memory_order_relaxed);
}

void thread_publish_main(const struct thread *thread)
{
	publish_main(thread);
}

static __attribute__((noinline)) uint32_t below_innermost_state(const struct thread *thread,
								uint32_t context)
{
	const struct state *state;

	state = &thread->stack
			 .states[(thread->stack.state_depth < STATE_MAX ? thread->stack.state_depth
									: STATE_MAX) -
				 1];
	context = frames_child(context, state->frames[0]);
	return frames_child(context, state->frames[1]);
}

static inline uint32_t below_state(const struct thread *thread, uint32_t context)
{
	return thread->stack.state_depth ? below_innermost_state(thread, context) : context;
}

static inline uint32_t cache_index(uint32_t parent, uint32_t frame)
{
	return hash_u64((uint64_t)parent << 32 | frame) % CACHE_ENTRIES;
}

static inline uint32_t current_config(void)
{
	/* acquire: pairs with session_publish(), which makes the config's content visible */
	return atomic_load_explicit(&session_config, memory_order_acquire);
}

/* `shadow` has been noted for `config`, see reused_names.h. */
static struct proton_context locate(const struct thread *thread, uint32_t shadow, uint32_t config)
{
	struct proton_context where = {.shadow = shadow, .sessions = config};

	if (session_config_get(where.sessions)->wants_source) {
		proton_context_provider_fn provide =
			atomic_load_explicit(&provider, memory_order_acquire);

		if (provide)
			where.source = provide();
		where.source = below_state(thread, where.source);
	}
	return where;
}

static __attribute__((noinline)) void note_again(struct scope *scope, uint32_t config)
{
	names_note(scope->context);
	scope->config = config;
}

/* The location at one of the thread's own scopes. */
static inline struct proton_context locate_scope(struct thread *thread, struct scope *scope,
						 uint32_t shadow)
{
	uint32_t config = current_config();

	if (__builtin_expect(scope->config != config, 0))
		note_again(scope, config);
	return locate(thread, shadow, config);
}

/* The main thread's location: used by threads without scopes. */
static struct proton_context locate_inherited(struct thread *thread)
{
	bool is_outermost = section_begin(thread);
	uint32_t config = current_config();
	uint32_t context = scope_context(thread);

	if (thread->inherited != context || thread->inherited_config != config) {
		names_note(context);
		thread->inherited = context;
		thread->inherited_config = config;
	}
	section_end(thread, is_outermost);
	return locate(thread, below_state(thread, context), config);
}

struct proton_context proton_context_here(void)
{
	struct thread *thread;

	if (!session_any_live())
		return (struct proton_context){0};
	thread = thread_get();
	if (!thread)
		return (struct proton_context){0};
	if (thread->in_op)
		return thread->op;
	if (thread->stack.depth) {
		struct scope *scope = &thread->stack.scopes[thread->stack.depth - 1];

		return locate_scope(thread, scope, below_state(thread, scope->context));
	}
	return locate_inherited(thread);
}

struct proton_context proton_context_enter(struct proton_context where, uint32_t frame)
{
	if (!where.sessions)
		return where;
	where.shadow = frames_child(where.shadow, frame);
	if (session_config_get(where.sessions)->wants_source)
		where.source = frames_child(where.source, frame);
	return where;
}

bool proton_context_is_empty(struct proton_context where)
{
	return where.sessions == 0;
}

/* ------------------------------------------------------------------ scopes */

/* Notes in every active session with scopes that `context` was entered. */
static void note_entered(uint32_t context, uint32_t config_id)
{
	const struct config *config = session_config_get(config_id);

	for (uint32_t i = 0; i < config->count; i++) {
		struct session *session;

		if (config->entries[i].wants_source)
			continue; /* source contexts contain no scopes */
		session = session_lock_entry(&config->entries[i]);
		if (!session)
			continue;
		store_enter(&session->store, context);
		session_unlock(session);
	}
}

/* The name of a scope to enter. */
struct entered {
	const char *text; /* NULL: only if the name is known */
	size_t length;
	uint64_t *known; /* owned by the caller: word << 32 | frame, see reused_names.h; or NULL */
};

/* Separate and cold, as is all code that a known scope does not need: inlining cost 2 ns of 13. */
__attribute__((cold)) static uint32_t learn(struct thread *thread, uint32_t parent, uint32_t frame,
					    uint32_t config, const struct entered *name)
{
	uint32_t context =
		name ? frames_enter(parent, name->text, name->length, registry_rename, &frame)
		     : frames_child(parent, frame);

	if (context == FRAMES_CONTEXT_NONE)
		return context;
	thread->cache[cache_index(parent, frame)] = (struct cache_entry){
		.parent = parent, .frame = frame, .context = context, .config = config};
	note_entered(context, config);
	names_note(context); /* last: the sessions may note it in a later phase */
	if (name && name->known)
		*name->known = frame == FRAME_OTHER ? 0 : (uint64_t)name_word(frame) << 32 | frame;
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

	if (frame && name_word(frame) == *name->known >> 32)
		return frame;
	return name->text ? frames_find_name(name->text, name->length) : 0;
}

void thread_begin_event(struct thread *thread, enum event_kind kind, struct proton_context where,
			struct trace_event *event)
{
	trace_begin(&thread->trace, session_config_get(where.sessions),
		    &(struct trace_begin){.kind = (uint16_t)kind,
					  .shadow = where.shadow,
					  .source = where.source,
					  .flags = kind == EVENT_LAUNCH ? EVENT_NAMED : 0,
					  .launch = thread->in_op ? &thread->op_event : NULL,
					  .start_ns = clock_monotonic_ns()},
		    event);
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
	bool has_space;

	trace_thread_lock(&thread->trace);
	has_space = array_reserve(&thread->stack.scopes, &thread->stack.capacity,
				  thread->stack.depth + 1, sizeof(*thread->stack.scopes));
	trace_thread_unlock(&thread->trace);
	return has_space;
}

/* Enters a scope by frame, or by name. */
static inline __attribute__((always_inline)) uint64_t enter(uint32_t frame,
							    const struct entered *name,
							    bool is_timed)
{
	struct thread *thread = thread_get();
	struct scope *scope;
	uint32_t config;
	uint32_t context;
	bool is_outermost;

	if (!thread || frame == FRAME_NONE || thread->stack.depth >= (1u << TOKEN_DEPTH_BITS) - 1)
		return 0;
	if (__builtin_expect(thread->stack.depth == thread->stack.capacity, 0) && !grow(thread))
		return 0;
	is_outermost = section_begin(thread);
	config = current_config();
	if (name)
		frame = find_name(name);
	context = enter_context(thread, scope_context(thread), frame, config, name);
	if (name && context == FRAMES_CONTEXT_NONE) {
		section_end(thread, is_outermost);
		return 0;
	}
	scope = &thread->stack.scopes[thread->stack.depth];
	__atomic_store_n(&scope->context, context, __ATOMIC_RELAXED);
	scope->config = config;
	set_depth(thread, thread->stack.depth + 1);
	section_end(thread, is_outermost);
	publish_main(thread);
	scope->own = below_state(thread, context);
	scope->serial = ++thread->entered ? thread->entered : ++thread->entered;
	scope->event.count = 0;
	scope->is_left = false;
	if (__builtin_expect(config & CONFIG_TRACED, 0))
		begin_scope(thread, scope, config);
	/* Last, to exclude the cost of entering from the measured time. */
	scope->start_ns = is_timed ? clock_monotonic_ns() : 0;
	return (uint64_t)(uint16_t)thread->generation << (TOKEN_THREAD_BITS + TOKEN_DEPTH_BITS) |
	       (uint64_t)thread->stack.ordinal << TOKEN_DEPTH_BITS | thread->stack.depth;
}

uint64_t proton_scope_enter_frame(uint32_t frame)
{
	return session_any_live() ? enter(frame, NULL, false) : 0;
}

uint64_t proton_scope_enter_timed_frame(uint32_t frame)
{
	return session_any_live() ? enter(frame, NULL, true) : 0;
}

#define TO_NUL SIZE_MAX

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
	return session_any_live() ? enter_name(name, TO_NUL, NULL, false) : 0;
}

uint64_t proton_scope_enter_timed(const char *name)
{
	return session_any_live() ? enter_name(name, TO_NUL, NULL, true) : 0;
}

uint64_t proton_scope_enter_name(const char *name, size_t length, uint64_t *known)
{
	return session_any_live() ? enter_name(name, length, known, false) : 0;
}

uint64_t proton_scope_enter_timed_name(const char *name, size_t length, uint64_t *known)
{
	return session_any_live() ? enter_name(name, length, known, true) : 0;
}

uint32_t thread_frame(const char *name, size_t length)
{
	const struct thread *thread = thread_get();

	return frames_add_below(thread ? scope_context(thread) : PROTON_CONTEXT_ROOT, name, length);
}

uint32_t proton_scope_frame(const char *name, size_t length)
{
	return thread_frame(name, length);
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

uint32_t thread_scope_serial(uint64_t token)
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
	proton_metrics_add(locate_scope(thread, scope, scope->own), &metric, 1, NULL);
}

/* Ends the events of `scope` and of scopes entered after it that were never exited. */
static __attribute__((noinline)) void end_events(struct thread *thread, const struct scope *scope,
						 uint64_t end_ns)
{
	for (size_t i = thread->stack.depth; i-- > (size_t)(scope - thread->stack.scopes);) {
		struct trace_event *event = &thread->stack.scopes[i].event;

		if (event->count)
			trace_end(&thread->trace, event, end_ns ? end_ns : clock_monotonic_ns());
	}
	if (scope == thread->stack.scopes && !thread->other_count)
		thread->has_events = false;
}

/* Ends the measurements of `scope`, and cuts the stack back to it. */
static inline void leave(struct thread *thread, struct scope *scope)
{
	uint64_t end_ns = scope->start_ns ? clock_monotonic_ns() : 0;

	if (__builtin_expect(thread->has_events, 0))
		end_events(thread, scope, end_ns);
	if (scope->start_ns)
		add_cpu_time(thread, scope, end_ns);
	set_depth(thread, (size_t)(scope - thread->stack.scopes));
	if (__builtin_expect(thread->has_tasks, 0))
		while (thread->stack.depth && scope[-1].is_left) {
			scope--;
			set_depth(thread, thread->stack.depth - 1);
		}
}

/*
 * Exits a scope of another task, such as a generator that the event loop closes. Scopes that the
 * task has entered since stay open.
 */
static __attribute__((cold)) bool leave_in_task(struct thread *thread, uint64_t token)
{
	struct scope *scope;

	if (!task_switch_to(thread, ordinal_of(token)))
		return ordinal_of(token) & TASK_ORDINAL; /* it has ended */
	thread->is_following = true;
	scope = scope_at(token, thread);
	if (scope && scope == &thread->stack.scopes[thread->stack.depth - 1]) {
		leave(thread, scope);
	} else if (scope && !scope->is_left) {
		if (scope->event.count)
			trace_end(&thread->trace, &scope->event, clock_monotonic_ns());
		if (scope->start_ns)
			add_cpu_time(thread, scope, clock_monotonic_ns());
		scope->event.count = 0;
		scope->is_left = true;
	}
	thread->is_following = false;
	task_follow(thread);
	return true;
}

int proton_scope_exit(uint64_t token, struct proton_error *err)
{
	struct thread *thread;
	struct scope *scope;

	if (!token || !session_any_live())
		return PROTON_OK;
	scope = scope_of(token, &thread);
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
	leave(thread, scope);
	publish_main(thread);
	return PROTON_OK;
}

struct proton_context proton_scope_context(uint64_t token)
{
	struct thread *thread;
	struct scope *scope;

	if (!token || !session_any_live())
		return (struct proton_context){0};
	scope = scope_of(token, &thread);
	if (!scope || is_of_other_thread(token, thread))
		return (struct proton_context){0};
	return locate_scope(thread, scope, scope->own);
}

const struct trace_event *thread_open_event(struct proton_context where)
{
	struct thread *thread = thread_get();

	if (!thread)
		return NULL;
	if (thread->in_op && thread->op_event.count && thread->op.shadow == where.shadow)
		return &thread->op_event;
	for (size_t i = thread->stack.depth; i-- > 0;)
		if (thread->stack.scopes[i].event.count &&
		    (thread->stack.scopes[i].own == where.shadow ||
		     thread->stack.scopes[i].context == where.shadow))
			return &thread->stack.scopes[i].event;
	return NULL;
}

/* ------------------------------------------------------------------ states */

void proton_state_enter(const char *name)
{
	static const char prefix[] = "__proton_launch_metadata:";
	const size_t prefix_length = sizeof(prefix) - 1;

	if (strncmp(name, prefix, prefix_length) == 0)
		proton_state_enter_frames(thread_frame(name, prefix_length - 1),
					  thread_frame(name + prefix_length,
						       strlen(name + prefix_length)));
	else
		proton_state_enter_frames(thread_frame(name, strlen(name)), FRAME_NONE);
}

void proton_state_enter_frames(uint32_t outer, uint32_t inner)
{
	struct thread *thread = thread_get();

	if (!thread)
		return;
	if (thread->stack.state_depth < STATE_MAX)
		thread->stack.states[thread->stack.state_depth] = (struct state){{outer, inner}};
	thread->stack.state_depth++;
}

void proton_state_exit(void)
{
	struct thread *thread = thread_self ? thread_get() : NULL;

	if (thread && thread->stack.state_depth)
		thread->stack.state_depth--;
}
