/* A past that a test makes up: profiles of tenants, in no order, some of which come twice. */
#ifndef FG_TESTS_UNIT_INGESTER_FORWARD_PAST_RUN_H
#define FG_TESTS_UNIT_INGESTER_FORWARD_PAST_RUN_H

#include "ingester/forward/past.h"
#include "tests/lib/head_run.h"

struct past_profile {
    const char *tenant;
    int64_t time_ns;
    const char *stack; /* NULL: "a;b" */
};

struct past_run {
    struct ing_past past;
    const char *const *tenants; /* sorted */
    size_t n_tenants;
    const struct past_profile *profiles;
    size_t n;
    uint64_t lost;       /* of each tenant */
    bool twice;          /* each profile comes twice */
    enum fg_code commit; /* what it answers */
    enum fg_code count;  /* likewise */
    int64_t damaged_ns;  /* a profile of then cannot be read; 0: all can */
    unsigned fails;      /* so many more visits fail with FG_E_UNAVAILABLE */
    unsigned commits, visits, partials;
    uint64_t visited; /* profiles */
};

/* Makes the functions of a zeroed run. */
void past_run_init(struct past_run *run);

/* The id of a profile. */
struct fg_id past_run_id(const struct past_profile *profile);

#endif
