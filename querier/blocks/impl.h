/*
 * What the files of this folder share.
 *
 *     blocks.c    create and destroy; metrics; texts of the bucket's errors
 *     snapshot.c  manifests: which objects there are
 *     objects.c   those of them that a question is about
 *     fetch.c     what was not: requests in waves
 *     things.c    bytes into what is kept: directories, indexes, trees, pages
 *     reader.c    the parts of a question, in batches that fit in memory; series that match
 *     nodes.c     which merged nodes take the place of reading a part
 *     alone.c     merged nodes of profiles that are gone: which range, totals and labels of them
 *     under.c     objects that need not be opened, since others have their sums
 *     rows.c      which of their profiles are in the range
 *     select.c    their samples into sums
 *     adders.c    who add them up
 *     tree.c      sums into a tree
 *     picture.c   sums into crowns
 *     points.c    their totals onto a grid
 *     series.c    their labels; counts
 *     profiles.c  themselves, one by one
 */
#ifndef FG_QUERIER_BLOCKS_IMPL_H
#define FG_QUERIER_BLOCKS_IMPL_H

#include "common/cluster/manifest/snapshot.h"
#include "common/runtime/condition.h"
#include "common/runtime/crew.h"
#include "common/storage/block/reader.h"
#include "common/storage/cache/cache.h"
#include "common/storage/rollup/plan.h"
#include "querier/blocks/blocks.h"

#include <pthread.h>

#define BLOCKS_METRICS(M)                                                                          \
    M(COUNTER, BLOCKS_SNAPSHOTS, "flamegrid_querier_snapshots_total",                              \
      "Manifest snapshots taken by queries")                                                       \
    M(COUNTER, BLOCKS_AGAIN, "flamegrid_querier_snapshots_again_total",                            \
      "Manifest snapshots retaken because the previous one was outdated")                          \
    M(COUNTER, BLOCKS_OBJECTS, "flamegrid_querier_objects_read_total",                             \
      "Segments and blocks read by queries")                                                       \
    M(COUNTER, BLOCKS_REQUESTS, "flamegrid_querier_bucket_requests_total",                         \
      "Read requests to the bucket")                                                               \
    M(COUNTER, BLOCKS_FETCHED_BYTES, "flamegrid_querier_bucket_bytes_total",                       \
      "Bytes of segments and blocks read from the bucket")                                         \
    M(COUNTER, BLOCKS_CACHE_HITS, "flamegrid_querier_cache_hits_total",                            \
      "Cache lookups of segment and block data that hit, or joined a read in progress")            \
    M(COUNTER, BLOCKS_CACHE_MISSES, "flamegrid_querier_cache_misses_total",                        \
      "Cache lookups of segment and block data that missed")                                       \
    M(GAUGE, BLOCKS_CACHE_BYTES, "flamegrid_querier_cache_bytes",                                  \
      "Memory of the cache of segment and block data")                                             \
    M(GAUGE, BLOCKS_CACHE_ENTRIES, "flamegrid_querier_cache_entries",                              \
      "Objects in the cache of segment and block data")
FG_METRICS_ENUM(blocks_metric, BLOCKS_METRICS)

struct qry_blocks {
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk; /* NULL: there is none */
    struct fg_clock *clock;
    struct fg_cache *cache;
    struct fg_metrics *metrics;
    struct fg_snapshots *snapshots;
    pthread_mutex_t away_lock;  /* of the next two */
    int64_t away_until_mono_ns; /* manifests could not be read, and are not asked for before then;
                                 * 0: they could */
    struct fg_err away;         /* why not */
    struct fg_condition *unread;
    uint64_t fetch_max_bytes, memory_max_bytes;
    /* But for tests: FG_CROWN_NODES; 1, how much a byte of samples counts in plans. */
    uint32_t crown_nodes, sample_weight;
    /* But for tests: 1 MiB, of an object that is read as a whole, since so little takes no longer
     * than the way there and back; 64 KiB, of what is read before a head. */
    uint32_t whole_max_bytes, before_max_bytes;
    /* But for tests: 64 MiB, of parts that are read together, which is about what one busy service
     * has in a day block. Small enough that some questions at a time are no danger, and waves are
     * still wide. */
    uint64_t batch_bytes;
};

/* A question's. */
struct qry_blocks_snapshot {
    struct fg_snapshot core;
    struct fg_slice tenants[FG_SNAPSHOT_TENANTS_MAX];
    struct fg_crew
        *crew; /* who reads it; without tasks but in qry_fetch_all() and qry_select_sums() */
};

enum fg_code qry_blocks_too_large(struct fg_err *err);

