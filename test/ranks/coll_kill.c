/*
 * coll_kill.c - a rank dies at a step of a collective, for every algorithm, every
 * rank, every step and every form: all survivors' calls end with EPEER in time
 * and name the dead rank, those that were inside say where they stood, other
 * communicators' requests complete, and the failed one can be freed.
 *
 * Started as one rank it starts jobs of its own under an orielrun that lets
 * survivors go on, and counts what they say. By default it draws some deaths for
 * each algorithm and form by --seed; --full goes through all steps.
 *
 * --ranks N (4); --samples N for each algorithm and call (4), or --jobs N in all;
 * --only TEXT: only calls whose "name=algorithm" contains it; --stop: ranks stop
 * instead, and are found silent; --timeout: the same, with a limit on calls and
 * none on peers.
 * With --inner it is one of those jobs: --call NAME, --dead RANK, --way WAY, ...
 */
#include "test/ranks/calls.h"
#include "test/ranks/jobs.h"

#define SILENT_MS 1000 /* ORIEL_PEER_TIMEOUT of jobs with a stopped rank, or ORIEL_CALL_TIMEOUT */
#define TOLD_MS 1000   /* how much later survivors know */

/* How the survivors call, and how they wait. */
enum way { BLOCK, WAIT, WAITALL, TEST, AGAIN, WAYS };
static const char *const way_name[WAYS] = { "blocking", "wait", "waitall", "test", "persistent" };

/* ---- A survivor ---- */

struct survivor {
	struct ranks *r;
	struct call c, next;     /* next: of a second call, under way with the first */
	oriel_comm *comm, *rest; /* all, and those on this side of the dead rank */
	int dead, kind;
	enum way way;
	uint64_t took_ms;
	int rc;
	char detail[600];
};

static int
wait_by_test(oriel_req **req)
{
	int done = 0, rc = 0;

	while (!done && !rc)
		rc = oriel_req_test(req, &done);
	return rc;
}

/* Two calls are under way: the second is of the same kind. */
static int
call_twice(struct survivor *s)
{
	oriel_req *req[2] = { NULL, NULL };
	int rc, rc2 = 0;

	rc = call_begin(&s->c, s->kind, NONBLOCKING, &req[0]);
	if (!rc)
		rc2 = call_begin(&s->next, s->kind, NONBLOCKING, &req[1]);
	if (rc)
		return rc;
	if (s->way == WAITALL) {
		rc = oriel_req_waitall(2, req, RANKS_WAIT_NS);
		CHECK(!req[0] && !req[1], "waitall leaves a request behind");
		return rc ? rc : rc2;
	}
	if (req[1]) /* the later one first */
		rc2 = s->way == TEST ? wait_by_test(&req[1])
		                     : oriel_req_wait(&req[1], RANKS_WAIT_NS);
	rc = s->way == TEST ? wait_by_test(&req[0]) : oriel_req_wait(&req[0], RANKS_WAIT_NS);
	CHECK(!req[0] && !req[1], "a request that has failed is left behind");
	return rc ? rc : rc2;
}

static int
call_again(struct survivor *s)
{
	oriel_req *req = NULL;
	char detail[600];
	int rc = call_begin(&s->c, s->kind, PERSISTENT, &req);

	if (rc)
		return rc;
	for (int i = 0; i < 2 && !rc; i++) {
		rc = oriel_start(req);
		rc = rc ? rc : oriel_req_wait(&req, RANKS_WAIT_NS);
	}
	snprintf(detail, sizeof(detail), "%s", oriel_detail());
	if (rc && CHECK(req != NULL, "a persistent request is gone")) {
		int again = oriel_start(req);

		again = again ? again : oriel_req_wait(&req, RANKS_WAIT_NS);
		CHECK(again == rc || again == ORIEL_EPEER,
		      "started once more it ends with %d (%s), not %d", again, oriel_detail(), rc);
		snprintf(s->detail, sizeof(s->detail), "%s", detail);
	}
	OK(oriel_req_free(&req));
	return rc;
}

