#include "deploy/single/bucket_quarantine.h"

#include "common/base/str.h"
#include "common/block/verify.h"
#include "deploy/single/bucket_rebuild.h"

enum { COPY_NAME_MAX_BYTES = FG_NAME_MAX_BYTES + 16 };

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30; /* of one object */

struct giving_up {
    const struct survey *survey;
    const char *object;
    struct fg_name name;
    bool apply;
    FILE *out;
    struct fg_buf bytes; /* of the object, as far as there are any */
    char why[FG_BLOCKS_WHY_MAX_BYTES];
    uint32_t n; /* manifests that refer to it */
};

/* Finds out what is wrong with the object. An intact object is quarantined, too, because the
 * operator asked for it. */
static enum fg_code examine(struct giving_up *giving_up, struct fg_err *err)
{
    struct fg_block_verified verified;
    struct fg_err fault = {.code = FG_OK};
    enum fg_code code =
        survey_get(giving_up->survey->bucket, giving_up->object, &giving_up->bytes, err);

    if (code == FG_E_NOT_FOUND)
        (void)fg_fail(&fault, code, "the object is missing");
    else if (code != FG_OK)
        return code;
    else if (fg_block_verify(fg_buf_slice(&giving_up->bytes), PARSED_MAX_BYTES, &verified,
                             &fault) == FG_OK)
        (void)fg_fail(&fault, FG_OK, "nothing is wrong with it");
    (void)snprintf(giving_up->why, sizeof giving_up->why, "%s", fault.msg);
    (void)fprintf(giving_up->out, "%s: %s\n", giving_up->object, giving_up->why);
    return FG_OK;
}

/* The same bytes under the same name each time. */
static enum fg_code copy(const struct giving_up *giving_up, struct fg_err *err)
{
    char name[COPY_NAME_MAX_BYTES];
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = name,
                                    .content = fg_buf_slice(&giving_up->bytes),
                                    .deadline_mono_ns = survey_deadline()};
    enum fg_code code;

    if (giving_up->bytes.len == 0)
        return FG_OK;
    (void)snprintf(name, sizeof name, "quarantine/%s", giving_up->object);
    code = fg_bucket_call(giving_up->survey->bucket, &put);
    if (code != FG_OK)
        *err = put.err;
    else
        (void)fprintf(giving_up->out, "copied to %s\n", name);
    fg_bucket_clear(&put);
    return code;
}

static enum fg_code write_blocks(const struct giving_up *giving_up, const struct survey_object *was,
                                 const struct fg_blocks *blocks, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = fg_name_blocks(name, blocks->tenant, err);
    if (code == FG_OK)
        code = fg_blocks_encode(blocks, &bytes, err);
    if (code == FG_OK)
        code = rebuild_replace(giving_up->survey->bucket, name, was, fg_buf_slice(&bytes),
                               giving_up->out, err);
    fg_buf_done(&bytes);
    return code;
}

/* Takes the reference out of one tenant's manifest. */
static enum fg_code give_up(struct giving_up *giving_up, struct fg_slice tenant,
                            const struct fg_blocks_change *change, struct fg_blocks_lost lost,
                            struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    const struct survey_tenant *found = survey_tenant(giving_up->survey, tenant);
    struct fg_blocks none = fg_blocks_none(tenant), next;
    const struct fg_blocks *blocks =
        found->manifest.content == NULL ? &none : &found->manifest.content->blocks;
    bool changed;

    if (found->manifest.code != FG_OK && found->manifest.code != FG_E_NOT_FOUND)
        return fg_fail(err, FG_E_PRECONDITION, "%s: flamegrid bucket rebuild tenant comes first",
                       found->manifest.err.msg);
    lost.object = fg_cstr(giving_up->object);
    lost.since_wall_ns = fg_wall_ns(fg_clock_real());
    lost.why = fg_cstr(giving_up->why);
    if (fg_blocks_check(blocks, &giving_up->survey->l0.content->l0, err) != FG_OK ||
        fg_blocks_give_up(blocks, &giving_up->survey->l0.content->l0, change, &lost, arena, &next,
                          &changed, err) != FG_OK)
        return err->code;
    giving_up->n++;
    (void)fprintf(giving_up->out, "tenant %.*s: %llu profiles, times %lld to %lld ns\n",
                  FG_S(tenant), (unsigned long long)lost.profiles, (long long)lost.t_min_ns,
                  (long long)lost.t_max_ns);
    return giving_up->apply && changed ? write_blocks(giving_up, &found->manifest, &next, err)
                                       : FG_OK;
}

