#include "common/cluster/ring/page.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUMBER_BYTES = 24, TIME_BYTES = 32 };

/* A row of either form, as text. */
struct ring_row {
    struct fg_slice cells[7];
};

/* How rows are written. */
struct form {
    void (*put)(struct fg_buf *out, const struct ring_row *row, size_t n, bool head);
    const char *before, *between, *shard_factors, *after, *none;
};

static struct fg_slice put_number(char out[NUMBER_BYTES], uint64_t number)
{
    (void)snprintf(out, NUMBER_BYTES, "%llu", (unsigned long long)number);
    return fg_cstr(out);
}

/* RFC 3339, in seconds. */
static struct fg_slice put_time(char out[TIME_BYTES], int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / FG_SECOND_NS);
    struct tm parts;
    size_t len = 0;

    if (gmtime_r(&seconds, &parts) != NULL)
        len = strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return fg_bytes(out, len);
}

/* ---- rows ---- */

static void put_members(const struct fg_ring_view *view, const struct form *form,
                        struct fg_buf *out)
{
    static const struct ring_row head = {{
        FG_LIT("member"),
        FG_LIT("zone"),
        FG_LIT("state"),
        FG_LIT("shards"),
        FG_LIT("since"),
        FG_LIT("address"),
        FG_LIT("HTTP"),
    }};
    /* Shards of the newest revision: those that a member still drains are not its share. */
    uint32_t *counts = fg_calloc(FG_MAX(view->ring.n_members, 1), sizeof *counts);

    fg_ring_view_count(view, counts);
    form->put(out, &head, FG_COUNT(head.cells), true);
    for (uint32_t i = 0; i < view->ring.n_members; i++) {
        const struct fg_ring_member *member = &view->ring.members[i];
        char shards[NUMBER_BYTES], since[TIME_BYTES];
        const struct ring_row row = {{
            member->name,
            fg_ring_zone(&view->ring, i),
            fg_ring_is_paused(&view->ring, i)
                ? FG_LIT("maintenance")
                : fg_cstr(fg_ring_state_name(fg_ring_state(&view->ring, i))),
            put_number(shards, counts[i]),
            put_time(since, member->since_wall_ns),
            member->address,
            member->http,
        }};

        form->put(out, &row, FG_COUNT(row.cells), false);
    }
    free(counts);
}

/* Names of members that have not drained the revision, with blanks between them. */
static void put_waited_for(const struct fg_ring *ring, const struct fg_ring_revision *revision,
                           struct fg_buf *out)
{
    for (uint32_t i = 0; i < revision->n_places; i++) {
        const struct fg_ring_member *member = &ring->members[revision->places[i].member];

        if (fg_ring_is_done(member, revision->number))
            continue;
        fg_buf_puts(out, out->len == 0 ? "" : " ");
        fg_buf_put(out, member->name);
    }
}

static void put_revisions(const struct fg_ring *ring, const struct form *form, struct fg_buf *out)
{
    static const struct ring_row head = {{
        FG_LIT("revision"),
        FG_LIT("replicas"),
        FG_LIT("members"),
        FG_LIT("waits for"),
    }};
    struct fg_buf names;

    /* Names of all members come from the ring, so they fit into its size. */
    fg_buf_init(&names, FG_RING_MAX_BYTES);
    form->put(out, &head, 4, true);
    for (uint32_t i = 0; i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];
        char number[NUMBER_BYTES], replicas[NUMBER_BYTES], members[NUMBER_BYTES];
        struct ring_row row = {{
            put_number(number, revision->number),
            put_number(replicas, revision->replicas),
            put_number(members, revision->n_places),
        }};

        fg_buf_clear(&names);
        /* Nothing waits for the newest revision: it takes writes. */
        if (i < ring->n_revisions - 1)
            put_waited_for(ring, revision, &names);
        row.cells[3] = fg_buf_slice(&names);
        form->put(out, &row, 4, false);
    }
    fg_buf_done(&names);
}

