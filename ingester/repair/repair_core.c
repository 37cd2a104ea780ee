/*
 * One pass over one other owner: its groups page by page; for each group that differs, the ids of
 * both sides; then the missing profiles. The next pass finds what is still missing.
 *
 * An error that belongs to one group must not end the pass, since the next pass meets it again at
 * the same place: whatever is behind a damaged record there, or a tenant at its limit here, would
 * never be repaired.
 */
#include "ingester/repair/repair_core.h"

enum { PAGE_MAX_BYTES = 4 * 1024 * 1024 /* 4096 groups and the names of their tenants */ };

/* Returns true if the groups behind would fail as well. */
static bool ends_pass(enum fg_code code)
{
    switch (code) {
    case FG_E_UNAVAILABLE:  /* one of the two takes no requests: it is down, or its disk is full */
    case FG_E_DEADLINE:     /* each group would cost as much time */
    case FG_E_CANCELED:     /* this ingester is stopping */
    case FG_E_PRECONDITION: /* there is a newer ring, or another store */
    case FG_E_ABORTED:      /* the ring of this pass is not loaded here yet */
    case FG_E_NO_SPACE:
        return true;
    default:
        return false;
    }
}

/* Fetches the profiles with these ids. */
static enum fg_code take_all(const struct ing_repair_links *links,
                             const struct ing_repair_group *group, struct ing_group_ids *missing,
                             struct fg_err *err)
{
    /* One place for all calls of a group. Ids are in the order of the other store, so each call
     * continues where the last answer ended. */
    struct ing_repair_place place = {.len = 0};

    for (size_t i = 0; i < missing->n; i += REPAIR_IDS_MAX) {
        size_t left = FG_MIN(missing->n - i, REPAIR_IDS_MAX);

        while (left > 0) {
            size_t before = left;

            if (links->take(links->arg, group, missing->ids + i, &left, &place, err) != FG_OK)
                return err->code;
            fg_assert(left < before); /* or the pass would never end */
        }
    }
    return FG_OK;
}

/* Fetches the profiles of a group that the other owner has and this head lacks. */
static enum fg_code repair_group(const struct ing_repair_links *links,
                                 const struct ing_repair_group *group, struct fg_err *err)
{
    struct ing_group_ids own = {0}, theirs = {0}, missing = {0};
    enum fg_code code = links->own_ids(links->arg, group, &own, err);

    if (code == FG_OK)
        code = links->ids(links->arg, group, &theirs, err);
    if (code == FG_OK) {
        ing_group_ids_sort(&own);
        /* In their order, in which the other owner finds them without reading twice. */
        for (size_t i = 0; i < theirs.n; i++)
            if (!ing_group_ids_have(&own, theirs.ids[i]))
                ing_group_ids_add(&missing, theirs.ids[i]);
        code = take_all(links, group, &missing, err);
    }
    ing_group_ids_done(&own);
    ing_group_ids_done(&theirs);
    ing_group_ids_done(&missing);
    return code;
}

/* Gets the next page and repairs its groups. *after: the last group of the page before, whose arena
 * is still alive; set to the last of this page, or NULL at the end. *failed: the first error of a
 * group that was left to the next pass. */
static enum fg_code one_page(const struct ing_repair_links *links, struct fg_arena *arena,
                             const struct ing_repair_group **after, struct fg_err *failed,
                             struct fg_err *err)
{
    struct ing_repair_page page;

    if (links->groups(links->arg, *after, arena, &page, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < page.n; i++) {
        const struct ing_repair_group *group = &page.groups[i];
        struct ing_group_sum own;

        if (!links->owns(links->arg, group->shard))
            continue;
        own = links->own_sum(links->arg, group);
        /* Count and digest: equal counts are not enough (sums-of-ids). */
        if (own.count == group->sum.count && fg_id_eq(own.digest, group->sum.digest))
            continue;
        if (repair_group(links, group, err) == FG_OK)
            continue;
        if (ends_pass(err->code))
            return err->code;
        links->group_failed(links->arg, group);
        if (failed->code == FG_OK) {
            *failed = *err;
            (void)fg_wrap(failed, "tenant %.*s, shard %u", FG_S(group->tenant),
                          (unsigned)group->shard);
        }
    }
    *after = page.more && page.n > 0 ? &page.groups[page.n - 1] : NULL;
    return FG_OK;
}

enum fg_code ing_repair_core_pass(const struct ing_repair_links *links, struct fg_err *err)
{
    struct fg_arena *arena = NULL;
    const struct ing_repair_group *after = NULL;
    struct fg_err failed = {.code = FG_OK};
    enum fg_code code;

    do {
        /* Two arenas in turn: `after` points into the page before. */
        struct fg_arena *next = fg_arena_create(PAGE_MAX_BYTES);

        code = one_page(links, next, &after, &failed, err);
        fg_arena_destroy(arena);
        arena = next;
    } while (code == FG_OK && after != NULL);
    fg_arena_destroy(arena);
    if (code != FG_OK || failed.code == FG_OK)
        return code;
    *err = failed;
    return err->code;
}
