/* For benchmarks: the CUDA driver's functions, opened at run time, and an empty kernel. */
#pragma once

struct cuda_driver {
	int (*init)(unsigned flags);
	int (*device_get)(int *device, int ordinal);
	int (*context_retain)(void **context, int device);
	int (*context_set)(void *context);
	int (*synchronize)(void);
	int (*module_load)(void **module, const void *image);
	int (*function_get)(void **function, void *module, const char *name);
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
		      void **extra);
	int (*stream_create)(void **stream, unsigned flags);
	int (*capture_begin)(void *stream, int mode);
	int (*capture_end)(void *stream, void **graph);
	int (*graph_instantiate)(void **graph_exec, void *graph, unsigned long long flags);
	int (*graph_launch)(void *graph_exec, void *stream);
	int (*graph_exec_destroy)(void *graph_exec);
	int (*graph_destroy)(void *graph);
};

extern struct cuda_driver cuda;

/* Opens the driver, makes the first device's primary context current, loads the kernel. */
void cuda_open(void);
/* Launches the empty kernel once: one block of one thread. */
void cuda_launch_empty(void *stream);
/* Launches it `launches` times; microseconds per launch on this thread. */
double cuda_launch_loop_us(long launches);
