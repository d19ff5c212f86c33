/*
 * shape.c - how a communicator lies on nodes, as far as all of its ranks know it
 * alike without asking one another.
 */
#include "coll/coll.h"

#include "plan/launch.h"

/* Members from at on that are on the same node of g ranks as the first of them. */
static int
run_length(const oriel_comm *comm, int at, int g)
{
	int node = comm_world_rank(comm, at) / g, n = 1;

	while (at + n < comm->size && comm_world_rank(comm, at + n) / g == node)
		n++;
	return n;
}

static int
find_node_size(const oriel_comm *comm)
{
	int g = boot_node_size(&comm->ctx->boot), n;

	if (!g)
		return 0;
	n = run_length(comm, 0, g);
	if (comm->size % n)
		return 0;
	for (int at = n; at < comm->size; at += n)
		if (run_length(comm, at, g) != n)
			return 0;
	return n;
}

int
coll_node_size(oriel_comm *comm)
{
	struct plan_state *s = comm->plan;

	if (!s)
		return find_node_size(comm);
	if (s->node < 0)
		s->node = find_node_size(comm);
	return s->node;
}