static int
call_once(struct survivor *s)
{
	int rc;

	s->detail[0] = '\0';
	rc = s->way == BLOCK   ? call_begin(&s->c, s->kind, BLOCKING, NULL)
	     : s->way == AGAIN ? call_again(s)
	                       : call_twice(s);
	if (rc && !s->detail[0])
		snprintf(s->detail, sizeof(s->detail), "%s", oriel_detail());
	return rc;
}

/* Ranks on one side of the dead one: without any communication. */
static int
make_rest(struct survivor *s)
{
	struct ranks *r = s->r;

	if (r->rank == s->dead)
		return 0;
	if (r->rank < s->dead)
		return oriel_comm_strided(r->world, 0, 1, s->dead, &s->rest);
	return oriel_comm_strided(r->world, s->dead + 1, 1, r->size - s->dead - 1, &s->rest);
}

static bool
make_call(struct survivor *s, struct call *c)
{
	return call_make(c, s->r, s->comm, ranks_number("--len", 8), (int)ranks_number("--root", 0),
	                 ranks_flag("--pool"));
}

struct others { /* requests on rest, which have nothing to do with the death */
	oriel_req *req[3];
	uint64_t sum;
};

/* All but the first rank of rest start before the failure, that one after it. */
static bool
start_others(struct survivor *s, struct others *o, bool now)
{
	bool late = oriel_comm_rank(s->rest) == 0 && !ranks_flag("--timeout");

	if (late == now)
		return true;
	o->sum = (uint64_t)s->r->rank;
	/* Not the one whose algorithm may be unfit for rest. */
	return OK(oriel_iscan(s->rest, NULL, &o->sum, 1, ORIEL_UINT64, ORIEL_SUM, &o->req[0])) &&
	       OK(oriel_ibarrier(s->rest, &o->req[1])) && OK(oriel_ibarrier(s->rest, &o->req[2]));
}

static void
finish_others(struct survivor *s, struct others *o)
{
	int first = s->r->rank < s->dead ? 0 : s->dead + 1, me = s->r->rank;

	if (!start_others(s, o, false) || !OK(oriel_req_waitall(3, o->req, RANKS_WAIT_NS)))
		return;
	CHECK(o->sum == (uint64_t)((me - first + 1) * (first + me) / 2),
	      "the sum of the others is %llu", (unsigned long long)o->sum);
	OK(oriel_comm_free(s->rest));
}

static void
judge(struct survivor *s)
{
	const char *scale = getenv("TEST_TIMEOUT_SCALE");
	bool timeouts = ranks_flag("--timeout"), silent = timeouts || ranks_flag("--stop");
	uint64_t limit =
	        (silent ? SILENT_MS : 0) + TOLD_MS * (scale ? strtoull(scale, NULL, 0) : 1);
	const char *d = s->detail;

	CHECK(s->rc == ORIEL_EPEER || (timeouts && s->rc == ORIEL_ETIMEDOUT),
	      "expected EPEER, seen %d (%s)", s->rc, d);
	CHECK(s->took_ms <= limit, "told after %llu ms, the limit is %llu",
	      (unsigned long long)s->took_ms, (unsigned long long)limit);
	/* Whose limit it is names whom it waits for. */
	CHECK(call_names(d, s->dead) || timeouts, "rank %d is dead, the detail says: %s", s->dead,
	      d);
	CHECK(strstr(d, "rank "), "nobody is named: %s", d);
	/* Who was in a call, and not told before it began, says where it stood. */
	CHECK(!strstr(d, " of communicator ") || strstr(d, "op ") || strstr(d, "all ops"),
	      "no step is named: %s", d);
	CHECK(!strstr(d, "(op ") || (strstr(d, " sent") && strstr(d, " seen")),
	      "no counters are named: %s", d);
}

