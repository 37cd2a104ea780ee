#include "querier/ui.h"

#include "common/base/hash.h"
#include "common/net/http.h"

/* Only files of this server, no inline scripts, no frames of other pages. data: is the page's own
 * icon. */
static const char policy[] = "default-src 'self'; img-src 'self' data:; object-src 'none'; "
                             "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

static bool is_known(struct fg_http_request *req, const char *etag)
{
    struct fg_slice known = fg_http_header(req, "if-none-match");

    return known.len > 0 && fg_slice_search(known, etag) != SIZE_MAX;
}

static void on_file(struct fg_http_request *req, void *arg)
{
    const struct qry_ui_file *file = arg;
    struct fg_buf body;
    char etag[24];

    snprintf(etag, sizeof etag, "\"%016llx\"",
             (unsigned long long)fg_hash64(fg_bytes(file->bytes, file->len)));
    fg_http_add_header(req, "ETag", etag);
    /* Ask each time, so that a new release is seen at once; a 304 is cheap. */
    fg_http_add_header(req, "Cache-Control", "no-cache");
    fg_http_add_header(req, "Content-Security-Policy", policy);
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    fg_http_add_header(req, "Referrer-Policy", "no-referrer");
    /* The bytes are constant, so their hash is a strong validator (RFC 9110 8.8.1). */
    if (is_known(req, etag)) {
        fg_http_respond(req, 304, NULL, NULL);
        return;
    }
    fg_buf_init(&body, file->len + 1);
    fg_buf_append(&body, file->bytes, file->len);
    fg_http_respond(req, 200, file->content_type, &body);
}

void qry_ui_routes(struct fg_http_server *server)
{
    for (size_t i = 0; i < qry_n_ui_files; i++) {
        union { /* handlers take a pointer that is not const; nobody writes through it */
            const struct qry_ui_file *file;
            void *arg;
        } file = {.file = &qry_ui_files[i]};

        fg_http_server_route(server, &(struct fg_http_route){
                                         .methods = FG_HTTP_GET,
                                         .path = qry_ui_files[i].path,
                                         .handler = on_file,
                                         .arg = file.arg,
                                         .name = "ui",
                                         .kind = FG_HTTP_READS,
                                     });
    }
}
