#include "proto/otlp/otlp.h"

#include "common/base/time.h"
#include "proto/otlp/dialect.h"
#include "proto/otlp/dict.h"
#include "proto/otlp/json.h"

#include <stdlib.h>

enum {
    /* A profile may have a dozen bytes, but to make a batch of it and store that takes
     * microseconds. In the largest request that is accepted by default, so many of them have 250
     * bytes each. */
    BATCHES_MAX = 65536,
    JSON_GROWTH = 4, /* the binary form is at most so much larger, see json.h */
};

static const int64_t default_duration_ns = 10 * FG_SECOND_NS;

/* Where a sample is in the request, and the keys by which it is sorted. */
struct sample_ref {
    struct fg_slice bytes;
    uint32_t service; /* number in the dictionary, or OTLP_NO_SERVICE: the resource's */
    uint32_t number;
    bool lost; /* it refers to what is not there */
};

/* A sample as it was read; its labels are the decoder's. */
struct sample {
    uint64_t stack, link;
    int64_t value;
    size_t n_values, n_timestamps;
};

/* A profile without its samples. */
struct otlp_profile {
    struct fg_slice name; /* __name__ */
    struct fg_value_type type, period_type;
    int64_t time_ns, duration_ns, period;
    int64_t factor; /* of values */
    size_t n_samples;
};

struct otlp_decoder {
    const struct fg_otlp_request *request;
    struct fg_arena *arena;
    fg_batch_sink sink;
    void *arg;
    struct fg_decode_counts *counts;
    struct fg_otlp_dict dict;
    enum fg_otlp_version version; /* that says the numbers of fields */
    struct fg_otlp_result result;
    struct fg_err first; /* why the first was rejected */
    uint32_t n_batches;
    bool sink_failed, any_taken; /* any_taken: a batch, by the sink */

    /* Of the resource and the scope at hand. */
    struct fg_labels resource, series; /* sorted; series: with those of the scope */
    struct fg_slice service;
    uint32_t service_number; /* in the dictionary, where it names that one too */
    struct fg_err fault;     /* what is wrong with their labels, when its code is not FG_OK */

    uint64_t profile_bytes;              /* of all profiles of the request */
    uint64_t profile_from, profile_size; /* of these: before the one at hand, and its own */
    struct otlp_profile profile;
    struct sample_ref *samples;
    uint32_t n_samples, n_lost;
    struct fg_err dangle; /* what the last one that was lost refers to */

    /* Of the sample at hand, kept for the next. */
    struct fg_label *labels;
    uint32_t n_labels, cap_labels;
    uint32_t sample_service;

    /* Labels of the sample before, as they came, and their group. */
    struct fg_label *group_labels;
    uint32_t n_group_labels, cap_group_labels;
    uint32_t group;
    bool has_group;

    /* The link that was read last: mostly none, entry 0 of the dictionary. */
    uint64_t link_index;
    struct fg_link link;
    bool linked, has_link;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "request needs more memory than decoding may use");
}

/* ---- samples ---- */

static void add_values(struct fg_slice packed, struct sample *sample, bool *overflow,
                       struct fg_cur *outer)
{
    struct fg_cur cur = fg_cur(packed);

    while (fg_cur_more(&cur)) {
        int64_t value = (int64_t)fg_cur_varint(&cur);

        *overflow |= __builtin_add_overflow(sample->value, value, &sample->value);
        sample->n_values++;
    }
    if (cur.bad)
        fg_cur_fail(outer);
}

/* Adds the sample's labels; its service is kept apart, since it decides which profile the sample
 * belongs to. */
static enum fg_code add_attributes(struct otlp_decoder *decoder, struct fg_slice packed,
                                   struct fg_err *err)
{
    uint32_t max = decoder->request->upload.limits.sample_labels_max;
    struct fg_cur cur = fg_cur(packed);

