/* Candidates for automatic scopes: found, named, and limited in number. */
#pragma once

#include "intra/mode.h"
#include "intra/ttgir/mlir_text.h"
#include "intra/ttgir/ttgir.h"

#define SITE_NONE UINT32_MAX

struct site {
	struct slice word;   /* "load" */
	uint32_t part;       /* number of the partition */
	bool is_part;        /* a numbered partition */
	uint32_t start_line; /* the scope starts before this line; for a partition, after it */
	/* the scope ends after this line; for a partition, before it. SITE_NONE: no end found */
	uint32_t end_line;
	bool is_inner;  /* a partition */
	bool is_math;   /* in a block of which it is not known yet whether it has a dot */
	uint32_t depth; /* loops around it */
	uint32_t cost;  /* records per execution */
	uint32_t slot;  /* the partition it is in; 0: none */
	struct slice indent;
	struct slice location;
	struct mlir_frames frames; /* source locations of it and of the calls around it */
	uint32_t scope;
	double price; /* of one execution in cycles, with a budget */
};

/* Partitions with records that are counted separately, because a warp runs only one of them. */
#define SITE_SLOTS 18u

/* Why a scope is dropped. */
enum site_drop {
	SITE_KEPT,
	SITE_NO_ROOM,
	SITE_COSTLY, /* because of the budget */
	SITE_HEAVY,  /* because of the registers that it was predicted to need */
};

struct site_scope {
	char *name;
	uint32_t depth;
	bool is_detail; /* omitted first: no loop, partition, load, store, dot or wait */
	/*
	 * Records of its sites in the deepest loops, by slot: the pipeliner puts copies before and
	 * after a loop.
	 */
	uint32_t costs[SITE_SLOTS];
	enum site_drop dropped;
	/* With a budget: */
	uint32_t rank;    /* low numbers are preferred */
	double price;     /* cycles in the kernel, among equal ranks */
	double registers; /* 0: it contains only other operations */
	bool is_excluded; /* it must not be chosen */
};

struct sites {
	struct site *sites; /* in the order of their first lines */
	uint32_t count;
	uint32_t missed; /* sites beyond the maximum */
	struct site_scope *scopes;
	uint32_t scope_count;
	uint32_t warp_count; /* of the kernel, including its partitions */
	bool has_function;
	uint32_t unknown_count;     /* operations that seem to be new names of others */
	struct slice first_unknown; /* in the text */
};

/* Finds the operations that `autos` selects. False if out of memory. */
bool operations_find(const struct mlir_regions *lines, uint32_t autos, struct sites *out);
/* Assigns each site its scope. False if out of memory. */
bool operations_name(struct sites *sites);
/*
 * Drops scopes until the numbers of scopes and records are within the limits: details before
 * others, and those in innermost loops first. Returns the remaining number of records.
 */
uint32_t operations_limit(struct sites *sites, uint32_t scope_limit, uint32_t record_limit);
void operations_fini(struct sites *sites);

/*
 * Bits of an operation such as "ttg.async_copy_global_to_local", and the word for the names of its
 * scopes; 0 if it gets no scope.
 */
uint32_t operations_lookup(struct slice op, struct slice *word);
uint32_t operations_kind(struct slice op);
/* True if it gets no scope, though its name says that it moves data or multiplies matrices. */
bool operations_is_unknown(struct slice op);
/*
 * True if the operation itself takes time. False for constants, terminators, scalar arithmetic and
 * views: the compiler copies those to their uses, so their position says nothing about a scope's.
 */
bool operations_is_work(const struct mlir_line *line);
/* Bits of enum instrument_auto for an automatic scope whose name begins with `word`. */
uint32_t operations_kinds_of_scope(struct slice word);
/* Predicted costs in percent of the kernel's time. */
struct scope_budget {
	double all; /* with all scopes */
	double kept;
	uint32_t dropped; /* for their time */
	uint32_t stride;  /* every n-th CTA records */
};

/*
 * Drops scopes of `sites`, which have names, until the prediction for the kernel and for each loop
 * with an unknown number of iterations is within the mode's budget. Loops and partitions are chosen
 * first, then waits and dots, then loads and stores, then others; among equals the cheaper ones. If
 * `registers_less`, `without` or `loop_levels` is set, this choice is made again within its
 * registers. One scope is kept in any case. If copying records at the end of each CTA takes too
 * much and the mode has no stride, not every CTA records. E_NOMEM.
 */
int scope_budget_apply(const struct mlir_regions *lines, const struct instrument_mode *mode,
		       const struct ttgir_insertion *how, struct sites *sites,
		       struct scope_budget *out, struct proton_error *err);
/* Drops all scopes that `names` does not have, one per line. */
void scope_budget_keep(struct sites *sites, struct slice names);
