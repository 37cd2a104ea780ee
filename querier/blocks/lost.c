#include "querier/blocks/lost.h"

#include "common/storage/bucket/damage.h"

#include <pthread.h>

enum {
    ENTRIES_MAX = 256,
    WHY_MAX_BYTES = 160,
};

#define WHOLE UINT32_MAX /* in place of the number of a part */

/* Something unreadable: an object, a part of it, or merged nodes of either. */
struct lost_entry {
    struct fg_id object;
    uint32_t part;
    bool nodes;
    bool costs; /* the answer lacks something without it */
    enum fg_code code;
    char name[FG_NAME_MAX_BYTES];
    char why[WHY_MAX_BYTES];
};

struct blocks_lost {
    pthread_mutex_t lock; /* while things are made, by several threads */
    struct lost_entry entries[ENTRIES_MAX];
    unsigned n;
    unsigned n_out; /* the first of these are left out; the others were met by the last try */
};

void qry_lost_open(struct qry_question *question)
{
    if (question->lost != NULL)
        return;
    question->lost = fg_new(struct blocks_lost);
    (void)pthread_mutex_init(&question->lost->lock, NULL);
}

void qry_blocks_forget(struct qry_question *question)
{
    struct blocks_lost *lost = fg_take(question->lost);

    if (lost == NULL)
        return;
    (void)pthread_mutex_destroy(&lost->lock);
    free(lost);
}

/* ---- what was met ---- */

static bool is_same(const struct lost_entry *a, const struct lost_entry *b)
{
    return fg_id_eq(a->object, b->object) && a->part == b->part && a->nodes == b->nodes;
}

static void add(struct blocks_lost *lost, const struct lost_entry *entry)
{
    (void)pthread_mutex_lock(&lost->lock);
    for (unsigned i = lost->n_out; i < lost->n; i++)
        if (is_same(&lost->entries[i], entry)) {
            (void)pthread_mutex_unlock(&lost->lock);
            return;
        }
    if (lost->n < ENTRIES_MAX)
        lost->entries[lost->n++] = *entry;
    (void)pthread_mutex_unlock(&lost->lock);
}

void qry_lost_add(struct qry_question *question, const struct qry_object *object,
                  const struct qry_part *part, bool nodes, const struct fg_err *err)
{
    struct lost_entry entry = {.object = object->id, .code = err->code};

    /* Of merged nodes nothing is left without the nodes, and what they are made of has it all. */
    entry.nodes = nodes && object->made == NULL && !object->rollup_only;
    entry.part = part == NULL || object->made != NULL ? WHOLE : part->number;
    entry.costs = !entry.nodes && object->made == NULL;
    (void)snprintf(entry.name, sizeof entry.name, "%s", object->name);
    (void)snprintf(entry.why, sizeof entry.why, "%.*s", WHY_MAX_BYTES - 1, err->msg);
    add(question->lost, &entry);
}

/* ---- what is left out ---- */

static const struct lost_entry *find(const struct qry_question *question, struct fg_id object,
                                     uint32_t part, bool nodes)
{
    const struct blocks_lost *lost = question->lost;

    for (unsigned i = 0; i < lost->n_out; i++) {
        const struct lost_entry *entry = &lost->entries[i];

        if (entry->part == part && entry->nodes == nodes && fg_id_eq(entry->object, object))
            return entry;
    }
    return NULL;
}

static bool say(struct qry_question *question, const struct lost_entry *entry)
{
    if (entry != NULL)
        qry_question_lacks(question, fg_cstr(entry->why));
    return entry != NULL;
}

bool qry_lost_object(const struct qry_question *question, const struct qry_object *object)
{
    return find(question, object->id, WHOLE, false) != NULL;
}

bool qry_lost_head(const struct qry_question *question, const struct qry_object *object)
{
    return find(question, object->id, WHOLE, true) != NULL;
}

bool qry_lost_lacks_object(struct qry_question *question, const struct qry_object *object)
{
    return say(question, find(question, object->id, WHOLE, false));
}

bool qry_lost_lacks_part(struct qry_question *question, const struct qry_object *object,
                         uint32_t part)
{
    return say(question, find(question, object->id, part, false));
}

bool qry_lost_nodes(const struct qry_question *question, const struct qry_part *part)
{
    return find(question, part->object->id, part->number, true) != NULL;
}

/* ---- between two tries ---- */

/* An object that is not there was in a snapshot that is too old, as a rule. */
static bool may_be_elsewhere(const struct blocks_lost *lost, bool fresh)
{
    for (unsigned i = lost->n_out; i < lost->n; i++)
        if (lost->entries[i].code == FG_E_NOT_FOUND && !fresh)
            return true;
    return false;
}

static void tell(const struct qry_question *question, const struct lost_entry *entry)
{
    if (fg_damage_unusable(entry->code))
        fg_damage_met(question->querier->blocks->bucket->damage, entry->name, entry->code,
                      entry->why);
}

static bool is_any_cost(const struct blocks_lost *lost)
{
    for (unsigned i = lost->n_out; i < lost->n; i++)
        if (lost->entries[i].costs)
            return true;
    return false;
}

bool qry_blocks_leave_out(struct qry_question *question, bool fresh, struct fg_err *err)
{
    struct blocks_lost *lost = question->lost;
    if (lost == NULL || lost->n == lost->n_out)
        return false;
    if (may_be_elsewhere(lost, fresh || question->stale)) {
        lost->n = lost->n_out;
        return false;
    }
    for (unsigned i = lost->n_out; i < lost->n; i++)
        tell(question, &lost->entries[i]);
    if (!question->partial && is_any_cost(lost)) {
        lost->n = lost->n_out;
        err->code = FG_E_UNAVAILABLE; /* to take the rest is what the client can do about it */
        (void)fg_wrap(err, "set partial=true to get a response without the unreadable data");
        return false;
    }
    if (lost->n == ENTRIES_MAX) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "at least %d objects cannot be read, among them %s",
                      ENTRIES_MAX, lost->entries[0].why);
        return false;
    }
    lost->n_out = lost->n;
    return true;
}
