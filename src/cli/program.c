/*
 * Check of how the recorder can be loaded into a program file. Static and privileged programs
 * silently ignore LD_PRELOAD and would produce no profile, so the ELF header and the file mode are
 * checked first. The driver can load the recorder into some of them (CUDA_INJECTION64_PATH), but
 * not into privileged ones, where it would write files with another user's rights.
 */
#include "cli/program.h"

#include <errno.h>
#include <string.h>

#include "base/message.h"
#include "cli/program_kind.h"

static enum program_entry inject_or_refuse(const char *path, const char *why, bool can_inject)
{
	if (!can_inject) {
		message("cannot load the recorder into '%s': %s", path, why);
		return PROGRAM_REFUSED;
	}
	message("'%s': %s; recording starts when the program initializes CUDA", path, why);
	return PROGRAM_INJECT;
}

enum program_entry program_check(const char *path, bool can_inject)
{
	char file[PATH_MAX];

	switch (program_kind(path, file)) {
	case PROGRAM_DYNAMIC:
		return PROGRAM_PRELOAD;
	case PROGRAM_STATIC:
		return inject_or_refuse(file, "it is statically linked", can_inject);
	case PROGRAM_SANITIZED:
		return inject_or_refuse(
			path, "AddressSanitizer must be loaded first, which rules out LD_PRELOAD",
			can_inject);
	case PROGRAM_FOREIGN:
		return inject_or_refuse(file, "it is built for another architecture or word size",
					false);
	case PROGRAM_PRIVILEGED:
		return inject_or_refuse(file,
					"it runs with elevated privileges (setuid, setgid or "
					"capabilities)",
					false);
	case PROGRAM_UNKNOWN:
		message("cannot run '%s': it is neither an executable nor a script with a #! line",
			file);
		break;
	case PROGRAM_UNREADABLE:
		message("cannot run '%s': %s: %s", path, file, strerror(errno));
	}
	return PROGRAM_REFUSED;
}
