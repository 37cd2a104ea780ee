#include "compactor/query_list.h"

#include "common/runtime/log.h"

void cmp_query_list_done(struct cmp_query_list *list)
{
    for (uint32_t i = 0; i < QUERY_LIST_DAYS; i++)
        fg_arena_destroy(list->days[i].arena);
    *list = (struct cmp_query_list){.next = 0};
}

static enum fg_code add_object(struct cmp_query_list_day *day, struct cmp_env *env,
                               const char *name, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = name,
                                    .content_max_bytes = FG_QUERY_COUNTS_MAX_BYTES,
                                    .deadline_mono_ns =
                                        cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
    enum fg_code code = cmp_env_call(env, &get);
    struct fg_err why;

    if (code != FG_OK) {
        *err = get.err;
    } else if (fg_query_counts_add_encoded(&day->counts, fg_buf_slice(&get.body), day->arena,
                                           &why) != FG_OK) {
        /* Bills of all tenants would wait for an object that nobody can repair. */
        fg_damage_met(env->bucket->damage, name, why.code, why.msg);
        fg_log_error("counts of queries are left out of usage", fg_ls("object", name),
                     fg_ls("err", why.msg));
    }
    fg_bucket_clear(&get);
    return code;
}

struct reading {
    struct cmp_query_list_day *day;
    struct cmp_env *env;
    struct fg_err err; /* code FG_OK: none */
};

static bool read_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct reading *reading = arg;
    struct fg_query_counts_name name;

    if (!fg_name_parse_query_counts(fg_cstr(entry->name), &name))
        return true;
    return cmp_env_check(reading->env, &reading->err) == FG_OK &&
           add_object(reading->day, reading->env, entry->name, &reading->err) == FG_OK;
}

static enum fg_code read_day(struct cmp_query_list_day *day, struct cmp_env *env,
                             struct fg_err *err)
{
    struct reading reading = {.day = day, .env = env, .err.code = FG_OK};
    char prefix[FG_NAME_MAX_BYTES];

    fg_name_query_counts_all(prefix, day->day);
    if (fg_bucket_each_until(env->bucket, prefix, false,
                             cmp_env_deadline(env, ENV_UPLOAD_TIMEOUT_NS), env->stop, read_entry,
                             &reading, err) != FG_OK)
        return err->code;
    if (reading.err.code != FG_OK)
        *err = reading.err;
    return reading.err.code;
}

/* Reads the day, or returns the one that is known. */
static enum fg_code know_day(struct cmp_query_list *list, struct cmp_env *env, int32_t number,
                             const struct cmp_query_list_day **ret_day, struct fg_err *err)
{
    struct cmp_query_list_day day = {.day = number};

    for (uint32_t i = 0; i < QUERY_LIST_DAYS; i++)
        if (list->days[i].arena != NULL && list->days[i].day == number) {
            *ret_day = &list->days[i];
            return FG_OK;
        }
    day.arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    if (read_day(&day, env, err) != FG_OK) {
        fg_arena_destroy(day.arena);
        return err->code;
    }
    fg_arena_destroy(list->days[list->next].arena);
    list->days[list->next] = day;
    *ret_day = &list->days[list->next];
    list->next = (list->next + 1) % QUERY_LIST_DAYS;
    return FG_OK;
}

enum fg_code cmp_query_list_get(struct cmp_query_list *list, struct cmp_env *env, int32_t day,
                                struct fg_slice tenant, struct fg_usage_queries *ret_queries,
                                struct fg_err *err)
{
    const struct cmp_query_list_day *known = NULL;
    const struct fg_query_count *count;

    if (know_day(list, env, day, &known, err) != FG_OK)
        return fg_wrap(err, "what queries took");
    count = fg_query_counts_find(&known->counts, tenant);
    *ret_queries = count == NULL ? (struct fg_usage_queries){0} : count->queries;
    return FG_OK;
}
