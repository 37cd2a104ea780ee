#include "ingester/forward/resend.h"

#include <string.h>

/* ---- a place ---- */

void ing_resend_pass_time(struct ing_resend *resend, int64_t time_ns)
{
    resend->time_ns = time_ns;
    resend->id = (struct fg_id){UINT64_MAX, UINT64_MAX};
}

bool ing_resend_is_between_tenants(const struct ing_resend *resend)
{
    return resend->tenant[0] == '\0' ||
           (resend->time_ns >= resend->until_ns - 1 &&
            fg_id_eq(resend->id, (struct fg_id){UINT64_MAX, UINT64_MAX}));
}

static void set_place(struct ing_resend *resend, const struct ing_resend_place *place)
{
    memcpy(resend->tenant, place->tenant, sizeof resend->tenant);
    resend->time_ns = place->time_ns;
    resend->id = place->id;
}

/* After the last tenant that has begun. */
static void set_last(struct ing_resend *resend, const struct ing_resend_tenants *tenants)
{
    memcpy(resend->tenant, tenants->last, sizeof resend->tenant);
    ing_resend_pass_time(resend, resend->until_ns - 1);
}

/* ---- tenants ---- */

/* Returns the place of a tenant, or NULL. */
static struct ing_resend_place *find(struct ing_resend_tenants *tenants, const char *tenant)
{
    for (unsigned i = 0; i < tenants->n; i++)
        if (strcmp(tenants->places[i].tenant, tenant) == 0)
            return &tenants->places[i];
    return NULL;
}

static void remove_place(struct ing_resend_tenants *tenants, const struct ing_resend_place *place)
{
    size_t i = (size_t)(place - tenants->places);

    tenants->n--;
    memmove(&tenants->places[i], &tenants->places[i + 1],
            (tenants->n - i) * sizeof tenants->places[0]);
}

void ing_resend_tenants_set(struct ing_resend_tenants *tenants, const struct ing_resend *resend)
{
    *tenants = (struct ing_resend_tenants){0};
    ing_resend_tenants_note(tenants, resend);
}

/* Returns the place that comes first of those whose hold has ended, or that were not held. */
static const struct ing_resend_place *first_of(const struct ing_resend_tenants *tenants,
                                               int64_t now_mono_ns, bool was_held)
{
    const struct ing_resend_place *first = NULL;

    for (unsigned i = 0; i < tenants->n; i++) {
        const struct ing_resend_place *place = &tenants->places[i];

        if (place->held_until_mono_ns <= now_mono_ns &&
            (place->held_until_mono_ns != 0) == was_held &&
            (first == NULL || place->held_until_mono_ns < first->held_until_mono_ns))
            first = place;
    }
    return first;
}

/* What goes on without a hold: a tenant that has begun, or else the one that follows. */
static bool next_without_hold(const struct ing_resend_tenants *tenants, int64_t now_mono_ns,
                              struct ing_resend *resend)
{
    const struct ing_resend_place *place = first_of(tenants, now_mono_ns, false);

    if (place != NULL)
        set_place(resend, place);
    else if (tenants->n == 0 || (tenants->n < RESEND_TENANTS_MAX && !tenants->all_begun))
        set_last(resend, tenants);
    else
        return false;
    return true;
}

bool ing_resend_tenants_next(const struct ing_resend_tenants *tenants, int64_t now_mono_ns,
                             struct ing_resend *resend)
{
    const struct ing_resend_place *ended = first_of(tenants, now_mono_ns, true);

    if ((ended == NULL || tenants->yields) && next_without_hold(tenants, now_mono_ns, resend))
        return true;
    if (ended == NULL)
        return false;
    set_place(resend, ended);
    return true;
}

void ing_resend_tenants_note(struct ing_resend_tenants *tenants, const struct ing_resend *resend)
{
    struct ing_resend_place *place = find(tenants, resend->tenant);
    bool done = ing_resend_is_between_tenants(resend);

    tenants->yields = false;
    if (strcmp(resend->tenant, tenants->last) > 0) {
        memcpy(tenants->last, resend->tenant, sizeof tenants->last);
        if (!done) {
            fg_assert(tenants->n < RESEND_TENANTS_MAX);
            place = &tenants->places[tenants->n++];
            *place = (struct ing_resend_place){0};
            memcpy(place->tenant, resend->tenant, sizeof place->tenant);
        }
    }
    if (place == NULL)
        return;
    place->time_ns = resend->time_ns;
    place->id = resend->id;
    place->held_until_mono_ns = 0;
    if (done)
        remove_place(tenants, place);
}

void ing_resend_tenants_note_all_begun(struct ing_resend_tenants *tenants)
{
    tenants->all_begun = true;
    tenants->yields = false;
}

void ing_resend_tenants_hold(struct ing_resend_tenants *tenants, const char *tenant,
                             int64_t until_mono_ns)
{
    struct ing_resend_place *place = find(tenants, tenant);

    if (place == NULL)
        return;
    place->held_until_mono_ns = until_mono_ns;
    tenants->yields = true;
}

unsigned ing_resend_tenants_held(const struct ing_resend_tenants *tenants, int64_t now_mono_ns,
                                 int64_t *ret_next_mono_ns)
{
    unsigned held = 0;

    *ret_next_mono_ns = INT64_MAX;
    for (unsigned i = 0; i < tenants->n; i++) {
        int64_t until_ns = tenants->places[i].held_until_mono_ns;

        if (until_ns <= now_mono_ns)
            continue;
        *ret_next_mono_ns = FG_MIN(*ret_next_mono_ns, until_ns);
        held++;
    }
    return held;
}

void ing_resend_tenants_least(const struct ing_resend_tenants *tenants, struct ing_resend *resend)
{
    if (tenants->n > 0)
        set_place(resend, &tenants->places[0]);
    else
        set_last(resend, tenants);
}
