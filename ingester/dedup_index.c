/*
 * A search goes from the manifests down to ids: the objects of the tenant whose time overlaps,
 * their directories, the groups of each part, and the ids of the groups that are asked for.
 * Everything that was parsed is cached by object, so the next late profile of a group needs only
 * the manifests. Objects never change, so the cache is never wrong.
 *
 * Locks: `lock` guards the kept manifests and is held for the steps of a snapshot only; the bucket
 * is read without it. The cache has its own lock.
 *
 * Damage makes a query unsure instead of failing it, because one lost object must not stop the
 * pushes of everybody. A missing object is different: at first it means that the snapshot is old,
 * and only a fresh snapshot that still lists it makes it lost.
 */
#include "ingester/dedup_index.h"

#include "common/base/arena.h"
#include "common/base/search.h"
#include "common/cluster/manifest/snapshot.h"
#include "common/storage/block/reader.h"
#include "common/storage/bucket/damage.h"

enum {
    TENANTS_MAX = 64,           /* manifests that are kept; late data is of few tenants at a time */
    ATTEMPTS_MAX = 3,           /* objects that are gone mean that the snapshot is old */
    CACHED_MAX_BYTES = 1 << 30, /* memory of one parsed part of an object */
    WHOLE_MAX_BYTES = 256 << 20, /* segments that are larger are read piece by piece */
};

/* Manifests that are older than this, or than the least generation of a search, are read again. */
static const int64_t MANIFEST_AGE_NS = 5 * FG_SECOND_NS;

/* What is cached of objects; for the ids of a group the shard is part of the kind. */
enum what { WHAT_DIRECTORY, WHAT_GROUPS, WHAT_IDS, WHAT_SHARD = 8 };

/* clang-format off */
#define DEDUP_METRICS(M)                                                                            \
    M(COUNTER, DEDUP_SEARCHES, "flamegrid_ingester_late_searches_total", "Searches of late or repeated profiles in all live segments and blocks")
/* clang-format on */
FG_METRICS_ENUM(dedup_metric, DEDUP_METRICS)
FG_METRICS_TABLE(dedup_metrics, DEDUP_METRICS)

struct ing_dedup {
    struct ing_dedup_config config;
    struct fg_metrics *metrics;
    struct fg_cache *cache;
    struct fg_snapshots *snapshots;
    _Atomic uint64_t n_found; /* calls of ing_dedup_find() that succeeded */
};

struct ing_dedup *ing_dedup_create(const struct ing_dedup_config *config)
{
    struct ing_dedup *dedup = fg_new(struct ing_dedup);

    dedup->config = *config;
    dedup->cache = fg_cache_create(config->cache_max_bytes, config->clock);
    dedup->metrics = fg_metrics_register(config->registry, dedup_metrics, FG_COUNT(dedup_metrics));
    dedup->snapshots =
        fg_snapshots_create(&(struct fg_snapshots_config){.bucket = config->bucket,
                                                          .clock = config->clock,
                                                          .tenants_max = TENANTS_MAX,
                                                          .age_max_ns = MANIFEST_AGE_NS});
    return dedup;
}

void ing_dedup_destroy(struct ing_dedup *dedup)
{
    if (dedup == NULL)
        return;
    fg_snapshots_destroy(dedup->snapshots);
    fg_cache_destroy(dedup->cache);
    free(dedup);
}

/* A call of ing_dedup_find(). */
struct search {
    struct ing_dedup *dedup;
    struct fg_slice tenant;
    const struct ing_dedup_query **queries; /* of the tenant, by shard and window */
    size_t n_queries;
    struct ing_dedup_until until;
    struct fg_err *err;
    struct fg_snapshot snapshot;
    bool lost_is_lost; /* an object that is gone is missing from a fresh snapshot, too */
    /* The one object that there is to search, once it was read; empty: pieces are read. */
    bool want_whole;
    struct fg_buf whole;
};

/* ---- the snapshot ---- */

static enum fg_code take_snapshot(struct search *search, uint64_t least, bool fresh)
{
    struct fg_snapshots_how how = {.least = least,
                                   .fresh = fresh,
                                   .deadline_mono_ns = search->until.deadline_mono_ns,
                                   .stop = search->until.stop};

