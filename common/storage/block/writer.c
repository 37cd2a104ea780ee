/*
 * The order of calls, of parts and of sections; what goes into them is in the write_ files.
 */
#include "common/base/crc32c.h"
#include "common/storage/block/reader.h"
#include "common/storage/block/writer_impl.h"

struct fg_block_writer *fg_block_writer_create(const struct fg_block_sink *sink, uint32_t level)
{
    struct fg_block_writer *writer = fg_new(struct fg_block_writer);
    struct fg_block_out *outs[] = {&writer->smp, &writer->exm, &writer->pid,
                                   &writer->idx, &writer->use, &writer->rest};
    static const uint32_t kinds[] = {FG_BLOCK_SMP, FG_BLOCK_EXM, FG_BLOCK_PID,
                                     FG_BLOCK_IDX, FG_BLOCK_USE, 0};

    writer->sink = *sink;
    writer->level = level;
    writer->version = FG_BLOCK_VERSION;
    writer->packer = fg_block_packer_create();
    writer->arena = fg_arena_create(SIZE_MAX / 4); /* as the header says; the caller has the tree */
    for (size_t i = 0; i < FG_COUNT(outs); i++) {
        outs[i]->kind = kinds[i];
        fg_buf_init(&outs[i]->stored, SIZE_MAX);
    }
    fg_buf_init(&writer->raw, SIZE_MAX);
    fg_buf_init(&writer->table, SIZE_MAX);
    fg_buf_init(&writer->directory, SIZE_MAX);
    fg_buf_init(&writer->groups, SIZE_MAX);
    fg_buf_init(&writer->rollups, SIZE_MAX);
    fg_buf_init(&writer->last_name, SIZE_MAX);
    fg_block_pages_init(&writer->pages);
    return writer;
}

void fg_block_writer_set_version(struct fg_block_writer *writer, uint32_t version)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_START);
    version = version == 0 ? FG_BLOCK_VERSION : version;
    fg_assert(version >= FG_BLOCK_VERSION_LEAST && version <= FG_BLOCK_VERSION);
    writer->version = version;
}

void fg_block_writer_set_keys(struct fg_block_writer *writer, const struct fg_keys *keys)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_START);
    writer->keys = keys;
}

static void out_done(struct fg_block_out *out)
{
    free(out->rows);
    fg_buf_done(&out->stored);
}

void fg_block_writer_destroy(struct fg_block_writer *writer)
{
    if (writer == NULL)
        return;
    fg_block_pages_done(&writer->pages);
    out_done(&writer->smp);
    out_done(&writer->exm);
    out_done(&writer->pid);
    out_done(&writer->idx);
    out_done(&writer->use);
    out_done(&writer->rest);
    fg_buf_done(&writer->raw);
    fg_buf_done(&writer->table);
    fg_buf_done(&writer->directory);
    fg_buf_done(&writer->groups);
    fg_buf_done(&writer->rollups);
    fg_buf_done(&writer->last_name);
    fg_arena_destroy(writer->arena);
    fg_block_packer_destroy(writer->packer);
    fg_block_sealer_destroy(writer->sealer);
    free(writer);
}

/* ---- bytes and pages ---- */

enum fg_code fg_block_emit(struct fg_block_writer *writer, struct fg_slice bytes,
                           struct fg_err *err)
{
    if (bytes.len == 0)
        return FG_OK;
    writer->offset += bytes.len;
    return writer->sink.append(writer->sink.arg, bytes, err);
}

/* magic, le16 version, le16 length of the header, le32 level, le32 checksum of these */
static enum fg_code emit_header(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_buf *raw = &writer->raw;

    fg_buf_clear(raw);
    fg_buf_puts(raw, FG_BLOCK_MAGIC);
    fg_buf_le32(raw, (uint32_t)FG_BLOCK_HEADER_BYTES << 16 | writer->version);
    fg_buf_le32(raw, writer->level);
    fg_buf_le32(raw, fg_crc32c(fg_buf_slice(raw)));
    fg_assert(raw->len == FG_BLOCK_HEADER_BYTES);
    return fg_block_emit(writer, fg_buf_slice(raw), err);
}

