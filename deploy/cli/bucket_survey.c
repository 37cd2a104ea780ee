#include "deploy/cli/bucket_survey.h"

#include "common/storage/bucket/kept.h"

static const int64_t TIMEOUT_NS = 5 * FG_MINUTE_NS;
static const size_t OBJECT_MAX_BYTES = (size_t)16 << 30; /* blocks are far smaller */

int64_t cli_survey_deadline(void)
{
    return fg_mono_ns(fg_clock_real()) + TIMEOUT_NS;
}

/* ---- objects ---- */

static enum fg_code get_object(struct fg_bucket *bucket, const char *name, struct fg_buf *body,
                               struct fg_bucket_etag *ret_etag, struct fg_err *err)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_GET,
                                        .name = name,
                                        .content_max_bytes = OBJECT_MAX_BYTES,
                                        .deadline_mono_ns = cli_survey_deadline()};
    enum fg_code code = fg_bucket_call(bucket, &request);

    fg_buf_init(body, OBJECT_MAX_BYTES);
    if (code == FG_OK) {
        *body = request.body;
        *ret_etag = request.etag;
        fg_buf_init(&request.body, 0); /* it is the caller's now */
    } else {
        *err = request.err;
    }
    fg_bucket_clear(&request);
    return code;
}

enum fg_code cli_survey_get(struct fg_bucket *bucket, const char *name, struct fg_buf *body,
                            struct fg_err *err)
{
    struct fg_bucket_etag etag;

    return get_object(bucket, name, body, &etag, err);
}

void cli_survey_object_done(struct cli_survey_object *object)
{
    fg_manifest_unref(object->content);
    fg_buf_done(&object->bytes);
    *object = (struct cli_survey_object){.code = FG_OK};
}

/* Reads an object. FG_OK also for a missing one: object->code says so. Other failures say nothing
 * about the object, so nothing may be concluded from them. */
static enum fg_code read_object(struct fg_bucket *bucket, const char *name,
                                struct cli_survey_object *object, struct fg_err *err)
{
    cli_survey_object_done(object);
    object->code = get_object(bucket, name, &object->bytes, &object->etag, &object->err);
    if (object->code == FG_OK || object->code == FG_E_NOT_FOUND)
        return FG_OK;
    *err = object->err;
    return err->code;
}

enum fg_code cli_survey_read_l0(struct fg_bucket *bucket, struct cli_survey_object *object,
                                struct fg_err *err)
{
    if (read_object(bucket, FG_NAME_L0, object, err) != FG_OK)
        return err->code;
    /* Damaged content is a state of the object, not a failure of the survey. The bytes stay: a
     * rebuild keeps them as a copy. */
    if (object->code == FG_OK)
        object->code = fg_manifest_l0(fg_buf_slice(&object->bytes), fg_cstr(object->etag.text),
                                      &object->content, &object->err);
    return FG_OK;
}

enum fg_code cli_survey_read_blocks(struct fg_bucket *bucket, struct fg_slice tenant,
                                    struct cli_survey_object *object, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];

    if (fg_name_blocks(name, tenant, err) != FG_OK ||
        read_object(bucket, name, object, err) != FG_OK)
        return err->code;
    if (object->code == FG_OK)
        object->code = fg_manifest_blocks(fg_buf_slice(&object->bytes), fg_cstr(object->etag.text),
                                          tenant, &object->content, &object->err);
    return FG_OK;
}

static bool note_copy(const struct fg_bucket_entry *entry, void *arg)
{
    (void)entry;
    /* One copy is enough: the list ends here. */
    *(bool *)arg = true;
    return false;
}

static enum fg_code read_ring(struct cli_survey *survey, struct fg_err *err)
{
    char copies[FG_KEPT_NAME_MAX_BYTES];

    struct cli_survey_object *object = &survey->ring_object;

