/*
 * Python frames of the calling thread: walks through the public interface and through the
 * interpreter's own structures, and scopes in between (context "python+scopes").
 *
 * The public interface creates an object for every frame, and the frame must handle that object
 * when it returns. This would be most of the overhead of a launch with context "python". The
 * interpreter's own frames are a linked list of plain structures, with a layout that is fixed
 * within a minor version. The known layouts are declared here. The public interface is used for
 * other versions, and if both walks find different frames.
 *
 * Sources: Include/internal/pycore_frame.h of CPython 3.11, 3.12 and 3.13, pycore_interpframe.h and
 * pycore_interpframe_structs.h of 3.14 and 3.15; _PyFrame_IsIncomplete() and
 * _PyInterpreterFrame_LASTI() there.
 */
#include "python_frames.h"

#include <frameobject.h>

#include "base/array.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x03100000
#define HAS_KNOWN_FRAMES 1
#else
#define HAS_KNOWN_FRAMES 0
#endif

#define UNIT_BYTES 2 /* of code: the unit of offsets */

static bool are_known;        /* the interpreter's frames are as declared here */
static _Atomic bool are_used; /* instead of the public interface */

void frame_walk_fini(struct frame_walk *walk)
{
	free(walk->visits);
	*walk = (struct frame_walk){0};
}

static inline bool walk_add(struct frame_walk *walk, PyCodeObject *code, frame_place place)
{
	if (walk->count == walk->capacity &&
	    !array_reserve(&walk->visits, &walk->capacity, walk->count + 1, sizeof(*walk->visits)))
		return false;
	walk->visits[walk->count++] = (struct frame_visit){code, place};
	return true;
}

/* ------------------------------------------------------------------ places */

#if EXT_HAS_CODE_COPIES

/* As if the frame executed the first copy, which is part of the code object. */
static frame_place place_of(int32_t offset)
{
	return (frame_place)offsetof(PyCodeObject, co_code_adaptive) + offset;
}

bool frame_offset(const struct frame_visit *visit, int32_t *offset_out)
{
	PyCodeObject *code = visit->code;
	const char *instruction = (const char *)code + visit->place;
	ptrdiff_t size = Py_SIZE(code) * UNIT_BYTES;
	/* Another thread may replace the array; it is freed when all have passed a point. */
	const _PyCodeArray *copies = __atomic_load_n(&code->co_tlbc, __ATOMIC_ACQUIRE);
	*offset_out = -1;
	for (Py_ssize_t i = 0; i < copies->size; i++) {
		const char *copy = __atomic_load_n(&copies->entries[i], __ATOMIC_RELAXED);
		if (copy && instruction >= copy && instruction < copy + size)
			*offset_out = (int32_t)(instruction - copy);
	}
	return *offset_out >= code->_co_firsttraceable * UNIT_BYTES;
}

#else

static frame_place place_of(int32_t offset)
{
	return offset;
}

bool frame_offset(const struct frame_visit *visit, int32_t *offset_out)
{
	*offset_out = visit->place;
	return true;
}

#endif

/* ------------------------------------------------------------------ the public interface */

#if PY_VERSION_HEX >= 0x030b0000
static int32_t offset_of(PyFrameObject *frame)
{
	return (int32_t)PyFrame_GetLasti(frame);
}
#else
static int32_t offset_of(PyFrameObject *frame)
{
	return frame->f_lasti < 0 ? -1 : frame->f_lasti * UNIT_BYTES;
}
#endif

bool frames_walk_public(struct frame_walk *walk)
{
	PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
	bool has_space = true;
	walk->count = 0;
	while (frame && has_space) {
		PyCodeObject *code = PyFrame_GetCode(frame);
		has_space = walk_add(walk, code, place_of(offset_of(frame)));
		Py_DECREF(code);
		PyFrameObject *back = PyFrame_GetBack(frame);
		Py_DECREF(frame);
		frame = back;
	}
	Py_XDECREF(frame);
	return has_space;
}

/* ------------------------------------------------------------------ the interpreter's frames */

#if HAS_KNOWN_FRAMES

#define OWNED_BY_GENERATOR 1
#define OWNED_BY_C_STACK 3 /* since 3.12; from this value on, not a Python frame */

/* The fields between the declared ones are pointers; only their size matters. */
#if PY_VERSION_HEX >= 0x030e0000
#define TAG_BITS 3
struct own_frame {
	uintptr_t executable; /* a code object, None in frames of the interpreter; tagged */
	struct own_frame *previous;
	void *others[5];
	const char *instruction; /* the current one */
	void *stack_pointer;
#ifdef Py_GIL_DISABLED
	int32_t copy_index;
#endif
	uint16_t return_offset;
	char owner;
};
#elif PY_VERSION_HEX >= 0x030c0000
struct own_frame {
	PyCodeObject *code; /* None in frames of the C stack */
	struct own_frame *previous;
	void *others[5];
	const char *instruction; /* 3.12: the last one started; 3.13: the current one */
	int stack_top;
	uint16_t return_offset;
	char owner;
};
#else
struct own_frame {
	void *others[4];
	PyCodeObject *code;
	PyFrameObject *object;
	struct own_frame *previous;
	const char *instruction; /* the last one started */
	int stack_top;
	bool is_entry;
	char owner;
};
#endif

