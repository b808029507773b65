/* Starting the recorder from a library that ROCm has loaded into a process. */
#ifndef CLI_TOOL_SESSION_H
#define CLI_TOOL_SESSION_H

#include <stdbool.h>

/* Not below `proton`, or in a process that must not write files named by the environment. */
bool tool_session_is_refused(void);
/* Does as the NVIDIA driver: loads libproton_inject.so, next to this library, and calls it. */
void tool_session_start(void);

#endif
