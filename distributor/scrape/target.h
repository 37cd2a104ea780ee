/*
 * A target: where profiles are fetched, which, how often, and the labels they are stored with, made
 * out of what a source found. The conventions are Prometheus' and Alloy's
 * (distributor/scrape/README.md#targets):
 *
 *   __address__                HOST:PORT; port 80 or 443 when it has none
 *   __scheme__                 http (default) or https
 *   __profile_path_prefix__    before every path
 *   __profiles__               kinds of profiles to fetch, "process_cpu,memory"; else those enabled
 *   __profile_path_<kind>__    another path for that kind
 *   __profile_path__           the same where there is one kind only
 *   __param_<name>             a parameter in the query; "seconds" only where the kind has it
 *   __scrape_interval__        "30s"
 *   __scrape_timeout__         beside the time that the target records
 *   __meta_…                   what the source knows; read here for the service's name
 *   __…                        for relabelling; never stored, but __name__, which takes the place
 *                              of the kind's own
 *   instance                   the address, if there is no such label
 *   service_name               as Alloy infers it, if there is no such label
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_TARGET_H
#define FG_DISTRIBUTOR_SCRAPE_TARGET_H

#include "common/model/labels.h"
#include "common/model/relabel.h"
#include "distributor/scrape/profile_kind.h"

/* What holds for targets that say nothing else. */
struct dist_target_config {
    const struct dist_profile_kinds *kinds;
    const struct fg_relabel *rules; /* for what was found, before it is read; NULL: none */
    int64_t interval_ns, timeout_ns;
};

struct dist_endpoint {
    const struct dist_profile_kind *kind;
    const char *url;
    struct fg_labels labels; /* of its profiles, with __name__ */
    int64_t timeout_ns;
    bool cumulative; /* the kind is, and the path does not ask for a difference (/delta_heap) */
};

/* Immutable; all in the arena, which is its own. */
struct dist_target {
    struct fg_arena *arena;
    struct fg_labels discovered, labels;
    const char *address, *scheme, *prefix;
    int64_t interval_ns;
    struct dist_endpoint *endpoints;
    uint32_t n_endpoints;
    uint64_t hash; /* of all that matters here, the same on every machine */
    unsigned refs; /* the loop's */
};

/*
 * config's kinds and rules live as long as the target; the rest is copied. One reference is the
 * caller's. NULL in *ret_target: the rules drop it. FG_E_INVALID: the labels make no target, and
 * why.
 */
enum fg_code dist_target_create(const struct fg_labels *discovered,
                                const struct dist_target_config *config,
                                struct dist_target **ret_target, struct fg_err *err) fg_must_check;

struct dist_target *dist_target_ref(struct dist_target *target);
void dist_target_unref(struct dist_target *target); /* NULL is fine */

/*
 * Of n distributors with the same targets, which one scrapes this: every target is exactly one's,
 * and when one more comes only the share moves that it takes over.
 */
bool dist_target_is_ours(uint64_t hash, uint32_t index, uint32_t n);

#endif
