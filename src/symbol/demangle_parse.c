/*
 * Demangling parser: recursive descent over the ABI's grammar, with a depth limit. This file
 * contains names, template arguments and encodings.
 */

#include "symbol/demangle.h"
#include "symbol/demangle_parser.h"
#include "symbol/demangle_tree.h"

/* ------------------------------------------------------------------ names */

uint16_t parse_source_name(struct parser *parser)
{
	static const char anonymous[] = "_GLOBAL__N";
	uint32_t length;

	if (!parse_number(parser, &length) || length == 0 ||
	    (size_t)(parser->end - parser->at) < length)
		return 0;
	const char *text = parser->at;
	parser->at += length;
	if (length >= sizeof(anonymous) - 1 && memcmp(text, anonymous, sizeof(anonymous) - 1) == 0)
		return text_node(parser, "(anonymous namespace)");
	return with_text(parser, NODE_TEXT, text, length, 0);
}

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

const struct operator_name *find_operator(const struct parser *parser)
{
	char first = peek(parser, 0);
	char second = peek(parser, 1);

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (operators[i].code[0] == first && operators[i].code[1] == second)
			return &operators[i];
	return NULL;
}

static uint16_t parse_operator(struct parser *parser)
{
	if (take(parser, "cv")) {
		parser->is_unreturning = true;
		return wrap(parser, NODE_CONVERSION, parse_type(parser));
	}
	if (take(parser, "li"))
		return around(parser, NODE_SPECIAL, "operator\"\" ", parse_source_name(parser));
	const struct operator_name *found = find_operator(parser);
	if (!found)
		return 0;
	parser->at += 2;
	return around(parser, NODE_SPECIAL, "operator", text_node(parser, found->name));
}

/* Types until 'E'; a single "void" means no parameters. */
bool parse_parameters(struct parser *parser, uint16_t *list)
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
	return *list != 0; /* an empty list is mangled as "void" */
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

/* `scope`: the class name for a constructor, or 0. */
uint16_t parse_unqualified(struct parser *parser, uint16_t scope)
{
	uint16_t node = 0;

	parser->is_unreturning = false;
	take(parser, "L"); /* internal linkage */
	char c = peek(parser, 0);
	char number = peek(parser, 1);
	if (is_digit(c)) {
		node = parse_source_name(parser);
	} else if (c == 'U') {
		node = parse_unnamed(parser);
	} else if (scope && (c == 'C' || c == 'D') && number >= (c == 'C' ? '1' : '0') &&
		   number <= '5') { /* a constructor, a destructor */
		parser->at += 2;
		parser->is_unreturning = true;
		node = wrap(parser, c == 'C' ? NODE_CTOR : NODE_DTOR, scope);
	} else if (c >= 'a' && c <= 'z') {
		node = parse_operator(parser);
	}
	return parse_tags(parser, node);
}

/* S_, S0_, ..., or an abbreviation. */
uint16_t parse_substitution(struct parser *parser)
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
uint16_t parse_template_param(struct parser *parser)
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

uint16_t parse_decltype(struct parser *parser)
{
	parser->at += 2; /* Dt, DT */
	uint16_t expression = parse_expression(parser);
	if (!expression || !take(parser, "E"))
		return 0;
	return with_text(parser, NODE_WRAP, "decltype", 8, expression);
}

uint8_t parse_qualifiers(struct parser *parser)
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

static uint16_t join_names(struct parser *parser, uint16_t scope, uint16_t name)
{
	return scope && name ? new_node(parser, NODE_NESTED, scope, name) : name;
}

/* One part of a nested name; `scope` is the node of the parts before it. */
static uint16_t parse_component(struct parser *parser, uint16_t scope, bool is_encoding)
{
	char c = peek(parser, 0);
	char next = peek(parser, 1);

	if (c == 'I')
		return with_arguments(parser, scope, is_encoding);
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
	return join_names(parser, scope, parse_unqualified(parser, scope));
}

