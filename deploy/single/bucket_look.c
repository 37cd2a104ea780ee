#include "deploy/single/bucket_look.h"

#include "common/base/str.h"
#include "common/block/verify.h"
#include "common/manifest/manifest.h"

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

/* A tenant, and the ids of its profiles that were seen. */
struct owner {
    struct fg_manifest *blocks;
    struct fg_id *ids;
    size_t n_ids, cap_ids;
    uint64_t n_segments, n_blocks;
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
    return FG_OK;
}

static void add_ids(struct owner *owner, const struct fg_id *ids, size_t n)
{
    if (owner->n_ids + n > owner->cap_ids) {
        owner->cap_ids = FG_MAX(owner->n_ids + n, owner->cap_ids * 2);
        owner->ids = fg_realloc(owner->ids, owner->cap_ids * sizeof *owner->ids);
    }
    memcpy(owner->ids + owner->n_ids, ids, n * sizeof *ids);
    owner->n_ids += n;
}

static struct fg_slice bytes_of(struct fg_slice file, uint64_t offset, uint64_t len)
{
    return fg_slice_sub(file, (size_t)offset, (size_t)len);
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

        if (owner != NULL && take_ids(v, file, &directory.parts[p], owner) != FG_OK)
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

static enum fg_code verify_blocks(struct verifying *v, uint32_t number)
{
    const struct fg_blocks *blocks = &v->owners[number].blocks->blocks;

    v->owners[number].n_blocks = blocks->n_blocks;
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];
        char name[FG_NAME_MAX_BYTES];

        if (fg_name_block(name, v->l0->l0.tenants[number], block->id, v->err) != FG_OK ||
            verify_object(v, &(struct listed){.name = name,
                                              .owner = number,
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
    struct fg_slice tenant = v->l0->l0.tenants[number];
    struct owner *owner = &v->owners[number];

    if (owner->n_ids > 1)
        qsort(owner->ids, owner->n_ids, sizeof *owner->ids, cmp_ids);
    for (size_t i = 1; i < owner->n_ids; i++)
        if (fg_id_eq(owner->ids[i], owner->ids[i - 1]))
            return fg_fail(v->err, FG_E_CORRUPT,
                           "tenant %.*s: profile %016llx%016llx is there more than once",
                           FG_S(tenant), (unsigned long long)owner->ids[i].hi,
                           (unsigned long long)owner->ids[i].lo);
    fprintf(out, "%.*s: %zu profiles, each once, in %llu segments and %llu blocks\n", FG_S(tenant),
            owner->n_ids, (unsigned long long)owner->n_segments,
            (unsigned long long)owner->n_blocks);
    return FG_OK;
}

static enum fg_code verify_all(struct verifying *v, FILE *out)
{
    uint32_t n = v->l0->l0.n_tenants;

    /* After the L0 manifest: what left it meanwhile is found covered. */
    for (uint32_t i = 0; i < n; i++)
        if (get_blocks(v->bucket, v->l0->l0.tenants[i], &v->owners[i].blocks, v->err) != FG_OK)
            return v->err->code;
    if (verify_segments(v) != FG_OK)
        return v->err->code;
    for (uint32_t i = 0; i < n; i++)
        if (verify_blocks(v, i) != FG_OK || check_ids(v, i, out) != FG_OK)
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
            "%.*s/%.*s: %u profiles of %u series, %llu samples, %u stacks, %u nodes, %u groups\n",
            FG_S(part->tenant), FG_S(part->service), part->n_profiles, part->n_series,
            (unsigned long long)part->n_samples, part->n_stacks, part->n_nodes, part->n_groups);
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
    fg_bucket_clear(&object);
    if (code != FG_OK)
        return fg_wrap(err, "%s", name);
    fprintf(out, "level %u, %llu bytes, %llu profiles, times %lld to %lld ns\n", directory.level,
            (unsigned long long)directory.file_bytes, (unsigned long long)directory.n_profiles,
            (long long)directory.t_min_ns, (long long)directory.t_max_ns);
    for (uint32_t p = 0; p < directory.n_parts; p++)
        print_part(&directory.parts[p], out);
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
    case FG_NAME_IS_BLOCKS:
        if (get_blocks(bucket, fg_cstr(parsed.tenant), &manifest, err) != FG_OK)
            return err->code;
        return inspect_manifest(manifest, false, out);
    default:
        return inspect_object(bucket, name, out, err);
    }
}