    while (fg_cur_more(&cur)) {
        uint64_t index = fg_cur_varint(&cur);
        const struct fg_otlp_attribute *attribute;

        if (cur.bad)
            return fg_fail(err, FG_E_DECODE, "attribute indices cut short");
        attribute = fg_otlp_attribute(&decoder->dict, index, err);
        if (attribute == NULL)
            return err->code;
        /* A label without a name or value is none. */
        if (attribute->label.name.len == 0 || attribute->label.value.len == 0)
            continue;
        if (attribute->service != OTLP_NO_SERVICE) {
            decoder->sample_service = attribute->service;
            continue;
        }
        if (max != 0 && decoder->n_labels == max)
            return fg_fail(err, FG_E_INVALID,
                           "profile exceeds the sample labels limit "
                           "(max_profile_stacktrace_sample_labels, limit: %u)",
                           max);
        if (!fg_arena_grow(decoder->arena, &decoder->labels, decoder->n_labels, 1,
                           &decoder->cap_labels, sizeof *decoder->labels))
            return too_large(err);
        decoder->labels[decoder->n_labels++] = attribute->label;
    }
    return FG_OK;
}

static enum fg_code read_sample(struct otlp_decoder *decoder, struct fg_slice in,
                                struct sample *sample, struct fg_err *err)
{
    enum fg_otlp_version version = decoder->version;
    struct fg_cur cur = fg_cur(in);
    bool overflow = false;

    *sample = (struct sample){0};
    decoder->n_labels = 0;
    decoder->sample_service = decoder->service_number;
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_otlp_sample_tag(version, fg_cur_varint(&cur));

        switch (tag) {
        case FG_PB_TAG(OTLP_SAMPLE_STACK, FG_PB_VARINT):
            sample->stack = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_LINK, FG_PB_VARINT):
            sample->link = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_ATTRIBUTES, FG_PB_LEN):
        case FG_PB_TAG(OTLP_SAMPLE_ATTRIBUTES, FG_PB_VARINT):
            if (add_attributes(decoder, fg_pb_varints(&cur, tag), err) != FG_OK)
                return err->code;
            break;
        case FG_PB_TAG(OTLP_SAMPLE_VALUES, FG_PB_LEN):
        case FG_PB_TAG(OTLP_SAMPLE_VALUES, FG_PB_VARINT):
            add_values(fg_pb_varints(&cur, tag), sample, &overflow, &cur);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_LEN):
            /* Packed fixed64: eight bytes each. */
            sample->n_timestamps += fg_cur_lenbytes(&cur).len / sizeof(uint64_t);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_I64):
            (void)fg_cur_le64(&cur);
            sample->n_timestamps++;
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "cannot be read");
    /* Without values each timestamp is one observation (profiles.proto, Sample). */
    if (sample->n_values == 0)
        sample->value = (int64_t)sample->n_timestamps;
    if (overflow || __builtin_mul_overflow(sample->value, decoder->profile.factor, &sample->value))
        return fg_fail(err, FG_E_INVALID, "value exceeds 64 bits");
    return FG_OK;
}

static enum fg_code find_group(struct otlp_decoder *decoder, struct fg_builder *builder,
                               struct fg_err *err)
{
    struct fg_labels labels = {decoder->labels, decoder->n_labels};

    /* A sample with the labels of the one before has the same entries of the dictionary, so
     * comparing the bytes is enough. */
    if (decoder->has_group && decoder->n_labels == decoder->n_group_labels &&
        (decoder->n_labels == 0 || memcmp(decoder->labels, decoder->group_labels,
                                          decoder->n_labels * sizeof *decoder->labels) == 0))
        return FG_OK;
    if (!fg_arena_grow(decoder->arena, &decoder->group_labels, 0, decoder->n_labels,
                       &decoder->cap_group_labels, sizeof *decoder->group_labels))
        return too_large(err);
    if (labels.count > 0)
        memcpy(decoder->group_labels, labels.items, labels.count * sizeof *labels.items);
    decoder->n_group_labels = decoder->n_labels;
    fg_labels_sort(&labels);
    decoder->has_group = fg_builder_group(builder, &labels, &decoder->group, err) == FG_OK;
    return decoder->has_group ? FG_OK : err->code;
}

