/*
 * Dictionaries that old chunks may still name are on a list; each sweep moves every one of them a
 * state further (retire.h). Sweeps are minutes apart, and that distance is what protects queries:
 * none of them lasts that long.
 *
 * `cuts` and `born` order things in time: a chunk that began after the cut at which a dictionary
 * was old cannot name it.
 */
#include "ingester/retire.h"

#include "common/base/map.h"
#include "common/runtime/log.h"

#include <sys/random.h>

enum state { WRITTEN, OLD, UNNEEDED, DELETED };

struct retire_leaver {
    struct ing_catalog_service *service;
    uint32_t generation;
    enum state state;
    uint32_t cuts; /* OLD: chunks that began later do not name it */
};

struct ing_retire {
    struct ing_retire_config config;
    struct retire_leaver *leavers;
    size_t n_leavers, cap_leavers;
    struct fg_store_batch deletes; /* of series and services that left the catalog */
    bool has_begun;                /* generations, since the last sweep */
};

static void add_leaver(struct ing_retire *retire, struct ing_catalog_service *service,
                       uint32_t generation)
{
    if (retire->n_leavers == retire->cap_leavers) {
        retire->cap_leavers = FG_MAX(16, retire->cap_leavers * 2);
        retire->leavers =
            fg_realloc(retire->leavers, retire->cap_leavers * sizeof *retire->leavers);
    }
    retire->leavers[retire->n_leavers++] =
        (struct retire_leaver){.service = service, .generation = generation};
    /* Keeps the service in the catalog, since the list points to it. */
    service->retiring++;
    service->unlisted = generation + 1;
}

/* ---- the start ---- */

enum {
    /* Above it a generation is damage: each start adds at most 65,536. */
    GENERATION_MAX = INT32_MAX,
};

/* Services by number. A map, since a damaged number may be any. */
struct start {
    struct ing_retire *retire;
    struct fg_map by_number;
    struct ing_catalog_service **services;
    uint32_t n_services, cap_services;
    uint16_t skip;
};

static void note_service(struct ing_catalog_service *service, void *arg)
{
    struct start *start = arg;

    if (start->n_services == start->cap_services) {
        start->cap_services = FG_MAX(64, start->cap_services * 2);
        start->services =
            fg_realloc(start->services, start->cap_services * sizeof(struct ing_catalog_service *));
    }
    fg_map_add(&start->by_number, fg_mix64(service->number), start->n_services);
    start->services[start->n_services++] = service;
}

static struct ing_catalog_service *service_at(const struct start *start, uint32_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&start->by_number, fg_mix64(number), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&start->by_number, &walk))
        if (start->services[i]->number == number)
            return start->services[i];
    return NULL;
}

/* Comes ascending by generation. All are old: see begin_after_start(). */
static void note_dictionary(uint32_t service, uint32_t generation, void *arg)
{
    struct start *start = arg;
    struct ing_catalog_service *found = service_at(start, service);

    if (found == NULL)
        return; /* a service without stored profiles */
    if (generation > GENERATION_MAX) {
        fg_log_warn("dictionary with a damaged number is ignored", fg_lu("service", service),
                    fg_lu("generation", generation));
        return;
    }
    atomic_store(&found->generation, generation + 1);
    add_leaver(start->retire, found, generation);
}

/*
 * A start begins a new generation, and skips some numbers that nobody can predict. If chunks of a
 * dictionary are lost, it seems to be shorter, or missing. Without the skip its numbers would be
 * given again, and old records would be read as other stacks; with it they cannot be read. It costs
 * nothing: distributors send all definitions to an ingester that has restarted.
 */
static void begin_after_start(struct ing_catalog_service *service, void *arg)
{
    const struct start *start = arg;

    atomic_fetch_add(&service->generation, start->skip);
    service->unlisted = atomic_load(&service->generation);
}

/* ---- damage ---- */

/* Dictionaries whose records are lost. */
struct lost {
    uint32_t from, until; /* services: [from, until) */
    uint32_t generation;  /* of `from`: the greatest that is not lost */
    struct fg_store_batch *out;
};

