/*
 * CUPTI's two interfaces. The first one has one subscriber per process and records of a version's
 * structures. The second one (_v2, complete from CUPTI 13.3 on) allows several subscribers and
 * delivers selected fields. cupti_symbols.def has the functions that each of them needs.
 *
 * The second one is used where CUPTI lets several tools subscribe to it, else the first:
 * docs/design/other-tools.md. PROTON_CUPTI_INTERFACE asks for one of them.
 */
#pragma once

#include "backend/cuda/cupti_api.h"
#include "record/backend.h"

struct interface_buffers {
	cupti_buffer_requested_fn requested;
	cupti_buffer_completed_fn completed;
	cupti_buffer_requested_2_fn requested_2;
	cupti_buffer_completed_2_fn completed_2;
};

/*
 * Chooses the interface and subscribes. On failure `*subscriber_out` is NULL. Without `may_choose`,
 * the second interface is used only if it was asked for, or if other tools exclude the first.
 */
int interface_subscribe(cupti_callback_fn callback, bool may_choose, void **subscriber_out,
			struct proton_error *err);
/*
 * Subscribes once and leaves CUPTI, while no other thread uses the driver. A process's first
 * subscription crashes threads in calls that destroy graphs or load modules, say: CUPTI counts a
 * subscriber before its tables exist. Later ones find the addresses of the old tables. With bare
 * CUPTI 13.0, 2 of 80 processes crashed without this and none of 240 with it (H200). Does nothing
 * from 13.3 on, where the second interface would be excluded.
 */
void interface_prime(void);
/* After a failed start: true, once, if the second interface was used unasked. It is not again. */
bool interface_refuse_second(void);
/* Between a subscription and the next one. */
bool interface_is_second(void);

/* Registers functions for buffers, and `read_clock`; false in *has_clock_out if it is not used. */
int interface_register(const struct interface_buffers *buffers, cupti_timestamp_fn read_clock,
		       bool *has_clock_out, struct proton_error *err);
/* CUPTI's time now; false if it is unknown. */
bool interface_timestamp(uint64_t *timestamp_ns);

/* Other threads change graphs, modules or contexts all the time: nothing was done. */
#define INTERFACE_E_CHANGING (-1)

/*
 * Begins or ends the records of a kind. CUPTI's result.
 *
 * cuptiActivityDisable() and a call of another thread that loads a module, creates or destroys a
 * context, captures or instantiates a graph may wait for each other's locks forever (CUPTI 13.0
 * alone: 2 of 2 programs that do both all the time hung within 8 s; none did in which these
 * exclude each other). So such calls wait until it has returned, unless threads are held outside of
 * the driver. Disabling may return INTERFACE_E_CHANGING.
 */
int interface_enable(int kind);
int interface_disable(int kind);
/* The error of a kind that could not begin, as cupti_api_error(). */
int interface_enable_error(int result, struct proton_error *err);

/* The next record of a buffer of the second interface. */
int interface_next(uint8_t *buffer, size_t valid_bytes, struct cupti_activity **record);
/* CUPTI's result. */
int interface_dropped(size_t *dropped);
/* After the records were disabled and before unsubscribing. */
void interface_leave(void);
/*
 * Takes CUPTI down. Then launches cost what they did before, and other tools may use the first
 * interface. With the first one, the subscription is ended too, and PC sampling needs that it was
 * there; with the second one it has been released. False if another tool is subscribed, or CUPTI
 * refuses.
 */
bool interface_finalize(bool is_released);

/* For the profile: the interface, other subscribers, and how kernel times are measured. */
void interface_describe(backend_add_fn add, void *user);