static void put_steps(const struct form *form, struct fg_slice tenant,
                      const struct fg_ring_steps *steps, struct fg_buf *out)
{
    for (uint32_t i = 0; i < steps->n; i++) {
        char bits[NUMBER_BYTES], shards[NUMBER_BYTES], since[TIME_BYTES];
        const struct ring_row row = {{
            tenant,
            put_number(bits, steps->items[i].shard_factor),
            put_number(shards, UINT64_C(1) << steps->items[i].shard_factor),
            put_time(since, steps->items[i].since_ns),
        }};

        form->put(out, &row, 4, false);
    }
}

static void put_shard_factors(const struct fg_ring *ring, const struct form *form,
                              struct fg_buf *out)
{
    static const struct ring_row head = {{
        FG_LIT("tenant"),
        FG_LIT("shard factor"),
        FG_LIT("shards"),
        FG_LIT("of profiles since"),
    }};

    if (ring->n_shard_factors == 0)
        return;
    fg_buf_puts(out, form->shard_factors);
    form->put(out, &head, 4, true);
    for (uint32_t i = 0; i < ring->n_shard_factors; i++)
        put_steps(form, ring->shard_factors[i].tenant, &ring->shard_factors[i].steps, out);
    put_steps(form, FG_LIT("(others)"), &ring->others, out);
}

static void put_all(const struct fg_ring_view *view, const struct form *form, struct fg_buf *out)
{
    if (view->ring.n_revisions == 0) {
        fg_buf_puts(out, form->none);
        return;
    }
    fg_buf_puts(out, form->before);
    put_members(view, form, out);
    fg_buf_puts(out, form->between);
    put_revisions(&view->ring, form, out);
    put_shard_factors(&view->ring, form, out);
    fg_buf_puts(out, form->after);
}

/* ---- HTML ---- */

static void put_html_row(struct fg_buf *out, const struct ring_row *row, size_t n, bool head)
{
    fg_buf_puts(out, "<tr>");
    for (size_t i = 0; i < n; i++) {
        fg_buf_puts(out, head ? "<th>" : "<td>");
        /* Escaped: members choose their names and addresses. */
        fg_buf_html(out, row->cells[i]);
    }
    fg_buf_putc(out, '\n');
}

void fg_ring_write_html(const struct fg_ring_view *view, struct fg_buf *out)
{
    static const struct form html = {
        .put = put_html_row,
        .before = "<table>\n",
        .between = "</table>\n<h2>Revisions</h2>\n<p>Writes go by the last one; queries ask the "
                   "owners of all.\n<table>\n",
        .shard_factors =
            "</table>\n<h2>Spread</h2>\n<p>Tenants whose services are in several shards "
            "each.\n<table>\n",
        .after = "</table>\n",
        .none = "<p>Nobody has joined yet.\n",
    };

    fg_buf_puts(out, "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>ring</title>\n"
                     "<style>body{font:14px sans-serif;margin:1em 2em}"
                     "table{border-collapse:collapse}"
                     "th,td{text-align:left;padding:.2em .8em .2em 0;vertical-align:top;"
                     "border-bottom:1px solid #ddd}"
                     "h2{font-size:1.1em;margin:1.5em 0 .2em}p{margin:.3em 0}</style>\n"
                     "<h1>Ring</h1>\n");
    put_all(view, &html, out);
}

/* ---- text ---- */

/* Columns are as wide as their usual content; the last one is not padded. */
static void put_text_row(struct fg_buf *out, const struct ring_row *row, size_t n, bool head)
{
    static const int widths[] = {24, 12, 11, 8, 21, 32};

    (void)head;
    for (size_t i = 0; i + 1 < n; i++)
        fg_buf_printf(out, "%-*.*s ", widths[i], FG_S(row->cells[i]));
    fg_buf_put(out, row->cells[n - 1]);
    fg_buf_putc(out, '\n');
}

void fg_ring_write_text(const struct fg_ring_view *view, struct fg_buf *out)
{
    static const struct form text = {
        .put = put_text_row,
        .before = "",
        .between = "\n",
        .shard_factors = "\n",
        .after = "",
        .none = "nobody has joined yet\n",
    };

    put_all(view, &text, out);
}
