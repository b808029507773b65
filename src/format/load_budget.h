/*
 * The memory that a profile may take: in proportion to the size of its file, and a constant. Few
 * bytes can stand for any number of rows in packed and nested files. Profiles of programs need a
 * third of this; files that need more are refused.
 */
#ifndef FORMAT_LOAD_BUDGET_H
#define FORMAT_LOAD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/rows.h"

#define LOAD_BYTES_PER_BYTE 60u
#define LOAD_BYTES_MORE (40ull << 20)

static inline uint64_t load_budget(size_t length)
{
	return (uint64_t)length * LOAD_BYTES_PER_BYTE + LOAD_BYTES_MORE;
}

/* Memory for a row while its table is loaded: the row, its copy, mostly maps and hash tables. */
static inline uint64_t load_row_cost(uint32_t table, uint32_t row_bytes)
{
	bool is_plain = table == TABLE_CELLS || table == TABLE_RANKS;

	return is_plain ? (uint64_t)row_bytes * 2 : (uint64_t)row_bytes * 3 + 16;
}

static inline int load_refuse(size_t length, struct proton_error *err)
{
	return err_set(err, PROTON_E_FORMAT,
		       "its %zu bytes would take more than %llu MB of memory, the limit for "
		       "its size",
		       length, (unsigned long long)(load_budget(length) >> 20));
}

#endif
