#include "compactor/strip.h"

#include "common/storage/rollup/reader.h"
#include "compactor/fetch.h"

enum { ARENA_BYTES = 256 * 1024 * 1024 }; /* the directory, and what nodes one part has */

struct stripping {
    const struct cmp_strip *strip;
    struct fg_arena *arena, *scratch;
    struct fg_slice file;
    struct fg_block_directory directory;
    struct fg_block_writer *writer;
};

static struct fg_slice bytes_of(const struct stripping *stripping, struct fg_block_range range)
{
    return fg_slice_sub(stripping->file, (size_t)range.offset, (size_t)range.len);
}

/* The deletion that takes the part; NULL: it stays. */
static enum fg_code taken_by(struct stripping *stripping, const struct fg_block_part *part,
                             struct fg_deletion **ret_deletion, struct fg_err *err)
{
    const struct fg_deletions *deletions = stripping->strip->deletions;
    struct fg_rollups nodes;

    *ret_deletion = NULL;
    fg_arena_reset(stripping->scratch);
    if (fg_rollups_parse(part, bytes_of(stripping, fg_rollup_ranges(part).nod), stripping->scratch,
                         &nodes, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < deletions->count && *ret_deletion == NULL; i++) {
        bool named;

        if (fg_rollup_deletion_affects(&nodes, part, &deletions->items[i], stripping->scratch,
                                       &named, err) != FG_OK)
            return err->code;
        if (named)
            *ret_deletion = &deletions->items[i];
    }
    return FG_OK;
}

static enum fg_code copy_part(struct stripping *stripping, const struct fg_block_part *part,
                              struct fg_err *err)
{
    const struct fg_block_derived made = {.n_profiles = part->n_profiles,
                                          .t_min_ns = part->t_min_ns,
                                          .t_max_ns = part->t_max_ns,
                                          .digest = part->digest,
                                          .usage = part->usage};

    if (fg_block_part_begin_derived(stripping->writer, part->tenant, part->service, &made, err) !=
        FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (section->kind >= FG_BLOCK_NOD && section->kind <= FG_BLOCK_FUL)
            fg_block_part_section(stripping->writer, (enum fg_block_kind)section->kind,
                                  bytes_of(stripping, section->range));
    }
    return fg_block_part_end(stripping->writer, err);
}

static enum fg_code strip_parts(struct stripping *stripping, struct fg_block_summary *ret_summary,
                                struct fg_err *err)
{
    for (uint32_t i = 0; i < stripping->strip->deletions->count; i++)
        stripping->strip->deletions->items[i].profiles = 0;
    for (uint32_t i = 0; i < stripping->directory.n_parts; i++) {
        const struct fg_block_part *part = &stripping->directory.parts[i];
        struct fg_deletion *deletion;

        if (cmp_env_check(stripping->strip->env, err) != FG_OK ||
            taken_by(stripping, part, &deletion, err) != FG_OK)
            return err->code;
        if (deletion != NULL)
            deletion->profiles += part->n_profiles;
        else if (copy_part(stripping, part, err) != FG_OK)
            return err->code;
    }
    return fg_block_writer_finish(stripping->writer, ret_summary, err);
}

static enum fg_code strip_file(struct stripping *stripping, const struct cmp_fetched *fetched,
                               struct fg_block_summary *ret_summary, struct fg_err *err)
{
    const struct fg_blocks_entry *block = stripping->strip->block;

    stripping->file = fg_bytes(fetched->map, fetched->map_len);
    if (fg_block_directory_parse(
            fg_slice_sub(stripping->file, (size_t)block->directory_offset, SIZE_MAX), block->bytes,
            stripping->arena, &stripping->directory, err) != FG_OK)
        return err->code;
    if (!stripping->directory.derived)
        return fg_fail(err, FG_E_CORRUPT,
                       "the block has profiles, but the manifest says rollups only");
    return strip_parts(stripping, ret_summary, err);
}

enum fg_code cmp_strip_write(const struct cmp_strip *strip, const struct fg_block_sink *sink,
                             struct fg_block_summary *ret_summary, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    fg_auto(fg_arena) *scratch = fg_arena_create(ARENA_BYTES);
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(sink, strip->block->level);
    struct stripping stripping = {
        .strip = strip, .arena = arena, .scratch = scratch, .writer = writer};
    struct cmp_fetched fetched = {.map = NULL};
    char name[FG_NAME_MAX_BYTES];
    enum fg_code code;

    fg_block_writer_set_version(writer, strip->env->block_version);
    if (fg_name_block(name, strip->tenant, strip->block->id, err) != FG_OK ||
        cmp_fetch_mapped(strip->env, name, (struct fg_block_range){0, strip->block->bytes},
                         &fetched, err) != FG_OK)
        return err->code;
    code = strip_file(&stripping, &fetched, ret_summary, err);
    cmp_fetched_done(&fetched);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}
