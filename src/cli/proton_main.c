/*
 * proton: runs a program with the recorder in it. This process does not stay: it checks the command
 * line, puts the options into the environment and turns into the target, so that the process id,
 * the signals, the terminal and the exit status are those of the target itself.
 */
#include <stddef.h>

#include "base/standard.h"
#include "cli/launch.h"
#include "cli/proton_options.h"

#ifndef PROTON_LIBDIR
#define PROTON_LIBDIR NULL
#endif

/* The recorder was not started and the target did not run. */
#define EXIT_NOT_RUN 2

int main(int argc, char **argv)
{
	struct options options;

	standard_occupy();
	switch (options_parse(argc, argv, &options)) {
	case OPTIONS_DONE:
		return 0;
	case OPTIONS_BAD:
		return EXIT_NOT_RUN;
	case OPTIONS_RUN:
		break;
	}
	if (!options_check(&options))
		return EXIT_NOT_RUN;
	if (options.kind == TARGET_PROGRAM)
		launch_program(&options, PROTON_LIBDIR);
	else
		launch_python(&options);
	return EXIT_NOT_RUN;
}
