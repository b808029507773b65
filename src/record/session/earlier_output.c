/* Detection of earlier outputs that are worth keeping. */
#include "record/session/earlier_output.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/array.h"
#include "model/load.h"

/* A larger file is never the profile of a run that recorded nothing. */
#define SMALL_PROFILE_BYTES 65536

/*
 * The latest files that this process wrote; 0: none. No lock, because a fork may come at any time.
 */
static _Atomic uint64_t written[64];
static _Atomic uint32_t written_count;

static uint64_t key_of(const struct stat *st)
{
	return (uint64_t)st->st_ino + (uint64_t)st->st_dev * 0x9e3779b97f4a7c15ULL;
}

void earlier_output_note_written(const char *path)
{
	struct stat st;

	/* relaxed: no other data depends on the number */
	if (stat(path, &st) == 0)
		atomic_store_explicit(
			&written[atomic_fetch_add(&written_count, 1) % ARRAY_LENGTH(written)],
			key_of(&st), memory_order_relaxed);
}

static bool was_written_here(const struct stat *st)
{
	for (size_t i = 0; i < ARRAY_LENGTH(written); i++)
		if (atomic_load_explicit(&written[i], memory_order_relaxed) == key_of(st))
			return true;
	return false;
}

bool earlier_output_is_kept(const char *path)
{
	struct profile *profile;
	struct stat st;
	bool is_empty;

	if (stat(path, &st) < 0 || was_written_here(&st))
		return false;
	if (st.st_size > SMALL_PROFILE_BYTES || profile_load_file(path, &profile, NULL))
		return true;
	is_empty = profile->node_count <= 1 && !profile->nodes[0].first_value;
	profile_free(profile);
	return !is_empty;
}
