#include "deploy/cli/bucket_look.h"

#include "common/base/str.h"
#include "common/cluster/membership/membership_core.h"
#include "common/storage/rollup/reader.h"
#include "deploy/cli/bucket_survey.h"
#include "deploy/cli/json_out.h"

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30;         /* memory for one parsed object */
static const size_t JSON_MAX_BYTES = (size_t)256 * 1024 * 1024; /* manifests have at most 32 MiB */

/* ---- manifests ---- */

/* Takes over the buffer. */
static void print_document(struct fg_buf *json, FILE *out)
{
    (void)fwrite(json->ptr, 1, json->len, out);
    fg_buf_done(json);
}

/* Prints the L0 manifest, or that of a tenant. A missing one is shown as the empty one. */
static enum fg_code inspect_manifest(struct fg_bucket *bucket, struct fg_slice tenant, FILE *out,
                                     struct fg_err *err)
{
    const struct fg_blocks no_blocks = fg_blocks_none(tenant);
    const struct fg_l0 no_l0 = fg_l0_none();
    struct cli_survey_object manifest = {.code = FG_OK};
    bool is_l0 = tenant.len == 0;
    enum fg_code code = is_l0 ? cli_survey_read_l0(bucket, &manifest, err)
                              : cli_survey_read_blocks(bucket, tenant, &manifest, err);
    struct fg_buf json;

    /* Damage is in manifest.code, an unreachable bucket in code. The exit code has to tell of
     * both. */
    if (code == FG_OK && manifest.code != FG_OK && manifest.code != FG_E_NOT_FOUND) {
        *err = manifest.err;
        code = err->code;
    }
    if (code == FG_OK) {
        fg_buf_init(&json, JSON_MAX_BYTES);
        if (is_l0)
            fg_l0_json(manifest.content == NULL ? &no_l0 : &manifest.content->l0, &json);
        else
            fg_blocks_json(manifest.content == NULL ? &no_blocks : &manifest.content->blocks,
                           &json);
        print_document(&json, out);
    }
    cli_survey_object_done(&manifest);
    return code;
}

/* ---- segments and blocks ---- */

static void print_part(const struct fg_block_part *part, FILE *out)
{
    fprintf(out,
            "%.*s/%.*s: %u profiles of %u series, %llu samples, %u stacks, %u nodes, %u groups, "
            "%llu bytes of names\n",
            FG_S(part->tenant), FG_S(part->service), part->n_profiles, part->n_series,
            (unsigned long long)part->n_samples, part->n_stacks, part->n_nodes, part->n_groups,
            (unsigned long long)fg_block_part_range(part, FG_BLOCK_WANT_FUNCTION_TREE).len);
    if (part->usage.profiles > 0)
        fprintf(out, "  usage of %llu profiles: %llu wire bytes, %llu raw bytes, %llu samples\n",
                (unsigned long long)part->usage.profiles,
                (unsigned long long)part->usage.wire_bytes,
                (unsigned long long)part->usage.raw_bytes, (unsigned long long)part->usage.samples);
    else
        fprintf(out, "  usage unknown: stored by a version that did not measure it\n");
    if (part->key != 0)
        fprintf(out, "  encrypted with key %u\n", part->key);
}

static const char *const row_kinds[] = {
    [FG_ROLLUP_ALL] = "all", [FG_ROLLUP_GROUP] = "group", [FG_ROLLUP_SERIES] = "series"};

static void print_row(const struct fg_rollups *rollups, const struct fg_rollup_row *row, FILE *out)
{
    const struct fg_profile_type *type = &rollups->types[row->type];

    fprintf(out,
            "  %.*s:%.*s, %s %u, %lld to %lld s: %llu profiles, total %lld, crown %u, totals %u, "
            "full %u bytes%s\n",
            FG_S(type->name), FG_S(type->type), row_kinds[row->key.kind], row->key.number,
            (long long)(row->key.start_ns / FG_SECOND_NS),
            (long long)(row->key.end_ns / FG_SECOND_NS), (unsigned long long)row->count,
            (long long)row->total, row->places[FG_ROLLUP_CROWN].bytes,
            row->places[FG_ROLLUP_TOTALS].bytes, row->places[FG_ROLLUP_FULL].bytes,
            row->factor == 1 ? "" : " of another");
}

