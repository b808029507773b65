/* Working files that another program truncates: the handler of SIGBUS. */
#include "format/truncated_file.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/array.h"
#include "format/profile_file.h"

static struct profile_file *_Atomic watched[64]; /* more than there are sessions */
static _Atomic bool is_installed;

/* Puts memory in the place of the region if it contains the address. */
static bool replace(const struct region *region, uintptr_t address)
{
	uintptr_t base = (uintptr_t)region->base;

	return base && address >= base && region_holds(region, address - base + 1) &&
	       mmap(region->base, region->bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool replace_table(uintptr_t address)
{
	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		struct profile_file *file = atomic_load(&watched[i]);
		bool is_found = file && replace(&file->head, address);

		for (int id = 0; file && !is_found && id < TABLE_COUNT; id++)
			is_found = replace(&file->spaces[id], address);
		if (!is_found)
			continue;
		__atomic_store_n(&file->is_truncated, true, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == BUS_ADRERR && replace_table((uintptr_t)info->si_addr))
		return;
	/* The instruction raises it again; a signal that was sent has to be sent again. */
	signal(number, SIG_DFL);
	if (info->si_code <= 0)
		raise(number);
}

static void install(void)
{
	struct sigaction own = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction now;

	sigemptyset(&own.sa_mask);
	if (sigaction(SIGBUS, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
	    now.sa_handler == SIG_DFL)
		atomic_store(&is_installed, sigaction(SIGBUS, &own, NULL) == 0);
}

void truncated_file_watch(struct profile_file *file)
{
	if (!atomic_load(&is_installed))
		install();
	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		struct profile_file *none = NULL;

		if (atomic_compare_exchange_strong(&watched[i], &none, file))
			return;
	}
}

void truncated_file_forget(const struct profile_file *file)
{
	struct sigaction now;
	bool is_any = false;

	for (size_t i = 0; i < ARRAY_LENGTH(watched); i++) {
		if (atomic_load(&watched[i]) == file)
			atomic_store(&watched[i], NULL);
		is_any |= atomic_load(&watched[i]) != NULL;
	}
	if (is_any || !atomic_exchange(&is_installed, false))
		return;
	/* Unless the program has replaced it. */
	if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	    now.sa_sigaction == on_bus_error)
		signal(SIGBUS, SIG_DFL);
}
