#include "p2p/match.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static uint64_t
next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

Test(match, the_first_posted_takes_it)
{
	struct match_recv any, named, other;
	struct match_source s, t;
	struct match m;

	match_init(&m);
	match_source_init(&s);
	match_source_init(&t);
	match_post(&m, &s, &other, 4);
	match_post(&m, NULL, &any, 3);
	match_post(&m, &s, &named, ORIEL_ANY);
	cr_assert_eq(match_arrival(&m, &t, 4), NULL);
	cr_assert_eq(match_arrival(&m, &s, 3), &any);
	cr_assert_not(any.posted);
	cr_assert_eq(match_arrival(&m, &s, 3), &named);
	cr_assert_eq(match_arrival(&m, &s, 3), NULL);
	cr_assert_eq(match_arrival(&m, &s, 4), &other);
}

Test(match, the_first_that_came_is_taken)
{
	struct match_msg a, b, c;
	struct match_source s, t;
	struct match m;

	match_init(&m);
	match_source_init(&s);
	match_source_init(&t);
	match_keep(&m, &t, &a, 1);
	match_keep(&m, &s, &b, 2);
	match_keep(&m, &s, &c, 1);
	cr_assert_eq(match_look(&m, &s, ORIEL_ANY), &b);
	cr_assert_eq(match_look(&m, &s, 1), &c);
	cr_assert_eq(match_look(&m, NULL, 1), &a);
	cr_assert_eq(match_look(&m, NULL, 2), &b);
	cr_assert_eq(match_look(&m, &t, 2), NULL);
	match_drop(&m, &a);
	cr_assert_eq(match_look(&m, NULL, ORIEL_ANY), &b);
	match_drop(&m, &b);
	cr_assert_eq(match_look(&m, NULL, ORIEL_ANY), &c);
	match_drop(&m, &c);
	cr_assert_eq(match_look(&m, NULL, ORIEL_ANY), NULL);
}

Test(match, a_receive_can_be_taken_back)
{
	struct match_recv a, b;
	struct match_source s;
	struct match m;

	match_init(&m);
	match_source_init(&s);
	match_post(&m, &s, &a, 1);
	match_post(&m, NULL, &b, 1);
	match_unpost(&m, &s, &a);
	cr_assert_eq(match_arrival(&m, &s, 1), &b);
	match_post(&m, NULL, &b, 1);
	match_unpost(&m, &s, &b);
	cr_assert_eq(match_arrival(&m, &s, 1), NULL);
}

/*
 * The rule as it is written in MPI 4.1, section 3.5, by brute force: one list
 * of receives in the order in which they were posted, one of messages in the
 * order in which they came.
 */
#define N 400
#define SOURCES 3

struct naive {
	int recv_source[N], recv_tag[N]; /* source -2: gone */
	int msg_source[N], msg_tag[N];
	int n_recvs, n_msgs;
};

static bool
fits(int wanted_source, int wanted_tag, int source, int tag)
{
	return wanted_source != -2 && source != -2 &&
	       (wanted_source == ORIEL_ANY || wanted_source == source) &&
	       (wanted_tag == ORIEL_ANY || wanted_tag == tag);
}

static int
naive_arrival(struct naive *n, int source, int tag)
{
	for (int i = 0; i < n->n_recvs; i++) {
		if (fits(n->recv_source[i], n->recv_tag[i], source, tag)) {
			n->recv_source[i] = -2;
			return i;
		}
	}
	n->msg_source[n->n_msgs] = source;
	n->msg_tag[n->n_msgs++] = tag;
	return -1;
}

static int
naive_recv(struct naive *n, int source, int tag)
{
	for (int i = 0; i < n->n_msgs; i++) {
		if (fits(source, tag, n->msg_source[i], n->msg_tag[i])) {
			n->msg_source[i] = -2;
			return i;
		}
	}
	n->recv_source[n->n_recvs] = source;
	n->recv_tag[n->n_recvs++] = tag;
	return -1;
}

static void
compare(uint64_t seed)
{
	uint64_t state = seed;
	static struct match_recv recvs[N];
	static struct match_msg msgs[N];
	static struct naive n;
	struct match_source s[SOURCES];
	struct match m;

	memset(&n, 0, sizeof(n));
	match_init(&m);
	for (int i = 0; i < SOURCES; i++)
		match_source_init(&s[i]);
	for (int i = 0; i < N; i++) {
		int source = (int)(next(&state) % SOURCES), tag = (int)(next(&state) % 3), want;

		if (next(&state) % 2) {
			struct match_recv *r = match_arrival(&m, &s[source], tag);

			want = naive_arrival(&n, source, tag);
			cr_assert_eq(r, want < 0 ? NULL : &recvs[want], "seed %d, step %d",
			             (int)seed, i);
			if (!r)
				match_keep(&m, &s[source], &msgs[n.n_msgs - 1], tag);
		} else {
			struct match_source *from = next(&state) % 3 ? &s[source] : NULL;
			struct match_msg *msg;

			tag = next(&state) % 3 ? tag : ORIEL_ANY;
			msg = match_look(&m, from, tag);
			want = naive_recv(&n, from ? source : ORIEL_ANY, tag);
			cr_assert_eq(msg, want < 0 ? NULL : &msgs[want], "seed %d, step %d",
			             (int)seed, i);
			if (msg)
				match_drop(&m, msg);
			else
				match_post(&m, from, &recvs[n.n_recvs - 1], tag);
		}
	}
}

Test(match, agrees_with_the_rule)
{
	for (uint64_t seed = 0; seed < 500; seed++)
		compare(seed);
}
