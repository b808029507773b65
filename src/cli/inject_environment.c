/* Environment of an injected program: reads and removes the variables that `proton` set. */
#include "cli/inject.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/array.h"
#include "cli/handover.h"

/* Nothing in a privileged process: it must not write files that the environment names. */
static char **find_variable(const char *variable)
{
	size_t length = strlen(variable);

	if (getauxval(AT_SECURE))
		return NULL;

	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, variable, length) == 0 && (*entry)[length] == '=')
			return entry;
	return NULL;
}

static const char *value_of(const char *variable)
{
	char **entry = find_variable(variable);

	return entry ? strchr(*entry, '=') + 1 : NULL;
}

static void drop_variable(char **entry)
{
	for (; *entry; entry++)
		entry[0] = entry[1];
}

static char *copy_of(const char *variable)
{
	const char *value = value_of(variable);

	return value ? strdup(value) : NULL;
}

/* Children are entered when they initialize the HSA runtime. */
static bool is_for_hsa(void)
{
	const char *tools = value_of("HSA_TOOLS_LIB");

	return tools && strstr(tools, "/" HANDOVER_AMD_HSA_TOOL);
}

/* Texts of the options. */
static const struct {
	const char *variable;
	size_t member;
} texts[] = {
	{HANDOVER_QUIET, offsetof(struct inject_options, quiet)},
	{HANDOVER_NAME, offsetof(struct inject_options, name)},
	{HANDOVER_BACKEND, offsetof(struct inject_options, backend)},
	{HANDOVER_CONTEXT, offsetof(struct inject_options, context)},
	{HANDOVER_MODE, offsetof(struct inject_options, mode)},
	{HANDOVER_DATA, offsetof(struct inject_options, data)},
	{HANDOVER_FORMAT, offsetof(struct inject_options, format)},
	{HANDOVER_MEMORY, offsetof(struct inject_options, memory)},
	{HANDOVER_WAIT, offsetof(struct inject_options, wait)},
	{HANDOVER_VIEWER, offsetof(struct inject_options, viewer)},
	{HANDOVER_CHILDREN, offsetof(struct inject_options, children)},
};

static char **text_of(struct inject_options *options, size_t i)
{
	return (char **)(void *)((char *)options + texts[i].member);
}

bool inject_environment_read(struct inject_options *options)
{
	const char *target = value_of(HANDOVER_PID);

	*options = (struct inject_options){0};
	if (!value_of(HANDOVER_QUIET))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		*text_of(options, i) = copy_of(texts[i].variable);
	options->target = target ? (pid_t)strtol(target, NULL, 10) : 0;
	options->is_gathered = options->children && value_of(HANDOVER_GATHER);
	options->is_followed = options->children &&
			       (inject_environment_is_for_driver() || is_for_hsa());
	return options->quiet != NULL;
}

bool inject_environment_leave_preload(void)
{
	char **entry = find_variable("LD_PRELOAD");
	char **saved = find_variable(HANDOVER_LD_PRELOAD);
	const char *before = saved ? strchr(*saved, '=') + 1 : NULL;
	char *value = entry ? strchr(*entry, '=') + 1 : NULL;

	if (!value || !inject_is_first(value))
		return false;
	/* The previous value is a suffix of the current one. */
	if (!before)
		drop_variable(entry);
	else if (strlen(value) >= strlen(before))
		memmove(value, before, strlen(before) + 1);
	saved = find_variable(HANDOVER_LD_PRELOAD);
	if (saved)
		drop_variable(saved);
	return true;
}

bool inject_environment_is_for_driver(void)
{
	const char *value = value_of("CUDA_INJECTION64_PATH");
	const char *tools = value_of("ROCP_TOOL_LIBRARIES");

	return (value && inject_is_first(value)) || (tools && strstr(tools, "/" HANDOVER_AMD_TOOL));
}

/* Searches for libproton among the libraries that an object needs; 1: found. */
static int find_need(struct dl_phdr_info *object, size_t size, void *own_base)
{
	static const char wanted[] = "libproton.so";
	const ElfW(Dyn) *dynamic = NULL;
	const char *names = NULL;

	if ((void *)object->dlpi_addr == own_base)
		return 0;
	for (size_t i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	/* Some architectures keep the address as in the file. */
	for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_STRTAB)
			names = (const char *)(entry->d_un.d_ptr < object->dlpi_addr
						       ? entry->d_un.d_ptr + object->dlpi_addr
						       : entry->d_un.d_ptr);
	for (; names && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_NEEDED &&
		    strncmp(names + dynamic->d_un.d_val, wanted, strlen(wanted)) == 0)
			return 1;
	return 0;
}

bool inject_environment_is_needed(void)
{
	Dl_info info;

	if (!dladdr(&inject_library, &info))
		return true;
	return dl_iterate_phdr(find_need, info.dli_fbase) != 0;
}