enum fg_code fg_block_page_put(struct fg_block_writer *writer, struct fg_block_out *out,
                               const struct fg_block_span *span, struct fg_err *err)
{
    struct fg_slice raw = fg_buf_slice(&writer->raw);
    struct fg_block_sealed stored = {.key = 0};

    if (raw.len > FG_BLOCK_PAGE_RAW_MAX_BYTES || out->n_rows == FG_BLOCK_PAGES_MAX)
        return fg_fail(err, FG_E_LIMIT, "a page of %zu bytes, the %uth of its section", raw.len,
                       out->n_rows + 1);
    if (fg_block_seal(fg_block_part_sealer(writer), out->kind, out->n_rows,
                      fg_block_pack(writer->packer, raw), raw.len, &stored, err) != FG_OK)
        return err->code;
    if (out->n_rows == out->cap_rows) {
        out->cap_rows = FG_MAX(16, out->cap_rows * 2);
        out->rows = fg_realloc(out->rows, out->cap_rows * sizeof *out->rows);
    }
    out->rows[out->n_rows++] = (struct fg_block_page_row){.raw_bytes = stored.raw_bytes,
                                                          .bytes = (uint32_t)stored.bytes.len,
                                                          .crc = fg_crc32c(stored.bytes),
                                                          .key = stored.key,
                                                          .items = span->count,
                                                          .t_min_ns = span->t_min_ns,
                                                          .t_max_ns = span->t_max_ns};
    out->bytes += stored.bytes.len;
    /* Pages of samples, most of the bytes, go to the sink at once. The other sections come
     * behind all samples, so their pages wait in memory. */
    if (out->kind == FG_BLOCK_SMP)
        return fg_block_emit(writer, stored.bytes, err);
    fg_buf_put(&out->stored, stored.bytes);
    return FG_OK;
}

/* Makes it empty: a section without pages is left out. */
static void out_clear(struct fg_block_out *out)
{
    out->n_rows = 0;
    out->bytes = 0;
    fg_buf_clear(&out->stored);
}

/* varint kind, n; n pages: varint raw and stored bytes, le32 checksum, varint key, varint items;
 * those with profiles: zigzag least time - that of the page before, varint greatest - least.
 * Version 2 has no keys. */
enum fg_code fg_block_section_end(struct fg_block_writer *writer, struct fg_block_out *out,
                                  struct fg_err *err)
{
    int64_t before_ns = 0;

    if (out->n_rows == 0)
        return FG_OK;
    fg_buf_varint(&writer->table, out->kind);
    fg_buf_varint(&writer->table, out->n_rows);
    for (uint32_t i = 0; i < out->n_rows; i++) {
        const struct fg_block_page_row *row = &out->rows[i];

        fg_buf_varint(&writer->table, row->raw_bytes);
        fg_buf_varint(&writer->table, row->bytes);
        fg_buf_le32(&writer->table, row->crc);
        if (writer->version >= 3)
            fg_buf_varint(&writer->table, row->key);
        fg_buf_varint(&writer->table, row->items);
        if (fg_block_kind_has_times(out->kind)) {
            fg_buf_zigzag(&writer->table, fg_wrap_sub(row->t_min_ns, before_ns));
            fg_buf_varint(&writer->table, (uint64_t)row->t_max_ns - (uint64_t)row->t_min_ns);
            before_ns = row->t_min_ns;
        }
    }
    writer->n_sections++;
    fg_buf_varint(&writer->directory, out->kind);
    fg_buf_varint(&writer->directory, out->bytes);
    if (fg_block_emit(writer, fg_buf_slice(&out->stored), err) != FG_OK)
        return err->code;
    out_clear(out);
    return FG_OK;
}

/* ---- parts ---- */

