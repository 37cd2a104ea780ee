/*
 * A tiny writer of pprofs for tests: messages field by field, so that it can write what no library
 * would. It shares no code with the decoder. Fields stand in the order of the calls; the string
 * table comes last unless make_strings() is called before.
 */
#ifndef FG_TESTS_LIB_PPROF_MAKE_H
#define FG_TESTS_LIB_PPROF_MAKE_H

#include "common/base/buf.h"

enum { MAKE_STRINGS_MAX = 512, MAKE_STRING_MAX_BYTES = 64 };

struct make {
    struct fg_buf out;
    char strings[MAKE_STRINGS_MAX][MAKE_STRING_MAX_BYTES];
    uint32_t n_strings, n_written;
    bool unpacked; /* repeated numbers one by one */
};

struct make_line {
    uint64_t function;
    int64_t line;
};

struct make_label {
    const char *key, *str; /* str NULL: a number */
    int64_t num;
};

struct make_sample {
    const uint64_t *locations; /* leaf first */
    size_t n_locations;
    const int64_t *values;
    size_t n_values;
    const struct make_label *labels;
    size_t n_labels;
};

/* In place; string 0 is "". */
void make_start(struct make *make);
void make_done(struct make *make);

/* Fields of any message. */
void make_int(struct fg_buf *out, unsigned field, uint64_t value);
void make_bytes(struct fg_buf *out, unsigned field, struct fg_slice bytes);
/* A message into a field of another, and its buffer is empty again. */
void make_message(struct fg_buf *out, unsigned field, struct fg_buf *message);

/* Find or add; the number of the string. */
uint64_t make_string(struct make *make, const char *text);
/* Writes the strings that are not written yet. */
void make_strings(struct make *make);

void make_type(struct make *make, const char *type, const char *unit);
void make_period(struct make *make, const char *type, const char *unit, int64_t period);
void make_time(struct make *make, int64_t time_ns, int64_t duration_ns);
void make_function(struct make *make, uint64_t id, const char *name, const char *system_name,
                   const char *filename, int64_t start_line);
void make_mapping(struct make *make, uint64_t id, uint64_t start, const char *filename,
                  bool has_functions);
void make_location(struct make *make, uint64_t id, uint64_t mapping, uint64_t address,
                   const struct make_line *lines, size_t n_lines);
void make_sample(struct make *make, const struct make_sample *sample);

/* A sample of these locations and one value. */
void make_sample_of(struct make *make, const uint64_t *locations, size_t n, int64_t value,
                    const struct make_label *labels, size_t n_labels);

/* A function and a location of that name, both with this id. */
void make_frame(struct make *make, uint64_t id, const char *name);

/* All of it, with the strings. */
struct fg_slice make_finish(struct make *make);

#endif
