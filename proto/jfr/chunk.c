#include "proto/jfr/chunk.h"

#include "proto/jfr/names.h"

enum {
    MAGIC = 0x464c5200, /* "FLR\0" */
    VERSION_MAJOR = 2,
    FEATURE_COMPRESSED = 1,
    HEADER_BYTES = JFR_FIRST_EVENT,
    CLASS_METADATA = 0,
    CLASS_CONSTANTS = 1,
    /* Limit of decoded strings. The name of a class is written once for each of its methods in a
     * stack, and again for each kind of profile, so a small recording could ask for gigabytes. */
    TEXT_BYTES = 64 * 1024 * 1024,
    TEXT_PER_BYTE = 16,
};

/* Classes of constants, and the fields that are read of them. */
static const struct {
    const char *class;
    struct {
        const char *name;
        enum fg_jfr_want want;
        uint8_t slot;
    } fields[2];
} known[JFR_POOLS] = {
    /* clang-format off */
    [JFR_STACKS]  = {"jdk.types.StackTrace",  {{"frames", JFR_WANT_ELEMENTS, JFR_STACK_FRAMES}}},
    [JFR_METHODS] = {"jdk.types.Method",      {{"type",   JFR_WANT_NUMBER,   JFR_METHOD_CLASS},
                                               {"name",   JFR_WANT_NUMBER,   JFR_METHOD_NAME}}},
    [JFR_CLASSES] = {"java.lang.Class",       {{"name",   JFR_WANT_NUMBER,   JFR_CLASS_NAME}}},
    [JFR_SYMBOLS] = {"jdk.types.Symbol",      {{"string", JFR_WANT_STRING,   JFR_SYMBOL_TEXT}}},
    [JFR_STATES]  = {"jdk.types.ThreadState", {{"name",   JFR_WANT_STRING,   JFR_STATE_NAME}}},
    [JFR_STRINGS] = {.class = "java.lang.String"},
    /* clang-format on */
};

void fg_jfr_chunk_init(struct fg_jfr_chunk *chunk, struct fg_arena *arena, uint64_t recording_bytes)
{
    *chunk = (struct fg_jfr_chunk){
        .arena = arena,
        .text_left = TEXT_BYTES + TEXT_PER_BYTE * recording_bytes,
    };
    fg_jfr_metadata_init(&chunk->metadata, arena);
}

void fg_jfr_chunk_done(struct fg_jfr_chunk *chunk)
{
    fg_jfr_metadata_done(&chunk->metadata);
}

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "constants need more memory than decoding may use");
}

/* ---- header and metadata ---- */

static enum fg_code read_header(struct fg_jfr_chunk *chunk, struct fg_slice recording,
                                uint32_t *ret_metadata_at, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(recording);
    uint32_t magic = fg_cur_be32(&cur);
    uint16_t major = fg_cur_be16(&cur), minor = fg_cur_be16(&cur);
    uint64_t size = fg_cur_be64(&cur), metadata_at;
    uint32_t features;

    (void)fg_cur_be64(&cur); /* position of constants */
    metadata_at = fg_cur_be64(&cur);
    (void)fg_cur_take(&cur, 4 * sizeof(uint64_t)); /* times */
    features = fg_cur_be32(&cur);
    if (recording.len >= sizeof magic && magic != MAGIC)
        return fg_fail(err, FG_E_DECODE, "does not begin with \"FLR\"");
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "header cut short in %zu bytes", recording.len);
    if (major != VERSION_MAJOR)
        return fg_fail(err, FG_E_DECODE, "version %u.%u is not supported", major, minor);
    if (size == 0)
        return fg_fail(err, FG_E_DECODE, "was never finished: its size is 0");
    /* Positions in a chunk are 32 bits here; the size is checked before anything is added to it. */
    if (size < HEADER_BYTES || size > recording.len || size > UINT32_MAX)
        return fg_fail(err, FG_E_DECODE, "size is %llu bytes, of which %zu are there",
                       (unsigned long long)size, recording.len);
    if (metadata_at < HEADER_BYTES || metadata_at >= size)
        return fg_fail(err, FG_E_DECODE, "metadata at byte %llu of %llu",
                       (unsigned long long)metadata_at, (unsigned long long)size);
    chunk->body.bytes = fg_slice_sub(recording, 0, size);
    chunk->body.fixed = (features & FEATURE_COMPRESSED) == 0;
    *ret_metadata_at = (uint32_t)metadata_at;
    return FG_OK;
}

