#include "deploy/cli/bucket_verify.h"

#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_keys.h"
#include "common/storage/block/verify.h"
#include "common/storage/rollup/verify.h"
#include "deploy/cli/bucket_survey.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/progress.h"
#include "deploy/cli/verify_findings.h"
#include "deploy/cli/verify_parents.h"

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30; /* of one object */
static const int64_t UPLOAD_MAX_AGE_NS = FG_HOUR_NS;    /* an ingester commits none that is older */

#define CURE_L0      "flamegrid bucket rebuild l0"
#define CURE_RING    "flamegrid bucket rebuild ring"
#define CURE_TENANT  "flamegrid bucket rebuild tenant "
#define CURE_REBUILD "flamegrid bucket rebuild l0, or rebuild tenant"
#define CURE_ACCESS  "put it back from a backup, or from access.copy of a server"
#define CURE_KEY     "deploy/operations/encryption.md, What you see"
#define CURE_VERSION "use the newest version of flamegrid that writes to the bucket"
#define CURE_OBJECT                                                                                \
    "put it back from a backup; else flamegrid bucket repair %s; if that saves nothing, "          \
    "flamegrid bucket quarantine"

/* A tenant, and the ids of its profiles so far. */
struct verify_owner {
    const struct cli_survey_tenant *tenant;
    const struct fg_blocks *blocks; /* NULL: the manifest cannot be read */
    struct fg_id *ids;
    size_t n_ids, cap_ids;
    struct cli_parents parents;
    uint64_t n_segments, n_blocks, n_derived;
    uint64_t n_shredded, n_shredded_profiles;   /* objects, and what nobody can read in them */
    uint64_t n_rollup_only, n_dropped_profiles; /* objects, and the profiles in their sums */
    struct fg_usage usage;                      /* of all profiles, and of those that are gone */
};

struct bucket_verifying {
    struct cli_survey survey;
    struct fg_access_registry *access; /* NULL: damaged */
    const struct fg_l0 *l0;            /* NULL: there is none that can be read */
    struct verify_owner *owners;       /* as the survey's tenants */
    struct fg_err *err;                /* of the object at hand */
    struct cli_findings findings;
    json_t *tenants;      /* an array of the document; NULL: lines of text */
    struct fg_err unread; /* why some of the object at hand was not checked; code FG_OK: all was */
    uint64_t n_objects, n_bytes, n_pages;
    uint64_t n_orphans, orphan_bytes;
    struct cli_progress progress;
    uint64_t generation; /* of the L0 manifest; set at the end */
    bool moved;          /* an object left its manifest while it was read */
    bool ended;          /* everything was looked at, or said to be not checked */
};

/* An object as a manifest has it. */
struct listed {
    const char *name;
    uint64_t generation;        /* of a segment; 0: a block */
    struct verify_owner *owner; /* of a block */
    const struct fg_blocks_entry *block;
    uint64_t bytes, profiles;
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
};

static enum fg_code differs(const struct bucket_verifying *v, const struct listed *listed,
                            const char *what)
{
    return fg_fail(v->err, FG_E_CORRUPT, "%s: its %s is not what the manifest says", listed->name,
                   what);
}

/* Compares the usage of a block, or of each tenant in a segment, with the manifest. */
static bool same_usage(const struct bucket_verifying *v, const struct listed *listed,
                       const struct fg_block_directory *directory)
{
    const struct fg_l0_segment *segment =
        listed->block != NULL ? NULL : fg_l0_segment(v->l0, listed->generation);

    if (listed->block != NULL)
        return fg_usage_eq(&directory->usage, &listed->block->usage);
    for (uint32_t i = 0; segment != NULL && i < segment->n_parts; i++) {
        struct fg_slice tenant = v->l0->tenants[segment->parts[i].tenant].name;
        struct fg_usage usage = {0};

        for (uint32_t p = fg_block_part_find(directory, tenant, FG_LIT(""));
             p < directory->n_parts && fg_slice_eq(directory->parts[p].tenant, tenant); p++)
            fg_usage_add(&usage, &directory->parts[p].usage);
        if (!fg_usage_eq(&usage, &segment->parts[i].usage))
            return false;
    }
    return true;
}

static enum fg_code compare(const struct bucket_verifying *v, const struct listed *listed,
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
    if (!same_usage(v, listed, directory))
        return differs(v, listed, "usage");
    if (listed->block != NULL &&
        (directory->rollup_offset + listed->block->rollup_bytes !=
             listed->block->directory_offset ||
         (directory->n_parts > 0 && directory->derived != listed->block->derived)))
        return differs(v, listed, "place of rollups");
    return FG_OK;
}

static struct fg_slice bytes_of(struct fg_slice file, uint64_t offset, uint64_t len)
{
    return fg_slice_sub(file, (size_t)offset, (size_t)len);
}

/* ---- rollups ---- */

