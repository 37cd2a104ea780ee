/*
 * The members of the share: which queriers there are, and which of them owns an object. Rendezvous
 * hashing over their addresses decides, so a member that joins or leaves moves only its own share.
 * Members need not agree: two that ask different owners cost one read more and nothing else.
 *
 * Addresses come from the settings. A host name stands for all of its addresses and is resolved
 * again at an interval (a headless service of Kubernetes names its pods so).
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
    int64_t every_ns; /* interval at which names are resolved again */
};

/* A member; lives as long as the set it is from. */
struct qry_member {
    char *url;
    uint64_t hash;
    struct fg_peer *peer;
    _Atomic bool self; /* it has turned out to be this querier */
};

/* The members at one time; reference counted. */
struct qry_member_set {
    _Atomic uint32_t refs;
    struct fg_peers *peers;
    uint32_t n;
    struct qry_member *members; /* by url */
};

/* Resolves the names and starts the thread that does so again. FG_E_INVALID: an address is
 * malformed; the error has its place in the list. Destroy accepts NULL. */
enum fg_code qry_members_create(const struct qry_members_config *config,
                                struct qry_members **ret_queriers,
                                struct fg_err *err) fg_must_check;
void qry_members_destroy(struct qry_members *queriers);

/* Returns the current members; the caller's reference. Unref accepts NULL. Any thread. */
struct qry_member_set *qry_members_get(struct qry_members *queriers);
void qry_member_set_unref(struct qry_member_set *set);

/* Returns the owner of an object among the members whose last calls did not fail; NULL: there are
 * none. Any thread. */
struct qry_member *qry_member_set_owner(const struct qry_member_set *set, struct fg_id object,
                                        int64_t now_mono_ns);

#endif
