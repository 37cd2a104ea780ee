/* Label sets of samples and series: what may be, and spans and traces among them. */
#include "common/base/str.h"
#include "proto/builder/impl.h"

/* As Pyroscope says it: "profile with labels '{…}' has label name too long: 'x'". */
static enum fg_code label_error(const struct fg_labels *labels, const char *what,
                                struct fg_slice which, struct fg_err *err)
{
    struct fg_buf set;

    fg_buf_init(&set, FG_ERR_MSG_MAX_BYTES / 2); /* leaves room for what is wrong */
    fg_labels_write(labels, &set);
    (void)fg_fail(err, FG_E_INVALID, "profile with labels '%.*s' has %s: '%.*s'",
                  FG_S(fg_buf_slice(&set)), what, FG_S(fg_slice_sub(which, 0, 100)));
    fg_buf_done(&set);
    return err->code;
}

/* "invalid labels '{…}' with error: invalid label name 'x'"; which.ptr NULL: without the last. */
static enum fg_code invalid_labels(const struct fg_labels *labels, const char *what,
                                   struct fg_slice which, struct fg_err *err)
{
    struct fg_buf set, name;

    fg_buf_init(&set, FG_ERR_MSG_MAX_BYTES / 2);
    fg_buf_init(&name, 128);
    fg_labels_write(labels, &set);
    if (which.ptr != NULL)
        fg_buf_printf(&name, " '%.*s'", FG_S(fg_slice_sub(which, 0, 100)));
    (void)fg_fail(err, FG_E_INVALID, "invalid labels '%.*s' with error: invalid %s%.*s",
                  FG_S(fg_buf_slice(&set)), what, FG_S(fg_buf_slice(&name)));
    fg_buf_done(&name);
    fg_buf_done(&set);
    return err->code;
}

enum fg_code fg_builder_check_lengths(const struct fg_labels *labels,
                                      const struct fg_decode_limits *limits, struct fg_err *err)
{
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        if (fg_builder_is_over(label->name.len, limits->label_name_max_bytes))
            return label_error(labels, "label name too long", label->name, err);
        if (fg_builder_is_over(label->value.len, limits->label_value_max_bytes))
            return label_error(labels, "label value too long", label->value, err);
    }
    return FG_OK;
}

bool fg_link_take(struct fg_labels *labels, struct fg_link *ret_link)
{
    static const uint8_t no_trace[FG_ID_BYTES];
    size_t kept = 0;

    *ret_link = (struct fg_link){0};
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];
        uint8_t bytes[FG_ID_BYTES] = {0}; /* of a number cut short nothing is to be seen */

        if (fg_slice_is(label->name, "profile_id") || fg_slice_is(label->name, "span_id")) {
            if (fg_parse_hex(label->value, bytes, 8))
                ret_link->span_id = fg_id_get(bytes).lo;
        } else if (fg_slice_is(label->name, "trace_id")) {
            if (fg_parse_hex(label->value, bytes, sizeof bytes))
                memcpy(ret_link->trace_id, bytes, sizeof bytes);
        } else if (label->value.len > 0) {
            labels->items[kept++] = *label;
        }
    }
    labels->count = kept;
    return ret_link->span_id != 0 || memcmp(ret_link->trace_id, no_trace, sizeof no_trace) != 0;
}

enum fg_code fg_labels_check(const struct fg_labels *labels, const struct fg_decode_limits *limits,
                             struct fg_err *err)
{
    struct fg_slice name = fg_labels_get(labels, FG_LABEL_NAME);

    /* The sentences are Pyroscope's, as its clients know them. */
    if (labels->count == 0)
        return fg_fail(err, FG_E_INVALID, "error at least one label pair is required per profile");
    if (fg_builder_is_over(labels->count, limits->label_names_max))
        return fg_fail(err, FG_E_INVALID,
                       "profile series has %zu label names; limit %u (max_label_names_per_series)",
                       labels->count, limits->label_names_max);
    if (name.len == 0 || !fg_utf8_valid(name))
        return invalid_labels(labels, "metric name", fg_bytes(NULL, 0), err);
    if (fg_labels_get(labels, FG_LABEL_SERVICE).len == 0)
        return fg_fail(err, FG_E_INVALID, "service name is not provided");
    if (fg_builder_check_lengths(labels, limits, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        if (label->name.len == 0 || !fg_utf8_valid(label->name))
            return invalid_labels(labels, "label name", label->name, err);
        if (!fg_utf8_valid(label->value))
            return invalid_labels(labels, "label value", label->value, err);
    }
    return FG_OK;
}
