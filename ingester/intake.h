/*
 * Whether pushes are taken. They are refused, each with 503, while
 *
 *   disk_full      the disk has less than its reserve free (common/run/disk.h): so that the store
 * does not find it full, and what is under way has room write_failed   a write of the store failed,
 * until it was healed and a write has succeeded. That is tried once a second while the disk has
 * room, whether anybody pushes or not
 *
 * Questions are answered meanwhile. The first refusal and the end are logged, and every 30 seconds
 * how many there were.
 *
 * Thread: any, but as said.
 */
#ifndef FG_INGESTER_INTAKE_H
#define FG_INGESTER_INTAKE_H

#include "common/run/disk.h"
#include "common/store/store.h"

struct commit;
struct intake;

struct intake_config {
    struct fg_store *store;     /* borrowed, as are those below */
    const struct fg_disk *disk; /* the store is on; NULL: it is not watched */
    struct fg_registry *registry;
};

/* Finds out whether the store can be written to; that it cannot is no error. Nobody else writes
 * yet.
 */
struct intake *intake_create(const struct intake_config *config);

/* From now on the committer is woken while there is something to heal. FG_E_UNAVAILABLE: no thread.
 */
enum fg_code intake_start(struct intake *intake, struct commit *commit,
                          struct fg_err *err) fg_must_check;

/* Before the committer ends. NULL is fine. */
void intake_stop(struct intake *intake);
void intake_destroy(struct intake *intake); /* NULL is fine */

/* May a push be worked on? Counts the refusal. FG_E_UNAVAILABLE. */
enum fg_code intake_admits(struct intake *intake, struct fg_err *err) fg_must_check;

/* A write has failed so. The committer's thread. */
void intake_failed(struct intake *intake, const struct fg_err *err);

/* Tries to heal a store that failed, where there is one, and the last try is not too near. The
 * committer's thread, with nothing half done. */
void intake_heal(struct intake *intake);

/* Appends why pushes are refused. false: they are taken. */
bool intake_refuses(struct intake *intake, struct fg_buf *why) fg_must_check;

#endif
