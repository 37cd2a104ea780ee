#include "proto/profile_file.h"

#include "proto/flamebearer.h"
#include "proto/folded.h"
#include "proto/jfr/jfr.h"
#include "proto/perf_script.h"
#include "proto/pprof/pprof.h"
#include "proto/speedscope.h"
#include "proto/tree_formats.h"

enum { JFR_SAMPLE_RATE = 100 }; /* of recordings that do not say theirs, as in /ingest */

/* One file, and where its batches go. */
struct file_reading {
    const struct fg_profile_file *file;
    struct fg_arena *arena;
    fg_batch_sink sink;
    void *arg;
    struct fg_decode_counts *counts;
    struct fg_label labels[2]; /* of all batches: the kind of profile, the service */
};

static struct fg_labels named(struct file_reading *reading)
{
    return (struct fg_labels){reading->labels, FG_COUNT(reading->labels)};
}

static struct fg_upload upload_of(const struct file_reading *reading, struct fg_labels series)
{
    return (struct fg_upload){
        .labels = series, .time_ns = reading->file->time_ns, .limits = reading->file->limits};
}

static enum fg_code read_pprof(struct file_reading *reading, struct fg_err *err)
{
    const struct fg_pprof_request request = {.upload = upload_of(reading, named(reading))};
    struct fg_pprof_info info;
    struct fg_batch batch;

    if (fg_pprof_decode(reading->file->content, &request, reading->arena, &batch, &info,
                        reading->counts, err) != FG_OK)
        return err->code;
    return reading->sink(&batch, reading->arg, err);
}

/* ---- formats of one type ---- */

static enum fg_code read_text(struct file_reading *reading, enum fg_text_format format,
                              struct fg_err *err)
{
    const struct fg_folded_request request = {
        .upload = upload_of(reading, named(reading)), .format = format, .factor = 1};
    struct fg_value_type type = reading->file->untyped;
    struct fg_batch batch = {.types = &type, .n_types = 1};

    if (fg_folded_decode(reading->file->content, &request, reading->arena, &batch, reading->counts,
                         err) != FG_OK)
        return err->code;
    return reading->sink(&batch, reading->arg, err);
}

static enum fg_code read_tree(struct file_reading *reading, enum fg_tree_format format,
                              struct fg_err *err)
{
    const struct fg_tree_request request = {
        .upload = upload_of(reading, named(reading)), .format = format, .factor = 1};
    struct fg_value_type type = reading->file->untyped;
    struct fg_batch batch = {.types = &type, .n_types = 1};

    if (fg_tree_format_decode(reading->file->content, &request, reading->arena, &batch,
                              reading->counts, err) != FG_OK)
        return err->code;
    return reading->sink(&batch, reading->arg, err);
}

/* ---- formats for looking at ---- */

static enum fg_code read_flamebearer(struct file_reading *reading, struct fg_err *err)
{
    const struct fg_flamebearer_request request = {.upload = upload_of(reading, named(reading)),
                                                   .untyped = reading->file->untyped};
    struct fg_batch batch;

    if (fg_flamebearer_decode(reading->file->content, &request, reading->arena, &batch,
                              reading->counts, err) != FG_OK)
        return err->code;
    return reading->sink(&batch, reading->arg, err);
}

static enum fg_code read_perf_script(struct file_reading *reading, struct fg_err *err)
{
    const struct fg_upload upload = upload_of(reading, named(reading));
    struct fg_batch batch;

    if (fg_perf_script_decode(reading->file->content, &upload, reading->arena, &batch,
                              reading->counts, err) != FG_OK)
        return err->code;
    return reading->sink(&batch, reading->arg, err);
}

/* ---- formats of several ---- */

static enum fg_code read_jfr(struct file_reading *reading, struct fg_err *err)
{
    const struct fg_jfr_request request = {
        /* Without __name__, which depends on the event. */
        .upload = upload_of(reading, (struct fg_labels){reading->labels + 1, 1}),
        .sample_rate = JFR_SAMPLE_RATE,
    };

    return fg_jfr_decode(reading->file->content, &request, reading->arena, reading->sink,
                         reading->arg, reading->counts, err);
}

static enum fg_code name_speedscope(const struct fg_speedscope_profile *profile, void *arg,
                                    struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    struct file_reading *reading = arg;

    (void)err;
    *ret_series = (struct fg_speedscope_series){.labels = named(reading), .factor = 1};
    switch (profile->unit) {
    case FG_SPEEDSCOPE_NONE:
        ret_series->type = reading->file->untyped;
        break;
    /* speedscope has units but no types: "space" and "wall" are pprof's usual names for them. */
    case FG_SPEEDSCOPE_BYTES:
        ret_series->type = (struct fg_value_type){FG_LIT("space"), FG_LIT("bytes")};
        break;
    /* The decoder turns all units of time into nanoseconds. */
    case FG_SPEEDSCOPE_NANOSECONDS:
    case FG_SPEEDSCOPE_MICROSECONDS:
    case FG_SPEEDSCOPE_MILLISECONDS:
    case FG_SPEEDSCOPE_SECONDS:
        ret_series->type = (struct fg_value_type){FG_LIT("wall"), FG_LIT("nanoseconds")};
        break;
    }
    return FG_OK;
}

static enum fg_code read_speedscope(struct file_reading *reading, struct fg_err *err)
{
    /* The namer decides on types, since each profile of a file has a unit of its own. */
    const struct fg_speedscope_request request = {.upload = upload_of(reading, named(reading)),
                                                  .namer = name_speedscope,
                                                  .namer_arg = reading};

    return fg_speedscope_decode(reading->file->content, &request, reading->arena, reading->sink,
                                reading->arg, reading->counts, err);
}

enum fg_code fg_profile_file_decode(const struct fg_profile_file *file, struct fg_arena *arena,
                                    fg_batch_sink sink, void *arg, struct fg_decode_counts *counts,
                                    struct fg_err *err)
{
    struct file_reading reading = {
        file,
        arena,
        sink,
        arg,
        counts,
        {{FG_LIT(FG_LABEL_NAME), FG_LIT(FG_PROFILE_FILE_NAME)},
         {FG_LIT(FG_LABEL_SERVICE), FG_LIT(FG_PROFILE_FILE_NAME)}},
    };

    switch (file->format) {
    case FG_FILE_PPROF:
        return read_pprof(&reading, err);
    case FG_FILE_FOLDED:
        return read_text(&reading, FG_TEXT_FOLDED, err);
    case FG_FILE_LINES:
        return read_text(&reading, FG_TEXT_LINES, err);
    case FG_FILE_JFR:
        return read_jfr(&reading, err);
    case FG_FILE_TRIE:
        return read_tree(&reading, FG_FORMAT_TRIE, err);
    case FG_FILE_TREE:
        return read_tree(&reading, FG_FORMAT_TREE, err);
    case FG_FILE_FLAMEBEARER:
        return read_flamebearer(&reading, err);
    case FG_FILE_PERF_SCRIPT:
        return read_perf_script(&reading, err);
    /* Read after the switch, where the compiler wants an answer for any value. */
    case FG_FILE_SPEEDSCOPE:
        break;
    }
    return read_speedscope(&reading, err);
}
