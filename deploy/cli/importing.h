/*
 * Carries out an import from a Pyroscope: asks the source as deploy/cli/import_plan.h says and
 * pushes each profile to the target, over several connections, hour by hour from the oldest on.
 *
 * A profile is sent under an Idempotency-Key of its own, so that a server counts it once, however
 * often an import is interrupted or repeated.
 */
#ifndef FG_DEPLOY_CLI_IMPORTING_H
#define FG_DEPLOY_CLI_IMPORTING_H

#include "deploy/cli/client.h"
#include "deploy/cli/import_plan.h"

struct cli_import_job {
    struct cli_client_config source, target;
    const char *selector;
    struct cli_selection_range range;
    int64_t step_ms; /* 1: profiles stay apart */
    unsigned connections;
    unsigned retries;    /* of a request */
    uint64_t rate_per_s; /* requests to the source; 0: no bound */
    bool dry_run;
    const char *resume; /* file of the state; NULL: none */
    const char *about;  /* what the import is, as its state names it: a line */
    bool source_proved; /* by an answer to cli_import_oldest() */
};

/* Why a profile was not imported. */
enum cli_import_fault {
    IMPORT_UNASKED,    /* the source did not answer the question for it */
    IMPORT_UNREADABLE, /* the answer cannot be read */
    IMPORT_UNSTABLE,   /* the source gave other sums each time it was asked */
    IMPORT_REFUSED,    /* the target refuses it */
    IMPORT_UNSENT,     /* the target failed */
    IMPORT_FAULTS,
};

struct cli_import_type {
    char *id;
    uint64_t series, profiles, bytes; /* bytes: 0 in a dry run */
};

struct cli_import_report {
    struct cli_import_type *types; /* sorted by id */
    size_t n_types;
    uint64_t series, profiles, bytes; /* that this run imported; in a dry run, that there are */
    uint64_t profiles_before;         /* that runs before it imported */
    uint64_t joined;                  /* profiles that are of several milliseconds in a row */
    uint64_t expired;                 /* of those imported: older than the target keeps them */
    uint64_t faults[IMPORT_FAULTS];
    char *examples[IMPORT_FAULTS]; /* the first of each; NULL: none */
    uint64_t requests;             /* to the source */
    int64_t oldest_ms, newest_ms;  /* of what there was; 0: there was nothing */
    bool goes_on;                  /* with the same state, a further run does the rest */
};

/* Finds the beginning of what the source of the job has. FG_E_NOT_FOUND: it does not say. Other
 * errors as in import_link.h. */
enum fg_code cli_import_oldest(struct cli_import_job *job, int64_t *ret_oldest_ms,
                               struct fg_err *err) fg_must_check;

/*
 * Imports. job->range may change to that of an import that is resumed. *ret_report is filled in any
 * case, and is freed with cli_import_report_done(). A profile that cannot be imported does not stop
 * the others; it is in the report, and is tried again by the next run with the same state.
 * FG_E_INVALID: the state is of another job. Else what ended the import early: a side that does not
 * answer, or does not let us in.
 */
enum fg_code cli_import_run(struct cli_import_job *job, struct cli_import_report *ret_report,
                            struct fg_err *err) fg_must_check;

void cli_import_report_done(struct cli_import_report *report);

/* Returns how many profiles were not imported. */
uint64_t cli_import_report_faults(const struct cli_import_report *report);

#endif
