/*
 * Failing allocations: loading, merging, exporting and decoding are tried with the first, the
 * second, ... allocation failing, and with all later ones failing too. Each must end with one
 * error and without a crash, a leak or a leftover file, or do its work without the memory.
 */
#include "unit/recorded_trace.h"

#include <dirent.h>
#include <getopt.h>

#include "base/hash.h"
#include "export/export.h"
#include "intra/decode/decoder.h"
#include "intra/llvm/llvm_pass.h"
#include "model/load.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "model/regroup.h"
#include "model/rollup.h"
#include "symbol/code_object.h"
#include "symbol/inlined_calls.h"
#include "symbol/line_table.h"
#include "unit/failing.h"

#define main viewer_main
#include "viewer/viewer_main.c"
#undef main

void __wrap_exit(int status);

static long *made; /* shared with a child that runs the viewer: allocations that it has tried */

/* The viewer calls exit() where it cannot continue; sanitizers must not report its leaks. */
void __wrap_exit(int status)
{
	if (made)
		*made = number;
	fflush(NULL);
	_exit(status);
}

/* ------------------------------------------------------------------ one operation after another */

/* Does something that may run out of memory; PROTON_OK with a checksum in *sum_out. */
typedef int (*operation_fn)(const void *what, uint64_t *sum_out, struct proton_error *err);

#define ALLOCATIONS_MAX 100000

static void check_once(operation_fn operation, const void *what, uint64_t expected)
{
	struct proton_error err = {0};
	uint64_t sum = 0;

	long before = live;
	long at = fails_at;

	number = 0;
	int status = operation(what, &sum, &err);
	fails_at = has_failed() ? 0 : -1; /* checks allocate too */
	if (status != PROTON_OK)
		CHECK_EQ(status, PROTON_E_NOMEM);
	if (status != PROTON_OK)
		CHECK_HAS(err.text, "out of memory");
	else
		CHECK_U64(sum, expected);
	CHECK_EQ(live, before);
	fails_at = fails_at ? -1 : at;
}

static void check_all(operation_fn operation, const void *what)
{
	uint64_t expected = 0;

	skip_if_emulated("thousands of runs take many minutes under an emulator");
	fails_at = 0;
	CHECK_DONE(operation(what, &expected, &err));
	for (int from_there = 0; from_there < 2; from_there++) {
		fails_from_there = from_there;
		for (long n = 1; n < ALLOCATIONS_MAX; n++) {
			fails_at = n;
			check_once(operation, what, expected);
			if (fails_at < 0)
				break; /* it needs fewer */
		}
	}
	fails_at = 0;
}

/* ------------------------------------------------------------------ profiles */

struct sample {
	const char *path;
	char *bytes;
	size_t length;
};

/* A profile file with events; it is recorded on first use. */
#define TRACE "trace.proton"

static void record_trace(void)
{
	struct proton_metric loss = {
		.name = "loss", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5};
	struct proton_context where;

	if (rec_exists(TRACE))
		return;
	trace_start("trace");
	for (uint32_t i = 0; i < 20; i++) {
		char name[16];
		uint64_t token;

		snprintf(name, sizeof(name), "step %u", i);
		token = proton_scope_enter(name);
		proton_metrics_add(proton_scope_context(token), &loss, 1, NULL);
		proton_op_enter(proton_frame("named", 5), &where);
		rec_kernel("k");
		proton_op_exit();
		proton_scope_exit(token, NULL);
	}
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
}

static void find_sample(const char *path, char *full, size_t capacity)
{
	if (strcmp(path, TRACE) == 0)
		record_trace();
	if (strcmp(path, TRACE) == 0)
		snprintf(full, capacity, "%s", rec_path(path));
	else
		snprintf(full, capacity, "%s/%s", TESTS_DIR, path);
}

static struct sample read_sample(const char *path)
{
	struct sample sample = {.path = path};
	char full[512];

	find_sample(path, full, sizeof(full));
	CHECK_DONE(file_read_all(full, NULL, &sample.bytes, &sample.length, &err));
	return sample;
}

static const char *const samples[] = {
	TRACE,
	"data/viewer/cuda.hatchet",
	"data/viewer/mixed.hatchet",
	"data/viewer/losses.hatchet",
	"data/viewer/warps.hatchet",
	"data/viewer/up_tree.hatchet_msgpack",
};

static uint64_t sum_of(const struct profile *profile)
{
	return profile->node_count + 1000 * profile->value_count + 1000000 * profile->kernel_count +
	       profile->strings.used;
}

