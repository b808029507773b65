/*
 * Inductor's generated files: the operators that were fused into a kernel.
 *
 * torch.compile calls the kernels of a graph from a Python file, with a comment above each call:
 *
 *     # Topologically Sorted Source Nodes: [h, out], Original ATen: [aten.mul, aten.gelu]
 *
 * Source nodes have the names of the program's variables or functions. In a backward pass
 * PyTorch makes some of them up. The file has neither the lines of the program nor the names of
 * its modules.
 *
 * A file is read again for each of its lines that launches for the first time.
 */
#include "generated.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/slice.h"

#define FILE_MAX_BYTES (32 << 20)
#define LINES_ABOVE 64  /* between a comment and the call: allocations and checks of tensors */
#define NAMES_BYTES 120 /* shown of each list */
#define STEM_BYTES 20   /* minimum; it is a hash */

/* Named c, then a hash in base 32, in a folder that is named after the start of the hash. */
static bool is_generated(const char *file)
{
	const char *name = strrchr(file, '/');
	if (!name || name - file < 3 || name[-3] != '/' || name[1] != 'c')
		return false;
	size_t stem = strspn(name + 1, "abcdefghijklmnopqrstuvwxyz234567");
	return stem >= STEM_BYTES && strcmp(name + 1 + stem, ".py") == 0 &&
	       strncmp(name - 2, name + 2, 2) == 0;
}

/* The caller frees it. NULL: there is no such file. */
static char *read_file(const char *file, size_t *size_out)
{
	int descriptor = open(file, O_RDONLY | O_CLOEXEC);
	struct stat about;
	if (descriptor < 0)
		return NULL;
	bool is_usable = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) &&
			 about.st_size > 0 && about.st_size <= FILE_MAX_BYTES;
	char *text = is_usable ? malloc((size_t)about.st_size) : NULL;
	size_t size = 0;
	while (text && size < (size_t)about.st_size) {
		ssize_t count = read(descriptor, text + size, (size_t)about.st_size - size);
		if (count <= 0)
			break;
		size += (size_t)count;
	}
	close(descriptor);
	*size_out = size;
	return text;
}

/* ------------------------------------------------------------------ lines */

/* True if the statement may call a kernel, or does not occur between the calls. */
static bool ends_search(struct slice line)
{
	static const char *const passed[] = {"#", "del ", "assert_", "with ",
					     "torch.cuda.set_device("};
	static const char *const calls[] = {"extern_kernels.", "torch.ops.", "aten."};
	if (line.length == 0)
		return false;
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		if (slice_starts(line, passed[i]))
			return false;
	const char *sign = memmem(line.at, line.length, " = ", 3);
	if (!sign || memchr(line.at, '(', (size_t)(sign - line.at)))
		return true;
	struct slice value = slice_between(sign + 3, slice_end(line));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (slice_starts(value, calls[i]))
			return true;
	return false;
}

/* The comment that belongs to a line; empty: none. `end` is where the line begins. */
static struct slice find_comment(const char *text, const char *end)
{
	for (int i = 0; i < LINES_ABOVE && end > text; i++) {
		const char *newline = memrchr(text, '\n', (size_t)(end - 1 - text));
		const char *start = newline ? newline + 1 : text;
		struct slice line = slice_trim(slice_between(start, end - 1));
		if (slice_starts(line, "#") && memmem(line.at, line.length, "Source Nodes: [", 15))
			return line;
		if (ends_search(line))
			break;
		end = start;
	}
	return (struct slice){0};
}

/* The list after `label` in a comment, without its brackets. */
static struct slice list_after(struct slice comment, const char *label)
{
	struct slice list = {0};
	const char *found = memmem(comment.at, comment.length, label, strlen(label));
	if (!found)
		return list;
	list.at = found + strlen(label);
	const char *end = memchr(list.at, ']', (size_t)(comment.at + comment.length - list.at));
	list.length = end ? (size_t)(end - list.at) : 0;
	return list;
}

/* Leaves out names at the end if there are too many; `dots_out` shows it. */
static struct slice shorten(struct slice list, const char **dots_out)
{
	*dots_out = "";
	if (list.length <= NAMES_BYTES)
		return list;
	*dots_out = ", ...";
	const char *comma = memrchr(list.at, ',', NAMES_BYTES);
	list.length = comma ? (size_t)(comma - list.at) : NAMES_BYTES;
	return list;
}

uint32_t generated_frame(const char *file, uint32_t line)
{
	size_t size;
	char name[2 * NAMES_BYTES + 32];
	char *text = line > 1 && is_generated(file) ? read_file(file, &size) : NULL;
	if (!text)
		return 0;
	const char *start = text;
	for (uint32_t i = 1; i < line && start; i++) {
		start = memchr(start, '\n', (size_t)(text + size - start));
		start = start ? start + 1 : NULL;
	}
	struct slice comment = start ? find_comment(text, start) : (struct slice){0};
	const char *dots, *more;
	struct slice nodes = {0}, operators = {0};
	if (comment.at) {
		nodes = shorten(list_after(comment, "Source Nodes: ["), &dots);
		operators = shorten(list_after(comment, "Original ATen: ["), &more);
	}
	int length = 0;
	if (nodes.length + operators.length > 0)
		length = snprintf(name, sizeof(name), "<%.*s%s%s%.*s%s>", (int)nodes.length,
				  nodes.at, dots, nodes.length && operators.length ? ": " : "",
				  (int)operators.length, operators.at, more);
	free(text);
	return length > 0 ? proton_frame(name, (size_t)length) : 0;
}
