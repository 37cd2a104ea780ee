#include "querier/blocks/accumulators.h"

void qry_accumulators_init(struct qry_accumulators *accumulators, const struct qry_reader *reader)
{
    *accumulators = (struct qry_accumulators){.reader = reader};
    /* Protects `idle`: tasks on several threads take and give accumulators. */
    fg_assert(pthread_mutex_init(&accumulators->lock, NULL) == 0);
}

static struct fg_task_group *task_group_of(const struct qry_reader *reader)
{
    return reader->query->snapshot->task_group;
}

void qry_accumulators_done(struct qry_accumulators *accumulators)
{
    fg_assert(accumulators->idle == NULL);
    (void)pthread_mutex_destroy(&accumulators->lock);
}

/* Returns the bytes of an accumulator that adds to all parts of the batch. */
static uint64_t sums_bytes(const struct qry_reader *reader)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (reader->batch[i].n_spans + reader->batch[i].n_fulls > 0)
            bytes += (uint64_t)reader->batch[i].entry->n_stacks * sizeof(uint64_t);
    return bytes;
}

void qry_accumulators_begin(struct qry_accumulators *accumulators)
{
    const struct qry_reader *reader = accumulators->reader;
    uint64_t max_bytes = reader->blocks->memory_max_bytes, sums = sums_bytes(reader);
    uint64_t used = fg_arena_used_bytes(reader->arena);
    uint64_t left = max_bytes - FG_MIN(max_bytes, used);
    /* Helpers get a quarter of what is left at most, and nothing of what the query's own
     * accumulator needs. */
    uint64_t helpers = FG_MIN(left / 4, left - FG_MIN(left, sums)) / FG_MAX(sums, 1);

    /* One accumulator is for the query's own thread; each helper needs a further one. With little
     * memory there are no helpers, and the query is slower instead of failing. */
    helpers = FG_MIN(helpers, (uint64_t)FG_TASK_GROUP_HELPERS_MAX);
    accumulators->max_bytes = left;
    /* What accumulators may take is taken from the reader's arena, so that both together keep to
     * the limit of a query. */
    fg_arena_set_limit(reader->arena, max_bytes - FG_MIN(left, sums * (1 + helpers)));
    fg_task_group_limit(task_group_of(reader), (unsigned)helpers);
}

void qry_accumulators_end(struct qry_accumulators *accumulators)
{
    const struct qry_reader *reader = accumulators->reader;
    struct qry_accumulator *accumulator;

    while ((accumulator = accumulators->idle) != NULL) {
        accumulators->idle = accumulator->next;
        fg_block_samples_destroy(accumulator->samples);
        fg_arena_destroy(accumulator->arena);
        free(accumulator);
    }
    fg_arena_set_limit(reader->arena, reader->blocks->memory_max_bytes);
    fg_task_group_limit(task_group_of(reader), FG_TASK_GROUP_HELPERS_MAX);
}

struct qry_accumulator *qry_accumulators_take(struct qry_accumulators *accumulators)
{
    struct qry_accumulator *accumulator;

    (void)pthread_mutex_lock(&accumulators->lock);
    accumulator = accumulators->idle;
    if (accumulator != NULL)
        accumulators->idle = accumulator->next;
    (void)pthread_mutex_unlock(&accumulators->lock);
    if (accumulator == NULL) {
        accumulator = fg_new(struct qry_accumulator);
        accumulator->arena = fg_arena_create(accumulators->max_bytes);
        accumulator->samples =
            fg_block_samples_create(accumulators->reader->blocks->memory_max_bytes);
    }
    return accumulator;
}

void qry_accumulators_give(struct qry_accumulators *accumulators,
                           struct qry_accumulator *accumulator)
{
    (void)pthread_mutex_lock(&accumulators->lock);
    accumulator->next = accumulators->idle;
    accumulators->idle = accumulator;
    (void)pthread_mutex_unlock(&accumulators->lock);
}

uint64_t *qry_accumulator_sums(struct qry_accumulator *accumulator, const struct qry_reader *reader,
                               const struct qry_part *part)
{
    size_t number = (size_t)(part - reader->batch);

    /* Made when they are first used: a helper may see pages of few parts only. */
    if (accumulator->sums == NULL)
        accumulator->sums = fg_arena_new(accumulator->arena, uint64_t *, reader->n_batch);
    if (accumulator->sums == NULL)
        return NULL;
    if (accumulator->sums[number] == NULL)
        accumulator->sums[number] =
            fg_arena_new(accumulator->arena, uint64_t, part->entry->n_stacks);
    return accumulator->sums[number];
}

void qry_accumulators_join(const struct qry_accumulators *accumulators, struct qry_part *part)
{
    size_t number = (size_t)(part - accumulators->reader->batch);

    /* Without the lock: all pages were added before, so no task takes or gives accumulators now. */
    for (const struct qry_accumulator *at = accumulators->idle; at != NULL; at = at->next) {
        uint64_t *sums = at->sums == NULL ? NULL : at->sums[number];

        if (part->sums == NULL) {
            part->sums = sums; /* those of the first become the part's */
            continue;
        }
        for (uint32_t i = 0; sums != NULL && i < part->entry->n_stacks; i++)
            fg_value_sum(&part->sums[i], sums[i]);
    }
}
