/*
 * Processes of proton-merge: MPI, one process, or pipes to a parent that connects them, such as
 * triton_proton.ranks with torch.distributed.
 *
 * PROTON_MERGE_PIPE is "NUMBER/COUNT". On standard output a process writes a request, struct
 * pipe_request. PIPE_SEND is followed by the bytes. For PIPE_RECEIVE, the parent writes the bytes
 * to standard input.
 */
#include "viewer/ranks/processes.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/environment.h"
#include "base/message.h"
#include "viewer/print/xalloc.h"

#ifdef PROTON_WITH_MPI
#include <mpi.h>
#else
#include "format/rank.h"
#endif

/* How messages of one byte or more are passed; NULL: there is one process. */
struct transport {
	void (*send)(int to, const void *bytes, size_t length);
	void (*receive)(int from, void *bytes, size_t length);
	void (*end)(int status); /* NULL: nothing has to be done */
};

static const struct transport *transport;
static struct processes own;

/* ------------------------------------------------------------------ MPI */

#ifdef PROTON_WITH_MPI

/* The beginnings and ends of the names of variables that launchers of MPI set for each process. */
static const char *const prefixes[] = {
	"ALPS_", "FLUX_", "HYD", "JSM_", "MPI",   "MP_",  "MV2_",
	"OMPI_", "PALS_", "PMI", "PRTE", "PRRTE", "PSP_", "SLURM_PROCID",
};
static const char *const suffixes[] = {
	"RANK", "RANKID", "PROCID", "_PE", "_FD", "_PORT", "_ID", "_CHILD",
};

static bool is_of_launcher(const char *name, size_t length)
{
	bool has_prefix = false, has_suffix = false;

	for (size_t i = 0; i < ARRAY_LENGTH(prefixes); i++)
		has_prefix |= strncmp(name, prefixes[i], strlen(prefixes[i])) == 0;
	for (size_t i = 0; i < ARRAY_LENGTH(suffixes); i++) {
		size_t end = strlen(suffixes[i]);

		has_suffix |= length > end && memcmp(name + length - end, suffixes[i], end) == 0;
	}
	return has_prefix && has_suffix;
}

/*
 * MPI_Init() of a process without a launcher takes up to 0.8 s and 10 MB, more with the drivers of
 * a GPU; on some clusters it fails. Settings (OMPI_MCA_pml, MPI_HOME) do not make a launcher.
 */
static bool is_launched(void)
{
	for (char **entry = environ; entry && *entry; entry++)
		if (is_of_launcher(*entry, strcspn(*entry, "=")))
			return true;
	return false;
}

#define PIECE_BYTES ((size_t)1 << 30) /* counts of MPI are ints */

static int piece_of(size_t length)
{
	return (int)(length < PIECE_BYTES ? length : PIECE_BYTES);
}

static void mpi_send(int to, const void *bytes, size_t length)
{
	for (const char *at = bytes; length;) {
		int piece = piece_of(length);

		MPI_Send(at, piece, MPI_BYTE, to, 0, MPI_COMM_WORLD);
		at += piece;
		length -= (size_t)piece;
	}
}

static void mpi_receive(int from, void *bytes, size_t length)
{
	for (char *at = bytes; length;) {
		int piece = piece_of(length);

		MPI_Recv(at, piece, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		at += piece;
		length -= (size_t)piece;
	}
}

static void mpi_end(int status)
{
	if (status)
		MPI_Abort(MPI_COMM_WORLD, status);
	MPI_Finalize();
}

static void launched_begin(int *argc, char ***argv)
{
	static const struct transport mpi = {mpi_send, mpi_receive, mpi_end};

	if (!is_launched())
		return;
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &own.number);
	MPI_Comm_size(MPI_COMM_WORLD, &own.count);
	transport = &mpi;
}

#else

/* Under mpirun or srun, processes that know nothing of each other would write the same file. */
static void launched_begin(int *argc, char ***argv)
{
	struct rank_identity rank;

	(void)argc, (void)argv;
	rank_read(&rank);
	if (rank.rank == RANK_NONE || rank.world < 2)
		return;
	own.is_idle = rank.rank != 0;
	if (rank.rank == 0)
		message("this program was built without MPI: 1 of %u processes merges all ranks; "
			"build Proton from source where mpicc is installed to use all",
			rank.world);
}

#endif

/* ------------------------------------------------------------------ pipes */

enum pipe_operation {
	PIPE_SEND = 1,
	PIPE_RECEIVE = 2,
};

struct pipe_request {
	uint32_t operation;
	uint32_t peer; /* number of the other process */
	uint64_t length;
};

static int requests = -1; /* where they are written */

/* A broken pipe ends the process: the parent has given up. */
static void give_up(const char *what)
{
	message("cannot merge the ranks: %s", what);
	exit(EXIT_BAD);
}

static void write_all(const void *bytes, size_t length)
{
	for (const char *at = bytes; length;) {
		ssize_t written = write(requests, at, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			give_up(strerror(errno));
		at += written;
		length -= (size_t)written;
	}
}

static void request(enum pipe_operation operation, int peer, size_t length)
{
	const struct pipe_request head = {operation, (uint32_t)peer, length};

	write_all(&head, sizeof(head));
}

static void pipe_send(int to, const void *bytes, size_t length)
{
	request(PIPE_SEND, to, length);
	write_all(bytes, length);
}

static void pipe_receive(int from, void *bytes, size_t length)
{
	request(PIPE_RECEIVE, from, length);
	ssize_t taken = file_read_full(STDIN_FILENO, bytes, length, -1);
	if (taken < (ssize_t)length)
		give_up(taken < 0 ? strerror(errno) : "a process has ended");
}

static void pipe_begin(const char *text)
{
	static const struct transport pipes = {pipe_send, pipe_receive, NULL};
	char *end;

	own.number = (int)strtol(text, &end, 10);
	own.count = *end == '/' ? (int)strtol(end + 1, &end, 10) : 0;
	if (*end || own.number < 0 || own.number >= own.count)
		give_up("PROTON_MERGE_PIPE is not NUMBER/COUNT");
	/* Nothing else may write between the requests. */
	requests = dup(STDOUT_FILENO);
	if (requests < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		give_up(strerror(errno));
	transport = &pipes;
}

/* ------------------------------------------------------------------ both */

struct processes processes_begin(int *argc, char ***argv)
{
	const char *text = environment_get("PROTON_MERGE_PIPE");

	own = (struct processes){.count = 1};
	if (text)
		pipe_begin(text);
	else
		launched_begin(argc, argv);
	return own;
}

void processes_end(int status)
{
	if (transport && transport->end)
		transport->end(status);
}

void processes_send(int to, const void *bytes, size_t length)
{
	if (length)
		transport->send(to, bytes, length);
}

void processes_receive(int from, void *bytes, size_t length)
{
	if (length)
		transport->receive(from, bytes, length);
}

/* In a binomial tree: process n receives from n without its lowest bit. */
void processes_share(char **bytes, size_t *length)
{
	int low = own.number & -own.number;
	uint64_t total = *length;

	if (own.number) {
		processes_receive(own.number - low, &total, sizeof(total));
		*bytes = xcalloc(total + 1, 1);
		processes_receive(own.number - low, *bytes, total);
		*length = total;
	} else {
		for (low = 1; low < own.count;)
			low *= 2;
	}
	for (int step = low / 2; step; step /= 2) {
		if (own.number + step >= own.count)
			continue;
		processes_send(own.number + step, &total, sizeof(total));
		processes_send(own.number + step, *bytes, total);
	}
}