static uint16_t parse_nested(struct parser *parser, bool is_encoding)
{
	uint16_t node = 0;
	bool has_template = false;

	parser->at++; /* N */
	uint8_t flags = parse_qualifiers(parser);
	if (take(parser, "R"))
		flags |= FLAG_LVALUE;
	else if (take(parser, "O"))
		flags |= FLAG_RVALUE;
	while (!take(parser, "E")) {
		char c = peek(parser, 0);
		/*
		 * These two are not substitution candidates: they are substitutions, or too short.
		 */
		bool is_known = c == 'S' && !node;

		take(parser, "M"); /* a member's initializer around a lambda; not printed */
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
	uint16_t name;
	uint32_t ignored;

	parser->at++; /* Z */
	uint16_t encoding = parse_encoding(parser);
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
		node = node ? join_names(parser, node, parse_unqualified(parser, 0)) : 0;
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
		if (!is_substitution && !remember(parser, node))
			return 0;
		node = with_arguments(parser, node, is_encoding);
		parser->has_template = true;
		parser->name_flags = 0;
	}
	return node;
}

uint16_t parse_name(struct parser *parser, bool is_encoding)
{
	return enter(parser) ? leave(parser, parse_name_inside(parser, is_encoding)) : 0;
}

/* ------------------------------------------------------------------ template arguments */

static uint16_t parse_argument(struct parser *parser)
{
	uint16_t node;
	uint16_t head = 0, tail = 0;

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

/* Returns the list's first element; an empty list is an element without an item. */
uint16_t parse_template_args(struct parser *parser, bool is_encoding)
{
	bool is_unreturning = parser->is_unreturning; /* arguments do not change it */
	uint16_t head = 0, tail = 0;

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

/* ------------------------------------------------------------------ encodings */

static uint16_t parse_special(struct parser *parser, bool *is_special)
{
	static const struct {
		const char *code, *text;
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
		if (!take(parser, known[i].code))
			continue;
		uint16_t node = known[i].is_type          ? parse_type(parser)
				: known[i].code[1] == 'T' ? parse_encoding(parser)
							  : parse_name(parser, true);
		return around(parser, NODE_SPECIAL, known[i].text, node);
	}
	if (take(parser, "Th") || take(parser, "Tv")) {
		bool is_virtual = parser->at[-1] == 'v';
		uint32_t ignored;

		for (int i = 0; i <= is_virtual; i++) {
			take(parser, "n");
			if (!parse_number(parser, &ignored) || !take(parser, "_"))
				return 0;
		}
		return around(parser, NODE_SPECIAL,
			      is_virtual ? "virtual thunk to " : "non-virtual thunk to ",
			      parse_encoding(parser));
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

	if (!name || next == '\0' || next == 'E' || next == '.')
		return name;
	if (has_result) {
		result = parse_type(parser);
		if (!result)
			return 0;
	}
	if (!parse_parameters(parser, &list))
		return 0;
	return function_node(parser, NODE_FUNCTION, name, result, list, flags);
}

/* The template arguments of the enclosing encoding are restored afterwards. */
uint16_t parse_encoding(struct parser *parser)
{
	uint16_t saved[ARGUMENTS_MAX];
	size_t saved_count = parser->argument_count;
	bool is_special;

	if (!enter(parser))
		return 0;
	memcpy(saved, parser->arguments, saved_count * sizeof(*saved));
	parser->argument_count = 0;
	uint16_t node = parse_special(parser, &is_special);
	if (!is_special)
		node = parse_function(parser);
	memcpy(parser->arguments, saved, saved_count * sizeof(*saved));
	parser->argument_count = saved_count;
	return leave(parser, node);
}

/* The root, or 0 if it is not a mangled name. The tree points into the name. */
static uint16_t parse_mangled(struct demangle_tree *tree, const char *mangled, size_t length)
{
	struct parser parser = {.tree = tree, .at = mangled, .end = mangled + length};

	tree->count = 1;
	tree->nodes[0] = (struct demangle_node){0};
	if (!take(&parser, "_Z"))
		return 0;
	uint16_t node = parse_encoding(&parser);
	if (node && peek(&parser, 0) == '.' && parser.end - parser.at > 1) {
		node = with_text(&parser, NODE_CLONE, parser.at, (size_t)(parser.end - parser.at),
				 node);
		parser.at = parser.end;
	}
	return parser.at == parser.end ? node : 0;
}

bool demangle(struct out *out, const char *mangled, size_t length, enum demangle_style style)
{
	struct demangle_tree tree; /* nodes beyond its count are never read */
	struct out text;
	bool is_done = false;

	if (length < 3 || memcmp(mangled, "_Z", 2) != 0)
		return false;
	uint16_t root = parse_mangled(&tree, mangled, length);
	if (!root)
		return false;
	out_init(&text, -1);
	if (demangle_print(&tree, root, style, &text) && text.length) {
		out_bytes(out, text.bytes, text.length);
		is_done = true;
	}
	out_fini(&text);
	return is_done;
}
