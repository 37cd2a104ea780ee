/*
 * Targets out of files: lists of groups in YAML (.yml, .yaml) or JSON (.json), as Prometheus'
 * file_sd has them, found by patterns. They are looked at every so often, and read again when they
 * changed; a file that cannot be read leaves what it brought before, one that is gone takes its
 * targets with it.
 *
 * Thread: the loop's; looking and reading are jobs on the INGEST lane.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DISCOVERY_FILE_H
#define FG_DISTRIBUTOR_SCRAPE_DISCOVERY_FILE_H

#include "common/runtime/work.h"
#include "distributor/scrape/scrape_pool.h"

struct dist_file_discovery;

struct dist_file_discovery_config {
    struct fg_loop *loop;
    struct fg_work *work;
    struct dist_scrape_pool *targets;
    struct fg_metrics *metrics;
    const char *const *patterns; /* of glob(7) */
    size_t n_patterns;
    int64_t look_ns; /* between two looks */
};

/* FG_E_INVALID for a pattern with another ending. */
enum fg_code dist_file_discovery_check_pattern(const char *pattern,
                                               struct fg_err *err) fg_must_check;

/* Begins at once. */
struct dist_file_discovery *
dist_file_discovery_start(const struct dist_file_discovery_config *config);

/* Ends it; on_stopped() comes when nothing is under way any more, and it is gone then. */
void dist_file_discovery_stop(struct dist_file_discovery *files, void (*on_stopped)(void *arg),
                              void *arg);

/* For the page: those that could not be read, or of which there are too many. */
void dist_file_discovery_each_error(struct dist_file_discovery *files,
                                    void (*each)(const char *path, const char *error, void *arg),
                                    void *arg);

/* All the targets of one file's text; its ending says what it is written in. (Fuzz target.) */
enum fg_code dist_file_discovery_read(const char *path, struct fg_slice text,
                                      struct dist_discovered *discovered,
                                      struct fg_err *err) fg_must_check;

#endif
