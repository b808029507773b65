/*
 * The parser of mangled names: recursive descent over the ABI's grammar, with a limit on its depth.
 * A function returns a node, or 0 for what it does not understand; then the whole name is given up.
 */
#include <string.h>

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
	uint16_t arguments[ARGUMENTS_MAX]; /* of the innermost encoding's template */
	size_t argument_count;
	bool is_in_lambda;   /* T_ is a parameter declared auto */
	bool has_template;   /* the last name ended with template arguments */
	bool is_unreturning; /* the last name was a constructor, destructor or conversion */
	uint8_t name_flags;  /* qualifiers of a member function */
};

static uint16_t parse_type(struct parser *parser);
static uint16_t parse_name(struct parser *parser, bool is_encoding);
static uint16_t parse_encoding(struct parser *parser);
static uint16_t parse_expression(struct parser *parser);
static uint16_t parse_template_args(struct parser *parser, bool is_encoding);

/* ------------------------------------------------------------------ bytes and nodes */

static char peek(const struct parser *parser, size_t ahead)
{
	return (size_t)(parser->end - parser->at) > ahead ? parser->at[ahead] : '\0';
}

static bool take(struct parser *parser, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, text, length) != 0)
		return false;
	parser->at += length;
	return true;
}

static bool enter(struct parser *parser)
{
	if (parser->depth >= DEMANGLE_DEPTH_MAX)
		return false;
	parser->depth++;
	return true;
}

static uint16_t leave(struct parser *parser, uint16_t node)
{
	parser->depth--;
	return node;
}

static uint16_t new_node(struct parser *parser, enum node_kind kind, uint16_t a, uint16_t b)
{
	struct demangle_tree *tree = parser->tree;

	if (tree->count >= DEMANGLE_NODES_MAX)
		return 0;
	tree->nodes[tree->count] = (struct demangle_node){.kind = (uint8_t)kind, .a = a, .b = b};
	return (uint16_t)tree->count++;
}

/* A node of one part that must be there. */
static uint16_t wrap(struct parser *parser, enum node_kind kind, uint16_t a)
{
	return a ? new_node(parser, kind, a, 0) : 0;
}

static uint16_t with_text(struct parser *parser, enum node_kind kind, const char *text,
			  size_t length, uint16_t a)
{
	uint16_t node = new_node(parser, kind, a, 0);

	if (node) {
		parser->tree->nodes[node].text = text;
		parser->tree->nodes[node].length = (uint32_t)length;
	}
	return node;
}

static uint16_t text_node(struct parser *parser, const char *text)
{
	return with_text(parser, NODE_TEXT, text, strlen(text), 0);
}

static uint16_t remember(struct parser *parser, uint16_t node)
{
	if (!node || parser->substitution_count >= SUBSTITUTIONS_MAX)
		return 0;
	parser->substitutions[parser->substitution_count++] = node;
	return node;
}

/* Puts `item` at the end of a list whose last element is *tail (0: empty); false: no room. */
static bool append(struct parser *parser, uint16_t *head, uint16_t *tail, uint16_t item)
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

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool parse_number(struct parser *parser, uint32_t *number)
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
static bool parse_sequence(struct parser *parser, unsigned base, size_t *index)
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

/* ------------------------------------------------------------------ names */

static uint16_t parse_source_name(struct parser *parser)
{
	static const char anonymous[] = "_GLOBAL__N";
	uint32_t length;
	const char *text;

	if (!parse_number(parser, &length) || length == 0 ||
	    (size_t)(parser->end - parser->at) < length)
		return 0;
	text = parser->at;
	parser->at += length;
	if (length >= sizeof(anonymous) - 1 && memcmp(text, anonymous, sizeof(anonymous) - 1) == 0)
		return text_node(parser, "(anonymous namespace)");
	return with_text(parser, NODE_TEXT, text, length, 0);
}

struct operator_name {
	char code[3];
	uint8_t operands; /* in expressions: 1, 2; 0: none of them */
	const char *name;
};

