/*
 * The pages of a resend (resend.h): the profiles of one tenant that follow its place, in the order
 * of (time, id), as many as fit in PAGE_MAX_BYTES. A page is read from a slice of time, whose
 * length follows how much there is in it: so blocks are read about once, and memory is that of one
 * page.
 *
 * Thread: one at a time, one that may wait.
 */
#ifndef FG_INGESTER_FORWARD_PAGE_H
#define FG_INGESTER_FORWARD_PAGE_H

#include "ingester/forward/past.h"
#include "ingester/forward/resend.h"

#include <stdatomic.h>

/* A profile, as a batch of its own in which all stacks are defined. */
struct ing_page_item {
    int64_t time_ns;
    struct fg_id id;
    uint8_t *bytes; /* fg_batch_encode(); freed with the page */
    size_t len;
};

struct ing_page {
    struct ing_page_item *items; /* ascending by (time, id), each once */
    size_t n;
    /* The resend before and after it: the place after its last item or slice; DONE if no tenant
     * follows. Without what is counted when items are sent. */
    struct ing_resend before, after;
};

/* What a reader knows of the tenants that it has read lately. Starts zeroed. */
struct ing_page_reader {
    struct ing_page_pace {
        uint64_t tenant;         /* hash of its name */
        int64_t slice_ns;        /* length of its next slice */
    } paces[RESEND_TENANTS_MAX]; /* by the hash; a tenant may have lost its place to another one */
};

/*
 * Reads the page that follows. Without items it may say that nothing is there up to `after`. `stop`
 * ends it early with FG_E_CANCELED. FG_E_UNAVAILABLE, FG_E_DEADLINE, FG_E_LIMIT: the bucket cannot
 * be read now; try again later.
 */
enum fg_code ing_page_read(struct ing_page_reader *reader, const struct ing_past *past,
                           const struct ing_resend *resend, int64_t now_wall_ns,
                           int64_t deadline_mono_ns, const atomic_bool *stop,
                           struct ing_page *ret_page, struct fg_err *err) fg_must_check;

/* Counts what a resend of this time would visit, of all tenants; what only the head has comes on
 * top. Any thread that may wait. Errors as above. */
enum fg_code ing_page_count(const struct ing_past *past, int64_t from_ns, int64_t until_ns,
                            int64_t deadline_mono_ns, struct ing_past_counts *ret_counts,
                            struct fg_err *err) fg_must_check;

/* Sets the place to that of an item: it and all before it are done. */
void ing_page_pass(const struct ing_page_item *item, struct ing_resend *resend);

/* Frees the items. A zeroed one has none. */
void ing_page_done(struct ing_page *page);

#endif
