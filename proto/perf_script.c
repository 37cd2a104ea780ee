#include "proto/perf_script.h"

#include "common/base/str.h"
#include "proto/lines.h"

struct perf_reader {
    struct fg_arena *arena;
    struct fg_builder *builder;
    struct fg_value_type *types; /* one for each event */
    uint32_t n_types;
    uint32_t *stack; /* leaf first */
    uint32_t depth, cap, group;
    uint32_t n_samples, samples_max; /* 0: no limit */
    bool open;                       /* a sample has begun, */
    struct fg_slice command;         /* of this command */
    uint32_t event;                  /* and this event */
};

/* A line that begins a sample. */
struct perf_head {
    struct fg_slice command, event;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

static uint8_t byte_at(struct fg_slice text, size_t i)
{
    fg_assert(text.ptr != NULL && i < text.len);
    return text.ptr[i];
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Takes the first word off a text. */
static struct fg_slice next_word(struct fg_slice *text)
{
    struct fg_slice rest = fg_trim(*text);
    size_t end = 0;

    while (end < rest.len && !is_blank(byte_at(rest, end)))
        end++;
    *text = fg_slice_sub(rest, end, rest.len);
    return fg_slice_sub(rest, 0, end);
}

/* "12688" or "12688/12700" */
static bool is_process(struct fg_slice word)
{
    bool digits = false;

    for (size_t i = 0; i < word.len; i++) {
        if (byte_at(word, i) >= '0' && byte_at(word, i) <= '9')
            digits = true;
        else if (byte_at(word, i) != '/' || !digits)
            return false;
    }
    return digits;
}

/* Names of commands may have blanks, so the first word behind one that is a process ends them. */
static bool read_head(struct fg_slice line, struct perf_head *ret_head)
{
    struct fg_slice text = fg_trim(line), rest = text, word = next_word(&rest);

    if (line.len == 0 || is_blank(byte_at(line, 0)) || text.len == 0 ||
        byte_at(text, text.len - 1) != ':')
        return false;
    while (rest.len > 0) {
        word = next_word(&rest);
        if (is_process(word))
            break;
    }
    if (!is_process(word) || fg_trim(rest).len == 0)
        return false;
    ret_head->command = fg_trim(fg_slice_sub(text, 0, (size_t)(word.ptr - text.ptr)));
    while (fg_trim(rest).len > 0)
        word = next_word(&rest);
    ret_head->event = fg_slice_sub(word, 0, word.len - 1);
    return ret_head->event.len > 0;
}

static bool is_hex(struct fg_slice word)
{
    for (size_t i = 0; i < word.len; i++) {
        uint8_t c = byte_at(word, i);

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return word.len > 0;
}

/* ---- frames ---- */

/* Returns the file at the end of "symbol (file)", and cuts it off; empty: there is none. */
static struct fg_slice take_file(struct fg_slice *text)
{
    struct fg_slice all = fg_trim(*text);
    size_t open = 0;

    *text = all;
    if (all.len == 0 || byte_at(all, all.len - 1) != ')')
        return FG_LIT("");
    /* From its end, since it may have brackets of its own: "(/tmp/a (deleted))". */
    for (size_t i = all.len; i-- > 0;) {
        open += byte_at(all, i) == ')';
        open -= byte_at(all, i) == '(';
        if (open > 0)
            continue;
        *text = fg_trim(fg_slice_sub(all, 0, i));
        return fg_slice_sub(all, i + 1, all.len - i - 2);
    }
    return FG_LIT("");
}

static struct fg_slice without_offset(struct fg_slice symbol)
{
    for (size_t i = symbol.len; i-- > 1;)
        if (byte_at(symbol, i) == '+')
            return fg_slice_starts(fg_slice_sub(symbol, i, symbol.len), "+0x")
                       ? fg_slice_sub(symbol, 0, i)
                       : symbol;
    return symbol;
}

/* Returns "[libjvm.so]" of "/usr/lib/libjvm.so". ptr NULL: the arena is full. */
static struct fg_slice called_after(struct fg_slice file, struct fg_arena *arena)
{
    const uint8_t *slash = file.len == 0 ? NULL : memrchr(file.ptr, '/', file.len);
    char *name;

    if (slash != NULL)
        file = fg_slice_sub(file, (size_t)(slash - file.ptr) + 1, file.len);
    if (file.len == 0 || byte_at(file, 0) == '[') /* [kernel.kallsyms], [unknown] */
        return file.len == 0 ? FG_LIT("[unknown]") : file;
    name = fg_arena_printf(arena, "[%.*s]", FG_S(file));
    return name == NULL ? (struct fg_slice){0} : fg_cstr(name);
}

static enum fg_code push(struct perf_reader *reader, struct fg_slice name, struct fg_err *err)
{
    if (!fg_utf8_valid(name))
        return fg_fail(err, FG_E_DECODE, "a frame's name is not UTF-8");
    if (!fg_arena_grow(reader->arena, &reader->stack, reader->depth, 1, &reader->cap,
                       sizeof *reader->stack))
        return too_large(err);
    if (fg_builder_name(reader->builder, name, &reader->stack[reader->depth], err) != FG_OK)
        return err->code;
    reader->depth++;
    return FG_OK;
}

static enum fg_code read_frame(struct perf_reader *reader, struct fg_slice line, struct fg_err *err)
{
    struct fg_slice symbol = line, file;

    if (!reader->open || !is_hex(next_word(&symbol)))
        return fg_fail(err, FG_E_DECODE, "neither the head of a sample nor a frame of one");
    file = take_file(&symbol);
    symbol = without_offset(symbol);
    if (symbol.len == 0 || fg_slice_is(symbol, "[unknown]"))
        symbol = called_after(file, reader->arena);
    return symbol.ptr == NULL ? too_large(err) : push(reader, symbol, err);
}

/* ---- samples ---- */

static enum fg_code end_sample(struct perf_reader *reader, struct fg_err *err)
{
    int64_t values[FG_PERF_EVENTS_MAX] = {0};
    uint32_t stack = 0;

    if (!reader->open)
        return FG_OK;
    reader->open = false;
    if (push(reader, reader->command, err) != FG_OK ||
        fg_builder_stack(reader->builder, reader->stack, reader->depth, &stack, err) != FG_OK)
        return err->code;
    values[reader->event] = 1;
    return fg_builder_sample(reader->builder, reader->group, stack, NULL, values, err);
}

/* Finds an event, or n_types. */
static uint32_t find_event(const struct perf_reader *reader, struct fg_slice name)
{
    uint32_t i = 0;

    while (i < reader->n_types && !fg_slice_eq(reader->types[i].type, name))
        i++;
    return i;
}

static enum fg_code read_line(struct perf_reader *reader, struct fg_slice line, struct fg_err *err)
{
    struct perf_head head;

    if (fg_trim(line).len == 0)
        return end_sample(reader, err);
    if (is_blank(byte_at(line, 0)))
        return read_frame(reader, line, err);
    if (byte_at(line, 0) == '#')
        return FG_OK;
    if (!read_head(line, &head))
        return fg_fail(err, FG_E_DECODE, "neither the head of a sample nor a frame of one");
    if (end_sample(reader, err) != FG_OK)
        return err->code;
    if (reader->samples_max != 0 && reader->n_samples == reader->samples_max)
        return fg_fail(err, FG_E_INVALID, "more than %u samples", reader->samples_max);
    reader->n_samples++;
    reader->open = true;
    reader->command = head.command;
    reader->event = find_event(reader, head.event);
    reader->depth = 0;
    return FG_OK;
}

/* Events are types, which a batch has before its samples. Lines that are none fail later. */
static enum fg_code find_events(struct perf_reader *reader, struct fg_slice in, struct fg_err *err)
{
    size_t number = 0;

    while (in.len > 0) {
        struct perf_head head;

        number++;
        if (!read_head(fg_line_next(&in), &head) ||
            find_event(reader, head.event) < reader->n_types)
            continue;
        if (reader->n_types == FG_PERF_EVENTS_MAX)
            return fg_fail(err, FG_E_DECODE, "line %zu: more than %d events", number,
                           FG_PERF_EVENTS_MAX);
        if (!fg_utf8_valid(head.event))
            return fg_fail(err, FG_E_DECODE, "line %zu: the name of an event is not UTF-8", number);
        reader->types[reader->n_types++] = (struct fg_value_type){head.event, FG_LIT("samples")};
    }
    return reader->n_types > 0 ? FG_OK : fg_fail(err, FG_E_DECODE, "there is no sample");
}

enum fg_code fg_perf_script_decode(struct fg_slice in, const struct fg_upload *upload,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts, struct fg_err *err)
{
    const struct fg_labels no_labels = {0};
    struct perf_reader reader = {.arena = arena, .samples_max = upload->limits.samples_max};
    size_t number = 0;

    reader.types = fg_arena_new(arena, struct fg_value_type, FG_PERF_EVENTS_MAX);
    if (reader.types == NULL)
        return too_large(err);
    if (find_events(&reader, in, err) != FG_OK)
        return err->code;
    *batch = (struct fg_batch){.types = reader.types, .n_types = reader.n_types};
    reader.builder = fg_builder_create(arena, &upload->limits, batch, counts);
    if (reader.builder == NULL)
        return too_large(err);
    if (fg_builder_group(reader.builder, &no_labels, &reader.group, err) != FG_OK)
        return err->code;
    while (in.len > 0) {
        number++;
        if (read_line(&reader, fg_line_next(&in), err) != FG_OK)
            return fg_wrap(err, "line %zu", number);
    }
    if (end_sample(&reader, err) != FG_OK)
        return fg_wrap(err, "line %zu", number);
    return fg_builder_finish(reader.builder, upload, 0, err);
}

bool fg_perf_script_is(struct fg_slice in)
{
    struct perf_head head;

    while (in.len > 0) {
        struct fg_slice line = fg_line_next(&in);

        if (fg_trim(line).len > 0 && byte_at(line, 0) != '#')
            return read_head(line, &head);
    }
    return false;
}