    return fg_snapshots_take(search->dedup->snapshots, &search->snapshot, &how, search->err);
}

/* ---- cached parts of objects ---- */

/* An object on its way through a search. */
struct dedup_object {
    const char *name;
    struct fg_id id;
    uint64_t bytes;
    struct fg_block_range directory;
};

/* A cached object: what was parsed, in an arena of its own. */
struct dedup_cached {
    struct fg_arena *arena;
    struct fg_block_directory directory;
    struct fg_block_group *groups; /* of the part */
    struct fg_id *ids;             /* ascending */
    size_t n_ids;
};

static void cached_destroy(void *value)
{
    struct dedup_cached *cached = value;

    fg_arena_destroy(cached->arena);
    free(cached);
}

static enum fg_code call_range(const struct search *search, const struct dedup_object *object,
                               struct fg_block_range range, struct fg_bucket_request *get)
{
    *get = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET,
        .name = object->name,
        .offset = range.offset,
        .length = range.len,
        .content_max_bytes = range.len,
        .deadline_mono_ns = search->until.deadline_mono_ns,
    };
    if (fg_bucket_call_until(search->dedup->config.bucket, get, search->until.stop) == FG_OK)
        return FG_OK;
    *search->err = get->err;
    if (get->code == FG_E_INVALID)
        search->err->code = FG_E_CORRUPT; /* it ends before the range begins */
    return search->err->code;
}

static enum fg_code get_range(const struct search *search, const struct dedup_object *object,
                              struct fg_block_range range, struct fg_bucket_request *get)
{
    if (search->whole.len > 0) {
        struct fg_slice piece = fg_slice_sub(fg_buf_slice(&search->whole),
                                             FG_MIN(range.offset, search->whole.len), SIZE_MAX);

        *get = (struct fg_bucket_request){.verb = FG_BUCKET_GET};
        /* A copy, so that both ways of getting a range are freed alike. It is shorter if the object
         * ends before. */
        fg_buf_init(&get->body, range.len);
        fg_buf_append(&get->body, piece.ptr, FG_MIN(piece.len, range.len));
    } else if (call_range(search, object, range, get) != FG_OK) {
        return search->err->code;
    }
    if (get->body.len != range.len)
        return fg_fail(search->err, FG_E_CORRUPT, "%s: ends before its directory says",
                       object->name);
    return FG_OK;
}

/* What to get from the cache, or to load. */
struct dedup_wanted {
    const struct dedup_object *object;
    enum what what;
    const struct dedup_cached *directory;
    uint32_t part;
    uint16_t shard;
    uint32_t window;
};

static const struct fg_block_part *part_of(const struct dedup_wanted *wanted)
{
    return &wanted->directory->directory.parts[wanted->part];
}

static enum fg_code load_directory(const struct search *search, const struct dedup_wanted *wanted,
                                   struct dedup_cached *cached)
{
    struct fg_bucket_request get;
    enum fg_code code = get_range(search, wanted->object, wanted->object->directory, &get);

    if (code == FG_OK)
        code = fg_block_directory_parse(fg_buf_slice(&get.body), wanted->object->bytes,
                                        search->dedup->config.bucket->keys, cached->arena,
                                        &cached->directory, search->err);
    fg_bucket_clear(&get);
    return code;
}

static enum fg_code load_groups(const struct search *search, const struct dedup_wanted *wanted,
                                struct dedup_cached *cached)
{
    const struct fg_block_part *part = part_of(wanted);
    struct fg_bucket_request get;
    enum fg_code code =
        get_range(search, wanted->object, fg_block_part_range(part, FG_BLOCK_WANT_GROUPS), &get);

    if (code == FG_OK)
        code = fg_block_groups_parse(part, fg_buf_slice(&get.body), cached->arena, &cached->groups,
                                     search->err);
    fg_bucket_clear(&get);
    return code;
}

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* Adds the ids of the group that are in one page of rows. */
static enum fg_code add_ids_of_page(const struct search *search, const struct dedup_wanted *wanted,
                                    const struct fg_block_index *index, uint32_t page,
                                    struct fg_arena *scratch, struct dedup_cached *cached)
{
    const struct fg_block_page *rows_page = &index->pages[FG_BLOCK_IDX].pages[page];
    const struct fg_block_pages *id_pages = &index->pages[FG_BLOCK_PID];
    struct fg_bucket_request get;
    struct fg_block_rows rows;
    enum fg_code code = get_range(
        search, wanted->object, (struct fg_block_range){rows_page->offset, rows_page->bytes}, &get);

