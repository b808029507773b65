/* Demangling: expressions in mangled names. */
#include "symbol/demangle_parser.h"

/* ------------------------------------------------------------------ expressions */

/* Skips digits; floating-point numbers are hexadecimal, and complex numbers have two parts. */
static void skip_value(struct parser *parser)
{
	char c = peek(parser, 0);

	while (is_digit(c) || (c >= 'a' && c <= 'f') || c == '_') {
		parser->at++;
		c = peek(parser, 0);
	}
}

static uint16_t parse_literal(struct parser *parser)
{
	/* Null pointers, strings and lambdas have no value. */
	char first = peek(parser, 1);
	bool may_be_empty = first == 'D' || first == 'A' || first == 'U';
	const char *start;
	uint16_t type;
	uint16_t node;
	bool is_negative;

	parser->at++; /* L */
	if (take(parser, "_Z")) {
		node = parse_encoding(parser);
		return node && take(parser, "E") ? node : 0;
	}
	type = parse_type(parser);
	if (!type)
		return 0;
	is_negative = take(parser, "n");
	start = parser->at;
	skip_value(parser);
	if (parser->at == start && (is_negative || !may_be_empty))
		return 0;
	node = with_text(parser, NODE_LITERAL, start, (size_t)(parser->at - start), type);
	if (node && is_negative)
		parser->tree->nodes[node].flags = FLAG_NEGATIVE;
	return take(parser, "E") ? node : 0;
}

static bool parse_expressions(struct parser *parser, uint16_t *list)
{
	uint16_t tail = 0;

	*list = 0;
	while (!take(parser, "E"))
		if (!append(parser, list, &tail, parse_expression(parser)))
			return false;
	return true;
}

static uint16_t parse_wrapped(struct parser *parser, const char *name, bool is_type)
{
	uint16_t inner = is_type ? parse_type(parser) : parse_expression(parser);

	return inner ? with_text(parser, NODE_WRAP, name, strlen(name), inner) : 0;
}

/* sr: a name in a type, optionally with template arguments */
static uint16_t parse_scoped(struct parser *parser)
{
	uint16_t scope;
	uint16_t name;

	parser->at += 2;
	if (take(parser, "N"))
		return 0; /* the form with several qualifiers is too rare */
	scope = parse_type(parser);
	name = scope ? parse_unqualified(parser, 0) : 0;
	name = name ? new_node(parser, NODE_NESTED, scope, name) : 0;
	return with_arguments(parser, name, false);
}

static uint16_t parse_function_param(struct parser *parser)
{
	uint32_t ignored;
	const char *start = parser->at;

	parser->at += 2; /* fp; fL has a level */
	parse_qualifiers(parser);
	parse_number(parser, &ignored);
	return take(parser, "_") ? with_text(parser, NODE_WRAP, "parm", 4,
					     with_text(parser, NODE_TEXT, start, 2, 0))
				 : 0;
}

static uint16_t parse_cast(struct parser *parser)
{
	uint16_t type;
	uint16_t value;

	parser->at += 2;
	type = parse_type(parser);
	if (take(parser, "_")) {
		if (!type || !parse_expressions(parser, &value))
			return 0;
		return new_node(parser, NODE_CALL, type, value);
	}
	value = type ? parse_expression(parser) : 0;
	return value ? new_node(parser, NODE_CAST, type, value) : 0;
}

static uint16_t parse_operation(struct parser *parser)
{
	const struct operator_name *found = find_operator(parser);
	uint16_t a;
	uint16_t b;
	uint16_t node;

	if (!found || found->operands == 0)
		return 0;
	parser->at += 2;
	take(parser, "_"); /* prefix ++ and -- */
	a = parse_expression(parser);
	b = a && found->operands == 2 ? parse_expression(parser) : 0;
	if (!a || (found->operands == 2 && !b))
		return 0;
	node = with_text(parser, found->operands == 2 ? NODE_BINARY : NODE_UNARY, found->name,
			 strlen(found->name), a);
	parser->tree->nodes[node].b = node ? b : 0;
	return node;
}

static bool begins_with(const struct parser *parser, const char *code)
{
	return peek(parser, 0) == code[0] && peek(parser, 1) == code[1];
}

static uint16_t parse_expression_inside(struct parser *parser)
{
	static const struct {
		const char *code, *name;
		bool is_type;
	} wrapped[] = {{"st", "sizeof ", true},
		       {"sz", "sizeof ", false},
		       {"at", "alignof ", true},
		       {"sZ", "sizeof...", false},
		       {"nx", "noexcept ", false}};
	uint16_t a;
	uint16_t list;

	if (peek(parser, 0) == 'L')
		return parse_literal(parser);
	if (peek(parser, 0) == 'T')
		return parse_template_param(parser);
	if (begins_with(parser, "fp") && peek(parser, 2) != 'T')
		return parse_function_param(parser);
	if (begins_with(parser, "sr"))
		return parse_scoped(parser);
	if (begins_with(parser, "cv"))
		return parse_cast(parser);
	if (take(parser, "cl")) {
		a = parse_expression(parser);
		return a && parse_expressions(parser, &list) ? new_node(parser, NODE_CALL, a, list)
							     : 0;
	}
	if (take(parser, "tl")) {
		a = parse_type(parser);
		return a && parse_expressions(parser, &list)
			       ? new_node(parser, NODE_BRACES, a, list)
			       : 0;
	}
	if (take(parser, "il"))
		return parse_expressions(parser, &list) ? new_node(parser, NODE_BRACES, 0, list)
							: 0;
	for (size_t i = 0; i < sizeof(wrapped) / sizeof(wrapped[0]); i++)
		if (take(parser, wrapped[i].code))
			return parse_wrapped(parser, wrapped[i].name, wrapped[i].is_type);
	if (take(parser, "sp"))
		return wrap(parser, NODE_EXPANSION, parse_expression(parser));
	if (is_digit(peek(parser, 0)) || begins_with(parser, "on")) {
		take(parser, "on");
		return with_arguments(parser, parse_unqualified(parser, 0), false);
	}
	return parse_operation(parser);
}

uint16_t parse_expression(struct parser *parser)
{
	return enter(parser) ? leave(parser, parse_expression_inside(parser)) : 0;
}
