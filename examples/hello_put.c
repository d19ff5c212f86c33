/*
 * hello_put.c - each rank writes a greeting into its right neighbour's window.
 *
 * Run: orielrun -n 4 build/examples/hello_put
 */
#include "oriel.h"

#include <stdio.h>

int
main(void)
{
	oriel_ctx *ctx = NULL;
	oriel_win *win;
	void *inbox;
	char text[64];
	int err = oriel_init(NULL, &ctx);

	if (err)
		goto failed;
	oriel_comm *world = oriel_world(ctx);
	int me = oriel_comm_rank(world), n = oriel_comm_size(world);
	snprintf(text, sizeof(text), "hello from rank %d", me);
	/* Each rank exposes 64 bytes and one signal. */
	if ((err = oriel_win_alloc(world, sizeof(text), 1, &inbox, &win)))
		goto failed;
	/* The text, then the signal: who sees the signal sees the text. */
	if ((err = oriel_put_signal(win, (me + 1) % n, 0, text, sizeof(text), 0, ORIEL_SIGNAL_SET,
	                            1)))
		goto failed;
	if ((err = oriel_signal_wait(win, 0, ORIEL_EQ, 1, ORIEL_FOREVER, NULL)))
		goto failed;
	printf("rank %d of %d got: %s\n", me, n, (char *)inbox);
	if (!(err = oriel_win_free(win)) && !(err = oriel_fini(ctx)))
		return 0;
failed:
	fprintf(stderr, "hello_put: %s: %s\n", oriel_strerror(err), oriel_detail());
	return 1;
}