    if (code == FG_OK)
        code =
            fg_block_rows_parse(index, page, fg_buf_slice(&get.body), scratch, &rows, search->err);
    fg_bucket_clear(&get);
    /* Pages of ids and of rows are cut at different profiles, so several pages of ids may cover one
     * page of rows. */
    for (uint32_t p = 0; code == FG_OK && p < id_pages->count; p++) {
        const struct fg_block_page *ids_page = &id_pages->pages[p];
        struct fg_id *ids;

        if (ids_page->first >= rows.first + rows.count ||
            ids_page->first + ids_page->items <= rows.first)
            continue;
        code = get_range(search, wanted->object,
                         (struct fg_block_range){ids_page->offset, ids_page->bytes}, &get);
        if (code == FG_OK)
            code =
                fg_block_ids_parse(index, p, fg_buf_slice(&get.body), scratch, &ids, search->err);
        fg_bucket_clear(&get);
        for (uint32_t i = 0; code == FG_OK && i < rows.count; i++) {
            uint32_t profile = rows.first + i;

            if (rows.shards[i] == wanted->shard && rows.windows[i] == wanted->window &&
                profile >= ids_page->first && profile < ids_page->first + ids_page->items)
                cached->ids[cached->n_ids++] = ids[profile - ids_page->first];
        }
    }
    return code;
}

/* Loads the ids of a group. Reads only the pages of rows whose time overlaps the window. */
static enum fg_code load_ids(const struct search *search, const struct dedup_wanted *wanted,
                             struct dedup_cached *cached)
{
    const struct fg_block_part *part = part_of(wanted);
    fg_auto(fg_arena) *scratch = fg_arena_create(CACHED_MAX_BYTES);
    struct fg_bucket_request get;
    struct fg_block_index index;
    const struct fg_block_pages *pages;
    enum fg_code code =
        get_range(search, wanted->object, fg_block_part_range(part, FG_BLOCK_WANT_SERIES), &get);

    if (code == FG_OK)
        code = fg_block_part_parse(part, fg_buf_slice(&get.body), scratch, &index, search->err);
    fg_bucket_clear(&get);
    if (code != FG_OK)
        return code;
    /* As many as the part has: an upper bound that is known before the pages are read. */
    cached->ids = fg_arena_new(cached->arena, struct fg_id, part->n_profiles);
    if (cached->ids == NULL)
        return fg_fail(search->err, FG_E_LIMIT, "%s: too many ids", wanted->object->name);
    pages = &index.pages[FG_BLOCK_IDX];
    for (uint32_t p = 0; p < pages->count && code == FG_OK; p++)
        if (pages->pages[p].t_min_ns < ing_head_window_end_ns(wanted->window) &&
            pages->pages[p].t_max_ns >= ing_head_window_first_ns(wanted->window))
            code = add_ids_of_page(search, wanted, &index, p, scratch, cached);
    if (code == FG_OK && cached->n_ids > 1)
        qsort(cached->ids, cached->n_ids, sizeof *cached->ids, cmp_ids);
    return code;
}

static enum fg_code load_cached(const struct search *search, const struct dedup_wanted *wanted,
                                struct dedup_cached *cached)
{
    switch (wanted->what) {
    case WHAT_DIRECTORY:
        return load_directory(search, wanted, cached);
    case WHAT_GROUPS:
        return load_groups(search, wanted, cached);
    default:
        return load_ids(search, wanted, cached);
    }
}

/* Gets an object from the cache, or loads it. The caller drops the reference to the entry. */
static enum fg_code get_cached(const struct search *search, const struct dedup_wanted *wanted,
                               struct fg_cache_entry **ret_entry)
{
    const struct fg_cache_key key = {
        .object = wanted->object->id,
        .what = (uint32_t)wanted->what | (uint32_t)wanted->shard << WHAT_SHARD,
        .part = wanted->part,
        .number = wanted->window,
    };
    enum fg_cache_state state;
    struct fg_cache_entry *entry = NULL;
    struct dedup_cached *cached;
    bool mine;