static const struct operator_name operators[] = {
	{"aN", 2, "&="},     {"aS", 2, "="},         {"aa", 2, "&&"},  {"ad", 1, "&"},
	{"an", 2, "&"},      {"cl", 0, "()"},        {"cm", 2, ","},   {"co", 1, "~"},
	{"dV", 2, "/="},     {"da", 1, " delete[]"}, {"de", 1, "*"},   {"dl", 1, " delete"},
	{"dv", 2, "/"},      {"eO", 2, "^="},        {"eo", 2, "^"},   {"eq", 2, "=="},
	{"ge", 2, ">="},     {"gt", 2, ">"},         {"ix", 2, "[]"},  {"lS", 2, "<<="},
	{"le", 2, "<="},     {"ls", 2, "<<"},        {"lt", 2, "<"},   {"mI", 2, "-="},
	{"mL", 2, "*="},     {"mi", 2, "-"},         {"ml", 2, "*"},   {"mm", 1, "--"},
	{"na", 0, " new[]"}, {"ne", 2, "!="},        {"ng", 1, "-"},   {"nt", 1, "!"},
	{"nw", 0, " new"},   {"oR", 2, "|="},        {"oo", 2, "||"},  {"or", 2, "|"},
	{"pL", 2, "+="},     {"pl", 2, "+"},         {"pm", 2, "->*"}, {"pp", 1, "++"},
	{"ps", 1, "+"},      {"pt", 2, "->"},        {"qu", 0, "?"},   {"rM", 2, "%="},
	{"rS", 2, ">>="},    {"rm", 2, "%"},         {"rs", 2, ">>"},  {"ss", 2, "<=>"},
};

static const struct operator_name *find_operator(const struct parser *parser)
{
	char first = peek(parser, 0);
	char second = peek(parser, 1);

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		if (operators[i].code[0] == first && operators[i].code[1] == second)
			return &operators[i];
	}
	return NULL;
}

static uint16_t parse_operator(struct parser *parser)
{
	const struct operator_name *found;

	if (take(parser, "cv")) {
		parser->is_unreturning = true;
		return wrap(parser, NODE_CONVERSION, parse_type(parser));
	}
	if (take(parser, "li"))
		return with_text(parser, NODE_SPECIAL, "operator\"\" ", 11,
				 parse_source_name(parser));
	found = find_operator(parser);
	if (!found)
		return 0;
	parser->at += 2;
	return with_text(parser, NODE_SPECIAL, "operator", 8, text_node(parser, found->name));
}

/* Types until 'E'; a single "void" is no parameter. */
static bool parse_parameters(struct parser *parser, uint16_t *list)
{
	uint16_t tail = 0;

	*list = 0;
	if (peek(parser, 0) == 'v' &&
	    (peek(parser, 1) == 'E' || peek(parser, 1) == '\0' || peek(parser, 1) == '.')) {
		parser->at++;
		return true;
	}
	while (parser->at < parser->end && peek(parser, 0) != 'E' && peek(parser, 0) != '.') {
		/* A reference qualifier of a function type ends its parameters. */
		if ((peek(parser, 0) == 'R' || peek(parser, 0) == 'O') && peek(parser, 1) == 'E')
			break;
		if (!append(parser, list, &tail, parse_type(parser)))
			return false;
	}
	return true;
}

/* Ul <parameters> E [number] _  or  Ut [number] _ */
static uint16_t parse_unnamed(struct parser *parser)
{
	uint16_t node = new_node(parser, NODE_UNNAMED, 0, 0);
	bool was_in_lambda = parser->is_in_lambda;
	uint16_t list = 0;
	size_t index;

	if (!node)
		return 0;
	if (take(parser, "Ul")) {
		parser->is_in_lambda = true;
		if (!parse_parameters(parser, &list) || !take(parser, "E"))
			return 0;
		parser->is_in_lambda = was_in_lambda;
		parser->tree->nodes[node].kind = NODE_LAMBDA;
		parser->tree->nodes[node].a = list;
	} else if (!take(parser, "Ut")) {
		return 0;
	}
	if (!parse_sequence(parser, 10, &index))
		return 0;
	parser->tree->nodes[node].number = (uint32_t)index + 1;
	return node;
}

