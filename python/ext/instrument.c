/*
 * Instrumentation passes for Python's compiler pipeline: text in, text out. src/intra and
 * src/symbol are linked into this module; they have no state, so a second copy next to libproton's
 * is harmless.
 */
#include "ext.h"

#include "intra/llvm/llvm_pass.h"
#include "intra/mode.h"
#include "intra/ttgir/ttgir.h"
#include "symbol/code_object.h"

/* None for NULL. */
static PyObject *text_of(const char *bytes, size_t length)
{
	if (!bytes)
		Py_RETURN_NONE;
	return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "surrogateescape");
}

/* Releases `out`. */
static PyObject *text_of_out(struct out *out)
{
	char *bytes;
	size_t length;
	if (out_finish_text(out, &bytes, &length, NULL) != PROTON_OK)
		return PyErr_NoMemory();
	PyObject *text = text_of(bytes, length);
	free(bytes);
	return text;
}

/* False with an exception. */
static bool read_mode(PyObject *module, const char *text, struct instrument_mode *mode)
{
	struct proton_error err;
	int status = instrument_mode_read(text, mode, &err);
	if (status != PROTON_OK)
		ext_raise(ext_state_of(module), status, &err);
	return status == PROTON_OK;
}

/* ------------------------------------------------------------------ modes */

static PyObject *instrument_mode(PyObject *module, PyObject *argument)
{
	struct instrument_mode mode;
	const char *text = PyUnicode_AsUTF8(argument);
	if (!text || !read_mode(module, text, &mode))
		return NULL;
	struct out out;
	out_init(&out, -1);
	instrument_mode_key(&mode, &out);
	PyObject *key = text_of_out(&out);
	PyObject *launches = mode.launches == INSTRUMENT_LAUNCHES_ALL
				     ? Py_NewRef(Py_None)
				     : PyLong_FromUnsignedLong(mode.launches);
	static const char *const trees[] = {
		[INSTRUMENT_TREE_RECORDS] = "records",
		[INSTRUMENT_TREE_SUMS] = "sums",
		[INSTRUMENT_TREE_AUTO] = "auto",
	};
	return Py_BuildValue("{s:N,s:I,s:I,s:N,s:I,s:O,s:s}", "key", key, "autos", mode.autos,
			     "budget", mode.budget, "launches", launches, "cta_stride",
			     mode.cta_stride, "time_shift", mode.time_shift ? Py_True : Py_False,
			     "tree", trees[mode.tree]);
}

/* ------------------------------------------------------------------ LLVM IR */

static bool has_extremes(const struct instrument_layout *layout)
{
	for (uint32_t i = 0; i < layout->sum_count; i++)
		if (layout->sums[i].min_word != INSTRUMENT_NO_SUM)
			return true;
	return false;
}

static PyObject *llvm_result(const struct instrument_result *result)
{
	struct out out;
	out_init(&out, -1);
	layout_write(&result->layout, &out);
	PyObject *layout = text_of_out(&out);
	PyObject *text = text_of(result->text, result->length);
	return Py_BuildValue("{s:N,s:N,s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:s,s:s,s:O,s:O}", "text", text,
			     "layout", layout, "requested", layout_requested(&result->layout),
			     "alignment", layout_alignment(&result->layout), "ring_bytes",
			     result->holds_all ? 0 : result->layout.ring_bytes, "shared",
			     result->shared_bytes, "buffer",
			     result->buffer == INSTRUMENT_BUFFER_SHARED ? "shared" : "global",
			     "records", result->record_count, "ignored", result->ignored_markers,
			     "reason", result->ignored_reason, "records_reason",
			     result->records_reason, "can_hoist",
			     result->can_hoist ? Py_True : Py_False, "extremes",
			     has_extremes(&result->layout) ? Py_True : Py_False);
}

