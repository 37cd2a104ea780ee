#include "deploy/cli/bucket_mend.h"

#include "common/base/str.h"
#include "deploy/cli/bucket_rebuild.h"

enum { COPY_NAME_MAX_BYTES = FG_NAME_MAX_BYTES + 16 };

struct fg_blocks cli_mend_blocks(const struct cli_mend_reference *reference)
{
    return reference->manifest->content == NULL ? fg_blocks_none(reference->tenant)
                                                : reference->manifest->content->blocks;
}

/* ---- references ---- */

/* Checks that the tenant's manifest can be read, or does not exist yet, and that it fits the L0
 * manifest. */
static enum fg_code check_manifest(const struct cli_mending *mending,
                                   const struct cli_survey_tenant *tenant, struct fg_err *err)
{
    struct fg_blocks none = fg_blocks_none(fg_cstr(tenant->name));

    if (tenant->manifest.code != FG_OK && tenant->manifest.code != FG_E_NOT_FOUND)
        return fg_fail(err, FG_E_PRECONDITION, "%s: flamegrid bucket rebuild tenant comes first",
                       tenant->manifest.err.msg);
    if (fg_blocks_check(tenant->manifest.content == NULL ? &none
                                                         : &tenant->manifest.content->blocks,
                        &mending->survey.l0.content->l0, err) == FG_OK)
        return FG_OK;
    err->code = FG_E_PRECONDITION;
    return err->code;
}

/* A block belongs to one tenant, which its name says: there is at most one reference. */
static enum fg_code find_block(struct cli_mending *mending, struct fg_err *err)
{
    const struct cli_survey_tenant *tenant =
        cli_survey_tenant(&mending->survey, fg_cstr(mending->name.tenant));
    const struct fg_blocks_entry *entry;

    if (tenant == NULL)
        return FG_OK;
    if (check_manifest(mending, tenant, err) != FG_OK)
        return err->code;
    entry = tenant->manifest.content == NULL
                ? NULL
                : fg_blocks_find(&tenant->manifest.content->blocks, mending->name.block);
    /* The manifest may have replaced the block since; then nothing refers to it, which the caller
     * reports. */
    if (entry != NULL)
        mending->references[mending->n_references++] = (struct cli_mend_reference){
            .tenant = fg_cstr(tenant->name), .manifest = &tenant->manifest, .block = entry};
    return FG_OK;
}

/* Searches all segments: the L0 manifest is sorted by generation, and the name has none. */
static const struct fg_l0_segment *find_live(const struct fg_l0 *l0, const struct fg_segment_id *id)
{
    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (fg_segment_id_cmp(&l0->segments[i].id, id) == 0)
            return &l0->segments[i];
    return NULL;
}

/* Finds the tenants that still need the segment. A tenant whose manifest covers it has all of it in
 * blocks. */
static enum fg_code find_segment(struct cli_mending *mending, struct fg_err *err)
{
    const struct fg_l0 *l0 = &mending->survey.l0.content->l0;
    const struct fg_l0_segment *segment = find_live(l0, &mending->name.segment);

    for (uint32_t p = 0; segment != NULL && p < segment->n_parts; p++) {
        const struct cli_survey_tenant *tenant =
            cli_survey_tenant(&mending->survey, l0->tenants[segment->parts[p].tenant].name);

        if (check_manifest(mending, tenant, err) != FG_OK)
            return err->code;
        if (tenant->manifest.content == NULL ||
            !fg_blocks_covers(&tenant->manifest.content->blocks, segment->generation))
            mending->references[mending->n_references++] =
                (struct cli_mend_reference){.tenant = fg_cstr(tenant->name),
                                            .manifest = &tenant->manifest,
                                            .segment = segment,
                                            .part = &segment->parts[p]};
    }
    return FG_OK;
}

