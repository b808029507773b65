/* Closed loop on kernel time: rotation of variants, prices of sets of scopes, and bisection. */
#include "backend/intra/closed_loop.h"

#include <math.h>

#include "base/array.h"
#include "base/mutex.h"
#include "base/slice.h"

#define VARIANTS_MAX 16u
/* Latest times of a variant; the median of fewer than the minimum says nothing. */
#define TIMES_MAX 32u
#define TIMES_MIN 3u
/* With so many times a set is kept if it is not certain that it costs too much. */
#define TIMES_ENOUGH 16u
/* After so many launches without a time that counts, nothing is measured. */
#define ATTEMPTS_MAX 64u
/* A set that was kept is split after all if so many times are clear. */
#define TIMES_SURE 8u
/* Once all sets are decided, every n-th rotation has the plain kernel and is timed. */
#define CHECK_EVERY 8u
/* Standard deviation of a time by the resolution of events, 500 ns. */
#define RESOLUTION_NS 150.0
/* Standard error of a median, in median absolute deviations, of n normal values: this / sqrt(n). */
#define MEDIAN_ERROR 1.858
#define ERRORS 2.0 /* on each side of the interval: 95 % */

enum state {
	SET_WANTED, /* and perhaps being compiled */
	SET_TRIED,
	SET_KEPT,
	SET_SPLIT, /* its halves are variants */
	SET_DROPPED,
};

struct variant {
	uint32_t first, end;
	enum state state;
	uint32_t launches; /* timed; the latest are in `times` */
	double times[TIMES_MAX];
};

struct loop {
	pthread_mutex_t lock;
	char *names;
	uint32_t budget;
	uint32_t scopes;
	uint32_t count;
	uint32_t given; /* `count` at the last closed_loop_decisions() */
	struct variant variants[VARIANTS_MAX];
	/* the rotation: each variant once, in random order */
	uint32_t order[VARIANTS_MAX];
	uint32_t length, at;
	bool has_plain;     /* the rotation */
	uint32_t attempts;  /* launches that were timed */
	uint32_t rotations; /* since all sets were decided */
	bool is_settled;    /* launches have closed_loop_usual() and are not measured */
	uint32_t chosen;
	uint32_t random;
};

/* ------------------------------------------------------------------ prices */

ARRAY_ORDER(compare_times, double, ORDER_OF(*a, *b))

static double median_of(double *values, uint32_t count)
{
	ARRAY_SORT(values, count, compare_times);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static uint32_t kept_times(const struct variant *variant)
{
	return variant->launches < TIMES_MAX ? variant->launches : TIMES_MAX;
}

/* The median of the latest times. Outliers and a slow first launch hardly matter to it. */
static double typical_time(const struct variant *variant, double *error_out)
{
	uint32_t count = kept_times(variant);
	double values[TIMES_MAX];

	memcpy(values, variant->times, count * sizeof(*values));
	double median = median_of(values, count);
	for (uint32_t i = 0; i < count; i++)
		values[i] = fabs(variant->times[i] - median);
	double spread = MEDIAN_ERROR * median_of(values, count);
	*error_out = (spread > RESOLUTION_NS ? spread : RESOLUTION_NS) / sqrt(count);
	return median;
}

static bool price_of(const struct loop *loop, const struct variant *variant, double *percent,
		     double *error)
{
	const struct variant *plain = &loop->variants[LOOP_PLAIN];
	double plain_error, own_error;

	if (kept_times(plain) < TIMES_MIN || kept_times(variant) < TIMES_MIN)
		return false;
	double before = typical_time(plain, &plain_error);
	double after = typical_time(variant, &own_error);
	*percent = 100 * (after / before - 1);
	*error = ERRORS * 100 * after / before * hypot(own_error / after, plain_error / before);
	return true;
}

/* ------------------------------------------------------------------ decisions */

static void want(struct loop *loop, uint32_t first, uint32_t end)
{
	loop->variants[loop->count++] = (struct variant){.first = first, .end = end};
}

/* The set costs too much: two smaller ones instead, as long as there is space for them. */
static void split(struct loop *loop, struct variant *variant)
{
	uint32_t middle = variant->first + (variant->end - variant->first) / 2;

	if (middle == variant->first || loop->count + 2 > VARIANTS_MAX) {
		variant->state = SET_DROPPED;
		return;
	}
	variant->state = SET_SPLIT;
	want(loop, variant->first, middle);
	want(loop, middle, variant->end);
}

static bool is_launched(const struct variant *variant)
{
	return variant->state == SET_TRIED || variant->state == SET_KEPT;
}

static void decide(struct loop *loop, struct variant *variant)
{
	bool is_enough = variant->launches >= TIMES_ENOUGH;
	double percent, error;

	if (!is_launched(variant) || !price_of(loop, variant, &percent, &error))
		return;
	if (variant->state == SET_KEPT) {
		if (variant->launches >= TIMES_SURE && percent - error > loop->budget)
			split(loop, variant);
	} else if (percent - error > loop->budget) {
		split(loop, variant);
	} else if (percent + error <= loop->budget || is_enough) {
		variant->state = SET_KEPT;
	}
}

static bool is_decided(const struct loop *loop)
{
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++)
		if (loop->variants[i].state < SET_KEPT)
			return false;
	return true;
}

