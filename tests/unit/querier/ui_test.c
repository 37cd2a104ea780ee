/* Tests that the querier serves its pages. */
#include "common/net/ui_pages.h"
#include "querier/ui.h"
#include "tests/unit/querier/querier_served.h"

static void page_is_served_with_etag(void **state)
{
    struct querier_served *f = *state;
    char request[256], etag[32] = "";

    assert_int_equal(querier_ask(f, "GET / HTTP/1.1", NULL), 200);
    assert_true(querier_head_has(f, "text/html; charset=utf-8"));
    assert_true(querier_head_has(f, "Content-Security-Policy: default-src 'self'"));
    assert_int_equal(
        sscanf(strstr((const char *)f->served.answer.ptr, "ETag: "), "ETag: %31s", etag), 1);
    (void)snprintf(request, sizeof request, "GET / HTTP/1.1\r\nIf-None-Match: %s", etag);
    assert_int_equal(querier_ask(f, request, NULL), 304);
}

static void every_page_is_the_same_file_and_other_paths_are_404(void **state)
{
    struct querier_served *f = *state;
    static const char *const pages[] = {
#define PATH(path) path,
        FG_UI_PAGES(PATH)
#undef PATH
            FG_UI_EMBED,
    };
    char request[256];

    for (size_t i = 0; i < FG_COUNT(pages); i++) {
        (void)snprintf(request, sizeof request, "GET %s?query=a HTTP/1.1", pages[i]);
        assert_int_equal(querier_ask(f, request, NULL), 200);
        assert_non_null(strstr(querier_body(f), "<title>flamegrid</title>"));
        assert_true(querier_head_has(f, "frame-ancestors 'none'"));
        assert_true(querier_head_has(f, "Cache-Control: no-cache"));
    }
    assert_int_equal(querier_ask(f, "GET /diff/ HTTP/1.1", NULL), 404);
    assert_int_equal(querier_ask(f, "GET /assets/none.js HTTP/1.1", NULL), 404);
    assert_int_equal(querier_ask(f, "GET /index.html HTTP/1.1", NULL), 404);
    assert_int_equal(querier_ask(f, "POST / HTTP/1.1", NULL), 405);
}

/* A client that takes no compression gets every file whole, also those that the build stores
 * compressed. */
static void assets_are_whole_and_immutable(void **state)
{
    struct querier_served *f = *state;
    size_t n_assets = 0, n_packed = 0;

    for (size_t i = 0; i < qry_n_ui_files; i++) {
        const struct qry_ui_file *file = &qry_ui_files[i];
        char request[256], length[64];

        if (!fg_slice_starts(fg_cstr(file->path), FG_UI_ASSETS))
            continue;
        n_assets++;
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1", file->path);
        assert_int_equal(querier_ask(f, request, NULL), 200);
        assert_true(querier_head_has(f, "Cache-Control: public, max-age=31536000, immutable"));
        assert_true(querier_head_has(f, file->content_type));
        assert_false(querier_head_has(f, "Content-Encoding"));
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n", file->plain_len);
        assert_true(querier_head_has(f, length));
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nAccept-Encoding: gzip",
                       file->path);
        assert_int_equal(querier_ask(f, request, NULL), 200);
        if (file->len == file->plain_len)
            continue;
        n_packed++;
        assert_true(querier_head_has(f, "Content-Encoding: gzip"));
        assert_true(querier_head_has(f, "Vary: Accept-Encoding"));
        assert_memory_equal(querier_body(f), file->bytes, file->len);
    }
    assert_true(n_assets > 3 && n_packed > 1 && n_packed < n_assets);
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, querier_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(page_is_served_with_etag, querier_setup),
        WITH(every_page_is_the_same_file_and_other_paths_are_404, querier_setup),
        WITH(assets_are_whole_and_immutable, querier_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