/* Begins a part of either kind. */
static enum fg_code begin_part(struct fg_block_writer *writer, struct fg_slice tenant,
                               struct fg_slice service, bool derived, struct fg_err *err)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_START || writer->state == FG_BLOCK_WRITER_BETWEEN);
    if (tenant.len > FG_BLOCK_NAME_MAX_BYTES || service.len > FG_BLOCK_NAME_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "a name of %zu bytes", FG_MAX(tenant.len, service.len));
    if (writer->summary.n_parts == FG_BLOCK_PARTS_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %u parts", (unsigned)FG_BLOCK_PARTS_MAX);

    /* The part comes after the one before: readers find parts by binary search. */
    struct fg_slice last = fg_buf_slice(&writer->last_name);
    int order = fg_slice_cmp(fg_slice_sub(last, 0, writer->last_tenant_len), tenant);

    if (writer->summary.n_parts != 0) {
        if (order == 0)
            order = fg_slice_cmp(fg_slice_sub(last, writer->last_tenant_len, SIZE_MAX), service);
        if (order >= 0)
            return fg_fail(err, FG_E_INVALID, "part %.*s/%.*s is out of order", FG_S(tenant),
                           FG_S(service));
    }
    if (writer->summary.n_parts > 0 && writer->derived != derived)
        return fg_fail(err, FG_E_INVALID, "parts with and parts without profiles");
    /* Only now: until the first part the version could be set. */
    if (writer->state == FG_BLOCK_WRITER_START && emit_header(writer, err) != FG_OK)
        return err->code;
    writer->state = FG_BLOCK_WRITER_BETWEEN;
    fg_block_sealer_end(writer->sealer);
    fg_arena_reset(writer->arena);
    writer->part = (struct fg_block_part_out){.tenant = fg_arena_copy(writer->arena, tenant),
                                              .service = fg_arena_copy(writer->arena, service),
                                              .derived = derived};
    fg_assert(writer->part.tenant.ptr != NULL && writer->part.service.ptr != NULL);
    return FG_OK;
}

struct fg_block_sealer *fg_block_part_sealer(struct fg_block_writer *writer)
{
    struct fg_block_part_out *part = &writer->part;

    if (part->sealer != NULL)
        fg_block_sealer_set_digest(part->sealer, part->digest);
    return part->sealer;
}

/* Finds the key of the part that begins. copy_of: the part whose key it has; NULL: the newest. */
static enum fg_code choose_key(struct fg_block_writer *writer, const struct fg_block_part *copy_of,
                               struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;
    uint32_t number = copy_of == NULL ? 0 : copy_of->key;

    if (copy_of == NULL ? writer->keys == NULL : number == 0)
        return FG_OK;

    /* Fetches the key of the part that begins into the sealer. */
    struct fg_slice tenant = writer->part.tenant;
    struct fg_seal_key *key;

    if (writer->sealer == NULL)
        writer->sealer = fg_block_sealer_create();
    key = fg_block_sealer_key(writer->sealer);
    if ((copy_of != NULL ? fg_keys_find(writer->keys, tenant, number, key, err)
                         : fg_keys_newest(writer->keys, tenant, &number, key, err)) != FG_OK)
        return err->code;
    if (number == 0)
        return FG_OK;
    if (writer->version < 3) {
        fg_block_sealer_end(writer->sealer);
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "version %u of blocks cannot be encrypted (setting block_version)",
                       writer->version);
    }
    fg_block_sealer_begin(writer->sealer, part->tenant, part->service, number);
    part->key = number;
    part->sealer = writer->sealer;
    return FG_OK;
}

enum fg_code fg_block_part_begin(struct fg_block_writer *writer, struct fg_slice tenant,
                                 struct fg_slice service, const struct fg_tree *tree,
                                 const uint32_t *uses, struct fg_err *err)
{
    if (begin_part(writer, tenant, service, false, err) != FG_OK ||
        choose_key(writer, NULL, err) != FG_OK)
        return err->code;
    if (fg_block_order_make(tree, uses, writer->arena, &writer->part.order, err) != FG_OK ||
        fg_block_ranks_init(writer, uses, err) != FG_OK)
        return fg_wrap(err, "part %.*s/%.*s", FG_S(writer->part.tenant),
                       FG_S(writer->part.service));
    writer->state = FG_BLOCK_WRITER_PART;
    return FG_OK;
}

