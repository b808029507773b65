/* Info rows of a profile: command line, machine, versions. */
#include "record/session/run_info.h"

#include <libproton/proton.h>
#include <stdio.h>
#include <unistd.h>

#include "format/job_launch.h"

/* The command line of this process, separated by spaces. */
static void describe_command(struct store *store)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	char text[4096];
	size_t length;

	if (!file)
		return;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	for (size_t i = 0; i + 1 < length; i++)
		if (!text[i])
			text[i] = ' ';
	store_info(store, "command", text);
}

static void add_number(struct store *store, const char *key, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	store_info(store, key, text);
}

/* Which process of a job this one is. */
static void describe_rank(struct store *store)
{
	struct rank_identity identity;
	struct job_launch launch;

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
	job_launch_read(&identity, &launch);
	if (*launch.id)
		store_info(store, "launch", launch.id);
	if (*launch.process)
		store_info(store, "launcher", launch.process);
	if (*identity.topology)
		store_info(store, "topology", identity.topology);
}

void run_info_add_session(struct session *session)
{
	struct store *store = &session->store;
	char host[256];

	store_info(store, "version", PROTON_VERSION);
	store_info(store, "backend", session->backend->name);
	store_info(store, "context", session->wants_source ? "python" : "shadow");
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
