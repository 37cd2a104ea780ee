/*
 * How far a resend has come: committed profiles of a time are sent to a target, whether it got them
 * before or not. It goes from tenant to tenant, by name, and through the profiles of each by (time,
 * id). A *place* says up to which profile a tenant is done.
 *
 * A target may take nothing of one tenant for some time: the tenant is held, and the resend goes on
 * with others meanwhile. So several tenants may have begun and not be done, each with a place of
 * its own.
 *
 *     done        begun, each with a place             not begun
 *     a b c   |   d (held)   e   f (held)   g   |   h i j k
 *                                           last
 *
 * Pure.
 */
#ifndef FG_INGESTER_FORWARD_RESEND_H
#define FG_INGESTER_FORWARD_RESEND_H

#include "common/base/def.h"
#include "common/base/hash.h"
#include "common/model/tenant_id.h"

enum {
    RESEND_TENANTS_MAX = 64, /* that have begun and are not done: no more begin before one is */
};

enum ing_resend_state {
    RESEND_NONE,
    RESEND_COMMITS, /* what the head has of before is to be committed first */
    RESEND_READS,   /* the place of a tenant on */
    RESEND_DONE,
};

/* A resend as one page sees it: with the place of the tenant that the page is of. */
struct ing_resend {
    enum ing_resend_state state;
    int64_t from_ns, until_ns; /* times of profiles, [from, until) */
    int64_t begun_wall_ns, ended_wall_ns;
    char tenant[FG_TENANT_MAX_BYTES + 1]; /* "": before the first one */
    int64_t time_ns;                      /* the place: what is up to here in the order of */
    struct fg_id id;                      /* (time, id) is done */
    uint64_t sent, known;                 /* the target has them; those that it had before */
    uint64_t filtered;                    /* the target does not want them */
    uint64_t refused;                     /* the target refuses them for good */
    uint64_t lost;                        /* only rollups are left of them */
    bool incomplete;                      /* data that cannot be read was left out */
};

/* Moves the place behind all profiles up to this time. */
void ing_resend_pass_time(struct ing_resend *resend, int64_t time_ns);

/* Returns true if the tenant is done, or none has begun: the one that follows by name is next. */
bool ing_resend_is_between_tenants(const struct ing_resend *resend);

/* The place of a tenant that has begun and is not done. */
struct ing_resend_place {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    int64_t time_ns;
    struct fg_id id;
    int64_t held_until_mono_ns; /* 0: it was not held since the start, or since its last page */
};

/* All tenants of a resend. Zeroed: none has begun. */
struct ing_resend_tenants {
    char last[FG_TENANT_MAX_BYTES + 1]; /* all up to this name are done or in `places` */
    struct ing_resend_place places[RESEND_TENANTS_MAX]; /* by name */
    unsigned n;
    bool all_begun; /* none follows `last`. Not in the store */
    bool yields;    /* the last page was held: others are next. Not in the store */
};

/* Sets the tenants to what one place says: that of `resend`. */
void ing_resend_tenants_set(struct ing_resend_tenants *tenants, const struct ing_resend *resend);

/* Sets the place of `resend` to the next page: that of a tenant that is not held, or one between
 * tenants. A tenant whose hold has ended comes first, so that its next page tells whether it is
 * held again; after that the others have a page. Returns false if all are held. */
bool ing_resend_tenants_next(const struct ing_resend_tenants *tenants, int64_t now_mono_ns,
                             struct ing_resend *resend) fg_must_check;

/* Notes the place of `resend`: its tenant has come so far, has begun, or is done. */
void ing_resend_tenants_note(struct ing_resend_tenants *tenants, const struct ing_resend *resend);

/* Notes that no tenant follows the last one that has begun. */
void ing_resend_tenants_note_all_begun(struct ing_resend_tenants *tenants);

/* Holds a tenant that has begun and is not done; ignored for others. */
void ing_resend_tenants_hold(struct ing_resend_tenants *tenants, const char *tenant,
                             int64_t until_mono_ns);

/* Counts tenants that are held. *ret_next_mono_ns: when the first of the holds ends; INT64_MAX:
 * there are none. */
unsigned ing_resend_tenants_held(const struct ing_resend_tenants *tenants, int64_t now_mono_ns,
                                 int64_t *ret_next_mono_ns);

/* Sets the place of `resend` to the least one: all that comes before it, by tenant, time and id, is
 * done. */
void ing_resend_tenants_least(const struct ing_resend_tenants *tenants, struct ing_resend *resend);

#endif
