/*
 * Profiles as files of a folder, so that `flamegrid push --dir` finds them:
 *
 *   DIR/shop-6f1c…/.series                               all labels (series_file.h)
 *   DIR/shop-6f1c…/2024-01-31/120000.250-0b5e….pb.gz     time of day in UTC, and the profile's id
 *
 * A profile that is exported again gets the same name. A process that is killed leaves whole files
 * only; a machine that fails may leave damaged ones, since nothing is synced.
 */
#ifndef FG_DEPLOY_CLI_EXPORT_DIR_H
#define FG_DEPLOY_CLI_EXPORT_DIR_H

#include "deploy/cli/progress.h"
#include "querier/export.h"

enum { EXPORT_PATH_MAX_BYTES = 4096 }; /* PATH_MAX of Linux */

struct cli_export_dir {
    const char *path; /* borrowed; made when it is not there */
    char series[EXPORT_PATH_MAX_BYTES], day[EXPORT_PATH_MAX_BYTES]; /* folders made last */
    struct cli_progress progress;                                   /* zeroed: nothing is shown */
};

/* For qry_export_profiles(), with a struct cli_export_dir. FG_E_INVALID: too long a path; else what
 * the system says, with the path. */
enum fg_code cli_export_dir_add(void *dir, const struct qry_export_profile *profile,
                                struct fg_err *err) fg_must_check;

#endif
