#include "ingester/rounds.h"

#include "common/base/map.h"
#include "common/model/tenant_share.h"
#include "common/runtime/rwlock.h"

struct rounds_place {
    struct ing_round round;
    bool gone;
};

/* Of one tenant. */
struct tenant_rounds {
    struct rounds_place *places;
    uint32_t n_places, cap_places, n_gone;
    struct fg_map map; /* group_hash() -> place */
};

struct ing_rounds {
    struct fg_rwlock lock;
    struct tenant_rounds *tenants; /* by number */
    uint32_t n_tenants, cap_tenants;
    uint32_t cuts;
    bool any_in_doubt;
    uint64_t seen; /* as of the start */
    uint64_t bytes, max_bytes;
};

enum { GONE_KEPT_MIN = 64 };

static const struct fg_slice cuts_key = {(const uint8_t *)"cut", 3};
static const struct fg_slice seen_key = {(const uint8_t *)"manifest", 8};

/* ---- one round ---- */

struct ing_round ing_round_empty(const struct ing_head_round_key *key)
{
    return (struct ing_round){.key = *key, .least_ns = INT64_MAX, .greatest_ns = INT64_MIN};
}

void ing_round_add(struct ing_round *round, int64_t time_ns, struct fg_id id, size_t bytes)
{
    round->count++;
    round->bytes += bytes;
    round->least_ns = FG_MIN(round->least_ns, time_ns);
    round->greatest_ns = FG_MAX(round->greatest_ns, time_ns);
    round->digest = fg_id_add(round->digest, id);
}

void ing_round_join(struct ing_round *round, const struct ing_round *other)
{
    round->count += other->count;
    round->bytes += other->bytes;
    round->least_ns = FG_MIN(round->least_ns, other->least_ns);
    round->greatest_ns = FG_MAX(round->greatest_ns, other->greatest_ns);
    round->digest = fg_id_add(round->digest, other->digest);
}

