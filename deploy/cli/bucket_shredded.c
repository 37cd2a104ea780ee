#include "deploy/cli/bucket_shredded.h"

#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_keys.h"
#include "common/storage/block/reader.h"
#include "deploy/cli/bucket_rebuild.h"
#include "deploy/cli/bucket_survey.h"

static const size_t PARSED_MAX_BYTES = (size_t)512 << 20; /* of a directory */

struct dropping {
    struct cli_survey survey;
    struct cli_survey_tenant *tenant;
    struct fg_access_registry *access;
    bool apply;
    FILE *out;
    /* What leaves the manifest in the next swap. */
    uint64_t cover[FG_BLOCKS_FROM_MAX];
    struct fg_id replace[FG_BLOCKS_FROM_MAX];
    uint32_t n_cover, n_replace;
    uint64_t n_dropped;
};

/* ---- which objects ---- */

static bool has_shredded(const struct dropping *dropping)
{
    const Access__Registry *message = dropping->access->message;
    struct fg_slice name = fg_cstr(dropping->tenant->name);

    for (size_t i = fg_tenant_key_place(message, name, 0);
         i < message->n_keys && fg_slice_is(name, message->keys[i]->tenant); i++)
        if (message->keys[i]->shredded_ms != 0)
            return true;
    return false;
}

/* Sets *ret_all if the file has parts of the tenant, and all of them are encrypted with shredded
 * keys. */
static enum fg_code look_into(const struct dropping *dropping, struct fg_slice file, bool *ret_all,
                              struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_slice name = fg_cstr(dropping->tenant->name);
    struct fg_block_directory directory;
    uint64_t offset = 0;
    uint32_t first, p;

    if (fg_block_directory_offset(file, file.len, &offset, err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                 arena, &directory, err) != FG_OK)
        return err->code;
    first = p = fg_block_part_find(&directory, name, FG_LIT(""));
    while (p < directory.n_parts && fg_slice_eq(directory.parts[p].tenant, name) &&
           fg_tenant_key_is_shredded(dropping->access->message, name, directory.parts[p].key))
        p++;
    *ret_all =
        p > first && (p == directory.n_parts || !fg_slice_eq(directory.parts[p].tenant, name));
    return FG_OK;
}

/* Looks at an object. Damage and absence are matters of other commands: the object stays. */
static enum fg_code look_at(struct dropping *dropping, const char *name, bool *ret_all,
                            struct fg_err *err)
{
    struct fg_err unread;
    struct fg_buf body;
    enum fg_code code = cli_survey_get(dropping->survey.bucket, name, &body, err);

    *ret_all = false;
    if (code == FG_OK && look_into(dropping, fg_buf_slice(&body), ret_all, &unread) != FG_OK)
        (void)fprintf(dropping->out, "%s: stays: %s\n", name, unread.msg);
    else if (code == FG_E_NOT_FOUND)
        (void)fprintf(dropping->out, "%s: stays: it is missing\n", name);
    else if (*ret_all)
        (void)fprintf(dropping->out, "%s\n", name);
    fg_buf_done(&body);
    dropping->n_dropped += *ret_all;
    return code == FG_E_NOT_FOUND ? FG_OK : code;
}

static struct fg_blocks blocks_of(const struct dropping *dropping)
{
    const struct fg_manifest *manifest = dropping->tenant->manifest.content;

    return manifest == NULL ? fg_blocks_none(fg_cstr(dropping->tenant->name)) : manifest->blocks;
}

static enum fg_code find_blocks(struct dropping *dropping, struct fg_err *err)
{
    const struct fg_blocks blocks = blocks_of(dropping);

    for (uint32_t i = 0; i < blocks.n_blocks && dropping->n_replace < FG_BLOCKS_FROM_MAX; i++) {
        char name[FG_NAME_MAX_BYTES];
        bool all;

        if (fg_name_block(name, blocks.tenant, blocks.blocks[i].id, err) != FG_OK ||
            look_at(dropping, name, &all, err) != FG_OK)
            return err->code;
        if (all)
            dropping->replace[dropping->n_replace++] = blocks.blocks[i].id;
    }
    return FG_OK;
}

static enum fg_code find_segments(struct dropping *dropping, struct fg_err *err)
{
    const struct fg_l0 *l0 = &dropping->survey.l0.content->l0;
    const struct fg_blocks blocks = blocks_of(dropping);
    uint32_t tenant = fg_l0_tenant(l0, blocks.tenant);

