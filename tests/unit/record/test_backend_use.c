/*
 * record/backend_use: a backend with a slow start and stop that call back. The table of backends
 * is this test's (the linker's --wrap); the sessions above it are the real ones.
 */
#include "unit/recorded.h"

#include "base/array.h"
#include "record/backend.h"

static _Atomic int starts;
static _Atomic int stops;
static _Atomic int inside;    /* threads in start or stop now */
static _Atomic bool may_move; /* start and stop wait for it */
static _Atomic bool must_fail;
static _Atomic int primes;
static void (*call_back)(void);

static void wait_until_let(void)
{
	CHECK_EQ(atomic_fetch_add(&inside, 1), 0); /* never two at a time */
	while (!atomic_load(&may_move))
		usleep(100);
	if (call_back)
		call_back();
	atomic_fetch_sub(&inside, 1);
}

static bool is_usable(void)
{
	return true;
}

static int check_mode(const char *mode, struct proton_error *err)
{
	(void)mode;
	(void)err;
	return PROTON_OK;
}

static int start(const char *mode, struct proton_error *err)
{
	(void)mode;
	wait_until_let();
	starts++;
	return must_fail ? err_set(err, PROTON_E_BUSY, "it will not") : PROTON_OK;
}

static int flush(struct proton_error *err)
{
	(void)err;
	return PROTON_OK;
}

static void stop(void)
{
	wait_until_let();
	stops++;
}

static void prime(void)
{
	wait_until_let();
	primes++;
}

static const struct backend slow = {
	.name = "slow",
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start,
	.prime = prime,
	.flush = flush,
	.stop = stop,
};

/* NOLINTNEXTLINE(bugprone-reserved-identifier): what --wrap calls in place of backend_at */
const struct backend *__wrap_backend_at(size_t index);
/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
const struct backend *__wrap_backend_select(const char *name, struct proton_error *err);

const struct backend *__wrap_backend_at(size_t index)
{
	return index == 0 ? &slow : index == 1 ? &host_backend : NULL;
}

const struct backend *__wrap_backend_select(const char *name, struct proton_error *err)
{
	(void)err;
	return name && strcmp(name, "host") == 0 ? &host_backend : &slow;
}

struct attempt {
	pthread_t thread;
	const char *name;
	const char *mode;
	int session;
	int status;
	struct proton_error err;
};

static void *start_one(void *data)
{
	struct attempt *attempt = data;
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = attempt->name,
		.mode = attempt->mode,
		.flags = PROTON_SESSION_QUIET,
	};

	attempt->status = proton_start(&options, &attempt->session, &attempt->err);
	return NULL;
}

static void begin(struct attempt *attempt)
{
	CHECK_EQ(pthread_create(&attempt->thread, NULL, start_one, attempt), 0);
}

static void await_inside(void)
{
	while (!atomic_load(&inside))
		usleep(100);
}

static void end(struct attempt *attempt)
{
	pthread_join(attempt->thread, NULL);
	CHECK_OK(attempt->status, attempt->err);
}

/* Everything a program may do while a backend starts or stops in another thread. */
static void use_everything(int session)
{
	struct proton_counter counters[16];
	size_t depth;
	uint64_t token = proton_scope_enter("scope");

	CHECK(proton_is_profiling());
	CHECK_LT(0, proton_statistics(session, counters, ARRAY_LENGTH(counters), NULL));
	CHECK_EQ(proton_context_depth(session, &depth, NULL), PROTON_OK);
	rec_kernel("work");
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
}

TEST(other_calls_proceed_while_a_backend_starts_and_stops)
{
	struct attempt attempt = {.name = rec_path("slow")};
	int session = rec_start("host");

	begin(&attempt);
	await_inside();
	use_everything(session);
	int second = rec_start("another");
	rec_finalize(second, NULL);
	CHECK(rec_exists("another.hatchet"));
	may_move = true;
	end(&attempt);
	CHECK_STR(proton_session_backend(attempt.session), "slow");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK(rec_exists("slow.hatchet"));
	CHECK_EQ(starts, 1);
	CHECK_EQ(stops, 1);
}

TEST(sessions_with_the_same_backend_wait_for_one_start)
{
	struct attempt attempts[4] = {
		{.name = rec_path("a")},
		{.name = rec_path("b")},
		{.name = rec_path("c")},
		{.name = rec_path("d")},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++)
		begin(&attempts[i]);
	await_inside();
	usleep(5000);
	may_move = true;
	for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++)
		end(&attempts[i]);
	CHECK_EQ(starts, 1);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK_EQ(stops, 1);
}

