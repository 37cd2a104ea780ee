#include "deploy/single/bucket_look.h"

#include "common/base/str.h"
#include "common/block/nodes/verify.h"
#include "common/block/verify.h"
#include "common/manifest/manifest.h"
#include "compactor/mates.h"

static const int64_t TIMEOUT_NS = 5 * FG_MINUTE_NS;             /* of one request */
static const size_t OBJECT_MAX_BYTES = (size_t)16 << 30;        /* blocks are far smaller */
static const size_t PARSED_MAX_BYTES = (size_t)4 << 30;         /* of one object */
static const size_t JSON_MAX_BYTES = (size_t)256 * 1024 * 1024; /* manifests have at most 32 MiB */

/* ---- getting ---- */

/* FG_OK with an empty body and etag where there is nothing and `maybe` is set. */
static enum fg_code get(struct fg_bucket *bucket, const char *name, bool maybe,
                        struct fg_bucket_request *ret_get, struct fg_err *err)
{
    *ret_get = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET,
        .name = name,
        .content_max_bytes = OBJECT_MAX_BYTES,
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS,
    };
    if (fg_bucket_call(bucket, ret_get) == FG_OK || (maybe && ret_get->code == FG_E_NOT_FOUND))
        return FG_OK;
    *err = ret_get->err;
    return err->code;
}

static enum fg_code get_l0(struct fg_bucket *bucket, struct fg_manifest **ret_manifest,
                           struct fg_err *err)
{
    struct fg_bucket_request l0;
    enum fg_code code = get(bucket, FG_NAME_L0, true, &l0, err);

    if (code == FG_OK)
        code = fg_manifest_l0(fg_buf_slice(&l0.body), fg_cstr(l0.etag.text), ret_manifest, err);
    fg_bucket_clear(&l0);
    return code;
}

static enum fg_code get_blocks(struct fg_bucket *bucket, struct fg_slice tenant,
                               struct fg_manifest **ret_manifest, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request blocks;
    enum fg_code code;

    if (fg_name_blocks(name, tenant, err) != FG_OK)
        return err->code;
    code = get(bucket, name, true, &blocks, err);
    if (code == FG_OK)
        code = fg_manifest_blocks(fg_buf_slice(&blocks.body), fg_cstr(blocks.etag.text), tenant,
                                  ret_manifest, err);
    fg_bucket_clear(&blocks);
    return code;
}

/* ---- verify ---- */

/* What a block has of a service, for merged nodes that are made of it. */
struct held {
    struct fg_id block;
    struct fg_buf service;
    uint64_t profiles;
    struct fg_id digest;
};

/* A tenant, and the ids of its profiles that were seen. */
struct owner {
    struct fg_manifest *blocks;
    struct fg_id *ids;
    size_t n_ids, cap_ids;
    struct held *held;
    size_t n_held, cap_held;
    uint64_t n_segments, n_blocks, n_above; /* above: of merged nodes only */
    uint64_t n_alone, n_alone_profiles;     /* of merged nodes whose profiles are gone */
};

struct verifying {
    struct fg_bucket *bucket;
    struct fg_manifest *l0;
    struct owner *owners; /* by the L0 manifest's number */
    struct fg_err *err;
    uint64_t n_objects, n_bytes, n_pages;
};

/* An object as a manifest has it. */
struct listed {
    const char *name;
    uint64_t generation; /* of a segment; 0: a block */
    uint32_t owner;      /* of a block */
    const struct fg_blocks_entry *block;
    uint64_t bytes, profiles;
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
};

static enum fg_code differs(const struct verifying *v, const struct listed *listed,
                            const char *what)
{
    return fg_fail(v->err, FG_E_CORRUPT, "%s: its %s is not what the manifest says", listed->name,
                   what);
}

