/*
 * sgd.c - data-parallel training: stochastic gradient descent, every rank with the
 * whole network and its part of each batch.
 *
 * The network is a perceptron with a few hidden layers of tanh and a softmax at
 * its end. A step is
 *
 *   forward   the own rows of the batch through all layers
 *   backward  from the last layer to the first: as soon as a layer's gradient is
 *             there, its sum over the ranks begins               oriel_start
 *             and goes on while the layers below are computed
 *   update    in the same order: wait for a layer's sum, move its parameters
 *
 * A layer is a bucket: one persistent allreduce, made once, in place in the
 * gradient's own memory (oriel_allreduce_init).
 *
 * Sums are the same bits on all ranks, so parameters that were equal stay equal
 * without ever being sent.
 *
 * Checked: hashes of the parameters, after every epoch (oriel_allgather); the loss
 * of every epoch with one process that trains on the same batches; that the flowers
 * are told apart at the end.
 *
 * Run: orielrun -n 4 build/examples/sgd [--help]
 */
#include "examples/sgd_net.h"

#include <limits.h>
#include <math.h>

#define SHIPPED "iris.csv"
#define LEARNED 0.8         /* of the rows that are held out are right with the default options */
#define CLOSE_TO_ALONE 1e-9 /* losses may differ by so much of themselves: sums are rounded */
#define HELD_OUT 5          /* every so many-th row is not trained with */

struct options {
	const char *data;
	size_t width, hidden, batch, epochs, rate_percent;
};

struct training {
	struct options opt;
	bool defaults; /* no option was given */
	struct dataset data;
	size_t n_train, n_test;
	size_t *train, *test; /* numbers of rows */
	double *loss;         /* of each epoch */
	size_t steps;
	double took_s;
};

/* ---- The data ---- */

/* Every feature is shifted and scaled to mean 0 and variance 1 over the rows that are trained with.
 */
static void
standardize(struct training *t)
{
	size_t width = t->data.n_features;
	double n = (double)t->n_train;

	for (size_t j = 0; j < width; j++) {
		double *x = t->data.x + j, mean = 0, square = 0, scale;

		for (size_t i = 0; i < t->n_train; i++)
			mean += x[t->train[i] * width] / n;
		for (size_t i = 0; i < t->n_train; i++)
			square += pow(x[t->train[i] * width] - mean, 2) / n;
		scale = square > 0 ? 1 / sqrt(square) : 1;
		for (size_t i = 0; i < t->data.n; i++)
			x[i * width] = (x[i * width] - mean) * scale;
	}
}

static void
load(struct training *t)
{
	char error[512], path[PATH_MAX];
	const char *file = t->opt.data ? t->opt.data : path;

	if (!t->opt.data && text_find_data(SHIPPED, path, sizeof(path)))
		example_fail("no folder above this program has examples/data/" SHIPPED);
	if (dataset_read(file, &t->data, error, sizeof(error)))
		example_fail("%s", error);
	if (t->data.n < HELD_OUT)
		example_fail("%s: %zu rows, %d is the least", file, t->data.n, HELD_OUT);
	t->train = example_alloc(t->data.n, sizeof(*t->train));
	t->test = example_alloc(t->data.n, sizeof(*t->test));
	for (size_t i = 0; i < t->data.n; i++)
		if (i % HELD_OUT == HELD_OUT - 1)
			t->test[t->n_test++] = i;
		else
			t->train[t->n_train++] = i;
	standardize(t);
	t->loss = example_alloc(t->opt.epochs, sizeof(*t->loss));
}

/* The order of an epoch's rows: 0 to n - 1, shuffled, the same on all ranks. */
static void
shuffle(size_t *order, const struct training *t, size_t epoch)
{
	for (size_t i = 0; i < t->n_train; i++) {
		size_t j = (size_t)(example_random(epoch, i) * (double)(i + 1));

		order[i] = order[j];
		order[j] = t->train[i];
	}
}

/* ---- Training ---- */

/* One step with n rows of order, of which this rank takes its stretch. */
static struct verdict
train_step(struct training *t, struct net *net, const size_t *order, size_t n, bool alone)
{
	size_t first = alone ? 0 : example_first(n, example.rank),
	       end = alone ? n : example_first(n, example.rank + 1);
	struct verdict v;

	t->steps += !alone;
	net_load(net, &t->data, order + first, end - first);
	net_forward(net);
	v = net_judge(net);
	net_backward(net);
	net_update(net, 0.01 * (double)t->opt.rate_percent / (double)n);
	return v;
}

/* What the net says, on its way, of the rows that it was trained with; of this rank's part. */
static struct verdict
train_epoch(struct training *t, struct net *net, size_t *order, size_t epoch, bool alone)
{
	struct verdict sum = { 0 };

	shuffle(order, t, epoch);
	for (size_t at = 0; at < t->n_train; at += t->opt.batch) {
		size_t left = t->n_train - at, n = left < t->opt.batch ? left : t->opt.batch;
		struct verdict v = train_step(t, net, order + at, n, alone);

		sum.loss += v.loss;
		sum.right += v.right;
	}
	return sum;
}

