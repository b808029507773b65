/*
 * proton ctl [PID|NAME] COMMAND: finds the sockets of programs that listen, sends them a request
 * and prints their replies. All of them get the request before the first reply is awaited.
 */
#include "cli/proton_options.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/option_table.h"
#include "base/printable.h"
#include "format/control_request.h"
#include "format/target.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define PEERS_MAX 1024
#define CONNECT_NS 5000000000ull
#define DEFAULT_TIMEOUT_S 60
#define TIMEOUT_MAX_S 86400u
#define STEP_MS 10

static const char usage[] =
	"usage: proton ctl [OPTIONS] [PID|NAME] start|stop|snapshot|status|leave\n"
	"\n"
	"Control recording in programs that were started with proton --wait, or call\n"
	"proton.listen(). NAME is the last part of the output name given there.\n"
	"\n"
	"  start     begin recording; options that are not given are those of the program\n"
	"  stop      end recording, write the profile and print its path\n"
	"  snapshot  write the data so far and print the path; recording continues\n"
	"  status    what is recorded (without PID and NAME: by all programs)\n"
	"  leave     listen no more, as before proton attach\n";

struct ctl_options {
	const char *values[CONTROL_OPTION_COUNT];
	bool wants_memory;
	bool wants_all;
	size_t timeout_s;
	const char *target; /* NULL: not given */
	enum control_command command;
};

/* A program that listens. */
struct peer {
	char label[96];
	int pid;
	int fd; /* -1: the connection failed */
};

struct peers {
	struct peer list[PEERS_MAX];
	size_t count;
	bool has_more;
};

#define VALUE(option) .member = offsetof(struct ctl_options, values) + (option) * sizeof(char *)

static const struct option_row rows[] = {
	{'a', "all", NULL, "every program of that name, such as ranks and children",
	 .member = offsetof(struct ctl_options, wants_all)},
	{0, "timeout", "SECONDS", "how long to wait for a reply (default: 60)",
	 .member = offsetof(struct ctl_options, timeout_s), .is_count = true},
	{.help = "Options of start, as those of proton; snapshot has -n and -o, stop has -o"},
	{'n', "name", "PATH", "output path without suffix", VALUE(CONTROL_NAME)},
	{'o', "output-format", "NAME", "output format", VALUE(CONTROL_FORMAT)},
	{'b', "backend", "NAME", "backend", VALUE(CONTROL_BACKEND)},
	{'m', "mode", "MODE", "mode of the backend", VALUE(CONTROL_MODE)},
	{'c', "context", "KIND", "shadow, python or python+scopes", VALUE(CONTROL_CONTEXT)},
	{'d', "data", "KIND", "tree or trace", VALUE(CONTROL_DATA)},
	{'k', "hook", "NAME", "triton", VALUE(CONTROL_HOOK)},
	{0, "memory", NULL, "record GPU memory copies and memsets",
	 .member = offsetof(struct ctl_options, wants_memory)},
	{'h', "help", .help = "print this help"},
};

/* ------------------------------------------------------------------ programs that listen */

/* PID.LABEL or PID-N.LABEL */
static bool read_socket_name(const char *name, struct peer *out)
{
	char *end;
	long pid = strtol(name, &end, 10);

	if (!isdigit((unsigned char)*name) || pid <= 0 || pid > INT32_MAX)
		return false;
	if (*end == '-')
		end += 1 + strspn(end + 1, "0123456789");
	if (*end != '.')
		return false;
	*out = (struct peer){.pid = (int)pid, .fd = -1};
	snprintf(out->label, sizeof(out->label), "%s", end + 1);
	return true;
}

static bool is_wanted(const struct peer *peer, const char *target)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", peer->pid);
	return !target || strcmp(target, pid) == 0 || strcmp(target, peer->label) == 0;
}

/* Connects; -1 with errno. A full queue is waited for. */
static int connect_socket(int directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t end_ns = clock_monotonic_ns() + CONNECT_NS;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory,
		 name);
	while (fd >= 0) {
		if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
			return fd;
		if (errno != EAGAIN || clock_monotonic_ns() > end_ns)
			break;
		poll(NULL, 0, STEP_MS);
	}
	int saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

