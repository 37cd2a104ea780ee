/*
 * Reads a file that somebody looks at without storing it as a series: any format
 * (file_format.h) into batches. Such a file says nothing of a service, and some formats say nothing
 * of what they count. So all batches have the same service, and what a format does not say comes
 * from the caller.
 *
 * Thread: any. Memory: the arena's, and the batches borrow from the content. Errors: those of the
 * format's decoder.
 */
#ifndef FG_PROTO_PROFILE_FILE_H
#define FG_PROTO_PROFILE_FILE_H

#include "proto/builder/builder.h"
#include "proto/file_format.h"

struct fg_profile_file {
    struct fg_slice content; /* not compressed */
    enum fg_file_format format;
    struct fg_value_type untyped; /* of formats that do not say what they count */
    int64_t time_ns;              /* of profiles without a time */
    struct fg_decode_limits limits;
};

/*
 * Decodes the file and passes each batch to the sink. A batch's kind of profile is the label
 * __name__ of its profiles: that of the recording for JFR, else FG_PROFILE_FILE_NAME. Values are
 * those of the file; times of speedscope become nanoseconds.
 */
enum fg_code fg_profile_file_decode(const struct fg_profile_file *file, struct fg_arena *arena,
                                    fg_batch_sink sink, void *arg, struct fg_decode_counts *counts,
                                    struct fg_err *err) fg_must_check;

#define FG_PROFILE_FILE_NAME "file"

#endif
