/* base/region: address space is reserved without memory, and shrinks to a limit. */
#include "unit/tap.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/region.h"

static uint64_t resident_bytes(void)
{
	unsigned long long total;
	unsigned long long resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file != NULL);
	CHECK_EQ(fscanf(file, "%llu %llu", &total, &resident), 2);
	fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
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
	struct proton_error err;
	uint64_t before = resident_bytes();
	unsigned char *at;

	CHECK_OK(region_reserve(&region, bytes, bytes, 1, &err), err);
	CHECK_EQ(region.bytes, bytes);
	at = region.base;
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
	struct proton_error err;
	uintptr_t before;
	uintptr_t after;

	skip_if_sanitized(); /* its mmap() may ignore the wanted address */
	before = map_library(library);
	for (size_t i = 0; i < 4; i++)
		CHECK_OK(region_reserve(&regions[i], (size_t)64 << 30, 1 << 20, 1, &err), err);
	after = map_library(library);
	CHECK_LT(before < after ? after - before : before - after, (uint64_t)1 << 30);
	for (size_t i = 0; i < 4; i++)
		region_release(&regions[i]);
}

/* The addresses begin again after 8 TiB. */
TEST(regions_are_reserved_and_released_without_end)
{
	const size_t bytes = (size_t)512 << 30;
	struct region kept;
	struct region region;
	struct proton_error err;

	skip_if_sanitized();
	CHECK_OK(region_reserve(&kept, bytes, bytes, 1, &err), err);
	for (size_t i = 0; i < 100; i++) {
		CHECK_OK(region_reserve(&region, bytes, bytes, 1, &err), err);
		CHECK_EQ(region.bytes, bytes);
		region_release(&region);
	}
	region_release(&kept);
}

TEST(a_limited_address_space_is_shared_by_many_regions)
{
	struct rlimit limit = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = (rlim_t)1 << 30};
	struct region regions[40];
	struct proton_error err;

	skip_if_sanitized();
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	for (size_t i = 0; i < 40; i++) {
		CHECK_OK(region_reserve(&regions[i], (size_t)64 << 30, 1 << 20, 1, &err), err);
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
	struct proton_error err;
	int status;
	pid_t pid;

	CHECK_OK(region_reserve(&region, 1 << 20, 1 << 20, 0, &err), err);
	fflush(stdout);
	pid = fork();
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
