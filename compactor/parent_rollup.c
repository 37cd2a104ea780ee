#include "compactor/parent_rollup.h"

#include "common/storage/rollup/reader.h"
#include "compactor/merge/merge_parent.h"

enum {
    ARENA_BYTES = 256 * 1024 * 1024, /* directories, and lists of rollups */
    SHARE_SERVICE = 4,               /* of memory: series of one service */
    SHARE_SUMS = 2,
};

/* A block: its directory, and the lists of rollups before it. */
struct opened {
    const struct fg_blocks_entry *entry;
    char name[FG_NAME_MAX_BYTES];
    struct fg_block_directory directory;
    struct fg_slice tail; /* from rollup_offset on */
    uint32_t next;        /* the part that comes next */
    uint32_t end;
};

struct parent_running {
    const struct cmp_parent_rollup *parent;
    struct fg_arena *arena;
    struct opened *blocks;
    struct fg_block_writer *writer;
    uint64_t read_bytes;
    uint32_t left_out;

    /* Of the service at hand. */
    struct fg_arena *scratch;
    struct cmp_merge_parent_part *parts; /* [n_blocks] */
    struct opened **of;                  /* [n_parts]: whose they are */
    struct cmp_fetched *fetched;         /* [n_parts] */
    uint32_t n_parts;
};

static enum fg_code no_room(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "no room for the blocks of a span");
}

/* ---- blocks ---- */

/* One request gets both: the rollup directories end where the directory begins. */
static enum fg_code read_tail(struct parent_running *running, struct opened *opened,
                              struct fg_err *err)
{
    const struct fg_blocks_entry *entry = opened->entry;
    uint64_t from = entry->rollup_bytes > 0 ? entry->rollup_offset : entry->directory_offset;
    struct fg_buf body;
    enum fg_code code;

    if (cmp_fetch_range(running->parent->env, opened->name,
                        (struct fg_block_range){from, entry->bytes - from}, &body, err) != FG_OK)
        return err->code;
    running->read_bytes += body.len;
    opened->tail = fg_arena_copy(running->arena, fg_buf_slice(&body));
    fg_buf_done(&body);
    if (opened->tail.ptr == NULL)
        return no_room(err);
    code = fg_block_directory_parse(
        fg_slice_sub(opened->tail, (size_t)(entry->directory_offset - from), SIZE_MAX),
        entry->bytes, running->parent->env->bucket->keys, running->arena, &opened->directory, err);
    if (code == FG_OK &&
        opened->directory.rollup_offset !=
            (entry->rollup_bytes > 0 ? entry->rollup_offset : entry->directory_offset))
        code = fg_fail(err, FG_E_CORRUPT, "the place of its rollups in the manifest");
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", opened->name);
}

static enum fg_code open_block(struct parent_running *running, uint32_t number, struct fg_err *err)
{
    struct opened *opened = &running->blocks[number];
    const struct cmp_parent_rollup *parent = running->parent;

    opened->entry = parent->blocks[number];
    if (cmp_env_check(parent->env, err) != FG_OK ||
        fg_name_block(opened->name, parent->tenant, opened->entry->id, err) != FG_OK ||
        read_tail(running, opened, err) != FG_OK)
        return err->code;
    opened->next = opened->end = fg_block_part_find(&opened->directory, parent->tenant, FG_LIT(""));
    while (opened->end < opened->directory.n_parts &&
           fg_slice_eq(opened->directory.parts[opened->end].tenant, parent->tenant))
        opened->end++;
    return FG_OK;
}

static const struct fg_block_part *next_part(const struct opened *opened)
{
    return opened->next < opened->end ? &opened->directory.parts[opened->next] : NULL;
}

/* Finds the least service that is not written yet. Parts of a block are sorted by service, so
 * only the next part of each block counts. */
static bool next_service(const struct parent_running *running, struct fg_slice *ret_service)
{
    bool found = false;

    for (uint32_t i = 0; i < running->parent->n_blocks; i++) {
        const struct fg_block_part *part = next_part(&running->blocks[i]);

        if (part == NULL || (found && fg_slice_cmp(part->service, *ret_service) >= 0))
            continue;
        *ret_service = part->service;
        found = true;
    }
    return found;
}

/* ---- a part ---- */

/* The range of all sections of the part, except those after all parts; without profiles: from CRN
 * on. */
static struct fg_block_range range_of(const struct fg_block_part *part, bool profiles)
{
    struct fg_block_range range = {0, 0};

    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (section->kind == FG_BLOCK_GRP || section->kind == FG_BLOCK_NOD ||
            (!profiles && fg_block_kind_has_times(section->kind)))
            continue;
        if (range.len == 0)
            range.offset = section->range.offset;
        range.len = section->range.offset + section->range.len - range.offset;
    }
    return range;
}

static enum fg_code read_part(struct parent_running *running, uint32_t number, bool profiles,
                              struct fg_err *err)
{
    struct cmp_merge_parent_part *part = &running->parts[number];
    const struct opened *opened = running->of[number];
    struct cmp_fetched *fetched = &running->fetched[number];
    const struct fg_block_part *of = &opened->directory.parts[opened->next];

    cmp_fetched_done(fetched);
    if (cmp_env_check(running->parent->env, err) != FG_OK ||
        cmp_fetch_mapped(running->parent->env, opened->name, range_of(of, profiles), fetched,
                         err) != FG_OK)
        return err->code;
    running->read_bytes += fetched->map_len;
    fetched->source.parts = of;
    fetched->source.n_parts = 1;
    return cmp_merge_part_open(&fetched->source, 0, running->scratch, &part->part, err);
}

