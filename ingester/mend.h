/*
 * Mends a head of which a start cannot read all records, since blocks of its tables are damaged.
 * The stretches of keys that cannot be read are deleted, with what they hold, and the start begins
 * again: for it these records are missing, which README.md, "Damage", has the consequences of. They
 * have to go, since whatever is written between their keys later could not be read either.
 *
 *   SERIES   answers to the tenants say that they are not complete, also after later starts,
 *            until all that the head had then is committed; the numbers that the lost series
 *            may have had are not given again
 *   DICT     likewise the numbers of dictionaries
 *   CHUNKS   rebuilt from their profiles
 *   OUTBOX   these profiles are not forwarded
 *
 * Profiles are not read through: what cannot be read of them costs a query, the build of a segment,
 * or a salvage, no more than that. Damage of META is not mended: fg_store_open() refuses it, and so
 * does this if META cannot be decrypted.
 *
 * Thread: the one that starts the ingester.
 */
#ifndef FG_INGESTER_MEND_H
#define FG_INGESTER_MEND_H

#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/damage.h"
#include "ingester/head_chunks.h"

struct ing_mend {
    struct fg_arena *arena;
    struct ing_mend_gap *gaps;
    uint32_t n, cap;
    struct ing_damage damage; /* the gaps, as records that were set aside */
};

/* Initializes. */
void ing_mend_init(struct ing_mend *mend);

/* Frees. */
void ing_mend_done(struct ing_mend *mend);

/* Finds and deletes what cannot be read. Returns FG_OK also if there is no such thing: then n is 0.
 * FG_E_CORRUPT: there is too much of it, or META cannot be read, and nothing was deleted. Other
 * errors of the store. */
enum fg_code ing_mend_store(struct ing_mend *mend, struct fg_store *store,
                            struct fg_err *err) fg_must_check;

/* Notes in the catalog whose answers are not complete, since this start or one before it has lost
 * their series. Forgets what it knows of it once the head has no chunk of that time any more that
 * is not committed. chunks: all that the store has. Errors of the store. */
enum fg_code ing_mend_tell(struct fg_store *store, struct ing_head_chunks *chunks,
                           struct ing_catalog *catalog, struct fg_err *err) fg_must_check;

#endif
