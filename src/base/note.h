/* Warnings: one line on standard error that the user can act on, prefixed "proton: ". */
#ifndef BASE_NOTE_H
#define BASE_NOTE_H

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