static enum fg_code keep_sample(struct otlp_decoder *decoder, struct fg_builder *builder,
                                const struct sample *sample, struct fg_err *err)
{
    if (!decoder->has_link || sample->link != decoder->link_index) {
        decoder->has_link = false;
        if (fg_otlp_link(&decoder->dict, sample->link, &decoder->link, &decoder->linked, err) !=
            FG_OK)
            return err->code;
        decoder->link_index = sample->link;
        decoder->has_link = true;
    }
    if (find_group(decoder, builder, err) != FG_OK)
        return err->code;
    return fg_builder_sample(builder, decoder->group, fg_otlp_stack(&decoder->dict, sample->stack),
                             decoder->linked ? &decoder->link : NULL, &sample->value, err);
}

/* ---- samples of one service ---- */

/* By number last: samples of a service stay in their order, so the same request always gives the
 * same batch. */
static int order_by_service(const void *left, const void *right)
{
    const struct sample_ref *a = left, *b = right;
    int order = (a->service > b->service) - (a->service < b->service);

    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

static enum fg_code make_sample_refs(struct otlp_decoder *decoder, struct fg_err *err)
{
    uint32_t max = decoder->request->upload.limits.samples_max;
    size_t count = decoder->profile.n_samples;

    if (count > (max != 0 ? max : UINT32_MAX))
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the samples count limit (max_profile_stacktrace_samples, "
                       "actual: %zu, limit: %u)",
                       count, max);
    decoder->samples = fg_arena_alloc(decoder->arena, count * sizeof *decoder->samples);
    return decoder->samples == NULL ? too_large(err) : FG_OK;
}

/* Called when reading a sample failed. Returns true if it refers to something that is not there:
 * then only the sample is dropped. The dictionary's flag was cleared before. */
static bool lose_sample(struct otlp_decoder *decoder, struct sample_ref *ref,
                        const struct fg_err *err)
{
    if (err->code != FG_E_INVALID || !decoder->dict.dangling)
        return false;
    decoder->dangle = *err;
    (void)fg_wrap(&decoder->dangle, "sample %u", ref->number);
    decoder->n_lost++;
    ref->lost = true;
    return true;
}

/* Finds all samples of the profile and puts those of one service together. */
static enum fg_code find_samples(struct otlp_decoder *decoder, struct fg_slice in,
                                 struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_slice bytes;
    struct sample sample;

    if (make_sample_refs(decoder, err) != FG_OK)
        return err->code;
    decoder->n_samples = decoder->n_lost = 0;
    /* Labels of the profile before were released with its arena. */
    decoder->labels = NULL;
    decoder->cap_labels = 0;
    while (fg_pb_next(&cur, FG_PB_TAG(OTLP_PROFILE_SAMPLES, FG_PB_LEN), &bytes)) {
        uint32_t number = decoder->n_samples++;

        fg_assert(number < decoder->profile.n_samples); /* as read_profile() counted them */
        decoder->samples[number] = (struct sample_ref){bytes, OTLP_NO_SERVICE, number, false};
        /* No attribute names a service, so all samples are of the resource's: nothing to sort. */
        if (decoder->dict.n_services == 0)
            continue;
        decoder->dict.dangling = false;
        if (read_sample(decoder, bytes, &sample, err) != FG_OK) {
            if (!lose_sample(decoder, &decoder->samples[number], err))
                return fg_wrap(err, "sample %u", number);
            continue;
        }
        decoder->samples[number].service = decoder->sample_service;
    }
    if (decoder->dict.n_services > 0)
        qsort(decoder->samples, decoder->n_samples, sizeof *decoder->samples, order_by_service);
    return FG_OK;
}

/* Samples [from, to) are of one service. */
struct span {
    uint32_t from, to;
};

static struct span next_service(const struct otlp_decoder *decoder, uint32_t from)
{
    struct span span = {from, from + 1};

    while (span.to < decoder->n_samples &&
           decoder->samples[span.to].service == decoder->samples[from].service)
        span.to++;
    return span;
}

/* ---- batches ---- */

/* Joins the labels of the series, those of the caller, and our own, which come last and win. */
static enum fg_code batch_labels(struct otlp_decoder *decoder, struct fg_slice service,
                                 struct fg_labels *ret_labels, struct fg_err *err)
{
    const struct fg_labels *extra = &decoder->request->upload.labels;
    const struct fg_label own[] = {
        {FG_LIT("__otel__"), FG_LIT("true")},
        {FG_LIT(FG_LABEL_NAME), decoder->profile.name},
        {FG_LIT(FG_LABEL_SERVICE), service},
    };
    size_t count = decoder->series.count + extra->count + FG_COUNT(own);
    struct fg_label *items = fg_arena_new(decoder->arena, struct fg_label, count);

    if (items == NULL)
        return too_large(err);
    if (decoder->series.count > 0)
        memcpy(items, decoder->series.items, decoder->series.count * sizeof *items);
    if (extra->count > 0)
        memcpy(items + decoder->series.count, extra->items, extra->count * sizeof *items);
    memcpy(items + count - FG_COUNT(own), own, sizeof own);
    *ret_labels = (struct fg_labels){items, count};
    return FG_OK;
}

/* Reads only the stack's index, whose field number is 1 in all releases (dialect.h). Other
 * faults of the sample are found when it is added. */
static uint64_t stack_of(struct fg_slice sample)
{
    struct fg_cur cur = fg_cur(sample);
    uint64_t stack = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_SAMPLE_STACK, FG_PB_VARINT))
            stack = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    return stack;
}

