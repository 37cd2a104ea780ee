#include "tests/lib/block_make.h"

#include <stdlib.h>

enum { FRAMES = 24 };

#define FIRST_NS  INT64_C(1700000000000000000)
#define STRIPE_NS INT64_C(200000000000)

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

static uint32_t below(uint64_t *random, uint32_t limit)
{
    return (uint32_t)(next_random(random) % limit);
}

/* ---- making ---- */

static const struct fg_value_type cpu_types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                 {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
static const struct fg_value_type heap_types[] = {{FG_LIT("alloc_objects"), FG_LIT("count")},
                                                  {FG_LIT("alloc_space"), FG_LIT("bytes")},
                                                  {FG_LIT("inuse_objects"), FG_LIT("count")},
                                                  {FG_LIT("inuse_space"), FG_LIT("bytes")}};
static const struct fg_value_type wall_types[] = {{FG_LIT("wall"), FG_LIT("")}};

enum schema { CPU, HEAP, WALL, SCHEMAS };

static void make_schema(struct made_series *made, enum schema schema)
{
    static const struct {
        const char *name;
        const struct fg_value_type *types;
        uint32_t n_types;
        struct fg_value_type period_type;
    } schemas[SCHEMAS] = {
        {"process_cpu", cpu_types, 2, {FG_LIT("cpu"), FG_LIT("nanoseconds")}},
        {"memory", heap_types, 4, {FG_LIT("space"), FG_LIT("bytes")}},
        {"wall", wall_types, 1, {{NULL, 0}, {NULL, 0}}},
    };

    made->series.types = schemas[schema].types;
    made->series.n_types = schemas[schema].n_types;
    made->series.period_type = schemas[schema].period_type;
    made->labels[0] = (struct fg_label){FG_LIT("__name__"), fg_cstr(schemas[schema].name)};
}

static void make_labels(struct made_series *made, const struct made_part *part, uint32_t number)
{
    uint32_t n = 1;

    (void)snprintf(made->pod, sizeof made->pod, "pod-%u", number);
    made->labels[n++] = (struct fg_label){FG_LIT("pod"), fg_cstr(made->pod)};
    if (number % 3 != 1)
        made->labels[n++] =
            (struct fg_label){FG_LIT("region"), number % 2 == 0 ? FG_LIT("eu") : FG_LIT("us")};
    made->labels[n++] = (struct fg_label){FG_LIT("service_name"), fg_cstr(part->service)};
    made->series.labels = (struct fg_labels){made->labels, n};
}

/* CPU: one count, now and then more, and a multiple of it; heap: grows from profile to profile. */
static void make_values(const struct made_series *made, struct made_profile *profile,
                        enum schema schema, uint64_t *random)
{
    uint32_t n = profile->n_samples;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t count = below(random, 4) == 0 ? 1 + below(random, 1000) : 1;
        uint64_t *values = profile->values;

        if (schema == CPU) {
            values[i] = count;
            values[n + i] = count * 10000000;
        } else if (schema == HEAP) {
            uint64_t age = (uint64_t)(profile->time_ns / 1000000000 % 10000);

            values[i] = age / (1 + profile->stacks[i] % 5);
            values[n + i] = values[i] * 48;
            values[2 * n + i] = below(random, 3) == 0 ? count : 0;
            values[3 * n + i] = below(random, 50) == 0 ? next_random(random) >> 1
                                                       : values[2 * n + i] * (8 + i % 3 * 8);
        } else {
            values[i] = below(random, 8) == 0 ? 0 : next_random(random) >> (1 + below(random, 63));
        }
    }
    (void)made;
}

