/*
 * The values of a table are cells: one of a counter or a gauge, one for each bucket and the sum of
 * a histogram. Each cell exists once in every stripe; a thread always adds to the same stripe, so
 * that threads rarely share a cache line. Gauges are set, not added to, and live in stripe 0 only.
 */
#include "common/runtime/metrics.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    STRIPES = 8,        /* more threads than that count at once only on large machines */
    CELLS_PER_LINE = 8, /* a stripe begins on a cache line: 64 bytes of uint64_t */
    HISTOGRAM_BOUNDS = 17,
    CELL_INF = HISTOGRAM_BOUNDS, /* what no bound takes */
    CELL_SUM_NS,
    HISTOGRAM_CELLS,
};

static const struct {
    int64_t upto_ns;
    const char *le;
} bounds[HISTOGRAM_BOUNDS] = {
    {500000, "0.0005"},    {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"},
    {10000000, "0.01"},    {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"},
    {250000000, "0.25"},   {500000000, "0.5"},  {1000000000, "1"},   {2500000000, "2.5"},
    {5000000000, "5"},     {10000000000, "10"}, {25000000000, "25"}, {50000000000, "50"},
    {100000000000, "100"},
};

struct fg_metrics {
    struct fg_metrics *next;
    const struct fg_metric_def *defs;
    size_t n_defs;
    uint32_t *first_cell; /* of each metric */
    size_t stripe_cells;  /* cells of one stripe, with padding */
    _Atomic uint64_t *cells;
};

struct hook {
    struct hook *next;
    void (*on_scrape)(void *arg);
    void *arg;
};

struct fg_registry {
    pthread_mutex_t scrape; /* held for a whole scrape; taken before `mutex` */
    /* Over the lists. Loops take it to register series, so no hook is called while it is held. */
    pthread_mutex_t mutex;
    struct fg_metrics *tables;
    struct hook *hooks;
};

/* ---- counting ---- */

static unsigned my_stripe(void)
{
    static _Atomic unsigned n_threads;
    static _Thread_local unsigned mine; /* 1 + stripe; 0: not given yet */

    if (mine == 0)
        mine = 1 + atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) % STRIPES;
    return mine - 1;
}

static _Atomic uint64_t *cell(const struct fg_metrics *metrics, unsigned id, unsigned stripe)
{
    return &metrics->cells[stripe * metrics->stripe_cells + metrics->first_cell[id]];
}

static void check_kind(const struct fg_metrics *metrics, unsigned id, enum fg_metric_kind kind)
{
    fg_assert(id < metrics->n_defs && metrics->defs[id].kind == kind);
}

static bool is_fraction(enum fg_metric_kind kind)
{
    return kind == FG_METRIC_FRACTION || kind == FG_METRIC_FRACTION_TOTAL;
}

void fg_metric_add(struct fg_metrics *metrics, unsigned id, uint64_t by)
{
    check_kind(metrics, id, FG_METRIC_COUNTER);
    /* Relaxed: a counter orders nothing, and a scrape may miss the newest additions. */
    atomic_fetch_add_explicit(cell(metrics, id, my_stripe()), by, memory_order_relaxed);
}

void fg_metric_set(struct fg_metrics *metrics, unsigned id, int64_t value)
{
    check_kind(metrics, id, FG_METRIC_GAUGE);
    atomic_store_explicit(cell(metrics, id, 0), (uint64_t)value, memory_order_relaxed);
}

void fg_metric_set_total(struct fg_metrics *metrics, unsigned id, uint64_t total)
{
    check_kind(metrics, id, FG_METRIC_COUNTER);
    atomic_store_explicit(cell(metrics, id, 0), total, memory_order_relaxed);
}

void fg_metric_set_fraction(struct fg_metrics *metrics, unsigned id, int64_t billionths)
{
    fg_assert(id < metrics->n_defs && is_fraction(metrics->defs[id].kind));
    atomic_store_explicit(cell(metrics, id, 0), (uint64_t)billionths, memory_order_relaxed);
}

void fg_metric_observe_ns(struct fg_metrics *metrics, unsigned id, int64_t duration_ns)
{
    _Atomic uint64_t *cells;
    unsigned bucket = 0;

    check_kind(metrics, id, FG_METRIC_HISTOGRAM);
    cells = cell(metrics, id, my_stripe());
    duration_ns = FG_MAX(duration_ns, 0);
    while (bucket < CELL_INF && duration_ns > bounds[bucket].upto_ns)
        bucket++;
    atomic_fetch_add_explicit(&cells[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cells[CELL_SUM_NS], (uint64_t)duration_ns, memory_order_relaxed);
}

static unsigned cells_of(enum fg_metric_kind kind)
{
    return kind == FG_METRIC_HISTOGRAM ? HISTOGRAM_CELLS : 1;
}

/* Adds the metric's cells, over all stripes, to sums. */
static void sum_cells(const struct fg_metrics *metrics, unsigned id, uint64_t sums[HISTOGRAM_CELLS])
{
    unsigned n = cells_of(metrics->defs[id].kind);

    for (unsigned stripe = 0; stripe < STRIPES; stripe++)
        for (unsigned i = 0; i < n; i++)
            sums[i] += atomic_load_explicit(cell(metrics, id, stripe) + i, memory_order_relaxed);
}

/* Counts what a histogram has observed. */
static uint64_t count_of(const uint64_t sums[HISTOGRAM_CELLS])
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= CELL_INF; i++)
        count += sums[i];
    return count;
}

