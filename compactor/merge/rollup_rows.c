#include "common/storage/rollup/crown.h"
#include "compactor/merge/rollup_impl.h"

enum {
    /* A crown takes 0.85 to 1.1 bytes a node. The estimate is 3/4 byte, so no crown is skipped
     * that would be worth its bytes. */
    CROWN_NODE_BYTES = 3,
    CROWN_NODE_SHARE = 4,
    ZERO_ROW_BYTES = 8, /* of a row that says there is nothing, packed */
    /* Small rollups. A sample has at most about 4 nodes of its own; a node takes two bytes in
     * crown, dictionary and totals; 8 nodes are visited in the time in which a sample is
     * written. Below: bytes of a stack and of a tree's node as stored. */
    SMALL_NODES = 4,
    SMALL_NODE_BYTES = 2,
    SMALL_NODES_A_SAMPLE = 8,
    STACK_BYTES = 2,
    TREE_NODE_BYTES = 1,
};

/* ---- rows ---- */

static bool has_column(const struct cmp_making *making, uint32_t series, uint32_t column)
{
    const struct fg_block_series *from = &making->input->series[series];

    for (uint32_t t = 0; t < from->n_types; t++)
        if (making->series[series].types[t] == making->columns[column])
            return true;
    return false;
}

static bool is_of(const struct cmp_making *making, uint32_t series, const struct fg_rollup_key *key)
{
    return key->kind == FG_ROLLUP_ALL ||
           (key->kind == FG_ROLLUP_GROUP && making->series[series].group == key->number) ||
           (key->kind == FG_ROLLUP_SERIES && series == key->number);
}

void cmp_rollup_count_series(const struct cmp_making *making, uint32_t series,
                             struct cmp_stretch stretch, struct cmp_counted *sum)
{
    for (uint32_t b = stretch.from; b < stretch.to; b++) {
        const struct cmp_counted *counted = &making->series[series].buckets[b];

        sum->profiles += counted->profiles;
        sum->samples += counted->samples;
        sum->digest = fg_id_add(sum->digest, counted->digest);
    }
}

static struct cmp_counted count_key(const struct cmp_making *making,
                                    const struct fg_rollup_key *key, struct cmp_stretch stretch,
                                    uint32_t column)
{
    struct cmp_counted sum = {0};
    bool one = key->kind == FG_ROLLUP_SERIES;

    for (uint32_t i = one ? key->number : 0; i < (one ? key->number + 1 : making->input->n_series);
         i++)
        if (is_of(making, i, key) && has_column(making, i, column))
            cmp_rollup_count_series(making, i, stretch, &sum);
    return sum;
}

static uint64_t bytes_of(const struct cmp_making *making, uint64_t samples)
{
    return (uint64_t)((double)samples * (double)making->samples_bytes /
                      (double)FG_MAX(making->samples, 1));
}

/* True if a crown of so many samples could be worth the bytes that it saves. Asked first,
 * because building a crown takes longer. */
static bool is_promising(const struct cmp_making *making, uint64_t samples)
{
    uint64_t nodes = FG_MIN(FG_MIN(samples / 2, making->names->n_nodes), FG_CROWN_NODES);

    return fg_rollup_worth(nodes * CROWN_NODE_BYTES / CROWN_NODE_SHARE, bytes_of(making, samples));
}

/* True if a row that says "no profiles" is worth its bytes: only in daily blocks, where such
 * rows are few compared with the samples. */
static bool says_nothing(const struct cmp_making *making, const struct fg_rollup_key *key,
                         uint32_t column)
{
    const struct fg_rollup_key all = {.kind = FG_ROLLUP_ALL};
    uint64_t rows = making->n_buckets + (uint64_t)making->n_middles * (1 + making->n_groups);
    struct cmp_counted counted;

    if (key->kind == FG_ROLLUP_SERIES || making->n_middles == 1)
        return false;
    counted = count_key(making, &all, cmp_rollup_whole(making), column);
    return fg_rollup_worth(rows * ZERO_ROW_BYTES, bytes_of(making, counted.samples));
}

/* ---- small ones ---- */

/* A query that reads even a few profiles needs all stacks of the part, and a filter that matches
 * a small group reads the part for that group alone. So groups and series whose own samples do
 * not justify a rollup get one if all of them together cost less than the part's bytes and the
 * time to read it. */