/* What a failed request means for a question: faults of ours do not look like the client's. */
enum fg_code qry_blocks_fail(const struct fg_bucket_request *request, struct fg_err *err);
/* Changes the code of a failed read to what it means for a question. Returns it. */
enum fg_code qry_blocks_read_fault(struct fg_err *err);

/* ---- objects.c ---- */

/* The end of an object, which comes with its head and is held while the question goes on. */
struct qry_tail {
    uint64_t from;       /* up to the object's end */
    struct fg_buf bytes; /* empty: it did not come */
};

/* A segment or block to be read. */
struct qry_object {
    const char *name;
    struct fg_id id;  /* hash of the name */
    uint32_t tenants; /* bit i: of tenant i of the question */
    uint64_t bytes, profiles;
    struct fg_id digest;
    struct fg_block_range directory;
    bool alone;                   /* merged nodes, of profiles that are gone */
    uint64_t nodes_bytes;         /* what merged nodes there are: right before it */
    struct fg_block_range head;   /* both, where they are little enough; else the directory */
    struct fg_id block_id;        /* what is made of it knows it by that */
    struct fg_cache_entry *entry; /* its head, once fetched */
    bool known;                   /* its parts are */
    bool mostly;                  /* the question's tenants have half of its profiles at least */
    struct qry_tail *tail;        /* NULL: the head comes by itself */

    /* under.c. Of a block of merged nodes: what it is made of; else NULL. */
    const struct fg_blocks_entry *made;
    bool shut; /* sums of it are in another: it is opened where these do not answer */
    bool vouched, guessed;
};

struct qry_objects {
    struct qry_object *items;
    uint32_t n, cap;
    uint32_t blocks[FG_SNAPSHOT_TENANTS_MAX + 1]; /* where blocks of each tenant begin; by id */
};

enum qry_objects_which {
    OBJECTS_PROFILES,
    OBJECTS_AND_ALONE, /* also merged nodes that are alone */
    OBJECTS_AND_NODES, /* also all others, and what these are made of is shut */
    OBJECTS_ALONE,
};

/* Those of the question's snapshot with something of its tenants in the range; in the arena. */
enum fg_code qry_objects_find(const struct qry_question *question, int64_t start_ns, int64_t end_ns,
                              enum qry_objects_which which, struct fg_arena *arena,
                              struct qry_objects *ret_objects, struct fg_err *err) fg_must_check;

/* A block of a tenant of the question, or NULL. */
struct qry_object *qry_objects_block(const struct qry_objects *objects, uint32_t tenant,
                                     struct fg_id id);

/* ---- reader.c ---- */

/* Profiles [first, first + count) of a part, of one run, and the matches of its series. Of a
 * series that deletions divide there are several for a run, which have the same profiles until the
 * rows say whose they are. */
struct qry_span {
    uint32_t series, first, count;
    uint32_t first_match, n_matches; /* in part.matches */
    struct fg_time_span times;       /* of the profiles that are meant */
    /* Others of the series are outside of it: the rows have to say which; so far these. */
    bool cut;
    uint32_t n_found, first_found, last_found;
};

/* One on its way through a question. */
struct qry_part {
    struct qry_object *object;
    uint32_t number; /* in the directory */
    uint32_t tenant; /* of the question */
    const struct fg_block_part *entry;
    struct fg_cache_entry *index_entry, *tree_entry; /* the latter: select.h */
    const struct fg_block_index *index;              /* once fetched */
    struct fg_block_match *matches;
    uint32_t n_matches;
    struct qry_span *spans; /* ascending by first, then by time */
    uint32_t n_spans, cap_spans;
    bool begun;     /* select.c; its samples are added up... */
    uint64_t *sums; /* ...and joined */

    /* nodes.c. What is chosen of it; of what it is not, all of the question's range. */
    const struct fg_nodes *nodes;     /* NULL: none that is of use */
    struct fg_cache_entry *nod_entry; /* what they live in, where that is not the object's head */
    bool chosen;
    struct fg_plan_raw *raws; /* to be read as they are */
    struct fg_plan_pick *crowns, *fulls;
    uint32_t n_raws, cap_raws, n_crowns, cap_crowns, n_fulls, cap_fulls;
};

struct qry_reader {
    struct qry_question *question;
    struct qry_blocks *blocks;
    struct fg_arena *arena;      /* of all that is below */
    struct fg_selector selector; /* with the profile type; regular expressions are borrowed */
    const struct qry_selection *selection;
    struct fg_slice service;  /* the only one; empty: any */
    int64_t start_ns, end_ns; /* inclusive */
    struct qry_objects objects;
    uint32_t n_open;                /* of these */
    bool of_samples;                /* not only labels and totals */
    const struct qry_thing *stacks; /* which of them samples are to be read with; NULL: none */
    uint64_t tail_bytes;
    struct qry_part *parts;
    uint32_t n_parts, cap_parts;
    uint32_t n_found; /* those that nodes.c has put aside included */