static enum fg_code verify_rollups(const struct bucket_verifying *v, const struct listed *listed,
                                   struct fg_slice file, const struct fg_block_part *part)
{
    if (fg_rollup_verify(part, file, PARSED_MAX_BYTES, v->err) != FG_OK ||
        fg_rollup_verify_sums(part, file, PARSED_MAX_BYTES, v->err) != FG_OK)
        return v->err->code;
    if (listed->block == NULL)
        return FG_OK;
    if (listed->block->rollup_only) { /* its profiles are gone: only its own sums can be compared */
        listed->owner->n_dropped_profiles += part->n_profiles;
        return fg_rollup_verify_spans(part, file, PARSED_MAX_BYTES, v->err);
    }
    if (listed->block->derived) {
        struct fg_block_range nod = fg_rollup_ranges(part).nod;

        return cli_parents_check(&listed->owner->parents, listed->block, part,
                                 bytes_of(file, nod.offset, nod.len), PARSED_MAX_BYTES, v->err);
    }
    return FG_OK;
}

/* ---- profiles ---- */

static void add_ids(struct verify_owner *owner, const struct fg_id *ids, size_t n)
{
    if (owner->n_ids + n > owner->cap_ids) {
        /* 16 bytes for each profile: all ids of a tenant have to be in memory to find
         * duplicates. */
        owner->cap_ids = FG_MAX(owner->n_ids + n, owner->cap_ids * 2);
        owner->ids = fg_realloc(owner->ids, owner->cap_ids * sizeof *owner->ids);
    }
    memcpy(owner->ids + owner->n_ids, ids, n * sizeof *ids);
    owner->n_ids += n;
    fg_assert(owner->n_ids <= owner->cap_ids);
}

static enum fg_code take_ids(const struct bucket_verifying *v, struct fg_slice file,
                             const struct fg_block_part *part, struct verify_owner *owner)
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

static struct verify_owner *find_owner(const struct bucket_verifying *v, struct fg_slice tenant)
{
    const struct cli_survey_tenant *found = cli_survey_tenant(&v->survey, tenant);

    return found == NULL ? NULL : &v->owners[found - v->survey.tenants];
}

/* Returns the owner for whom the part is live. NULL: a block covers the part, or it is unknown
 * whether one does. */
static struct verify_owner *owner_of(const struct bucket_verifying *v, const struct listed *listed,
                                     struct fg_slice tenant)
{
    struct verify_owner *owner = listed->generation == 0 ? listed->owner : find_owner(v, tenant);

    if (owner == NULL || owner->blocks == NULL ||
        (listed->generation != 0 && fg_blocks_covers(owner->blocks, listed->generation)))
        return NULL;
    return owner;
}

/* ---- keys ---- */

static bool is_shredded(const struct bucket_verifying *v, const struct fg_block_part *part)
{
    return part->key != 0 && v->access != NULL &&
           fg_tenant_key_is_shredded(v->access->message, part->tenant, part->key);
}

/* Returns whether the key of a part can be had; else why not. */
static enum fg_code check_key(const struct bucket_verifying *v, const struct fg_block_part *part,
                              struct fg_err *err)
{
    return part->key == 0 ? FG_OK
                          : fg_keys_check(v->survey.bucket->keys, part->tenant, part->key, err);
}

/* Returns whether all parts can be read. If not, v->unread says why, unless the keys were shredded:
 * that is what somebody wanted, and there is nothing left to check. */
static bool look_for_keys(struct bucket_verifying *v, const struct listed *listed,
                          const struct fg_block_directory *directory)
{
    const struct fg_block_part *before = NULL;
    bool all = true;

    v->unread.code = FG_OK;
    for (uint32_t p = 0; p < directory->n_parts; p++) {
        const struct fg_block_part *part = &directory->parts[p];
        struct verify_owner *owner = owner_of(v, listed, part->tenant);
        struct fg_err why;

        if (is_shredded(v, part)) {
            all = false;
            if (owner == NULL)
                continue;
            owner->n_shredded += before == NULL || !fg_slice_eq(before->tenant, part->tenant);
            owner->n_shredded_profiles += part->n_profiles;
            before = part;
        } else if (check_key(v, part, &why) != FG_OK) {
            all = false;
            if (v->unread.code == FG_OK)
                v->unread = why;
        }
    }
    return all;
}

/* ---- objects ---- */

static enum fg_code verify_parts(struct bucket_verifying *v, const struct listed *listed,
                                 struct fg_slice file, const struct fg_block_directory *directory,
                                 bool all)
{
    for (uint32_t p = 0; p < directory->n_parts; p++) {
        const struct fg_block_part *part = &directory->parts[p];
        struct verify_owner *owner = owner_of(v, listed, part->tenant);
        struct fg_err unread;

        /* The directory of a part is not encrypted. Rollups of live blocks repeat the
         * usage of these blocks. */
        if (owner != NULL && (listed->block == NULL || !fg_blocks_sums_others(listed->block)))
            fg_usage_add(&owner->usage, &part->usage);
        if (listed->block != NULL && !listed->block->derived)
            cli_parents_hold(&listed->owner->parents, listed->block->id, part);
        if (!all && (is_shredded(v, part) || check_key(v, part, &unread) != FG_OK))
            continue;
        if (!all && fg_block_verify_part(file, part, FG_BLOCK_VERIFY_ALL, PARSED_MAX_BYTES,
                                         v->err) != FG_OK)
            return v->err->code;
        if (verify_rollups(v, listed, file, part) != FG_OK ||
            (owner != NULL && take_ids(v, file, part, owner) != FG_OK))
            return v->err->code;
    }
    return FG_OK;
}

