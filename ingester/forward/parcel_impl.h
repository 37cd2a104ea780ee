/*
 * What the files of parcel.h share; nobody else includes it.
 *
 *     parcel.c         which profiles a round has, and its batches of forward.v1
 *     parcel_page.c    the same of a page of a resend
 *     parcel_wanted.c  selector, rules and sample types of the target
 *     parcel_push.c    a profile for push.v1
 *     parcel_answer.c  what the answer says of each profile
 */
#ifndef FG_INGESTER_FORWARD_PARCEL_IMPL_H
#define FG_INGESTER_FORWARD_PARCEL_IMPL_H

#include "common/model/relabel.h"
#include "ingester/forward/parcel.h"
#include "proto/forward.h"

enum {
    PARCEL_ROUND_MAX_BYTES = 256 * 1024 * 1024, /* of memory: batches with all of their stacks */
    PARCEL_BODY_MAX_BYTES = 32 * 1024 * 1024, /* distributor.body_max_bytes, as it is by default */
};

/* The state of a profile in this parcel. */
enum item_state {
    ITEM_OPEN,   /* to be sent */
    ITEM_LATER,  /* not by this parcel: it waits again */
    ITEM_CLOSED, /* its outcome is decided */
};

struct ing_parcel_item {
    struct ing_outbox_item *outbox;
    enum item_state state;
    bool define;   /* the target has asked for its stacks */
    bool whole;    /* ... for whole ids of them */
    bool alone;    /* in a batch of its own, since one with others was refused */
    bool filtered; /* the target does not want it, by the settings here or its own: it is closed */
    bool known;    /* of a page: the target had it before */
    uint32_t own;  /* profiles of its batch that the target had stored when it asked for stacks;
                    * noted at the first profile of the batch */
};

/* A batch of the round. */
struct ing_parcel_batch {
    struct ing_parcel_item **items; /* by the places of their profiles in the batch */
    uint32_t n;
    bool is_short; /* ids of stacks are */
    uint64_t cache_key;
    struct fg_id *defined;
    uint32_t n_defined;
};

/* ---- parcel.c ---- */

/* Returns true if the parcel is of a page. */
bool ing_parcel_is_of_page(const struct ing_parcel *parcel);

/* Decides what became of a profile. reason: copied. */
void ing_parcel_close_item(struct ing_parcel_item *item, enum ing_outbox_outcome outcome);
void ing_parcel_refuse_item(struct ing_parcel *parcel, struct ing_parcel_item *item,
                            const char *reason);

/* Lets a profile wait until the hold of its tenant ends. */
void ing_parcel_hold_item(struct ing_parcel_item *item);

/* Returns the tenant of a profile of a span. */
uint32_t ing_parcel_tenant_of(const struct ing_parcel_item *item);

/* Returns true if the target knows of more than one tenant, so that it may refuse one of them. */
bool ing_parcel_has_tenants(const struct ing_parcel *parcel);

/* Returns the key of the stacks that the target has of a service. */
uint64_t ing_parcel_cache_key(const struct ing_parcel *parcel, struct fg_slice tenant,
                              struct fg_slice service);

/* Adds a batch to the message of the round. define[i]: stack i is defined. */
enum fg_code ing_parcel_put_batch(struct ing_parcel *parcel, const struct fg_batch *batch,
                                  const bool *define, struct ing_parcel_batch *to,
                                  struct fg_err *err) fg_must_check;

/* ---- parcel_page.c ---- */

/* Makes items of the profiles of the page, in the arena of the parcel. */
enum fg_code ing_parcel_read_page(struct ing_parcel *parcel, struct ing_outbox_item **ret_found,
                                  size_t *ret_n, struct fg_err *err) fg_must_check;

/* Chooses the profiles of a round: the first ones that are open, none if the tenant is held.
 * Returns how many. */
size_t ing_parcel_choose_of_page(struct ing_parcel *parcel, struct ing_export_profile *profiles);

/* Makes a batch of each of the profiles. */
enum fg_code ing_parcel_make_page_batches(struct ing_parcel *parcel,
                                          const struct ing_export_profile *profiles, size_t n,
                                          struct fg_err *err) fg_must_check;

/* Notes how far the resend has come: up to the first profile that is to be sent again. The target
 * will know the later profiles that it already has, and they count then. Holds the tenant if the
 * target takes nothing of it now. */
void ing_parcel_note_page(const struct ing_parcel *parcel);

/* ---- parcel_wanted.c ---- */

/* Leaves the profiles of a batch that the target wants, with the types that it wants; closes the
 * others. items: gets whose they are. */
enum fg_code ing_parcel_keep_wanted(struct ing_parcel *parcel, struct fg_batch *batch,
                                    const struct ing_export_profile *profiles,
                                    struct ing_parcel_item **items,
                                    struct fg_err *err) fg_must_check;

/* ---- parcel_push.c ---- */

/* Makes a request of push.v1 of the only profile of a batch. FG_E_TOO_LARGE: it does not fit. */
enum fg_code ing_parcel_put_pprof(struct ing_parcel *parcel, const struct fg_batch *batch,
                                  const struct ing_export_stacks *stacks,
                                  struct fg_err *err) fg_must_check;

#endif