static inline struct own_frame *top_frame(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030d0000
	return (struct own_frame *)thread->current_frame;
#else
	return (struct own_frame *)thread->cframe->current_frame;
#endif
}

static inline PyCodeObject *code_of(const struct own_frame *frame)
{
#if PY_VERSION_HEX >= 0x030e0000
	return (PyCodeObject *)(frame->executable & ~(uintptr_t)TAG_BITS);
#else
	return frame->code;
#endif
}

/* False for a call that has not reached its first statement, if that is visible here. */
static inline bool find_place(const struct own_frame *frame, PyCodeObject *code,
			      frame_place *place_out)
{
#if EXT_HAS_CODE_COPIES
	*place_out = frame->instruction - (const char *)code;
	return true;
#else
	ptrdiff_t offset = frame->instruction - code->co_code_adaptive;
	*place_out = offset < 0 ? -1 : (int32_t)offset;
	return offset >= code->_co_firsttraceable * UNIT_BYTES ||
	       frame->owner == OWNED_BY_GENERATOR;
#endif
}

static bool walk_own(struct frame_walk *walk, PyThreadState *thread)
{
	walk->count = 0;
	for (struct own_frame *frame = top_frame(thread); frame; frame = frame->previous) {
		frame_place place;
		if (PY_VERSION_HEX >= 0x030c0000 && frame->owner >= OWNED_BY_C_STACK)
			continue;
		PyCodeObject *code = code_of(frame);
		if (find_place(frame, code, &place) && !walk_add(walk, code, place))
			return false;
	}
	return true;
}

bool frames_walk_own(struct frame_walk *walk, PyThreadState *thread)
{
	return are_used && walk_own(walk, thread);
}

/* Plain generators do not count: they may surround an event loop. */
static bool is_coroutine(const struct own_frame *frame)
{
	return frame->owner == OWNED_BY_GENERATOR &&
	       (code_of(frame)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE));
}

bool frames_find_coroutines(PyThreadState *thread, struct frame_coroutines *out)
{
	bool has_ended = false;
	*out = (struct frame_coroutines){0};
	if (!are_used)
		return false;
	for (struct own_frame *frame = top_frame(thread); frame; frame = frame->previous) {
		if (is_coroutine(frame)) {
			out->outermost = frame;
			if (!has_ended)
				out->nearest = frame;
		} else if (out->nearest) {
			has_ended = true;
		}
	}
	return true;
}

/* Only the thread itself, which is the caller, changes the variables of its frames. */
static PyObject *first_argument(const struct own_frame *frame)
{
	uintptr_t value = code_of(frame)->co_nlocalsplus > 0 ? *(const uintptr_t *)(frame + 1) : 0;
#if PY_VERSION_HEX >= 0x030e0000
	value &= ~(uintptr_t)TAG_BITS;
#endif
	PyObject *object = (PyObject *)value;
	bool is_tuple = object && PyTuple_CheckExact(object);
	if (is_tuple)
		object = PyTuple_GET_SIZE(object) > 0 ? PyTuple_GET_ITEM(object, 0) : NULL;
	return object;
}

uint32_t frames_first_arguments(PyThreadState *thread, const PyCodeObject *code,
				PyObject **arguments, uint32_t capacity)
{
	const struct own_frame *callee = NULL;
	uint32_t count = 0;
	for (struct own_frame *frame = are_used ? top_frame(thread) : NULL;
	     frame && count < capacity; frame = frame->previous) {
		if (PY_VERSION_HEX >= 0x030c0000 && frame->owner >= OWNED_BY_C_STACK)
			continue;
		if (code_of(frame) == code)
			arguments[count++] = callee ? first_argument(callee) : NULL;
		callee = frame;
	}
	return count;
}

/* The next frame from *index on with a true frame_offset(). */
static bool next_visit(const struct frame_walk *walk, uint32_t *index, PyCodeObject **code_out,
		       int32_t *offset_out)
{
	while (*index < walk->count) {
		const struct frame_visit *visit = &walk->visits[(*index)++];
		*code_out = visit->code;
		if (frame_offset(visit, offset_out))
			return true;
	}
	return false;
}

static bool walks_are_equal(const struct frame_walk *a, const struct frame_walk *b)
{
	uint32_t at_a = 0, at_b = 0;
	for (;;) {
		PyCodeObject *code_a, *code_b;
		int32_t offset_a, offset_b;
		bool has_a = next_visit(a, &at_a, &code_a, &offset_a);
		bool has_b = next_visit(b, &at_b, &code_b, &offset_b);
		if (!has_a || !has_b)
			return has_a == has_b;
		if (code_a != code_b || offset_a != offset_b)
			return false;
	}
}

