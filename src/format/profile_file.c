/* Writing a profile file. See profile_file.h and docs/format.md. */
#include "format/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* Extents are multiples of 64 KiB, the largest page size of the machines we run on. */
#define EXTENT_MIN_BYTES (64ull << 10)
#define EXTENT_MAX_BYTES (64ull << 20)

static const struct {
	uint64_t reserve_bytes; /* address space; hundreds of millions of rows each */
	bool has_row_0;
} layout[TABLE_COUNT] = {
	[TABLE_STRINGS] = {16ull << 30, true},    [TABLE_FRAMES] = {4ull << 30, true},
	[TABLE_NODES] = {16ull << 30, true},      [TABLE_METRICS] = {1ull << 30, false},
	[TABLE_VALUES] = {16ull << 30, true},     [TABLE_KERNELS] = {16ull << 30, true},
	[TABLE_HISTOGRAMS] = {32ull << 30, true}, [TABLE_VECTORS] = {8ull << 30, false},
	[TABLE_DEVICES] = {16ull << 20, false},   [TABLE_INFO] = {16ull << 20, false},
	[TABLE_COUNTERS] = {16ull << 20, false},  [TABLE_EPOCHS] = {1ull << 30, false},
	[TABLE_LANES] = {64ull << 20, false},     [TABLE_EVENTS] = {64ull << 30, false},
	[TABLE_SAMPLES] = {32ull << 30, false},   [TABLE_LAUNCHES] = {4ull << 30, false},
	[TABLE_CONFIGS] = {16ull << 30, true},
};

/*
 * Room may come back, but asking a full file system takes milliseconds, and the thread that asks is
 * the program's.
 */
#define RETRY_AFTER_NS 1000000000ull

static bool add_extent(struct profile_file *file, enum table_id id, uint64_t bytes)
{
	struct profile_table *table = &file->tables[id];
	struct file_header *header = file->header;
	uint64_t extent = table->mapped_bytes;

	if (extent < EXTENT_MIN_BYTES)
		extent = EXTENT_MIN_BYTES;
	if (extent > EXTENT_MAX_BYTES)
		extent = EXTENT_MAX_BYTES;
	while (extent < bytes)
		extent += EXTENT_MIN_BYTES;
	if (table->mapped_bytes + extent > table->space.bytes) {
		file->errnum = ENOMEM;
		return false;
	}
	if (file->fd >= 0) {
		char *at = (char *)table->space.base + table->mapped_bytes;

		if (header->extent_count == PROFILE_FILE_MAX_EXTENTS) {
			file->errnum = EFBIG;
			return false;
		}
		file->errnum = posix_fallocate(file->fd, (off_t)file->file_bytes, (off_t)extent);
		if (file->errnum)
			return false;
		if (mmap(at, extent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->fd,
			 (off_t)file->file_bytes) == MAP_FAILED) {
			file->errnum = errno;
			return false;
		}
		madvise(at, extent, MADV_DONTDUMP);
		header->extents[header->extent_count] = (struct file_extent){
			.table = id,
			.offset = file->file_bytes,
			.bytes = extent,
		};
		/* release: the extent before its count */
		__atomic_store_n(&header->extent_count, header->extent_count + 1, __ATOMIC_RELEASE);
		file->file_bytes += extent;
	}
	table->mapped_bytes += extent;
	return true;
}

/* Adds one extent of at least `bytes` to `table`; false with file->errnum set. */
static bool table_grow(struct profile_file *file, enum table_id id, uint64_t bytes)
{
	if (file->retry_ns && clock_monotonic_ns() < file->retry_ns)
		return false;
	if (add_extent(file, id, bytes)) {
		file->retry_ns = 0;
		return true;
	}
	file->retry_ns = clock_monotonic_ns() + RETRY_AFTER_NS;
	return false;
}

void *profile_file_append(struct profile_file *file, enum table_id id, uint64_t rows)
{
	struct profile_table *table = &file->tables[id];
	uint64_t used = table->rows * table->row_bytes;
	uint64_t bytes = rows * table->row_bytes;

	if (used + bytes > table->mapped_bytes &&
	    !table_grow(file, id, used + bytes - table->mapped_bytes))
		return NULL;
	table->rows += rows;
	return (char *)table->space.base + used;
}