enum fg_code fg_block_part_begin_derived(struct fg_block_writer *writer, struct fg_slice tenant,
                                         struct fg_slice service,
                                         const struct fg_block_derived *derived, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;

    if (derived->n_profiles == 0 || derived->t_min_ns > derived->t_max_ns ||
        derived->usage.profiles > derived->n_profiles)
        return fg_fail(err, FG_E_INVALID, "part %.*s/%.*s sums up nothing", FG_S(tenant),
                       FG_S(service));
    if (begin_part(writer, tenant, service, true, err) != FG_OK ||
        choose_key(writer, derived->copy_of, err) != FG_OK)
        return err->code;
    part->n_profiles = derived->n_profiles;
    part->t_min_ns = derived->t_min_ns;
    part->t_max_ns = derived->t_max_ns;
    part->digest = derived->digest;
    /* Version 2 has no usage; readers of such a block find 0, "unknown". */
    if (writer->version >= 3)
        part->usage = derived->usage;
    writer->state = FG_BLOCK_WRITER_PART;
    return FG_OK;
}

enum fg_code fg_block_stripe_begin(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;

    fg_assert(writer->state == FG_BLOCK_WRITER_PART && !part->derived);
    if ((part->in_series && fg_block_series_close(writer, err) != FG_OK) ||
        /* Pages do not go beyond a stripe, so a reader of a stripe reads no page of another one. */
        fg_block_smp_flush(writer, err) != FG_OK || fg_block_idx_flush(writer, err) != FG_OK)
        return err->code;
    if (part->n_profiles > 0) {
        part->stripe++;
        part->before_ns = part->t_max_ns;
    }
    part->in_stripe = false;
    return FG_OK;
}

enum fg_code fg_block_series_begin(struct fg_block_writer *writer,
                                   const struct fg_block_series *series, struct fg_err *err)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_PART && !writer->part.derived);
    if (writer->part.in_series && fg_block_series_close(writer, err) != FG_OK)
        return err->code;
    return fg_block_series_open(writer, series, err);
}

static void group_add(struct fg_block_writer *writer, const struct fg_block_profile *profile)
{
    struct fg_block_part_out *part = &writer->part;
    uint64_t hash = fg_mix64((uint64_t)profile->window << 16 | profile->shard);
    struct fg_map_walk walk;
    uint32_t i = fg_map_first(&part->group_map, hash, &walk);
    struct fg_block_group_out *group;

    if (i == FG_MAP_NONE) { /* equal hashes are equal groups: it is a bijection */
        fg_assert(fg_arena_grow(writer->arena, &part->groups, part->n_groups, 1, &part->cap_groups,
                                sizeof *part->groups));
        i = part->n_groups++;
        part->groups[i] =
            (struct fg_block_group_out){.shard = profile->shard, .window = profile->window};
        fg_assert(fg_map_add_in(&part->group_map, writer->arena, hash, i));
    }
    group = &part->groups[i];
    group->count++;
    group->digest = fg_id_add(group->digest, profile->id);
}

static void part_count(struct fg_block_writer *writer, const struct fg_block_profile *profile)
{
    struct fg_block_part_out *part = &writer->part;

    part->t_min_ns =
        part->n_profiles == 0 ? profile->time_ns : FG_MIN(part->t_min_ns, profile->time_ns);
    part->t_max_ns =
        part->n_profiles == 0 ? profile->time_ns : FG_MAX(part->t_max_ns, profile->time_ns);
    part->n_profiles++;
    part->n_samples += writer->pages.before.count; /* what was put just now */
    part->digest = fg_id_add(part->digest, profile->id);
    if (writer->version >= 3)
        fg_usage_count(&part->usage, profile->size, writer->pages.before.count);
    group_add(writer, profile);
}

static enum fg_code check_profile(const struct fg_block_part_out *part,
                                  const struct fg_block_profile *profile, struct fg_err *err)
{
    if (part->series_span.count > 0 &&
        (profile->time_ns < part->last_time_ns ||
         (profile->time_ns == part->last_time_ns && fg_id_cmp(profile->id, part->last_id) <= 0)))
        return fg_fail(err, FG_E_INVALID, "a profile is out of order in its series");
    if (part->stripe > 0 && profile->time_ns <= part->before_ns)
        return fg_fail(err, FG_E_INVALID, "a profile is of an earlier stripe");
    if (part->n_profiles == FG_BLOCK_ITEMS_MAX || profile->n_samples > FG_BLOCK_ITEMS_MAX ||
        profile->n_links > FG_BLOCK_ITEMS_MAX)
        return fg_fail(err, FG_E_LIMIT, "%u profiles, %u samples", part->n_profiles,
                       profile->n_samples);
    return FG_OK;
}

