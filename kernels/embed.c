/*
 * embed.c - the kernels' image, as a part of the library.
 */
#include "kernels/kernels.h"

#ifdef KERNELS_IMAGE
__asm__(".pushsection .rodata\n"
        "	.balign 64\n"
        "kernels_image_first:\n"
        "	.incbin \"" KERNELS_IMAGE "\"\n"
        "kernels_image_end:\n"
        "	.byte 0\n"
        ".popsection\n");
extern const char kernels_image_first[] __attribute__((visibility("hidden")));
extern const char kernels_image_end[] __attribute__((visibility("hidden")));

const void *
kernels_image(size_t *len)
{
	*len = (size_t)(kernels_image_end - kernels_image_first);
	return kernels_image_first;
}
#else
const void *
kernels_image(size_t *len)
{
	*len = 0;
	return NULL;
}
#endif

const char *
kernels_fold_name(int type)
{
	switch (type) {
#define NAME(number, name)                                                                         \
	case number:                                                                               \
		return "fold_" #name;
		KERNEL_TYPES(NAME)
#undef NAME
	default:
		return NULL;
	}
}