enum fg_code cli_mend_open(struct fg_bucket *bucket, const char *object,
                           struct cli_mending *mending, struct fg_err *err)
{
    *mending = (struct cli_mending){.object = object};
    if (!fg_name_parse(fg_cstr(object), &mending->name) ||
        (mending->name.kind != FG_NAME_IS_BLOCK && mending->name.kind != FG_NAME_IS_SEGMENT))
        return fg_fail(err, FG_E_INVALID, "%s: neither a segment nor a block", object);
    if (cli_survey_read(bucket, &mending->survey, err) != FG_OK)
        return err->code;
    /* Without the L0 manifest it is unknown which tenants need a segment. */
    if (mending->survey.l0.code != FG_OK)
        return fg_fail(err, FG_E_PRECONDITION,
                       FG_NAME_L0
                       " is missing or damaged: flamegrid bucket rebuild l0 comes first");
    /* Each tenant has at most one reference, so this is enough for all. */
    mending->references =
        fg_calloc(FG_MAX(mending->survey.n_tenants, (size_t)1), sizeof *mending->references);
    if ((mending->name.kind == FG_NAME_IS_BLOCK ? find_block : find_segment)(mending, err) != FG_OK)
        return err->code;
    if (mending->n_references == 0)
        return fg_fail(err, FG_E_PRECONDITION, "no manifest refers to %s", object);
    return FG_OK;
}

void cli_mend_done(struct cli_mending *mending)
{
    free(mending->references);
    cli_survey_done(&mending->survey);
    *mending = (struct cli_mending){.object = NULL};
}

/* ---- swaps ---- */

enum fg_code cli_mend_swap(const struct cli_mending *mending,
                           const struct cli_mend_reference *reference,
                           const struct cli_mend_swap *swap, bool apply, FILE *out,
                           struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    const struct fg_blocks blocks = cli_mend_blocks(reference);
    struct fg_blocks_giving_up giving_up = {.change = {.add = swap->add,
                                                       .n_add = swap->n_add,
                                                       .taken = swap->taken,
                                                       .n_taken = swap->n_taken},
                                            .n_lost = swap->n_lost};
    struct fg_blocks_lost *lost = fg_arena_new(arena, struct fg_blocks_lost, swap->n_lost);
    int64_t wall_ns = fg_wall_ns(fg_clock_real());
    struct fg_blocks next;
    bool changed;

    if (reference->block != NULL) {
        /* A block leaves the manifest. A segment cannot leave alone: it is marked as covered for
         * this tenant. */
        giving_up.change.replace = &reference->block->id;
        giving_up.change.n_replace = 1;
    } else {
        giving_up.change.cover = &reference->segment->generation;
        giving_up.change.n_cover = 1;
    }
    if (lost == NULL)
        return fg_fail(err, FG_E_LIMIT, "%u services are lost", swap->n_lost);
    for (uint32_t i = 0; i < swap->n_lost; i++) {
        lost[i] = swap->lost[i];
        lost[i].object = fg_cstr(mending->object);
        lost[i].since_wall_ns = wall_ns;
    }
    giving_up.lost = lost;
    /* Changes nothing if an earlier run has given the object up, so a repeated command is
     * harmless. */
    if (fg_blocks_give_up(&blocks, &mending->survey.l0.content->l0, &giving_up, wall_ns, arena,
                          &next, &changed, err) != FG_OK)
        return err->code;
    return apply && changed ? cli_rebuild_replace_blocks(mending->survey.bucket,
                                                         reference->manifest, &next, out, err)
                            : FG_OK;
}

enum fg_code cli_mend_keep(const struct cli_mending *mending, struct fg_slice bytes, FILE *out,
                           struct fg_err *err)
{
    char name[COPY_NAME_MAX_BYTES];
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = name,
                                    .content = bytes,
                                    .deadline_mono_ns = cli_survey_deadline()};
    enum fg_code code;

    if (bytes.len == 0)
        return FG_OK;
    /* Written again after an interrupted run; the bytes are the same, so no condition is needed. */
    (void)snprintf(name, sizeof name, "quarantine/%s", mending->object);
    code = fg_bucket_call(mending->survey.bucket, &put);
    if (code != FG_OK)
        *err = put.err;
    else
        (void)fprintf(out, "copied to %s\n", name);
    fg_bucket_clear(&put);
    return code;
}