static uint16_t parse_tags(struct parser *parser, uint16_t node)
{
	while (node && take(parser, "B")) {
		uint16_t tag = parse_source_name(parser);

		node = tag ? new_node(parser, NODE_TAGGED, node, tag) : 0;
	}
	return node;
}

/* `scope`: what a constructor is named after, or 0. */
static uint16_t parse_unqualified(struct parser *parser, uint16_t scope)
{
	char c = peek(parser, 0);
	uint16_t node = 0;

	parser->is_unreturning = false;
	if (c == 'L') { /* internal linkage */
		parser->at++;
		c = peek(parser, 0);
	}
	if (is_digit(c)) {
		node = parse_source_name(parser);
	} else if (c == 'U') {
		node = parse_unnamed(parser);
	} else if (scope && (c == 'C' || c == 'D') && is_digit(peek(parser, 1))) {
		parser->at += 2;
		parser->is_unreturning = true;
		node = wrap(parser, c == 'C' ? NODE_CTOR : NODE_DTOR, scope);
	} else if (c >= 'a' && c <= 'z') {
		node = parse_operator(parser);
	}
	return parse_tags(parser, node);
}

/* S_, S0_, ..., or an abbreviation; *is_new_out: it is no substitution by itself yet. */
static uint16_t parse_substitution(struct parser *parser)
{
	static const struct {
		char code;
		const char *name;
	} known[] = {
		{'a', "std::allocator"}, {'b', "std::basic_string"}, {'s', "std::string"},
		{'i', "std::istream"},   {'o', "std::ostream"},      {'d', "std::iostream"},
	};
	size_t index;

	if (!take(parser, "S"))
		return 0;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (peek(parser, 0) == known[i].code) {
			parser->at++;
			return parse_tags(parser, text_node(parser, known[i].name));
		}
	}
	if (!parse_sequence(parser, 36, &index) || index >= parser->substitution_count)
		return 0;
	return parser->substitutions[index];
}

/* T_, T0_, ...: an argument of the innermost template. */
static uint16_t parse_template_param(struct parser *parser)
{
	static const char *const autos[] = {"auto:1", "auto:2", "auto:3", "auto:4",
					    "auto:5", "auto:6", "auto:7", "auto:8"};
	size_t index;
	uint16_t found;

	if (!take(parser, "T") || !parse_sequence(parser, 10, &index))
		return 0;
	if (parser->is_in_lambda)
		return index < 8 ? text_node(parser, autos[index]) : 0;
	if (index >= parser->argument_count)
		return 0;
	found = parser->arguments[index];
	return parser->tree->nodes[found].kind == NODE_PACK
		       ? new_node(parser, NODE_PARAMETER, found, 0)
		       : found;
}

static uint16_t parse_decltype(struct parser *parser)
{
	uint16_t expression;

	parser->at += 2; /* Dt, DT */
	expression = parse_expression(parser);
	if (!expression || !take(parser, "E"))
		return 0;
	return with_text(parser, NODE_WRAP, "decltype", 8, expression);
}

static uint8_t parse_qualifiers(struct parser *parser)
{
	uint8_t flags = 0;

	if (take(parser, "r"))
		flags |= FLAG_RESTRICT;
	if (take(parser, "V"))
		flags |= FLAG_VOLATILE;
	if (take(parser, "K"))
		flags |= FLAG_CONST;
	return flags;
}

static uint16_t join(struct parser *parser, uint16_t scope, uint16_t name)
{
	return scope && name ? new_node(parser, NODE_NESTED, scope, name) : name;
}

