/* In which scopes the operations of a kernel stood before the compiler's passes moved them. */
#ifndef INTRA_TTGIR_PROVENANCE_H
#define INTRA_TTGIR_PROVENANCE_H

#include "intra/marker.h"
#include "intra/ttgir/mlir_text.h"

/* Scopes around one operation that are followed; those further in are taken for broken. */
#define ORIGIN_DEPTH_MAX 16u

/* One place where a scope begins, or an event. */
struct origin_site {
	struct marker marker; /* its start */
	/* Its start and its end, or those of another place of the same name, do not stand in one
	 * block: nobody can tell what is inside. */
	bool is_broken;
};

/* Indices of sites, in the order in which they begin. */
struct origin_set {
	uint32_t sites[ORIGIN_DEPTH_MAX];
	uint32_t count;
};

struct origin {
	uint64_t key; /* mlir_locations_key() of the operation */
	struct origin_set set;
};

struct provenance {
	struct origin_site *sites;
	size_t site_count;
	struct origin *origins; /* by key */
	size_t count;
};

/*
 * Reads the scopes of `text`, which is TTIR with markers; an event is one, from its start to its
 * end. What has one location is taken for one operation: it is in the scopes that all of it is in.
 * E_UNSUPPORTED, E_NOMEM.
 */
int provenance_read(struct slice text, struct provenance *out, struct proton_error *err);
/* NULL for a key that no operation has. */
const struct origin_set *provenance_find(const struct provenance *provenance, uint64_t key);
void provenance_fini(struct provenance *provenance);

bool origin_set_has(const struct origin_set *set, uint32_t site);

/*
 * Does the operation take time of its own? Not: constants, terminators, arithmetic on scalars and
 * other views of what is there. The compiler copies those to where they are used, so that they tell
 * nothing about where a scope has gone.
 */
bool origin_is_work(const struct mlir_line *line);
/* The marker of a record, or of an event, that the line is. */
bool origin_read_marker(const struct mlir_line *line, struct marker *out);

#endif
