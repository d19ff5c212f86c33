#include "rma/lanes_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int
lanes_rx_init(struct lanes_rx *rx, const struct lanes_limits *limits, uint64_t first)
{
	int rc = lanes_check_limits(limits);

	*rx = (struct lanes_rx){ 0 };
	if (rc)
		return rc;
	rx->window = lanes_window(limits);
	rx->first = rx->next = rx->above = first;
	rx->here = calloc(rx->window / 64, sizeof(*rx->here));
	rx->last = calloc(rx->window / 64, sizeof(*rx->last));
	if (!rx->here || !rx->last) {
		lanes_rx_fini(rx);
		return fail(ORIEL_ENOMEM, "no memory for a connection's window");
	}
	return 0;
}

void
lanes_rx_fini(struct lanes_rx *rx)
{
	free(rx->here);
	free(rx->last);
	*rx = (struct lanes_rx){ 0 };
}

/* Goes on over everything that has been waiting for the next number. */
static void
rx_advance(struct lanes_rx *rx)
{
	for (; rx->next < rx->above && lanes_bit(rx->here, rx->window, rx->next); rx->next++) {
		rx->messages += lanes_bit(rx->last, rx->window, rx->next);
		lanes_bit_clear(rx->here, rx->window, rx->next);
		lanes_bit_clear(rx->last, rx->window, rx->next);
	}
}

static void
rx_keep(struct lanes_rx *rx, uint64_t seq, bool last)
{
	rx->out_of_order++;
	lanes_bit_set(rx->here, rx->window, seq);
	if (last)
		lanes_bit_set(rx->last, rx->window, seq);
	if (rx->above <= seq)
		rx->above = seq + 1;
}

int
lanes_arrived(struct lanes_rx *rx, uint32_t epoch, uint32_t immediate)
{
	uint32_t ahead = (immediate - (uint32_t)rx->next) & LANES_SEQ_MASK;
	uint32_t behind = ((uint32_t)rx->next - immediate) & LANES_SEQ_MASK;
	bool last = immediate & LANES_LAST, fast = immediate & LANES_FAST;

	if (epoch != rx->epoch) {
		rx->stale++;
		return 0;
	}
	if (immediate & LANES_UNUSED || (fast && !last))
		return fail(ORIEL_ETRANSPORT, "no segment has the immediate 0x%08" PRIx32,
		            immediate);
	if (ahead >= rx->window &&
	    (behind > (LANES_SEQ_MASK + 1) / 2 || behind > rx->next - rx->first))
		return fail(ORIEL_ETRANSPORT,
		            "segment %" PRIu32 " is outside the window of %" PRIu32 " from %" PRIu64
		            " on",
		            immediate & LANES_SEQ_MASK, rx->window, rx->next);
	if (ahead >= rx->window || (ahead && lanes_bit(rx->here, rx->window, rx->next + ahead))) {
		rx->duplicates++;
		return 0;
	}
	rx->segments++;
	rx->fast += fast;
	if (ahead) {
		rx_keep(rx, rx->next + ahead, last);
		return 0;
	}
	rx->messages += last;
	rx->next++;
	if (rx->above < rx->next)
		rx->above = rx->next;
	rx_advance(rx);
	return 0;
}

size_t
lanes_missing(const struct lanes_rx *rx, uint64_t end, uint64_t *seq, size_t cap)
{
	size_t n = 0;

	for (uint64_t s = rx->next; s < end; s++) {
		if (s < rx->above && lanes_bit(rx->here, rx->window, s))
			continue;
		if (n < cap)
			seq[n] = s;
		n++;
	}
	return n;
}

int
lanes_rx_reconnect(struct lanes_rx *rx, uint32_t epoch)
{
	if (epoch <= rx->epoch)
		return fail(ORIEL_EMISMATCH, "epoch %" PRIu32 " after %" PRIu32, epoch, rx->epoch);
	memset(rx->here, 0, rx->window / 8);
	memset(rx->last, 0, rx->window / 8);
	rx->next = rx->above = rx->first;
	rx->epoch = epoch;
	return 0;
}
