/* Search for libproton_inject.so, the library that is loaded into programs (inject.c). */
#ifndef CLI_LIBRARY_H
#define CLI_LIBRARY_H

/*
 * $PROTON_INJECT_LIB, else next to this executable, else in `library_directory` (where the build
 * installs it; NULL if unknown), else in the package of a Python that is found. The path, malloc'd;
 * NULL after a message on standard error if there is none.
 */
char *library_find(const char *library_directory);
/* The library in a Python package's directory; NULL without a message if there is none. */
char *library_find_in_package(const char *package);

#endif
