#include "querier/ui.h"

#include "common/base/str.h"
#include "common/net/http.h"
#include "common/net/inflate.h"
#include "common/net/ui_pages.h"
#include "common/runtime/log.h"

/* Only files of this server, no inline scripts and styles, no forms. data: and blob: are pictures
 * that the page makes. */
#define POLICY                                                                                     \
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors "

enum { POLICY_MAX_BYTES = 4096 }; /* the setting has at most 1,000 */

/* Handlers take a pointer that is not const; nobody writes through it. */
union file_arg {
    const void *file;
    void *arg;
};

static void respond(struct fg_http_request *req, const struct qry_ui_file *file)
{
    bool packed = file->len != file->plain_len;
    struct fg_slice known = fg_http_header(req, "if-none-match");
    struct fg_slice stored = fg_bytes(file->bytes, file->len);
    struct fg_buf body;
    struct fg_err err;

    fg_http_no_coding(req);
    fg_http_add_header(req, "ETag", file->etag);
    fg_http_add_header(req, "Vary", "Accept-Encoding");
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    fg_http_add_header(req, "Referrer-Policy", "no-referrer");
    /* Without a hash in its name: ask each time, so that a new release is seen at once. */
    fg_http_add_header(req, "Cache-Control",
                       file->immutable ? "public, max-age=31536000, immutable" : "no-cache");
    if (known.len > 0 && fg_slice_search(known, file->etag) != SIZE_MAX) {
        fg_http_respond(req, 304, NULL, NULL);
        return;
    }
    fg_buf_init(&body, file->plain_len);
    if (packed && !fg_http_takes_gzip(req)) {
        /* A millisecond, and no browser asks for it. */
        enum fg_code code = fg_inflate(stored, FG_CODING_GZIP, file->plain_len, &body, &err);

        fg_assert(code == FG_OK); /* the build has compressed it */
    } else {
        if (packed)
            fg_http_add_header(req, "Content-Encoding", "gzip");
        fg_buf_put(&body, stored);
    }
    fg_http_respond(req, 200, file->content_type, &body);
}

static void on_file(struct fg_http_request *req, void *file)
{
    fg_http_add_header(req, "Content-Security-Policy", POLICY "'none'");
    respond(req, file);
}

/* Whoever has to log in is sent there at once, and comes back to the same address. */
static void on_page(struct fg_http_request *req, void *file)
{
    if (!fg_http_log_in(req))
        on_file(req, file);
}

static const struct qry_ui_file *page(void)
{
    fg_assert(fg_slice_is(fg_cstr(qry_ui_files[0].path), "/index.html"));
    return &qry_ui_files[0];
}

/* origins: in which the page may be shown. */
static void on_embed(struct fg_http_request *req, void *origins)
{
    char policy[POLICY_MAX_BYTES];

    (void)snprintf(policy, sizeof policy, POLICY "%s",
                   *(const char *)origins != '\0' ? (const char *)origins : "'none'");
    fg_http_add_header(req, "Content-Security-Policy", policy);
    respond(req, page());
}

static void add_route(struct fg_http_server *server, const char *path, fg_http_handler handler,
                      const void *arg)
{
    union file_arg given = {.file = arg};

    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                         .path = path,
                                                         .handler = handler,
                                                         .arg = given.arg,
                                                         .name = "ui",
                                                         .kind = FG_HTTP_READS,
                                                         .scopes = (unsigned)FG_SCOPE_OPEN});
}

void qry_ui_routes(struct fg_http_server *server, const char *embed_origins)
{
    static const char *const pages[] = {
#define PATH(path) path,
        FG_UI_PAGES(PATH)
#undef PATH
    };

    for (size_t i = 0; i < FG_COUNT(pages); i++)
        add_route(server, pages[i], on_page, page());
    add_route(server, FG_UI_EMBED, on_embed, embed_origins);
    for (size_t i = 1; i < qry_n_ui_files; i++)
        add_route(server, qry_ui_files[i].path, on_file, &qry_ui_files[i]);
}