static PyObject *instrument_text(PyObject *module, PyObject *args)
{
	struct instrument_options options = {0};
	struct instrument_result result;
	struct proton_error err;
	const char *text, *mode_text;
	Py_ssize_t length;
	int arguments;
	int hoists = 0, extremes = 1;
	if (!PyArg_ParseTuple(args, "s#sIIIIIis|pp:instrument_llvm", &text, &length, &options.arch,
			      &options.warp_count, &options.threads_per_warp, &options.shared_bytes,
			      &options.shared_limit, &options.shared_per_processor, &arguments,
			      &mode_text, &hoists, &extremes))
		return NULL;
	options.has_extremes = extremes;
	/* Triton adds its own buffer and the profile's. */
	options.parameter_count = arguments >= 0 ? (uint32_t)arguments + 2 : 0;
	if (!read_mode(module, mode_text, &options.mode))
		return NULL;
	options.hoists = hoists;
	int status;
	EXT_UNLOCKED(status = instrument_llvm(text, (size_t)length, &options, &result, &err));
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	PyObject *made;
	if (result.text)
		made = llvm_result(&result);
	else if (result.ignored_markers)
		made = Py_BuildValue("{s:I,s:s}", "ignored", result.ignored_markers, "reason",
				     result.ignored_reason);
	else
		made = Py_NewRef(Py_None);
	instrument_result_fini(&result);
	return made;
}

/* ------------------------------------------------------------------ TTGIR */

/* Returns the text or None, or raises the error, and releases the result. */
static PyObject *ttgir_text(PyObject *module, int status, struct ttgir_result *result,
			    struct proton_error *err)
{
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, err);
	PyObject *text = text_of(result->text, result->length);
	ttgir_result_fini(result);
	return text;
}

static PyObject *instrument_ttgir(PyObject *module, PyObject *args)
{
	struct ttgir_result result;
	struct instrument_mode mode;
	struct proton_error err;
	struct ttgir_insertion how = {0};
	const char *text, *mode_text;
	Py_ssize_t length;
	const char *without = "", *costs = "", *only = "";
	int is_amd, for_people = 0;
	if (!PyArg_ParseTuple(args, "s#sp|pIIssIs:instrument_ttgir", &text, &length, &mode_text,
			      &is_amd, &for_people, &how.records, &how.registers_less, &without,
			      &costs, &how.loop_levels, &only))
		return NULL;
	how.without = slice_of(without);
	how.costs = slice_of(costs);
	how.only = slice_of(only);
	if (how.registers_less > 100)
		how.registers_less = 100;
	if (!read_mode(module, mode_text, &mode))
		return NULL;
	int status;
	how.is_amd = is_amd;
	how.spelling = for_people ? TTGIR_RECORDS : TTGIR_MARKERS;
	EXT_UNLOCKED(
		status = ttgir_insert_scopes(text, (size_t)length, &mode, &how, &result, &err));
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	PyObject *made = Py_BuildValue("(NIzIz)", text_of(result.text, result.length),
				       result.record_count, result.note, result.cta_stride,
				       result.names);
	ttgir_result_fini(&result);
	return made;
}

static PyObject *instrument_override(PyObject *module, PyObject *args)
{
	struct ttgir_result result;
	struct proton_error err;
	const char *text;
	Py_ssize_t length;
	int is_amd;
	if (!PyArg_ParseTuple(args, "s#p:instrument_override", &text, &length, &is_amd))
		return NULL;
	int status = ttgir_translate_records(text, (size_t)length, is_amd, &result, &err);
	return ttgir_text(module, status, &result, &err);
}

static PyObject *instrument_take_out(PyObject *module, PyObject *args)
{
	struct ttgir_result result;
	struct proton_error err;
	const char *text;
	Py_ssize_t length;
	int when;
	if (!PyArg_ParseTuple(args, "s#i:instrument_take_out", &text, &length, &when))
		return NULL;
	int status = ttgir_strip_markers(text, (size_t)length, (enum ttgir_strip_markers)when,
					 &result, &err);
	return ttgir_text(module, status, &result, &err);
}

static PyObject *instrument_relocate(PyObject *module, PyObject *args)
{
	struct ttgir_result result;
	struct proton_error err;
	const char *before, *after;
	Py_ssize_t before_length, after_length;
	if (!PyArg_ParseTuple(args, "s#s#:instrument_relocate", &before, &before_length, &after,
			      &after_length))
		return NULL;
	int status;
	EXT_UNLOCKED(status = ttgir_restore_scopes(before, (size_t)before_length, after,
						   (size_t)after_length, &result, &err));
	return ttgir_text(module, status, &result, &err);
}

/* ------------------------------------------------------------------ machine code */

