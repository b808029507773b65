/*
 * Command proton-viewer. Exit status 0; 1 if a damaged file was shown as far as it could be read; 2
 * with a message for bad input; 3 if a gate fails.
 */
#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

#include "base/guest.h"
#include "base/message.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_run.h"

/* Arrays that come and go keep their pages: new ones took 7 % of the time of small views. */
static void keep_pages(void)
{
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	mallopt(M_TRIM_THRESHOLD, 16 << 20);
	mallopt(M_TOP_PAD, 1 << 20);
}

int main(int argc, char **argv)
{
	struct options options;
	int status = 0;

	keep_pages();
	message_set_name("proton-viewer");
	standard_occupy();
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	enum options_result result = options_parse(&options, argc, argv);
	if (result == OPTIONS_RUN)
		status = viewer_run(&options, NULL, NULL);
	query_options_fini(&options.query);
	if (result == OPTIONS_BAD)
		return EXIT_BAD;
	if (result == OPTIONS_DONE && (fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		message("%s", strerror(errno));
		return EXIT_BAD;
	}
	return status;
}
