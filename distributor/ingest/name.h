/*
 * The `name` of /ingest: app.name{key=value,key2=value2}, no quotes around values
 * (distributor/API.md#the-name).
 */
#ifndef FG_DISTRIBUTOR_INGEST_NAME_H
#define FG_DISTRIBUTOR_INGEST_NAME_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"

struct dist_app_name {
    struct fg_slice app;     /* before the brace, trimmed; or the value of a key __name__ */
    struct fg_labels labels; /* in the order sent; without keys that begin with "__" */
};

/*
 * Parses the name. Slices live in the arena. FG_E_INVALID: "name: …", in Pyroscope's words. Drops a
 * last pair without its closing brace, as Pyroscope does.
 */
enum fg_code dist_app_name_parse(struct fg_slice text, struct fg_arena *arena,
                                 struct dist_app_name *ret_name, struct fg_err *err) fg_must_check;

/*
 * The kind of profile that an application name of the text formats says: the part after the last
 * dot. Without a dot it is cpu (distributor/API.md#the-name).
 */
struct dist_app_kind {
    struct fg_slice app; /* without the suffix */
    const char *name;    /* __name__ */
    const char *type, *unit;
    bool timed; /* values are samples, to be multiplied by the period */
};

/* Splits the name. FG_E_INVALID: unknown profile type. sample_rate 0: samples stay counts. */
enum fg_code dist_app_kind_parse(struct fg_slice app, uint32_t sample_rate,
                                 struct dist_app_kind *ret_kind, struct fg_err *err) fg_must_check;

#endif
