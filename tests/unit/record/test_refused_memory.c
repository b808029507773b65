/*
 * A recorder that gets no memory: reserving an address range fails at the start of a session, or a
 * table cannot grow. The program is linked with --wrap for both.
 */
#include "unit/recorded.h"

#include "base/region.h"
#include "record/thread/record_launch.h"

static unsigned reservations;
static unsigned fails_at; /* 0: never */
static uint32_t full_table = TABLE_COUNT;

int __real_region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
			  struct proton_error *err);
int __wrap_region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
			  struct proton_error *err);
void *__real_profile_file_append(struct profile_file *file, enum table_id table, uint64_t rows);
void *__wrap_profile_file_append(struct profile_file *file, enum table_id table, uint64_t rows);

int __wrap_region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
			  struct proton_error *err)
{
	if (++reservations == fails_at)
		return err_nomem(err);
	return __real_region_reserve(region, wanted, minimum, accessible, err);
}

void *__wrap_profile_file_append(struct profile_file *file, enum table_id table, uint64_t rows)
{
	return table == full_table ? NULL : __real_profile_file_append(file, table, rows);
}

static void record_one(void)
{
	rec_start("a");
	uint64_t token = proton_scope_enter("s");
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
}

/* The first session of a process, without reservation `number`. Returns whether there were more. */
static bool start_without(unsigned number)
{
	struct proton_error err = {0};

	reservations = 0;
	fails_at = number;
	int session = rec_start_as("a", "shadow", &err);
	fails_at = 0;
	if (reservations < number)
		return false;
	CHECK_LT(session, 0);
	CHECK_EQ(err.status, PROTON_E_NOMEM);
	CHECK_HAS(err.text, "out of memory");
	CHECK(!rec_exists("a.proton"));
	CHECK(!proton_is_profiling());
	record_one();
	return true;
}

/* Tables are reserved once per process. */
static bool in_child(unsigned number)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(start_without(number) ? 0 : 7);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 7))
		FAIL("reservation %u: status %d", number, status);
	if (WEXITSTATUS(status) == 7)
		return false;
	EXPECT(rec_load("a.proton"), {"s/k", 1});
	CHECK_EQ(unlink(rec_path("a.proton")), 0);
	return true;
}

TEST(first_session_without_memory_is_refused_and_the_next_one_records)
{
	unsigned number = 1;

	rec_dir();
	while (in_child(number))
		number++;
	CHECK_LT(10, number);
}

TEST(correlation_tables_without_memory_are_an_error_until_there_is_some)
{
	for (unsigned i = 1; i <= 2; i++) {
		struct proton_error err = {0};

		reservations = 0;
		fails_at = i;
		CHECK_EQ(correlate_init(&err), PROTON_E_NOMEM);
		CHECK_HAS(err.text, "out of memory");
		fails_at = 0;
		if (i == 1)
			reservations = 0;
	}
	CHECK_EQ(correlate_init(NULL), PROTON_OK);
}

TEST(durations_without_space_are_lost_and_counted)
{
	int session = rec_start("a");
	uint64_t token = proton_scope_enter("reduce");

	full_table = TABLE_DURATIONS;
	for (uint64_t i = 0; i < 3; i++)
		proton_collective(proton_context_here(), 100 + i);
	full_table = TABLE_COUNT;
	proton_collective(proton_context_here(), 103);
	proton_scope_exit(token, NULL);
	CHECK_U64(rec_counter(session, "lost: duration of a collective beyond the limit"), 3);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(profile->waits->duration_count, 1);
	CHECK_U64(profile->waits->durations[0].first, 3);
	CHECK_U64(profile->waits->durations[0].count, 1);
	CHECK_U64(profile->waits->durations[0].code[0], duration_code(103));
}
