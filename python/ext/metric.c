/*
 * Metric values: conversion of a dict of name -> value to an array of struct proton_metric.
 *
 * Numbers, strings and lists of numbers are converted here. A dict with other values is first split
 * by triton_proton.metric.split_metrics, in Python: numpy arrays, tensors on the CPU and objects
 * with __float__ become plain values. Tensors on a device become tuples, and libproton reads them
 * in stream order, without waiting. A tensor is kept alive until libproton releases it, on any
 * thread, with or without the GIL: it goes to a list, and the next thread with the GIL drops the
 * reference.
 *
 * The metrics of the roofline have a fixed type: flops, flops8/16/32/64 are doubles, bytes is an
 * integer. The meaning of a name is cached (names.c).
 */
#include "ext.h"

#define INLINE_MAX 12

enum forced_type {
	AS_GIVEN,
	AS_INTEGER,
	AS_DOUBLE
};

struct metric_list {
	struct proton_metric first[INLINE_MAX];
	struct proton_metric *metrics; /* `first` or an allocated block */
	size_t count;
	bool is_plain; /* false: a value needs Python */
};

static void list_fini(struct metric_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct proton_metric *metric = &list->metrics[i];
		/* The vectors belong to this list; the interface has them as const. */
		if (metric->type == PROTON_METRIC_INT64_VECTOR)
			PyMem_Free((void *)(uintptr_t)metric->value.int64s);
		if (metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			PyMem_Free((void *)(uintptr_t)metric->value.float64s);
	}
	if (list->metrics != list->first)
		PyMem_Free(list->metrics);
}

/* Entries that Triton itself puts into the launch metadata, which are not metrics. */
static bool is_reserved(const char *name)
{
	return !strcmp(name, "name") || !strcmp(name, "function") || !strcmp(name, "stream");
}

static enum forced_type forced_type_of(const char *name)
{
	if (strcmp(name, "bytes") == 0)
		return AS_INTEGER;
	if (strncmp(name, "flops", 5) != 0)
		return AS_GIVEN;
	const char *width = name + 5;
	bool is_width = !*width || !strcmp(width, "8") || !strcmp(width, "16") ||
			!strcmp(width, "32") || !strcmp(width, "64");
	return is_width ? AS_DOUBLE : AS_GIVEN;
}

/* ------------------------------------------------------------------ single values */

/* Raises ValueError "metric 'NAME': why"; returns -1. */
static int refuse(const char *name, const char *why)
{
	AUTO_DECREF PyObject *text =
		PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
	AUTO_DECREF PyObject *shown = text ? ext_shown(text) : NULL;
	if (shown)
		PyErr_Format(PyExc_ValueError, "metric '%U': %s", shown, why);
	return -1;
}

static int integer_of(PyObject *value, const char *name, int64_t *out)
{
	if (PyFloat_Check(value)) {
		double number = PyFloat_AS_DOUBLE(value);
		if (!(number >= -0x1p63 && number < 0x1p63))
			return refuse(name, "the number does not fit into 64 bits");
		*out = (int64_t)number;
		return 0;
	}
	int overflow;
	long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	if (overflow)
		return refuse(name, "the integer does not fit into 64 bits");
	if (number == -1 && PyErr_Occurred())
		return -1;
	*out = number;
	return 0;
}

static int double_of(PyObject *value, const char *name, double *out)
{
	if (PyFloat_Check(value)) {
		*out = PyFloat_AS_DOUBLE(value);
		return 0;
	}
	double number = PyLong_AsDouble(value);
	if (number == -1.0 && PyErr_Occurred()) {
		if (!PyErr_ExceptionMatches(PyExc_OverflowError))
			return -1;
		PyErr_Clear();
		return refuse(name, "the integer is too large for a float");
	}
	*out = number;
	return 0;
}

/* An integer of more than 64 bits becomes a double. */
static bool is_double_or_large(PyObject *value)
{
	int overflow = 0;
	if (PyFloat_Check(value))
		return true;
	if (PyLong_AsLongLongAndOverflow(value, &overflow) == -1 && PyErr_Occurred())
		PyErr_Clear();
	return overflow != 0;
}

