#include "querier/print_set.h"

#include <stddef.h>
#include <sys/mman.h>

enum {
    FLAG_THERE = 1 << 15, /* the print is there */

    HUGE_PAGE_BYTES = 2 * 1024 * 1024, /* of x86-64, and of ARM with pages of 4 KiB */
    PLACES_MIN = 1024,                 /* 18 KiB; the table doubles as it fills */
    PRINT_BYTES = sizeof(struct fg_id) + sizeof(uint16_t),
    ASIDE_SHARE = 4, /* a quarter of max_bytes is for prints that are aside */
    FEW_SHARE = 8,   /* an index of an eighth as many prints as are aside is looked through */
};

void qry_print_set_init(struct qry_print_set *set, uint64_t max_bytes)
{
    *set = (struct qry_print_set){.max_bytes = max_bytes, .seed = fg_hash_seed()};
}

static void free_aside(struct qry_prints_aside *aside)
{
    free(aside->prints);
    free(aside->flags);
}

void qry_print_set_done(struct qry_print_set *set)
{
    free(set->prints);
    free(set->flags);
    for (unsigned i = 0; i < set->n_asides; i++)
        free_aside(&set->asides[i]);
    *set = (struct qry_print_set){0};
}

/* ---- the table ---- */

/* Returns zeroed memory for a table. Places are used in no order, so most of the time goes into
 * page faults and address translation; huge pages halve it. */
static void *table_alloc(size_t bytes)
{
    size_t rounded = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *table;

    if (bytes < HUGE_PAGE_BYTES)
        return fg_calloc(bytes, 1);
    table = aligned_alloc(HUGE_PAGE_BYTES, rounded);
    fg_assert(table != NULL);
    (void)madvise(table, rounded, MADV_HUGEPAGE); /* without it everything works, too */
    memset(table, 0, bytes);
    return table;
}

static uint32_t place_of(const struct qry_print_set *set, struct fg_id print)
{
    /* As fg_id_table(), whose seed is a call. */
    return (uint32_t)(print.lo ^ fg_mix64(print.hi ^ set->seed)) & (set->n_places - 1);
}

static uint32_t find_place(const struct qry_print_set *set, struct fg_id print)
{
    uint32_t at = place_of(set, print);

    while (set->flags[at] != 0 && !fg_id_eq(set->prints[at], print))
        at = (at + 1) & (set->n_places - 1);
    return at;
}

static bool has_room(const struct qry_print_set *set, uint64_t more)
{
    /* Linear probing: beyond three quarters the walks grow quickly. */
    return set->n + more <= (uint64_t)set->n_places / 4 * 3;
}

void qry_print_set_make_room(struct qry_print_set *set, uint64_t more)
{
    struct qry_print_set larger = *set;

    while (!has_room(&larger, more)) {
        uint32_t n = FG_MAX(larger.n_places * 2, (uint32_t)PLACES_MIN);

        if (n < larger.n_places || n * (uint64_t)PRINT_BYTES > set->max_bytes)
            break;
        larger.n_places = n;
    }
    if (larger.n_places == set->n_places)
        return;
    larger.prints = table_alloc(larger.n_places * sizeof *larger.prints);
    larger.flags = table_alloc(larger.n_places * sizeof *larger.flags);
    for (uint32_t i = 0; i < set->n_places; i++)
        if (set->flags[i] != 0) {
            uint32_t at = find_place(&larger, set->prints[i]);

            larger.prints[at] = set->prints[i];
            larger.flags[at] = set->flags[i];
        }
    free(set->prints);
    free(set->flags);
    set->prints = larger.prints;
    set->flags = larger.flags;
    set->n_places = larger.n_places;
}

static bool touch_place(struct qry_print_set *set, struct fg_id print, uint16_t flags,
                        uint16_t *ret_flags)
{
    uint32_t at;

    if (set->n_places == 0)
        return false;
    at = find_place(set, print);
    *ret_flags = set->flags[at];
    if (set->flags[at] == 0) {
        if (!has_room(set, 1))
            return false;
        set->prints[at] = print;
        set->n++;
    }
    set->flags[at] |= flags | FLAG_THERE;
    return true;
}

