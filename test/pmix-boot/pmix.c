#include "pmix-boot/boot.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* PMIx itself is tested by ranks (test/ranks/boot); here is what one process can see. */

static void
open_with_server(const char *uri)
{
	struct knobs k;
	struct boot b;

	setenv("PMIX_NAMESPACE", "gone", 1);
	setenv("PMIX_RANK", "0", 1);
	if (uri) {
		setenv("PMIX_SERVER_URI4", uri, 1);
		setenv("PMIX_SERVER_URI41", uri, 1);
	}
	cr_assert_eq(knobs_load(&k, NULL), 0);
	cr_assert_eq(boot_open(&b, NULL, &k), 0, "%s", oriel_detail());
	cr_assert_eq(b.ops, &boot_singleton);
	boot_close(&b);
}

/* The environment of a rank may outlive its job, in a daemon say. */
Test(pmix, alone_without_a_server)
{
	open_with_server(NULL);
}

Test(pmix, alone_with_a_dead_server)
{
	open_with_server("gone.0;tcp4://127.0.0.1:1");
}
