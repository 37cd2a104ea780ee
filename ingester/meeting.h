/*
 * The place where distributors meet about limits that hold for all of them together, and queriers
 * about theirs: the shell of common/cluster/shares/meeting_core.h. They ask the owners of shard 0
 * every few seconds what all of them use, and say what each of them uses. Queriers also ask both
 * for the limits page.
 *
 * The counts of a period are written to the head's store every SAVE seconds, so they survive a
 * restart of all processes. A crash loses the seconds since the last write.
 *
 * Thread: calls are answered on the transport's threads, since they take microseconds; a ticker
 * saves.
 */
#ifndef FG_INGESTER_MEETING_H
#define FG_INGESTER_MEETING_H

#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "ingester/catalog/catalog.h"
#include "ingester/committer.h"
#include "ingester/head_writer.h"

struct ing_meeting;

/* All borrowed. */
struct ing_meeting_config {
    struct fg_store *store;
    struct ing_head_writer *writer;
    struct ing_catalog *catalog;
    struct fg_clock *clock;
};

/* Reads what the last run has counted. If the value is damaged, that is logged and counts start
 * from zero. */
struct ing_meeting *ing_meeting_create(const struct ing_meeting_config *config);

/* Starts to save, through the committer. FG_E_LIMIT: no more threads. */
enum fg_code ing_meeting_start(struct ing_meeting *meeting, struct ing_committer *committer,
                               struct fg_err *err) fg_must_check;

/* Saves a last time. The committer runs, and no call comes any more. Accepts NULL. */
void ing_meeting_stop(struct ing_meeting *meeting);

/* Frees it: after the committer. Accepts NULL. */
void ing_meeting_destroy(struct ing_meeting *meeting);

/* Handle calls USE and QUERY_USE, for fg_rpc_server_handle(). meeting: the struct ing_meeting. */
void ing_meeting_handle(struct fg_rpc_request *req, void *meeting);
void ing_meeting_handle_queries(struct fg_rpc_request *req, void *meeting);

#endif
