#include "common/cluster/manifest/snapshot_core.h"

#include <stdlib.h>

/* Replaces a reference: releases the old one and takes the new one over. */
static void set(struct fg_manifest **place, struct fg_manifest *manifest)
{
    struct fg_manifest *before = *place;

    *place = manifest;
    fg_manifest_unref(before);
}

/* ---- the cache ---- */

/* A cached manifest. Moments count what happened in the cache: see struct fg_manifests. */
struct cached {
    struct fg_manifest *manifest; /* NULL: none */
    uint64_t asked;               /* when it was asked for last */
    uint64_t since;               /* when this version came */
    int64_t asked_mono_ns;
    uint64_t hash; /* of the tenant's name */
    uint64_t used;
};

struct fg_manifests {
    uint64_t moment; /* the next one to be given */
    struct cached l0;
    struct cached *tenants; /* searched by hash, one after the other: some microseconds */
    uint32_t n_tenants, tenants_max;
    int64_t age_max_ns;
    uint64_t expired; /* manifests that were asked for before this moment are not young any more */
    unsigned rules;
};

struct fg_manifests *fg_manifests_create(uint32_t tenants_max, int64_t age_max_ns, unsigned rules)
{
    struct fg_manifests *manifests = fg_new(struct fg_manifests);

    manifests->moment = 1;
    manifests->tenants_max = FG_MAX(tenants_max, 1);
    manifests->tenants = fg_calloc(manifests->tenants_max, sizeof *manifests->tenants);
    manifests->age_max_ns = age_max_ns;
    manifests->rules = rules;
    return manifests;
}

void fg_manifests_destroy(struct fg_manifests *manifests)
{
    if (manifests == NULL)
        return;
    fg_manifest_unref(manifests->l0.manifest);
    for (uint32_t i = 0; i < manifests->n_tenants; i++)
        fg_manifest_unref(manifests->tenants[i].manifest);
    free(manifests->tenants);
    free(manifests);
}

void fg_manifests_expire(struct fg_manifests *manifests)
{
    manifests->expired = manifests->moment++;
}

/* Finds the place of a tenant's manifest; makes an empty one if there is none. */
static struct cached *tenant_place(struct fg_manifests *manifests, struct fg_slice tenant)
{
    uint64_t hash = fg_hash64_table(tenant);
    struct cached *place = &manifests->tenants[0];

    for (uint32_t i = 0; i < manifests->n_tenants; i++) {
        struct cached *cached = &manifests->tenants[i];

        if (cached->hash == hash && (cached->manifest == NULL || /* asked for, and did not come */
                                     fg_slice_eq(cached->manifest->blocks.tenant, tenant))) {
            cached->used = manifests->moment++;
            return cached;
        }
        /* Replaces the one that was not used for longest. Snapshots that have it keep their
         * references. */
        if (cached->used < place->used)
            place = cached;
    }
    if (manifests->n_tenants < manifests->tenants_max)
        place = &manifests->tenants[manifests->n_tenants++];
    fg_manifest_unref(place->manifest);
    *place = (struct cached){.hash = hash, .used = manifests->moment++};
    place->manifest = NULL;
    return place;
}

/* Stores a manifest that was asked for at that moment, unless the cached one is newer. */
static void cache(struct fg_manifests *manifests, struct cached *cached,
                  struct fg_manifest *manifest, uint64_t revision, uint64_t there, uint64_t asked,
                  int64_t asked_mono_ns)
{
    /* Answers overtake each other: a slow one may be older than what came meanwhile. */
    if (cached->manifest != NULL && there > revision)
        return;
    if (cached->manifest == NULL || there < revision) {
        set(&cached->manifest, fg_manifest_ref(manifest));
        cached->since = manifests->moment++;
        cached->asked = 0;
    }
    if (asked > cached->asked) {
        cached->asked = asked;
        cached->asked_mono_ns = asked_mono_ns;
    }
}

/* ---- a snapshot ---- */

static bool keeps(const struct fg_snapshot *snapshot, enum fg_rule rule)
{
    return (snapshot->manifests->rules >> rule & 1) != 0;
}

void fg_snapshot_init(struct fg_snapshot *snapshot, struct fg_manifests *manifests,
                      const struct fg_slice *tenants, uint32_t n_tenants)
{
    fg_assert(n_tenants <= FG_SNAPSHOT_TENANTS_MAX);
    *snapshot = (struct fg_snapshot){.manifests = manifests, .n_tenants = n_tenants};
    for (uint32_t i = 0; i < n_tenants; i++)
        snapshot->tenants[i] = tenants[i];
}

static void forget(struct fg_snapshot *snapshot)
{
    set(&snapshot->l0, NULL);
    for (uint32_t i = 0; i < snapshot->n_tenants; i++)
        set(&snapshot->blocks[i], NULL);
    snapshot->have_l0 = false;
    snapshot->have_tenants = 0;
}

void fg_snapshot_done(struct fg_snapshot *snapshot)
{
    forget(snapshot);
}

