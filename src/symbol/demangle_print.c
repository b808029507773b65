/*
 * Demangling printer. C++ writes types around names, so each type has a left and a right part: the
 * pointer to a function is "void (*" and ")(int)".
 */
#include <stdio.h>

#include "symbol/demangle_tree.h"

#define NO_PACK UINT32_MAX
#define SHORT_LEVELS 2 /* levels of template arguments */

struct printer {
	const struct demangle_tree *tree;
	struct out *out;
	enum demangle_style style;
	unsigned depth;
	unsigned template_level;
	uint32_t pack_index; /* inside an expansion: index in the pack; NO_PACK */
	uint32_t steps;
	uint64_t limit; /* limit of out->total */
	bool has_failed;
};

static void print_part(struct printer *printer, uint16_t index, bool is_right);

static void print_node(struct printer *printer, uint16_t index)
{
	print_part(printer, index, false);
	print_part(printer, index, true);
}

static void put_bytes(struct printer *printer, const char *text, size_t length)
{
	if (printer->out->total + length > printer->limit)
		printer->has_failed = true;
	else
		out_bytes(printer->out, text, length);
}

static void put_text(struct printer *printer, const char *text)
{
	put_bytes(printer, text, strlen(text));
}

static void put_number(struct printer *printer, uint32_t number)
{
	char text[12];

	snprintf(text, sizeof(text), "%u", number);
	put_text(printer, text);
}

static const struct demangle_node *node_at(const struct printer *printer, uint16_t index)
{
	return &printer->tree->nodes[index];
}

static bool is_short(const struct printer *printer)
{
	return printer->style == DEMANGLE_SHORT;
}

static char last_byte(const struct printer *printer)
{
	return printer->out->length ? printer->out->bytes[printer->out->length - 1] : '\0';
}

/* ------------------------------------------------------------------ packs */

static uint32_t list_length(const struct printer *printer, uint16_t list)
{
	uint32_t count = 0;

	for (; list; list = node_at(printer, list)->b)
		count++;
	return count;
}

/* The pack below a node that an expansion repeats; 0: none. */
static uint16_t find_pack(struct printer *printer, uint16_t index)
{
	const struct demangle_node *node = node_at(printer, index);

	if (!index || printer->has_failed || node->kind == NODE_PACK ||
	    node->kind == NODE_EXPANSION)
		return 0;
	if (node->kind == NODE_PARAMETER)
		return node->a;
	if (printer->depth >= DEMANGLE_DEPTH_MAX || ++printer->steps > DEMANGLE_BYTES_MAX) {
		printer->has_failed = true;
		return 0;
	}
	printer->depth++;
	uint16_t found = find_pack(printer, node->a);
	if (!found && node->kind != NODE_LITERAL)
		found = find_pack(printer, node->b);
	if (!found)
		found = find_pack(printer, node->c);
	printer->depth--;
	return found;
}

static uint16_t pack_item(const struct printer *printer, uint16_t pack, uint32_t which)
{
	uint16_t list = node_at(printer, pack)->a;

	while (list && which--)
		list = node_at(printer, list)->b;
	return list ? node_at(printer, list)->a : 0;
}

/* The node that a parameter stands for in the current expansion; 0: none. */
static uint16_t expanded(const struct printer *printer, const struct demangle_node *node)
{
	return printer->pack_index == NO_PACK ? 0
					      : pack_item(printer, node->a, printer->pack_index);
}

static void print_list(struct printer *printer, uint16_t list);

static void print_expansion(struct printer *printer, const struct demangle_node *node)
{
	uint32_t outer = printer->pack_index;
	uint16_t pack = find_pack(printer, node->a);

	if (!pack) {
		print_node(printer, node->a);
		put_text(printer, "...");
		return;
	}
	uint32_t count = list_length(printer, node_at(printer, pack)->a);
	for (uint32_t i = 0; i < count && !printer->has_failed; i++) {
		printer->pack_index = i;
		if (i)
			put_text(printer, ", ");
		print_node(printer, node->a);
	}
	printer->pack_index = outer;
}

/* Commas are printed only between parts with text: an empty pack has none. */
static void print_list(struct printer *printer, uint16_t list)
{
	bool has_any = false;

	for (; list && !printer->has_failed; list = node_at(printer, list)->b) {
		size_t length = printer->out->length;
		uint64_t before = printer->out->total;

		if (!node_at(printer, list)->a)
			continue;
		if (has_any)
			put_text(printer, ", ");
		uint64_t comma = printer->out->total;
		print_node(printer, node_at(printer, list)->a);
		if (printer->out->total == comma) {
			printer->out->length = length;
			printer->out->total = before;
		} else {
			has_any = true;
		}
	}
}

