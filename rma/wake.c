#include "rma/wake.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int
membarrier(int cmd)
{
	return (int)syscall(__NR_membarrier, cmd, 0, 0);
}

bool
wake_register(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void
fence_all_cpus(void)
{
	/* The plain fence covers kernels without membarrier as far as one side can. */
	fence_full();
	membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void
futex_sleep(uint32_t *word, uint32_t seen, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
		               .tv_nsec = (long)(ns % 1000000000u) };

	syscall(__NR_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0);
}

void
futex_wake_all(uint32_t *word)
{
	syscall(__NR_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