static int load(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	const struct sample *sample = what;
	struct profile *profile;
	int status = profile_load_bytes(sample->path, sample->bytes, sample->length, &profile, err);

	if (status)
		return status;
	*sum_out = sum_of(profile);
	profile_free(profile);
	return PROTON_OK;
}

TEST(loading_fails_with_one_error_or_not_at_all)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		struct sample sample = read_sample(samples[i]);

		check_all(load, &sample);
		free(sample.bytes);
	}
}

static struct profile *load_sample(const char *path)
{
	struct sample sample = read_sample(path);
	struct profile *profile;

	CHECK_DONE(profile_load_bytes(path, sample.bytes, sample.length, &profile, &err));
	free(sample.bytes);
	return profile;
}

static int merge(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	struct profile *const *sources = what;
	struct profile *target = profile_new();
	struct merge *merger = target ? merge_new(target) : NULL;

	for (size_t i = 0; merger && i < 3; i++)
		merge_tree(merger, sources[i]);
	bool has_memory = merger && !target->out_of_memory;
	merge_free(merger);
	has_memory = has_memory && !target->out_of_memory;
	if (has_memory)
		*sum_out = sum_of(target);
	profile_free(target);
	return has_memory ? PROTON_OK : err_set(err, PROTON_E_NOMEM, "out of memory");
}

TEST(merging_records_that_memory_ran_out)
{
	struct profile *sources[] = {
		load_sample("data/viewer/cuda.hatchet"),
		load_sample("data/viewer/mixed.hatchet"),
		load_sample("data/viewer/losses.hatchet"),
	};

	check_all(merge, sources);
	for (size_t i = 0; i < 3; i++)
		profile_free(sources[i]);
}

static int merge_ranks(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	struct profile *const *sources = what;
	struct profile *target = profile_new();
	struct merge *merger = target ? merge_new(target) : NULL;

	for (uint32_t i = 0; merger && i < 2; i++) {
		struct rank_origin origin = {.rank = 2 * i, .files = 1, .reason = "", .mixed = ""};

		ranks_add(target, sources[i], merge_tree(merger, sources[i]), &origin);
	}
	merge_free(merger);
	if (merger)
		ranks_complete(target);
	bool has_memory = merger && !target->out_of_memory;
	if (has_memory)
		*sum_out = sum_of(target) + target->ranks->count;
	profile_free(target);
	return has_memory ? PROTON_OK : err_set(err, PROTON_E_NOMEM, "out of memory");
}

TEST(merging_ranks_records_that_memory_ran_out)
{
	struct profile *sources[] = {
		load_sample("data/viewer/cuda.hatchet"),
		load_sample("data/viewer/losses.hatchet"),
	};

	profile_info(sources[0], "world_size", "4"); /* two are missing */
	check_all(merge_ranks, sources);
	for (size_t i = 0; i < 2; i++)
		profile_free(sources[i]);
}

static int turn_around(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	static const enum regroup_by groups[] = {REGROUP_KERNEL, REGROUP_SCOPE, REGROUP_FILE,
						 REGROUP_MODULE, REGROUP_LAYER, REGROUP_OPERATOR,
						 REGROUP_SHAPE,  REGROUP_DEVICE};
	struct profile *turned;
	struct column column;
	int status = PROTON_OK;

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]) && !status; i++) {
		status = profile_regroup(what, groups[i], 0, NULL, NULL, &turned, err);
		if (status)
			break;
		*sum_out += sum_of(turned);
		profile_free(turned);
	}
	if (!status)
		status = profile_regroup(what, REGROUP_CALLERS, 100, NULL, NULL, &turned, err);
	if (status)
		return status;
	*sum_out += sum_of(turned);
	status = rollup_metric(turned, "time (ns)", true, &column, err);
	if (!status) {
		*sum_out += (uint64_t)column.value[0];
		column_fini(&column);
		status = rollup_percentile(turned, 0.5, &column, err);
	}
	if (!status)
		column_fini(&column);
	profile_free(turned);
	return status;
}

TEST(inverting_a_profile_fails_with_one_error)
{
	struct profile *profile = load_sample("data/viewer/cuda.hatchet");

	check_all(turn_around, profile);
	profile_free(profile);
}

struct export_case {
	const struct export_format *format;
	const struct profile *profile;
};

