#include "querier/blocks/pieces.h"

#include "querier/blocks/cached_objects.h"

enum {
    PIECE_SHARE = 16,                  /* a piece is at most a sixteenth of the cache */
    PIECE_WAIT_NS = 100 * 1000 * 1000, /* for another query, then check the client */
};

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

/* Waits while another query makes the piece. *state: of the entry, LOADING at first; still LOADING
 * afterwards: the time for it is over. */
static enum fg_code await_piece(const struct qry_reader *reader, struct fg_cache_entry *entry,
                                int64_t until_mono_ns, enum fg_cache_state *state,
                                struct fg_err *err)
{
    fg_metric_add(reader->blocks->metrics, BLOCKS_PIECES_JOINED, 1);
    while (*state == FG_CACHE_LOADING) {
        int64_t left_ns = until_mono_ns - fg_mono_ns(reader->blocks->clock);

        if (qry_query_check(reader->query, err) != FG_OK)
            return err->code;
        if (left_ns <= 0)
            break;
        *state = fg_cache_wait(entry, FG_MIN(left_ns, PIECE_WAIT_NS));
    }
    return FG_OK;
}

enum fg_code qry_piece_open(const struct qry_reader *reader, bool full,
                            struct fg_cache_entry **ret_entry, const struct qry_piece **ret_piece,
                            struct fg_err *err)
{
    struct fg_cache_key key = key_of(reader, full);
    int64_t now_ns = fg_mono_ns(reader->blocks->clock);
    /* The other half is for making it here, if who makes it is too slow. */
    int64_t until_mono_ns = now_ns + (reader->query->deadline_mono_ns - now_ns) / 2;
    struct fg_cache_entry *entry;
    enum fg_cache_state state;
    bool mine;

    if (reader->query->stale) /* the other query may have more time for the bucket */
        until_mono_ns = FG_MIN(until_mono_ns, reader->query->stale_until_mono_ns);
    do {
        entry = fg_cache_open(reader->blocks->cache, &key, reader->query->flow.id, &state, &mine);
        if (!mine && state == FG_CACHE_LOADING &&
            await_piece(reader, entry, until_mono_ns, &state, err) != FG_OK) {
            fg_cache_unref(entry);
            return err->code;
        }
        if (!mine && state != FG_CACHE_READY)
            fg_cache_unref(fg_take(entry));
    } while (!mine && state == FG_CACHE_FAILED);
    *ret_piece = !mine && entry != NULL ? fg_cache_value(entry) : NULL;
    *ret_entry = entry;
    return FG_OK;
}

void qry_piece_keep(const struct qry_reader *reader, bool full, struct fg_cache_entry *entry,
                    const struct qry_piece *piece)
{
    struct qry_piece *kept = fg_new(struct qry_piece);
    size_t bytes = sizeof *piece;

    if (piece->layer != NULL) {
        fg_crown_layer_pack(piece->layer);
        bytes += fg_crown_layer_bytes(piece->layer);
    }
    *kept = *piece;
    if (bytes > reader->blocks->cache_max_bytes / PIECE_SHARE) {
        struct fg_cache_key key = key_of(reader, full);

        /* Queries that wait get it. It counts nothing in the cache, which it would empty. */
        fg_cache_fill(entry, kept, 0, destroy_piece);
        fg_cache_drop(reader->blocks->cache, &key);
        return;
    }
    fg_cache_fill(entry, kept, bytes, destroy_piece);
    /* The trees that it was made of are thirty times as large, and would push it out. */
    fg_cache_spare(entry);
}
