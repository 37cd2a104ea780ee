/*
 * Reads entries and their profiles. No lock: an iterator shows the store as it was when it was
 * made.
 *
 * A comparison with the bucket may move a profile to another chunk of its group while this looks
 * for it. One iterator sees it in exactly one of them, so a profile that it finds in no chunk of
 * the group is gone.
 */
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/outbox_impl.h"

struct fg_store_iter *ing_outbox_iter(const struct ing_outbox *outbox, enum ing_head_family family,
                                      unsigned target, uint64_t first, uint64_t last)
{
    uint16_t number = outbox->targets[target].number;
    struct fg_store_iter *iter;
    struct fg_buf from, to;

    fg_buf_init(&from, OUTBOX_KEY_BYTES);
    fg_buf_init(&to, OUTBOX_KEY_BYTES);
    ing_outbox_put_key(&from, number, first);
    ing_outbox_put_key(&to, number, last + 1);
    iter =
        fg_store_iter_create(outbox->config.store, family, fg_buf_slice(&from), fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
    return iter;
}

struct outbox_reading {
    struct ing_outbox *outbox;
    struct fg_arena *arena;
    struct fg_store_iter *profiles; /* over all */
    struct fg_buf key;              /* scratch */
    uint64_t damaged;               /* profiles that cannot be read */
    int64_t wall_ns;
    /* Of the tenant at hand. */
    bool has_tenant;
    uint32_t tenant;
    bool is_deleted;
    int64_t retention_ns; /* 0: it keeps profiles forever */
    struct fg_err *err;
};

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the entries of a span need more memory than there is");
}

static bool copy(struct fg_arena *arena, struct fg_slice bytes, struct fg_slice *ret_copy)
{
    uint8_t *to = fg_arena_alloc(arena, bytes.len);

    if (to == NULL)
        return false;
    if (bytes.len > 0)
        memcpy(to, bytes.ptr, bytes.len);
    *ret_copy = fg_bytes(to, bytes.len);
    return true;
}

/* ---- profiles ---- */

/* Returns true if the iterator stands on this profile. */
static bool seek_profile(struct outbox_reading *reading, const struct ing_head_profile_key *key)
{
    fg_buf_clear(&reading->key);
    ing_head_put_profile_key(&reading->key, key);
    fg_store_iter_seek(reading->profiles, fg_buf_slice(&reading->key));
    return reading->profiles->valid &&
           fg_slice_eq(reading->profiles->key, fg_buf_slice(&reading->key));
}

/* Returns true if the group has a chunk with this number or a greater one that has profiles, and
 * which. */
static bool seek_chunk(struct outbox_reading *reading, const struct ing_head_chunk_key *from,
                       uint32_t *ret_number)
{
    struct ing_head_profile_key found;

    fg_buf_clear(&reading->key);
    ing_head_put_chunk_key(&reading->key, from);
    fg_store_iter_seek(reading->profiles, fg_buf_slice(&reading->key));
    if (!reading->profiles->valid || !ing_head_get_profile_key(reading->profiles->key, &found) ||
        !ing_head_same_group(&found.chunk.group, &from->group))
        return false;
    *ret_number = found.chunk.number;
    return true;
}

/* Returns true if the iterator stands on the profile, in whatever chunk of its group; key->chunk is
 * that one then. */
static bool find_profile(struct outbox_reading *reading, struct ing_head_profile_key *key)
{
    struct ing_head_profile_key at = *key;

    if (seek_profile(reading, key)) /* nearly always */
        return true;
    at.chunk.number = 0;
    /* Not after an error, which the next seek would forget: the profile may be there. */
    while (reading->profiles->err.code == FG_OK &&
           seek_chunk(reading, &at.chunk, &at.chunk.number)) {
        if (seek_profile(reading, &at)) {
            *key = at;
            return true;
        }
        if (at.chunk.number++ == UINT32_MAX)
            break;
    }
    return false;
}

/* ---- entries ---- */

static void look_up_tenant(struct outbox_reading *reading, uint32_t tenant)
{
    struct ing_catalog *catalog = reading->outbox->config.catalog;
    struct fg_limits *limits;

    if (reading->has_tenant && reading->tenant == tenant)
        return;
    reading->has_tenant = true;
    reading->tenant = tenant;
    reading->retention_ns = 0;
    reading->is_deleted = ing_outbox_is_deleted(reading->outbox, tenant);
    if (!ing_catalog_has_tenant(catalog, tenant)) /* set aside (ingester/README.md) */
        return;
    /* Tenants stay while the ingester runs. */
    limits = fg_tenants_limits(reading->outbox->config.tenants,
                               ing_catalog_tenant_name(ing_catalog_tenant_at(catalog, tenant)));
    reading->retention_ns = limits->values.retention_period_ns;
    fg_limits_unref(limits);
}

