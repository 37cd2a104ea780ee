#include "querier/flame_json.h"

void qry_flame_json_numbers(struct fg_json_writer *json, const char *key, const int64_t *values,
                            size_t n)
{
    fg_json_begin_array(json, key);
    for (size_t i = 0; i < n; i++)
        fg_json_put_i64(json, NULL, values[i]);
    fg_json_end(json);
}

void qry_flame_json(const struct qry_flame_parts *parts, const char *key,
                    struct fg_json_writer *json)
{
    /* All levels are in one array, one behind the other; level_ends separates them. */
    size_t from = 0;

    fg_json_begin_object(json, key);
    fg_json_begin_array(json, "names");
    for (size_t i = 0; i < parts->n_names; i++)
        fg_json_put_text(json, NULL, parts->names[i]);
    fg_json_end(json);
    fg_json_begin_array(json, "levels");
    for (size_t i = 0; i < parts->n_levels; i++) {
        qry_flame_json_numbers(json, NULL, parts->values + from, parts->level_ends[i] - from);
        from = parts->level_ends[i];
    }
    fg_json_end(json);
    /* Names of the keys are Pyroscope's: its front end and Grafana read them. */
    fg_json_put_i64(json, "numTicks", parts->ticks);
    fg_json_put_i64(json, "maxSelf", parts->max_self);
    fg_json_end(json);
}