static void print_enclosed_list(struct printer *printer, const char *open, uint16_t list,
				const char *close)
{
	put_text(printer, open);
	print_list(printer, list);
	put_text(printer, close);
}

/* The node may be 0: there is none. */
static void print_enclosed(struct printer *printer, const char *open, uint16_t index,
			   const char *close)
{
	put_text(printer, open);
	if (index)
		print_node(printer, index);
	put_text(printer, close);
}

/* ------------------------------------------------------------------ names */

static void print_template(struct printer *printer, const struct demangle_node *node)
{
	print_node(printer, node->a);
	if (last_byte(printer) == '<')
		put_text(printer, " "); /* operator< */
	put_text(printer, "<");
	if (is_short(printer) && printer->template_level >= SHORT_LEVELS) {
		if (node_at(printer, node->b)->a)
			put_text(printer, "...");
	} else {
		printer->template_level++;
		print_list(printer, node->b);
		printer->template_level--;
	}
	put_text(printer, ">");
}

/* A constructor has the name of its class, without template arguments. */
static void print_last_component(struct printer *printer, uint16_t index)
{
	static const char std_string[] = "std::";

	for (unsigned i = 0; i < DEMANGLE_DEPTH_MAX; i++) {
		const struct demangle_node *node = node_at(printer, index);

		if (node->kind == NODE_NESTED || node->kind == NODE_LOCAL) {
			index = node->b;
		} else if (node->kind == NODE_TEMPLATE || node->kind == NODE_TAGGED) {
			index = node->a;
		} else if (node->kind == NODE_TEXT && node->length > 5 &&
			   memcmp(node->text, std_string, 5) == 0) {
			put_bytes(printer, node->text + 5, node->length - 5);
			return;
		} else {
			print_node(printer, index);
			return;
		}
	}
	printer->has_failed = true;
}

static bool needs_scope(const struct printer *printer, uint16_t index)
{
	uint8_t kind = node_at(printer, index)->kind;

	return kind == NODE_LAMBDA || kind == NODE_UNNAMED || kind == NODE_CTOR ||
	       kind == NODE_DTOR || kind == NODE_SPECIAL || kind == NODE_CONVERSION;
}

static void print_nested(struct printer *printer, const struct demangle_node *node)
{
	uint16_t name = node->b;

	if (node_at(printer, name)->kind == NODE_TAGGED)
		name = node_at(printer, name)->a;
	if (!is_short(printer) || needs_scope(printer, name)) {
		print_node(printer, node->a);
		put_text(printer, "::");
	}
	print_node(printer, node->b);
}

