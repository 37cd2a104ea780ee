/*
 * What the files of access.h share; nobody else includes it.
 *
 *     access.c            settings, start and end
 *     access_follow.c     the registry in the bucket and its copy on disk; the uses of tokens
 *     access_requests.c   the guard of the HTTP servers
 */
#ifndef FG_COMMON_ACCESS_ACCESS_IMPL_H
#define FG_COMMON_ACCESS_ACCESS_IMPL_H

#include "common/access/access.h"
#include "common/access/guard/attempts.h"
#include "common/access/guard/networks.h"
#include "common/access/keys/key_store.h"
#include "common/access/people/people.h"
#include "common/access/registry/token_uses_object.h"
#include "common/runtime/ticker.h"

#include <pthread.h>

enum { FG_ACCESS_STRANGERS = 4096 }; /* credentials that are remembered */

/* clang-format off */
#define ACCESS_METRICS(M)                                                                          \
    M(COUNTER, ACCESS_NO_CREDENTIALS, REFUSED("no_credentials"), REFUSED_HELP)                     \
    M(COUNTER, ACCESS_BAD_CREDENTIALS, REFUSED("bad_credentials"), REFUSED_HELP)                   \
    M(COUNTER, ACCESS_TOO_MANY, REFUSED("too_many_failures"), REFUSED_HELP)                        \
    M(COUNTER, ACCESS_NO_SCOPE, REFUSED("no_scope"), REFUSED_HELP)                                 \
    M(COUNTER, ACCESS_NOT_LOADED, REFUSED("registry_unknown"), REFUSED_HELP)                       \
    M(GAUGE, ACCESS_TOKENS, "flamegrid_access_tokens", "Tokens in the registry of access")         \
    M(GAUGE, ACCESS_TENANTS, "flamegrid_access_tenants", "Tenants in the registry of access")      \
    M(GAUGE, ACCESS_GENERATION, "flamegrid_access_registry_generation",                            \
      "Generation of the registry of access that this process uses")                               \
    M(COUNTER, ACCESS_READ_FAILURES, "flamegrid_access_registry_read_failures_total",              \
      "Reads of the registry of access that failed")
/* clang-format on */
#define REFUSED(reason) "flamegrid_access_refused_total{reason=\"" reason "\"}"
#define REFUSED_HELP    "Requests refused because of who sent them, by reason"
FG_METRICS_ENUM(access_metric, ACCESS_METRICS)

/* Credentials that nobody knows, and since when they have been used. */
struct stranger {
    uint64_t key;
    int64_t since_mono_ns;
};

struct fg_access {
    struct fg_access_config config;
    enum fg_access_mode mode;
    struct fg_networks trusted;
    struct fg_http_guard guard, operators_guard;
    struct fg_attempts *attempts;
    struct fg_metrics *metrics;
    struct fg_condition *away, *damaged;
    struct fg_people *people; /* NULL: the settings have no issuer */
    struct fg_token_uses *uses;

    pthread_mutex_t lock;                /* of those up to `strangers` */
    pthread_cond_t looked;               /* n_looked has grown */
    struct fg_access_registry *registry; /* NULL: none was read yet; empty if there is none */
    uint64_t n_begun, n_looked;          /* looks: begun, ended */
    struct stranger
        strangers[FG_ACCESS_STRANGERS]; /* by their keys; a newer one replaces an older one */
    uint64_t seed;                      /* of the keys */
    _Atomic int64_t seen_mono_ns;       /* when the bucket was asked last, and answered */
    _Atomic int64_t known_mono_ns;      /* ... with the registry in use; stored after that */
    _Atomic int64_t looked_mono_ns;     /* when it was asked last, whether it answered or not */

    /* Of the thread that looks. */
    struct fg_ticker *ticker;
    struct fg_ticker *uses_ticker;   /* NULL: nobody shows a token */
    struct fg_bucket *bucket, *copy; /* copy: NULL: none is kept */
    struct fg_bucket_stop *stop;
    struct fg_bucket_etag etag;
    struct fg_key_store *keys; /* NULL: nothing is encrypted */
};

/* ---- access_follow.c ---- */

/* Returns whether a registry was read. Any thread. */
bool fg_access_is_known(struct fg_access *access);

/* ---- access_requests.c: for struct fg_http_guard, of clients and of operators ---- */

struct fg_http_guard fg_access_make_guard(struct fg_access *access, bool operators);

static inline int64_t fg_access_now_ms(const struct fg_access *access)
{
    return fg_wall_ns(access->config.clock) / FG_MS_NS;
}

#endif
