/*
 * knobs.h - every tuning knob, one X() line: the enum, the parser, oriel_info's
 * list and doc/knobs.md come from it.
 *
 * A knob is read once, at oriel_init: from the options, else the environment,
 * else its default. An unknown "NAME=value" in the options, or a value that
 * does not parse, is ORIEL_EINVAL and names the knob.
 */
#ifndef BASE_KNOBS_H
#define BASE_KNOBS_H

#include "base/base.h"

enum knob_kind { KNOB_INT, KNOB_SIZE, KNOB_TIME, KNOB_BOOL, KNOB_TEXT };

/* X(field, kind, "ORIEL_NAME", "default", "text") */
#define KNOBS(X)                                                                                   \
	X(log, KNOB_TEXT, "ORIEL_LOG", "off",                                                      \
	  "what the library prints: off, error, warn, info, debug or trace")                       \
	X(transports, KNOB_TEXT, "ORIEL_TRANSPORTS", "self,direct,cma,staged,ce,ucx",              \
	  "the transports that may be used; a peer that none of them reaches is an error")         \
	X(node_split, KNOB_INT, "ORIEL_NODE_SPLIT", "0",                                           \
	  "for tests: every so many ranks of a node pretend to be a node of their own; 0: off")    \
	X(peer_timeout, KNOB_TIME, "ORIEL_PEER_TIMEOUT", "10s",                                    \
	  "a peer that gives no sign of life for so long has failed; 0: never")                    \
	X(boot_timeout, KNOB_TIME, "ORIEL_BOOT_TIMEOUT", "60s",                                    \
	  "the longest wait for the launcher and for other ranks' records")                        \
	X(call_timeout, KNOB_TIME, "ORIEL_CALL_TIMEOUT", "0",                                      \
	  "the longest that a collective or flush may take; 0: no limit")                          \
	X(spin, KNOB_TIME, "ORIEL_SPIN", "20us", "how long a wait spins before it yields the CPU") \
	X(yield, KNOB_TIME, "ORIEL_YIELD", "200us", "how long a wait yields before it sleeps")     \
	X(pool_slab, KNOB_SIZE, "ORIEL_POOL_SLAB", "64M",                                          \
	  "address space of one shared slab of the pool")                                          \
	X(pool_max, KNOB_SIZE, "ORIEL_POOL_MAX", "1T",                                             \
	  "the most address space that the pool's slabs may take")                                 \
	X(eager_max, KNOB_SIZE, "ORIEL_EAGER_MAX", "128K",                                         \
	  "on one node messages up to this size may go through scratch rather than process_vm")    \
	X(stream_max, KNOB_SIZE, "ORIEL_STREAM_MAX", "1T",                                         \
	  "the same where one rank only sends and the other only receives")                        \
	X(direct_min, KNOB_SIZE, "ORIEL_DIRECT_MIN", "8K",                                         \
	  "longer ones (8K at most) go straight into the receiver's buffer where that is mapped")  \
	X(algorithm, KNOB_TEXT, "ORIEL_ALGORITHM", "",                                             \
	  "algorithms by name, such as allgather=bruck:4,bcast=chain@256K; empty: the rules "      \
	  "choose")                                                                                \
	X(tuning, KNOB_TEXT, "ORIEL_TUNING", "",                                                   \
	  "file with rules that choose algorithms before the built-in ones (doc/tuning.md)")       \
	X(simd, KNOB_TEXT, "ORIEL_SIMD", "auto",                                                   \
	  "instruction set of reductions: auto (the best there is), base, avx2 or avx512; "        \
	  "results are the same")                                                                  \
	X(p2p_unexpected, KNOB_SIZE, "ORIEL_P2P_UNEXPECTED", "1M",                                 \
	  "messages of a peer that no receive has asked for are taken in up to so many bytes")     \
	X(ptracer, KNOB_BOOL, "ORIEL_PTRACER", "yes",                                              \
	  "ask the kernel (Yama) to let the node's ranks read and write this process's memory")    \
	X(ft, KNOB_BOOL, "ORIEL_FT", "no",                                                         \
	  "leave PMIx after start-up, so that launchers do not end the survivors of a failure")    \
	X(recorder, KNOB_TEXT, "ORIEL_RECORDER", "",                                               \
	  "directory where the flight recorder's file is kept; empty: in memory only")             \
	X(cuda, KNOB_TEXT, "ORIEL_CUDA", "auto",                                                   \
	  "the GPU: auto (that of the CUDA context of the thread that first needs it), on (by "    \
	  "turns among the node's ranks), a device's number, or off")                              \
	X(gpu_pool_slab, KNOB_SIZE, "ORIEL_GPU_POOL_SLAB", "32M",                                  \
	  "device memory of one slab of the GPU's pool; there is none until something is "         \
	  "allocated")                                                                             \
	X(gpu_pool_max, KNOB_SIZE, "ORIEL_GPU_POOL_MAX", "1T",                                     \
	  "the most device memory that the GPU's pool may take")                                   \
	X(gpu_share, KNOB_TEXT, "ORIEL_GPU_SHARE", "auto",                                         \
	  "how other processes of the node are given the GPU's pool: fd (file descriptors), ipc "  \
	  "(cudaIpc), or auto: fd where it works")                                                 \
	X(ucx_tls, KNOB_TEXT, "ORIEL_UCX_TLS", "",                                                 \
	  "UCX_TLS for Oriel's own UCX context; empty: what UCX chooses")                          \
	X(delay, KNOB_TIME, "ORIEL_DELAY", "0",                                                    \
	  "for tests: random delays of up to so long between data, signal and wake-up")            \
	X(seed, KNOB_INT, "ORIEL_SEED", "1", "for tests: seed of the injected delays")             \
	X(die, KNOB_TEXT, "ORIEL_DIE", "",                                                         \
	  "for tests: RANK:PROGRAM:CALL:STEP[:SIGNAL]; that rank sends itself SIGNAL (9) after "   \
	  "STEP ops of its CALL-th call of the program, such as allgather/ring")

struct knobs {
	struct {
#define KNOB_FIELD(field, kind, name, def, text) int64_t field;
		KNOBS(KNOB_FIELD)
#undef KNOB_FIELD
	} v; /* numbers: bytes, nanoseconds, 0 or 1; unused for text */
	struct {
#define KNOB_FIELD(field, kind, name, def, text) char field[256];
		KNOBS(KNOB_FIELD)
#undef KNOB_FIELD
	} s; /* as written */
	struct {
#define KNOB_FIELD(field, kind, name, def, text) const char *field;
		KNOBS(KNOB_FIELD)
#undef KNOB_FIELD
	} from; /* "default", "environment" or "options" */
};

/* options: "NAME=value" strings with NULL at the end, or NULL. */
int knobs_load(struct knobs *k, const char *const *options);
/* Calls row(arg, name, value, origin, default, text) for each knob; k NULL: origin "default". */
void knobs_each(const struct knobs *k,
                void (*row)(void *arg, const char *name, const char *value, const char *origin,
                            const char *def, const char *text),
                void *arg);
/* True if word is one of the comma-separated words of list. */
bool list_has(const char *list, const char *word);

#endif
