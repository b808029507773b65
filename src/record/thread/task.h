/*
 * Scopes of tasks: coroutines that take turns on a thread (asyncio). Each has a stack of scopes
 * of its own, which is the thread's while the task runs. A runtime names the task that runs
 * (proton_tasks_provider_set()); it is asked only on threads where a task has entered a scope.
 */
#ifndef RECORD_THREAD_TASK_H
#define RECORD_THREAD_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* Makes the stack of the running task, or the thread's own, that of the thread. */
__attribute__((cold)) void task_follow(struct thread *thread);
/* Makes the stack whose tokens have this number that of the thread. False: there is none. */
__attribute__((cold)) bool task_switch_to(struct thread *thread, uint32_t ordinal);
/* The innermost scope that a task without scopes of its own is in. */
__attribute__((cold)) uint32_t task_origin_context(const struct thread *thread);
/* Forgets all tasks; the thread's own stack is that of the thread again. */
__attribute__((cold)) void task_drop_all(struct thread *thread);

#endif
