#include "deploy/cli/bucket_quarantine.h"

#include "common/base/str.h"
#include "common/storage/block/verify.h"
#include "deploy/cli/bucket_mend.h"

enum { ARENA_BYTES = 512 * 1024 * 1024 }; /* of a directory */

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30; /* of one object */

struct giving_up {
    struct cli_mending mending;
    bool apply;
    FILE *out;
    struct fg_arena *arena;
    struct fg_buf bytes;                 /* of the object; empty if it is missing */
    struct fg_block_directory directory; /* empty if it cannot be read */
    bool some_keyless;                   /* some tenants' parts cannot be decrypted */
    char why[FG_BLOCKS_WHY_MAX_BYTES];
};

static void parse_directory(struct giving_up *giving_up)
{
    struct fg_slice file = fg_buf_slice(&giving_up->bytes);
    struct fg_block_directory directory;
    struct fg_err unread;
    uint64_t offset = 0;

    if (fg_block_directory_offset(file, file.len, &offset, &unread) == FG_OK &&
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                 giving_up->mending.survey.bucket->keys, giving_up->arena,
                                 &directory, &unread) == FG_OK)
        giving_up->directory = directory;
}

/* Finds out what is wrong with the object. An intact object is quarantined, too, because the
 * operator asked for it. */
static enum fg_code examine(struct giving_up *giving_up, struct fg_err *err)
{
    struct fg_block_verified verified;
    struct fg_err fault = {.code = FG_OK};
    enum fg_code code = cli_survey_get(giving_up->mending.survey.bucket, giving_up->mending.object,
                                       &giving_up->bytes, err);

    if (code == FG_E_NOT_FOUND)
        (void)fg_fail(&fault, code, "the object is missing");
    else if (code != FG_OK)
        return code;
    else if (fg_block_verify(fg_buf_slice(&giving_up->bytes),
                             giving_up->mending.survey.bucket->keys, PARSED_MAX_BYTES, &verified,
                             &fault) == FG_OK)
        (void)fg_fail(&fault, FG_OK, "nothing is wrong with it");
    (void)snprintf(giving_up->why, sizeof giving_up->why, "%s", fault.msg);
    (void)fprintf(giving_up->out, "%s: %s\n", giving_up->mending.object, giving_up->why);
    parse_directory(giving_up);
    return FG_OK;
}

/* Returns the tenant's service if the object has only one of it, else an empty name: then a record
 * is about all services. */
static struct fg_slice only_service(const struct giving_up *giving_up, struct fg_slice tenant)
{
    const struct fg_block_directory *directory = &giving_up->directory;
    struct fg_slice service = FG_LIT("");
    uint32_t n = 0;

    for (uint32_t i = 0; i < directory->n_parts; i++)
        if (fg_slice_eq(directory->parts[i].tenant, tenant)) {
            service = directory->parts[i].service;
            n++;
        }
    return n == 1 ? service : FG_LIT("");
}

/* Returns why a tenant's parts cannot be decrypted. FG_OK: they can, or nobody knows its parts. */
static enum fg_code look_for_keys(const struct giving_up *giving_up, struct fg_slice tenant,
                                  struct fg_err *ret_why)
{
    const struct fg_block_directory *directory = &giving_up->directory;
    const struct fg_keys *keys = giving_up->mending.survey.bucket->keys;

    for (uint32_t i = 0; i < directory->n_parts; i++)
        if (fg_slice_eq(directory->parts[i].tenant, tenant) && directory->parts[i].key != 0 &&
            fg_keys_check(keys, tenant, directory->parts[i].key, ret_why) != FG_OK)
            return ret_why->code;
    return FG_OK;
}

/* Finds out whether some tenants' parts cannot be decrypted: then only these are given up. What
 * cannot be decrypted just now is no reason to give it up. */
static enum fg_code look_for_keyless(struct giving_up *giving_up, struct fg_err *err)
{
    const struct cli_mending *mending = &giving_up->mending;
    struct fg_err why;

