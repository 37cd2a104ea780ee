#include "common/bucket/damage.h"

#include "common/run/log.h"

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
    M(GAUGE, DAMAGE_OBJECTS, "flamegrid_damaged_objects", "Objects of the bucket that could not be used in the last hour, since they are damaged or lost") \
    M(COUNTER, DAMAGE_MET, "flamegrid_damaged_reads_total", "Times that an object of the bucket could not be used, since it is damaged or lost")
/* clang-format on */
FG_METRICS_ENUM(damage_metric, DAMAGE_METRICS)
static const struct fg_metric_def damage_metrics[] = FG_METRICS_DEFS(DAMAGE_METRICS);

struct object {
    struct object *next;
    int64_t met_mono_ns;
    char name[NAME_MAX_BYTES], why[WHY_MAX_BYTES];
};

struct fg_damage {
    struct fg_clock *clock;
    struct fg_metrics *metrics;
    struct fg_condition *condition;
    pthread_mutex_t lock; /* of all below */
    struct object *objects;
    size_t n;
};

/* Locked. */
static void tell(struct fg_damage *damage)
{
    struct fg_buf text;
    size_t told = 0;

    fg_metric_set(damage->metrics, DAMAGE_OBJECTS, (int64_t)damage->n);
    if (damage->n == 0) {
        fg_condition_clear(damage->condition);
        return;
    }
    fg_buf_init(&text, FG_CONDITION_TEXT_MAX_BYTES);
    for (const struct object *o = damage->objects; o != NULL && told < TOLD_MAX; o = o->next)
        fg_buf_printf(&text, "%s%s: %s", told++ == 0 ? "" : "; ", o->name, o->why);
    fg_condition_raise(damage->condition,
                       "%zu objects of the bucket are damaged or lost, and answers that need them "
                       "say so (flamegrid bucket verify, bucket quarantine): %.*s%s",
                       damage->n, FG_S(fg_buf_slice(&text)), damage->n > told ? "; ..." : "");
    fg_buf_done(&text);
}

/* Locked. */
static void forget_old(struct fg_damage *damage)
{
    int64_t now_ns = fg_mono_ns(damage->clock);
    size_t before = damage->n;

    for (struct object **at = &damage->objects; *at != NULL;) {
        struct object *object = *at;

        if (now_ns - object->met_mono_ns < FORGET_NS) {
            at = &object->next;
            continue;
        }
        *at = object->next;
        damage->n--;
        free(object);
    }
    if (damage->n != before)
        tell(damage);
}

static void on_scrape(void *arg)
{
    struct fg_damage *damage = arg;

    (void)pthread_mutex_lock(&damage->lock);
    forget_old(damage);
    (void)pthread_mutex_unlock(&damage->lock);
}

struct fg_damage *fg_damage_create(struct fg_conditions *conditions, struct fg_registry *registry,
                                   struct fg_clock *clock)
{
    struct fg_damage *damage = fg_new(struct fg_damage);

    damage->clock = clock;
    (void)pthread_mutex_init(&damage->lock, NULL);
    damage->condition = fg_condition_create(conditions, "objects_damaged");
    damage->metrics = fg_metrics_register(registry, damage_metrics, FG_COUNT(damage_metrics));
    fg_registry_on_scrape(registry, on_scrape, damage);
    return damage;
}

void fg_damage_destroy(struct fg_damage *damage)
{
    struct object *next;

    if (damage == NULL)
        return;
    fg_condition_destroy(damage->condition);
    for (struct object *object = damage->objects; object != NULL; object = next) {
        next = object->next;
        free(object);
    }
    (void)pthread_mutex_destroy(&damage->lock);
    free(damage);
}

static struct object *find(const struct fg_damage *damage, const char *name)
{
    struct object *object = damage->objects;

    while (object != NULL && strcmp(object->name, name) != 0)
        object = object->next;
    return object;
}

void fg_damage_met(struct fg_damage *damage, const char *name, const char *why)
{
    struct object *object;

    if (damage == NULL)
        return;
    fg_metric_add(damage->metrics, DAMAGE_MET, 1);
    (void)pthread_mutex_lock(&damage->lock);
    forget_old(damage);
    object = find(damage, name);
    if (object == NULL && damage->n < OBJECTS_MAX) {
        object = fg_new(struct object);
        (void)snprintf(object->name, sizeof object->name, "%s", name);
        (void)snprintf(object->why, sizeof object->why, "%s", why);
        object->next = damage->objects;
        damage->objects = object;
        damage->n++;
        fg_log_error("an object of the bucket is damaged or lost", fg_ls("object", name),
                     fg_ls("err", why));
        tell(damage);
    }
    if (object != NULL)
        object->met_mono_ns = fg_mono_ns(damage->clock);
    (void)pthread_mutex_unlock(&damage->lock);
}
