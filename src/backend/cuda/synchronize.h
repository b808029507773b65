/* Waiting for the work of a context, in a program that may capture streams at any moment. */
#pragma once

#include <stdbool.h>

/* Waits for the context, unless a stream is being captured. False if its work may never end. */
bool synchronize_unless_captured(void *context);
