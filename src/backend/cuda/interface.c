/* CUPTI's two interfaces: the choice between them, and the calls in which they differ. */
#include "backend/cuda/interface.h"

#include <string.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/hold.h"
#include "backend/cuda/kernel_times.h"
#include "backend/cuda/record_fields.h"
#include "base/environment.h"
#include "base/message.h"

#define NAME "Proton" /* for other tools */
#define TABLE_BYTES 8192u
/* To wait for calls of other threads that change graphs, modules or contexts. */
#define ENABLE_NS 20000000ull

enum wish {
	WISH_NONE,
	WISH_FIRST,
	WISH_SECOND,
};

/* Set by interface_subscribe(). */
static bool is_second;
static bool allows_several; /* other subscribers of the second interface */
static void *subscriber;
static bool was_chosen; /* the second interface, without a wish for it */

static bool is_second_refused; /* CUPTI refused its records to this process */

bool interface_is_second(void)
{
	return is_second;
}

static int read_wish(enum wish *wish, struct proton_error *err)
{
	const char *text = environment_get("PROTON_CUPTI_INTERFACE");

	*wish = WISH_NONE;
	if (!text || !*text)
		return PROTON_OK;
	if (strcmp(text, "1") == 0)
		*wish = WISH_FIRST;
	else if (strcmp(text, "2") == 0)
		*wish = WISH_SECOND;
	else
		return err_set(err, PROTON_E_INVALID,
			       "PROTON_CUPTI_INTERFACE=%.40s is not a CUPTI interface; set it to 1 "
			       "or 2, or unset it",
			       text);
	return PROTON_OK;
}

static bool has_second(void)
{
	return libcupti.version >= CUPTI_VERSION_SECOND && !libcupti.missing_second;
}

/* CUPTI's result. */
static int subscribe_second(cupti_callback_fn callback, bool is_shared)
{
	struct cupti_subscriber_params params = {
		.size = sizeof(params),
		.name = NAME,
		.other_name = libcupti.other_name,
		.other_name_bytes = sizeof(libcupti.other_name) - 1,
		.allows_several = is_shared,
	};
	int result = libcupti.cuptiSubscribe_v2(&subscriber, callback, NULL, &params);

	if (result != CUPTI_OK)
		return result;
	is_second = true;
	allows_several = is_shared;
	return CUPTI_OK;
}

/* Tells the user that only one tool can use CUPTI, and why. */
static void report_alone(void)
{
	char text[32];

	cupti_api_version_text(libcupti.version, text, sizeof(text));
	message("CUPTI %s does not allow several tools with this driver (CUDA %d.%d): other tools "
		"cannot use CUPTI while Proton records; update the driver to use both",
		text, libcupti.driver / 1000, libcupti.driver % 1000 / 10);
}

/* The second interface, on request. */
static int subscribe_wished(cupti_callback_fn callback, struct proton_error *err)
{
	bool is_hardware = kernel_times_request();
	int result = subscribe_second(callback, !is_hardware);

	/* An older driver refuses several subscribers, without the name of another one. */
	if (result == CUPTI_E_MULTIPLE_SUBSCRIBERS && !is_hardware && !*libcupti.other_name) {
		result = subscribe_second(callback, false);
		if (result == CUPTI_OK)
			report_alone();
	}
	if (result != CUPTI_OK)
		kernel_times_withdraw(false);
	return result == CUPTI_OK ? PROTON_OK : cupti_api_error(result, "cuptiSubscribe_v2", err);
}

static void report_shared(void)
{
	message("another tool in this process uses CUPTI (%s); Proton records at the same time, "
		"through CUPTI's second interface",
		*libcupti.other_name ? libcupti.other_name : "its name is unknown");
}

/* CUPTI may give the name of the only subscriber. */
static bool has_other_tool(void)
{
	return *libcupti.other_name && strcmp(libcupti.other_name, "CUPTI for " NAME) != 0;
}

/* The second interface, not asked for. False if another tool or the driver does not allow it. */
static bool choose_second(cupti_callback_fn callback)
{
	/* Hardware times exclude other tools, as the first interface does. */
	if (kernel_times_choose()) {
		was_chosen = subscribe_second(callback, false) == CUPTI_OK;
		if (was_chosen)
			return true;
		kernel_times_withdraw(false);
	}
	if (subscribe_second(callback, true) != CUPTI_OK)
		return false;
	was_chosen = true;
	if (has_other_tool())
		report_shared();
	return true;
}

static int subscribe_first(cupti_callback_fn callback, bool may_share, struct proton_error *err)
{
	int result = libcupti.cuptiSubscribe(&subscriber, callback, NULL);

	if (result == CUPTI_OK)
		return PROTON_OK;
	if (result == CUPTI_E_MULTIPLE_SUBSCRIBERS && may_share && has_second()) {
		if (subscribe_second(callback, true) == CUPTI_OK) {
			report_shared();
			return PROTON_OK;
		}
		/* No tool: the refused call itself has excluded the first interface. */
		if (!*libcupti.other_name && subscribe_second(callback, false) == CUPTI_OK)
			return PROTON_OK;
	}
	return cupti_api_error(result, "cuptiSubscribe", err);
}

