/*
 * Demangling parser state and node construction, shared by the parser's files. Names and encodings
 * are in demangle_parse.c, types and expressions in demangle_type.c.
 */
#pragma once

#include "symbol/demangle_tree.h"

#define SUBSTITUTIONS_MAX 512u
#define ARGUMENTS_MAX 256u

struct parser {
	struct demangle_tree *tree;
	const char *at;
	const char *end;
	unsigned depth;
	uint16_t substitutions[SUBSTITUTIONS_MAX];
	size_t substitution_count;
	uint16_t arguments[ARGUMENTS_MAX]; /* template arguments of the innermost encoding */
	size_t argument_count;
	bool is_in_lambda;   /* T_ is a parameter declared auto */
	bool has_template;   /* the last name ended with template arguments */
	bool is_unreturning; /* the last name was a constructor, destructor or conversion */
	uint8_t name_flags;  /* qualifiers of a member function */
};

/* Each returns a node, or 0 for unsupported input; then the whole name is left unchanged. */
uint16_t parse_type(struct parser *parser);
uint16_t parse_name(struct parser *parser, bool is_encoding);
uint16_t parse_encoding(struct parser *parser);
uint16_t parse_expression(struct parser *parser);
uint16_t parse_template_args(struct parser *parser, bool is_encoding);
uint16_t parse_source_name(struct parser *parser);
uint16_t parse_unqualified(struct parser *parser, uint16_t scope);
uint16_t parse_substitution(struct parser *parser);
uint16_t parse_template_param(struct parser *parser);
uint16_t parse_decltype(struct parser *parser);
uint8_t parse_qualifiers(struct parser *parser);
/* Types until 'E'; a single "void" means no parameters. False: unsupported. */
bool parse_parameters(struct parser *parser, uint16_t *list);

struct operator_name {
	char code[3];
	uint8_t operands; /* in expressions: 1, 2; 0: not an expression */
	const char *name;
};

/* The operator at this position, or NULL. */
const struct operator_name *find_operator(const struct parser *parser);

/* ------------------------------------------------------------------ bytes and nodes */

static inline char peek(const struct parser *parser, size_t ahead)
{
	return (size_t)(parser->end - parser->at) > ahead ? parser->at[ahead] : '\0';
}

static inline bool take(struct parser *parser, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, text, length) != 0)
		return false;
	parser->at += length;
	return true;
}

static inline bool enter(struct parser *parser)
{
	if (parser->depth >= DEMANGLE_DEPTH_MAX)
		return false;
	parser->depth++;
	return true;
}

static inline uint16_t leave(struct parser *parser, uint16_t node)
{
	parser->depth--;
	return node;
}

static inline uint16_t new_node(struct parser *parser, enum node_kind kind, uint16_t a, uint16_t b)
{
	struct demangle_tree *tree = parser->tree;

	if (tree->count >= DEMANGLE_NODES_MAX)
		return 0;
	tree->nodes[tree->count] = (struct demangle_node){.kind = (uint8_t)kind, .a = a, .b = b};
	return (uint16_t)tree->count++;
}

/* A function's node; `list` has its parameters. */
static inline uint16_t function_node(struct parser *parser, enum node_kind kind, uint16_t a,
				     uint16_t b, uint16_t list, uint8_t flags)
{
	uint16_t node = new_node(parser, kind, a, b);

	parser->tree->nodes[node].c = node ? list : 0;
	parser->tree->nodes[node].flags = node ? flags : 0;
	return node;
}

/* A node with one required part. */
static inline uint16_t wrap(struct parser *parser, enum node_kind kind, uint16_t a)
{
	return a ? new_node(parser, kind, a, 0) : 0;
}

static inline uint16_t with_text(struct parser *parser, enum node_kind kind, const char *text,
				 size_t length, uint16_t a)
{
	uint16_t node = new_node(parser, kind, a, 0);

	if (node) {
		parser->tree->nodes[node].text = text;
		parser->tree->nodes[node].length = (uint32_t)length;
	}
	return node;
}

/* The text and one required part. */
static inline uint16_t around(struct parser *parser, enum node_kind kind, const char *text,
			      uint16_t a)
{
	return a ? with_text(parser, kind, text, strlen(text), a) : 0;
}

static inline uint16_t text_node(struct parser *parser, const char *text)
{
	return with_text(parser, NODE_TEXT, text, strlen(text), 0);
}

static inline uint16_t remember(struct parser *parser, uint16_t node)
{
	if (!node || parser->substitution_count >= SUBSTITUTIONS_MAX)
		return 0;
	parser->substitutions[parser->substitution_count++] = node;
	return node;
}

/* Appends `item` to a list with last element *tail (0: empty list); false: tree full. */
static inline bool append(struct parser *parser, uint16_t *head, uint16_t *tail, uint16_t item)
{
	uint16_t element = item ? new_node(parser, NODE_LIST, item, 0) : 0;

	if (!element)
		return false;
	if (*tail)
		parser->tree->nodes[*tail].b = element;
	else
		*head = element;
	*tail = element;
	return true;
}

/* The name, with the template arguments that follow it, if any. */
static inline uint16_t with_arguments(struct parser *parser, uint16_t name, bool is_encoding)
{
	if (!name || peek(parser, 0) != 'I')
		return name;
	uint16_t arguments = parse_template_args(parser, is_encoding);
	return arguments ? new_node(parser, NODE_TEMPLATE, name, arguments) : 0;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool parse_number(struct parser *parser, uint32_t *number)
{
	uint64_t value = 0;

	if (!is_digit(peek(parser, 0)))
		return false;
	while (is_digit(peek(parser, 0)) && value < UINT32_MAX)
		value = value * 10 + (uint64_t)(*parser->at++ - '0');
	*number = (uint32_t)value;
	return value < UINT32_MAX;
}

/* "_" is 0, "0_" is 1, ...; base 36 with capitals for S, base 10 for the others. */
static inline bool parse_sequence(struct parser *parser, unsigned base, size_t *index)
{
	uint64_t value = 0;
	bool has_digits = false;

	for (;; parser->at++) {
		char c = peek(parser, 0);

		if (is_digit(c))
			value = value * base + (uint64_t)(c - '0');
		else if (base == 36 && c >= 'A' && c <= 'Z')
			value = value * base + (uint64_t)(c - 'A') + 10;
		else
			break;
		has_digits = true;
		if (value > UINT16_MAX)
			return false;
	}
	*index = has_digits ? (size_t)value + 1 : 0;
	return take(parser, "_");
}
