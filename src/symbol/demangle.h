/*
 * Demangling of C++ names of the Itanium C++ ABI ("_ZN2at6native..."), which compilers for Linux
 * and for GPUs use. Written from the ABI's description (itanium-cxx-abi.github.io, "Mangling"). It
 * covers names of kernels and of the libraries around them: nested names, templates and packs,
 * substitutions, literals, lambdas, local names, function and member pointers, arrays, operators,
 * special names, and the more common expressions. Other names are left unchanged.
 *
 * Input is untrusted: the tree of a name has at most DEMANGLE_NODES_MAX nodes, nesting is at most
 * DEMANGLE_DEPTH_MAX, and the text is at most DEMANGLE_BYTES_MAX, because a name of a few hundred
 * bytes can expand to gigabytes by repeating its parts.
 */
#pragma once

#include "base/buf.h"

#define DEMANGLE_NODES_MAX 4096u
#define DEMANGLE_DEPTH_MAX 192u
#define DEMANGLE_BYTES_MAX 16384u

enum demangle_style {
	DEMANGLE_FULL, /* void at::native::fill<at::Half, 4>(at::Half*, int) */
	/* fill<Half, 4>: no parameters, namespaces, or template arguments below the second level */
	DEMANGLE_SHORT,
};

/* Appends the name and returns true; false, with nothing appended, if it is not a C++ name. */
bool demangle(struct out *out, const char *mangled, size_t length, enum demangle_style style);