static void make_links(const struct made_series *made, struct made_profile *profile,
                       uint64_t *random)
{
    profile->n_links =
        profile->n_samples > 0 && below(random, 5) == 0 ? below(random, MADE_LINKS_MAX + 1) : 0;
    for (uint32_t i = 0; i < profile->n_links; i++) {
        struct fg_block_link *link = &profile->links[i];

        *link = (struct fg_block_link){.stack = profile->stacks[below(random, profile->n_samples)],
                                       .span_id = below(random, 3)};
        link->trace_id[3] = (uint8_t)below(random, 3);
        for (uint32_t t = 0; t < made->series.n_types; t++)
            profile->link_values[t * profile->n_links + i] = below(random, 300);
    }
}

static void make_profile(const struct made_series *made, struct made_profile *profile,
                         enum schema schema, int64_t time_ns, uint64_t *random)
{
    *profile = (struct made_profile){
        .id = {next_random(random), next_random(random)},
        .time_ns = time_ns,
        .duration_ns = 10000000000 + below(random, 1000),
        .period = schema == CPU ? 10000000 : 524288,
        .shard = (uint16_t)(0x4000 + below(random, 2)),
        .window = (uint32_t)(time_ns / 600000000000),
        .n_samples = below(random, 12) == 0 ? 0 : 1 + below(random, MADE_SAMPLES_MAX),
    };
    if (below(random, 4) > 0)
        profile->size = (struct fg_profile_size){true, below(random, 20000), below(random, 60000)};
    for (uint32_t i = 0; i < profile->n_samples; i++) /* the first ones more often */
        profile->stacks[i] = below(random, 1 + below(random, MADE_STACKS));
    make_values(made, profile, schema, random);
    make_links(made, profile, random);
}

static int by_time(const void *a, const void *b)
{
    const struct made_profile *left = a, *right = b;

    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return fg_id_cmp(left->id, right->id);
}

static void make_series(struct made_part *part, uint32_t number, bool small, uint64_t *random)
{
    struct made_series *made = &part->series[number];
    enum schema schema = (enum schema)below(random, SCHEMAS);
    int64_t time_ns = FIRST_NS + below(random, 1000);

    make_schema(made, schema);
    make_labels(made, part, number);
    made->n_profiles = 1 + below(random, small ? 4 : MADE_PROFILES_MAX);
    for (uint32_t i = 0; i < made->n_profiles; i++) {
        make_profile(made, &made->profiles[i], schema, time_ns, random);
        time_ns += below(random, 9) == 0 ? 0 : 15000000000 + below(random, 1000000);
    }
    qsort(made->profiles, made->n_profiles, sizeof *made->profiles, by_time);
}

static int by_series(const void *a, const void *b)
{
    const struct made_series *left = a, *right = b;

    return fg_block_series_cmp(&left->series, &right->series);
}

static void make_part(struct made_part *part, uint32_t number, bool small, uint64_t *random)
{
    part->stripe_ns = (int64_t)(*random % 4) * STRIPE_NS;
    part->named = *random / 4 % 2 == 0;
    (void)snprintf(part->tenant, sizeof part->tenant, "t%u", number / 2);
    (void)snprintf(part->service, sizeof part->service, "s%u", number % 2);
    for (size_t i = 0; i < MADE_STACKS; i++) {
        part->stacks[i].depth = below(random, MADE_DEPTH_MAX + 1);
        for (uint32_t k = 0; k < part->stacks[i].depth; k++)
            part->stacks[i].frames[k] = below(random, k < 3 ? 3 : FRAMES);
    }
    part->n_series = 1 + below(random, small ? 2 : MADE_SERIES_MAX);
    for (uint32_t i = 0; i < part->n_series; i++)
        make_series(part, i, small, random);
    qsort(part->series, part->n_series, sizeof *part->series, by_series);
    for (uint32_t i = 0; i < part->n_series; i++) { /* what pointed into its own struct */
        struct made_series *made = &part->series[i];

        made->series.labels.items = made->labels;
        made->labels[1].value = fg_cstr(made->pod);
    }
}

struct made_block *made_block_create(uint64_t seed, bool small)
{
    struct made_block *block = fg_new(struct made_block);
    uint64_t random = seed;

