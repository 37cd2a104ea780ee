/*
 * What lies under a block of merged nodes: the blocks it is made of. Their profiles are in its
 * sums, each once, and they go when it goes; so where its nodes answer, nothing of them is read, no
 * directory and no nodes.
 *
 * It has to be known that the block above has all of the question's services, since a service that
 * one block only has is in none above it. So a part of a service speaks for that service; and for
 * any service the block does that has as many profiles as what it is made of, by the manifest. If
 * something of it may not be used (a deletion), the block speaks for nothing.
 */
#include "querier/blocks/lost.h"

/* ---- who speaks for what is under it ---- */

/* What a block of merged nodes has for the question. */
struct voice {
    uint32_t n_parts;
    uint64_t profiles; /* of these parts */
    bool mute;         /* there are nodes that may not be used */
};

/* By object, in the reader's arena; NULL: no room. */
static struct voice *find_voices(const struct qry_reader *reader)
{
    struct voice *voices = fg_arena_new(reader->arena, struct voice, reader->objects.n);

    for (uint32_t i = 0; voices != NULL && i < reader->n_found; i++) {
        const struct qry_part *part = &reader->parts[i];
        struct voice *voice = &voices[part->object - reader->objects.items];

        voice->n_parts++;
        voice->profiles += part->entry->n_profiles;
        voice->mute = voice->mute || part->nodes == NULL;
    }
    return voices;
}

static bool has_all(const struct fg_blocks *blocks, const struct fg_blocks_entry *made)
{
    struct fg_id digest = {0, 0};
    uint64_t profiles = 0;

    for (uint32_t i = 0; i < made->n_from_blocks; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(blocks, made->from_blocks[i]);

        if (from == NULL)
            return false;
        profiles += from->profiles;
        digest = fg_id_add(digest, from->digest);
    }
    return profiles == made->profiles && fg_id_eq(digest, made->digest);
}

static bool speaks(const struct qry_reader *reader, uint32_t tenant, const struct qry_object *above,
                   const struct voice *voice)
{
    if (voice->mute)
        return false;
    return (reader->service.len > 0 && voice->n_parts > 0) ||
           has_all(qry_blocks_manifest(reader->question, tenant), above->made);
}

typedef void (*under_visit)(struct qry_object *under, const struct qry_object *above,
                            const struct voice *voice, void *arg);

/* Visits what is shut under each block that speaks for it; of several such it is under all. */
static void visit_under(struct qry_reader *reader, const struct voice *voices, under_visit visit,
                        void *arg)
{
    struct qry_objects *objects = &reader->objects;

    for (uint32_t t = 0; t < reader->question->tenants.n; t++)
        for (uint32_t i = objects->blocks[t]; i < objects->blocks[t + 1]; i++) {
            const struct qry_object *above = &objects->items[i];

            if (above->made == NULL || !speaks(reader, t, above, &voices[i]))
                continue;
            for (uint32_t k = 0; k < above->made->n_from_blocks; k++) {
                struct qry_object *under =
                    qry_objects_block(objects, t, above->made->from_blocks[k]);

                if (under != NULL && under->shut)
                    visit(under, above, &voices[i], arg);
            }
        }
}

static void vouch(struct qry_object *under, const struct qry_object *above,
                  const struct voice *voice, void *arg)
{
    (void)above, (void)voice, (void)arg;
    under->vouched = true;
}

bool qry_under_open_unvouched(struct qry_reader *reader)
{
    const struct voice *voices = find_voices(reader);
    bool opened = false;

    if (voices != NULL)
        visit_under(reader, voices, vouch, NULL);
    for (uint32_t i = 0; i < reader->objects.n; i++) {
        struct qry_object *object = &reader->objects.items[i];

        opened = opened || (object->shut && !object->vouched);
        object->shut = object->shut && object->vouched;
    }
    return opened;
}

bool qry_under_any_shut(const struct qry_reader *reader)
{
    for (uint32_t i = 0; i < reader->objects.n; i++)
        if (reader->objects.items[i].shut)
            return true;
    return false;
}

enum fg_code qry_under_open(struct qry_reader *reader, uint32_t tenant, const struct fg_plan *plan,
                            struct fg_err *err)
{
    for (uint32_t i = 0; i < plan->n_missing; i++) {
        struct qry_object *object = qry_objects_block(&reader->objects, tenant, plan->missing[i]);

        if (object != NULL && object->known && qry_lost_object(reader->question, object))
            continue; /* the answer says that it lacks it */
        if (object == NULL || object->known)
            return fg_fail(
                err, FG_E_CORRUPT,
                "rollups refer to block %016llx%016llx, which does not contain their data",
                (unsigned long long)plan->missing[i].hi, (unsigned long long)plan->missing[i].lo);
        object->shut = false;
    }
    return FG_OK;
}

/* ---- how much it is ---- */

/* A service has as much of the bytes as of the profiles. */
static void guess(struct qry_object *under, const struct qry_object *above,
                  const struct voice *voice, void *arg)
{
    uint64_t *sum = arg;
    double share = (double)voice->profiles / (double)FG_MAX(above->profiles, 1);

    if (!under->guessed)
        *sum += (uint64_t)((double)(under->bytes - under->rollup_bytes) * share);
    under->guessed = true;
}

uint64_t qry_under_bytes(struct qry_reader *reader)
{
    const struct voice *voices = find_voices(reader);
    uint64_t sum = 0;

    if (voices != NULL)
        visit_under(reader, voices, guess, &sum);
    return sum;
}
