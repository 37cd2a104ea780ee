#include "tests/lib/batch_folded.h"

#include "common/base/str.h"

struct line {
    struct fg_buf stack;
    int64_t value;
};

struct lines {
    struct line *items;
    size_t count;
};

static void put_location(const struct fg_batch *batch, uint32_t number, struct fg_buf *out)
{
    const struct fg_batch_location *location = &batch->locations[number];

    if (location->n_lines == 0)
        fg_buf_printf(out, "0x%llx", (unsigned long long)location->address);
    for (uint32_t i = location->n_lines; i > 0; i--) {
        const struct fg_line *line = &batch->lines[location->first_line + i - 1];
        const struct fg_batch_function *function = &batch->functions[line->function];

        if (function->name.len + function->system_name.len == 0)
            fg_buf_printf(out, "0x%llx", (unsigned long long)location->address);
        fg_buf_put(out, function->name.len > 0 ? function->name : function->system_name);
        if (i > 1)
            fg_buf_putc(out, ';');
    }
}

static void put_stack(const struct fg_batch *batch, const struct fg_stack *stack,
                      struct fg_buf *out)
{
    for (uint32_t i = stack->depth; i > 0; i--) {
        put_location(batch, batch->stack_locations[stack->first + i - 1], out);
        if (i > 1)
            fg_buf_putc(out, ';');
    }
}

static void add_profile(struct lines *lines, const struct fg_batch *batch,
                        const struct fg_profile *profile, uint32_t type)
{
    const int64_t *values = profile->values + (size_t)type * profile->n_samples;

    lines->items =
        fg_realloc(lines->items, (lines->count + profile->n_samples + 1) * sizeof *lines->items);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        struct line *line = &lines->items[lines->count++];

        fg_buf_init(&line->stack, SIZE_MAX);
        put_stack(batch, &batch->stacks[profile->stacks[i]], &line->stack);
        line->value = values[i];
    }
}

static int line_order(const void *left, const void *right)
{
    const struct line *a = left, *b = right;

    return fg_slice_cmp(fg_buf_slice(&a->stack), fg_buf_slice(&b->stack));
}

static void write_lines(struct lines *lines, struct fg_buf *out)
{
    if (lines->count > 1)
        qsort(lines->items, lines->count, sizeof *lines->items, line_order);
    for (size_t i = 0, next; i < lines->count; i = next) {
        int64_t sum = 0;

        for (next = i;
             next < lines->count && line_order(&lines->items[i], &lines->items[next]) == 0; next++)
            sum += lines->items[next].value;
        if (sum == 0)
            continue;
        fg_buf_put(out, fg_buf_slice(&lines->items[i].stack));
        fg_buf_printf(out, " %lld\n", (long long)sum);
    }
    for (size_t i = 0; i < lines->count; i++)
        fg_buf_done(&lines->items[i].stack);
    free(lines->items);
}

void profile_folded(const struct fg_batch *batch, const struct fg_profile *profile, uint32_t type,
                    struct fg_buf *out)
{
    struct lines lines = {0};

    add_profile(&lines, batch, profile, type);
    write_lines(&lines, out);
}

void batch_folded(const struct fg_batch *batch, uint32_t type, struct fg_buf *out)
{
    struct lines lines = {0};

    for (uint32_t i = 0; i < batch->n_profiles; i++)
        add_profile(&lines, batch, &batch->profiles[i], type);
    write_lines(&lines, out);
}

static void put_type(const struct fg_value_type *type, struct fg_buf *out)
{
    fg_buf_put(out, type->type);
    fg_buf_putc(out, '/');
    fg_buf_put(out, type->unit);
}

static void put_links(const struct fg_profile *profile, struct fg_buf *out)
{
    for (uint32_t i = 0; i < profile->n_links; i++) {
        const struct fg_link *link = &profile->links[i];

        fg_buf_printf(out, "span %llx trace ", (unsigned long long)link->span_id);
        fg_buf_hex(out, link->trace_id, sizeof link->trace_id);
        fg_buf_printf(out, " %lld\n", (long long)profile->values[link->sample]);
    }
}

void batch_describe(const struct fg_batch *batch, struct fg_buf *out)
{
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        const struct fg_profile *profile = &batch->profiles[i];

        fg_labels_write(&profile->labels, out);
        fg_buf_printf(out, " at %lld for %lld period ", (long long)profile->time_ns,
                      (long long)profile->duration_ns);
        put_type(&batch->period_type, out);
        fg_buf_printf(out, " %lld\n", (long long)profile->period);
        for (uint32_t t = 0; t < batch->n_types; t++) {
            put_type(&batch->types[t], out);
            fg_buf_putc(out, '\n');
            profile_folded(batch, profile, t, out);
        }
        put_links(profile, out);
    }
}

int64_t batch_total(const struct fg_batch *batch, uint32_t type)
{
    uint64_t total = 0;

    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];

        for (uint32_t i = 0; i < profile->n_samples; i++)
            total += (uint64_t)profile->values[(size_t)type * profile->n_samples + i];
    }
    return (int64_t)total;
}
