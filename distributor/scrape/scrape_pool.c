#include "distributor/scrape/scrape_pool.h"

#include "common/base/search.h"
#include "common/runtime/log.h"

enum {
    DROPPED_SHOWN_MAX = 1000,            /* in all; more are only counted */
    DROPPED_MAX_BYTES = 4 * 1024 * 1024, /* of one group */
};

/* A target that is scraped. */
struct active {
    struct dist_target *target;
    char *group; /* the first that had it */
    struct dist_scrape_loop **scrapes;
    unsigned refs; /* by groups */
};

struct dropped {
    struct fg_labels discovered;
    const char *why;
};

struct targets_group {
    char *name;
    bool marked;
    struct active **active;
    size_t n_active, n_dropped, n_elsewhere;
    size_t n_wrong; /* of n_dropped: cannot be scraped, while the rest was dropped by rules */
    struct fg_arena *arena; /* of `dropped`; NULL: none is kept */
    struct dropped *dropped;
    size_t n_shown;
};

struct dist_scrape_pool {
    struct dist_scrape_pool_config config;
    struct active **active; /* ascending by hash */
    size_t n_active, cap_active;
    struct targets_group **groups; /* ascending by name */
    size_t n_groups, cap_groups;
    size_t n_dropped, n_shown, n_elsewhere;
};

/* ---- sorted arrays of pointers ---- */

/* Makes room for one more pointer at a position. */
static void make_room(void *array_ptr, size_t *n, size_t *cap, size_t at)
{
    void ***array = array_ptr;

    if (*n == *cap) {
        *cap = FG_MAX(64, *cap * 2);
        *array = fg_realloc(*array, *cap * sizeof **array);
    }
    memmove(*array + at + 1, *array + at, (*n - at) * sizeof **array);
    (*n)++;
}

static void close_room(void *array_ptr, size_t *n, size_t at)
{
    void ***array = array_ptr;

    fg_assert(at < *n);
    (*n)--;
    memmove(*array + at, *array + at + 1, (*n - at) * sizeof **array);
}

/* Returns the position at which the hash is or would be. */
static size_t find_active(const struct dist_scrape_pool *targets, uint64_t hash)
{
    return fg_lower_bound(i, 0, targets->n_active, targets->active[i]->target->hash < hash);
}

static size_t find_group(const struct dist_scrape_pool *targets, const char *name)
{
    return fg_lower_bound(i, 0, targets->n_groups, strcmp(targets->groups[i]->name, name) < 0);
}

static bool is_group_at(const struct dist_scrape_pool *targets, size_t at, const char *name)
{
    return at < targets->n_groups && strcmp(targets->groups[at]->name, name) == 0;
}

/* ---- targets that are scraped ---- */

static struct active *active_start(struct dist_scrape_pool *targets, struct dist_target *target,
                                   const char *group, bool trusted)
{
    struct active *active = fg_new(struct active);

    active->target = dist_target_ref(target);
    active->group = fg_strdup(group);
    active->scrapes = fg_calloc(target->n_endpoints, sizeof(struct dist_scrape_loop *));
    for (uint32_t i = 0; i < target->n_endpoints; i++)
        active->scrapes[i] =
            dist_scrape_loop_start(targets->config.context, target, &target->endpoints[i], trusted);
    return active;
}

static void active_end(struct dist_scrape_pool *targets, struct active *active)
{
    /* Scrape loops free themselves when a scrape in progress has ended. Each has its own reference
     * to the target. */
    for (uint32_t i = 0; i < active->target->n_endpoints; i++)
        dist_scrape_loop_stop(active->scrapes[i]);
    close_room(&targets->active, &targets->n_active, find_active(targets, active->target->hash));
    dist_target_unref(active->target);
    free(active->group);
    free(active->scrapes);
    free(active);
}

/* Returns the active target with this hash, and starts it if there is none. NULL: there are too
 * many. */
static struct active *take_active(struct dist_scrape_pool *targets, struct dist_target *target,
                                  const char *group, bool trusted)
{
    size_t at = find_active(targets, target->hash);
    struct active *active;

    if (at < targets->n_active && targets->active[at]->target->hash == target->hash) {
        active = targets->active[at];
    } else {
        if (targets->n_active >= targets->config.targets_max)
            return NULL;
        active = active_start(targets, target, group, trusted);
        make_room(&targets->active, &targets->n_active, &targets->cap_active, at);
        targets->active[at] = active;
    }
    active->refs++;
    return active;
}

/* ---- groups ---- */

