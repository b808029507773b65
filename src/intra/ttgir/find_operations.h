/* What automatic scopes can be put around: found, named, and chosen among. */
#ifndef INTRA_TTGIR_FIND_OPERATIONS_H
#define INTRA_TTGIR_FIND_OPERATIONS_H

#include "intra/mode.h"
#include "intra/ttgir/mlir_text.h"

#define SITE_NONE UINT32_MAX

struct site {
	const char *word;    /* "load" */
	uint32_t part;       /* of "partition": its number */
	bool is_part;        /* a numbered partition */
	uint32_t start_line; /* what the scope begins before; a partition: behind */
	uint32_t end_line;   /* what it ends behind; a partition: before. SITE_NONE: no end found */
	bool is_inner;       /* a partition */
	uint32_t depth;      /* loops around it */
	uint32_t cost;       /* records of one execution */
	struct slice indent;
	struct slice location;
	struct mlir_location place;
	uint32_t scope;
};

struct site_scope {
	char *name;
	uint32_t depth;
	uint32_t cost;
	bool is_dropped;
};

struct sites {
	struct site *sites; /* in the order of their first lines */
	uint32_t count;
	uint32_t missed; /* more than we look at */
	struct site_scope *scopes;
	uint32_t scope_count;
	uint32_t warp_count; /* of the kernel, with its partitions */
};

/* Finds what `autos` names. E_UNSUPPORTED, E_NOMEM. */
int sites_find(struct slice text, uint32_t autos, struct sites *out, struct proton_error *err);
/* Gives each site its scope. False when memory is out. */
bool sites_name(struct sites *sites);
/* Drops scopes, the innermost first, until at most these many and their records are left. */
void sites_limit(struct sites *sites, uint32_t scope_limit, uint32_t record_limit);
void sites_fini(struct sites *sites);
/* Bits of enum instrument_auto: what an automatic scope whose name begins with `word` is around. */
uint32_t sites_kinds(struct slice word);
/* The bit of an operation, "ttg.async_copy_global_to_local"; 0 for one that gets no scope. */
uint32_t sites_kind_of_op(struct slice op);

#endif