void profile_file_commit(struct profile_file *file, enum table_id id)
{
	/* release: whoever maps or reads the file finds the rows that are counted filled */
	__atomic_store_n(&file->header->tables[id].rows, file->tables[id].rows, __ATOMIC_RELEASE);
}

void profile_file_view(const struct profile_file *file, struct profile_view *view)
{
	*view = (struct profile_view){
		.state = file->header->state,
		.pid = file->header->pid,
		.start_ns = file->header->start_ns,
		.end_ns = file->header->end_ns,
	};
	for (int id = 0; id < TABLE_COUNT; id++) {
		view->table[id] = file->tables[id].space.base;
		view->rows[id] = file->header->tables[id].rows;
	}
}

/* Decides what to do about a file that is there already; on PROTON_OK the name is free. */
static int make_way(struct profile_file *file, struct proton_error *err)
{
	struct file_header *header = malloc(sizeof(*header));
	int fd = open(file->path, O_RDWR | O_CLOEXEC);
	int status = PROTON_OK;
	size_t stem;
	ssize_t n;

	if (!header || fd < 0) {
		status = fd < 0 && errno == ENOENT
				 ? PROTON_OK
				 : err_errno(err, errno, "cannot open %s", file->path);
		goto out;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		status = err_set(err, PROTON_E_BUSY, "%s is being written by another process",
				 file->path);
		goto out;
	}
	n = pread(fd, header, sizeof(*header), 0);
	if (n == 0) {
		unlink(file->path); /* created and killed before its first byte */
		goto out;
	}
	if (n < (ssize_t)sizeof(*header) || memcmp(header->magic, PROFILE_FILE_MAGIC, 8) != 0) {
		status = err_set(err, PROTON_E_INVALID,
				 "%s is in the way: it exists and is not a profile", file->path);
		goto out;
	}
	stem = strlen(file->path);
	if (stem > 7 && strcmp(file->path + stem - 7, ".proton") == 0)
		stem -= 7;
	if (header->state == PROFILE_FILE_FINISHED || header->tables[TABLE_NODES].rows <= 1) {
		unlink(file->path);
	} else if (asprintf(&file->leftover, "%.*s.%u.proton", (int)stem, file->path, header->pid) <
		   0) {
		file->leftover = NULL;
		status = err_set(err, PROTON_E_NOMEM, "out of memory");
	} else if (rename(file->path, file->leftover) < 0) {
		status = err_errno(err, errno, "cannot move %s to %s", file->path, file->leftover);
	}
out:
	if (fd >= 0)
		close(fd);
	free(header);
	return status;
}

/* Opens, locks and maps the header of a new file. */
static int open_file(struct profile_file *file, struct proton_error *err)
{
	int status = PROTON_OK;

	for (int attempt = 0; attempt < 3; attempt++) {
		file->fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (file->fd >= 0)
			break;
		if (errno != EEXIST)
			return err_errno(err, errno, "cannot create %s", file->path);
		status = make_way(file, err);
		if (status != PROTON_OK)
			return status;
	}
	if (file->fd < 0)
		return err_set(err, PROTON_E_BUSY, "%s is being written by another process",
			       file->path);
	/* Not every file system has locks; without them two writers of one name go unnoticed. */
	(void)flock(file->fd, LOCK_EX | LOCK_NB);
	file->errnum = posix_fallocate(file->fd, 0, PROFILE_FILE_HEADER_BYTES);
	if (file->errnum)
		return err_errno(err, file->errnum, "cannot create %s", file->path);
	file->header = mmap(NULL, PROFILE_FILE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			    file->fd, 0);
	if (file->header == MAP_FAILED) {
		file->header = NULL;
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "cannot map %s: the file system cannot share a mapping", file->path);
	}
	file->file_bytes = PROFILE_FILE_HEADER_BYTES;
	return PROTON_OK;
}