static void report_no_second(const char *wanted_for)
{
	char text[32];

	cupti_api_version_text(libcupti.version, text, sizeof(text));
	message("%s needs CUPTI's second interface, which CUPTI %s lacks (%s); the first one is "
		"used; install nvidia-cuda-cupti 13.3 or later to use the second",
		wanted_for, text, libcupti.path);
}

static void no_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
}

/*
 * CUPTI 13.0 counts a subscriber, then allocates a table of 5.6 KB for it: with memory that this
 * thread has just used, the time between is shorter.
 */
static void warm_memory(void)
{
	volatile char *memory = malloc(TABLE_BYTES);

	for (size_t i = 0; memory && i < TABLE_BYTES; i += 64)
		memory[i] = 1;
	free((void *)(uintptr_t)memory);
}

int interface_subscribe(cupti_callback_fn callback, bool may_choose, void **subscriber_out,
			struct proton_error *err)
{
	bool wants_hardware;
	enum wish wish;
	int status = read_wish(&wish, err);

	is_second = false;
	allows_several = false;
	was_chosen = false;
	subscriber = NULL;
	warm_memory();
	*libcupti.other_name = '\0';
	if (status == PROTON_OK)
		status = kernel_times_read(&wants_hardware, err);
	if (status != PROTON_OK)
		return status;
	may_choose = may_choose && wish == WISH_NONE && !is_second_refused && has_second() &&
		     libcupti.version >= CUPTI_VERSION_SEVERAL;
	if ((wish == WISH_SECOND || wants_hardware || libcupti.missing_first) && has_second()) {
		status = subscribe_wished(callback, err);
	} else if (!may_choose || !choose_second(callback)) {
		if (wants_hardware || wish == WISH_SECOND)
			report_no_second(wish == WISH_SECOND ? "PROTON_CUPTI_INTERFACE=2"
							     : "PROTON_KERNEL_TIMES=hardware");
		status = subscribe_first(callback, wish == WISH_NONE, err);
	}
	*subscriber_out = status == PROTON_OK ? subscriber : NULL;
	libcupti.has_worked |= status == PROTON_OK;
	return status;
}

void interface_prime(void)
{
	void *primed;

	warm_memory();
	if (libcupti.version >= CUPTI_VERSION_SECOND || libcupti.missing_first ||
	    !libcupti.cuptiFinalize ||
	    libcupti.cuptiSubscribe(&primed, no_callback, NULL) != CUPTI_OK)
		return; /* another tool was first */
	libcupti.cuptiUnsubscribe(primed);
	libcupti.cuptiFinalize(); /* else each launch would take 0.3 us more */
}

bool interface_refuse_second(void)
{
	/* A tool that shares the second interface excludes the first. */
	if (!was_chosen || is_second_refused || libcupti.missing_first || has_other_tool())
		return false;
	kernel_times_withdraw(true);
	is_second_refused = true;
	return true;
}

/* ------------------------------------------------------------------ records */

/* In the second interface: CUPTI's result. */
static int set_attribute(int attribute, uint8_t value)
{
	size_t size = sizeof(value);

	return libcupti.cuptiActivitySetAttribute_v2(subscriber, attribute, &size, &value);
}

/* The interface that was used first excludes the other one until cuptiFinalize(). */
static int second_error(int result, const char *call, struct proton_error *err)
{
	if (result != CUPTI_E_MULTIPLE_SUBSCRIBERS && result != CUPTI_E_NOT_COMPATIBLE)
		return cupti_api_error(result, call, err);
	return err_set(err, PROTON_E_BUSY,
		       "another tool in this process (torch.profiler?) has used CUPTI's first "
		       "interface before, which excludes the second; unset PROTON_CUPTI_INTERFACE "
		       "and PROTON_KERNEL_TIMES, or start Proton first [%s: error %d]",
		       call, result);
}

static int register_second(const struct interface_buffers *buffers, cupti_timestamp_fn read_clock,
			   bool *has_clock_out, struct proton_error *err)
{
	size_t size = sizeof(read_clock);
	int result = set_attribute(CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS, 1);

	if (result != CUPTI_OK)
		return second_error(result, "cuptiActivitySetAttribute_v2", err);
	set_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT_BUFFER, 1);
	set_attribute(CUPTI_ATTRIBUTE_PER_THREAD_BUFFER, 1);
	*has_clock_out = libcupti.cuptiActivitySetAttribute_v2(subscriber,
							       CUPTI_ATTRIBUTE_TIMESTAMP_CALLBACK,
							       &size, &read_clock) == CUPTI_OK;
	result = libcupti.cuptiActivityRegisterCallbacks_v2(subscriber, buffers->requested_2,
							    buffers->completed_2);
	return result == CUPTI_OK ? PROTON_OK
				  : second_error(result, "cuptiActivityRegisterCallbacks_v2", err);
}

