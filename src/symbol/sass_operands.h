/* Operation and registers of an instruction of SASS, from the disassembler's text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sass_operation {
	SASS_OTHER,
	SASS_BRANCH,
	SASS_END,         /* EXIT or RET */
	SASS_BARRIER,     /* waits for other warps */
	SASS_COPY,        /* LDGSTS (cp.async), or a bulk store */
	SASS_COPY_COMMIT, /* ends a group of copies */
	SASS_COPY_WAIT,
	SASS_MMA, /* asynchronous (wgmma) */
	SASS_MMA_WAIT,
	SASS_BULK_LOAD, /* TMA: ends at an mbarrier */
	SASS_TRY_WAIT,  /* for an mbarrier */
	SASS_ARRIVE,    /* at an mbarrier, without bytes to come */
	SASS_STORE,
};

/* Numbers of registers: R from 0, UR from 256, P from 320, UP from 328. */
struct sass_registers {
	uint16_t first;
	uint16_t count; /* 0: none */
};

#define SASS_READS_MAX 7u
#define SASS_WRITES_MAX 3u

struct sass_operands {
	enum sass_operation operation;
	uint8_t groups;    /* that may be pending after SASS_COPY_WAIT and SASS_MMA_WAIT */
	bool is_commit;    /* the last of a group of SASS_MMA, or SASS_COPY_COMMIT */
	bool is_guarded;   /* a predicate may skip it */
	bool goes_on;      /* to the next instruction, in some or all threads */
	const char *label; /* SASS_BRANCH goes there; NULL: unknown */
	size_t label_length;
	struct sass_registers reads[SASS_READS_MAX], writes[SASS_WRITES_MAX];
};

void sass_operands_read(const char *text, struct sass_operands *out);
bool sass_registers_meet(const struct sass_registers *a, size_t a_count,
			 const struct sass_registers *b, size_t b_count);
