/* Queries for single profiles and spans: each has to list what the world's model lists. */
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NEWEST_MAX = 12, GROUPS_MAX = 2 };

/* What is asked for, and what the model has. */
struct rows_check {
    struct fg_profile_rows found;
    const char *group_by[GROUPS_MAX];
    struct world_row *want;
    size_t n_want;
    struct fg_arena *arena;
};

#define ORDER(a, b)                                                                                \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

static int want_order(const void *left, const void *right)
{
    const struct world_row *a = left, *b = right;
    int order;

    ORDER(b->time_ns, a->time_ns);
    order = fg_id_cmp(a->id, b->id);
    if (order != 0)
        return order;
    ORDER(a->link.span_id, b->link.span_id);
    return memcmp(a->link.trace_id, b->link.trace_id, FG_ID_BYTES);
}

static int found_order(const void *left, const void *right)
{
    const struct fg_profile_row *a = left, *b = right;
    int order;

    ORDER(b->time_ns, a->time_ns);
    order = fg_id_cmp(a->id, b->id);
    if (order != 0)
        return order;
    ORDER(a->span_id, b->span_id);
    return memcmp(a->trace_id, b->trace_id, FG_ID_BYTES);
}

static struct fg_labels group_of(const struct rows_check *check, const struct fg_labels *labels)
{
    return fg_labels_group(labels, check->group_by, check->found.config.n_group_by, check->arena);
}

static void assert_same_row(const struct rows_check *check, const struct fg_profile_row *found,
                            const struct world_row *want)
{
    const struct fg_profile_rows *rows = &check->found;
    struct fg_labels group = group_of(check, want->labels);

    assert_true(found->time_ns == want->time_ns);
    assert_int_equal(fg_id_cmp(found->id, want->id), 0);
    assert_true(found->value == want->value);
    assert_true(found->span_id == want->link.span_id);
    assert_memory_equal(found->trace_id, want->link.trace_id, FG_ID_BYTES);
    assert_int_equal(fg_labels_cmp(&rows->sets.items[found->set], want->labels), 0);
    assert_int_equal(fg_labels_cmp(&rows->groups.items[found->group], &group), 0);
}

static bool same_place(const struct rows_check *check, const struct world_row *a,
                       const struct world_row *b)
{
    struct fg_labels left = group_of(check, a->labels), right = group_of(check, b->labels);

    return a->k == b->k && fg_labels_cmp(&left, &right) == 0;
}

/* Whether a row is the greatest of its group and step; of equal ones the earliest counts. */
static bool is_greatest(const struct rows_check *check, const struct world_row *row)
{
    for (size_t i = 0; i < check->n_want; i++) {
        const struct world_row *other = &check->want[i];

        if (other == row || other->value < row->value || !same_place(check, other, row))
            continue;
        if (other->value > row->value || other->time_ns < row->time_ns ||
            (other->time_ns == row->time_ns && want_order(other, row) < 0))
            return false;
    }
    return true;
}

static void keep_greatest(struct rows_check *check)
{
    struct world_row *kept = fg_arena_new(check->arena, struct world_row, check->n_want);
    size_t n = 0;

    for (size_t i = 0; i < check->n_want; i++)
        if (is_greatest(check, &check->want[i]))
            kept[n++] = check->want[i];
    check->want = kept;
    check->n_want = n;
}

/* Drops what is not behind the cursor, and all but the first. */
static void keep_newest(struct rows_check *check)
{
    const struct fg_profile_rows_config *config = &check->found.config;
    size_t n = 0;

    for (size_t i = 0; i < check->n_want && n < config->n_newest; i++) {
        const struct world_row *row = &check->want[i];

        if (!config->has_before || row->time_ns < config->before_ns ||
            (row->time_ns == config->before_ns && fg_id_cmp(row->id, config->before_id) > 0))
            check->want[n++] = *row;
    }
    check->n_want = n;
}

static void assert_steps(const struct rows_check *check)
{
    for (size_t i = 0; i < check->found.n; i++) {
        const struct fg_profile_row *row = &check->found.items[i];

        assert_ptr_equal(fg_profile_rows_find(&check->found, row->group, row->step), row);
        assert_int_equal(
            fg_profile_rows_group(&check->found, &check->found.groups.items[row->group]),
            row->group);
    }
}

static void compare(struct rows_check *check)
{
    struct fg_profile_rows *found = &check->found;

    if (check->n_want > 0)
        qsort(check->want, check->n_want, sizeof *check->want, want_order);
    if (found->config.keep == FG_ROWS_GREATEST) {
        assert_steps(check);
        keep_greatest(check);
    } else if (found->config.keep == FG_ROWS_NEWEST) {
        keep_newest(check);
    }
    assert_int_equal(found->n, check->n_want);
    if (found->n > 0 && found->config.keep != FG_ROWS_NEWEST) /* which is in this order */
        qsort(found->items, found->n, sizeof *found->items, found_order);
    for (size_t i = 0; i < found->n; i++)
        assert_same_row(check, &found->items[i], &check->want[i]);
}

static void draw_config(struct asker *asker, struct rows_check *check)
{
    static const char *const names[] = {"service_name", "pod", "zone", "none"};
    static const int64_t steps_ns[] = {FG_SECOND_NS, 15 * FG_SECOND_NS, FG_MINUTE_NS,
                                       2 * FG_HOUR_NS, 7 * FG_SECOND_NS + 1};
    struct fg_profile_rows_config *config = &check->found.config;
    const struct world *world = &asker->world;
    struct fg_profile_rows_config drawn = {.arena = check->arena,
                                           .max_bytes = 64 * 1024 * 1024,
                                           .keep = (enum fg_profile_rows_keep)asker_draw(asker, 3),
                                           .spans = asker_draw(asker, 2) == 1,
                                           .group_by = check->group_by,
                                           .n_group_by = asker_draw(asker, GROUPS_MAX + 1)};

    fg_profile_rows_init(&check->found, &drawn);
    for (size_t i = 0; i < GROUPS_MAX; i++)
        check->group_by[i] = names[asker_draw(asker, FG_COUNT(names))];
    if (config->keep == FG_ROWS_GREATEST) {
        config->step_ns = steps_ns[asker_draw(asker, FG_COUNT(steps_ns))];
    } else if (config->keep == FG_ROWS_NEWEST) {
        config->n_newest = 1 + asker_draw(asker, NEWEST_MAX);
        config->has_before = world->n_profiles > 0 && asker_draw(asker, 2) == 1;
        if (config->has_before) {
            const struct world_profile *at = &world->profiles[asker_draw(asker, world->n_profiles)];

            config->before_ns = at->time_ns;
            config->before_id = at->id;
        }
    }
}

enum fg_code asker_check_rows(struct asker *asker, struct fg_err *err)
{
    struct rows_check check = {0};
    enum fg_code code;
    struct ask ask;

    ask_begin(asker, &ask);
    check.arena = ask.query->arena;
    draw_config(asker, &check);
    code =
        asker_whole(ask.query, qry_collect_rows(ask.query, &ask.selection, &check.found, err), err);
    if (code == FG_OK) {
        check.n_want = world_rows(&asker->world, &ask.asked, check.found.config.spans,
                                  check.found.config.step_ns, check.arena, &check.want);
        compare(&check);
    }
    fg_profile_rows_done(&check.found);
    ask_end(&ask);
    return code;
}
