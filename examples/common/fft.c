#include "examples/common/fft.h"

#include "examples/common/example.h"

#include <math.h>
#include <string.h>

static size_t
smallest_prime(size_t n)
{
	for (size_t p = 2; p * p <= n; p++)
		if (n % p == 0)
			return p;
	return n;
}

size_t
fft_largest_prime(size_t n)
{
	size_t p = 1;

	for (; n > 1; n /= p)
		p = smallest_prime(n);
	return p;
}

void
fft_init(struct fft *f, size_t n)
{
	double turn = 4 * acos(0) / (double)n;
	size_t left = n, count = 0;

	f->n = n;
	for (; left > 1; left /= f->prime[count++])
		f->prime[count] = (unsigned char)smallest_prime(left);
	if (n == 1)
		f->prime[0] = 1;
	f->root = example_alloc(n, sizeof(*f->root));
	f->out = example_alloc(n, sizeof(*f->out));
	for (size_t k = 0; k < n; k++)
		f->root[k] = CMPLX(cos(turn * (double)k), -sin(turn * (double)k));
}

void
fft_fini(struct fft *f)
{
	free(f->root);
	free(f->out);
}

/* C's product looks after infinities, which takes long. */
static inline double complex
times(double complex a, double complex b)
{
	return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
	             creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* out[0], out[m], ...: the transform of the p numbers of part; w: f->root's step for p. */
static inline void
combine(const struct fft *f, size_t p, const double complex *part, size_t w, double complex *out,
        size_t m)
{
	double complex sum = part[0];

	for (size_t j = 1; j < p; j++)
		sum += part[j];
	out[0] = sum;
	for (size_t q = 1; q < p; q++) {
		sum = part[0];
		/* jq is j * q modulo p. */
		for (size_t j = 1, jq = q; j < p; j++) {
			sum += times(part[j], f->root[jq * w]);
			jq = jq + q < p ? jq + q : jq + q - p;
		}
		out[q * m] = sum;
	}
}

/*
 * out[0..n) = the transform of in[0], in[stride], ...; f->n is n * stride, and
 * prime lists n's factors. With p the first: the transforms of every p-th input,
 * from 0, 1, ... p - 1, come to stand one after the other and are then combined.
 */
static void
transform(const struct fft *f, size_t n, const unsigned char *prime, const double complex *in,
          size_t stride, double complex *out)
{
	size_t p = *prime, m = n / p;
	double complex part[FFT_MAX_PRIME];

	if (m == 1) {
		part[0] = in[0];
		for (size_t j = 1; j < p; j++)
			part[j] = in[j * stride];
		combine(f, p, part, stride, out, 1);
		return;
	}
	for (size_t j = 0; j < p; j++)
		transform(f, m, prime + 1, in + j * stride, p * stride, out + j * m);
	for (size_t k = 0; k < m; k++) {
		part[0] = out[k];
		for (size_t j = 1; j < p; j++)
			part[j] = times(out[j * m + k], f->root[j * k * stride]);
		combine(f, p, part, m * stride, out + k, m);
	}
}

void
fft_run(struct fft *f, double complex *x, int inverse)
{
	double scale = 1 / (double)f->n;

	/* The inverse is the transform of the conjugate, conjugated. */
	for (size_t k = 0; k < f->n && inverse; k++)
		x[k] = conj(x[k]) * scale;
	transform(f, f->n, f->prime, x, 1, f->out);
	for (size_t k = 0; k < f->n; k++)
		x[k] = inverse ? conj(f->out[k]) : f->out[k];
}