static enum fg_code parse_directory(const struct bucket_verifying *v, struct fg_slice file,
                                    struct fg_arena *arena,
                                    struct fg_block_directory *ret_directory)
{
    uint64_t offset = 0;

    if (fg_block_directory_offset(file, file.len, &offset, v->err) != FG_OK)
        return v->err->code;
    return fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                    v->survey.bucket->keys, arena, ret_directory, v->err);
}

/* Verifies the parts that can be read. v->unread: why others were not. */
static enum fg_code verify_file(struct bucket_verifying *v, const struct listed *listed,
                                struct fg_slice file)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_directory directory = {0};
    struct fg_block_verified verified = {0};
    bool all;

    v->unread.code = FG_OK;
    if (parse_directory(v, file, arena, &directory) != FG_OK)
        return fg_wrap(v->err, "%s", listed->name);
    all = look_for_keys(v, listed, &directory);
    if (all &&
        fg_block_verify(file, v->survey.bucket->keys, PARSED_MAX_BYTES, &verified, v->err) != FG_OK)
        return fg_wrap(v->err, "%s", listed->name);
    if (compare(v, listed, &directory) != FG_OK)
        return v->err->code;
    if (verify_parts(v, listed, file, &directory, all) != FG_OK)
        return fg_wrap(v->err, "%s", listed->name);
    if (v->unread.code != FG_OK)
        return FG_OK;
    /* Counted after all checks: "ok: N objects" means that N are intact. */
    v->n_objects++;
    cli_progress_step(&v->progress, 1, listed->bytes);
    v->n_bytes += file.len;
    v->n_pages += verified.n_pages;
    return FG_OK;
}

/* ---- what manifests list ---- */

/* Reads the manifest again, to find out whether it still lists the object: a compactor may be at
 * work. */
static enum fg_code is_still_listed(struct bucket_verifying *v, const struct listed *listed,
                                    const struct fg_segment_id *segment, bool *ret_listed)
{
    struct cli_survey_object now = {.code = FG_OK};
    enum fg_code code;

    *ret_listed = false;
    if (listed->block != NULL) {
        code = cli_survey_read_blocks(v->survey.bucket, fg_cstr(listed->owner->tenant->name), &now,
                                      v->err);
        if (code == FG_OK && now.code == FG_OK)
            *ret_listed = fg_blocks_find(&now.content->blocks, listed->block->id) != NULL;
    } else {
        code = cli_survey_read_l0(v->survey.bucket, &now, v->err);
        if (code == FG_OK && now.code == FG_OK) {
            const struct fg_l0_segment *found = fg_l0_segment(&now.content->l0, listed->generation);

            *ret_listed = found != NULL && fg_segment_id_cmp(&found->id, segment) == 0;
        }
    }
    cli_survey_object_done(&now);
    return code;
}

/* Returns true if all tenants cover the segment: nothing reads it, and it is deleted soon. */
static bool is_unneeded(const struct bucket_verifying *v, const struct listed *listed)
{
    const struct fg_l0_segment *segment =
        listed->block != NULL ? NULL : fg_l0_segment(v->l0, listed->generation);

    for (uint32_t p = 0; segment != NULL && p < segment->n_parts; p++)
        if (owner_of(v, listed, v->l0->tenants[segment->parts[p].tenant].name) != NULL)
            return false;
    return segment != NULL;
}

