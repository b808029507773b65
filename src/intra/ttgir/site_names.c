/* Names of automatic scopes, and the omission of surplus scopes. */
#include "intra/ttgir/find_operations.h"

#include <stdio.h>
#include <stdlib.h>

/* The location of `site` at a level: 0 is its own, 1 the call that inlined it, ... */
static struct mlir_location place_at(const struct site *site, uint32_t level)
{
	return level < site->frames.count ? site->frames.at[level] : (struct mlir_location){0};
}

/* True if both are the same operation, and inlined by the same calls below `level`. */
static bool is_same_below(const struct site *a, const struct site *b, uint32_t level)
{
	for (uint32_t i = 0; i < level; i++) {
		struct mlir_location left = place_at(a, i);
		struct mlir_location right = place_at(b, i);

		if (!mlir_is_same_line(&left, &right) || left.column != right.column)
			return false;
	}
	return a->part == b->part && slices_equal(a->word, b->word);
}

struct difference {
	bool in_line;
	bool in_column; /* on the same line */
};

/* How other sites that are the same below `level` differ there. */
static struct difference find_difference(const struct sites *sites, const struct site *site,
					 uint32_t level)
{
	struct mlir_location place = place_at(site, level);
	struct difference found = {false, false};

	for (uint32_t i = 0; i < sites->count && !(found.in_line && found.in_column); i++) {
		const struct site *other = &sites->sites[i];
		struct mlir_location there = place_at(other, level);

		if ((there.line == place.line && there.column == place.column &&
		     slices_equal(there.file, place.file)) ||
		    other->end_line == SITE_NONE || !is_same_below(site, other, level))
			continue;
		if (mlir_is_same_line(&place, &there))
			found.in_column = true;
		else
			found.in_line = true;
	}
	return found;
}

/*
 * OPERATION@FILE:LINE, with the column if the line has several, and with "from FILE:LINE" for each
 * call without which several operations had the same name. A long name is cut.
 */
static void write_name(const struct sites *sites, const struct site *site, char *name, size_t size)
{
	size_t used = (size_t)snprintf(name, size, "%.*s", (int)site->word.length, site->word.at);

	if (site->is_part)
		used += (size_t)snprintf(name + used, size - used, "%u", site->part);
	for (uint32_t level = 0; level < site->frames.count && used < size; level++) {
		const struct mlir_location *place = &site->frames.at[level];
		int length = place->file.length > 100 ? 100 : (int)place->file.length;
		struct difference difference = find_difference(sites, site, level);

		if (level && !difference.in_line && !difference.in_column)
			continue;
		used += (size_t)snprintf(name + used, size - used, "%s%.*s:%u",
					 level ? " from " : "@", length, place->file.at,
					 place->line);
		if (difference.in_column && place->column && used < size)
			used += (size_t)snprintf(name + used, size - used, ":%u", place->column);
	}
}

static uint32_t scope_of(struct sites *sites, const char *name)
{
	for (uint32_t i = 0; i < sites->scope_count; i++)
		if (sites->scopes[i].name && strcmp(sites->scopes[i].name, name) == 0)
			return i;
	sites->scopes[sites->scope_count].name = strdup(name);
	return sites->scopes[sites->scope_count].name ? sites->scope_count++ : SITE_NONE;
}

bool operations_name(struct sites *sites)
{
	char name[256];

	sites->scopes = calloc(sites->count ? sites->count : 1, sizeof(*sites->scopes));
	if (!sites->scopes)
		return false;
	for (uint32_t i = 0; i < sites->count; i++) {
		struct site *site = &sites->sites[i];
		struct site_scope *scope;

		site->scope = SITE_NONE;
		if (site->end_line == SITE_NONE)
			continue;
		write_name(sites, site, name, sizeof(name));
		site->scope = scope_of(sites, name);
		if (site->scope == SITE_NONE)
			return false;
		scope = &sites->scopes[site->scope];
		scope->is_detail = operations_is_detail(site->word);
		if (site->depth > scope->depth) {
			scope->depth = site->depth;
			memset(scope->costs, 0, sizeof(scope->costs));
		}
		if (site->depth == scope->depth)
			scope->costs[site->slot] += site->cost;
	}
	return true;
}

/* Maximum records of a warp: outside partitions and in one of them. */
static uint32_t max_records(const uint32_t costs[SITE_SLOTS])
{
	uint32_t max = 0;

	for (uint32_t slot = 1; slot < SITE_SLOTS; slot++)
		if (costs[slot] > max)
			max = costs[slot];
	return costs[0] + max;
}

static bool is_dropped_before(const struct site_scope *a, const struct site_scope *b)
{
	if (a->is_detail != b->is_detail)
		return a->is_detail;
	return a->depth >= b->depth;
}

uint32_t operations_limit(struct sites *sites, uint32_t scope_limit, uint32_t record_limit)
{
	uint32_t kept = 0;
	uint32_t costs[SITE_SLOTS] = {0};

	for (uint32_t i = 0; i < sites->scope_count; i++) {
		if (sites->scopes[i].dropped)
			continue;
		kept++;
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] += sites->scopes[i].costs[slot];
	}
	while (kept > scope_limit || max_records(costs) > record_limit) {
		struct site_scope *worst = NULL;

		for (uint32_t i = 0; i < sites->scope_count; i++) {
			struct site_scope *scope = &sites->scopes[i];

			if (!scope->dropped && (!worst || is_dropped_before(scope, worst)))
				worst = scope;
		}
		if (!worst)
			break;
		worst->dropped = SITE_NO_ROOM;
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] -= worst->costs[slot];
		kept--;
	}
	return max_records(costs);
}
