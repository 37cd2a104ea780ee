#include "common/model/call_graph.h"

#include "common/base/hash.h"
#include "common/model/function_tree.h"

#include <math.h>

enum { NONE = UINT32_MAX };

/* A graph on its way. Functions are numbered as in the function tree. */
struct graph_making {
    struct fg_function_tree functions;
    int64_t *self, *totals;     /* [nodes of the tree] */
    bool *kept;                 /* [functions] */
    int64_t *flat, *cum;        /* [functions] */
    struct fg_call_edge *edges; /* between functions; weight 0: removed */
    uint32_t n_edges, cap_edges;
    struct fg_map edge_map; /* caller and callee -> edge */
    uint32_t *order;        /* [n_order]: the functions that are kept, the most telling first */
    uint32_t n_order;
};

/* ---- flat and cumulated values ---- */

static void sum_functions(struct graph_making *making)
{
    const struct fg_function_tree *functions = &making->functions;

    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        uint32_t function = functions->functions[i];

        fg_assert(function < functions->n_names);
        making->flat[function] = fg_value_add(making->flat[function], making->self[i]);
        if (functions->outermost[i]) /* a recursion counts once */
            making->cum[function] = fg_value_add(making->cum[function], making->totals[i]);
    }
}

/* ---- edges ---- */

static uint32_t take_edge(struct graph_making *making, uint32_t from, uint32_t to)
{
    /* Seeded: calls come from outside. */
    uint64_t hash = fg_mix64(((uint64_t)from << 32 | to) ^ fg_hash_seed());
    struct fg_map_walk walk;
    uint32_t i;

    for (i = fg_map_first(&making->edge_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&making->edge_map, &walk))
        if (making->edges[i].from == from && making->edges[i].to == to)
            return i;
    if (making->n_edges == making->cap_edges) {
        making->cap_edges = FG_MAX(64, making->cap_edges * 2);
        making->edges = fg_realloc(making->edges, making->cap_edges * sizeof *making->edges);
    }
    i = making->n_edges++;
    making->edges[i] = (struct fg_call_edge){.from = from, .to = to};
    fg_map_add(&making->edge_map, hash, i);
    return i;
}

/* What lies between a node of the tree and the next one above it that is kept. */
struct above {
    uint32_t caller; /* function; NONE: there is none */
    bool gap;        /* some are left out between */
    uint32_t edge;   /* that the node has opened; NONE */
};

static struct above find_above(const struct graph_making *making, const struct above *all,
                               uint32_t node)
{
    uint32_t parent = making->functions.parents[node];
    struct above found = {NONE, false, NONE};

    if (parent == FG_TREE_ROOT)
        return found;
    if (making->kept[making->functions.functions[parent]]) {
        found.caller = making->functions.functions[parent];
    } else {
        found.caller = all[parent].caller;
        found.gap = true;
    }
    return found;
}

/*
 * Sums the edges between functions that are kept. Nodes come depth first, so the open nodes are the
 * path to the one at hand; an edge that is open on this path already is not counted again.
 */
static void sum_edges(struct graph_making *making)
{
    const struct fg_function_tree *functions = &making->functions;
    struct above *above = fg_calloc(FG_MAX(functions->n_nodes, 1), sizeof *above);
    uint32_t *path = fg_calloc(FG_MAX(functions->n_nodes, 1), sizeof *path), depth = 0;
    uint32_t *open = NULL, cap_open = 0; /* [edges]: how often it is on the path */

    making->n_edges = 0;
    fg_map_clear(&making->edge_map);
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        uint32_t callee = functions->functions[i];

        for (; depth > 0 && path[depth - 1] != functions->parents[i]; depth--)
            if (above[path[depth - 1]].edge != NONE)
                open[above[path[depth - 1]].edge]--;
        path[depth++] = i;
        above[i] = find_above(making, above, i);
        if (!making->kept[callee] || above[i].caller == NONE || above[i].caller == callee ||
            making->totals[i] == 0) /* a stack without a value is none */
            continue;
        above[i].edge = take_edge(making, above[i].caller, callee);
        if (making->n_edges > cap_open) {
            open = fg_realloc(open, making->cap_edges * sizeof *open);
            memset(open + cap_open, 0, (making->cap_edges - cap_open) * sizeof *open);
            cap_open = making->cap_edges;
        }
        fg_assert(open != NULL);
        if (open[above[i].edge]++ == 0) {
            struct fg_call_edge *edge = &making->edges[above[i].edge];

            edge->weight = fg_value_add(edge->weight, making->totals[i]);
            edge->residual |= above[i].gap;
        }
    }
    free(open);
    free(path);
    free(above);
}

/* ---- order ---- */

