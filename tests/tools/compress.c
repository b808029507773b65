/* Compresses standard input to gzip on standard output, passed on in pieces of some sizes. */
#include <stdio.h>
#include <unistd.h>

#include "format/gzip_write.h"

int main(void)
{
	static const size_t sizes[] = {1, 7, 4096, 60000};
	static char piece[60000];
	struct gzip_writer gzip;
	struct proton_error err;
	struct out out;
	size_t length;

	out_init(&out, STDOUT_FILENO);
	gzip_begin(&gzip, &out);
	for (int i = 0; (length = fread(piece, 1, sizes[i % 4], stdin)) > 0; i++)
		gzip_bytes(&gzip, piece, length);
	gzip_end(&gzip);
	if (out_finish(&out, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	out_fini(&out);
	return 0;
}
