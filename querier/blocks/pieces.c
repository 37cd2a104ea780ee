#include "querier/blocks/pieces.h"

#include "querier/blocks/cached_objects.h"

enum { PIECE_SHARE = 16 }; /* a piece is at most a sixteenth of the cache */

/* ---- which parts ---- */

static bool is_whole(const struct qry_reader *reader, const struct qry_part *part)
{
    const struct fg_block_part *entry = part->entry;

    return entry->t_min_ns >= reader->start_ns && entry->t_max_ns <= reader->end_ns &&
           part->n_raws + part->n_fulls + part->n_crowns > 0 &&
           !fg_deletions_touch(&reader->query->deletions[part->tenant], entry->service,
                               entry->t_min_ns, entry->t_max_ns);
}

uint32_t qry_piece_mark(struct qry_reader *reader, uint32_t *ret_n)
{
    uint32_t n_read = 0;

    *ret_n = 0;
    for (uint32_t i = 0; i < reader->n_found; i++) {
        struct qry_part *part = &reader->parts[i];

        part->in_piece = is_whole(reader, part);
        *ret_n += part->in_piece;
        if (part->in_piece && i < reader->n_parts) {
            struct qry_part moved = *part;

            *part = reader->parts[n_read];
            reader->parts[n_read++] = moved;
        }
    }
    return n_read;
}

/* ---- the key ---- */

static void put_number(struct fg_buf *out, int64_t number)
{
    fg_buf_le64(out, (uint64_t)number);
}

static void put_picks(struct fg_buf *out, const struct fg_plan_pick *picks, uint32_t n)
{
    put_number(out, n);
    for (uint32_t i = 0; i < n; i++) {
        put_number(out, picks[i].row);
        put_number(out, picks[i].sign);
    }
}

/* Writes all that is read of a part. */
static void put_part(struct fg_buf *out, const struct qry_part *part)
{
    uint8_t id[FG_ID_BYTES];

    fg_id_put(id, part->object->id);
    fg_buf_put(out, fg_bytes(id, sizeof id));
    put_number(out, part->number);
    put_number(out, part->single);
    put_picks(out, part->crowns, part->n_crowns);
    put_picks(out, part->fulls, part->n_fulls);
    put_number(out, part->n_raws);
    for (uint32_t i = 0; i < part->n_raws; i++) {
        const struct fg_plan_raw *raw = &part->raws[i];

        put_number(out, raw->kind);
        put_number(out, raw->number);
        /* Queries whose ranges differ only outside the part share its piece. */
        put_number(out, FG_MAX(raw->start_ns, part->entry->t_min_ns));
        put_number(out, FG_MIN(raw->end_ns, part->entry->t_max_ns));
    }
}

static struct fg_cache_key key_of(const struct qry_reader *reader, bool full)
{
    struct fg_cache_key key = {.what = QRY_CACHED_PIECE};
    struct fg_buf bytes;

    fg_buf_init(&bytes, SIZE_MAX);
    fg_selector_write(&reader->selector, &bytes); /* with the type */
    put_number(&bytes, full);
    put_number(&bytes, reader->blocks->crown_nodes);
    /* In the order of the reader, which is that of services, and then of objects. */
    for (uint32_t i = 0; i < reader->n_found; i++)
        if (reader->parts[i].in_piece)
            put_part(&bytes, &reader->parts[i]);
    /* Selectors are chosen by clients: no two may be made to have the same key. */
    key.object = fg_hash128_seed(fg_buf_slice(&bytes), fg_hash_seed());
    fg_buf_done(&bytes);
    return key;
}

/* ---- in the cache ---- */

static void destroy_piece(void *value)
{
    struct qry_piece *piece = value;

    fg_crown_layer_destroy(piece->layer);
    free(piece);
}

struct fg_cache_entry *qry_piece_open(const struct qry_reader *reader, bool full,
                                      const struct qry_piece **ret_piece)
{
    struct fg_cache_key key = key_of(reader, full);
    enum fg_cache_state state;
    bool mine;
    struct fg_cache_entry *entry =
        fg_cache_open(reader->blocks->cache, &key, reader->query->flow.id, &state, &mine);

    *ret_piece = NULL;
    if (!mine && state == FG_CACHE_READY) {
        *ret_piece = fg_cache_value(entry);
    } else if (!mine) {
        fg_cache_unref(entry);
        entry = NULL;
    }
    return entry;
}

void qry_piece_keep(const struct qry_reader *reader, struct fg_cache_entry *entry,
                    const struct qry_piece *piece)
{
    struct qry_piece *kept;
    size_t bytes = sizeof *piece;

    if (piece->layer != NULL) {
        fg_crown_layer_pack(piece->layer);
        bytes += fg_crown_layer_bytes(piece->layer);
    }
    if (bytes > reader->blocks->cache_max_bytes / PIECE_SHARE) {
        fg_cache_fail(entry);
        fg_crown_layer_destroy(piece->layer);
        return;
    }
    kept = fg_new(struct qry_piece);
    *kept = *piece;
    fg_cache_fill(entry, kept, bytes, destroy_piece);
    /* The trees that it was made of are thirty times as large, and would push it out. */
    fg_cache_spare(entry);
}
