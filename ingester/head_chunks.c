/*
 * Chunks by tenant, since queries and budgets go by tenants. A map finds the chunks of a group;
 * places that are gone stay in the array until most of it is gone, because a fg_map cannot delete.
 *
 * One lock for everything, held for look-ups and copies: readers get copies and never a pointer.
 * Only the committer's thread changes chunks, so what it has read it may write back. Memory follows
 * the store: it changes after the batch is written.
 */
#include "ingester/head_chunks.h"

#include "common/base/map.h"
#include "common/model/tenant_share.h"
#include "common/runtime/rwlock.h"

struct chunks_place {
    struct ing_head_chunk chunk;
    bool gone;
};

/* The chunks of one tenant. */
struct tenant_chunks {
    struct chunks_place *places;
    uint32_t n_places, cap_places, n_gone;
    struct fg_map map; /* group_hash() -> place */
};

struct ing_head_chunks {
    struct fg_rwlock lock;         /* of all below; the committer writes, queries read */
    struct tenant_chunks *tenants; /* by number */
    uint32_t n_tenants, cap_tenants;
    uint32_t cuts;
    bool any_in_doubt;
    uint64_t seen; /* as of the start */
    /* Of tenants without a name; not among those above. Does not change after the start. */
    struct ing_head_chunk *nameless;
    size_t n_nameless, cap_nameless;
    uint64_t bytes, max_bytes;
};

/* Below it a rebuild gains nothing. */
enum { GONE_KEPT_MIN = 64 };

static const struct fg_slice cuts_key = {(const uint8_t *)"cut", 3};
static const struct fg_slice seen_key = {(const uint8_t *)"manifest", 8};

/* ---- one chunk ---- */

struct ing_head_chunk ing_head_chunk_empty(const struct ing_head_chunk_key *key)
{
    return (struct ing_head_chunk){.key = *key, .least_ns = INT64_MAX, .greatest_ns = INT64_MIN};
}

void ing_head_chunk_add(struct ing_head_chunk *chunk, int64_t time_ns, struct fg_id id,
                        size_t bytes)
{
    chunk->count++;
    chunk->bytes += bytes;
    chunk->least_ns = FG_MIN(chunk->least_ns, time_ns);
    chunk->greatest_ns = FG_MAX(chunk->greatest_ns, time_ns);
    chunk->digest = fg_id_add(chunk->digest, id);
}

void ing_head_chunk_join(struct ing_head_chunk *chunk, const struct ing_head_chunk *other)
{
    chunk->count += other->count;
    chunk->bytes += other->bytes;
    chunk->least_ns = FG_MIN(chunk->least_ns, other->least_ns);
    chunk->greatest_ns = FG_MAX(chunk->greatest_ns, other->greatest_ns);
    chunk->digest = fg_id_add(chunk->digest, other->digest);
}

