/* Open scopes for source contexts: context "python+scopes". */
#include "record/thread/thread.h"

#include "record/names/context_tree.h"
#include "record/thread/thread_self.h"

static _Atomic(uint64_t (*)(void)) place_provider;

void proton_scope_place_set(uint64_t (*place)(void))
{
	atomic_store_explicit(&place_provider, place, memory_order_release);
}

uint64_t open_scopes_place(void)
{
	/* acquire: pairs with proton_scope_place_set() */
	uint64_t (*place)(void) = atomic_load_explicit(&place_provider, memory_order_acquire);

	return place ? place() : 0;
}

/* The scopes that the thread has open outside of its running task. */
static const struct stack *own_stack(const struct thread *thread)
{
	for (size_t i = 0; i < thread->other_count; i++)
		if (!thread->others[i].task)
			return &thread->others[i];
	return NULL;
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
	const struct stack *own = own_stack(thread);
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
	const struct thread *thread;
	uint32_t count;

	if (!proton_scopes_wanted())
		return 0;
	thread = thread_get();
	if (!thread)
		return 0;
	count = thread->stack.task ? add_origin(thread, scopes, capacity) : 0;
	for (size_t i = 0; i < thread->stack.depth && count < capacity; i++)
		scopes[count++] = (struct proton_open_scope){
			.place = thread->stack.scopes[i].place,
			.frame = context_tree_get(thread->stack.scopes[i].context).frame,
		};
	return count;
}
