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

/* Adds one metric. The status; with an exception unless PROTON_OK or PROTON_E_UNSUPPORTED. */
static int add(struct ext_state *state, struct proton_context where,
	       struct proton_device_metric *metric, PyObject *object, struct proton_error *err)
{
	struct held *held = malloc(sizeof(*held));
	if (!held) {
		PyErr_NoMemory();
		return PROTON_E_NOMEM;
	}
	held->object = Py_NewRef(object);
	metric->size = sizeof(*metric);
	metric->release = on_release;
	metric->user = held;
	int status;
	EXT_UNLOCKED(status = proton_metrics_add_device(where, metric, err));
	if (status != PROTON_OK) {
		Py_DECREF(object);
		free(held);
	}
	if (status != PROTON_OK && status != PROTON_E_UNSUPPORTED)
		ext_raise(state, status, err);
	return status;
}

static enum proton_metric_type type_of(bool is_double, bool is_vector)
{
	if (is_vector)
		return is_double ? PROTON_METRIC_DOUBLE_VECTOR : PROTON_METRIC_INT64_VECTOR;
	return is_double ? PROTON_METRIC_DOUBLE : PROTON_METRIC_INT64;
}

/* Adds one tuple of split_metrics(); a tensor that cannot be read goes to `rest` by its name. */
static int add_tuple(struct ext_state *state, struct proton_context where, PyObject *tuple,
		     PyObject *rest)
{
	struct proton_device_metric metric = {.count = 0};
	struct proton_error err;
	PyObject *name, *object;
	int element, wants_double;
	unsigned int count;
	unsigned long long address, stream;
	if (!PyArg_ParseTuple(tuple, "UiiIKKO", &name, &element, &wants_double, &count, &address,
			      &stream, &object))
		return -1;
	metric.name = PyUnicode_AsUTF8(name);
	if (!metric.name)
		return -1;
	/* The name decides, else the type of the elements. */
	bool is_double = wants_double < 0 ? element >= PROTON_ELEMENT_FLOAT16 : wants_double;
	metric.type = type_of(is_double, count != 1);
	metric.element = (enum proton_element)element;
	metric.count = count;
	metric.address = address;
	metric.stream = stream;
	int status = add(state, where, &metric, object, &err);
	if (status == PROTON_E_UNSUPPORTED)
		return PyDict_SetItem(rest, name, object);
	return status == PROTON_OK ? 0 : -1;
}

int ext_device_add(struct ext_state *state, struct proton_context where, PyObject *tuples,
		   PyObject **rest_out)
{
	*rest_out = PyDict_New();
	if (!*rest_out)
		return -1;
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tuples); i++) {
		if (add_tuple(state, where, PyList_GET_ITEM(tuples, i), *rest_out) < 0) {
			Py_CLEAR(*rest_out);
			return -1;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ upstream's own interface */

static int add_tensor_metric(struct ext_state *state, struct proton_context where, PyObject *name,
			     struct ext_tensor_metric *tensor, uint64_t stream)
{
	bool is_double = tensor->index == EXT_INDEX_DOUBLE ||
			 tensor->index == EXT_INDEX_DOUBLE_VECTOR;
	bool is_vector = tensor->index == EXT_INDEX_INT64_VECTOR ||
			 tensor->index == EXT_INDEX_DOUBLE_VECTOR;
	struct proton_error err;
	if (!is_double && !is_vector && tensor->index != EXT_INDEX_INT64) {
		PyErr_Format(PyExc_ValueError, "TensorMetric: %zd is not the index of a type",
			     tensor->index);
		return -1;
	}
	if ((uint64_t)tensor->size > UINT32_MAX) {
		PyErr_SetString(PyExc_ValueError, "TensorMetric: too many elements");
		return -1;
	}
	struct proton_device_metric metric = {
		.name = PyUnicode_AsUTF8(name),
		.type = type_of(is_double, is_vector || tensor->size > 1),
		.element = is_double ? PROTON_ELEMENT_FLOAT64 : PROTON_ELEMENT_INT64,
		.count = (uint32_t)tensor->size,
		.address = tensor->ptr,
		.stream = stream,
	};
	if (!metric.name)
		return -1;
	int status = add(state, where, &metric, (PyObject *)tensor, &err);
	if (status == PROTON_E_UNSUPPORTED)
		ext_raise(state, status, &err);
	return status == PROTON_OK ? 0 : -1;
}

/* The stream of set_metric_kernels(), else the current stream of the program's framework. */
static int find_stream(struct ext_state *state, uint64_t *stream_out)
{
	ext_lock(&state->stream_lock);
	bool has_stream = state->has_metric_stream;
	*stream_out = state->metric_stream;
	ext_unlock(&state->stream_lock);
	if (has_stream)
		return 0;
	PyObject *stream = ext_call("triton_proton.metric", "current_stream", NULL, NULL);
	if (!stream)
		return -1;
	*stream_out = PyLong_AsUnsignedLongLong(stream);
	Py_DECREF(stream);
	return PyErr_Occurred() ? -1 : 0;
}

int ext_device_add_tensors(struct ext_state *state, struct proton_context where, PyObject *tensors)
{
	uint64_t stream;
	if (!tensors || PyDict_GET_SIZE(tensors) == 0 || proton_context_is_empty(where))
		return 0;
	ext_device_let_go();
	if (find_stream(state, &stream) < 0)
		return -1;
	/* A copy: the GIL is released in the loop, and the dict may change. */
	PyObject *items = PyDict_Items(tensors);
	if (!items)
		return -1;
	int result = 0;
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items) && result == 0; i++) {
		PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 0);
		PyObject *tensor = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 1);
		if (!PyUnicode_Check(name) || !PyObject_TypeCheck(tensor, state->tensor)) {
			PyErr_SetString(PyExc_TypeError,
					"tensor_metrics must map names to TensorMetric");
			result = -1;
		} else {
			result = add_tensor_metric(state, where, name,
						   (struct ext_tensor_metric *)tensor, stream);
		}
	}
	Py_DECREF(items);
	return result;
}

static PyObject *set_metric_kernels(PyObject *module, PyObject *args)
{
	struct ext_state *state = ext_state_of(module);
	unsigned long long tensor_fn, scalar_fn, stream;
	unsigned int unused[4];
	if (!PyArg_ParseTuple(args, "KKK|IIII:set_metric_kernels", &tensor_fn, &scalar_fn, &stream,
			      &unused[0], &unused[1], &unused[2], &unused[3]))
		return NULL;
	ext_lock(&state->stream_lock);
	state->metric_stream = stream;
	state->has_metric_stream = true;
	ext_unlock(&state->stream_lock);
	Py_RETURN_NONE;
}

PyMethodDef ext_device_methods[] = {
	{"set_metric_kernels", set_metric_kernels, METH_VARARGS,
	 "set_metric_kernels(tensor_fn, scalar_fn, stream, ...)\n--\n\n"
	 "The stream that tensor metrics given to add_metrics() are read on. The kernels are\n"
	 "not needed: libproton has its own."},
	{NULL, NULL, 0, NULL},
};
