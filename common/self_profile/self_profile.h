/*
 * Self-profiling: the process profiles itself all the time and sends what it finds, as an agent
 * does: processor time by a timer, the heap and waits for locks by sampling. README.md has the
 * parts.
 *
 *     handlers of SIGPROF --> ring ---.
 *     hooks of malloc, free -> blocks -+-> thread "self-profile" -> names, pprof -> sink
 *     hooks of locks ------> waits ---'    (every interval)
 *
 * It never blocks anything else: the thread collects, names and encodes; the sink takes one push at
 * a time and reports its end. While a push is under way the profile goes on growing, within its
 * bounds, and the next push covers the time until then. A push that fails is lost.
 *
 * There is at most one in a process.
 */
#ifndef FG_COMMON_SELF_PROFILE_SELF_PROFILE_H
#define FG_COMMON_SELF_PROFILE_SELF_PROFILE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/config.h"
#include "common/runtime/loop.h"
#include "common/runtime/metrics.h"

struct fg_self_profile_settings {
    bool enabled;
    char *tenant;
    char *url, *token_file, *ca_file; /* "": none */
    int64_t interval_ns;
    uint64_t cpu_rate, heap_sample_bytes; /* 0: no such profile */
    bool locks;
};

extern const struct fg_conf_field fg_self_profile_fields[];
extern const size_t fg_self_profile_n_fields;

/* A push on its way, a push.v1.PushRequest. */
struct fg_self_profile_push {
    struct fg_buf body;
    /* Ends the push, in success or failure. Any thread. */
    void (*done)(struct fg_self_profile_push *push, enum fg_code code, const char *why);
    struct fg_msg msg; /* the sink's, as the next */
    void *sink_arg;
};

/* Takes pushes. */
struct fg_self_profile_sink {
    /* Starts a push; must not wait. It calls done() once, on any thread. */
    void (*send)(void *arg, struct fg_self_profile_push *push);
    /* Makes the push under way end soon. NULL: it does anyway. */
    void (*hurry)(void *arg);
    void *arg;
};

/* Everything is borrowed and outlives the profile. */
struct fg_self_profile_config {
    const struct fg_self_profile_settings *settings;
    const char *service, *instance, *version; /* labels */
    struct fg_self_profile_sink sink;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

struct fg_self_profile;

/* Starts to profile. FG_E_UNAVAILABLE, FG_E_LIMIT: the system lacks what it needs. */
enum fg_code fg_self_profile_start(const struct fg_self_profile_config *config,
                                   struct fg_self_profile **ret_profile,
                                   struct fg_err *err) fg_must_check;

/* Stops profiling: no more timers, signals and samples. Waits for the push under way. NULL is fine.
 */
void fg_self_profile_stop(struct fg_self_profile *profile);

#endif
