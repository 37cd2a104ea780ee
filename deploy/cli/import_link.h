/*
 * A connection of an import to its source and its target: what can be asked and sent. A request is
 * repeated, with pauses, while that may help: no answer, 408, 429, 5xx, and what a proxy says whose
 * server restarts: 404, 405, 501, a redirection, an answer that is not of the protocol or cannot be
 * read; standard error says so. A side is proved by its first answer that is as it should be; until
 * then its URL may be wrong: no answer from the source is repeated once, and what a proxy may say
 * ends the import at once.
 *
 * Every call blocks, and fails with one of these, after the last attempt:
 *   FG_E_DENIED         401 or 403
 *   FG_E_UNIMPLEMENTED  404, 405, 501 or a redirection, or the side is not proved: no such server
 *   FG_E_UNAVAILABLE    no answer
 *   FG_E_ABORTED        408, 429 or 5xx
 *   FG_E_INVALID        another status: it is about this request
 *   FG_E_DECODE         the answer cannot be read
 *   FG_E_LIMIT          something is too large
 *
 * Thread: a link belongs to one thread; all links of an import share the traffic.
 */
#ifndef FG_DEPLOY_CLI_IMPORT_LINK_H
#define FG_DEPLOY_CLI_IMPORT_LINK_H

#include "deploy/cli/client.h"
#include "deploy/cli/import_plan.h"

#include <pthread.h>
#include <stdatomic.h>

/* What all links of an import share. */
struct cli_import_traffic {
    unsigned retries;     /* of a request */
    uint64_t rate_per_s;  /* requests to the source, evenly apart; 0: no bound */
    atomic_bool stop;     /* whoever sets it ends all pauses and attempts */
    atomic_bool answered; /* the source has answered, whatever it was */
    /* The side has answered as it should: its URL is right. */
    atomic_bool source_proved, target_proved;
    pthread_mutex_t lock; /* of what follows */
    int64_t slot_mono_ns; /* when the source may be asked again */
    uint64_t requests;    /* to the source */
    uint64_t expired;     /* profiles that the target will not keep */
    int64_t told_mono_ns; /* when a message about another attempt was printed */
};

void cli_import_traffic_init(struct cli_import_traffic *traffic, unsigned retries,
                             uint64_t rate_per_s);
void cli_import_traffic_done(struct cli_import_traffic *traffic);

struct cli_import_link {
    struct cli_import_traffic *traffic;
    struct cli_client *source, *target;
    struct fg_arena *points; /* of the last answer with points */
    struct fg_arena *arena;  /* of one answer */
    struct fg_buf pprof;     /* the last merge */
    struct fg_buf body;      /* the last push */
};

/* Opens a link. target NULL: only the source will be asked. Errors of cli_client_create(). Close it
 * in any case. */
enum fg_code cli_import_link_open(struct cli_import_link *link, struct cli_import_traffic *traffic,
                                  const struct cli_client_config *source,
                                  const struct cli_client_config *target,
                                  struct fg_err *err) fg_must_check;
void cli_import_link_close(struct cli_import_link *link);

/* Asks when the oldest profile of the source is; 0: it has none, or does not know. */
enum fg_code cli_import_ask_oldest(struct cli_import_link *link, int64_t *ret_oldest_ms,
                                   struct fg_err *err) fg_must_check;

/* Lists the series of the range that match, in the arena. Some may have no profiles in it: what a
 * source knows of series may be of other hours. */
enum fg_code cli_import_ask_list(struct cli_import_link *link, const char *selector,
                                 const struct cli_selection_range *range,
                                 const struct cli_import_scope *scope, struct fg_arena *arena,
                                 struct cli_import_list *ret_list,
                                 struct fg_err *err) fg_must_check;

/* A series to ask about; texts have a NUL. */
struct cli_import_subject {
    const struct cli_import_series *series;
    const char *type, *selector;
};

/* Asks when the series has profiles, in link->points. Both ends are included, but of the last
 * millisecond only its first nanosecond. */
enum fg_code cli_import_ask_points(struct cli_import_link *link,
                                   const struct cli_import_subject *subject,
                                   const struct cli_selection_range *range,
                                   struct cli_import_point **ret_points, size_t *ret_n,
                                   struct fg_err *err) fg_must_check;

/* Merges the range, both ends included in nanoseconds, into link->pprof. *ret_sum: of all
 * values. */
enum fg_code cli_import_ask_merge(struct cli_import_link *link,
                                  const struct cli_import_subject *subject,
                                  const struct cli_selection_range *range, double *ret_sum,
                                  struct fg_err *err) fg_must_check;

/* Sends link->pprof as the profile that the unit becomes. link->body has what was sent. */
enum fg_code cli_import_push(struct cli_import_link *link, const struct cli_import_series *series,
                             const struct cli_import_unit *unit, struct fg_err *err) fg_must_check;

#endif