enum fg_code fg_block_profile_add(struct fg_block_writer *writer,
                                  const struct fg_block_profile *profile, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;
    uint64_t totals[FG_BATCH_TYPES_MAX];

    fg_assert(writer->state == FG_BLOCK_WRITER_PART && part->in_series);
    if (check_profile(part, profile, err) != FG_OK ||
        fg_block_samples_put(writer, profile, totals, err) != FG_OK ||
        fg_block_row_put(writer, profile, totals, err) != FG_OK)
        return err->code;
    part_count(writer, profile);
    fg_block_span_add(&part->series_span, profile->time_ns);
    part->last_time_ns = profile->time_ns;
    part->last_id = profile->id;
    return FG_OK;
}

struct fg_block_added fg_block_profile_added(const struct fg_block_writer *writer)
{
    const struct fg_block_set *set = &writer->pages.before; /* what was put just now */

    fg_assert(writer->state == FG_BLOCK_WRITER_PART && writer->part.n_profiles > 0);
    return (struct fg_block_added){set->ranks, set->values, set->count, writer->part.n_types};
}

/* ---- the end of a part ---- */

static int by_group(const void *a, const void *b)
{
    const struct fg_block_group_out *left = a, *right = b;

    if (left->shard != right->shard)
        return left->shard < right->shard ? -1 : 1;
    return (left->window > right->window) - (left->window < right->window);
}

/* varint shard - that before, varint window (- that before, of one shard), varint count, digest */
static void encode_groups(const struct fg_block_part_out *part, struct fg_buf *out)
{
    uint32_t shard = 0, window = 0;
    uint8_t digest[FG_ID_BYTES];

    if (part->n_groups > 1)
        qsort(part->groups, part->n_groups, sizeof *part->groups, by_group);
    fg_buf_clear(out);
    for (uint32_t i = 0; i < part->n_groups; i++) {
        const struct fg_block_group_out *group = &part->groups[i];

        fg_buf_varint(out, group->shard - shard);
        fg_buf_varint(out, group->shard == shard ? group->window - window : group->window);
        fg_buf_varint(out, group->count);
        fg_id_put(digest, group->digest);
        fg_buf_append(out, digest, sizeof digest);
        shard = group->shard;
        window = group->window;
    }
}

/* Packs and seals a page, and writes its entry to the directory: varint stored and raw bytes, le32
 * checksum. *ret_stored: valid until the next page. */
static enum fg_code put_page(struct fg_block_writer *writer, uint32_t kind, struct fg_slice raw,
                             struct fg_slice *ret_stored, struct fg_err *err)
{
    struct fg_block_sealed stored = {.key = 0};

    if (fg_block_seal(fg_block_part_sealer(writer), kind, 0, fg_block_pack(writer->packer, raw),
                      raw.len, &stored, err) != FG_OK)
        return err->code;
    fg_buf_varint(&writer->directory, stored.bytes.len);
    fg_buf_varint(&writer->directory, stored.raw_bytes);
    fg_buf_le32(&writer->directory, fg_crc32c(stored.bytes));
    *ret_stored = stored.bytes;
    return FG_OK;
}

