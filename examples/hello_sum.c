/*
 * hello_sum.c - pi, as an integral that the ranks share: a nonblocking allreduce.
 *
 * Run: orielrun -n 4 build/examples/hello_sum
 */
#include "oriel.h"

#include <math.h>
#include <stdio.h>

#define STRIPS 100000

int
main(void)
{
	oriel_ctx *ctx = NULL;
	oriel_req *req = NULL;
	double mine = 0, pi;
	int err = oriel_init(NULL, &ctx);

	if (err)
		goto failed;
	oriel_comm *world = oriel_world(ctx);
	int me = oriel_comm_rank(world), n = oriel_comm_size(world);
	/* 4 / (1 + x^2) from 0 to 1, the middle of every n'th strip. */
	for (int i = me; i < STRIPS; i += n) {
		double x = (i + 0.5) / STRIPS;
		mine += 4 / (1 + x * x) / STRIPS;
	}
	if ((err = oriel_iallreduce(world, &mine, &pi, 1, ORIEL_DOUBLE, ORIEL_SUM, &req)))
		goto failed;
	/* Meanwhile this rank may do anything but touch mine and pi. */
	double exact = acos(-1);
	if ((err = oriel_req_wait(&req, ORIEL_FOREVER)))
		goto failed;
	printf("rank %d of %d: pi is %.9f\n", me, n, pi);
	if ((err = oriel_fini(ctx)))
		goto failed;
	return fabs(pi - exact) < 1e-9 ? 0 : 1;
failed:
	fprintf(stderr, "hello_sum: %s: %s\n", oriel_strerror(err), oriel_detail());
	return 1;
}