    for (;;) {
        entry = fg_cache_open(search->dedup->cache, &key, 0, &state, &mine);
        /* Exactly one caller loads; the others wait for it or, if it fails, try themselves with
         * their own deadline. */
        if (mine)
            break;
        if (state == FG_CACHE_LOADING)
            state = fg_cache_wait(entry, search->until.deadline_mono_ns -
                                             fg_mono_ns(search->dedup->config.clock));
        if (state == FG_CACHE_READY) {
            *ret_entry = entry;
            return FG_OK;
        }
        fg_cache_unref(entry); /* another caller failed to load it; try again */
        if (state == FG_CACHE_LOADING)
            return fg_fail(search->err, FG_E_DEADLINE,
                           "the duplicate check of late profiles took too long");
    }
    cached = fg_new(struct dedup_cached);
    cached->arena = fg_arena_create(CACHED_MAX_BYTES);
    if (load_cached(search, wanted, cached) != FG_OK) {
        fg_cache_fail(entry);
        fg_cache_unref(entry);
        cached_destroy(cached);
        return search->err->code;
    }
    fg_cache_fill(entry, cached, sizeof *cached + fg_arena_used_bytes(cached->arena),
                  cached_destroy);
    *ret_entry = entry;
    return FG_OK;
}

/* ---- a search ---- */

static uint64_t order_of(uint16_t shard, uint32_t window)
{
    return (uint64_t)shard << 32 | window;
}

static uint64_t order_of_query(const struct ing_dedup_query *query)
{
    return order_of(query->shard, query->window);
}

static int cmp_queries(const void *left, const void *right)
{
    const struct ing_dedup_query *const *a = left, *const *b = right;
    uint64_t x = order_of_query(*a), y = order_of_query(*b);

    return (x > y) - (x < y);
}

static uint64_t order_of_group(const struct dedup_cached *groups, uint32_t number)
{
    return order_of(groups->groups[number].shard, groups->groups[number].window);
}

static enum fg_code add_all(const struct search *search, const struct dedup_cached *cached,
                            struct ing_dedup_ids *all)
{
    struct fg_id *ids = fg_arena_new(all->arena, struct fg_id, all->n + cached->n_ids);

    if (ids == NULL)
        return fg_fail(search->err, FG_E_LIMIT, "too many ids to check");
    if (all->n > 0)
        memcpy(ids, all->ids, all->n * sizeof *ids);
    if (cached->n_ids > 0)
        memcpy(ids + all->n, cached->ids, cached->n_ids * sizeof *ids);
    all->ids = ids;
    all->n += cached->n_ids;
    return FG_OK;
}

/* Returns true if a profile of the window may be in this time. */
static bool overlaps(uint32_t window, int64_t t_min_ns, int64_t t_max_ns)
{
    return t_min_ns < ing_head_window_end_ns(window) &&
           t_max_ns >= ing_head_window_first_ns(window);
}

/* ---- damage ---- */

/* Returns true if the search failed because the object is damaged, missing, or needs a newer
 * program. Reports the object then, and the search continues without it. */
static bool is_damaged(const struct search *search, const char *object)
{
    enum fg_code code = search->err->code;

    /* A lost object is believed only in a fresh snapshot (lost_is_lost): before that, a compactor
     * may have replaced it. */
    if (!fg_damage_unusable(code) || (code == FG_E_NOT_FOUND && !search->lost_is_lost))
        return false;
    fg_damage_met(search->dedup->config.bucket->damage, object, code, search->err->msg);
    return true;
}

/* Marks the queries about these times as unsure. */
static void make_unsure(const struct search *search, int64_t t_min_ns, int64_t t_max_ns)
{
    for (size_t q = 0; q < search->n_queries; q++)
        if (overlaps(search->queries[q]->window, t_min_ns, t_max_ns))
            *search->queries[q]->unsure = true;
}

/* ---- objects ---- */

