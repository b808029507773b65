/* Instructions of machine code: cache and parser of the disassembler's output. */
#include "symbol/sass.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/replace.h"
#include "base/slice.h"
#include "symbol/code_object.h"
#include "symbol/disassembler.h"

/* An instruction of 16 bytes (NVIDIA), or of 4 and more (AMD), is a line of about 100. */
#define TEXT_MAX(code_object_bytes) (((uint64_t)(code_object_bytes) << 5) + (1u << 20))

struct instruction {
	uint64_t offset; /* in the section */
	const char *text;
	uint32_t section;
};

struct label {
	struct slice name;
	uint64_t offset; /* in the section */
	uint32_t section;
};

struct sass {
	struct code_object code_object;
	char *bytes; /* the code object */
	char *text;  /* output of the disassembler; instructions end in NUL */
	struct instruction *instructions;
	size_t count;
	struct label *labels; /* by name */
	size_t label_count;
};

/* ------------------------------------------------------------------ parser */

/* A line ".section .text.NAME,..." selects a section of code. */
static bool read_section(const struct sass *sass, char *line, uint32_t *section)
{
	char *name = line + strspn(line, " \t");

	/* There are ".sectioninfo" and ".sectionflags" too. */
	if (strncmp(name, ".section", strlen(".section")) != 0 ||
	    !strspn(name + strlen(".section"), " \t"))
		return false;
	name += strlen(".section");
	name += strspn(name, " \t");
	name[strcspn(name, ", \t")] = '\0';
	*section = code_object_section_find(&sass->code_object, name);
	return true;
}

/* Removes spaces and `ends` from the end of the text. */
static void trim_line(char *text, const char *ends)
{
	char *end = text + strlen(text);

	while (end > text && strchr(ends, end[-1]))
		end--;
	*end = '\0';
}

/* nvdisasm: the offset in hexadecimal as a comment, the instruction, and " ;". */
static bool read_nvidia(char *line, struct instruction *instruction)
{
	char *at = line + strspn(line, " \t"), *end;

	if (strncmp(at, "/*", 2) != 0)
		return false;
	instruction->offset = strtoull(at + 2, &end, 16);
	if (end == at + 2 || strncmp(end, "*/", 2) != 0)
		return false;
	at = end + 2;
	at += strspn(at, " \t");
	trim_line(at, " \t;");
	instruction->text = at;
	return *at;
}

/* llvm-objdump: a tab, the instruction, and as a comment its address in hexadecimal. */
static bool read_amd(const struct sass *sass, char *line, struct instruction *instruction)
{
	char *comment = *line == '\t' ? strstr(line, "// ") : NULL, *end;

	if (!comment)
		return false;
	uint64_t address = strtoull(comment + 3, &end, 16);
	if (end == comment + 3 || *end != ':' ||
	    !code_object_find_code(&sass->code_object, address, &instruction->section,
				   &instruction->offset))
		return false;
	*comment = '\0';
	line += strspn(line, " \t");
	trim_line(line, " \t");
	instruction->text = line;
	return *line;
}

/* nvdisasm printed the section of its instructions on an earlier line. */
static bool read_line(const struct sass *sass, char *line, uint32_t *section,
		      struct instruction *instruction)
{
	if (sass->code_object.machine == MACHINE_AMD)
		return read_amd(sass, line, instruction);
	if (read_section(sass, line, section) || *section == CODE_OBJECT_NONE)
		return false;
	instruction->section = *section;
	return read_nvidia(line, instruction);
}

ARRAY_ORDER(compare_places, struct instruction,
	    ORDER_OF(a->section, b->section) ?: ORDER_OF(a->offset, b->offset))

/* nvdisasm: a line ".L_x_3:" names the next instruction. */
static bool read_label(struct slice line, struct slice *name)
{
	if (line.length < 3 || *line.at != '.' || !slice_ends(line, ":"))
		return false;
	*name = (struct slice){line.at, line.length - 1};
	return true;
}

static int compare_names(struct slice a, struct slice b)
{
	return ORDER_OF(a.length, b.length) ?: memcmp(a.at, b.at, a.length);
}

ARRAY_ORDER(compare_labels, struct label, compare_names(a->name, b->name))

