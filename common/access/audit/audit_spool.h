/*
 * The folder in which a process keeps records of the audit until they are in the bucket.
 *
 *     FOLDER/LOCK                the process that uses the folder locks it
 *     FOLDER/head                the last record that left the folder, for the next process
 *     FOLDER/<chain>-<n>.ndjson  lines of the object n
 *
 * Thread: one at a time.
 */
#ifndef FG_COMMON_ACCESS_AUDIT_AUDIT_SPOOL_H
#define FG_COMMON_ACCESS_AUDIT_AUDIT_SPOOL_H

#include "common/access/audit/audit_record.h"

struct fg_audit_spool;

/* An object that an earlier process has left. */
struct fg_audit_left {
    struct fg_audit_link link; /* its last record */
    uint64_t object;
};

/* Opens the folder and locks it. Creates it if its parent exists. FG_E_UNAVAILABLE: another process
 * uses it. */
enum fg_code fg_audit_spool_open(const char *folder, struct fg_audit_spool **ret_spool,
                                 struct fg_err *err) fg_must_check;
/* Accepts NULL. */
void fg_audit_spool_close(struct fg_audit_spool *spool);

/*
 * Finds what earlier processes have left, in the order of its time, without last lines that were
 * cut short. *ret_left: to be freed. *ret_last: the last record of the last process; chain "":
 * there was none. Files that are no lines of the audit are renamed and logged.
 */
enum fg_code fg_audit_spool_left(struct fg_audit_spool *spool, struct fg_audit_left **ret_left,
                                 size_t *ret_n, struct fg_audit_link *ret_last,
                                 struct fg_err *err) fg_must_check;

/* Appends whole lines to the file of an object and syncs it. After a failure the file is as it was
 * before. */
enum fg_code fg_audit_spool_append(struct fg_audit_spool *spool, const char *chain, uint64_t object,
                                   struct fg_slice lines, struct fg_err *err) fg_must_check;

/* Reads the lines of an object. */
enum fg_code fg_audit_spool_read(struct fg_audit_spool *spool, const char *chain, uint64_t object,
                                 struct fg_buf *lines, struct fg_err *err) fg_must_check;

/* Removes an object that is in the bucket, and remembers its last record. */
enum fg_code fg_audit_spool_remove(struct fg_audit_spool *spool, const struct fg_audit_link *last,
                                   uint64_t object, struct fg_err *err) fg_must_check;

#endif
