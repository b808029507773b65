/* Processes of proton-merge: MPI, one process, or pipes to a parent that connects them. */
#include "viewer/ranks/processes.h"

#include "viewer/ranks/pipe_processes.h"

#ifdef PROTON_WITH_MPI

#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "viewer/print/xalloc.h"

/* Counts of MPI are ints. */
#define PIECE_BYTES ((size_t)1 << 30)

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
	bool has_prefix = false;
	bool has_suffix = false;

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

static bool has_mpi;

static struct processes launched_begin(int *argc, char ***argv)
{
	struct processes self = {.count = 1};

	has_mpi = is_launched();
	if (!has_mpi)
		return self;
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &self.number);
	MPI_Comm_size(MPI_COMM_WORLD, &self.count);
	return self;
}

static void launched_end(int status)
{
	if (!has_mpi)
		return;
	if (status)
		MPI_Abort(MPI_COMM_WORLD, status);
	MPI_Finalize();
}

static int piece_of(size_t length)
{
	return (int)(length < PIECE_BYTES ? length : PIECE_BYTES);
}

static void launched_share(char **bytes, size_t *length)
{
	uint64_t total = *length;
	int number;
	char *at;

	MPI_Comm_rank(MPI_COMM_WORLD, &number);
	MPI_Bcast(&total, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (number)
		*bytes = xcalloc(total + 1, 1);
	*length = total;
	at = *bytes;
	while (total) {
		int piece = piece_of(total);

		MPI_Bcast(at, piece, MPI_BYTE, 0, MPI_COMM_WORLD);
		at += piece;
		total -= (size_t)piece;
	}
}

static void launched_send(int to, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		int piece = piece_of(length);

		MPI_Send(at, piece, MPI_BYTE, to, 0, MPI_COMM_WORLD);
		at += piece;
		length -= (size_t)piece;
	}
}

static void launched_receive(int from, void *bytes, size_t length)
{
	char *at = bytes;

	while (length) {
		int piece = piece_of(length);

		MPI_Recv(at, piece, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		at += piece;
		length -= (size_t)piece;
	}
}

#else /* one process */

#include "base/message.h"
#include "format/rank.h"

/* Under mpirun or srun, processes that know nothing of each other would write the same file. */
static struct processes launched_begin(int *argc, char ***argv)
{
	struct rank_identity rank;

	(void)argc, (void)argv;
	rank_read(&rank);
	if (rank.rank == RANK_NONE || rank.world < 2)
		return (struct processes){.count = 1};
	if (rank.rank == 0)
		message("this program was built without MPI: 1 of %u processes merges all ranks; "
			"build Proton from source where mpicc is installed to use all",
			rank.world);
	return (struct processes){.count = 1, .is_idle = rank.rank != 0};
}

static void launched_end(int status)
{
	(void)status;
}

static void launched_share(char **bytes, size_t *length)
{
	(void)bytes, (void)length;
}

static void launched_send(int to, const void *bytes, size_t length)
{
	(void)to, (void)bytes, (void)length;
}

static void launched_receive(int from, void *bytes, size_t length)
{
	(void)from, (void)bytes, (void)length;
}

#endif

/* ------------------------------------------------------------------ MPI or pipes */

static bool has_pipes;

struct processes processes_begin(int *argc, char ***argv)
{
	struct processes self;

	has_pipes = pipe_processes_begin(&self);
	return has_pipes ? self : launched_begin(argc, argv);
}

void processes_end(int status)
{
	if (!has_pipes)
		launched_end(status);
}

void processes_share(char **bytes, size_t *length)
{
	if (has_pipes)
		pipe_processes_share(bytes, length);
	else
		launched_share(bytes, length);
}

void processes_send(int to, const void *bytes, size_t length)
{
	if (has_pipes)
		pipe_processes_send(to, bytes, length);
	else
		launched_send(to, bytes, length);
}

void processes_receive(int from, void *bytes, size_t length)
{
	if (has_pipes)
		pipe_processes_receive(from, bytes, length);
	else
		launched_receive(from, bytes, length);
}