static bool is_young(const struct fg_snapshot *snapshot, const struct cached *cached,
                     int64_t mono_ns)
{
    if (cached->manifest == NULL)
        return false;
    /* Counted in moments, not in time: only a read that was asked for after the snapshot began
     * certainly shows what the caller committed before. */
    if (snapshot->fresh)
        return cached->asked > snapshot->begun;
    return cached->asked > snapshot->begun ||
           (cached->asked > snapshot->manifests->expired &&
            mono_ns - cached->asked_mono_ns < snapshot->manifests->age_max_ns);
}

static uint32_t all_tenants(const struct fg_snapshot *snapshot)
{
    return (uint32_t)((UINT64_C(1) << snapshot->n_tenants) - 1);
}

static void ask(struct fg_snapshot *snapshot, int64_t mono_ns)
{
    /* Before the request is sent, so that no answer passes for younger than it is. */
    snapshot->asked = snapshot->manifests->moment++;
    snapshot->asked_mono_ns = mono_ns;
}

/* Returns true if the L0 manifest has to be read first. */
static bool need_l0(struct fg_snapshot *snapshot, int64_t mono_ns)
{
    if (snapshot->have_l0)
        return false;

    /* Uses the cached L0 manifest if it is good enough; otherwise only its etag. */
    const struct cached *cached = &snapshot->manifests->l0;

    set(&snapshot->l0, fg_manifest_ref(cached->manifest));
    snapshot->l0_since = cached->since;
    snapshot->have_l0 =
        is_young(snapshot, cached, mono_ns) && cached->manifest->l0.generation >= snapshot->least;
    if (snapshot->have_l0)
        return false;
    if (snapshot->attempts++ == FG_SNAPSHOT_ATTEMPTS_MAX) {
        snapshot->state = FG_SNAPSHOT_FAILED;
        (void)fg_fail(&snapshot->err, FG_E_UNAVAILABLE,
                      "no L0 manifest of generation %llu after %d attempts",
                      (unsigned long long)snapshot->least, FG_SNAPSHOT_ATTEMPTS_MAX);
        return true;
    }
    ask(snapshot, mono_ns);
    snapshot->want_l0 = true;
    snapshot->waiting = 1;
    return true;
}

static bool need_tenants(struct fg_snapshot *snapshot, int64_t mono_ns)
{
    uint32_t missing;

    for (uint32_t i = 0; i < snapshot->n_tenants; i++)
        if ((snapshot->have_tenants >> i & 1) == 0) {
            /* The tenant must have been asked for after the L0 manifest had come, so that it covers
             * what has left that. */
            const struct cached *cached = tenant_place(snapshot->manifests, snapshot->tenants[i]);
            bool in_order = !keeps(snapshot, FG_RULE_BIT_L0_BEFORE_TENANT) ||
                            cached->asked > snapshot->l0_since;

            set(&snapshot->blocks[i], fg_manifest_ref(cached->manifest));
            if (in_order && is_young(snapshot, cached, mono_ns))
                snapshot->have_tenants |= 1u << i;
        }
    missing = all_tenants(snapshot) & ~snapshot->have_tenants;
    if (missing == 0)
        return false;
    ask(snapshot, mono_ns);
    snapshot->want_tenants = missing;
    snapshot->waiting = (uint32_t)__builtin_popcount(missing);
    return true;
}

/* Returns the greatest generation that a tenant's manifest covers. */
static uint64_t newest_covered(const struct fg_snapshot *snapshot)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < snapshot->n_tenants; i++)
        newest = FG_MAX(newest, snapshot->blocks[i]->blocks.newest);
    return newest;
}

/* Advances until a manifest has to be read or the snapshot is complete. */
static void advance(struct fg_snapshot *snapshot, int64_t mono_ns)
{
    bool l0_first = keeps(snapshot, FG_RULE_BIT_L0_BEFORE_TENANT);

    for (;;) {
        if (l0_first && need_l0(snapshot, mono_ns))
            return;
        if (need_tenants(snapshot, mono_ns))
            return;
        if (!l0_first && need_l0(snapshot, mono_ns))
            return;
        if (!keeps(snapshot, FG_RULE_BIT_RETRY_COVERED) ||
            newest_covered(snapshot) <= snapshot->l0->l0.generation)
            break;
        /* A block covers a segment that this L0 manifest does not have yet. Segments that
         * entered before that one may be missing as well, so all is read again. */
        snapshot->least = newest_covered(snapshot);
        snapshot->have_l0 = false;
        snapshot->have_tenants = 0;
    }
    fg_assert(snapshot->have_l0 && snapshot->have_tenants == all_tenants(snapshot));
    snapshot->state = FG_SNAPSHOT_READY;
    /* The checks follow from the order in which both were read. */
    for (uint32_t i = 0; l0_first && i < snapshot->n_tenants; i++)
        if (fg_blocks_check(&snapshot->blocks[i]->blocks, &snapshot->l0->l0, &snapshot->err) !=
            FG_OK)
            snapshot->state = FG_SNAPSHOT_FAILED;
}