static void show_counts(const struct dist_scrape_pool *targets)
{
    struct fg_metrics *metrics = targets->config.context->metrics;

    fg_metric_set(metrics, SCRAPE_TARGETS, (int64_t)targets->n_active);
    fg_metric_set(metrics, SCRAPE_DROPPED, (int64_t)targets->n_dropped);
    fg_metric_set(metrics, SCRAPE_ELSEWHERE, (int64_t)targets->n_elsewhere);
}

static const char too_many[] = "scrape.targets_max reached";
static const char by_rules[] = "dropped by scrape.relabel";

/* Destroys a group and takes it out of the sums. Targets that other groups have, too, live on. */
static void group_destroy(struct dist_scrape_pool *targets, struct targets_group *group)
{
    for (size_t i = 0; i < group->n_active; i++) {
        fg_assert(group->active[i]->refs > 0);
        if (--group->active[i]->refs == 0)
            active_end(targets, group->active[i]);
    }
    fg_assert(targets->n_dropped >= group->n_dropped && targets->n_shown >= group->n_shown &&
              targets->n_elsewhere >= group->n_elsewhere);
    targets->n_dropped -= group->n_dropped;
    targets->n_shown -= group->n_shown;
    targets->n_elsewhere -= group->n_elsewhere;
    fg_arena_destroy(group->arena);
    free(group->dropped);
    free(group->active);
    free(group->name);
    free(group);
    show_counts(targets);
}

/* Keeps a copy for the status page. Returns false if there is no room. */
static bool keep_dropped(struct targets_group *group, const struct fg_labels *discovered,
                         const char *why)
{
    struct dropped *dropped;
    struct fg_label *items;

    if (group->arena == NULL)
        group->arena = fg_arena_create(DROPPED_MAX_BYTES);
    items = fg_arena_new(group->arena, struct fg_label, discovered->count);
    why = fg_arena_text(group->arena, fg_cstr(why));
    for (size_t i = 0; items != NULL && i < discovered->count; i++) {
        items[i].name = fg_arena_copy(group->arena, discovered->items[i].name);
        items[i].value = fg_arena_copy(group->arena, discovered->items[i].value);
        if (items[i].name.ptr == NULL || items[i].value.ptr == NULL)
            return false;
    }
    if (items == NULL || why == NULL)
        return false;
    group->dropped = fg_realloc(group->dropped, (group->n_shown + 1) * sizeof *group->dropped);
    dropped = &group->dropped[group->n_shown++];
    *dropped = (struct dropped){{items, discovered->count}, why};
    return true;
}

static void drop_target(struct dist_scrape_pool *targets, struct targets_group *group,
                        const struct fg_labels *discovered, const char *why)
{
    group->n_dropped++;
    /* By address: by_rules is one object. */
    group->n_wrong += why != by_rules;
    targets->n_dropped++;
    if (targets->n_shown < DROPPED_SHOWN_MAX && keep_dropped(group, discovered, why))
        targets->n_shown++;
}

static const char *first_wrong(const struct targets_group *group)
{
    for (size_t i = 0; i < group->n_shown; i++)
        if (strcmp(group->dropped[i].why, by_rules) != 0)
            return group->dropped[i].why;
    return "see /targets";
}

static void add_target(struct dist_scrape_pool *targets, struct targets_group *group,
                       const struct fg_labels *discovered, bool trusted)
{
    const struct dist_scrape_pool_config *config = &targets->config;
    struct dist_target *target;
    struct active *active;
    struct fg_err err;

    if (dist_target_create(discovered, &config->target, &target, &err) != FG_OK) {
        drop_target(targets, group, discovered, err.msg);
        return;
    }
    if (target == NULL) {
        drop_target(targets, group, discovered, by_rules);
        return;
    }
    /* After the target is made: its hash, which says whose it is, needs all of it. */
    if (!dist_target_is_ours(target->hash, config->share_index, config->share_count)) {
        group->n_elsewhere++;
        targets->n_elsewhere++;
    } else if ((active = take_active(targets, target, group->name, trusted)) != NULL) {
        group->active[group->n_active++] = active;
    } else {
        drop_target(targets, group, discovered, too_many);
    }
    dist_target_unref(target);
}

