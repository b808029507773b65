/* Search for instrumented callees: which noinline functions can be rewritten, and which cannot. */
#include <stdio.h>

#include "base/array.h"
#include "intra/llvm/ir_function.h"

#define NAME_SHOWN_MAX 100u /* maximum length of a function name in a message */
#define FROM_KERNEL (UINT32_MAX - 1)
#define FROM_NOWHERE UINT32_MAX

/* Why a function cannot be instrumented: text before and after its name. */
static const char *const reason_visible[] = {"", " is not private to the kernel's module"};
static const char *const reason_signature[] = {"cannot parse the signature of ", ""};
static const char *const reason_body[] = {"cannot parse the body of ", ""};
static const char *const reason_address[] = {"", " is not only called directly"};
static const char *const reason_caller[] = {"",
					    " is called by a function that cannot be instrumented"};
static const char *const reason_uncalled[] = {"the kernel does not call ", ""};

/* A function other than the kernel. */
struct candidate {
	struct slice name;
	uint32_t define_line;
	uint32_t end_line;
	uint32_t marker_count;
	bool is_wanted;              /* has markers, or calls a function that is wanted */
	const char *const *obstacle; /* why it cannot be instrumented, or NULL */
	uint32_t callee;             /* its index among the instrumented callees */
	struct ir_signature signature;
};

struct reference {
	uint32_t line;
	const char *at;
	uint32_t from; /* candidate that contains the reference, or FROM_... */
	uint32_t to;   /* candidate that it refers to */
};

struct search {
	struct ir_function *kernel;
	struct candidate *candidates; /* in text order, like the references */
	uint32_t candidate_count;
	struct reference *references;
	uint32_t reference_count;
	struct ir_names names;
};

/* ------------------------------------------------------------------ functions */

