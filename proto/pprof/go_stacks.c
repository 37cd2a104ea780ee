#include "proto/pprof/go_stacks.h"

#include "common/base/hash.h"
#include "common/base/map.h"

#include <stdlib.h>

/* Limits of Go's profilers. Some cut stacks lack up to four frames more: those of the profiler
 * itself are taken off. */
enum { CPU_FRAMES = 64, HEAP_FRAMES = 32, OWN_FRAMES = 4 };

enum { NO_GROUP = UINT32_MAX };

/* Stacks with the same suffix. */
struct suffix_group {
    uint32_t first, count; /* of completion.order */
    uint32_t above;        /* the group that has what this one lacks; NO_GROUP: it lacks nothing */
    uint32_t shift;        /* so many locations nearer to the root */
};

/* Where a token is furthest away from the root. */
struct token {
    const uint32_t *locations;
    uint32_t group, shift;
};

struct completion {
    struct fg_go_stack *stacks;
    uint32_t *order; /* of stacks that are deep enough: by suffix, the deepest first */
    struct suffix_group *groups;
    struct token *tokens;
    uint32_t n_order, n_groups, n_tokens;
    struct fg_map map; /* hash of a token -> its number */
    struct fg_arena *arena;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile's stacks need more memory than decoding may use");
}

static bool is_any(struct fg_slice text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fg_slice_is(text, names[i]))
            return true;
    return false;
}

uint32_t fg_go_cut_depth(const struct fg_batch *batch, uint32_t *ret_less_than)
{
    static const char *const heap[] = {"alloc_objects", "alloc_space", "inuse_objects",
                                       "inuse_space"};
    static const char *const cpu[] = {"cpu"};

    *ret_less_than = HEAP_FRAMES + 1;
    for (uint32_t i = 0; i < batch->n_types; i++)
        if (is_any(batch->types[i].type, heap, FG_COUNT(heap)))
            return HEAP_FRAMES - OWN_FRAMES;
    *ret_less_than = 0;
    for (uint32_t i = 0; i < batch->n_types; i++)
        if (is_any(batch->types[i].type, cpu, FG_COUNT(cpu)))
            return CPU_FRAMES - OWN_FRAMES;
    return 0;
}

/* The last n locations. */
static const uint32_t *last(const struct fg_go_stack *stack, uint32_t n)
{
    return stack->locations + stack->depth - n;
}

/* ---- groups ---- */

