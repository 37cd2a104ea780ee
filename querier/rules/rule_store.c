#include "querier/rules/rule_store.h"

#include "common/base/value.h"
#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/message_object.h"
#include "querier/rules/rule.h"

#include <string.h>

enum { STORE_MAX_BYTES = 16 * 1024 * 1024 }; /* a thousand rules of the largest size */

typedef Settings__V1__ListRecordingRulesResponse rules;

/* Linear: a list has at most limits.max_recording_rules, and reading it costs more. */
static size_t find_rule(const rules *all, const char *id)
{
    size_t i = 0;

    while (i < all->n_rules && strcmp(all->rules[i]->id, id) != 0)
        i++;
    return i;
}

/* ---- changes ---- */

struct store_change {
    const struct qry_rule_store *store;
    Settings__V1__RecordingRule *rule;
    const char *id;
    int64_t generation; /* that the client knows */
};

static enum fg_code grow(struct store_change *change, struct fg_arena *arena, rules *all,
                         struct fg_err *err)
{
    Settings__V1__RecordingRule **grown;

    if (all->n_rules >= change->store->rules_max)
        return fg_fail(err, FG_E_TOO_MUCH,
                       "a tenant has at most %zu recording rules (limits.max_recording_rules)",
                       change->store->rules_max);
    /* A new array: the decoder made the old one as long as the list. */
    grown = fg_arena_new(arena, Settings__V1__RecordingRule *, all->n_rules + 1);
    if (grown == NULL)
        return fg_fail(err, FG_E_LIMIT, "recording rules: no memory");
    if (all->n_rules > 0)
        memcpy(grown, all->rules, all->n_rules * sizeof(void *));
    all->rules = grown;
    all->n_rules++;
    return FG_OK;
}

static bool is_same(const Settings__V1__RecordingRule *a, const Settings__V1__RecordingRule *b)
{
    return fg_id_eq(qry_rule_content(a), qry_rule_content(b));
}

static enum fg_code append(struct store_change *change, struct fg_arena *arena, rules *all,
                           bool *ret_changed, struct fg_err *err)
{
    if (grow(change, arena, all, err) != FG_OK)
        return err->code;
    change->rule->generation = 1;
    all->rules[all->n_rules - 1] = change->rule;
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code put_rule(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                             bool *ret_changed, struct fg_err *err)
{
    struct store_change *change = arg;
    rules *all = (rules *)message;
    size_t at = find_rule(all, change->rule->id);

    if (at == all->n_rules)
        return append(change, arena, all, ret_changed, err);
    change->rule->generation = fg_value_add(change->generation, 1);
    /* This very change was made, and its answer was lost. */
    if (all->rules[at]->generation == change->rule->generation &&
        is_same(all->rules[at], change->rule))
        return FG_OK;
    /* A client names the generation that it has read. So of two that change the same rule the
     * second one fails, and does not undo what it has not seen. */
    if (all->rules[at]->generation != change->generation)
        return fg_fail(err, FG_E_EXISTS, "conflicting update, please try again");
    all->rules[at] = change->rule;
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code create_rule(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                bool *ret_changed, struct fg_err *err)
{
    struct store_change *change = arg;
    const struct fg_id content = qry_rule_content(change->rule);
    rules *all = (rules *)message;

    /* Each rule can have one of the ids, so there is an end. */
    for (uint64_t attempt = 0;; attempt++) {
        size_t at;

        qry_rule_make_id(content, attempt, change->rule->id);
        at = find_rule(all, change->rule->id);
        if (at == all->n_rules)
            return append(change, arena, all, ret_changed, err);
        if (is_same(all->rules[at], change->rule)) {
            change->rule->generation = all->rules[at]->generation;
            return FG_OK;
        }
    }
}

static enum fg_code remove_rule(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                bool *ret_changed, struct fg_err *err)
{
    struct store_change *change = arg;
    rules *all = (rules *)message;
    size_t at = find_rule(all, change->id);

    (void)arena;
    if (at == all->n_rules)
        return fg_fail(err, FG_E_NOT_FOUND, "no rule with ID='%s' found", change->id);
    /* Moved up one by one: lists keep the order in which rules were created. */
    for (; at + 1 < all->n_rules; at++)
        all->rules[at] = all->rules[at + 1];
    all->n_rules--;
    *ret_changed = true;
    return FG_OK;
}

/* ---- the object ---- */

/* Describes it. name: has its name afterwards. */
static enum fg_code object_of(const struct qry_rule_store *store, char name[FG_NAME_MAX_BYTES],
                              struct fg_message_object *ret_object, struct fg_err *err)
{
    if (store->bucket == NULL)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "recording rules need a bucket");
    if (fg_name_rules(name, store->tenant, err) != FG_OK)
        return err->code;
    *ret_object = (struct fg_message_object){
        .bucket = store->bucket,
        .name = name,
        .what = "the recording rules of a tenant",
        .type = &settings__v1__list_recording_rules_response__descriptor,
        .max_bytes = STORE_MAX_BYTES,
        .arena = store->arena,
        .deadline_mono_ns = store->deadline_mono_ns,
    };
    return FG_OK;
}

static enum fg_code swap_rules(const struct qry_rule_store *store, fg_message_object_change how,
                               struct store_change *change, struct fg_err *err)
{
    struct fg_message_object object;
    char name[FG_NAME_MAX_BYTES];

    if (object_of(store, name, &object, err) != FG_OK)
        return err->code;
    return fg_message_object_swap(&object, how, change, err);
}

enum fg_code qry_rule_store_list(const struct qry_rule_store *store,
                                 Settings__V1__ListRecordingRulesResponse **ret_rules,
                                 struct fg_err *err)
{
    struct fg_message_object object;
    char name[FG_NAME_MAX_BYTES];
    ProtobufCMessage *message;

    if (object_of(store, name, &object, err) != FG_OK ||
        fg_message_object_read(&object, &message, err) != FG_OK)
        return err->code;
    *ret_rules = (rules *)message;
    return FG_OK;
}

enum fg_code qry_rule_store_get(const struct qry_rule_store *store, const char *id,
                                Settings__V1__RecordingRule **ret_rule, struct fg_err *err)
{
    rules *all = NULL;
    size_t at;

    if (qry_rule_store_list(store, &all, err) != FG_OK)
        return err->code;
    fg_assert(all != NULL);
    at = find_rule(all, id);
    if (at == all->n_rules)
        return fg_fail(err, FG_E_NOT_FOUND, "no rule with id='%s' found", id);
    *ret_rule = all->rules[at];
    return FG_OK;
}

enum fg_code qry_rule_store_put(const struct qry_rule_store *store,
                                Settings__V1__RecordingRule *rule, struct fg_err *err)
{
    /* A swap may call put_rule() several times, and each call sets rule->generation: so the
     * client's is kept apart. */
    struct store_change change = {.store = store, .rule = rule, .generation = rule->generation};

    return swap_rules(store, put_rule, &change, err);
}

enum fg_code qry_rule_store_create(const struct qry_rule_store *store,
                                   Settings__V1__RecordingRule *rule, struct fg_err *err)
{
    struct store_change change = {.store = store, .rule = rule};

    return swap_rules(store, create_rule, &change, err);
}

enum fg_code qry_rule_store_delete(const struct qry_rule_store *store, const char *id,
                                   struct fg_err *err)
{
    struct store_change change = {.store = store, .id = id};

    return swap_rules(store, remove_rule, &change, err);
}
