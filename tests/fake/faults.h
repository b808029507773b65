/* Fault injection: any entry point of a fake library fails at a call. Each library has a copy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Generated from the backend's list of symbols by make_entries.py. */
extern const char *const fault_entries[];
extern const size_t fault_entry_count;

/* Names of entry points that are not generated, NULL after the last, if there are any. */
extern const char *const fault_more[] __attribute__((weak));

/* Counts a call of entry point `index`; true if this call is to fail, with *code. */
bool fault_strikes(size_t index, int *code);
/* The same without the environment: reading it takes longer than a callback of the recorder. */
bool fault_strikes_scripted(size_t index, int *code);
/* The same of one in fault_more. */
bool fault_strikes_more(const char *name, int *code);
