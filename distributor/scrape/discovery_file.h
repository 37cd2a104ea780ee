/*
 * Discovers targets in files: lists of groups in YAML (.yml, .yaml) or JSON (.json), as in
 * Prometheus' file_sd. Patterns select the files. They are checked periodically and read again when
 * they have changed. A file that cannot be read keeps its targets; a file that was deleted loses
 * them.
 *
 * Thread: the loop's; checking and reading files are jobs on the INGEST lane.
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
    int64_t look_ns; /* between two checks */
};

/* Checks that a pattern ends in .yml, .yaml or .json. FG_E_INVALID: it does not. */
enum fg_code dist_file_discovery_check_pattern(const char *pattern,
                                               struct fg_err *err) fg_must_check;

/* Starts discovery, with a first check at once. */
struct dist_file_discovery *
dist_file_discovery_start(const struct dist_file_discovery_config *config);

/* Stops discovery. on_stopped() is called when no job runs any more; the object is freed then. */
void dist_file_discovery_stop(struct dist_file_discovery *files, void (*on_stopped)(void *arg),
                              void *arg);

/* Calls each() for every file that cannot be read or is one too many; for the list of targets. */
void dist_file_discovery_each_error(struct dist_file_discovery *files,
                                    void (*each)(const char *path, const char *error, void *arg),
                                    void *arg);

/* Reads all targets of a file's text; the path's ending says the format. (Fuzz target.) */
enum fg_code dist_file_discovery_read(const char *path, struct fg_slice text,
                                      struct dist_discovered *discovered,
                                      struct fg_err *err) fg_must_check;

#endif