/* Reads size and class of the event at a position, and a cursor over its content. Returns false
 * if there is no whole event. */
static bool event_at(const struct fg_jfr_body *body, uint32_t at, struct fg_jfr_event *event,
                     uint64_t *ret_class_id)
{
    struct fg_jfr_cur cur = fg_jfr_cur(body, at, UINT32_MAX);
    uint64_t size = fg_jfr_int(&cur), id = fg_jfr_long(&cur);
    uint32_t head = fg_jfr_position(&cur) - at;

    /* A size of less than its own head would let the walk stand still or go back. */
    if (cur.in.bad || size < head || size - head > cur.in.left)
        return false;
    *event = (struct fg_jfr_event){.at = at, .cur = cur};
    event->cur.end = at + (uint32_t)size;
    event->cur.in = fg_cur(fg_cur_take(&cur.in, size - head));
    *ret_class_id = id;
    return true;
}

static enum fg_code read_metadata(struct fg_jfr_chunk *chunk, uint32_t at, struct fg_err *err)
{
    uint32_t chunk_bytes = (uint32_t)chunk->body.bytes.len;
    struct fg_jfr_event event;
    uint64_t class_id;

    if (!event_at(&chunk->body, at, &event, &class_id) || class_id != CLASS_METADATA)
        return fg_fail(err, FG_E_DECODE, "at byte %u is no metadata", at);
    return fg_jfr_metadata_read(&chunk->metadata, &event.cur, chunk_bytes, err);
}

/* ---- constants ---- */

/* Binds the fields of frames. Frames without a method have nothing to show and might take no
 * bytes, so that a count of them is not bounded by the input. A class that has slots of its own
 * already cannot be read as frames: a position would be taken for something else. */
static void bind_frames(struct fg_jfr_chunk *chunk)
{
    uint32_t stacks = chunk->pools[JFR_STACKS].class, frames;

    chunk->frame_class = FG_IDS_NONE;
    if (stacks == FG_IDS_NONE)
        return;
    frames = fg_jfr_class_elements(&chunk->metadata, stacks, JFR_STACK_FRAMES);
    if (frames == FG_IDS_NONE || chunk->metadata.classes[frames].pool != JFR_POOL_NONE)
        return;
    fg_jfr_class_bind(&chunk->metadata, frames, "method", JFR_WANT_NUMBER, JFR_FRAME_METHOD);
    fg_jfr_class_bind(&chunk->metadata, frames, "lineNumber", JFR_WANT_NUMBER, JFR_FRAME_LINE);
    chunk->metadata.classes[frames].row = true;
    if ((chunk->metadata.classes[frames].bound & (1u << JFR_FRAME_METHOD)) != 0)
        chunk->frame_class = frames;
}

static void bind_pools(struct fg_jfr_chunk *chunk)
{
    for (unsigned name = 0; name < JFR_POOLS; name++) {
        chunk->pools[name].class = FG_IDS_NONE;
        fg_ids_clear(&chunk->pools[name].ids);
    }
    for (uint32_t number = 0; number < chunk->metadata.n_classes; number++)
        for (unsigned name = JFR_POOL_NONE + 1; name < JFR_POOLS; name++)
            if (chunk->pools[name].class == FG_IDS_NONE &&
                fg_slice_is(fg_jfr_class_name(&chunk->metadata, number), known[name].class)) {
                chunk->pools[name].class = number;
                chunk->metadata.classes[number].pool = (uint8_t)name;
                for (size_t i = 0;
                     i < FG_COUNT(known[name].fields) && known[name].fields[i].name != NULL; i++)
                    fg_jfr_class_bind(&chunk->metadata, number, known[name].fields[i].name,
                                      known[name].fields[i].want, known[name].fields[i].slot);
            }
    bind_frames(chunk);
}