/* The entropy of the ways into a function, or out of it: many of equal weight tell more than one.
 */
struct ways {
    double total, entropy; /* of absolute weights; the entropy of the shares once total is known */
    bool any;
};

static void add_share(struct ways *ways, int64_t weight)
{
    if (weight != 0) { /* then the total is not 0 either */
        double share = fabs((double)weight) / ways->total;

        ways->entropy -= share * log2(share);
    }
}

static double score_of(const struct ways *ways)
{
    if (!ways->any) /* functions where stacks begin or end are landmarks */
        return 1;
    return ways->entropy;
}

static void score_functions(const struct graph_making *making, int64_t *scores)
{
    uint32_t n = making->functions.n_names;
    struct ways *in = fg_calloc(FG_MAX(n, 1), sizeof *in);
    struct ways *out = fg_calloc(FG_MAX(n, 1), sizeof *out);

    for (uint32_t i = 0; i < making->n_edges; i++) {
        const struct fg_call_edge *edge = &making->edges[i];

        out[edge->from].total += fabs((double)edge->weight);
        in[edge->to].total += fabs((double)edge->weight);
        out[edge->from].any = in[edge->to].any = true;
    }
    for (uint32_t f = 0; f < n; f++)
        out[f].total += fabs((double)making->flat[f]); /* a stack may also end here */
    for (uint32_t i = 0; i < making->n_edges; i++) {
        const struct fg_call_edge *edge = &making->edges[i];

        add_share(&out[edge->from], edge->weight);
        add_share(&in[edge->to], edge->weight);
    }
    for (uint32_t f = 0; f < n; f++) {
        add_share(&out[f], making->flat[f]);

        /* Cumulated values are up to 2^63, and scores some times as much. */
        double score = (score_of(&in[f]) + score_of(&out[f])) * (double)making->cum[f];

        scores[f] = fg_value_add(score >= 0x1p63 ? INT64_MAX : (int64_t)score, making->flat[f]);
    }
    free(in);
    free(out);
}

struct sorting {
    const struct graph_making *making;
    const int64_t *scores;
};

static int compare_functions(const void *left, const void *right, void *arg)
{
    const uint32_t *a = left, *b = right;
    const struct sorting *sorting = arg;

    if (sorting->scores[*a] != sorting->scores[*b])
        return sorting->scores[*a] > sorting->scores[*b] ? -1 : 1;
    return (*a > *b) - (*a < *b); /* they are numbered in the order of names */
}

static void sort_functions(struct graph_making *making)
{
    int64_t *scores = fg_calloc(FG_MAX(making->functions.n_names, 1), sizeof *scores);
    struct sorting sorting = {making, scores};

    score_functions(making, scores);
    making->n_order = 0;
    for (uint32_t f = 0; f < making->functions.n_names; f++)
        if (making->kept[f])
            making->order[making->n_order++] = f;
    if (making->n_order > 0)
        qsort_r(making->order, making->n_order, sizeof *making->order, compare_functions, &sorting);
    free(scores);
}

/* ---- the graph ---- */

static int compare_edges(const void *left, const void *right, void *arg)
{
    const struct fg_call_edge *a = left, *b = right;
    const struct fg_call_graph *graph = arg;
    int order;

    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    order = fg_slice_cmp(graph->nodes[a->from].name, graph->nodes[b->from].name);
    return order != 0 ? order : fg_slice_cmp(graph->nodes[a->to].name, graph->nodes[b->to].name);
}

static void fill(const struct graph_making *making, struct fg_call_graph *graph)
{
    uint32_t *numbers = fg_calloc(FG_MAX(making->functions.n_names, 1), sizeof *numbers);

    graph->n_nodes = making->n_order;
    graph->nodes = fg_calloc(FG_MAX(graph->n_nodes, 1), sizeof *graph->nodes);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint32_t function = making->order[i];

        numbers[function] = i;
        graph->nodes[i] = (struct fg_call_node){making->functions.names[function],
                                                making->flat[function], making->cum[function]};
    }
    graph->n_edges = making->n_edges;
    graph->edges = fg_calloc(FG_MAX(graph->n_edges, 1), sizeof *graph->edges);
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        graph->edges[i] = making->edges[i];
        graph->edges[i].from = numbers[graph->edges[i].from];
        graph->edges[i].to = numbers[graph->edges[i].to];
    }
    if (graph->n_edges > 0)
        qsort_r(graph->edges, graph->n_edges, sizeof *graph->edges, compare_edges, graph);
    free(numbers);
}

/* The edges into each node, from the heaviest on: numbers of edges, those of node i from
 * first[i] up to first[i + 1]. */
struct incoming {
    uint32_t *first, *edges;
};