/* After an error the buffers are the caller's. */
static void
untouched(const struct call *c)
{
	for (size_t i = 0; i < (size_t)c->size * c->len; i++)
		if (!CHECK(c->out[i] == 0x77, "byte %zu is written after the call has failed", i))
			return;
	CHECK(call_guarded(c), "something is written outside");
}

static int
last_words(struct survivor *s)
{
	int rc;

	/* Whatever it was here, to the communicator it is a failed rank. */
	FAILS(ORIEL_EPEER, oriel_barrier(s->comm));
	rc = oriel_comm_free(s->comm);
	CHECK(rc == ORIEL_EPEER, "comm_free: %d (%s)", rc, oriel_detail());
	FAILS(ORIEL_EHANDLE, oriel_barrier(s->comm));
	untouched(&s->c);
	untouched(&s->next);
	call_free(&s->c, s->r);
	call_free(&s->next, s->r);
	if (!s->r->failures)
		ranks_say(NULL, 0, "rank %d survived, told after %llu ms: %s", s->r->rank,
		          (unsigned long long)s->took_ms, s->detail);
	return 0;
}

static int
survive(struct ranks *r)
{
	struct survivor s = { .r = r, .dead = (int)ranks_number("--dead", 0) };
	struct others o = { { NULL }, 0 };
	uint64_t warm = ranks_number("--warm", 0), start;
	oriel_comm *sync;
	int rc;

	s.kind = call_number(ranks_text("--call", "barrier"));
	s.way = (enum way)ranks_number("--way", 0);
	if (!jobs_meet(r) || !OK(oriel_comm_strided(r->world, 0, 1, r->size, &s.comm)) ||
	    !OK(oriel_comm_strided(r->world, 0, 1, r->size, &sync)) || !OK(make_rest(&s)) ||
	    !make_call(&s, &s.c) || !make_call(&s, &s.next))
		return 1;
	ranks_watch(s.comm);
	for (uint64_t i = 0; i < warm; i++) {
		rc = call_begin(&s.c, s.kind, BLOCKING, NULL);
		if (rc == ORIEL_EINVAL && strstr(oriel_detail(), "wants blocks of one size")) {
			ranks_say(NULL, 0, "it is unfit");
			call_free(&s.c, r);
			call_free(&s.next, r);
			return 0;
		}
		if (!OK(rc))
			return 1;
	}
	if (s.rest && !start_others(&s, &o, true))
		return 1;
	/* Nobody is in a warm-up any more; the dead rank may be through this, and dead. */
	rc = oriel_barrier(sync);
	NEED(!rc || rc == ORIEL_EPEER, "%d (%s)", rc, oriel_detail());
	start = ranks_now_ns();
	s.rc = call_once(&s);
	if (r->rank == s.dead) {
		ranks_say(NULL, 0, "rank %d did not die", r->rank);
		raise(SIGKILL);
	}
	if (!s.rc) { /* It may be through without the dead rank, but not through this. */
		start = ranks_now_ns();
		s.rc = oriel_barrier(s.comm);
		snprintf(s.detail, sizeof(s.detail), "%s", oriel_detail());
	}
	s.took_ms = (ranks_now_ns() - start) / 1000000;
	memset(s.c.out, 0x77, (size_t)r->size * s.c.len);
	memset(s.next.out, 0x77, (size_t)r->size * s.c.len);
	ranks_unwatch(s.comm);
	judge(&s);
	finish_others(&s, &o);
	return last_words(&s);
}

/* ---- What there is ---- */

static int listed;

static void
list_one(void *arg, const struct oriel_algorithm *a)
{
	if (a->unfit)
		return;
	for (int k = a->min_arg; k <= a->max_arg; k++)
		if (k == a->min_arg || k == a->max_arg)
			printf("list %s %s %d\n", (const char *)arg, a->name, k);
	listed++;
}