/* Cuts off the object's name, with which its errors begin: reports have it already. */
static const char *without_name(const char *why, const char *name)
{
    size_t len = strlen(name);

    return strncmp(why, name, len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why;
}

/* Reports what is wrong with a listed object, if it is still listed. */
static enum fg_code report_listed(struct bucket_verifying *v, const struct listed *listed,
                                  const struct fg_segment_id *segment, enum fg_code code)
{
    char cure[sizeof CURE_OBJECT + FG_NAME_MAX_BYTES];
    const char *why = without_name(v->err->msg, listed->name);
    bool there = true;

    (void)snprintf(cure, sizeof cure, CURE_OBJECT, listed->name);
    if (code == FG_E_UNIMPLEMENTED)
        cli_findings_unchecked(&v->findings, listed->name, CURE_VERSION, why);
    else if (code != FG_E_NOT_FOUND)
        cli_findings_fault(&v->findings, listed->name, cure,
                           "damaged: %s; answers that need the damaged part lack it", why);
    else if (is_still_listed(v, listed, segment, &there) != FG_OK)
        return v->err->code;
    else if (there)
        cli_findings_fault(
            &v->findings, listed->name, cure,
            "the object is missing; its %llu profiles are lost unless it is put back",
            (unsigned long long)listed->profiles);
    v->moved |= !there;
    if (there && listed->block != NULL)
        cli_parents_break(&listed->owner->parents, listed->block->id);
    return FG_OK;
}

/* Verifies a listed object. FG_OK also if it has a fault, which is reported. */
static enum fg_code verify_listed(struct bucket_verifying *v, const struct listed *listed,
                                  const struct fg_segment_id *segment)
{
    struct fg_buf body;
    enum fg_code code = cli_survey_get(v->survey.bucket, listed->name, &body, v->err);

    v->unread.code = FG_OK;
    if (code == FG_OK)
        code = verify_file(v, listed, fg_buf_slice(&body));
    fg_buf_done(&body);
    /* Damage and absence are findings; an error of the bucket itself ends the run. */
    if (code != FG_OK && code != FG_E_NOT_FOUND && code != FG_E_CORRUPT && code != FG_E_LIMIT &&
        code != FG_E_UNIMPLEMENTED)
        return code;
    if ((code == FG_OK && v->unread.code == FG_OK) || is_unneeded(v, listed))
        return FG_OK;
    if (code != FG_OK)
        return report_listed(v, listed, segment, code);
    cli_findings_unchecked(&v->findings, listed->name, CURE_KEY, v->unread.msg);
    return FG_OK;
}

static enum fg_code verify_segments(struct bucket_verifying *v)
{
    for (uint32_t i = 0; v->l0 != NULL && i < v->l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &v->l0->segments[i];
        char name[FG_NAME_MAX_BYTES];

        fg_name_segment(name, &segment->id);
        for (uint32_t p = 0; p < segment->n_parts; p++)
            /* The survey has every tenant of the L0 manifest, so this is never NULL. */
            find_owner(v, v->l0->tenants[segment->parts[p].tenant].name)->n_segments++;
        if (verify_listed(v,
                          &(struct listed){.name = name,
                                           .generation = segment->generation,
                                           .bytes = segment->bytes,
                                           .profiles = segment->profiles,
                                           .t_min_ns = segment->t_min_ns,
                                           .t_max_ns = segment->t_max_ns,
                                           .digest = segment->digest},
                          &segment->id) != FG_OK)
            return v->err->code;
    }
    return FG_OK;
}

/* Verifies the blocks with profiles, or the derived ones. Profiles come first: derived blocks are
 * compared with them. */
static enum fg_code verify_blocks(struct bucket_verifying *v, struct verify_owner *owner,
                                  bool derived)
{
    for (uint32_t i = 0; i < owner->blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &owner->blocks->blocks[i];
        char name[FG_NAME_MAX_BYTES];

        if (block->derived != derived)
            continue;
        owner->n_blocks += !derived;
        owner->n_derived += derived && !block->rollup_only;
        owner->n_rollup_only += block->rollup_only;
        if (fg_name_block(name, fg_cstr(owner->tenant->name), block->id, v->err) != FG_OK ||
            verify_listed(v,
                          &(struct listed){.name = name,
                                           .owner = owner,
                                           .block = block,
                                           .bytes = block->bytes,
                                           .profiles = block->profiles,
                                           .t_min_ns = block->t_min_ns,
                                           .t_max_ns = block->t_max_ns,
                                           .digest = block->digest},
                          NULL) != FG_OK)
            return v->err->code;
    }
    return FG_OK;
}

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

static void print_owner(FILE *out, const struct verify_owner *owner, uint64_t duplicates)
{
    fprintf(out, "%s: %zu profiles, ", owner->tenant->name, owner->n_ids - (size_t)duplicates);
    if (duplicates == 0)
        fprintf(out, "each once, ");
    else
        fprintf(out, "%llu of them more than once, ", (unsigned long long)duplicates);
    fprintf(out, "in %llu segments and %llu blocks", (unsigned long long)owner->n_segments,
            (unsigned long long)owner->n_blocks);
    if (owner->n_derived > 0)
        fprintf(out, ", and %llu of rollups of these", (unsigned long long)owner->n_derived);
    if (owner->n_rollup_only > 0)
        fprintf(out, "; rollups of %llu profiles that were dropped, in %llu blocks",
                (unsigned long long)owner->n_dropped_profiles,
                (unsigned long long)owner->n_rollup_only);
    fprintf(out, "; usage of %llu profiles: %llu wire bytes, %llu raw bytes, %llu samples\n",
            (unsigned long long)owner->usage.profiles, (unsigned long long)owner->usage.wire_bytes,
            (unsigned long long)owner->usage.raw_bytes, (unsigned long long)owner->usage.samples);
    if (owner->n_shredded > 0)
        fprintf(out,
                "shredded: %s: nobody can read %llu profiles in %llu objects; to remove them: "
                "flamegrid encryption drop %s\n",
                owner->tenant->name, (unsigned long long)owner->n_shredded_profiles,
                (unsigned long long)owner->n_shredded, owner->tenant->name);
}

static json_t *json_of_owner(const struct verify_owner *owner, uint64_t duplicates)
{
    return json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:{s:o,s:o,s:o,s:o}}", "tenant",
        cli_json_text(fg_cstr(owner->tenant->name)), "profiles",
        cli_json_u64(owner->n_ids - duplicates), "duplicates", cli_json_u64(duplicates), "segments",
        cli_json_u64(owner->n_segments), "blocks", cli_json_u64(owner->n_blocks), "rollup_blocks",
        cli_json_u64(owner->n_derived), "dropped_profiles", cli_json_u64(owner->n_dropped_profiles),
        "rollup_only_blocks", cli_json_u64(owner->n_rollup_only), "shredded_objects",
        cli_json_u64(owner->n_shredded), "shredded_profiles",
        cli_json_u64(owner->n_shredded_profiles), "usage", "profiles",
        cli_json_u64(owner->usage.profiles), "wire_bytes", cli_json_u64(owner->usage.wire_bytes),
        "raw_bytes", cli_json_u64(owner->usage.raw_bytes), "samples",
        cli_json_u64(owner->usage.samples));
}

