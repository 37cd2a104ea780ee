#include "tests/lib/jfr_make.h"

#include <inttypes.h>

enum { HEADER_BYTES = 68, CLASS_METADATA = 0, CLASS_CONSTANTS = 1 };

#define CONTEXT " contextId:long spanId:long spanName:long traceIdHi:long traceIdLo:long"
#define STARTS  "startTime:long eventThread:java.lang.Thread* stackTrace:jdk.types.StackTrace*"

/* clang-format off */
const struct jfr_make_class jfr_make_usual[] = {
    {4, "boolean", ""}, {5, "char", ""}, {6, "float", ""}, {7, "double", ""}, {8, "byte", ""},
    {9, "short", ""}, {10, "int", ""}, {11, "long", ""},
    {JFR_MAKE_STRING, "java.lang.String", ""},
    {JFR_MAKE_CLASS, "java.lang.Class", "classLoader:long name:jdk.types.Symbol* modifiers:int"},
    {22, "java.lang.Thread", "osName:java.lang.String osThreadId:long"},
    {JFR_MAKE_STATE, "jdk.types.ThreadState", "name:java.lang.String"},
    {JFR_MAKE_STACK, "jdk.types.StackTrace", "truncated:boolean frames:jdk.types.StackFrame[]"},
    {27, "jdk.types.StackFrame",
     "method:jdk.types.Method* lineNumber:int bytecodeIndex:int type:long"},
    {JFR_MAKE_METHOD, "jdk.types.Method",
     "type:java.lang.Class* name:jdk.types.Symbol* modifiers:int"},
    {JFR_MAKE_SYMBOL, "jdk.types.Symbol", "string:java.lang.String"},
    {JFR_MAKE_EXECUTION, "jdk.ExecutionSample",
     "startTime:long sampledThread:java.lang.Thread* stackTrace:jdk.types.StackTrace* "
     "state:jdk.types.ThreadState*" CONTEXT},
    {JFR_MAKE_WALL_CLOCK, "profiler.WallClockSample",
     "startTime:long sampledThread:java.lang.Thread* stackTrace:jdk.types.StackTrace* "
     "state:jdk.types.ThreadState*" CONTEXT " samples:int timeSpan:long"},
    {JFR_MAKE_IN_TLAB, "jdk.ObjectAllocationInNewTLAB",
     STARTS " objectClass:java.lang.Class* allocationSize:long tlabSize:long" CONTEXT},
    {JFR_MAKE_OUTSIDE_TLAB, "jdk.ObjectAllocationOutsideTLAB",
     STARTS " objectClass:java.lang.Class* allocationSize:long" CONTEXT},
    {JFR_MAKE_ALLOC_SAMPLE, "jdk.ObjectAllocationSample",
     STARTS " objectClass:java.lang.Class* weight:long"},
    {JFR_MAKE_MONITOR, "jdk.JavaMonitorEnter",
     "startTime:long duration:long eventThread:java.lang.Thread* "
     "stackTrace:jdk.types.StackTrace* monitorClass:java.lang.Class*" CONTEXT},
    {JFR_MAKE_PARK, "jdk.ThreadPark",
     "startTime:long duration:long eventThread:java.lang.Thread* "
     "stackTrace:jdk.types.StackTrace* timeout:long"},
    {JFR_MAKE_LIVE, "profiler.LiveObject", STARTS " allocationSize:long"},
    {JFR_MAKE_MALLOC, "profiler.Malloc", STARTS " address:long size:long"},
    {JFR_MAKE_SETTING, "jdk.ActiveSetting",
     "startTime:long id:long name:java.lang.String value:java.lang.String"},
    {JFR_MAKE_OTHER, "jdk.CPULoad", "startTime:long jvmUser:float machine:double"},
    {0, NULL, NULL},
};
/* clang-format on */

void jfr_make_init(struct jfr_make *make)
{
    *make = (struct jfr_make){.classes = jfr_make_usual, .version_major = 2};
    fg_buf_init(&make->out, SIZE_MAX);
    fg_buf_init(&make->event, SIZE_MAX);
    fg_buf_init(&make->text, SIZE_MAX);
}

void jfr_make_done(struct jfr_make *make)
{
    fg_buf_done(&make->out);
    fg_buf_done(&make->event);
    fg_buf_done(&make->text);
}

struct fg_slice jfr_make_slice(const struct jfr_make *make)
{
    return fg_buf_slice(&make->out);
}

/* ---- numbers and strings ---- */

static void put_number(struct fg_buf *out, uint64_t value, unsigned width, bool fixed)
{
    if (fixed) {
        for (unsigned i = width; i > 0; i--)
            fg_buf_putc(out, (uint8_t)(value >> 8 * (i - 1)));
        return;
    }
    for (unsigned i = 0; i < 8 && value >= 0x80; i++, value >>= 7)
        fg_buf_putc(out, (uint8_t)(value | 0x80));
    fg_buf_putc(out, (uint8_t)value); /* the ninth has eight bits */
}

