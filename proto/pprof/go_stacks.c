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
    uint32_t last;  /* of its stacks; completion.before has the others */
    uint32_t stack; /* the deepest, of equal ones the first: most likely has what others lack */
    uint32_t count;
    uint32_t above; /* the group that has what this one lacks; NO_GROUP: it lacks nothing */
    uint32_t shift; /* so many locations nearer to the root */
};

/* Where a token is furthest away from the root. */
struct token {
    const uint32_t *locations;
    uint32_t group, shift;
};

struct completion {
    struct fg_go_stack *stacks;
    uint32_t *before;            /* [stack]: the one before it in its group */
    struct suffix_group *groups; /* ascending by suffix */
    struct token *tokens;
    uint32_t n_groups, n_tokens;
    struct fg_map by_suffix; /* hash of a suffix -> group, before they are sorted */
    struct fg_map map;       /* hash of a token -> its number */
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

static const uint32_t *suffix_of(const struct completion *completion,
                                 const struct suffix_group *group)
{
    return last(&completion->stacks[group->stack], FG_GO_SUFFIX);
}

/* Orders by ids, which are the locations' numbers plus one, as little-endian bytes. */
static int compare_groups(const void *a, const void *b, void *arg)
{
    const uint32_t *left = suffix_of(arg, a), *right = suffix_of(arg, b);

    for (uint32_t i = 0; i < FG_GO_SUFFIX; i++) {
        uint64_t x = __builtin_bswap64((uint64_t)left[i] + 1);
        uint64_t y = __builtin_bswap64((uint64_t)right[i] + 1);

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

/* Returns the group of a stack, which is added if it is new. */
static struct suffix_group *group_of(struct completion *completion, uint32_t stack)
{
    const uint32_t *suffix = last(&completion->stacks[stack], FG_GO_SUFFIX);
    uint64_t hash = fg_hash64_table(fg_bytes(suffix, FG_GO_SUFFIX * sizeof *suffix));
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&completion->by_suffix, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&completion->by_suffix, &walk))
        if (memcmp(suffix_of(completion, &completion->groups[i]), suffix,
                   FG_GO_SUFFIX * sizeof *suffix) == 0)
            return &completion->groups[i];
    /* Cannot fail: there is room for all of them. */
    fg_assert(fg_map_add_in(&completion->by_suffix, completion->arena, hash, completion->n_groups));
    completion->groups[completion->n_groups] =
        (struct suffix_group){.stack = stack, .above = NO_GROUP};
    return &completion->groups[completion->n_groups++];
}

/* Stacks are grouped before groups are sorted: of hundreds of stacks most have the suffix of
 * another one, and to compare these takes longest. */
static bool make_groups(struct completion *completion, uint32_t count)
{
    const struct fg_go_stack *stacks = completion->stacks;

    completion->before = fg_arena_new(completion->arena, uint32_t, count);
    completion->groups = fg_arena_new(completion->arena, struct suffix_group, count);
    if (completion->before == NULL || completion->groups == NULL ||
        !fg_map_reserve_in(&completion->by_suffix, completion->arena, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct suffix_group *group;

        if (stacks[i].depth < FG_GO_SUFFIX)
            continue;
        group = group_of(completion, i);
        completion->before[i] = group->last;
        group->last = i;
        group->count++;
        if (stacks[i].depth > stacks[group->stack].depth)
            group->stack = i;
    }
    if (completion->n_groups > 1)
        qsort_r(completion->groups, completion->n_groups, sizeof *completion->groups,
                compare_groups, completion);
    return true;
}

/* The stack that stands for a group: all have its suffix. */
static const struct fg_go_stack *stack_of(const struct completion *completion, uint32_t group)
{
    return &completion->stacks[completion->groups[group].stack];
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
    for (uint32_t i = 0, at = group->last; i < group->count; i++, at = completion->before[at]) {
        struct fg_go_stack *stack = &completion->stacks[at];
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
