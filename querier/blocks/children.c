#include "querier/blocks/children.h"

#include "querier/blocks/blocks.h"
#include "querier/blocks/lost.h"

/* ---- what a parent covers ---- */

/* What a derived block has for the query. */
struct cover {
    uint32_t n_parts;
    uint64_t profiles; /* of these parts */
    bool unusable;     /* some of its rollups cannot be used */
};

/* Returns what each object covers, in the reader's arena. NULL: there is no room, so nothing counts
 * as covered. */
static struct cover *find_covers(const struct qry_reader *reader)
{
    struct cover *covers = fg_arena_new(reader->arena, struct cover, reader->objects.n);

    for (uint32_t i = 0; covers != NULL && i < reader->n_found; i++) {
        const struct qry_part *part = &reader->parts[i];
        struct cover *cover = &covers[part->object - reader->objects.items];

        cover->n_parts++;
        cover->profiles += part->entry->n_profiles;
        cover->unusable = cover->unusable || part->rollups == NULL;
    }
    return covers;
}

static bool has_all(const struct fg_blocks *blocks, const struct fg_blocks_entry *derived)
{
    struct fg_id digest = {0, 0};
    uint64_t profiles = 0;

    for (uint32_t i = 0; i < derived->n_from_blocks; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(blocks, derived->from_blocks[i]);

        if (from == NULL)
            return false;
        profiles += from->profiles;
        digest = fg_id_add(digest, from->digest);
    }
    /* Counts and digests prove it: the digest of a union of disjoint sets is the sum of theirs, so
     * a child that has changed since does not match. */
    return profiles == derived->profiles && fg_id_eq(digest, derived->digest);
}

static bool covers_query(const struct qry_reader *reader, uint32_t tenant,
                         const struct qry_object *parent, const struct cover *cover)
{
    if (cover->unusable)
        return false;
    /* One service: its part in the parent is made of all its parts in the children. Without a
     * service a child may have services that the parent has none of. */
    return (reader->service.len > 0 && cover->n_parts > 0) ||
           has_all(qry_blocks_manifest(reader->query, tenant), parent->derived);
}

typedef void (*child_visit)(struct qry_object *child, const struct qry_object *parent,
                            const struct cover *cover, void *arg);

/* Visits the closed children of each parent that covers them; a child may have several. */
static void visit_children(struct qry_reader *reader, const struct cover *covers, child_visit visit,
                           void *arg)
{
    struct qry_objects *objects = &reader->objects;

    for (uint32_t t = 0; t < reader->query->tenants.n; t++)
        for (uint32_t i = objects->blocks[t]; i < objects->blocks[t + 1]; i++) {
            const struct qry_object *parent = &objects->items[i];

            /* A closed parent covers nothing: nobody knows yet whether it can be used. */
            if (parent->derived == NULL || parent->closed ||
                !covers_query(reader, t, parent, &covers[i]))
                continue;
            for (uint32_t k = objects->blocks[t]; k < objects->blocks[t + 1]; k++)
                if (objects->items[k].closed && qry_objects_is_child(&objects->items[k], parent))
                    visit(&objects->items[k], parent, &covers[i], arg);
        }
}

static void mark_covered(struct qry_object *child, const struct qry_object *parent,
                         const struct cover *cover, void *arg)
{
    (void)parent, (void)cover, (void)arg;
    child->covered = true;
}

/* Opens the closed ones that no parent covers. */
static bool open_uncovered(struct qry_objects *objects, bool derived)
{
    bool opened = false;

    for (uint32_t i = 0; i < objects->n; i++) {
        struct qry_object *object = &objects->items[i];

        if (!object->closed || object->covered || (object->derived != NULL) != derived)
            continue;
        object->closed = false;
        opened = true;
    }
    return opened;
}

bool qry_children_open_uncovered(struct qry_reader *reader)
{
    const struct cover *covers = find_covers(reader);

    if (covers != NULL)
        visit_children(reader, covers, mark_covered, NULL);
    /* Derived ones first: they may cover the others. */
    return open_uncovered(&reader->objects, true) || open_uncovered(&reader->objects, false);
}

bool qry_children_any_closed(const struct qry_reader *reader)
{
    for (uint32_t i = 0; i < reader->objects.n; i++)
        if (reader->objects.items[i].closed)
            return true;
    return false;
}

/* Opens what is closed and was made of the block. Returns false if there is nothing. */
static bool open_parents(struct qry_objects *objects, uint32_t tenant,
                         const struct qry_object *object)
{
    bool opened = false;

    for (uint32_t i = objects->blocks[tenant]; i < objects->blocks[tenant + 1]; i++) {
        struct qry_object *parent = &objects->items[i];

        if (parent->derived == NULL || parent->known || !qry_objects_is_child(object, parent))
            continue;
        parent->closed = false; /* perhaps for another child */
        opened = true;
    }
    return opened;
}

enum fg_code qry_children_open(struct qry_reader *reader, uint32_t tenant,
                               const struct fg_plan *plan, struct fg_err *err)
{
    for (uint32_t i = 0; i < plan->n_missing; i++) {
        struct qry_object *object = qry_objects_block(&reader->objects, tenant, plan->missing[i]);

        if (object != NULL && !object->known && open_parents(&reader->objects, tenant, object))
            continue;
        if (object != NULL && object->known && qry_lost_object(reader->query, object))
            continue; /* skipped: the response says that it lacks it */
        if (object == NULL || object->known)
            return fg_fail(
                err, FG_E_CORRUPT,
                "rollups refer to block %016llx%016llx, which does not contain their data",
                (unsigned long long)plan->missing[i].hi, (unsigned long long)plan->missing[i].lo);
        object->closed = false;
    }
    return FG_OK;
}

/* ---- estimates ---- */

/* Assumes that a service has the same share of the bytes as of the profiles. */
static void guess(struct qry_object *child, const struct qry_object *parent,
                  const struct cover *cover, void *arg)
{
    uint64_t *sum = arg;
    double share = (double)cover->profiles / (double)FG_MAX(parent->profiles, 1);

    if (!child->guessed && child->derived == NULL)
        *sum += (uint64_t)((double)(child->bytes - child->rollups_bytes) * share);
    child->guessed = true;
}

uint64_t qry_children_bytes(struct qry_reader *reader)
{
    const struct cover *covers = find_covers(reader);
    uint64_t sum = 0;

    if (covers != NULL)
        visit_children(reader, covers, guess, &sum);
    return sum;
}
