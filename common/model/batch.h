/*
 * A batch holds the decoded profiles of one upload for one service: tables as the decoder found
 * them, and the profiles in normal form. All of it is borrowed from the bytes of the upload or
 * lives in its arena.
 *
 * Normal form: a profile has one label set, one span of time and all sample types. Its samples
 * refer to stacks of the batch. Equal stacks (with equal links) are summed, and samples that are
 * zero in every type are removed. The id of a stack depends on its content only, so the same stack
 * has the same id on every machine.
 *
 * The content of a location is its lines (function name, system name, file, start line; line
 * number), its address if it has no function names, and the file and build id of its mapping. The
 * content of a stack is the ids of its locations, leaf first.
 */
#ifndef FG_COMMON_MODEL_BATCH_H
#define FG_COMMON_MODEL_BATCH_H

#include "common/model/labels.h"
#include "common/model/symbols.h"
#include "common/model/usage.h"

/* A function of the upload; strings are borrowed. */
struct fg_batch_function {
    struct fg_slice name, system_name, filename;
    int64_t start_line;
};

struct fg_batch_mapping {
    uint64_t start, limit, offset;
    struct fg_slice filename, build_id;
    uint32_t flags;
};

struct fg_batch_location {
    uint64_t address;
    uint32_t mapping; /* index, or FG_NO_MAPPING */
    uint32_t first_line, n_lines;
    bool folded;
};

/* The depth of a stack of which the batch has the id only. */
#define FG_STACK_UNDEFINED UINT32_MAX

struct fg_stack {
    struct fg_id id;
    uint32_t first; /* into batch->stack_locations, leaf first */
    uint32_t depth; /* or FG_STACK_UNDEFINED */
};

/* Span and trace of a sample. They are not part of the labels. */
struct fg_link {
    uint32_t sample;
    uint64_t span_id;              /* 0: none */
    uint8_t trace_id[FG_ID_BYTES]; /* zero: none */
};

/* Sample types of a profile, at least one, at most as many as a 64-bit set holds. The richest agent
 * sends 10. */
enum { FG_BATCH_TYPES_MAX = 64 };

struct fg_value_type {
    struct fg_slice type, unit;
};

struct fg_profile {
    struct fg_id id;         /* common/cluster/README.md#words; set by fg_batch_identify() */
    struct fg_labels labels; /* with __name__ and service_name, without those made from the type */
    int64_t time_ns, duration_ns;
    int64_t period;
    uint32_t n_samples;
    uint32_t *stacks; /* [n_samples], into batch->stacks */
    int64_t *values;  /* [n_types][n_samples], a column for each sample type */
    struct fg_link *links;
    uint32_t n_links;            /* ascending by sample */
    struct fg_profile_size size; /* not part of the id, nor of an encoded batch */
};

/* The share of the decoded bytes that a batch has: [from, to) of `of`, in a unit that the decoder
 * chooses. of 0: all bytes, as there is one batch only. */
struct fg_batch_share {
    uint64_t from, to, of;
};

struct fg_batch {
    struct fg_batch_function *functions;
    struct fg_batch_mapping *mappings;
    struct fg_batch_location *locations;
    struct fg_line *lines;
    uint32_t *stack_locations;
    struct fg_stack *stacks;
    uint32_t n_functions, n_mappings, n_locations, n_lines, n_stack_locations, n_stacks;
    uint32_t n_undefined; /* stacks of unknown content */

    /* The schema, common to all profiles of the batch. */
    struct fg_value_type *types;
    uint32_t n_types;
    struct fg_value_type period_type; /* empty: none */

    struct fg_profile *profiles;
    uint32_t n_profiles;
    struct fg_batch_share share;
};

/*
 * Sets the id of every profile: a hash of tenant, labels, schema, time, duration and content.
 * origin is the address of the sender if the format has no timestamps in nanoseconds, else empty.
 * key is the Idempotency-Key of the sender, which replaces content and origin; empty: none.
 */
void fg_batch_identify(struct fg_batch *batch, struct fg_slice tenant, struct fg_slice origin,
                       struct fg_slice key);

/* Adds a location of the batch, with its functions and its mapping, to a table and returns its
 * number there: a new one, or that of equal content. */
uint32_t fg_batch_define_location(const struct fg_batch *batch, uint32_t number,
                                  struct fg_symbols *symbols);