static int convert_number(PyObject *value, enum forced_type forced, struct proton_metric *metric)
{
	bool is_double = forced == AS_DOUBLE || (forced == AS_GIVEN && is_double_or_large(value));
	metric->type = is_double ? PROTON_METRIC_DOUBLE : PROTON_METRIC_INT64;
	if (is_double)
		return double_of(value, metric->name, &metric->value.float64);
	return integer_of(value, metric->name, &metric->value.int64);
}

/* ------------------------------------------------------------------ lists */

static int convert_items(PyObject *sequence, bool is_double, struct proton_metric *metric)
{
	_Static_assert(sizeof(int64_t) == sizeof(double), "one block fits both");
	int64_t *integers = PyMem_Malloc(metric->count * sizeof(*integers));
	double *doubles = (double *)(void *)integers;
	if (!integers) {
		PyErr_NoMemory();
		return -1;
	}
	for (uint32_t i = 0; i < metric->count; i++) {
		PyObject *item = PySequence_Fast_GET_ITEM(sequence, (Py_ssize_t)i);
		int failed = is_double ? double_of(item, metric->name, &doubles[i])
				       : integer_of(item, metric->name, &integers[i]);
		if (failed) {
			PyMem_Free(integers);
			return -1;
		}
	}
	metric->type = is_double ? PROTON_METRIC_DOUBLE_VECTOR : PROTON_METRIC_INT64_VECTOR;
	if (is_double)
		metric->value.float64s = doubles;
	else
		metric->value.int64s = integers;
	return 0;
}

/* A list or tuple. Sets list->is_plain to false if an item needs Python. */
static int convert_vector(PyObject *sequence, enum forced_type forced, struct metric_list *list,
			  struct proton_metric *metric)
{
	Py_ssize_t item_count = PySequence_Fast_GET_SIZE(sequence);
	bool has_double = false;
	if ((uint64_t)item_count > UINT32_MAX)
		return refuse(metric->name, "the list is too long");
	for (Py_ssize_t i = 0; i < item_count; i++) {
		PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
		if (!PyFloat_Check(item) && !PyLong_Check(item)) {
			list->is_plain = false;
			return 0;
		}
		has_double |= is_double_or_large(item);
	}
	metric->count = (uint32_t)item_count;
	bool is_double = forced == AS_DOUBLE || (forced == AS_GIVEN && has_double);
	return convert_items(sequence, is_double, metric);
}

static int convert_sequence(PyObject *sequence, enum forced_type forced, struct metric_list *list,
			    struct proton_metric *metric)
{
	/* Without a GIL, another thread may change a list. */
	AUTO_DECREF PyObject *own = EXT_HAS_GIL ? Py_NewRef(sequence) : PySequence_Tuple(sequence);
	return own ? convert_vector(own, forced, list, metric) : -1;
}

/* ------------------------------------------------------------------ the dict */

/* Properties of a name. False with an exception. */
static bool note_name(PyObject *key, struct ext_known_name *known_out)
{
	Py_ssize_t length;
	if (!PyUnicode_Check(key))
		return ext_raise_type("the name of a metric", "a str", key);
	const char *text = PyUnicode_AsUTF8AndSize(key, &length);
	if (!text)
		return false;
	if (length == 0 || strlen(text) != (size_t)length) {
		PyErr_SetString(PyExc_ValueError, length == 0 ? "a metric needs a name"
							      : "the metric name contains a NUL");
		return false;
	}
	known_out->text = text;
	known_out->metric = proton_metric_name(text);
	known_out->forced = (uint8_t)forced_type_of(text);
	known_out->is_reserved = is_reserved(text);
	return true;
}

static bool find_name(struct ext_state *state, PyObject *key, struct ext_known_name *known_out)
{
	*known_out = ext_name_find(state, key);
	if (known_out->text)
		return true;
	if (!note_name(key, known_out))
		return false;
	ext_name_keep(state, key, *known_out);
	return true;
}

static int convert_string(PyObject *value, struct proton_metric *metric)
{
	Py_ssize_t length;
	metric->type = PROTON_METRIC_STRING;
	metric->value.string = PyUnicode_AsUTF8AndSize(value, &length);
	if (!metric->value.string)
		return -1;
	if (strlen(metric->value.string) == (size_t)length)
		return 0;
	return refuse(metric->name, "the text contains a NUL");
}