/* One part of a nested name after what `scope` has of it. */
static uint16_t parse_component(struct parser *parser, uint16_t scope, bool is_encoding)
{
	char c = peek(parser, 0);
	char next = peek(parser, 1);
	uint16_t args;

	if (c == 'I') {
		args = scope ? parse_template_args(parser, is_encoding) : 0;
		return args ? new_node(parser, NODE_TEMPLATE, scope, args) : 0;
	}
	if (c == 'S' && next == 't' && !scope) {
		parser->at += 2;
		return text_node(parser, "std");
	}
	if (c == 'S' && !scope)
		return parse_substitution(parser);
	if (c == 'T' && !scope)
		return parse_template_param(parser);
	if (c == 'D' && (next == 't' || next == 'T') && !scope)
		return parse_decltype(parser);
	return join(parser, scope, parse_unqualified(parser, scope));
}

static uint16_t parse_nested(struct parser *parser, bool is_encoding)
{
	uint8_t flags;
	uint16_t node = 0;
	bool has_template = false;

	parser->at++; /* N */
	flags = parse_qualifiers(parser);
	if (take(parser, "R"))
		flags |= FLAG_LVALUE;
	else if (take(parser, "O"))
		flags |= FLAG_RVALUE;
	while (!take(parser, "E")) {
		char c = peek(parser, 0);
		/* These two are no candidates for substitutions: they are ones, or too short. */
		bool is_known = c == 'S' && !node;

		take(parser, "M"); /* a member's initializer around a lambda: says nothing */
		has_template = peek(parser, 0) == 'I';
		node = parse_component(parser, node, is_encoding);
		if (!node || (peek(parser, 0) != 'E' && !is_known && !remember(parser, node)))
			return 0;
	}
	if (!node)
		return 0;
	parser->name_flags = flags;
	parser->has_template = has_template;
	return node;
}

/* Z encoding E name, where names of one kind in one function are numbered */
static uint16_t parse_local(struct parser *parser, bool is_encoding)
{
	uint16_t encoding;
	uint16_t name;
	uint32_t ignored;

	parser->at++; /* Z */
	encoding = parse_encoding(parser);
	if (!encoding || !take(parser, "E"))
		return 0;
	if (take(parser, "s")) {
		name = text_node(parser, "string literal");
	} else {
		if (take(parser, "d")) {
			parse_number(parser, &ignored);
			if (!take(parser, "_"))
				return 0;
		}
		name = parse_name(parser, is_encoding);
	}
	if (take(parser, "__")) {
		if (!parse_number(parser, &ignored) || !take(parser, "_"))
			return 0;
	} else if (peek(parser, 0) == '_' && is_digit(peek(parser, 1))) {
		parser->at += 2;
	}
	return name ? new_node(parser, NODE_LOCAL, encoding, name) : 0;
}

static uint16_t parse_name_inside(struct parser *parser, bool is_encoding)
{
	char c = peek(parser, 0);
	uint16_t node;
	bool is_substitution = false;

	parser->has_template = false;
	parser->name_flags = 0;
	if (c == 'N')
		return parse_nested(parser, is_encoding);
	if (c == 'Z')
		return parse_local(parser, is_encoding);
	if (c == 'S' && peek(parser, 1) == 't') {
		parser->at += 2;
		node = text_node(parser, "std");
		node = node ? join(parser, node, parse_unqualified(parser, 0)) : 0;
		if (node && parser->tree->nodes[node].kind != NODE_NESTED)
			return 0;
	} else if (c == 'S') {
		node = parse_substitution(parser);
		is_substitution = true;
		if (peek(parser, 0) != 'I')
			return 0;
	} else {
		node = parse_unqualified(parser, 0);
	}
	if (node && peek(parser, 0) == 'I') {
		uint16_t args;

		if (!is_substitution && !remember(parser, node))
			return 0;
		args = parse_template_args(parser, is_encoding);
		parser->has_template = true;
		parser->name_flags = 0;
		return args ? new_node(parser, NODE_TEMPLATE, node, args) : 0;
	}
	return node;
}

static uint16_t parse_name(struct parser *parser, bool is_encoding)
{
	return enter(parser) ? leave(parser, parse_name_inside(parser, is_encoding)) : 0;
}

/* ------------------------------------------------------------------ template arguments */

