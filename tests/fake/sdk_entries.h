/* As entries.h, for the fake librocprofiler-sdk. */
#pragma once

#include "backend/amd/sdk_abi.h"

#define V(name, arguments) __attribute__((weak, visibility("hidden"))) int fake_##name arguments;
#include "backend/amd/sdk_symbols.def"
#undef V