int interface_register(const struct interface_buffers *buffers, cupti_timestamp_fn read_clock,
		       bool *has_clock_out, struct proton_error *err)
{
	uint8_t on = 1;
	size_t size = sizeof(on);

	if (is_second)
		return register_second(buffers, read_clock, has_clock_out, err);
	/* Both only save time; versions of CUPTI that do not support one work without it. */
	libcupti.cuptiActivitySetAttribute(CUPTI_ATTRIBUTE_ZEROED_OUT_BUFFER, &size, &on);
	libcupti.cuptiActivitySetAttribute(CUPTI_ATTRIBUTE_PER_THREAD_BUFFER, &size, &on);
	*has_clock_out = libcupti.cuptiActivityRegisterTimestampCallback(read_clock) == CUPTI_OK;
	int result =
		libcupti.cuptiActivityRegisterCallbacks(buffers->requested, buffers->completed);
	return result == CUPTI_OK ? PROTON_OK
				  : cupti_api_error(result, "cuptiActivityRegisterCallbacks", err);
}

bool interface_timestamp(uint64_t *timestamp_ns)
{
	if (!is_second)
		return libcupti.cuptiGetTimestamp(timestamp_ns) == CUPTI_OK;
	return libcupti.cuptiGetTimestamp_v2 &&
	       libcupti.cuptiGetTimestamp_v2(subscriber, timestamp_ns) == CUPTI_OK;
}

static int enable(int kind)
{
	int fields[RECORD_FIELDS_MAX];
	struct cupti_activity_config config = {
		.size = sizeof(config),
		.selection = {.size = sizeof(config.selection), .fields = fields},
	};

	if (!is_second)
		return libcupti.cuptiActivityEnable(kind);
	config.selection.count = record_fields_select(kind, libcupti.version, fields);
	return libcupti.cuptiActivityEnable_v2(subscriber, kind, &config);
}

static int disable(int kind)
{
	return is_second ? libcupti.cuptiActivityDisable_v2(subscriber, kind, NULL)
			 : libcupti.cuptiActivityDisable(kind);
}

/* Other threads are held, or the caller keeps them from passing the gate. */
static bool is_alone(void)
{
	return hold_is_on() || call_gate_is_closed_here();
}

int interface_enable(int kind)
{
	bool is_closed = !is_alone() && call_gate_close(CALL_GATE_CHANGES, ENABLE_NS);
	int result = enable(kind);

	if (is_closed)
		call_gate_open();
	return result;
}

int interface_disable(int kind)
{
	if (is_alone())
		return disable(kind);
	if (!call_gate_close_between_captures(CALL_GATE_CHANGES, CALL_GATE_LONG_NS))
		return INTERFACE_E_CHANGING;
	int result = disable(kind);
	call_gate_open();
	return result;
}

int interface_enable_error(int result, struct proton_error *err)
{
	return is_second ? second_error(result, "cuptiActivityEnable_v2", err)
			 : cupti_api_error(result, "cuptiActivityEnable", err);
}

int interface_next(uint8_t *buffer, size_t valid_bytes, struct cupti_activity **record)
{
	return libcupti.cuptiActivityGetNextRecord_v2(subscriber, buffer, valid_bytes, record);
}

int interface_dropped(size_t *dropped)
{
	return is_second
		       ? libcupti.cuptiActivityGetNumDroppedRecords_v2(subscriber, NULL, 0, dropped)
		       : libcupti.cuptiActivityGetNumDroppedRecords(NULL, 0, dropped);
}

/* ------------------------------------------------------------------ the end */

void interface_leave(void)
{
	if (is_second)
		set_attribute(CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS, 0);
}

#define LAST_NAME "Proton (stop)"

/*
 * Subscribes once more, to learn the name of the first subscriber. Without another one the
 * subscription stays: if a tool subscribes just now, cuptiFinalize() sees two and does nothing.
 */
static bool is_another_there(void **last_out)
{
	char name[CUPTI_SUBSCRIBER_NAME_BYTES + 1] = "";
	struct cupti_subscriber_params params = {
		.size = sizeof(params),
		.name = LAST_NAME,
		.other_name = name,
		.other_name_bytes = CUPTI_SUBSCRIBER_NAME_BYTES,
		.allows_several = true,
	};

	if (libcupti.cuptiSubscribe_v2(last_out, no_callback, NULL, &params) != CUPTI_OK)
		return true;
	if (!*name || strstr(name, LAST_NAME))
		return false;
	libcupti.cuptiUnsubscribe(*last_out);
	return true;
}

bool interface_finalize(bool is_released)
{
	bool may_be_another = is_second && allows_several && is_released;
	void *last = NULL;

	if (!libcupti.cuptiFinalize || (may_be_another && is_another_there(&last)))
		return false;
	if (libcupti.cuptiFinalize() == CUPTI_OK)
		return true;
	if (last)
		libcupti.cuptiUnsubscribe(last);
	return false;
}

void interface_describe(backend_add_fn add, void *user)
{
	add(user, "cupti_interface", is_second ? "2" : "1");
	if (is_second)
		add(user, "cupti_other_tools", allows_several ? "allowed" : "excluded");
	add(user, "kernel_times",
	    kernel_times_are_hardware(is_second ? subscriber : NULL) ? "hardware" : "software");
}