static uint16_t parse_argument(struct parser *parser)
{
	uint16_t node;
	uint16_t head = 0;
	uint16_t tail = 0;

	switch (peek(parser, 0)) {
	case 'X':
		parser->at++;
		node = parse_expression(parser);
		return node && take(parser, "E") ? node : 0;
	case 'L':
		return parse_expression(parser);
	case 'J':
		parser->at++;
		while (!take(parser, "E")) {
			if (!enter(parser))
				return 0;
			if (!append(parser, &head, &tail, leave(parser, parse_argument(parser))))
				return 0;
		}
		return new_node(parser, NODE_PACK, head, 0);
	default:
		return parse_type(parser);
	}
}

/* The list's first element; an empty list is an element without an item. */
static uint16_t parse_template_args(struct parser *parser, bool is_encoding)
{
	bool is_unreturning = parser->is_unreturning; /* names among the arguments are others */
	uint16_t head = 0;
	uint16_t tail = 0;

	if (!take(parser, "I"))
		return 0;
	if (is_encoding)
		parser->argument_count = 0;
	while (!take(parser, "E")) {
		uint16_t item = parse_argument(parser);

		if (!append(parser, &head, &tail, item))
			return 0;
		if (!is_encoding)
			continue;
		if (parser->argument_count >= ARGUMENTS_MAX)
			return 0;
		parser->arguments[parser->argument_count++] = item;
	}
	parser->is_unreturning = is_unreturning;
	return head ? head : new_node(parser, NODE_LIST, 0, 0);
}

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
	uint16_t result;
	uint16_t node;
	uint16_t list;

	parser->at++; /* F */
	take(parser, "Y");
	result = parse_type(parser);
	if (!result || !parse_parameters(parser, &list))
		return 0;
	if (take(parser, "R"))
		flags |= FLAG_LVALUE;
	else if (take(parser, "O"))
		flags |= FLAG_RVALUE;
	if (!take(parser, "E"))
		return 0;
	node = new_node(parser, NODE_SIGNATURE, result, 0);
	if (node) {
		parser->tree->nodes[node].c = list;
		parser->tree->nodes[node].flags = flags;
	}
	return node;
}

/* A dimension: digits, or an expression, or nothing; then '_'. */
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
	uint16_t dimension;
	uint16_t node;
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
	uint16_t inner;
	uint16_t node;

	if (peek(parser, 0) == 'F') /* a member function's own qualifiers */
		return parse_signature(parser, flags);
	inner = parse_type(parser);
	node = wrap(parser, NODE_QUALIFIED, inner);
	if (node)
		parser->tree->nodes[node].flags = flags;
	return node;
}

static uint16_t parse_vendor(struct parser *parser)
{
	uint16_t name;
	uint16_t node;

	parser->at++; /* U */
	name = parse_source_name(parser);
	if (name && peek(parser, 0) == 'I' && !parse_template_args(parser, false))
		return 0;
	node = name ? wrap(parser, NODE_SUFFIXED, parse_type(parser)) : 0;
	if (node) {
		parser->tree->nodes[node].text = parser->tree->nodes[name].text;
		parser->tree->nodes[node].length = parser->tree->nodes[name].length;
	}
	return node;
}

static uint16_t parse_array(struct parser *parser)
{
	uint16_t dimension;
	uint16_t element;

	parser->at++; /* A */
	if (!parse_dimension(parser, &dimension))
		return 0;
	element = parse_type(parser);
	return element ? new_node(parser, NODE_ARRAY, element, dimension) : 0;
}

static uint16_t parse_member(struct parser *parser)
{
	uint16_t owner;
	uint16_t type;

	parser->at++; /* M */
	owner = parse_type(parser);
	type = owner ? parse_type(parser) : 0;
	return type ? new_node(parser, NODE_MEMBER, owner, type) : 0;
}

/* What may have template arguments behind it. */
static uint16_t parse_param_type(struct parser *parser)
{
	uint16_t node = parse_template_param(parser);
	uint16_t args;

	if (!node || peek(parser, 0) != 'I')
		return node;
	if (!remember(parser, node))
		return 0;
	args = parse_template_args(parser, false);
	return args ? new_node(parser, NODE_TEMPLATE, node, args) : 0;
}