static struct incoming find_incoming(const struct fg_call_graph *graph)
{
    struct incoming in = {fg_calloc((size_t)graph->n_nodes + 2, sizeof *in.first),
                          fg_calloc(FG_MAX(graph->n_edges, 1), sizeof *in.edges)};

    for (uint32_t i = 0; i < graph->n_edges; i++)
        in.first[graph->edges[i].to + 2]++;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        in.first[i + 2] += in.first[i + 1];
    for (uint32_t i = 0; i < graph->n_edges; i++)
        in.edges[in.first[graph->edges[i].to + 1]++] = i;
    return in;
}

/* Whether the edge's callee can be reached from its caller without it. */
static bool is_redundant(const struct fg_call_graph *graph, const struct incoming *in,
                         const bool *removed, uint32_t edge, bool *seen, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;

    memset(seen, 0, graph->n_nodes * sizeof *seen);
    queue[tail++] = graph->edges[edge].to;
    seen[graph->edges[edge].to] = true;
    while (head < tail) {
        uint32_t node = queue[head++];

        for (uint32_t k = in->first[node]; k < in->first[node + 1]; k++) {
            uint32_t other = in->edges[k], from = graph->edges[other].from;

            if (other == edge || removed[other] || seen[from])
                continue;
            if (from == graph->edges[edge].from)
                return true;
            seen[from] = true;
            queue[tail++] = from;
        }
    }
    return false;
}

static void remove_redundant(struct fg_call_graph *graph)
{
    struct incoming in = find_incoming(graph);
    bool *removed = fg_calloc(FG_MAX(graph->n_edges, 1), sizeof *removed);
    bool *seen = fg_calloc(FG_MAX(graph->n_nodes, 1), sizeof *seen);
    uint32_t *queue = fg_calloc(FG_MAX(graph->n_nodes, 1), sizeof *queue), kept = 0;

    for (uint32_t node = graph->n_nodes; node-- > 0;)
        /* An edge that is heavier than one that is not residual stays, or the picture misleads. */
        for (uint32_t k = in.first[node + 1]; k-- > in.first[node];) {
            uint32_t edge = in.edges[k];

            if (!graph->edges[edge].residual)
                break;
            removed[edge] = is_redundant(graph, &in, removed, edge, seen, queue);
        }
    for (uint32_t i = 0; i < graph->n_edges; i++)
        if (!removed[i])
            graph->edges[kept++] = graph->edges[i];
    graph->n_edges = kept;
    free(queue);
    free(seen);
    free(removed);
    free(in.first);
    free(in.edges);
}

static void making_init(struct graph_making *making, const struct fg_tree *tree)
{
    uint32_t n;

    *making = (struct graph_making){0};
    fg_function_tree_init(&making->functions, tree);
    making->self = fg_calloc(FG_MAX(making->functions.n_nodes, 1), sizeof *making->self);
    making->totals = fg_calloc(FG_MAX(making->functions.n_nodes, 1), sizeof *making->totals);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t node = making->functions.nodes[i];

        making->self[node] = fg_value_add(making->self[node], tree->self[i]);
    }
    n = FG_MAX(making->functions.n_names, 1);
    making->kept = fg_calloc(n, sizeof *making->kept);
    making->flat = fg_calloc(n, sizeof *making->flat);
    making->cum = fg_calloc(n, sizeof *making->cum);
    making->order = fg_calloc(n, sizeof *making->order);
    memset(making->kept, true, n * sizeof *making->kept);
    fg_map_init(&making->edge_map);
}

static void making_done(struct graph_making *making)
{
    fg_map_done(&making->edge_map);
    free(making->edges);
    free(making->order);
    free(making->cum);
    free(making->flat);
    free(making->kept);
    free(making->totals);
    free(making->self);
    fg_function_tree_done(&making->functions);
}

void fg_call_graph_make(const struct fg_tree *tree, uint32_t max_nodes,
                        struct fg_call_graph *ret_graph)
{
    struct graph_making making;

    making_init(&making, tree);
    *ret_graph = (struct fg_call_graph){.n_functions = making.functions.n_names};
    ret_graph->total = fg_parents_sums(making.functions.parents, making.functions.n_nodes,
                                       making.self, making.totals);
    sum_functions(&making);
    sum_edges(&making);
    sort_functions(&making);
    if (making.n_order > max_nodes) {
        for (uint32_t i = max_nodes; i < making.n_order; i++)
            making.kept[making.order[i]] = false;
        sum_edges(&making);
        sort_functions(&making);
    }
    fill(&making, ret_graph);
    remove_redundant(ret_graph);
    making_done(&making);
}

void fg_call_graph_done(struct fg_call_graph *graph)
{
    free(graph->nodes);
    free(graph->edges);
    *graph = (struct fg_call_graph){0};
}