/* The program has ended: its socket would be found each time. */
static void remove_socket(int directory, const char *name)
{
	if (flock(directory, LOCK_EX | LOCK_NB) < 0)
		return;
	int fd = connect_socket(directory, name); /* another may have taken the name */
	if (fd < 0 && errno == ECONNREFUSED)
		unlinkat(directory, name, 0);
	else if (fd >= 0)
		close(fd);
	flock(directory, LOCK_UN);
}

/* Closes `directory`. */
static void find_in_directory(int directory, const char *target, struct peers *peers)
{
	DIR *stream = fdopendir(directory);
	const struct dirent *entry;
	struct peer peer;

	if (!stream)
		close(directory);
	while (stream && (entry = readdir(stream))) {
		if (!read_socket_name(entry->d_name, &peer) || !is_wanted(&peer, target))
			continue;
		if (peers->count == PEERS_MAX) {
			peers->has_more = true;
			break;
		}
		peer.fd = connect_socket(directory, entry->d_name);
		if (peer.fd < 0 && errno == ECONNREFUSED)
			remove_socket(directory, entry->d_name);
		else if (peer.fd >= 0 || errno != ENOENT)
			peers->list[peers->count++] = peer;
	}
	if (stream)
		closedir(stream);
}

static void find_peers(const char *target, struct peers *peers)
{
	char path[256];
	int fd;

	for (unsigned i = 0; i < RUNTIME_DIRECTORY_COUNT; i++)
		if (runtime_directory_path(i, path, sizeof(path)) &&
		    runtime_directory_open(path, false, &fd, NULL) == PROTON_OK)
			find_in_directory(fd, target, peers);
}

/* ------------------------------------------------------------------ requests and replies */

static void print_line(const struct peer *peer, bool is_named, const char *line, size_t length)
{
	char shown[CONTROL_REPLY_MAX];
	size_t used = printable_copy(shown, sizeof(shown) - 1, line, length);

	shown[used] = '\0';
	if (is_named)
		printf("%d %s: %s\n", peer->pid, peer->label, shown);
	else
		puts(shown);
}

/* The first line of `stop` is a path; the rest is a message. */
static void print_reply(const struct ctl_options *options, const struct peer *peer, bool is_named,
			const char *text)
{
	bool is_path = options->command == CONTROL_STOP;

	while (*text) {
		size_t length = strcspn(text, "\n");

		if (options->command == CONTROL_STOP && !is_path)
			message("%d: %.*s", peer->pid, (int)length, text);
		else
			print_line(peer, is_named, text, length);
		is_path = false;
		text += length + (text[length] == '\n');
	}
}

/* Waits for the reply and prints it; false after a message if there is none, or an error. */
static bool take_reply(const struct ctl_options *options, const struct peer *peer, bool is_named,
		       uint64_t end_ns)
{
	static char reply[CONTROL_REPLY_MAX + 1];
	struct pollfd event = {.fd = peer->fd, .events = POLLIN};
	uint64_t now = clock_monotonic_ns();
	int wait_ms = now < end_ns ? (int)((end_ns - now) / 1000000) + 1 : 0;

	if (poll(&event, 1, wait_ms) <= 0) {
		message("%d (%s) has not answered in time; it may be stopped, or the command takes "
			"longer and is still carried out: see proton ctl %d status, or use "
			"--timeout",
			peer->pid, peer->label, peer->pid);
		return false;
	}
	ssize_t length = recv(peer->fd, reply, CONTROL_REPLY_MAX, 0);
	if (length <= 0) {
		message("%d (%s) has ended or refused the connection", peer->pid, peer->label);
		return false;
	}
	reply[length] = '\0';
	if (*reply != CONTROL_OK) {
		message("%d (%s): %s", peer->pid, peer->label, reply + 1);
		return false;
	}
	print_reply(options, peer, is_named, reply + 1);
	return true;
}

