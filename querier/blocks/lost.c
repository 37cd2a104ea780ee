#include "querier/blocks/lost.h"

#include "common/storage/bucket/damage.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"

#include <pthread.h>

enum {
    ENTRIES_MAX = 256,   /* what an answer can name; the metrics count all */
    WHY_MAX_BYTES = 160, /* of an error, as one line of the page */
};

#define WHOLE UINT32_MAX /* in place of the number of a part */

/* Something unreadable: an object, a part of it, or rollups of either. */
struct lost_entry {
    struct fg_id object;
    uint32_t part;
    bool rollups;
    bool costs; /* the response lacks something without it */
    enum fg_code code;
    char name[FG_NAME_MAX_BYTES];
    char why[WHY_MAX_BYTES];
};

struct qry_lost {
    pthread_mutex_t lock; /* several threads parse objects at a time */
    struct lost_entry entries[ENTRIES_MAX];
    unsigned n;
    unsigned n_out; /* the first of these are skipped; the last attempt met the others */
};

void qry_lost_open(struct qry_query *query)
{
    if (query->lost != NULL)
        return;
    query->lost = fg_new(struct qry_lost);
    (void)pthread_mutex_init(&query->lost->lock, NULL);
}

void qry_blocks_forget(struct qry_query *query)
{
    struct qry_lost *lost = fg_take(query->lost);

    if (lost == NULL)
        return;
    (void)pthread_mutex_destroy(&lost->lock);
    free(lost);
}

unsigned qry_lost_count(const struct qry_query *query)
{
    return query->lost == NULL ? 0 : query->lost->n;
}

void qry_lost_count_back(struct qry_query *query, unsigned count)
{
    struct qry_lost *lost = query->lost;

    if (lost == NULL)
        return;
    lost->n = FG_MIN(lost->n, count);
    lost->n_out = FG_MIN(lost->n_out, count);
}

bool qry_lost_costs_since(const struct qry_query *query, unsigned count)
{
    const struct qry_lost *lost = query->lost;
    bool costs = false;

    for (unsigned i = count; lost != NULL && i < lost->n_out; i++)
        costs = costs || lost->entries[i].costs;
    return costs;
}

/* ---- what an attempt met ---- */

static void add(struct qry_lost *lost, const struct lost_entry *entry)
{
    bool known = false;

    (void)pthread_mutex_lock(&lost->lock);
    for (unsigned i = lost->n_out; i < lost->n && !known; i++) {
        const struct lost_entry *other = &lost->entries[i];

        known = fg_id_eq(other->object, entry->object) && other->part == entry->part &&
                other->rollups == entry->rollups;
    }
    if (!known && lost->n < ENTRIES_MAX)
        lost->entries[lost->n++] = *entry;
    (void)pthread_mutex_unlock(&lost->lock);
}

void qry_lost_add(struct qry_query *query, const struct qry_object *object,
                  const struct qry_part *part, bool rollups, const struct fg_err *err)
{
    struct lost_entry entry = {.object = object->id, .code = err->code};

    /* A derived block has nothing but rollups, so it is skipped as a whole; its children have all
     * of it. */
    entry.rollups = rollups && object->derived == NULL && !object->rollup_only;
    entry.part = part == NULL || object->derived != NULL ? WHOLE : part->number;
    entry.costs = !entry.rollups && object->derived == NULL;
    (void)snprintf(entry.name, sizeof entry.name, "%s", object->name);
    (void)snprintf(entry.why, sizeof entry.why, "%.*s", WHY_MAX_BYTES - 1, err->msg);
    add(query->lost, &entry);
}

/* ---- what is skipped ---- */

static const struct lost_entry *find(const struct qry_query *query, struct fg_id object,
                                     uint32_t part, bool rollups)
{
    const struct qry_lost *lost = query->lost;

    for (unsigned i = 0; i < lost->n_out; i++) {
        const struct lost_entry *entry = &lost->entries[i];

        if (entry->part == part && entry->rollups == rollups && fg_id_eq(entry->object, object))
            return entry;
    }
    return NULL;
}

static bool say(struct qry_query *query, const struct lost_entry *entry)
{
    if (entry != NULL)
        qry_query_lacks(query, fg_cstr(entry->why));
    return entry != NULL;
}

bool qry_lost_object(const struct qry_query *query, const struct qry_object *object)
{
    return find(query, object->id, WHOLE, false) != NULL;
}

bool qry_lost_head(const struct qry_query *query, const struct qry_object *object)
{
    return find(query, object->id, WHOLE, true) != NULL;
}

bool qry_lost_lacks_object(struct qry_query *query, const struct qry_object *object)
{
    return say(query, find(query, object->id, WHOLE, false));
}

bool qry_lost_lacks_part(struct qry_query *query, const struct qry_object *object, uint32_t part)
{
    return say(query, find(query, object->id, part, false));
}

bool qry_lost_rollups(const struct qry_query *query, const struct qry_part *part)
{
    return find(query, part->object->id, part->number, true) != NULL;
}

/* ---- between two attempts ---- */

bool qry_blocks_leave_out(struct qry_query *query, bool fresh, struct fg_err *err)
{
    struct qry_lost *lost = query->lost;
    bool missing = false, costs = false;

    if (lost == NULL || lost->n == lost->n_out)
        return false;
    for (unsigned i = lost->n_out; i < lost->n; i++) {
        missing = missing || lost->entries[i].code == FG_E_NOT_FOUND;
        costs = costs || lost->entries[i].costs;
    }
    /* Mostly the snapshot is too old, and compaction has replaced the object: take a fresh one
     * first. */
    if (missing && !fresh && !query->stale) {
        lost->n = lost->n_out;
        return false;
    }
    for (unsigned i = lost->n_out; i < lost->n; i++) {
        const struct lost_entry *entry = &lost->entries[i];

        if (fg_damage_unusable(entry->code))
            fg_damage_met(fg_bucket_base(query->querier->blocks->bucket)->damage, entry->name,
                          entry->code, entry->why);
    }
    /* Without partial=true nothing that costs profiles is skipped: a response is complete or an
     * error. */
    if (!query->partial && costs) {
        lost->n = lost->n_out;
        err->code = FG_E_UNAVAILABLE; /* to take the rest is what the client can do about it */
        if (qry_query_may_be_partial(query))
            (void)fg_wrap(err, QRY_ADVISE_PARTIAL);
        return false;
    }
    /* More may be unreadable than the list holds: skipping some of them would fail again and again.
     */
    if (lost->n == ENTRIES_MAX) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "at least %d objects cannot be read, among them %s",
                      ENTRIES_MAX, lost->entries[0].why);
        return false;
    }
    fg_assert(lost->n_out < lost->n && lost->n <= ENTRIES_MAX);
    lost->n_out = lost->n;
    return true;
}
