#include "querier/blocks/layers.h"

#include "querier/query.h"

void qry_layers_init(struct qry_layers *layers, struct fg_task_group *group, uint32_t count,
                     uint64_t max_bytes)
{
    *layers = (struct qry_layers){.group = group, .max_bytes = max_bytes};
    for (uint32_t n = FG_MAX(count, 1);; n = n / 2 + n % 2) {
        layers->counts[layers->n_levels] = n;
        layers->levels[layers->n_levels++] = fg_calloc(n, sizeof(struct layers_place));
        if (n == 1)
            return;
    }
}

void qry_layers_done(struct qry_layers *layers)
{
    for (unsigned i = 0; i < layers->n_levels; i++) {
        for (uint32_t k = 0; k < layers->counts[i]; k++)
            fg_crown_layer_destroy(layers->levels[i][k].layer);
        free(layers->levels[i]);
    }
    *layers = (struct qry_layers){0};
}

/* ---- two become one ---- */

struct adding_task {
    struct fg_task task;
    struct qry_layers *layers;
    unsigned level; /* of the sum */
    uint32_t number;
    struct fg_crown_layer *a, *b, *sum;
};

static enum fg_code place(struct qry_layers *layers, unsigned level, uint32_t number,
                          struct fg_crown_layer *layer, struct fg_err *err);

static enum fg_code run_adding(struct fg_task *task, struct fg_err *err)
{
    struct adding_task *adding = fg_container(task, struct adding_task, task);

    (void)err;
    adding->sum = fg_crown_layer_add(adding->a, adding->b);
    return FG_OK;
}

static enum fg_code end_adding(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct adding_task *adding = fg_container(task, struct adding_task, task);
    struct qry_layers *layers = adding->layers;
    enum fg_code code = FG_OK;

    layers->bytes -= fg_crown_layer_bytes(adding->a) + fg_crown_layer_bytes(adding->b);
    fg_crown_layer_destroy(adding->a);
    fg_crown_layer_destroy(adding->b);
    if (ran) {
        layers->bytes += fg_crown_layer_bytes(adding->sum);
        code = place(layers, adding->level, adding->number, adding->sum, err);
    }
    free(adding);
    return code;
}

static void put_adding(struct qry_layers *layers, unsigned level, uint32_t number,
                       struct fg_crown_layer *a, struct fg_crown_layer *b)
{
    struct adding_task *adding = fg_new(struct adding_task);

    *adding = (struct adding_task){.task = {.run = run_adding, .end = end_adding},
                                   .layers = layers,
                                   .level = level,
                                   .number = number,
                                   .a = a,
                                   .b = b};
    fg_task_group_put(layers->group, &adding->task);
}

/* Puts a layer, or NULL for nothing, into its place, and goes on with its neighbour if that is
 * there. The layer is counted in bytes. */
static enum fg_code place(struct qry_layers *layers, unsigned level, uint32_t number,
                          struct fg_crown_layer *layer, struct fg_err *err)
{
    for (;;) {
        struct layers_place *own = &layers->levels[level][number], *other = NULL;

        fg_assert(!own->is_set);
        *own = (struct layers_place){layer, true};
        if (layers->bytes > layers->max_bytes)
            return qry_query_too_large(err);
        if (level + 1 == layers->n_levels)
            return FG_OK;
        if ((number ^ 1) < layers->counts[level])
            other = &layers->levels[level][number ^ 1];
        if (other != NULL && !other->is_set)
            return FG_OK; /* it goes on when it comes */
        own->layer = NULL;
        level++;
        number /= 2;
        if (other == NULL || other->layer == NULL)
            continue;
        if (layer != NULL) {
            /* The lower number first: which is a and which b never depends on who came last. */
            bool first = own < other;

            put_adding(layers, level, number, first ? layer : other->layer,
                       first ? other->layer : layer);
            other->layer = NULL;
            return FG_OK;
        }
        layer = fg_take(other->layer);
    }
}

enum fg_code qry_layers_put(struct qry_layers *layers, uint32_t number,
                            struct fg_crown_layer *layer, struct fg_err *err)
{
    layers->bytes += fg_crown_layer_bytes(layer);
    return place(layers, 0, number, layer, err);
}

enum fg_code qry_layers_finish(struct qry_layers *layers, struct fg_crown_layer **ret_sum,
                               struct fg_err *err)
{
    enum fg_code code = fg_task_group_finish(layers->group, err);

    /* Numbers of which there is no layer would be waited for. */
    for (uint32_t i = 0; i < layers->counts[0] && code == FG_OK; i++)
        if (!layers->levels[0][i].is_set)
            fg_assert(place(layers, 0, i, NULL, err) == FG_OK); /* it needs no memory */
    if (code == FG_OK)
        code = fg_task_group_finish(layers->group, err);
    if (code == FG_OK)
        *ret_sum = fg_take(layers->levels[layers->n_levels - 1]->layer);
    return code;
}
