#include "ingester/retire.h"

#include "ingester/commit.h"

enum state { WRITTEN, OLD, UNNEEDED };

struct leaver {
    struct catalog_service *service;
    uint32_t generation;
    enum state state;
    uint32_t cuts; /* OLD: rounds that began later do not name it */
};

struct retire {
    struct retire_config config;
    struct leaver *leavers;
    size_t n_leavers, cap_leavers;
};

static void add(struct retire *retire, struct catalog_service *service, uint32_t generation)
{
    if (retire->n_leavers == retire->cap_leavers) {
        retire->cap_leavers = FG_MAX(16, retire->cap_leavers * 2);
        retire->leavers =
            fg_realloc(retire->leavers, retire->cap_leavers * sizeof *retire->leavers);
    }
    retire->leavers[retire->n_leavers++] =
        (struct leaver){.service = service, .generation = generation};
}

/* ---- the start ---- */

/* Services by number; the numbers of some may never have become durable. */
struct start {
    struct retire *retire;
    struct catalog_service **services;
    uint32_t n_services;
};

static void note_service(struct catalog_service *service, void *arg)
{
    struct start *start = arg;

    if (service->number >= start->n_services) {
        uint32_t n = service->number + 1;

        start->services = fg_realloc(start->services, n * sizeof(struct catalog_service *));
        for (uint32_t i = start->n_services; i < n; i++)
            start->services[i] = NULL;
        start->n_services = n;
    }
    start->services[service->number] = service;
}

/* Ascending, so the one before was not the newest of its service. */
static void note_dictionary(uint32_t service, uint32_t generation, void *arg)
{
    struct start *start = arg;
    struct catalog_service *found = service < start->n_services ? start->services[service] : NULL;
    uint32_t before;

    if (found == NULL)
        return; /* a service that nothing was stored of */
    before = atomic_exchange(&found->generation, generation);
    if (before != generation)
        add(start->retire, found, before);
}

enum fg_code retire_create(const struct retire_config *config, struct retire **ret_retire,
                           struct fg_err *err)
{
    struct retire *retire = fg_new(struct retire);
    struct start start = {.retire = retire};
    enum fg_code code;

    retire->config = *config;
    catalog_each_service(config->catalog, note_service, &start);
    code = dict_each(config->store, note_dictionary, &start, err);
    free(start.services);
    if (code != FG_OK)
        retire_destroy(retire);
    else
        *ret_retire = retire;
    return code;
}

void retire_destroy(struct retire *retire)
{
    if (retire == NULL)
        return;
    free(retire->leavers);
    free(retire);
}

/* ---- cuts ---- */

struct cut {
    struct retire *retire;
    enum fg_code code;
    struct fg_err *err;
};

static void begin_generation(struct catalog_service *service, void *arg)
{
    struct cut *cut = arg;
    uint32_t generation = atomic_load(&service->generation);
    bool stored = false;

    if (cut->code == FG_OK)
        cut->code =
            dict_stored(cut->retire->config.store, service->number, generation, &stored, cut->err);
    if (stored && atomic_compare_exchange_strong(&service->generation, &generation, generation + 1))
        add(cut->retire, service, generation);
}

enum fg_code retire_cut(struct retire *retire, struct fg_err *err)
{
    struct cut cut = {.retire = retire, .err = err};

    catalog_each_service(retire->config.catalog, begin_generation, &cut);
    return cut.code;
}

/* ---- sweeps ---- */

/* Nobody works with it, and nobody will: who read its number a moment ago is refused. */
static void grow_old(const struct retire *retire, struct leaver *leaver)
{
    if (dict_in_use(retire->config.dicts, leaver->service->number, leaver->generation))
        return;
    commit_spoil(leaver->service, leaver->generation);
    leaver->state = OLD;
    leaver->cuts = rounds_cuts(retire->config.rounds);
}

/* true: it is in the batch of deletes. */
static bool sweep_one(const struct retire *retire, struct leaver *leaver, uint32_t least,
                      struct fg_store_batch *batch)
{
    switch (leaver->state) {
    case WRITTEN:
        grow_old(retire, leaver);
        return false;
    case OLD:
        if (leaver->cuts < least)
            leaver->state = UNNEEDED;
        return false;
    case UNNEEDED:
        break;
    }
    return dict_delete(retire->config.dicts, leaver->service->number, leaver->generation, batch);
}

enum fg_code retire_sweep(struct retire *retire, struct fg_err *err)
{
    uint32_t least = rounds_least_born(retire->config.rounds);
    struct fg_store_batch batch;
    enum fg_code code = FG_OK;
    size_t kept = 0;

    fg_store_batch_init(&batch);
    for (size_t i = 0; i < retire->n_leavers; i++) {
        struct leaver leaver = retire->leavers[i];

        if (!sweep_one(retire, &leaver, least, &batch))
            retire->leavers[kept++] = leaver;
    }
    /* After a failure they stay on disk until a restart finds them again. */
    retire->n_leavers = kept;
    if (batch.count > 0)
        code = fg_store_write(retire->config.store, &batch, err);
    fg_store_batch_done(&batch);
    return code;
}

size_t retire_count(const struct retire *retire)
{
    return retire->n_leavers;
}