void ing_head_chunk_put(const struct ing_head_chunk *chunk, struct fg_store_batch *out)
{
    uint8_t digest[FG_ID_BYTES];
    struct fg_buf key, value;

    fg_buf_init(&key, HEAD_CHUNK_KEY_BYTES);
    fg_buf_init(&value, SIZE_MAX);
    ing_head_put_chunk_key(&key, &chunk->key);
    fg_buf_varint(&value, chunk->count);
    fg_buf_varint(&value, chunk->bytes);
    fg_buf_varint(&value, chunk->born);
    fg_buf_zigzag(&value, chunk->opened_wall_ns);
    fg_buf_zigzag(&value, chunk->least_ns);
    fg_buf_zigzag(&value, chunk->greatest_ns);
    fg_id_put(digest, chunk->digest);
    fg_buf_append(&value, digest, sizeof digest);
    fg_buf_putc(&value, (uint8_t)chunk->state);
    fg_buf_varint(&value, chunk->cut);
    fg_buf_varint(&value, chunk->generation);
    fg_store_put(out, HEAD_CHUNKS, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

void ing_head_chunk_delete(const struct ing_head_chunk_key *key, struct fg_store_batch *out)
{
    struct ing_head_chunk_key after = *key;
    struct fg_buf from, to;

    after.number++; /* a number counts cuts of the group: there are never 2^32 */
    fg_buf_init(&from, HEAD_CHUNK_KEY_BYTES);
    fg_buf_init(&to, HEAD_CHUNK_KEY_BYTES);
    ing_head_put_chunk_key(&from, key);
    ing_head_put_chunk_key(&to, &after);
    fg_store_delete(out, HEAD_CHUNKS, fg_buf_slice(&from));
    fg_store_delete_range(out, HEAD_PROFILES, fg_buf_slice(&from), fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
}

/* ---- places (under the lock) ---- */

static uint64_t group_hash(const struct ing_head_group_key *key)
{
    /* Without the number, so one walk finds all chunks of a group. */
    return fg_mix64((uint64_t)key->window << 16 | key->shard);
}

static struct tenant_chunks *tenant_of(const struct ing_head_chunks *chunks, uint32_t number)
{
    return number < chunks->n_tenants ? &chunks->tenants[number] : NULL;
}

static struct tenant_chunks *make_tenant(struct ing_head_chunks *chunks, uint32_t number)
{
    if (number >= chunks->cap_tenants) {
        chunks->cap_tenants = FG_MAX(number + 1, chunks->cap_tenants * 2);
        chunks->tenants =
            fg_realloc(chunks->tenants, chunks->cap_tenants * sizeof *chunks->tenants);
    }
    for (; chunks->n_tenants <= number; chunks->n_tenants++) {
        chunks->tenants[chunks->n_tenants] = (struct tenant_chunks){0};
        fg_map_init(&chunks->tenants[chunks->n_tenants].map);
    }
    return &chunks->tenants[number];
}

static struct chunks_place *find_place(const struct tenant_chunks *tenant,
                                       const struct ing_head_chunk_key *key)
{
    struct fg_map_walk walk;

    if (tenant == NULL)
        return NULL;
    for (uint32_t i = fg_map_first(&tenant->map, group_hash(&key->group), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&tenant->map, &walk))
        if (!tenant->places[i].gone && ing_head_same_chunk(&tenant->places[i].chunk.key, key))
            return &tenant->places[i];
    return NULL;
}

static size_t tenant_bytes(const struct tenant_chunks *tenant)
{
    return fg_map_bytes(&tenant->map) + tenant->cap_places * sizeof *tenant->places;
}

/* A fg_map cannot delete, so table and map are rebuilt once most places are gone. */
static void close_gaps(struct tenant_chunks *tenant)
{
    uint32_t kept = 0;

    fg_map_clear(&tenant->map);
    for (uint32_t i = 0; i < tenant->n_places; i++) {
        if (tenant->places[i].gone)
            continue;
        tenant->places[kept] = tenant->places[i];
        fg_map_add(&tenant->map, group_hash(&tenant->places[kept].chunk.key.group), kept);
        kept++;
    }
    tenant->n_places = kept;
    tenant->n_gone = 0;
}

static void check_move(const struct ing_head_chunk *from, const struct ing_head_chunk *to)
{
    /* The same state: profiles came or went, or a write is repeated that may have succeeded. */
    fg_assert(from->state == to->state || ing_chunk_may_become(from->state, to->state));
    /* Readers go by it: a chunk is committed at one generation only. */
    fg_assert(from->state != CHUNK_COMMITTED || from->generation == to->generation);
}

static void put_chunk(struct ing_head_chunks *chunks, const struct ing_head_chunk *chunk)
{
    struct tenant_chunks *tenant = make_tenant(chunks, chunk->key.group.tenant);
    struct chunks_place *place = find_place(tenant, &chunk->key);
    size_t before = tenant_bytes(tenant);

    /* The array does not grow, so the sum of the bytes stays. */
    if (place != NULL) {
        check_move(&place->chunk, chunk);
        place->chunk = *chunk;
        return;
    }
    if (tenant->n_gone > GONE_KEPT_MIN && 2 * tenant->n_gone > tenant->n_places)
        close_gaps(tenant);
    if (tenant->n_places == tenant->cap_places) {
        tenant->cap_places = FG_MAX(16, tenant->cap_places * 2);
        tenant->places = fg_realloc(tenant->places, tenant->cap_places * sizeof *tenant->places);
    }
    fg_map_add(&tenant->map, group_hash(&chunk->key.group), tenant->n_places);
    tenant->places[tenant->n_places++] = (struct chunks_place){.chunk = *chunk};
    chunks->bytes += tenant_bytes(tenant) - before;
}

/* ---- the committer's side ---- */

void ing_head_chunks_set(struct ing_head_chunks *chunks, const struct ing_head_chunk *chunk)
{
    fg_rwlock_write(&chunks->lock);
    put_chunk(chunks, chunk);
    fg_rwlock_unlock(&chunks->lock);
}

void ing_head_chunks_remove(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key)
{
    struct tenant_chunks *tenant;
    struct chunks_place *place;

    fg_rwlock_write(&chunks->lock);
    tenant = tenant_of(chunks, key->group.tenant);
    place = find_place(tenant, key);
    if (place != NULL) {
        place->gone = true;
        tenant->n_gone++;
        /* An idle tenant takes no memory. */
        if (tenant->n_gone == tenant->n_places) {
            chunks->bytes -= tenant_bytes(tenant);
            free(tenant->places);
            fg_map_done(&tenant->map);
            *tenant = (struct tenant_chunks){0};
        }
    }
    fg_rwlock_unlock(&chunks->lock);
}

void ing_head_chunks_doubt(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key)
{
    struct chunks_place *place;

    fg_rwlock_write(&chunks->lock);
    place = find_place(tenant_of(chunks, key->group.tenant), key);
    if (place != NULL) {
        place->chunk.in_doubt = true;
        chunks->any_in_doubt = true;
    }
    fg_rwlock_unlock(&chunks->lock);
}

void ing_head_chunks_settle(struct ing_head_chunks *chunks)
{
    fg_rwlock_write(&chunks->lock);
    /* The flag spares the walk over all chunks in the usual case. */
    for (uint32_t t = 0; chunks->any_in_doubt && t < chunks->n_tenants; t++)
        for (uint32_t i = 0; i < chunks->tenants[t].n_places; i++)
            chunks->tenants[t].places[i].chunk.in_doubt = false;
    chunks->any_in_doubt = false;
    fg_rwlock_unlock(&chunks->lock);
}

uint32_t ing_head_chunks_cuts(struct ing_head_chunks *chunks)
{
    uint32_t cuts;

    fg_rwlock_read(&chunks->lock);
    cuts = chunks->cuts;
    fg_rwlock_unlock(&chunks->lock);
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

void ing_head_chunks_put_cuts(uint32_t cuts, struct fg_store_batch *out)
{
    put_number(cuts_key, cuts, out);
}

uint64_t ing_head_chunks_seen(const struct ing_head_chunks *chunks)
{
    return chunks->seen;
}

void ing_head_chunks_put_seen(uint64_t generation, struct fg_store_batch *out)
{
    put_number(seen_key, generation, out);
}

void ing_head_chunks_set_cuts(struct ing_head_chunks *chunks, uint32_t cuts)
{
    fg_rwlock_write(&chunks->lock);
    chunks->cuts = cuts;
    fg_rwlock_unlock(&chunks->lock);
}

/* ---- looking ---- */

uint32_t ing_head_chunks_least_born(struct ing_head_chunks *chunks)
{
    uint32_t least = UINT32_MAX;

    fg_rwlock_read(&chunks->lock);
    for (uint32_t t = 0; t < chunks->n_tenants; t++)
        for (uint32_t i = 0; i < chunks->tenants[t].n_places; i++)
            if (!chunks->tenants[t].places[i].gone)
                least = FG_MIN(least, chunks->tenants[t].places[i].chunk.born);
    fg_rwlock_unlock(&chunks->lock);
    return least;
}

bool ing_head_chunks_find(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                          struct ing_head_chunk *ret_chunk)
{
    const struct chunks_place *place;

    fg_rwlock_read(&chunks->lock);
    place = find_place(tenant_of(chunks, key->group.tenant), key);
    if (place != NULL)
        *ret_chunk = place->chunk;
    fg_rwlock_unlock(&chunks->lock);
    return place != NULL;
}

void ing_head_chunks_put_known(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                               struct fg_store_batch *out)
{
    struct ing_head_chunk known;
    struct fg_buf bytes;

    if (ing_head_chunks_find(chunks, key, &known)) {
        ing_head_chunk_put(&known, out);
        return;
    }
    fg_buf_init(&bytes, HEAD_CHUNK_KEY_BYTES);
    ing_head_put_chunk_key(&bytes, key);
    fg_store_delete(out, HEAD_CHUNKS, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

size_t ing_head_chunks_of_group(struct ing_head_chunks *chunks,
                                const struct ing_head_group_key *key,
                                struct ing_head_chunk *ret_chunks, size_t max)
{
    const struct tenant_chunks *tenant;
    struct fg_map_walk walk;
    size_t n = 0;

    fg_rwlock_read(&chunks->lock);
    tenant = tenant_of(chunks, key->tenant);
    for (uint32_t i = tenant == NULL ? FG_MAP_NONE
                                     : fg_map_first(&tenant->map, group_hash(key), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&tenant->map, &walk)) {
        const struct chunks_place *place = &tenant->places[i];

        if (place->gone || !ing_head_same_group(&place->chunk.key.group, key))
            continue;
        if (n < max)
            ret_chunks[n] = place->chunk;
        n++;
    }
    fg_rwlock_unlock(&chunks->lock);
    return n;
}

static bool passes(const struct ing_head_chunks_filter *filter, const struct chunks_place *place)
{
    const struct ing_head_chunk *chunk = &place->chunk;

    if (place->gone || chunk->count == 0 || chunk->least_ns > filter->end_ns ||
        chunk->greatest_ns < filter->start_ns)
        return false;
    return filter->any_state || chunk->state != CHUNK_COMMITTED ||
           chunk->generation > filter->generation;
}

static int chunk_order(const void *left, const void *right)
{
    return ing_head_chunk_cmp(&((const struct ing_head_chunk *)left)->key,
                              &((const struct ing_head_chunk *)right)->key);
}

/* Tenants [from, to). Under the lock. */
static struct ing_head_chunk *collect(const struct ing_head_chunks *chunks, uint32_t from,
                                      uint32_t to, const struct ing_head_chunks_filter *filter,
                                      struct fg_arena *arena, size_t *ret_count)
{
    struct ing_head_chunk *found;
    size_t most = 0, count = 0;

    for (uint32_t t = from; t < to; t++)
        most += chunks->tenants[t].n_places;
    found = fg_arena_alloc(arena, most * sizeof *found);
    for (uint32_t t = from; found != NULL && t < to; t++)
        for (uint32_t i = 0; i < chunks->tenants[t].n_places; i++)
            if (passes(filter, &chunks->tenants[t].places[i]))
                found[count++] = chunks->tenants[t].places[i].chunk;
    *ret_count = count;
    return found;
}

const struct ing_head_chunks_filter ing_head_chunks_all = {
    .any_tenant = true, .start_ns = INT64_MIN, .end_ns = INT64_MAX, .any_state = true};

enum fg_code ing_head_chunks_select(struct ing_head_chunks *chunks,
                                    const struct ing_head_chunks_filter *filter,
                                    struct fg_arena *arena, struct ing_head_chunk **ret_chunks,
                                    size_t *ret_count, struct fg_err *err)
{
    struct ing_head_chunk *found;
    uint32_t from, to;

    fg_rwlock_read(&chunks->lock);
    from = filter->any_tenant ? 0 : FG_MIN(filter->tenant, chunks->n_tenants);
    to = filter->any_tenant ? chunks->n_tenants : FG_MIN(from + 1, chunks->n_tenants);
    /* Sort after the lock is released: a writer that waits would keep out all readers. */
    found = collect(chunks, from, to, filter, arena, ret_count);
    fg_rwlock_unlock(&chunks->lock);
    if (found == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many groups for a query");
    if (*ret_count > 1)
        qsort(found, *ret_count, sizeof *found, chunk_order);
    *ret_chunks = found;
    return FG_OK;
}

size_t ing_head_chunks_bytes(struct ing_head_chunks *chunks)
{
    size_t bytes;

    fg_rwlock_read(&chunks->lock);
    bytes = chunks->bytes;
    fg_rwlock_unlock(&chunks->lock);
    return bytes;
}

bool ing_head_chunks_have_room(struct ing_head_chunks *chunks, uint32_t tenant, double share)
{
    const struct tenant_chunks *of;
    uint64_t used, growth = 0;
    bool have;

    fg_rwlock_read(&chunks->lock);
    of = tenant_of(chunks, tenant);
    used = of == NULL ? 0 : tenant_bytes(of);
    if (of != NULL && share < 1) /* its arrays may double with the next chunk */
        growth = fg_map_growth(&of->map) +
                 (of->n_places == of->cap_places ? of->cap_places * sizeof *of->places : 0);
    have = chunks->bytes + growth <= chunks->max_bytes &&
           fg_share_allows(share, used + growth, chunks->max_bytes - chunks->bytes - growth);
    fg_rwlock_unlock(&chunks->lock);
    return have;
}

/* ---- reading back ---- */

static bool decode_chunk(struct fg_slice key, struct fg_slice value,
                         struct ing_head_chunk *ret_chunk)
{
    struct fg_cur cur = fg_cur(value);
    struct ing_head_chunk chunk = {.count = 0};
    struct fg_slice digest;
    uint64_t born, cut;
    uint8_t state;

    /* The record is from the disk: check everything before it is used. */
    if (!ing_head_get_chunk_key(key, &chunk.key))
        return false;
    chunk.count = fg_cur_varint(&cur);
    chunk.bytes = fg_cur_varint(&cur);
    born = fg_cur_varint(&cur);
    chunk.born = (uint32_t)born;
    chunk.opened_wall_ns = fg_cur_zigzag(&cur);
    chunk.least_ns = fg_cur_zigzag(&cur);
    chunk.greatest_ns = fg_cur_zigzag(&cur);
    digest = fg_cur_take(&cur, FG_ID_BYTES);
    state = fg_cur_u8(&cur);
    cut = fg_cur_varint(&cur);
    chunk.cut = (uint32_t)cut;
    chunk.generation = fg_cur_varint(&cur);
    if (!fg_cur_end(&cur) || state >= CHUNK_STATES || cut > UINT32_MAX || born > UINT32_MAX)
        return false;
    chunk.digest = fg_id_get(digest.ptr);
    chunk.state = (enum ing_chunk_state)state;
    *ret_chunk = chunk;
    return true;
}

const struct ing_head_chunk *ing_head_chunks_nameless(const struct ing_head_chunks *chunks,
                                                      size_t *ret_count)
{
    *ret_count = chunks->n_nameless;
    return chunks->nameless;
}

bool ing_head_chunks_has_nameless(const struct ing_head_chunks *chunks)
{
    for (size_t i = 0; i < chunks->n_nameless; i++)
        if (chunks->nameless[i].state != CHUNK_COMMITTED)
            return true;
    return false;
}

static void add_nameless(struct ing_head_chunks *chunks, const struct ing_head_chunk *chunk)
{
    if (chunks->n_nameless == chunks->cap_nameless) {
        chunks->cap_nameless = FG_MAX(16, chunks->cap_nameless * 2);
        chunks->nameless =
            fg_realloc(chunks->nameless, chunks->cap_nameless * sizeof *chunks->nameless);
    }
    chunks->nameless[chunks->n_nameless++] = *chunk;
}

/* Notes a chunk of a tenant without a name that has no record, unless it is among the first n,
 * which have records. Its profiles are not read: their times are those of the window. */
static void note_nameless(struct ing_head_chunks *chunks, size_t n,
                          const struct ing_head_chunk_key *key, struct ing_damage *damage)
{
    const struct ing_head_chunk chunk = {
        .key = *key,
        .state = CHUNK_ASIDE,
        .least_ns = ing_head_window_first_ns(key->group.window),
        .greatest_ns = ing_head_window_end_ns(key->group.window),
    };

    if (n > 0 && bsearch(&chunk, chunks->nameless, n, sizeof chunk, chunk_order) != NULL)
        return;
    add_nameless(chunks, &chunk);
    ing_damage_set_aside(
        damage, "head chunk %u of shard %u, window %u without a record: tenant %u is not known",
        key->number, key->group.shard, key->group.window, key->group.tenant);
}

/* The greatest number is none: the group's next chunk would get one that may be taken. */
static void set_aside_numberless(struct ing_catalog *catalog, const struct ing_head_chunk_key *key,
                                 struct ing_damage *damage)
{
    ing_catalog_tenant_set_lacks(ing_catalog_tenant_at(catalog, key->group.tenant), true);
    ing_damage_set_aside(damage, "head chunk of tenant %u, shard %u, window %u: it has no number",
                         key->group.tenant, key->group.shard, key->group.window);
}

static enum fg_code load_chunks(struct ing_head_chunks *chunks, struct fg_store *store,
                                struct ing_catalog *catalog, struct ing_damage *damage,
                                struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, HEAD_CHUNKS, FG_LIT(""), FG_LIT(""));

    for (; iter->valid; fg_store_iter_next(iter)) {
        struct ing_head_chunk chunk;

        if (!decode_chunk(iter->key, iter->value, &chunk)) {
            ing_damage_repaired(damage, "a head chunk cannot be read: rebuilt from its profiles");
        } else if (ing_catalog_has_tenant(catalog, chunk.key.group.tenant) &&
                   chunk.key.number == UINT32_MAX) {
            set_aside_numberless(catalog, &chunk.key, damage);
        } else if (ing_catalog_has_tenant(catalog, chunk.key.group.tenant)) {
            put_chunk(chunks, &chunk);
            /* The number of cuts is in the write that seals chunks, so it cannot be less. */
            chunks->cuts = FG_MAX(chunks->cuts, FG_MAX(chunk.cut, chunk.born));
        } else {
            /* So that no new tenant gets the number, and with it these profiles. */
            (void)ing_catalog_reserve_tenant(catalog, chunk.key.group.tenant);
            add_nameless(chunks, &chunk);
            ing_damage_set_aside(
                damage,
                "head chunk %u of shard %u, window %u with %llu profiles: tenant %u is not known",
                chunk.key.number, chunk.key.group.shard, chunk.key.group.window,
                (unsigned long long)chunk.count, chunk.key.group.tenant);
        }
    }
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "head");
}

/* Reads a number. 0: there is none; UINT64_MAX: it cannot be read. */
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
    /* A number that cannot be read is damage and no error: the caller goes on without it. */
    if (!fg_cur_end(&cur))
        *ret_number = UINT64_MAX;
    fg_buf_done(&value);
    return code;
}

enum fg_code ing_head_chunks_stored_cuts(struct fg_store *store, uint32_t *ret_cuts,
                                         struct fg_err *err)
{
    uint64_t cuts = 0;
    enum fg_code code = load_number(store, cuts_key, &cuts, err);

    *ret_cuts = (uint32_t)FG_MIN(cuts, (uint64_t)UINT32_MAX);
    return code;
}

static enum fg_code load_numbers(struct ing_head_chunks *chunks, struct fg_store *store,
                                 struct ing_damage *damage, struct fg_err *err)
{
    uint64_t cuts, seen;

    if (load_number(store, cuts_key, &cuts, err) != FG_OK ||
        load_number(store, seen_key, &seen, err) != FG_OK)
        return err->code;
    if (cuts > UINT32_MAX || cuts < chunks->cuts)
        ing_damage_repaired(
            damage, "the number of cuts is lost: set to %u, the greatest of the head chunks",
            chunks->cuts);
    else
        chunks->cuts = (uint32_t)cuts;
    if (seen == UINT64_MAX)
        ing_damage_repaired(damage, "the generation that was seen: it will be noted again");
    else
        chunks->seen = seen;
    return FG_OK;
}

/* A walk over the profiles, from chunk to chunk. */
struct adopting {
    struct fg_store_iter *iter;
    struct fg_buf at; /* the last key that was read, or that was sought since */
};

/* Moves the iterator behind the profiles of the chunk. Returns false if there are no more. */
static bool seek_past_chunk(struct adopting *adopting, const struct ing_head_chunk_key *key)
{
    fg_buf_clear(&adopting->at);
    ing_head_put_chunk_key(&adopting->at, key);
    if (!ing_head_next_prefix(&adopting->at))
        return false;
    fg_store_iter_seek(adopting->iter, fg_buf_slice(&adopting->at));
    return adopting->iter->valid;
}

/* Moves the iterator behind profiles that cannot be read. They stay, since nothing is written
 * between them any more once their chunks are sealed, and who needs them is told. Returns false if
 * there are no more. */
static bool pass_damage(struct adopting *adopting, struct ing_damage *damage)
{
    if (adopting->iter->err.code != FG_E_CORRUPT)
        return false;
    ing_damage_set_aside(damage, "profiles: %s", adopting->iter->err.msg);
    return fg_store_iter_pass(adopting->iter, fg_buf_slice(&adopting->at)) && adopting->iter->valid;
}

/* Rebuilds a chunk from its profiles; the iterator is at the first of them, and ends behind the
 * last. The chunk is set aside, so that it is committed by itself: its group may have an open
 * chunk. */
static struct ing_head_chunk make_chunk(const struct ing_head_chunks *chunks,
                                        struct adopting *adopting,
                                        const struct ing_head_chunk_key *key)
{
    struct fg_store_iter *iter = adopting->iter;
    struct ing_head_chunk chunk = ing_head_chunk_empty(key);
    struct ing_head_profile_key profile;

    chunk.state = CHUNK_ASIDE;
    chunk.born = 0; /* its profiles may name dictionaries as old as any here */
    chunk.cut = chunks->cuts;
    for (; iter->valid && ing_head_get_profile_key(iter->key, &profile) &&
           ing_head_same_chunk(&profile.chunk, key);
         fg_store_iter_next(iter)) {
        ing_head_chunk_add(&chunk, profile.time_ns, profile.id, iter->value.len);
        fg_buf_clear(&adopting->at);
        fg_buf_put(&adopting->at, iter->key);
    }
    return chunk;
}

/* Finds profiles whose chunk has no record. Seeks once for each chunk, since there are few chunks
 * with many profiles each. */
static enum fg_code adopt_each(struct ing_head_chunks *chunks, struct adopting *adopting,
                               struct ing_catalog *catalog, struct ing_damage *damage,
                               struct fg_err *err)
{
    struct fg_store_iter *iter = adopting->iter;
    const size_t n_nameless = chunks->n_nameless;
    struct ing_head_profile_key key;
    bool more = iter->valid;

    while (more || pass_damage(adopting, damage)) {
        struct ing_head_chunk chunk;

        fg_buf_clear(&adopting->at);
        fg_buf_put(&adopting->at, iter->key);
        if (!ing_head_get_profile_key(iter->key, &key)) {
            ing_damage_set_aside(damage, "profile with a key of %zu bytes", iter->key.len);
            fg_store_iter_next(iter);
            more = iter->valid;
            continue;
        }
        if (!ing_catalog_has_tenant(catalog, key.chunk.group.tenant)) {
            (void)ing_catalog_reserve_tenant(catalog, key.chunk.group.tenant);
            note_nameless(chunks, n_nameless, &key.chunk, damage);
            more = seek_past_chunk(adopting, &key.chunk);
            continue;
        }
        if (key.chunk.number == UINT32_MAX) {
            set_aside_numberless(catalog, &key.chunk, damage);
            more = seek_past_chunk(adopting, &key.chunk);
            continue;
        }
        if (ing_head_chunks_find(chunks, &key.chunk, &chunk)) {
            more = seek_past_chunk(adopting, &key.chunk);
            continue;
        }
        chunk = make_chunk(chunks, adopting, &key.chunk);
        ing_damage_repaired(
            damage, "head chunk %u of tenant %u, shard %u, window %u: rebuilt from %llu profiles",
            key.chunk.number, key.chunk.group.tenant, key.chunk.group.shard, key.chunk.group.window,
            (unsigned long long)chunk.count);
        put_chunk(chunks, &chunk);
        more = iter->valid;
    }
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "head");
}

static enum fg_code adopt_profiles(struct ing_head_chunks *chunks, struct fg_store *store,
                                   struct ing_catalog *catalog, struct ing_damage *damage,
                                   struct fg_err *err)
{
    struct adopting adopting = {
        .iter = fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""))};
    enum fg_code code;

    fg_buf_init(&adopting.at, SIZE_MAX);
    code = adopt_each(chunks, &adopting, catalog, damage, err);
    fg_store_iter_destroy(adopting.iter);
    fg_buf_done(&adopting.at);
    return code;
}

enum fg_code ing_head_chunks_open(struct fg_store *store, struct ing_catalog *catalog,
                                  uint64_t max_bytes, struct ing_damage *damage,
                                  struct ing_head_chunks **ret_chunks, struct fg_err *err)
{
    struct ing_head_chunks *chunks = fg_new(struct ing_head_chunks);

    fg_rwlock_init(&chunks->lock);
    chunks->max_bytes = max_bytes;
    /* In this order: numbers are compared with the chunks, and profiles are orphans only once all
     * chunks are known. */
    if (load_chunks(chunks, store, catalog, damage, err) != FG_OK ||
        load_numbers(chunks, store, damage, err) != FG_OK ||
        adopt_profiles(chunks, store, catalog, damage, err) != FG_OK) {
        ing_head_chunks_close(chunks);
        return err->code;
    }
    *ret_chunks = chunks;
    return FG_OK;
}

void ing_head_chunks_close(struct ing_head_chunks *chunks)
{
    if (chunks == NULL)
        return;
    for (uint32_t t = 0; t < chunks->n_tenants; t++) {
        fg_map_done(&chunks->tenants[t].map);
        free(chunks->tenants[t].places);
    }
    free(chunks->tenants);
    free(chunks->nameless);
    fg_rwlock_done(&chunks->lock);
    free(chunks);
}