    block->n_parts = 1 + below(&random, small ? 2 : MADE_PARTS_MAX);
    for (uint32_t i = 0; i < block->n_parts; i++)
        make_part(&block->parts[i], i, small, &random);
    return block;
}

/* ---- frames ---- */

static uint32_t frame_function(struct fg_symbols *symbols, uint32_t number)
{
    char name[32];
    struct fg_function function = {.start_line = number * 10};

    (void)snprintf(name, sizeof name, "package/function-%02u", number);
    function.name = fg_symbols_string(symbols, fg_cstr(name));
    function.system_name =
        number % 4 == 0 ? fg_symbols_string(symbols, FG_LIT("_Zsystem")) : function.name;
    (void)snprintf(name, sizeof name, "/src/file-%u.go", number % 5);
    function.filename = fg_symbols_string(symbols, fg_cstr(name));
    return fg_symbols_function(symbols, &function);
}

static uint32_t frame_location(struct fg_symbols *symbols, uint32_t frame)
{
    struct fg_mapping mapping = {
        .start = 0x400000,
        .limit = 0x800000,
        .filename = fg_symbols_string(symbols, FG_LIT("/bin/app")),
        .build_id = fg_symbols_string(symbols, frame % 2 == 0 ? FG_LIT("ab12") : FG_LIT("")),
        .flags = frame % 2};
    struct fg_location location = {.mapping = FG_NO_MAPPING, .folded = frame == 5};
    struct fg_line lines[3];

    if (frame % 6 != 1)
        location.mapping = fg_symbols_mapping(symbols, &mapping);
    if (frame % 6 == 3)
        location.address = 0x400000 + frame * 16;
    else
        location.n_lines = 1 + (frame % 5 == 4) * 2;
    for (uint32_t i = 0; i < location.n_lines; i++)
        lines[i] = (struct fg_line){frame_function(symbols, frame / 2 + i), frame * 7 - i};
    return fg_symbols_location(symbols, &location, lines);
}

static void location_text(const struct fg_symbols *symbols, uint32_t number, struct fg_buf *out)
{
    const struct fg_location *location = &symbols->locations[number];

    fg_buf_printf(out, ";%llx %d", (unsigned long long)location->address, location->folded);
    if (location->mapping != FG_NO_MAPPING) {
        const struct fg_mapping *m = &symbols->mappings[location->mapping];

        fg_buf_printf(out, " %.*s %.*s %llx %llx %u", FG_S(fg_symbols_text(symbols, m->filename)),
                      FG_S(fg_symbols_text(symbols, m->build_id)), (unsigned long long)m->start,
                      (unsigned long long)m->limit, m->flags);
    }
    for (uint32_t i = 0; i < location->n_lines; i++) {
        const struct fg_line *line = &symbols->lines[location->first_line + i];
        const struct fg_function *f = &symbols->functions[line->function];

        fg_buf_printf(out, " %.*s/%.*s/%.*s:%lld:%lld", FG_S(fg_symbols_text(symbols, f->name)),
                      FG_S(fg_symbols_text(symbols, f->system_name)),
                      FG_S(fg_symbols_text(symbols, f->filename)), (long long)f->start_line,
                      (long long)line->line);
    }
}

void made_stack_text(const struct made_stack *stack, struct fg_buf *out)
{
    struct fg_symbols symbols;

    fg_symbols_init(&symbols);
    for (uint32_t i = 0; i < stack->depth; i++)
        location_text(&symbols, frame_location(&symbols, stack->frames[i]), out);
    fg_symbols_done(&symbols);
}

void tree_stack_text(const struct fg_tree *tree, uint32_t stack, struct fg_buf *out)
{
    if (stack == 0)
        return;
    tree_stack_text(tree, tree->parents[stack - 1] + 1, out);
    location_text(&tree->symbols, tree->locations[stack - 1], out);
}

/* ---- writing ---- */

