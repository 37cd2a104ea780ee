/*
 * A tiny writer of JFR recordings for tests: what a chunk has, piece by piece and in the order of
 * the calls, so that it can write what no JVM would. It shares no code with the decoder. Classes
 * are described in a line of text:
 *
 *     {201, "jdk.ThreadPark", "startTime:long stackTrace:jdk.types.StackTrace* notes:Note[]"}
 *
 * with a star where the field is the id of a constant, and brackets where it is an array.
 */
#ifndef FG_TESTS_LIB_JFR_MAKE_H
#define FG_TESTS_LIB_JFR_MAKE_H

#include "common/base/buf.h"

struct jfr_make_class {
    uint64_t id;
    const char *name, *fields;
};

/* Class ids of jfr_make_usual. */
enum {
    JFR_MAKE_SYMBOL = 30,
    JFR_MAKE_METHOD = 28,
    JFR_MAKE_CLASS = 21,
    JFR_MAKE_STATE = 25,
    JFR_MAKE_STACK = 26,
    JFR_MAKE_STRING = 20,
    JFR_MAKE_EXECUTION = 101,
    JFR_MAKE_WALL_CLOCK,
    JFR_MAKE_IN_TLAB,
    JFR_MAKE_OUTSIDE_TLAB,
    JFR_MAKE_ALLOC_SAMPLE,
    JFR_MAKE_MONITOR,
    JFR_MAKE_PARK,
    JFR_MAKE_LIVE,
    JFR_MAKE_MALLOC,
    JFR_MAKE_SETTING,
    JFR_MAKE_OTHER,
};

/* The classes of async-profiler, or nearly; ends with a name that is NULL. */
extern const struct jfr_make_class jfr_make_usual[];

struct jfr_make {
    struct fg_buf out, event, text; /* recording; event at hand; strings of the metadata */
    const struct jfr_make_class *classes;
    bool fixed;                         /* numbers in full width; from the next chunk on */
    size_t chunk;                       /* where the chunk at hand begins */
    uint64_t metadata_at, constants_at; /* in the chunk */
    uint16_t version_major;
};

void jfr_make_init(struct jfr_make *make);
void jfr_make_done(struct jfr_make *make);

/* A chunk's header, finished by the end of the chunk. */
void jfr_make_chunk(struct jfr_make *make);
void jfr_make_chunk_end(struct jfr_make *make);

/* The metadata event, of all classes. */
void jfr_make_metadata(struct jfr_make *make);

/* Parts of an event, between begin and end, which writes its size. */
void jfr_make_begin(struct jfr_make *make, uint64_t class);
void jfr_make_end(struct jfr_make *make);
void jfr_make_byte(struct jfr_make *make, uint8_t value);
void jfr_make_int(struct jfr_make *make, uint64_t value);
void jfr_make_long(struct jfr_make *make, uint64_t value);
void jfr_make_utf8(struct jfr_make *make, const char *text); /* NULL: null */

/* An event: values of the fields by name, "stackTrace=7 state=1 value=wall"; all others are zero.
 */
void jfr_make_event(struct jfr_make *make, uint64_t class, const char *values);

/* Begins an event with constants; jfr_make_pool() for each pool, then the constants, then end. */
void jfr_make_constants(struct jfr_make *make, size_t n_pools);
void jfr_make_pool(struct jfr_make *make, uint64_t class, size_t count);

/* Constants. frames: pairs of method and line, leaf first. */
void jfr_make_symbol(struct jfr_make *make, uint64_t id, const char *text);
void jfr_make_named(struct jfr_make *make, uint64_t id, const char *text); /* state, string */
void jfr_make_class_of(struct jfr_make *make, uint64_t id, uint64_t symbol);
void jfr_make_method(struct jfr_make *make, uint64_t id, uint64_t class, uint64_t symbol);
void jfr_make_stack(struct jfr_make *make, uint64_t id, const uint64_t *frames, size_t n_frames);

/* What most tests need: states 1 RUNNABLE, 2 SLEEPING, 3 DEFAULT; methods 1 "A.main", 2 "A.work",
 * 3 "B.leaf"; stacks 1 "A.main;A.work" and 2 "A.main;A.work;B.leaf". */
void jfr_make_usual_constants(struct jfr_make *make);

/* A chunk with metadata and these constants, before any event. */
void jfr_make_usual_chunk(struct jfr_make *make);

/* Init and such a chunk; init and a chunk with the metadata of other classes, without constants. */
void jfr_make_init_usual(struct jfr_make *make);
void jfr_make_init_of(struct jfr_make *make, const struct jfr_make_class *classes);

struct fg_slice jfr_make_slice(const struct jfr_make *make);

#endif