static int export_in_memory(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	const struct export_case *export_case = what;
	struct out out;

	out_init(&out, -1);
	int status = export_case->format->write(export_case->profile, &out, err);
	if (status == PROTON_OK)
		status = out_finish(&out, err);
	*sum_out = out.total;
	if (status && status != PROTON_E_NOMEM)
		printf("# %s: %s\n", export_case->format->name, err->text);
	else if (status && !strstr(err->text, "out of memory"))
		err_set(err, PROTON_E_NOMEM, "out of memory"); /* the message of the system */
	out_fini(&out);
	return status;
}

TEST(exporting_fails_with_one_error)
{
	static const char *const trees[] = {"data/viewer/cuda.hatchet",
					    "data/viewer/mixed.hatchet"};
	const struct export_format *format;

	for (size_t f = 0; (format = export_format_at(f)) != NULL; f++) {
		for (size_t i = 0; i < 2 && !format->needs_trace; i++) {
			struct profile *profile = load_sample(trees[i]);

			check_all(export_in_memory, &(struct export_case){format, profile});
			profile_free(profile);
		}
		if (format->needs_trace) {
			struct profile *profile = load_sample(TRACE);

			CHECK(profile->trace != NULL);
			check_all(export_in_memory, &(struct export_case){format, profile});
			profile_free(profile);
		}
	}
}

/* ------------------------------------------------------------------ decoding */

#define CTA_BYTES 65536u
#define RING_RECORDS 64u

/* Nested scopes and asynchronous work, in every unit. */
static void fill_cta(const struct instrument_layout *layout, uint8_t *cta, uint32_t records)
{
	for (uint32_t u = 0; u < layout->unit_count; u++) {
		struct instrument_unit_header header = {
			.magic = INSTRUMENT_MAGIC,
			.start_clock = 1000,
			.end_clock = 100000,
			.end_ns = 50000,
			.count = records,
		};

		memcpy(cta + layout_header_at(layout, u), &header, sizeof(header));
		for (uint32_t i = 0; i < records; i++) {
			/* 1: a scope, 2: its start, 3: its end, 4 and 5: asynchronous work */
			uint32_t code = i % 4 == 0 ? 2 : i % 4 == 1 ? 4 : i % 4 == 2 ? 5 : 3;
			struct instrument_record record = {1100 + 100 * i, code << 24};

			memcpy(cta + layout_ring_at(layout, u) + i * sizeof(record), &record,
			       sizeof(record));
		}
	}
}

static int decode(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	static uint8_t cta[CTA_BYTES];
	const struct instrument_layout *layout = what;
	struct decoder decoder;
	bool has_memory = true;

	decoder_init(&decoder, layout, (struct decode_overhead){16, 48});
	for (uint32_t records = 4; records <= RING_RECORDS; records *= 4) {
		bool is_decoded;

		memset(cta, 0, sizeof(cta));
		fill_cta(layout, cta, records);
		is_decoded = decode_cta(&decoder, cta);
		has_memory = has_memory && is_decoded;
		if (!is_decoded && !fails_from_there)
			CHECK(decode_cta(&decoder, cta)); /* memory is available again */
		if (is_decoded || !fails_from_there)
			*sum_out += decoder.execution_count * records;
	}
	if (!has_memory && !fails_from_there)
		CHECK_U64(*sum_out, layout->unit_count * (2 * 1 * 4 + 2 * 4 * 16 + 2 * 16 * 64));
	decoder_fini(&decoder);
	return has_memory ? PROTON_OK : err_set(err, PROTON_E_NOMEM, "out of memory");
}

TEST(decoding_fails_without_memory_and_works_again_with_it)
{
	struct instrument_layout layout = {
		.unit_count = 3,
		.warps_per_unit = 1,
		.warp_count = 8,
		.ring_bytes = RING_RECORDS * INSTRUMENT_RECORD_BYTES,
		.slack_bytes = 2 * INSTRUMENT_RECORD_BYTES,
		.cta_stride = 1,
		.units = {0, 1, 2},
	};

	layout.cta_bytes = (uint32_t)(layout_ring_at(&layout, layout.unit_count) + 127) & ~127u;
	CHECK_LT(layout.cta_bytes, CTA_BYTES);
	uint32_t scope = layout_scope(&layout, "a", 1);
	layout_code(&layout, scope, INSTRUMENT_SCOPE);
	layout_code(&layout, scope, INSTRUMENT_START);
	layout_code(&layout, scope, INSTRUMENT_END);
	scope = layout_scope(&layout, "e", 1);
	layout_code(&layout, scope, INSTRUMENT_EVENT_START);
	layout_code(&layout, scope, INSTRUMENT_EVENT_END);
	check_all(decode, &layout);
	layout_fini(&layout);
}

/* ------------------------------------------------------------------ instrumenting */