    /* The batch at hand. */
    struct qry_part *batch;
    uint32_t n_batch;
    struct fg_arena_mark mark;
};

/* Finds the parts: fetches the directories. profile_type NULL: any. Of parts of merged nodes only
 * qry_nodes_choose() leaves none to be read as they are. of_samples: small objects are read as a
 * whole.
 * close() in any case. */
enum fg_code qry_reader_open(struct qry_reader *reader, struct qry_question *question,
                             const struct qry_selection *selection, const char *profile_type,
                             int64_t start_ns, int64_t end_ns, enum qry_objects_which which,
                             bool of_samples, struct fg_err *err) fg_must_check;
void qry_reader_close(struct qry_reader *reader);

/* The same of objects that are not shut any more; before the first batch. */
enum fg_code qry_reader_extend(struct qry_reader *reader, struct fg_err *err) fg_must_check;

/*
 * The next parts that fit in memory together; what the batch before made in the arena is gone.
 * Their indexes are fetched, and spans say which series match and may have data in the range that
 * is not deleted. n_batch 0: that was all.
 */
enum fg_code qry_reader_next(struct qry_reader *reader, struct fg_err *err) fg_must_check;

/* ---- nodes.c ---- */

/*
 * Says of each part what is to be read of it, so that all together is every profile of the question
 * once: merged nodes, and what they do not cover. Parts of which nothing but crowns is to be read
 * come behind n_parts, up to n_found. Beside full nodes crowns are read where that is what is asked
 * for, and (crowns_too) of what is alone and has nothing else. FG_E_INVALID: that does not do
 * either.
 */
enum fg_code qry_nodes_choose(struct qry_reader *reader, enum fg_nodes_what what, bool crowns_too,
                              struct fg_err *err) fg_must_check;

/* What nodes the parts have: part->nodes, of which nothing is deleted. */
enum fg_code qry_nodes_find(struct qry_reader *reader, struct fg_err *err) fg_must_check;

/* ---- alone.c ---- */

/* The question's points of what is alone: totals of its rows, spread evenly over their times. */
typedef enum fg_code (*alone_point)(void *arg, const struct fg_labels *labels, uint64_t step,
                                    uint64_t sum, uint64_t count, struct fg_err *err);
struct qry_alone_grid {
    int64_t start_ns, step_ns;
    uint64_t last_step;
    const char *const *group_by;
    size_t n_group_by;
    alone_point each; /* labels: with those made from the type */
    void *arg;
};
enum fg_code qry_alone_points(struct qry_question *question, const struct qry_selection *selection,
                              const struct qry_alone_grid *grid, struct fg_err *err) fg_must_check;

/* Label sets of groups, with those made from each type: what is left of series. */
typedef enum fg_code (*alone_labels)(void *arg, const struct fg_labels *labels, struct fg_err *err);
enum fg_code qry_alone_series(struct qry_question *question, const struct qry_selection *selection,
                              alone_labels each, void *arg, struct fg_err *err) fg_must_check;

/* ---- under.c ---- */

/* Opens what is shut where nothing that stands above it is known to have all of it, once it is
 * known what nodes parts have. What was opened is to be read with qry_reader_extend(). */
bool qry_under_open_unvouched(struct qry_reader *reader);

/* Opens those of a tenant that a plan lacks. FG_E_CORRUPT: they are not there. */
enum fg_code qry_under_open(struct qry_reader *reader, uint32_t tenant, const struct fg_plan *plan,
                            struct fg_err *err) fg_must_check;

bool qry_under_any_shut(const struct qry_reader *reader);

/* What is shut stores so much of the question's services, about. */
uint64_t qry_under_bytes(struct qry_reader *reader);

/* ---- rows.c ---- */

/* Spans that have profiles in [first, first + count): the first of them, and where they end. */
uint32_t qry_rows_spans(const struct qry_part *part, uint32_t first, uint32_t count,
                        uint32_t *ret_end);

/* Marks the pages of a kind that the spans need; all of them, or those with cut spans only. */
bool *qry_rows_marks(const struct qry_reader *reader, const struct qry_part *part, uint32_t kind,
                     bool cut_only);

/* Takes a page of IDX: cut spans learn which of their profiles are in the range. */
enum fg_code qry_rows_take(struct qry_reader *reader, struct qry_part *part, uint32_t page,
                           struct fg_slice bytes, struct fg_err *err) fg_must_check;

/* All pages that cut spans need were taken: from now on spans are exactly what is to be read. Does
 * nothing the second time. */
enum fg_code qry_rows_settle(struct qry_part *part, struct fg_err *err) fg_must_check;

#endif