/* ------------------------------------------------------------------ rotation */

/* Xorshift: a program's own pattern of launches must not coincide with the rotation. */
static uint32_t random_below(struct loop *loop, uint32_t limit)
{
	loop->random ^= loop->random << 13;
	loop->random ^= loop->random >> 17;
	loop->random ^= loop->random << 5;
	return loop->random % limit;
}

static void begin_rotation(struct loop *loop)
{
	bool is_checked = !is_decided(loop) || loop->rotations++ % CHECK_EVERY == 0;

	loop->length = 0;
	loop->at = 0;
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++)
		if (is_launched(&loop->variants[i]))
			loop->order[loop->length++] = i;
	loop->has_plain = is_launched(&loop->variants[LOOP_PLAIN]) && (is_checked || !loop->length);
	if (loop->has_plain)
		loop->order[loop->length++] = LOOP_PLAIN;
	if (!loop->length) /* no other is compiled yet */
		loop->order[loop->length++] = LOOP_FIRST;
	for (uint32_t i = loop->length - 1; i > 0; i--) {
		uint32_t other = random_below(loop, i + 1);
		uint32_t moved = loop->order[i];

		loop->order[i] = loop->order[other];
		loop->order[other] = moved;
	}
}

/* True if times of the kernel count. Otherwise its launches have the predicted scopes. */
static bool is_measurable(const struct loop *loop)
{
	return loop->variants[LOOP_FIRST].launches > 0;
}

/* The next set to compile; VARIANTS_MAX: none now. */
static uint32_t find_wanted(const struct loop *loop)
{
	for (uint32_t i = 0; i < loop->count && is_measurable(loop); i++)
		if (loop->variants[i].state == SET_WANTED)
			return i;
	return VARIANTS_MAX;
}

/* ------------------------------------------------------------------ earlier decisions */

/*
 * The sets of an earlier process, without gaps and in their order: a line "kept END" or "dropped
 * END" each. Kept ones are measured again.
 */
static bool restore(struct loop *loop, const char *decisions)
{
	struct variant *begin = &loop->variants[LOOP_FIRST]; /* it is compiled already */
	struct slice rest = slice_of(decisions);
	struct slice line = {NULL, 0};
	uint32_t end;

	begin->state = SET_SPLIT;
	for (uint32_t at = 0; at < loop->scopes; at = end) {
		bool is_dropped = slice_take_line(&rest, &line) && slice_take(&line, "dropped ");

		if ((!is_dropped && !slice_take(&line, "kept ")) ||
		    !slice_take_number(&line, loop->scopes, &end) || line.length || end <= at ||
		    loop->count == VARIANTS_MAX)
			return false;
		if (at == begin->first && end == begin->end) {
			begin->state = is_dropped ? SET_DROPPED : SET_TRIED;
			continue;
		}
		want(loop, at, end);
		if (is_dropped)
			loop->variants[loop->count - 1].state = SET_DROPPED;
	}
	return !rest.length;
}

/* The set that was decided and begins with this scope; NULL. */
static const struct variant *decided_at(const struct loop *loop, uint32_t first)
{
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++) {
		const struct variant *variant = &loop->variants[i];

		if (variant->first == first &&
		    (variant->state == SET_KEPT || variant->state == SET_DROPPED))
			return variant;
	}
	return NULL;
}

bool closed_loop_decisions(struct loop *loop, struct out *out)
{
	const struct variant *variant;
	MUTEX_HOLD(&loop->lock);
	bool is_new = is_decided(loop) && loop->given != loop->count;

	if (is_new)
		loop->given = loop->count;
	for (uint32_t at = 0; is_new && (variant = decided_at(loop, at)); at = variant->end)
		out_printf(out, "%s %u\n", variant->state == SET_KEPT ? "kept" : "dropped",
			   variant->end);
	return is_new;
}

/* ------------------------------------------------------------------ life */

struct loop *closed_loop_new(const char *names, uint32_t first, uint32_t budget,
			     const char *decisions)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	struct slice rest = slice_of(names);
	struct slice line;

	if (!loop || !(loop->names = strdup(names))) {
		free(loop);
		return NULL;
	}
	while (slice_take_line(&rest, &line))
		loop->scopes++;
	pthread_mutex_init(&loop->lock, NULL);
	loop->budget = budget;
	loop->random = 2463534242u;
	want(loop, 0, 0);
	want(loop, 0, first < loop->scopes ? first : loop->scopes);
	if (!decisions || !restore(loop, decisions)) {
		loop->count = LOOP_FIRST + 1;
		loop->variants[LOOP_FIRST].state = SET_TRIED;
		if (first < loop->scopes)
			want(loop, first, loop->scopes);
	}
	loop->chosen = LOOP_FIRST;
	loop->order[0] = LOOP_FIRST;
	loop->length = 1;
	return loop;
}

