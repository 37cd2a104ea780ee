/* Sending a file as a profile: POST /ingest, with patience for servers that are busy. */
#ifndef FG_DEPLOY_SINGLE_PUSHING_H
#define FG_DEPLOY_SINGLE_PUSHING_H

#include "deploy/single/client.h"

/* How files are sent. Of name, from, until, format and spy_name NULL: not said. */
struct pushing {
    const char *name, *from, *until, *format, *spy_name;
    uint64_t sample_rate; /* 0: the server's default */
    struct client *client;
};

/* What went over the wire. */
struct pushed {
    size_t bytes;
    const char *format;
};

/* The err begins with what is wrong, not with the file's name. */
enum fg_code push_file(const struct pushing *pushing, const char *file, struct pushed *ret_pushed,
                       struct fg_err *err) fg_must_check;

#endif
