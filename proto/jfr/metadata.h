/*
 * The metadata of a chunk: its classes (of events, constants and plain values) and their fields.
 * Recordings of different JVMs and profilers differ in both, so no field has a fixed place: a
 * decoder binds the fields it needs to slots by name, and all others are skipped.
 *
 * The metadata event, after its size and type:
 *   long start, long duration, long id
 *   int n, strings
 *   element: int name, int n attributes (int key, int value), int n elements; names, keys and
 *            values are numbers of strings
 *     root > metadata > class {id, name} > field {name, class, constantPool, dimension}
 * Other elements (annotations, settings, the region) do not describe how to read bytes.
 *
 * A value of a class is a number or string if the class is one of Java's own, else the values of
 * its fields. A field with a dimension is an int count and that many values; a field of the
 * constant pool is a long, the id of a constant of that class.
 *
 * Memory: in the arena, kept for the next chunk; text outside until fg_jfr_metadata_done().
 */
#ifndef FG_PROTO_JFR_METADATA_H
#define FG_PROTO_JFR_METADATA_H

#include "common/base/err.h"
#include "proto/ids.h"
#include "proto/jfr/read.h"

/* How a value is read. */
enum fg_jfr_how {
    JFR_COMPOSITE, /* its fields, one after the other */
    JFR_STRING,
    JFR_BYTE,
    JFR_VARINT,
    JFR_VARINT_INT, /* 32 bits with a sign */
    JFR_BE16,
    JFR_BE32_INT,
    JFR_BE64,
    JFR_UNKNOWN, /* of a class that the metadata does not have */
};

enum { JFR_SLOTS = 16, JFR_SLOT_NONE = 0 };

struct fg_jfr_field {
    uint32_t name;  /* number of its text */
    uint32_t class; /* FG_IDS_NONE: not known */
    uint64_t class_id;
    enum fg_jfr_how how; /* of one value; of a constant's id */
    uint8_t slot;
    bool array, constant;
};

struct fg_jfr_class {
    uint32_t name; /* number of its text */
    uint32_t first_field, n_fields;
    uint32_t n_read; /* up to the last field that is bound */
    enum fg_jfr_how how;
    bool plain;     /* only compressed numbers, one per field */
    bool row;       /* values follow each other, so each is read to its end; the decoder's choice */
    uint8_t pool;   /* enum fg_jfr_pool_name of its constants */
    uint8_t event;  /* the decoder's number for its events; 0: not used */
    uint16_t bound; /* bits: slots that have a field */
};

struct fg_jfr_metadata {
    struct fg_arena *arena;
    struct fg_buf text; /* all strings one after the other */
    uint32_t *text_ends;
    struct fg_ids class_ids;
    struct fg_jfr_class *classes;
    struct fg_jfr_field *fields;
    uint32_t n_texts, n_classes, n_fields;
    uint32_t cap_texts, cap_classes, cap_fields;
    uint64_t work_left; /* composite values that may still be read: some take no bytes */
};

void fg_jfr_metadata_init(struct fg_jfr_metadata *metadata, struct fg_arena *arena);
void fg_jfr_metadata_done(struct fg_jfr_metadata *metadata);

/*
 * Reads the metadata event of a chunk of chunk_bytes; the cursor is behind the event's type.
 * Replaces what was read before.
 */
enum fg_code fg_jfr_metadata_read(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                                  uint32_t chunk_bytes, struct fg_err *err) fg_must_check;

/* Returns the name of a class, borrowed until the next chunk is read. */
struct fg_slice fg_jfr_class_name(const struct fg_jfr_metadata *metadata, uint32_t class);

/* What a slot can hold. */
enum fg_jfr_want {
    JFR_WANT_NUMBER,   /* the number, also a constant's id */
    JFR_WANT_STRING,   /* its position in the chunk */
    JFR_WANT_ELEMENTS, /* the position of an array of composites */
};

/* Binds a field to a slot, if the class has a field of that name and kind. */
void fg_jfr_class_bind(struct fg_jfr_metadata *metadata, uint32_t class, const char *field,
                       enum fg_jfr_want want, uint8_t slot);

/* Returns the class of the elements in that slot, or FG_IDS_NONE. */
uint32_t fg_jfr_class_elements(const struct fg_jfr_metadata *metadata, uint32_t class,
                               uint8_t slot);

/*
 * Reads a value of the class into the slots of its bound fields; JFR_SLOT_NONE has no meaning.
 * Stops after the last bound field, unless the class is a row. The cursor becomes bad if bytes are
 * missing.
 */
void fg_jfr_class_read(struct fg_jfr_metadata *metadata, uint32_t class, struct fg_jfr_cur *cur,
                       uint64_t values[JFR_SLOTS]);

/* Skips a value of the class. */
void fg_jfr_class_skip(struct fg_jfr_metadata *metadata, uint32_t class, struct fg_jfr_cur *cur);

#endif