/* Checks that the tenant has each profile once. */
static void check_ids(struct bucket_verifying *v, struct verify_owner *owner)
{
    char name[FG_NAME_MAX_BYTES];
    uint64_t twice = 0;

    if (owner->n_ids > 1)
        qsort(owner->ids, owner->n_ids, sizeof *owner->ids, cmp_ids);
    /* Only the first duplicate is reported: one fault of a tenant often has many. */
    for (size_t i = 1; i < owner->n_ids; i++) {
        if (!fg_id_eq(owner->ids[i], owner->ids[i - 1]))
            continue;
        if (twice++ == 0 && fg_name_blocks(name, fg_cstr(owner->tenant->name), v->err) == FG_OK)
            cli_findings_fault(
                &v->findings, name, CURE_REBUILD,
                "profile %016llx%016llx is there more than once, so answers count it twice",
                (unsigned long long)owner->ids[i].hi, (unsigned long long)owner->ids[i].lo);
    }
    cli_progress_clear(&v->progress);
    if (v->tenants != NULL)
        (void)json_array_append_new(v->tenants, json_of_owner(owner, twice));
    else
        print_owner(v->findings.out, owner, twice);
}

/* ---- manifests with one another ---- */

/* The greatest generation that some tenant's manifest covers, and whose it is. */
static const struct cli_survey_tenant *newest_covered(const struct cli_survey *survey,
                                                      uint64_t *ret_newest)
{
    const struct cli_survey_tenant *whose = NULL;

    *ret_newest = 0;
    for (size_t i = 0; i < survey->n_tenants; i++) {
        const struct fg_manifest *manifest = survey->tenants[i].manifest.content;

        if (manifest != NULL && manifest->blocks.newest > *ret_newest) {
            *ret_newest = manifest->blocks.newest;
            whose = &survey->tenants[i];
        }
    }
    return whose;
}

/* Finds out whether the L0 manifest is older than tenants' manifests. These were read later and may
 * cover what was committed in between, so the L0 manifest as it is now decides. */
static enum fg_code check_l0_age(struct bucket_verifying *v)
{
    struct cli_survey_object now = {.code = FG_OK};
    uint64_t newest, generation;
    const struct cli_survey_tenant *whose = newest_covered(&v->survey, &newest);

    if (newest <= v->l0->generation && v->survey.ring.generation <= v->l0->generation)
        return FG_OK;
    if (cli_survey_read_l0(v->survey.bucket, &now, v->err) != FG_OK)
        return v->err->code;
    generation = now.code == FG_OK ? now.content->l0.generation : v->l0->generation;
    cli_survey_object_done(&now);
    if (newest > generation)
        cli_findings_fault(
            &v->findings, FG_NAME_L0, CURE_L0,
            "it is from a backup: it ends with generation %llu, and the manifest of tenant %s "
            "covers %llu; newer segments are not read, and ingesters do not commit",
            (unsigned long long)generation, whose->name, (unsigned long long)newest);
    else if (v->survey.ring.generation > generation)
        cli_findings_fault(
            &v->findings, FG_NAME_L0, CURE_L0,
            "it is from a backup: it ends with generation %llu, and ingesters have drained into "
            "%llu; newer segments are not read, and ingesters do not commit",
            (unsigned long long)generation, (unsigned long long)v->survey.ring.generation);
    return FG_OK;
}

/* First of all: the L0 manifest decides which other objects count. */
static enum fg_code check_l0(struct bucket_verifying *v)
{
    const struct cli_survey *survey = &v->survey;