static enum fg_code search_group(const struct search *search, struct dedup_wanted wanted,
                                 const struct ing_dedup_query *query)
{
    struct fg_cache_entry *entry = NULL;
    const struct dedup_cached *cached;
    enum fg_code code = FG_OK;

    wanted.what = WHAT_IDS;
    wanted.shard = query->shard;
    wanted.window = query->window;
    if (get_cached(search, &wanted, &entry) != FG_OK) {
        if (!is_damaged(search, wanted.object->name))
            return search->err->code;
        /* The group is listed, so the object has ids of it, and which ones is unknown. */
        *query->unsure = true;
        return FG_OK;
    }
    cached = fg_cache_value(entry);
    for (size_t i = 0; i < query->n_ids && cached->n_ids > 0; i++)
        if (bsearch(&query->ids[i], cached->ids, cached->n_ids, sizeof *cached->ids, cmp_ids) !=
            NULL)
            query->found[i] = true;
    if (query->all != NULL)
        code = add_all(search, cached, query->all);
    fg_cache_unref(entry);
    return code;
}

static bool any_overlaps(const struct search *search, int64_t t_min_ns, int64_t t_max_ns)
{
    for (size_t q = 0; q < search->n_queries; q++)
        if (overlaps(search->queries[q]->window, t_min_ns, t_max_ns))
            return true;
    return false;
}

/* Both the part's groups and the queries are in order, and either may be a few among many. */
static enum fg_code search_part(const struct search *search, struct dedup_wanted wanted)
{
    const struct fg_block_part *part = part_of(&wanted);
    struct fg_cache_entry *entry = NULL;
    const struct dedup_cached *groups;
    enum fg_code code = FG_OK;
    uint32_t g = 0;
    size_t q = 0;

    if (!any_overlaps(search, part->t_min_ns, part->t_max_ns))
        return FG_OK;
    wanted.what = WHAT_GROUPS;
    if (get_cached(search, &wanted, &entry) != FG_OK) {
        if (!is_damaged(search, wanted.object->name))
            return search->err->code;
        make_unsure(search, part->t_min_ns, part->t_max_ns);
        return FG_OK;
    }
    groups = fg_cache_value(entry);
    while (code == FG_OK && q < search->n_queries) {
        uint64_t order = order_of_query(search->queries[q]);

        /* The first group that is not before the query, or the first query that is not before the
         * group: both are sorted, so the search leaps over what has no counterpart. */
        g = fg_lower_bound(i, g, part->n_groups, order_of_group(groups, i) < order);
        if (g == part->n_groups)
            break;
        if (order_of_group(groups, g) == order)
            code = search_group(search, wanted, search->queries[q++]);
        else
            q = fg_lower_bound(i, q, search->n_queries,
                               order_of_query(search->queries[i]) < order_of_group(groups, g));
    }
    fg_cache_unref(entry);
    return code;
}

/* Reads the object whole, once, when something of it is needed. */
static enum fg_code read_whole(struct search *search, const struct dedup_object *object)
{
    struct fg_bucket_request get;

    search->want_whole = false;
    /* Then pieces are read on demand. */
    if (object->bytes > WHOLE_MAX_BYTES)
        return FG_OK;
    if (call_range(search, object, (struct fg_block_range){0, object->bytes}, &get) != FG_OK)
        return search->err->code;
    search->whole = get.body;
    get.body = (struct fg_buf){0};
    fg_bucket_clear(&get);
    return FG_OK;
}

static enum fg_code search_object(struct search *search, const struct dedup_object *object,
                                  int64_t t_min_ns, int64_t t_max_ns)
{
    struct dedup_wanted wanted = {.object = object, .what = WHAT_DIRECTORY};
    const struct fg_block_directory *directory;
    struct fg_cache_entry *entry = NULL;
    enum fg_code code = FG_OK;

    if (!any_overlaps(search, t_min_ns, t_max_ns))
        return FG_OK;
    if ((search->want_whole && read_whole(search, object) != FG_OK) ||
        get_cached(search, &wanted, &entry) != FG_OK) {
        if (!is_damaged(search, object->name))
            return search->err->code;
        make_unsure(search, t_min_ns, t_max_ns);
        return FG_OK;
    }
    wanted.directory = fg_cache_value(entry);
    directory = &wanted.directory->directory;
    wanted.part = fg_block_part_find(directory, search->tenant, FG_LIT(""));
    for (; code == FG_OK && wanted.part < directory->n_parts &&
           fg_slice_eq(directory->parts[wanted.part].tenant, search->tenant);
         wanted.part++)
        code = search_part(search, wanted);
    fg_cache_unref(entry);
    return code;
}