static bool is_expired(const struct outbox_reading *reading, const struct ing_head_group_key *group)
{
    return reading->retention_ns > 0 && fg_time_add(ing_head_window_end_ns(group->window),
                                                    reading->retention_ns) < reading->wall_ns;
}

/* A key of another length belongs to nobody: the start has told of it (outbox_load.c). It may stand
 * between two good ones. */
static bool read_seq(const struct fg_store_iter *iter, uint64_t *ret_seq)
{
    uint16_t number;

    return ing_outbox_get_key(iter->key, &number, ret_seq);
}

/* Reads the entry on which the iterator stands. */
static enum fg_code read_entry(struct fg_arena *arena, const struct fg_store_iter *entries,
                               struct ing_outbox_item *item, struct fg_err *err)
{
    item->outcome = OUTBOX_AGAIN;
    if (ing_outbox_get_entry(entries->value, &item->entry))
        return FG_OK;
    item->outcome = OUTBOX_DAMAGED;
    return copy(arena, entries->value, &item->record) ? FG_OK : no_memory(err);
}

static void open_profiles(struct outbox_reading *reading)
{
    fg_store_iter_destroy(reading->profiles);
    reading->profiles =
        fg_store_iter_create(reading->outbox->config.store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
}

/* The disk has lost the profile: waiting for it would hold up all that is behind it for ever. */
static void refuse_damaged(struct outbox_reading *reading, struct ing_outbox_item *item)
{
    const struct fg_err *why = &reading->profiles->err;

    item->outcome = OUTBOX_REFUSED;
    item->reason = fg_arena_printf(reading->arena, "the profile cannot be read here: %s", why->msg);
    if (item->reason == NULL)
        item->reason = "the profile cannot be read here";
    if (reading->damaged++ == 0)
        fg_log_error("profiles to forward cannot be read, and are not sent",
                     fg_ls("err", why->msg));
    open_profiles(reading);
}

/* Looks for it twice if what was read is damaged, since that may not be the disk's fault. */
static bool find_or_retry(struct outbox_reading *reading, struct ing_outbox_item *item)
{
    bool found = find_profile(reading, &item->entry.key);

    if (found || reading->profiles->err.code != FG_E_CORRUPT)
        return found;
    open_profiles(reading);
    return find_profile(reading, &item->entry.key);
}

/* Reads the profile of an entry. */
static enum fg_code read_profile(struct outbox_reading *reading, struct ing_outbox_item *item)
{
    const struct ing_head_group_key *group = &item->entry.key.chunk.group;

    look_up_tenant(reading, group->tenant);
    if (reading->is_deleted || is_expired(reading, group)) {
        item->outcome = reading->is_deleted ? OUTBOX_DELETED : OUTBOX_EXPIRED;
        return FG_OK;
    }
    if (find_or_retry(reading, item))
        return copy(reading->arena, reading->profiles->value, &item->record)
                   ? FG_OK
                   : no_memory(reading->err);
    if (reading->profiles->err.code == FG_E_CORRUPT) {
        refuse_damaged(reading, item);
        return FG_OK;
    }
    if (reading->profiles->err.code != FG_OK) {
        *reading->err = reading->profiles->err;
        return fg_wrap(reading->err, "profile to forward");
    }
    item->outcome = OUTBOX_GONE;
    return FG_OK;
}

static enum fg_code check_iter(const struct fg_store_iter *iter, struct fg_err *err)
{
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "entries to forward");
}

/* Counts what is left of an iterator, at most `max`. */
static size_t count_left(struct fg_store_iter *iter, size_t max)
{
    size_t n = 0;

    for (; iter->valid && n < max; fg_store_iter_next(iter))
        n++;
    return n;
}

static void seek_first(struct fg_store_iter *iter, uint16_t number, uint64_t first)
{
    struct fg_buf key;

    fg_buf_init(&key, OUTBOX_KEY_BYTES);
    ing_outbox_put_key(&key, number, first);
    fg_store_iter_seek(iter, fg_buf_slice(&key));
    fg_buf_done(&key);
}

