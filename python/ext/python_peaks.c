/* Peak rates of devices, from libproton's table, for triton_proton.specs. */
#include "ext.h"

PyDoc_STRVAR(peak_flops_doc, "peak_flops(device_type, arch, width, num_sms, clock_khz)\n--\n\n"
			     "Operations per second on operands of `width` bits.");

static PyObject *peak_flops(PyObject *module, PyObject *args)
{
	struct proton_error err;
	const char *type, *arch;
	int width, status;
	double num_sms, clock_khz, rate;
	if (!PyArg_ParseTuple(args, "ssidd:peak_flops", &type, &arch, &width, &num_sms, &clock_khz))
		return NULL;
	status = proton_peak_flops(type, arch, width < 0 ? 0 : (unsigned)width, num_sms, clock_khz,
				   &rate, &err);
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	return PyFloat_FromDouble(rate);
}

PyDoc_STRVAR(peak_bytes_doc, "peak_bytes(device_type, arch, bus_width, memory_clock_khz)\n--\n\n"
			     "Bytes per second of a device's memory.");

static PyObject *peak_bytes(PyObject *module, PyObject *args)
{
	struct proton_error err;
	const char *type, *arch;
	double bus_width, clock_khz, rate;
	if (!PyArg_ParseTuple(args, "ssdd:peak_bytes", &type, &arch, &bus_width, &clock_khz))
		return NULL;
	int status = proton_peak_bytes(type, arch, bus_width, clock_khz, &rate, &err);
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	return PyFloat_FromDouble(rate);
}

PyDoc_STRVAR(peak_arches_doc, "peak_arches(device_type)\n--\n\n"
			      "Architectures of \"CUDA\" or \"HIP\" that have peak rates.");

static PyObject *peak_arches(PyObject *module, PyObject *device_type)
{
	const char *type = PyUnicode_AsUTF8(device_type);
	PyObject *arches = type ? PyList_New(0) : NULL;
	const char *arch;
	for (uint32_t i = 0; arches && (arch = proton_peak_arch(type, i)); i++)
		ext_append(&arches, PyUnicode_FromString(arch));
	return arches;
}

PyMethodDef ext_peaks_methods[] = {
	{"peak_flops", peak_flops, METH_VARARGS, peak_flops_doc},
	{"peak_bytes", peak_bytes, METH_VARARGS, peak_bytes_doc},
	{"peak_arches", peak_arches, METH_O, peak_arches_doc},
	{NULL, NULL, 0, NULL},
};