TEST(a_name_that_is_being_started_is_started_once)
{
	struct attempt first = {.name = rec_path("same")};
	struct attempt second = {.name = rec_path("same")};

	begin(&first);
	await_inside();
	begin(&second);
	usleep(5000);
	may_move = true;
	end(&first);
	end(&second);
	CHECK_EQ(first.session, second.session);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
}

static void *finalize_all(void *unused)
{
	(void)unused;
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	return NULL;
}

TEST(a_start_that_comes_while_the_backend_stops_starts_it_again)
{
	struct attempt attempt = {.name = rec_path("b")};
	pthread_t ending;
	struct attempt first = {.name = rec_path("a")};

	may_move = true;
	begin(&first);
	end(&first);
	may_move = false;
	CHECK_EQ(pthread_create(&ending, NULL, finalize_all, NULL), 0);
	await_inside();
	CHECK(!proton_is_profiling());
	CHECK_PTR(proton_session_backend(first.session), NULL);
	begin(&attempt);
	usleep(5000);
	may_move = true;
	pthread_join(ending, NULL);
	end(&attempt);
	CHECK_EQ(starts, 2);
	CHECK_EQ(stops, 1);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK_EQ(stops, 2);
	CHECK(rec_exists("a.hatchet"));
	CHECK(rec_exists("b.hatchet"));
}

TEST(a_failed_start_leaves_nothing_and_the_next_one_tries_again)
{
	struct attempt attempt = {.name = rec_path("a")};

	may_move = true;
	must_fail = true;
	begin(&attempt);
	pthread_join(attempt.thread, NULL);
	CHECK_EQ(attempt.status, PROTON_E_BUSY);
	CHECK_STR(attempt.err.text, "it will not");
	CHECK(!rec_exists("a.proton"));
	CHECK(!proton_is_profiling());
	must_fail = false;
	begin(&attempt);
	end(&attempt);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK_EQ(starts, 2);
}

TEST(another_mode_is_refused_while_the_backend_runs)
{
	struct attempt first = {.name = rec_path("a"), .mode = "x"};
	struct attempt second = {.name = rec_path("b"), .mode = "y"};

	begin(&first);
	await_inside();
	begin(&second); /* waits, and is refused then */
	usleep(5000);
	may_move = true;
	end(&first);
	pthread_join(second.thread, NULL);
	CHECK_EQ(second.status, PROTON_E_INVALID);
	CHECK(strstr(second.err.text, "different mode than existing sessions; they use \"x\""));
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
}

static int status_inside;

static void start_inside(void)
{
	struct attempt again = {.name = rec_path("a")};

	start_one(&again);
	status_inside = again.status;
	rec_kernel("inside");
	proton_scope_exit(proton_scope_enter("inside"), NULL);
	proton_finalize(PROTON_ALL_SESSIONS, "none", NULL);
}

TEST(a_backend_is_primed_only_while_it_is_stopped)
{
	int session;

	atomic_store(&may_move, true);
	call_back = proton_prime_vendor; /* on a thread that moves it */
	proton_prime_vendor();
	CHECK_EQ(primes, 1);
	session = rec_start_with((struct proton_session_options){.backend = "slow"});
	proton_prime_vendor();
	CHECK_EQ(primes, 1);
	rec_finalize(session, "none");
	CHECK_EQ(primes, 1);
	proton_prime_vendor();
	CHECK_EQ(primes, 2);
}

TEST(a_backend_may_call_back_while_it_starts)
{
	struct attempt attempt = {.name = rec_path("a")};

	may_move = true;
	call_back = start_inside;
	begin(&attempt);
	end(&attempt);
	CHECK_EQ(status_inside, PROTON_E_STATE); /* it would wait for itself */
	call_back = NULL;
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK(rec_exists("a.hatchet"));
}

TEST(a_child_forked_while_a_backend_starts_can_start_its_own)
{
	struct attempt attempt = {.name = rec_path("a")};
	int status;

	begin(&attempt);
	await_inside();
	pid_t child = fork();
	if (child == 0) {
		struct attempt own = {.name = rec_path("child")};

		inside = 0;
		may_move = true;
		start_one(&own);
		_exit(own.status == PROTON_OK &&
				      proton_finalize(own.session, NULL, NULL) == PROTON_OK
			      ? 0
			      : 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(rec_exists("child.hatchet"));
	CHECK(rec_exists("a.proton"));
	may_move = true;
	end(&attempt);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK(rec_exists("a.hatchet"));
}