void jfr_make_byte(struct jfr_make *make, uint8_t value)
{
    fg_buf_putc(&make->event, value);
}

void jfr_make_int(struct jfr_make *make, uint64_t value)
{
    put_number(&make->event, make->fixed ? value : value & UINT32_MAX, 4, make->fixed);
}

void jfr_make_long(struct jfr_make *make, uint64_t value)
{
    put_number(&make->event, value, 8, make->fixed);
}

void jfr_make_utf8(struct jfr_make *make, const char *text)
{
    jfr_make_byte(make, text == NULL ? 0 : 3);
    if (text == NULL)
        return;
    jfr_make_int(make, strlen(text));
    fg_buf_puts(&make->event, text);
}

/* ---- chunks and events ---- */

void jfr_make_chunk(struct jfr_make *make)
{
    static const uint8_t header[HEADER_BYTES];

    make->chunk = make->out.len;
    make->metadata_at = make->constants_at = 0;
    fg_buf_append(&make->out, header, sizeof header);
}

void jfr_make_chunk_end(struct jfr_make *make)
{
    struct fg_buf header;

    fg_buf_init(&header, SIZE_MAX);
    fg_buf_append(&header, "FLR\0", 4);
    fg_buf_be16(&header, make->version_major);
    fg_buf_be16(&header, 1);
    fg_buf_be64(&header, make->out.len - make->chunk);
    fg_buf_be64(&header, make->constants_at);
    fg_buf_be64(&header, make->metadata_at);
    for (unsigned i = 0; i < 3; i++)
        fg_buf_be64(&header, 1);
    fg_buf_be64(&header, 1000000000);
    fg_buf_be32(&header, make->fixed ? 0 : 1);
    memcpy(make->out.ptr + make->chunk, header.ptr, header.len);
    fg_buf_done(&header);
}

void jfr_make_begin(struct jfr_make *make, uint64_t class)
{
    fg_buf_clear(&make->event);
    jfr_make_long(make, class);
}

void jfr_make_end(struct jfr_make *make)
{
    struct fg_slice event = fg_buf_slice(&make->event);

    /* The size counts itself; four bytes of it, as the JDK writes, are always enough. */
    if (make->fixed)
        put_number(&make->out, event.len + 4, 4, true);
    else
        for (unsigned i = 0; i < 4; i++)
            fg_buf_putc(&make->out,
                        (uint8_t)(((event.len + 4) >> 7 * i & 0x7f) | (i < 3 ? 0x80u : 0)));
    fg_buf_put(&make->out, event);
}

/* ---- classes ---- */

struct field {
    struct fg_slice name, class;
    bool constant, array;
};

static struct fg_slice take(struct fg_slice *text, uint8_t end)
{
    size_t at = fg_slice_find(*text, end);
    struct fg_slice taken = fg_slice_sub(*text, 0, at);

    *text = at == SIZE_MAX ? fg_bytes(NULL, 0) : fg_slice_sub(*text, at + 1, SIZE_MAX);
    return taken;
}

static bool next_field(struct fg_slice *fields, struct field *ret_field)
{
    struct fg_slice word;

    if (fields->len == 0)
        return false;
    word = take(fields, ' ');
    ret_field->name = take(&word, ':');
    ret_field->array = fg_slice_ends(word, "[]");
    ret_field->constant = fg_slice_ends(word, "*");
    ret_field->class = fg_slice_sub(
        word, 0, word.len - (ret_field->array ? 2 : 0) - (ret_field->constant ? 1 : 0));
    return true;
}

static const struct jfr_make_class *class_named(const struct jfr_make *make, struct fg_slice name)
{
    const struct jfr_make_class *class = make->classes;

    while (class->name != NULL && !fg_slice_is(name, class->name))
        class ++;
    return class;
}

static const struct jfr_make_class *class_numbered(const struct jfr_make *make, uint64_t id)
{
    const struct jfr_make_class *class = make->classes;

    while (class->name != NULL && class->id != id)
        class ++;
    fg_assert(class->name != NULL);
    return class;
}

/* ---- metadata ---- */

/* Texts of the metadata lie in make->text, with a NUL behind each. */
static uint64_t string_number(struct jfr_make *make, struct fg_slice text)
{
    size_t at = 0, number = 0;

    for (; at < make->text.len; number++) {
        struct fg_slice known = fg_cstr((const char *)make->text.ptr + at);

        if (fg_slice_eq(known, text))
            return number;
        at += known.len + 1;
    }
    fg_buf_put(&make->text, text);
    fg_buf_putc(&make->text, '\0');
    return number;
}

static void put_string_number(struct jfr_make *make, struct fg_slice text)
{
    jfr_make_int(make, string_number(make, text));
}

