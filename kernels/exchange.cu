/*
 * exchange.cu - a collective call in one launch: every rank stores its data into the
 * scratch of its peers, 8 bytes of it to a line of 16, and reads theirs from its own.
 *
 * A line is two aligned words of 8 bytes: 4 bytes of data below 4 of flag. Each word
 * is stored and loaded as a whole (PTX: scalars of 64 bits; the vector of two only
 * saves instructions, nothing is assumed of it), so that data comes with its flag and
 * no fence is needed. The flag is the call's number. A rank counts its calls in
 * device memory, and the last block out of a call adds one, so a launch in a graph
 * can be replayed for ever.
 *
 * Scratch: [call % 2][sender][line]; line u of a sender is bytes 8u to 8u + 7 of what
 * it sends, in all modes. Thread u % (threads of the grid) moves line u, on both sides,
 * so a block waits only for the peers' blocks of its number.
 *
 * Why no line is overwritten before it is read. Let q be in call c and store into r's
 * half c % 2, which was last used by call c - 2.
 * (1) Every call has at least line 0 from every rank to every other, also alltoall
 *     and barriers of 0 bytes, and waits for all lines that it is sent.
 * (2) q is in call c, so its launch of call c - 1 has ended (stream order), and that
 *     waited for line 0 of r's call c - 1 (1). So r had begun call c - 1, and so its
 *     launch of call c - 2 had ended: it had read all lines of that half.
 * It does not matter what modes, sizes and grids the calls had.
 *
 * Why no old line is taken for a new one. r waits for lines with flag c. In its half
 * c % 2 lie, apart from those of call c, lines of calls c - 2, c - 4, ...: of c + 2 or
 * later none, by (2) with r and q exchanged. Their flags differ from c unless they are
 * 2^32 calls old: a long message may leave lines that short ones do not touch. So once
 * in 2^30 calls old lines are wiped out: call c with c % 2^30 = 2 or 3 wipes the half
 * that is not its own before its block 0 sends line 0. Until then nobody stores there:
 * that would be call c + 1, which comes after line 0 of this call has arrived (2); and
 * lines of call c - 1 have all been read. 0 is not the number of a call: after 2^32 - 1
 * comes 2, which keeps the halves in turn.
 *
 * Source: the flags beside the data follow the LL protocol of NCCL (Z. Hu et al.,
 * "Demystifying NCCL", 2025); PTX ISA 8.0, "Memory Consistency Model".
 */
#include "kernels/elements.cuh"

#define POLLS 65536      /* between looks at whether to stop */
#define LOOK_NS 10000000 /* of all threads, between looks at the abort word */
#define SENDS 4          /* lines that a thread loads before it stores them */
#define LOADS 4          /* of one line, of as many ranks, that are under way at a time */

struct line {
	uint64_t low, high;
};

DEVICE void
put_line(uint64_t at, uint64_t data, uint32_t flag)
{
	uint64_t high = (uint64_t)flag << 32;

	asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};"
	             :
	             : "l"(at), "l"((data & 0xffffffff) | high), "l"(data >> 32 | high)
	             : "memory");
}

DEVICE struct line
get_line(uint64_t at)
{
	struct line l;

	asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
	             : "=l"(l.low), "=l"(l.high)
	             : "l"(at)
	             : "memory");
	return l;
}

DEVICE bool
has_come(struct line l, uint32_t flag)
{
	return (uint32_t)(l.low >> 32) == flag && (uint32_t)(l.high >> 32) == flag;
}

DEVICE uint64_t
data_of(struct line l)
{
	return (l.low & 0xffffffff) | l.high << 32;
}

DEVICE uint32_t
look(uint64_t word)
{
	return *(volatile uint32_t *)word;
}

DEVICE uint64_t
now_ns(void)
{
	uint64_t t;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
}