static enum fg_code search_segment(struct search *search, const struct fg_l0_segment *segment)
{
    const struct fg_l0 *l0 = &search->snapshot.l0->l0;
    uint32_t tenant = fg_l0_tenant(l0, search->tenant);
    const struct fg_l0_part *part = tenant == FG_L0_NO_TENANT ? NULL : fg_l0_part(segment, tenant);
    char name[FG_NAME_MAX_BYTES];

    /* The manifest says which tenants a segment has, so most segments cost nothing. */
    if (part == NULL)
        return FG_OK;
    fg_name_segment(name, &segment->id);
    return search_object(
        search,
        &(struct dedup_object){name,
                               fg_hash128(fg_cstr(name)),
                               segment->bytes,
                               {segment->directory_offset, segment->directory_bytes}},
        part->t_min_ns, part->t_max_ns);
}

static enum fg_code search_segments(struct search *search)
{
    const struct fg_l0 *l0 = &search->snapshot.l0->l0;

    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (fg_snapshot_reads(&search->snapshot, 0, &l0->segments[i]) &&
            search_segment(search, &l0->segments[i]) != FG_OK)
            return search->err->code;
    return FG_OK;
}

static enum fg_code search_blocks(struct search *search)
{
    const struct fg_blocks *blocks = &search->snapshot.blocks[0]->blocks;

    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];
        char name[FG_NAME_MAX_BYTES];

        if (block->derived) /* its profiles are in others */
            continue;
        if (fg_name_block(name, search->tenant, block->id, search->err) != FG_OK ||
            search_object(search,
                          &(struct dedup_object){name,
                                                 fg_hash128(fg_cstr(name)),
                                                 block->bytes,
                                                 {block->directory_offset, block->directory_bytes}},
                          block->t_min_ns, block->t_max_ns) != FG_OK)
            return search->err->code;
    }
    return FG_OK;
}

static void clear_answers(const struct search *search)
{
    for (size_t q = 0; q < search->n_queries; q++) {
        *search->queries[q]->unsure = false;
        if (search->queries[q]->all != NULL)
            search->queries[q]->all->n = 0;
    }
}

/* Takes the snapshot. If the manifest of the tenant is damaged, the queries of this tenant become
 * unsure; other tenants are not affected. */
static enum fg_code take_tenant_snapshot(struct search *search, uint64_t least, bool fresh,
                                         bool *ret_taken)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_err unused;

    *ret_taken = take_snapshot(search, least, fresh) == FG_OK;
    if (*ret_taken)
        return FG_OK;
    if ((search->err->code != FG_E_CORRUPT && search->err->code != FG_E_UNIMPLEMENTED) ||
        !fg_snapshot_has_l0(&search->snapshot) ||
        fg_name_blocks(name, search->tenant, &unused) != FG_OK || !is_damaged(search, name))
        return search->err->code;
    /* It is unknown which blocks there are, so any time may be affected. */
    make_unsure(search, INT64_MIN, INT64_MAX);
    return FG_OK;
}

/* Searches everything that is live. Lowers *ret_generation to the generation that was searched;
 * leaves it if the manifest of the tenant is damaged. */
static enum fg_code search_all(struct search *search, uint64_t least, uint64_t *ret_generation)
{
    for (unsigned attempt = 1;; attempt++) {
        bool taken = false;
        enum fg_code code;

        search->lost_is_lost = attempt == ATTEMPTS_MAX;
        /* Drops the answers of an attempt that failed half-way. Ids that it found stay found: they
         * were in a live object. */
        clear_answers(search);
        code = take_tenant_snapshot(search, least, attempt > 1, &taken);
        if (code == FG_OK && taken)
            code = search_segments(search);
        if (code == FG_OK && taken)
            code = search_blocks(search);
        /* The least of all tenants: the caller takes it for what every query was compared with. */
        if (code == FG_OK && taken)
            *ret_generation = FG_MIN(*ret_generation, fg_snapshot_generation(&search->snapshot));
        if (code != FG_E_NOT_FOUND || attempt == ATTEMPTS_MAX)
            return code;
    }
}