static struct fg_slice bytes_of(struct fg_slice file, uint64_t offset, uint64_t len)
{
    return fg_slice_sub(file, (size_t)offset, (size_t)len);
}

static enum fg_code print_rollups(struct fg_slice file, const struct fg_block_part *part, FILE *out,
                                  struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_rollup_ranges ranges = fg_rollup_ranges(part);
    struct fg_rollups rollups = {0};

    /* Services whose rollups are not worth their bytes have none. */
    if (ranges.nod.len == 0)
        return FG_OK;
    if (fg_rollups_parse(part, bytes_of(file, ranges.nod.offset, ranges.nod.len), arena, &rollups,
                         err) != FG_OK)
        return err->code;
    fprintf(out,
            "  rollups: %u of %u types, %u groups, derived from %u objects; %llu, %llu, %llu and "
            "%llu bytes of places, crowns, function totals and full trees\n",
            rollups.n_rows, rollups.n_types, rollups.groups.n_groups, rollups.n_derived_from,
            (unsigned long long)ranges.nod.len, (unsigned long long)ranges.crn.len,
            (unsigned long long)ranges.ftb.len, (unsigned long long)ranges.ful.len);
    for (uint32_t i = 0; i < rollups.n_rows; i++)
        print_row(&rollups, &rollups.rows[i], out);
    ranges = fg_rollup_single_ranges(part);
    if (ranges.nod.len == 0)
        return FG_OK;
    if (fg_rollups_parse(part, bytes_of(file, ranges.nod.offset, ranges.nod.len), arena, &rollups,
                         err) != FG_OK)
        return err->code;
    fprintf(out,
            "  %u single series, %u rollups of them; %llu and %llu bytes of places and crowns\n",
            rollups.groups.n_groups, rollups.n_rows, (unsigned long long)ranges.nod.len,
            (unsigned long long)ranges.crn.len);
    return FG_OK;
}

/* ---- segments and blocks as JSON ---- */

static json_t *json_of_row(const struct fg_rollups *rollups, const struct fg_rollup_row *row)
{
    const struct fg_profile_type *type = &rollups->types[row->type];
    struct fg_buf name;
    json_t *json;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_printf(&name, "%.*s:%.*s", FG_S(type->name), FG_S(type->type));
    json = json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:b}", "type",
                     cli_json_text(fg_buf_slice(&name)), "kind", row_kinds[row->key.kind], "number",
                     cli_json_u64(row->key.number), "start", cli_json_time(row->key.start_ns),
                     "end", cli_json_time(row->key.end_ns), "profiles", cli_json_u64(row->count),
                     "total", (json_int_t)row->total, "crown_bytes",
                     cli_json_u64(row->places[FG_ROLLUP_CROWN].bytes), "totals_bytes",
                     cli_json_u64(row->places[FG_ROLLUP_TOTALS].bytes), "full_bytes",
                     cli_json_u64(row->places[FG_ROLLUP_FULL].bytes), "scaled", row->factor != 1);
    fg_buf_done(&name);
    return json;
}

/* Makes the JSON of a part's rollups. *ret_rollups NULL: it has none. */
static enum fg_code json_of_rollups(struct fg_slice file, const struct fg_block_part *part,
                                    json_t **ret_rollups, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_rollup_ranges ranges = fg_rollup_ranges(part);
    struct fg_rollups rollups = {0};
    json_t *rows;

    *ret_rollups = NULL;
    if (ranges.nod.len == 0)
        return FG_OK;
    if (fg_rollups_parse(part, bytes_of(file, ranges.nod.offset, ranges.nod.len), arena, &rollups,
                         err) != FG_OK)
        return err->code;
    rows = json_array();
    for (uint32_t i = 0; i < rollups.n_rows; i++)
        (void)json_array_append_new(rows, json_of_row(&rollups, &rollups.rows[i]));
    *ret_rollups = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "types", cli_json_u64(rollups.n_types), "groups",
        cli_json_u64(rollups.groups.n_groups), "sources", cli_json_u64(rollups.n_derived_from),
        "places_bytes", cli_json_u64(ranges.nod.len), "crowns_bytes", cli_json_u64(ranges.crn.len),
        "totals_bytes", cli_json_u64(ranges.ftb.len), "full_bytes", cli_json_u64(ranges.ful.len),
        "rows", rows);
    return FG_OK;
}