static uint16_t parse_type_after(struct parser *parser, enum node_kind kind)
{
	parser->at++;
	return wrap(parser, kind, parse_type(parser));
}

/* *is_known: the type is no candidate for a substitution. */
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
		node = parse_type_after(parser, NODE_SUFFIXED);
		if (node) {
			parser->tree->nodes[node].text = c == 'C' ? "_Complex" : "_Imaginary";
			parser->tree->nodes[node].length = c == 'C' ? 8 : 10;
		}
		return node;
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
		if (node && peek(parser, 0) == 'I') {
			uint16_t args = parse_template_args(parser, false);

			return args ? new_node(parser, NODE_TEMPLATE, node, args) : 0;
		}
		*is_known = true;
		return node;
	default:
		return parse_name(parser, false);
	}
}

static uint16_t parse_type(struct parser *parser)
{
	bool is_known;
	uint16_t node;

	if (!enter(parser))
		return 0;
	node = parse_type_inside(parser, &is_known);
	parser->depth--;
	return node && !is_known ? remember(parser, node) : node;
}

/* ------------------------------------------------------------------ expressions */

static uint16_t parse_literal(struct parser *parser)
{
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
	while (parser->at < parser->end && *parser->at != 'E')
		parser->at++;
	node = with_text(parser, NODE_LITERAL, start, (size_t)(parser->at - start), type);
	if (node && is_negative)
		parser->tree->nodes[node].flags = FLAG_NEGATIVE;
	return take(parser, "E") ? node : 0;
}

static bool parse_expressions(struct parser *parser, uint16_t *list)
{
	uint16_t tail = 0;

	*list = 0;
	while (!take(parser, "E")) {
		if (!append(parser, list, &tail, parse_expression(parser)))
			return false;
	}
	return true;
}

static uint16_t parse_wrapped(struct parser *parser, const char *name, bool is_type)
{
	uint16_t inner = is_type ? parse_type(parser) : parse_expression(parser);

	return inner ? with_text(parser, NODE_WRAP, name, strlen(name), inner) : 0;
}

/* sr: a name in a type, with template arguments perhaps */
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
	if (name && peek(parser, 0) == 'I') {
		uint16_t args = parse_template_args(parser, false);

		name = args ? new_node(parser, NODE_TEMPLATE, name, args) : 0;
	}
	return name;
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
	node = new_node(parser, found->operands == 2 ? NODE_BINARY : NODE_UNARY, a, b);
	if (node) {
		parser->tree->nodes[node].text = found->name;
		parser->tree->nodes[node].length = (uint32_t)strlen(found->name);
	}
	return node;
}

static bool begins(const struct parser *parser, const char *code)
{
	return peek(parser, 0) == code[0] && peek(parser, 1) == code[1];
}

static uint16_t parse_expression_inside(struct parser *parser)
{
	uint16_t a;
	uint16_t list;

	if (peek(parser, 0) == 'L')
		return parse_literal(parser);
	if (peek(parser, 0) == 'T')
		return parse_template_param(parser);
	if (begins(parser, "fp") && peek(parser, 2) != 'T')
		return parse_function_param(parser);
	if (begins(parser, "sr"))
		return parse_scoped(parser);
	if (begins(parser, "cv"))
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
	if (take(parser, "st"))
		return parse_wrapped(parser, "sizeof ", true);
	if (take(parser, "sz"))
		return parse_wrapped(parser, "sizeof ", false);
	if (take(parser, "at"))
		return parse_wrapped(parser, "alignof ", true);
	if (take(parser, "sZ"))
		return parse_wrapped(parser, "sizeof...", false);
	if (take(parser, "nx"))
		return parse_wrapped(parser, "noexcept ", false);
	if (take(parser, "sp"))
		return wrap(parser, NODE_EXPANSION, parse_expression(parser));
	if (is_digit(peek(parser, 0)) || begins(parser, "on")) {
		take(parser, "on");
		a = parse_unqualified(parser, 0);
		if (a && peek(parser, 0) == 'I') {
			list = parse_template_args(parser, false);
			a = list ? new_node(parser, NODE_TEMPLATE, a, list) : 0;
		}
		return a;
	}
	return parse_operation(parser);
}

