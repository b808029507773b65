/* Ranks: the variables of launchers, and the output names of ranks. */
#include "format/rank.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"

/* Larger than any job; the file names of all ranks have a limited length. */
#define RANK_MAX 100000000u

#define RANKS_PER_DIRECTORY 1000u

/* ------------------------------------------------------------------ variables */

/* The variables of a launcher, in the order in which they are tried. */
struct launcher {
	const char *rank;
	const char *world[3];
	const char *local[2];
	bool needs_world; /* the rank means something else without a number of ranks */
};

/*
 * torchrun is first: below srun it has one Slurm task per machine. The size of a PMIx job is not in
 * a variable of PMIx, and Slurm's PMI-2 sets the variables of the job step.
 */
static const struct launcher launchers[] = {
	{"RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, true},
	{"OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}, false},
	{"PMIX_RANK",
	 {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
	 {"MPI_LOCALRANKID", "SLURM_LOCALID"},
	 false},
	{"PMI_RANK", {"PMI_SIZE"}, {"MPI_LOCALRANKID", "PALS_LOCAL_RANKID"}, false},
	{"PALS_RANKID", {"PMI_SIZE"}, {"PALS_LOCAL_RANKID"}, false},
	{"SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, true},
};

static const char *const jobs[] = {
	"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
	"PMIX_NAMESPACE",           "PALS_APID"};

bool rank_parse(const char *text, uint32_t *out)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	unsigned long value = strtoul(text, &end, 10);
	if (*end || value >= RANK_MAX)
		return false;
	*out = (uint32_t)value;
	return true;
}

/* The first of the variables that has a number, else `otherwise`. */
static uint32_t first_number(const char *const *names, size_t count, uint32_t otherwise)
{
	uint32_t value;

	for (size_t i = 0; i < count && names[i]; i++)
		if (rank_parse(environment_get(names[i]), &value))
			return value;
	return otherwise;
}

/*
 * A batch script has Slurm's variables of a task too. Only tasks that srun starts are ranks; the
 * steps of the batch script, of salloc's shell and of other daemons have reserved numbers.
 */
#define SLURM_STEP_RESERVED 0xfffffff0ul

static bool is_slurm_task(void)
{
	const char *step = environment_get("SLURM_STEP_ID");

	if (!step)
		step = environment_get("SLURM_STEPID"); /* before Slurm 14 */
	return step && *step >= '0' && *step <= '9' &&
	       strtoul(step, NULL, 10) < SLURM_STEP_RESERVED;
}

static bool read_launcher(const struct launcher *launcher, struct rank_identity *out)
{
	struct rank_identity found = {.rank = RANK_NONE, .variable = launcher->rank};

	if (!rank_parse(environment_get(launcher->rank), &found.rank))
		return false;
	found.world = first_number(launcher->world, ARRAY_LENGTH(launcher->world), 0);
	found.local = first_number(launcher->local, ARRAY_LENGTH(launcher->local), RANK_NONE);
	/* A rank that the job does not have is a variable of something else. */
	if ((found.world && found.rank >= found.world) || (launcher->needs_world && !found.world))
		return false;
	/* Slurm sets its variables also in a job of one task. */
	if (strcmp(launcher->rank, "SLURM_PROCID") == 0 && (found.world == 1 || !is_slurm_task()))
		return false;
	*out = found;
	return true;
}

static void copy_variable(const char *name, char *text, size_t capacity)
{
	const char *value = environment_get(name);

	if (value)
		snprintf(text, capacity, "%s", value);
}

void rank_read(struct rank_identity *out)
{
	const char *text = environment_get("PROTON_RANK");
	const char *id = environment_get("TORCHELASTIC_RUN_ID");
	uint32_t given = RANK_NONE;

	*out = (struct rank_identity){.rank = RANK_NONE, .local = RANK_NONE};
	for (size_t i = 0; i < ARRAY_LENGTH(launchers); i++)
		if (read_launcher(&launchers[i], out))
			break;
	if (text && *text && !rank_parse(text, &given))
		message_once("PROTON_RANK: \"%s\" is not the number of a rank; it is ignored",
			     text);
	if (given != RANK_NONE) {
		out->rank = given;
		if (given >= out->world || out->world == 1)
			out->world = 0;
	}
	if (out->rank == RANK_NONE)
		return;
	rank_parse(environment_get("TORCHELASTIC_RESTART_COUNT"), &out->attempt);
	/* "none" is the default of torchrun, which all jobs share. */
	if (id && strcmp(id, "none") != 0)
		snprintf(out->job, sizeof(out->job), "%s", id);
	for (size_t i = 0; i < ARRAY_LENGTH(jobs) && !*out->job; i++)
		copy_variable(jobs[i], out->job, sizeof(out->job));
	copy_variable("SLURM_TOPOLOGY_ADDR", out->topology, sizeof(out->topology));
}

bool rank_is_of_many(const struct rank_identity *identity)
{
	return identity->rank != RANK_NONE && identity->world != 1;
}

static const char *const names_words[] = {
	[RANK_NAMES_AUTO] = "auto",
	[RANK_NAMES_ON] = "on",
	[RANK_NAMES_OFF] = "off",
	[RANK_NAMES_MERGE] = "merge",
	[RANK_NAMES_MERGE_KEEP] = "merge-keep",
};

int rank_names_read(enum rank_names *out, struct proton_error *err)
{
	const char *value = environment_get("PROTON_RANKS");

	*out = RANK_NAMES_AUTO;
	if (!value || !*value)
		return PROTON_OK;
	for (size_t i = 0; i < ARRAY_LENGTH(names_words); i++) {
		if (strcasecmp(value, names_words[i]) == 0) {
			*out = (enum rank_names)i;
			return PROTON_OK;
		}
	}
	return err_set(err, PROTON_E_INVALID,
		       "PROTON_RANKS: \"%s\" is unknown; use auto, on, off, merge or merge-keep",
		       value);
}

/* ------------------------------------------------------------------ names */

/* The name of a rank's output, malloc'd, without suffix. `stem` is the job's name. */
static char *name_of(const char *stem, const struct rank_identity *identity)
{
	uint32_t first = identity->rank / RANKS_PER_DIRECTORY * RANKS_PER_DIRECTORY;
	char attempt[32] = "";
	char *name;

	if (identity->attempt)
		snprintf(attempt, sizeof(attempt), ".attempt%u", identity->attempt);
	if (asprintf(&name, "%s.ranks/%03u-%03u/rank%06u%s", stem, first,
		     first + RANKS_PER_DIRECTORY - 1, identity->rank, attempt) < 0)
		return NULL;
	return name;
}

bool rank_is_job(const char *name, size_t length)
{
	return length > 6 && memcmp(name + length - 6, ".ranks", 6) == 0;
}

bool rank_is_range(const char *name, size_t length)
{
	size_t first = strspn(name, "0123456789");
	size_t last = name[first] == '-' ? strspn(name + first + 1, "0123456789") : 0;

	return first && last && first + 1 + last == length;
}

/* The path up to slash number `count` from the end, as a copy. */
static char *directory_of(const char *path, int count)
{
	const char *end = path + strlen(path);

	while (count && end > path)
		if (*--end == '/')
			count--;
	return strndup(path, (size_t)(end - path));
}

int rank_make_directories(const char *stem, struct proton_error *err)
{
	int status = PROTON_OK;

	for (int above = 2; above > 0 && status == PROTON_OK; above--) {
		AUTO_FREE char *directory = directory_of(stem, above);

		if (!directory)
			status = err_nomem(err);
		else if (mkdir(directory, 0777) < 0 && errno != EEXIST)
			status = err_errno(err, errno, "cannot create directory '%s'", directory);
	}
	return status;
}

int rank_resolve(char **stem, bool is_wanted, bool *is_ranked_out, struct proton_error *err)
{
	struct rank_identity identity;
	enum rank_names names;
	int status = rank_names_read(&names, err);

	*is_ranked_out = false;
	if (status != PROTON_OK)
		return status;
	rank_read(&identity);
	if (!rank_is_of_many(&identity) || names == RANK_NAMES_OFF ||
	    (names == RANK_NAMES_AUTO && !is_wanted))
		return PROTON_OK;
	char *ranked = name_of("", &identity);
	if (!ranked)
		return err_nomem(err);
	if (!strstr(*stem, ranked)) {
		free(ranked);
		ranked = name_of(*stem, &identity);
		if (!ranked)
			return err_nomem(err);
		free(*stem);
		*stem = ranked;
	} else {
		free(ranked);
	}
	*is_ranked_out = true;
	return PROTON_OK;
}

void rank_remove_directories(const char *stem)
{
	for (int above = 1; above <= 2; above++) {
		AUTO_FREE char *directory = directory_of(stem, above);

		if (directory)
			rmdir(directory);
	}
}
