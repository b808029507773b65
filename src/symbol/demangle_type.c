/* Demangling: types and expressions in mangled names. */
#include "symbol/demangle_parser.h"

/* ------------------------------------------------------------------ types */

static const char *builtin_name(char code)
{
	static const char *const names[26] = {
		['a' - 'a'] = "signed char", ['b' - 'a'] = "bool",
		['c' - 'a'] = "char",        ['d' - 'a'] = "double",
		['e' - 'a'] = "long double", ['f' - 'a'] = "float",
		['g' - 'a'] = "__float128",  ['h' - 'a'] = "unsigned char",
		['i' - 'a'] = "int",         ['j' - 'a'] = "unsigned int",
		['l' - 'a'] = "long",        ['m' - 'a'] = "unsigned long",
		['n' - 'a'] = "__int128",    ['o' - 'a'] = "unsigned __int128",
		['s' - 'a'] = "short",       ['t' - 'a'] = "unsigned short",
		['v' - 'a'] = "void",        ['w' - 'a'] = "wchar_t",
		['x' - 'a'] = "long long",   ['y' - 'a'] = "unsigned long long",
		['z' - 'a'] = "...",
	};

	return code >= 'a' && code <= 'z' ? names[code - 'a'] : NULL;
}

static uint16_t parse_signature(struct parser *parser, uint8_t flags)
{
	uint16_t list;

	parser->at++; /* F */
	take(parser, "Y");
	uint16_t result = parse_type(parser);
	if (!result || !parse_parameters(parser, &list))
		return 0;
	if (take(parser, "R"))
		flags |= FLAG_LVALUE;
	else if (take(parser, "O"))
		flags |= FLAG_RVALUE;
	if (!take(parser, "E"))
		return 0;
	return function_node(parser, NODE_SIGNATURE, result, 0, list, flags);
}

/* A dimension: digits, an expression, or empty; then '_'. */
static bool parse_dimension(struct parser *parser, uint16_t *dimension)
{
	const char *start = parser->at;

	*dimension = 0;
	if (is_digit(peek(parser, 0))) {
		while (is_digit(peek(parser, 0)))
			parser->at++;
		*dimension = with_text(parser, NODE_TEXT, start, (size_t)(parser->at - start), 0);
		if (!*dimension)
			return false;
	} else if (peek(parser, 0) != '_') {
		*dimension = parse_expression(parser);
		if (!*dimension)
			return false;
	}
	return take(parser, "_");
}

static uint16_t parse_d_type(struct parser *parser, bool *is_builtin)
{
	static const struct {
		char code;
		const char *name;
	} known[] = {
		{'a', "auto"},       {'c', "decltype(auto)"},    {'d', "decimal64"},
		{'e', "decimal128"}, {'f', "decimal32"},         {'h', "half"},
		{'i', "char32_t"},   {'n', "decltype(nullptr)"}, {'s', "char16_t"},
		{'u', "char8_t"},
	};
	char c = peek(parser, 1);
	uint16_t dimension, node;
	uint32_t bits;

	*is_builtin = false;
	switch (c) {
	case 't':
	case 'T':
		return parse_decltype(parser);
	case 'p':
		parser->at += 2;
		return wrap(parser, NODE_EXPANSION, parse_type(parser));
	case 'o':
		parser->at += 2;
		return peek(parser, 0) == 'F' ? parse_signature(parser, FLAG_NOEXCEPT) : 0;
	case 'v':
		parser->at += 2;
		if (!parse_dimension(parser, &dimension))
			return 0;
		node = parse_type(parser);
		return node ? new_node(parser, NODE_VECTOR, node, dimension) : 0;
	case 'F':
		parser->at += 2;
		*is_builtin = true;
		if (!parse_number(parser, &bits))
			return 0;
		if (take(parser, "b"))
			return bits == 16 ? text_node(parser, "std::bfloat16_t") : 0;
		return take(parser, "_") ? text_node(parser, bits == 16   ? "_Float16"
							     : bits == 32 ? "_Float32"
									  : "_Float64")
					 : 0;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].code == c) {
			parser->at += 2;
			*is_builtin = true;
			return text_node(parser, known[i].name);
		}
	}
	return 0;
}

static uint16_t parse_qualified(struct parser *parser)
{
	uint8_t flags = parse_qualifiers(parser);

	if (peek(parser, 0) == 'F') /* qualifiers of the member function itself */
		return parse_signature(parser, flags);
	uint16_t inner = parse_type(parser);
	uint16_t node = wrap(parser, NODE_QUALIFIED, inner);
	if (node)
		parser->tree->nodes[node].flags = flags;
	return node;
}

