/* Loading profiles from bytes and files of any format. */
#include "model/load.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/hash.h"
#include "format/json_read.h"
#include "format/msgpack_read.h"
#include "format/profile_snapshot.h"
#include "model/load_tree.h"

static bool begins_with(const char *bytes, size_t length, const char *prefix, size_t prefix_length)
{
	return length >= prefix_length && memcmp(bytes, prefix, prefix_length) == 0;
}

/* `keep`: malloc'd bytes that the profile may take; set to NULL if it does. NULL: it copies. */
static int load_profile_file(const char *bytes, size_t length, char **keep, struct profile **out,
			     struct proton_error *err)
{
	struct profile_view view;

	TRY(profile_view_open(&view, bytes, length, err));
	int status = profile_load_view(&view, PHASE_ALL, out, err);
	if (status == PROTON_OK && (*out)->trace) {
		status = trace_own((*out)->trace, &view, keep, err);
		if (status != PROTON_OK)
			profile_free(*out);
	}
	profile_view_fini(&view);
	return status;
}

/* ------------------------------------------------------------------ formats */

int profile_load_hatchet(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err)
{
	AT_END(json_reader_fini) struct json_reader reader;

	json_reader_init(&reader, bytes, length);
	return load_tree(&reader.source, out, err);
}

int profile_load_msgpack(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err)
{
	AT_END(msgpack_reader_fini) struct msgpack_reader reader;

	msgpack_reader_init(&reader, bytes, length);
	return load_tree(&reader.source, out, err);
}

/* The first byte that is not white space, or 0. */
static char first_of_text(const char *bytes, size_t length)
{
	size_t at = begins_with(bytes, length, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (at < length && strchr(" \t\r\n", bytes[at]) && bytes[at])
		at++;
	return (char)(at < length ? bytes[at] : 0);
}

/*
 * True before the magic number of a profile file is written: the file has blocks for its header
 * before that. If the header is written during the read, the start of it may be missing.
 */
static bool is_starting(const char *bytes, size_t length)
{
	return length >= FILE_HEAD_BYTES && !bytes[0] && memcmp(bytes, bytes + 1, 7) == 0;
}

/* Files that users pass by mistake; NULL if it is none of them. */
static const char *known_stranger(const char *bytes, size_t length)
{
	static const struct {
		const char *head, *what;
	} packed[] = {
		{"\x1f\x8b", "it is compressed with gzip; decompress it first (gunzip)"},
		{"\x28\xb5\x2f\xfd", "it is compressed with zstd; decompress it first (unzstd)"},
		{"\xfd\x37zXZ", "it is compressed with xz; decompress it first (unxz)"},
		{"PK\x03\x04", "it is a zip archive; extract the profile first"},
	};

	if (length == 0)
		return "it is empty";
	if (is_starting(bytes, length))
		return "it is empty: the process exited during startup";
	for (size_t i = 0; i < ARRAY_LENGTH(packed); i++)
		if (begins_with(bytes, length, packed[i].head, strlen(packed[i].head)))
			return packed[i].what;
	if (first_of_text(bytes, length) == '{' && length < (1u << 30) &&
	    memmem(bytes, length < 4096 ? length : 4096, "traceEvents", 11))
		return "it is a Chrome trace; open it with a trace viewer such as ui.perfetto.dev";
	return NULL;
}

static bool is_msgpack(const char *bytes, size_t length)
{
	unsigned char first = length ? (unsigned char)bytes[0] : 0;

	return (first >= 0x91 && first <= 0x9f) || first == 0xdc || first == 0xdd;
}

static int refuse_file(const char *name, const char *bytes, size_t length, struct proton_error *err)
{
	const char *stranger = known_stranger(bytes, length);

	return err_set(err, PROTON_E_FORMAT, "cannot read %s: %s", name,
		       stranger ? stranger
				: "it is not a profile (.proton, .hatchet or .hatchet_msgpack)");
}

/* Frees a profile that takes too much memory for its file. */
static int check_cost(size_t length, struct profile *profile, struct proton_error *err)
{
	uint64_t cost = profile_cost(profile);
	uint64_t own = (uint64_t)length * LOAD_BYTES_PER_BYTE;

	profile->file_bytes = length;
	profile->more_bytes = cost > own ? cost - own : 0;
	if (profile->more_bytes <= LOAD_BYTES_MORE)
		return PROTON_OK;
	profile_free(profile);
	return load_refuse(length, err);
}

static int load_bytes(const char *name, const char *bytes, size_t length, char **keep,
		      struct profile **out, struct proton_error *err)
{
	int status;

	if (profile_view_recognize(bytes, length))
		status = load_profile_file(bytes, length, keep, out, err);
	else if (is_msgpack(bytes, length))
		status = profile_load_msgpack(bytes, length, out, err);
	else if (first_of_text(bytes, length) == '[')
		status = profile_load_hatchet(bytes, length, out, err);
	else
		return refuse_file(name, bytes, length, err);
	if (status == PROTON_OK)
		status = check_cost(length, *out, err);
	if (status != PROTON_OK)
		err_wrap(err, "cannot read %s", name);
	return status;
}

int profile_load_bytes(const char *name, const char *bytes, size_t length, struct profile **out,
		       struct proton_error *err)
{
	return load_bytes(name, bytes, length, NULL, out, err);
}

/* A file larger than half of the machine's memory is taken for an endless stream, not a profile. */
static uint64_t size_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long page_bytes = sysconf(_SC_PAGESIZE);

	return pages > 0 && page_bytes > 0 ? (uint64_t)pages / 2 * (uint64_t)page_bytes : 0;
}

