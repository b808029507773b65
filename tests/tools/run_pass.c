/*
 * Runs a pass of src/intra over text from standard input, for golden tests and Python tests. Lines
 * "-----" separate several texts; the first lines of each that begin with "#" are only printed. The
 * new text, or "unchanged", goes to standard output, other results to standard error. If a pass
 * rejects a text, its message is printed, and the exit status is 1.
 *
 *     run_pass llvm ARCH [key=value...]     the instrumentation pass; its layout. Keys: warps,
 *         threads, parameters, shared, limit, per_sm, buffer (shared | global), bytes, unit,
 *         sampled (mask), stride, barriers, sums, hoist, extremes, tree (auto)
 *     run_pass plan [sums=1]                records and clock reads of markers, bytes by block
 *     run_pass reschedule | hoist           these parts of the pass alone
 *     run_pass records [amd=1]              TTGIR with operations of the dialect "proton"
 *     run_pass scopes MODE [key=value...]   automatic scopes. Keys: spelling (records), records,
 *         less (percent of registers), without (names with commas), levels, costs
 *     run_pass strip WHEN                   partitions, loops or always
 *     run_pass restore                      two texts: TTIR with scopes, TTGIR without
 *     run_pass work                         for each line, whether it is work
 *     run_pass count X,Y,Z ARGUMENT...      what TTIR does on a grid; "-": an unknown argument
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intra/llvm/llvm_pass.h"
#include "intra/llvm/record_plan.h"
#include "intra/llvm/sum_plan.h"
#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/ttgir.h"
#include "intra/work/work.h"

static uint64_t number_of(const char *key, int count, char **words, uint64_t otherwise)
{
	size_t length = strlen(key);

	for (int i = 0; i < count; i++)
		if (strncmp(words[i], key, length) == 0 && words[i][length] == '=')
			return strtoull(words[i] + length + 1, NULL, 0);
	return otherwise;
}

static bool has(const char *word, int count, char **words)
{
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

static enum instrument_tree tree_of(int count, char **words)
{
	if (has("tree=auto", count, words))
		return INSTRUMENT_TREE_AUTO;
	return number_of("sums", count, words, 0) ? INSTRUMENT_TREE_SUMS : INSTRUMENT_TREE_RECORDS;
}

static struct instrument_options options_of(const char *arch, int count, char **words)
{
	bool is_amd = strncmp(arch, "gfx", 3) == 0;

	return (struct instrument_options){
		.arch = arch,
		.warp_count = (uint32_t)number_of("warps", count, words, 4),
		.threads_per_warp = (uint32_t)number_of("threads", count, words, is_amd ? 64 : 32),
		.parameter_count = (uint32_t)number_of("parameters", count, words, 0),
		.shared_bytes = (uint32_t)number_of("shared", count, words, 0),
		.shared_limit = (uint32_t)number_of("limit", count, words, 0),
		.shared_per_processor = (uint32_t)number_of("per_sm", count, words, 0),
		.mode.buffer = has("buffer=global", count, words) ? INSTRUMENT_BUFFER_GLOBAL
								  : INSTRUMENT_BUFFER_SHARED,
		.mode.buffer_bytes = (uint32_t)number_of("bytes", count, words, 0),
		.mode.warps_per_unit = (uint32_t)number_of("unit", count, words, 0),
		.mode.warps = number_of("sampled", count, words, 0),
		.mode.cta_stride = (uint32_t)number_of("stride", count, words, 0),
		.mode.sched_barriers = number_of("barriers", count, words, 0) != 0,
		.mode.tree = tree_of(count, words),
		.hoists = number_of("hoist", count, words, 0) != 0,
		.has_extremes = number_of("extremes", count, words, 0) != 0,
	};
}

static void print_layout(const struct instrument_result *result)
{
	struct out out;

	out_init(&out, -1);
	layout_write(&result->layout, &out);
	fprintf(stderr, "%.*s", (int)out.length, out.bytes ? out.bytes : "");
	fprintf(stderr, "#shared %u\n#records %u\n#ignored %u\n#buffer %s\n#can_hoist %d\n",
		result->shared_bytes, result->record_count, result->ignored_markers,
		result->buffer == INSTRUMENT_BUFFER_GLOBAL ? "global" : "shared",
		result->can_hoist);
	if (*result->records_reason)
		fprintf(stderr, "#why %s\n", result->records_reason);
	if (result->ignored_markers)
		fprintf(stderr, "#reason %s\n", result->ignored_reason);
	if (!result->text)
		fprintf(stderr, "#unchanged\n");
	out_fini(&out);
}

/* ------------------------------------------------------------------ texts and results */