/* Reads the locations of all stacks: the builder hashes them before it can give any stack an id. */
static enum fg_code use_stacks(struct otlp_decoder *decoder, struct span span, struct fg_err *err)
{
    for (uint32_t i = span.from; i < span.to; i++) {
        struct sample_ref *ref = &decoder->samples[i];

        decoder->dict.dangling = false;
        if (!ref->lost && fg_otlp_use_stack(&decoder->dict, stack_of(ref->bytes), err) != FG_OK &&
            !lose_sample(decoder, ref, err))
            return fg_wrap(err, "sample %u", ref->number);
    }
    return FG_OK;
}

static enum fg_code add_samples(struct otlp_decoder *decoder, struct fg_builder *builder,
                                struct span span, struct fg_err *err)
{
    struct sample sample;

    for (uint32_t i = span.from; i < span.to; i++) {
        struct sample_ref *ref = &decoder->samples[i];

        decoder->dict.dangling = false;
        if (!ref->lost &&
            (read_sample(decoder, ref->bytes, &sample, err) != FG_OK ||
             keep_sample(decoder, builder, &sample, err) != FG_OK) &&
            !lose_sample(decoder, ref, err))
            return fg_wrap(err, "sample %u", ref->number);
    }
    return FG_OK;
}

static enum fg_code build_batch(struct otlp_decoder *decoder, struct span span,
                                struct fg_batch *batch, struct fg_err *err)
{
    struct fg_upload upload = decoder->request->upload;
    struct fg_slice service = decoder->samples[span.from].service == OTLP_NO_SERVICE
                                  ? decoder->service
                                  : decoder->dict.services[decoder->samples[span.from].service];
    struct fg_builder *builder;

    upload.time_ns = decoder->profile.time_ns;
    upload.duration_ns = decoder->profile.duration_ns;
    fg_otlp_dict_start(&decoder->dict, batch);
    if (batch_labels(decoder, service, &upload.labels, err) != FG_OK ||
        use_stacks(decoder, span, err) != FG_OK)
        return err->code;
    builder = fg_builder_create(decoder->arena, &upload.limits, batch, decoder->counts);
    if (builder == NULL)
        return too_large(err);
    if (fg_builder_hash_locations(builder, err) != FG_OK ||
        fg_builder_reserve(builder, span.to - span.from, err) != FG_OK ||
        fg_otlp_build_stacks(&decoder->dict, builder, err) != FG_OK ||
        add_samples(decoder, builder, span, err) != FG_OK)
        return err->code;
    return fg_builder_finish(builder, &upload, decoder->profile.period, err);
}

/* Returns whether the sink refuses one batch, whose tenant is another than that of the rest. */
static bool rejects_batch(enum fg_code code)
{
    return code == FG_E_DENIED || code == FG_E_LIMIT;
}