    for (uint32_t i = 0;
         tenant != FG_L0_NO_TENANT && i < l0->n_segments && dropping->n_cover < FG_BLOCKS_FROM_MAX;
         i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        char name[FG_NAME_MAX_BYTES];
        bool all;

        if (fg_l0_part(segment, tenant) == NULL || fg_blocks_covers(&blocks, segment->generation))
            continue;
        fg_name_segment(name, &segment->id);
        if (look_at(dropping, name, &all, err) != FG_OK)
            return err->code;
        if (all)
            dropping->cover[dropping->n_cover++] = segment->generation;
    }
    return FG_OK;
}

/* ---- the swap ---- */

static enum fg_code swap_manifest(struct dropping *dropping, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    const struct fg_blocks blocks = blocks_of(dropping);
    const struct fg_blocks_change change = {.cover = dropping->cover,
                                            .n_cover = dropping->n_cover,
                                            .replace = dropping->replace,
                                            .n_replace = dropping->n_replace};
    struct fg_blocks next;
    bool changed;

    if (fg_blocks_apply(&blocks, &dropping->survey.l0.content->l0, &change,
                        fg_wall_ns(fg_clock_real()), arena, &next, &changed, err) != FG_OK)
        return err->code;
    if (!dropping->apply || !changed)
        return FG_OK;
    return cli_rebuild_replace_blocks(dropping->survey.bucket, &dropping->tenant->manifest, &next,
                                      dropping->out, err);
}

/* ---- all ---- */

/* Checks that the manifests can be read and fit each other. */
static enum fg_code check_manifests(const struct dropping *dropping, struct fg_err *err)
{
    const struct cli_survey_object *manifest = &dropping->tenant->manifest;
    const struct fg_blocks blocks = blocks_of(dropping);

    if (dropping->survey.l0.code != FG_OK)
        return fg_fail(err, FG_E_PRECONDITION,
                       FG_NAME_L0
                       " is missing or damaged: flamegrid bucket rebuild l0 comes first");
    if (manifest->code != FG_OK && manifest->code != FG_E_NOT_FOUND)
        return fg_fail(err, FG_E_PRECONDITION, "%s: flamegrid bucket rebuild tenant comes first",
                       manifest->err.msg);
    if (fg_blocks_check(&blocks, &dropping->survey.l0.content->l0, err) != FG_OK)
        return err->code = FG_E_PRECONDITION;
    return FG_OK;
}

static enum fg_code run(struct dropping *dropping, struct fg_bucket *bucket, struct fg_slice tenant,
                        struct fg_err *err)
{
    if (fg_access_read(bucket, cli_survey_deadline(), &dropping->access, err) != FG_OK ||
        cli_survey_read(bucket, &dropping->survey, err) != FG_OK)
        return err->code;
    dropping->tenant = cli_survey_tenant(&dropping->survey, tenant);
    if (dropping->tenant == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "the bucket has nothing of tenant \"%.*s\"",
                       FG_S(tenant));
    if (!has_shredded(dropping))
        return fg_fail(err, FG_E_NOT_FOUND, "no key of tenant %.*s was shredded", FG_S(tenant));
    if (check_manifests(dropping, err) != FG_OK || find_blocks(dropping, err) != FG_OK ||
        find_segments(dropping, err) != FG_OK)
        return err->code;
    if (dropping->n_dropped > 0 && swap_manifest(dropping, err) != FG_OK)
        return err->code;
    (void)fprintf(dropping->out,
                  "tenant %.*s: nobody can read %llu objects, or its parts of them%s\n",
                  FG_S(tenant), (unsigned long long)dropping->n_dropped,
                  dropping->apply           ? "; they have left its manifest"
                  : dropping->n_dropped > 0 ? "; nothing was written; --apply removes them"
                                            : "");
    if (dropping->n_replace == FG_BLOCKS_FROM_MAX || dropping->n_cover == FG_BLOCKS_FROM_MAX)
        (void)fprintf(dropping->out, "there may be more: repeat the command\n");
    return FG_OK;
}

enum fg_code cli_bucket_drop_shredded(struct fg_bucket *bucket, struct fg_slice tenant, bool apply,
                                      FILE *out, struct fg_err *err)
{
    struct dropping *dropping = fg_new(struct dropping);
    enum fg_code code;

    dropping->apply = apply;
    dropping->out = out;
    code = run(dropping, bucket, tenant, err);
    cli_survey_done(&dropping->survey);
    fg_access_registry_unref(dropping->access);
    free(dropping);
    return code;
}
