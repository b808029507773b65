/* Command-line options of proton. */
#pragma once

#include "base/option_table.h"

enum target_kind {
	TARGET_SCRIPT,  /* python SCRIPT args */
	TARGET_MODULE,  /* python -m MODULE args */
	TARGET_PROGRAM, /* any program, after `--` */
	TARGET_PYTHON,  /* an interpreter with its arguments: `proton python x.py` */
	TARGET_TOOL,    /* no program: doctor or attach, modules of the package */
};

/* Strings are borrowed from argv; NULL means not given. */
struct options {
	const char *name;
	const char *backend;
	const char *context;
	const char *mode;
	const char *data;
	const char *hook;
	const char *format;
	bool wants_memory;
	bool wants_backward;
	bool wants_modules;
	bool wants_torch_ops;
	bool wants_shapes;
	bool is_quiet;
	bool no_clobber; /* existing output is an error */
	bool has_no_nvtx;
	bool has_no_children;
	bool must_wait;          /* for proton ctl */
	const char *start_after; /* seconds */
	const char *record_for;
	const char *range; /* a name */
	enum target_kind kind;
	const char *target; /* script, module or program */
	char **options;     /* the arguments before the target */
	size_t option_count;
	char **arguments; /* those of the target, without its name; NULL-terminated */
};

/*
 * Parsing stops at the first argument that is not an option; the rest belongs to the target.
 * Returns OPTIONS_RUN, or after printing something OPTIONS_DONE or OPTIONS_BAD.
 */
enum options_result options_parse(int argc, char **argv, struct options *options);

/* False after a message on standard error if a value is invalid for every target. */
bool options_check(struct options *options);

/* `argv` begins with "ctl". Returns the exit status. */
int ctl_run(int argc, char **argv);
/* proton watch; the exit status. */
int watch_run(int argc, char **argv);

/* A module of the package, without the recorder. */
void launch_tool(const struct options *options);
/* A script or module, in Python. */
void launch_python(const struct options *options);

/* Any program, with libproton_inject.so from `library_directory`; NULL if unknown. */
void launch_program(const struct options *options, const char *library_directory);

/* True if Python can run the target; an interpreter becomes TARGET_PYTHON. Else a message. */
bool script_check(struct options *options);

/* False after a message if the mode is the name of a module: `proton -m json.tool`. */
bool script_check_mode(const struct options *options);

/* `proton --which`: programs named `proton` and `proton-viewer`, which Triton's wheel has too. */

/* Prints this program, its Python and package, and both names. False: no Python. */
bool which_print(void);

/* Prints a line if one of the names is Triton's, on PATH or next to the Python. */
void which_note_others(void);

/* "proton-viewer", or the unique name if the plain one is Triton's. */
const char *which_viewer(void);
