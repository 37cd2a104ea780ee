/* The web page: what querier/ui/dist has, embedded by the build (querier/ui/embed.py). */
#ifndef FG_QUERIER_UI_H
#define FG_QUERIER_UI_H

#include <stdbool.h>
#include <stddef.h>

struct fg_http_server;

struct qry_ui_file {
    const char *path; /* in URLs; "/index.html": the page */
    const char *content_type;
    const char *etag;           /* a weak one: of the plain bytes */
    const unsigned char *bytes; /* gzip, unless len is plain_len */
    size_t len, plain_len;
    bool immutable; /* its name has a hash of its content */
};

extern const struct qry_ui_file qry_ui_files[];
extern const size_t qry_n_ui_files;

/*
 * Adds the routes of the page and of its files to a server that has not started yet. embed_origins:
 * origins of pages that may show /embed in a frame, separated by spaces; "": none. Borrowed until
 * the server is destroyed.
 */
void qry_ui_routes(struct fg_http_server *server, const char *embed_origins);

#endif
