/* Settings of section "ring": how a program follows the ring, and how an ingester is its member. */
#ifndef FG_COMMON_CLUSTER_RING_SETTINGS_H
#define FG_COMMON_CLUSTER_RING_SETTINGS_H

#include "common/cluster/ring/watch.h"
#include "common/runtime/config.h"

struct fg_ring_settings {
    int64_t poll_ns;
    /* Of members only. */
    char *name, *zone, *address, *http;
    uint64_t replicas;
    bool allow_new;
    int64_t maintenance_wait_ns;
};

/* The fields of programs that only follow the ring, and those of members. */
extern const struct fg_conf_field fg_ring_follower_fields[], fg_ring_member_fields[];
extern const size_t fg_ring_n_follower_fields, fg_ring_n_member_fields;

/*
 * Makes the member that the settings describe. Defaults: the host's name, rpc_listen as address,
 * http_listen as HTTP address. *ret_member borrows from all arguments; the caller sets its
 * callbacks. FG_E_INVALID: other hosts cannot reach the address (0.0.0.0, [::], *).
 * FG_E_UNAVAILABLE: the host has no name.
 */
enum fg_code fg_ring_settings_member(struct fg_ring_settings *settings, const char *rpc_listen,
                                     const char *http_listen, struct fg_id store,
                                     struct fg_ring_watch_member *ret_member,
                                     struct fg_err *err) fg_must_check;

#endif
