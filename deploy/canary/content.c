#include "deploy/canary/content.h"

#include "common/base/str.h"
#include "common/model/pprof_write.h"

#define SERVICE_PREFIX "flamegrid-canary-"
#define ROOT_NAME      "canary"
#define BRANCH_PREFIX  "service_"
#define LEAF_PREFIX    "leaf_"

enum { NAME_MAX_BYTES = 32 };

static const int64_t DURATION_NS = 10 * FG_MS_NS; /* any value would do */

/* ---- profiles ---- */

static uint32_t child(struct fg_tree *tree, uint32_t parent, const char *name)
{
    return fg_tree_child(tree, parent, fg_symbols_name_location(&tree->symbols, fg_cstr(name)));
}

void canary_content_write(const struct canary_journal_profile *profile, struct fg_buf *out)
{
    const struct fg_pprof_head head = {
        .type = {.name = FG_LIT("process_cpu"),
                 .type = FG_LIT("cpu"),
                 .unit = FG_LIT("nanoseconds"),
                 .period_type = FG_LIT("cpu"),
                 .period_unit = FG_LIT("nanoseconds")},
        .period = DURATION_NS,
        .time_ns = profile->time_ns,
        .duration_ns = DURATION_NS,
    };
    char branch[NAME_MAX_BYTES], leaf[NAME_MAX_BYTES];
    struct fg_tree tree;
    uint32_t node;

    (void)snprintf(branch, sizeof branch, BRANCH_PREFIX "%u", profile->service);
    (void)snprintf(leaf, sizeof leaf, LEAF_PREFIX "%u", profile->leaf);
    fg_tree_init(&tree);
    node = child(&tree, FG_TREE_ROOT, ROOT_NAME);
    node = child(&tree, node, branch);
    node = child(&tree, node, leaf);
    fg_tree_add(&tree, node, (int64_t)profile->value);
    fg_pprof_write(&tree, &head, out);
    fg_tree_done(&tree);
}

void canary_content_path(const struct canary_journal_profile *profile, const char *run,
                         struct fg_buf *out)
{
    struct fg_buf name;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_printf(&name, SERVICE_PREFIX "%u{pod=%u,canary_run=%s}", profile->service, profile->pod,
                  run);
    fg_buf_puts(out, "/ingest?format=pprof&name=");
    fg_buf_url(out, fg_buf_slice(&name));
    fg_buf_putc(out, '\0');
    fg_buf_done(&name);
}

/* ---- answers ---- */

void canary_content_selector(const struct canary_journal_range *range, const char *run,
                             struct fg_buf *out)
{
    fg_buf_printf(out, "{canary_run=\"%s\"", run);
    if (range->service != JOURNAL_NONE)
        fg_buf_printf(out, ",service_name=\"" SERVICE_PREFIX "%u\"", range->service);
    if (range->pod != JOURNAL_NONE)
        fg_buf_printf(out, ",pod=\"%u\"", range->pod);
    fg_buf_putc(out, '}');
    fg_buf_putc(out, '\0');
}

/* Returns the number after the prefix. JOURNAL_NONE: another name, or the number is not below max.
 */
static uint32_t number_of(struct fg_slice name, const char *prefix, uint32_t max)
{
    uint64_t number;

    if (!fg_slice_starts(name, prefix) ||
        !fg_parse_u64(fg_slice_sub(name, strlen(prefix), name.len), &number) || number >= max)
        return JOURNAL_NONE;
    return (uint32_t)number;
}

/* Returns the cell of a node. JOURNAL_NONE: the canary has not sent this stack. */
static uint32_t cell_of(const struct canary_journal_shape *shape, const struct fg_tree *tree,
                        uint32_t node)
{
    /* A stack of ours is canary;service_N;leaf_M: three levels, no more. */
    uint32_t parent = tree->parents[node], root, service, leaf;

    if (parent == FG_TREE_ROOT)
        return JOURNAL_NONE;
    root = tree->parents[parent];
    if (root == FG_TREE_ROOT || tree->parents[root] != FG_TREE_ROOT ||
        !fg_slice_is(fg_tree_name(tree, root), ROOT_NAME))
        return JOURNAL_NONE;
    service = number_of(fg_tree_name(tree, parent), BRANCH_PREFIX, shape->services);
    leaf = number_of(fg_tree_name(tree, node), LEAF_PREFIX, shape->leaves);
    if (service == JOURNAL_NONE || leaf == JOURNAL_NONE)
        return JOURNAL_NONE;
    return canary_journal_cell(shape, service, leaf);
}

void canary_content_read(const struct canary_journal_shape *shape, const struct fg_tree *tree,
                         int64_t *cells, int64_t *ret_foreign)
{
    int64_t foreign = tree->root_self;

    for (uint32_t node = 0; node < tree->n_nodes; node++) {
        /* Without a self value a node is only on the path to others. */
        uint32_t cell = tree->self[node] == 0 ? JOURNAL_NONE : cell_of(shape, tree, node);

        if (cell != JOURNAL_NONE)
            cells[cell] = fg_value_add(cells[cell], tree->self[node]);
        else
            foreign = fg_value_add(foreign, tree->self[node]);
    }
    *ret_foreign = foreign;
}
