/* Provides a registry in memory that a test changes. */
#ifndef FG_TESTS_UNIT_COMMON_ACCESS_REGISTRY_REGISTRY_FIXTURE_H
#define FG_TESTS_UNIT_COMMON_ACCESS_REGISTRY_REGISTRY_FIXTURE_H

#include "common/access/registry/registry.h"
#include "tests/lib/access_make.h"

enum { NOW_MS = 1000000, DAY_MS = 24 * 3600 * 1000 };

struct registry_fixture {
    struct fg_arena *arena;
    struct access_make make; /* its changes are of NOW_MS */
    struct fg_err err;
};

/* Of cmocka: *state is a struct registry_fixture. */
int registry_set_up(void **state);
int registry_tear_down(void **state);

/* Adds an active tenant. */
void registry_add_tenant(struct registry_fixture *f, const char *id);

/* Copies the text into the arena of the fixture. */
char *registry_text(struct registry_fixture *f, const char *text);

/* Loads the registry from the bytes of its message, as from the bucket, and forgets it. Returns why
 * it cannot be loaded, with f->err. */
enum fg_code registry_load(struct registry_fixture *f);

#endif
