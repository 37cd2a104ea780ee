/*
 * Writes a profile of this process as pprof (profile.proto), and the message that sends it
 * (push.v1.PushRequest). Pure. A location has the name of a function and nothing else: addresses
 * differ between processes and builds, and the server would keep each of them.
 *
 * Thread: one at a time. Memory: at most FG_REPORT_MAX_BYTES; further samples are left out.
 */
#ifndef FG_COMMON_SELF_PROFILE_REPORT_H
#define FG_COMMON_SELF_PROFILE_REPORT_H

#include "common/base/buf.h"
#include "common/base/map.h"

enum {
    FG_REPORT_MAX_BYTES = 4 * 1024 * 1024,
    FG_REPORT_TYPES_MAX = 4,
};

struct fg_report_type {
    const char *name, *unit;
};

struct fg_report_head {
    const char *name; /* the label __name__ */
    struct fg_report_type types[FG_REPORT_TYPES_MAX];
    uint32_t n_types;
    struct fg_report_type period_type;
    int64_t period;
    int64_t time_ns, duration_ns; /* the start, wall clock */
};

struct fg_report {
    struct fg_report_head head;
    struct fg_buf samples;   /* written */
    struct fg_buf functions; /* their ids, 8 bytes each, in the order of their numbers */
    struct fg_map numbers;   /* of ids of functions */
    struct fg_buf threads;   /* names that samples have, with NUL */
    uint32_t n_threads, n_samples;
};

void fg_report_init(struct fg_report *report, const struct fg_report_head *head);
void fg_report_done(struct fg_report *report);

/* Adds a sample. functions: ids of the caller's choice, the leaf first. values: one for each type.
 * thread: the label; NULL: none. Returns false if there is no room. */
bool fg_report_add(struct fg_report *report, const uint64_t *functions, uint32_t depth,
                   const int64_t *values, const char *thread);

/* Appends the profile. name: appends the name of a function. out->full: it did not fit. */
void fg_report_write(const struct fg_report *report,
                     void (*name)(void *arg, uint64_t function, struct fg_buf *out), void *arg,
                     struct fg_buf *out);

struct fg_report_label {
    const char *name, *value;
};

/* Appends a profile to a PushRequest, as a series of its own with these labels and __name__. */
void fg_report_write_series(const struct fg_report *report, const struct fg_report_label *labels,
                            uint32_t n_labels, struct fg_slice profile, struct fg_buf *out);

#endif