#define MARK(result, kind)                                                                         \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " h\", \"=r\"() #1\n"

static int instrument(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_limit = 65536,
		.shared_per_processor = 65536,
	};
	struct instrument_result result;
	int status = instrument_llvm(what, strlen(what), &options, &result, err);

	if (status != PROTON_OK)
		return status;
	*sum_out = hash_bytes(result.text, result.length) + result.layout.ring_bytes;
	instrument_result_fini(&result);
	return PROTON_OK;
}

TEST(instrumenting_callees_fails_with_one_error)
{
	check_all(instrument,
		  "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
		  "  call void @g() #3\n  call void @h() #3\n  ret void\n}\n\n"
		  "define internal void @g() #1 {\n" MARK("%1", "start")
			  MARK("%2", "end") "  call void @h() #3\n  ret void\n}\n\n"
					    "define internal void @h() #1 {\n" MARK("%1", "start")
						    MARK("%2", "end") "  ret void\n}\n\n");
}

/* ------------------------------------------------------------------ machine code */

/* A hash of the runs of all functions, with their lines and calls. */
static uint64_t hash_lines(const struct line_table *table, const struct code_object *object)
{
	struct line_run run;
	uint64_t hash = 1;

	for (uint32_t i = 0; i < object->function_count; i++) {
		uint32_t function = line_table_function(table, object->functions[i].name);

		for (uint64_t pc = 0; line_table_run(table, function, pc, &run); pc = run.end) {
			hash = hash * 31 + run.end + run.info;
			for (uint32_t at = run.frame; at;) {
				const struct line_frame *frame = line_table_frame(table, at);

				hash = hash * 31 + frame->line + strlen(frame->file);
				at = frame->caller;
			}
		}
	}
	return hash;
}

/* The code object of a sample, with the PTX that may follow. */
static int read_lines(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	static const char separator[] = "\n//PTX\n";
	const struct sample *sample = what;
	const char *ptx = memmem(sample->bytes, sample->length, separator, strlen(separator));
	const char *end = sample->bytes + sample->length;
	struct code_object object;
	struct line_table *table;
	int status = code_object_open(&object, sample->bytes, sample->length, err);

	if (status)
		return status;
	ptx = ptx ? ptx + strlen(separator) : end;
	status = line_table_open(sample->bytes, sample->length, ptx < end ? ptx : NULL,
				 (size_t)(end - ptx), &table, err);
	if (status == PROTON_OK) {
		*sum_out = hash_lines(table, &object);
		line_table_close(table);
	}
	code_object_close(&object);
	return status;
}

static int read_calls(const void *what, uint64_t *sum_out, struct proton_error *err)
{
	const struct sample *sample = what;
	struct inlined_calls calls;
	struct code_object object;
	int status = code_object_open(&object, sample->bytes, sample->length, err);

	if (status)
		return status;
	status = inlined_calls_read(&calls, &object);
	if (status) /* without a text */
		err_set(err, status, "out of memory");
	else
		*sum_out = 1 + calls.count + 1000 * calls.ranges.count;
	inlined_calls_fini(&calls);
	code_object_close(&object);
	return status;
}

TEST(reading_lines_of_code_fails_with_one_error)
{
	static const char *const objects[] = {"amd_dwarf_4", "amd_dwarf_5", "calls", "ptx"};

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct sample sample;
		char path[64];

		snprintf(path, sizeof(path), "fuzz/corpus/line_table/%s", objects[i]);
		sample = read_sample(path);
		check_all(read_lines, &sample);
		check_all(read_calls, &sample);
		free(sample.bytes);
	}
}

/* ------------------------------------------------------------------ the viewer */

#define ARGUMENTS_MAX 8
#define CUDA "data/viewer/cuda.hatchet"

/* OUT is a file in an empty directory. */
#define FIRST_EXPORT 8
#define STEP 100 /* of n / STEP allocations */
static const char *const runs[][ARGUMENTS_MAX] = {
	{CUDA},
	{"--top", "--csv", CUDA},
	{"--bottom-up", "--json", CUDA},
	{"--diff", CUDA, "--fail-if", "time/ms > +5%", CUDA},
	{"--merge", "spread", CUDA, "data/viewer/hip.hatchet"},
	{"--brief", CUDA},
	{"--warps", "data/viewer/warps.hatchet"},
	{"--source", "data/viewer/up_pc.hatchet"},
	{"--export", "html", "-o", "OUT", CUDA},
	{"--export", "folded", "-o", "OUT", CUDA},
	{"--export", "speedscope", "-o", "OUT", CUDA},
	{"--export", "pprof", "-o", "OUT", CUDA},
	{"--export", "csv", "-o", "OUT", CUDA},
	{"--export", "hatchet", "-o", "OUT", CUDA, "data/viewer/hip.hatchet"},
	{"--export", "hatchet_msgpack", "-o", "OUT", "--group", "device", CUDA},
	{"--export", "chrome_trace", "-o", "OUT", TRACE},
	{"--export", "perfetto", "-o", "OUT", TRACE},
};

