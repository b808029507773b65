/* Environment of an injected program: reads and removes the variables that `proton` set. */
#include "cli/inject.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "cli/handover.h"

static void drop_variable(const char *name)
{
	size_t length = strlen(name);
	char **entry = environ;

	while (entry && *entry && (strncmp(*entry, name, length) != 0 || (*entry)[length] != '='))
		entry++;
	for (; entry && *entry; entry++)
		entry[0] = entry[1];
}

static char *copy_of(const char *variable)
{
	const char *value = environment_get(variable);

	return value ? strdup(value) : NULL;
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
	const char *target = environment_get(HANDOVER_PID);
	const char *tools = environment_get("HSA_TOOLS_LIB");

	*options = (struct inject_options){0};
	if (!environment_get(HANDOVER_QUIET))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		*text_of(options, i) = copy_of(texts[i].variable);
	options->target = target ? (pid_t)strtol(target, NULL, 10) : 0;
	options->is_gathered = options->children && environment_get(HANDOVER_GATHER);
	/* Children are entered when they initialize CUDA, HIP or the HSA runtime. */
	options->is_followed = options->children &&
			       (inject_environment_is_for_driver() ||
				(tools && strstr(tools, "/" HANDOVER_AMD_HSA_TOOL)));
	return options->quiet != NULL;
}

bool inject_environment_leave_preload(void)
{
	const char *before = environment_get(HANDOVER_LD_PRELOAD);
	char *value = environment_get("LD_PRELOAD");

	if (!value || !inject_is_first(value))
		return false;
	/* The previous value is a suffix of the current one. */
	if (!before)
		drop_variable("LD_PRELOAD");
	else if (strlen(value) >= strlen(before))
		memmove(value, before, strlen(before) + 1);
	drop_variable(HANDOVER_LD_PRELOAD);
	return true;
}

bool inject_environment_is_for_driver(void)
{
	const char *value = environment_get("CUDA_INJECTION64_PATH");
	const char *tools = environment_get("ROCP_TOOL_LIBRARIES");

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