static enum fg_code add_part(struct parent_running *running, struct opened *opened,
                             struct fg_err *err)
{
    const struct fg_block_part *of = next_part(opened);
    struct fg_block_range nod = fg_rollup_ranges(of).nod;
    uint32_t number = running->n_parts++;
    struct cmp_merge_parent_part *part = &running->parts[number];

    *part = (struct cmp_merge_parent_part){.id = opened->entry->id};
    running->of[number] = opened;
    running->fetched[number] = (struct cmp_fetched){.map = NULL};
    if (nod.len > 0 &&
        fg_rollups_parse(of,
                         fg_slice_sub(opened->tail,
                                      (size_t)(nod.offset - opened->directory.rollup_offset),
                                      (size_t)nod.len),
                         running->scratch, &part->rollups, err) != FG_OK)
        return fg_wrap(err, "%s", opened->name);
    /* A part without rollups is summed from its profiles. */
    return read_part(running, number, nod.len == 0, err);
}

/* ---- a service ---- */

static enum fg_code sum_up(struct parent_running *running, struct fg_slice service,
                           struct fg_err *err)
{
    const struct cmp_parent_rollup *parent = running->parent;
    struct cmp_merge_parent merge = {.tenant = parent->tenant,
                                     .service = service,
                                     .parts = running->parts,
                                     .n_parts = running->n_parts,
                                     .start_ns = parent->start_ns,
                                     .end_ns = parent->end_ns,
                                     .rollup_only = parent->rollup_only,
                                     .parts_ns = parent->parts_ns,
                                     .max_bytes = parent->env->memory_max_bytes / SHARE_SUMS,
                                     .arena = running->scratch};
    uint64_t bytes = 0;
    bool left_out = false;

    /* The first block may have profiles that begin before its span, and so before the whole
     * span. */
    for (uint32_t i = 0; i < parent->n_blocks; i++)
        merge.start_ns = FG_MIN(merge.start_ns, parent->blocks[i]->t_min_ns);
    for (uint32_t i = 0; i < running->n_parts; i++) {
        const struct opened *opened = running->of[i];

        bytes += range_of(&opened->directory.parts[opened->next], true).len;
    }
    merge.only_list_single = bytes > PARENT_ROLLUP_READ_MAX_BYTES;
    if (cmp_merge_parent_plan(&merge, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < merge.n_parts; i++)
        if (cmp_merge_parent_is_raw(&merge.parts[i]) && merge.parts[i].rollups.n_rows > 0 &&
            read_part(running, i, true, err) != FG_OK)
            return err->code;
    if (cmp_merge_parent_write(&merge, running->writer, &left_out, err) != FG_OK)
        return err->code;
    running->left_out += left_out;
    return FG_OK;
}

/* A service that does not fit into memory gets no parent rollup. That is no failure, unless the
 * rollup would replace the profiles. */
static enum fg_code write_service(struct parent_running *running, struct fg_slice service,
                                  struct fg_err *err)
{
    enum fg_code code = FG_OK;

    fg_arena_reset(running->scratch);
    running->n_parts = 0;
    for (uint32_t i = 0; code == FG_OK && i < running->parent->n_blocks; i++) {
        const struct fg_block_part *part = next_part(&running->blocks[i]);

        if (part != NULL && fg_slice_eq(part->service, service))
            code = add_part(running, &running->blocks[i], err);
    }
    if (code == FG_OK &&
        (running->n_parts > 1 || running->parent->of_one || running->parent->rollup_only))
        code = sum_up(running, service, err);
    for (uint32_t i = 0; i < running->n_parts; i++)
        cmp_fetched_done(&running->fetched[i]);
    for (uint32_t i = 0; i < running->parent->n_blocks; i++) {
        const struct fg_block_part *part = next_part(&running->blocks[i]);

        running->blocks[i].next += part != NULL && fg_slice_eq(part->service, service);
    }
    if (code == FG_E_LIMIT && !running->parent->rollup_only) {
        running->left_out++;
        return FG_OK;
    }
    return code;
}

/* ---- all of it ---- */

static enum fg_code write_services(struct parent_running *running,
                                   struct fg_block_summary *ret_summary, struct fg_err *err)
{
    uint32_t n = running->parent->n_blocks;
    struct fg_slice service = {NULL, 0};

    running->blocks = fg_arena_new(running->arena, struct opened, n);
    running->parts = fg_arena_new(running->arena, struct cmp_merge_parent_part, n);
    running->of = fg_arena_new(running->arena, struct opened *, n);
    running->fetched = fg_arena_new(running->arena, struct cmp_fetched, n);
    if (running->blocks == NULL || running->parts == NULL || running->of == NULL ||
        running->fetched == NULL)
        return no_room(err);
    for (uint32_t i = 0; i < n; i++)
        if (open_block(running, i, err) != FG_OK)
            return err->code;
    while (next_service(running, &service))
        if (write_service(running, service, err) != FG_OK)
            return err->code;
    return fg_block_writer_finish(running->writer, ret_summary, err);
}

enum fg_code cmp_parent_rollup_write(const struct cmp_parent_rollup *parent,
                                     const struct fg_block_sink *sink,
                                     struct cmp_merge_written *ret_written,
                                     uint64_t *ret_read_bytes, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    fg_auto(fg_arena) *scratch = fg_arena_create(parent->env->memory_max_bytes / SHARE_SERVICE);
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(sink, parent->level);
    struct parent_running running = {
        .parent = parent, .arena = arena, .scratch = scratch, .writer = writer};
    struct cmp_merge_written written = {.left_out = 0};

    fg_block_writer_set_version(writer, parent->env->block_version);
    fg_block_writer_set_keys(writer, parent->env->bucket->keys);
    if (write_services(&running, &written.summary, err) != FG_OK)
        return err->code;
    written.left_out = running.left_out;
    *ret_written = written;
    *ret_read_bytes = running.read_bytes;
    return FG_OK;
}
