/*
 * Fills a catalog of series (ingester/catalog/catalog.h) over a store in memory, as pushes do.
 * Asserts instead of returning errors.
 */
#ifndef FG_TESTS_UNIT_INGESTER_CATALOG_RUN_H
#define FG_TESTS_UNIT_INGESTER_CATALOG_RUN_H

#include "ingester/catalog/catalog.h"

extern const struct ing_catalog_quota cat_all; /* a tenant may take the whole catalog */

/* Opens the catalog of an undamaged store. */
struct ing_catalog *cat_open(struct fg_store *store);

/* Writes the batch and frees it. */
void cat_write(struct fg_store *store, struct fg_store_batch *batch);

/* Adds, or finds, the series of a shard with a label zone and two types. Nothing is stored. */
struct ing_catalog_series *cat_add_at(struct ing_catalog *catalog,
                                      struct ing_catalog_tenant *tenant,
                                      struct ing_catalog_service *service, const char *zone,
                                      uint16_t shard);

/* As cat_add_at(), for shard 0. */
struct ing_catalog_series *cat_add(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                                   struct ing_catalog_service *service, const char *zone);

/* Stores the series, its service and its tenant, as a push does. */
void cat_put(struct fg_store *store, struct ing_catalog_tenant *tenant,
             const struct ing_catalog_series *series);

/* Does what a push does whose batch was written: tenant "a" and service "shop" have the series, and
 * a chunk has a profile of it. born: the cuts so far. */
struct ing_catalog_series *cat_store_one(struct fg_store *store, struct ing_catalog *catalog,
                                         const char *zone, uint32_t born, int64_t time_ns);

/* Sweeps series that are in no chunk since the cut least_born, and services without series, once.
 */
void cat_sweep(struct fg_store *store, struct ing_catalog *catalog, uint32_t least_born);

/* Sweeps until memory is freed, too: two epochs end, if no thread is inside, and a third that
 * frees. */
void cat_sweep_all(struct fg_store *store, struct ing_catalog *catalog, uint32_t least_born);

/* Counts the keys of a family; first: only those that begin with it; 0: all. */
size_t cat_count_keys(struct fg_store *store, unsigned family, char first);

/* Counts the series of tenant "a". */
uint64_t cat_count(struct ing_catalog *catalog);

/* Writes a line "shard/number/type labels" per series and type that the selector matches. */
void cat_list(struct ing_catalog *catalog, const char *tenant, const char *selector_text,
              struct fg_buf *out);

#endif
