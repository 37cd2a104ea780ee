/*
 * Retires what the head no longer needs after chunks were evicted: dictionaries, series and
 * services.
 *
 * Dictionaries. The first cut after a sweep begins a new generation in every service that has a
 * dictionary, so only chunks that began before the cut name the old one, and others that have ended
 * since the last such cut. Further cuts begin none: a generation costs senders all definitions, and
 * no dictionary is deleted sooner, since each sweep moves it by one state:
 *
 *   WRITTEN ---------------> OLD ---------------------> UNNEEDED ----------> DELETED
 *      a cut: a new generation    all chunks that began      at the next sweep: queries that found
 *      begins; nobody works       before it was old are      such chunks have ended by then
 *      with this one any more     evicted
 *
 * The states are not stored: a restart finds all generations of a service old, and begins another.
 *
 * Series are retired when every chunk began after the last one that got a profile of theirs
 * (catalog.h). The old dictionaries of a service without series are deleted as above; then the
 * service is retired.
 *
 * Thread: the committer's, except for create and destroy.
 */
#ifndef FG_INGESTER_RETIRE_H
#define FG_INGESTER_RETIRE_H

#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/head_chunks.h"
#include "ingester/head_writer.h"

struct ing_retire;

/* All borrowed. */
struct ing_retire_config {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_dict_table *dicts;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
};

/*
 * Before a catalog is opened in whose store the dictionaries between two keys are lost: adds puts
 * to a batch so that no generation which one of them may have had is given again; profiles name it,
 * and would be read as other stacks. after, until: as of ing_catalog_skip_series(). Errors of the
 * store.
 */
enum fg_code ing_retire_skip_generations(struct fg_store *store, struct fg_slice after,
                                         struct fg_slice until, struct fg_store_batch *out,
                                         struct fg_err *err) fg_must_check;

/* Finds the dictionaries of the store, and sets the generation of every service. Assumes that any
 * chunk may have profiles of any series. Call it before the first push. FG_E_CORRUPT,
 * FG_E_UNAVAILABLE: the store. */
enum fg_code ing_retire_create(const struct ing_retire_config *config,
                               struct ing_retire **ret_retire, struct fg_err *err) fg_must_check;

/* Destroys it. Accepts NULL. */
void ing_retire_destroy(struct ing_retire *retire);

/* Begins a new generation in every service that has a dictionary, unless a call has done so since
 * the last sweep. Call it after chunks were sealed. FG_E_UNAVAILABLE: some services have none; the
 * next cut is early enough. */
enum fg_code ing_retire_cut(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* Moves dictionaries to their next state and deletes those that are not needed. Call it minutes
 * after the call before. FG_E_UNAVAILABLE: call it again later. */
enum fg_code ing_retire_sweep(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* Retires some series and services. Takes some milliseconds; call it as often as you like.
 * FG_E_UNAVAILABLE: call it again later. */
enum fg_code ing_retire_series(struct ing_retire *retire, struct fg_err *err) fg_must_check;

/* Returns how many dictionaries are old and not yet deleted. */
size_t ing_retire_count(const struct ing_retire *retire);

#endif
