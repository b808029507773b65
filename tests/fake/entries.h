/*
 * fake_NAME(): the implementation of each entry point NAME of the backend's list of symbols. One
 * that is not defined succeeds and does nothing. The exported functions come from
 * make_entries.py.
 */
#pragma once

#include "backend/amd/roctracer_abi.h"
#include "backend/cuda/cupti_abi.h"
#include "backend/cuda/pcs_abi.h"
#include "backend/cuda/pm_abi.h"
#include "backend/cuda/range_abi.h"
#include "driver/driver.h"

#define V(name, arguments) __attribute__((weak, visibility("hidden"))) int fake_##name arguments;
#include "backend/amd/roctracer_symbols.def"
#include "backend/cuda/cupti_symbols.def"
#undef V
#define X(name, version, arguments, users)                                                         \
	__attribute__((weak, visibility("hidden"))) int fake_##name##version arguments;
#include "driver/cuda_functions.def"
#undef X
