/* base/region: address ranges grow in place, and count as address space when they are mapped. */
#include "unit/tap.h"

#include <sys/resource.h>

#include "base/region.h"

static uint64_t memory_bytes(bool is_resident)
{
	unsigned long long total;
	unsigned long long resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file != NULL);
	CHECK_EQ(fscanf(file, "%llu %llu", &total, &resident), 2);
	fclose(file);
	return (uint64_t)(is_resident ? resident : total) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t resident_bytes(void)
{
	return memory_bytes(true);
}

/* Sanitizers reserve terabytes of address space and cannot run with a limit. */
static void skip_if_sanitized(void)
{
	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer needs its address space");
}

TEST(a_large_region_takes_no_memory_and_reads_as_zero)
{
	const size_t bytes = (size_t)64 << 30;
	struct region region;
	uint64_t before = resident_bytes();

	skip_if_emulated("the emulator keeps a table of all mapped pages");
	CHECK_DONE(region_reserve(&region, bytes, bytes, 1, &err));
	CHECK_EQ(region.bytes, bytes);
	unsigned char *at = region.base;
	for (size_t i = 0; i < bytes; i += bytes / 64) {
		CHECK_EQ(at[i], 0);
		at[i] = 1;
	}
	CHECK_EQ(at[bytes - 1], 0);
	CHECK_LT(resident_bytes() - before, 16 << 20);
	region_release(&region);
	CHECK_PTR(region.base, NULL);
	region_release(&region);
}

TEST(a_region_counts_as_address_space_only_where_it_has_grown)
{
	const size_t limit = (size_t)64 << 30;
	struct region region;
	uint64_t before = memory_bytes(false);

	skip_if_emulated("the emulator's own memory counts");
	skip_if_sanitized();
	CHECK_DONE(region_reserve(&region, limit, 1 << 16, 1, &err));
	CHECK_EQ(region.bytes, 1 << 16);
	CHECK_LT(memory_bytes(false) - before, 1 << 20);
	CHECK(region_reaches(&region, (size_t)100 << 20));
	CHECK_LE((size_t)100 << 20, region.bytes);
	CHECK_LT(memory_bytes(false) - before, 256 << 20);
	region_release(&region);
	CHECK_LE(memory_bytes(false), before);
}

TEST(the_content_stays_in_place_while_a_region_grows_to_its_limit)
{
	const size_t limit = (size_t)100 << 20;
	struct region region;

	CHECK_DONE(region_reserve(&region, limit, 1, 1, &err));
	const char *base = region.base;
	for (size_t bytes = 1; bytes <= limit; bytes = bytes * 3 / 2 + 1) {
		CHECK(region_reaches(&region, bytes));
		CHECK(region_holds(&region, bytes));
		CHECK_PTR(region.base, base);
		CHECK_EQ(((char *)region.base)[bytes - 1], 0);
		memset(region.base, 7, bytes);
	}
	CHECK(region_reaches(&region, limit));
	CHECK_EQ(region.bytes, limit);
	CHECK(!region_reaches(&region, limit + 1));
	CHECK_EQ(base[1000], 7);
	region_release(&region);
}

TEST(a_region_ends_where_the_program_has_mapped_something)
{
	struct region region;

	skip_if_sanitized();
	CHECK_DONE(region_reserve(&region, (size_t)1 << 30, 1 << 16, 1, &err));
	char *at = (char *)region.base + (1 << 20);
	CHECK_PTR(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), at);
	*at = 42;
	CHECK(region_reaches(&region, 1 << 20));
	CHECK(!region_reaches(&region, (1 << 20) + 1));
	CHECK_EQ(*at, 42);
	region_release(&region);
	CHECK_EQ(*at, 42);
	/* Nor is another region put there. */
	CHECK_DONE(region_reserve(&region, (size_t)1 << 30, 2 << 20, 1, &err));
	memset(region.base, 1, 2 << 20);
	CHECK_EQ(*at, 42);
	region_release(&region);
	munmap(at, 4096);
}

