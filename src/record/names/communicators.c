/* Communicators of collectives, and the scopes that are named for them. */

#include <stdio.h>

#include <libproton/proton.h>

#include "base/map.h"
#include "base/mutex.h"
#include "record/names/frames.h"

#define COMMUNICATORS_MAX 1024u
#define LABELS_MAX 4096u
#define NAME_BYTES_MAX 400u

struct communicator {
	uint64_t id;
	uint32_t ranks; /* or COMMUNICATORS_SEVERAL and the number of communicators; 0: not known */
	uint32_t number; /* among communicators with as many ranks, from 1 */
};

/* A scope that is named for a communicator. */
struct label {
	uint64_t id;
	uint32_t name; /* frame */
	uint32_t frame;
};

pthread_mutex_t communicators_lock = PTHREAD_MUTEX_INITIALIZER;
static struct communicator communicators[COMMUNICATORS_MAX]; /* under the lock */
static uint32_t communicator_count;
static struct label labels[LABELS_MAX]; /* constant once a map has them */
static uint32_t label_count;
static struct map by_name; /* hash of name and id -> label + 1 */
static struct map by_frame;

/* ------------------------------------------------------------------ labels */

static uint64_t key_of_name(uint32_t name, uint64_t id)
{
	uint64_t key = hash_u64(id ^ hash_u64(name));

	return key ? key : 1;
}

static const struct label *find_name(uint32_t name, uint64_t id)
{
	uint32_t found = map_find(&by_name, key_of_name(name, id));

	return found && labels[found - 1].name == name && labels[found - 1].id == id
		       ? &labels[found - 1]
		       : NULL;
}

/* Under the lock. A label without memory, or with the hash of another one, is made again. */
static void add_label(uint32_t name, uint64_t id, uint32_t frame)
{
	uint64_t key = key_of_name(name, id);

	if (label_count == LABELS_MAX || map_find(&by_name, key) || map_find(&by_frame, frame))
		return;
	labels[label_count++] = (struct label){.id = id, .name = name, .frame = frame};
	if (map_insert(&by_frame, frame, label_count))
		map_insert(&by_name, key, label_count);
}

/* ------------------------------------------------------------------ communicators */

/* Found or added, under the lock; NULL: there are too many. */
static struct communicator *communicator_of(uint64_t id, uint32_t ranks)
{
	uint32_t number = 1;

	for (uint32_t i = 0; i < communicator_count; i++) {
		if (communicators[i].id == id)
			return &communicators[i];
		number += communicators[i].ranks == ranks;
	}
	if (communicator_count == COMMUNICATORS_MAX)
		return NULL;
	communicators[communicator_count] = (struct communicator){id, ranks, number};
	return &communicators[communicator_count++];
}

void communicators_note(uint64_t id, uint32_t ranks)
{
	MUTEX_HOLD(&communicators_lock);
	communicator_of(id, ranks);
}

/* "NAME [8 ranks]", or of a second communicator with as many ranks "NAME [8 ranks #2]". */
static uint32_t make_frame(uint32_t name, const struct communicator *communicator)
{
	uint32_t length;
	const char *text = frames_text(frames_get(name)->name, &length);
	char label[NAME_BYTES_MAX + 64];
	char ranks[32] = "communicator";
	char number[16] = "";

	if (length > NAME_BYTES_MAX)
		return FRAME_NONE;
	if (communicator->ranks & COMMUNICATORS_SEVERAL)
		snprintf(ranks, sizeof(ranks), "%u communicators",
			 communicator->ranks & ~COMMUNICATORS_SEVERAL);
	else if (communicator->ranks)
		snprintf(ranks, sizeof(ranks), "%u rank%s", communicator->ranks,
			 communicator->ranks > 1 ? "s" : "");
	if (communicator->number > 1)
		snprintf(number, sizeof(number), " #%u", communicator->number);
	snprintf(label, sizeof(label), "%.*s [%s%s]", (int)length, text, ranks, number);
	return proton_scope_frame(label, strlen(label));
}

uint32_t communicators_frame(uint32_t name, uint64_t id)
{
	const struct label *label = find_name(name, id);
	struct communicator communicator = {0};
	uint32_t frame = name;

	if (label || name == FRAME_NONE || name == FRAME_OTHER)
		return label ? label->frame : name;
	pthread_mutex_lock(&communicators_lock);
	const struct communicator *known = label_count < LABELS_MAX ? communicator_of(id, 0) : NULL;
	if (known)
		communicator = *known;
	pthread_mutex_unlock(&communicators_lock);
	if (communicator.id)
		frame = make_frame(name, &communicator); /* takes other locks */
	if (frame == name || frame == FRAME_NONE || frame == FRAME_OTHER)
		return name;
	pthread_mutex_lock(&communicators_lock);
	add_label(name, id, frame);
	pthread_mutex_unlock(&communicators_lock);
	return frame;
}

uint64_t communicators_of(uint32_t context)
{
	uint32_t label = 0;

	for (; context != PROTON_CONTEXT_ROOT && !label; context = context_tree_get(context).parent)
		label = map_find(&by_frame, context_tree_get(context).frame);
	return label ? labels[label - 1].id : 0;
}
