/*
 * speedscope's JSON (its file-format-schema.json) into batches: one for each name and unit of the
 * file's profiles, since those are one series of one time. Read token by token
 * (common/base/json.h): nothing is built but what the batches need.
 *
 * Profiles are sampled (stacks and weights) or evented (frames that open and close). Weights and
 * times of a unit of time become nanoseconds, exactly, when the series is in nanoseconds; others
 * are multiplied with the series' factor. What is not whole then is rounded, of events each time
 * and not each interval, so that nothing adds up.
 *
 * Where we keep what Pyroscope loses: it cuts weights to whole numbers (0.01 seconds of py-spy are
 * 0), has no rate for nanoseconds, and counts the time before a frame opens for a hundredth.
 * Frames' names are read, their files and lines are not.
 *
 * FG_E_DECODE: what is not JSON, another $schema, unknown types and units, frames that are not
 * there, weights that are negative or not as many as samples, events that go back in time, close
 * what is not on top or leave something open, values beyond 63 bits. FG_E_INVALID: more samples
 * than the limit, and what the label rules say. FG_E_TOO_LARGE: memory.
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

/* Some profiles of the file, of one name and unit. */
struct fg_speedscope_profile {
    struct fg_slice name;
    enum fg_speedscope_unit unit;
    /*
     * What the application's name gets (distributor/API.md#formats): ".seconds" when the file has
     * more than one profile, "" when it has one. Also "" for the unit none, which is no suffix that
     * anybody knows.
     */
    const char *suffix;
};

/* The series that they become. */
struct fg_speedscope_series {
    struct fg_labels labels; /* with __name__ and the service; profile_name is added */
    struct fg_value_type type, period_type;
    int64_t period;
    int64_t factor; /* of values that do not become nanoseconds */
};

/*
 * Called before the samples of each batch are read: ret_series is what its samples go into. Slices
 * have to stay until the sink had the batch. An error ends the decoding and is the decoder's own.
 */
typedef enum fg_code (*fg_speedscope_namer)(const struct fg_speedscope_profile *profile, void *arg,
                                            struct fg_speedscope_series *ret_series,
                                            struct fg_err *err);

/* upload.labels are not looked at: the namer says them. */
struct fg_speedscope_request {
    struct fg_upload upload;
    fg_speedscope_namer namer;
    void *namer_arg;
};

/*
 * The batches' memory is in the arena, one after the other in the same. What the sink got before an
 * error stays with it.
 */
enum fg_code fg_speedscope_decode(struct fg_slice in, const struct fg_speedscope_request *request,
                                  struct fg_arena *arena, fg_batch_sink sink, void *sink_arg,
                                  struct fg_decode_counts *counts,
                                  struct fg_err *err) fg_must_check;

#endif