/* "allgather" of "allgatherv_list": v forms have the algorithms of the others. */
static const char *
op_of(const char *call, char *op, size_t cap)
{
	size_t n = strlen(call);

	n -= n > 5 && !strcmp(call + n - 5, "_list") ? 5 : 0;
	n -= call[n - 1] == 'v' ? 1 : 0;
	snprintf(op, cap, "%.*s", (int)n, call);
	return op;
}

static int
list_algorithms(struct ranks *r)
{
	char op[32];

	if (r->rank)
		return 0;
	for (int k = 0; k < CALLS; k++) {
		listed = 0;
		OK(oriel_algorithms(r->world, op_of(call_name[k], op, sizeof(op)), NULL, list_one,
		                    (void *)(uintptr_t)call_name[k]));
		CHECK(listed, "%s has no algorithm", call_name[k]);
	}
	return 0;
}

/* ---- Jobs ---- */

struct row {
	char call[24], algorithm[40];
	int kind;
	bool chunks; /* its calls can be cut */
};

struct death {
	const struct row *row;
	int ranks, dead, root;
	enum way way;
	unsigned warm, call, step;
	size_t len, chunk;
	bool pool;
	const char *how; /* "", "--stop" or "--timeout" */
};

struct said {
	int survived, ended, steps;
	int left; /* survivors that have not ended */
	int pid;  /* of the dead or stopped rank */
	bool lived, unfit, stood;
	char all[6000];
};

static void
listen(const char *command, int survivors, struct said *said,
       void (*line)(void *arg, const char *text), void *arg)
{
	char text[1024];
	FILE *f = popen(command, "r");
	const char *at;

	memset(said, 0, sizeof(*said));
	said->left = survivors;
	said->steps = -1;
	if (!NEED(f != NULL, "cannot start %s", command))
		return;
	while (fgets(text, sizeof(text), f)) {
		if (line)
			line(arg, text);
		said->survived += strstr(text, " survived, ") != NULL;
		said->stood |= strstr(text, " survived, ") && strstr(text, "(op ");
		said->ended += strstr(text, "ended with 0") != NULL;
		said->left -= strstr(text, "ended with ") != NULL;
		if (strstr(text, "sends itself"))
			sscanf(text, "oriel[%d]", &said->pid);
		/* A stopped rank would stay. */
		if (!said->left && said->pid)
			kill(said->pid, SIGKILL);
		said->unfit |= strstr(text, "it is unfit") != NULL;
		said->lived |= strstr(text, " did not die") != NULL;
		at = strstr(text, " ops of "); /* "... after 3 of 7 ops of allgather/ring" */
		if (at && strstr(text, "sends itself")) {
			while (at[-1] >= '0' && at[-1] <= '9')
				at--;
			said->steps = atoi(at);
		}
		if (strlen(said->all) + strlen(text) < sizeof(said->all))
			strcat(said->all, text);
	}
	pclose(f);
}

static size_t
job(char *command, size_t cap, int ranks, const char *knobs)
{

	return (size_t)snprintf(command, cap,
	                        "exec %s/tools/orielrun --kill-on-failure=no -n %d env %s %s "
	                        "--inner --limit 60",
	                        jobs_build(), ranks, knobs, ranks_job.argv[0]);
}

/* "allgather/ring" */
static void
program_of(const struct row *row, char *text, size_t cap)
{
	char op[32];

	snprintf(text, cap, "%s/%.*s", op_of(row->call, op, sizeof(op)),
	         (int)strcspn(row->algorithm, ":"), row->algorithm);
}

#define UNFIT (-2)