struct small {
    uint64_t rows, bytes;
};

/* Estimates the stored bytes of the part that a query reads: samples and stacks. */
static uint64_t part_bytes(const struct cmp_making *making)
{
    return making->samples_bytes + (uint64_t)making->input->tree->n_nodes * TREE_NODE_BYTES +
           (uint64_t)making->n_ranks * STACK_BYTES;
}

/* Estimates the most that a rollup of so many samples takes. */
static uint64_t most_bytes(const struct cmp_making *making, uint64_t samples)
{
    uint64_t nodes = FG_MIN(making->names->n_nodes, FG_CROWN_NODES);

    return FG_MIN(nodes, samples * SMALL_NODES) * SMALL_NODE_BYTES;
}

static bool is_small(const struct cmp_making *making, uint64_t samples)
{
    return !fg_rollup_worth(most_bytes(making, samples), bytes_of(making, samples));
}

static void add_small(const struct cmp_making *making, struct fg_rollup_key key,
                      struct cmp_stretch stretch, struct small *small)
{
    for (uint32_t c = 0; c < making->n_columns; c++) {
        struct cmp_counted counted = count_key(making, &key, stretch, c);

        if (counted.profiles == 0 || !is_small(making, counted.samples))
            continue;
        small->rows++;
        small->bytes += most_bytes(making, counted.samples);
    }
}

static bool are_worth_it(const struct cmp_making *making, const struct small *small)
{
    return fg_rollup_worth(small->bytes, part_bytes(making)) &&
           small->rows * making->names->n_nodes <= making->samples * SMALL_NODES_A_SAMPLE;
}

void cmp_rollup_judge_small(struct cmp_making *making)
{
    struct fg_rollup_key key = {.kind = FG_ROLLUP_GROUP};
    struct small small = {0, 0};

    for (; key.number < making->n_groups && making->n_groups > 1; key.number++) {
        add_small(making, key, cmp_rollup_whole(making), &small);
        for (uint32_t m = 0; m < making->n_middles && making->n_middles > 1; m++)
            add_small(making, key, cmp_rollup_middle(making, m), &small);
    }
    making->small_groups = are_worth_it(making, &small);
    key = (struct fg_rollup_key){.kind = FG_ROLLUP_SERIES};
    for (; key.number < making->input->n_series; key.number++)
        add_small(making, key, cmp_rollup_whole(making), &small);
    making->small_series = are_worth_it(making, &small);
}

uint64_t cmp_rollup_replaced_bytes(const struct cmp_making *making, enum fg_rollup_kind kind,
                                   uint64_t samples)
{
    uint64_t bytes = bytes_of(making, samples);

    if (is_small(making, samples) && ((kind == FG_ROLLUP_GROUP && making->small_groups) ||
                                      (kind == FG_ROLLUP_SERIES && making->small_series)))
        return part_bytes(making);
    return is_promising(making, samples) ? bytes : 0;
}

/* ---- rows that are kept ---- */

enum fg_code cmp_rollup_add_row(struct cmp_making *making, struct fg_rollup_key key,
                                struct cmp_stretch stretch, const int64_t *self,
                                const uint64_t *full, struct fg_err *err)
{
    struct fg_rollup_value values[ROLLUP_TYPES_MAX];
    uint32_t n = 0;

    key.start_ns = cmp_rollup_bucket_start_ns(making, stretch.from);
    key.end_ns = cmp_rollup_bucket_start_ns(making, stretch.to);
    for (uint32_t c = 0; c < making->n_columns; c++) {
        struct cmp_counted counted = count_key(making, &key, stretch, c);
        uint64_t bytes = cmp_rollup_replaced_bytes(making, key.kind, counted.samples);

        if (counted.profiles == 0 ? !says_nothing(making, &key, c) : bytes == 0)
            continue;
        values[n++] = (struct fg_rollup_value){
            .type = making->columns[c],
            .self = self + c * making->stride,
            .full = full == NULL ? NULL : full + (size_t)c * making->n_ranks,
            .count = counted.profiles,
            .digest = counted.digest,
            .replaces_bytes = bytes,
        };
    }
    if (n == 0 || fg_rollup_add(making->writer, &key, values, n, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_LIMIT)
        return err->code;
    making->left_out = true; /* more rows than there may be */
    return FG_OK;
}
