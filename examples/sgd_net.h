/*
 * sgd_net.h - a multilayer perceptron whose gradients are summed over the ranks,
 * layer by layer, while the layers below are computed.
 *
 * A batch: net_load the own rows, net_forward, net_judge, net_backward, net_update.
 * In between nobody else may touch the gradients.
 */
#ifndef EXAMPLES_SGD_NET_H
#define EXAMPLES_SGD_NET_H

#include "examples/common/dataset.h"
#include "examples/common/example.h"

struct layer {
	size_t in, out;
	size_t n;         /* parameters: for each output, in weights and a bias */
	double *w;        /* the parameters */
	double *gradient; /* of the loss of the batch's rows, summed */
	double *y;        /* outputs, for each row */
	double *dz;       /* derivative of a row's loss by what tanh or softmax gets */
	oriel_req *sum;   /* of gradient, over the ranks; NULL in a net that is alone */
};

struct net {
	size_t depth;
	struct layer *layer;
	size_t rows;   /* that are loaded */
	double *x;     /* they */
	size_t *label; /* their classes */
	double waited_s;
};

/* Of rows: the sum of their losses, the number of those that are classified right. */
struct verdict {
	double loss, right;
};

/* Layers of hidden x width and the classes. Equal on all ranks; alone: gradients are not summed. */
void net_open(struct net *net, const struct dataset *d, size_t hidden, size_t width, bool alone);
void net_close(struct net *net);
/* Rows order[0], ... of d. */
void net_load(struct net *net, const struct dataset *d, const size_t *order, size_t n);
void net_forward(struct net *net);
/* Cross entropy, and its derivative in the last layer's dz. */
struct verdict net_judge(struct net *net);
/* Gradients, and begins to sum each as soon as it is there. */
void net_backward(struct net *net);
/* Waits for the sums, layer by layer in the same order, and moves against them. */
void net_update(struct net *net, double rate);
/* Of all parameters. */
uint64_t net_hash(const struct net *net);

#endif