enum fg_code ing_outbox_read_entries(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                                     struct fg_arena *arena, struct ing_outbox_item **ret_items,
                                     size_t *ret_count, struct fg_err *err)
{
    fg_auto(fg_store_iter) *entries =
        ing_outbox_iter(outbox, HEAD_OUTBOX, span->target, span->first, span->last);
    size_t n = count_left(entries, SIZE_MAX), read = 0;
    struct ing_outbox_item *items;

    if (check_iter(entries, err) != FG_OK)
        return err->code;
    items = fg_arena_new(arena, struct ing_outbox_item, n);
    if (items == NULL)
        return no_memory(err);
    seek_first(entries, outbox->targets[span->target].number, span->first);
    for (; entries->valid && read < n; fg_store_iter_next(entries))
        if (read_seq(entries, &items[read].seq) &&
            read_entry(arena, entries, &items[read++], err) != FG_OK)
            return err->code;
    if (check_iter(entries, err) != FG_OK)
        return err->code;
    *ret_items = items;
    *ret_count = read;
    return FG_OK;
}

enum fg_code ing_outbox_read(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                             struct fg_arena *arena, struct ing_outbox_item **ret_items,
                             size_t *ret_count, struct fg_err *err)
{
    struct outbox_reading reading = {
        .outbox = outbox, .arena = arena, .wall_ns = fg_wall_ns(outbox->config.clock), .err = err};
    enum fg_code code = ing_outbox_read_entries(outbox, span, arena, ret_items, ret_count, err);

    if (code != FG_OK)
        return code;
    /* After the entries were read: whatever they name is there by then. */
    open_profiles(&reading);
    fg_buf_init(&reading.key, HEAD_PROFILE_KEY_BYTES);
    for (size_t i = 0; i < *ret_count && code == FG_OK; i++)
        if ((*ret_items)[i].outcome == OUTBOX_AGAIN)
            code = read_profile(&reading, &(*ret_items)[i]);
    fg_buf_done(&reading.key);
    fg_store_iter_destroy(reading.profiles);
    return code;
}

/* ---- dead entries ---- */

/* Sets tenant and labels of the profile, if the head still has them. */
static bool name_dead(struct ing_catalog *catalog, struct fg_arena *arena,
                      struct ing_outbox_dead *dead)
{
    const struct ing_head_profile_key *key = &dead->entry.key;
    unsigned entered = ing_catalog_enter(catalog);
    bool fits = true;

    if (ing_catalog_has_tenant(catalog, key->chunk.group.tenant)) {
        const struct ing_catalog_tenant *tenant =
            ing_catalog_tenant_at(catalog, key->chunk.group.tenant);
        const struct ing_catalog_series *series =
            ing_catalog_find_series(catalog, tenant, key->series);

        fits = copy(arena, ing_catalog_tenant_name(tenant), &dead->tenant);
        if (fits && series != NULL) {
            dead->labels = fg_labels_copy(&series->labels, arena);
            fits = dead->labels.items != NULL;
        }
    }
    ing_catalog_leave(catalog, entered);
    return fits;
}

static bool read_dead(const struct outbox_reading *reading, const struct fg_store_iter *iter,
                      struct ing_outbox_dead *dead)
{
    struct fg_slice reason, entry;

    if (!ing_outbox_get_dead(iter->value, &dead->died_wall_ns, &reason, &entry)) {
        dead->reason = FG_LIT("the dead entry cannot be read");
        return true;
    }
    dead->readable = ing_outbox_get_entry(entry, &dead->entry);
    return copy(reading->arena, reason, &dead->reason) &&
           (!dead->readable || name_dead(reading->outbox->config.catalog, reading->arena, dead));
}

enum fg_code ing_outbox_list_dead(struct ing_outbox *outbox, unsigned target, uint64_t from,
                                  size_t max, struct fg_arena *arena,
                                  struct ing_outbox_dead **ret_dead, size_t *ret_count,
                                  struct fg_err *err)
{
    const struct outbox_reading reading = {.outbox = outbox, .arena = arena};
    fg_auto(fg_store_iter) *iter =
        ing_outbox_iter(outbox, HEAD_OUTBOX_DEAD, target, from, UINT64_MAX - 1);
    size_t n = count_left(iter, max), read = 0;
    struct ing_outbox_dead *dead = fg_arena_new(arena, struct ing_outbox_dead, n);

    if (check_iter(iter, err) != FG_OK)
        return err->code;
    if (dead == NULL)
        return no_memory(err);
    seek_first(iter, outbox->targets[target].number, from);
    for (; iter->valid && read < n; fg_store_iter_next(iter))
        if (read_seq(iter, &dead[read].seq) && !read_dead(&reading, iter, &dead[read++]))
            return no_memory(err);
    if (check_iter(iter, err) != FG_OK)
        return err->code;
    *ret_dead = dead;
    *ret_count = read;
    return FG_OK;
}
