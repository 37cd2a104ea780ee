#include "compactor/rollup_deletion.h"

#include "common/storage/rollup/reader.h"
#include "compactor/fetch.h"

enum { ARENA_BYTES = 256 * 1024 * 1024 }; /* the directory, and the rollup of one part */

struct deleting {
    const struct cmp_rollup_deletion *task;
    struct fg_arena *arena, *scratch;
    struct fg_slice file;
    struct fg_block_directory directory;
    struct fg_block_writer *writer;
};

static struct fg_slice bytes_of(const struct deleting *deleting, struct fg_block_range range)
{
    return fg_slice_sub(deleting->file, (size_t)range.offset, (size_t)range.len);
}

/* Finds the deletion that takes the part; NULL: the part stays. Nothing can be subtracted from a
 * rollup, so a deletion of any of its profiles takes all of it. */
static enum fg_code taken_by(struct deleting *deleting, const struct fg_block_part *part,
                             struct fg_deletion **ret_deletion, struct fg_err *err)
{
    const struct fg_deletions *deletions = deleting->task->deletions;
    struct fg_rollups rollups;

    *ret_deletion = NULL;
    fg_arena_reset(deleting->scratch);
    if (fg_rollups_parse(part, bytes_of(deleting, fg_rollup_ranges(part).nod), deleting->scratch,
                         &rollups, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < deletions->count && *ret_deletion == NULL; i++) {
        bool named;

        if (fg_rollup_deletion_affects(&rollups, part, &deletions->items[i], deleting->scratch,
                                       &named, err) != FG_OK)
            return err->code;
        if (named)
            *ret_deletion = &deletions->items[i];
    }
    return FG_OK;
}

/* Copies the sections as they are: what is kept needs no decoding, and stays the same to the
 * bit. */
static enum fg_code copy_part(struct deleting *deleting, const struct fg_block_part *part,
                              struct fg_err *err)
{
    const struct fg_block_derived made = {.n_profiles = part->n_profiles,
                                          .t_min_ns = part->t_min_ns,
                                          .t_max_ns = part->t_max_ns,
                                          .digest = part->digest,
                                          .usage = part->usage,
                                          .copy_of = part};

    if (fg_block_part_begin_derived(deleting->writer, part->tenant, part->service, &made, err) !=
        FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (fg_block_kind_is_rollup(section->kind))
            fg_block_part_section(deleting->writer, (enum fg_block_kind)section->kind,
                                  bytes_of(deleting, section->range));
    }
    return fg_block_part_end(deleting->writer, err);
}

static enum fg_code copy_kept_parts(struct deleting *deleting, struct fg_block_summary *ret_summary,
                                    struct fg_err *err)
{
    /* From zero: an earlier attempt may have counted, and its block was not used. */
    for (uint32_t i = 0; i < deleting->task->deletions->count; i++)
        deleting->task->deletions->items[i].profiles = 0;
    for (uint32_t i = 0; i < deleting->directory.n_parts; i++) {
        const struct fg_block_part *part = &deleting->directory.parts[i];
        struct fg_deletion *deletion;

        if (cmp_env_check(deleting->task->env, err) != FG_OK ||
            taken_by(deleting, part, &deletion, err) != FG_OK)
            return err->code;
        if (deletion != NULL)
            deletion->profiles += part->n_profiles;
        else if (copy_part(deleting, part, err) != FG_OK)
            return err->code;
    }
    return fg_block_writer_finish(deleting->writer, ret_summary, err);
}

static enum fg_code delete_from_file(struct deleting *deleting, const struct cmp_fetched *fetched,
                                     struct fg_block_summary *ret_summary, struct fg_err *err)
{
    const struct fg_blocks_entry *block = deleting->task->block;

    deleting->file = fg_bytes(fetched->map, fetched->map_len);
    if (fg_block_directory_parse(
            fg_slice_sub(deleting->file, (size_t)block->directory_offset, SIZE_MAX), block->bytes,
            deleting->task->env->bucket->keys, deleting->arena, &deleting->directory, err) != FG_OK)
        return err->code;
    if (!deleting->directory.derived)
        return fg_fail(err, FG_E_CORRUPT,
                       "the block has profiles, but the manifest says rollups only");
    return copy_kept_parts(deleting, ret_summary, err);
}

enum fg_code cmp_rollup_deletion_write(const struct cmp_rollup_deletion *task,
                                       const struct fg_block_sink *sink,
                                       struct fg_block_summary *ret_summary, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    fg_auto(fg_arena) *scratch = fg_arena_create(ARENA_BYTES);
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(sink, task->block->level);
    struct deleting deleting = {.task = task, .arena = arena, .scratch = scratch, .writer = writer};
    struct cmp_fetched fetched = {.map = NULL};
    char name[FG_NAME_MAX_BYTES];
    enum fg_code code;

    fg_block_writer_set_version(writer, task->env->block_version);
    fg_block_writer_set_keys(writer, task->env->bucket->keys);
    if (fg_name_block(name, task->tenant, task->block->id, err) != FG_OK ||
        cmp_fetch_mapped(task->env, name, (struct fg_block_range){0, task->block->bytes}, &fetched,
                         err) != FG_OK)
        return err->code;
    code = delete_from_file(&deleting, &fetched, ret_summary, err);
    cmp_fetched_done(&fetched);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}
