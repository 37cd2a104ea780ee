/*
 * Kinds of profiles that a target can be asked for: where, how, and what they are stored as. The
 * ones of Go programs are built in (distributor/scrape/README.md#targets); settings change them and
 * add others:
 *
 *     profiles:
 *       block: {enabled: false}
 *       memory: {path: /debug/pprof/heap}
 *       wall: {path: /pprof/wall, seconds: true}
 *
 *   enabled     whether targets that do not choose themselves are asked for it (default of an added
 *               one: true)
 *   path        on the target
 *   seconds     the target records while it is asked, for so long (?seconds=N)
 *   cumulative  sample types that only grow while the target's process lives: what is stored is how
 *               much they grew since the last scrape
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_PROFILE_KIND_H
#define FG_DISTRIBUTOR_SCRAPE_PROFILE_KIND_H

#include "common/base/arena.h"
#include "common/base/err.h"

enum { KINDS_MAX = 32, KIND_TYPES_MAX = 8 };

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
    struct fg_arena *arena; /* of what came from settings */
    struct dist_profile_kind items[KINDS_MAX];
    uint32_t n;
};

/* The built-in ones, changed as the YAML says. name stands for it in errors. FG_E_INVALID. */
enum fg_code dist_profile_kinds_init(struct dist_profile_kinds *kinds, struct fg_slice yaml,
                                     const char *name, struct fg_err *err) fg_must_check;
void dist_profile_kinds_done(struct dist_profile_kinds *kinds); /* zeroed is fine */

/* NULL: there is none of that name. */
const struct dist_profile_kind *dist_profile_kinds_find(const struct dist_profile_kinds *kinds,
                                                        struct fg_slice name);

#endif
