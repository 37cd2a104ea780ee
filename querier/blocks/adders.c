#include "querier/blocks/adders.h"

void qry_adders_init(struct qry_adders *adders, const struct qry_reader *reader)
{
    *adders = (struct qry_adders){.reader = reader};
    fg_assert(pthread_mutex_init(&adders->lock, NULL) == 0);
}

static struct fg_task_group *task_group_of(const struct qry_reader *reader)
{
    return reader->question->snapshot->task_group;
}

void qry_adders_done(struct qry_adders *adders)
{
    fg_assert(adders->idle == NULL);
    (void)pthread_mutex_destroy(&adders->lock);
}

/* Of one who adds to all parts of the batch that have something to be read. */
static uint64_t sums_bytes(const struct qry_reader *reader)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (reader->batch[i].n_spans + reader->batch[i].n_fulls > 0)
            bytes += (uint64_t)reader->batch[i].entry->n_stacks * sizeof(uint64_t);
    return bytes;
}

void qry_adders_begin(struct qry_adders *adders)
{
    const struct qry_reader *reader = adders->reader;
    uint64_t max_bytes = reader->blocks->memory_max_bytes, sums = sums_bytes(reader);
    uint64_t used = fg_arena_used_bytes(reader->arena);
    uint64_t left = max_bytes - FG_MIN(max_bytes, used);
    uint64_t helpers = FG_MIN(left / 4, left - FG_MIN(left, sums)) / FG_MAX(sums, 1);

    helpers = FG_MIN(helpers, (uint64_t)FG_TASK_GROUP_HELPERS_MAX);
    adders->max_bytes = left;
    fg_arena_set_limit(reader->arena, max_bytes - FG_MIN(left, sums * (1 + helpers)));
    fg_task_group_limit(task_group_of(reader), (unsigned)helpers);
}

void qry_adders_end(struct qry_adders *adders)
{
    const struct qry_reader *reader = adders->reader;
    struct qry_adder *adder;

    while ((adder = adders->idle) != NULL) {
        adders->idle = adder->next;
        fg_block_samples_destroy(adder->samples);
        fg_arena_destroy(adder->arena);
        free(adder);
    }
    fg_arena_set_limit(reader->arena, reader->blocks->memory_max_bytes);
    fg_task_group_limit(task_group_of(reader), FG_TASK_GROUP_HELPERS_MAX);
}

static struct qry_adder *adder_create(const struct qry_adders *adders)
{
    struct qry_adder *adder = fg_new(struct qry_adder);

    adder->arena = fg_arena_create(adders->max_bytes);
    adder->samples = fg_block_samples_create(adders->reader->blocks->memory_max_bytes);
    return adder;
}

struct qry_adder *qry_adders_take(struct qry_adders *adders)
{
    struct qry_adder *adder;

    (void)pthread_mutex_lock(&adders->lock);
    adder = adders->idle;
    if (adder != NULL)
        adders->idle = adder->next;
    (void)pthread_mutex_unlock(&adders->lock);
    return adder != NULL ? adder : adder_create(adders);
}

void qry_adders_give(struct qry_adders *adders, struct qry_adder *adder)
{
    (void)pthread_mutex_lock(&adders->lock);
    adder->next = adders->idle;
    adders->idle = adder;
    (void)pthread_mutex_unlock(&adders->lock);
}

uint64_t *qry_adder_sums(struct qry_adder *adder, const struct qry_reader *reader,
                         const struct qry_part *part)
{
    size_t number = (size_t)(part - reader->batch);

    if (adder->sums == NULL)
        adder->sums = fg_arena_new(adder->arena, uint64_t *, reader->n_batch);
    if (adder->sums == NULL)
        return NULL;
    if (adder->sums[number] == NULL)
        adder->sums[number] = fg_arena_new(adder->arena, uint64_t, part->entry->n_stacks);
    return adder->sums[number];
}

static void add_sums(uint64_t *into, const uint64_t *sums, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        fg_value_sum(&into[i], sums[i]);
}

void qry_adders_join(const struct qry_adders *adders, struct qry_part *part)
{
    size_t number = (size_t)(part - adders->reader->batch);

    for (const struct qry_adder *at = adders->idle; at != NULL; at = at->next) {
        uint64_t *sums = at->sums == NULL ? NULL : at->sums[number];

        if (sums != NULL && part->sums != NULL)
            add_sums(part->sums, sums, part->entry->n_stacks);
        else if (sums != NULL)
            part->sums = sums;
    }
}
