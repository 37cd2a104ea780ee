/* Answers queries from the list of all profiles, one by one; and the peer that returns these
 * answers. */
#include "common/base/cursor.h"
#include "common/model/profile_rows.h"
#include "proto/inner.pb-c.h"
#include "tests/unit/querier/world.h"

#include <stdlib.h>

/* Where there is such a thing; deleted or not. */
static bool is_asked(const struct world_query *query, const struct world_profile *profile)
{
    return (query->tenants >> profile->tenant & 1) != 0 && profile->generation > query->after &&
           (query->gone || !profile->gone);
}

static bool takes(const struct fg_deletion *deletion, const struct fg_labels *labels,
                  int64_t time_ns)
{
    return time_ns >= deletion->start_ns && time_ns <= deletion->end_ns &&
           (labels == NULL ? deletion->selector.n_matchers == 0
                           : fg_selector_matches(&deletion->selector, labels));
}

bool world_deleted(const struct world *world, const struct world_profile *profile,
                   const struct fg_deletions *deletions)
{
    for (uint32_t i = 0; i < deletions->count; i++)
        if (takes(&deletions->items[i], &world->series[profile->series].labels, profile->time_ns))
            return true;
    return false;
}

static bool is_answered(const struct world *world, const struct world_query *query,
                        const struct world_profile *profile)
{
    return is_asked(query, profile) &&
           (query->deletions == NULL ||
            !world_deleted(world, profile, &query->deletions[profile->tenant]));
}

/* Finds the first moment from this one on that no deletion of such labels covers (NULL: of all
 * labels), or the last one, moment by moment. false: there is none. */
static bool moment_left(const struct fg_deletions *deletions, const struct fg_labels *labels,
                        bool forwards, int64_t *time_ns)
{
    for (uint32_t i = 0; deletions != NULL && i < deletions->count;) {
        const struct fg_deletion *deletion = &deletions->items[i++];

        if (!takes(deletion, labels, *time_ns))
            continue;
        if (forwards ? deletion->end_ns == INT64_MAX : deletion->start_ns == INT64_MIN)
            return false;
        *time_ns = forwards ? deletion->end_ns + 1 : deletion->start_ns - 1;
        i = 0;
    }
    return true;
}

static const struct fg_deletions *deletions_of(const struct world_query *query, uint32_t tenant)
{
    return query->deletions == NULL ? NULL : &query->deletions[tenant];
}

static bool in_range(const struct world_query *query, const struct world_profile *profile)
{
    return profile->time_ns >= query->start_ns && profile->time_ns <= query->end_ns;
}

static bool type_matches(const struct world *world, const struct world_query *query,
                         const struct world_profile *profile, uint32_t type)
{
    const struct fg_labels *labels = &world->series[profile->series].by_type[type];

    return labels->items != NULL && fg_selector_matches(query->selector, labels) &&
           (query->type == NULL ||
            fg_slice_is(fg_labels_get(labels, FG_LABEL_PROFILE_TYPE), query->type));
}

static uint64_t total_of(const struct world_profile *profile, uint32_t type)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++)
        total += profile->samples[i].values[type];
    return total;
}

/* ---- SELECT ---- */

static bool id_wanted(const struct qry_stack_filter *stacks, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];
    bool wanted = stacks->n_profile_ids == 0;

    fg_id_put(bytes, id);
    for (size_t i = 0; i < stacks->n_profile_ids; i++)
        wanted = wanted || (stacks->profile_ids[i].len == FG_ID_BYTES &&
                            memcmp(stacks->profile_ids[i].data, bytes, FG_ID_BYTES) == 0);
    return wanted;
}

static bool link_wanted(const struct qry_stack_filter *stacks, const struct world_link *link)
{
    bool wanted = false;

    for (size_t i = 0; i < stacks->n_spans; i++)
        wanted = wanted || stacks->spans[i] == link->span_id;
    for (size_t i = 0; i < stacks->n_traces; i++)
        wanted = wanted || (stacks->traces[i].len == FG_ID_BYTES &&
                            memcmp(stacks->traces[i].data, link->trace_id, FG_ID_BYTES) == 0);
    return wanted;
}

