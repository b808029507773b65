/* format/rank: variables of launchers, names of ranks, files of other machines. */
#include "unit/recorded.h"

#include <sys/file.h>
#include <utime.h>

#include "format/rank.h"
#include "format/working_file.h"

/* Sets variables given as "NAME=VALUE", and no other of a launcher. */
static void set_environment(const char *const *variables)
{
	clearenv();
	for (; *variables; variables++) {
		const char *equals = strchr(*variables, '=');
		char *name = strndup(*variables, (size_t)(equals - *variables));

		CHECK_EQ(setenv(name, equals + 1, 1), 0);
		free(name);
	}
}

#define ENVIRONMENT(...) set_environment((const char *const[]){__VA_ARGS__, NULL})

TEST(rank_world_and_local_rank_are_those_of_the_first_launcher_that_sets_them)
{
	static const struct {
		const char *variables[8];
		uint32_t rank, world, local;
	} cases[] = {
		{{"RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1"}, 3, 8, 1},
		{{"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
		  "OMPI_COMM_WORLD_LOCAL_RANK=0"},
		 3,
		 4,
		 0},
		{{"PMIX_RANK=2", "SLURM_NTASKS=6", "SLURM_LOCALID=2"}, 2, 6, 2},
		{{"PMI_RANK=5", "PMI_SIZE=6", "MPI_LOCALRANKID=1"}, 5, 6, 1},
		{{"PALS_RANKID=7", "PALS_LOCAL_RANKID=3"}, 7, 0, 3},
		{{"SLURM_PROCID=9", "SLURM_NTASKS=16", "SLURM_LOCALID=1", "SLURM_STEP_ID=0"},
		 9,
		 16,
		 1},
		{{"SLURM_PROCID=9", "SLURM_NTASKS=16", "SLURM_STEPID=2"}, 9, 16, RANK_NONE},
		/* torchrun below srun: one Slurm task per machine */
		{{"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=0", "RANK=11", "WORLD_SIZE=16",
		  "LOCAL_RANK=3"},
		 11,
		 16,
		 3},
		{{"RANK=0", "WORLD_SIZE=1"}, 0, 1, RANK_NONE},
		/* not ranks of a job */
		{{"RANK=3"}, RANK_NONE, 0, RANK_NONE},
		{{"RANK=8", "WORLD_SIZE=8"}, RANK_NONE, 0, RANK_NONE},
		{{"RANK=three", "WORLD_SIZE=8"}, RANK_NONE, 0, RANK_NONE},
		{{"RANK=-1", "WORLD_SIZE=8"}, RANK_NONE, 0, RANK_NONE},
		{{"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0"}, RANK_NONE, 0, RANK_NONE},
		/* given by the user */
		{{"PROTON_RANK=6", "RANK=3", "WORLD_SIZE=8"}, 6, 8, RANK_NONE},
		{{"PROTON_RANK=6"}, 6, 0, RANK_NONE},
		{{"PROTON_RANK=0", "RANK=0", "WORLD_SIZE=1"}, 0, 0, RANK_NONE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rank_identity identity;

		set_environment(cases[i].variables);
		rank_read(&identity);
		CHECK_EQ(identity.rank, cases[i].rank);
		CHECK_EQ(identity.world, cases[i].world);
		CHECK_EQ(identity.local, cases[i].local);
	}
}

TEST(batch_script_of_slurm_is_not_a_rank)
{
	/* none, as outside srun; and the reserved numbers of the batch and the interactive step */
	static const char *const steps[] = {"X=", "SLURM_STEP_ID=batch", "SLURM_STEP_ID=4294967291",
					    "SLURM_STEP_ID=4294967290", "SLURM_STEP_ID="};
	struct rank_identity identity;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=42", steps[i]);
		rank_read(&identity);
		CHECK_EQ(identity.rank, RANK_NONE);
	}
	ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_ID=3");
	rank_read(&identity);
	CHECK_EQ(identity.rank, 0);
}

TEST(job_is_the_id_of_torchrun_or_of_the_batch_system)
{
	struct rank_identity identity;

	ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=train7", "SLURM_JOB_ID=42",
		    "TORCHELASTIC_RESTART_COUNT=2", "SLURM_TOPOLOGY_ADDR=s0.s1.node3");
	rank_read(&identity);
	CHECK_STR(identity.job, "train7");
	CHECK_STR(identity.topology, "s0.s1.node3");
	CHECK_EQ(identity.attempt, 2);
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=42");
	rank_read(&identity);
	CHECK_STR(identity.job, "42");
}