static PyObject *cubin_needs(PyObject *module, PyObject *argument)
{
	struct proton_error err;
	struct code_object cubin;
	char *bytes;
	Py_ssize_t length;
	if (PyBytes_AsStringAndSize(argument, &bytes, &length) < 0)
		return NULL;
	int status = code_object_open(&cubin, bytes, (size_t)length, &err);
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	PyObject *needs = NULL;
	if (cubin.registers)
		needs = Py_BuildValue("IK", cubin.registers, cubin.stack_bytes);
	else
		PyErr_SetString(PyExc_ValueError,
				"cannot parse the machine code: it has no register count");
	code_object_close(&cubin);
	return needs;
}

PyMethodDef ext_instrument_methods[] = {
	{"cubin_needs", cubin_needs, METH_O,
	 "cubin_needs(cubin)\n--\n\n"
	 "Resource use of machine code: the maximum register count of its functions, and their "
	 "total stack in bytes. ValueError if it cannot be parsed."},
	{"instrument_mode", instrument_mode, METH_O,
	 "instrument_mode(mode)\n--\n\n"
	 "The settings of an instrumentation mode, as a dict; `key` is equal for modes that make "
	 "equal code. ValueError for unknown settings."},
	{"instrument_llvm", instrument_text, METH_VARARGS,
	 "instrument_llvm(text, arch, num_warps, threads_per_warp, shared, shared_limit, "
	 "shared_per_processor, arguments, mode, hoist=False, extremes=True)\n--\n\n"
	 "Replace the markers of a kernel, LLVM IR as text, by records. `arguments`: those of "
	 "the kernel in TTGIR, -1 if unknown; `extremes`: sums may have the shortest and the "
	 "longest execution. None if it has no markers; "
	 "else a dict: text, layout (text for the decoder), cta_bytes (of the buffer, for each "
	 "CTA), ring_bytes (of a warp's ring buffer; 0 if it holds all records), shared (bytes "
	 "that the kernel needs now), buffer (\"shared\" or \"global\"), records, "
	 "ignored (markers in functions that cannot be changed), reason (why not), "
	 "records_reason (why it has records although sums were requested, or empty), "
	 "can_hoist (with `hoist`, vectorized additions move back to their loads), "
	 "extremes (True if sums have them). "
	 "ProtonError when the kernel cannot be instrumented."},
	{"instrument_ttgir", instrument_ttgir, METH_VARARGS,
	 "instrument_ttgir(text, mode, is_amd, for_people=False, records=0, registers_less=0, "
	 "without='', costs='', loop_levels=0, only='')\n--\n\n"
	 "Put the automatic scopes of a mode into TTGIR: (text, or None if nothing changed; how "
	 "many records a warp makes in one pass; omitted scopes, or None; every n-th CTA records, "
	 "1 without a budget; the names of all, one per line). `for_people` writes "
	 "proton.record instead of markers; `records` is the size of a warp's ring buffer, 0 if "
	 "not known yet; `registers_less` is the percentage of the registers of its scopes that "
	 "must be saved, with a budget, `without` names scopes to omit, one per line, `costs` of "
	 "more scopes are for the note, loops deeper than `loop_levels` are omitted, unless 0, and "
	 "`only` names the scopes to keep instead, one per line. "
	 "ProtonError for text that is not as MLIR prints it."},
	{"instrument_override", instrument_override, METH_VARARGS,
	 "instrument_override(text, is_amd)\n--\n\n"
	 "Turn proton.record, proton.event and proton.allocate_event of TTGIR into markers: the "
	 "text, or None if there are none. ProtonError names the line that is not understood."},
	{"instrument_take_out", instrument_take_out, METH_VARARGS,
	 "instrument_take_out(text, when)\n--\n\n"
	 "Take the markers out of TTIR: the text, or None where they can stay. `when`: 0 for loops "
	 "to be specialized, 1 also for markers in loops, 2 always. ProtonError for text that is "
	 "not as MLIR prints it."},
	{"instrument_relocate", instrument_relocate, METH_VARARGS,
	 "instrument_relocate(before, after)\n--\n\n"
	 "Put the scopes of the TTIR `before` around their operations in `after`, the TTGIR that "
	 "was made of it without its markers: the text, or None if nothing changed. ProtonError "
	 "for text that is not as MLIR prints it."},
	{NULL, NULL, 0, NULL},
};