/* Reads the values of one pool: notes where they are, if the pool is of a class that is used,
 * and skips them otherwise. */
static enum fg_code read_pool(struct fg_jfr_chunk *chunk, uint32_t class, struct fg_jfr_cur *cur,
                              struct fg_err *err)
{
    enum fg_jfr_pool_name name = chunk->metadata.classes[class].pool;
    struct fg_jfr_pool *pool = &chunk->pools[name];
    uint32_t count = (uint32_t)fg_jfr_count(cur);

    if (name != JFR_POOL_NONE && (!fg_ids_reserve(&pool->ids, chunk->arena, count) ||
                                  !fg_arena_grow(chunk->arena, &pool->at, pool->ids.count, count,
                                                 &pool->cap, sizeof *pool->at)))
        return too_large(err);
    for (; count > 0 && !cur->in.bad; count--) {
        uint64_t id = fg_jfr_long(cur);
        uint32_t at = fg_jfr_position(cur);

        fg_jfr_class_skip(&chunk->metadata, class, cur);
        if (name == JFR_POOL_NONE || cur->in.bad)
            continue;
        pool->at[pool->ids.count] = at;
        fg_ids_add(&pool->ids, id);
    }
    return FG_OK;
}

static enum fg_code read_pools(struct fg_jfr_chunk *chunk, struct fg_jfr_cur *cur,
                               struct fg_err *err)
{
    uint64_t count;

    for (unsigned i = 0; i < 3; i++)
        (void)fg_jfr_long(cur); /* start, duration, distance */
    (void)fg_cur_u8(&cur->in);
    for (count = fg_jfr_count(cur); count > 0 && !cur->in.bad; count--) {
        uint64_t id = fg_jfr_long(cur);
        uint32_t class = fg_ids_find(&chunk->metadata.class_ids, id);

        if (cur->in.bad)
            break;
        if (class == FG_IDS_NONE)
            return fg_fail(err, FG_E_DECODE, "constants of class %llu, which is not described",
                           (unsigned long long)id);
        if (read_pool(chunk, class, cur, err) != FG_OK)
            return err->code;
        if (cur->in.bad)
            return fg_fail(err, FG_E_DECODE, "a constant of %.*s cannot be read",
                           FG_S(fg_jfr_class_name(&chunk->metadata, class)));
    }
    return cur->in.bad ? fg_fail(err, FG_E_DECODE, "constants cut short") : FG_OK;
}

/* Walks over all events, checks that each is whole, and reads those with constants. Events may
 * use constants that come later in the chunk, so this is a pass of its own. */
static enum fg_code read_constants(struct fg_jfr_chunk *chunk, struct fg_err *err)
{
    uint32_t at = HEADER_BYTES, end = (uint32_t)chunk->body.bytes.len;
    struct fg_jfr_event event;
    uint64_t class_id;

    bind_pools(chunk);
    for (; at < end; at = event.cur.end) {
        if (!event_at(&chunk->body, at, &event, &class_id))
            return fg_fail(err, FG_E_DECODE, "event at byte %u of %u is not whole", at, end);
        if (class_id == CLASS_CONSTANTS && read_pools(chunk, &event.cur, err) != FG_OK)
            return fg_wrap(err, "event at byte %u", at);
    }
    for (unsigned name = 0; name < JFR_POOLS; name++)
        if (!fg_ids_ready(&chunk->pools[name].ids, chunk->arena))
            return too_large(err);
    return FG_OK;
}

enum fg_code fg_jfr_chunk_next(struct fg_jfr_chunk *chunk, struct fg_slice *recording,
                               struct fg_err *err)
{
    uint32_t metadata_at = 0;

    chunk->offset += chunk->body.bytes.len;
    if (read_header(chunk, *recording, &metadata_at, err) != FG_OK ||
        read_metadata(chunk, metadata_at, err) != FG_OK || read_constants(chunk, err) != FG_OK)
        return fg_wrap(err, "chunk at byte %llu", (unsigned long long)chunk->offset);
    *recording = fg_slice_sub(*recording, chunk->body.bytes.len, SIZE_MAX);
    return FG_OK;
}