/* Whether to stop. The abort word is the host's, and far: one thread reads it now and then. */
static __device__ __noinline__ bool
stopped(const struct kernel_exchange &a)
{
	struct exchange_state *s = (struct exchange_state *)a.state;
	uint64_t now = now_ns(), looked = *(volatile uint64_t *)&s->looked;
	uint32_t why = look((uint64_t)&s->stopped);

	if (why || !a.abort || now - looked < LOOK_NS ||
	    atomicCAS((unsigned long long *)&s->looked, looked, now) != looked)
		return why != 0;
	why = look(a.abort);
	if (why) {
		*(volatile uint32_t *)&s->stopped = why;
		*(volatile uint32_t *)a.status = why;
	}
	return why != 0;
}

/* False: the call has been stopped. l: what was there when it was last looked at. */
DEVICE bool
await_line(const struct kernel_exchange &a, uint64_t at, uint32_t flag, struct line *l)
{
	uint32_t polls = 0;

	while (!has_come(*l, flag)) {
		if (++polls % POLLS == 0 && stopped(a))
			return false;
		*l = get_line(at);
	}
	return true;
}

/* ---- What is sent, and where it lies ---- */

DEVICE uint64_t
lines_of(const struct kernel_exchange &a)
{
	return a.bytes ? (a.bytes + EXCHANGE_DATA - 1) / EXCHANGE_DATA : 1;
}

/* Of what `from` sends in this call to `to`. */
DEVICE uint64_t
slot_of(const struct kernel_exchange &a, int to, int from, uint32_t call)
{
	return a.scratch[to] + ((call & 1) * a.ranks + from) * a.slot;
}

/* Line u of a block, with zeros behind its end. */
DEVICE uint64_t
load_data(const struct kernel_exchange &a, uint64_t block, uint64_t u)
{
	uint64_t at = block + u * EXCHANGE_DATA, left = a.bytes - u * EXCHANGE_DATA;

	return left < EXCHANGE_DATA ? load_bytes(at, (unsigned)left) : load_any<uint64_t>(at);
}

DEVICE void
store_data(const struct kernel_exchange &a, uint64_t block, uint64_t u, uint64_t v)
{
	uint64_t at = block + u * EXCHANGE_DATA, left = a.bytes - u * EXCHANGE_DATA;

	if (left < EXCHANGE_DATA)
		store_bytes(at, (unsigned)left, v);
	else
		store_any(at, v);
}

/* This rank's block for q. */
DEVICE uint64_t
block_for(const struct kernel_exchange &a, int q)
{
	return a.in + (a.mode == EXCHANGE_ALLTOALL ? q * a.in_stride : 0);
}

DEVICE void
send(const struct kernel_exchange &a, uint32_t call)
{
	uint64_t all = grid_threads(), lines = lines_of(a);

	for (uint64_t u = grid_thread(); u < lines; u += SENDS * all) {
		uint64_t v[SENDS];

		for (int k = 1; k < a.ranks; k++) {
			int q = (a.rank + k) % a.ranks;
			uint64_t slot = slot_of(a, q, a.rank, call);

			if (k == 1 || a.mode == EXCHANGE_ALLTOALL)
#pragma unroll
				for (int i = 0; i < SENDS; i++)
					if (u + i * all < lines)
						v[i] = load_data(a, block_for(a, q), u + i * all);
#pragma unroll
			for (int i = 0; i < SENDS; i++)
				if (u + i * all < lines)
					put_line(slot + (u + i * all) * EXCHANGE_LINE, v[i], call);
		}
	}
}

/* ---- What comes ---- */

/* Line by line, several ranks' loads of it under way at a time; what is taken next moves to l[0],
 * because registers have no index. `to` takes it in the order of ranks, then is told that it is
 * complete. False: the call has been stopped. */
