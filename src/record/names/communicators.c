/* Communicators of collectives, and the scopes that are named for them. */

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/hash.h"
#include "record/names/frames.h"

#define COMMUNICATORS_MAX 1024u
#define LABELS_MAX 4096u
#define SLOTS 8192u /* a power of two, more than LABELS_MAX */
#define NAME_BYTES_MAX 400u
#define SEVERAL (1u << 31)

struct communicator {
	uint64_t id;
	uint32_t ranks;  /* or SEVERAL and the number of communicators; 0: not known */
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
static struct label labels[LABELS_MAX]; /* constant once a slot has them */
static uint32_t label_count;
static _Atomic uint32_t by_name[SLOTS]; /* by name and id: label + 1 */
static _Atomic uint32_t by_frame[SLOTS];
static _Atomic bool has_labels;

/* ------------------------------------------------------------------ labels */

static uint64_t key_of_name(uint32_t name, uint64_t id)
{
	return hash_u64(id ^ hash_u64(name));
}

/* acquire: pairs with put_label(), which has filled the label */
static const struct label *label_at(_Atomic uint32_t *slots, uint64_t at)
{
	uint32_t label = atomic_load_explicit(&slots[at % SLOTS], memory_order_acquire);

	return label ? &labels[label - 1] : NULL;
}

static const struct label *find_name(uint32_t name, uint64_t id)
{
	const struct label *label;

	for (uint64_t at = key_of_name(name, id); (label = label_at(by_name, at)); at++)
		if (label->name == name && label->id == id)
			return label;
	return NULL;
}

static const struct label *find_frame(uint32_t frame)
{
	const struct label *label;

	for (uint64_t at = hash_u64(frame); (label = label_at(by_frame, at)); at++)
		if (label->frame == frame)
			return label;
	return NULL;
}

static void put_label(_Atomic uint32_t *slots, uint64_t at, uint32_t label)
{
	while (atomic_load_explicit(&slots[at % SLOTS], memory_order_relaxed))
		at++;
	atomic_store_explicit(&slots[at % SLOTS], label + 1, memory_order_release);
}

/* Under the lock. */
static void add_label(uint32_t name, uint64_t id, uint32_t frame)
{
	labels[label_count] = (struct label){.id = id, .name = name, .frame = frame};
	put_label(by_name, key_of_name(name, id), label_count);
	put_label(by_frame, hash_u64(frame), label_count);
	label_count++;
	atomic_store_explicit(&has_labels, true, memory_order_release);
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
	pthread_mutex_lock(&communicators_lock);
	communicator_of(id, ranks);
	pthread_mutex_unlock(&communicators_lock);
}

void communicators_note_several(uint64_t id, uint32_t count)
{
	communicators_note(id, SEVERAL | count);
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
	if (communicator->ranks & SEVERAL)
		snprintf(ranks, sizeof(ranks), "%u communicators", communicator->ranks & ~SEVERAL);
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
	const struct communicator *known;
	uint32_t frame = name;

	if (label || name == FRAME_NONE || name == FRAME_OTHER)
		return label ? label->frame : name;
	pthread_mutex_lock(&communicators_lock);
	known = label_count < LABELS_MAX ? communicator_of(id, 0) : NULL;
	if (known)
		communicator = *known;
	pthread_mutex_unlock(&communicators_lock);
	if (communicator.id)
		frame = make_frame(name, &communicator); /* takes other locks */
	if (frame == name || frame == FRAME_NONE || frame == FRAME_OTHER)
		return name;
	pthread_mutex_lock(&communicators_lock);
	label = find_name(name, id);
	if (!label && label_count < LABELS_MAX && !find_frame(frame))
		add_label(name, id, frame);
	pthread_mutex_unlock(&communicators_lock);
	return frame;
}

uint64_t communicators_of(uint32_t context)
{
	/* acquire: pairs with add_label() */
	if (!atomic_load_explicit(&has_labels, memory_order_acquire))
		return 0;
	while (context != PROTON_CONTEXT_ROOT) {
		struct context at = context_tree_get(context);
		const struct label *label = find_frame(at.frame);

		if (label)
			return label->id;
		context = at.parent;
	}
	return 0;
}
