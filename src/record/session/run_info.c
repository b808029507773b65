/* Info rows of a profile: command line, machine, versions. */
#include "record/session/session_parts.h"

#include <stdio.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/environment.h"
#include "format/rank.h"

/* ------------------------------------------------------------------ the launch of a job */

/*
 * Launches: which start of a job this rank belongs to. Ranks of one launch may be summed, ranks of
 * an earlier launch of the same name may not.
 *
 * Some launchers number their launches, in variables that are equal in all ranks. Others do not:
 * torchrun with a fixed port starts twice with equal variables. But each start is another process
 * on each machine, so the launcher's process tells the launches of a machine apart.
 */

/* ------------------------------------------------------------------ variables */

#define ID_MAX 256

/* Adds ", WORD VALUE" if a variable is set. */
static void add_variable(char id[ID_MAX], const char *word, const char *variable)
{
	const char *value = environment_get(variable);
	size_t used = strlen(id);

	if (value && *value)
		snprintf(id + used, ID_MAX - used, "%s%s%s%s", used ? ", " : "", word,
			 *word ? " " : "", value);
}

/*
 * Agents of torchrun have different steps where each is started by its own srun; all ranks have
 * the port in common. It is a new one for each launch, unless the user has chosen it.
 */
static void read_variables(char id[ID_MAX], const char *variable)
{
	add_variable(id, "", "PROTON_LAUNCH");
	if (*id)
		return;
	if (strcmp(variable, "RANK") == 0) {
		add_variable(id, "port", "MASTER_PORT");
	} else {
		add_variable(id, "namespace", "PMIX_NAMESPACE");
		add_variable(id, "application", "PALS_APID");
		add_variable(id, "step",
			     environment_get("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID");
	}
	/* Slurm starts a job again with the same numbers. */
	add_variable(id, "restart", "SLURM_RESTART_COUNT");
}

/* ------------------------------------------------------------------ the launcher */

#define ANCESTORS_MAX 64

/* The beginning of a file as text; the number of bytes, 0 if it cannot be read. */
static size_t read_beginning(const char *path, char *text, size_t capacity)
{
	FILE *file = fopen(path, "re");
	size_t length = file ? fread(text, 1, capacity - 1, file) : 0;

	text[length] = '\0';
	if (file)
		fclose(file);
	return length;
}

struct ancestor {
	char name[24];
	pid_t parent;
	unsigned long long start;
};

/* Field `number`, from 1, of text that begins with a space; "" if there are fewer. */
static const char *field_at(const char *text, int number)
{
	while (--number > 0 && text)
		text = strchr(text + 1, ' ');
	return text ? text : "";
}

static bool read_ancestor(pid_t pid, struct ancestor *out)
{
	char path[48], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	read_beginning(path, text, sizeof(text));
	char *name = strchr(text, '(');
	char *end = strrchr(text, ')'); /* the name may have parentheses */
	if (!name || !end || end < name)
		return false;
	out->parent = (pid_t)strtol(field_at(end + 1, 2), NULL, 10);
	out->start = strtoull(field_at(end + 1, 20), NULL, 10);
	snprintf(out->name, sizeof(out->name), "%.*s", (int)(end - name - 1), name + 1);
	return true;
}

enum answer {
	NO,
	YES,
	UNKNOWN
};

static enum answer has_variable(pid_t pid, const char *variable)
{
	enum answer answer = NO;
	size_t length = strlen(variable);
	size_t capacity = 0;
	AUTO_FREE char *entry = NULL;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return UNKNOWN;
	while (answer == NO && getdelim(&entry, &capacity, '\0', file) > 0)
		if (strncmp(entry, variable, length) == 0 && entry[length] == '=')
			answer = YES;
	if (ferror(file))
		answer = UNKNOWN;
	fclose(file);
	return answer;
}

/*
 * The nearest ancestor without the rank: shells and wrappers between it and this process have it.
 * False: it is out of sight, or the first process of a container, which may have one rank only.
 */
static bool find_launcher(const char *variable, pid_t *pid_out, struct ancestor *out)
{
	pid_t pid = getppid();

	for (int i = 0; i < ANCESTORS_MAX && pid > 1 && read_ancestor(pid, out); i++) {
		enum answer answer = has_variable(pid, variable);

		*pid_out = pid;
		/* These run as root: the environment cannot be read, and does not have the rank. */
		if (answer != YES)
			return answer == NO || strcmp(out->name, "slurmstepd") == 0 ||
			       strcmp(out->name, "palsd") == 0;
		pid = out->parent;
	}
	return false;
}

static void read_launcher(char *text, size_t capacity, const char *variable)
{
	const char *group = environment_get("GROUP_RANK");
	struct ancestor launcher;
	char boot[8 + 1];
	pid_t pid;

	if (!find_launcher(variable, &pid, &launcher))
		return;
	read_beginning("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	/* Agents of torchrun may share a machine: they are compared by their number. */
	snprintf(text, capacity, "%s%.10s%sprocess %d, start %llu, boot %s", group ? "agent " : "",
		 group ? group : "", group ? ", " : "", (int)pid, launcher.start, boot);
}

/* ------------------------------------------------------------------ info rows */

const char *proton_version(void)
{
	return PROTON_VERSION;
}

static void describe_command(struct store *store)
{
	char text[4096];
	size_t length = read_beginning("/proc/self/cmdline", text, sizeof(text));

	for (size_t i = 0; i + 1 < length; i++)
		if (!text[i])
			text[i] = ' ';
	if (length)
		store_info(store, "command", text);
}

static void add_number(struct store *store, const char *key, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	store_info(store, key, text);
}

static void describe_rank(struct store *store)
{
	struct rank_identity identity;
	char id[ID_MAX] = "";   /* equal in all ranks of a launch, mostly not in others */
	char launcher[96] = ""; /* equal in all ranks of a launch on a machine */

	rank_read(&identity);
	if (identity.rank == RANK_NONE)
		return;
	add_number(store, "rank", identity.rank);
	if (identity.world)
		add_number(store, "world_size", identity.world);
	if (identity.local != RANK_NONE)
		add_number(store, "local_rank", identity.local);
	if (identity.attempt)
		add_number(store, "attempt", identity.attempt);
	if (*identity.job)
		store_info(store, "job", identity.job);
	const char *variable = identity.variable;
	read_variables(id, variable ? variable : "RANK");
	/* Without torchrun, each rank may have been started from another shell. */
	if (variable && (strcmp(variable, "RANK") != 0 || environment_get("TORCHELASTIC_RUN_ID")))
		read_launcher(launcher, sizeof(launcher), variable);
	if (*id)
		store_info(store, "launch", id);
	if (*launcher)
		store_info(store, "launcher", launcher);
	if (*identity.topology)
		store_info(store, "topology", identity.topology);
}

void run_info_add_session(struct session *session)
{
	struct store *store = &session->store;
	char host[256];

	store_info(store, "version", PROTON_VERSION);
	store_info(store, "backend", session->backend->name);
	store_info(store, "context",
		   session->wants_scopes   ? "python+scopes"
		   : session->wants_source ? "python"
					   : "shadow");
	if (session->trace)
		store_info(store, "data", "trace");
	if (*session->mode)
		store_info(store, "mode", session->mode);
	if (session->flags & PROTON_SESSION_MEMORY)
		store_info(store, "memory", "recorded");
	if (gethostname(host, sizeof(host)) == 0)
		store_info(store, "host", host);
	describe_rank(store);
	describe_command(store);
}

static void add_info(void *user, const char *key, const char *value)
{
	store_info(user, key, value);
}

void run_info_add_backend(struct session *session)
{
	if (session->backend->describe)
		session->backend->describe(add_info, &session->store);
}