/* The front of a part's entry in the directory; its sections follow. */
static void put_entry(struct fg_block_writer *writer)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_buf *directory = &writer->directory;
    uint8_t digest[FG_ID_BYTES];

    fg_buf_lenbytes(directory, part->tenant);
    fg_buf_lenbytes(directory, part->service);
    fg_buf_zigzag(directory, fg_wrap_sub(part->t_min_ns, writer->last_t_min_ns));
    fg_buf_varint(directory, (uint64_t)part->t_max_ns - (uint64_t)part->t_min_ns);
    fg_buf_varint(directory, part->n_series);
    fg_buf_varint(directory, part->n_profiles);
    fg_buf_varint(directory, part->ranks.n_stacks);
    fg_buf_varint(directory, part->order.nodes.count);
    fg_buf_varint(directory, part->n_groups);
    fg_buf_varint(directory, part->n_samples);
    fg_id_put(digest, part->digest);
    fg_buf_append(directory, digest, sizeof digest);
    if (writer->version >= 3) {
        fg_buf_varint(&writer->directory, writer->part.key);
        fg_buf_varint(&writer->directory, FG_BLOCK_SYMBOLS_VERSION);
        fg_usage_put(&writer->directory, &writer->part.usage);
    }
    writer->last_t_min_ns = part->t_min_ns;
}

/* The page table, then the groups, which wait for the end of the object. */
static enum fg_code put_tables(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_slice stored = {NULL, 0};

    if (writer->table.len > FG_BLOCK_PAGE_RAW_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "a page table of %zu bytes", writer->table.len);
    fg_buf_varint(&writer->directory, 0); /* no further section */
    if (put_page(writer, FG_BLOCK_PAG, fg_buf_slice(&writer->table), &stored, err) != FG_OK ||
        fg_block_emit(writer, stored, err) != FG_OK)
        return err->code;
    encode_groups(&writer->part, &writer->raw);
    if (writer->raw.len > FG_BLOCK_PAGE_RAW_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "%u groups", writer->part.n_groups);
    if (put_page(writer, FG_BLOCK_GRP, fg_buf_slice(&writer->raw), &stored, err) != FG_OK)
        return err->code;
    fg_buf_put(&writer->groups, stored);
    return FG_OK;
}

static void sum_up(struct fg_block_writer *writer)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_block_summary *all = &writer->summary;

    all->t_min_ns = all->n_parts == 0 ? part->t_min_ns : FG_MIN(all->t_min_ns, part->t_min_ns);
    all->t_max_ns = all->n_parts == 0 ? part->t_max_ns : FG_MAX(all->t_max_ns, part->t_max_ns);
    all->n_parts++;
    all->n_profiles += part->n_profiles;
    all->digest = fg_id_add(all->digest, part->digest);
    fg_usage_add(&all->usage, &part->usage);
    fg_buf_clear(&writer->last_name);
    fg_buf_put(&writer->last_name, part->tenant);
    fg_buf_put(&writer->last_name, part->service);
    writer->last_tenant_len = part->tenant.len;
    writer->derived = part->derived;
}

static enum fg_code part_finish(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;

    if (part->derived) {
        if (writer->part.rollups[FG_BLOCK_NOD - FG_BLOCK_SCR].len == 0)
            return FG_OK;
        put_entry(writer);
        fg_buf_clear(&writer->table);
        if (fg_block_write_rollup(writer, err) != FG_OK || put_tables(writer, err) != FG_OK)
            return err->code;
        sum_up(writer);
        return FG_OK;
    }
    if (part->in_series && fg_block_series_close(writer, err) != FG_OK)
        return err->code;
    /* Ranks were given by the uses that the caller promised; with others the order of ranks
     * would be wrong. */
    if (part->ranks.uses_left > 0)
        return fg_fail(err, FG_E_INVALID, "stacks were said to have %llu uses more",
                       (unsigned long long)part->ranks.uses_left);
    if (part->n_profiles == 0)
        return FG_OK;
    put_entry(writer);
    fg_buf_clear(&writer->table);
    if (fg_block_smp_flush(writer, err) != FG_OK || fg_block_idx_flush(writer, err) != FG_OK)
        return err->code;
    if (writer->exm.bytes == 0) /* nothing but empty pages */
        writer->exm.n_rows = 0;
    if (part->usage.profiles == 0) /* nothing but unknown sizes */
        out_clear(&writer->use);
    /* The order of sections is that of their kinds (format.h). Those that queries read together
     * are next to each other: rows, stacks, series. */
    if (fg_block_section_end(writer, &writer->smp, err) != FG_OK ||
        fg_block_section_end(writer, &writer->exm, err) != FG_OK ||
        fg_block_section_end(writer, &writer->pid, err) != FG_OK ||
        fg_block_section_end(writer, &writer->idx, err) != FG_OK ||
        fg_block_section_end(writer, &writer->use, err) != FG_OK ||
        fg_block_write_rollup(writer, err) != FG_OK ||
        fg_block_write_stacks(writer, err) != FG_OK ||
        fg_block_write_function_tree(writer, err) != FG_OK ||
        fg_block_write_series(writer, err) != FG_OK || put_tables(writer, err) != FG_OK)
        return err->code;
    sum_up(writer);
    return FG_OK;
}

