/*
 * The intake decides whether the ingester takes pushes. Each push gets 503 while one of these is
 * true; queries are answered all the time.
 *
 *   - disk_full: the disk has less than its reserve free (common/runtime/disk.h). Writes under way
 *     still find room.
 *   - write_failed: a write of the head failed. Once a second, if the disk has room, the committer
 *     tries to heal the store (head_writer.h).
 *
 * The log has the first refusal, the end, and every 30 seconds the number of refusals.
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef FG_INGESTER_INTAKE_H
#define FG_INGESTER_INTAKE_H

#include "common/runtime/disk.h"
#include "ingester/committer.h"
#include "ingester/head_writer.h"

struct ing_intake;

struct ing_intake_config {
    struct ing_head_writer *writer; /* borrowed, as are those below */
    const struct fg_disk *disk;     /* of the store; NULL: not watched */
    struct fg_registry *registry;
};

/* Creates an intake. */
struct ing_intake *ing_intake_create(const struct ing_intake_config *config);

/* Starts the thread that reports refusals, and wakes the committer while the store needs healing.
 * FG_E_LIMIT: no more threads. */
enum fg_code ing_intake_start(struct ing_intake *intake, struct ing_committer *committer,
                              struct fg_err *err) fg_must_check;

/* Stops the thread. Call it before the committer ends. Accepts NULL. */
void ing_intake_stop(struct ing_intake *intake);

/* Destroys the intake. Accepts NULL. */
void ing_intake_destroy(struct ing_intake *intake);

/* Returns FG_OK if a push may be processed; else counts a refusal and returns FG_E_UNAVAILABLE. */
enum fg_code ing_intake_admits(struct ing_intake *intake, struct fg_err *err) fg_must_check;

/* Appends why pushes are refused and returns true, or returns false if they are taken. */
bool ing_intake_refuses(struct ing_intake *intake, struct fg_buf *why) fg_must_check;

#endif
