/* Queries that several commands send. Each fails with the error of the client or the server. */
#ifndef FG_DEPLOY_CLI_ASK_H
#define FG_DEPLOY_CLI_ASK_H

#include "common/base/arena.h"
#include "common/model/tree.h"
#include "deploy/cli/client.h"
#include "deploy/cli/selection.h"
#include "proto/querier_v1.pb-c.h"

enum { ASK_ARENA_MAX_BYTES = 256 * 1024 * 1024 }; /* decoded names; they are far less */

struct cli_ask_list {
    struct fg_slice *items;
    size_t count;
};

/* Returns the profile types that match the selector, sorted, in the arena. */
enum fg_code cli_ask_types(struct cli_client *client, struct fg_slice selector,
                           const struct cli_selection_range *range, struct fg_arena *arena,
                           struct cli_ask_list *ret_types, struct fg_err *err) fg_must_check;

/* Merges all profiles of the type into an empty tree of function names. max_nodes 0: all nodes. */
enum fg_code cli_ask_tree(struct cli_client *client, struct fg_slice type, struct fg_slice selector,
                          const struct cli_selection_range *range, uint64_t max_nodes,
                          struct fg_arena *arena, struct fg_tree *tree,
                          struct fg_err *err) fg_must_check;

/* Times of the tenant's oldest and newest profile; 0 if there are none. */
struct cli_ask_stats {
    int64_t oldest_ms, newest_ms;
};
enum fg_code cli_ask_stats(struct cli_client *client, struct fg_arena *arena,
                           struct cli_ask_stats *ret_stats, struct fg_err *err) fg_must_check;

/* Returns the totals over time as one series, in the arena. step_s: at least 0.001. rates: also the
 * unit, covered time and rates. */
enum fg_code cli_ask_series(struct cli_client *client, struct fg_slice type,
                            struct fg_slice selector, const struct cli_selection_range *range,
                            double step_s, bool rates, struct fg_arena *arena,
                            const Querier__V1__SelectSeriesResponse **ret_answer,
                            struct fg_err *err) fg_must_check;

/* Returns the sum of all values of the type in the range, from a time series. */
enum fg_code cli_ask_total(struct cli_client *client, struct fg_slice type,
                           struct fg_slice selector, const struct cli_selection_range *range,
                           struct fg_arena *arena, double *ret_total,
                           struct fg_err *err) fg_must_check;

#endif