static enum fg_code compare(const struct verifying *v, const struct listed *listed,
                            const struct fg_block_directory *directory)
{
    if (directory->file_bytes != listed->bytes)
        return differs(v, listed, "size");
    if (directory->n_profiles != listed->profiles)
        return differs(v, listed, "number of profiles");
    if (!fg_id_eq(directory->digest, listed->digest))
        return differs(v, listed, "digest");
    if (directory->t_min_ns != listed->t_min_ns || directory->t_max_ns != listed->t_max_ns)
        return differs(v, listed, "time");
    if (listed->block != NULL &&
        (directory->nodes_offset + listed->block->nodes_bytes != listed->block->directory_offset ||
         (directory->n_parts > 0 && directory->nodes_only != listed->block->nodes_only)))
        return differs(v, listed, "place of merged nodes");
    return FG_OK;
}

static struct fg_slice bytes_of(struct fg_slice file, uint64_t offset, uint64_t len)
{
    return fg_slice_sub(file, (size_t)offset, (size_t)len);
}

/* ---- merged nodes ---- */

static void hold(struct owner *owner, struct fg_id block, const struct fg_block_part *part)
{
    struct held *held;

    if (owner->n_held == owner->cap_held) {
        owner->cap_held = FG_MAX(owner->cap_held * 2, 64);
        owner->held = fg_realloc(owner->held, owner->cap_held * sizeof *owner->held);
    }
    held = &owner->held[owner->n_held++];
    *held = (struct held){.block = block, .profiles = part->n_profiles, .digest = part->digest};
    fg_buf_init(&held->service, SIZE_MAX);
    fg_buf_put(&held->service, part->service);
}

static const struct held *find_held(const struct owner *owner, struct fg_id block,
                                    struct fg_slice service)
{
    for (size_t i = 0; i < owner->n_held; i++)
        if (fg_id_eq(owner->held[i].block, block) &&
            fg_slice_eq(fg_buf_slice(&owner->held[i].service), service))
            return &owner->held[i];
    return NULL;
}

static bool is_made_of(const struct fg_blocks_entry *block, struct fg_id id)
{
    for (uint32_t i = 0; i < block->n_from_blocks; i++)
        if (fg_id_eq(block->from_blocks[i], id))
            return true;
    return false;
}

/* What it sums up is what the blocks it is made of have of the service. */
static enum fg_code verify_made_of(const struct verifying *v, const struct listed *listed,
                                   struct fg_slice file, const struct fg_block_part *part)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_range nod = fg_nodes_ranges(part).nod;
    struct fg_nodes nodes = {0};
    struct fg_id digest = {0, 0};
    uint64_t profiles = 0;

    if (fg_nodes_parse(bytes_of(file, nod.offset, nod.len), arena, &nodes, v->err) != FG_OK)
        return v->err->code;
    for (uint32_t i = 0; i < nodes.n_made_of; i++) {
        const struct held *held =
            find_held(&v->owners[listed->owner], nodes.made_of[i], part->service);

        if (held == NULL || !is_made_of(listed->block, nodes.made_of[i]))
            return fg_fail(v->err, FG_E_CORRUPT, "part %.*s is made of a block that is not there",
                           FG_S(part->service));
        profiles += held->profiles;
        digest = fg_id_add(digest, held->digest);
    }
    if (profiles != part->n_profiles || !fg_id_eq(digest, part->digest))
        return fg_fail(
            v->err, FG_E_CORRUPT,
            "part %.*s sums up %u profiles, the blocks it is made of have %llu, or others",
            FG_S(part->service), part->n_profiles, (unsigned long long)profiles);
    return FG_OK;
}

static enum fg_code verify_nodes(const struct verifying *v, const struct listed *listed,
                                 struct fg_slice file, const struct fg_block_part *part)
{
    if (fg_nodes_verify(part, file, PARSED_MAX_BYTES, v->err) != FG_OK ||
        fg_nodes_verify_sums(part, file, PARSED_MAX_BYTES, v->err) != FG_OK)
        return v->err->code;
    if (listed->block == NULL)
        return FG_OK;
    if (listed->block->alone) { /* what it was made of is gone: it has to add up by itself */
        v->owners[listed->owner].n_alone_profiles += part->n_profiles;
        return fg_nodes_verify_alone(part, file, PARSED_MAX_BYTES, v->err);
    }
    if (listed->block->nodes_only)
        return verify_made_of(v, listed, file, part);
    hold(&v->owners[listed->owner], listed->block->id, part);
    return FG_OK;
}