static int find_candidates(struct search *search, struct proton_error *err)
{
	const struct slice *lines = search->kernel->lines;
	uint32_t count = search->kernel->line_count;
	struct ir_marker marker;

	for (uint32_t i = 0; i < count; i++) {
		struct candidate candidate = {.define_line = i};
		const char *at = ir_is_define(lines[i]) ? memchr(lines[i].at, '@', lines[i].length)
							: NULL;
		uint32_t end = i + 1;

		if (i == search->kernel->define_line)
			i = search->kernel->end_line;
		else if (at)
			while (end < count && !ir_is_end(lines[end]) && !ir_is_define(lines[end]))
				candidate.marker_count += ir_marker_of(lines[end++], &marker);
		if (i == search->kernel->end_line || !at || end == count || !ir_is_end(lines[end]))
			continue;
		candidate.end_line = i = end;
		candidate.name = ir_name_at(at + 1, slice_end(lines[candidate.define_line]));
		if (!ARRAY_ADD(search->candidates, search->candidate_count, candidate))
			return err_nomem(err);
	}
	if (!ir_names_init(&search->names, search->candidate_count))
		return err_nomem(err);
	for (uint32_t c = 0; c < search->candidate_count; c++) {
		struct candidate *candidate = &search->candidates[c];

		if (!candidate->name.length || !ir_names_add(&search->names, candidate->name, c))
			candidate->obstacle = reason_signature;
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ references */

/* Metadata may refer to functions without calling them. */
static bool may_refer(struct slice line)
{
	return line.length && *line.at != '!' && *line.at != ';' &&
	       memchr(line.at, '@', line.length);
}

static int find_references(struct search *search, struct proton_error *err)
{
	const struct ir_function *kernel = search->kernel;
	uint32_t next = 0; /* first candidate that ends after the line */

	for (uint32_t i = 0; i < kernel->line_count; i++) {
		const struct candidate *here =
			next < search->candidate_count ? &search->candidates[next] : NULL;
		struct slice rest = kernel->lines[i];
		const char *end = slice_end(rest);
		uint32_t from = FROM_NOWHERE;
		struct slice value;

		if (here && i == here->end_line) {
			next++;
			continue;
		}
		if (!may_refer(rest))
			continue;
		if (i > kernel->define_line && i < kernel->end_line)
			from = FROM_KERNEL;
		else if (here && i > here->define_line)
			from = next;
		else if (here && i == here->define_line)
			rest = slice_between(slice_end(here->name), end); /* after its own name */
		while (slice_take_value(&rest, '@', &value)) {
			uint32_t to = ir_names_find(&search->names, ir_name_at(value.at + 1, end));

			if (to != IR_NAME_NONE &&
			    !ARRAY_ADD(search->references, search->reference_count,
				       (struct reference){i, value.at, from, to}))
				return err_nomem(err);
		}
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ eligible functions */

/*
 * Calls `spread` for all calls between candidates until it changes nothing: in text order and back,
 * so a chain of calls needs one round in either order.
 */
static void spread_all(struct search *search,
		       bool (*spread)(struct candidate *caller, struct candidate *callee))
{
	uint32_t count = search->reference_count;
	bool has_changed = true;

	while (has_changed) {
		has_changed = false;
		for (uint32_t i = 0; i < 2 * count; i++) {
			const struct reference *reference =
				&search->references[i < count ? i : 2 * count - 1 - i];

			if (reference->from < search->candidate_count)
				has_changed |= spread(&search->candidates[reference->from],
						      &search->candidates[reference->to]);
		}
	}
}

/* Callers of functions with markers are wanted too. */
static bool spread_wanted(struct candidate *caller, struct candidate *callee)
{
	bool is_new = callee->is_wanted && !caller->is_wanted;

	caller->is_wanted |= is_new;
	return is_new;
}

/* Callees of a function that cannot be instrumented cannot be either. */
static bool spread_obstacle(struct candidate *caller, struct candidate *callee)
{
	if (!caller->is_wanted || !caller->obstacle || !callee->is_wanted || callee->obstacle)
		return false;
	callee->obstacle = reason_caller;
	return true;
}

static bool returns_are_plain(const struct ir_function *function, struct slice type)
{
	ARRAY_EACH(block, function->blocks, function->block_count) {
		struct slice value = function->lines[block->end_line ? block->end_line - 1 : 0];

		if (block->is_return &&
		    (!slice_take_past(&value, "ret ") || value.length < type.length ||
		     memcmp(value.at, type.at, type.length) != 0))
			return false;
	}
	return true;
}

static int read_candidate(const struct search *search, const struct candidate *candidate,
			  struct callees *callees, struct ir_function *out,
			  struct proton_error *err)
{
	*out = (struct ir_function){
		.lines = search->kernel->lines,
		.line_count = search->kernel->line_count,
		.define_line = candidate->define_line,
		.end_line = candidate->end_line,
		.is_amd = search->kernel->is_amd,
		.is_callee = true,
		.signature = candidate->signature,
		.callees = callees,
	};
	return ir_function_read_body(out, err);
}

/* Checks the candidate on its own, without its callers. */
static int check_candidate(const struct search *search, struct candidate *candidate,
			   struct proton_error *err)
{
	struct slice line = search->kernel->lines[candidate->define_line];
	const struct ir_signature *signature = &candidate->signature;
	struct ir_function function;

	if (!ir_signature_read(line, candidate->name.at - 1, &candidate->signature)) {
		candidate->obstacle = reason_signature;
		return PROTON_OK;
	}
	if (!slice_find(signature->before, "internal ") &&
	    !slice_find(signature->before, "private ")) {
		candidate->obstacle = reason_visible;
		return PROTON_OK;
	}
	int status = read_candidate(search, candidate, NULL, &function, err);
	if (status != PROTON_OK || !returns_are_plain(&function, signature->type))
		candidate->obstacle = reason_body;
	ir_function_fini(&function);
	return status == PROTON_E_NOMEM ? status : PROTON_OK;
}

/* A call with an unnamed result would be numbered, so it cannot become two instructions. */
static bool is_plain_call(const struct search *search, const struct reference *reference)
{
	const struct candidate *to = &search->candidates[reference->to];
	struct ir_signature call;

	return reference->from != FROM_NOWHERE &&
	       ir_signature_read(search->kernel->lines[reference->line], reference->at, &call) &&
	       slices_equal(call.type, to->signature.type) &&
	       (call.result.length > 0) != slice_is(call.type, "void");
}

static void obstruct(struct search *search, uint32_t candidate, const char *const *obstacle)
{
	if (!search->candidates[candidate].obstacle)
		search->candidates[candidate].obstacle = obstacle;
}

static int find_obstacles(struct search *search, struct proton_error *err)
{
	for (uint32_t c = 0; c < search->candidate_count; c++) {
		struct candidate *candidate = &search->candidates[c];
		int status = PROTON_OK;

		if (candidate->is_wanted && !candidate->obstacle)
			status = check_candidate(search, candidate, err);
		if (status != PROTON_OK)
			return status;
	}
	for (uint32_t r = 0; r < search->reference_count; r++) {
		const struct reference *reference = &search->references[r];

		if (search->candidates[reference->to].is_wanted &&
		    !is_plain_call(search, reference))
			obstruct(search, reference->to, reason_address);
	}
	spread_all(search, spread_obstacle);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ instrumented callees */

static bool is_callee(const struct candidate *candidate)
{
	return candidate->is_wanted && !candidate->obstacle;
}

/*
 * If the kernel calls no instrumented callee there are none: it would be set up to record, without
 * records.
 */
static void find_uncalled(struct search *search)
{
	for (uint32_t r = 0; r < search->reference_count; r++)
		if (search->references[r].from == FROM_KERNEL &&
		    is_callee(&search->candidates[search->references[r].to]))
			return;
	for (uint32_t c = 0; c < search->candidate_count; c++)
		obstruct(search, c, reason_uncalled);
}

static void set_reason(const struct search *search)
{
	struct ir_function *kernel = search->kernel;
	char *reason = kernel->outside_reason;

	ARRAY_EACH(candidate, search->candidates, search->candidate_count) {
		struct slice name = candidate->name;

		if (!candidate->marker_count || !candidate->obstacle)
			continue;
		if (name.length > 1 && *name.at == '"')
			name = (struct slice){name.at + 1, name.length - 2};
		if (name.length > NAME_SHOWN_MAX)
			name.length = NAME_SHOWN_MAX;
		snprintf(reason, sizeof(kernel->outside_reason), "%s%.*s%s", candidate->obstacle[0],
			 (int)name.length, name.at, candidate->obstacle[1]);
		for (char *at = reason; *at; at++)
			if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
				*at = '?';
		return;
	}
	snprintf(reason, sizeof(kernel->outside_reason), "they are outside any function");
}

static int find_scopes(struct callees *callees, struct proton_error *err)
{
	uint32_t count = 0;

	for (uint32_t h = 0; h < callees->count; h++)
		count += callees->functions[h].marker_count;
	if (!ir_names_init(&callees->scopes, count))
		return err_nomem(err);
	for (uint32_t h = 0; h < callees->count; h++)
		for (uint32_t i = 0; i < callees->functions[h].marker_count; i++) {
			const struct marker *marker = &callees->functions[h].markers[i].marker;

			ir_names_add(&callees->scopes,
				     (struct slice){marker->name, marker->name_length}, i);
		}
	return PROTON_OK;
}

static int make_callees(struct search *search, uint32_t count, struct proton_error *err)
{
	struct callees *callees = calloc(1, sizeof(*callees));

	if (!callees)
		return err_nomem(err);
	search->kernel->callees = callees;
	callees->functions = calloc(count, sizeof(*callees->functions));
	callees->calls = calloc(search->reference_count + 1, sizeof(*callees->calls));
	if (!callees->functions || !callees->calls)
		return err_nomem(err);
	for (uint32_t r = 0; r < search->reference_count; r++) {
		const struct reference *reference = &search->references[r];
		const struct candidate *to = &search->candidates[reference->to];

		struct ir_call *call = &callees->calls[callees->call_count];

		if (!is_callee(to))
			continue;
		*call = (struct ir_call){.line = reference->line, .callee = to->callee};
		callees->call_count += ir_signature_read(search->kernel->lines[call->line],
							 reference->at, &call->signature);
	}
	for (uint32_t c = 0; c < search->candidate_count; c++) {
		int status = PROTON_OK;

		if (is_callee(&search->candidates[c]))
			status = read_candidate(search, &search->candidates[c], callees,
						&callees->functions[callees->count++], err);
		if (status != PROTON_OK)
			return status;
	}
	return find_scopes(callees, err);
}

static int find_callee(struct search *search, struct proton_error *err)
{
	uint32_t count = 0;
	int status = find_candidates(search, err);

	if (status == PROTON_OK)
		status = find_references(search, err);
	if (status != PROTON_OK)
		return status;
	for (uint32_t c = 0; c < search->candidate_count; c++)
		search->candidates[c].is_wanted = search->candidates[c].marker_count > 0;
	spread_all(search, spread_wanted);
	TRY(find_obstacles(search, err));
	find_uncalled(search);
	for (uint32_t c = 0; c < search->candidate_count; c++) {
		struct candidate *candidate = &search->candidates[c];

		if (!is_callee(candidate))
			continue;
		candidate->callee = count++;
		search->kernel->outside_markers -= candidate->marker_count;
	}
	if (search->kernel->outside_markers)
		set_reason(search);
	return count ? make_callees(search, count, err) : PROTON_OK;
}

int callees_find(struct ir_function *kernel, struct proton_error *err)
{
	struct search search = {.kernel = kernel};
	int status = find_callee(&search, err);

	free(search.candidates);
	free(search.references);
	ir_names_fini(&search.names);
	return status;
}

void callees_free(struct callees *callees)
{
	if (!callees)
		return;
	for (uint32_t i = 0; i < callees->count; i++)
		ir_function_fini(&callees->functions[i]);
	free(callees->functions);
	free(callees->calls);
	ir_names_fini(&callees->scopes);
	free(callees);
}