/* Sends the request to all; true if all have carried it out. */
static bool ask_peers(const struct ctl_options *options, struct peers *peers)
{
	struct control_request request = {.command = options->command};
	char bytes[CONTROL_REQUEST_MAX];
	uint64_t end_ns = clock_monotonic_ns() + (options->timeout_s < TIMEOUT_MAX_S
							  ? options->timeout_s
							  : TIMEOUT_MAX_S) *
							 1000000000u;
	bool is_named = peers->count > 1 || options->command == CONTROL_STATUS;
	bool ok = true;

	memcpy(request.options, options->values, sizeof(request.options));
	if (options->wants_memory)
		request.options[CONTROL_MEMORY] = "1";
	if (peers->count > 1 && options->command != CONTROL_STATUS)
		request.options[CONTROL_OWN_PID] = "1";
	size_t length = control_request_write(&request, bytes, sizeof(bytes));
	if (!length) {
		message("the options are too long");
		return false;
	}
	for (size_t i = 0; i < peers->count; i++)
		if (peers->list[i].fd >= 0)
			send(peers->list[i].fd, bytes, length, MSG_NOSIGNAL);
	for (size_t i = 0; i < peers->count; i++) {
		const struct peer *peer = &peers->list[i];

		if (peer->fd >= 0)
			ok &= take_reply(options, peer, is_named, end_ns);
		else
			message("%d (%s) cannot be reached; it may be stopped", peer->pid,
				peer->label);
		ok &= peer->fd >= 0;
		if (peer->fd >= 0)
			close(peer->fd);
	}
	return ok;
}

/* ------------------------------------------------------------------ the command line */

/* An option that the command does not have. */
static const char *find_misplaced(const struct ctl_options *options)
{
	for (int i = 0; i < CONTROL_OPTION_COUNT; i++) {
		bool is_fitting = options->command == CONTROL_START ||
				  (i == CONTROL_FORMAT && options->command < CONTROL_STATUS) ||
				  (i == CONTROL_NAME && options->command == CONTROL_SNAPSHOT);

		if (options->values[i] && !is_fitting)
			return "this option belongs to another command";
	}
	if (options->wants_memory && options->command != CONTROL_START)
		return "--memory belongs to start";
	return NULL;
}

static bool parse_words(int count, char **words, struct ctl_options *options)
{
	if (count < 1 || count > 2) {
		message("name a command: start, stop, snapshot, status or leave; see proton ctl "
			"--help");
		return false;
	}
	if (!control_command_find(words[count - 1], &options->command)) {
		message("unknown command '%s'; expected start, stop, snapshot, status or leave",
			words[count - 1]);
		return false;
	}
	options->target = count == 2 ? words[0] : NULL;
	if (!find_misplaced(options))
		return true;
	message("%s; see proton ctl --help", find_misplaced(options));
	return false;
}

/* The program has another current directory. */
static bool make_name_absolute(struct ctl_options *options)
{
	struct proton_error err;
	char *path;

	if (!options->values[CONTROL_NAME])
		return true;
	if (target_is_standard_output(options->values[CONTROL_NAME])) {
		message("standard output belongs to the program; give the path of a file with -n");
		return false;
	}
	if (target_stem(options->values[CONTROL_NAME], &path, &err) != PROTON_OK) {
		message("%s", err.text);
		return false;
	}
	options->values[CONTROL_NAME] = path; /* until the process ends */
	return true;
}

static bool check_count(const struct ctl_options *options, const struct peers *peers)
{
	bool is_all = options->wants_all ||
		      (options->command == CONTROL_STATUS && !options->target);

	if (peers->has_more)
		message("more than %d programs listen; the others are left out", PEERS_MAX);
	if (!peers->count && options->target)
		message("no program of this user listens as '%s'; start it with proton --wait, and "
			"see proton ctl status",
			options->target);
	else if (!peers->count)
		message("no program of this user listens; start one with proton --wait");
	if (!peers->count || peers->count == 1 || is_all)
		return peers->count > 0;
	message("%zu programs match; name one by its process id, or use --all:", peers->count);
	for (size_t i = 0; i < peers->count; i++)
		message("  %d %s", peers->list[i].pid, peers->list[i].label);
	return false;
}

int ctl_run(int argc, char **argv)
{
	static struct peers peers;
	struct ctl_options options = {.timeout_s = DEFAULT_TIMEOUT_S};
	const struct option_table table = {rows, ARRAY_LENGTH(rows), &options};
	struct proton_error err = {0};
	enum options_result result = options_read(&table, 1, NULL, argc, argv, "proton ctl", &err);

	if (result == OPTIONS_HELP) {
		fputs(usage, stdout);
		puts("");
		options_print(&table, 1);
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	if (result == OPTIONS_BAD)
		message("%s", err.text);
	if (result == OPTIONS_BAD || !parse_words(argc - optind, argv + optind, &options) ||
	    !make_name_absolute(&options))
		return EXIT_USAGE;
	find_peers(options.target, &peers);
	if (!check_count(&options, &peers) || !ask_peers(&options, &peers))
		return EXIT_FAILED;
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}
