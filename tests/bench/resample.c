#include "tests/bench/resample.h"

#include <math.h>
#include <stdlib.h>

enum {
    RARE_MAX = 16 * 1024 * 1024, /* of the list; what lies behind is drawn again */
    DEPTH_MAX = 120,
    LINES_NEAR = 40,
    DIGITS = 4, /* of a byte each, to sort by */
};

#define DRAWN_RARE (UINT32_C(1) << 31) /* a number of the list, not a node */

/* What follows a location in real stacks. */
struct follow {
    uint32_t from, to;
};

struct resample {
    struct fg_tree tree;
    uint32_t *stacks; /* real ones, as nodes */
    uint64_t *weights, *sums;
    uint32_t n_stacks, cap_stacks;
    struct follow *follows; /* sorted by from; as often as they were seen */
    uint32_t n_follows, cap_follows;
    uint32_t *rare; /* node of rare stack k; 0xffffffff: not made yet */
    bool ready;
    uint32_t *sorting; /* room for as many as are drawn at once */
    uint32_t cap_sorting;
};

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*state);
}

static double next_unit(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

struct resample *resample_create(void)
{
    struct resample *resample = fg_new(struct resample);

    fg_tree_init(&resample->tree);
    return resample;
}

void resample_destroy(struct resample *resample)
{
    fg_tree_done(&resample->tree);
    free(resample->stacks);
    free(resample->weights);
    free(resample->sums);
    free(resample->follows);
    free(resample->rare);
    free(resample->sorting);
    free(resample);
}

/* ---- learning ---- */

static uint32_t learn_location(struct resample *resample, const struct fg_batch *batch, uint32_t at)
{
    struct fg_symbols *symbols = &resample->tree.symbols;
    const struct fg_batch_location *from = &batch->locations[at];
    struct fg_location location = {.address = from->address,
                                   .mapping = FG_NO_MAPPING,
                                   .n_lines = from->n_lines,
                                   .folded = from->folded};
    struct fg_line lines[64];

    fg_assert(from->n_lines <= FG_COUNT(lines));
    if (from->mapping != FG_NO_MAPPING) {
        const struct fg_batch_mapping *m = &batch->mappings[from->mapping];
        struct fg_mapping mapping = {.start = m->start,
                                     .limit = m->limit,
                                     .offset = m->offset,
                                     .filename = fg_symbols_string(symbols, m->filename),
                                     .build_id = fg_symbols_string(symbols, m->build_id),
                                     .flags = m->flags};

        location.mapping = fg_symbols_mapping(symbols, &mapping);
    }
    for (uint32_t i = 0; i < from->n_lines; i++) {
        const struct fg_line *line = &batch->lines[from->first_line + i];
        const struct fg_batch_function *f = &batch->functions[line->function];
        struct fg_function function = {.name = fg_symbols_string(symbols, f->name),
                                       .system_name = fg_symbols_string(symbols, f->system_name),
                                       .filename = fg_symbols_string(symbols, f->filename),
                                       .start_line = f->start_line};

        lines[i] = (struct fg_line){fg_symbols_function(symbols, &function), line->line};
    }
    return fg_symbols_location(symbols, &location, lines);
}

static void learn_follow(struct resample *resample, uint32_t from, uint32_t to)
{
    if (resample->n_follows == resample->cap_follows) {
        resample->cap_follows = FG_MAX(1024, resample->cap_follows * 2);
        resample->follows =
            fg_realloc(resample->follows, resample->cap_follows * sizeof *resample->follows);
    }
    resample->follows[resample->n_follows++] = (struct follow){from, to};
}

static uint32_t add_stack(struct resample *resample, const struct fg_batch *batch,
                          const struct fg_stack *stack, bool follows)
{
    uint32_t node = FG_TREE_ROOT, before = FG_MAP_NONE;

    for (uint32_t i = stack->depth; i-- > 0;) {
        uint32_t location =
            learn_location(resample, batch, batch->stack_locations[stack->first + i]);

        if (follows && before != FG_MAP_NONE)
            learn_follow(resample, before, location);
        node = fg_tree_child(&resample->tree, node, location);
        before = location;
    }
    return node;
}

uint32_t resample_stack(struct resample *resample, const struct fg_batch *batch,
                        const struct fg_stack *stack)
{
    return add_stack(resample, batch, stack, false) + 1;
}

static void learn_stack(struct resample *resample, const struct fg_batch *batch,
                        const struct fg_stack *stack, uint64_t weight)
{
    uint32_t node = add_stack(resample, batch, stack, true);

    if (node == FG_TREE_ROOT)
        return;
    if (resample->n_stacks == resample->cap_stacks) {
        resample->cap_stacks = FG_MAX(1024, resample->cap_stacks * 2);
        resample->stacks =
            fg_realloc(resample->stacks, resample->cap_stacks * sizeof *resample->stacks);
        resample->weights =
            fg_realloc(resample->weights, resample->cap_stacks * sizeof *resample->weights);
    }
    resample->stacks[resample->n_stacks] = node;
    resample->weights[resample->n_stacks++] = FG_MAX(weight, 1);
}

void resample_learn(struct resample *resample, const struct fg_batch *batch)
{
    fg_assert(!resample->ready);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];

        for (uint32_t i = 0; i < profile->n_samples; i++)
            learn_stack(resample, batch, &batch->stacks[profile->stacks[i]],
                        (uint64_t)profile->values[i]);
    }
}