uint64_t fg_metric_get(const struct fg_metrics *metrics, unsigned id)
{
    uint64_t sums[HISTOGRAM_CELLS] = {0};

    fg_assert(id < metrics->n_defs);
    sum_cells(metrics, id, sums);
    return metrics->defs[id].kind == FG_METRIC_HISTOGRAM ? count_of(sums) : sums[0];
}

/* ---- registering ---- */

struct fg_registry *fg_registry_create(void)
{
    struct fg_registry *registry = fg_new(struct fg_registry);

    fg_assert(pthread_mutex_init(&registry->scrape, NULL) == 0);
    fg_assert(pthread_mutex_init(&registry->mutex, NULL) == 0);
    return registry;
}

static void table_destroy(struct fg_metrics *table)
{
    free(table->first_cell);
    free(table->cells);
    free(table);
}

void fg_registry_destroy(struct fg_registry *registry)
{
    if (registry == NULL)
        return;
    while (registry->tables != NULL) {
        struct fg_metrics *next = registry->tables->next;

        table_destroy(registry->tables);
        registry->tables = next;
    }
    while (registry->hooks != NULL) {
        struct hook *next = registry->hooks->next;

        free(registry->hooks);
        registry->hooks = next;
    }
    (void)pthread_mutex_destroy(&registry->mutex);
    (void)pthread_mutex_destroy(&registry->scrape);
    free(registry);
}

static struct fg_metrics *table_create(const struct fg_metric_def *defs, size_t count)
{
    struct fg_metrics *table = fg_new(struct fg_metrics);
    size_t n_cells = 0, bytes;
    void *cells;

    table->defs = defs;
    table->n_defs = count;
    table->first_cell = fg_calloc(count, sizeof *table->first_cell);
    for (size_t i = 0; i < count; i++) {
        table->first_cell[i] = (uint32_t)n_cells;
        n_cells += cells_of(defs[i].kind);
    }
    n_cells = FG_MAX(n_cells, 1);
    /* Padded to whole cache lines, so that two stripes never share one. */
    table->stripe_cells = (n_cells + CELLS_PER_LINE - 1) / CELLS_PER_LINE * CELLS_PER_LINE;
    bytes = STRIPES * table->stripe_cells * sizeof *table->cells;
    cells = aligned_alloc(CELLS_PER_LINE * sizeof *table->cells, bytes);
    fg_assert(cells != NULL);
    table->cells = memset(cells, 0, bytes);
    return table;
}

struct fg_metrics *fg_metrics_register(struct fg_registry *registry,
                                       const struct fg_metric_def *defs, size_t count)
{
    struct fg_metrics *table;

    pthread_mutex_lock(&registry->mutex);
    /* The same table again (several peers, two servers) shares its cells. */
    for (table = registry->tables; table != NULL && table->defs != defs;)
        table = table->next;
    if (table == NULL) {
        table = table_create(defs, count);
        table->next = registry->tables;
        registry->tables = table;
    }
    pthread_mutex_unlock(&registry->mutex);
    fg_assert(table->n_defs == count);
    return table;
}