void ing_round_put(const struct ing_round *round, struct fg_store_batch *out)
{
    uint8_t digest[FG_ID_BYTES];
    struct fg_buf key, value;

    fg_buf_init(&key, HEAD_ROUND_KEY_BYTES);
    fg_buf_init(&value, SIZE_MAX);
    ing_head_put_round_key(&key, &round->key);
    fg_buf_varint(&value, round->count);
    fg_buf_varint(&value, round->bytes);
    fg_buf_varint(&value, round->born);
    fg_buf_zigzag(&value, round->opened_wall_ns);
    fg_buf_zigzag(&value, round->least_ns);
    fg_buf_zigzag(&value, round->greatest_ns);
    fg_id_put(digest, round->digest);
    fg_buf_append(&value, digest, sizeof digest);
    fg_buf_putc(&value, (uint8_t)round->state);
    fg_buf_varint(&value, round->cut);
    fg_buf_varint(&value, round->generation);
    fg_store_put(out, HEAD_ROUNDS, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

void ing_round_delete(const struct ing_head_round_key *key, struct fg_store_batch *out)
{
    struct ing_head_round_key after = *key;
    struct fg_buf from, to;

    after.number++; /* numbers count cuts: there will not be 2^32 of them */
    fg_buf_init(&from, HEAD_ROUND_KEY_BYTES);
    fg_buf_init(&to, HEAD_ROUND_KEY_BYTES);
    ing_head_put_round_key(&from, key);
    ing_head_put_round_key(&to, &after);
    fg_store_delete(out, HEAD_ROUNDS, fg_buf_slice(&from));
    fg_store_delete_range(out, HEAD_PROFILES, fg_buf_slice(&from), fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
}

/* ---- places (under the lock) ---- */

static uint64_t group_hash(const struct ing_head_group_key *key)
{
    return fg_mix64((uint64_t)key->window << 16 | key->shard);
}

static struct tenant_rounds *tenant_of(const struct ing_rounds *rounds, uint32_t number)
{
    return number < rounds->n_tenants ? &rounds->tenants[number] : NULL;
}

static struct tenant_rounds *make_tenant(struct ing_rounds *rounds, uint32_t number)
{
    if (number >= rounds->cap_tenants) {
        rounds->cap_tenants = FG_MAX(number + 1, rounds->cap_tenants * 2);
        rounds->tenants =
            fg_realloc(rounds->tenants, rounds->cap_tenants * sizeof *rounds->tenants);
    }
    for (; rounds->n_tenants <= number; rounds->n_tenants++) {
        rounds->tenants[rounds->n_tenants] = (struct tenant_rounds){0};
        fg_map_init(&rounds->tenants[rounds->n_tenants].map);
    }
    return &rounds->tenants[number];
}

static struct rounds_place *find(const struct tenant_rounds *tenant,
                                 const struct ing_head_round_key *key)
{
    struct fg_map_walk walk;

    if (tenant == NULL)
        return NULL;
    for (uint32_t i = fg_map_first(&tenant->map, group_hash(&key->group), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&tenant->map, &walk))
        if (!tenant->places[i].gone && ing_head_same_round(&tenant->places[i].round.key, key))
            return &tenant->places[i];
    return NULL;
}

static size_t tenant_bytes(const struct tenant_rounds *tenant)
{
    return fg_map_bytes(&tenant->map) + tenant->cap_places * sizeof *tenant->places;
}

/* The map forgets nothing, so both are made anew once most of the places are of what is gone. */
static void close_gaps(struct tenant_rounds *tenant)
{
    uint32_t kept = 0;

    fg_map_clear(&tenant->map);
    for (uint32_t i = 0; i < tenant->n_places; i++) {
        if (tenant->places[i].gone)
            continue;
        tenant->places[kept] = tenant->places[i];
        fg_map_add(&tenant->map, group_hash(&tenant->places[kept].round.key.group), kept);
        kept++;
    }
    tenant->n_places = kept;
    tenant->n_gone = 0;
}

/* It has none any more: an idle tenant takes no room. */
static void forget_tenant(struct ing_rounds *rounds, struct tenant_rounds *tenant)
{
    rounds->bytes -= tenant_bytes(tenant);
    free(tenant->places);
    fg_map_done(&tenant->map);
    *tenant = (struct tenant_rounds){0};
}

/* The drawing of rounds.h, and what COMPARE does (segments/segments.h). */
static void check_move(const struct ing_round *from, const struct ing_round *to)
{
    static const unsigned moves[ROUND_STATES] = {
        [ROUND_OPEN] =
            1 << ROUND_OPEN | 1 << ROUND_SEALED | 1 << ROUND_COMMITTED | 1 << ROUND_UNCHECKED,
        [ROUND_SEALED] =
            1 << ROUND_SEALED | 1 << ROUND_COMMITTED | 1 << ROUND_ASIDE | 1 << ROUND_UNCHECKED,
        [ROUND_ASIDE] =
            1 << ROUND_ASIDE | 1 << ROUND_SEALED | 1 << ROUND_COMMITTED | 1 << ROUND_UNCHECKED,
        [ROUND_UNCHECKED] = 1 << ROUND_UNCHECKED | 1 << ROUND_ASIDE | 1 << ROUND_COMMITTED,
        [ROUND_COMMITTED] = 1 << ROUND_COMMITTED,
    };

    fg_assert((moves[from->state] >> to->state & 1) != 0);
    /* Readers go by it: what was committed at one generation is not at another. */
    fg_assert(from->state != ROUND_COMMITTED || from->generation == to->generation);
}

static void set(struct ing_rounds *rounds, const struct ing_round *round)
{
    struct tenant_rounds *tenant = make_tenant(rounds, round->key.group.tenant);
    struct rounds_place *place = find(tenant, &round->key);
    size_t before = tenant_bytes(tenant);

    if (place != NULL) {
        check_move(&place->round, round);
        place->round = *round;
        return;
    }
    if (tenant->n_gone > GONE_KEPT_MIN && 2 * tenant->n_gone > tenant->n_places)
        close_gaps(tenant);
    if (tenant->n_places == tenant->cap_places) {
        tenant->cap_places = FG_MAX(16, tenant->cap_places * 2);
        tenant->places = fg_realloc(tenant->places, tenant->cap_places * sizeof *tenant->places);
    }
    fg_map_add(&tenant->map, group_hash(&round->key.group), tenant->n_places);
    tenant->places[tenant->n_places++] = (struct rounds_place){.round = *round};
    rounds->bytes += tenant_bytes(tenant) - before;
}

/* ---- the committer's side ---- */

void ing_rounds_set(struct ing_rounds *rounds, const struct ing_round *round)
{
    fg_rwlock_write(&rounds->lock);
    set(rounds, round);
    fg_rwlock_unlock(&rounds->lock);
}

void ing_rounds_remove(struct ing_rounds *rounds, const struct ing_head_round_key *key)
{
    struct tenant_rounds *tenant;
    struct rounds_place *place;

    fg_rwlock_write(&rounds->lock);
    tenant = tenant_of(rounds, key->group.tenant);
    place = find(tenant, key);
    if (place != NULL) {
        place->gone = true;
        tenant->n_gone++;
        if (tenant->n_gone == tenant->n_places)
            forget_tenant(rounds, tenant);
    }
    fg_rwlock_unlock(&rounds->lock);
}

void ing_rounds_doubt(struct ing_rounds *rounds, const struct ing_head_round_key *key)
{
    struct rounds_place *place;

    fg_rwlock_write(&rounds->lock);
    place = find(tenant_of(rounds, key->group.tenant), key);
    if (place != NULL) {
        place->round.in_doubt = true;
        rounds->any_in_doubt = true;
    }
    fg_rwlock_unlock(&rounds->lock);
}

void ing_rounds_settle(struct ing_rounds *rounds)
{
    fg_rwlock_write(&rounds->lock);
    for (uint32_t t = 0; rounds->any_in_doubt && t < rounds->n_tenants; t++)
        for (uint32_t i = 0; i < rounds->tenants[t].n_places; i++)
            rounds->tenants[t].places[i].round.in_doubt = false;
    rounds->any_in_doubt = false;
    fg_rwlock_unlock(&rounds->lock);
}

uint32_t ing_rounds_cuts(struct ing_rounds *rounds)
{
    uint32_t cuts;

    fg_rwlock_read(&rounds->lock);
    cuts = rounds->cuts;
    fg_rwlock_unlock(&rounds->lock);
    return cuts;
}

static void put_number(struct fg_slice key, uint64_t number, struct fg_store_batch *out)
{
    struct fg_buf value;

    fg_buf_init(&value, SIZE_MAX);
    fg_buf_varint(&value, number);
    fg_store_put(out, HEAD_META, key, fg_buf_slice(&value));
    fg_buf_done(&value);
}

void ing_rounds_put_cuts(uint32_t cuts, struct fg_store_batch *out)
{
    put_number(cuts_key, cuts, out);
}

uint64_t ing_rounds_seen(const struct ing_rounds *rounds)
{
    return rounds->seen;
}

void ing_rounds_put_seen(uint64_t generation, struct fg_store_batch *out)
{
    put_number(seen_key, generation, out);
}

void ing_rounds_set_cuts(struct ing_rounds *rounds, uint32_t cuts)
{
    fg_rwlock_write(&rounds->lock);
    rounds->cuts = cuts;
    fg_rwlock_unlock(&rounds->lock);
}

/* ---- looking ---- */

uint32_t ing_rounds_least_born(struct ing_rounds *rounds)
{
    uint32_t least = UINT32_MAX;

    fg_rwlock_read(&rounds->lock);
    for (uint32_t t = 0; t < rounds->n_tenants; t++)
        for (uint32_t i = 0; i < rounds->tenants[t].n_places; i++)
            if (!rounds->tenants[t].places[i].gone)
                least = FG_MIN(least, rounds->tenants[t].places[i].round.born);
    fg_rwlock_unlock(&rounds->lock);
    return least;
}

bool ing_rounds_find(struct ing_rounds *rounds, const struct ing_head_round_key *key,
                     struct ing_round *ret_round)
{
    const struct rounds_place *place;

    fg_rwlock_read(&rounds->lock);
    place = find(tenant_of(rounds, key->group.tenant), key);
    if (place != NULL)
        *ret_round = place->round;
    fg_rwlock_unlock(&rounds->lock);
    return place != NULL;
}

void ing_rounds_put_known(struct ing_rounds *rounds, const struct ing_head_round_key *key,
                          struct fg_store_batch *out)
{
    struct ing_round known;
    struct fg_buf bytes;

    if (ing_rounds_find(rounds, key, &known)) {
        ing_round_put(&known, out);
        return;
    }
    fg_buf_init(&bytes, HEAD_ROUND_KEY_BYTES);
    ing_head_put_round_key(&bytes, key);
    fg_store_delete(out, HEAD_ROUNDS, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

size_t ing_rounds_of_group(struct ing_rounds *rounds, const struct ing_head_group_key *key,
                           struct ing_round *ret_rounds, size_t max)
{
    const struct tenant_rounds *tenant;
    struct fg_map_walk walk;
    size_t n = 0;

    fg_rwlock_read(&rounds->lock);
    tenant = tenant_of(rounds, key->tenant);
    for (uint32_t i = tenant == NULL ? FG_MAP_NONE
                                     : fg_map_first(&tenant->map, group_hash(key), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&tenant->map, &walk)) {
        const struct rounds_place *place = &tenant->places[i];

        if (place->gone || !ing_head_same_group(&place->round.key.group, key))
            continue;
        if (n < max)
            ret_rounds[n] = place->round;
        n++;
    }
    fg_rwlock_unlock(&rounds->lock);
    return n;
}

static bool passes(const struct ing_rounds_filter *filter, const struct rounds_place *place)
{
    const struct ing_round *round = &place->round;

    if (place->gone || round->count == 0 || round->least_ns > filter->end_ns ||
        round->greatest_ns < filter->start_ns)
        return false;
    return filter->any_state || round->state != ROUND_COMMITTED ||
           round->generation > filter->generation;
}

static int round_order(const void *left, const void *right)
{
    return ing_head_round_cmp(&((const struct ing_round *)left)->key,
                              &((const struct ing_round *)right)->key);
}

/* Tenants [from, to). Under the lock. */
static struct ing_round *collect(const struct ing_rounds *rounds, uint32_t from, uint32_t to,
                                 const struct ing_rounds_filter *filter, struct fg_arena *arena,
                                 size_t *ret_count)
{
    struct ing_round *found;
    size_t most = 0, count = 0;

    for (uint32_t t = from; t < to; t++)
        most += rounds->tenants[t].n_places;
    found = fg_arena_alloc(arena, most * sizeof *found);
    for (uint32_t t = from; found != NULL && t < to; t++)
        for (uint32_t i = 0; i < rounds->tenants[t].n_places; i++)
            if (passes(filter, &rounds->tenants[t].places[i]))
                found[count++] = rounds->tenants[t].places[i].round;
    *ret_count = count;
    return found;
}

enum fg_code ing_rounds_select(struct ing_rounds *rounds, const struct ing_rounds_filter *filter,
                               struct fg_arena *arena, struct ing_round **ret_rounds,
                               size_t *ret_count, struct fg_err *err)
{
    struct ing_round *found;
    uint32_t from, to;

    fg_rwlock_read(&rounds->lock);
    from = filter->any_tenant ? 0 : FG_MIN(filter->tenant, rounds->n_tenants);
    to = filter->any_tenant ? rounds->n_tenants : FG_MIN(from + 1, rounds->n_tenants);
    found = collect(rounds, from, to, filter, arena, ret_count);
    fg_rwlock_unlock(&rounds->lock);
    if (found == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many groups for a query");
    if (*ret_count > 1)
        qsort(found, *ret_count, sizeof *found, round_order);
    *ret_rounds = found;
    return FG_OK;
}

size_t ing_rounds_bytes(struct ing_rounds *rounds)
{
    size_t bytes;

    fg_rwlock_read(&rounds->lock);
    bytes = rounds->bytes;
    fg_rwlock_unlock(&rounds->lock);
    return bytes;
}

bool ing_rounds_have_room(struct ing_rounds *rounds, uint32_t tenant, double share)
{
    const struct tenant_rounds *of;
    uint64_t used, growth = 0;
    bool have;

    fg_rwlock_read(&rounds->lock);
    of = tenant_of(rounds, tenant);
    used = of == NULL ? 0 : tenant_bytes(of);
    if (of != NULL && share < 1) /* its tables may double with the next one */
        growth = fg_map_growth(&of->map) +
                 (of->n_places == of->cap_places ? of->cap_places * sizeof *of->places : 0);
    have = rounds->bytes + growth <= rounds->max_bytes &&
           fg_share_allows(share, used + growth, rounds->max_bytes - rounds->bytes - growth);
    fg_rwlock_unlock(&rounds->lock);
    return have;
}

/* ---- reading back ---- */

static bool decode_round(struct fg_slice key, struct fg_slice value, struct ing_round *ret_round)
{
    struct fg_cur cur = fg_cur(value);
    struct ing_round round = {.count = 0};
    struct fg_slice digest;
    uint64_t born, cut;
    uint8_t state;

    if (!ing_head_get_round_key(key, &round.key))
        return false;
    round.count = fg_cur_varint(&cur);
    round.bytes = fg_cur_varint(&cur);
    born = fg_cur_varint(&cur);
    round.born = (uint32_t)born;
    round.opened_wall_ns = fg_cur_zigzag(&cur);
    round.least_ns = fg_cur_zigzag(&cur);
    round.greatest_ns = fg_cur_zigzag(&cur);
    digest = fg_cur_take(&cur, FG_ID_BYTES);
    state = fg_cur_u8(&cur);
    cut = fg_cur_varint(&cur);
    round.cut = (uint32_t)cut;
    round.generation = fg_cur_varint(&cur);
    if (!fg_cur_end(&cur) || state >= ROUND_STATES || cut > UINT32_MAX || born > UINT32_MAX)
        return false;
    round.digest = fg_id_get(digest.ptr);
    round.state = (enum ing_round_state)state;
    *ret_round = round;
    return true;
}

static enum fg_code load_rounds(struct ing_rounds *rounds, struct fg_store *store,
                                struct ing_catalog *catalog, struct ing_damage *damage,
                                struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, HEAD_ROUNDS, FG_LIT(""), FG_LIT(""));

    for (; iter->valid; fg_store_iter_next(iter)) {
        struct ing_round round;

        if (!decode_round(iter->key, iter->value, &round)) {
            ing_damage_repaired(damage, "a round cannot be read: made again from its profiles");
        } else if (ing_catalog_has_tenant(catalog, round.key.group.tenant)) {
            set(rounds, &round);
            /* A cut is counted in the write that seals its rounds: the count cannot be less. */
            rounds->cuts = FG_MAX(rounds->cuts, FG_MAX(round.cut, round.born));
        } else {
            (void)ing_catalog_reserve_tenant(catalog, round.key.group.tenant);
            ing_damage_set_aside(
                damage,
                "round %u of shard %u, window %u with %llu profiles: tenant %u is not known",
                round.key.number, round.key.group.shard, round.key.group.window,
                (unsigned long long)round.count, round.key.group.tenant);
        }
    }
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "head");
}

/* *ret_number 0: there is none; UINT64_MAX: it cannot be read. */
static enum fg_code load_number(struct fg_store *store, struct fg_slice key, uint64_t *ret_number,
                                struct fg_err *err)
{
    enum fg_code code;
    struct fg_buf value;
    struct fg_cur cur;
    bool found;

    fg_buf_init(&value, 64);
    code = fg_store_get(store, HEAD_META, key, &value, &found, err);
    cur = fg_cur(fg_buf_slice(&value));
    *ret_number = code == FG_OK && found ? fg_cur_varint(&cur) : 0;
    if (!fg_cur_end(&cur))
        *ret_number = UINT64_MAX;
    fg_buf_done(&value);
    return code;
}

static enum fg_code load_numbers(struct ing_rounds *rounds, struct fg_store *store,
                                 struct ing_damage *damage, struct fg_err *err)
{
    uint64_t cuts, seen;

    if (load_number(store, cuts_key, &cuts, err) != FG_OK ||
        load_number(store, seen_key, &seen, err) != FG_OK)
        return err->code;
    if (cuts > UINT32_MAX || cuts < rounds->cuts)
        ing_damage_repaired(damage, "the number of cuts: %u, as the rounds say", rounds->cuts);
    else
        rounds->cuts = (uint32_t)cuts;
    if (seen == UINT64_MAX)
        ing_damage_repaired(damage, "the generation that was seen: it will be noted again");
    else
        rounds->seen = seen;
    return FG_OK;
}

/* Where the profiles of the round end. */
static void seek_past_round(struct fg_store_iter *iter, const struct ing_head_round_key *key)
{
    struct ing_head_round_key after = *key;
    struct fg_buf bytes;

    after.number++;
    fg_buf_init(&bytes, HEAD_ROUND_KEY_BYTES);
    ing_head_put_round_key(&bytes, &after);
    fg_store_iter_seek(iter, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/*
 * A round made of its profiles, on the first of which the iterator stands; it ends behind the last.
 * It is set aside, so that it is committed by itself: its group may have an open round.
 */
static struct ing_round make_round(const struct ing_rounds *rounds, struct fg_store_iter *iter,
                                   const struct ing_head_round_key *key)
{
    struct ing_round round = ing_round_empty(key);
    struct ing_head_profile_key profile;

    round.state = ROUND_ASIDE;
    round.born = 0; /* what its profiles name may be as old as anything here */
    round.cut = rounds->cuts;
    for (; iter->valid && ing_head_get_profile_key(iter->key, &profile) &&
           ing_head_same_round(&profile.round, key);
         fg_store_iter_next(iter))
        ing_round_add(&round, profile.time_ns, profile.id, iter->value.len);
    return round;
}

/* Finds profiles whose round has no record: a seek for each round, since there are few of them and
 * many profiles in each. */
static enum fg_code adopt_profiles(struct ing_rounds *rounds, struct fg_store *store,
                                   struct ing_catalog *catalog, struct ing_damage *damage,
                                   struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    struct ing_head_profile_key key;

    while (iter->valid) {
        struct ing_round round;

        if (!ing_head_get_profile_key(iter->key, &key)) {
            ing_damage_set_aside(damage, "profile with a key of %zu bytes", iter->key.len);
            fg_store_iter_next(iter);
            continue;
        }
        if (!ing_catalog_has_tenant(catalog, key.round.group.tenant) ||
            ing_rounds_find(rounds, &key.round, &round)) {
            seek_past_round(iter, &key.round);
            continue;
        }
        round = make_round(rounds, iter, &key.round);
        ing_damage_repaired(
            damage, "round %u of tenant %u, shard %u, window %u: made again from %llu profiles",
            key.round.number, key.round.group.tenant, key.round.group.shard, key.round.group.window,
            (unsigned long long)round.count);
        set(rounds, &round);
    }
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "head");
}

enum fg_code ing_rounds_open(struct fg_store *store, struct ing_catalog *catalog,
                             uint64_t max_bytes, struct ing_damage *damage,
                             struct ing_rounds **ret_rounds, struct fg_err *err)
{
    struct ing_rounds *rounds = fg_new(struct ing_rounds);

    fg_rwlock_init(&rounds->lock);
    rounds->max_bytes = max_bytes;
    if (load_rounds(rounds, store, catalog, damage, err) != FG_OK ||
        load_numbers(rounds, store, damage, err) != FG_OK ||
        adopt_profiles(rounds, store, catalog, damage, err) != FG_OK) {
        ing_rounds_close(rounds);
        return err->code;
    }
    *ret_rounds = rounds;
    return FG_OK;
}

void ing_rounds_close(struct ing_rounds *rounds)
{
    if (rounds == NULL)
        return;
    for (uint32_t t = 0; t < rounds->n_tenants; t++) {
        fg_map_done(&rounds->tenants[t].map);
        free(rounds->tenants[t].places);
    }
    free(rounds->tenants);
    fg_rwlock_done(&rounds->lock);
    free(rounds);
}