static int by_from(const void *a, const void *b)
{
    const struct follow *left = a, *right = b;

    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

static void make_ready(struct resample *resample)
{
    uint64_t sum = 0;

    fg_assert(resample->n_stacks > 0);
    qsort(resample->follows, resample->n_follows, sizeof *resample->follows, by_from);
    resample->sums = fg_malloc(resample->n_stacks * sizeof *resample->sums);
    for (uint32_t i = 0; i < resample->n_stacks; i++)
        resample->sums[i] = sum += resample->weights[i];
    resample->rare = fg_malloc(RARE_MAX * sizeof *resample->rare);
    memset(resample->rare, 0xff, RARE_MAX * sizeof *resample->rare);
    resample->ready = true;
}

/* ---- drawing ---- */

static uint32_t real_stack(const struct resample *resample, uint64_t *random)
{
    uint64_t at = next_random(random) % resample->sums[resample->n_stacks - 1];
    uint32_t from = 0, to = resample->n_stacks;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (resample->sums[mid] <= at)
            from = mid + 1;
        else
            to = mid;
    }
    return resample->stacks[from];
}

/* Another line of the location's innermost function; no longer inlined anything. */
static uint32_t other_line(struct resample *resample, uint32_t location, uint64_t *random)
{
    struct fg_symbols *symbols = &resample->tree.symbols;
    struct fg_location at = symbols->locations[location];
    struct fg_line lines[64];

    if (at.n_lines == 0 || at.n_lines > FG_COUNT(lines))
        return location;
    memcpy(lines, symbols->lines + at.first_line, at.n_lines * sizeof *lines);
    lines[0].line = symbols->functions[lines[0].function].start_line +
                    (int64_t)(next_random(random) % LINES_NEAR);
    return fg_symbols_location(symbols, &at, lines);
}

/* What some real stack had after this location; FG_MAP_NONE: it was always the last. */
static uint32_t follow(const struct resample *resample, uint32_t location, uint64_t *random)
{
    uint32_t from = 0, to = resample->n_follows, end;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (resample->follows[mid].from < location)
            from = mid + 1;
        else
            to = mid;
    }
    for (end = from; end < resample->n_follows && resample->follows[end].from == location;)
        end++;
    if (end == from)
        return FG_MAP_NONE;
    return resample->follows[from + next_random(random) % (end - from)].to;
}