    survey->ring_arena = fg_arena_create(FG_RING_ARENA_BYTES);
    survey->ring = fg_ring_none();
    fg_kept_name(copies, FG_RING_NAME, "");
    /* A single server has no ring and no copies of one; a cluster that lost its ring still has
     * copies. */
    if (fg_bucket_each(survey->bucket, copies, false, cli_survey_deadline(), note_copy,
                       &survey->ring_was_kept, err) != FG_OK)
        return err->code;
    if (read_object(survey->bucket, FG_RING_NAME, object, err) != FG_OK)
        return err->code;
    if (object->code == FG_OK)
        object->code = fg_ring_decode(fg_buf_slice(&object->bytes), survey->ring_arena,
                                      &survey->ring, &object->err);
    return FG_OK;
}

/* ---- the list ---- */

struct survey_listing {
    struct cli_survey_entry *entries;
    size_t n, cap;
};

static bool add_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct survey_listing *listing = arg;
    struct fg_name name;

    /* Other objects in these folders are not part of the survey. */
    if (!fg_name_parse(fg_cstr(entry->name), &name) ||
        (name.kind != FG_NAME_IS_SEGMENT && name.kind != FG_NAME_IS_BLOCK &&
         name.kind != FG_NAME_IS_BLOCKS))
        return true;
    if (listing->n == listing->cap) {
        listing->cap = FG_MAX(listing->cap * 2, (size_t)256);
        listing->entries = fg_realloc(listing->entries, listing->cap * sizeof *listing->entries);
    }
    listing->entries[listing->n++] =
        (struct cli_survey_entry){name, entry->size_bytes, entry->modified_wall_ns};
    return true;
}

/* Without a deadline: the list of a large bucket takes long, and the operator can interrupt it. */
static enum fg_code list(struct fg_bucket *bucket, const char *prefix,
                         struct survey_listing *listing, struct fg_err *err)
{
    return fg_bucket_each(bucket, prefix, false, 0, add_entry, listing, err);
}

/* ---- tenants ---- */

static int by_name(const void *left, const void *right)
{
    const struct cli_survey_tenant *a = left, *b = right;

    return strcmp(a->name, b->name);
}

static void add_tenant(struct cli_survey *survey, size_t *cap, struct fg_slice name)
{
    struct cli_survey_tenant *tenant;

    if (survey->n_tenants == *cap) {
        *cap = FG_MAX(*cap * 2, (size_t)16);
        survey->tenants = fg_realloc(survey->tenants, *cap * sizeof *survey->tenants);
    }
    tenant = &survey->tenants[survey->n_tenants++];
    *tenant = (struct cli_survey_tenant){.n_blocks = 0};
    (void)snprintf(tenant->name, sizeof tenant->name, "%.*s", FG_S(name));
}

/* Finds the tenants: those of the list, which is sorted by tenant, and those of the L0 manifest,
 * each once. */
static void find_tenants(struct cli_survey *survey)
{
    const struct fg_manifest *l0 = survey->l0.content;
    size_t cap = 0, kept = 0;

    for (size_t i = 0; i < survey->n_blocks; i++)
        if (i == 0 || strcmp(survey->blocks[i].name.tenant, survey->blocks[i - 1].name.tenant) != 0)
            add_tenant(survey, &cap, fg_cstr(survey->blocks[i].name.tenant));
    for (uint32_t i = 0; l0 != NULL && i < l0->l0.n_tenants; i++)
        add_tenant(survey, &cap, l0->l0.tenants[i].name);
    if (survey->n_tenants > 1)
        qsort(survey->tenants, survey->n_tenants, sizeof *survey->tenants, by_name);
    for (size_t i = 0; i < survey->n_tenants; i++)
        if (kept == 0 || by_name(&survey->tenants[i], &survey->tenants[kept - 1]) != 0)
            survey->tenants[kept++] = survey->tenants[i];
    fg_assert(kept <= survey->n_tenants);
    survey->n_tenants = kept;
}

