#include "tests/lib/block_repack.h"

#include "common/base/crc32c.h"
#include "common/storage/block/pack.h"

static void must(enum fg_code code)
{
    fg_assert(code == FG_OK);
}

static struct fg_slice unpack(struct fg_slice file, struct fg_block_range range,
                              struct fg_block_stored said, struct fg_arena *arena)
{
    struct fg_slice raw;
    struct fg_err err;

    must(fg_block_unpack_in(NULL, fg_slice_sub(file, range.offset, range.len), said, arena, &raw,
                            &err));
    return raw;
}

static void take_pages(struct fg_slice file, struct fg_arena *arena,
                       const struct fg_block_index *index, struct repack *repack)
{
    for (uint32_t kind = 0; kind < FG_BLOCK_KINDS_MAX; kind++)
        for (uint32_t i = 0; i < index->pages[kind].count; i++) {
            const struct fg_block_page *row = &index->pages[kind].pages[i];

            fg_assert(repack->n_pages < REPACK_PAGES_MAX);
            repack->pages[repack->n_pages++] = (struct repack_page){
                kind, *row,
                unpack(file, (struct fg_block_range){row->offset, row->bytes},
                       (struct fg_block_stored){.raw_bytes = row->raw_bytes, .crc = row->crc},
                       arena)};
        }
}

void repack_take(struct fg_slice file, struct fg_arena *arena, struct repack *ret_repack)
{
    struct fg_block_directory directory;
    struct fg_block_index index;
    struct fg_block_range range;
    struct repack repack = {.n_pages = 0};
    struct fg_err err;
    uint64_t offset;

    must(fg_block_directory_offset(file, file.len, &offset, &err));
    must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL, arena,
                                  &directory, &err));
    repack.part = directory.parts[0];
    range = fg_block_part_range(&repack.part, FG_BLOCK_WANT_SERIES);
    must(fg_block_part_parse(&repack.part, fg_slice_sub(file, range.offset, range.len), arena,
                             &index, &err));
    take_pages(file, arena, &index, &repack);
    repack.groups = unpack(file, fg_block_part_range(&repack.part, FG_BLOCK_WANT_GROUPS),
                           (struct fg_block_stored){.raw_bytes = repack.part.groups_raw_bytes,
                                                    .crc = repack.part.groups_crc},
                           arena);
    *ret_repack = repack;
}

/* Pages of the kind of page `at`, from there on. */
static uint32_t count_pages(const struct repack *repack, uint32_t at)
{
    uint32_t n = at;

    while (n < repack->n_pages && repack->pages[n].kind == repack->pages[at].kind)
        n++;
    return n - at;
}

void repack_table(const struct repack *repack, struct fg_buf *out)
{
    uint32_t count;

    for (uint32_t at = 0; at < repack->n_pages; at += count) {
        int64_t before_ns = 0;

        count = count_pages(repack, at);
        fg_buf_varint(out, repack->pages[at].kind);
        fg_buf_varint(out, count);
        for (uint32_t i = at; i < at + count; i++) {
            const struct repack_page *page = &repack->pages[i];

            fg_buf_varint(out, page->raw.len);
            fg_buf_varint(out, page->raw.len);
            fg_buf_le32(out, fg_crc32c(page->raw));
            if (repack->part.version >= 3)
                fg_buf_varint(out, page->row.key);
            fg_buf_varint(out, page->row.items);
            if (fg_block_kind_has_times(page->kind)) {
                fg_buf_zigzag(out, page->row.t_min_ns - before_ns);
                fg_buf_varint(out, (uint64_t)(page->row.t_max_ns - page->row.t_min_ns));
                before_ns = page->row.t_min_ns;
            }
        }
    }
}

static void put_page(struct fg_buf *out, struct fg_slice raw)
{
    fg_buf_varint(out, raw.len);
    fg_buf_varint(out, raw.len);
    fg_buf_le32(out, fg_crc32c(raw));
}

static struct fg_slice table_of(const struct repack *repack, struct fg_buf *made)
{
    if (repack->table.ptr != NULL)
        return repack->table;
    fg_buf_clear(made);
    repack_table(repack, made);
    return fg_buf_slice(made);
}

void repack_directory(const struct repack *repack, struct fg_buf *out)
{
    const struct fg_block_part *part = &repack->part;
    uint8_t digest[FG_ID_BYTES];
    struct fg_buf table;
    uint32_t count;

    fg_buf_varint(out, 1);
    fg_buf_varint(out, 1);
    fg_buf_lenbytes(out, part->tenant);
    fg_buf_lenbytes(out, part->service);
    fg_buf_zigzag(out, part->t_min_ns);
    fg_buf_varint(out, (uint64_t)(part->t_max_ns - part->t_min_ns));
    fg_buf_varint(out, part->n_series);
    fg_buf_varint(out, part->n_profiles);
    fg_buf_varint(out, part->n_stacks);
    fg_buf_varint(out, part->n_nodes);
    fg_buf_varint(out, part->n_groups);
    fg_buf_varint(out, part->n_samples);
    fg_id_put(digest, part->digest);
    fg_buf_append(out, digest, sizeof digest);
    if (part->version >= 3) {
        fg_buf_varint(out, part->key);
        fg_buf_varint(out, part->symbols_version);
        fg_usage_put(out, &part->usage);
    }
    for (uint32_t at = 0; at < repack->n_pages; at += count) {
        size_t bytes = 0;

        count = count_pages(repack, at);
        for (uint32_t i = at; i < at + count; i++)
            bytes += repack->pages[i].raw.len;
        fg_buf_varint(out, repack->pages[at].kind);
        fg_buf_varint(out, bytes);
    }
    fg_buf_varint(out, 0);
    fg_buf_init(&table, SIZE_MAX);
    put_page(out, table_of(repack, &table));
    fg_buf_done(&table);
    put_page(out, repack->groups);
}

static void put_trailer(struct fg_buf *out, uint32_t version, struct fg_slice directory)
{
    size_t from = out->len;

    fg_buf_le64(out, out->len + FG_BLOCK_TRAILER_BYTES);
    fg_buf_le32(out, (uint32_t)directory.len);
    fg_buf_le32(out, (uint32_t)directory.len);
    fg_buf_le32(out, fg_crc32c(directory));
    fg_buf_le32(out, version);
    fg_buf_le32(out, fg_crc32c(fg_bytes(out->ptr + from, 24)));
    fg_buf_puts(out, FG_BLOCK_MAGIC);
}

void repack_write(const struct repack *repack, struct fg_buf *out)
{
    struct fg_buf made;
    struct fg_slice directory;

    fg_buf_init(&made, SIZE_MAX);
    fg_buf_puts(out, FG_BLOCK_MAGIC);
    fg_buf_le32(out, (uint32_t)FG_BLOCK_HEADER_BYTES << 16 | repack->part.version);
    fg_buf_le32(out, 1);
    fg_buf_le32(out, fg_crc32c(fg_buf_slice(out)));
    for (uint32_t i = 0; i < repack->n_pages; i++)
        fg_buf_put(out, repack->pages[i].raw);
    fg_buf_put(out, table_of(repack, &made));
    fg_buf_put(out, repack->groups);
    fg_buf_clear(&made);
    repack_directory(repack, &made);
    directory = repack->directory.ptr != NULL ? repack->directory : fg_buf_slice(&made);
    fg_buf_put(out, directory);
    put_trailer(out, repack->part.version, directory);
    fg_buf_done(&made);
}