static int arguments;
static char **words;

static const char *value_of(const char *key)
{
	size_t length = strlen(key);

	for (int i = 0; i < arguments; i++)
		if (strncmp(words[i], key, length) == 0 && words[i][length] == '=')
			return words[i] + length + 1;
	return NULL;
}

/* Writes what a pass made of `text`, and frees it. */
static void print_text(char *made)
{
	fflush(stderr);
	printf("%s", made ? made : "unchanged\n");
	if (made && *made && made[strlen(made) - 1] != '\n')
		putchar('\n');
	free(made);
	fflush(stdout);
}

/* The same with markers as short as they can be. */
static void print_short(char *made)
{
	char *to = made;

	for (const char *at = made, *next; at && *at; at = next) {
		size_t length = strcspn(at, "\n");
		const char *mark = memmem(at, length, "// proton.", 10);

		next = at + length + (at[length] == '\n');
		length = mark ? strcspn(mark, "\"") : length;
		memmove(to, mark ? mark : at, length);
		to += length;
		*to++ = '\n';
	}
	if (made)
		*to = '\0';
	print_text(made);
}

typedef int pass_run(const char *text, size_t length, struct proton_error *err);

static int run_llvm(const char *text, size_t length, struct proton_error *err)
{
	struct instrument_options options = options_of(words[0], arguments - 1, words + 1);
	struct instrument_result result;
	int status = instrument_llvm(text, length, &options, &result, err);

	if (status != PROTON_OK)
		return status;
	print_layout(&result);
	fwrite(result.text ? result.text : text, 1, result.text ? result.length : length, stdout);
	fflush(stdout);
	instrument_result_fini(&result);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ plans */

static void print_sums(const struct ir_function *function, const struct plan *plan,
		       struct instrument_layout *layout)
{
	static const char *const kinds[] = {"cycles", "counter", "open", "inside",
					    "begin",  "min",     "max"};
	struct sum_plan sums;
	struct proton_error err;

	if (sum_plan_make(function, plan, true, layout, &sums, &err) != PROTON_OK)
		printf("%s\n", err.text);
	for (uint32_t v = 0; v < sums.variable_count; v++)
		printf("word %u: %s %u\n", v, kinds[sums.variables[v].kind],
		       sums.variables[v].index);
	for (uint32_t s = 0; s < layout->sum_count; s++)
		printf("sum %u: scope %s%s\n", s, layout->scopes[layout->sums[s].scope],
		       sums.begins[s] ? ", keeps the clock of its start" : "");
	if (*sums.reason)
		printf("no sums: %s\n", sums.reason);
	sum_plan_fini(&sums);
}

static void print_plan(const struct ir_function *function, const struct plan *plan,
		       const struct instrument_layout *layout)
{
	static const char *const kinds[] = {"scope", "start", "end", "event start", "event end"};
	static const char *const origins[] = {
		[VALUE_UNREACHED] = "unreachable",
		[VALUE_CONSTANT] = "%u bytes",
		[VALUE_PHI] = "given to block %u",
		[VALUE_CODE] = "the value after block %u",
	};

	for (uint32_t m = 0; m < function->marker_count; m++) {
		const struct plan_site *site = &plan->sites[m];

		printf("marker %u: clock %u", m, site->clock);
		if (site->stores)
			printf(", %s %s in slot %u", kinds[layout->codes[site->code].kind],
			       layout->scopes[site->scope], site->slot);
		if (site->start != PLAN_NONE)
			printf(", from marker %u", site->start);
		putchar('\n');
	}
	for (uint32_t b = 0; b < plan->block_count; b++) {
		struct plan_value used = plan->used[b];

		printf("block %u: ", b);
		printf(plan_is_phi(plan, used, used.number) ? "a phi of block %u"
							    : origins[used.origin],
		       used.number);
		printf(", %u edges\n", plan->blocks[b].predecessor_count);
	}
	printf("%u records, at most %u in a block, %u scopes\n", plan->record_count,
	       plan->group_max, layout->scope_count);
}

static int run_plan(const char *text, size_t length, struct proton_error *err)
{
	struct instrument_layout layout = {0};
	struct ir_function function;
	struct plan plan;
	int status = ir_module_read(text, length, &function, err);

	if (status == PROTON_OK)
		status = plan_make(&function, &layout, &plan, err);
	if (status != PROTON_OK)
		return status;
	print_plan(&function, &plan, &layout);
	if (value_of("sums"))
		print_sums(&function, &plan, &layout);
	plan_fini(&plan);
	layout_fini(&layout);
	ir_module_fini(&function);
	return PROTON_OK;
}

static int run_moving(const char *text, size_t length, struct proton_error *err,
		      int (*move)(const struct ir_function *, char **, size_t *,
				  struct proton_error *))
{
	struct ir_function function;
	size_t made_length;
	char *made;
	int status = ir_module_read(text, length, &function, err);

	if (status == PROTON_OK)
		status = move(&function, &made, &made_length, err);
	if (status != PROTON_OK)
		return status;
	print_text(made);
	ir_module_fini(&function);
	return PROTON_OK;
}

static int run_reschedule(const char *text, size_t length, struct proton_error *err)
{
	return run_moving(text, length, err, reschedule);
}

static int run_hoist(const char *text, size_t length, struct proton_error *err)
{
	return run_moving(text, length, err, hoist);
}

/* ------------------------------------------------------------------ TTGIR */

static int run_records(const char *text, size_t length, struct proton_error *err)
{
	struct ttgir_result result;
	int status = ttgir_translate_records(text, length, value_of("amd"), &result, err);

	if (status == PROTON_OK)
		print_text(result.text);
	return status;
}

/* Every line that is not a marker is unchanged and in order. */
static bool keeps_lines(const char *made, const char *original)
{
	while (*made) {
		size_t length = strcspn(made, "\n");

		if (!memmem(made, length, "elementwise_inline_asm \"// proton.", 34) &&
		    !memmem(made, length, "proton.record ", 14)) {
			if (strncmp(made, original, length + 1) != 0)
				return false;
			original += length + (original[length] == '\n');
		}
		made += length + (made[length] == '\n');
	}
	return !*original;
}

static int run_scopes(const char *text, size_t length, struct proton_error *err)
{
	const char *spelling = value_of("spelling");
	const char *without = value_of("without");
	const char *costs = value_of("costs");
	char *names = strdup(without ? without : "");
	struct ttgir_insertion how = {
		.spelling = spelling ? TTGIR_RECORDS : TTGIR_MARKERS,
		.records = (uint32_t)number_of("records", arguments, words, 0),
		.registers_less = (uint32_t)number_of("less", arguments, words, 0),
		.without = slice_of(names),
		.loop_levels = (uint32_t)number_of("levels", arguments, words, 0),
		.costs = slice_of(costs ? costs : ""),
	};
	struct instrument_mode mode;
	struct ttgir_result result;
	int status = instrument_mode_read(words[0], &mode, err);

	for (char *comma = names; (comma = strchr(comma, ','));)
		*comma = '\n';
	if (status == PROTON_OK)
		status = ttgir_insert_scopes(text, length, &mode, &how, &result, err);
	free(names);
	if (status != PROTON_OK)
		return status;
	fprintf(stderr, "#scopes %u\n#records %u\n#stride %u\n", result.scope_count,
		result.record_count, result.cta_stride);
	if (result.note)
		fprintf(stderr, "#note %s\n", result.note);
	if (result.text && !keeps_lines(result.text, text))
		fprintf(stderr, "#other lines differ\n");
	print_text(result.text);
	free(result.note);
	free(result.names);
	return PROTON_OK;
}

/* TTIR with scopes written as `proton.record`. */
static int read_marked(const char *text, size_t length, struct ttgir_result *marked,
		       struct proton_error *err)
{
	int status = ttgir_translate_records(text, length, false, marked, err);

	if (status == PROTON_OK && !marked->text)
		marked->text = strndup(text, length);
	return status;
}

static int run_strip(const char *text, size_t length, struct proton_error *err)
{
	enum ttgir_strip_markers when = strcmp(words[0], "partitions") == 0 ? TTGIR_FROM_PARTITIONS
					: strcmp(words[0], "loops") == 0    ? TTGIR_FROM_LOOPS
									    : TTGIR_ALWAYS;
	struct ttgir_result marked;
	struct ttgir_result result;
	int status = read_marked(text, length, &marked, err);

	if (status != PROTON_OK)
		return status;
	status = ttgir_strip_markers(marked.text, strlen(marked.text), when, &result, err);
	free(marked.text);
	if (status == PROTON_OK)
		print_text(result.text);
	return status;
}

static char *marked_text; /* the first of two texts */

static int run_restore(const char *text, size_t length, struct proton_error *err)
{
	struct ttgir_result result;
	int status;

	if (!marked_text) {
		status = read_marked(text, length, &result, err);
		marked_text = status == PROTON_OK ? result.text : NULL;
		return status;
	}
	status = ttgir_restore_scopes(marked_text, strlen(marked_text), text, length, &result, err);
	free(marked_text);
	marked_text = NULL;
	if (status == PROTON_OK)
		print_short(result.text);
	return status;
}

static int run_work(const char *text, size_t length, struct proton_error *err)
{
	struct mlir_line line;
	(void)length;
	(void)err;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		struct slice shown = {text, strcspn(text, "\n")};

		mlir_line_read(shown, &line);
		printf("%-5s", operations_is_work(&line) ? "work" : "");
		fwrite(shown.at, 1, shown.length, stdout);
		putchar('\n');
	}
	return PROTON_OK;
}

