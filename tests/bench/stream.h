/*
 * What benches of blocks have in common: real profiles, blocks in memory, and a stream of one
 * service's CPU profiles, one of 10 s after the other for each instance, drawn from real ones
 * (resample.h).
 */
#ifndef FG_TESTS_BENCH_STREAM_H
#define FG_TESTS_BENCH_STREAM_H

#include "common/block/writer.h"
#include "tests/bench/resample.h"

#define STREAM_START_NS    INT64_C(1700000000000000000)
#define STREAM_INTERVAL_NS (INT64_C(10) * 1000 * 1000 * 1000)

enum { STREAM_TICKS = 300 };

int64_t bench_cpu_ns(void); /* of this thread */

/* Ends the program with the sentence, unless it went well. */
void bench_must(enum fg_code code, const struct fg_err *err);

/* A file with a pprof. body is initialised; the batch borrows from it and from the arena. */
void bench_decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                  struct fg_batch *ret_batch);

/* A block in memory, and what writing it cost. */
struct written {
    struct fg_buf file;
    int64_t write_ns;
};
struct fg_block_writer *written_start(struct written *written);

struct stream {
    struct resample *resample;
    uint32_t instances;
    uint32_t first_round, rounds; /* of 10 s: what a write is of */
};
void stream_open(struct stream *stream, char **paths, int count);
void stream_close(struct stream *stream);
void stream_write(const struct stream *stream, struct written *written);

#endif