static void run_viewer(const char *const *run, const char *folder, int messages)
{
	static char texts[ARGUMENTS_MAX][512];
	char program[] = "proton-viewer";
	char *argv[ARGUMENTS_MAX + 2] = {program};
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int argc = 1;

	for (int i = 0; i < ARGUMENTS_MAX && run[i]; i++, argc++) {
		if (strcmp(run[i], "OUT") == 0)
			snprintf(texts[i], sizeof(texts[i]), "%s/out", folder);
		else if (strcmp(run[i], TRACE) == 0 || strncmp(run[i], "data/", 5) == 0)
			find_sample(run[i], texts[i], sizeof(texts[i]));
		else
			snprintf(texts[i], sizeof(texts[i]), "%s", run[i]);
		argv[argc] = texts[i];
	}
	dup2(nowhere, STDOUT_FILENO);
	dup2(messages, STDERR_FILENO);
	optind = 0;
	number = 0;
	exit(viewer_main(argc, argv));
}

/* The exit status of a run of which allocation n fails; its messages in `text`. */
static int try_viewer(const char *const *run, const char *folder, long n, char *text,
		      size_t capacity)
{
	int messages = memfd_create("messages", MFD_CLOEXEC);
	int status;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		fails_at = n;
		run_viewer(run, folder, messages);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	ssize_t length = pread(messages, text, capacity - 1, 0);
	text[length > 0 ? length : 0] = '\0';
	close(messages);
	if (!WIFEXITED(status))
		printf("# %s: allocation %ld: %s\n", run[1] ? run[1] : run[0], n, text);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static size_t files_in(const char *folder)
{
	struct dirent *entry;
	size_t count = 0;

	DIR *directory = opendir(folder);

	CHECK(directory != NULL);
	while ((entry = readdir(directory)) != NULL)
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(directory);
	return count;
}

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	for (; (text = strstr(text, part)) != NULL; text++)
		count++;
	return count;
}

static void check_run(const char *const *run, const char *folder)
{
	char text[4096], path[300];
	int expected = try_viewer(run, folder, 0, text, sizeof(text));
	size_t outputs = files_in(folder);

	long total = *made;

	CHECK(expected == 0 || expected == EXIT_GATE);
	snprintf(path, sizeof(path), "%s/out", folder);
	unlink(path);
	for (long n = 1; n <= total; n += 1 + n / (fails_from_there ? 20 : STEP)) {
		int status = try_viewer(run, folder, n, text, sizeof(text));
		size_t errors = count_of(text, "out of memory") + count_of(text, "allocate memory");

		size_t left = files_in(folder);
		size_t max = fails_from_there ? 2 : 1; /* one for each of two files */

		if (status != EXIT_BAD ? status != expected || left != outputs
				       : errors < 1 || errors > max || left)
			printf("# %s %s, allocation %ld of %ld: status %d, %zu files, %s\n", run[0],
			       run[1] ? run[1] : "", n, total, status, left, text);
		if (status != EXIT_BAD) {
			CHECK_EQ(status, expected);
			CHECK_EQ(left, outputs);
		} else {
			CHECK_LE(1, errors);
			CHECK_LE(errors, max);
			CHECK_EQ(left, 0);
		}
		unlink(path);
	}
}

static void check_runs(size_t first, size_t end)
{
	char folder[] = "/tmp/proton-test-XXXXXX";

	skip_if_emulated("thousands of runs take many minutes under an emulator");
	made = __real_mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	CHECK(made != MAP_FAILED);
	CHECK(mkdtemp(folder) != NULL);
	record_trace();
	for (size_t i = first; i < end; i++) {
		fails_from_there = false;
		check_run(runs[i], folder);
		fails_from_there = true;
		check_run(runs[i], folder);
	}
	rmdir(folder);
}

TEST(the_viewer_prints_with_one_error_or_none)
{
	check_runs(0, FIRST_EXPORT);
}

TEST(an_export_ends_with_one_error_and_leaves_no_file)
{
	check_runs(FIRST_EXPORT, sizeof(runs) / sizeof(runs[0]));
}