/* ---- what is asked for ---- */

bool fg_jfr_event_next(const struct fg_jfr_chunk *chunk, uint32_t *position,
                       struct fg_jfr_event *ret_event)
{
    uint64_t class_id = 0;
    bool whole;

    if (*position >= chunk->body.bytes.len)
        return false;
    whole = event_at(&chunk->body, *position, ret_event, &class_id);
    fg_assert(whole); /* or the constants had not been read */
    ret_event->class = fg_ids_find(&chunk->metadata.class_ids, class_id);
    *position = ret_event->cur.end;
    return true;
}

void fg_jfr_constant_read(struct fg_jfr_chunk *chunk, enum fg_jfr_pool_name pool, uint32_t number,
                          uint64_t values[JFR_SLOTS])
{
    struct fg_jfr_cur cur;

    fg_assert(number < chunk->pools[pool].ids.count);
    cur = fg_jfr_cur(&chunk->body, chunk->pools[pool].at[number], UINT32_MAX);
    fg_jfr_class_read(&chunk->metadata, chunk->pools[pool].class, &cur, values);
}

static void put_string(const struct fg_jfr_chunk *chunk, uint32_t at, struct fg_buf *out)
{
    struct fg_jfr_cur cur = fg_jfr_cur(&chunk->body, at, UINT32_MAX);
    uint64_t id = fg_jfr_text(&cur, out);
    uint32_t number = id == JFR_NO_CONSTANT ? FG_IDS_NONE : fg_jfr_constant(chunk, JFR_STRINGS, id);

    if (number == FG_IDS_NONE)
        return;
    /* A constant that is a constant again is not followed: it might be itself. */
    cur = fg_jfr_cur(&chunk->body, chunk->pools[JFR_STRINGS].at[number], UINT32_MAX);
    (void)fg_jfr_text(&cur, out);
}

static enum fg_code count_text(struct fg_jfr_chunk *chunk, size_t bytes, struct fg_err *err)
{
    if (bytes > chunk->text_left)
        return fg_fail(err, FG_E_TOO_LARGE, "strings add up to too many bytes");
    chunk->text_left -= bytes;
    return FG_OK;
}

enum fg_code fg_jfr_put_string(struct fg_jfr_chunk *chunk, uint32_t at, struct fg_buf *out,
                               struct fg_err *err)
{
    fg_buf_clear(out);
    if (at != 0)
        put_string(chunk, at, out);
    return count_text(chunk, out->len, err);
}

static void put_symbol(struct fg_jfr_chunk *chunk, uint64_t id, struct fg_buf *out)
{
    uint32_t number = fg_jfr_constant(chunk, JFR_SYMBOLS, id);
    uint64_t values[JFR_SLOTS] = {0};
    size_t from = out->len;

    if (number == FG_IDS_NONE)
        return;
    fg_jfr_constant_read(chunk, JFR_SYMBOLS, number, values);
    if (values[JFR_SYMBOL_TEXT] == 0)
        return;
    put_string(chunk, (uint32_t)values[JFR_SYMBOL_TEXT], out);
    fg_jfr_name_clean(out, from);
}

enum fg_code fg_jfr_put_method(struct fg_jfr_chunk *chunk, uint32_t number, struct fg_buf *out,
                               struct fg_err *err)
{
    uint64_t method[JFR_SLOTS] = {0}, class[JFR_SLOTS] = {0};
    uint32_t class_number;

    fg_buf_clear(out);
    fg_jfr_constant_read(chunk, JFR_METHODS, number, method);
    class_number = fg_jfr_constant(chunk, JFR_CLASSES, method[JFR_METHOD_CLASS]);
    if (class_number == FG_IDS_NONE)
        return FG_OK;
    fg_jfr_constant_read(chunk, JFR_CLASSES, class_number, class);
    put_symbol(chunk, class[JFR_CLASS_NAME], out);
    if (out->len > 0) /* frames of native code have a class without a name */
        fg_buf_putc(out, '.');
    put_symbol(chunk, method[JFR_METHOD_NAME], out);
    return count_text(chunk, out->len, err);
}
