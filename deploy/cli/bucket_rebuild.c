/* What all rebuilds share, and the rebuild of the ring, which needs little more. */
#include "deploy/cli/bucket_rebuild.h"

#include "common/base/str.h"
#include "common/storage/bucket/kept.h"

uint64_t cli_rebuild_revision(void)
{
    return (uint64_t)(fg_wall_ns(fg_clock_real()) / 1000);
}

static enum fg_code put_object(struct fg_bucket *bucket, struct fg_bucket_request *request,
                               struct fg_err *err)
{
    enum fg_code code;

    request->verb = FG_BUCKET_PUT;
    request->deadline_mono_ns = cli_survey_deadline();
    code = fg_bucket_call(bucket, request);
    if (code != FG_OK)
        *err = request->err;
    fg_bucket_clear(request);
    return code;
}

enum fg_code cli_rebuild_replace(struct fg_bucket *bucket, const char *name,
                                 const struct cli_survey_object *was, struct fg_slice bytes,
                                 FILE *out, struct fg_err *err)
{
    char place[64], copy[FG_KEPT_NAME_MAX_BYTES];
    struct fg_bucket_request request = {
        .name = copy, .content = fg_buf_slice(&was->bytes), .condition = FG_BUCKET_IF_ABSENT};
    enum fg_code code;

    (void)snprintf(place, sizeof place, "replaced-%lld", (long long)fg_wall_ns(fg_clock_real()));
    fg_kept_name(copy, name, place);
    /* The copy first: the old bytes may be the only evidence of what was lost. */
    if (was->etag.text[0] != '\0') {
        if (put_object(bucket, &request, err) != FG_OK)
            return err->code;
        (void)fprintf(out, "kept what was there as %s\n", copy);
    }
    request = (struct fg_bucket_request){
        .name = name,
        .content = bytes,
        .condition = was->etag.text[0] == '\0' ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH,
        .if_etag = was->etag};
    code = put_object(bucket, &request, err);
    /* A program wrote the object after the survey: what the rebuild concluded may be wrong now. */
    if (code == FG_E_PRECONDITION)
        return fg_fail(err, FG_E_ABORTED, "%s changed meanwhile, nothing was replaced", name);
    if (code == FG_OK)
        (void)fprintf(out, "wrote %s, %zu bytes\n", name, bytes.len);
    return code;
}

enum fg_code cli_rebuild_replace_blocks(struct fg_bucket *bucket,
                                        const struct cli_survey_object *was,
                                        const struct fg_blocks *blocks, FILE *out,
                                        struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = fg_name_blocks(name, blocks->tenant, err);
    if (code == FG_OK)
        code = fg_blocks_encode(blocks, &bytes, err);
    if (code == FG_OK)
        code = cli_rebuild_replace(bucket, name, was, fg_buf_slice(&bytes), out, err);
    fg_buf_done(&bytes);
    return code;
}

/* ---- the ring ---- */

struct ring_choice {
    struct fg_arena *arena;
    struct fg_ring ring;
    struct fg_buf bytes;
    char name[FG_KEPT_NAME_MAX_BYTES]; /* of the copy; "": none can be read */
};

/* Chooses the copy with the most swaps: each change of the ring adds one. */
static enum fg_code choose_ring(struct fg_bucket *bucket, struct ring_choice *choice,
                                struct fg_err *err)
{
    for (int i = 0; i < FG_KEPT_PLACES; i++) {
        char name[FG_KEPT_NAME_MAX_BYTES];
        struct fg_err unread;
        struct fg_ring ring;
        struct fg_buf bytes;
        enum fg_code code;

        fg_kept_name(name, FG_RING_NAME, i == 0 ? "0" : "1");
        code = cli_survey_get(bucket, name, &bytes, err);
        if (code == FG_OK &&
            fg_ring_decode(fg_buf_slice(&bytes), choice->arena, &ring, &unread) == FG_OK &&
            (choice->name[0] == '\0' || ring.swaps > choice->ring.swaps)) {
            choice->ring = ring;
            memcpy(choice->name, name, sizeof name);
            fg_buf_done(&choice->bytes);
            choice->bytes = bytes;
            continue;
        }
        fg_buf_done(&bytes);
        if (code != FG_OK && code != FG_E_NOT_FOUND)
            return code;
    }
    return FG_OK;
}

static enum fg_code rebuild_ring_of(const struct cli_survey *survey,
                                    const struct cli_rebuild_options *options,
                                    struct ring_choice *choice, FILE *out, struct fg_err *err)
{
    if (choose_ring(survey->bucket, choice, err) != FG_OK)
        return err->code;
    /* A readable ring stays unless a copy has more swaps, that is, unless the ring is from a
     * backup. */
    if (survey->ring_object.code == FG_OK &&
        (choice->name[0] == '\0' || choice->ring.swaps <= survey->ring.swaps))
        return fg_fail(err, FG_E_PRECONDITION, FG_RING_NAME " can be read, and no copy is newer");
    if (choice->name[0] != '\0') {
        (void)fprintf(out,
                      "the kept version %s, of %llu swaps, takes its place; members with a newer "
                      "copy put that back by themselves\n",
                      choice->name, (unsigned long long)choice->ring.swaps);
        for (uint32_t i = 0; i < choice->ring.n_members; i++)
            (void)fprintf(out, "member %.*s: %s\n", FG_S(choice->ring.members[i].name),
                          fg_ring_state_name(fg_ring_state(&choice->ring, i)));
    } else if (!options->accept_loss) {
        return fg_fail(err, FG_E_PRECONDITION,
                       "no kept version can be read, so nobody knows the members. An ingester that "
                       "runs puts its copy back within a minute; if none does, stop the queriers, "
                       "rebuild with --accept-loss, start all ingesters, then the queriers");
    } else {
        choice->ring = fg_ring_none();
        choice->ring.swaps = FG_MIN(cli_rebuild_revision(), FG_RING_NUMBER_MAX / 2);
        /* Not less than what ingesters drained into: readers take a snapshot of at least this
         * generation. Queriers ask ingesters only after these have joined. */
        choice->ring.generation =
            survey->l0.code == FG_OK ? survey->l0.content->l0.generation : survey->ring.generation;
        if (fg_ring_encode(&choice->ring, &choice->bytes, err) != FG_OK)
            return err->code;
        (void)fprintf(out, "a ring without members takes its place: answers lack what an ingester "
                           "holds until it has joined\n");
    }
    if (!options->apply) {
        (void)fprintf(out, "nothing was written; --apply writes " FG_RING_NAME "\n");
        return FG_OK;
    }
    return cli_rebuild_replace(survey->bucket, FG_RING_NAME, &survey->ring_object,
                               fg_buf_slice(&choice->bytes), out, err);
}

/* Both copies of the ring are parsed into the arena, hence its size. */
enum fg_code cli_rebuild_ring(struct fg_bucket *bucket, const struct cli_rebuild_options *options,
                              FILE *out, struct fg_err *err)
{
    struct ring_choice choice = {.arena =
                                     fg_arena_create((size_t)FG_KEPT_PLACES * FG_RING_ARENA_BYTES)};
    struct cli_survey survey = {.bucket = NULL};
    enum fg_code code = cli_survey_read(bucket, &survey, err);

    fg_buf_init(&choice.bytes, FG_RING_MAX_BYTES);
    if (code == FG_OK)
        code = rebuild_ring_of(&survey, options, &choice, out, err);
    fg_buf_done(&choice.bytes);
    fg_arena_destroy(choice.arena);
    cli_survey_done(&survey);
    return code;
}