/* Returns how often a sample counts: once for each wanted link, if links are wanted. */
static unsigned times_wanted(const struct qry_stack_filter *stacks,
                             const struct world_sample *sample)
{
    unsigned times = 0;

    if (stacks->n_spans + stacks->n_traces == 0)
        return 1;
    for (uint32_t i = 0; i < sample->n_links; i++)
        times += link_wanted(stacks, &sample->links[i]);
    return times;
}

static struct fg_slice name_of(const struct fg_symbols *symbols, uint32_t function)
{
    const struct fg_function *at = &symbols->functions[function];

    return fg_symbols_text(symbols, at->name != 0 ? at->name : at->system_name);
}

/* A location of make_location() is in one file or in none. */
static struct fg_slice address_name(struct fg_arena *arena, const struct fg_location *location)
{
    uint64_t address = location->address;
    bool inside = address >= 16 && address < 48;

    if (address == 0)
        return FG_LIT("[unknown]");
    return fg_cstr(location->mapping == FG_NO_MAPPING
                       ? fg_arena_printf(arena, "0x%x", (unsigned)address)
                       : fg_arena_printf(arena, "x.so+0x%x",
                                         (unsigned)(inside ? address - 16 + 4096 : address)));
}

/* Writes the functions of a stack that is not empty, outermost first; returns their number. */
static size_t functions_of(const struct world *world, uint32_t node, struct fg_arena *arena,
                           struct fg_slice names[256])
{
    const struct fg_symbols *symbols = &world->tree.symbols;
    const struct fg_location *location;
    size_t n;

    if (node == FG_TREE_ROOT)
        return 0;
    n = functions_of(world, world->tree.parents[node], arena, names);
    location = &symbols->locations[world->tree.locations[node]];
    if (location->n_lines == 0)
        names[n++] = address_name(arena, location);
    for (uint32_t i = location->n_lines; i > 0; i--)
        names[n++] = name_of(symbols, symbols->lines[location->first_line + i - 1].function);
    return n;
}

static bool site_matches(const struct world *world, const struct qry_stack_filter *stacks,
                         uint32_t node, struct fg_arena *arena)
{
    struct fg_slice names[256];
    size_t n = functions_of(world, node, arena, names);

    if (node == FG_TREE_ROOT)
        names[n++] = FG_LIT("[no stack]");
    if (stacks->n_call_site > n)
        return false;
    for (size_t i = 0; i < stacks->n_call_site; i++)
        if (!fg_slice_is(names[i], stacks->call_site[i]))
            return false;
    return true;
}

static void add_profile(const struct world *world, const struct world_profile *profile,
                        uint32_t type, const struct qry_stack_filter *stacks,
                        struct fg_arena *arena, int64_t *self, int64_t *root_self)
{
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const struct world_sample *sample = &profile->samples[i];
        uint64_t value = sample->values[type] * times_wanted(stacks, sample);
        uint32_t node = sample->stack == 0 ? FG_TREE_ROOT : sample->stack - 1;

        if (!site_matches(world, stacks, node, arena))
            continue;
        if (node == FG_TREE_ROOT)
            *root_self = fg_value_add(*root_self, (int64_t)value);
        else
            self[node] = fg_value_add(self[node], (int64_t)value);
    }
}

void world_select(const struct world *world, const struct world_query *query,
                  const struct qry_stack_filter *stacks, bool names_only, struct fg_tree *into)
{
    struct fg_tree all = world->tree; /* a view with its own values */
    /* Not the world's: several threads select at a time. */
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);

    all.root_self = 0;
    all.self = fg_calloc(all.n_nodes, sizeof *all.self);
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *profile = &world->profiles[i];

        for (uint32_t t = 0; t < WORLD_TYPES_MAX; t++)
            if (is_answered(world, query, profile) && in_range(query, profile) &&
                type_matches(world, query, profile, t) && id_wanted(stacks, profile->id))
                add_profile(world, profile, t, stacks, arena, all.self, &all.root_self);
    }
    if (names_only)
        fg_tree_names(&all, into);
    else
        fg_tree_merge(into, &all);
    free(all.self);
    fg_arena_destroy(arena);
}

