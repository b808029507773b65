/* The calling thread's context: its scopes, states and source context. */
#include "record/thread/thread.h"

#include "record/names/frames.h"
#include "record/thread/thread_self.h"

static _Atomic(proton_context_provider_fn) provider;
static _Atomic(proton_context_provider_fn) provider_depth;
_Atomic(proton_scope_provider_fn) thread_scope_provider;

void proton_context_provider_set(proton_context_provider_fn provide,
				 proton_context_provider_fn depth)
{
	atomic_store_explicit(&provider, provide, memory_order_release);
	atomic_store_explicit(&provider_depth, depth, memory_order_release);
}

void proton_origin_unknown(void)
{
	name_limits_count(LIMITS_ORIGINS);
}

void proton_scope_provider_set(proton_scope_provider_fn provide)
{
	atomic_store_explicit(&thread_scope_provider, provide, memory_order_release);
}

uint32_t thread_context_of_work(const struct thread *thread, uint64_t *work_out)
{
	/* acquire: pairs with proton_scope_provider_set() */
	proton_scope_provider_fn provide =
		atomic_load_explicit(&thread_scope_provider, memory_order_acquire);
	uint32_t context = thread_scope_context(thread);
	uint64_t work = 0;

	if (!provide)
		return context;
	if (thread->stack.depth)
		work = thread->stack.scopes[thread->stack.depth - 1].work;
	return provide(context, work, work_out);
}

void proton_context_keep(uint32_t context)
{
	context_tree_fix_path(context);
}

size_t thread_context_depth(bool wants_source)
{
	proton_context_provider_fn depth =
		atomic_load_explicit(&provider_depth, memory_order_acquire);
	struct thread *thread = wants_source ? NULL : thread_get();

	if (wants_source)
		return depth ? depth() : 0;
	return thread ? thread->stack.depth : 0;
}

uint32_t thread_context_below_state(const struct thread *thread, uint32_t context)
{
	uint32_t depth = thread->stack.state_depth;
	const struct state *state =
		&thread->stack.states[(depth < STATE_MAX ? depth : STATE_MAX) - 1];

	context = context_tree_child(context, state->frames[0]);
	return context_tree_child(context, state->frames[1]);
}

/* In registers: GCC 12's narrow stores would make the load wait, 5 ns of each launch. */
static struct proton_context join_contexts(uint32_t shadow, uint32_t source, uint32_t sessions)
{
	uint64_t both = (uint64_t)source << 32 | shadow;
	struct proton_context where;

	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
			       offsetof(struct proton_context, source) == 4,
		       "shadow comes first");
	memcpy(&where, &both, sizeof(both));
	where.sessions = sessions;
	return where;
}

struct proton_context thread_context_locate(const struct thread *thread, uint32_t shadow,
					    uint32_t config)
{
	uint32_t source = PROTON_CONTEXT_ROOT;

	if (session_config_get(config)->wants_source) {
		proton_context_provider_fn provide =
			atomic_load_explicit(&provider, memory_order_acquire);

		if (provide)
			source = provide();
		source = thread_below_state(thread, source);
	}
	return join_contexts(shadow, source, config);
}

void thread_context_note_again(struct scope *scope, uint32_t config)
{
	reused_names_note(scope->context);
	scope->config = config;
}

/* The main thread's location: used by threads without scopes. */
static struct proton_context locate_inherited(struct thread *thread)
{
	bool is_outermost = section_begin(thread);
	uint32_t config = thread_current_config();
	uint32_t context = thread_has_work() ? thread_context_of_work(thread, NULL)
					     : thread_scope_context(thread);

	if (thread->inherited != context || thread->inherited_config != config) {
		reused_names_note(context);
		thread->inherited = context;
		thread->inherited_config = config;
	}
	section_end(thread, is_outermost);
	return thread_context_locate(thread, thread_below_state(thread, context), config);
}

/* The innermost scope of the thread, or the context of the work that it runs. */
static uint32_t find_shadow(struct thread *thread, const struct scope *scope)
{
	uint32_t context = scope->context;

	if (__builtin_expect(!thread_has_work(), 1))
		return context;
	bool is_outermost = section_begin(thread);
	context = thread_context_of_work(thread, NULL);
	section_end(thread, is_outermost);
	return context;
}

