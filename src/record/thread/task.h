/*
 * Scope stacks of tasks: coroutines that take turns on a thread (asyncio). Each task has its own
 * stack of scopes, which is the thread's while the task runs. A runtime names the running task
 * (proton_tasks_provider_set()); it is asked only on threads where a task has entered a scope.
 */
#ifndef RECORD_THREAD_TASK_H
#define RECORD_THREAD_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct stack;
struct thread;

/* Installs the stack of the running task, or the thread's own. */
__attribute__((cold)) void task_follow(struct thread *thread);
/* Installs the stack with this number in its tokens. False: there is none. */
__attribute__((cold)) bool task_switch_to(struct thread *thread, uint32_t ordinal);
/* The innermost scope around a task that has no scopes. */
__attribute__((cold)) uint32_t task_origin_context(const struct thread *thread);
/* Ends the trace events of open scopes. */
void task_end_events(struct thread *thread, struct stack *stack);
/* Removes all tasks; the thread's own stack is installed again. */
__attribute__((cold)) void task_drop_all(struct thread *thread);

#endif
