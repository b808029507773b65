/* Demangling tree: nodes passed from the parser to the printer. See demangle.h. */
#pragma once

#include "base/buf.h"
#include "symbol/demangle.h"

enum node_kind {
	NODE_NONE, /* index 0 */
	NODE_TEXT,
	NODE_NESTED,     /* a::b */
	NODE_TEMPLATE,   /* a<list b> */
	NODE_CTOR,       /* the last component of a */
	NODE_DTOR,       /* ~ of it */
	NODE_TAGGED,     /* a[abi:b] */
	NODE_LAMBDA,     /* {lambda(list a)#number} */
	NODE_UNNAMED,    /* {unnamed type#number} */
	NODE_CONVERSION, /* operator a */
	NODE_LOCAL,      /* a::b, where a is an encoding */
	NODE_FUNCTION,   /* encoding: name a, return type b (or 0), parameters list c, flags */
	NODE_SPECIAL,    /* text, then a */
	NODE_CLONE,      /* a [clone text] */
	/* types */
	NODE_QUALIFIED, /* a with flags: const, volatile, restrict */
	NODE_POINTER,   /* a* */
	NODE_REFERENCE, /* a& */
	NODE_RVALUE,    /* a&& */
	NODE_SUFFIXED,  /* a, space, text: _Complex and vendor qualifiers */
	NODE_ARRAY,     /* a[b], b may be 0 */
	NODE_VECTOR,    /* a __vector(b) */
	NODE_SIGNATURE, /* a (list c), flags: the type of a function */
	NODE_MEMBER,    /* pointer to a member of a, of type b */
	/* packs */
	NODE_PACK,      /* list a, as template arguments: all elements */
	NODE_PARAMETER, /* a is a pack: one element, inside an expansion */
	NODE_EXPANSION, /* a for each element of its pack */
	/* expressions */
	NODE_LITERAL, /* type a, digits text, flags: negative */
	NODE_CAST,    /* (a)(b) */
	NODE_UNARY,   /* text(a) */
	NODE_BINARY,  /* (a)text(b) */
	NODE_CALL,    /* a(list b) */
	NODE_WRAP,    /* text (a), such as sizeof and decltype */
	NODE_BRACES,  /* a{list b} */
	NODE_LIST,    /* a, then the list b */
};

enum node_flag {
	FLAG_CONST = 1,
	FLAG_VOLATILE = 2,
	FLAG_RESTRICT = 4,
	FLAG_LVALUE = 8, /* & of a member function */
	FLAG_RVALUE = 16,
	FLAG_NEGATIVE = 32,
	FLAG_NOEXCEPT = 64,
};

struct demangle_node {
	uint8_t kind;
	uint8_t flags;
	uint16_t a, b, c;
	uint32_t number;
	uint32_t length;
	const char *text;
};

struct demangle_tree {
	struct demangle_node nodes[DEMANGLE_NODES_MAX];
	size_t count;
};

/* False if it is too deep or too long; `out` then has the text written so far. */
bool demangle_print(const struct demangle_tree *tree, uint16_t root, enum demangle_style style,
		    struct out *out);