static bool find_known(void)
{
	struct frame_walk own = {0}, public = {0};
	/* A version known only from previews, or different from the one compiled for. */
	bool is_final = (PY_VERSION_HEX & 0xf0) == 0xf0 && (Py_Version & 0xf0) == 0xf0;
	bool is_same_minor = Py_Version >> 16 == PY_VERSION_HEX >> 16;
	bool result = is_final && is_same_minor && frames_walk_public(&public) &&
		      public.count > 0 && walk_own(&own, PyThreadState_Get()) &&
		      walks_are_equal(&own, &public);
	frame_walk_fini(&own);
	frame_walk_fini(&public);
	return result;
}

#else

bool frames_walk_own(struct frame_walk *walk, PyThreadState *thread)
{
	return false;
}

bool frames_find_coroutines(PyThreadState *thread, struct frame_coroutines *out)
{
	return false;
}

uint32_t frames_first_arguments(PyThreadState *thread, const PyCodeObject *code,
				PyObject **arguments, uint32_t capacity)
{
	return 0;
}

static bool find_known(void)
{
	return false;
}

#endif

void frames_init(void)
{
	are_known = find_known();
	are_used = are_known;
}

bool frames_use_own(bool is_wanted)
{
	are_used = are_known && is_wanted;
	return are_used;
}

/* ------------------------------------------------------------------ scopes between frames */

/*
 * A scope is entered by a frame that usually is still on the stack at a launch: `with` in a
 * function, or the method of PyTorch that calls the hooks of a module. Its place is the number of
 * frames from the root to that one, with its code and that of the next outer ones, as hashes. If
 * the frame has ended (a generator of contextlib, which is suspended), the next outer one counts.
 */
#define LEVEL_MAX 0xffffu
#define CODES 3u        /* per place */
#define SCOPES_MAX 128u /* the innermost ones are left out; deeper recursion has no use */

static char mark; /* its address is that of no code object */
PyCodeObject *const scope_visit_code = (PyCodeObject *)&mark;

static uint64_t code_hash(const PyCodeObject *code)
{
	return (uint64_t)((uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
}

uint64_t scope_place(const struct frame_walk *walk, uint32_t index)
{
	uint32_t level = walk->count - index;
	uint64_t place = level < LEVEL_MAX ? level : LEVEL_MAX - 1;
	for (uint32_t i = 0; i < CODES && index + i < walk->count; i++)
		place |= code_hash(walk->visits[index + i].code) << (16 * (i + 1));
	return place;
}

/* The number of frames above the first one of the running task. */
static uint32_t frames_above_task(const struct frame_walk *walk, uint32_t total)
{
	uint32_t above = 0;
	while (above < total && !(walk->visits[total - 1 - above].code->co_flags &
				  (CO_COROUTINE | CO_ITERABLE_COROUTINE)))
		above++;
	return above < total ? above : 0;
}

/* The number of frames above a scope. */
static uint32_t frames_above(const struct frame_walk *walk, uint32_t total, uint64_t place)
{
	if (place == PROTON_PLACE_TASK)
		return frames_above_task(walk, total);
	uint32_t level = place & LEVEL_MAX;
	for (uint32_t i = 0; i < CODES && level > 0; i++, level--) {
		uint64_t hash = place >> (16 * (i + 1)) & 0xffff;
		if (level <= total && code_hash(walk->visits[total - level].code) == hash)
			return level;
	}
	return level < total ? level : total;
}

/* By member: one wide load would wait for the two stores that the walk has just made. */
static inline void move(struct frame_visit *to, const struct frame_visit *from)
{
	to->code = from->code;
	to->place = from->place;
}

bool scope_places_insert(struct frame_walk *walk, uint32_t total)
{
	struct proton_open_scope scopes[SCOPES_MAX];
	uint32_t above[SCOPES_MAX];
	uint32_t open = proton_scopes_open(scopes, SCOPES_MAX);
	uint32_t cut = total - walk->count;
	uint32_t count = 0, outer = 0;
	if (open == 0)
		return true;
	for (uint32_t i = 0; i < open; i++) {
		uint32_t at = frames_above(walk, total, scopes[i].place);
		if (cut > 0 && at <= cut)
			continue;
		outer = at - cut > outer ? at - cut : outer;
		above[count] = outer; /* a scope is inside the one before */
		scopes[count++] = scopes[i];
	}
	if (!array_reserve(&walk->visits, &walk->capacity, walk->count + count,
			   sizeof(*walk->visits)))
		return false;
	/* From the root, which is last: frames move away from it until all scopes are in. */
	uint32_t next = 0;
	for (uint32_t frames = 0; next < count; frames++) {
		uint32_t from = walk->count - 1 - frames;
		while (next < count && above[next] == frames) {
			walk->visits[from + count - next] = (struct frame_visit){
				scope_visit_code, (frame_place)scopes[next].frame};
			next++;
		}
		if (next < count)
			move(&walk->visits[from + count - next], &walk->visits[from]);
	}
	walk->count += count;
	return true;
}
