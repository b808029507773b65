/* Layout of autograd's nodes: their numbers and reference count, and a Function's node. */
#include "torch/torch_parts.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES TORCH_NODES_LEARNED
#define NODE_WORDS 16u /* they contain all that is looked for; later ones may look the same */

struct torch_node_layout torch_node_layout;

/* Reads memory that may not be there; by syscall(), which AddressSanitizer does not check. */
static bool read_words(const void *address, void *words, size_t bytes)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	bool is_read = syscall(SYS_write, ends[1], address, bytes) == (long)bytes &&
		       read(ends[0], words, bytes) == (ssize_t)bytes;
	close(ends[0]);
	close(ends[1]);
	return is_read;
}

/* The node of a Python object: THPCppFunction has a smart pointer after the object's header. */
struct seen_node {
	uint64_t number;
	uint64_t pointer[2]; /* the node, and the control block if it is a std::shared_ptr */
	uint64_t words[NODE_WORDS];
	uint64_t control[2];
};

static bool node_see(PyObject *object, struct seen_node *seen)
{
	PyObject *number = PyObject_CallMethod(object, "_sequence_nr", NULL);
	if (!number)
		return false;
	seen->number = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	memset(seen->control, 0, sizeof(seen->control));
	if (PyErr_Occurred() ||
	    !read_words((char *)object + sizeof(PyObject), seen->pointer, sizeof(seen->pointer)) ||
	    !read_words((void *)(uintptr_t)seen->pointer[0], seen->words, sizeof(seen->words)))
		return false;
	(void)!read_words((void *)(uintptr_t)seen->pointer[1], seen->control,
			  sizeof(seen->control));
	return true;
}

/* The only word that is `values[i]` in each node i. */
static bool find_word(const struct seen_node *seen, const uint64_t *values, uint32_t *at_out)
{
	uint32_t found = 0;
	for (uint32_t word = 1; word < NODE_WORDS; word++) {
		int same = 0;
		for (int i = 0; i < NODES; i++)
			same += seen[i].words[word] == values[i];
		if (same < NODES)
			continue;
		*at_out = word;
		found++;
	}
	return found == 1;
}

/* Finds the reference count: it falls by 1 when the tensor of a node is freed. */
static bool find_count(const struct seen_node *before, const struct seen_node *after)
{
	torch_node_layout.has_control = after->words[1] != before->words[1] - 1;
	return !torch_node_layout.has_control ||
	       (uint32_t)after->control[1] == (uint32_t)before->control[1] - 1;
}

bool torch_nodes_learn(PyObject *tensors, uint64_t thread)
{
	struct seen_node seen[NODES], after;
	uint64_t numbers[NODES], threads[NODES];
	PyObject *last = NULL;
	if (PyList_GET_SIZE(tensors) != NODES)
		return false;
	for (int i = 0; i < NODES; i++) {
		PyObject *object = PyObject_GetAttrString(PyList_GET_ITEM(tensors, i), "grad_fn");
		bool is_seen = object && node_see(object, &seen[i]);
		Py_XSETREF(last, object);
		if (!is_seen) {
			Py_XDECREF(last);
			return false;
		}
		numbers[i] = seen[i].number;
		threads[i] = thread;
	}
	bool is_known = PyList_SetItem(tensors, NODES - 1, Py_NewRef(Py_None)) == 0 &&
			node_see(last, &after) &&
			find_word(seen, numbers, &torch_node_layout.number_at) &&
			find_word(seen, threads, &torch_node_layout.thread_at) &&
			find_count(&seen[NODES - 1], &after);
	Py_DECREF(last);
	return is_known;
}

bool torch_nodes_learn_function(PyObject *context, PyObject *type, uint64_t thread, uint64_t number)
{
	const uint64_t *words = (const uint64_t *)context;
	size_t bytes = (size_t)((PyTypeObject *)type)->tp_basicsize;
	uint32_t found = 0;
	for (uint32_t i = sizeof(PyObject) / sizeof(*words); i < bytes / sizeof(*words); i++) {
		uint64_t node[NODE_WORDS];
		if (words[i] % sizeof(*node) != 0 ||
		    !read_words((const void *)(uintptr_t)words[i], node, sizeof(node)) ||
		    node[torch_node_layout.number_at] != number ||
		    node[torch_node_layout.thread_at] != thread)
			continue;
		torch_node_layout.context_at = i;
		found++;
	}
	if (found == 1)
		torch_node_layout.function_type = (const PyTypeObject *)Py_NewRef(type);
	return found == 1;
}

const uint64_t *torch_nodes_of_function(PyObject *context)
{
	const PyTypeObject *type = context ? Py_TYPE(context) : NULL;
	while (type && type != torch_node_layout.function_type)
		type = type->tp_base;
	return type ? ((const uint64_t *const *)context)[torch_node_layout.context_at] : NULL;
}

void torch_nodes_release(const struct torch_node_pointer *pointer)
{
	if (torch_node_layout.has_control)
		__atomic_sub_fetch((int32_t *)((char *)pointer->others[0] + 8), 1,
				   __ATOMIC_ACQ_REL);
	else
		__atomic_sub_fetch((uint64_t *)((char *)pointer->node + 8), 1, __ATOMIC_ACQ_REL);
}