/* ---- POINTS ---- */

/* Finds the first point of the grid whose millisecond does not end before the time, point by point.
 */
static int64_t grid_of(int64_t start_ns, int64_t step_ns, int64_t time_ns)
{
    int64_t k = 0;

    while (start_ns + k * step_ns + FG_MS_NS <= time_ns)
        k++;
    return k;
}

void world_points(const struct world *world, const struct world_query *query, int64_t step_ns,
                  const char *const *group_by, size_t n_group_by, struct fg_arena *arena,
                  struct qry_points_list *into)
{
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *profile = &world->profiles[i];

        if (!is_answered(world, query, profile) ||
            profile->time_ns < query->start_ns + FG_MS_NS - step_ns ||
            profile->time_ns > query->end_ns)
            continue;
        for (uint32_t t = 0; t < WORLD_TYPES_MAX; t++) {
            uint64_t total = total_of(profile, t);
            struct qry_point *point = fg_arena_new(arena, struct qry_point, 1);
            struct qry_points points = {.items = point, .n = 1};
            struct fg_err err;

            if (total == 0 || !type_matches(world, query, profile, t))
                continue;
            *point = (struct qry_point){grid_of(query->start_ns, step_ns, profile->time_ns),
                                        (int64_t)total, 1};
            if (query->start_ns + point->k * step_ns > query->end_ns)
                continue;
            points.labels = fg_labels_group(&world->series[profile->series].by_type[t], group_by,
                                            n_group_by, arena);
            fg_assert(qry_points_list_add(into, &points, arena, &err) == FG_OK);
        }
    }
}

/* ---- ROWS ---- */

static bool same_link(const struct world_link *a, const struct world_link *b)
{
    return a->span_id == b->span_id && memcmp(a->trace_id, b->trace_id, FG_ID_BYTES) == 0;
}

/* Adds the values of all links of the profile that are this one. */
static int64_t link_value(const struct world_profile *profile, uint32_t type,
                          const struct world_link *link)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++)
        for (uint32_t l = 0; l < profile->samples[i].n_links; l++)
            if (same_link(&profile->samples[i].links[l], link))
                value += profile->samples[i].values[type];
    return (int64_t)value;
}

/* Adds a row for each link that the profile did not have before. */
static size_t list_spans(const struct world_profile *profile, uint32_t type, struct world_row row,
                         struct world_row *rows)
{
    size_t n = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++)
        for (uint32_t l = 0; l < profile->samples[i].n_links; l++) {
            bool known = false;

            row.link = profile->samples[i].links[l];
            row.value = link_value(profile, type, &row.link);
            for (size_t k = 0; k < n; k++)
                known = known || same_link(&rows[k].link, &row.link);
            if (!known && row.value != 0 && row.link.span_id != 0)
                rows[n++] = row;
        }
    return n;
}

size_t world_rows(const struct world *world, const struct world_query *query, bool spans,
                  int64_t step_ns, struct fg_arena *arena, struct world_row **ret_rows)
{
    struct world_query asked = *query;
    struct world_row *rows;
    size_t max = 0, n = 0;

    if (step_ns != 0)
        asked.start_ns += FG_MS_NS - step_ns;
    for (uint32_t i = 0; i < world->n_profiles; i++)
        max += WORLD_TYPES_MAX * (1 + (size_t)world->profiles[i].n_samples * WORLD_LINKS_MAX);
    rows = fg_arena_new(arena, struct world_row, max);
    fg_assert(rows != NULL);
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *profile = &world->profiles[i];

        for (uint32_t t = 0; t < WORLD_TYPES_MAX; t++) {
            struct world_row row = {.labels = &world->series[profile->series].by_type[t],
                                    .time_ns = profile->time_ns,
                                    .id = profile->id,
                                    .value = (int64_t)total_of(profile, t)};

            if (row.value == 0 || !is_answered(world, &asked, profile) ||
                !in_range(&asked, profile) || !type_matches(world, &asked, profile, t))
                continue;
            if (step_ns != 0)
                row.k = grid_of(query->start_ns, step_ns, profile->time_ns);
            if (step_ns != 0 && query->start_ns + row.k * step_ns > query->end_ns)
                continue;
            if (spans)
                n += list_spans(profile, t, row, rows + n);
            else
                rows[n++] = row;
        }
    }
    *ret_rows = rows;
    return n;
}

