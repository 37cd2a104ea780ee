/*
 * speedscope's JSON (its file-format-schema.json) into batches: one for each name and unit of the
 * file's profiles, which are one series of one time. The JSON is read token by token
 * (common/base/json.h), and only what the batches need is built.
 *
 * Profiles are sampled (stacks and weights) or evented (frames that open and close). Weights and
 * times of a unit of time become nanoseconds, exactly, when the series is in nanoseconds; others
 * are multiplied by the series' factor. Fractions are rounded; of events the times are rounded and
 * not the intervals, so that errors do not add up.
 *
 * Unlike Pyroscope: it truncates weights to whole numbers (0.01 seconds of py-spy are
 * 0), has no rate for nanoseconds, and counts the time before a frame opens for a hundredth.
 * Frames' names are read, their files and lines are not.
 *
 * FG_E_DECODE: invalid JSON, another $schema, unknown types and units, missing frames, weights that
 * are negative or of another number than the samples, events that go back in time, close a frame
 * that is not on top or leave one open, values beyond 63 bits. FG_E_INVALID: more samples than the
 * limit, or invalid labels. FG_E_TOO_LARGE: out of memory.
 */
#ifndef FG_PROTO_SPEEDSCOPE_H
#define FG_PROTO_SPEEDSCOPE_H

#include "proto/builder/builder.h"

enum fg_speedscope_unit {
    FG_SPEEDSCOPE_NONE,
    FG_SPEEDSCOPE_NANOSECONDS,
    FG_SPEEDSCOPE_MICROSECONDS,
    FG_SPEEDSCOPE_MILLISECONDS,
    FG_SPEEDSCOPE_SECONDS,
    FG_SPEEDSCOPE_BYTES,
};

/* The profiles of a file that have one name and unit. */
struct fg_speedscope_profile {
    struct fg_slice name;
    enum fg_speedscope_unit unit;
    /*
     * Suffix for the application's name (distributor/API.md#formats): ".seconds" if the file has
     * more than one profile, "" if it has one, and "" for the unit none.
     */
    const char *suffix;
};

/* The series that they become. */
struct fg_speedscope_series {
    struct fg_labels labels; /* with __name__ and the service; profile_name is added */
    struct fg_value_type type, period_type;
    int64_t period;
    int64_t factor; /* for values that do not become nanoseconds */
};

/*
 * Says which series the samples of a batch belong to; called before they are read. Slices stay
 * valid until the sink has the batch. An error ends the decoding and becomes the decoder's.
 */
typedef enum fg_code (*fg_speedscope_namer)(const struct fg_speedscope_profile *profile, void *arg,
                                            struct fg_speedscope_series *ret_series,
                                            struct fg_err *err);

/* upload.labels are ignored: the namer gives the labels. */
struct fg_speedscope_request {
    struct fg_upload upload;
    fg_speedscope_namer namer;
    void *namer_arg;
};

/*
 * Decodes the file and passes each batch to the sink. Batches use the same memory of the arena one
 * after the other. Batches that the sink got before an error are not taken back.
 */
enum fg_code fg_speedscope_decode(struct fg_slice in, const struct fg_speedscope_request *request,
                                  struct fg_arena *arena, fg_batch_sink sink, void *sink_arg,
                                  struct fg_decode_counts *counts,
                                  struct fg_err *err) fg_must_check;

#endif