static void print_range(const char *name, struct work_range range)
{
	if (range.low < range.high)
		printf("%s: %.0f to %.0f\n", name, range.low, range.high);
	else if (range.high > 0)
		printf("%s: %.0f\n", name, range.high);
}

static int run_count(const char *text, size_t length, struct proton_error *err)
{
	static const char *const dots[] = {"dots4", "dots8", "dots16", "dots32", "dots64"};
	static const char *const others[] = {"others4", "others8", "others16", "others32",
					     "others64"};
	struct work_argument values[64] = {0};
	struct work_launch launch = {.arguments = values};
	struct program *program;
	struct work work;
	char *grid = words[0];
	int status = work_read(text, length, &program, err);

	if (status != PROTON_OK)
		return status;
	for (int i = 0; i < 3; i++, grid += *grid == ',')
		launch.grid[i] = strtoll(grid, &grid, 10);
	for (int i = 1; i < arguments && i <= 64; i++, launch.argument_count++)
		if (strcmp(words[i], "-") != 0)
			values[i - 1] = (struct work_argument){true, strtoll(words[i], NULL, 10)};
	status = work_count(program, &launch, &work, err);
	for (uint32_t i = 0; i < WORK_WIDTHS && status == PROTON_OK; i++) {
		print_range(dots[i], work.dots[i]);
		print_range(others[i], work.others[i]);
	}
	for (uint32_t i = 0; i < 2 && status == PROTON_OK; i++) {
		print_range(i ? "stored" : "loaded", work.requested[i]);
		print_range(i ? "stored once" : "loaded once", work.compulsory[i]);
	}
	work_free(program);
	return status;
}