static int reserve_tables(struct profile_file *file, struct proton_error *err)
{
	for (int id = 0; id < TABLE_COUNT; id++) {
		struct profile_table *table = &file->tables[id];
		int status = region_reserve(&table->space, layout[id].reserve_bytes, 1 << 20,
					    file->fd < 0, err);

		if (status != PROTON_OK)
			return status;
		table->row_bytes = profile_row_bytes[id];
		file->header->tables[id] = (struct file_table){
			.id = (uint32_t)id,
			.row_bytes = table->row_bytes,
		};
	}
	file->header->table_count = TABLE_COUNT;
	for (int id = 0; id < TABLE_COUNT; id++) {
		if (!layout[id].has_row_0)
			continue;
		if (!profile_file_append(file, (enum table_id)id, 1))
			return err_errno(err, file->errnum, "cannot create %s",
					 file->path ? file->path : "the profile");
		profile_file_commit(file, (enum table_id)id);
	}
	return PROTON_OK;
}

int profile_file_create(struct profile_file *file, const char *path, struct proton_error *err)
{
	int status;

	*file = (struct profile_file){.fd = -1};
	if (path) {
		file->path = strdup(path);
		if (!file->path)
			return err_set(err, PROTON_E_NOMEM, "out of memory");
		status = open_file(file, err);
	} else {
		file->header = calloc(1, PROFILE_FILE_HEADER_BYTES);
		status = file->header ? PROTON_OK : err_set(err, PROTON_E_NOMEM, "out of memory");
	}
	if (status == PROTON_OK) {
		memcpy(file->header->magic, PROFILE_FILE_MAGIC, sizeof(file->header->magic));
		file->header->major = PROFILE_FILE_MAJOR;
		file->header->minor = PROFILE_FILE_MINOR;
		file->header->header_bytes = PROFILE_FILE_HEADER_BYTES;
		file->header->pid = (uint32_t)getpid();
		file->header->start_ns = clock_real_ns();
		status = reserve_tables(file, err);
	}
	if (status != PROTON_OK)
		profile_file_close(file, file->fd >= 0);
	return status;
}

void profile_file_mark(struct profile_file *file, enum profile_file_state state, uint64_t end_ns)
{
	file->header->end_ns = end_ns;
	file->header->state = (uint32_t)state;
}

void profile_file_close(struct profile_file *file, bool remove)
{
	for (int id = 0; id < TABLE_COUNT; id++)
		region_release(&file->tables[id].space);
	if (file->fd >= 0) {
		if (file->header)
			munmap(file->header, PROFILE_FILE_HEADER_BYTES);
		if (remove)
			unlink(file->path);
		close(file->fd);
	} else {
		free(file->header);
	}
	free(file->path);
	free(file->leftover);
	*file = (struct profile_file){.fd = -1};
}

int profile_file_write(const struct profile_view *view, struct out *out, struct proton_error *err)
{
	struct file_header *header = calloc(1, PROFILE_FILE_HEADER_BYTES);
	uint64_t offset = PROFILE_FILE_HEADER_BYTES;

	if (!header)
		return err_set(err, PROTON_E_NOMEM, "out of memory");
	memcpy(header->magic, PROFILE_FILE_MAGIC, sizeof(header->magic));
	header->major = PROFILE_FILE_MAJOR;
	header->minor = PROFILE_FILE_MINOR;
	header->header_bytes = PROFILE_FILE_HEADER_BYTES;
	header->state = PROFILE_FILE_FINISHED;
	header->pid = view->pid;
	header->start_ns = view->start_ns;
	header->end_ns = view->end_ns;
	header->table_count = TABLE_COUNT;
	for (uint32_t id = 0; id < TABLE_COUNT; id++) {
		uint64_t bytes = view->rows[id] * profile_row_bytes[id];

		header->tables[id] = (struct file_table){
			.id = id,
			.row_bytes = profile_row_bytes[id],
			.rows = view->rows[id],
		};
		if (!bytes)
			continue;
		header->extents[header->extent_count++] = (struct file_extent){
			.table = id,
			.offset = offset,
			.bytes = bytes,
		};
		offset += bytes; /* every row size is a multiple of 8, so tables stay aligned */
	}
	out_bytes(out, header, PROFILE_FILE_HEADER_BYTES);
	free(header);
	for (int id = 0; id < TABLE_COUNT; id++)
		out_bytes(out, view->table[id], view->rows[id] * profile_row_bytes[id]);
	return PROTON_OK;
}