void fg_metrics_unregister(struct fg_registry *registry, struct fg_metrics *metrics)
{
    struct fg_metrics **at = &registry->tables;

    pthread_mutex_lock(&registry->mutex);
    while (*at != metrics) {
        fg_assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = metrics->next;
    pthread_mutex_unlock(&registry->mutex);
    table_destroy(metrics);
}

void fg_registry_on_scrape(struct fg_registry *registry, void (*on_scrape)(void *arg), void *arg)
{
    struct hook *hook = fg_new(struct hook);

    hook->on_scrape = on_scrape;
    hook->arg = arg;
    pthread_mutex_lock(&registry->mutex);
    hook->next = registry->hooks;
    registry->hooks = hook;
    pthread_mutex_unlock(&registry->mutex);
}

void fg_registry_off_scrape(struct fg_registry *registry, const void *arg)
{
    struct hook **at = &registry->hooks, *removed = NULL;

    /* First this lock: a scrape walks the hooks without the other one. */
    pthread_mutex_lock(&registry->scrape);
    pthread_mutex_lock(&registry->mutex);
    while (*at != NULL) {
        struct hook *hook = *at;

        if (hook->arg != arg) {
            at = &hook->next;
            continue;
        }
        *at = hook->next;
        hook->next = removed;
        removed = hook;
    }
    pthread_mutex_unlock(&registry->mutex);
    pthread_mutex_unlock(&registry->scrape);
    while (removed != NULL) {
        struct hook *next = removed->next;

        free(removed);
        removed = next;
    }
}

/* ---- writing ---- */

/* One metric, with its name taken apart: family{labels}. */
struct metrics_row {
    struct fg_slice family, labels; /* labels without the braces */
    const struct fg_metrics *table; /* NULL: a row of the docs */
    const struct fg_metric_def *def;
};

static struct metrics_row row_of(const struct fg_metrics *table, const struct fg_metric_def *def)
{
    struct fg_slice name = fg_cstr(def->name);
    size_t brace = fg_slice_find(name, '{');
    struct metrics_row row = {.family = name, .table = table, .def = def};

    if (brace != SIZE_MAX) {
        fg_assert(fg_slice_ends(name, "}"));
        row.family = fg_slice_sub(name, 0, brace);
        row.labels = fg_slice_sub(name, brace + 1, name.len - brace - 2);
    }
    return row;
}

static int by_name(const void *a, const void *b)
{
    const struct metrics_row *left = a, *right = b;
    int order = fg_slice_cmp(left->family, right->family);

    return order != 0 ? order : fg_slice_cmp(left->labels, right->labels);
}

/*
 * All rows, sorted, so that a family's lines stand together as the format demands, whatever tables
 * they come from. Freed by the caller. Locked.
 */
static struct metrics_row *sorted_rows(const struct fg_registry *registry, size_t *ret_count)
{
    const struct fg_metrics *table;
    struct metrics_row *rows;
    size_t count = 0;

    for (table = registry->tables; table != NULL; table = table->next)
        count += table->n_defs;
    rows = fg_calloc(count, sizeof *rows);
    count = 0;
    for (table = registry->tables; table != NULL; table = table->next)
        for (size_t i = 0; i < table->n_defs; i++)
            rows[count++] = row_of(table, &table->defs[i]);
    qsort(rows, count, sizeof *rows, by_name);
    *ret_count = count;
    return rows;
}

static const char *const kind_names[] = {
    [FG_METRIC_COUNTER] = "counter",     [FG_METRIC_GAUGE] = "gauge",
    [FG_METRIC_FRACTION] = "gauge",      [FG_METRIC_FRACTION_TOTAL] = "counter",
    [FG_METRIC_HISTOGRAM] = "histogram",
};

/* "Exposition formats": a backslash and a line end are escaped in HELP. */
static void write_help(struct fg_buf *out, const struct metrics_row *row)
{
    fg_buf_puts(out, "# HELP ");
    fg_buf_put(out, row->family);
    fg_buf_putc(out, ' ');
    for (const char *c = row->def->help; *c != '\0'; c++) {
        if (*c == '\\' || *c == '\n')
            fg_buf_putc(out, '\\');
        fg_buf_putc(out, *c == '\n' ? 'n' : (uint8_t)*c);
    }
    fg_buf_printf(out, "\n# TYPE %.*s %s\n", FG_S(row->family), kind_names[row->def->kind]);
}

/* family + suffix + {labels, le} + blank */
static void write_name(struct fg_buf *out, const struct metrics_row *row, const char *suffix,
                       const char *le)
{
    fg_buf_put(out, row->family);
    fg_buf_puts(out, suffix);
    if (row->labels.len > 0 || le != NULL) {
        fg_buf_putc(out, '{');
        fg_buf_put(out, row->labels);
        if (le != NULL)
            fg_buf_printf(out, "%sle=\"%s\"", row->labels.len > 0 ? "," : "", le);
        fg_buf_putc(out, '}');
    }
    fg_buf_putc(out, ' ');
}

static void write_number(struct fg_buf *out, uint64_t value)
{
    fg_buf_u64(out, value);
    fg_buf_putc(out, '\n');
}

/* Writes a number of billionths, with its sign and nine decimals. */
static void write_fraction(struct fg_buf *out, int64_t value)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;

    fg_buf_printf(out, "%s%llu.%09llu", value < 0 ? "-" : "",
                  (unsigned long long)(size / (uint64_t)FG_SECOND_NS),
                  (unsigned long long)(size % (uint64_t)FG_SECOND_NS));
}

