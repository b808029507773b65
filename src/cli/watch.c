/*
 * proton watch: the work of a whole GPU, by PM sampling from another process. Needs
 * no CUDA context, and the GPU's programs do not notice (measured: kernels take as long).
 */
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/pm_sampling.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/option_table.h"
#include "cli/proton_options.h"
#include "driver/driver.h"
#include "format/json_write.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define SAMPLE_NS 10000000ull /* 0.1 ms of one processor for each sample */
#define READ_MS 100
#define SECOND_NS 1000000000ull
#define DEVICE_MAX_DIGITS 4u
#define HISTORY 22u /* with the bar and the values, 78 columns */
#define BAR 16u

static const struct column {
	const char *label;
	const char *key; /* in JSON */
	bool is_bytes;
} columns[PM_COLUMNS] = {
	[PM_SM] = {"SM active", "sm_active", false},
	[PM_TENSOR] = {"tensor", "tensor", false},
	[PM_DRAM_READ] = {"DRAM read", "dram_read", false},
	[PM_DRAM_WRITE] = {"DRAM write", "dram_write", false},
	[PM_ISSUE] = {"issue", "issue", false},
	[PM_WARPS] = {"warps", "warps", false},
	[PM_L2] = {"L2", "l2", false},
	[PM_PCIE_READ] = {"PCIe read", "pcie_read", true},
	[PM_PCIE_WRITE] = {"PCIe write", "pcie_write", true},
	[PM_NVLINK_READ] = {"NVLink read", "nvlink_read", true},
	[PM_NVLINK_WRITE] = {"NVLink write", "nvlink_write", true},
	[PM_GR] = {"busy", "busy", false},
};

static const char usage[] =
	"usage: proton watch [OPTIONS]\n"
	"\n"
	"Show what an NVIDIA GPU does, whichever programs use it: percent of the peak, and bytes\n"
	"per second. Columns that the GPU cannot sample at the same time are left out.\n";

struct watch_options {
	const char *device;
	size_t interval_s;
	size_t count; /* 0: until the user ends it */
	bool wants_json;
};

static const struct option_row rows[] = {
	{'d', "device", "N", "number of the GPU, in nvidia-smi's order (default: 0)",
	 .member = offsetof(struct watch_options, device)},
	{'i', "interval", "SECONDS", "seconds between two updates (default: 1)",
	 .member = offsetof(struct watch_options, interval_s), .is_count = true},
	{'c', "count", "N", "end after N updates (default: Ctrl+C ends)",
	 .member = offsetof(struct watch_options, count), .is_count = true},
	{0, "json", NULL, "print a line of JSON for each update",
	 .member = offsetof(struct watch_options, wants_json)},
	{'h', "help", .help = "print this help"},
};

/* Samples of one interval. */
struct update {
	double sums[PM_COLUMNS]; /* percent x ns, or bytes */
	double maxima[PM_COLUMNS];
	uint64_t spent_ns; /* of all samples */
	uint64_t end_ns;   /* CLOCK_REALTIME */
	uint64_t samples;
	bool has_lost; /* the hardware buffer was full */
};

struct watch {
	struct watch_options options;
	uint32_t device;
	char name[128];
	struct pm_sampling *pm;
	double history[PM_COLUMNS][HISTORY];
	uint64_t updates;
	bool is_terminal;
	size_t lines; /* per update */
};

static volatile sig_atomic_t must_end;

static void end_watching(int number)
{
	(void)number;
	must_end = 1;
}

static void add_sample(const struct pm_sample *sample, void *user)
{
	struct update *update = user;
	uint64_t ns = sample->end_ns - sample->start_ns;

	for (size_t i = 0; i < PM_COLUMNS; i++) {
		bool is_bytes = columns[i].is_bytes;
		double rate = is_bytes ? sample->values[i] * 1e9 / (double)ns : sample->values[i];

		update->sums[i] += is_bytes ? sample->values[i] : sample->values[i] * (double)ns;
		update->maxima[i] = fmax(update->maxima[i], rate);
	}
	update->spent_ns += ns;
	update->end_ns = sample->end_ns;
	update->samples++;
}

/* Percent, or bytes per second. */
static double mean_of(const struct update *update, size_t column)
{
	double mean = update->sums[column] / (double)update->spent_ns;

	return columns[column].is_bytes ? mean * 1e9 : mean;
}

/* ------------------------------------------------------------------ output */

