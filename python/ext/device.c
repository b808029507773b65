/*
 * Device metrics: tensors that libproton reads in stream order, without waiting.
 *
 * triton_proton.metric.split_metrics() describes each as a tuple. The tensor is kept alive until
 * libproton releases it, on any thread, with or without the GIL. Released tensors go to a list, and
 * the next thread with the GIL drops the references.
 */
#include "ext.h"

#include <stdatomic.h>
#include <stdlib.h>

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

void ext_device_let_go(void)
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

int ext_device_add(struct ext_state *state, struct proton_context where, PyObject *tuples,
		   PyObject *rest)
{
	ext_device_let_go();
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tuples); i++)
		if (add_tuple(state, where, PyList_GET_ITEM(tuples, i), rest) < 0)
			return -1;
	return 0;
}
