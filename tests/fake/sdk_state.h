/* Internal interface between the files of the fake librocprofiler-sdk. */
#pragma once

#include "fake/fake_sdk.h"

/* sdk_names.c: kinds of the library; their numbers come from number_of(). */
enum fake_kind {
	KIND_NONE,
	KIND_HIP_RUNTIME_API,
	KIND_MARKER_CORE_API,
	KIND_CODE_OBJECT,
	KIND_HIP_GRAPH, /* from 1.3 on */
	KIND_MEMORY_COPY,
	KIND_KERNEL_DISPATCH,
	KINDS
};

enum fake_list {
	LIST_CALLBACK,
	LIST_BUFFER,
	LIST_REQUEST,
	LISTS
};

/* The number under which this version has a kind; -1: it has not. And back; KIND_NONE. */
int names_number(enum fake_list list, enum fake_kind kind);
enum fake_kind names_kind(enum fake_list list, int number);
/* The number of an operation; -1: unknown. */
int names_operation(enum fake_kind kind, const char *name);
size_t names_operation_count(enum fake_kind kind);

/* sdk_configure.c */
#define FAKE_CONTEXTS 16
#define FAKE_BUFFERS 16
#define FAKE_OPERATIONS 1024

uint32_t configure_version(void);
/* Bytes that this version has appended to every struct. */
size_t configure_grown(void);
/* SDK_OK if services can be configured now. */
int configure_check(void);
bool configure_is_final(void);
/* False if HIP was initialized without a tool, and has not given its functions since. */
bool configure_sees_hip(void);
bool configure_sees_queues(void);

struct fake_service {
	bool is_on;
	bool wants_all;
	bool wants[FAKE_OPERATIONS];
	sdk_callback_fn callback;
	void *data;
	uint64_t buffer;
};

struct fake_context {
	bool exists;
	_Atomic bool is_started;
	struct fake_service callbacks[KINDS];
	struct fake_service buffers[KINDS];
	bool wants_request[KINDS];
	sdk_request_fn request;
	void *request_data;
};

/* Fixed after the initialization, but for is_started. Handles are index + 1. */
extern struct fake_context contexts[FAKE_CONTEXTS];

/* sdk_buffers.c: copies a record; may block like a full lossless buffer. */
void buffers_add(uint64_t buffer, struct sdk_context context, uint32_t category, uint32_t kind,
		 const void *record, size_t bytes);
bool buffers_are_empty(void);
bool buffers_exist(uint64_t handle);
void buffers_finish(void);

/* sdk_configure.c: the context of a handle; NULL if it is unknown. `status`, or that error. */
int configure_find(struct sdk_context context, int status, struct fake_context **out);