enum fg_code fg_block_part_end(struct fg_block_writer *writer, struct fg_err *err)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_PART);
    if (part_finish(writer, err) != FG_OK)
        return fg_wrap(err, "part %.*s/%.*s", FG_S(writer->part.tenant),
                       FG_S(writer->part.service));
    writer->state = FG_BLOCK_WRITER_BETWEEN;
    return FG_OK;
}

const struct fg_usage *fg_block_part_usage(const struct fg_block_writer *writer)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_BETWEEN);
    return &writer->part.usage;
}

/* ---- the end of the object ---- */

/* Trailer: le64 length of the object, le32 stored and raw bytes of the directory, le32 its
 * checksum, le16 version, le16 0, le32 checksum of these, magic. */
static enum fg_code emit_trailer(struct fg_block_writer *writer, struct fg_slice directory,
                                 size_t raw_bytes, struct fg_err *err)
{
    struct fg_buf *raw = &writer->raw;
    uint32_t crc = fg_crc32c(directory);

    fg_buf_clear(raw);
    fg_buf_le64(raw, writer->offset + FG_BLOCK_TRAILER_BYTES);
    fg_buf_le32(raw, (uint32_t)directory.len);
    fg_buf_le32(raw, (uint32_t)raw_bytes);
    fg_buf_le32(raw, crc);
    fg_buf_le32(raw, writer->version);
    fg_buf_le32(raw, fg_crc32c(fg_buf_slice(raw)));
    fg_buf_puts(raw, FG_BLOCK_MAGIC);
    fg_assert(raw->len == FG_BLOCK_TRAILER_BYTES);
    return fg_block_emit(writer, fg_buf_slice(raw), err);
}

static enum fg_code emit_directory(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_buf all;
    struct fg_slice stored;
    enum fg_code code;

    fg_buf_init(&all, FG_BLOCK_DIRECTORY_MAX_BYTES);
    fg_buf_varint(&all, writer->level);
    fg_buf_varint(&all, writer->summary.n_parts);
    fg_buf_put(&all, fg_buf_slice(&writer->directory));
    if (all.full) {
        fg_buf_done(&all);
        return fg_fail(err, FG_E_LIMIT, "a directory of %zu bytes", writer->directory.len);
    }
    writer->summary.directory_offset = writer->offset;
    stored = fg_block_pack(writer->packer, fg_buf_slice(&all));
    code = fg_block_emit(writer, stored, err);
    if (code == FG_OK)
        code = emit_trailer(writer, stored, all.len, err);
    fg_buf_done(&all);
    return code;
}

enum fg_code fg_block_writer_finish(struct fg_block_writer *writer,
                                    struct fg_block_summary *ret_summary, struct fg_err *err)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_START || writer->state == FG_BLOCK_WRITER_BETWEEN);
    if (writer->state == FG_BLOCK_WRITER_START && emit_header(writer, err) != FG_OK)
        return err->code;
    if (fg_block_emit(writer, fg_buf_slice(&writer->groups), err) != FG_OK)
        return err->code;
    /* Groups, rollups and directory at the end: one read of the tail gets all that planning
     * needs. */
    writer->summary.rollup_offset = writer->offset;
    if (fg_block_emit(writer, fg_buf_slice(&writer->rollups), err) != FG_OK ||
        emit_directory(writer, err) != FG_OK)
        return err->code;
    writer->state = FG_BLOCK_WRITER_OVER;
    writer->summary.file_bytes = writer->offset;
    *ret_summary = writer->summary;
    return FG_OK;
}
