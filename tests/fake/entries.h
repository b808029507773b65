/*
 * play_NAME() for each entry point NAME of the backend's list of symbols: what it does here. One
 * that nobody has written succeeds and does nothing. The exported functions come from
 * make_entries.py.
 */
#ifndef TESTS_FAKE_ENTRIES_H
#define TESTS_FAKE_ENTRIES_H

#include "backend/cuda/cupti_abi.h"

#define V(name, arguments) __attribute__((weak, visibility("hidden"))) int play_##name arguments;
#define D(name, arguments) __attribute__((weak, visibility("hidden"))) int play_##name arguments;
#include "backend/cuda/cupti_symbols.def"
#undef V
#undef D

#endif
