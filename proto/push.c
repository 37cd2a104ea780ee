#include "proto/push.h"

#include "common/base/cursor.h"

/* Field numbers of push.v1 and types.v1. */
enum {
    REQUEST_SERIES = 1,

    SERIES_LABEL = 1,
    SERIES_SAMPLE = 2,

    LABEL_NAME = 1,
    LABEL_VALUE = 2,

    SAMPLE_PROFILE = 1,
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "push needs more memory than decoding may use");
}

static enum fg_code cut_short(const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_INVALID, "unmarshal message: %s of a push cannot be read", what);
}

/* Counts how often the field, a message or bytes, occurs. One pass to count and one to read: the
 * arrays fit exactly, and the count is of what is there. */
static uint32_t count_field(struct fg_slice in, uint64_t field)
{
    struct fg_cur cur = fg_cur(in);
    uint32_t count = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        count += tag == FG_PB_TAG(field, FG_PB_LEN);
        fg_pb_skip(&cur, tag);
    }
    return count;
}

static bool read_label(struct fg_slice in, struct fg_label *label)
{
    struct fg_cur cur = fg_cur(in);

    /* A field that is absent has its default (proto3), here and below: the empty text. */
    *label = (struct fg_label){FG_LIT(""), FG_LIT("")};
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(LABEL_NAME, FG_PB_LEN))
            label->name = fg_cur_lenbytes(&cur);
        else if (tag == FG_PB_TAG(LABEL_VALUE, FG_PB_LEN))
            label->value = fg_cur_lenbytes(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    return fg_cur_end(&cur);
}

static bool read_sample(struct fg_slice in, struct fg_slice *profile)
{
    struct fg_cur cur = fg_cur(in);

    *profile = FG_LIT("");
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(SAMPLE_PROFILE, FG_PB_LEN))
            *profile = fg_cur_lenbytes(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    return fg_cur_end(&cur);
}

static enum fg_code read_series(struct fg_slice in, struct fg_arena *arena,
                                struct fg_push_series *series, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    /* Bounded by the input: a label and a sample take two bytes of it at least. */
    series->labels.items = fg_arena_new(arena, struct fg_label, count_field(in, SERIES_LABEL));
    series->profiles = fg_arena_new(arena, struct fg_slice, count_field(in, SERIES_SAMPLE));
    if (series->labels.items == NULL || series->profiles == NULL)
        return too_large(err);
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(SERIES_LABEL, FG_PB_LEN)) {
            if (!read_label(fg_cur_lenbytes(&cur), &series->labels.items[series->labels.count++]))
                return cut_short("a label", err);
        } else if (tag == FG_PB_TAG(SERIES_SAMPLE, FG_PB_LEN)) {
            if (!read_sample(fg_cur_lenbytes(&cur), &series->profiles[series->n_profiles++]))
                return cut_short("a sample", err);
        } else {
            fg_pb_skip(&cur, tag);
        }
    }
    return fg_cur_end(&cur) ? FG_OK : cut_short("a series", err);
}

enum fg_code fg_push_read(struct fg_slice in, struct fg_arena *arena, struct fg_push *ret_push,
                          struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_push push = {
        .series = fg_arena_new(arena, struct fg_push_series, count_field(in, REQUEST_SERIES))};

    if (push.series == NULL)
        return too_large(err);
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);
        struct fg_push_series *series = &push.series[push.n_series];

        if (tag != FG_PB_TAG(REQUEST_SERIES, FG_PB_LEN)) {
            fg_pb_skip(&cur, tag);
            continue;
        }
        if (read_series(fg_cur_lenbytes(&cur), arena, series, err) != FG_OK)
            return fg_wrap(err, "series %u", push.n_series);
        push.n_series++;
        /* No overflow: a profile takes two bytes of the message at least. */
        push.n_profiles += series->n_profiles;
    }
    if (!fg_cur_end(&cur))
        return cut_short("the message", err);
    *ret_push = push;
    return FG_OK;
}