/* ---- profiles ---- */

static void add_ids(struct owner *owner, const struct fg_id *ids, size_t n)
{
    if (owner->n_ids + n > owner->cap_ids) {
        owner->cap_ids = FG_MAX(owner->n_ids + n, owner->cap_ids * 2);
        owner->ids = fg_realloc(owner->ids, owner->cap_ids * sizeof *owner->ids);
    }
    memcpy(owner->ids + owner->n_ids, ids, n * sizeof *ids);
    owner->n_ids += n;
}

static enum fg_code take_ids(const struct verifying *v, struct fg_slice file,
                             const struct fg_block_part *part, struct owner *owner)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_range range = fg_block_part_range(part, FG_BLOCK_WANT_SERIES);
    struct fg_block_index index = {0};
    const struct fg_block_pages *pages = &index.pages[FG_BLOCK_PID];

    if (fg_block_part_parse(part, bytes_of(file, range.offset, range.len), arena, &index, v->err) !=
        FG_OK)
        return v->err->code;
    for (uint32_t p = 0; p < pages->count; p++) {
        const struct fg_block_page *page = &pages->pages[p];
        struct fg_id *ids = NULL;

        if (fg_block_ids_parse(&index, p, bytes_of(file, page->offset, page->bytes), arena, &ids,
                               v->err) != FG_OK)
            return v->err->code;
        add_ids(owner, ids, page->items);
    }
    return FG_OK;
}

/* Whose part is it, and is it live for them? NULL: a block has what is in it by now. */
static struct owner *owner_of(const struct verifying *v, const struct listed *listed,
                              struct fg_slice tenant)
{
    uint32_t number = listed->generation == 0 ? listed->owner : fg_l0_tenant(&v->l0->l0, tenant);

    if (number == FG_L0_NO_TENANT ||
        (listed->generation != 0 &&
         fg_blocks_covers(&v->owners[number].blocks->blocks, listed->generation)))
        return NULL;
    return &v->owners[number];
}

static enum fg_code verify_file(struct verifying *v, const struct listed *listed,
                                struct fg_slice file)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_directory directory = {0};
    struct fg_block_verified verified = {0};
    uint64_t offset = 0;

    if (fg_block_verify(file, PARSED_MAX_BYTES, &verified, v->err) != FG_OK ||
        fg_block_directory_offset(file, file.len, &offset, v->err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, arena,
                                 &directory, v->err) != FG_OK)
        return fg_wrap(v->err, "%s", listed->name);
    if (compare(v, listed, &directory) != FG_OK)
        return v->err->code;
    for (uint32_t p = 0; p < directory.n_parts; p++) {
        struct owner *owner = owner_of(v, listed, directory.parts[p].tenant);

        if (verify_nodes(v, listed, file, &directory.parts[p]) != FG_OK ||
            (owner != NULL && take_ids(v, file, &directory.parts[p], owner) != FG_OK))
            return fg_wrap(v->err, "%s", listed->name);
    }
    v->n_objects++;
    v->n_bytes += file.len;
    v->n_pages += verified.n_pages;
    return FG_OK;
}

static enum fg_code verify_object(struct verifying *v, const struct listed *listed)
{
    struct fg_bucket_request object;
    enum fg_code code = get(v->bucket, listed->name, false, &object, v->err);

    if (code == FG_OK)
        code = verify_file(v, listed, fg_buf_slice(&object.body));
    fg_bucket_clear(&object);
    return code;
}

