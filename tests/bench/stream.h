/*
 * What benches of blocks have in common: real profiles, blocks in memory, and a stream of one
 * service's CPU profiles, one of 10 s after the other for each instance, drawn from real ones
 * (resample.h).
 *
 * A write draws each profile once and hands the writer a tree of nothing but the stacks that it
 * needs, as an ingester's segment builder does: all stacks of a month would be 30 million nodes.
 */
#ifndef FG_TESTS_BENCH_STREAM_H
#define FG_TESTS_BENCH_STREAM_H

#include "common/storage/block/writer.h"
#include "tests/bench/resample.h"

#define STREAM_START_NS    INT64_C(1700000000000000000)
#define STREAM_INTERVAL_NS (INT64_C(10) * 1000 * 1000 * 1000)

enum { STREAM_TICKS = 300 };

int64_t bench_cpu_ns(void); /* of this thread */

/* Ends the program with the sentence, unless it went well. */
void bench_must(enum fg_code code, const struct fg_err *err);

/* Appends a whole file; false: it cannot be opened. */
bool bench_read(const char *path, struct fg_buf *out);

/* A file with a pprof. body is initialised; the batch borrows from it and from the arena. */
void bench_decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                  struct fg_batch *ret_batch);

/* A block in memory, and what writing it cost. */
struct written {
    struct fg_buf file;
    int64_t write_ns;
    struct fg_block_summary summary; /* of what stream_write() wrote */
};
struct fg_block_writer *written_start(struct written *written);

/*
 * Profiles have the label pod of their own for each instance; region and zone of one in three;
 * namespace, service_name "bench" and version, which is the same for all.
 */
struct stream {
    struct resample *resample;
    uint32_t instances;
    uint32_t first_instance, instance_step; /* a write is of every so manieth one; 0: of all */
    int64_t start_ns; /* the first profiles begin 10 s earlier; 0: STREAM_START_NS */
    int64_t
        interval_ns; /* from one profile of an instance, which is of 10 s, to the next; 0: 10 s */
    uint32_t version;
    const struct fg_keys *keys;   /* NULL: blocks are not encrypted */
    uint32_t first_round, rounds; /* intervals: what a write is of */
    struct stream_cut *cut;
};
void stream_open(struct stream *stream, char **paths, int count);
void stream_close(struct stream *stream);

/* Profiles that end in [start_ns + first_round * interval_ns, that + rounds * interval_ns), each
 * instance at another time within the interval. Tenant: FG_TENANT_ONLY. */
void stream_write(struct stream *stream, struct written *written);

/* Shards of the profiles: so many from this one on, by instance. */
enum { STREAM_SHARD = 0x1230, STREAM_SHARDS = 4 };

/* About what Go sends of so many stacks: 19 kB packed and 55 kB unpacked of 300, with as much
 * chance as there is in reality. */
struct fg_profile_size stream_profile_size(uint32_t n_samples, uint64_t seed);

#endif