struct proton_context proton_context_here(void)
{
	if (!session_any_live())
		return (struct proton_context){0};
	struct thread *thread = thread_get();
	if (!thread)
		return (struct proton_context){0};
	if (thread->in_op)
		return thread->op;
	if (thread->stack.depth) {
		struct scope *scope = &thread->stack.scopes[thread->stack.depth - 1];

		return thread_locate_scope(thread, scope,
					   thread_below_state(thread, find_shadow(thread, scope)));
	}
	return locate_inherited(thread);
}

struct proton_context proton_context_enter(struct proton_context where, uint32_t frame)
{
	if (!where.sessions)
		return where;
	where.shadow = context_tree_child(where.shadow, frame);
	if (session_config_get(where.sessions)->wants_source)
		where.source = context_tree_child(where.source, frame);
	return where;
}

bool proton_context_is_empty(struct proton_context where)
{
	return where.sessions == 0;
}

uint32_t proton_scope_frame(const char *name, size_t length)
{
	const struct thread *thread = thread_get();

	return frames_add_below(thread ? thread_scope_context(thread) : PROTON_CONTEXT_ROOT, name,
				length);
}

/* ------------------------------------------------------------------ states */

void proton_state_enter(const char *name)
{
	static const char prefix[] = "__proton_launch_metadata:";
	const size_t prefix_length = sizeof(prefix) - 1;

	if (strncmp(name, prefix, prefix_length) == 0)
		proton_state_enter_frames(proton_scope_frame(name, prefix_length - 1),
					  proton_scope_frame(name + prefix_length,
							     strlen(name + prefix_length)));
	else
		proton_state_enter_frames(proton_scope_frame(name, strlen(name)), FRAME_NONE);
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

/* ------------------------------------------------------------------ open scopes */

/* For source contexts: context "python+scopes". */

static _Atomic(uint64_t (*)(void)) place_provider;

void proton_scope_place_set(uint64_t (*place)(void))
{
	atomic_store_explicit(&place_provider, place, memory_order_release);
}

uint64_t thread_context_place(void)
{
	/* acquire: pairs with proton_scope_place_set() */
	uint64_t (*place)(void) = atomic_load_explicit(&place_provider, memory_order_acquire);

	return place ? place() : 0;
}

static uint64_t place_of(const struct stack *stack, uint32_t context)
{
	for (size_t i = 0; stack && i < stack->depth; i++)
		if (stack->scopes[i].context == context)
			return stack->scopes[i].place;
	return PROTON_PLACE_TASK;
}

/* The scopes in which the running task was made. */
static uint32_t add_origin(const struct thread *thread, struct proton_open_scope *scopes,
			   uint32_t capacity)
{
	const struct stack *own = task_find(thread, 0);
	uint32_t context = thread->stack.origin;
	uint32_t count = 0;

	if (context == TASK_ORIGIN_OWN)
		context = own && own->depth ? own->scopes[own->depth - 1].context
					    : PROTON_CONTEXT_ROOT;
	for (uint32_t at = context; at != PROTON_CONTEXT_ROOT; at = context_tree_get(at).parent)
		count++;
	if (count > capacity)
		return 0;
	for (uint32_t i = count; i-- > 0; context = context_tree_get(context).parent)
		scopes[i] = (struct proton_open_scope){
			.place = place_of(own, context),
			.frame = context_tree_get(context).frame,
		};
	return count;
}

bool proton_scopes_wanted(void)
{
	return session_any_live() && thread_current_config() & CONFIG_SCOPED;
}

uint32_t proton_scopes_open(struct proton_open_scope *scopes, uint32_t capacity)
{
	if (!proton_scopes_wanted())
		return 0;
	const struct thread *thread = thread_get();
	if (!thread)
		return 0;
	uint32_t count = thread->stack.task ? add_origin(thread, scopes, capacity) : 0;
	for (size_t i = 0; i < thread->stack.depth && count < capacity; i++)
		scopes[count++] = (struct proton_open_scope){
			.place = thread->stack.scopes[i].place,
			.frame = context_tree_get(thread->stack.scopes[i].context).frame,
		};
	return count;
}