    for (uint32_t i = 0; i < mending->n_references; i++) {
        enum fg_code code = look_for_keys(giving_up, mending->references[i].tenant, &why);

        if (code == FG_E_UNAVAILABLE) {
            *err = why;
            return fg_wrap(err, "%s", mending->object);
        }
        giving_up->some_keyless |= code != FG_OK;
    }
    return FG_OK;
}

static struct fg_blocks_lost lost_by(const struct giving_up *giving_up,
                                     const struct cli_mend_reference *reference)
{
    const struct fg_blocks_entry *block = reference->block;
    struct fg_blocks_lost lost = {.service = only_service(giving_up, reference->tenant),
                                  .why = fg_cstr(giving_up->why)};

    if (block != NULL) {
        lost.t_min_ns = block->t_min_ns;
        lost.t_max_ns = block->t_max_ns;
        /* Rollups of other blocks are derived again, so no profile is lost with them. */
        lost.profiles = fg_blocks_sums_others(block) ? 0 : block->profiles;
        lost.bytes = block->bytes;
    } else {
        lost.t_min_ns = reference->part->t_min_ns;
        lost.t_max_ns = reference->part->t_max_ns;
        lost.profiles = reference->part->profiles;
        lost.bytes = reference->segment->bytes;
    }
    return lost;
}

static enum fg_code give_up(struct giving_up *giving_up, const struct cli_mend_reference *reference,
                            struct fg_err *err)
{
    struct fg_err why;
    enum fg_code code = look_for_keys(giving_up, reference->tenant, &why);
    struct fg_blocks_lost lost;

    if (giving_up->some_keyless && code == FG_OK) {
        (void)fprintf(giving_up->out, "tenant %.*s: stays, since what it has can be decrypted\n",
                      FG_S(reference->tenant));
        return FG_OK;
    }
    if (code != FG_OK)
        (void)snprintf(giving_up->why, sizeof giving_up->why, "%s", why.msg);
    lost = lost_by(giving_up, reference);
    (void)fprintf(giving_up->out, "tenant %.*s: %llu profiles, times %lld to %lld ns\n",
                  FG_S(reference->tenant), (unsigned long long)lost.profiles,
                  (long long)lost.t_min_ns, (long long)lost.t_max_ns);
    return cli_mend_swap(&giving_up->mending, reference,
                         &(struct cli_mend_swap){.lost = &lost, .n_lost = 1}, giving_up->apply,
                         giving_up->out, err);
}

static enum fg_code run(struct giving_up *giving_up, struct fg_err *err)
{
    const struct cli_mending *mending = &giving_up->mending;

    if (examine(giving_up, err) != FG_OK || look_for_keyless(giving_up, err) != FG_OK)
        return err->code;
    /* The copy first: if the program is killed between the two, the object is still listed. */
    if (giving_up->apply &&
        cli_mend_keep(mending, fg_buf_slice(&giving_up->bytes), giving_up->out, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < mending->n_references; i++)
        if (give_up(giving_up, &mending->references[i], err) != FG_OK)
            return err->code;
    if (!giving_up->apply)
        (void)fprintf(giving_up->out, "nothing was written; --apply gives it up\n");
    return FG_OK;
}

enum fg_code cli_bucket_quarantine(struct fg_bucket *bucket, const char *object, bool apply,
                                   FILE *out, struct fg_err *err)
{
    struct giving_up giving_up = {
        .apply = apply, .out = out, .arena = fg_arena_create(ARENA_BYTES)};
    enum fg_code code = cli_mend_open(bucket, object, &giving_up.mending, err);

    fg_buf_init(&giving_up.bytes, 0);
    if (code == FG_OK)
        code = run(&giving_up, err);
    fg_buf_done(&giving_up.bytes);
    fg_arena_destroy(giving_up.arena);
    cli_mend_done(&giving_up.mending);
    return code;
}
