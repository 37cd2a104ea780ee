/*
 * A recording is one chunk after the other. Each stands for itself: it has its own metadata and
 * constants, and ids mean nothing outside of it.
 *
 *   header, 68 bytes, big-endian: u32 "FLR\0", u16 major, u16 minor version, u64 size, u64 position
 *     of the last event with constants, u64 position of the metadata event, u64 start and duration
 *     in ns, u64 start in ticks, u64 ticks a second, u32 features (bit 0: compressed numbers)
 *   events to the end: int size, itself included, long class, and what the class says
 *
 * An event of class 0 is metadata, one of class 1 brings constants:
 *   long start, long duration, long distance to the one before, byte kind, int pools
 *   of each pool: long class, int count, and of each constant: long id, then a value of the class
 *
 * Constants come before or after the events that use them, and an event may bring some for those of
 * another: all are found before any is used. They are looked for from front to back, event by
 * event, and not by the distances, which a stranger could make overlap or go in circles.
 *
 * Memory: in the arena, used again for the next chunk.
 */
#ifndef FG_PROTO_JFR_CHUNK_H
#define FG_PROTO_JFR_CHUNK_H

#include "proto/jfr/metadata.h"

/* Constants that somebody asks for. */
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

/* Their fields' slots. */
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
    uint64_t text_left;   /* bytes that may still be made of strings: many may name a long one */
};

/* recording_bytes: of all its chunks. */
void fg_jfr_chunk_init(struct fg_jfr_chunk *chunk, struct fg_arena *arena,
                       uint64_t recording_bytes);
void fg_jfr_chunk_done(struct fg_jfr_chunk *chunk);

/*
 * Takes the first chunk off a recording that is not empty and reads its metadata and constants.
 * chunk->offset + its size is where the next one is. FG_E_DECODE, FG_E_TOO_LARGE.
 */
enum fg_code fg_jfr_chunk_next(struct fg_jfr_chunk *chunk, struct fg_slice *recording,
                               struct fg_err *err) fg_must_check;

struct fg_jfr_event {
    uint32_t at;           /* position of the event */
    uint32_t class;        /* FG_IDS_NONE: not one of the metadata's */
    struct fg_jfr_cur cur; /* behind its size and class */
};

/* The event at *position, which is moved behind it; false at the end. The first is at
 * JFR_FIRST_EVENT. */
bool fg_jfr_event_next(const struct fg_jfr_chunk *chunk, uint32_t *position,
                       struct fg_jfr_event *ret_event);

enum { JFR_FIRST_EVENT = 68 };

/* Number of the constant of that id, or FG_IDS_NONE. */
static inline uint32_t fg_jfr_constant(const struct fg_jfr_chunk *chunk, enum fg_jfr_pool_name pool,
                                       uint64_t id)
{
    return fg_ids_find(&chunk->pools[pool].ids, id);
}

/* Its bound fields by slot; the others are as they were. */
void fg_jfr_constant_read(struct fg_jfr_chunk *chunk, enum fg_jfr_pool_name pool, uint32_t number,
                          uint64_t values[JFR_SLOTS]);

/* The string at that position; one that is nowhere is empty. FG_E_TOO_LARGE. */
enum fg_code fg_jfr_put_string(struct fg_jfr_chunk *chunk, uint32_t at, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

/*
 * What a method is called: "java/lang/Thread.run", with names that are new in each run made the
 * same (jfr_names.h); out stays empty when its class is not there. FG_E_TOO_LARGE.
 */
enum fg_code fg_jfr_put_method(struct fg_jfr_chunk *chunk, uint32_t number, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

#endif
