/*
 * Provenance of operations: the scopes that each operation was in before the compiler's passes
 * moved it.
 */
#ifndef INTRA_TTGIR_PROVENANCE_H
#define INTRA_TTGIR_PROVENANCE_H

#include "intra/marker.h"
#include "intra/ttgir/mlir_text.h"

/* Maximum number of scopes followed around one operation; deeper scopes are marked broken. */
#define ORIGIN_DEPTH_MAX 16u

/* One start of a scope or of an event. */
struct origin_site {
	struct marker marker; /* the start marker */
	/*
	 * The start and the end (or of another site of the same name) are in different blocks, so
	 * the scope's content is unknown.
	 */
	bool is_broken;
};

/* Indices of sites, in the order of their starts. */
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
 * Reads the scopes of `text`, which is TTIR with markers. An event counts as a scope from its start
 * to its end. Operations with equal locations are treated as one, which is in those scopes that all
 * of them are in. E_UNSUPPORTED, E_NOMEM.
 */
int provenance_read(struct slice text, struct provenance *out, struct proton_error *err);
/* NULL if no operation has the key. */
const struct origin_set *provenance_find(const struct provenance *provenance, uint64_t key);
void provenance_fini(struct provenance *provenance);

bool provenance_set_has(const struct origin_set *set, uint32_t site);

/*
 * True if the operation itself takes time. False for constants, terminators, scalar arithmetic and
 * views: the compiler copies those to their uses, so their position says nothing about a scope's.
 */
bool provenance_is_work(const struct mlir_line *line);
/* Parses the line as a marker of a record or an event. */
bool provenance_read_marker(const struct mlir_line *line, struct marker *out);

#endif
