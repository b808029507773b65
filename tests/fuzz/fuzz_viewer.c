/*
 * Whole runs of proton-viewer: any bytes as a profile, in every mode and every export. Its main()
 * is called again and again with the bytes as a file in memory; its output is discarded.
 */
#define main viewer_main
#include "viewer/viewer_main.c"
#undef main

#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Only messages of the sanitizers are shown. */
__attribute__((constructor)) static void silence(void)
{
	message_set_fd(-1);
}

#define ARGUMENTS_MAX 12
#define FILE_ARGUMENT "@"

/* "@" is the profile; a second or third one is a copy, because a file is read once. */
#define COPIES 3
static const char *const runs[][ARGUMENTS_MAX] = {
	{"@"},
	{"-l", "@"},
	{"--color", "always", "--print-sorted", "-t", "1", "-d", "3", "@"},
	{"-m", "util,avg_time/us,p99_time/us,count,cpu_time/%", "-t", "count=1", "@"},
	{"--csv", "-i", "a|m", "-e", "b", "@"},
	{"--hide", "a|o", "@"},
	{"--show", "k", "--hide", "m", "--top", "--json", "@"},
	{"--frames", "no-packages,no-python", "--diff", "@", "@"},
	{"--json", "-e", "k", "--names", "full", "@"},
	{"--top", "-n", "5", "@"},
	{"--group", "scope", "--csv", "@"},
	{"--group", "module", "@"},
	{"--group", "device", "--json", "@"},
	{"--bottom-up", "-d", "4", "@"},
	{"--brief", "@"},
	{"--brief", "--markdown", "@", "@"},
	{"--brief", "--json", "--peaks", "bytes=1e12,flops16=1e14", "@"},
	{"--warps", "@"},
	{"--warps", "--csv", "-i", "a|m", "@"},
	{"--warps", "--json", "--names", "full", "-n", "2", "@", "@"},
	{"--source", "@"},
	{"--source=k", "--csv", "-i", "a|m", "@"},
	{"--source", "--json", "-n", "2", "@", "@"},
	{"-m", "path_cycles,wait_cycles/%", "@"},
	{"--diff", "@", "--fail-if", "time > +5%", "@"},
	{"--diff", "@", "--top", "--json", "@"},
	{"--merge", "spread", "@", "@", "@"},
	{"--trend", "-i", "k", "@", "@", "@"},
	{"-o", "/dev/null", "--export", "markdown", "--diff", "@", "@"},
	{"--merge", "sum", "--bottom-up", "@", "@"},
	{"--ranks", "@"},
	{"--ranks", "--hide", "a|o", "--json", "@", "@"},
	{"--hide", "a|o", "--export", "html", "-o", "/dev/null", "@"},
	{"--ranks=ranks", "--csv", "@"},
	{"--ranks-of", "k", "@"},
	{"--rank", "1", "@", "@"},
	{"--ranks", "--diff", "@", "@"},
	{"--ranks", "@", "--fail-if", "imbalance > 10%"},
	{"-o", "/dev/null", "--export", "ranks", "@", "@"},
	{"-o", "/dev/null", "--export", "html", "--diff", "@", "@"},
	{"-o", "/dev/null", "--export", "html", "--top", "@"},
	{"-o", "/dev/null", "--export", "folded", "@"},
	{"-o", "/dev/null", "--export", "folded", "--diff", "@", "@"},
	{"-o", "/dev/null", "--export", "speedscope", "--merge", "mean", "@", "@"},
	{"-o", "/dev/null", "--export", "speedscope", "@"},
	{"-o", "/dev/null", "--export", "pprof", "-m", "time/ms,count", "-d", "2", "@"},
	{"-o", "/dev/null", "--export", "pprof", "--bottom-up", "@"},
	{"-o", "/dev/null", "--export", "csv", "@"},
	{"-o", "/dev/null", "--export", "csv", "--merge", "spread", "@", "@"},
	{"-o", "/dev/null", "--export", "hatchet", "--group", "file", "@"},
	{"-o", "/dev/null", "--export", "hatchet_msgpack", "@"},
	{"-o", "/dev/null", "--export", "chrome_trace", "@"},
	{"-o", "/dev/null", "--export", "perfetto", "@"},
	{"-o", "/dev/null", "--export", "perfetto", "--allow-mixed", "@", "@"},
	{"-o", "/dev/null", "--export", "chrome_gzip", "@", "@"},
};

static int copy_of(const uint8_t *bytes, size_t length, char path[64])
{
	int file = memfd_create("profile", MFD_CLOEXEC);

	if (file < 0 || write(file, bytes, length) != (ssize_t)length)
		abort();
	snprintf(path, 64, "/proc/self/fd/%d", file);
	return file;
}

static void run_once(const char *const *arguments, char paths[COPIES][64])
{
	size_t used = 0;
	char program[] = "proton-viewer";
	char *argv[ARGUMENTS_MAX + 2] = {program};
	int argc = 1;
	int status;

	for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
		argv[argc++] = strcmp(arguments[i], FILE_ARGUMENT) == 0 ? strdup(paths[used++])
									: strdup(arguments[i]);
	optind = 0; /* getopt_long() starts again */
	status = viewer_main(argc, argv);
	if (status != 0 && status != EXIT_CUT && status != EXIT_BAD && status != EXIT_GATE)
		abort();
	/* getopt_long() has only changed their order, and main() the name. */
	for (int i = 1; i < argc; i++)
		free(argv[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int files[COPIES];
	char paths[COPIES][64];
	int output;

	for (size_t i = 0; i < COPIES; i++)
		files[i] = copy_of(bytes, length, paths[i]);
	fflush(stdout);
	output = dup(STDOUT_FILENO);
	if (nowhere < 0 || output < 0)
		abort();
	dup2(nowhere, STDOUT_FILENO);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		run_once(runs[i], paths);
	dup2(output, STDOUT_FILENO);
	close(output);
	close(nowhere);
	for (size_t i = 0; i < COPIES; i++)
		close(files[i]);
	return 0;
}