/* ---- SERIES, STATS ---- */

static bool same_place(const struct world_profile *a, const struct world_profile *b,
                       enum world_presence presence)
{
    return presence == WORLD_ANYWHERE ||
           (a->block == b->block && (a->block != WORLD_NO_BLOCK || a->generation == b->generation));
}

/* Whether the type of this profile's series is listed because of the profiles at the same place. */
static bool is_listed(const struct world *world, const struct world_query *query,
                      const struct world_profile *profile, uint32_t type,
                      enum world_presence presence)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    bool seen = false;

    if (presence == WORLD_EXACTLY)
        return is_answered(world, query, profile) && in_range(query, profile) &&
               total_of(profile, type) > 0;
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *other = &world->profiles[i];

        if (other->series != profile->series || other->tenant != profile->tenant ||
            !is_asked(query, other) || !same_place(profile, other, presence))
            continue;
        first_ns = FG_MIN(first_ns, other->time_ns);
        last_ns = FG_MAX(last_ns, other->time_ns);
        seen = seen || total_of(other, type) > 0;
    }
    first_ns = FG_MAX(first_ns, query->start_ns);
    last_ns = FG_MIN(last_ns, query->end_ns);
    return seen &&
           moment_left(deletions_of(query, profile->tenant), &world->series[profile->series].labels,
                       true, &first_ns) &&
           first_ns <= last_ns;
}

void world_list(const struct world *world, const struct world_query *asked,
                enum world_presence presence, const char *const *names, size_t n_names,
                struct fg_arena *arena, struct qry_label_sets *into)
{
    struct world_query query = *asked;
    struct fg_err err;

    query.gone = query.gone || presence == WORLD_ANYWHERE;
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *profile = &world->profiles[i];

        for (uint32_t t = 0; t < WORLD_TYPES_MAX && is_asked(&query, profile); t++) {
            if (!type_matches(world, &query, profile, t) ||
                !is_listed(world, &query, profile, t, presence))
                continue;
            struct fg_labels labels = fg_labels_restrict(&world->series[profile->series].by_type[t],
                                                         names, n_names, arena);
            fg_assert(qry_label_sets_add(into, &labels, arena, &err) == FG_OK);
        }
    }
    qry_label_sets_sort(into);
}

/* Adds what is at the place of a profile, at the first of its profiles only. */
static void count_place(const struct world *world, const struct world_query *query, uint32_t at,
                        struct qry_tenant_stats *into)
{
    const struct world_profile *profile = &world->profiles[at];
    const struct fg_deletions *deletions = deletions_of(query, profile->tenant);
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    uint64_t n = 0;

    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct world_profile *other = &world->profiles[i];

        if (other->tenant != profile->tenant || !is_asked(query, other) ||
            !same_place(profile, other, WORLD_BY_PLACE))
            continue;
        if (i < at)
            return;
        first_ns = FG_MIN(first_ns, other->time_ns);
        last_ns = FG_MAX(last_ns, other->time_ns);
        n++;
    }
    if (!moment_left(deletions, NULL, true, &first_ns) ||
        !moment_left(deletions, NULL, false, &last_ns) || first_ns > last_ns)
        return;
    into->profiles += n;
    into->oldest_ns = FG_MIN(into->oldest_ns, first_ns);
    into->newest_ns = FG_MAX(into->newest_ns, last_ns);
}

struct qry_tenant_stats world_stats(const struct world *world, const struct world_query *query)
{
    struct qry_tenant_stats stats = {0, INT64_MAX, INT64_MIN};

    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (is_asked(query, &world->profiles[i]))
            count_place(world, query, i, &stats);
    return stats.profiles == 0 ? (struct qry_tenant_stats){0} : stats;
}

