/* Internal interface between the files of the hatchet list loader (load_tree.h). */
#ifndef MODEL_LOAD_TREE_PARTS_H
#define MODEL_LOAD_TREE_PARTS_H

#include <string.h>

#include "model/load_tree.h"
#include "model/settle.h"

struct open_node {
	uint32_t node;
	struct row_frame frame;
	bool has_frame;
	bool has_children;
	bool is_in_children;
	bool has_extremes;
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

struct tree_loader {
	struct token_source *source;
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

/* Reads a node's "metrics", after its begin token. False at the end of readable input. */
bool tree_read_metrics(struct tree_loader *loader, struct open_node *open);
/* Reads a node's "proton" object, which contains data that hatchet has no member for. */
bool tree_read_extras(struct tree_loader *loader, struct open_node *open);

#endif
