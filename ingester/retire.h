/*
 * What leaves the head after the chunks that needed it: dictionaries, series and services.
 *
 * Dictionaries. A cut begins a new generation in every service that has one, so
 * what was numbered before is named by chunks of then and no later ones:
 *
 *   WRITTEN ---------------> OLD ---------------------> UNNEEDED ----------> deleted
 *      a cut: a new generation    all chunks that began      at the next sweep: queries that found
 *      begins; until nobody       before it was old are      such chunks have ended by then
 *      works with this one        evicted
 *
 * Nothing of this is stored: a restart finds all generations of a service old, and begins another.
 *
 * Series leave when every chunk that is here began after the last one that got a profile of theirs
 * (catalog.h). A service that has no series any more gets its old dictionaries deleted as above,
 * and then leaves.
 *
 * Thread: the committer's, but for create and destroy.
 */
#ifndef FG_INGESTER_RETIRE_H
#define FG_INGESTER_RETIRE_H

#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/head_chunks.h"
#include "ingester/head_writer.h"

struct ing_retire;

/* Borrowed. */
struct ing_retire_config {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_dict_table *dicts;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
};

/* Finds what the store has, and sets the generation of every service; any series may be in any
 * chunk there is. Before the first push.
 * FG_E_CORRUPT, FG_E_UNAVAILABLE. */
enum fg_code ing_retire_create(const struct ing_retire_config *config,
                               struct ing_retire **ret_retire, struct fg_err *err) fg_must_check;
void ing_retire_destroy(struct ing_retire *retire);

/* After chunks were sealed. FG_E_UNAVAILABLE: some services have not begun a new generation; the
 * next cut is time enough. */
enum fg_code ing_retire_cut(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* Dictionaries; minutes after the sweep before. FG_E_UNAVAILABLE: later. */
enum fg_code ing_retire_sweep(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* Goes on with series and services: some milliseconds, as often as one likes. FG_E_UNAVAILABLE:
 * later. */
enum fg_code ing_retire_series(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* How many dictionaries are on their way. */
size_t ing_retire_count(const struct ing_retire *retire);

#endif