static void check_resolved(const char *stem, bool is_wanted, const char *expected)
{
	char *name = strdup(stem);
	bool is_ranked;

	CHECK_DONE(rank_resolve(&name, is_wanted, &is_ranked, &err));
	CHECK_STR(name, expected);
	CHECK_EQ(is_ranked, strstr(name, ".ranks/") != NULL);
	free(name);
}

TEST(ranks_are_in_names_of_jobs_of_more_than_one_rank)
{
	struct proton_error err;
	char *name = strdup("/x/out");
	bool is_ranked;

	ENVIRONMENT("RANK=123", "WORLD_SIZE=1000");
	check_resolved("/x/out", true, "/x/out.ranks/000-999/rank000123");
	check_resolved("/x/out", false, "/x/out");
	/* the name of a child process of this rank */
	check_resolved("/x/out.ranks/000-999/rank000123.77", true,
		       "/x/out.ranks/000-999/rank000123.77");
	ENVIRONMENT("RANK=65432", "WORLD_SIZE=100000", "TORCHELASTIC_RESTART_COUNT=3");
	check_resolved("/x/out", true, "/x/out.ranks/65000-65999/rank065432.attempt3");
	ENVIRONMENT("RANK=0", "WORLD_SIZE=1");
	check_resolved("/x/out", true, "/x/out");
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "PROTON_RANKS=off");
	check_resolved("/x/out", true, "/x/out");
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "PROTON_RANKS=on");
	check_resolved("/x/out", false, "/x/out.ranks/000-999/rank000001");
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "PROTON_RANKS=many");
	CHECK_EQ(rank_resolve(&name, true, &is_ranked, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "PROTON_RANKS: \"many\" is unknown; use auto, on, off");
	free(name);
}

/* ------------------------------------------------------------------ sessions */

static int start(const char *name, uint32_t flags)
{
	struct proton_session_options options = {
		.size = sizeof(options), .name = name, .backend = "host", .flags = flags};
	int session;

	CHECK_DONE(proton_start(&options, &session, &err));
	return session;
}

static const char *info_of(const struct profile *profile, const char *key)
{
	for (size_t i = 0; i < profile->info_count; i++)
		if (strcmp(profile_text(profile, profile->info[i].key), key) == 0)
			return profile_text(profile, profile->info[i].value);
	return "";
}

static struct profile *load(const char *path)
{
	struct profile *profile;

	CHECK_DONE(profile_load_file(path, &profile, &err));
	return profile;
}

TEST(a_rank_is_recorded_with_its_identity_as_a_profile_file)
{
	ENVIRONMENT("RANK=5", "WORLD_SIZE=6", "LOCAL_RANK=1", "SLURM_JOB_ID=77");
	int session = start(rec_path("out"), PROTON_SESSION_RANKS | PROTON_SESSION_QUIET);
	CHECK_DONE(proton_finalize(session, NULL, &err));
	struct profile *profile = load(rec_path("out.ranks/000-999/rank000005.proton"));
	CHECK_STR(info_of(profile, "rank"), "5");
	CHECK_STR(info_of(profile, "world_size"), "6");
	CHECK_STR(info_of(profile, "local_rank"), "1");
	CHECK_STR(info_of(profile, "job"), "77");
	profile_free(profile);
}

TEST(an_explicit_name_is_kept_and_the_identity_recorded)
{
	ENVIRONMENT("RANK=5", "WORLD_SIZE=6");
	int session = start(rec_path("mine"), PROTON_SESSION_QUIET);
	CHECK_DONE(proton_finalize(session, NULL, &err));
	CHECK_NE(access(rec_path("mine.ranks"), F_OK), 0);
	struct profile *profile = load(rec_path("mine.hatchet"));
	CHECK_STR(info_of(profile, "rank"), "5");
	CHECK_STR(info_of(profile, "world_size"), "6");
	profile_free(profile);
}

TEST(directories_of_a_rank_that_cannot_start_are_removed)
{
	struct proton_session_options options = {.size = sizeof(options),
						 .name = rec_path("out"),
						 .backend = "host",
						 .mode = "no_such_mode",
						 .flags = PROTON_SESSION_RANKS};
	struct proton_error err;

	ENVIRONMENT("RANK=1", "WORLD_SIZE=2");
	CHECK_NE(proton_start(&options, NULL, &err), PROTON_OK);
	CHECK_NE(access(rec_path("out.ranks"), F_OK), 0);
}

