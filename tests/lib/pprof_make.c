#include "tests/lib/pprof_make.h"

/* Field numbers of the messages, and no name shared with the decoder. */
enum { TYPE = 1, SAMPLE = 2, MAPPING = 3, LOCATION = 4, FUNCTION = 5, STRING = 6 };
enum { TIME = 9, DURATION = 10, PERIOD_TYPE = 11, PERIOD = 12 };

void make_start(struct make *make)
{
    fg_buf_init(&make->out, SIZE_MAX);
    make->n_strings = make->n_written = 0;
    make->unpacked = false;
    (void)make_string(make, "");
}

void make_done(struct make *make)
{
    fg_buf_done(&make->out);
}

void make_int(struct fg_buf *out, unsigned field, uint64_t value)
{
    fg_buf_varint(out, field << 3);
    fg_buf_varint(out, value);
}

void make_bytes(struct fg_buf *out, unsigned field, struct fg_slice bytes)
{
    fg_buf_varint(out, field << 3 | 2);
    fg_buf_lenbytes(out, bytes);
}

void make_message(struct fg_buf *out, unsigned field, struct fg_buf *message)
{
    make_bytes(out, field, fg_buf_slice(message));
    fg_buf_clear(message);
}

/* The message becomes a field, and its buffer is let go. */
static void embed(struct make *make, unsigned field, struct fg_buf *message)
{
    make_bytes(&make->out, field, fg_buf_slice(message));
    fg_buf_done(message);
}

uint64_t make_string(struct make *make, const char *text)
{
    uint32_t i;

    for (i = 0; i < make->n_strings; i++)
        if (strcmp(make->strings[i], text) == 0)
            return i;
    fg_assert(i < MAKE_STRINGS_MAX && strlen(text) < MAKE_STRING_MAX_BYTES);
    memcpy(make->strings[i], text, strlen(text) + 1);
    make->n_strings++;
    return i;
}

void make_strings(struct make *make)
{
    for (; make->n_written < make->n_strings; make->n_written++)
        make_bytes(&make->out, STRING, fg_cstr(make->strings[make->n_written]));
}

static void value_type(struct make *make, unsigned field, const char *type, const char *unit)
{
    struct fg_buf message;

    fg_buf_init(&message, SIZE_MAX);
    make_int(&message, 1, make_string(make, type));
    make_int(&message, 2, make_string(make, unit));
    embed(make, field, &message);
}

void make_type(struct make *make, const char *type, const char *unit)
{
    value_type(make, TYPE, type, unit);
}

void make_period(struct make *make, const char *type, const char *unit, int64_t period)
{
    value_type(make, PERIOD_TYPE, type, unit);
    make_int(&make->out, PERIOD, (uint64_t)period);
}

void make_time(struct make *make, int64_t time_ns, int64_t duration_ns)
{
    make_int(&make->out, TIME, (uint64_t)time_ns);
    make_int(&make->out, DURATION, (uint64_t)duration_ns);
}

void make_function(struct make *make, uint64_t id, const char *name, const char *system_name,
                   const char *filename, int64_t start_line)
{
    struct fg_buf message;

    fg_buf_init(&message, SIZE_MAX);
    make_int(&message, 1, id);
    make_int(&message, 2, make_string(make, name));
    make_int(&message, 3, make_string(make, system_name));
    make_int(&message, 4, make_string(make, filename));
    make_int(&message, 5, (uint64_t)start_line);
    embed(make, FUNCTION, &message);
}

void make_mapping(struct make *make, uint64_t id, uint64_t start, const char *filename,
                  bool has_functions)
{
    struct fg_buf message;

    fg_buf_init(&message, SIZE_MAX);
    make_int(&message, 1, id);
    make_int(&message, 2, start);
    make_int(&message, 3, start + 0x1000);
    make_int(&message, 4, 0x40);
    make_int(&message, 5, make_string(make, filename));
    make_int(&message, 6, make_string(make, "build"));
    make_int(&message, 7, has_functions);
    embed(make, MAPPING, &message);
}

void make_location(struct make *make, uint64_t id, uint64_t mapping, uint64_t address,
                   const struct make_line *lines, size_t n_lines)
{
    struct fg_buf message, line;

    fg_buf_init(&message, SIZE_MAX);
    fg_buf_init(&line, SIZE_MAX);
    make_int(&message, 1, id);
    make_int(&message, 2, mapping);
    make_int(&message, 3, address);
    for (size_t i = 0; i < n_lines; i++) {
        fg_buf_clear(&line);
        make_int(&line, 1, lines[i].function);
        make_int(&line, 2, (uint64_t)lines[i].line);
        make_bytes(&message, 4, fg_buf_slice(&line));
    }
    fg_buf_done(&line);
    embed(make, LOCATION, &message);
}

static void numbers(struct fg_buf *out, unsigned field, const uint64_t *values, size_t count,
                    bool unpacked)
{
    struct fg_buf packed;

    fg_buf_init(&packed, SIZE_MAX);
    for (size_t i = 0; i < count; i++)
        if (unpacked)
            make_int(out, field, values[i]);
        else
            fg_buf_varint(&packed, values[i]);
    if (!unpacked)
        make_bytes(out, field, fg_buf_slice(&packed));
    fg_buf_done(&packed);
}

void make_sample(struct make *make, const struct make_sample *sample)
{
    struct fg_buf message, label;

    fg_buf_init(&message, SIZE_MAX);
    fg_buf_init(&label, SIZE_MAX);
    numbers(&message, 1, sample->locations, sample->n_locations, make->unpacked);
    numbers(&message, 2, (const uint64_t *)sample->values, sample->n_values, make->unpacked);
    for (size_t i = 0; i < sample->n_labels; i++) {
        const struct make_label *from = &sample->labels[i];

        fg_buf_clear(&label);
        make_int(&label, 1, make_string(make, from->key));
        if (from->str != NULL)
            make_int(&label, 2, make_string(make, from->str));
        else
            make_int(&label, 3, (uint64_t)from->num);
        make_bytes(&message, 3, fg_buf_slice(&label));
    }
    fg_buf_done(&label);
    embed(make, SAMPLE, &message);
}

void make_sample_of(struct make *make, const uint64_t *locations, size_t n, int64_t value,
                    const struct make_label *labels, size_t n_labels)
{
    make_sample(make, &(struct make_sample){locations, n, &value, 1, labels, n_labels});
}

void make_frame(struct make *make, uint64_t id, const char *name)
{
    make_function(make, id, name, "", "", 0);
    make_location(make, id, 0, 0, &(struct make_line){id, 0}, 1);
}

struct fg_slice make_finish(struct make *make)
{
    make_strings(make);
    return fg_buf_slice(&make->out);
}
