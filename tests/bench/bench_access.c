/*
 * What it costs to decide about one request: nanoseconds of processor time.
 *
 *     bench_access [TOKENS]
 *
 * With 10,000 tokens of 100 tenants in the registry, or as many as said. Tokens are taken in turn,
 * so that what is looked up is not in the nearest cache each time.
 */
#include "common/access/guard/decide.h"
#include "common/base/str.h"
#include "tests/lib/access_make.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <time.h>

enum { TENANTS = 100, TOKENS = 10000, ROUNDS = 400000, NOW_MS = 1000000, HEADER_BYTES = 200 };

struct bench {
    struct fg_access_registry *registry;
    unsigned n;
    char (*tenants)[16], (*bearer)[HEADER_BYTES], (*basic)[HEADER_BYTES], (*wrong)[HEADER_BYTES];
};

static double cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void write_headers(struct bench *bench, unsigned i, const char *text)
{
    unsigned char plain[HEADER_BYTES / 2], encoded[HEADER_BYTES];
    char other[FG_TOKEN_CHARS + 1];

    (void)snprintf(bench->bearer[i], HEADER_BYTES, "Bearer %s", text);
    (void)snprintf((char *)plain, sizeof plain, "%s:%s", bench->tenants[i], text);
    (void)EVP_EncodeBlock(encoded, plain, (int)strlen((char *)plain));
    (void)snprintf(bench->basic[i], HEADER_BYTES, "Basic %.150s", (char *)encoded);
    (void)access_make_secret(i + 1 + bench->n, NULL, other);
    (void)snprintf(bench->wrong[i], HEADER_BYTES, "Bearer %s", other);
}

static void fill(struct bench *bench)
{
    struct fg_arena *arena = fg_arena_create((size_t)1 << 30);
    struct access_make make;

    access_make_init(&make, arena, NOW_MS);
    for (unsigned i = 0; i < TENANTS; i++) {
        (void)snprintf(bench->tenants[i], sizeof bench->tenants[i], "tenant-%u", i);
        access_make_tenant(&make, bench->tenants[i], ACCESS__TENANT__STATE__ACTIVE);
    }
    for (unsigned i = 0; i < bench->n; i++) {
        char text[FG_TOKEN_CHARS + 1];

        (void)snprintf(bench->tenants[i], sizeof bench->tenants[i], "tenant-%u", i % TENANTS);
        access_make_token(&make,
                          &(struct access_token){
                              .tenants = bench->tenants[i], .scopes = FG_SCOPE_PUSH, .seed = i + 1},
                          text);
        write_headers(bench, i, text);
    }
    bench->registry = access_make_registry(&make.message);
    fg_arena_destroy(arena);
}

static void measure(const struct bench *bench, const char *name, char (*headers)[HEADER_BYTES],
                    bool valid, bool tenant)
{
    double begin_ns = cpu_ns();

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned i = round % bench->n;
        const struct fg_access_facts facts = {.mode = FG_ACCESS_TOKEN,
                                              .authorization = fg_cstr(headers[i]),
                                              .scopes = FG_SCOPE_PUSH,
                                              .now_ms = NOW_MS};
        char id[FG_TOKEN_ID_CHARS + 1];
        struct fg_grant grant;
        struct fg_slice found;
        struct fg_err err;

        fg_assert((fg_access_decide(&facts, bench->registry, &grant, id, &err) == FG_OK) == valid);
        if (valid)
            fg_assert(fg_grant_tenant(
                          &grant, true,
                          (struct fg_tenant_names){.header = tenant ? fg_cstr(bench->tenants[i])
                                                                    : fg_bytes(NULL, 0)},
                          &found, &err) == FG_OK);
    }
    printf("| %s | %.0f |\n", name, (cpu_ns() - begin_ns) / ROUNDS);
}

int main(int argc, char **argv)
{
    struct bench bench = {.n = TOKENS};

    if (argc > 1)
        bench.n = (unsigned)strtoul(argv[1], NULL, 10);
    if (bench.n < TENANTS) {
        (void)fprintf(stderr, "bench_access: at least %d tokens\n", TENANTS);
        return 2;
    }
    bench.tenants = fg_calloc(bench.n, sizeof *bench.tenants);
    bench.bearer = fg_calloc(bench.n, sizeof *bench.bearer);
    bench.basic = fg_calloc(bench.n, sizeof *bench.basic);
    bench.wrong = fg_calloc(bench.n, sizeof *bench.wrong);
    fill(&bench);
    printf("| %u tokens | ns |\n|---|---|\n", bench.n);
    measure(&bench, "Bearer", bench.bearer, true, false);
    measure(&bench, "Bearer, X-Scope-OrgID", bench.bearer, true, true);
    measure(&bench, "Basic", bench.basic, true, false);
    measure(&bench, "an unknown token", bench.wrong, false, false);
    fg_access_registry_unref(bench.registry);
    free(bench.tenants);
    free(bench.bearer);
    free(bench.basic);
    free(bench.wrong);
    return 0;
}