    if (survey->l0.code == FG_OK)
        return check_l0_age(v);
    if (survey->l0.code != FG_E_NOT_FOUND)
        cli_findings_fault(&v->findings, FG_NAME_L0, CURE_L0,
                           "damaged: %s; nothing in the bucket can be read", survey->l0.err.msg);
    else if (survey->n_segments > 0 || survey->n_tenants > 0 || survey->ring.generation > 0)
        cli_findings_fault(
            &v->findings, FG_NAME_L0, CURE_L0,
            "missing, and there are %zu segments, %zu blocks of %zu tenants, and a ring of "
            "generation %llu; nothing in the bucket can be read",
            survey->n_segments, survey->n_blocks, survey->n_tenants,
            (unsigned long long)survey->ring.generation);
    return FG_OK;
}

/* Checks the ring. A single server has none; a cluster has copies of it since its first change. */
static void check_ring(struct bucket_verifying *v)
{
    const struct cli_survey_object *ring = &v->survey.ring_object;

    if (ring->code == FG_OK)
        return;
    if (ring->code != FG_E_NOT_FOUND)
        cli_findings_fault(&v->findings, FG_RING_NAME, CURE_RING,
                           "damaged: %s; nobody can tell which ingesters to ask", ring->err.msg);
    else if (v->survey.ring_was_kept)
        cli_findings_fault(&v->findings, FG_RING_NAME, CURE_RING,
                           "missing, and there was one; nobody can tell which ingesters to ask");
}

/* Returns true if the tenant must have a manifest. Blocks that no manifest lists, while the L0
 * manifest still has all segments, are of a compaction that was not finished: nothing is lost. */
static bool needs_manifest(const struct bucket_verifying *v, const struct cli_survey_tenant *tenant)
{
    uint32_t number = v->l0 == NULL ? FG_L0_NO_TENANT : fg_l0_tenant(v->l0, fg_cstr(tenant->name));

    if (number == FG_L0_NO_TENANT)
        return tenant->n_blocks > 0;
    return v->l0->tenants[number].retired > 0 || (tenant->n_blocks > 0 && v->l0->floor > 0);
}

static enum fg_code check_tenant(struct bucket_verifying *v, struct verify_owner *owner)
{
    const struct cli_survey_tenant *tenant = owner->tenant;
    const struct cli_survey_object *manifest = &tenant->manifest;
    char name[FG_NAME_MAX_BYTES], cure[sizeof CURE_TENANT + FG_TENANT_MAX_BYTES];
    struct fg_err why;

    if (fg_name_blocks(name, fg_cstr(tenant->name), v->err) != FG_OK)
        return v->err->code;
    (void)snprintf(cure, sizeof cure, "%s%s", CURE_TENANT, tenant->name);
    if (manifest->code == FG_E_NOT_FOUND && needs_manifest(v, tenant))
        cli_findings_fault(
            &v->findings, name, cure,
            "missing, and there are %zu blocks of the tenant; questions about the tenant fail",
            tenant->n_blocks);
    else if (manifest->code != FG_OK && manifest->code != FG_E_NOT_FOUND)
        cli_findings_fault(&v->findings, name, cure, "damaged: %s; questions about the tenant fail",
                           manifest->err.msg);
    else if (manifest->code == FG_OK && v->l0 != NULL &&
             fg_blocks_check(&manifest->content->blocks, v->l0, &why) != FG_OK)
        cli_findings_fault(&v->findings, name, cure, "%s; questions about the tenant fail",
                           why.msg);
    return FG_OK;
}

/* ---- objects that nobody refers to ---- */

static void count_orphan(struct bucket_verifying *v, const struct cli_survey_entry *entry)
{
    v->n_orphans++;
    v->orphan_bytes += entry->bytes;
}

/* Returns true if the L0 manifest does not know the segment's cut, and the upload is too old to be
 * committed any more. */
static bool is_unlisted(const struct bucket_verifying *v, const struct cli_survey_entry *entry)
{
    const struct fg_l0_writer *writer = fg_l0_writer(v->l0, entry->name.segment.writer);

    return (writer == NULL || entry->name.segment.cut > writer->cut) &&
           fg_wall_ns(fg_clock_real()) >= fg_time_add(entry->modified_wall_ns, UPLOAD_MAX_AGE_NS);
}

/* Counts the profiles of an object, and those of them that no listed object has. Needs the owners'
 * ids sorted. */
static enum fg_code count_missing(struct bucket_verifying *v, struct fg_slice file,
                                  uint64_t *ret_profiles, uint64_t *ret_missing)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_directory directory = {0};
    struct verify_owner part = {0};
    enum fg_code code;

    *ret_profiles = *ret_missing = 0;
    v->unread.code = FG_OK;
    code = parse_directory(v, file, arena, &directory);
    for (uint32_t p = 0; p < directory.n_parts && code == FG_OK; p++) {
        const struct verify_owner *owner = find_owner(v, directory.parts[p].tenant);

        if (is_shredded(v, &directory.parts[p]) ||
            check_key(v, &directory.parts[p], &v->unread) != FG_OK)
            continue;
        part.n_ids = 0;
        code = take_ids(v, file, &directory.parts[p], &part);
        *ret_profiles += part.n_ids;
        for (size_t i = 0; i < part.n_ids; i++)
            *ret_missing += owner == NULL || owner->n_ids == 0 ||
                            bsearch(&part.ids[i], owner->ids, owner->n_ids, sizeof *owner->ids,
                                    cmp_ids) == NULL;
    }
    free(part.ids);
    return code;
}