/* Decodes a batch. Its memory is released with it. */
static enum fg_code decode_batch(struct otlp_decoder *decoder, struct span span, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(decoder->arena);
    /* Bytes that are common to all profiles (the dictionary) are divided by the share of the own
     * bytes in those of all profiles, and those of a profile of several services by samples. */
    uint64_t size = decoder->profile_size, n = FG_MAX(decoder->n_samples, 1);
    struct fg_batch batch = {
        .types = &decoder->profile.type,
        .n_types = 1,
        .period_type = decoder->profile.period_type,
        .share = {decoder->profile_from + fg_usage_share(size, 0, span.from, n),
                  decoder->profile_from + fg_usage_share(size, 0, span.to, n),
                  decoder->profile_bytes},
    };
    enum fg_code code;

    fg_assert(span.from < span.to && span.to <= decoder->n_samples);
    if (decoder->n_batches == BATCHES_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "request has more than %d profiles", BATCHES_MAX);
    decoder->n_batches++;
    decoder->labels = decoder->group_labels = NULL;
    decoder->cap_labels = decoder->cap_group_labels = 0;
    decoder->has_group = false;
    code = build_batch(decoder, span, &batch, err);
    if (code == FG_OK && batch.n_profiles > 0) {
        code = decoder->sink(&batch, decoder->arg, err);
        decoder->any_taken |= code == FG_OK;
        decoder->sink_failed = code != FG_OK && code != FG_E_INVALID && !rejects_batch(code);
    }
    fg_arena_release(decoder->arena, mark);
    return code;
}

/* ---- profiles ---- */

static enum fg_code read_value_type(struct otlp_decoder *decoder, struct fg_slice in,
                                    struct fg_value_type *ret_type, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t type = 0, unit = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_VALUE_TYPE_TYPE, FG_PB_VARINT))
            type = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(OTLP_VALUE_TYPE_UNIT, FG_PB_VARINT))
            unit = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "its type cannot be read");
    if (fg_otlp_text(&decoder->dict, type, &ret_type->type, err) != FG_OK)
        return err->code;
    return fg_otlp_text(&decoder->dict, unit, &ret_type->unit, err);
}

static enum fg_code read_profile(struct otlp_decoder *decoder, struct fg_slice in,
                                 struct fg_err *err)
{
    struct otlp_profile *profile = &decoder->profile;
    struct fg_cur cur = fg_cur(in);
    struct fg_slice type = {NULL, 0}, period_type = {NULL, 0};

    *profile = (struct otlp_profile){.factor = 1};
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_PROFILE_SAMPLE_TYPE, FG_PB_LEN):
            type = fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(OTLP_PROFILE_SAMPLES, FG_PB_LEN):
            (void)fg_cur_lenbytes(&cur);
            profile->n_samples++;
            break;
        case FG_PB_TAG(OTLP_PROFILE_TIME, FG_PB_I64):
            profile->time_ns = (int64_t)fg_cur_le64(&cur);
            break;
        case FG_PB_TAG(OTLP_PROFILE_DURATION, FG_PB_VARINT):
            profile->duration_ns = (int64_t)fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_PROFILE_PERIOD_TYPE, FG_PB_LEN):
            period_type = fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(OTLP_PROFILE_PERIOD, FG_PB_VARINT):
            profile->period = (int64_t)fg_cur_varint(&cur);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "cannot be read");
    if (read_value_type(decoder, type, &profile->type, err) != FG_OK)
        return err->code;
    return read_value_type(decoder, period_type, &profile->period_type, err);
}

static bool is_type(const struct fg_value_type *type, const char *name, const char *unit)
{
    return fg_slice_is(type->type, name) && fg_slice_is(type->unit, unit);
}

/* Sets times that are missing, and the kind of profile. */
static enum fg_code complete_profile(struct otlp_decoder *decoder, struct fg_err *err)
{
    const struct fg_upload *upload = &decoder->request->upload;
    struct otlp_profile *profile = &decoder->profile;