/* One value; sets list->is_plain to false if it needs Python. */
static int convert_value(PyObject *value, enum forced_type forced, struct metric_list *list,
			 struct proton_metric *metric)
{
	if (PyFloat_Check(value) || PyLong_Check(value))
		return convert_number(value, forced, metric);
	if (PyList_Check(value) || PyTuple_Check(value))
		return convert_sequence(value, forced, list, metric);
	if (PyUnicode_Check(value) && forced == AS_GIVEN)
		return convert_string(value, metric);
	list->is_plain = false;
	return 0;
}

/* True for values in launch metadata that are ignored because they are not metrics. */
static bool is_passed_over(const struct ext_known_name *name, PyObject *value)
{
	if (name->is_reserved || value == Py_None || PyUnicode_Check(value))
		return true;
	return (PyList_Check(value) || PyTuple_Check(value)) &&
	       PySequence_Fast_GET_SIZE(value) == 0;
}

static int list_reserve(struct metric_list *list, size_t capacity)
{
	list->count = 0;
	list->is_plain = true;
	list->metrics = list->first;
	if (capacity <= INLINE_MAX)
		return 0;
	list->metrics = PyMem_Malloc(capacity * sizeof(*list->metrics));
	if (list->metrics)
		return 0;
	list->metrics = list->first;
	PyErr_NoMemory();
	return -1;
}

static int list_fill(struct ext_state *state, struct metric_list *list, PyObject *metrics,
		     bool is_launch)
{
	PyObject *key, *value;
	Py_ssize_t position = 0;
	struct ext_known_name name;
	if (list_reserve(list, (size_t)PyDict_GET_SIZE(metrics)) < 0)
		return -1;
	/* No Python code runs here, so the dict cannot change in the loop. */
	while (list->is_plain && PyDict_Next(metrics, &position, &key, &value)) {
		if (is_launch && !PyUnicode_Check(key))
			continue;
		if (!find_name(state, key, &name))
			return -1;
		if (is_launch && is_passed_over(&name, value))
			continue;
		struct proton_metric *metric = &list->metrics[list->count++];
		/* A number until it is converted: there is nothing to free. */
		*metric = (struct proton_metric){
			.name = name.text, .type = PROTON_METRIC_INT64, .name_id = name.metric};
		if (convert_value(value, (enum forced_type)name.forced, list, metric) < 0)
			return -1;
	}
	return 0;
}

/* The dict, which no other thread changes (without a GIL a copy). NULL with an exception. */
static PyObject *snapshot(PyObject *metrics)
{
	return EXT_HAS_GIL ? Py_NewRef(metrics) : PyDict_Copy(metrics);
}

/* ------------------------------------------------------------------ tensors */

struct held {
	struct held *next;
	PyObject *object;
};

/* Process-wide, like libproton; the objects belong to the only interpreter that may use it. */
static _Atomic(struct held *) released;

static void on_release(void *user)
{
	struct held *held = user;
	held->next = atomic_load_explicit(&released, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&released, &held->next, held,
						      memory_order_release, memory_order_relaxed))
		;
}

void ext_metrics_let_go(void)
{
	if (!atomic_load_explicit(&released, memory_order_relaxed))
		return;
	struct held *held = atomic_exchange_explicit(&released, NULL, memory_order_acquire);
	while (held) {
		struct held *next = held->next;
		Py_DECREF(held->object);
		free(held);
		held = next;
	}
}

/* Adds one tuple; a tensor that cannot be read goes to `rest` by its name, or is an error. */
static int add_tuple(struct ext_state *state, struct proton_context where, PyObject *tuple,
		     PyObject *rest)
{
	static const enum proton_metric_type types[2][2] = {
		{PROTON_METRIC_INT64, PROTON_METRIC_DOUBLE},
		{PROTON_METRIC_INT64_VECTOR, PROTON_METRIC_DOUBLE_VECTOR},
	};
	struct held *held = malloc(sizeof(*held));
	struct proton_device_metric metric = {
		.size = sizeof(metric), .release = on_release, .user = held};
	struct proton_error err;
	int element, is_double, is_vector, status;
	unsigned long long address, stream;
	if (!held)
		PyErr_NoMemory();
	if (!held ||
	    !PyArg_ParseTuple(tuple, "sippIKKO", &metric.name, &element, &is_double, &is_vector,
			      &metric.count, &address, &stream, &held->object)) {
		free(held);
		return -1;
	}
	metric.type = types[is_vector][is_double];
	metric.element = (enum proton_element)element;
	metric.address = address;
	metric.stream = stream;
	PyObject *object = Py_NewRef(held->object);
	EXT_UNLOCKED(status = proton_metrics_add_device(where, &metric, &err));
	if (status == PROTON_OK)
		return 0;
	free(held);
	int result = -1;
	if (status == PROTON_E_UNSUPPORTED && rest)
		result = PyDict_SetItemString(rest, metric.name, object);
	else
		ext_raise(state, status, &err);
	Py_DECREF(object);
	return result;
}

