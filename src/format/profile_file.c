/* Profile file writer: memory-mapped tables that grow by extents. See docs/format.md. */
#include "format/profile_file.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/guest.h"

/* Extents are multiples of 64 KiB, the largest page size of supported machines. */
#define EXTENT_MIN_BYTES (64ull << 10)
#define EXTENT_MAX_BYTES (64ull << 20)

static const struct {
	uint64_t reserve_bytes;
	bool has_row_0;
} layout[TABLE_COUNT] = {
#define TABLE(name, id, row, bytes, mib, has_row_0, columns) [id] = {mib##ull << 20, has_row_0},
#include "format/tables.def"
#undef TABLE
};

/* Tables from this one on are reserved with their first row: most sessions do not sample PCs. */
#define FIRST_LATE_TABLE TABLE_CODE_OBJECTS

/*
 * Space may become free again. But a request to a full file system takes milliseconds, on one of
 * the program's threads.
 */
#define RETRY_AFTER_NS 1000000000ull

/* Tables to which several threads write new rows at once. */
static bool is_of_threads(int id)
{
	return id == TABLE_EVENTS || id == TABLE_SAMPLES;
}

static bool add_extent(struct profile_file *file, enum table_id id, uint64_t bytes)
{
	struct file_header *header = file->header;
	struct region *space = &file->spaces[id];
	uint64_t extent = space->bytes;

	if (extent < EXTENT_MIN_BYTES)
		extent = EXTENT_MIN_BYTES;
	if (extent > EXTENT_MAX_BYTES)
		extent = EXTENT_MAX_BYTES;
	while (extent < bytes)
		extent += EXTENT_MIN_BYTES;
	if (extent > space->limit - space->bytes) {
		file->errnum = ENOMEM;
		return false;
	}
	if (file->place.path) {
		char *at = (char *)space->base + space->bytes;
		bool unused;

		if (header->extent_count == PROFILE_FILE_MAX_EXTENTS) {
			file->errnum = EFBIG;
			return false;
		}
		file->errnum = working_file_map(&file->place, space, (off_t)file->file_bytes,
						extent, &unused);
		if (file->errnum)
			return false;
		/* The first write to a page would also fill its neighbors: others wait. */
		if (is_of_threads(id))
			madvise(at, extent, MADV_RANDOM);
		header->extents[header->extent_count] = (struct file_extent){
			.table = id,
			.offset = file->file_bytes,
			.bytes = extent,
		};
		/* release: the extent before its count; pairs with readers in other processes */
		__atomic_store_n(&header->extent_count, header->extent_count + 1, __ATOMIC_RELEASE);
		file->file_bytes += extent;
		return true;
	}
	file->errnum = region_map(space, extent, -1, 0);
	return file->errnum == 0;
}

/* Where no other thread of the program can change the file's descriptor, if that is possible. */
static void run_alone(struct profile_file *file, void (*job)(void *data), void *data)
{
	if (!file->place.path || file->is_alone || !own_descriptors_run(job, data))
		job(data);
}

struct growth {
	struct profile_file *file;
	enum table_id id;
	uint64_t bytes;
	bool has_grown;
};

static void grow_alone(void *data)
{
	struct growth *growth = data;

	growth->has_grown = add_extent(growth->file, growth->id, growth->bytes);
}

static int reserve(struct profile_file *file, int id, struct proton_error *err)
{
	return region_reserve(&file->spaces[id], layout[id].reserve_bytes, EXTENT_MIN_BYTES,
			      !file->place.path, err);
}

/* Adds one extent of at least `bytes` to `table`; false with file->errnum set. */
static bool table_grow(struct profile_file *file, enum table_id id, uint64_t bytes)
{
	struct growth growth = {.file = file, .id = id, .bytes = bytes};

	if (file->retry_ns && clock_monotonic_ns() < file->retry_ns)
		return false;
	if (__atomic_load_n(&file->is_truncated, __ATOMIC_RELAXED)) {
		file->errnum = ENODATA;
	} else if (!file->spaces[id].base && reserve(file, (int)id, NULL) != PROTON_OK) {
		file->errnum = ENOMEM;
	} else {
		run_alone(file, grow_alone, &growth);
	}
	if (growth.has_grown) {
		file->retry_ns = 0;
		return true;
	}
	if (file->errnum == ENODATA)
		__atomic_store_n(&file->is_truncated, true, __ATOMIC_RELAXED);
	file->retry_ns = clock_monotonic_ns() + RETRY_AFTER_NS;
	return false;
}

