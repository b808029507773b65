/* Size of a cache line, for data of different threads that must not share one. */
#ifndef BASE_CACHE_LINE_H
#define BASE_CACHE_LINE_H

#define CACHE_LINE_BYTES 64

#endif