static int by_tenant_and_id(const void *left, const void *right)
{
    const struct cli_survey_entry *a = left, *b = right;
    int order = strcmp(a->name.tenant, b->name.tenant);

    return order != 0 ? order : fg_id_cmp(a->name.block, b->name.block);
}

static int by_segment(const void *left, const void *right)
{
    const struct cli_survey_entry *a = left, *b = right;

    return fg_segment_id_cmp(&a->name.segment, &b->name.segment);
}

/* Gives each tenant its blocks, which are neighbours in the sorted list. A manifest in the list
 * only says that the tenant exists. */
static void assign_blocks(struct cli_survey *survey)
{
    size_t kept = 0;

    for (size_t i = 0; i < survey->n_blocks; i++)
        if (survey->blocks[i].name.kind == FG_NAME_IS_BLOCK)
            survey->blocks[kept++] = survey->blocks[i];
    survey->n_blocks = kept;
    for (size_t i = 0; i < kept; i++) {
        struct cli_survey_tenant *tenant =
            cli_survey_tenant(survey, fg_cstr(survey->blocks[i].name.tenant));

        fg_assert(tenant != NULL); /* find_tenants() has taken it from this list */
        if (tenant->n_blocks++ == 0)
            tenant->blocks = &survey->blocks[i];
    }
}

struct cli_survey_tenant *cli_survey_tenant(const struct cli_survey *survey, struct fg_slice name)
{
    struct cli_survey_tenant key;

    (void)snprintf(key.name, sizeof key.name, "%.*s", FG_S(name));
    return survey->n_tenants == 0 ? NULL
                                  : bsearch(&key, survey->tenants, survey->n_tenants,
                                            sizeof *survey->tenants, by_name);
}

/* ---- all of it ---- */

static enum fg_code read_all(struct cli_survey *survey, struct fg_err *err)
{
    struct survey_listing segments = {.n = 0}, blocks = {.n = 0};
    enum fg_code code = list(survey->bucket, FG_NAME_SEGMENTS, &segments, err);

    if (code == FG_OK)
        code = list(survey->bucket, FG_NAME_TENANTS, &blocks, err);
    survey->segments = segments.entries;
    survey->n_segments = segments.n;
    survey->blocks = blocks.entries;
    survey->n_blocks = blocks.n;
    if (code != FG_OK)
        return code;
    if (segments.n > 1)
        qsort(segments.entries, segments.n, sizeof *segments.entries, by_segment);
    if (blocks.n > 1)
        qsort(blocks.entries, blocks.n, sizeof *blocks.entries, by_tenant_and_id);
    /* In the order that bucket_survey.h explains. */
    if (read_ring(survey, err) != FG_OK ||
        cli_survey_read_l0(survey->bucket, &survey->l0, err) != FG_OK)
        return err->code;
    find_tenants(survey);
    assign_blocks(survey);
    for (size_t i = 0; i < survey->n_tenants; i++)
        if (cli_survey_read_blocks(survey->bucket, fg_cstr(survey->tenants[i].name),
                                   &survey->tenants[i].manifest, err) != FG_OK)
            return err->code;
    return FG_OK;
}

enum fg_code cli_survey_read(struct fg_bucket *bucket, struct cli_survey *ret_survey,
                             struct fg_err *err)
{
    struct cli_survey survey = {.bucket = bucket};

    if (read_all(&survey, err) != FG_OK) {
        cli_survey_done(&survey);
        return err->code;
    }
    *ret_survey = survey;
    return FG_OK;
}

void cli_survey_done(struct cli_survey *survey)
{
    for (size_t i = 0; i < survey->n_tenants; i++)
        cli_survey_object_done(&survey->tenants[i].manifest);
    free(survey->tenants);
    free(survey->segments);
    free(survey->blocks);
    cli_survey_object_done(&survey->l0);
    cli_survey_object_done(&survey->ring_object);
    fg_arena_destroy(survey->ring_arena);
    *survey = (struct cli_survey){.bucket = NULL};
}