static uint16_t parse_vendor(struct parser *parser)
{
	parser->at++; /* U */
	uint16_t name = parse_source_name(parser);
	if (name && peek(parser, 0) == 'I' && !parse_template_args(parser, false))
		return 0;
	uint16_t node = name ? wrap(parser, NODE_SUFFIXED, parse_type(parser)) : 0;
	if (node) {
		parser->tree->nodes[node].text = parser->tree->nodes[name].text;
		parser->tree->nodes[node].length = parser->tree->nodes[name].length;
	}
	return node;
}

static uint16_t parse_array(struct parser *parser)
{
	uint16_t dimension;

	parser->at++; /* A */
	if (!parse_dimension(parser, &dimension))
		return 0;
	uint16_t element = parse_type(parser);
	return element ? new_node(parser, NODE_ARRAY, element, dimension) : 0;
}

static uint16_t parse_member(struct parser *parser)
{
	parser->at++; /* M */
	uint16_t owner = parse_type(parser);
	uint16_t type = owner ? parse_type(parser) : 0;
	return type ? new_node(parser, NODE_MEMBER, owner, type) : 0;
}

/* A type that may have template arguments after it. */
static uint16_t parse_param_type(struct parser *parser)
{
	uint16_t node = parse_template_param(parser);

	if (node && peek(parser, 0) == 'I' && !remember(parser, node))
		return 0;
	return with_arguments(parser, node, false);
}

static uint16_t parse_type_after(struct parser *parser, enum node_kind kind)
{
	parser->at++;
	return wrap(parser, kind, parse_type(parser));
}

/* is_known: the type is not a substitution candidate. */
static uint16_t parse_type_inside(struct parser *parser, bool *is_known)
{
	const char *builtin = builtin_name(peek(parser, 0));
	char c = peek(parser, 0);
	uint16_t node;

	*is_known = false;
	if (c == 'r' || c == 'V' || c == 'K')
		return parse_qualified(parser);
	if (builtin) {
		parser->at++;
		*is_known = true;
		return text_node(parser, builtin);
	}
	switch (c) {
	case 'u':
		parser->at++;
		return parse_source_name(parser);
	case 'P':
		return parse_type_after(parser, NODE_POINTER);
	case 'R':
		return parse_type_after(parser, NODE_REFERENCE);
	case 'O':
		return parse_type_after(parser, NODE_RVALUE);
	case 'C':
	case 'G':
		parser->at++;
		return around(parser, NODE_SUFFIXED, c == 'C' ? "_Complex" : "_Imaginary",
			      parse_type(parser));
	case 'A':
		return parse_array(parser);
	case 'F':
		return parse_signature(parser, 0);
	case 'M':
		return parse_member(parser);
	case 'T':
		return parse_param_type(parser);
	case 'U':
		return parse_vendor(parser);
	case 'D':
		return parse_d_type(parser, is_known);
	case 'S':
		if (peek(parser, 1) == 't')
			return parse_name(parser, false);
		node = parse_substitution(parser);
		*is_known = peek(parser, 0) != 'I';
		return with_arguments(parser, node, false);
	default:
		return parse_name(parser, false);
	}
}

uint16_t parse_type(struct parser *parser)
{
	bool is_known;

	if (!enter(parser))
		return 0;
	uint16_t node = parse_type_inside(parser, &is_known);
	parser->depth--;
	return node && !is_known ? remember(parser, node) : node;
}

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
	uint16_t node;

	parser->at++; /* L */
	if (take(parser, "_Z")) {
		node = parse_encoding(parser);
		return node && take(parser, "E") ? node : 0;
	}
	uint16_t type = parse_type(parser);
	if (!type)
		return 0;
	bool is_negative = take(parser, "n");
	const char *start = parser->at;
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

/* sr: a name in a type, optionally with template arguments */
static uint16_t parse_scoped(struct parser *parser)
{
	parser->at += 2;
	if (take(parser, "N"))
		return 0; /* the form with several qualifiers is too rare */
	uint16_t scope = parse_type(parser);
	uint16_t name = scope ? parse_unqualified(parser, 0) : 0;
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
	uint16_t value;

	parser->at += 2;
	uint16_t type = parse_type(parser);
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

	if (!found || found->operands == 0)
		return 0;
	parser->at += 2;
	take(parser, "_"); /* prefix ++ and -- */
	uint16_t a = parse_expression(parser);
	uint16_t b = a && found->operands == 2 ? parse_expression(parser) : 0;
	if (!a || (found->operands == 2 && !b))
		return 0;
	uint16_t node = with_text(parser, found->operands == 2 ? NODE_BINARY : NODE_UNARY,
				  found->name, strlen(found->name), a);
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
	uint16_t a, list;

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
			return around(parser, NODE_WRAP, wrapped[i].name,
				      wrapped[i].is_type ? parse_type(parser)
							 : parse_expression(parser));
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
