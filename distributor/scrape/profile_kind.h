/*
 * Kinds of profiles that targets serve: at which path, how, and how they are stored. Those of Go
 * programs are built in (distributor/scrape/README.md#targets); the setting scrape.profiles changes
 * them and adds others:
 *
 *     profiles:
 *       block: {enabled: false}
 *       memory: {path: /debug/pprof/heap}
 *       wall: {path: /pprof/wall, seconds: true}
 *
 *   enabled     fetch it from targets that do not choose kinds themselves (added kinds: true)
 *   path        on the target
 *   seconds     the target records during the request, for ?seconds=N
 *   cumulative  sample types that only grow while the target's process lives: their growth since
 *               the last scrape is stored
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_PROFILE_KIND_H
#define FG_DISTRIBUTOR_SCRAPE_PROFILE_KIND_H

#include "common/base/arena.h"
#include "common/base/err.h"

enum {
    KINDS_MAX = 32,     /* nine are built in */
    KIND_TYPES_MAX = 8, /* cumulative types of a kind; those built in have two at most */
};

struct dist_profile_kind {
    const char *name;       /* in settings; of lower-case letters, digits and _ */
    const char *annotation; /* of pods */
    const char *stored;     /* the label __name__ */
    const char *path;
    bool enabled, seconds;
    const char *cumulative[KIND_TYPES_MAX];
    uint32_t n_cumulative;
};

struct dist_profile_kinds {
    struct fg_arena *arena; /* of texts from settings */
    struct dist_profile_kind items[KINDS_MAX];
    uint32_t n;
};

/* Initializes the built-in kinds, changed by the YAML. name stands for it in errors. FG_E_INVALID.
 */
enum fg_code dist_profile_kinds_init(struct dist_profile_kinds *kinds, struct fg_slice yaml,
                                     const char *name, struct fg_err *err) fg_must_check;
void dist_profile_kinds_done(struct dist_profile_kinds *kinds); /* zeroed is fine */

/* Returns the kind of that name, or NULL. */
const struct dist_profile_kind *dist_profile_kinds_find(const struct dist_profile_kinds *kinds,
                                                        struct fg_slice name);

#endif