static enum fg_code verify_segments(struct verifying *v)
{
    const struct fg_l0 *l0 = &v->l0->l0;

    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        char name[FG_NAME_MAX_BYTES];

        fg_name_segment(name, &segment->id);
        for (uint32_t p = 0; p < segment->n_parts; p++)
            v->owners[segment->parts[p].tenant].n_segments++;
        if (verify_object(v, &(struct listed){.name = name,
                                              .generation = segment->generation,
                                              .bytes = segment->bytes,
                                              .profiles = segment->profiles,
                                              .t_min_ns = segment->t_min_ns,
                                              .t_max_ns = segment->t_max_ns,
                                              .digest = segment->digest}) != FG_OK)
            return v->err->code;
    }
    return FG_OK;
}

/* Those with profiles, or those of nodes of these. */
static enum fg_code verify_blocks(struct verifying *v, uint32_t number, bool nodes_only)
{
    const struct fg_blocks *blocks = &v->owners[number].blocks->blocks;

    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];
        char name[FG_NAME_MAX_BYTES];

        if (block->nodes_only != nodes_only)
            continue;
        v->owners[number].n_blocks += !nodes_only;
        v->owners[number].n_above += nodes_only && !block->alone;
        v->owners[number].n_alone += block->alone;
        if (fg_name_block(name, v->l0->l0.tenants[number].name, block->id, v->err) != FG_OK ||
            verify_object(v, &(struct listed){.name = name,
                                              .owner = number,
                                              .block = block,
                                              .bytes = block->bytes,
                                              .profiles = block->profiles,
                                              .t_min_ns = block->t_min_ns,
                                              .t_max_ns = block->t_max_ns,
                                              .digest = block->digest}) != FG_OK)
            return v->err->code;
    }
    return FG_OK;
}

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* Exactly once. */
static enum fg_code check_ids(const struct verifying *v, uint32_t number, FILE *out)
{
    struct fg_slice tenant = v->l0->l0.tenants[number].name;
    struct owner *owner = &v->owners[number];

    if (owner->n_ids > 1)
        qsort(owner->ids, owner->n_ids, sizeof *owner->ids, cmp_ids);
    for (size_t i = 1; i < owner->n_ids; i++)
        if (fg_id_eq(owner->ids[i], owner->ids[i - 1]))
            return fg_fail(v->err, FG_E_CORRUPT,
                           "tenant %.*s: profile %016llx%016llx is there more than once",
                           FG_S(tenant), (unsigned long long)owner->ids[i].hi,
                           (unsigned long long)owner->ids[i].lo);
    fprintf(out, "%.*s: %zu profiles, each once, in %llu segments and %llu blocks", FG_S(tenant),
            owner->n_ids, (unsigned long long)owner->n_segments,
            (unsigned long long)owner->n_blocks);
    if (owner->n_above > 0)
        fprintf(out, ", and %llu of merged nodes over these", (unsigned long long)owner->n_above);
    if (owner->n_alone > 0)
        fprintf(out, "; of %llu profiles that were dropped, merged nodes in %llu blocks",
                (unsigned long long)owner->n_alone_profiles, (unsigned long long)owner->n_alone);
    fputc('\n', out);
    return FG_OK;
}

static enum fg_code verify_all(struct verifying *v, FILE *out)
{
    uint32_t n = v->l0->l0.n_tenants;

    /* After the L0 manifest: what left it meanwhile is found covered. */
    for (uint32_t i = 0; i < n; i++)
        if (get_blocks(v->bucket, v->l0->l0.tenants[i].name, &v->owners[i].blocks, v->err) != FG_OK)
            return v->err->code;
    if (verify_segments(v) != FG_OK)
        return v->err->code;
    for (uint32_t i = 0; i < n; i++)
        if (verify_blocks(v, i, false) != FG_OK || verify_blocks(v, i, true) != FG_OK ||
            check_ids(v, i, out) != FG_OK)
            return v->err->code;
    fprintf(out, "ok: %llu objects, %llu bytes, %llu pages, generation %llu\n",
            (unsigned long long)v->n_objects, (unsigned long long)v->n_bytes,
            (unsigned long long)v->n_pages, (unsigned long long)v->l0->l0.generation);
    return FG_OK;
}