/*
 * Encodes a batch for the wire (distributor to ingester), little-endian:
 *
 *   u8 version 1
 *   varint n, stack ids: 16 bytes each
 *   definitions: varint n; symbols (symbols.h); n times varint stack index, varint depth, varint
 *     locations
 *   schema: period type, unit; varint n, type, unit (varint-length strings)
 *   varint n, profiles: id 16 bytes; varint-length labels; zigzag time, duration, period; varint
 *     samples, stack indexes as varints; columns of zigzag values; varint links: varint sample, u64
 *     span, 16 bytes trace
 *
 * define[i]: whether to include the definition of stack i, which is not undefined.
 */
void fg_batch_encode(const struct fg_batch *batch, const bool *define, struct fg_buf *out);

/* Of the id of a stack that the receiver is known to have, the lowest bytes come. Among a million
 * stacks two have the same with a probability of 1 in 500. */
enum { FG_STACK_SHORT_BYTES = 6 };

/*
 * Encodes a batch for another server, which has got most of its stacks before: a third of the bytes
 * of the above if little is defined. As above, except
 *
 *   u8 version 2
 *   varint n stacks; definitions; u8 6 or 16: bytes of the ids of stacks that are not defined; ids,
 *     those of defined stacks 16 bytes; if the others have 6: u64 sum of hashes of what these lack
 *   profiles: the time as the difference from that of the profile before; stack indexes as zigzag
 *     differences; for each column varint divisor, then the values divided by it as varints
 *
 * whole_ids: all ids have 16 bytes.
 */
void fg_batch_encode_short(const struct fg_batch *batch, const bool *define, bool whole_ids,
                           struct fg_buf *out);

/* A decoded batch: the same profiles, and definitions as a table of their own. */
struct fg_wire_stack {
    struct fg_id id;
    const uint32_t *locations; /* leaf first, into symbols; NULL: not defined here */
    uint32_t depth;
};
struct fg_wire_batch {
    struct fg_symbols symbols; /* of the definitions; fg_wire_batch_done() frees it */
    struct fg_wire_stack *stacks;
    uint32_t n_stacks;
    struct fg_value_type *types;
    uint32_t n_types;
    struct fg_value_type period_type;
    struct fg_profile *profiles;
    uint32_t n_profiles;
};

/*
 * Writes the sizes of profiles, two numbers each, to numbers[2 * n_profiles]. They are sent in a
 * field of their own (proto/inner.proto, PushItem.sizes), which older programs ignore.
 */
void fg_batch_put_sizes(const struct fg_batch *batch, uint64_t *numbers);

/* Sets the sizes of the profiles from the numbers of a message. count 0: all sizes stay unknown.
 * FG_E_CORRUPT: the count does not match the number of profiles, or a number is out of range. */
enum fg_code fg_wire_batch_get_sizes(struct fg_wire_batch *batch, const uint64_t *numbers,
                                     size_t count, struct fg_err *err) fg_must_check;

/* Sets functions, mappings, locations and lines of a batch to those of a table, number by number.
 * The batch borrows from the table. Returns false if the arena is full. */
bool fg_batch_take_symbols(struct fg_batch *batch, const struct fg_symbols *symbols,
                           struct fg_arena *arena) fg_must_check;

/* Makes a batch of a decoded one, from which it borrows. Returns false if the arena is full. */
bool fg_batch_of_wire(const struct fg_wire_batch *wire, struct fg_arena *arena,
                      struct fg_batch *ret_batch) fg_must_check;

/* Decodes a batch, which borrows from `in` and from the arena. All indexes in the result are valid.
 * FG_E_CORRUPT; FG_E_LIMIT: the arena is full. */
enum fg_code fg_batch_decode(struct fg_slice in, struct fg_arena *arena,
                             struct fg_wire_batch *ret_batch, struct fg_err *err) fg_must_check;

/* Finds whole ids of stacks by their lowest FG_STACK_SHORT_BYTES. */
struct fg_stack_names {
    /* Sets ids[i] to one whose lowest bytes are shorts[i]. Returns false if there is none for some
     * i. */
    bool (*find)(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids);
    void *arg;
};

/* Decodes a batch that fg_batch_encode_short() has written, likewise. FG_E_NOT_FOUND: a whole id
 * was not found, or the wrong one; the batch has to come with whole ids. */
enum fg_code fg_batch_decode_short(struct fg_slice in, struct fg_arena *arena,
                                   const struct fg_stack_names *names,
                                   struct fg_wire_batch *ret_batch,
                                   struct fg_err *err) fg_must_check;

/* Frees the symbols of a batch. */
void fg_wire_batch_done(struct fg_wire_batch *batch);

#endif
