#include "common/runtime/condition.h"

#include "common/runtime/log.h"

#include <pthread.h>
#include <stdarg.h>

#define CONDITION_NAME "flamegrid_condition{condition=\"%s\"}"
#define CONDITION_METRICS(M)                                                                       \
    M(GAUGE, CONDITION_HOLDS, CONDITION_NAME,                                                      \
      "1 while a fault lasts that an operator must look at; GET /ready gives the reason")
FG_METRICS_TABLE(templates, CONDITION_METRICS)

struct fg_conditions {
    pthread_mutex_t lock; /* over the list and all that is in it */
    struct fg_registry *registry;
    struct fg_condition *first; /* by name */
};

struct fg_condition {
    struct fg_conditions *list;
    struct fg_condition *next;
    const char *name;
    char series[FG_CONDITION_NAME_MAX_BYTES + 48];
    struct fg_metric_def def; /* of a table with one row, since each condition comes and goes */
    struct fg_metrics *metrics;
    bool holds;
    char text[FG_CONDITION_TEXT_MAX_BYTES];
};

struct fg_conditions *fg_conditions_create(struct fg_registry *registry)
{
    struct fg_conditions *conditions = fg_new(struct fg_conditions);

    (void)pthread_mutex_init(&conditions->lock, NULL);
    conditions->registry = registry;
    return conditions;
}

void fg_conditions_destroy(struct fg_conditions *conditions)
{
    if (conditions == NULL)
        return;
    fg_assert(conditions->first == NULL);
    (void)pthread_mutex_destroy(&conditions->lock);
    free(conditions);
}

void fg_conditions_write(struct fg_conditions *conditions, struct fg_buf *out)
{
    if (conditions == NULL)
        return;
    (void)pthread_mutex_lock(&conditions->lock);
    for (const struct fg_condition *c = conditions->first; c != NULL; c = c->next)
        if (c->holds)
            fg_buf_printf(out, "%s: %s\n", c->name, c->text);
    (void)pthread_mutex_unlock(&conditions->lock);
}

struct fg_condition *fg_condition_create(struct fg_conditions *conditions, const char *name)
{
    struct fg_condition *condition, **at;
    int len;

    if (conditions == NULL)
        return NULL;
    condition = fg_new(struct fg_condition);
    condition->list = conditions;
    condition->name = name;
    len = snprintf(condition->series, sizeof condition->series, CONDITION_NAME, name);
    fg_assert(len > 0 && (size_t)len < sizeof condition->series);
    condition->def = templates[0];
    condition->def.name = condition->series;
    condition->metrics = fg_metrics_register(conditions->registry, &condition->def, 1);
    (void)pthread_mutex_lock(&conditions->lock);
    /* Sorted, so that GET /ready lists conditions in the same order each time. */
    for (at = &conditions->first; *at != NULL && strcmp((*at)->name, name) < 0;)
        at = &(*at)->next;
    fg_assert(*at == NULL || strcmp((*at)->name, name) != 0);
    condition->next = *at;
    *at = condition;
    (void)pthread_mutex_unlock(&conditions->lock);
    return condition;
}

void fg_condition_destroy(struct fg_condition *condition)
{
    struct fg_condition **at;

    if (condition == NULL)
        return;
    (void)pthread_mutex_lock(&condition->list->lock);
    for (at = &condition->list->first; *at != condition;)
        at = &(*at)->next;
    *at = condition->next;
    (void)pthread_mutex_unlock(&condition->list->lock);
    fg_metrics_unregister(condition->list->registry, condition->metrics);
    free(condition);
}

void fg_condition_raise(struct fg_condition *condition, const char *format, ...)
{
    char text[FG_CONDITION_TEXT_MAX_BYTES];
    bool changed;
    va_list args;

    if (condition == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)pthread_mutex_lock(&condition->list->lock);
    changed = !condition->holds || strcmp(condition->text, text) != 0;
    condition->holds = true;
    memcpy(condition->text, text, sizeof text);
    fg_metric_set(condition->metrics, 0, 1); /* under the lock: a clear may come at once */
    (void)pthread_mutex_unlock(&condition->list->lock);
    /* Raised again and again while the fault lasts; only changes are logged. */
    if (!changed)
        return;
    fg_log_error("condition raised", fg_ls("condition", condition->name), fg_ls("why", text));
}

void fg_condition_clear(struct fg_condition *condition)
{
    bool changed;

    if (condition == NULL)
        return;
    (void)pthread_mutex_lock(&condition->list->lock);
    changed = condition->holds;
    condition->holds = false;
    fg_metric_set(condition->metrics, 0, 0);
    (void)pthread_mutex_unlock(&condition->list->lock);
    if (!changed)
        return;
    fg_log_info("condition cleared", fg_ls("condition", condition->name));
}
