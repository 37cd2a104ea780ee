/*
 * The rules of the protocol that the step cores keep, by the names that common/cluster/README.md
 * (Rules) gives them. A core is created with the set of rules that are on: all of them, except in
 * the simulation, which shows that things go wrong without any one of them.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_RULES_H
#define FG_COMMON_CLUSTER_MANIFEST_RULES_H

#include "common/base/def.h"

/* clang-format off */
#define FG_RULES(X)                                                                                \
    /* a read leaves out what its snapshot has in blocks, and nothing else */                      \
    X(FENCE_GEN,        "fence-gen")                                                               \
    /* a tenant manifest that covers segments newer than the L0 manifest: read that again */       \
    X(RETRY_COVERED,    "retry-covered")                                                           \
    /* a new id in a group that a segment ever held is looked for in the live blocks first */      \
    X(CHECK_LATE_IDS,   "check-late-ids")                                                          \
    /* a segment is swapped in only onto the generation that its ids were compared with */         \
    X(CAS_RECHECK,      "cas-recheck")                                                             \
    /* the L0 manifest is read before the tenants', so what left it is found covered */            \
    X(L0_BEFORE_TENANT, "l0-before-tenant")                                                        \
    /* a snapshot older than what the head has forgotten is refused */                             \
    X(DROP_AFTER_SAFE,  "drop-after-safe")                                                         \
    /* who was away compares its head with the live blocks before it serves it */                  \
    X(SETTLE_ON_REJOIN, "settle-on-rejoin")                                                        \
    /* of what could not be looked for nothing is shown before it was compared */                  \
    X(HIDE_UNCHECKED,   "hide-unchecked")
/* clang-format on */

enum fg_rule {
#define X(name, text) FG_RULE_BIT_##name,
    FG_RULES(X)
#undef X
        FG_RULES_COUNT
};

enum {
#define X(name, text) FG_RULE_##name = 1 << FG_RULE_BIT_##name,
    FG_RULES(X)
#undef X
        FG_RULES_ALL = (1 << FG_RULES_COUNT) - 1
};

#endif