static int parse_line(struct sass *sass, char *text, struct proton_error *err)
{
	uint32_t section = CODE_OBJECT_NONE;
	size_t placed = 0; /* labels */

	for (char *line = text, *next; line; line = next) {
		struct instruction instruction;
		struct label label = {0};

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (read_label(slice_of(line), &label.name)) {
			if (!ARRAY_ADD(sass->labels, sass->label_count, label))
				return err_nomem(err);
			continue;
		}
		if (!read_line(sass, line, &section, &instruction))
			continue;
		if (!ARRAY_ADD(sass->instructions, sass->count, instruction))
			return err_nomem(err);
		for (; placed < sass->label_count; placed++) {
			sass->labels[placed].offset = instruction.offset;
			sass->labels[placed].section = instruction.section;
		}
	}
	sass->label_count = placed;
	ARRAY_SORT(sass->labels, sass->label_count, compare_labels);
	ARRAY_SORT(sass->instructions, sass->count, compare_places);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ cache */

/* The file of a code object, malloc'd; NULL: no cache. */
static char *cache_path(const char *bytes, size_t length)
{
	const char *home = environment_get("XDG_CACHE_HOME");
	char *path;

	if (!home || *home != '/' ||
	    asprintf(&path, "%s/proton/sass/%016" PRIx64 "-%zu", home, hash_stored(bytes, length),
		     length) < 0)
		return NULL;
	return path;
}

/* XDG_CACHE_HOME itself, and the two directories below it. */
static void make_directories(char *path)
{
	char *slashes[3];

	for (int i = 0; i < 3; i++) {
		slashes[i] = strrchr(path, '/');
		*slashes[i] = '\0';
	}
	for (int i = 3; i--; *slashes[i] = '/')
		mkdir(path, 0700);
}

/* Without space or rights there is no cache, and no error. */
static void write_cache(char *path, const struct out *text)
{
	struct file_replace file;

	make_directories(path);
	if (file_replace_begin(&file, path, NULL) != PROTON_OK)
		return;
	out_bytes(&file.out, text->bytes, text->length);
	file_replace_commit(&file, NULL);
}

/* ------------------------------------------------------------------ opening */

/* The disassembler's output, which is parsed and added to the cache. */
static int disassemble(struct sass *sass, char *path, struct proton_error *err)
{
	enum code_object_machine machine = sass->code_object.machine;
	size_t length = sass->code_object.file.length;
	const struct disassembler_limits limits = {SASS_LIMIT_MS, SASS_MEMORY_BYTES};
	struct out out;
	AUTO_FREE char *program = NULL;

	TRY(disassembler_find(machine, &program, err));
	out_init(&out, -1);
	out.limit = TEXT_MAX(length);
	int status = disassembler_run(machine, program, sass->bytes, length, limits, &out, err);
	if (status == PROTON_OK && path)
		write_cache(path, &out);
	if (status == PROTON_OK) {
		sass->text = out_take(&out, &length);
		status = sass->text ? parse_line(sass, sass->text, err) : err_nomem(err);
	}
	if (status == PROTON_OK && !sass->count && sass->code_object.function_count) {
		if (path)
			unlink(path);
		status = err_set(err, PROTON_E_IO, "%s printed no instructions", program);
	}
	out_fini(&out);
	return status;
}

/* The instructions of the cached text, or else of the disassembler's. */
static int read_instructions(struct sass *sass, struct proton_error *err)
{
	const struct file_limits limits = {.max_bytes = TEXT_MAX(sass->code_object.file.length)};
	AUTO_FREE char *path = cache_path(sass->bytes, sass->code_object.file.length);
	size_t length;
	int status = PROTON_OK;

	if (path && file_read_all(path, &limits, &sass->text, &length, NULL) == PROTON_OK)
		status = parse_line(sass, sass->text, err);
	if (status == PROTON_OK && !sass->count) {
		free(sass->text);
		sass->text = NULL;
		status = disassemble(sass, path, err);
	}
	return status;
}

int sass_open(const void *object, size_t length, const char *text, size_t text_length,
	      struct sass **sass_out, struct proton_error *err)
{
	struct sass *sass = calloc(1, sizeof(*sass));
	int status = PROTON_OK;

	if (sass)
		sass->bytes = malloc(length + 1);
	if (sass && text)
		sass->text = strndup(text, text_length);
	if (!sass || !sass->bytes || (text && !sass->text))
		status = err_nomem(err);
	if (status == PROTON_OK) {
		memcpy(sass->bytes, object, length);
		status = code_object_open(&sass->code_object, sass->bytes, length, err);
	}
	if (status == PROTON_OK)
		status = text ? parse_line(sass, sass->text, err) : read_instructions(sass, err);
	if (status != PROTON_OK) {
		sass_close(sass);
		return status;
	}
	*sass_out = sass;
	return PROTON_OK;
}

void sass_close(struct sass *sass)
{
	if (!sass)
		return;
	code_object_close(&sass->code_object);
	FREE_ALL(sass->bytes, sass->text, sass->instructions, sass->labels, sass);
}

uint32_t sass_function(const struct sass *sass, const char *name)
{
	return code_object_function_find(&sass->code_object, name);
}

const char *sass_at(const struct sass *sass, uint32_t function, uint64_t pc)
{
	if (function >= sass->code_object.function_count || !sass->count)
		return NULL;
	const struct code_object_function *of = &sass->code_object.functions[function];
	if (pc >= of->code_bytes)
		return NULL;
	struct instruction key =
		(struct instruction){.offset = of->offset + pc, .section = of->section};
	const struct instruction *found =
		bsearch(&key, sass->instructions, sass->count, sizeof(key), compare_places);
	return found ? found->text : NULL;
}

struct span sass_code(const struct sass *sass, uint32_t function)
{
	struct code_object_section section;

	if (function >= sass->code_object.function_count ||
	    sass->code_object.machine != MACHINE_NVIDIA)
		return (struct span){0};
	const struct code_object_function *of = &sass->code_object.functions[function];
	if (!code_object_section_get(&sass->code_object, of->section, &section))
		return (struct span){0};
	return span_part(section.content, of->offset, of->code_bytes / SASS_BYTES * SASS_BYTES);
}

uint64_t sass_label(const struct sass *sass, uint32_t function, const char *name, size_t length)
{
	struct label key = {.name = {name, length}};

	if (function >= sass->code_object.function_count || !sass->label_count)
		return UINT64_MAX;
	const struct code_object_function *of = &sass->code_object.functions[function];
	const struct label *found =
		bsearch(&key, sass->labels, sass->label_count, sizeof(key), compare_labels);
	return found && found->section == of->section && found->offset >= of->offset &&
			       found->offset - of->offset < of->code_bytes
		       ? found->offset - of->offset
		       : UINT64_MAX;
}