void *profile_file_append(struct profile_file *file, enum table_id id, uint64_t rows)
{
	struct profile_table *table = &file->tables[id];
	uint64_t used = table->rows * table->row_bytes;
	uint64_t bytes = rows * table->row_bytes;

	if (used + bytes > file->spaces[id].bytes &&
	    !table_grow(file, id, used + bytes - file->spaces[id].bytes))
		return NULL;
	table->rows += rows;
	return (char *)file->spaces[id].base + used;
}

void profile_file_commit(struct profile_file *file, enum table_id id)
{
	/* release: a process that maps or reads the file finds all counted rows filled */
	__atomic_store_n(&file->header->tables[id].rows, file->tables[id].rows, __ATOMIC_RELEASE);
}

void profile_file_expect_reading(const struct profile_file *file)
{
	for (int id = 0; id < TABLE_COUNT; id++)
		if (is_of_threads(id) && file->spaces[id].bytes)
			madvise(file->spaces[id].base, file->spaces[id].bytes, MADV_NORMAL);
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
		view->table[id] = file->spaces[id].base;
		view->rows[id] = file->header->tables[id].rows;
	}
}

/* ------------------------------------------------------------------ truncated files */

/*
 * Working files that another program truncates. A store into a page that the file no longer has
 * raises SIGBUS. While there are working files, and if the program has no handler for that signal,
 * one of Proton's puts zeroed memory in the place of such pages, and the file counts as truncated.
 * It leaves every other SIGBUS to the default action.
 */
static struct profile_file *_Atomic watched[64]; /* more than there are sessions */
static _Atomic bool is_installed;

/* Puts memory in the place of the region if it contains the address. */
static bool replace_pages(const struct region *region, uintptr_t address)
{
	uintptr_t base = (uintptr_t)region->base;

	return base && address >= base && region_holds(region, address - base + 1) &&
	       mmap(region->base, region->bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool replace_table(uintptr_t address)
{
	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		struct profile_file *file = atomic_load(&watched[i]);
		bool is_found = file && replace_pages(&file->head, address);

		for (int id = 0; file && !is_found && id < TABLE_COUNT; id++)
			is_found = replace_pages(&file->spaces[id], address);
		if (!is_found)
			continue;
		__atomic_store_n(&file->is_truncated, true, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == BUS_ADRERR && replace_table((uintptr_t)info->si_addr))
		return;
	/* The instruction raises it again; a signal that was sent has to be sent again. */
	signal(number, SIG_DFL);
	if (info->si_code <= 0)
		raise(number);
}

static void watch(struct profile_file *file)
{
	struct sigaction own = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction now;

	sigemptyset(&own.sa_mask);
	if (!atomic_load(&is_installed) && sigaction(SIGBUS, NULL, &now) == 0 &&
	    !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
		atomic_store(&is_installed, sigaction(SIGBUS, &own, NULL) == 0);
	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		struct profile_file *none = NULL;

		if (atomic_compare_exchange_strong(&watched[i], &none, file))
			return;
	}
}

/* Before its tables are unmapped; harmless for a file that is not watched. */
static void forget(const struct profile_file *file)
{
	struct sigaction now;
	bool is_any = false;

	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		if (atomic_load(&watched[i]) == file)
			atomic_store(&watched[i], NULL);
		is_any |= atomic_load(&watched[i]) != NULL;
	}
	if (is_any || !atomic_exchange(&is_installed, false))
		return;
	/* Unless the program has replaced it. */
	if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	    now.sa_sigaction == on_bus_error)
		signal(SIGBUS, SIG_DFL);
}

/* ------------------------------------------------------------------ begin and end */

