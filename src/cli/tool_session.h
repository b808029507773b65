/* Starting the recorder from a library that ROCm has loaded into a process. */
#ifndef CLI_TOOL_SESSION_H
#define CLI_TOOL_SESSION_H

#include <stdbool.h>

/* Not below `proton`, or in a process that must not write files named by the environment. */
bool tool_session_is_refused(void);
/*
 * Does what the NVIDIA driver does: loads libproton_inject.so, which is next to this library, and
 * calls it. A failure to start a session is reported there.
 */
void tool_session_start(void);

#endif
