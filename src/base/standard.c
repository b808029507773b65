/* Standard input, output and error. See standard.h. */
#include "base/standard.h"

#include <fcntl.h>
#include <unistd.h>

void standard_occupy(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* Open for the wrong direction: what is read or written is an error still. */
		int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", mode | O_CLOEXEC); /* takes the lowest that is free */
	}
}