enum fg_code bucket_verify(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    struct verifying v = {.bucket = bucket, .err = err};
    enum fg_code code;

    if (get_l0(bucket, &v.l0, err) != FG_OK)
        return err->code;
    v.owners = fg_calloc(FG_MAX(v.l0->l0.n_tenants, 1), sizeof *v.owners);
    code = verify_all(&v, out);
    for (uint32_t i = 0; i < v.l0->l0.n_tenants; i++) {
        fg_manifest_unref(v.owners[i].blocks);
        free(v.owners[i].ids);
        for (size_t k = 0; k < v.owners[i].n_held; k++)
            fg_buf_done(&v.owners[i].held[k].service);
        free(v.owners[i].held);
    }
    free(v.owners);
    fg_manifest_unref(v.l0);
    return code;
}

/* ---- inspect ---- */

static enum fg_code inspect_manifest(struct fg_manifest *manifest, bool l0, FILE *out)
{
    struct fg_buf json;

    fg_buf_init(&json, JSON_MAX_BYTES);
    if (l0)
        fg_l0_json(&manifest->l0, &json);
    else
        fg_blocks_json(&manifest->blocks, &json);
    (void)fwrite(json.ptr, 1, json.len, out);
    fg_buf_done(&json);
    fg_manifest_unref(manifest);
    return FG_OK;
}

static void print_part(const struct fg_block_part *part, FILE *out)
{
    fprintf(out,
            "%.*s/%.*s: %u profiles of %u series, %llu samples, %u stacks, %u nodes, %u groups, "
            "%llu bytes of names\n",
            FG_S(part->tenant), FG_S(part->service), part->n_profiles, part->n_series,
            (unsigned long long)part->n_samples, part->n_stacks, part->n_nodes, part->n_groups,
            (unsigned long long)fg_block_part_range(part, FG_BLOCK_WANT_NAMES).len);
}

static void print_row(const struct fg_nodes *nodes, const struct fg_nodes_row *row, FILE *out)
{
    static const char *const kinds[] = {
        [FG_NODES_ALL] = "all", [FG_NODES_GROUP] = "group", [FG_NODES_SERIES] = "series"};
    const struct fg_profile_type *type = &nodes->types[row->type];

    fprintf(out,
            "  %.*s:%.*s, %s %u, %lld to %lld s: %llu profiles, total %lld, crown %u, table %u, "
            "full %u bytes%s\n",
            FG_S(type->name), FG_S(type->type), kinds[row->key.kind], row->key.number,
            (long long)(row->key.start_ns / FG_SECOND_NS),
            (long long)(row->key.end_ns / FG_SECOND_NS), (unsigned long long)row->count,
            (long long)row->total, row->places[FG_NODES_CROWN].bytes,
            row->places[FG_NODES_TABLE].bytes, row->places[FG_NODES_FULL].bytes,
            row->factor == 1 ? "" : " of another");
}

static enum fg_code print_nodes(struct fg_slice file, const struct fg_block_part *part, FILE *out,
                                struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_nodes_ranges ranges = fg_nodes_ranges(part);
    struct fg_nodes nodes = {0};

    if (ranges.nod.len == 0)
        return FG_OK;
    if (fg_nodes_parse(bytes_of(file, ranges.nod.offset, ranges.nod.len), arena, &nodes, err) !=
        FG_OK)
        return err->code;
    fprintf(out,
            "  merged nodes: %u of %u types, %u groups, made of %u objects; %llu, %llu, %llu and "
            "%llu bytes of places, crowns, tables and full nodes\n",
            nodes.n_rows, nodes.n_types, nodes.groups.n_groups, nodes.n_made_of,
            (unsigned long long)ranges.nod.len, (unsigned long long)ranges.crn.len,
            (unsigned long long)ranges.ftb.len, (unsigned long long)ranges.ful.len);
    for (uint32_t i = 0; i < nodes.n_rows; i++)
        print_row(&nodes, &nodes.rows[i], out);
    return FG_OK;
}