static void write_histogram(struct fg_buf *out, const struct metrics_row *row,
                            const uint64_t sums[HISTOGRAM_CELLS])
{
    uint64_t count = 0;

    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        count += sums[i];
        write_name(out, row, "_bucket", bounds[i].le);
        write_number(out, count);
    }
    count += sums[CELL_INF];
    write_name(out, row, "_bucket", "+Inf");
    write_number(out, count);
    write_name(out, row, "_sum", NULL);
    fg_buf_printf(out, "%llu.%09llu\n",
                  (unsigned long long)(sums[CELL_SUM_NS] / (uint64_t)FG_SECOND_NS),
                  (unsigned long long)(sums[CELL_SUM_NS] % (uint64_t)FG_SECOND_NS));
    write_name(out, row, "_count", NULL);
    write_number(out, count);
}

/* Writes the series of one name, whose values are summed. */
static void write_series(struct fg_buf *out, const struct metrics_row *rows,
                         const uint64_t sums[HISTOGRAM_CELLS])
{
    if (rows->def->kind == FG_METRIC_HISTOGRAM) {
        write_histogram(out, rows, sums);
        return;
    }
    write_name(out, rows, "", NULL);
    if (rows->def->kind == FG_METRIC_GAUGE)
        fg_buf_i64(out, (int64_t)sums[0]);
    else if (is_fraction(rows->def->kind))
        write_fraction(out, (int64_t)sums[0]);
    else
        fg_buf_u64(out, sums[0]);
    fg_buf_putc(out, '\n');
}

static void write_rows(struct fg_buf *out, const struct metrics_row *rows, size_t count)
{
    const struct metrics_row *written = NULL; /* the last one */
    size_t n;

    for (size_t i = 0; i < count; i += n) {
        const struct metrics_row *row = &rows[i];
        uint64_t sums[HISTOGRAM_CELLS] = {0};

        n = 1;
        while (n < count - i && fg_slice_eq(row[n].family, row->family) &&
               fg_slice_eq(row[n].labels, row->labels))
            n++;
        for (size_t same = 0; same < n; same++)
            sum_cells(row[same].table, (unsigned)(row[same].def - row[same].table->defs), sums);
        if (row->def->kind == FG_METRIC_HISTOGRAM && count_of(sums) == 0)
            continue;
        if (written == NULL || !fg_slice_eq(row->family, written->family))
            write_help(out, row);
        else
            fg_assert(row->def->kind == written->def->kind);
        write_series(out, row, sums);
        written = row;
    }
}