static void put_json(struct out *out, const struct watch *watch, const struct update *update)
{
	struct json_writer json;

	json_writer_init(&json, out, false);
	json_begin_object(&json);
	json_key(&json, "device");
	json_uint64(&json, watch->device);
	json_key(&json, "time_ns");
	json_uint64(&json, update->end_ns);
	json_key(&json, "samples");
	json_uint64(&json, update->samples);
	json_key(&json, "lost");
	json_bool(&json, update->has_lost);
	for (size_t i = 0; i < PM_COLUMNS; i++) {
		const char *unit = columns[i].is_bytes ? "bytes_per_s" : "pct";
		char key[40];

		if (!pm_sampling_has(watch->pm, (enum pm_column)i))
			continue;
		snprintf(key, sizeof(key), "%s_%s", columns[i].key, unit);
		json_key(&json, key);
		json_double(&json, mean_of(update, i)); /* null: no sample */
		snprintf(key, sizeof(key), "%s_max_%s", columns[i].key, unit);
		json_key(&json, key);
		json_double(&json, update->samples ? update->maxima[i] : (double)NAN);
	}
	json_end_object(&json);
	out_byte(out, '\n');
}

static void put_value(struct out *out, size_t column, double value)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	size_t unit = 0;

	if (isnan(value)) {
		out_printf(out, "%13s", "-");
	} else if (!columns[column].is_bytes) {
		out_printf(out, "%11.1f %%", value);
	} else {
		for (; value >= 999.5 && unit + 1 < ARRAY_LENGTH(units); unit++)
			value /= 1000;
		out_printf(out, "%8.*f %2s/s", unit ? 1 : 0, value, units[unit]);
	}
}

/* Eighths of a character, from the left or from below. */
static void put_bar(struct out *out, double percent)
{
	static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	uint32_t eighths = isnan(percent) ? 0 : (uint32_t)(fmin(percent, 100) * BAR * 8 / 100);
	uint32_t filled = eighths / 8 + (eighths % 8 != 0);

	for (uint32_t i = 0; i < eighths / 8; i++)
		out_text(out, "█");
	out_text(out, parts[eighths % 8]);
	for (uint32_t i = filled; i < BAR; i++)
		out_byte(out, ' ');
}

static void put_history(struct out *out, const struct watch *watch, size_t column)
{
	static const char *const heights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	uint64_t count = watch->updates < HISTORY ? watch->updates : HISTORY;
	double highest = columns[column].is_bytes ? 1 : 100;

	for (uint32_t i = 0; i < HISTORY && columns[column].is_bytes; i++)
		highest = fmax(highest, watch->history[column][i]);
	for (uint64_t i = watch->updates - count; i < watch->updates; i++) {
		double value = watch->history[column][i % HISTORY];

		out_text(out, heights[isnan(value) ? 0 : (int)ceil(fmin(value / highest, 1) * 8)]);
	}
}

static void put_screen(struct out *out, struct watch *watch, const struct update *update)
{
	if (watch->updates > 1) /* over the last update */
		out_printf(out, "\033[%zuA\033[J", watch->lines);
	out_text(out, "\033[?7l"); /* a narrow terminal cuts lines off, and wraps none */
	out_printf(out, "GPU %u %s, mean and maximum of %zu s%s\n", watch->device, watch->name,
		   watch->options.interval_s, update->has_lost ? "; samples were lost" : "");
	watch->lines = 1;
	for (size_t i = 0; i < PM_COLUMNS; i++) {
		if (!pm_sampling_has(watch->pm, (enum pm_column)i))
			continue;
		out_printf(out, "%-12s", columns[i].label);
		put_bar(out, columns[i].is_bytes ? 0 : mean_of(update, i));
		put_value(out, i, mean_of(update, i));
		put_value(out, i, update->samples ? update->maxima[i] : (double)NAN);
		out_text(out, "  ");
		put_history(out, watch, i);
		out_byte(out, '\n');
		watch->lines++;
	}
	out_text(out, "\033[?7h");
}

/* For files and pipes: a line for each update. */
static void put_line(struct out *out, const struct watch *watch, const struct update *update)
{
	if (watch->updates == 1) {
		for (size_t i = 0; i < PM_COLUMNS; i++)
			if (pm_sampling_has(watch->pm, (enum pm_column)i))
				out_printf(out, "%13s", columns[i].label);
		out_byte(out, '\n');
	}
	for (size_t i = 0; i < PM_COLUMNS; i++)
		if (pm_sampling_has(watch->pm, (enum pm_column)i))
			put_value(out, i, mean_of(update, i));
	out_text(out, update->has_lost ? "  samples were lost\n" : "\n");
}