/* Sets the tenant; NULL: only the L0 manifest is read. */
static void begin_snapshot(struct search *search, const struct fg_slice *tenant)
{
    fg_snapshots_open(search->dedup->snapshots, &search->snapshot, tenant, tenant != NULL);
}

static void end_snapshot(struct search *search)
{
    fg_snapshots_close(search->dedup->snapshots, &search->snapshot);
}

/* Takes over the queries of the tenant that the first one is about. Returns how many these are. */
static size_t take_tenant(struct search *search, const struct ing_dedup_query *queries, size_t n)
{
    search->tenant = queries[0].tenant;
    search->n_queries = 0;
    while (search->n_queries < n &&
           fg_slice_eq(queries[search->n_queries].tenant, search->tenant)) {
        search->queries[search->n_queries] = &queries[search->n_queries];
        search->n_queries++;
    }
    qsort(search->queries, search->n_queries, sizeof(void *), cmp_queries);
    return search->n_queries;
}

static enum fg_code search_one(struct search *search, const struct ing_dedup_query *queries,
                               size_t n, uint64_t generation, bool fresh)
{
    const struct fg_l0_segment *segment;

    if (take_snapshot(search, generation, fresh) != FG_OK)
        return search->err->code;
    segment = fg_l0_segment(&search->snapshot.l0->l0, generation);
    if (segment == NULL)
        return fg_fail(search->err, FG_E_NOT_FOUND,
                       "the segment of generation %llu is no longer live",
                       (unsigned long long)generation);
    search->want_whole = true;
    for (size_t i = 0; i < n;) {
        i += take_tenant(search, queries + i, n - i);
        clear_answers(search);
        if (search_segment(search, segment) != FG_OK)
            return search->err->code;
    }
    return FG_OK;
}

static enum fg_code find_in_segment(struct search *search, const struct ing_dedup_query *queries,
                                    size_t n, uint64_t generation)
{
    enum fg_code code;

    begin_snapshot(search, NULL);
    code = search_one(search, queries, n, generation, false);
    if (code == FG_E_NOT_FOUND) { /* it has left meanwhile, or is lost */
        search->lost_is_lost = true;
        code = search_one(search, queries, n, generation, true);
    }
    end_snapshot(search);
    fg_buf_done(&search->whole);
    return code;
}

static enum fg_code find_everywhere(struct search *search, const struct ing_dedup_query *queries,
                                    size_t n, uint64_t least, uint64_t *ret_generation)
{
    uint64_t generation = UINT64_MAX;
    enum fg_code code = FG_OK;

    fg_metric_add(search->dedup->metrics, DEDUP_SEARCHES, 1);
    for (size_t i = 0; code == FG_OK && i < n;) {
        /* One tenant after another, since a snapshot is of one. Queries of a tenant are adjacent.
         */
        begin_snapshot(search, &queries[i].tenant);
        i += take_tenant(search, queries + i, n - i);
        code = search_all(search, least, &generation);
        end_snapshot(search);
    }
    if (code == FG_OK)
        *ret_generation = generation == UINT64_MAX ? least : generation;
    return code;
}

enum fg_code ing_dedup_find(struct ing_dedup *dedup, const struct ing_dedup_query *queries,
                            size_t n, uint64_t only, uint64_t least, struct ing_dedup_until until,
                            uint64_t *ret_generation, struct fg_err *err)
{
    struct search search = {
        .dedup = dedup,
        .queries = fg_calloc(n, sizeof(void *)),
        .until = until,
        .err = err,
    };
    enum fg_code code;

    fg_assert(n > 0);
    if (only == 0)
        code = find_everywhere(&search, queries, n, least, ret_generation);
    else
        code = find_in_segment(&search, queries, n, only);
    if (code == FG_OK && only != 0)
        *ret_generation = only;
    /* The caller takes the answer for everything up to this generation. */
    fg_assert(code != FG_OK || *ret_generation >= (only != 0 ? only : least));
    /* Relaxed: a count that only says that the bucket has answered; it publishes nothing. */
    if (code == FG_OK)
        (void)atomic_fetch_add_explicit(&dedup->n_found, 1, memory_order_relaxed);
    free(search.queries);
    return code;
}

uint64_t ing_dedup_count_found(const struct ing_dedup *dedup)
{
    return atomic_load_explicit(&dedup->n_found, memory_order_relaxed);
}