/* An ingester that lost its disk between an upload and its commit leaves a segment of profiles that
 * the other replicas committed: an orphan. Profiles that are nowhere else are a fault. */
static enum fg_code check_unlisted(struct bucket_verifying *v, const struct cli_survey_entry *entry)
{
    char name[FG_NAME_MAX_BYTES];
    uint64_t profiles, missing;
    struct fg_buf body;
    enum fg_code code;

    fg_name_segment(name, &entry->name.segment);
    code = cli_survey_get(v->survey.bucket, name, &body, v->err);
    if (code == FG_OK)
        code = count_missing(v, fg_buf_slice(&body), &profiles, &missing);
    fg_buf_done(&body);
    if (code == FG_E_NOT_FOUND) { /* deleted since the survey */
        v->moved = true;
        return FG_OK;
    }
    if (code == FG_OK && missing == 0 && v->unread.code != FG_OK)
        cli_findings_unchecked(&v->findings, name, CURE_KEY, v->unread.msg);
    else if (code == FG_OK && missing == 0)
        count_orphan(v, entry);
    else if (code == FG_E_UNIMPLEMENTED)
        cli_findings_unchecked(&v->findings, name, CURE_VERSION, v->err->msg);
    else if (code == FG_OK)
        cli_findings_fault(
            &v->findings, name, "start its ingester, or " CURE_L0,
            "the L0 manifest has not heard of it, and %llu of its %llu profiles are in no other "
            "object: its ingester ended before the commit, or the manifest is from a backup",
            (unsigned long long)missing, (unsigned long long)profiles);
    else if (fg_damage_is(code))
        cli_findings_fault(&v->findings, name,
                           "start its ingester; if that is gone for good, delete the object",
                           "the L0 manifest has not heard of it, and it is damaged: %s",
                           without_name(v->err->msg, name));
    else
        return code;
    return FG_OK;
}

/* Counts the objects to which no manifest refers. Without a manifest nothing can be said; its loss
 * was reported. Call it after the owners' ids were sorted. */
static enum fg_code find_orphans(struct bucket_verifying *v)
{
    for (size_t i = 0; v->l0 != NULL && i < v->survey.n_segments; i++) {
        const struct cli_survey_entry *entry = &v->survey.segments[i];

        if (fg_l0_knows(v->l0, &entry->name.segment))
            continue;
        if (!is_unlisted(v, entry))
            count_orphan(v, entry);
        else if (check_unlisted(v, entry) != FG_OK)
            return v->err->code;
    }
    for (size_t t = 0; t < v->survey.n_tenants; t++)
        for (size_t i = 0; v->owners[t].blocks != NULL && i < v->survey.tenants[t].n_blocks; i++)
            if (!fg_blocks_knows(v->owners[t].blocks, v->survey.tenants[t].blocks[i].name.block))
                count_orphan(v, &v->survey.tenants[t].blocks[i]);
    return FG_OK;
}

/* ---- all ---- */

/* Reads the keys of tenants, which tell what was shredded. */
static enum fg_code read_access(struct bucket_verifying *v)
{
    enum fg_code code = fg_access_read(v->survey.bucket, cli_survey_deadline(), &v->access, v->err);

    if (code != FG_E_CORRUPT)
        return code;
    cli_findings_fault(&v->findings, FG_ACCESS_REGISTRY_NAME, CURE_ACCESS,
                       "damaged: %s; tokens, tenants and keys cannot be looked up", v->err->msg);
    return FG_OK;
}

static enum fg_code verify_all(struct bucket_verifying *v)
{
    uint64_t n_listed;

