/*
 * A chunk of a recording. A recording is a sequence of chunks; each has its own metadata and
 * constants, and ids are valid within their chunk only.
 *
 *   header, 68 bytes, big-endian: u32 "FLR\0", u16 major, u16 minor version, u64 size, u64 position
 *     of the last event with constants, u64 position of the metadata event, u64 start and duration
 *     in ns, u64 start in ticks, u64 ticks a second, u32 features (bit 0: compressed numbers)
 *   events to the end: int size, itself included, long class, and the fields of the class
 *
 * An event of class 0 is metadata, one of class 1 brings constants:
 *   long start, long duration, long distance to the one before, byte kind, int pools
 *   of each pool: long class, int count, and of each constant: long id, then a value of the class
 *
 * Constants may come before or after the events that use them, and may refer to constants of other
 * events. So all constants are found before any event is read: from front to back, event by event,
 * and not by the distances, which a malicious recording could make overlap or cyclic.
 *
 * Memory: in the arena, reused for the next chunk.
 */
#ifndef FG_PROTO_JFR_CHUNK_H
#define FG_PROTO_JFR_CHUNK_H

#include "proto/jfr/metadata.h"

/* The constants that decoders use. */
enum fg_jfr_pool_name {
    JFR_POOL_NONE,
    JFR_STACKS,
    JFR_METHODS,
    JFR_CLASSES,
    JFR_SYMBOLS,
    JFR_STATES,
    JFR_STRINGS,
    JFR_POOLS,
};

/* Slots of their fields. */
enum {
    JFR_STACK_FRAMES = 1,
    JFR_FRAME_METHOD = 1,
    JFR_FRAME_LINE = 2,
    JFR_METHOD_CLASS = 1,
    JFR_METHOD_NAME = 2,
    JFR_CLASS_NAME = 1,
    JFR_SYMBOL_TEXT = 1,
    JFR_STATE_NAME = 1,
};

struct fg_jfr_pool {
    uint32_t class; /* of its constants; FG_IDS_NONE: the chunk has none */
    struct fg_ids ids;
    uint32_t *at; /* [ids.count]: where the value begins */
    uint32_t cap;
};

struct fg_jfr_chunk {
    struct fg_arena *arena;
    struct fg_jfr_body body;
    uint64_t offset; /* in the recording, for errors */
    struct fg_jfr_metadata metadata;
    struct fg_jfr_pool pools[JFR_POOLS];
    uint32_t frame_class; /* of a stack's frames; FG_IDS_NONE: none that can be read */
    uint64_t
        text_left; /* bytes that strings may still take: many constants may refer to a long one */
};

/* Initializes it. recording_bytes: of all chunks, which limits work and text. */
void fg_jfr_chunk_init(struct fg_jfr_chunk *chunk, struct fg_arena *arena,
                       uint64_t recording_bytes);
void fg_jfr_chunk_done(struct fg_jfr_chunk *chunk);

/*
 * Takes the first chunk off a recording that is not empty, and reads its metadata and constants.
 * FG_E_DECODE, FG_E_TOO_LARGE.
 */
enum fg_code fg_jfr_chunk_next(struct fg_jfr_chunk *chunk, struct fg_slice *recording,
                               struct fg_err *err) fg_must_check;

struct fg_jfr_event {
    uint32_t at;           /* position of the event */
    uint32_t class;        /* FG_IDS_NONE: not one of the metadata's */
    struct fg_jfr_cur cur; /* behind its size and class */
};

/* Returns the event at *position and advances *position; false at the end. The first event is at
 * JFR_FIRST_EVENT. */
bool fg_jfr_event_next(const struct fg_jfr_chunk *chunk, uint32_t *position,
                       struct fg_jfr_event *ret_event);

enum { JFR_FIRST_EVENT = 68 };

/* Returns the number of the constant with that id, or FG_IDS_NONE. */
static inline uint32_t fg_jfr_constant(const struct fg_jfr_chunk *chunk, enum fg_jfr_pool_name pool,
                                       uint64_t id)
{
    return fg_ids_find(&chunk->pools[pool].ids, id);
}

/* Reads the bound fields of a constant into their slots; other slots are unchanged. */
void fg_jfr_constant_read(struct fg_jfr_chunk *chunk, enum fg_jfr_pool_name pool, uint32_t number,
                          uint64_t values[JFR_SLOTS]);

/* Appends the string at that position; a missing one is empty. FG_E_TOO_LARGE. */
enum fg_code fg_jfr_put_string(struct fg_jfr_chunk *chunk, uint32_t at, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

/*
 * Appends the name of a method, "java/lang/Thread.run", with generated names normalized (names.h).
 * Appends nothing if its class is missing. FG_E_TOO_LARGE.
 */
enum fg_code fg_jfr_put_method(struct fg_jfr_chunk *chunk, uint32_t number, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

#endif
