/*
 * A target: where to fetch profiles, which kinds, how often, and the labels they are stored with,
 * from discovered labels. The conventions are those of Prometheus and Alloy
 * (distributor/scrape/README.md#targets):
 *
 *   __address__                HOST:PORT; the default port is 80 or 443
 *   __scheme__                 http (default) or https
 *   __profile_path_prefix__    before every path
 *   __profiles__               kinds of profiles to fetch, "process_cpu,memory"; else those enabled
 *   __profile_path_<kind>__    another path for that kind
 *   __profile_path__           the same if there is one kind only
 *   __param_<name>             a parameter of the query; "seconds" only if the kind has it
 *   __scrape_interval__        "30s"
 *   __scrape_timeout__         in addition to the time that the target records
 *   __meta_…                   metadata of the source; read here to infer the service's name
 *   __…                        for relabeling; not stored, except __name__, which replaces the
 *                              kind's
 *   instance                   the address, if there is no such label
 *   service_name               as Alloy infers it, if there is no such label
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_TARGET_H
#define FG_DISTRIBUTOR_SCRAPE_TARGET_H

#include "common/model/labels.h"
#include "common/model/relabel.h"
#include "distributor/scrape/profile_kind.h"

/* Defaults of all targets. */
struct dist_target_config {
    const struct dist_profile_kinds *kinds;
    const struct fg_relabel *rules; /* applied to discovered labels first; NULL: none */
    int64_t interval_ns, timeout_ns;
};

struct dist_endpoint {
    const struct dist_profile_kind *kind;
    const char *url;
    struct fg_labels labels; /* of its profiles, with __name__ */
    int64_t timeout_ns;
    bool cumulative; /* as the kind is, unless the path serves differences (/delta_heap) */
};

/* A target. Immutable; everything lives in its arena. */
struct dist_target {
    struct fg_arena *arena;
    struct fg_labels discovered, labels;
    const char *address, *scheme, *prefix;
    int64_t interval_ns;
    struct dist_endpoint *endpoints;
    uint32_t n_endpoints;
    uint64_t hash; /* of everything that scraping depends on; the same on every machine */
    unsigned refs; /* changed on the loop only */
};

/*
 * Creates a target with one reference, which is the caller's. config's kinds and rules outlive the
 * target; the rest is copied. Sets *ret_target to NULL if the rules drop it. FG_E_INVALID: why the
 * labels make no target.
 */
enum fg_code dist_target_create(const struct fg_labels *discovered,
                                const struct dist_target_config *config,
                                struct dist_target **ret_target, struct fg_err *err) fg_must_check;

struct dist_target *dist_target_ref(struct dist_target *target);
void dist_target_unref(struct dist_target *target); /* NULL is fine */

/*
 * Returns true if distributor `index` of n scrapes the target with this hash (jump hashing: every
 * target belongs to exactly one, and a further distributor takes over only its own share).
 */
bool dist_target_is_ours(uint64_t hash, uint32_t index, uint32_t n);

#endif
