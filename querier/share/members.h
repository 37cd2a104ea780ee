/*
 * Which queriers there are, and whose an object is: rendezvous hashing over their addresses, so
 * that one that comes or goes takes its share of all others' and leaves the rest where it is. They
 * need not agree: who asks another one than his neighbour would costs that one a read and nothing
 * else.
 *
 * Addresses come from the settings; a host's name stands for all addresses that it has, and is
 * looked up again all the time (a headless service of Kubernetes names its pods so).
 */
#ifndef FG_QUERIER_SHARE_MEMBERS_H
#define FG_QUERIER_SHARE_MEMBERS_H

#include "common/base/hash.h"
#include "common/net/rpc/peers.h"

struct qry_members;

/* Borrowed. */
struct qry_members_config {
    const char *addresses; /* "tcp://HOST:PORT, …"; PORT is that of their calls */
    struct fg_peers *peers;
    int64_t every_ns; /* names are looked up again */
};

/* One of them; lives as long as the set it is from. */
struct qry_member {
    char *url;
    uint64_t hash;
    struct fg_peer *peer;
    _Atomic bool self; /* it was found out that it is we */
};

/* All of them at one time; counted. */
struct qry_member_set {
    _Atomic uint32_t refs;
    struct fg_peers *peers;
    uint32_t n;
    struct qry_member *members; /* by url */
};

/* Looks the names up once; starts the thread. FG_E_INVALID: an address, with its place. */
enum fg_code qry_members_create(const struct qry_members_config *config,
                                struct qry_members **ret_queriers,
                                struct fg_err *err) fg_must_check;
void qry_members_destroy(struct qry_members *queriers); /* NULL is fine */

/* Those there are, the caller's reference. Any thread. */
struct qry_member_set *qry_members_get(struct qry_members *queriers);
void qry_member_set_unref(struct qry_member_set *set); /* NULL is fine */

/* Whose the object is, of those that are not bad; NULL: nobody's. */
struct qry_member *qry_member_set_owner(const struct qry_member_set *set, struct fg_id object,
                                        int64_t now_mono_ns);

#endif
