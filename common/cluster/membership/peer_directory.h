/*
 * Members by address: resolves the addresses of the settings periodically, and says which of the
 * peers owns an object. A host name stands for all its addresses, as a headless service of
 * Kubernetes names its pods. Members need not agree: a member that asks another one than its
 * neighbour does costs that one a read, nothing else.
 *
 * Thread: any; a thread of its own resolves names.
 */
#ifndef FG_COMMON_CLUSTER_MEMBERSHIP_PEER_DIRECTORY_H
#define FG_COMMON_CLUSTER_MEMBERSHIP_PEER_DIRECTORY_H

#include "common/base/hash.h"
#include "common/net/rpc/peers.h"

struct fg_peer_directory;

/* Borrowed: `addresses` during create, the others until destroy. */
struct fg_peer_directory_config {
    const char *addresses; /* "tcp://HOST:PORT, …" or tls+tcp://; PORT is that of their calls */
    const char *kind;      /* what the peers are, for texts: "querier" */
    struct fg_peers *peers;
    int64_t every_ns; /* between two resolutions */
};

/* A member of a set; lives as long as the set. */
struct fg_peer_set_member {
    char *url;
    uint64_t hash; /* of the url: what it draws with */
    struct fg_peer *peer;
    uint64_t named_by; /* bits: which addresses of the settings resolve to it, or did last */
    _Atomic bool self; /* the caller found out that this address is its own */
};

/* All members at one time. Shared by counting; only `self` changes. */
struct fg_peer_set {
    _Atomic uint32_t refs;
    struct fg_peers *peers;
    uint32_t n;
    struct fg_peer_set_member *members; /* [n], each address once */
};

/* Resolves all addresses once, then starts the thread. FG_E_INVALID: an address is malformed; the
 * text says which. FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_peer_directory_create(const struct fg_peer_directory_config *config,
                                      struct fg_peer_directory **ret_directory,
                                      struct fg_err *err) fg_must_check;
/* Stops the thread and frees it. Sets in use stay valid. Accepts NULL. */
void fg_peer_directory_destroy(struct fg_peer_directory *directory);

/* Returns the current set; the caller's reference. */
struct fg_peer_set *fg_peer_directory_get(struct fg_peer_directory *directory);
/* Releases a reference. Accepts NULL. */
void fg_peer_set_unref(struct fg_peer_set *set);

/* Returns the owner of the object (rendezvous.h) among the peers whose last calls did not fail;
 * NULL: there is none. */
struct fg_peer_set_member *fg_peer_set_owner(const struct fg_peer_set *set, struct fg_id object,
                                             int64_t now_mono_ns);

#endif
