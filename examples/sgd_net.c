#include "examples/sgd_net.h"

#include <math.h>
#include <string.h>

void
net_open(struct net *net, const struct dataset *d, size_t hidden, size_t width, bool alone)
{
	*net = (struct net){ .depth = hidden + 1 };
	net->x = example_alloc(d->n * d->n_features, sizeof(double));
	net->label = example_alloc(d->n, sizeof(*net->label));
	net->layer = example_alloc(net->depth, sizeof(*net->layer));
	for (size_t i = 0; i < net->depth; i++) {
		struct layer *l = &net->layer[i];

		l->in = i ? net->layer[i - 1].out : d->n_features;
		l->out = i + 1 < net->depth ? width : d->n_classes;
		l->n = l->out * (l->in + 1);
		l->w = example_alloc(l->n, sizeof(double));
		l->gradient = example_alloc(l->n, sizeof(double));
		l->y = example_alloc(d->n * l->out, sizeof(double));
		l->dz = example_alloc(d->n * l->out, sizeof(double));
		/* Of a size that keeps the outputs' size; biases begin with zero. */
		for (size_t k = 0; k < l->n; k++)
			if (k % (l->in + 1) < l->in)
				l->w[k] = (2 * example_random(i, k) - 1) * sqrt(3 / (double)l->in);
		if (!alone)
			CHECK(oriel_allreduce_init(example.world, l->gradient, l->gradient, l->n,
			                           ORIEL_DOUBLE, ORIEL_SUM, &l->sum));
	}
}

void
net_close(struct net *net)
{
	for (size_t i = 0; i < net->depth; i++) {
		struct layer *l = &net->layer[i];

		if (l->sum)
			CHECK(oriel_req_free(&l->sum));
		free(l->w);
		free(l->gradient);
		free(l->y);
		free(l->dz);
	}
	free(net->layer);
	free(net->x);
	free(net->label);
}

void
net_load(struct net *net, const struct dataset *d, const size_t *order, size_t n)
{
	net->rows = n;
	for (size_t r = 0; r < n; r++) {
		memcpy(net->x + r * d->n_features, d->x + order[r] * d->n_features,
		       d->n_features * sizeof(double));
		net->label[r] = d->label[order[r]];
	}
}

/* What goes into layer i. */
static const double *
input(const struct net *net, size_t i)
{
	return i ? net->layer[i - 1].y : net->x;
}

static void
softmax(double *y, size_t n)
{
	double top = y[0], sum = 0;

	for (size_t i = 1; i < n; i++)
		top = fmax(top, y[i]);
	for (size_t i = 0; i < n; i++)
		sum += y[i] = exp(y[i] - top);
	for (size_t i = 0; i < n; i++)
		y[i] /= sum;
}

void
net_forward(struct net *net)
{
	for (size_t i = 0; i < net->depth; i++) {
		const struct layer *l = &net->layer[i];

		for (size_t r = 0; r < net->rows; r++) {
			const double *x = input(net, i) + r * l->in, *w = l->w;
			double *y = l->y + r * l->out;

			for (size_t k = 0; k < l->out; k++, w += l->in + 1) {
				double z = w[l->in];

				for (size_t j = 0; j < l->in; j++)
					z += w[j] * x[j];
				y[k] = i + 1 < net->depth ? tanh(z) : z;
			}
			if (i + 1 == net->depth)
				softmax(y, l->out);
		}
	}
}

struct verdict
net_judge(struct net *net)
{
	struct layer *l = &net->layer[net->depth - 1];
	struct verdict sum = { 0 };

	for (size_t r = 0; r < net->rows; r++) {
		const double *y = l->y + r * l->out;
		double *dz = l->dz + r * l->out;
		size_t best = 0;

		for (size_t k = 0; k < l->out; k++) {
			best = y[k] > y[best] ? k : best;
			dz[k] = y[k] - (k == net->label[r]);
		}
		sum.loss -= log(y[net->label[r]]);
		sum.right += best == net->label[r];
	}
	return sum;
}

/* The gradient of layer l, whose rows of input are x. */
static void
make_gradient(const struct net *net, struct layer *l, const double *x)
{
	memset(l->gradient, 0, l->n * sizeof(double));
	for (size_t r = 0; r < net->rows; r++, x += l->in) {
		double *g = l->gradient;

		for (size_t k = 0; k < l->out; k++, g += l->in + 1) {
			double dz = l->dz[r * l->out + k];

			for (size_t j = 0; j < l->in; j++)
				g[j] += dz * x[j];
			g[l->in] += dz;
		}
	}
}

/* dz of the layer below. tanh' is 1 - tanh^2. */
static void
propagate(const struct net *net, const struct layer *l, struct layer *below)
{
	for (size_t r = 0; r < net->rows; r++)
		for (size_t j = 0; j < l->in; j++) {
			double y = below->y[r * l->in + j], sum = 0;

			for (size_t k = 0; k < l->out; k++)
				sum += l->dz[r * l->out + k] * l->w[k * (l->in + 1) + j];
			below->dz[r * l->in + j] = sum * (1 - y * y);
		}
}

void
net_backward(struct net *net)
{
	for (size_t i = net->depth; i-- > 0;) {
		struct layer *l = &net->layer[i];

		make_gradient(net, l, input(net, i));
		if (l->sum)
			CHECK(oriel_start(l->sum));
		if (i)
			propagate(net, l, l - 1);
	}
}

void
net_update(struct net *net, double rate)
{
	for (size_t i = net->depth; i-- > 0;) {
		struct layer *l = &net->layer[i];
		double start = now_s();

		if (l->sum)
			CHECK(oriel_req_wait(&l->sum, ORIEL_FOREVER));
		net->waited_s += now_s() - start;
		for (size_t k = 0; k < l->n; k++)
			l->w[k] -= rate * l->gradient[k];
	}
}

uint64_t
net_hash(const struct net *net)
{
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

	for (size_t i = 0; i < net->depth; i++) {
		const unsigned char *byte = (const unsigned char *)net->layer[i].w;

		for (size_t k = 0; k < net->layer[i].n * sizeof(double); k++)
			h = (h ^ byte[k]) * 0x100000001b3u;
	}
	return h;
}