/* A part as the writer wants it. */
struct laid {
    struct fg_tree tree;
    uint32_t stacks[MADE_STACKS]; /* of the part's stack: node + 1 */
    uint32_t *uses;
};

static void permute(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; *random != 0 && i > 1; i--) {
        uint32_t k = below(random, i), swap = order[i - 1];

        order[i - 1] = order[k];
        order[k] = swap;
    }
}

static void lay_tree(const struct made_part *part, struct laid *laid, uint64_t *random)
{
    uint32_t order[MADE_STACKS];

    fg_tree_init(&laid->tree);
    if (*random != 0) /* something that nobody uses */
        (void)fg_tree_child(&laid->tree, FG_TREE_ROOT,
                            fg_symbols_name_location(&laid->tree.symbols, FG_LIT("unused")));
    permute(order, MADE_STACKS, random);
    for (uint32_t i = 0; i < MADE_STACKS; i++) {
        const struct made_stack *stack = &part->stacks[order[i]];
        uint32_t node = FG_TREE_ROOT;

        for (uint32_t k = 0; k < stack->depth; k++)
            node = fg_tree_child(&laid->tree, node,
                                 frame_location(&laid->tree.symbols, stack->frames[k]));
        laid->stacks[order[i]] = node + 1;
    }
}

static void count_uses(const struct made_part *part, struct laid *laid)
{
    laid->uses = fg_calloc((size_t)laid->tree.n_nodes + 1, sizeof *laid->uses);
    for (uint32_t s = 0; s < part->n_series; s++)
        for (uint32_t p = 0; p < part->series[s].n_profiles; p++) {
            const struct made_profile *profile = &part->series[s].profiles[p];

            for (uint32_t i = 0; i < profile->n_samples; i++) {
                bool again = false;

                for (uint32_t k = 0; k < i; k++) /* two stacks may be one node */
                    again = again ||
                            laid->stacks[profile->stacks[k]] == laid->stacks[profile->stacks[i]];
                if (!again)
                    laid->uses[laid->stacks[profile->stacks[i]]]++;
            }
        }
}

static enum fg_code write_profile(struct fg_block_writer *writer, const struct made_series *made,
                                  const struct made_profile *from, const struct laid *laid,
                                  uint64_t *random, struct fg_err *err)
{
    uint32_t order[MADE_SAMPLES_MAX], links[MADE_LINKS_MAX], stacks[MADE_SAMPLES_MAX];
    uint64_t values[MADE_TYPES_MAX * MADE_SAMPLES_MAX];
    uint64_t link_values[MADE_TYPES_MAX * MADE_LINKS_MAX];
    struct fg_block_link moved[MADE_LINKS_MAX];
    struct fg_block_profile profile = {.id = from->id,
                                       .time_ns = from->time_ns,
                                       .duration_ns = from->duration_ns,
                                       .period = from->period,
                                       .shard = from->shard,
                                       .window = from->window,
                                       .size = from->size,
                                       .n_samples = from->n_samples,
                                       .n_links = from->n_links,
                                       .stacks = stacks,
                                       .values = values,
                                       .links = moved,
                                       .link_values = link_values};
    uint32_t n = from->n_samples, n_links = from->n_links;

    permute(order, n, random);
    permute(links, n_links, random);
    for (uint32_t i = 0; i < n; i++)
        stacks[i] = laid->stacks[from->stacks[order[i]]];
    for (uint32_t i = 0; i < n_links; i++) {
        moved[i] = from->links[links[i]];
        moved[i].stack = laid->stacks[moved[i].stack];
    }
    for (uint32_t t = 0; t < made->series.n_types; t++) {
        for (uint32_t i = 0; i < n; i++)
            values[t * n + i] = from->values[t * n + order[i]];
        for (uint32_t i = 0; i < n_links; i++)
            link_values[t * n_links + i] = from->link_values[t * n_links + links[i]];
    }
    return fg_block_profile_add(writer, &profile, err);
}