static int compare_suffixes(const uint32_t *a, const uint32_t *b)
{
    for (uint32_t i = 0; i < FG_GO_SUFFIX; i++) {
        uint64_t left = __builtin_bswap64((uint64_t)a[i] + 1);
        uint64_t right = __builtin_bswap64((uint64_t)b[i] + 1);

        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

static int compare_stacks(const void *a, const void *b, void *arg)
{
    const struct fg_go_stack *stacks = arg;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int order =
        compare_suffixes(last(&stacks[left], FG_GO_SUFFIX), last(&stacks[right], FG_GO_SUFFIX));

    if (order == 0) /* the deepest one is most likely to have what others lack */
        order =
            (stacks[left].depth < stacks[right].depth) - (stacks[left].depth > stacks[right].depth);
    return order != 0 ? order : (left > right) - (left < right);
}

static bool make_groups(struct completion *completion, uint32_t count)
{
    struct fg_go_stack *stacks = completion->stacks;
    const uint32_t *before = NULL;

    completion->order = fg_arena_new(completion->arena, uint32_t, count);
    if (completion->order == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (stacks[i].depth >= FG_GO_SUFFIX)
            completion->order[completion->n_order++] = i;
    qsort_r(completion->order, completion->n_order, sizeof *completion->order, compare_stacks,
            stacks);
    completion->groups = fg_arena_new(completion->arena, struct suffix_group, completion->n_order);
    if (completion->groups == NULL)
        return false;
    for (uint32_t i = 0; i < completion->n_order; i++) {
        const uint32_t *suffix = last(&stacks[completion->order[i]], FG_GO_SUFFIX);

        if (before == NULL || compare_suffixes(before, suffix) != 0)
            completion->groups[completion->n_groups++] = (struct suffix_group){i, 0, NO_GROUP, 0};
        completion->groups[completion->n_groups - 1].count++;
        before = suffix;
    }
    return true;
}

/* The first stack of a group: all have its suffix. */
static const struct fg_go_stack *stack_of(const struct completion *completion, uint32_t group)
{
    return &completion->stacks[completion->order[completion->groups[group].first]];
}

/* ---- what a group lacks ---- */

static uint64_t hash_of(const uint32_t *token)
{
    return fg_hash64_table(fg_bytes(token, FG_GO_TOKEN * sizeof *token));
}

static struct token *find_token(const struct completion *completion, const uint32_t *locations,
                                uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&completion->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&completion->map, &walk))
        if (memcmp(completion->tokens[i].locations, locations, FG_GO_TOKEN * sizeof *locations) ==
            0)
            return &completion->tokens[i];
    return NULL;
}

static void add_token(struct completion *completion, const struct token *token)
{
    uint64_t hash = hash_of(token->locations);
    struct token *found = find_token(completion, token->locations, hash);

    if (found == NULL) {
        /* Cannot fail: there is room for all of them. */
        fg_assert(fg_map_add_in(&completion->map, completion->arena, hash, completion->n_tokens));
        completion->tokens[completion->n_tokens++] = *token;
    } else if (token->shift > found->shift) {
        *found = *token;
    }
}

static bool find_above(struct completion *completion)
{
    uint32_t most = completion->n_groups * FG_GO_SHIFT_MAX;

    completion->tokens = fg_arena_new(completion->arena, struct token, most);
    if (completion->tokens == NULL || !fg_map_reserve_in(&completion->map, completion->arena, most))
        return false;
    for (uint32_t i = 0; i < completion->n_groups; i++)
        for (uint32_t shift = 1; shift <= FG_GO_SHIFT_MAX; shift++)
            add_token(
                completion,
                &(struct token){last(stack_of(completion, i), FG_GO_TOKEN + shift), i, shift});
    for (uint32_t i = 0; i < completion->n_groups; i++) {
        const uint32_t *root = last(stack_of(completion, i), FG_GO_TOKEN);
        const struct token *found = find_token(completion, root, hash_of(root));

        if (found != NULL && found->group != i) {
            completion->groups[i].above = found->group;
            completion->groups[i].shift = found->shift;
        }
    }
    return true;
}

/* ---- completing ---- */

static bool lengthen(struct completion *completion, const struct suffix_group *group,
                     const uint32_t *more, uint32_t n)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct fg_go_stack *stack = &completion->stacks[completion->order[group->first + i]];
        uint32_t *longer = fg_arena_new(completion->arena, uint32_t, stack->depth + n);

        if (longer == NULL)
            return false;
        memcpy(longer, stack->locations, stack->depth * sizeof *longer);
        memcpy(longer + stack->depth, more, n * sizeof *longer);
        *stack = (struct fg_go_stack){longer, stack->depth + n};
    }
    return true;
}

enum fg_code fg_go_complete(struct fg_go_stack *stacks, uint32_t count, struct fg_arena *arena,
                            uint32_t *ret_completed, struct fg_err *err)
{
    struct completion completion = {.stacks = stacks, .arena = arena};
    uint32_t completed = 0;

    if (count > 0 && (!make_groups(&completion, count) || !find_above(&completion)))
        return too_large(err);
    for (uint32_t i = 0; i < completion.n_groups; i++) {
        const struct suffix_group *group = &completion.groups[i];
        uint32_t top = i, n = 0, steps = 0;

        while (completion.groups[top].above != NO_GROUP && steps <= FG_GO_CHAIN_MAX) {
            n += completion.groups[top].shift;
            top = completion.groups[top].above;
            steps++;
        }
        if (steps > FG_GO_CHAIN_MAX)
            break;
        /* The group at the end of the chain lacks nothing, so its stacks are as they came. They may
         * have less than is wanted. */
        if (n == 0 || n >= stack_of(&completion, top)->depth)
            continue;
        if (!lengthen(&completion, group, last(stack_of(&completion, top), n), n))
            return too_large(err);
        completed += group->count;
    }
    *ret_completed = completed;
    return FG_OK;
}