/* Runs it; true if what the survivors say is right. *steps: of the plan that it died in. */
static bool
die_once(const struct death *d, int *steps)
{
	char command[1024], knobs[400], program[64], chunk[32] = "", forced[80];
	struct said said;
	size_t n;
	int right;

	program_of(d->row, program, sizeof(program));
	if (d->chunk)
		snprintf(chunk, sizeof(chunk), "@%zu", d->chunk);
	snprintf(forced, sizeof(forced), "%.*s=%s%s", (int)strcspn(program, "/"), program,
	         d->row->algorithm, chunk);
	snprintf(knobs, sizeof(knobs),
	         "ORIEL_LOG=info ORIEL_ALGORITHM=%s ORIEL_DIE=%d:%s:%u:%u%s ORIEL_PEER_TIMEOUT=%s "
	         "ORIEL_CALL_TIMEOUT=%s",
	         forced, d->dead, program, d->call, d->step, *d->how ? ":19" : "",
	         !strcmp(d->how, "--stop")      ? "1s"
	         : !strcmp(d->how, "--timeout") ? "0"
	                                        : "10s",
	         !strcmp(d->how, "--timeout") ? "1s" : "50s");
	n = job(command, sizeof(command), d->ranks, knobs);
	snprintf(command + n, sizeof(command) - n,
	         " --call %s --dead %d --way %d --warm %u --len %zu --root %d %s %s 2>&1",
	         d->row->call, d->dead, d->way, d->warm, d->len, d->root, d->pool ? "--pool" : "",
	         d->how);
	listen(command, d->ranks - 1, &said, NULL, NULL);
	*steps = said.unfit ? UNFIT : said.steps;
	if (said.unfit)
		return CHECK(said.ended == d->ranks, "%s:\n%.5000s", forced, said.all);
	right = d->ranks - 1;
	if (said.survived == right && said.ended == right && said.stood && !said.lived)
		return true;
	fprintf(stderr, "%s\n%s", command, said.all);
	return CHECK(false, "%s, %s, rank %d of %d at step %u: %d survived, %d came to their end%s",
	             forced, way_name[d->way], d->dead, d->ranks, d->step, said.survived,
	             said.ended, said.stood ? "" : ", nobody says in which op it was");
}

/* ---- Which deaths ---- */

struct plan {
	struct ranks *r;
	struct row row[200];
	int n_rows, ranks;
	uint64_t rng, jobs;
	const char *how, *only;
};

static uint64_t
below(struct plan *p, uint64_t n)
{
	return ranks_next(&p->rng) % n;
}

static void
add_row(void *arg, const char *text)
{
	struct plan *p = arg;
	struct row *row = &p->row[p->n_rows];
	char name[24], key[80];
	int argument;

	if (sscanf(text, "list %23s %23s %d", row->call, name, &argument) != 3)
		return;
	if (argument)
		snprintf(row->algorithm, sizeof(row->algorithm), "%s:%d", name, argument);
	else
		snprintf(row->algorithm, sizeof(row->algorithm), "%s", name);
	snprintf(key, sizeof(key), "%s=%s", row->call, row->algorithm);
	row->kind = call_number(row->call);
	/* Blocks that differ are not cut. */
	row->chunks = !strchr(row->call + 1, 'v') && strcmp(row->call, "barrier");
	if (p->n_rows < 199 && strstr(key, p->only))
		p->n_rows++;
}

/* All but row, rank and step. */
static void
draw(struct plan *p, struct death *d, const struct row *row, int dead)
{
	static const size_t lens[] = { 8, 48, 500, 5000, 20000, 100000 };

	*d = (struct death){ .row = row, .ranks = p->ranks, .dead = dead, .how = p->how };
	d->way = (enum way)below(p, WAYS);
	d->root = (int)below(p, (uint64_t)p->ranks);
	d->warm = 1 + (unsigned)below(p, 5);
	d->len = lens[below(p, sizeof(lens) / sizeof(lens[0]))];
	d->pool = below(p, 2);
	/* The barriers before it count too: where all meet, and where all are ready. */
	d->call = d->warm + 1 + (strcmp(row->call, "barrier") ? 0 : 2);
	if (row->chunks && below(p, 3) == 0) {
		d->chunk = d->len / 4 > 8 ? d->len / 4 : 8;
		/* A warm-up's chunks are calls too; it dies in one of the first. */
		d->call = d->warm * (unsigned)((d->len - 1) / d->chunk + 1) + 1 +
		          (unsigned)below(p, (d->len - 1) / d->chunk + 1);
	}
}

