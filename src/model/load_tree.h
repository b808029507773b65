/*
 * Loader of the nested lists that hatchet reads ([tree, devices], in JSON or MessagePack; see
 * docs/design/hatchet-output.md), given as tokens.
 */
#pragma once

#include "format/token.h"
#include "model/profile.h"

/*
 * The profile is stored in *out. Truncated input gives the part that was read, marked is_damaged;
 * any other input that is not such a list is E_FORMAT.
 */
int load_tree(struct token_source *source, struct profile **out, struct proton_error *err);

/* ------------------------------------------------------------------ between files of the loader */

struct open_node {
	uint32_t node;
	struct row_frame frame;
	bool has_frame;
	bool has_children;
	bool is_in_children;
	uint32_t histogram;
	uint32_t first_config;
	uint64_t min_ns;
	uint64_t max_ns;
};

/* Where a metric was last stored: a name given twice in a node counts once, as in JSON. */
struct last_use {
	uint32_t node_plus_1;
	uint32_t value;
};

struct root_name {
	uint32_t name; /* string */
	uint16_t type; /* enum proton_metric_type of the value on ROOT */
};

struct root_metrics {
	struct root_name *names; /* sorted by tree_settle_metrics() */
	size_t count;
	bool is_known; /* ROOT's metrics were read */
};

struct tree_loader {
	struct token_source *source;
	bool is_unread; /* the last token began an object or a list, of which nothing was read */
	struct profile *profile;
	struct open_node *stack;
	size_t depth, stack_capacity;
	struct last_use *last_uses; /* by metric */
	size_t last_use_capacity;
	struct root_metrics root;
	bool is_root_rest;  /* reading members next to ROOT's metrics */
	uint64_t *elements; /* elements of the current vector */
	size_t element_capacity;
	uint32_t time, count, device_id, device_type; /* strings */
};

static inline bool tree_has_failed(enum token_kind kind)
{
	return kind == TOKEN_END || kind == TOKEN_ERROR;
}

/*
 * Reads the next key of an object, the value after it, or the next element of a list. A value that
 * was not read (tree_open()) is skipped before. False at the end, also that of readable input.
 */
static inline bool tree_next(struct tree_loader *loader, struct token *token)
{
	if (loader->is_unread)
		token_skip(loader->source, TOKEN_OBJECT);
	enum token_kind kind = token_next(loader->source, token);
	loader->is_unread = kind == TOKEN_OBJECT || kind == TOKEN_ARRAY;
	return !tree_has_failed(kind) && kind != TOKEN_OBJECT_END && kind != TOKEN_ARRAY_END;
}

/* True if the last token begins an object, or a list, which the caller then reads to its end. */
static inline bool tree_open(struct tree_loader *loader, const struct token *token,
			     enum token_kind kind)
{
	loader->is_unread &= token->kind != kind;
	return token->kind == kind;
}

static inline bool tree_is_text(const struct token *token, const char *text)
{
	size_t length = strlen(text);

	return token->length == length && memcmp(token->text, text, length) == 0;
}

static inline uint32_t tree_string(struct tree_loader *loader, const struct token *token)
{
	return profile_string(loader->profile, token->text, token->length);
}

/* A non-negative integer in any notation. */
bool tree_u64(const struct token *token, uint64_t *value);
/* Start of the decimal number that ends at `end`; NULL if there is none. */
const char *tree_number_before(const char *begin, const char *end, uint32_t *number);

static inline bool tree_device_id(const char *text, size_t length, uint32_t *id)
{
	uint32_t value = 0;

	if (length == 0 || tree_number_before(text, text + length, &value) != text)
		return false;
	*id = value;
	return true;
}

/* Reads a node's "metrics". */
void tree_read_metrics(struct tree_loader *loader, struct open_node *open);
/*
 * Sets what is known of metrics only after a whole tree: their flags, the metrics that are only on
 * ROOT, and number types. Two metrics of the same name with different number types become one of
 * doubles, which rounds integers above 2^53.
 */
void tree_settle_metrics(struct tree_loader *loader);