void dist_scrape_pool_update(struct dist_scrape_pool *targets, const char *name,
                             const struct dist_discovered *discovered, bool trusted)
{
    size_t at = find_group(targets, name);
    bool is_known = is_group_at(targets, at, name);
    size_t n_wrong_before = is_known ? targets->groups[at]->n_wrong : 0;
    struct targets_group *group = fg_new(struct targets_group);

    group->name = fg_strdup(name);
    group->active = fg_calloc(discovered->n_targets, sizeof(struct active *));
    for (size_t i = 0; i < discovered->n_targets; i++) {
        /* Beyond the limit not even a target is made: a source with a million entries would hold up
         * the loop. */
        if (i < targets->config.targets_max)
            add_target(targets, group, &discovered->targets[i], trusted);
        else
            drop_target(targets, group, &discovered->targets[i], too_many);
    }
    /* Only if there are more than before: the API reports the same pod again with each change. */
    if (group->n_wrong > n_wrong_before)
        fg_log_warn("targets dropped", fg_ls("group", group->name),
                    fg_lu("targets", group->n_wrong), fg_ls("why", first_wrong(group)));
    /* The old group goes after the new one has come: targets of both keep a reference, so their
     * scrapes are not interrupted. */
    if (is_known)
        group_destroy(targets, targets->groups[at]);
    else
        make_room(&targets->groups, &targets->n_groups, &targets->cap_groups, at);
    targets->groups[at] = group;
    show_counts(targets);
}

static void remove_at(struct dist_scrape_pool *targets, size_t at)
{
    struct targets_group *group = targets->groups[at];

    close_room(&targets->groups, &targets->n_groups, at);
    group_destroy(targets, group);
}

void dist_scrape_pool_remove(struct dist_scrape_pool *targets, const char *name)
{
    size_t at = find_group(targets, name);

    if (is_group_at(targets, at, name))
        remove_at(targets, at);
}

void dist_scrape_pool_mark(struct dist_scrape_pool *targets, const char *prefix)
{
    for (size_t i = 0; i < targets->n_groups; i++)
        if (fg_slice_starts(fg_cstr(targets->groups[i]->name), prefix))
            targets->groups[i]->marked = true;
}

void dist_scrape_pool_sweep(struct dist_scrape_pool *targets, const char *prefix)
{
    /* Backwards: remove_at() moves those behind it. */
    for (size_t i = targets->n_groups; i > 0; i--) {
        const struct targets_group *group = targets->groups[i - 1];

        if (group->marked && fg_slice_starts(fg_cstr(group->name), prefix))
            remove_at(targets, i - 1);
    }
}

void dist_scrape_pool_end(struct dist_scrape_pool *targets)
{
    while (targets->n_groups > 0)
        remove_at(targets, targets->n_groups - 1);
}

/* ---- life ---- */

struct dist_scrape_pool *dist_scrape_pool_create(const struct dist_scrape_pool_config *config)
{
    struct dist_scrape_pool *targets = fg_new(struct dist_scrape_pool);

    targets->config = *config;
    return targets;
}

void dist_scrape_pool_destroy(struct dist_scrape_pool *targets)
{
    if (targets == NULL)
        return;
    fg_assert(targets->n_groups == 0 && targets->n_active == 0);
    free(targets->active);
    free(targets->groups);
    free(targets);
}

/* ---- looking ---- */

static int cmp_active(const void *a, const void *b)
{
    const struct active *x = *(struct active *const *)a, *y = *(struct active *const *)b;
    int order = strcmp(x->group, y->group);

    return order != 0 ? order : strcmp(x->target->address, y->target->address);
}

void dist_scrape_pool_each(struct dist_scrape_pool *targets,
                           void (*each)(const struct dist_scrape_pool_view *view, void *arg),
                           void *arg)
{
    size_t n = targets->n_active;
    /* A copy in the order of the page; the array itself stays in the order of hashes. */
    struct active **sorted = fg_calloc(FG_MAX(n, 1), sizeof(struct active *));

    if (n > 0)
        memcpy(sorted, targets->active, n * sizeof(struct active *));
    qsort(sorted, n, sizeof(struct active *), cmp_active);
    for (size_t i = 0; i < n; i++)
        each(&(struct dist_scrape_pool_view){sorted[i]->group, sorted[i]->target,
                                             sorted[i]->scrapes, sorted[i]->target->n_endpoints},
             arg);
    free(sorted);
}

void dist_scrape_pool_each_dropped(struct dist_scrape_pool *targets,
                                   void (*each)(const struct dist_scrape_pool_dropped *dropped,
                                                void *arg),
                                   void *arg)
{
    for (size_t g = 0; g < targets->n_groups; g++) {
        const struct targets_group *group = targets->groups[g];

        for (size_t i = 0; i < group->n_shown; i++)
            each(&(struct dist_scrape_pool_dropped){group->name, &group->dropped[i].discovered,
                                                    group->dropped[i].why},
                 arg);
    }
}

struct dist_scrape_pool_counts dist_scrape_pool_count(const struct dist_scrape_pool *targets)
{
    return (struct dist_scrape_pool_counts){targets->n_active, targets->n_dropped,
                                            targets->n_elsewhere};
}