template <class TO>
DEVICE bool
receive(const struct kernel_exchange &a, uint32_t call, TO to)
{
	uint64_t all = grid_threads(), lines = lines_of(a), own = block_for(a, a.rank);

#pragma unroll 1
	for (uint64_t u = grid_thread(); u < lines; u += all) {
		uint64_t slot = slot_of(a, a.rank, 0, call) + u * EXCHANGE_LINE;

#pragma unroll 1
		for (int q = 0; q < a.ranks; q += LOADS) {
			struct line l[LOADS];

#pragma unroll
			for (int k = 0; k < LOADS; k++)
				if (q + k < a.ranks)
					l[k] = get_line(slot + (q + k) * a.slot);
#pragma unroll 1
			for (int k = 0; k < LOADS && q + k < a.ranks; k++) {
				if (q + k == a.rank)
					to.take(a, q + k, u, load_data(a, own, u));
				else if (await_line(a, slot + (q + k) * a.slot, call, &l[0]))
					to.take(a, q + k, u, data_of(l[0]));
				else
					return false;
#pragma unroll
				for (int m = 1; m < LOADS; m++)
					l[m - 1] = l[m];
			}
		}
		to.end(a, u);
	}
	return true;
}

struct mover { /* to the block of its sender */
	__device__ __forceinline__ void
	take(const struct kernel_exchange &a, int q, uint64_t u, uint64_t v)
	{
		store_data(a, a.out + q * a.out_stride, u, v);
	}

	__device__ __forceinline__ void
	end(const struct kernel_exchange &, uint64_t)
	{
	}
};

template <class K> struct folder { /* of elements */
	typedef typename K::stored stored;
	enum { N = EXCHANGE_DATA / sizeof(stored) };
	union elements {
		uint64_t v;
		stored e[N];
	};
	typename K::term acc[N];

	__device__ __forceinline__ void
	take(const struct kernel_exchange &a, int q, uint64_t, uint64_t v)
	{
		union elements x;

		x.v = v;
#pragma unroll
		for (int k = 0; k < N; k++)
			acc[k] = q ? combine<K>(a.op, acc[k], K::get(x.e[k])) : K::get(x.e[k]);
	}

	__device__ __forceinline__ void
	end(const struct kernel_exchange &a, uint64_t u)
	{
		union elements x;

#pragma unroll
		for (int k = 0; k < N; k++) {
			x.e[k] = K::put(acc[k]);
			if (a.op == KERNEL_AVG)
				x.e[k] = K::divide(x.e[k], a.ranks);
		}
		store_data(a, a.out, u, x.v);
	}
};

DEVICE bool
receive_mode(const struct kernel_exchange &a, uint32_t call)
{
	if (a.mode != EXCHANGE_REDUCE || (a.ranks == 1 && a.op != KERNEL_AVG))
		return receive(a, call, mover());
	switch (a.type) {
#define REDUCE(number, name)                                                                       \
	case number:                                                                               \
		return receive(a, call, folder<kind_##name>());
		KERNEL_TYPES(REDUCE)
	}
	return true;
}

/* ---- The kernel ---- */

/* Block 0, before it sends. */
DEVICE void
wipe(const struct kernel_exchange &a, uint32_t call)
{
	uint64_t half = a.ranks * a.slot, at = a.scratch[a.rank] + (~call & 1) * half;

	if (blockIdx.x || (call & EXCHANGE_SCRUB_MASK) >> 1 != 1)
		return;
	for (uint64_t i = threadIdx.x * 16; i < half; i += blockDim.x * 16)
		store(at + i, make_uint4(0, 0, 0, 0));
	__threadfence_system();
	__syncthreads();
}

/* A block has read the number before it takes its ticket, so the last one may change it. */
DEVICE void
leave(struct exchange_state *s, uint32_t call)
{
	__syncthreads();
	if (threadIdx.x)
		return;
	if (gridDim.x > 1 && atomicInc(&s->ticket, gridDim.x - 1) != gridDim.x - 1)
		return;
	*(volatile uint32_t *)&s->call = call;
}

extern "C" __global__ void
__launch_bounds__(KERNEL_THREADS) ll_exchange(const __grid_constant__ struct kernel_exchange a)
{
	struct exchange_state *s = (struct exchange_state *)a.state;
	uint64_t both = *(volatile uint64_t *)s;
	uint32_t call = (uint32_t)both + 1;

	if (!call)
		call = 2;
	if (!(both >> 32)) { /* not stopped */
		wipe(a, call);
		send(a, call);
		receive_mode(a, call);
	}
	leave(s, call);
}