    if (read_access(v) != FG_OK || check_l0(v) != FG_OK)
        return v->err->code;
    check_ring(v);
    for (size_t i = 0; i < v->survey.n_tenants; i++)
        if (check_tenant(v, &v->owners[i]) != FG_OK)
            return v->err->code;
    /* Only objects are counted: reading them takes nearly all of the time. */
    n_listed = v->l0 == NULL ? 0 : v->l0->n_segments;
    for (size_t i = 0; i < v->survey.n_tenants; i++)
        if (v->owners[i].blocks != NULL)
            n_listed += v->owners[i].blocks->n_blocks;
    cli_progress_start(&v->progress, "objects", n_listed);
    if (verify_segments(v) != FG_OK)
        return v->err->code;
    for (size_t i = 0; i < v->survey.n_tenants; i++) {
        struct verify_owner *owner = &v->owners[i];

        if (owner->blocks == NULL)
            continue;
        /* The ids of all segments were collected before: duplicates between segment and block
         * count, too. */
        if (verify_blocks(v, owner, false) != FG_OK || verify_blocks(v, owner, true) != FG_OK)
            return v->err->code;
        check_ids(v, owner);
    }
    cli_progress_clear(&v->progress);
    if (find_orphans(v) != FG_OK)
        return v->err->code;
    if (v->n_orphans > 0 && v->findings.faults == NULL)
        fprintf(v->findings.out, "orphans: %llu objects, %llu bytes, that no manifest refers to\n",
                (unsigned long long)v->n_orphans, (unsigned long long)v->orphan_bytes);
    /* Faults were printed, but may come from two states of the bucket, so the exit code says
     * "unknown". */
    if (v->moved)
        return fg_fail(v->err, FG_E_ABORTED, "the bucket changed while it was read; try again");
    v->ended = true;
    if (v->findings.n_faults > 0)
        return fg_fail(v->err, FG_E_CORRUPT, "%llu faults, and %llu objects were not checked",
                       (unsigned long long)v->findings.n_faults,
                       (unsigned long long)v->findings.n_unchecked);
    if (v->findings.n_unchecked > 0)
        return fg_fail(v->err, FG_E_UNAVAILABLE, "no faults, but %llu objects were not checked",
                       (unsigned long long)v->findings.n_unchecked);
    if (v->findings.faults == NULL)
        fprintf(v->findings.out, "ok: %llu objects, %llu bytes, %llu pages, generation %llu\n",
                (unsigned long long)v->n_objects, (unsigned long long)v->n_bytes,
                (unsigned long long)v->n_pages,
                (unsigned long long)(v->l0 == NULL ? 0 : v->l0->generation));
    return FG_OK;
}

/* Makes the owners. A tenant without a manifest has no blocks, unless it must have one. */
static void meet_owners(struct bucket_verifying *v)
{
    v->owners = fg_calloc(FG_MAX(v->survey.n_tenants, (size_t)1), sizeof *v->owners);
    for (size_t i = 0; i < v->survey.n_tenants; i++) {
        struct cli_survey_tenant *tenant = &v->survey.tenants[i];
        struct verify_owner *owner = &v->owners[i];

        owner->tenant = tenant;
        if (tenant->manifest.code == FG_E_NOT_FOUND && !needs_manifest(v, tenant))
            fg_assert(fg_manifest_blocks(FG_LIT(""), FG_LIT(""), fg_cstr(tenant->name),
                                         &tenant->manifest.content, v->err) == FG_OK);
        if (tenant->manifest.content != NULL)
            owner->blocks = &tenant->manifest.content->blocks;
    }
}

static enum fg_code verify(struct bucket_verifying *v, struct fg_bucket *bucket)
{
    enum fg_code code;

    if (cli_survey_read(bucket, &v->survey, v->err) != FG_OK)
        return v->err->code;
    v->l0 = v->survey.l0.code == FG_OK ? &v->survey.l0.content->l0 : NULL;
    meet_owners(v);
    code = verify_all(v);
    cli_progress_clear(&v->progress);
    for (size_t i = 0; i < v->survey.n_tenants; i++) {
        free(v->owners[i].ids);
        cli_parents_done(&v->owners[i].parents);
    }
    free(v->owners);
    fg_access_registry_unref(v->access);
    v->generation = v->l0 == NULL ? 0 : v->l0->generation;
    cli_survey_done(&v->survey);
    return code;
}

enum fg_code cli_bucket_verify(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    struct bucket_verifying v = {.err = err, .findings = {.out = out, .progress = &v.progress}};

    return verify(&v, bucket);
}

enum fg_code cli_bucket_verify_json(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    struct bucket_verifying v = {.err = err,
                                 .findings = {.out = out,
                                              .progress = &v.progress,
                                              .faults = json_array(),
                                              .unchecked = json_array()},
                                 .tenants = json_array()};
    enum fg_code code = verify(&v, bucket);
    struct fg_err print_err;
    json_t *document;

    /* Faults, and what was not checked, are a result that the document lists. After other errors
     * there is no result. */
    if (!v.ended) {
        json_decref(v.findings.faults);
        json_decref(v.findings.unchecked);
        json_decref(v.tenants);
        return code;
    }
    document = json_pack("{s:b,s:o,s:o,s:o,s:{s:o,s:o},s:o,s:o,s:o,s:o}", "ok", code == FG_OK,
                         "faults", v.findings.faults, "unchecked", v.findings.unchecked, "tenants",
                         v.tenants, "orphans", "objects", cli_json_u64(v.n_orphans), "bytes",
                         cli_json_u64(v.orphan_bytes), "objects", cli_json_u64(v.n_objects),
                         "bytes", cli_json_u64(v.n_bytes), "pages", cli_json_u64(v.n_pages),
                         "generation", cli_json_u64(v.generation));
    if (cli_json_print(document, out, &print_err) != FG_OK) {
        *err = print_err;
        return err->code;
    }
    return code;
}
