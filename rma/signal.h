/*
 * signal.h - the word that follows the data: raise it after the data, see the
 * data after it. All transports that end in this process's or a mapped memory
 * use these, and nothing else, to write a signal slot.
 */
#ifndef RMA_SIGNAL_H
#define RMA_SIGNAL_H

#include "rma/wake.h"

/* Everything this thread wrote before is visible to whoever sees the new value. */
static inline void
signal_raise(uint64_t *slot, int add, uint64_t value, struct wake *owner)
{
	if (add)
		add_release(slot, value);
	else
		store_release(slot, value);
	wake_after_store(owner);
}

/* cmp: enum oriel_cmp. */
static inline bool
signal_holds(uint64_t seen, int cmp, uint64_t value)
{
	switch (cmp) {
	case 0:
		return seen == value;
	case 1:
		return seen != value;
	case 2:
		return seen >= value;
	case 3:
		return seen > value;
	case 4:
		return seen <= value;
	default:
		return seen < value;
	}
}

#endif
