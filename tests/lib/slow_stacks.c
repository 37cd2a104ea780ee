#include "tests/lib/slow_stacks.h"

uint64_t slow_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

void slow_add(struct slow_stacks *stacks, const char *text, int64_t value)
{
    struct slow_stack *stack = stacks->items;

    for (size_t i = 0; i < stacks->count; i++, stack++)
        if (strcmp(stack->text, text) == 0)
            break;
    if (stack == stacks->items + stacks->count) {
        fg_assert(stacks->count < SLOW_STACKS_MAX && strlen(text) < sizeof stack->text);
        stacks->count++;
        memcpy(stack->text, text, strlen(text) + 1);
        stack->value = 0;
    }
    stack->value += value;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

void slow_write(const struct slow_stacks *stacks, struct fg_buf *out)
{
    char lines[SLOW_STACKS_MAX][96];
    size_t count = 0;

    for (size_t i = 0; i < stacks->count; i++)
        if (stacks->items[i].value != 0)
            (void)snprintf(lines[count++], sizeof lines[0], "%s %lld\n", stacks->items[i].text,
                           (long long)stacks->items[i].value);
    qsort(lines, count, sizeof lines[0], compare_text);
    for (size_t i = 0; i < count; i++)
        fg_buf_puts(out, lines[i]);
}

void slow_tree_add(struct fg_tree *tree, const char *text, int64_t value)
{
    struct fg_slice rest = fg_cstr(text);
    uint32_t node = FG_TREE_ROOT;
    size_t end;

    do {
        end = fg_slice_find(rest, ';');
        node = fg_tree_child(tree, node,
                             fg_symbols_name_location(&tree->symbols, fg_slice_sub(rest, 0, end)));
        rest = fg_slice_sub(rest, end == SIZE_MAX ? rest.len : end + 1, SIZE_MAX);
    } while (end != SIZE_MAX);
    fg_tree_add(tree, node, value);
}

void slow_add_random(struct slow_stacks *stacks, struct fg_tree *tree, uint64_t *random)
{
    size_t depth = 1 + slow_random(random) % SLOW_DEPTH_MAX;
    int64_t value = (int64_t)(slow_random(random) % 20);
    char text[2 * SLOW_DEPTH_MAX];

    for (size_t i = 0; i < depth; i++) {
        text[2 * i] = (char)('a' + slow_random(random) % 4);
        text[2 * i + 1] = i + 1 < depth ? ';' : '\0';
    }
    slow_add(stacks, text, value);
    slow_tree_add(tree, text, value);
}
