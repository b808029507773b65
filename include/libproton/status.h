/*
 * Status codes and error messages, shared by every libproton header.
 *
 * A function that can fail returns an int: PROTON_OK (0) or a negative PROTON_E_* value. A function
 * that can give a reason takes a `struct proton_error *` as its last parameter. The caller owns it;
 * it may be on the stack, it may be NULL, and it is written only on failure.
 */
#ifndef LIBPROTON_STATUS_H
#define LIBPROTON_STATUS_H

#if defined(__GNUC__)
#define PROTON_API __attribute__((visibility("default")))
#else
#define PROTON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum proton_status {
#define X(name, value, text) PROTON_##name = value,
#include <libproton/status.def>
#undef X
	PROTON_STATUS_FORCE_INT = 0x7fffffff
};

struct proton_error {
	int status;     /* the PROTON_E_* value that was returned */
	char text[508]; /* error message: what failed, the cause, and a remedy if there is one */
};

/* A short fixed English text for a status; never NULL. Since 0.1. */
PROTON_API const char *proton_status_text(int status);

#ifdef __cplusplus
}
#endif

#endif
