/* Processes of proton-merge: MPI, or one process. */
#include "viewer/ranks/processes.h"

#ifdef PROTON_WITH_MPI

#include <mpi.h>
#include <stdint.h>

#include "viewer/print/xalloc.h"

/* Counts of MPI are ints. */
#define PIECE_BYTES ((size_t)1 << 30)

struct processes processes_begin(int *argc, char ***argv)
{
	struct processes self;

	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &self.number);
	MPI_Comm_size(MPI_COMM_WORLD, &self.count);
	return self;
}

void processes_end(int status)
{
	if (status)
		MPI_Abort(MPI_COMM_WORLD, status);
	MPI_Finalize();
}

static int piece_of(size_t length)
{
	return (int)(length < PIECE_BYTES ? length : PIECE_BYTES);
}

void processes_share(char **bytes, size_t *length)
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

void processes_send(int to, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		int piece = piece_of(length);

		MPI_Send(at, piece, MPI_BYTE, to, 0, MPI_COMM_WORLD);
		at += piece;
		length -= (size_t)piece;
	}
}

void processes_receive(int from, void *bytes, size_t length)
{
	char *at = bytes;

	while (length) {
		int piece = piece_of(length);

		MPI_Recv(at, piece, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		at += piece;
		length -= (size_t)piece;
	}
}

#else

struct processes processes_begin(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return (struct processes){.count = 1};
}

void processes_end(int status)
{
	(void)status;
}

void processes_share(char **bytes, size_t *length)
{
	(void)bytes, (void)length;
}

void processes_send(int to, const void *bytes, size_t length)
{
	(void)to, (void)bytes, (void)length;
}

void processes_receive(int from, void *bytes, size_t length)
{
	(void)from, (void)bytes, (void)length;
}

#endif