static uint32_t make_rare(struct resample *resample, uint32_t number)
{
    struct fg_tree *tree = &resample->tree;
    uint64_t random = fg_mix64(number + 1);
    uint32_t path[DEPTH_MAX], depth = 0, keep, node, location;

    for (uint32_t at = real_stack(resample, &random); at != FG_TREE_ROOT; at = tree->parents[at])
        if (depth < DEPTH_MAX)
            path[depth++] = at;
    fg_assert(depth > 0);
    keep = depth / 2 + (uint32_t)(next_random(&random) % (depth - depth / 2)); /* from the root */
    node = keep == 0 ? FG_TREE_ROOT : path[depth - keep];
    location = tree->locations[path[depth - FG_MAX(keep, 1)]];
    for (; depth < DEPTH_MAX; depth++) {
        uint32_t next = follow(resample, location, &random), shown;

        if (next == FG_MAP_NONE)
            break;
        shown = next_random(&random) % 10 < 3 ? other_line(resample, next, &random) : next;
        node = fg_tree_child(tree, node, shown);
        location = next;
        if (next_random(&random) % 8 == 0)
            break;
    }
    return node == FG_TREE_ROOT ? path[0] : node;
}

/* A node, or DRAWN_RARE and the number of a rare stack, which is on its way from memory then. */
static uint32_t draw_one(const struct resample *resample, uint64_t *random)
{
    uint32_t number;

    if (next_unit(random) < 0.15)
        return real_stack(resample, random);
    do {
        double k = 4500 * (pow(1 - next_unit(random), -1 / 0.6) - 1);

        number = k < RARE_MAX ? (uint32_t)k : RARE_MAX;
    } while (number >= RARE_MAX);
    __builtin_prefetch(&resample->rare[number]);
    return number | DRAWN_RARE;
}

static uint32_t rare_stack(struct resample *resample, uint32_t number)
{
    if (resample->rare[number] == UINT32_MAX)
        resample->rare[number] = make_rare(resample, number);
    return resample->rare[number];
}

/* By digits, the least first: a quarter of what comparing costs. */
static void sort(struct resample *resample, uint32_t *stacks, uint32_t count)
{
    uint32_t *from = stacks, *to;

    if (count > resample->cap_sorting) {
        resample->cap_sorting = count;
        resample->sorting = fg_realloc(resample->sorting, count * sizeof *resample->sorting);
    }
    to = resample->sorting;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t ends[257] = {0}, *swap = from;

        for (uint32_t i = 0; i < count; i++)
            ends[1 + (from[i] >> 8 * digit & 255)]++;
        for (uint32_t i = 1; i < FG_COUNT(ends); i++)
            ends[i] += ends[i - 1];
        for (uint32_t i = 0; i < count; i++)
            to[ends[from[i] >> 8 * digit & 255]++] = from[i];
        from = to;
        to = swap;
    }
}

uint32_t resample_draw(struct resample *resample, uint64_t seed, uint32_t ticks, uint32_t *stacks,
                       uint64_t *counts)
{
    uint64_t random = fg_mix64(seed);
    uint32_t n = 0;

    if (!resample->ready)
        make_ready(resample);
    for (uint32_t i = 0; i < ticks; i++)
        stacks[i] = draw_one(resample, &random);
    for (uint32_t i = 0; i < ticks; i++)
        stacks[i] = 1 + (stacks[i] >= DRAWN_RARE ? rare_stack(resample, stacks[i] - DRAWN_RARE)
                                                 : stacks[i]);
    sort(resample, stacks, ticks);
    for (uint32_t i = 0; i < ticks; i++) {
        if (n > 0 && stacks[n - 1] == stacks[i]) {
            counts[n - 1]++;
        } else {
            stacks[n] = stacks[i];
            counts[n++] = 1;
        }
    }
    return n;
}

const struct fg_tree *resample_tree(const struct resample *resample)
{
    return &resample->tree;
}
