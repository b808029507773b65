/* Recorder interface for backends: devices, launch attribution, and finished kernels. */
#pragma once

#include "record/sets/record_sessions.h"
#include "record/store/devices.h"
#include "record/store/execution.h"
#include "record/thread/record_launch.h"
