/*
 * How long a start takes that finds many series in the head, and how much memory they take.
 *
 *     bench_restart FOLDER [series]
 *
 * Makes a store in the folder, which is empty, then opens it as the ingester does. Each service has
 * 1,000 pods; a series has seven labels and the two types of a Go CPU profile.
 */
#include "common/base/time.h"
#include "ingester/catalog/catalog.h"
#include "ingester/head_chunks.h"

#include <unistd.h>

enum { PODS = 1000, BATCH_SERIES = 10000 };

static const struct fg_store_config config = {
    .cache_bytes = 8 << 20, .write_buffer_bytes = 32 << 20, .wal_max_bytes = 128 << 20};
static const struct ing_catalog_quota quota = {.share = 1};

static struct fg_store *open_store(const char *dir)
{
    struct fg_store *store;
    struct fg_err err;

    if (fg_store_open(dir, ing_head_families, HEAD_FAMILIES, &config, &store, &err) != FG_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    return store;
}

static struct ing_catalog *open_catalog(struct fg_store *store)
{
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct fg_err err;

    if (ing_catalog_open(store, &(struct ing_catalog_bounds){UINT64_MAX, 0}, &damage, &catalog,
                         &err) != FG_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    return catalog;
}

static void add(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant, uint32_t number,
                struct fg_store_batch *out)
{
    char service_name[32], pod[48], node[32];
    struct fg_value_type types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                    {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct fg_wire_batch batch = {
        .types = types, .n_types = 2, .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct ing_catalog_service *service;
    struct ing_catalog_series *series;

    (void)snprintf(service_name, sizeof service_name, "checkout-service-%u", number / PODS);
    (void)snprintf(pod, sizeof pod, "checkout-%08x-%05x", number * 2654435761U, number);
    (void)snprintf(node, sizeof node, "ip-10-%u-%u.internal", number % 200, number % 250);
    struct fg_label items[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("cluster"), FG_LIT("eu-west-1a")},
        {FG_LIT("namespace"), FG_LIT("production")},
        {FG_LIT("node"), fg_cstr(node)},
        {FG_LIT("pod"), fg_cstr(pod)},
        {FG_LIT("service_name"), fg_cstr(service_name)},
        {FG_LIT("version"), FG_LIT("v1.27.3")},
    };
    struct fg_labels labels = {items, FG_COUNT(items)};
    service = ing_catalog_service(catalog, tenant, fg_cstr(service_name), &quota);
    series = ing_catalog_series(catalog, tenant, service, 0, &batch, &labels, &quota);
    (void)ing_catalog_series_saw(series, 3);
    if (number % PODS == 0)
        ing_catalog_put_service(service, out);
    ing_catalog_put_series(tenant, series, out);
}

static void write_out(struct fg_store *store, struct fg_store_batch *batch)
{
    struct fg_err err;

    if (fg_store_write(store, batch, &err) != FG_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    fg_store_batch_clear(batch);
}

static void fill(const char *dir, uint32_t n_series)
{
    struct fg_store *store = open_store(dir);
    struct ing_catalog *catalog = open_catalog(store);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("anonymous"));
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    ing_catalog_put_tenant(tenant, &batch);
    for (uint32_t i = 0; i < n_series; i++) {
        add(catalog, tenant, i, &batch);
        if (i % BATCH_SERIES == BATCH_SERIES - 1)
            write_out(store, &batch);
    }
    write_out(store, &batch);
    fg_store_batch_done(&batch);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static uint64_t rss_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL || fscanf(file, "%llu %llu", &pages, &resident) != 2)
        exit(1);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In a process of its own, so that no memory of the filling is counted or used again. */
static void measure(const char *dir, uint32_t n_series)
{
    struct fg_store *store = open_store(dir);
    int64_t before_ns = fg_mono_ns(fg_clock_real()), loaded_ns;
    uint64_t before = rss_bytes();
    struct ing_catalog *catalog = open_catalog(store);

    loaded_ns = fg_mono_ns(fg_clock_real());
    printf(
        "| %u | %.2f | %.0f | %.0f |\n", n_series, (double)(loaded_ns - before_ns) / FG_SECOND_NS,
        (double)(rss_bytes() - before) / n_series, (double)ing_catalog_bytes(catalog) / n_series);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

int main(int argc, char **argv)
{
    uint32_t n_series = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000000;
    char number[16];

    if (argc < 2 || n_series == 0)
        return 2;
    if (argc > 3) {
        measure(argv[1], n_series);
        return 0;
    }
    fill(argv[1], n_series);
    printf("| series | load s | resident bytes a series | counted bytes a series |\n"
           "|---|---|---|---|\n");
    (void)fflush(stdout);
    (void)snprintf(number, sizeof number, "%u", n_series);
    (void)execl("/proc/self/exe", argv[0], argv[1], number, "measure", (char *)NULL);
    return 1;
}