static void put_attribute(struct jfr_make *make, const char *key, struct fg_slice value)
{
    put_string_number(make, fg_cstr(key));
    put_string_number(make, value);
}

static void put_element(struct jfr_make *make, const char *name, size_t n_attributes)
{
    put_string_number(make, fg_cstr(name));
    jfr_make_int(make, n_attributes);
}

static void put_id(struct jfr_make *make, const char *key, uint64_t id)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRIu64, id);
    put_attribute(make, key, fg_cstr(digits));
}

static void put_field(struct jfr_make *make, const struct field *field)
{
    put_element(make, "field", (size_t)2 + field->constant + field->array);
    put_attribute(make, "name", field->name);
    put_id(make, "class",
           class_named(make, field->class)->name == NULL ? 9999
                                                         : class_named(make, field->class)->id);
    if (field->constant)
        put_attribute(make, "constantPool", FG_LIT("true"));
    if (field->array)
        put_attribute(make, "dimension", FG_LIT("1"));
    jfr_make_int(make, 1); /* an annotation, to be passed over */
    put_element(make, "annotation", 1);
    put_attribute(make, "value-0", FG_LIT("what it is"));
    jfr_make_int(make, 0);
}

static void put_class(struct jfr_make *make, const struct jfr_make_class *class)
{
    struct fg_slice fields = fg_cstr(class->fields);
    struct field field;
    size_t count = 1;

    put_element(make, "class", 2);
    put_attribute(make, "name", fg_cstr(class->name));
    put_id(make, "id", class->id);
    while (next_field(&fields, &field))
        count++;
    jfr_make_int(make, count);
    put_element(make, "setting", 0); /* to be passed over */
    jfr_make_int(make, 0);
    for (fields = fg_cstr(class->fields); next_field(&fields, &field);)
        put_field(make, &field);
}

static void put_root(struct jfr_make *make)
{
    size_t count = 0;

    while (make->classes[count].name != NULL)
        count++;
    put_element(make, "root", 0);
    jfr_make_int(make, 2);
    put_element(make, "region", 1);
    put_attribute(make, "locale", FG_LIT("en_US"));
    jfr_make_int(make, 0);
    put_element(make, "metadata", 0);
    jfr_make_int(make, count);
    for (size_t i = 0; i < count; i++)
        put_class(make, &make->classes[i]);
}

void jfr_make_metadata(struct jfr_make *make)
{
    uint64_t count = 0;

    fg_buf_clear(&make->text);
    jfr_make_begin(make, CLASS_METADATA);
    put_root(make); /* to know the strings, which come first */
    jfr_make_begin(make, CLASS_METADATA);
    for (unsigned i = 0; i < 3; i++)
        jfr_make_long(make, 1);
    for (size_t at = 0; at < make->text.len; at++)
        count += make->text.ptr[at] == '\0';
    jfr_make_int(make, count);
    for (size_t at = 0; at < make->text.len; at += strlen((char *)make->text.ptr + at) + 1)
        jfr_make_utf8(make, (const char *)make->text.ptr + at);
    put_root(make);
    make->metadata_at = make->out.len - make->chunk;
    jfr_make_end(make);
}

/* ---- events ---- */

/* The value of a field in "name=value name=value"; ptr NULL: it is not there. */
static struct fg_slice value_of(struct fg_slice values, struct fg_slice name)
{
    while (values.len > 0) {
        struct fg_slice word = take(&values, ' ');

        if (fg_slice_eq(take(&word, '='), name))
            return word;
    }
    return fg_bytes(NULL, 0);
}

static uint64_t number_of(struct fg_slice text)
{
    char copy[32];

    (void)snprintf(copy, sizeof copy, "%.*s", FG_S(text));
    return strtoull(copy, NULL, 0);
}

static void put_value(struct jfr_make *make, const struct field *field, struct fg_slice value)
{
    struct fg_slice class = field->class;
    char copy[200];

    (void)snprintf(copy, sizeof copy, "%.*s", FG_S(value));
    if (field->array) {
        jfr_make_int(make, 0);
    } else if (field->constant || fg_slice_is(class, "long")) {
        jfr_make_long(make, number_of(value));
    } else if (fg_slice_is(class, "int")) {
        jfr_make_int(make, number_of(value));
    } else if (fg_slice_is(class, "short") || fg_slice_is(class, "char")) {
        put_number(&make->event, number_of(value), 2, make->fixed);
    } else if (fg_slice_is(class, "boolean") || fg_slice_is(class, "byte")) {
        jfr_make_byte(make, (uint8_t)number_of(value));
    } else if (fg_slice_is(class, "float")) {
        put_number(&make->event, UINT64_C(0xffffffff), 4, true);
    } else if (fg_slice_is(class, "double")) {
        put_number(&make->event, UINT64_MAX, 8, true);
    } else if (fg_slice_is(class, "java.lang.String")) {
        jfr_make_utf8(make, value.ptr == NULL ? NULL : copy);
    } else {
        struct fg_slice fields = fg_cstr(class_named(make, class)->fields);
        struct field inner;

        while (next_field(&fields, &inner))
            put_value(make, &inner, fg_bytes(NULL, 0));
    }
}

