/* Standard streams of the commands: occupying closed ones. */
#include "base/standard.h"

#include <fcntl.h>
#include <unistd.h>

void standard_occupy(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* Opened for the wrong direction: reads and writes still fail. */
		int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", mode | O_CLOEXEC); /* takes the lowest free number */
	}
}