/* Makes the JSON of the rollups of a part's single series. *ret_single NULL: it has none. */
static enum fg_code json_of_single(struct fg_slice file, const struct fg_block_part *part,
                                   json_t **ret_single, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_rollup_ranges ranges = fg_rollup_single_ranges(part);
    struct fg_rollups rollups = {0};

    *ret_single = NULL;
    if (ranges.nod.len == 0)
        return FG_OK;
    if (fg_rollups_parse(part, bytes_of(file, ranges.nod.offset, ranges.nod.len), arena, &rollups,
                         err) != FG_OK)
        return err->code;
    *ret_single =
        json_pack("{s:o,s:o,s:o,s:o}", "series", cli_json_u64(rollups.groups.n_groups), "rows",
                  cli_json_u64(rollups.n_rows), "places_bytes", cli_json_u64(ranges.nod.len),
                  "crowns_bytes", cli_json_u64(ranges.crn.len));
    return FG_OK;
}

static enum fg_code json_of_part(struct fg_slice file, const struct fg_block_part *part,
                                 json_t **ret_part, struct fg_err *err)
{
    json_t *rollups = NULL, *single = NULL, *json;

    if (json_of_rollups(file, part, &rollups, err) != FG_OK ||
        json_of_single(file, part, &single, err) != FG_OK) {
        json_decref(rollups);
        return err->code;
    }
    json = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o*,s:o*}", "tenant",
                     cli_json_text(part->tenant), "service", cli_json_text(part->service),
                     "profiles", cli_json_u64(part->n_profiles), "series",
                     cli_json_u64(part->n_series), "samples", cli_json_u64(part->n_samples),
                     "stacks", cli_json_u64(part->n_stacks), "nodes", cli_json_u64(part->n_nodes),
                     "groups", cli_json_u64(part->n_groups), "names_bytes",
                     cli_json_u64(fg_block_part_range(part, FG_BLOCK_WANT_FUNCTION_TREE).len),
                     "key", cli_json_u64(part->key), "rollups", rollups, "single_series", single);
    /* A part that an older version wrote has no usage: the key is missing, not zero. */
    if (part->usage.profiles > 0)
        (void)json_object_set_new(json, "usage",
                                  json_pack("{s:o,s:o,s:o,s:o}", "profiles",
                                            cli_json_u64(part->usage.profiles), "wire_bytes",
                                            cli_json_u64(part->usage.wire_bytes), "raw_bytes",
                                            cli_json_u64(part->usage.raw_bytes), "samples",
                                            cli_json_u64(part->usage.samples)));
    *ret_part = json;
    return FG_OK;
}

/* Builds the whole document first: half a document would not parse, and no reader would see the
 * error. */
static enum fg_code print_json(struct fg_slice file, const struct fg_block_directory *directory,
                               FILE *out, struct fg_err *err)
{
    json_t *parts = json_array(), *part = NULL;

    for (uint32_t p = 0; p < directory->n_parts; p++) {
        if (json_of_part(file, &directory->parts[p], &part, err) != FG_OK) {
            json_decref(parts);
            return err->code;
        }
        (void)json_array_append_new(parts, part);
    }
    return cli_json_print(
        json_pack("{s:o,s:b,s:o,s:o,s:o,s:o,s:o}", "level", cli_json_u64(directory->level),
                  "rollup_only", directory->derived, "bytes", cli_json_u64(directory->file_bytes),
                  "profiles", cli_json_u64(directory->n_profiles), "start",
                  cli_json_time(directory->t_min_ns), "end", cli_json_time(directory->t_max_ns),
                  "parts", parts),
        out, err);
}