/* The first bytes decide, before gigabytes of a file that is not a profile are read. */
static int check_head(const char *name, const char *bytes, size_t length, struct proton_error *err)
{
	char text = first_of_text(bytes, length);

	if (profile_view_recognize(bytes, length) || is_msgpack(bytes, length) ||
	    ((text == '[' || !text) && length && !memchr(bytes, '\0', length)))
		return PROTON_OK;
	return refuse_file(name, bytes, length, err);
}

#define SNAPSHOTS_MAX 10

/* The bytes belong to `kept`, or are freed. */
static void give_bytes(struct profile_bytes *kept, char *bytes, size_t length)
{
	if (kept)
		*kept = (struct profile_bytes){bytes, length};
	else
		free(bytes);
}

/*
 * Loads a file that is being recorded, or that a killed process left. False: it is neither, or it
 * is truncated. Clearing a phase moves rows from one list to another, so a list may be inconsistent
 * although its file is not. The file has then changed, and is read again.
 */
static bool load_recording(const char *path, struct profile_bytes *kept, struct profile **out,
			   int *status_out, struct proton_error *err)
{
	uint64_t last_hash = 0;

	for (int i = 0; i < SNAPSHOTS_MAX; i++) {
		struct profile *profile;
		char *bytes;
		size_t length;

		if (!profile_snapshot_read(path, &bytes, &length))
			return false;
		uint64_t hash = hash_bytes(bytes, length);
		int status = load_bytes(path, bytes, length, kept ? NULL : &bytes, &profile, err);
		if (status == PROTON_OK && profile->is_damaged && (!i || hash != last_hash)) {
			last_hash = hash;
			if (i < SNAPSHOTS_MAX - 1) {
				profile_free(profile);
				free(bytes);
				continue;
			}
			profile->is_damaged = false; /* it changed during each read */
		}
		give_bytes(status == PROTON_OK ? kept : NULL, bytes, length);
		if (status == PROTON_OK)
			*out = profile;
		*status_out = status;
		return true;
	}
	return false;
}

static int load_whole(const char *path, struct profile_bytes *kept, struct profile **out,
		      struct proton_error *err)
{
	const struct file_limits limits = {.max_bytes = size_limit(), .check_head = check_head};
	const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
	char *bytes;
	size_t length;

	TRY(file_read_all(path, &limits, &bytes, &length, err));
	int status = load_bytes(name, bytes, length, kept ? NULL : &bytes, out, err);
	give_bytes(status == PROTON_OK ? kept : NULL, bytes, length);
	return status;
}

/* True for an open descriptor of a process, such as a shell's <(...): its user wants to wait. */
static bool is_descriptor(const char *path)
{
	return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0 ||
	       strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
}

/* Refuses what could be waited for without end. */
static int check_kind(const char *path, struct proton_error *err)
{
	struct stat st;

	if (is_descriptor(path) || stat(path, &st) != 0 || S_ISREG(st.st_mode) ||
	    S_ISDIR(st.st_mode))
		return PROTON_OK;
	return err_set(err, PROTON_E_FORMAT,
		       "cannot read %s: it is a %s, not a file; read pipes as standard input (-)",
		       path,
		       S_ISFIFO(st.st_mode)   ? "FIFO"
		       : S_ISSOCK(st.st_mode) ? "socket"
					      : "device");
}

static int load_file(const char *path, struct profile_bytes *kept, struct profile **out,
		     struct proton_error *err)
{
	struct profile_bytes newer = {0};
	struct profile *again;
	int status = check_kind(path, err);
	int again_status;

	if (status != PROTON_OK)
		return status;
	if (load_recording(path, kept, out, &status, err))
		return status;
	status = load_whole(path, kept, out, err);
	/*
	 * Recording may have begun between the two reads; then a single read of it is inconsistent.
	 */
	if (status != PROTON_E_FORMAT && (status != PROTON_OK || !(*out)->is_unfinished))
		return status;
	if (!load_recording(path, kept ? &newer : NULL, &again, &again_status, err))
		return status;
	if (kept)
		free(kept->bytes);
	if (kept)
		*kept = newer;
	if (status == PROTON_OK)
		profile_free(*out);
	if (again_status == PROTON_OK)
		*out = again;
	return again_status;
}

int profile_load_file(const char *path, struct profile **out, struct proton_error *err)
{
	return load_file(path, NULL, out, err);
}

int profile_load_next(const char *path, struct profile_bytes *kept, uint64_t *more_bytes,
		      struct profile **out, struct proton_error *err)
{
	TRY(*out                  ? PROTON_OK
	    : kept && kept->bytes ? profile_load_bytes(path, kept->bytes, kept->length, out, err)
				  : load_file(path, kept, out, err));
	*more_bytes += (*out)->more_bytes;
	if (*more_bytes <= LOAD_BYTES_MORE)
		return PROTON_OK;
	profile_free(*out);
	return err_set(err, PROTON_E_FORMAT,
		       "cannot read %s: with the files before it, it would take too much memory "
		       "for its size",
		       path);
}