/* Half of the numbers that are left: the lost ones are among the first of them, since each start
 * takes few, and there is enough for as many damages as a disk will have. */
static void skip_service(uint32_t service, void *arg)
{
    const struct lost *lost = arg;
    uint32_t least = service == lost->from ? FG_MIN(lost->generation, (uint32_t)GENERATION_MAX) : 0;

    if (service >= lost->from && service < lost->until)
        ing_dict_put_mark(service, least + (GENERATION_MAX - least) / 2, lost->out);
}

enum fg_code ing_retire_skip_generations(struct fg_store *store, struct fg_slice after,
                                         struct fg_slice until, struct fg_store_batch *out,
                                         struct fg_err *err)
{
    struct fg_cur from = fg_cur(after), to = fg_cur(until);
    struct lost lost = {.out = out};

    lost.from = fg_cur_be32(&from); /* 0: there is no key */
    lost.generation = fg_cur_be32(&from);
    lost.until = until.len == 0 ? UINT32_MAX : fg_cur_be32(&to);
    return ing_catalog_each_stored_service(store, skip_service, &lost, err);
}

enum fg_code ing_retire_create(const struct ing_retire_config *config,
                               struct ing_retire **ret_retire, struct fg_err *err)
{
    struct ing_retire *retire = fg_new(struct ing_retire);
    struct start start = {.retire = retire};
    enum fg_code code;

    retire->config = *config;
    fg_store_batch_init(&retire->deletes);
    /* Before anything is retired: a start does not know which chunks have which series, so it
     * assumes all. */
    ing_catalog_assume_held(config->catalog, ing_head_chunks_cuts(config->chunks));
    ing_catalog_each_service(config->catalog, note_service, &start);
    code = getrandom(&start.skip, sizeof start.skip, 0) == sizeof start.skip
               ? ing_dict_each(config->store, note_dictionary, &start, err)
               : fg_fail(err, FG_E_UNAVAILABLE, "no random numbers");
    ing_catalog_each_service(config->catalog, begin_after_start, &start);
    free(start.services);
    fg_map_done(&start.by_number);
    if (code != FG_OK)
        ing_retire_destroy(retire);
    else
        *ret_retire = retire;
    return code;
}

void ing_retire_destroy(struct ing_retire *retire)
{
    if (retire == NULL)
        return;
    fg_store_batch_done(&retire->deletes);
    free(retire->leavers);
    free(retire);
}

/* ---- cuts ---- */

struct cut {
    struct ing_retire *retire;
    enum fg_code code;
    struct fg_err *err;
};

/*
 * Lists dictionaries whose generation has ended since the last cut: after a failed write, or
 * because they had outgrown their share. Stops at the last one that is stored, as an earlier push
 * may still be on its way with one that is not. Pushes that define something come in the order of
 * their generations, so none of them is before one that is stored; others hold a reference to
 * theirs.
 */
static void list_ended(struct ing_catalog_service *service, uint32_t generation, struct cut *cut)
{
    bool stored = true;
    uint32_t found;

    while (cut->code == FG_OK && stored && service->unlisted < generation) {
        cut->code = ing_dict_next_stored(cut->retire->config.store, service->number,
                                         service->unlisted, &stored, &found, cut->err);
        stored = cut->code == FG_OK && stored && found < generation;
        if (stored)
            add_leaver(cut->retire, service, found);
    }
}

static void begin_generation(struct ing_catalog_service *service, void *arg)
{
    struct cut *cut = arg;
    uint32_t generation = atomic_load(&service->generation), now = generation;
    bool stored = false;

    /* After an error the other services keep their generation until the next cut. */
    list_ended(service, generation, cut);
    if (cut->code == FG_OK)
        cut->code = ing_dict_stored(cut->retire->config.store, service->number, generation, &stored,
                                    cut->err);
    if (!stored)
        return;
    /* If this fails, a worker has begun another one meanwhile. */
    (void)atomic_compare_exchange_strong(&service->generation, &now, generation + 1);
    add_leaver(cut->retire, service, generation);
}