    if (profile->type.type.len == 0)
        return fg_fail(err, FG_E_INVALID, "sample type is missing");
    if (profile->time_ns <= 0)
        profile->time_ns = upload->time_ns;
    if (profile->duration_ns <= 0)
        profile->duration_ns = upload->duration_ns > 0 ? upload->duration_ns : default_duration_ns;
    if (profile->period <= 0) {
        profile->period = 0;
        profile->period_type = (struct fg_value_type){FG_LIT(""), FG_LIT("")};
    }
    profile->name =
        profile->period_type.type.len > 0 ? profile->period_type.type : profile->type.type;
    if (is_type(&profile->type, "samples", "count") &&
        is_type(&profile->period_type, "cpu", "nanoseconds")) {
        profile->name = FG_LIT("process_cpu");
        profile->type = profile->period_type;
        /* Samples times the period are nanoseconds, as Pyroscope stores CPU time. */
        profile->factor = profile->period;
    }
    return FG_OK;
}

static enum fg_code decode_profile(struct otlp_decoder *decoder, struct fg_slice in,
                                   struct fg_err *err)
{
    struct fg_err refusal = {.code = FG_OK};
    struct span span = {0, 0};

    if (decoder->fault.code != FG_OK)
        return fg_fail(err, decoder->fault.code, "%s", decoder->fault.msg);
    if (read_profile(decoder, in, err) != FG_OK || complete_profile(decoder, err) != FG_OK ||
        find_samples(decoder, in, err) != FG_OK)
        return err->code;
    while (span.to < decoder->n_samples) {
        span = next_service(decoder, span.to);
        if (decode_batch(decoder, span, err) == FG_OK)
            continue;
        if (!rejects_batch(err->code))
            return err->code;
        refusal = *err; /* another service of the profile may belong to somebody else */
    }
    decoder->counts->samples_dangling += decoder->n_lost;
    if (refusal.code != FG_OK) {
        *err = refusal;
        return err->code;
    }
    if (decoder->n_lost == 0 || decoder->n_lost < decoder->n_samples)
        return FG_OK;
    *err = decoder->dangle; /* nothing is left of the profile */
    return err->code;
}

/* Decodes a profile and counts it. Returns an error only if the sink failed in a way that ends
 * all. */
static enum fg_code try_profile(struct otlp_decoder *decoder, struct fg_slice in, uint32_t resource,
                                uint32_t scope, uint32_t number, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(decoder->arena);
    enum fg_code code = decode_profile(decoder, in, err);

    fg_arena_release(decoder->arena, mark);
    if (decoder->sink_failed)
        return code;
    decoder->result.accepted += code == FG_OK;
    decoder->result.rejected += code != FG_OK;
    if (code != FG_OK && decoder->result.rejected == 1) {
        (void)fg_wrap(err, "resource %u, scope %u, profile %u", resource, scope, number);
        decoder->first = *err;
    }
    return FG_OK;
}

/* ---- resources and scopes ---- */

struct label_list {
    struct fg_label *items;
    uint32_t count, cap;
};

/* Reads the attributes of the messages under message_tag: one message, or its parts. */
static enum fg_code read_labels(struct otlp_decoder *decoder, struct fg_slice in,
                                uint64_t message_tag, uint64_t attribute_tag,
                                struct label_list *list, struct fg_err *err)
{
    struct fg_cur messages = fg_cur(in);
    struct fg_slice message, bytes;
    struct fg_otlp_attribute attribute;

    while (fg_pb_next(&messages, message_tag, &message)) {
        struct fg_cur cur = fg_cur(message);

        while (fg_pb_next(&cur, attribute_tag, &bytes)) {
            if (fg_otlp_key_value(&decoder->dict, bytes, &attribute, err) != FG_OK)
                return err->code;
            if (attribute.label.name.len == 0)
                continue;
            if (!fg_arena_grow(decoder->arena, &list->items, list->count, 1, &list->cap,
                               sizeof *list->items))
                return too_large(err);
            list->items[list->count++] = attribute.label;
        }
        if (cur.bad)
            return fg_fail(err, FG_E_DECODE, "attributes cannot be read");
    }
    return FG_OK;
}

/* Makes a set of labels from the list. Of equal names, those in `before` win, then the first. */
static enum fg_code make_set(struct otlp_decoder *decoder, const struct label_list *list,
                             const struct fg_labels *before, struct fg_labels *ret_set,
                             struct fg_err *err)
{
    uint32_t max = decoder->request->upload.limits.label_names_max;
    size_t count = list->count + before->count;
    struct fg_labels set = {fg_arena_new(decoder->arena, struct fg_label, count), count};