static int print_update(struct watch *watch, const struct update *update, struct proton_error *err)
{
	struct out out;

	for (size_t i = 0; i < PM_COLUMNS; i++)
		watch->history[i][watch->updates % HISTORY] = mean_of(update, i);
	watch->updates++;
	out_init(&out, STDOUT_FILENO);
	if (watch->options.wants_json)
		put_json(&out, watch, update);
	else if (watch->is_terminal)
		put_screen(&out, watch, update);
	else
		put_line(&out, watch, update);
	int status = out_finish(&out, err);
	out_fini(&out);
	return status;
}

/* ------------------------------------------------------------------ the command */

/* The driver without what CUDA_INJECTION64_PATH names, and with the GPUs' order of nvidia-smi. */
static int begin_driver(struct watch *watch, struct proton_error *err)
{
	int count = 0;

	unsetenv("CUDA_INJECTION64_PATH");
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	TRY(driver_load_cuda(FOR_RECORDING, err));
	if (!libcuda.cuInit || libcuda.cuInit(0) != 0 || libcuda.cuDeviceGetCount(&count) != 0)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "CUDA cannot be initialized; see whether nvidia-smi works");
	if (watch->device >= (uint32_t)count)
		return err_set(err, PROTON_E_INVALID, "there is no GPU %u; this machine has %d",
			       watch->device, count);
	if (libcuda.cuDeviceGetName(watch->name, sizeof(watch->name), (int)watch->device) != 0)
		*watch->name = '\0';
	return pm_sampling_open(watch->device, SAMPLE_NS, &watch->pm, err);
}

/* Reads until the end of an interval, or of the watching. */
static int collect(struct watch *watch, uint64_t end_ns, struct update *update,
		   struct proton_error *err)
{
	int status = PROTON_OK;

	*update = (struct update){0};
	while (status == PROTON_OK && !must_end && clock_monotonic_ns() < end_ns) {
		poll(NULL, 0, READ_MS); /* a signal ends it */
		status = pm_sampling_read(watch->pm, add_sample, update, &update->has_lost, err);
	}
	return status;
}

static int run(struct watch *watch, struct proton_error *err)
{
	uint64_t end_ns = clock_monotonic_ns();
	int status = PROTON_OK;

	while (status == PROTON_OK && !must_end &&
	       (!watch->options.count || watch->updates < watch->options.count)) {
		struct update update;

		end_ns += watch->options.interval_s * SECOND_NS;
		status = collect(watch, end_ns, &update, err);
		if (status == PROTON_OK && !must_end)
			status = print_update(watch, &update, err);
	}
	return status;
}

static bool read_device(struct watch *watch)
{
	const char *text = watch->options.device ? watch->options.device : "0";

	if (!*text || strlen(text) > DEVICE_MAX_DIGITS ||
	    strspn(text, "0123456789") != strlen(text)) {
		message("--device is not the number of a GPU: %s; see nvidia-smi -L", text);
		return false;
	}
	watch->device = (uint32_t)strtoul(text, NULL, 10);
	return true;
}

int watch_run(int argc, char **argv)
{
	static struct watch watch = {.options = {.interval_s = 1}};
	const struct option_table table = {rows, ARRAY_LENGTH(rows), &watch.options};
	struct sigaction action = {.sa_handler = end_watching};
	struct proton_error err = {0};
	enum options_result result =
		options_read(&table, 1, NULL, argc, argv, "proton watch", &err);

	if (result == OPTIONS_HELP) {
		fputs(usage, stdout);
		puts("");
		options_print(&table, 1);
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	if (result != OPTIONS_BAD && optind < argc) {
		err_set(&err, PROTON_E_INVALID, "unexpected argument: %s; see proton watch --help",
			argv[optind]);
		result = OPTIONS_BAD;
	}
	if (result == OPTIONS_BAD)
		message("%s", err.text);
	if (result == OPTIONS_BAD || !read_device(&watch))
		return EXIT_USAGE;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	watch.is_terminal = isatty(STDOUT_FILENO);
	int status = begin_driver(&watch, &err);
	if (status == PROTON_OK)
		status = run(&watch, &err);
	pm_sampling_close(watch.pm);
	if (status != PROTON_OK)
		message("%s", err.text);
	return status == PROTON_OK ? 0 : EXIT_FAILED;
}
