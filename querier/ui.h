/* Files of querier/ui as the build embeds them (querier/ui/embed.cmake). */
#ifndef FG_QUERIER_UI_H
#define FG_QUERIER_UI_H

#include <stddef.h>

struct qry_ui_file {
    const char *path; /* in URLs */
    const char *content_type;
    const unsigned char *bytes;
    size_t len;
};

extern const struct qry_ui_file qry_ui_files[];
extern const size_t qry_n_ui_files;

#endif