    if (set.items == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < list->count; i++) /* sorting keeps the last */
        set.items[i] = list->items[list->count - 1 - i];
    if (before->count > 0)
        memcpy(set.items + list->count, before->items, before->count * sizeof *set.items);
    fg_labels_sort(&set);
    if (max != 0 && set.count > max) /* looked at here, or each profile would carry them along */
        return fg_fail(err, FG_E_INVALID,
                       "resource has %zu attributes; limit %u (max_label_names_per_series)",
                       set.count, max);
    *ret_set = set;
    return FG_OK;
}

static enum fg_code find_service(struct otlp_decoder *decoder, struct fg_err *err)
{
    static const char unknown[] = "unknown_service:";
    struct fg_slice executable = fg_labels_get(&decoder->resource, "process.executable.name");
    struct fg_slice service = fg_labels_get(&decoder->resource, "service.name");
    size_t len = sizeof unknown - 1;
    uint8_t *text;

    if (service.len == 0) {
        text = fg_arena_alloc(decoder->arena, len + executable.len);
        if (text == NULL)
            return too_large(err);
        memcpy(text, unknown, len);
        if (executable.len > 0)
            memcpy(text + len, executable.ptr, executable.len);
        /* Without an executable the ":" is left out, as OpenTelemetry's convention for service.name
         * says. */
        service = fg_bytes(text, executable.len > 0 ? len + executable.len : len - 1);
    }
    decoder->service = service;
    decoder->service_number = fg_otlp_service(&decoder->dict, service);
    return FG_OK;
}

static enum fg_code read_resource(struct otlp_decoder *decoder, struct fg_slice in,
                                  struct fg_err *err)
{
    const struct fg_labels none = {NULL, 0};
    struct label_list list = {0};

    if (read_labels(decoder, in, FG_PB_TAG(OTLP_RESOURCES_RESOURCE, FG_PB_LEN),
                    FG_PB_TAG(OTLP_RESOURCE_ATTRIBUTES, FG_PB_LEN), &list, err) != FG_OK ||
        make_set(decoder, &list, &none, &decoder->resource, err) != FG_OK)
        return err->code;
    return find_service(decoder, err);
}

static enum fg_code read_scope(struct otlp_decoder *decoder, struct fg_slice in, struct fg_err *err)
{
    struct label_list list = {0};

    decoder->series = decoder->resource;
    if (read_labels(decoder, in, FG_PB_TAG(OTLP_SCOPES_SCOPE, FG_PB_LEN),
                    FG_PB_TAG(OTLP_SCOPE_ATTRIBUTES, FG_PB_LEN), &list, err) != FG_OK)
        return err->code;
    return list.count == 0 ? FG_OK
                           : make_set(decoder, &list, &decoder->resource, &decoder->series, err);
}

static enum fg_code decode_scope(struct otlp_decoder *decoder, struct fg_slice in,
                                 uint32_t resource, uint32_t number, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_slice profile;
    uint32_t n_profiles = 0;

    if (decoder->fault.code == FG_OK && read_scope(decoder, in, err) != FG_OK)
        decoder->fault = *err;
    while (fg_pb_next(&cur, FG_PB_TAG(OTLP_SCOPES_PROFILES, FG_PB_LEN), &profile)) {
        decoder->profile_size = profile.len;
        if (try_profile(decoder, profile, resource, number, n_profiles++, err) != FG_OK)
            return err->code;
        decoder->profile_from += profile.len;
    }
    return FG_OK;
}