/* ---- the peer ---- */

struct answer {
    struct fg_arena *arena;
    struct fg_buf head, payload;
    struct fg_deletions deletions[WORLD_TENANTS]; /* received ones */
};

static uint32_t tenant_number(const struct world *world, const char *tenant)
{
    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        if (fg_slice_is(world->tenants[t], tenant))
            return t;
    return WORLD_TENANTS;
}

static void read_matchers(Fg__Inner__Matcher *const *matchers, size_t n,
                          struct fg_selector *selector, struct fg_arena *arena)
{
    static const enum fg_match_op ops[] = {FG_MATCH_EQ, FG_MATCH_NE, FG_MATCH_RE, FG_MATCH_NRE};
    struct fg_err err;

    for (size_t i = 0; i < n; i++)
        fg_assert(fg_selector_add(selector, arena, ops[matchers[i]->op], fg_cstr(matchers[i]->name),
                                  fg_cstr(matchers[i]->value), &err) == FG_OK);
}

/* A head knows the deletions that requests name. */
static void read_deletions(const struct world *world, const char *tenant,
                           Fg__Inner__Deletion *const *from, size_t n, struct answer *answer)
{
    struct fg_deletions *deletions = &answer->deletions[tenant_number(world, tenant)];
    struct fg_err err;

    for (size_t i = 0; i < n; i++) {
        struct fg_deletion deletion = {.start_ns = from[i]->start_ns, .end_ns = from[i]->end_ns};

        read_matchers(from[i]->matchers, from[i]->n_matchers, &deletion.selector, answer->arena);
        fg_assert(fg_deletions_add(deletions, &deletion, answer->arena, &err) == FG_OK);
    }
}

static struct world_query query_of(const struct world *world, const Fg__Inner__Selection *from,
                                   const char *type, struct fg_selector *selector,
                                   struct answer *answer)
{
    read_matchers(from->matchers, from->n_matchers, selector, answer->arena);
    read_deletions(world, from->tenant, from->deletions, from->n_deletions, answer);
    return (struct world_query){.tenants = 1u << tenant_number(world, from->tenant),
                                .selector = selector,
                                .type = type,
                                .start_ns = from->start_ns,
                                .end_ns = from->end_ns,
                                .after = from->generation,
                                .deletions = answer->deletions,
                                .gone = true};
}

static void put_head(struct answer *answer, const ProtobufCMessage *head)
{
    fg_assert(fg_buf_reserve(&answer->head, protobuf_c_message_get_packed_size(head) + 1));
    answer->head.len = protobuf_c_message_pack(head, answer->head.ptr);
}

static void put_labels(struct fg_buf *out, const struct fg_labels *labels)
{
    struct fg_buf encoded;

    fg_buf_init(&encoded, SIZE_MAX);
    fg_labels_encode(labels, &encoded);
    fg_buf_lenbytes(out, fg_buf_slice(&encoded));
    fg_buf_done(&encoded);
}

static void answer_select(const struct world *world, struct fg_slice in, struct answer *answer)
{
    Fg__Inner__SelectHead *head = fg__inner__select_head__unpack(NULL, in.len, in.ptr);
    struct fg_selector selector = {0};
    struct fg_tree tree;

    fg_assert(head != NULL);
    struct world_query query =
        query_of(world, head->selection, head->profile_type, &selector, answer);
    struct qry_stack_filter stacks = {fg_arena_new(answer->arena, const char *, head->n_call_site),
                                      head->n_call_site,
                                      head->spans,
                                      head->n_spans,
                                      head->traces,
                                      head->profile_ids,
                                      head->n_traces,
                                      head->n_profile_ids};
    for (size_t i = 0; i < head->n_call_site; i++)
        stacks.call_site[i] = head->call_site[i];
    fg_tree_init(&tree);
    world_select(world, &query, &stacks, head->names_only, &tree);
    fg_tree_encode(&tree, &answer->payload);
    fg_tree_done(&tree);
    fg_selector_done(&selector);
    fg__inner__select_head__free_unpacked(head, NULL);
}