static enum fg_code give_up_block(struct giving_up *giving_up, struct fg_err *err)
{
    struct fg_slice tenant = fg_cstr(giving_up->name.tenant);
    const struct survey_tenant *found = survey_tenant(giving_up->survey, tenant);
    const struct fg_blocks_entry *entry =
        found == NULL || found->manifest.content == NULL
            ? NULL
            : fg_blocks_find(&found->manifest.content->blocks, giving_up->name.block);
    const struct fg_blocks_change change = {.replace = &giving_up->name.block, .n_replace = 1};

    if (entry == NULL)
        return FG_OK;
    return give_up(giving_up, tenant, &change,
                   (struct fg_blocks_lost){
                       .t_min_ns = entry->t_min_ns,
                       .t_max_ns = entry->t_max_ns,
                       /* Nodes of other blocks are made again. */
                       .profiles = entry->nodes_only && !entry->alone ? 0 : entry->profiles,
                       .bytes = entry->bytes},
                   err);
}

static enum fg_code give_up_segment(struct giving_up *giving_up, struct fg_err *err)
{
    const struct fg_l0 *l0 = &giving_up->survey->l0.content->l0;

    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        const struct fg_blocks_change change = {.cover = &segment->generation, .n_cover = 1};

        if (fg_segment_id_cmp(&segment->id, &giving_up->name.segment) != 0)
            continue;
        for (uint32_t p = 0; p < segment->n_parts; p++) {
            const struct fg_l0_part *part = &segment->parts[p];
            struct fg_slice tenant = l0->tenants[part->tenant].name;
            const struct fg_manifest *manifest =
                survey_tenant(giving_up->survey, tenant)->manifest.content;

            if (manifest != NULL && fg_blocks_covers(&manifest->blocks, segment->generation))
                continue;
            if (give_up(giving_up, tenant, &change,
                        (struct fg_blocks_lost){.t_min_ns = part->t_min_ns,
                                                .t_max_ns = part->t_max_ns,
                                                .profiles = part->profiles,
                                                .bytes = segment->bytes},
                        err) != FG_OK)
                return err->code;
        }
    }
    return FG_OK;
}

static enum fg_code run(struct giving_up *giving_up, struct fg_err *err)
{
    enum fg_code code;

    if (giving_up->survey->l0.code != FG_OK)
        return fg_fail(err, FG_E_PRECONDITION,
                       FG_NAME_L0
                       " is missing or damaged: flamegrid bucket rebuild l0 comes first");
    if (examine(giving_up, err) != FG_OK || (giving_up->apply && copy(giving_up, err) != FG_OK))
        return err->code;
    code = giving_up->name.kind == FG_NAME_IS_BLOCK ? give_up_block(giving_up, err)
                                                    : give_up_segment(giving_up, err);
    if (code != FG_OK)
        return code;
    if (giving_up->n == 0)
        return fg_fail(err, FG_E_PRECONDITION, "no manifest refers to %s", giving_up->object);
    if (!giving_up->apply)
        (void)fprintf(giving_up->out, "nothing was written; --apply gives it up\n");
    return FG_OK;
}

enum fg_code bucket_quarantine(struct fg_bucket *bucket, const char *object, bool apply, FILE *out,
                               struct fg_err *err)
{
    struct survey survey = {.bucket = NULL};
    struct giving_up giving_up = {.survey = &survey, .object = object, .apply = apply, .out = out};
    enum fg_code code;

    if (!fg_name_parse(fg_cstr(object), &giving_up.name) ||
        (giving_up.name.kind != FG_NAME_IS_BLOCK && giving_up.name.kind != FG_NAME_IS_SEGMENT))
        return fg_fail(err, FG_E_INVALID, "%s: neither a segment nor a block", object);
    fg_buf_init(&giving_up.bytes, 0);
    code = survey_read(bucket, &survey, err);
    if (code == FG_OK)
        code = run(&giving_up, err);
    fg_buf_done(&giving_up.bytes);
    survey_done(&survey);
    return code;
}
