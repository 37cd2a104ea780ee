/*
 * The environment of the compactor's parts: bucket, clock, scratch folder, time limits, and whether
 * the process is stopping.
 */
#ifndef FG_COMPACTOR_ENV_H
#define FG_COMPACTOR_ENV_H

#include "common/cluster/manifest/object.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

#define ENV_REQUEST_TIMEOUT_NS (60 * FG_SECOND_NS) /* of a manifest, or a piece of an object */
#define ENV_UPLOAD_TIMEOUT_NS  (60 * FG_MINUTE_NS)

struct cmp_env {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_metrics *metrics;  /* of metrics.h */
    const char *scratch;         /* a folder of its own */
    const struct fg_disk *disk;  /* of the folder; NULL: not watched */
    size_t memory_max_bytes;     /* of a job */
    uint32_t block_version;      /* of new blocks; 0: the newest */
    uint64_t random;             /* for names and pauses */
    struct fg_bucket_stop *stop; /* long work and requests to the bucket end with FG_E_CANCELED;
                                  * NULL: nothing stops them */
    int64_t deadline_mono_ns;    /* of all requests to the bucket together; 0: none */
    bool (*gone)(struct cmp_env *env); /* whether nobody wants the result; NULL: it is wanted */
    void (*pause)(struct cmp_env *env, int64_t ns); /* waits, less long when it is time to end */
};

static inline bool cmp_env_stopping(struct cmp_env *env)
{
    return fg_bucket_stopped(env->stop);
}

/* Returns an error if long work has to end: FG_E_CANCELED, FG_E_UNAVAILABLE after the deadline. */
static inline enum fg_code cmp_env_check(struct cmp_env *env, struct fg_err *err)
{
    if (cmp_env_stopping(env))
        return fg_fail(err, FG_E_CANCELED, "the compactor is stopping");
    if (env->gone != NULL && env->gone(env))
        return fg_fail(err, FG_E_CANCELED, "the client has left");
    if (env->deadline_mono_ns != 0 && fg_mono_ns(env->clock) >= env->deadline_mono_ns)
        return fg_fail(err, FG_E_UNAVAILABLE, "the bucket does not answer in time");
    return FG_OK;
}

/* Returns true if a failure is due to the data, not to the bucket or the disk: work with other data
 * may succeed. */
static inline bool cmp_env_own_fault(enum fg_code code)
{
    return code == FG_E_CORRUPT || code == FG_E_INTERNAL || code == FG_E_LIMIT ||
           code == FG_E_NOT_FOUND || code == FG_E_UNIMPLEMENTED;
}

static inline int64_t cmp_env_deadline(struct cmp_env *env, int64_t timeout_ns)
{
    int64_t deadline_mono_ns = fg_mono_ns(env->clock) + timeout_ns;

    return env->deadline_mono_ns == 0 ? deadline_mono_ns
                                      : FG_MIN(deadline_mono_ns, env->deadline_mono_ns);
}

/* Sends a request to the bucket and waits for it, until the compactor stops. */
static inline enum fg_code cmp_env_call(struct cmp_env *env, struct fg_bucket_request *request)
{
    return fg_bucket_call_until(env->bucket, request, env->stop);
}

/* Reads a tenant's manifest, or the L0 manifest if tenant is empty: fg_manifest_refresh(). */
static inline enum fg_code cmp_env_read_manifest(struct cmp_env *env, struct fg_slice tenant,
                                                 struct fg_manifest **manifest, struct fg_err *err)
{
    return fg_manifest_refresh(env->bucket, env->stop, tenant,
                               cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS), manifest, err);
}

/* Returns the next random number (SplitMix64). */
static inline uint64_t cmp_env_random(struct cmp_env *env)
{
    env->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(env->random);
}

#endif
