/* The ring for people: text, HTML, and GET /ring over real HTTP. */
#include "common/base/time.h"
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/page.h"
#include "common/cluster/ring/route.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_make.h"
#include "tests/lib/served.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct fg_ring_view *example(void)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = fg_ring_none();
    struct fg_ring_view *view;

    ring = ring_make(&ring, ring_make_join("ann", "x", 1), arena);
    ring = ring_make(&ring, ring_make_join("bob", "y", 2), arena);
    ring = ring_make(&ring, ring_make_leave("ann", 1), arena);
    ring = ring_make(&ring,
                     (struct fg_ring_change){.kind = FG_RING_WIDEN,
                                             .name = FG_LIT("team"),
                                             .shard_factor = 2,
                                             .since_ns = FG_SECOND_NS},
                     arena);
    view = ring_make_view(&ring);
    fg_arena_destroy(arena);
    return view;
}

static void the_text_lists_members_and_revisions(void **state)
{
    static const char want[] =
        "member                   zone         state       shards   since                 address"
        "                          HTTP\n"
        "ann                      x            leaving     0        1970-01-01T00:00:00Z  "
        "tcp://ann:1"
        "                      host:4040\n"
        "bob                      y            active      65536    1970-01-01T00:00:00Z  "
        "tcp://bob:1"
        "                      host:4040\n"
        "\n"
        "revision                 replicas     members     waits for\n"
        "1                        3            1           ann\n"
        "2                        3            2           ann bob\n"
        "3                        3            1           \n"
        "\n"
        "tenant                   shard factor shards      of profiles since\n"
        "team                     2            4           1970-01-01T00:00:01Z\n";
    struct fg_ring_view *view = example();
    struct fg_ring none = fg_ring_none();
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, 1 << 20);
    fg_ring_write_text(view, &out);
    fg_ring_view_unref(view);
    assert_true(fg_slice_is(fg_buf_slice(&out), want));
    fg_buf_clear(&out);
    view = ring_make_view(&none);
    fg_ring_write_text(view, &out);
    fg_ring_view_unref(view);
    assert_true(fg_slice_is(fg_buf_slice(&out), "nobody has joined yet\n"));
    fg_buf_done(&out);
}

static bool has(const struct fg_buf *out, const char *part)
{
    return fg_slice_search(fg_buf_slice(out), part) != SIZE_MAX;
}

/* What can stand in an address is text in the page, whatever it looks like. */
static void the_page_lists_members_and_revisions(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_change join = ring_make_join("ann", "x", 1);
    struct fg_ring ring = fg_ring_none();
    struct fg_ring_view *view;
    struct fg_buf out;

    (void)state;
    join.address = FG_LIT("tcp://<b>\"&'");
    ring = ring_make(&ring, join, arena);
    view = ring_make_view(&ring);
    fg_buf_init(&out, 1 << 20);
    fg_ring_write_html(view, &out);
    assert_true(has(&out, "<!doctype html>"));
    assert_true(has(&out, "<td>ann<td>x<td>active<td>65536<td>1970-01-01T00:00:00Z<td>"));
    assert_true(has(&out, "tcp://&lt;b&gt;&quot;&amp;&#39;"));
    assert_false(has(&out, "<b>"));
    fg_buf_done(&out);
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

struct server {
    struct fg_bucket *bucket;
    struct fg_ring_watch *watch;
    struct served served;
};

static void start(struct server *s)
{
    const struct fg_lane_config lanes[FG_LANES] = {0};
    struct fg_err err;

    s->bucket = fg_bucket_memory();
    served_open(&s->served, lanes);
    assert_int_equal(
        fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = s->bucket,
                                                            .clock = fg_clock_real(),
                                                            .registry = s->served.registry,
                                                            .poll_ns = FG_HOUR_NS},
                             &s->watch, &err),
        FG_OK);
    fg_ring_route(s->served.server, s->watch);
    served_start(&s->served);
}

static void stop(struct server *s)
{
    served_stop(&s->served);
    fg_ring_watch_destroy(s->watch);
    served_close(&s->served);
    fg_bucket_close(s->bucket);
}

static void the_route_chooses_the_form(void **state)
{
    struct server s = {0};
    struct fg_ring_change join = ring_make_join("ann", "x", 1);
    struct fg_ring_object object = {.clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    (void)state;
    start(&s);
    assert_int_equal(served_ask(&s.served, "GET /ring HTTP/1.1", NULL), 503);

    object.bucket = s.bucket;
    object.wave = fg_bucket_wave_create();
    assert_int_equal(fg_ring_object_change(&object, &join, &view, &err), FG_OK);
    fg_ring_view_unref(view);
    fg_bucket_wave_destroy(object.wave);
    assert_int_equal(fg_ring_watch_start(s.watch, &err), FG_OK);
    assert_int_equal(
        fg_ring_watch_until(s.watch, 1, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &view, &err),
        FG_OK);
    fg_ring_view_unref(view);

    assert_int_equal(served_ask(&s.served, "GET /ring HTTP/1.1", NULL), 200);
    assert_true(http_ask_head_has(&s.served.answer, "text/html"));
    assert_true(http_ask_head_has(&s.served.answer, "default-src 'none'"));
    assert_non_null(strstr(http_ask_body(&s.served.answer), "<td>ann"));
    assert_int_equal(served_ask(&s.served, "GET /ring?format=json HTTP/1.1", NULL), 200);
    assert_true(http_ask_head_has(&s.served.answer, "application/json"));
    assert_non_null(strstr(http_ask_body(&s.served.answer), "\"name\":\"ann\""));
    assert_int_equal(served_ask(&s.served, "GET /ring HTTP/1.1\r\nAccept: application/json", NULL),
                     200);
    assert_true(http_ask_head_has(&s.served.answer, "application/json"));
    assert_int_equal(
        served_ask(&s.served, "GET /ring HTTP/1.1\r\nAccept: text/html, application/json", NULL),
        200);
    assert_true(http_ask_head_has(&s.served.answer, "text/html"));
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_lists_members_and_revisions),
        cmocka_unit_test(the_page_lists_members_and_revisions),
        cmocka_unit_test(the_route_chooses_the_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
