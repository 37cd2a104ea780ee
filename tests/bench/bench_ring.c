/*
 * What a query of all series costs a querier for the choice of ingesters and the judgement of each
 * answer (common/cluster/ring/reads_core.h): milliseconds of processor time.
 *
 *     bench_ring [MEMBERS]
 *
 * Of 9 ingesters in three zones, or of as many as said. Shards one by one: a query that asks for
 * all of them but the last one, which has to look at each.
 */
#include "common/base/time.h"
#include "common/cluster/ring/reads_core.h"

#include <stdlib.h>

enum { MEMBERS = 9, ZONES = 3, REPLICAS = 3, REVISION = 1, ROUNDS = 20, NAME_BYTES = 24 };

static struct fg_ring_view view;

static void make_view(uint32_t n)
{
    static const char *const zones[ZONES] = {"a", "b", "c"};
    struct fg_ring_member *members = fg_calloc(n, sizeof *members);
    struct fg_ring_place *places = fg_calloc(n, sizeof *places);
    struct fg_ring_revision *revision = fg_new(struct fg_ring_revision);

    for (uint32_t i = 0; i < n; i++) {
        char *name = fg_calloc(NAME_BYTES, 1);

        (void)snprintf(name, NAME_BYTES, "ingester-%u", i);
        members[i].name = fg_cstr(name);
        places[i] = (struct fg_ring_place){i, fg_cstr(zones[i % ZONES])};
    }
    *revision = (struct fg_ring_revision){
        .number = REVISION, .replicas = REPLICAS, .places = places, .n_places = n};
    view.ring = (struct fg_ring){
        .members = members, .n_members = n, .revisions = revision, .n_revisions = 1};
    view.tables[0] = fg_ring_table_create(&view.ring, revision);
}

/* One query whose ingesters all answer. */
static void read_once(uint16_t last, uint32_t turn)
{
    uint32_t members[FG_RING_MEMBERS_MAX], n;
    struct fg_ring_reads reads;

    fg_ring_reads_init(&reads, &view, 0, last);
    n = fg_ring_reads_ask(&reads, turn, members);
    for (uint32_t i = 0; i < n; i++) {
        fg_ring_reads_heard(&reads, members[i]);
        fg_assert(fg_ring_reads_is_enough(&reads) == (i + 1 == n));
    }
}

static void measure(const char *what, uint16_t last)
{
    int64_t began_ns = fg_thread_cpu_ns();

    for (uint32_t round = 0; round < ROUNDS; round++)
        read_once(last, round);
    (void)printf("%-18s %8.3f ms\n", what,
                 (double)(fg_thread_cpu_ns() - began_ns) / FG_MS_NS / ROUNDS);
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : MEMBERS;

    if (n == 0 || n > FG_RING_MEMBERS_MAX) {
        (void)fprintf(stderr, "usage: bench_ring [MEMBERS]\n");
        return 2;
    }
    make_view((uint32_t)n);
    (void)printf("%lu members, %u lists of owners\n", n, view.tables[0]->n_distinct);
    measure("the whole ring", UINT16_MAX);
    measure("shards one by one", UINT16_MAX - 1);
    return 0;
}
