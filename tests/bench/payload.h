/*
 * Profiles made ready to be sent many times, each time as a different profile and at its real size,
 * without compressing again. The server drops a profile that it has already, so each needs a time
 * of its own; the time is inside of what is compressed. Hence:
 *
 *     gzip member 1: the profile without time_nanos, compressed once, shared by all requests
 *     gzip member 2: the field time_nanos alone, stored, 30 bytes made for each request
 *
 * Gzip members one after the other are one stream (RFC 1952, 2.2), and protobuf messages one after
 * the other are one message, so this is a profile like any other.
 */
#ifndef FG_TESTS_BENCH_PAYLOAD_H
#define FG_TESTS_BENCH_PAYLOAD_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { PAYLOAD_TIME_MAX_BYTES = 48 };

struct payload {
    uint8_t *gzip; /* member 1, owned */
    size_t len;
};

/* The payloads of one program: those whose files' names are the same up to the first dash. */
struct payload_program {
    size_t first, n; /* of payloads.items */
};

struct payloads {
    struct payload *items;
    size_t n;
    uint64_t bytes; /* sum of all */
    struct payload_program *programs;
    size_t n_programs;
};

struct payload_choice {
    const char *folder;          /* of *.pb.gz */
    const char *match;           /* part of the file's name; NULL: all */
    size_t min_bytes, max_bytes; /* of the file */
};

/* Reads the folder's files in order of their names. FG_E_NOT_FOUND when none fits. */
enum fg_code payloads_load(const struct payload_choice *choice, struct payloads *ret_payloads,
                           struct fg_err *err) fg_must_check;
void payloads_free(struct payloads *payloads);

/* Member 2. Returns its length. */
size_t payload_time(int64_t time_ns, uint8_t out[PAYLOAD_TIME_MAX_BYTES]);

#endif
