/*
 * fft.h - discrete Fourier transforms of any length whose prime factors are
 * small: mixed-radix Cooley-Tukey, decimation in time.
 *
 * Source: J. W. Cooley, J. W. Tukey, An Algorithm for the Machine Calculation of
 * Complex Fourier Series, Mathematics of Computation 19 (1965).
 */
#ifndef EXAMPLES_COMMON_FFT_H
#define EXAMPLES_COMMON_FFT_H

#include <complex.h>
#include <stddef.h>

#define FFT_MAX_PRIME 61

struct fft {
	size_t n;
	unsigned char prime[64]; /* its prime factors, ascending */
	double complex *root;    /* root[k] = exp(-2 pi i k / n) */
	double complex *out;     /* n numbers: the transform is not in place */
};

/* The largest prime factor of n, 1 or more. */
size_t fft_largest_prime(size_t n);
/* n has no prime factor above FFT_MAX_PRIME. */
void fft_init(struct fft *f, size_t n);
void fft_fini(struct fft *f);
/* x[k] = the sum of x[j] exp(-2 pi i j k / n) over j; inverse: of exp(+...), divided by n. */
void fft_run(struct fft *f, double complex *x, int inverse);

#endif
