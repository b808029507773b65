/*
 * SASS of a cubin, or the assembly of an AMD code object: the text of each instruction, from the
 * vendor's disassembler.
 *
 * If XDG_CACHE_HOME is set, the disassembler's output is kept below $XDG_CACHE_HOME/proton/sass, in
 * a file named by size and checksum of the code. Nothing is written elsewhere.
 */
#pragma once

#include "base/err.h"
#include "symbol/reader.h"

#define SASS_FUNCTION_NONE UINT32_MAX
#define SASS_BYTES 16u
/* A disassembler that takes longer is killed. */
#define SASS_LIMIT_MS 60000
#define SASS_MEMORY_BYTES (4ull << 30)

struct sass;

/*
 * `object` and `text`, the disassembler's output, need not stay valid. `text` NULL: the output is
 * in the cache, or the disassembler is run. PROTON_E_NOLIB: there is no disassembler; the message
 * says what to do. PROTON_E_INVALID: not a code object. PROTON_E_IO: the disassembler failed.
 */
int sass_open(const void *object, size_t length, const char *text, size_t text_length,
	      struct sass **sass_out, struct proton_error *err);
void sass_close(struct sass *sass);

/* The function with this mangled name; SASS_FUNCTION_NONE: the code has none. */
uint32_t sass_function(const struct sass *sass, const char *name);
/*
 * The instruction at byte offset `pc` of a function, such as "@!P0 LDG.E R4, desc[UR6][R8.64]";
 * valid until sass_close(). NULL: no instruction starts there.
 */
const char *sass_at(const struct sass *sass, uint32_t function, uint64_t pc);
/*
 * The machine code of a function of a cubin, SASS_BYTES per instruction; empty for AMD. Valid until
 * sass_close().
 */
struct span sass_code(const struct sass *sass, uint32_t function);
/* The offset of a label in a function; UINT64_MAX: it is not there. */
uint64_t sass_label(const struct sass *sass, uint32_t function, const char *name, size_t length);
