/*
 * signal.cu - a signal from a stream: adds to a word that a CPU waits for.
 */
#include "kernels/elements.cuh"

/* The fence orders what earlier kernels and copies of the stream wrote before the word. */
extern "C" __global__ void __launch_bounds__(1)
        signal_add(const __grid_constant__ struct kernel_signal a)
{
	__threadfence_system();
	atomicAdd_system((unsigned long long *)a.word, (unsigned long long)a.value);
}
