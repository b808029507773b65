/*
 * LLVM IR functions: the basic blocks, control flow and markers of the kernel of a module, and of
 * its instrumented callees: noinline functions that contain markers or call a function that does. A
 * callee gets the bytes used in the ring buffer as an additional parameter, and returns the new
 * number in addition to its value. So its signature and all calls are rewritten. This requires that
 * it is called only directly and only from this module.
 *
 * LLVM prints one instruction per line (a switch takes several), a label at the beginning of a
 * line, and "}" alone after the last block. The parser relies on nothing else. A kernel that cannot
 * be parsed is not instrumented.
 */
#pragma once

#include "base/err.h"
#include "intra/llvm/ir_text.h"

/* ------------------------------------------------------------------ signatures */

/* A line that defines or calls a function: "[RESULT = ]BEFORE TYPE @NAME(ARGUMENTS)AFTER". */
struct ir_signature {
	struct slice result; /* "%12" */
	struct slice before; /* keywords and attributes, also the return value's */
	struct slice type;
	struct slice name; /* with "@" */
	struct slice arguments;
	struct slice after;
};

/* Parses the line; `at` is at the "@" of the function name. False if it cannot be parsed. */
bool ir_signature_read(struct slice line, const char *at, struct ir_signature *out);
/* Writes BEFORE without attributes of the return value, which do not fit the new type. */
void ir_signature_before(const struct ir_signature *signature, struct out *out);
/* Writes the arguments without attributes that no longer hold. */
void ir_signature_arguments(const struct ir_signature *signature, struct out *out);

/* ------------------------------------------------------------------ functions */

/* A call that ends a block. */
struct ir_call {
	uint32_t line;
	uint32_t callee;
	struct ir_signature signature;
};

/*
 * A basic block, or a part of one: a call of an instrumented callee ends a block here, and the rest
 * is another block with the same label.
 */
struct ir_block {
	struct slice label;  /* without "%" and ":" */
	uint32_t first_line; /* after the label */
	uint32_t end_line;   /* after the last instruction */
	uint32_t first_marker;
	uint32_t marker_count;
	/*
	 * Index into successors. A block is listed twice if two edges lead to it; block_count is
	 * the function's end.
	 */
	uint32_t first_successor;
	uint32_t successor_count;
	const struct ir_call *call; /* its last instruction, or NULL */
	bool continues;             /* begins after the call that ends the previous block */
	bool is_return;
};

#define IR_REASON_MAX 192u

struct ir_function {
	struct slice *lines; /* of the whole text, without newlines */
	uint32_t line_count;
	uint32_t define_line;
	uint32_t end_line; /* of the "}" */
	bool is_amd;
	bool is_callee;
	bool entry_has_label;
	struct slice last_parameter; /* of the kernel: "%5" */
	uint32_t parameter_count;
	struct ir_signature signature; /* a callee's */
	struct ir_block *blocks;       /* the first is the entry */
	uint32_t block_count;
	uint32_t *successors;
	uint32_t successor_count;
	struct ir_marker *markers; /* in text order */
	uint32_t marker_count;
	/* lines with markers that cannot be parsed, and the first of them */
	uint32_t unknown_markers;
	uint32_t unknown_line;
	/* in functions that are neither the kernel nor instrumented callees */
	uint32_t outside_markers;
	/* why the first of those functions cannot be instrumented */
	char outside_reason[IR_REASON_MAX];
	struct callees *callees; /* of the module; NULL: none */
};

/* Instrumented callees. */
struct callees {
	struct ir_function *functions; /* in text order; their lines are the kernel's */
	uint32_t count;
	struct ir_call *calls; /* calls of them, by line */
	uint32_t call_count;
	struct ir_names scopes; /* scopes that have markers in them */
};

/*
 * Finds the blocks and markers between define_line and end_line. Calls of `callees` end blocks.
 * E_UNSUPPORTED, E_NOMEM; the caller calls ir_function_fini() in any case.
 */
int ir_function_read_body(struct ir_function *function, struct proton_error *err);
/* Frees what ir_function_read_body() allocated. */
void ir_function_fini(struct ir_function *function);
/* Writes the label of a block as an operand. */
void ir_function_write_label(const struct ir_function *function, struct out *out, uint32_t block);
/*
 * The maximum number of iterations of the loop with the blocks `header` to `latch` in text order,
 * where only `latch` leads back to `header`; other exits make it fewer. 0: unknown.
 */
uint32_t trip_count(const struct ir_function *function, uint32_t header, uint32_t latch);

/* ------------------------------------------------------------------ the order of lines */

/* False if types are named by number, which look like unnamed values. */
bool ir_function_can_rename(const struct ir_function *function);
/*
 * Writes the whole text with lines moved: `moves` has the destination of each line plus 1, or 0.
 * Unnamed values of the function get names, because LLVM numbers them in text order;
 * ir_function_can_rename() must be true. *text_out is malloc'd, or NULL if nothing moves. E_NOMEM.
 */
int ir_function_write_moved(const struct ir_function *function, const uint32_t *moves,
			    char **text_out, size_t *length_out, struct proton_error *err);
/* The parts of the pass that move lines; texts as above. E_NOMEM. */
int reschedule(const struct ir_function *function, char **text_out, size_t *length_out,
	       struct proton_error *err);
int hoist(const struct ir_function *function, char **text_out, size_t *length_out,
	  struct proton_error *err);

/* ------------------------------------------------------------------ modules */

/*
 * Parses `text`, which `kernel` refers to. If no marker can be parsed, only unknown_markers and
 * unknown_line are set. E_UNSUPPORTED with an error message if the kernel cannot be
 * instrumented, E_NOMEM.
 */
int ir_module_read(const char *text, size_t length, struct ir_function *kernel,
		   struct proton_error *err);
/*
 * Checks what the pass assumes about Triton's kernels: which parameter is the profile's buffer (0
 * parameters: unknown), and where the kernel's shared memory ends. If a later Triton changes one of
 * them, records would overwrite the memory of the kernel. E_UNSUPPORTED if one does not hold.
 */
int ir_module_check(const struct ir_function *kernel, uint32_t parameter_count,
		    uint32_t shared_bytes, struct proton_error *err);
void ir_module_fini(struct ir_function *kernel);
/*
 * Finds and reads the instrumented callees of the kernel's module. Sets outside_markers to the
 * number of markers in other functions, and outside_reason to the reason. E_NOMEM.
 */
int callees_find(struct ir_function *kernel, struct proton_error *err);
void callees_free(struct callees *callees);
