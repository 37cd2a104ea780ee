#include "ingester/query_shards.h"

#include "common/base/search.h"

#include <stdlib.h>

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "query needs too much memory for the sums of its shards");
}

/* ---- shards ---- */

static enum fg_code read_map(const Fg__Inner__Shards *from, ProtobufCBinaryData map,
                             const char *name, struct fg_slice *ret_map, struct fg_err *err)
{
    if (map.len > QUERY_MAP_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "shards: %s has %zu bytes, at most %d", name, map.len,
                       QUERY_MAP_MAX_BYTES);
    /* Bits beyond the last shard would wrap around to the first ones. */
    for (size_t i = 0; i < map.len * 8; i++)
        if ((map.data[i / 8] >> i % 8 & 1) != 0 && from->first + i > UINT16_MAX)
            return fg_fail(err, FG_E_INVALID, "shards: %s has shard %zu, the last is %u", name,
                           from->first + i, UINT16_MAX);
    *ret_map = fg_bytes(map.data, map.len);
    return FG_OK;
}

static uint64_t group_number(uint16_t shard, uint32_t window)
{
    return (uint64_t)shard << 32 | window;
}

static int cmp_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static enum fg_code read_groups(const Fg__Inner__Shards *from, struct fg_arena *arena,
                                struct ing_query_shards *shards, struct fg_err *err)
{
    if (from->n_ids_of > QUERY_GROUPS_MAX)
        return fg_fail(err, FG_E_INVALID, "shards: ids of %zu groups, at most %d", from->n_ids_of,
                       QUERY_GROUPS_MAX);
    shards->ids_of = fg_arena_new(arena, uint64_t, from->n_ids_of);
    if (shards->ids_of == NULL)
        return too_large(err);
    for (size_t i = 0; i < from->n_ids_of; i++) {
        const Fg__Inner__Group *group = from->ids_of[i];

        if (group->shard > UINT16_MAX)
            return fg_fail(err, FG_E_INVALID, "shards: ids of shard %u, the last is %u",
                           group->shard, UINT16_MAX);
        shards->ids_of[i] = group_number((uint16_t)group->shard, group->window);
    }
    /* Sorted for bsearch(): one look-up for each group of the scan. */
    shards->n_ids_of = from->n_ids_of;
    if (shards->n_ids_of > 1)
        qsort(shards->ids_of, shards->n_ids_of, sizeof *shards->ids_of, cmp_numbers);
    return FG_OK;
}

enum fg_code ing_query_shards_read(const Fg__Inner__Shards *from, struct fg_arena *arena,
                                   struct ing_query_shards *ret_shards, struct fg_err *err)
{
    struct ing_query_shards shards = {.all = from == NULL};

    if (from != NULL) {
        shards.first = from->first;
        shards.ids_since_ns = from->ids_since_ns;
        if (from->first > UINT16_MAX)
            return fg_fail(err, FG_E_INVALID, "shards: the first is %u, the last there is %u",
                           from->first, UINT16_MAX);
        if (read_map(from, from->data, "data", &shards.data, err) != FG_OK ||
            read_map(from, from->sums, "sums", &shards.sums, err) != FG_OK ||
            read_groups(from, arena, &shards, err) != FG_OK)
            return err->code;
    }
    *ret_shards = shards;
    return FG_OK;
}

static bool is_in(const struct ing_query_shards *shards, struct fg_slice map, uint16_t shard)
{
    size_t bit = (size_t)shard - shards->first;

    return shard >= shards->first && bit / 8 < map.len && (map.ptr[bit / 8] >> bit % 8 & 1) != 0;
}

bool ing_query_shards_data(const struct ing_query_shards *shards, uint16_t shard)
{
    return shards->all || is_in(shards, shards->data, shard);
}

bool ing_query_shards_sums(const struct ing_query_shards *shards, uint16_t shard)
{
    return !shards->all && is_in(shards, shards->sums, shard);
}

/* ---- ids ---- */

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

enum fg_code ing_query_ids_read(ProtobufCBinaryData from, struct fg_arena *arena,
                                struct ing_query_ids *ret_ids, struct fg_err *err)
{
    struct ing_query_ids ids = {.n = from.len / FG_ID_BYTES};