static uint16_t parse_expression(struct parser *parser)
{
	return enter(parser) ? leave(parser, parse_expression_inside(parser)) : 0;
}

/* ------------------------------------------------------------------ encodings */

static uint16_t parse_special(struct parser *parser, bool *is_special)
{
	static const struct {
		const char *code;
		const char *text;
		bool is_type;
	} known[] = {
		{"TV", "vtable for ", true},
		{"TT", "VTT for ", true},
		{"TI", "typeinfo for ", true},
		{"TS", "typeinfo name for ", true},
		{"GV", "guard variable for ", false},
		{"TW", "TLS wrapper function for ", false},
		{"TH", "TLS init function for ", false},
		{"GTt", "transaction clone for ", false},
	};

	*is_special = true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint16_t node;

		if (!take(parser, known[i].code))
			continue;
		node = known[i].is_type          ? parse_type(parser)
		       : known[i].code[1] == 'T' ? parse_encoding(parser)
						 : parse_name(parser, true);
		return node ? with_text(parser, NODE_SPECIAL, known[i].text, strlen(known[i].text),
					node)
			    : 0;
	}
	if (take(parser, "Th") || take(parser, "Tv")) {
		bool is_virtual = parser->at[-1] == 'v';
		uint32_t ignored;
		uint16_t node;

		for (int i = 0; i <= is_virtual; i++) {
			take(parser, "n");
			if (!parse_number(parser, &ignored) || !take(parser, "_"))
				return 0;
		}
		node = parse_encoding(parser);
		return node ? with_text(parser, NODE_SPECIAL,
					is_virtual ? "virtual thunk to " : "non-virtual thunk to ",
					is_virtual ? 17 : 21, node)
			    : 0;
	}
	*is_special = false;
	return 0;
}

static uint16_t parse_function(struct parser *parser)
{
	uint16_t name = parse_name(parser, true);
	uint8_t flags = parser->name_flags;
	bool has_result = parser->has_template && !parser->is_unreturning;
	char next = peek(parser, 0);
	uint16_t result = 0;
	uint16_t list;
	uint16_t node;

	if (!name || next == '\0' || next == 'E' || next == '.')
		return name;
	if (has_result) {
		result = parse_type(parser);
		if (!result)
			return 0;
	}
	if (!parse_parameters(parser, &list))
		return 0;
	node = new_node(parser, NODE_FUNCTION, name, result);
	if (node) {
		parser->tree->nodes[node].c = list;
		parser->tree->nodes[node].flags = flags;
	}
	return node;
}

/* The template arguments of the encoding around this one are put back after it. */
static uint16_t parse_encoding(struct parser *parser)
{
	uint16_t saved[ARGUMENTS_MAX];
	size_t saved_count = parser->argument_count;
	bool is_special;
	uint16_t node;

	if (!enter(parser))
		return 0;
	memcpy(saved, parser->arguments, saved_count * sizeof(*saved));
	parser->argument_count = 0;
	node = parse_special(parser, &is_special);
	if (!is_special)
		node = parse_function(parser);
	memcpy(parser->arguments, saved, saved_count * sizeof(*saved));
	parser->argument_count = saved_count;
	return leave(parser, node);
}

uint16_t demangle_parse(struct demangle_tree *tree, const char *mangled, size_t length)
{
	struct parser parser = {.tree = tree, .at = mangled, .end = mangled + length};
	uint16_t node;

	tree->count = 1;
	tree->nodes[0] = (struct demangle_node){0};
	if (!take(&parser, "_Z"))
		return 0;
	node = parse_encoding(&parser);
	if (node && peek(&parser, 0) == '.') {
		node = with_text(&parser, NODE_CLONE, parser.at, (size_t)(parser.end - parser.at),
				 node);
		parser.at = parser.end;
	}
	return parser.at == parser.end ? node : 0;
}
