/* Sentences on standard error: "proton-viewer: ..." */
#ifndef VIEWER_PRINT_SAY_H
#define VIEWER_PRINT_SAY_H

/* One line. Names from a profile may be part of it: what a terminal would obey is made visible. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
