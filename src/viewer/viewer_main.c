/*
 * Command proton-viewer. Exit status 0; 1 if a damaged file was shown as far as it could be read; 2
 * with a message for bad input; 3 if a gate fails.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/guest.h"
#include "base/message.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_run.h"

int main(int argc, char **argv)
{
	struct options options;
	enum options_result result;
	int status = 0;

	message_set_name("proton-viewer");
	standard_occupy();
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	result = options_parse(&options, argc, argv);
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