/* Which stripe a profile is of. */
static int64_t stripe_of(const struct made_part *part, const struct made_profile *profile)
{
    return part->stripe_ns == 0 ? 0 : (profile->time_ns - FIRST_NS) / part->stripe_ns;
}

static int64_t last_stripe(const struct made_part *part)
{
    int64_t last = 0;

    for (uint32_t s = 0; s < part->n_series; s++)
        for (uint32_t p = 0; p < part->series[s].n_profiles; p++)
            last = FG_MAX(last, stripe_of(part, &part->series[s].profiles[p]));
    return last;
}

const struct made_profile *made_profile_at(const struct made_part *part, uint32_t number,
                                           const struct made_series **ret_series)
{
    for (int64_t stripe = 0; stripe <= last_stripe(part); stripe++)
        for (uint32_t s = 0; s < part->n_series; s++)
            for (uint32_t p = 0; p < part->series[s].n_profiles; p++)
                if (stripe_of(part, &part->series[s].profiles[p]) == stripe && number-- == 0) {
                    *ret_series = &part->series[s];
                    return &part->series[s].profiles[p];
                }
    return NULL;
}

static enum fg_code write_stripe(struct fg_block_writer *writer, const struct made_part *part,
                                 int64_t stripe, const struct laid *laid, uint64_t *random,
                                 struct fg_err *err)
{
    if (stripe > 0 && fg_block_stripe_begin(writer, err) != FG_OK)
        return err->code;
    for (uint32_t s = 0; s < part->n_series; s++) {
        const struct made_series *made = &part->series[s];

        if (fg_block_series_begin(writer, &made->series, err) != FG_OK)
            return err->code;
        for (uint32_t p = 0; p < made->n_profiles; p++)
            if (stripe_of(part, &made->profiles[p]) == stripe &&
                write_profile(writer, made, &made->profiles[p], laid, random, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code end_part(struct fg_block_writer *writer, const struct made_part *part,
                             const struct laid *laid, struct fg_err *err)
{
    struct fg_function_tree names = {0};
    enum fg_code code;

    if (part->named) {
        fg_function_tree_init_stacks(&names, &laid->tree, true);
        fg_block_part_function_tree(writer, &names);
    }
    code = fg_block_part_end(writer, err);
    fg_function_tree_done(&names);
    return code;
}

static enum fg_code write_part(struct fg_block_writer *writer, const struct made_part *part,
                               const struct laid *laid, uint64_t *random, struct fg_err *err)
{
    if (fg_block_part_begin(writer, fg_cstr(part->tenant), fg_cstr(part->service), &laid->tree,
                            laid->uses, err) != FG_OK)
        return err->code;
    for (int64_t stripe = 0; stripe <= last_stripe(part); stripe++)
        if (write_stripe(writer, part, stripe, laid, random, err) != FG_OK)
            return err->code;
    return end_part(writer, part, laid, err);
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    fg_buf_put(arg, bytes);
    return ((struct fg_buf *)arg)->full ? fg_fail(err, FG_E_LIMIT, "sink is full") : FG_OK;
}

enum fg_code made_block_write(const struct made_block *block, uint64_t shuffle, struct fg_buf *out,
                              struct fg_block_summary *ret_summary, struct fg_err *err)
{
    const struct fg_block_sink sink = {append, out};
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(&sink, 1);
    uint64_t random = shuffle;

    fg_block_writer_set_version(writer, block->version);
    fg_block_writer_set_keys(writer, block->keys);
    for (uint32_t i = 0; i < block->n_parts; i++) {
        struct laid laid;
        enum fg_code code;

        lay_tree(&block->parts[i], &laid, &random);
        count_uses(&block->parts[i], &laid);
        code = write_part(writer, &block->parts[i], &laid, &random, err);
        fg_tree_done(&laid.tree);
        free(laid.uses);
        if (code != FG_OK)
            return code;
    }
    return fg_block_writer_finish(writer, ret_summary, err);
}
