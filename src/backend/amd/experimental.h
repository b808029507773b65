/* The message that the backends for AMD GPUs have not run on hardware. */
#ifndef BACKEND_AMD_EXPERIMENTAL_H
#define BACKEND_AMD_EXPERIMENTAL_H

/* Prints it once per run; `backend` is the name of the backend that has started. */
void experimental_report(const char *backend);

#endif