/* ------------------------------------------------------------------ other machines */

/* Leaves the incomplete profile of a process that says it was on `host`, which holds no lock. */
static void leave_incomplete(const char *name, const char *host)
{
	char path[300];
	char own[64] = "";
	char *bytes, *at;
	size_t length;
	int session = start(rec_path(name), PROTON_SESSION_QUIET);

	gethostname(own, sizeof(own) - 1);
	proton_scope_enter("s");
	snprintf(path, sizeof(path), "%s.proton", rec_path(name));
	CHECK_DONE(file_read_all(path, NULL, &bytes, &length, &err));
	CHECK_DONE(proton_finalize(session, "none", &err));
	at = memmem(bytes, length, own, strlen(own) + 1);
	CHECK(at && strlen(host) <= strlen(own));
	for (; at; at = memmem(at + 1, length - (size_t)(at + 1 - bytes), own, strlen(own) + 1)) {
		uint32_t stored = (uint32_t)strlen(host);

		memset(at, 0, strlen(own));
		memcpy(at, host, strlen(host));
		memcpy(at - 4, &stored, sizeof(stored));
	}
	FILE *file = fopen(path, "w");
	CHECK(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
	free(bytes);
}

static int create(struct working_file *file, const char *name)
{
	struct proton_error err;
	char path[300];

	snprintf(path, sizeof(path), "%s.proton", rec_path(name));
	return working_file_create(file, path, &err);
}

TEST(incomplete_file_of_another_machine_is_left_to_it_in_a_job)
{
	struct working_file file;

	leave_incomplete("x", "b");
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2");
	CHECK_EQ(create(&file, "x"), PROTON_E_BUSY);
	/* alone, the name of a machine may have changed: containers */
	ENVIRONMENT("RANK=0", "WORLD_SIZE=1");
	CHECK_EQ(create(&file, "x"), PROTON_OK);
	CHECK(file.leftover);
	working_file_close(&file);
}

TEST(incomplete_file_of_this_machine_is_renamed_in_a_job)
{
	struct working_file file;
	char own[64] = "";

	gethostname(own, sizeof(own) - 1);
	leave_incomplete("x", own);
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2");
	CHECK_EQ(create(&file, "x"), PROTON_OK);
	CHECK(file.leftover);
	working_file_close(&file);
}

TEST(empty_file_belongs_to_its_creator_in_a_job_unless_it_is_old)
{
	struct utimbuf old = {.actime = 1000000000, .modtime = 1000000000};
	struct working_file file;
	int fd = open(rec_path("x.proton"), O_CREAT | O_RDWR, 0666);

	CHECK(fd >= 0);
	ENVIRONMENT("RANK=1", "WORLD_SIZE=2");
	CHECK_EQ(create(&file, "x"), PROTON_E_BUSY);
	CHECK_EQ(utime(rec_path("x.proton"), &old), 0);
	CHECK_EQ(create(&file, "x"), PROTON_OK);
	working_file_close(&file);
	close(fd);
}

TEST(second_rank_with_an_explicit_name_gets_its_rank_in_the_name)
{
	int session, fd;

	ENVIRONMENT("RANK=1", "WORLD_SIZE=2");
	fd = open(rec_path("same.proton"), O_CREAT | O_RDWR, 0666);
	CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	session = start(rec_path("same"), PROTON_SESSION_QUIET);
	CHECK_DONE(proton_finalize(session, NULL, &err));
	CHECK_EQ(access(rec_path("same.rank000001.hatchet"), F_OK), 0);
	close(fd);
}

TEST(directories_of_a_job_are_known_by_name)
{
	CHECK(rank_is_job("a.ranks", 7) && rank_is_job("a.ranks/b", 7));
	CHECK(!rank_is_job(".ranks", 6) && !rank_is_job("a.rank", 6));
	CHECK(rank_is_range("000-999", 7) && rank_is_range("1000-1999/b", 9));
	CHECK(!rank_is_range("12-", 3) && !rank_is_range("-12", 3) && !rank_is_range("12", 2));
	CHECK(!rank_is_range("0-9x", 4) && !rank_is_range("000-999", 4));
}
