/*
 * Builds a batch in normal form (common/model/batch.h) from the output of a decoder. The decoder
 * gives it tables, stacks and samples. The builder computes the ids of stacks, sums equal samples,
 * drops samples without a value, groups samples into profiles by their labels, and counts what it
 * truncated.
 *
 * Thread: one at a time. Memory: the arena's; its limit is the decoder's limit (FG_E_TOO_LARGE).
 */
#ifndef FG_PROTO_BUILDER_BUILDER_H
#define FG_PROTO_BUILDER_BUILDER_H

#include "common/base/arena.h"
#include "common/base/map.h"
#include "common/model/batch.h"
#include "common/model/relabel.h"
#include "common/model/selector.h"
#include "common/model/tenant_limits.h"

/* What a tenant may send (distributor/API.md#limits). Zero in any field: no limit. */
struct fg_decode_limits {
    uint32_t samples_max;           /* more is an error */
    uint32_t sample_labels_max;     /* labels of one sample; more is an error */
    uint32_t stack_depth_max;       /* deeper stacks keep their root side, and are counted */
    uint32_t symbol_max_bytes;      /* longer names keep their end, and are counted */
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

/* Returns the part of a tenant's limits that decoders need. */
struct fg_decode_limits fg_decode_limits_of(const struct fg_limit_settings *limits);

/* What was truncated or dropped, for the metrics. */
struct fg_decode_counts {
    uint64_t stacks_cut, symbols_cut;
    uint64_t stacks_completed;  /* of Go: the profiler had cut them */
    uint64_t samples_dropped;   /* negative or without any value */
    uint64_t samples_dangling;  /* refer to a location, function, string or stack that is missing */
    uint64_t times_repaired;    /* in 1970: replaced with the upload's time */
    uint64_t locations_dropped; /* without name and address: removed from their stacks */
    uint64_t profiles_dropped;  /* by the rules for labels */
    uint64_t types_dropped;     /* by the rules for sample types */
};

/* The tenant's rules for all profiles of one upload (distributor/API.md#relabelling). */
struct fg_upload_rules {
    const struct fg_relabel *labels;    /* for the labels of each profile; NULL: none */
    const struct fg_relabel *types;     /* choose among the sample types; NULL: all */
    const struct fg_selector *demanded; /* that the labels of each profile match; NULL: any do */
    uint64_t work;                      /* starts at FG_RELABEL_WORK_MAX and counts down */
};

/* Times, labels and limits for all profiles of an upload. */
struct fg_upload {
    struct fg_labels labels; /* of the series, with __name__ unless the decoder sets it */
    int64_t time_ns;         /* used if the format has none */
    int64_t duration_ns;
    struct fg_decode_limits limits;
    struct fg_upload_rules *rules; /* NULL: none; borrowed, also its lists */
};

/*
 * Takes the batches of an upload that has several (JFR: one per kind of event; OTLP: one per
 * service and type). The decoder calls it for each finished batch, which is valid until it returns.
 * batch->share says which part of the upload the batch is. An error ends the decoding and becomes
 * the decoder's.
 */
typedef enum fg_code (*fg_batch_sink)(struct fg_batch *batch, void *arg, struct fg_err *err);

struct fg_builder; /* in the arena */

/* Creates a builder in the arena. The decoder may fill the tables of the batch before and between
 * calls, and sets batch->types before the first sample. */
struct fg_builder *fg_builder_create(struct fg_arena *arena, const struct fg_decode_limits *limits,
                                     struct fg_batch *batch, struct fg_decode_counts *counts);

/* Computes the ids of batch->locations[0..n_locations), when the tables are complete and before the
 * first stack. */
enum fg_code fg_builder_hash_locations(struct fg_builder *builder,
                                       struct fg_err *err) fg_must_check;

/* Allocates memory for about n_samples before the first sample, which is cheaper than growing. */
enum fg_code fg_builder_reserve(struct fg_builder *builder, uint32_t n_samples,
                                struct fg_err *err) fg_must_check;

/* Finds or adds a location that has only a function's name (text formats). The name is borrowed. */
enum fg_code fg_builder_name(struct fg_builder *builder, struct fg_slice name,
                             uint32_t *ret_location, struct fg_err *err) fg_must_check;

/*
 * Find or add a function without system name and file, and a location of one of its lines (JFR), in
 * the first mapping that the batch has when the builder is created. The name is copied. Not
 * together with fg_builder_name(), and not if the decoder fills the tables itself.
 */
enum fg_code fg_builder_function(struct fg_builder *builder, struct fg_slice name,
                                 uint32_t *ret_function, struct fg_err *err) fg_must_check;
enum fg_code fg_builder_line(struct fg_builder *builder, uint32_t function, int64_t line,
                             uint32_t *ret_location, struct fg_err *err) fg_must_check;

/* Returns the id of the stack of these locations, leaf first, which have been hashed. */
struct fg_id fg_builder_stack_id(const struct fg_builder *builder, const uint32_t *locations,
                                 uint32_t depth);

/* Finds or adds the stack of these locations, leaf first. */
enum fg_code fg_builder_stack(struct fg_builder *builder, const uint32_t *locations, uint32_t depth,
                              uint32_t *ret_stack, struct fg_err *err) fg_must_check;

/*
 * Finds or adds the group of samples with these labels, which are sorted; the array is copied.
 * FG_E_INVALID: a name or value exceeds the limit.
 */
enum fg_code fg_builder_group(struct fg_builder *builder, const struct fg_labels *labels,
                              uint32_t *ret_group, struct fg_err *err) fg_must_check;

/*
 * Removes span and trace from a sample's labels (distributor/API.md#sample-labels), and labels
 * without text, which are numbers. Keeps the order. Returns true and the link, whose sample is not
 * set, if there was a span or trace.
 */
bool fg_link_take(struct fg_labels *labels, struct fg_link *ret_link);

/*
 * Adds a sample of batch->n_types values, with a span and trace id unless link is NULL. Equal
 * samples are summed. Drops and counts samples with a negative value or without any value.
 * FG_E_INVALID: a sum overflows.
 */
enum fg_code fg_builder_sample(struct fg_builder *builder, uint32_t group, uint32_t stack,
                               const struct fg_link *link, const int64_t *values,
                               struct fg_err *err) fg_must_check;

/*
 * Makes a profile of each group that has samples, with the labels of upload and group (the upload's
 * win), times, and the period.
 *
 * First the rules for sample types run on the upload's labels with __type__ and __unit__, for each
 * type. Types that they drop lose their values, and samples without any other value are removed.
 * Then the rules for labels run on the whole set of each profile: profiles that they drop are
 * counted, profiles that become equal are merged, and each may get a service of its own. Labels
 * that describe how a profile was sent (__delta__, __order__) are removed. FG_E_INVALID: the
 * remaining labels are invalid. The batch has no profiles if there were no values or the rules
 * dropped everything.
 */
enum fg_code fg_builder_finish(struct fg_builder *builder, const struct fg_upload *upload,
                               int64_t period, struct fg_err *err) fg_must_check;

/*
 * Gives labels, sorted, the form in which they are stored: applies the rules for labels, removes
 * labels that describe how a profile was sent, and checks what the caller may send and
 * fg_labels_check(). Changes the array. rules NULL: none. *ret_kept false: a rule drops the
 * profile. FG_E_INVALID, FG_E_DENIED.
 */
enum fg_code fg_labels_settle(struct fg_labels *labels, struct fg_upload_rules *rules,
                              const struct fg_decode_limits *limits, struct fg_arena *arena,
                              bool *ret_kept, struct fg_err *err) fg_must_check;

/*
 * Truncates the name of a function or file to the limit and counts that. Keeps the end, which tells
 * most (packages come first), from the start of a character.
 */
struct fg_slice fg_symbol_cut(struct fg_slice text, const struct fg_decode_limits *limits,
                              struct fg_decode_counts *counts);

/*
 * Checks the rules for the labels of every series (distributor/API.md#limits): count, lengths,
 * UTF-8, a name and a service. FG_E_INVALID: names the label and the limit.
 */
enum fg_code fg_labels_check(const struct fg_labels *labels, const struct fg_decode_limits *limits,
                             struct fg_err *err) fg_must_check;

#endif