    if (from.len % FG_ID_BYTES != 0)
        return fg_fail(err, FG_E_INVALID, "ids of profiles: %zu bytes, not a multiple of %d",
                       from.len, FG_ID_BYTES);
    if (ids.n > QUERY_IDS_MAX)
        return fg_fail(err, FG_E_INVALID, "ids of profiles: %zu, at most %d", ids.n, QUERY_IDS_MAX);
    if (ids.n > 0) {
        ids.items = fg_arena_new(arena, struct fg_id, ids.n);
        if (ids.items == NULL)
            return too_large(err);
        for (size_t i = 0; i < ids.n; i++)
            ids.items[i] = fg_id_get(from.data + i * FG_ID_BYTES);
        qsort(ids.items, ids.n, sizeof *ids.items, cmp_ids);
    }
    *ret_ids = ids;
    return FG_OK;
}

size_t ing_query_ids_find(const struct ing_query_ids *ids, struct fg_id id)
{
    const struct fg_id *found =
        ids->n == 0 ? NULL : bsearch(&id, ids->items, ids->n, sizeof *ids->items, cmp_ids);

    return found == NULL ? SIZE_MAX : (size_t)(found - ids->items);
}

bool ing_query_ids_have(const struct ing_query_ids *ids, struct fg_id id)
{
    /* No list means all: an empty list is not sent. */
    return ids->items == NULL || ing_query_ids_find(ids, id) != SIZE_MAX;
}

/* ---- sums ---- */

void ing_query_sums_init(struct ing_query_sums *sums, const struct ing_query_shards *shards,
                         struct fg_arena *arena, uint64_t max_bytes)
{
    *sums = (struct ing_query_sums){.shards = shards, .arena = arena};
    fg_buf_init(&sums->ids, max_bytes);
}

void ing_query_sums_done(struct ing_query_sums *sums)
{
    fg_buf_done(&sums->ids);
}

/* Returns whether the answer names the profiles of the group themselves. */
static bool is_by_ids(const struct ing_query_shards *shards, const struct ing_head_group_key *group)
{
    uint64_t number = group_number(group->shard, group->window);

    return shards->n_ids_of > 0 && bsearch(&number, shards->ids_of, shards->n_ids_of,
                                           sizeof *shards->ids_of, cmp_numbers) != NULL;
}

/* Writes the ids in ascending order, as bytes. */
static bool put_ids(const struct ing_query_sums *sums, ProtobufCBinaryData *ret_bytes)
{
    struct fg_id *ids = (struct fg_id *)sums->ids.ptr;
    size_t n = sums->ids.len / sizeof *ids;
    uint8_t *bytes = fg_arena_alloc(sums->arena, n * FG_ID_BYTES);

    if (bytes == NULL)
        return false;
    if (n > 1)
        qsort(ids, n, sizeof *ids, cmp_ids);
    for (size_t i = 0; i < n; i++)
        fg_id_put(bytes + i * FG_ID_BYTES, ids[i]);
    *ret_bytes = (ProtobufCBinaryData){n * FG_ID_BYTES, bytes};
    return true;
}

static bool put_digest(const struct ing_query_sums *sums, ProtobufCBinaryData *ret_bytes)
{
    uint8_t *bytes = fg_arena_alloc(sums->arena, FG_ID_BYTES);

    if (bytes == NULL)
        return false;
    fg_id_put(bytes, sums->digest);
    *ret_bytes = (ProtobufCBinaryData){FG_ID_BYTES, bytes};
    return true;
}

static enum fg_code close_group(struct ing_query_sums *sums, struct fg_err *err)
{
    Fg__Inner__GroupSum *item;

    sums->open = false;
    /* A group without profiles that match is not listed: for the reader it is as if the head had
     * none. */
    if (sums->count == 0 && sums->ids.len == 0)
        return FG_OK;
    item = fg_arena_new(sums->arena, Fg__Inner__GroupSum, 1);
    if (item == NULL ||
        !fg_arena_grow(sums->arena, &sums->items, sums->n, 1, &sums->cap, sizeof(void *)))
        return too_large(err);
    fg__inner__group_sum__init(item);
    item->shard = sums->shard;
    item->window = sums->window;
    item->count = sums->count;
    if ((!fg_id_is_zero(sums->digest) && !put_digest(sums, &item->digest)) ||
        (sums->ids.len > 0 && !put_ids(sums, &item->ids)))
        return too_large(err);
    sums->items[sums->n++] = item;
    return FG_OK;
}

