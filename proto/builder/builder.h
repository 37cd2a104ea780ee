/*
 * Builds a batch in normal form (common/model/batch.h) out of what a decoder reads: the decoder
 * hands over tables, stacks and samples; the builder gives stacks their ids, sums equal samples,
 * drops those without any value, sorts samples into profiles by their labels, and counts what it
 * had to cut.
 *
 * Thread: one at a time. Memory: all in the arena; its limit is the decoder's limit
 * (FG_E_TOO_LARGE).
 */
#ifndef FG_PROTO_BUILDER_BUILDER_H
#define FG_PROTO_BUILDER_BUILDER_H

#include "common/base/arena.h"
#include "common/base/map.h"
#include "common/model/batch.h"
#include "common/model/relabel.h"

/* What a tenant may send (distributor/API.md#limits). Zero in any field: no limit. */
struct fg_decode_limits {
    uint32_t samples_max;           /* more is an error */
    uint32_t sample_labels_max;     /* labels of one sample; more is an error */
    uint32_t stack_depth_max;       /* deeper: the root side is kept, and counted */
    uint32_t symbol_max_bytes;      /* longer: the end is kept, and counted */
    uint32_t label_names_max;       /* labels of a series; more is an error */
    uint32_t label_name_max_bytes;  /* longer is an error */
    uint32_t label_value_max_bytes; /* longer is an error */
};
#define FG_DECODE_LIMITS_DEFAULT                                                                   \
    {                                                                                              \
        .samples_max = 1000000, .sample_labels_max = 100, .stack_depth_max = 1000,                 \
        .symbol_max_bytes = 65535, .label_names_max = 30, .label_name_max_bytes = 1024,            \
        .label_value_max_bytes = 2048                                                              \
    }

/* What was cut or left out on the way, for the metrics. */
struct fg_decode_counts {
    uint64_t stacks_cut, symbols_cut;
    uint64_t samples_dropped;   /* negative or without any value */
    uint64_t samples_dangling;  /* named a location, function, string or stack that is not there */
    uint64_t times_repaired;    /* of 1970: the upload's time was taken */
    uint64_t locations_dropped; /* without name and address: they left their stacks */
    uint64_t profiles_dropped;  /* by the rules for labels; may be several of one upload */
    uint64_t types_dropped;     /* by the rules for sample types */
};

/* The tenant's rules for all profiles of one upload (distributor/API.md#relabelling). */
struct fg_upload_rules {
    const struct fg_relabel *labels; /* for the labels of each profile; NULL: none */
    const struct fg_relabel *types;  /* choose among the sample types; NULL: all */
    uint64_t work;                   /* FG_RELABEL_WORK_MAX at first; counts down */
};

/* Times and labels that come with the upload and hold for all its profiles. */
struct fg_upload {
    struct fg_labels labels; /* of the series, with __name__ unless the decoder finds it */
    int64_t time_ns;         /* where the format has none of its own */
    int64_t duration_ns;
    struct fg_decode_limits limits;
    struct fg_upload_rules *rules; /* NULL: none; borrowed, also its lists */
};

/*
 * Takes the batches of an upload that brings more than one (JFR: one for each kind of event; OTLP:
 * one for each service and type): called by the decoder when a batch is finished. Batch and all it
 * points to are good until it returns; batch->share says which part of the upload it is. An error
 * ends the decoding and is the decoder's own.
 */
typedef enum fg_code (*fg_batch_sink)(struct fg_batch *batch, void *arg, struct fg_err *err);

struct fg_builder; /* in the arena */

/* tables of the batch may be filled before or between calls; types has to be set before samples
 * come. */
struct fg_builder *fg_builder_create(struct fg_arena *arena, const struct fg_decode_limits *limits,
                                     struct fg_batch *batch, struct fg_decode_counts *counts);

