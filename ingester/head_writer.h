/*
 * Writes the head store, undoes what failed writes may have done, and heals the store.
 *
 * A write that failed may still reach the disk: at once, or when the store is opened again, after
 * the chunks that it wrote to were committed without it. So a write comes with an undo batch, which
 * is kept if the write fails, and written before anything else.
 *
 * After a failed write the writer is failing until ing_head_writer_heal() succeeds; meanwhile
 * intake.h refuses pushes.
 *
 * Thread: the committer's (committer.h), unless a function says otherwise.
 */
#ifndef FG_INGESTER_HEAD_WRITER_H
#define FG_INGESTER_HEAD_WRITER_H

#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/storage/store/store.h"
#include "ingester/head_chunks.h"

struct ing_head_writer;

/* All borrowed. */
struct ing_head_writer_config {
    struct fg_store *store;
    struct ing_head_chunks *chunks;
    const struct fg_disk *disk; /* of the store; NULL: not watched */
    struct fg_registry *registry;
};

/* Creates a writer, heals the store, and tests with a write whether the store takes writes. If it
 * does not, the writer is failing. Call it before pushes come. Any thread. */
struct ing_head_writer *ing_head_writer_create(const struct ing_head_writer_config *config);

/* Destroys the writer; what was not undone is undone at the next start. Accepts NULL. */
void ing_head_writer_destroy(struct ing_head_writer *writer);

/*
 * Writes a batch durably, after what failed writes left was undone. After a failure nobody knows
 * whether the batch was written. undo restores the state before the batch; it is kept if the write
 * fails. NULL: the batch does no harm whether it was written or not. FG_E_LIMIT: the batch or undo
 * is too large, and nothing was written. FG_E_UNAVAILABLE.
 */
enum fg_code ing_head_writer_write(struct ing_head_writer *writer, struct fg_store_batch *batch,
                                   const struct fg_store_batch *undo,
                                   struct fg_err *err) fg_must_check;

/* Undoes what failed writes may have done. After FG_OK the store has what the chunks in memory say;
 * call it before reading profiles to move them. FG_E_UNAVAILABLE. */
enum fg_code ing_head_writer_settle(struct ing_head_writer *writer,
                                    struct fg_err *err) fg_must_check;

/* Tries to heal the store if the writer is failing, the disk has room and the pause after the last
 * attempt is over. */
void ing_head_writer_heal(struct ing_head_writer *writer);

/* Returns true if a write failed and the store was not healed since. Any thread. */
bool ing_head_writer_is_failing(const struct ing_head_writer *writer);

/* Appends the error of the write that failed first. Any thread. */
void ing_head_writer_describe(struct ing_head_writer *writer, struct fg_buf *out);

#endif