void fg_snapshot_begin(struct fg_snapshot *snapshot, uint64_t least, bool fresh, int64_t mono_ns)
{
    fg_assert(snapshot->waiting == 0);
    forget(snapshot);
    snapshot->state = FG_SNAPSHOT_READING;
    snapshot->want_l0 = false;
    snapshot->want_tenants = 0;
    snapshot->least = least;
    snapshot->fresh = fresh;
    snapshot->attempts = 0;
    snapshot->begun = snapshot->manifests->moment++;
    advance(snapshot, mono_ns);
}

/* Takes a manifest from the cache, and notes its age. */
static bool take_cached(const struct cached *cached, int64_t mono_ns, struct fg_manifest **place,
                        int64_t *age_ns)
{
    if (cached->manifest == NULL)
        return false;
    set(place, fg_manifest_ref(cached->manifest));
    *age_ns = FG_MAX(*age_ns, mono_ns - cached->asked_mono_ns);
    return true;
}

enum fg_code fg_snapshot_take_known(struct fg_snapshot *snapshot, int64_t mono_ns,
                                    int64_t *ret_age_ns, struct fg_err *err)
{
    bool there;

    fg_assert(snapshot->waiting == 0);
    forget(snapshot);
    *ret_age_ns = 0;
    there = take_cached(&snapshot->manifests->l0, mono_ns, &snapshot->l0, ret_age_ns);
    for (uint32_t i = 0; i < snapshot->n_tenants && there; i++)
        there = take_cached(tenant_place(snapshot->manifests, snapshot->tenants[i]), mono_ns,
                            &snapshot->blocks[i], ret_age_ns);
    /* Heads that answer as of this L0 manifest would repeat what a newer block covers. */
    if (!there || newest_covered(snapshot) > snapshot->l0->l0.generation) {
        forget(snapshot);
        snapshot->state = FG_SNAPSHOT_FAILED;
        return fg_fail(err, FG_E_UNAVAILABLE, "no consistent set of manifests is cached");
    }
    snapshot->state = FG_SNAPSHOT_READY;
    return FG_OK;
}

struct fg_slice fg_snapshot_etag(const struct fg_snapshot *snapshot, int object)
{
    const struct fg_manifest *known =
        object == FG_SNAPSHOT_L0 ? snapshot->l0 : snapshot->blocks[object];

    return known == NULL ? fg_bytes(NULL, 0) : known->etag;
}

void fg_snapshot_answer(struct fg_snapshot *snapshot, int object, struct fg_manifest *manifest,
                        int64_t mono_ns)
{
    struct fg_manifest *known = NULL;

    fg_assert(object == FG_SNAPSHOT_L0 || (uint32_t)object < snapshot->n_tenants);
    known = object == FG_SNAPSHOT_L0 ? snapshot->l0 : snapshot->blocks[object];
    fg_assert(snapshot->waiting > 0 && (manifest != NULL || known != NULL));
    manifest = manifest == NULL ? fg_manifest_ref(known) : manifest;
    if (object == FG_SNAPSHOT_L0) {
        struct cached *cached = &snapshot->manifests->l0;

        snapshot->want_l0 = false;
        cache(snapshot->manifests, cached, manifest, manifest->l0.revision,
              cached->manifest == NULL ? 0 : cached->manifest->l0.revision, snapshot->asked,
              snapshot->asked_mono_ns);
        set(&snapshot->l0, fg_manifest_ref(cached->manifest));
        snapshot->l0_since = cached->since;
        snapshot->have_l0 = cached->manifest->l0.generation >= snapshot->least;
    } else {
        struct cached *cached = tenant_place(snapshot->manifests, snapshot->tenants[object]);

        snapshot->want_tenants &= ~(1u << object);
        cache(snapshot->manifests, cached, manifest, manifest->blocks.revision,
              cached->manifest == NULL ? 0 : cached->manifest->blocks.revision, snapshot->asked,
              snapshot->asked_mono_ns);
        set(&snapshot->blocks[object], fg_manifest_ref(cached->manifest));
        snapshot->have_tenants |= 1u << object;
    }
    fg_manifest_unref(manifest);
    if (--snapshot->waiting == 0 && snapshot->state == FG_SNAPSHOT_READING)
        advance(snapshot, mono_ns);
}

void fg_snapshot_failed(struct fg_snapshot *snapshot, const struct fg_err *err)
{
    fg_assert(snapshot->waiting > 0);
    snapshot->waiting--;
    snapshot->state = FG_SNAPSHOT_FAILED;
    snapshot->err = *err;
}

bool fg_snapshot_reads(const struct fg_snapshot *snapshot, uint32_t tenant,
                       const struct fg_l0_segment *segment)
{
    uint32_t number = fg_l0_tenant(&snapshot->l0->l0, snapshot->tenants[tenant]);

    return number != FG_L0_NO_TENANT && fg_l0_part(segment, number) != NULL &&
           !fg_blocks_covers(&snapshot->blocks[tenant]->blocks, segment->generation);
}
