/*
 * The dictionary of an OTLP request, and what a batch takes out of it.
 *
 * All profiles of a request share one dictionary; one of an agent that sees hundreds of containers
 * is large, and each container uses little of it. So opening it only finds its entries. A batch
 * reads and checks an entry when it uses it: a batch costs as much as it uses, and a faulty entry
 * that no batch uses does no harm.
 *
 * A batch reads an entry once, and remembers it by its number. A budget in proportion to the
 * request's size bounds the use of all batches together (FG_E_TOO_LARGE): otherwise many tiny
 * profiles of one huge stack would cost their product.
 */
#ifndef FG_PROTO_OTLP_DICT_H
#define FG_PROTO_OTLP_DICT_H

#include "proto/builder/builder.h"
#include "proto/otlp/fields.h"

enum {
    OTLP_TABLES = OTLP_DICTIONARY_STACKS + 1,
    OTLP_FORMS = 3, /* in which an entry may stand in a batch: enum form */
};

/* Number of an entry in the batch, if `batch` says it is of the batch at hand. */
struct fg_otlp_use {
    uint32_t batch, number;
};

/* At least one entry: a sender may leave out a table of which it has nothing but entry 0. */
struct fg_otlp_table {
    struct fg_slice *entries; /* as they stand in the input */
    struct fg_otlp_use *uses[OTLP_FORMS];
    uint32_t count;
};

enum { OTLP_NO_SERVICE = UINT32_MAX };

/* An attribute as a label; name or value empty: it is none. */
struct fg_otlp_attribute {
    struct fg_label label;
    const char *fault; /* what is wrong with it, or NULL */
    uint32_t service;  /* number of the service it names, or OTLP_NO_SERVICE */
};

/* A stack of the batch before it has its number there. */
struct fg_otlp_stack {
    struct fg_otlp_use *use;
    uint32_t first, depth; /* into frames */
};

struct fg_otlp_dict {
    struct fg_arena *arena;
    const struct fg_decode_limits *limits;
    struct fg_decode_counts *counts;
    struct fg_otlp_table tables[OTLP_TABLES]; /* by field number */
    struct fg_otlp_attribute *attributes;
    struct fg_slice *services; /* that attributes name, each once */
    uint32_t n_services, cap_services;
    struct fg_map service_map;
    uint64_t steps; /* that reading entries may still take */
    bool dangling;  /* FG_E_INVALID came from a missing entry; a caller that asks clears it */

    /* Of the batch at hand. */
    struct fg_batch *batch;
    uint32_t batch_number;
    uint32_t cap_functions, cap_locations, cap_lines, cap_mappings;
    uint32_t *frames; /* leaf first, stack after stack: numbers of locations in the batch */
    struct fg_otlp_stack *used;
    uint32_t n_frames, n_used, cap_frames, cap_used;
};

/*
 * request: a whole ExportProfilesServiceRequest, whose bytes have to stay. FG_E_DECODE: it or its
 * dictionary cannot be read; FG_E_INVALID: it has none; FG_E_TOO_LARGE.
 */
enum fg_code fg_otlp_dict_open(struct fg_otlp_dict *dict, struct fg_slice request,
                               struct fg_arena *arena, const struct fg_decode_limits *limits,
                               struct fg_decode_counts *counts, struct fg_err *err) fg_must_check;

/* The string, cut to what symbols may have. FG_E_INVALID: out of bounds, not UTF-8. */
enum fg_code fg_otlp_text(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice *ret_text,
                          struct fg_err *err) fg_must_check;

/* An entry of the attribute table. NULL and FG_E_INVALID: out of bounds, or wrong in itself. */
const struct fg_otlp_attribute *fg_otlp_attribute(struct fg_otlp_dict *dict, uint64_t index,
                                                  struct fg_err *err) fg_must_check;

/* A KeyValue outside of the tables (of a resource, of a scope) as a label. */
enum fg_code fg_otlp_key_value(struct fg_otlp_dict *dict, struct fg_slice in,
                               struct fg_otlp_attribute *ret_attribute,
                               struct fg_err *err) fg_must_check;

/* Number of the service, or OTLP_NO_SERVICE when no attribute of the dictionary names it. */
uint32_t fg_otlp_service(const struct fg_otlp_dict *dict, struct fg_slice name);

/*
 * Span and trace of an entry of the link table; of other lengths than 8 and 16 bytes they are none.
 * *ret_linked: there is one of them.
 */
enum fg_code fg_otlp_link(struct fg_otlp_dict *dict, uint64_t index, struct fg_link *ret_link,
                          bool *ret_linked, struct fg_err *err) fg_must_check;

/* From now on entries go into the tables of this batch, which is empty. */
void fg_otlp_dict_start(struct fg_otlp_dict *dict, struct fg_batch *batch);

/* The batch will have this stack: reads it with all that it leads to. FG_E_INVALID. */
enum fg_code fg_otlp_use_stack(struct fg_otlp_dict *dict, uint64_t index,
                               struct fg_err *err) fg_must_check;

/* Once all stacks were used and the locations have their ids: gives the builder the stacks. */
enum fg_code fg_otlp_build_stacks(struct fg_otlp_dict *dict, struct fg_builder *builder,
                                  struct fg_err *err) fg_must_check;

/* Number in the batch of a stack that it uses. */
uint32_t fg_otlp_stack(const struct fg_otlp_dict *dict, uint64_t index);

#endif