enum fg_code ing_query_sums_group(struct ing_query_sums *sums,
                                  const struct ing_head_group_key *group, struct fg_err *err)
{
    if (sums->open && sums->shard == group->shard && sums->window == group->window)
        return FG_OK;
    if (sums->open && close_group(sums, err) != FG_OK)
        return err->code;
    sums->open = true;
    sums->shard = group->shard;
    sums->window = group->window;
    sums->by_ids = is_by_ids(sums->shards, group);
    sums->count = 0;
    sums->digest = (struct fg_id){0};
    fg_buf_clear(&sums->ids);
    return FG_OK;
}

enum fg_code ing_query_sums_add(struct ing_query_sums *sums, int64_t time_ns, struct fg_id id,
                                struct fg_err *err)
{
    /* Ids of the youngest profiles are sent at once: replicas differ there, since pushes are under
     * way, and a sum would only cost a second call. */
    if (!sums->by_ids && time_ns < sums->shards->ids_since_ns) {
        ing_query_sums_add_all(sums, 1, id);
        return FG_OK;
    }
    fg_buf_append(&sums->ids, &id, sizeof id);
    return sums->ids.full ? too_large(err) : FG_OK;
}

void ing_query_sums_add_all(struct ing_query_sums *sums, uint64_t count, struct fg_id digest)
{
    sums->count += count;
    sums->digest = fg_id_add(sums->digest, digest);
}

enum fg_code ing_query_sums_finish(struct ing_query_sums *sums, struct fg_err *err)
{
    return sums->open ? close_group(sums, err) : FG_OK;
}

/* Returns the place of a group that has counted profiles. */
static uint32_t place_of(const struct ing_query_sums *sums, const struct ing_head_group_key *group)
{
    uint64_t number = group_number(group->shard, group->window);
    uint32_t at = fg_lower_bound(
        i, 0, sums->n,
        group_number((uint16_t)sums->items[i]->shard, sums->items[i]->window) < number);

    fg_assert(at < sums->n && sums->items[at]->shard == group->shard &&
              sums->items[at]->window == group->window);
    return at;
}

static void remove_id(Fg__Inner__GroupSum *item, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES], *end = item->ids.data + item->ids.len, *at = item->ids.data;

    fg_id_put(bytes, id);
    /* One after another: a group is of one shard and a few minutes. */
    while (at < end && memcmp(at, bytes, sizeof bytes) != 0)
        at += sizeof bytes;
    fg_assert(at < end);
    memmove(at, at + sizeof bytes, (size_t)(end - at) - sizeof bytes);
    item->ids.len -= sizeof bytes;
}

/* Subtracts from the digest, which has no bytes if it is zero. */
static enum fg_code subtract(struct ing_query_sums *sums, ProtobufCBinaryData *digest,
                             struct fg_id id, struct fg_err *err)
{
    struct fg_id rest = digest->len == 0 ? (struct fg_id){0} : fg_id_get(digest->data);

    rest = fg_id_sub(rest, id);
    if (digest->data == NULL) {
        digest->data = fg_arena_alloc(sums->arena, FG_ID_BYTES);
        if (digest->data == NULL)
            return too_large(err);
    }
    fg_id_put(digest->data, rest);
    digest->len = fg_id_is_zero(rest) ? 0 : FG_ID_BYTES;
    return FG_OK;
}

enum fg_code ing_query_sums_remove(struct ing_query_sums *sums,
                                   const struct ing_head_group_key *group, int64_t time_ns,
                                   struct fg_id id, struct fg_err *err)
{
    uint32_t place = place_of(sums, group);
    Fg__Inner__GroupSum *item = sums->items[place];

    if (is_by_ids(sums->shards, group) || time_ns >= sums->shards->ids_since_ns) {
        remove_id(item, id);
    } else {
        if (subtract(sums, &item->digest, id, err) != FG_OK)
            return err->code;
        item->count--;
    }
    /* As if it had never been begun (close_group()). */
    if (item->count == 0 && item->ids.len == 0) {
        memmove(&sums->items[place], &sums->items[place + 1],
                (sums->n - place - 1) * sizeof(void *));
        sums->n--;
    }
    return FG_OK;
}
