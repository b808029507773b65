/* The command line of `proton`: what was asked for, nothing about how it is done. */
#ifndef CLI_PROTON_OPTIONS_H
#define CLI_PROTON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum target_kind {
	TARGET_SCRIPT,  /* python SCRIPT args */
	TARGET_MODULE,  /* python -m MODULE args */
	TARGET_PROGRAM, /* any program, after `--` */
	TARGET_PYTHON,  /* an interpreter with its arguments: `proton python x.py` */
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
	bool is_quiet;
	bool no_clobber; /* existing output is refused */
	bool has_no_nvtx;
	bool has_no_children;
	enum target_kind kind;
	const char *target; /* script, module or program */
	char **options;     /* the words before the target */
	size_t option_count;
	char **arguments; /* those of the target, without its name; NULL-terminated */
};

enum options_outcome {
	OPTIONS_RUN,
	OPTIONS_DONE, /* --help or --version was printed */
	OPTIONS_BAD,  /* said on standard error */
};

/* Parsing stops at the first word that is no option: the target's own options stay its own. */
enum options_outcome options_parse(int argc, char **argv, struct options *options);

/* False, and one sentence on standard error, if a value cannot work whatever the target is. */
bool options_check(struct options *options);

#endif