void jfr_make_event(struct jfr_make *make, uint64_t class, const char *values)
{
    struct fg_slice fields = fg_cstr(class_numbered(make, class)->fields);
    struct field field;

    jfr_make_begin(make, class);
    while (next_field(&fields, &field))
        put_value(make, &field, value_of(fg_cstr(values), field.name));
    jfr_make_end(make);
}

/* ---- constants ---- */

void jfr_make_constants(struct jfr_make *make, size_t n_pools)
{
    uint64_t before = make->constants_at, at = make->out.len - make->chunk;

    make->constants_at = at;
    jfr_make_begin(make, CLASS_CONSTANTS);
    jfr_make_long(make, 1);
    jfr_make_long(make, 1);
    jfr_make_long(make, before == 0 ? 0 : before - at);
    jfr_make_byte(make, 1);
    jfr_make_int(make, n_pools);
}

void jfr_make_pool(struct jfr_make *make, uint64_t class, size_t count)
{
    jfr_make_long(make, class);
    jfr_make_int(make, count);
}

void jfr_make_named(struct jfr_make *make, uint64_t id, const char *text)
{
    jfr_make_long(make, id);
    jfr_make_utf8(make, text);
}

void jfr_make_symbol(struct jfr_make *make, uint64_t id, const char *text)
{
    jfr_make_named(make, id, text);
}

void jfr_make_class_of(struct jfr_make *make, uint64_t id, uint64_t symbol)
{
    jfr_make_long(make, id);
    jfr_make_long(make, 0);
    jfr_make_long(make, symbol);
    jfr_make_int(make, 1);
}

void jfr_make_method(struct jfr_make *make, uint64_t id, uint64_t class, uint64_t symbol)
{
    jfr_make_long(make, id);
    jfr_make_long(make, class);
    jfr_make_long(make, symbol);
    jfr_make_int(make, 1);
}

void jfr_make_stack(struct jfr_make *make, uint64_t id, const uint64_t *frames, size_t n_frames)
{
    jfr_make_long(make, id);
    jfr_make_byte(make, 0);
    jfr_make_int(make, n_frames);
    for (size_t i = 0; i < n_frames; i++) {
        jfr_make_long(make, frames[2 * i]);
        jfr_make_int(make, frames[2 * i + 1]);
        jfr_make_int(make, 300); /* bytecode index: takes two bytes */
        jfr_make_long(make, 1);
    }
}

void jfr_make_usual_constants(struct jfr_make *make)
{
    static const uint64_t frames[] = {3, 30, 2, 20, 1, 10};

    jfr_make_constants(make, 5);
    jfr_make_pool(make, JFR_MAKE_STATE, 3);
    jfr_make_named(make, 1, "STATE_RUNNABLE");
    jfr_make_named(make, 2, "STATE_SLEEPING");
    jfr_make_named(make, 3, "STATE_DEFAULT");
    jfr_make_pool(make, JFR_MAKE_STACK, 2);
    jfr_make_stack(make, 1, frames + 2, 2);
    jfr_make_stack(make, 2, frames, 3);
    jfr_make_pool(make, JFR_MAKE_METHOD, 3);
    jfr_make_method(make, 1, 1, 3);
    jfr_make_method(make, 2, 1, 4);
    jfr_make_method(make, 3, 2, 5);
    jfr_make_pool(make, JFR_MAKE_CLASS, 2);
    jfr_make_class_of(make, 1, 1);
    jfr_make_class_of(make, 2, 2);
    jfr_make_pool(make, JFR_MAKE_SYMBOL, 5);
    jfr_make_symbol(make, 1, "A");
    jfr_make_symbol(make, 2, "B");
    jfr_make_symbol(make, 3, "main");
    jfr_make_symbol(make, 4, "work");
    jfr_make_symbol(make, 5, "leaf");
    jfr_make_end(make);
}

void jfr_make_usual_chunk(struct jfr_make *make)
{
    jfr_make_chunk(make);
    jfr_make_metadata(make);
    jfr_make_usual_constants(make);
}

void jfr_make_init_usual(struct jfr_make *make)
{
    jfr_make_init(make);
    jfr_make_usual_chunk(make);
}

void jfr_make_init_of(struct jfr_make *make, const struct jfr_make_class *classes)
{
    jfr_make_init(make);
    make->classes = classes;
    jfr_make_chunk(make);
    jfr_make_metadata(make);
}