/* Steps 0, and then some others or all. False: enough has gone wrong. */
static bool
deaths_of(struct plan *p, const struct row *row, uint64_t samples, bool full)
{
	struct death d;
	int steps = 0, seen = 0;

	for (int dead = 0; full && dead < p->ranks; dead++) {
		for (int way = 0; way < WAYS; way++) {
			int root = (int)below(p, (uint64_t)p->ranks);

			steps = 0;
			for (int step = 0; step <= steps; step++, p->jobs++) {
				draw(p, &d, row, dead);
				d.way = (enum way)way;
				d.root = root;
				d.step = (unsigned)step;
				if (!die_once(&d, &seen) && p->r->failures > 5)
					return false;
				if (seen == UNFIT)
					return true;
				steps = seen > steps ? seen : steps;
			}
		}
	}
	for (uint64_t i = 0; !full && i < samples; i++, p->jobs++) {
		draw(p, &d, row, (int)below(p, (uint64_t)p->ranks));
		d.step = (unsigned)(i ? below(p, (uint64_t)steps + 1) : 0);
		if (!die_once(&d, &seen) && p->r->failures > 5)
			return false;
		if (seen == UNFIT)
			return true;
		steps = seen > steps ? seen : steps;
	}
	return true;
}

/* Rows, ranks and steps as they come; the ways one after the other. */
static void
some_deaths(struct plan *p, uint64_t jobs)
{
	struct death d;
	int steps;

	for (uint64_t i = 0; i < jobs && p->r->failures < 6; i++, p->jobs++) {
		draw(p, &d, &p->row[below(p, (uint64_t)p->n_rows)],
		     (int)below(p, (uint64_t)p->ranks));
		d.way = (enum way)(i % WAYS);
		d.step = (unsigned)below(p, 2 * (uint64_t)p->ranks);
		die_once(&d, &steps);
	}
}

static int
start_jobs(struct ranks *r)
{
	uint64_t jobs = ranks_number("--jobs", 0);
	static struct plan p;
	char command[1024];
	struct said said;
	size_t n;

	p = (struct plan){ .r = r, .rng = r->seed, .ranks = (int)ranks_number("--ranks", 4) };
	p.how = ranks_flag("--stop") ? "--stop" : ranks_flag("--timeout") ? "--timeout" : "";
	p.only = ranks_text("--only", "");
	n = job(command, sizeof(command), p.ranks, "");
	snprintf(command + n, sizeof(command) - n, " --list");
	listen(command, p.ranks, &said, add_row, &p);
	if (!CHECK(p.n_rows > 0, "no algorithm is listed:\n%s", said.all))
		return 1;
	some_deaths(&p, jobs);
	for (int i = 0; i < p.n_rows && !jobs; i++)
		if (!deaths_of(&p, &p.row[i], ranks_number("--samples", 4), ranks_flag("--full")))
			return 1;
	ranks_say(NULL, 0, "%llu jobs for %d rows", (unsigned long long)p.jobs, p.n_rows);
	return 0;
}

static int
run(struct ranks *r)
{
	if (ranks_flag("--list"))
		return list_algorithms(r);
	if (ranks_flag("--inner"))
		return survive(r);
	if (r->size != 1 || r->threads)
		return ranks_skip("it wants one process, which starts others");
	jobs_leave_launcher();
	return start_jobs(r);
}

int
main(int argc, char **argv)
{
	int rc = ranks_main(argc, argv, run, NULL);

	if (ranks_flag("--inner"))
		printf("ended with %d\n", rc);
	return rc;
}