void fg_registry_write(struct fg_registry *registry, struct fg_buf *out)
{
    const struct hook *hook;
    struct metrics_row *rows;
    size_t count;

    pthread_mutex_lock(&registry->scrape);
    pthread_mutex_lock(&registry->mutex);
    hook = registry->hooks; /* new ones are put before it, and `scrape` keeps the others */
    pthread_mutex_unlock(&registry->mutex);
    /* Without `mutex`: hooks take locks of their own modules, which register metrics while they
     * hold them. `scrape` keeps two scrapes apart. */
    for (; hook != NULL; hook = hook->next)
        hook->on_scrape(hook->arg);
    pthread_mutex_lock(&registry->mutex);
    rows = sorted_rows(registry, &count);
    write_rows(out, rows, count);
    pthread_mutex_unlock(&registry->mutex);
    pthread_mutex_unlock(&registry->scrape);
    free(rows);
}

/* ---- docs ---- */

/* The bounds of the section that the linker makes. Weak: a program may have no table. */
extern const struct fg_metric_table *const __start_fg_metric_tables[] __attribute__((weak));
extern const struct fg_metric_table *const __stop_fg_metric_tables[] __attribute__((weak));

static struct metrics_row *listed_rows(size_t *ret_count)
{
    const struct fg_metric_table *const *table;
    struct metrics_row *rows;
    size_t count = 0;

    for (table = __start_fg_metric_tables; table != __stop_fg_metric_tables; table++)
        count += (*table)->count;
    rows = fg_calloc(count + 1, sizeof *rows);
    count = 0;
    for (table = __start_fg_metric_tables; table != __stop_fg_metric_tables; table++)
        for (size_t i = 0; i < (*table)->count; i++)
            rows[count++] = row_of(NULL, &(*table)->defs[i]);
    if (count > 0)
        qsort(rows, count, sizeof *rows, by_name);
    *ret_count = count;
    return rows;
}

/* Cuts the first of name="value",name="value" off. */
static void next_label(struct fg_slice *labels, struct fg_slice *ret_name,
                       struct fg_slice *ret_value)
{
    size_t equals = fg_slice_search(*labels, "=\""), quote;

    fg_assert(equals != SIZE_MAX);
    *ret_name = fg_slice_sub(*labels, 0, equals);
    *labels = fg_slice_sub(*labels, equals + 2, SIZE_MAX);
    quote = fg_slice_find(*labels, '"');
    fg_assert(quote != SIZE_MAX);
    *ret_value = fg_slice_sub(*labels, 0, quote);
    *labels = fg_slice_sub(*labels, quote + 1, SIZE_MAX);
    if (fg_slice_starts(*labels, ","))
        *labels = fg_slice_sub(*labels, 1, SIZE_MAX);
}

/* The value that a row gives a label. */
static struct fg_slice label_value(const struct metrics_row *row, struct fg_slice wanted)
{
    struct fg_slice labels = row->labels, name, value = {0};

    do {
        fg_assert(labels.len > 0); /* the metrics of a family have the same labels */
        next_label(&labels, &name, &value);
    } while (!fg_slice_eq(name, wanted));
    return value;
}

/* Writes the labels of a family, each with the values that its rows give it. */
static void write_labels(struct fg_buf *out, const struct metrics_row *rows, size_t count)
{
    struct fg_slice labels = rows->labels, name, first;
    const char *separator = "";

    while (labels.len > 0) {
        next_label(&labels, &name, &first);
        fg_buf_printf(out, "%s`%.*s`", separator, FG_S(name));
        separator = "; ";
        if (fg_slice_eq(first, fg_cstr("%s"))) /* a value of the running program */
            continue;
        for (size_t i = 0; i < count; i++) {
            struct fg_slice value = label_value(&rows[i], name);
            size_t before = 0;

            while (!fg_slice_eq(label_value(&rows[before], name), value))
                before++;
            if (before == i)
                fg_buf_printf(out, "%s%.*s", i == 0 ? ": " : ", ", FG_S(value));
        }
    }
}

void fg_metrics_write_docs(struct fg_buf *out)
{
    size_t count, n;
    struct metrics_row *rows = listed_rows(&count);

    fg_buf_puts(out, "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < count; i += n) {
        const struct metrics_row *row = &rows[i];

        for (n = 1; i + n < count && fg_slice_eq(row[n].family, row->family); n++)
            fg_assert(kind_names[row[n].def->kind] == kind_names[row->def->kind]);
        fg_buf_printf(out, "| `%.*s` | %s | ", FG_S(row->family), kind_names[row->def->kind]);
        write_labels(out, row, n);
        fg_buf_printf(out, " | %s |\n", row->def->help);
    }
    free(rows);
}