/* Maps the header of a new file. */
static int map_header(struct profile_file *file, struct proton_error *err)
{
	const size_t bytes = PROFILE_FILE_HEADER_BYTES;
	bool is_allocated;

	TRY(region_reserve(&file->head, bytes, bytes, 0, err));
	file->errnum = working_file_map(&file->place, &file->head, 0, bytes, &is_allocated);
	if (file->errnum && is_allocated)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "cannot map %s: the file system does not support shared mappings",
			       file->place.path);
	if (file->errnum)
		return err_errno(err, file->errnum, "cannot create %s", file->place.path);
	file->header = file->head.base;
	file->file_bytes = bytes;
	return PROTON_OK;
}

static int reserve_tables(struct profile_file *file, struct proton_error *err)
{
	for (int id = 0; id < TABLE_COUNT; id++) {
		struct profile_table *table = &file->tables[id];

		TRY(id < FIRST_LATE_TABLE ? reserve(file, id, err) : PROTON_OK);
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
					 file->place.path ? file->place.path : "the profile");
		profile_file_commit(file, (enum table_id)id);
	}
	return PROTON_OK;
}

struct beginning {
	struct profile_file *file;
	struct proton_error *err;
	uint32_t pid;
	int status;
};

/* Fills the header and makes the tables. */
static void begin_file(void *data)
{
	struct beginning *beginning = data;
	struct profile_file *file = beginning->file;
	int status = file->header ? PROTON_OK : map_header(file, beginning->err);

	if (status == PROTON_OK) {
		memcpy(file->header->magic, PROFILE_FILE_MAGIC, sizeof(file->header->magic));
		file->header->major = PROFILE_FILE_MAJOR;
		file->header->minor = PROFILE_FILE_MINOR;
		file->header->header_bytes = PROFILE_FILE_HEADER_BYTES;
		file->header->pid = beginning->pid;
		file->header->start_ns = clock_real_ns();
		file->is_alone = true;
		status = reserve_tables(file, beginning->err);
		file->is_alone = false;
	}
	beginning->status = status;
}

int profile_file_create(struct profile_file *file, const char *path, bool is_own,
			struct proton_error *err)
{
	struct beginning beginning = {.file = file, .err = err, .pid = (uint32_t)getpid()};
	int status;

	*file = (struct profile_file){.place.fd = -1};
	if (!path) {
		file->header = calloc(1, PROFILE_FILE_HEADER_BYTES);
		status = file->header ? PROTON_OK : err_nomem(err);
	} else {
		status = is_own ? working_file_create_own(&file->place, path, err)
				: working_file_create(&file->place, path, err);
		if (status != PROTON_OK)
			return status;
	}
	if (status == PROTON_OK) {
		if (path)
			watch(file);
		run_alone(file, begin_file, &beginning);
		status = beginning.status;
	}
	if (status != PROTON_OK)
		profile_file_close(file, true);
	return status;
}

void profile_file_mark(struct profile_file *file, enum profile_file_state state, uint64_t end_ns)
{
	file->header->end_ns = end_ns;
	file->header->state = (uint32_t)state;
}

void profile_file_close(struct profile_file *file, bool remove)
{
	bool is_mapped = file->place.path != NULL;

	forget(file);
	if (is_mapped && remove)
		working_file_remove(&file->place);
	for (int id = 0; id < TABLE_COUNT; id++)
		region_release(&file->spaces[id]);
	if (!is_mapped)
		free(file->header);
	region_release(&file->head);
	working_file_close(&file->place);
	*file = (struct profile_file){.place.fd = -1};
}

bool profile_file_is_truncated(const struct profile_file *file)
{
	struct stat st;

	return __atomic_load_n(&file->is_truncated, __ATOMIC_RELAXED) ||
	       (file->place.path && working_file_has_name(&file->place) &&
		stat(file->place.path, &st) == 0 && (uint64_t)st.st_size < file->file_bytes);
}

const char *profile_file_why(const struct profile_file *file)
{
	if (file->errnum == ENODATA)
		return "another program has truncated it";
	return file->errnum == EBADF ? "the program has closed its descriptor"
				     : strerror(file->errnum);
}