static enum fg_code print_parts(struct fg_slice file, const struct fg_block_directory *directory,
                                FILE *out, struct fg_err *err)
{
    for (uint32_t p = 0; p < directory->n_parts; p++) {
        print_part(&directory->parts[p], out);
        if (print_nodes(file, &directory->parts[p], out, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code inspect_object(struct fg_bucket *bucket, const char *name, FILE *out,
                                   struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_directory directory = {0};
    struct fg_bucket_request object;
    struct fg_slice file;
    uint64_t offset = 0;
    enum fg_code code = get(bucket, name, false, &object, err);

    file = fg_buf_slice(&object.body);
    if (code == FG_OK)
        code = fg_block_directory_offset(file, file.len, &offset, err);
    if (code == FG_OK)
        code = fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                        arena, &directory, err);
    if (code == FG_OK) {
        fprintf(out, "level %u%s, %llu bytes, %llu profiles, times %lld to %lld ns\n",
                directory.level, directory.nodes_only ? ", merged nodes only" : "",
                (unsigned long long)directory.file_bytes, (unsigned long long)directory.n_profiles,
                (long long)directory.t_min_ns, (long long)directory.t_max_ns);
        code = print_parts(file, &directory, out, err);
    }
    fg_bucket_clear(&object);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}

static enum fg_code inspect_ring(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_bucket_request object;
    struct fg_ring ring;
    struct fg_buf json;
    enum fg_code code = get(bucket, FG_RING_NAME, false, &object, err);

    if (code == FG_OK)
        code = fg_ring_decode(fg_buf_slice(&object.body), arena, &ring, err);
    fg_bucket_clear(&object);
    if (code != FG_OK)
        return code;
    fg_buf_init(&json, JSON_MAX_BYTES);
    fg_ring_json(&ring, &json);
    (void)fwrite(json.ptr, 1, json.len, out);
    fg_buf_done(&json);
    return FG_OK;
}

static enum fg_code inspect_compactors(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(MATES_ARENA_BYTES);
    struct fg_bucket_request object;
    struct mates_list list;
    struct fg_buf json;
    enum fg_code code = get(bucket, FG_NAME_COMPACTORS, false, &object, err);

    if (code == FG_OK)
        code = mates_decode(fg_buf_slice(&object.body), arena, &list, err);
    fg_bucket_clear(&object);
    if (code != FG_OK)
        return code;
    fg_buf_init(&json, JSON_MAX_BYTES);
    mates_json(&list, &json);
    (void)fwrite(json.ptr, 1, json.len, out);
    fg_buf_done(&json);
    return FG_OK;
}

enum fg_code bucket_inspect(struct fg_bucket *bucket, const char *name, FILE *out,
                            struct fg_err *err)
{
    struct fg_manifest *manifest = NULL;
    struct fg_name parsed;

    if (!fg_name_parse(fg_cstr(name), &parsed))
        return fg_fail(err, FG_E_INVALID, "%s: neither a manifest nor a segment nor a block", name);
    switch (parsed.kind) {
    case FG_NAME_IS_L0:
        if (get_l0(bucket, &manifest, err) != FG_OK)
            return err->code;
        return inspect_manifest(manifest, true, out);
    case FG_NAME_IS_RING:
        return inspect_ring(bucket, out, err);
    case FG_NAME_IS_COMPACTORS:
        return inspect_compactors(bucket, out, err);
    case FG_NAME_IS_BLOCKS:
        if (get_blocks(bucket, fg_cstr(parsed.tenant), &manifest, err) != FG_OK)
            return err->code;
        return inspect_manifest(manifest, false, out);
    default:
        return inspect_object(bucket, name, out, err);
    }
}