/* Decodes a resource. An error of its labels is an error of each profile that would have them. */
static enum fg_code decode_resource(struct otlp_decoder *decoder, struct fg_slice in,
                                    uint32_t number, struct fg_err *err)
{
    struct fg_arena_mark start = fg_arena_mark(decoder->arena), mark;
    struct fg_cur cur = fg_cur(in);
    struct fg_err fault = {.code = FG_OK};
    struct fg_slice scope;
    uint32_t n_scopes = 0;

    if (read_resource(decoder, in, err) != FG_OK)
        fault = *err;
    mark = fg_arena_mark(decoder->arena);
    while (fg_pb_next(&cur, FG_PB_TAG(OTLP_RESOURCES_SCOPES, FG_PB_LEN), &scope)) {
        decoder->fault = fault;
        if (decode_scope(decoder, scope, number, n_scopes++, err) != FG_OK)
            return err->code;
        fg_arena_release(decoder->arena, mark);
    }
    fg_arena_release(decoder->arena, start);
    return FG_OK;
}

/* ---- the request ---- */

static uint64_t count_profile_bytes(struct fg_slice in)
{
    struct fg_cur resources = fg_cur(in);
    struct fg_slice resource, scope, profile;
    uint64_t bytes = 0;

    while (fg_pb_next(&resources, FG_PB_TAG(OTLP_REQUEST_RESOURCES, FG_PB_LEN), &resource)) {
        struct fg_cur scopes = fg_cur(resource);

        while (fg_pb_next(&scopes, FG_PB_TAG(OTLP_RESOURCES_SCOPES, FG_PB_LEN), &scope)) {
            struct fg_cur profiles = fg_cur(scope);

            while (fg_pb_next(&profiles, FG_PB_TAG(OTLP_SCOPES_PROFILES, FG_PB_LEN), &profile))
                bytes += profile.len;
        }
    }
    return bytes;
}

static enum fg_code decode_all(struct otlp_decoder *decoder, struct fg_slice in,
                               enum fg_otlp_version version, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_slice resource;
    uint32_t n_resources = 0;

    if (fg_otlp_dict_open(&decoder->dict, in, decoder->arena, &decoder->request->upload.limits,
                          decoder->counts, err) != FG_OK)
        return err->code;
    if (fg_otlp_detect(in, version, &decoder->version, err) != FG_OK)
        return err->code;
    decoder->profile_bytes = count_profile_bytes(in);
    while (fg_pb_next(&cur, FG_PB_TAG(OTLP_REQUEST_RESOURCES, FG_PB_LEN), &resource))
        if (decode_resource(decoder, resource, n_resources++, err) != FG_OK)
            return err->code;
    if (decoder->result.rejected > 0 && decoder->result.accepted == 0 && !decoder->any_taken) {
        *err = decoder->first;
        return err->code;
    }
    return FG_OK;
}

static enum fg_code decode_protobuf(struct otlp_decoder *decoder, struct fg_slice in,
                                    struct fg_err *err)
{
    if (decode_all(decoder, in, decoder->request->version, err) != FG_OK)
        return err->code;
    /* Only of binary requests: JSON names its fields, so its version was found by names. */
    decoder->result.version = decoder->version;
    return FG_OK;
}

static enum fg_code decode_json(struct otlp_decoder *decoder, struct fg_slice in,
                                struct fg_err *err)
{
    struct fg_buf binary;
    enum fg_code code;

    fg_buf_init(&binary, JSON_GROWTH * in.len);
    code = fg_otlp_json(in, decoder->arena, &binary, &decoder->result.version, err);
    if (code == FG_OK)
        code = decode_all(decoder, fg_buf_slice(&binary), FG_OTLP_1_10, err);
    fg_buf_done(&binary);
    return code;
}

enum fg_code fg_otlp_decode(struct fg_slice in, const struct fg_otlp_request *request,
                            struct fg_arena *arena, fg_batch_sink sink, void *arg,
                            struct fg_otlp_result *ret_result, struct fg_decode_counts *counts,
                            struct fg_err *err)
{
    struct otlp_decoder decoder = {
        .request = request,
        .arena = arena,
        .sink = sink,
        .arg = arg,
        .counts = counts,
        .first = {.code = FG_OK},
    };
    enum fg_code code = request->form == FG_OTLP_JSON ? decode_json(&decoder, in, err)
                                                      : decode_protobuf(&decoder, in, err);

    if (code != FG_OK)
        return code;
    memcpy(decoder.result.message, decoder.first.msg, sizeof decoder.result.message);
    *ret_result = decoder.result;
    return FG_OK;
}