TEST(a_region_of_files_has_one_piece_after_the_other)
{
	const size_t piece = 1 << 16;
	int fd = memfd_create("pieces", MFD_CLOEXEC);
	struct region region;

	CHECK_EQ(ftruncate(fd, 2 * (off_t)piece), 0);
	CHECK_DONE(region_reserve(&region, 4 * piece, piece, 0, &err));
	CHECK_EQ(region.bytes, 0);
	CHECK_EQ(region_map(&region, piece, fd, (off_t)piece), 0);
	CHECK_EQ(region_map(&region, piece, fd, 0), 0);
	CHECK_EQ(pwrite(fd, "first", 5, 0), 5);
	CHECK_EQ(memcmp((char *)region.base + piece, "first", 5), 0);
	CHECK_EQ(region_map(&region, 3 * piece, fd, 0), ENOMEM);
	close(fd);
	region_release(&region);
}

static uintptr_t map_library(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return (uintptr_t)at;
}

/* Calls between libraries more than 4 GiB apart are predicted worse. */
TEST(regions_do_not_separate_libraries_loaded_before_and_after_them)
{
	const size_t library = (size_t)256 << 20; /* more than the gaps hold */
	struct region regions[4];
	uintptr_t before, after;

	skip_if_sanitized(); /* its mmap() may ignore the wanted address */
	before = map_library(library);
	for (size_t i = 0; i < 4; i++)
		CHECK_DONE(region_reserve(&regions[i], (size_t)64 << 30, 1 << 20, 1, &err));
	after = map_library(library);
	CHECK_LT(before < after ? after - before : before - after, (uint64_t)1 << 30);
	for (size_t i = 0; i < 4; i++)
		region_release(&regions[i]);
}

/* Together more than the 16 TiB that regions have. */
TEST(regions_are_reserved_and_released_without_end)
{
	const size_t bytes = (size_t)512 << 30;
	struct region kept, region;

	skip_if_emulated("the emulator keeps a table of all mapped pages");
	skip_if_sanitized();
	CHECK_DONE(region_reserve(&kept, bytes, bytes, 1, &err));
	for (size_t i = 0; i < 100; i++) {
		CHECK_DONE(region_reserve(&region, bytes, bytes, 1, &err));
		CHECK_EQ(region.bytes, bytes);
		region_release(&region);
	}
	region_release(&kept);
}

TEST(a_limited_address_space_is_shared_by_many_regions)
{
	struct rlimit limit = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = (rlim_t)1 << 30};
	struct region regions[40];

	skip_if_emulated("the emulator does not limit address space");
	skip_if_sanitized();
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	for (size_t i = 0; i < 40; i++) {
		CHECK_DONE(region_reserve(&regions[i], (size_t)64 << 30, 1 << 20, 1, &err));
		CHECK_LE((uint64_t)1 << 20, regions[i].bytes);
		memset(regions[i].base, 1, 1 << 16);
	}
	for (size_t i = 0; i < 40; i++)
		region_release(&regions[i]);
}

TEST(less_than_the_minimum_is_an_error)
{
	struct rlimit limit = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = (rlim_t)1 << 30};
	struct region region = {.bytes = 77};
	struct proton_error err;

	skip_if_emulated("the emulator does not limit address space");
	skip_if_sanitized();
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	CHECK_EQ(region_reserve(&region, (size_t)64 << 30, (size_t)2 << 30, 1, &err),
		 PROTON_E_NOMEM);
	CHECK_HAS(err.text, "bytes of address space: out of memory");
	CHECK_EQ(region.bytes, 77);
}

TEST(an_inaccessible_region_cannot_be_touched)
{
	struct region region;
	int status;

	CHECK_DONE(region_reserve(&region, 1 << 20, 1 << 20, 0, &err));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* not the sanitizer's */
		*(volatile char *)region.base = 1;
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSEGV);
	region_release(&region);
}
