/* Keys of tenants for tests: each follows from the tenant's name and the number. */
#ifndef FG_TESTS_LIB_MADE_KEYS_H
#define FG_TESTS_LIB_MADE_KEYS_H

#include "common/storage/seal/keys.h"

struct made_keys {
    struct fg_keys keys;
    uint32_t newest;         /* of all tenants; 0: nothing is encrypted */
    const char *plain;       /* tenant without keys; NULL: all have some */
    uint32_t missing;        /* number of a key that is not there; 0: all are */
    const char *missing_for; /* tenant; NULL: all */
    const char *away;        /* tenant whose keys cannot be had now; NULL: none */
    bool wrong;              /* other keys have these numbers */
};

void made_keys_init(struct made_keys *keys, uint32_t newest);

#endif
