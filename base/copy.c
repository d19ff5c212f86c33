#include "base/copy.h"

#ifdef __x86_64__
#define WIDTH 32
#define STEP ((size_t)4 * WIDTH)

typedef char vector __attribute__((vector_size(WIDTH), aligned(1), may_alias));

/* Registers of 32 bytes; stores that lie in one cache line each, but for the first and the last. */
static __attribute__((target("avx2"))) void
loop_avx2(char *dst, const char *src, size_t len)
{
	size_t at = WIDTH - (uintptr_t)dst % WIDTH;

	*(vector *)dst = *(const vector *)src;
	for (; at + STEP <= len; at += STEP) {
		const vector *from = (const vector *)(src + at);
		vector *to = (vector *)(dst + at);
		vector a = from[0], b = from[1], c = from[2], d = from[3];

		to[0] = a;
		to[1] = b;
		to[2] = c;
		to[3] = d;
	}
	for (; at + WIDTH <= len; at += WIDTH)
		*(vector *)(dst + at) = *(const vector *)(src + at);
	*(vector *)(dst + len - WIDTH) = *(const vector *)(src + len - WIDTH);
}

void
copy_loop(void *dst, const void *src, size_t len)
{
	if (__builtin_cpu_supports("avx2"))
		loop_avx2(dst, src, len);
	else
		memcpy(dst, src, len);
}
#else
void
copy_loop(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}
#endif
