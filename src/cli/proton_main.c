/*
 * Command proton: runs a program with the recorder. This process checks the command line, puts the
 * options into the environment and replaces itself by the target: process id, signals, terminal and
 * exit status are those of the target.
 */
#include <string.h>

#include "base/guest.h"
#include "cli/proton_options.h"

#ifndef PROTON_LIBDIR
#define PROTON_LIBDIR NULL
#endif

/* Exit status if the target was not run. */
#define EXIT_NOT_RUN 2

int main(int argc, char **argv)
{
	struct options options;

	standard_occupy();
	if (argc > 1 && strcmp(argv[1], "ctl") == 0)
		return ctl_run(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "watch") == 0)
		return watch_run(argc - 1, argv + 1);
	enum options_result result = options_parse(argc, argv, &options);
	if (result == OPTIONS_DONE)
		return 0;
	if (result == OPTIONS_RUN && options.kind == TARGET_TOOL) {
		launch_tool(&options);
		return EXIT_NOT_RUN;
	}
	if (result == OPTIONS_BAD || !options_check(&options))
		return EXIT_NOT_RUN;
	if (options.kind == TARGET_PROGRAM)
		launch_program(&options, PROTON_LIBDIR);
	else
		launch_python(&options);
	return EXIT_NOT_RUN;
}