static void answer_series(const struct world *world, struct fg_slice in, struct answer *answer)
{
    Fg__Inner__SeriesHead *head = fg__inner__series_head__unpack(NULL, in.len, in.ptr);
    struct fg_selector selector = {0};
    struct qry_label_sets sets;

    fg_assert(head != NULL);
    struct world_query query = query_of(world, head->selection, NULL, &selector, answer);
    qry_label_sets_init(&sets);
    world_list(world, &query, WORLD_BY_PLACE, (const char *const *)head->label_names,
               head->n_label_names, answer->arena, &sets);
    fg_buf_varint(&answer->payload, sets.n);
    for (size_t i = 0; i < sets.n; i++)
        put_labels(&answer->payload, &sets.items[i]);
    qry_label_sets_done(&sets);
    fg_selector_done(&selector);
    fg__inner__series_head__free_unpacked(head, NULL);
}

static void answer_points(const struct world *world, struct fg_slice in, struct answer *answer)
{
    Fg__Inner__PointsHead *head = fg__inner__points_head__unpack(NULL, in.len, in.ptr);
    struct fg_selector selector = {0};
    struct qry_points_list list;

    fg_assert(head != NULL);
    struct world_query query =
        query_of(world, head->selection, head->profile_type, &selector, answer);
    qry_points_list_init(&list);
    world_points(world, &query, head->step_ns, (const char *const *)head->group_by,
                 head->n_group_by, answer->arena, &list);
    fg_buf_varint(&answer->payload, list.n);
    for (size_t i = 0; i < list.n; i++) {
        int64_t before = 0;

        put_labels(&answer->payload, &list.items[i].labels);
        fg_buf_varint(&answer->payload, list.items[i].n);
        for (size_t k = 0; k < list.items[i].n; k++) {
            const struct qry_point *point = &list.items[i].items[k];

            fg_buf_varint(&answer->payload, (uint64_t)(point->k - before));
            fg_buf_zigzag(&answer->payload, point->sum);
            fg_buf_varint(&answer->payload, point->count);
            before = point->k;
        }
    }
    qry_points_list_done(&list);
    fg_selector_done(&selector);
    fg__inner__points_head__free_unpacked(head, NULL);
}

/* Encoded as an ingester does it; what is wanted is up to the querier. */
static void answer_rows(const struct world *world, struct fg_slice in, struct answer *answer)
{
    Fg__Inner__RowsHead *head = fg__inner__rows_head__unpack(NULL, in.len, in.ptr);
    struct fg_selector selector = {0};
    struct fg_profile_rows rows;
    struct world_row *all;
    struct fg_err err;
    size_t n;

    fg_assert(head != NULL);
    struct world_query query =
        query_of(world, head->selection, head->profile_type, &selector, answer);
    n = world_rows(world, &query, head->spans, head->step_ns, answer->arena, &all);
    fg_profile_rows_init(&rows, &(struct fg_profile_rows_config){.arena = answer->arena,
                                                                 .max_bytes = SIZE_MAX,
                                                                 .spans = head->spans});
    for (size_t i = 0; i < n; i++) {
        struct fg_profile_row row = {.time_ns = all[i].time_ns,
                                     .id = all[i].id,
                                     .value = all[i].value,
                                     .span_id = all[i].link.span_id};

        memcpy(row.trace_id, all[i].link.trace_id, FG_ID_BYTES);
        fg_assert(fg_profile_rows_set(&rows, all[i].labels, &row.set, &err) == FG_OK &&
                  fg_profile_rows_add(&rows, &row, &err) == FG_OK);
    }
    fg_profile_rows_encode(&rows, &answer->payload);
    fg_profile_rows_done(&rows);
    fg_selector_done(&selector);
    fg__inner__rows_head__free_unpacked(head, NULL);
}

