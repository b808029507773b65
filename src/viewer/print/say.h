/* Messages on standard error: "proton-viewer: ..." */
#ifndef VIEWER_PRINT_SAY_H
#define VIEWER_PRINT_SAY_H

/* Prints one line. It may contain names from a profile: control characters are made visible. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