enum fg_code ing_retire_cut(struct ing_retire *retire, struct fg_err *err)
{
    struct cut cut = {.retire = retire, .err = err};

    /* A server that catches up has a cut every few seconds. */
    if (retire->has_begun)
        return FG_OK;
    ing_catalog_each_service(retire->config.catalog, begin_generation, &cut);
    retire->has_begun = cut.code == FG_OK;
    return cut.code;
}

/* ---- sweeps ---- */

static void sweep_one(const struct ing_retire *retire, struct retire_leaver *leaver, uint32_t least,
                      struct fg_store_batch *batch)
{
    switch (leaver->state) {
    case WRITTEN:
        if (ing_dict_in_use(retire->config.dicts, leaver->service->number, leaver->generation))
            break;
        /* A push that read its number a moment ago is refused. End it first and then read the
         * number of cuts: whatever names it is in a chunk that began before. */
        ing_catalog_end_generation(leaver->service, leaver->generation);
        leaver->state = OLD;
        leaver->cuts = ing_head_chunks_cuts(retire->config.chunks);
        break;
    case OLD:
        /* Every chunk of now began after the last one that could name it. */
        if (leaver->cuts < least)
            leaver->state = UNNEEDED;
        break;
    case UNNEEDED:
    case DELETED: /* but that could not be written */
        if (ing_dict_delete(retire->config.dicts, leaver->service->number, leaver->generation,
                            batch))
            leaver->state = DELETED;
        break;
    }
}

static void drop_deleted(struct ing_retire *retire)
{
    size_t kept = 0;

    for (size_t i = 0; i < retire->n_leavers; i++) {
        struct ing_catalog_service *service = retire->leavers[i].service;

        if (retire->leavers[i].state != DELETED) {
            retire->leavers[kept++] = retire->leavers[i];
            continue;
        }
        fg_assert(service->retiring > 0); /* or the service would leave before its dictionaries */
        service->retiring--;
    }
    retire->n_leavers = kept;
}

enum fg_code ing_retire_sweep(struct ing_retire *retire, struct fg_err *err)
{
    /* Once for all: chunks that begin meanwhile are younger still. */
    uint32_t least = ing_head_chunks_least_born(retire->config.chunks);
    struct fg_store_batch batch;
    enum fg_code code = FG_OK;

    retire->has_begun = false;
    fg_store_batch_init(&batch);
    for (size_t i = 0; i < retire->n_leavers; i++)
        sweep_one(retire, &retire->leavers[i], least, &batch);
    if (batch.count > 0)
        code = ing_head_writer_write(retire->config.writer, &batch, NULL, err);
    if (code == FG_OK)
        drop_deleted(retire);
    fg_store_batch_done(&batch);
    return code;
}

static bool has_no_dictionary(const struct ing_catalog_service *service, void *arg)
{
    const struct ing_retire *retire = arg;
    uint32_t generation;
    struct fg_err err;
    bool stored;

    return service->retiring == 0 &&
           ing_dict_next_stored(retire->config.store, service->number, 0, &stored, &generation,
                                &err) == FG_OK &&
           !stored;
}

/* Retired entries have to be deleted before more are retired. */
enum fg_code ing_retire_series(struct ing_retire *retire, struct fg_err *err)
{
    struct fg_store_batch *deletes = &retire->deletes;

    /* The batch is kept after a failure: memory has forgotten these already, so only the batch
     * still knows what to delete. */
    if (deletes->count == 0) {
        ing_catalog_sweep_series(retire->config.catalog,
                                 ing_head_chunks_least_born(retire->config.chunks), deletes);
        ing_catalog_sweep_services(retire->config.catalog, has_no_dictionary, retire, deletes);
    }
    if (deletes->count == 0)
        return FG_OK;
    if (ing_head_writer_write(retire->config.writer, deletes, NULL, err) != FG_OK)
        return err->code;
    fg_store_batch_clear(deletes);
    return FG_OK;
}

size_t ing_retire_count(const struct ing_retire *retire)
{
    return retire->n_leavers;
}