static void print_flags(struct printer *printer, uint8_t flags)
{
	static const struct {
		uint8_t flag;
		const char *text;
	} texts[] = {
		{FLAG_CONST, " const"},         {FLAG_VOLATILE, " volatile"},
		{FLAG_RESTRICT, " __restrict"}, {FLAG_LVALUE, " &"},
		{FLAG_RVALUE, " &&"},           {FLAG_NOEXCEPT, " noexcept"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (flags & texts[i].flag)
			put_text(printer, texts[i].text);
}

static bool is_pointer_to_function(const struct printer *printer, uint16_t index)
{
	const struct demangle_node *node = node_at(printer, index);

	return node->kind == NODE_POINTER && node_at(printer, node->a)->kind == NODE_SIGNATURE;
}

/* A function around a local name is printed without its return type. */
static void print_function(struct printer *printer, const struct demangle_node *node,
			   bool is_around)
{
	bool has_result = node->b && !is_around;

	if (is_short(printer)) {
		print_node(printer, node->a);
		return;
	}
	if (has_result) {
		print_part(printer, node->b, false);
		put_text(printer,
			 last_byte(printer) == '*' && is_pointer_to_function(printer, node->b)
				 ? ""
				 : " ");
	}
	print_node(printer, node->a);
	print_enclosed_list(printer, "(", node->c, ")");
	if (has_result)
		print_part(printer, node->b, true);
	print_flags(printer, node->flags);
}

static void print_lambda(struct printer *printer, const struct demangle_node *node)
{
	if (node->kind == NODE_UNNAMED) {
		put_text(printer, "{unnamed type#");
	} else {
		put_text(printer, "{lambda");
		if (!is_short(printer))
			print_enclosed_list(printer, "(", node->a, ")");
		put_text(printer, "#");
	}
	put_number(printer, node->number);
	put_text(printer, "}");
}

/* ------------------------------------------------------------------ expressions */

static bool is_text(const struct demangle_node *node, const char *text)
{
	return node->kind == NODE_TEXT && node->length == strlen(text) &&
	       memcmp(node->text, text, node->length) == 0;
}

static void print_literal(struct printer *printer, const struct demangle_node *node)
{
	static const struct {
		const char *type, *suffix;
	} suffixes[] = {
		{"int", ""},         {"unsigned int", "u"},
		{"long", "l"},       {"unsigned long", "ul"},
		{"long long", "ll"}, {"unsigned long long", "ull"},
	};
	const struct demangle_node *type = node_at(printer, node->a);
	const char *suffix = NULL;

	if (is_text(type, "bool") && node->length == 1) {
		put_text(printer, node->text[0] == '1' ? "true" : "false");
		return;
	}
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (is_text(type, suffixes[i].type))
			suffix = suffixes[i].suffix;
	if (!suffix)
		print_enclosed(printer, "(", node->a, ")");
	if (node->flags & FLAG_NEGATIVE)
		put_text(printer, "-");
	if (is_text(type, "double") || is_text(type, "float")) {
		put_text(printer, "[");
		put_bytes(printer, node->text, node->length);
		put_text(printer, "]");
		return;
	}
	put_bytes(printer, node->text, node->length);
	if (suffix && !is_short(printer))
		put_text(printer, suffix);
}

/*
 * Nodes that are text around their parts: \1 and \2 are the nodes a and b, \3 is the list b, \4 the
 * text, and \5 and \6 are a and b if there are any. Short names end at \7.
 */
static const char *const forms[NODE_LIST] = {
	[NODE_TEXT] = "\4",
	[NODE_TAGGED] = "\1\7[abi:\6]",
	[NODE_CONVERSION] = "operator \1",
	[NODE_SPECIAL] = "\4\1",
	[NODE_CLONE] = "\1\7 [clone \4]",
	[NODE_SUFFIXED] = "\1 \4",
	[NODE_VECTOR] = "\1 __vector(\6)",
	[NODE_CAST] = "(\5)(\6)",
	[NODE_UNARY] = "\4(\5)",
	[NODE_BINARY] = "(\5)\4(\6)",
	[NODE_CALL] = "\1(\3)",
	[NODE_BRACES] = "\5{\3}",
	[NODE_WRAP] = "\4(\5)",
};

static void print_form(struct printer *printer, const struct demangle_node *node)
{
	for (const char *at = forms[node->kind]; *at && !(*at == '\7' && is_short(printer)); at++) {
		uint16_t part = *at == '\1' || *at == '\5' ? node->a : node->b;

		if (*at == '\3')
			print_list(printer, node->b);
		else if (*at == '\4')
			put_bytes(printer, node->text, node->length);
		else if (*at > '\7')
			put_bytes(printer, at, 1);
		else if (*at != '\7' && (part || *at < '\3'))
			print_node(printer, part);
	}
}

/* ------------------------------------------------------------------ types */

static bool is_array_or_function(const struct printer *printer, uint16_t index)
{
	for (unsigned i = 0; i < DEMANGLE_DEPTH_MAX; i++) {
		const struct demangle_node *node = node_at(printer, index);

		if (node->kind == NODE_ARRAY || node->kind == NODE_SIGNATURE)
			return true;
		if (node->kind != NODE_QUALIFIED && node->kind != NODE_PARAMETER)
			return false;
		index = node->kind == NODE_QUALIFIED ? node->a : expanded(printer, node);
	}
	return false;
}

/*
 * A reference to a reference is one reference: an lvalue if any of them is. Returns the referenced
 * type.
 */
static uint16_t collapse(const struct printer *printer, uint16_t index, bool *is_lvalue)
{
	for (unsigned i = 0; i < DEMANGLE_DEPTH_MAX; i++) {
		const struct demangle_node *node = node_at(printer, index);

		if (node->kind == NODE_PARAMETER && printer->pack_index != NO_PACK) {
			uint16_t item = expanded(printer, node);
			uint8_t kind = node_at(printer, item)->kind;

			if (kind != NODE_REFERENCE && kind != NODE_RVALUE)
				return index;
			index = item;
			continue;
		}
		if (node->kind != NODE_REFERENCE && node->kind != NODE_RVALUE)
			return index;
		*is_lvalue = *is_lvalue || node->kind == NODE_REFERENCE;
		index = node->a;
	}
	return index;
}

/* The qualifiers that a type already has: "const" is not printed twice. */
static uint8_t flags_below(const struct printer *printer, uint16_t index)
{
	uint8_t flags = 0;

	for (unsigned i = 0; i < DEMANGLE_DEPTH_MAX; i++) {
		const struct demangle_node *node = node_at(printer, index);

		if (node->kind == NODE_QUALIFIED) {
			flags |= node->flags;
			index = node->a;
		} else if (node->kind == NODE_PARAMETER && printer->pack_index != NO_PACK) {
			index = expanded(printer, node);
		} else {
			break;
		}
	}
	return flags;
}

static void print_pointer(struct printer *printer, uint16_t inner, const char *mark, bool is_right)
{
	if (!is_right)
		print_part(printer, inner, false);
	if (is_array_or_function(printer, inner))
		put_text(printer, is_right ? ")" : " (");
	if (is_right)
		print_part(printer, inner, true);
	else
		put_text(printer, mark);
}

static void print_member_left(struct printer *printer, const struct demangle_node *node)
{
	print_part(printer, node->b, false);
	put_text(printer, is_array_or_function(printer, node->b) ? " (" : " ");
	print_node(printer, node->a);
	put_text(printer, "::*");
}

static void print_local(struct printer *printer, const struct demangle_node *node)
{
	if (node_at(printer, node->a)->kind == NODE_FUNCTION)
		print_function(printer, node_at(printer, node->a), true);
	else
		print_node(printer, node->a);
	put_text(printer, "::");
	print_node(printer, node->b);
}

static void print_name(struct printer *printer, const struct demangle_node *node)
{
	switch (node->kind) {
	case NODE_NESTED:
		print_nested(printer, node);
		break;
	case NODE_TEMPLATE:
		print_template(printer, node);
		break;
	case NODE_CTOR:
	case NODE_DTOR:
		if (node->kind == NODE_DTOR)
			put_text(printer, "~");
		print_last_component(printer, node->a);
		break;
	case NODE_LAMBDA:
	case NODE_UNNAMED:
		print_lambda(printer, node);
		break;
	case NODE_LOCAL:
		print_local(printer, node);
		break;
	case NODE_FUNCTION:
		print_function(printer, node, false);
		break;
	case NODE_LITERAL:
		print_literal(printer, node);
		break;
	case NODE_PACK:
		print_list(printer, node->a);
		break;
	case NODE_EXPANSION:
		print_expansion(printer, node);
		break;
	default:
		if (node->kind < NODE_LIST && forms[node->kind])
			print_form(printer, node);
		else
			printer->has_failed = true;
		break;
	}
}

static void print_inside(struct printer *printer, uint16_t index, bool is_right)
{
	const struct demangle_node *node = node_at(printer, index);
	bool is_lvalue = false;
	uint16_t inner;

	switch (node->kind) {
	case NODE_QUALIFIED:
		print_part(printer, node->a, is_right);
		if (!is_right)
			print_flags(printer,
				    (uint8_t)(node->flags & ~flags_below(printer, node->a)));
		break;
	case NODE_POINTER:
		print_pointer(printer, node->a, "*", is_right);
		break;
	case NODE_REFERENCE:
	case NODE_RVALUE:
		inner = collapse(printer, index, &is_lvalue);
		print_pointer(printer, inner, is_lvalue ? "&" : "&&", is_right);
		break;
	case NODE_ARRAY:
		if (is_right) {
			put_text(printer, last_byte(printer) != ']' ? " " : "");
			print_enclosed(printer, "[", node->b, "]");
		}
		print_part(printer, node->a, is_right);
		break;
	case NODE_SIGNATURE:
		if (is_right) {
			put_text(printer, last_byte(printer) != ')' ? " " : "");
			print_enclosed_list(printer, "(", node->c, ")");
		}
		print_part(printer, node->a, is_right);
		print_flags(printer, is_right ? node->flags : 0);
		break;
	case NODE_MEMBER:
		if (is_right)
			print_pointer(printer, node->b, "", true);
		else
			print_member_left(printer, node);
		break;
	case NODE_PARAMETER:
		if ((inner = expanded(printer, node)) != 0)
			print_part(printer, inner, is_right);
		else if (!is_right && printer->pack_index == NO_PACK)
			print_list(printer, node_at(printer, node->a)->a);
		break;
	default:
		if (!is_right)
			print_name(printer, node);
		break;
	}
}

/* Steps are counted, because parts that print nothing can repeat themselves as well. */
static void print_part(struct printer *printer, uint16_t index, bool is_right)
{
	if (printer->has_failed || printer->depth >= DEMANGLE_DEPTH_MAX ||
	    ++printer->steps > 8 * DEMANGLE_BYTES_MAX) {
		printer->has_failed = true;
		return;
	}
	printer->depth++;
	print_inside(printer, index, is_right);
	printer->depth--;
}

bool demangle_print(const struct demangle_tree *tree, uint16_t root, enum demangle_style style,
		    struct out *out)
{
	struct printer printer = {
		.tree = tree,
		.out = out,
		.style = style,
		.pack_index = NO_PACK,
		.limit = out->total + DEMANGLE_BYTES_MAX,
	};

	print_node(&printer, root);
	return !printer.has_failed && !out->errnum;
}
