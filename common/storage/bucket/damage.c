#include "common/storage/bucket/damage.h"

#include "common/runtime/log.h"

#include <pthread.h>

enum {
    OBJECTS_MAX = 256,    /* more are counted, not named */
    TOLD_MAX = 3,         /* in the condition's sentence: the metric has the number */
    NAME_MAX_BYTES = 320, /* longer ones are cut */
    WHY_MAX_BYTES = 200,
};

static const int64_t FORGET_NS = FG_HOUR_NS;

/* clang-format off */
#define DAMAGE_METRICS(M)                                                                          \
    M(GAUGE, DAMAGE_OBJECTS, "flamegrid_damaged_objects", "Objects of the bucket found damaged or missing in the last hour") \
    M(COUNTER, DAMAGE_MET, "flamegrid_damaged_reads_total", "Reads that failed because an object of the bucket is damaged or missing") \
    M(GAUGE, UNREADABLE_OBJECTS, "flamegrid_unreadable_objects", "Objects of the bucket found in the last hour that require a newer version of this program, or a key that it does not have") \
    M(COUNTER, UNREADABLE_MET, "flamegrid_unreadable_reads_total", "Reads that failed because an object of the bucket requires a newer version of this program, or a key that it does not have")
/* clang-format on */
FG_METRICS_ENUM(damage_metric, DAMAGE_METRICS)
FG_METRICS_TABLE(damage_metrics, DAMAGE_METRICS)

/* What differs between objects that are damaged and those that another program can read. */
static const struct kind {
    const char *condition, *sentence, *log;
    enum damage_metric objects, met;
} kinds[] = {
    {"objects_damaged",
     "are damaged or missing, and responses that need them say so (see flamegrid bucket verify and "
     "bucket repair)",
     "object of the bucket is damaged or missing", DAMAGE_OBJECTS, DAMAGE_MET},
    {"objects_unreadable",
     "require a newer version of this program, or a key that it does not have, and responses that "
     "need them say so; the objects are intact",
     "object of the bucket cannot be read by this program", UNREADABLE_OBJECTS, UNREADABLE_MET},
};

struct damage_object {
    struct damage_object *next;
    int64_t met_mono_ns;
    char name[NAME_MAX_BYTES], why[WHY_MAX_BYTES];
};

/* Objects of one kind. */
struct damage_list {
    const struct kind *kind;
    struct fg_condition *condition;
    struct damage_object *objects;
    size_t n;
};

struct fg_damage {
    struct fg_clock *clock;
    struct fg_metrics *metrics;
    pthread_mutex_t lock; /* of the lists */
    struct damage_list lists[FG_COUNT(kinds)];
};

/* Locked. */
static void report_condition(const struct fg_damage *damage, const struct damage_list *list)
{
    struct fg_buf text;
    size_t told = 0;

    fg_metric_set(damage->metrics, list->kind->objects, (int64_t)list->n);
    if (list->n == 0) {
        fg_condition_clear(list->condition);
        return;
    }
    fg_buf_init(&text, FG_CONDITION_TEXT_MAX_BYTES);
    for (const struct damage_object *o = list->objects; o != NULL && told < TOLD_MAX; o = o->next)
        fg_buf_printf(&text, "%s%s: %s", told++ == 0 ? "" : "; ", o->name, o->why);
    fg_condition_raise(list->condition, "%zu objects of the bucket %s: %.*s%s", list->n,
                       list->kind->sentence, FG_S(fg_buf_slice(&text)),
                       list->n > told ? "; ..." : "");
    fg_buf_done(&text);
}

/* Locked. */
static void forget_old(const struct fg_damage *damage, struct damage_list *list)
{
    int64_t now_ns = fg_mono_ns(damage->clock);
    size_t before = list->n;

    for (struct damage_object **at = &list->objects; *at != NULL;) {
        struct damage_object *object = *at;

        if (now_ns - object->met_mono_ns < FORGET_NS) {
            at = &object->next;
            continue;
        }
        *at = object->next;
        list->n--;
        free(object);
    }
    if (list->n != before)
        report_condition(damage, list);
}

/* Without new damage, only scrapes notice that an hour has passed. */
static void on_scrape(void *arg)
{
    struct fg_damage *damage = arg;

    (void)pthread_mutex_lock(&damage->lock);
    for (size_t i = 0; i < FG_COUNT(damage->lists); i++)
        forget_old(damage, &damage->lists[i]);
    (void)pthread_mutex_unlock(&damage->lock);
}

struct fg_damage *fg_damage_create(struct fg_conditions *conditions, struct fg_registry *registry,
                                   struct fg_clock *clock)
{
    struct fg_damage *damage = fg_new(struct fg_damage);

    damage->clock = clock;
    (void)pthread_mutex_init(&damage->lock, NULL);
    for (size_t i = 0; i < FG_COUNT(damage->lists); i++)
        damage->lists[i] = (struct damage_list){
            .kind = &kinds[i], .condition = fg_condition_create(conditions, kinds[i].condition)};
    damage->metrics = fg_metrics_register(registry, damage_metrics, FG_COUNT(damage_metrics));
    fg_registry_on_scrape(registry, on_scrape, damage);
    return damage;
}

void fg_damage_destroy(struct fg_damage *damage)
{
    if (damage == NULL)
        return;
    for (size_t i = 0; i < FG_COUNT(damage->lists); i++) {
        struct damage_object *object = damage->lists[i].objects, *next;

        fg_condition_destroy(damage->lists[i].condition);
        for (; object != NULL; object = next) {
            next = object->next;
            free(object);
        }
    }
    (void)pthread_mutex_destroy(&damage->lock);
    free(damage);
}

void fg_damage_met(struct fg_damage *damage, const char *name, enum fg_code code, const char *why)
{
    struct damage_object *object;
    struct damage_list *list;

    if (damage == NULL)
        return;
    /* FG_E_UNIMPLEMENTED is what readers return for a version of a format that they do not know. */
    list = &damage->lists[code == FG_E_UNIMPLEMENTED];
    fg_metric_add(damage->metrics, list->kind->met, 1);
    (void)pthread_mutex_lock(&damage->lock);
    forget_old(damage, list);
    object = list->objects;
    while (object != NULL && strcmp(object->name, name) != 0)
        object = object->next;
    if (object == NULL && list->n < OBJECTS_MAX) {
        object = fg_new(struct damage_object);
        (void)snprintf(object->name, sizeof object->name, "%s", name);
        (void)snprintf(object->why, sizeof object->why, "%s", why);
        object->next = list->objects;
        list->objects = object;
        list->n++;
        fg_log_error(list->kind->log, fg_ls("object", name), fg_ls("err", why));
        report_condition(damage, list);
    }
    if (object != NULL)
        object->met_mono_ns = fg_mono_ns(damage->clock);
    (void)pthread_mutex_unlock(&damage->lock);
}