/* Parameters must be the same bits on all ranks. */
static void
check_equal(const struct net *net, size_t epoch)
{
	uint64_t mine = net_hash(net), *all = example_alloc((size_t)example.size, sizeof(*all));

	CHECK(oriel_allgather(example.world, &mine, all, sizeof(mine)));
	for (int r = 0; r < example.size; r++)
		if (all[r] != mine)
			example_fail("epoch %zu: parameters differ from those of rank %d", epoch,
			             r);
	free(all);
}

/* The share of the held out rows that are classified right. */
static double
test_accuracy(struct training *t, struct net *net)
{
	net_load(net, &t->data, t->test, t->n_test);
	net_forward(net);
	return net_judge(net).right / (double)t->n_test;
}

static void
train(struct training *t, struct net *net)
{
	size_t *order = example_alloc(t->n_train, sizeof(*order));
	double n = (double)t->n_train;

	for (size_t e = 0; e < t->opt.epochs; e++) {
		double start = now_s(), sums[2];
		struct verdict v = train_epoch(t, net, order, e, false);

		t->took_s += now_s() - start;
		sums[0] = v.loss / n;
		sums[1] = v.right / n;
		CHECK(oriel_allreduce(example.world, sums, sums, 2, ORIEL_DOUBLE, ORIEL_SUM));
		t->loss[e] = sums[0];
		check_equal(net, e);
		if (example.rank == 0 && ((e + 1) % 10 == 0 || e == 0))
			printf("  epoch %4zu  loss %.6f  accuracy %.3f, held out %.3f\n", e + 1,
			       sums[0], sums[1], test_accuracy(t, net));
	}
	free(order);
}

/* ---- The check ---- */

/* One process, the same batches: the largest difference of an epoch's loss, over that loss. */
static double
compare_alone(struct training *t, double *alone_s)
{
	size_t *order = example_alloc(t->n_train, sizeof(*order));
	double worst = 0;
	struct net net;

	net_open(&net, &t->data, t->opt.hidden, t->opt.width, true);
	*alone_s = now_s();
	for (size_t e = 0; e < t->opt.epochs; e++) {
		double loss = train_epoch(t, &net, order, e, true).loss / (double)t->n_train;

		worst = example_worse(worst, fabs(t->loss[e] - loss) / loss);
	}
	*alone_s = now_s() - *alone_s;
	net_close(&net);
	free(order);
	return worst;
}

/* Rank 0 prints and says whether all is well. */
static bool
report(struct training *t, struct net *net, double share)
{
	double alone_s, differ = compare_alone(t, &alone_s), accuracy = test_accuracy(t, net);
	bool equal = differ <= CLOSE_TO_ALONE, learned = !t->defaults || accuracy >= LEARNED;

	printf("  a step      %.1f us, of that waiting for sums %.0f %%; alone %.1f us\n",
	       1e6 * t->took_s / (double)t->steps, 100 * share, 1e6 * alone_s / (double)t->steps);
	printf("  alone       losses differ by %.1e, at most %.0e allowed: %s\n", differ,
	       CLOSE_TO_ALONE, equal ? "ok" : "FAILED");
	printf("  parameters  bitwise equal on %d ranks after each of %zu epochs: ok\n",
	       example.size, t->opt.epochs);
	if (t->defaults)
		printf("  held out    accuracy %.3f, at least %.1f wanted: %s\n", accuracy, LEARNED,
		       learned ? "ok" : "FAILED");
	return equal && learned;
}

int
main(int argc, char **argv)
{
	struct training t = {
		.opt = { .width = 16, .hidden = 2, .batch = 24, .epochs = 60, .rate_percent = 10 },
		.defaults = argc == 1
	};
	struct options *o = &t.opt;
	const struct example_option options[] = {
		{ "--data FILE", "comma-separated numbers and a class; without it: " SHIPPED,
		  .text = &o->data },
		{ "--width N", "outputs of a hidden layer (16)", .count = &o->width, .max = 4096 },
		{ "--hidden N", "hidden layers (2)", .count = &o->hidden, .max = 64 },
		{ "--batch N", "rows of a batch, of all ranks together (24)", .count = &o->batch,
		  .max = 1 << 20 },
		{ "--epochs N", "times through the data (60)", .count = &o->epochs,
		  .max = 1 << 20 },
		{ "--rate N", "learning rate, in hundredths (10)", .count = &o->rate_percent,
		  .max = 1000 },
	};
	bool good = true;
	struct net net;
	double share;

	example_options("sgd", "Data-parallel training of a small network.", argc, argv, options,
	                sizeof(options) / sizeof(options[0]));
	example_begin();
	load(&t);
	net_open(&net, &t.data, o->hidden, o->width, false);
	if (example.rank == 0)
		printf("sgd: %zu rows, %zu features, %zu classes; batches of %zu on %d ranks\n",
		       t.data.n, t.data.n_features, t.data.n_classes, o->batch, example.size);
	train(&t, &net);
	share = net.waited_s / t.took_s;
	CHECK(oriel_allreduce(example.world, &share, &share, 1, ORIEL_DOUBLE, ORIEL_AVG));
	if (example.rank == 0)
		good = report(&t, &net, share);
	good = example_all(good);
	net_close(&net);
	dataset_free(&t.data);
	free(t.train);
	free(t.test);
	free(t.loss);
	return example_end(good);
}