int ext_metrics_add_tuples(struct ext_state *state, struct proton_context where, PyObject *tuples,
			   PyObject *rest)
{
	ext_metrics_let_go();
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tuples); i++)
		if (add_tuple(state, where, PyList_GET_ITEM(tuples, i), rest) < 0)
			return -1;
	return 0;
}

/* ------------------------------------------------------------------ adding */

/* Passes the list to libproton. 0, or -1 with an exception. */
static int list_add(struct ext_state *state, const struct metric_list *list,
		    struct proton_context where)
{
	struct proton_error err;
	int status = list->count ? proton_metrics_add(where, list->metrics, list->count, &err)
				 : PROTON_OK;
	if (status == PROTON_OK)
		return 0;
	ext_raise(state, status, &err);
	return -1;
}

/* Adds a dict of plain values. */
static int add_plain(struct ext_state *state, struct proton_context where, PyObject *metrics)
{
	struct metric_list list;
	int result = -1;
	if (list_fill(state, &list, metrics, false) == 0) {
		if (list.is_plain)
			result = list_add(state, &list, where);
		else
			PyErr_SetString(PyExc_TypeError, "a metric is neither a number nor a list");
	}
	list_fini(&list);
	return result;
}

/* Adds tensors that cannot be read on the device, after waiting for them. */
static int add_rest(struct ext_state *state, struct proton_context where, PyObject *rest)
{
	if (PyDict_GET_SIZE(rest) == 0)
		return 0;
	AUTO_DECREF PyObject *plain = ext_call("triton_proton.metric", "plain_metrics", rest, NULL);
	return plain ? add_plain(state, where, plain) : -1;
}

/* Adds a dict with values that need Python. */
static int add_objects(struct ext_state *state, struct proton_context where, PyObject *metrics)
{
	AUTO_DECREF PyObject *parts =
		ext_call("triton_proton.metric", "split_metrics", metrics, NULL);
	PyObject *plain, *tuples;
	AUTO_DECREF PyObject *rest = parts ? PyDict_New() : NULL;
	int result = -1;
	if (rest && PyArg_ParseTuple(parts, "O!O!", &PyDict_Type, &plain, &PyList_Type, &tuples)) {
		/* The plain ones first: they are added even if others fail. */
		result = add_plain(state, where, plain);
		if (result == 0)
			result = ext_metrics_add_tuples(state, where, tuples, rest);
		if (result == 0)
			result = add_rest(state, where, rest);
	}
	return result;
}

int ext_metrics_add(struct ext_state *state, struct proton_context where, PyObject *metrics)
{
	struct metric_list list;
	if (!metrics || metrics == Py_None)
		return 0;
	if (!ext_are_metrics(metrics))
		return -1;
	if (proton_context_is_empty(where))
		return 0;
	AUTO_DECREF PyObject *own = snapshot(metrics);
	if (!own)
		return -1;
	int result = list_fill(state, &list, own, false);
	bool is_plain = list.is_plain;
	if (result == 0 && is_plain)
		result = list_add(state, &list, where);
	list_fini(&list);
	if (result == 0 && !is_plain)
		result = add_objects(state, where, own);
	return result;
}

int ext_metrics_add_launch(struct ext_state *state, struct proton_context where, PyObject *launch,
			   bool *is_plain_out)
{
	struct metric_list list;
	int result = -1;
	*is_plain_out = true;
	if (proton_context_is_empty(where))
		return 0;
	AUTO_DECREF PyObject *own = snapshot(launch);
	if (!own)
		return -1;
	if (list_fill(state, &list, own, true) == 0) {
		*is_plain_out = list.is_plain;
		result = list.is_plain ? list_add(state, &list, where) : 0;
	}
	list_fini(&list);
	return result;
}