static void answer_stats(const struct world *world, struct fg_slice in, struct answer *answer)
{
    Fg__Inner__StatsHead *head = fg__inner__stats_head__unpack(NULL, in.len, in.ptr);
    Fg__Inner__StatsReply reply = FG__INNER__STATS_REPLY__INIT;

    fg_assert(head != NULL);
    read_deletions(world, head->tenant, head->deletions, head->n_deletions, answer);
    struct qry_tenant_stats stats = world_stats(
        world, &(struct world_query){.tenants = 1u << tenant_number(world, head->tenant),
                                     .after = head->generation,
                                     .deletions = answer->deletions,
                                     .gone = true});
    reply.profiles = stats.profiles;
    reply.oldest_ns = stats.oldest_ns;
    reply.newest_ns = stats.newest_ns;
    put_head(answer, &reply.base);
    fg__inner__stats_head__free_unpacked(head, NULL);
}

/* Returns the generation in the head of a request of the method. */
static uint64_t generation_of(enum fg_rpc_method method, struct fg_slice in)
{
    static const ProtobufCMessageDescriptor *const types[FG_RPC_METHODS] = {
        [FG_RPC_SELECT] = &fg__inner__select_head__descriptor,
        [FG_RPC_SERIES] = &fg__inner__series_head__descriptor,
        [FG_RPC_POINTS] = &fg__inner__points_head__descriptor,
        [FG_RPC_ROWS] = &fg__inner__rows_head__descriptor,
        [FG_RPC_STATS] = &fg__inner__stats_head__descriptor,
    };
    ProtobufCMessage *head = protobuf_c_message_unpack(types[method], NULL, in.len, in.ptr);
    uint64_t generation;

    fg_assert(head != NULL);
    if (method == FG_RPC_STATS)
        generation = ((Fg__Inner__StatsHead *)(void *)head)->generation;
    else if (method == FG_RPC_SELECT)
        generation = ((Fg__Inner__SelectHead *)(void *)head)->selection->generation;
    else if (method == FG_RPC_SERIES)
        generation = ((Fg__Inner__SeriesHead *)(void *)head)->selection->generation;
    else if (method == FG_RPC_ROWS)
        generation = ((Fg__Inner__RowsHead *)(void *)head)->selection->generation;
    else
        generation = ((Fg__Inner__PointsHead *)(void *)head)->selection->generation;
    protobuf_c_message_free_unpacked(head, NULL);
    return generation;
}

static void peer_send(struct fg_peer *base, struct fg_call *call)
{
    struct world *world = fg_container(base, struct world, peer);
    struct answer *answer = fg_new(struct answer);

    (void)__atomic_fetch_add(&world->calls, 1, __ATOMIC_RELAXED);
    answer->arena = fg_arena_create(SIZE_MAX);
    fg_buf_init(&answer->head, SIZE_MAX);
    fg_buf_init(&answer->payload, SIZE_MAX);
    call->transport = answer;
    call->code = world->peer_code;
    if (call->code != FG_OK)
        (void)fg_fail(&call->err, call->code, "the world's peer was told to fail");
    else if (generation_of(call->method, call->head) < world->forgotten)
        call->code = fg_fail(&call->err, FG_E_PRECONDITION, "forgotten");
    else if (call->method == FG_RPC_SELECT)
        answer_select(world, call->head, answer);
    else if (call->method == FG_RPC_SERIES)
        answer_series(world, call->head, answer);
    else if (call->method == FG_RPC_POINTS)
        answer_points(world, call->head, answer);
    else if (call->method == FG_RPC_ROWS)
        answer_rows(world, call->head, answer);
    else
        answer_stats(world, call->head, answer);
    call->reply_head = fg_buf_slice(&answer->head);
    call->reply_payload = fg_buf_slice(&answer->payload);
    call->done(call);
}

static void peer_release(struct fg_call *call)
{
    struct answer *answer = call->transport;

    fg_buf_done(&answer->head);
    fg_buf_done(&answer->payload);
    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        fg_deletions_done(&answer->deletions[t]);
    fg_arena_destroy(answer->arena);
    free(answer);
}

static void peer_destroy(struct fg_peer *peer)
{
    (void)peer;
}

const struct fg_peer_ops world_peer_ops = {peer_send, peer_release, peer_destroy};
