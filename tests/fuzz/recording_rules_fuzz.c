/* The object with a tenant's recording rules, its checksum made right: each rule is read and
 * written as metrics, one is changed, one is deleted. */
#include "common/base/crc32c.h"
#include "common/base/value.h"
#include "querier/rules/expose.h"
#include "querier/rules/rule_store.h"
#include "tests/lib/bucket_doubles.h"

enum { RULES_MAX = 100 };

/* A rule that can be read has metrics that end with a line's end and have no byte that is not UTF-8
 * beyond those of its own names, which were checked. */
static void follow(const Settings__V1__RecordingRule *message, struct fg_arena *arena)
{
    struct qry_rule_series series = {.function = FG_LIT("f"), .value = 1, .whole = 2};
    struct qry_rule_values values = {.items = &series, .n = 1, .rest = series, .n_rest = 1};
    struct qry_exposed_rule exposed = {.message = message};
    struct qry_rule rule = {0};
    struct fg_err err;
    struct fg_buf out;

    if (qry_rule_read(message, arena, &rule, &err) == FG_OK) {
        (void)qry_rule_means(&rule, FG_LIT("main"));
        exposed.rule = &rule;
        exposed.values = &values;
    } else {
        fg_assert(err.code == FG_E_INVALID || err.code == FG_E_LIMIT);
        exposed.error = err.msg;
    }
    fg_buf_init(&out, SIZE_MAX);
    qry_expose(&exposed, 1, 0, &out);
    fg_assert(out.ptr[out.len - 1] == '\n');
    fg_buf_done(&out);
    qry_rule_done(&rule);
}

static void put_object(struct fg_bucket *bucket, const uint8_t *data, size_t size)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = "tenants/acme/rules"};
    struct fg_buf bytes;

    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_le32(&bytes, fg_crc32c(fg_bytes(data, size)));
    fg_buf_append(&bytes, data, size);
    put.content = fg_buf_slice(&bytes);
    fg_assert(fg_bucket_call(bucket, &put) == FG_OK);
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(16 << 20);
    fg_auto(fg_bucket) *bucket = fg_bucket_memory();
    struct qry_rule_store store = {
        .bucket = bucket, .tenant = FG_LIT("acme"), .arena = arena, .rules_max = RULES_MAX};
    Settings__V1__ListRecordingRulesResponse *all;
    struct fg_err err;

    put_object(bucket, data, size);
    if (qry_rule_store_list(&store, &all, &err) != FG_OK) {
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT);
        return 0;
    }
    for (size_t i = 0; i < all->n_rules; i++)
        follow(all->rules[i], arena);
    if (all->n_rules == 0)
        return 0;
    Settings__V1__RecordingRule *first = all->rules[0];
    int64_t generation = first->generation;
    if (qry_rule_store_put(&store, first, &err) == FG_OK)
        fg_assert(first->generation == fg_value_add(generation, 1));
    else
        fg_assert(err.code == FG_E_LIMIT || err.code == FG_E_INVALID);
    if (qry_rule_store_delete(&store, first->id, &err) != FG_OK)
        fg_assert(err.code == FG_E_LIMIT || err.code == FG_E_INVALID);
    /* Whatever was done, what is stored can be read. */
    if (qry_rule_store_list(&store, &all, &err) != FG_OK)
        fg_assert(err.code == FG_E_LIMIT);
    return 0;
}
