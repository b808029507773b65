/* Source files of sampled lines. */
#include "record/session/sample_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "model/load.h"
#include "record/session/sample_ptx.h"

#define FILE_MAX_BYTES (1u << 20)
#define ALL_MAX_BYTES (16u << 20)

static size_t read_all(int fd, char *bytes, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = read(fd, bytes + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* Stores one file; returns the bytes used. The path comes from a cubin: it may be anything. */
static size_t store_file(struct store *store, const char *path, size_t space)
{
	/* Without O_NONBLOCK, opening a pipe would wait for its writer. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	char *bytes = NULL;
	size_t length = 0;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		if ((uint64_t)st.st_size <= FILE_MAX_BYTES && (uint64_t)st.st_size <= space)
			bytes = malloc((size_t)st.st_size);
		if (bytes)
			length = read_all(fd, bytes, (size_t)st.st_size);
		if (length)
			store_samples_source(store, path, bytes, length,
					     hash_stored(bytes, length));
		else
			store_samples_source(store, path, NULL, (uint64_t)st.st_size, 0);
	}
	free(bytes);
	close(fd);
	return length;
}

void sample_sources_store(struct store *store)
{
	struct profile *profile;
	size_t space = ALL_MAX_BYTES;

	if (!store->samples.is_ready ||
	    store_profile(store, PHASE_ALL, &profile, NULL) != PROTON_OK)
		return;
	/* With the PTX, lines of calls are known too, and their files. */
	if (sample_ptx_store(store, profile)) {
		profile_free(profile);
		if (store_profile(store, PHASE_ALL, &profile, NULL) != PROTON_OK)
			return;
	}
	for (size_t i = 0; profile->samples && i < profile->samples->file_count; i++)
		space -=
			store_file(store, profile_text(profile, profile->samples->files[i]), space);
	profile_free(profile);
}