/* Ids of batch->locations[0..n_locations), once the tables are there; before the first stack. */
enum fg_code fg_builder_hash_locations(struct fg_builder *builder,
                                       struct fg_err *err) fg_must_check;

/* Room for about so many samples, before the first: growing step by step costs more. */
enum fg_code fg_builder_reserve(struct fg_builder *builder, uint32_t n_samples,
                                struct fg_err *err) fg_must_check;

/* A location of a function's name alone (text formats). Find or add; the name is borrowed. */
enum fg_code fg_builder_name(struct fg_builder *builder, struct fg_slice name,
                             uint32_t *ret_location, struct fg_err *err) fg_must_check;

/*
 * A function without a system name or file, and a location of one of its lines (JFR), in the
 * batch's first mapping if there is one when the builder is created. Find or add; the name is
 * copied. Not together with fg_builder_name(), nor in tables that the decoder fills itself.
 */
enum fg_code fg_builder_function(struct fg_builder *builder, struct fg_slice name,
                                 uint32_t *ret_function, struct fg_err *err) fg_must_check;
enum fg_code fg_builder_line(struct fg_builder *builder, uint32_t function, int64_t line,
                             uint32_t *ret_location, struct fg_err *err) fg_must_check;

/* The stack of these locations, leaf first. Find or add. */
enum fg_code fg_builder_stack(struct fg_builder *builder, const uint32_t *locations, uint32_t depth,
                              uint32_t *ret_stack, struct fg_err *err) fg_must_check;

/*
 * The group of samples with these labels (sorted). Find or add; the array is copied. FG_E_INVALID
 * when a name or value is longer than a series' may be.
 */
enum fg_code fg_builder_group(struct fg_builder *builder, const struct fg_labels *labels,
                              uint32_t *ret_group, struct fg_err *err) fg_must_check;

/*
 * Takes span and trace out of a sample's labels (distributor/API.md#sample-labels), and labels
 * without text, which are numbers. *ret_link: without a sample; false when there is neither. Order
 * stays.
 */
bool fg_link_take(struct fg_labels *labels, struct fg_link *ret_link);

/*
 * A sample: batch->n_types values, link->span_id and trace_id or NULL. Adds to an equal one.
 * Samples with a negative value or none at all are dropped and counted. FG_E_INVALID when a sum
 * overflows.
 */
enum fg_code fg_builder_sample(struct fg_builder *builder, uint32_t group, uint32_t stack,
                               const struct fg_link *link, const int64_t *values,
                               struct fg_err *err) fg_must_check;

/*
 * Makes the profiles: one for each group that has samples, with the upload's labels and the group's
 * (the upload's win), times, and the period.
 *
 * First the rules for sample types see the upload's labels with __type__ and __unit__, for each
 * type: those they drop go with their values, and samples without any other value with them. Then
 * the rules for labels see each profile's whole set; profiles they drop are counted, those they
 * make equal are merged, and each may get a service of its own. Labels of how a profile was sent
 * (__delta__, __order__) go, and what then is not a good set is FG_E_INVALID. A batch without
 * profiles is what an upload without any value gives, or one of which the rules leave nothing.
 */
enum fg_code fg_builder_finish(struct fg_builder *builder, const struct fg_upload *upload,
                               int64_t period, struct fg_err *err) fg_must_check;

/*
 * A function's or file's name within the limit: what is longer keeps its end, where a name tells
 * most (packages come first), from the start of a character, and is counted.
 */
struct fg_slice fg_symbol_cut(struct fg_slice text, const struct fg_decode_limits *limits,
                              struct fg_decode_counts *counts);

/*
 * Checks the rules for the labels of every series (distributor/API.md#limits): count, lengths,
 * UTF-8, a name and a service. FG_E_INVALID: the text names the label and the limit.
 */
enum fg_code fg_labels_check(const struct fg_labels *labels, const struct fg_decode_limits *limits,
                             struct fg_err *err) fg_must_check;

#endif