bool qry_print_set_touch(struct qry_print_set *set, struct fg_id print, uint16_t flags,
                         uint16_t *ret_flags)
{
    struct qry_prints_aside *aside = set->adding;

    if (aside == NULL || (set->n > 0 && set->flags[find_place(set, print)] != 0))
        return touch_place(set, print, flags, ret_flags);
    /* A series with other types is the next one. */
    if (aside->n > 0 && fg_id_eq(aside->prints[aside->n - 1], print)) {
        *ret_flags = aside->flags[aside->n - 1];
        aside->flags[aside->n - 1] |= flags;
        return true;
    }
    *ret_flags = 0;
    aside->prints[aside->n] = print;
    aside->flags[aside->n++] = flags | FLAG_THERE;
    set->n_aside++;
    return true;
}

void qry_print_set_load(const struct qry_print_set *set, struct fg_id print)
{
    uint32_t at;

    if (set->n_places == 0 || (set->n == 0 && set->adding != NULL))
        return;
    at = place_of(set, print);
    __builtin_prefetch(&set->prints[at], 1);
    __builtin_prefetch(&set->flags[at], 1);
}

void qry_print_set_clear(struct qry_print_set *set, uint16_t flags)
{
    for (uint32_t i = 0; i < set->n_places; i++)
        set->flags[i] &= (uint16_t)~flags;
    for (unsigned i = 0; i < set->n_asides; i++)
        for (uint32_t k = 0; k < set->asides[i].n; k++)
            set->asides[i].flags[k] &= (uint16_t)~flags;
}

/* ---- aside ---- */

/* Moves prints that are aside into the table: those that `few` has, all if it is NULL. */
static void move_to_table(struct qry_print_set *set, struct qry_prints_aside *aside,
                          const struct qry_print_set *few)
{
    uint32_t kept = 0;
    uint16_t flags;

    if (few == NULL)
        qry_print_set_make_room(set, aside->n);
    for (uint32_t i = 0; i < aside->n; i++) {
        if (few != NULL && few->flags[find_place(few, aside->prints[i])] == 0) {
            aside->prints[kept] = aside->prints[i];
            aside->flags[kept++] = aside->flags[i];
            continue;
        }
        qry_print_set_make_room(set, 1);
        /* If the table is full it is not known any more, as one that found it full. */
        (void)touch_place(set, aside->prints[i], aside->flags[i], &flags);
        set->n_aside--;
    }
    aside->n = kept;
}

/* Moves those of the service's prints, or of all, that the index may have. */
static void move_matches(struct qry_print_set *set, const struct fg_label_index *index,
                         uint32_t n_marked, const struct fg_id *service)
{
    struct qry_print_set few;
    bool is_small = n_marked < set->n_aside / FEW_SHARE;
    uint16_t flags;

    qry_print_set_init(&few, SIZE_MAX);
    if (is_small) {
        qry_print_set_make_room(&few, FG_MAX(n_marked, 1U));
        for (uint32_t i = 0; i < index->n_prints; i++)
            if (index->marks[i] != 0)
                (void)touch_place(&few, index->prints[i], 0, &flags);
    }
    for (unsigned i = 0; i < set->n_asides; i++)
        if (service == NULL || fg_id_eq(set->asides[i].service, *service))
            move_to_table(set, &set->asides[i], is_small ? &few : NULL);
    qry_print_set_done(&few);
}

void qry_print_set_begin(struct qry_print_set *set, const struct fg_label_index *index)
{
    bool of_one = index->service.ptr != NULL && index->n_prints == index->n_series, again = false;
    struct fg_id service = {0};
    uint32_t n_marked = 0;

    set->adding = NULL;
    for (uint32_t i = 0; i < index->n_prints; i++)
        n_marked += index->marks[i] != 0;
    if (n_marked == 0)
        return;
    if (of_one)
        service = fg_hash128(index->service);
    for (unsigned i = 0; i < set->n_asides; i++)
        again = again || (of_one && fg_id_eq(set->asides[i].service, service));
    if (again || !of_one)
        move_matches(set, index, n_marked, of_one ? &service : NULL);
    if (again || !of_one || set->n_asides == QRY_PRINTS_ASIDE_MAX ||
        (set->n_aside + n_marked) * PRINT_BYTES > set->max_bytes / ASIDE_SHARE) {
        qry_print_set_make_room(set, n_marked);
        return;
    }
    set->adding = &set->asides[set->n_asides++];
    *set->adding = (struct qry_prints_aside){
        .service = service,
        .prints = fg_malloc(n_marked * sizeof *set->adding->prints),
        .flags = fg_malloc(n_marked * sizeof *set->adding->flags),
    };
}
