#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct fg_ring ring_make(const struct fg_ring *ring, struct fg_ring_change change,
                         struct fg_arena *arena)
{
    struct fg_ring next;
    struct fg_err err;
    bool changed;

    if (fg_ring_apply(ring, &change, arena, &next, &changed, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(changed);
    assert_int_equal(next.swaps, ring->swaps + 1);
    ring_make_check(&next);
    return next;
}

/* A text that lives as long as the test. */
static struct fg_slice address_of(const char *name)
{
    static char texts[64][64];
    static unsigned n;
    char *text = texts[n++ % FG_COUNT(texts)];

    (void)snprintf(text, sizeof texts[0], "tcp://%s:1", name);
    return fg_cstr(text);
}

struct fg_ring_change ring_make_join(const char *name, const char *zone, uint64_t store)
{
    return (struct fg_ring_change){
        .kind = FG_RING_JOIN,
        .name = fg_cstr(name),
        .zone = fg_cstr(zone),
        .address = address_of(name),
        .http = FG_LIT("host:4040"),
        .store = {store, 1},
        .replicas = 3,
        .wall_ns = 1000,
    };
}

struct fg_ring_change ring_make_leave(const char *name, uint64_t store)
{
    return (struct fg_ring_change){
        .kind = FG_RING_LEAVE, .name = fg_cstr(name), .store = {store, 1}};
}

struct fg_ring_change ring_make_drained(const char *name, uint64_t store, uint64_t revision)
{
    return (struct fg_ring_change){.kind = FG_RING_DRAINED,
                                   .name = fg_cstr(name),
                                   .store = {store, 1},
                                   .revision = revision,
                                   .generation = 10 * revision};
}

struct fg_ring_change ring_make_forget(const char *name)
{
    return (struct fg_ring_change){.kind = FG_RING_FORGET, .name = fg_cstr(name)};
}

struct fg_ring_view *ring_make_view(const struct fg_ring *ring)
{
    struct fg_ring_view *view = NULL;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    if (fg_ring_encode(ring, &bytes, &err) != FG_OK ||
        fg_ring_view_create(fg_buf_slice(&bytes), FG_LIT("etag"), NULL, &view, &err) != FG_OK)
        fail_msg("%s", err.msg);
    fg_buf_done(&bytes);
    return view;
}

static bool is_waited_for(const struct fg_ring *ring, const struct fg_ring_revision *revision)
{
    for (uint32_t i = 0; i < revision->n_places; i++)
        if (!fg_ring_is_done(&ring->members[revision->places[i].member], revision->number))
            return true;
    return false;
}

static bool has_place(const struct fg_ring *ring, uint32_t member)
{
    for (uint32_t i = 0; i < ring->n_revisions; i++)
        if (fg_ring_place_of(&ring->revisions[i], member) != NULL)
            return true;
    return false;
}

void ring_make_check(const struct fg_ring *ring)
{
    uint64_t newest = fg_ring_newest(ring);

    for (uint32_t i = 0; i < ring->n_members; i++) {
        const struct fg_ring_member *member = &ring->members[i];

        assert_true(i == 0 || fg_slice_cmp(member[-1].name, member->name) < 0);
        assert_true(member->drained <= newest && member->lost <= newest);
        assert_true(has_place(ring, i));
        assert_int_equal(fg_ring_find(ring, member->name), i);
    }
    for (uint32_t i = 0; i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        assert_true(revision->number > (i == 0 ? 0 : revision[-1].number));
        assert_true(revision->replicas >= 1 && revision->replicas <= FG_RING_REPLICAS_MAX);
        assert_true(i == ring->n_revisions - 1 || is_waited_for(ring, revision));
        for (uint32_t k = 1; k < revision->n_places; k++)
            assert_true(revision->places[k - 1].member < revision->places[k].member);
    }
}
