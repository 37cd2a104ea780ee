/* The page at / and the files it loads: querier/ui, embedded by the build (querier/ui/embed.cmake).
 */
#ifndef FG_QUERIER_UI_H
#define FG_QUERIER_UI_H

#include <stddef.h>

struct fg_http_server;

struct qry_ui_file {
    const char *path; /* in URLs */
    const char *content_type;
    const unsigned char *bytes;
    size_t len;
};

extern const struct qry_ui_file qry_ui_files[];
extern const size_t qry_n_ui_files;

/* Adds the routes of the files to a server that has not started yet. */
void qry_ui_routes(struct fg_http_server *server);

#endif