/* ------------------------------------------------------------------ the program */

static const struct {
	const char *name;
	pass_run *run;
	int words; /* that it must have */
} passes[] = {
	{"llvm", run_llvm, 1},   {"plan", run_plan, 0},       {"reschedule", run_reschedule, 0},
	{"hoist", run_hoist, 0}, {"records", run_records, 0}, {"scopes", run_scopes, 1},
	{"strip", run_strip, 1}, {"restore", run_restore, 0}, {"work", run_work, 0},
	{"count", run_count, 1},
};

/* Prints what the text is about; returns its begin. */
static char *print_about(char *text)
{
	while (*text == '#') {
		size_t length = strcspn(text, "\n");

		printf("%.*s\n", (int)length, text);
		text += length + (text[length] == '\n');
	}
	fflush(stdout);
	return text;
}

static int run_texts(pass_run *run, char *text)
{
	static const char separator[] = "\n-----\n";
	struct proton_error err;
	int status = 0;

	for (char *next; text; text = next) {
		next = strstr(text, separator);
		if (next) {
			next[1] = '\0';
			next += strlen(separator);
		}
		text = print_about(text);
		if (run(text, strlen(text), &err) != PROTON_OK) {
			fprintf(stderr, "%s\n", err.text);
			status = 1;
		}
		if (next && !marked_text)
			puts("-----");
	}
	return status;
}

int main(int argc, char **argv)
{
	struct proton_error err;
	char *text;
	size_t length;
	int status = 2;

	arguments = argc - 2;
	words = argv + 2;
	for (size_t i = 0; argc > 1 && i < sizeof(passes) / sizeof(passes[0]); i++) {
		if (strcmp(passes[i].name, argv[1]) != 0 || passes[i].words > arguments)
			continue;
		if (file_read_all("-", 0, &text, &length, &err) != PROTON_OK) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		text = realloc(text, length + 1);
		text[length] = '\0';
		status = run_texts(passes[i].run, text);
		free(text);
	}
	if (status == 2)
		fprintf(stderr, "usage: run_pass PASS [WORD...]; see tests/tools/run_pass.c\n");
	return status;
}
