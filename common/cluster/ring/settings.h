/* Settings, section "ring": how a program follows the ring, and a member's seat in it. */
#ifndef FG_COMMON_CLUSTER_RING_SETTINGS_H
#define FG_COMMON_CLUSTER_RING_SETTINGS_H

#include "common/cluster/ring/watch.h"
#include "common/runtime/config.h"

struct fg_ring_settings {
    int64_t poll_ns;
    /* Of members. */
    char *name, *zone, *address, *http;
    uint64_t replicas;
    bool allow_new;
};

/* Of programs that only follow; of those with a seat. */
extern const struct fg_conf_field fg_ring_follower_fields[], fg_ring_member_fields[];
extern const size_t fg_ring_n_follower_fields, fg_ring_n_member_fields;

/*
 * The seat that the settings say: where they are empty the name is the host's, the address
 * rpc_listen and http http_listen. It borrows from all of them. on_drain, arg: see watch.h.
 * FG_E_INVALID: an address at which nobody else finds us (0.0.0.0, [::], *); FG_E_UNAVAILABLE: the
 * host has no name.
 */
enum fg_code fg_ring_settings_member(struct fg_ring_settings *settings, const char *rpc_listen,
                                     const char *http_listen, struct fg_id store,
                                     struct fg_ring_watch_member *ret_seat,
                                     struct fg_err *err) fg_must_check;

#endif