bool closed_loop_wanted(struct loop *loop, uint32_t *variant_out, uint32_t *first_out,
			uint32_t *end_out)
{
	MUTEX_HOLD(&loop->lock);
	uint32_t wanted = find_wanted(loop);

	if (wanted < loop->count) {
		*variant_out = wanted;
		*first_out = loop->variants[wanted].first;
		*end_out = loop->variants[wanted].end;
	}
	return wanted < VARIANTS_MAX;
}

void closed_loop_made(struct loop *loop, uint32_t variant, bool is_usable)
{
	MUTEX_HOLD(&loop->lock);
	if (variant < loop->count && loop->variants[variant].state == SET_WANTED) {
		if (is_usable)
			loop->variants[variant].state = SET_TRIED;
		else
			split(loop, &loop->variants[variant]);
	}
}

void closed_loop_time(struct loop *loop, uint32_t variant, uint64_t ns)
{
	struct variant *timed = &loop->variants[variant];

	if (!ns)
		return;
	MUTEX_HOLD(&loop->lock);
	timed->times[timed->launches++ % TIMES_MAX] = (double)ns;
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++)
		if (i == variant || variant == LOOP_PLAIN)
			decide(loop, &loop->variants[i]);
}

uint32_t closed_loop_choose(struct loop *loop, bool *is_wanted_out)
{
	uint32_t chosen;

	MUTEX_HOLD(&loop->lock);
	while (loop->at < loop->length && !is_launched(&loop->variants[loop->order[loop->at]]))
		loop->at++; /* it was split since the rotation began */
	if (loop->at >= loop->length)
		begin_rotation(loop);
	chosen = loop->chosen = loop->order[loop->at++];
	*is_wanted_out = loop->is_settled || find_wanted(loop) < VARIANTS_MAX;
	return chosen;
}

uint32_t closed_loop_choice(struct loop *loop, bool is_usual)
{
	MUTEX_HOLD(&loop->lock);
	uint32_t choice = is_usual ? LOOP_PLAIN : loop->chosen;

	for (uint32_t i = loop->count; is_usual && i-- > LOOP_FIRST;)
		if (is_launched(&loop->variants[i]))
			choice = i;
	loop->is_settled = is_usual;
	return choice;
}

bool closed_loop_is_timed(struct loop *loop)
{
	MUTEX_HOLD(&loop->lock);
	return !loop->is_settled && (is_measurable(loop) || loop->attempts++ < ATTEMPTS_MAX) &&
	       (!is_decided(loop) || (loop->has_plain && loop->length > 1));
}

uint32_t closed_loop_weight(struct loop *loop)
{
	MUTEX_HOLD(&loop->lock);
	return loop->is_settled ? 1 : loop->length;
}

/* ------------------------------------------------------------------ results */

void closed_loop_price(struct loop *loop, struct loop_price *out)
{
	struct loop_price sum = {.is_measured = true};
	double percent = 0, error = 0;

	pthread_mutex_lock(&loop->lock);
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++) {
		const struct variant *variant = &loop->variants[i];

		sum.has_dropped |= variant->state == SET_DROPPED;
		if (!is_launched(variant))
			continue;
		sum.is_measured &= price_of(loop, variant, &percent, &error);
		sum.percent += percent;
		sum.low += percent - error;
		sum.high += percent + error;
		sum.launches += variant->launches;
		sum.scopes += variant->end - variant->first;
		sum.sets++;
	}
	sum.is_decided = is_decided(loop);
	pthread_mutex_unlock(&loop->lock);
	if (sum.sets) {
		sum.percent /= sum.sets;
		sum.low /= sum.sets;
		sum.high /= sum.sets;
	}
	*out = sum;
}

static bool is_dropped(const struct loop *loop, uint32_t scope)
{
	for (uint32_t i = LOOP_FIRST; i < loop->count; i++)
		if (loop->variants[i].state == SET_DROPPED && scope >= loop->variants[i].first &&
		    scope < loop->variants[i].end)
			return true;
	return false;
}

static void write_dropped(const struct loop *loop, struct out *out)
{
	struct slice rest = slice_of(loop->names);
	struct slice line;
	uint32_t listed = 0;

	for (uint32_t i = 0; slice_take_line(&rest, &line); i++) {
		if (!is_dropped(loop, i))
			continue;
		if (!listed++)
			out_printf(out,
				   "; omitted, because with each the kernel took more than "
				   "%u %% longer or needed more of the GPU: ",
				   loop->budget);
		else
			out_text(out, ", ");
		out_bytes(out, line.at, line.length);
	}
}

void closed_loop_write(struct loop *loop, struct out *out)
{
	struct loop_price price = {.is_measured = false};

	if (loop)
		closed_loop_price(loop, &price);
	if (!price.is_measured) {
		out_text(out, "not measured: its scopes were chosen by a prediction");
		return;
	}
	if (price.sets)
		out_printf(out,
			   "measured %.1f %% (%.1f to %.1f %%) in %u launches, with %u scopes in "
			   "%u sets%s",
			   price.percent, price.low, price.high, price.launches, price.scopes,
			   price.sets, price.is_decided ? "" : ", of which some are still tried");
	else
		out_text(out, "measured: no scope is within the budget");
	MUTEX_HOLD(&loop->lock);
	write_dropped(loop, out);
}
