/* The scope that a session waits for (proton_listen_range()). */
#include "record/thread/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

_Atomic(const char *) range_name;
_Atomic uint64_t range_token;
static _Atomic(void (*)(bool is_begin)) change_session;

/* Names are kept: other threads may read an earlier one. */
struct range_text {
	struct range_text *next;
	char name[];
};

bool range_await(const char *name, void (*change)(bool is_begin))
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

bool range_begin(const char *name, size_t length)
{
	const char *awaited = atomic_load(&range_name);

	if (!awaited || strlen(awaited) != length || memcmp(awaited, name, length) != 0 ||
	    !atomic_compare_exchange_strong(&range_name, &awaited, NULL))
		return false;
	atomic_load (&change_session)(true);
	return true;
}

void range_end(void)
{
	atomic_store(&range_token, 0);
	atomic_load (&change_session)(false);
}

bool proton_range_is_awaited(void)
{
	return atomic_load_explicit(&range_name, memory_order_relaxed);
}
