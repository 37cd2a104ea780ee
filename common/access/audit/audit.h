/*
 * The audit of a process: takes what happened, chains it (audit_record.h), and stores it in the
 * bucket.
 *
 *   fg_audit_note()    loops and workers; never waits. The queue is bounded: a record that does not
 *   fg_audit_count()   fit is lost, which is counted, is a condition, and is a record itself later
 *   fg_audit_record()  before a change; returns when the record is durable, so a change that cannot
 *                      be recorded is not made
 *
 * With a folder, records are synced to a file in it within a second, and the file becomes an object
 * after audit.flush or at 4 MiB. What a killed process has left is stored by the next one on the
 * same folder. Without a folder they are in memory until then, at most 16 MiB, and
 * fg_audit_record() stores the object at once.
 *
 * Nobody believes the answer of a put: an object is done when it was created, or when it is there
 * with the same lines.
 *
 * Thread: any, unless said otherwise. One thread chains and stores.
 */
#ifndef FG_COMMON_ACCESS_AUDIT_AUDIT_H
#define FG_COMMON_ACCESS_AUDIT_AUDIT_H

#include "common/access/audit/audit_record.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

struct fg_audit;

/* The settings of the audit, the section `audit`. */
enum fg_audit_reads { FG_AUDIT_READS_NONE, FG_AUDIT_READS_SUMMARY, FG_AUDIT_READS_ALL };

struct fg_audit_settings {
    unsigned reads; /* enum fg_audit_reads */
    char *folder;   /* "": in the data folder; without one there is none */
    int64_t flush_ns, retention_ns;
};

extern const struct fg_conf_field fg_audit_fields[];
extern const size_t fg_audit_n_fields;

struct fg_audit_config {
    const struct fg_audit_settings *settings; /* borrowed, as all of these */
    const char *program;                      /* "flamegrid-querier" */
    struct fg_clock *clock;
    struct fg_registry *registry;     /* of metrics */
    struct fg_conditions *conditions; /* NULL: none */
};

/* Creates it. Events that are noted before fg_audit_open() wait in the queue. Never fails. */
struct fg_audit *fg_audit_create(const struct fg_audit_config *config);
/* Frees it. Accepts NULL. */
void fg_audit_destroy(struct fg_audit *audit);

/*
 * Opens the folder of files, and finds what an earlier process has left in it. folder: is created;
 * "": there is none. The bucket is borrowed until fg_audit_close(). Stores nothing yet. Errors name
 * the folder: it cannot be used, or another process does.
 */
enum fg_code fg_audit_open(struct fg_audit *audit, struct fg_bucket *bucket, const char *folder,
                           struct fg_err *err) fg_must_check;
/* Starts the thread. */
enum fg_code fg_audit_start(struct fg_audit *audit, struct fg_err *err) fg_must_check;
/* Ends the thread and the chain, and stores what is left if the bucket answers soon. Does nothing
 * if it was not opened. */
void fg_audit_close(struct fg_audit *audit);

/* Chains and stores what is due, as the thread does; for tests, and for programs without it. */
void fg_audit_turn(struct fg_audit *audit);

/* Takes a record. audit NULL: does nothing. */
void fg_audit_note(struct fg_audit *audit, const struct fg_audit_event *event);

/* Takes what may come often: the first of equal records (who, tenant, route, status, source) is
 * noted, further ones within audit.flush become one record with their number. */
void fg_audit_count(struct fg_audit *audit, const struct fg_audit_event *event);

/* Takes a query, as the setting audit.reads says. Queries of several tenants and exports are always
 * recorded. */
void fg_audit_read_query(struct fg_audit *audit, const struct fg_audit_event *event);

/* Takes a record and waits until it is durable. Blocks, so not on a loop. audit NULL: succeeds.
 * FG_E_UNAVAILABLE: it is not, so what it is about must not be done. */
enum fg_code fg_audit_record(struct fg_audit *audit, const struct fg_audit_event *event,
                             struct fg_err *err) fg_must_check;

/*
 * Records a change: begin before it, result after it.
 *
 *     if (fg_audit_begin(audit, &event, err) != FG_OK)
 *         return err->code;
 *     code = change(...);
 *     fg_audit_result(audit, &event, code, err);
 */
enum fg_code fg_audit_begin(struct fg_audit *audit, struct fg_audit_event *event,
                            struct fg_err *err) fg_must_check;
void fg_audit_result(struct fg_audit *audit, struct fg_audit_event *event, enum fg_code code,
                     const struct fg_err *err);

/* Returns how long objects of the audit are kept; 0: for ever. */
int64_t fg_audit_retention_ns(const struct fg_audit *audit);

#endif