/* Parses the directory and the rollups. `bucket verify` checks the other pages, which takes far
 * longer. */
static enum fg_code inspect_object(struct fg_bucket *bucket, const char *name, bool json, FILE *out,
                                   struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(PARSED_MAX_BYTES);
    struct fg_block_directory directory = {0};
    struct fg_buf bytes;
    struct fg_slice file;
    uint64_t offset = 0;
    enum fg_code code = cli_survey_get(bucket, name, &bytes, err);

    file = fg_buf_slice(&bytes);
    if (code == FG_OK)
        code = fg_block_directory_offset(file, file.len, &offset, err);
    if (code == FG_OK)
        code = fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                        bucket->keys, arena, &directory, err);
    if (code == FG_OK && json) {
        code = print_json(file, &directory, out, err);
    } else if (code == FG_OK) {
        fprintf(out, "level %u%s, %llu bytes, %llu profiles, times %lld to %lld ns\n",
                directory.level, directory.derived ? ", rollups only" : "",
                (unsigned long long)directory.file_bytes, (unsigned long long)directory.n_profiles,
                (long long)directory.t_min_ns, (long long)directory.t_max_ns);
        /* Prints while it parses: if one part is damaged, those before it are shown. */
        for (uint32_t p = 0; code == FG_OK && p < directory.n_parts; p++) {
            print_part(&directory.parts[p], out);
            code = print_rollups(file, &directory.parts[p], out, err);
        }
    }
    fg_buf_done(&bytes);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}

/* Decodes instead of printing the bytes: only a ring that a server would accept is shown as one. */
static enum fg_code inspect_ring(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring;
    struct fg_buf bytes, json;
    enum fg_code code = cli_survey_get(bucket, FG_RING_NAME, &bytes, err);

    if (code == FG_OK)
        code = fg_ring_decode(fg_buf_slice(&bytes), arena, &ring, err);
    fg_buf_done(&bytes);
    if (code != FG_OK)
        return code;
    fg_buf_init(&json, JSON_MAX_BYTES);
    fg_ring_json(&ring, &json);
    print_document(&json, out);
    return FG_OK;
}

static enum fg_code inspect_compactors(struct fg_bucket *bucket, FILE *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MEMBER_LIST_ARENA_BYTES);
    struct fg_member_list list;
    struct fg_buf bytes, json;
    enum fg_code code = cli_survey_get(bucket, FG_NAME_COMPACTORS, &bytes, err);

    if (code == FG_OK)
        code = fg_member_list_decode(fg_buf_slice(&bytes), arena, &list, err);
    fg_buf_done(&bytes);
    if (code != FG_OK)
        return code;
    fg_buf_init(&json, JSON_MAX_BYTES);
    fg_member_list_json(&list, &json);
    print_document(&json, out);
    return FG_OK;
}

enum fg_code cli_bucket_inspect(struct fg_bucket *bucket, const char *name, bool json, FILE *out,
                                struct fg_err *err)
{
    struct fg_name parsed;

    /* The name decides what the object is, as in the servers. */
    if (!fg_name_parse(fg_cstr(name), &parsed))
        return fg_fail(err, FG_E_INVALID, "%s: neither a manifest nor a segment nor a block", name);
    switch (parsed.kind) {
    case FG_NAME_IS_L0:
        return inspect_manifest(bucket, FG_LIT(""), out, err);
    case FG_NAME_IS_RING:
        return inspect_ring(bucket, out, err);
    case FG_NAME_IS_COMPACTORS:
        return inspect_compactors(bucket, out, err);
    case FG_NAME_IS_BLOCKS:
        return inspect_manifest(bucket, fg_cstr(parsed.tenant), out, err);
    default:
        return inspect_object(bucket, name, json, out, err);
    }
}
