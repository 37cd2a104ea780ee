#include "proto/jfr/jfr.h"

#include "common/base/time.h"
#include "proto/jfr/profiles.h"

enum event {
    EVENT_NONE,
    EVENT_EXECUTION,
    EVENT_WALL_CLOCK,
    EVENT_COUNTED, /* one of something, and how much of it */
    EVENT_SETTING,
};

enum {
    SLOT_STACK = 1,
    SLOT_STATE,
    SLOT_CONTEXT,
    SLOT_SPAN,
    SLOT_SPAN_NAME,
    SLOT_TRACE_HI,
    SLOT_TRACE_LO,
    SLOT_AMOUNT,
    SLOT_NAME,
    SLOT_VALUE,
};

/* Fields that every event may have. The last five are Pyroscope's own, in its async-profiler. */
static const struct {
    const char *name;
    enum fg_jfr_want want;
    uint8_t slot;
} common_fields[] = {
    /* clang-format off */
    {"stackTrace", JFR_WANT_NUMBER, SLOT_STACK},
    {"state",      JFR_WANT_NUMBER, SLOT_STATE},
    {"contextId",  JFR_WANT_NUMBER, SLOT_CONTEXT},
    {"spanId",     JFR_WANT_NUMBER, SLOT_SPAN},
    {"spanName",   JFR_WANT_NUMBER, SLOT_SPAN_NAME},
    {"traceIdHi",  JFR_WANT_NUMBER, SLOT_TRACE_HI},
    {"traceIdLo",  JFR_WANT_NUMBER, SLOT_TRACE_LO},
    /* clang-format on */
};

static const struct event_class {
    const char *name;
    enum event event;
    const char *amount;    /* field with how much it is; NULL: none */
    enum fg_jfr_kind kind; /* of what is counted */
} event_classes[] = {
    /* clang-format off */
    {NULL, EVENT_NONE, NULL, JFR_KINDS},
    {"jdk.ExecutionSample",             EVENT_EXECUTION,  NULL,             JFR_CPU},
    {"profiler.WallClockSample",        EVENT_WALL_CLOCK, "samples",        JFR_WALL},
    {"jdk.ObjectAllocationInNewTLAB",   EVENT_COUNTED,    "tlabSize",       JFR_IN_NEW_TLAB},
    {"jdk.ObjectAllocationOutsideTLAB", EVENT_COUNTED,    "allocationSize", JFR_OUTSIDE_TLAB},
    {"jdk.ObjectAllocationSample",      EVENT_COUNTED,    "weight",         JFR_ALLOC_SAMPLE},
    {"jdk.JavaMonitorEnter",            EVENT_COUNTED,    "duration",       JFR_MUTEX},
    {"jdk.ThreadPark",                  EVENT_COUNTED,    "duration",       JFR_BLOCK},
    {"profiler.LiveObject",             EVENT_COUNTED,    NULL,             JFR_LIVE},
    {"profiler.Malloc",                 EVENT_COUNTED,    "size",           JFR_MALLOC},
    {"jdk.ActiveSetting",               EVENT_SETTING,    NULL,             JFR_KINDS},
    /* clang-format on */
};

/* What is to be known of a thread's state; 0: it is not in the recording. */
enum state { STATE_OTHER = 1, STATE_SLEEPING, STATE_RUNNABLE };

struct jfr_decoder {
    struct fg_arena *arena;
    struct fg_jfr_chunk chunk;
    struct fg_jfr_profiles profiles;
    int64_t period_ns;

    bool has_settings;       /* the chunk describes them */
    struct fg_slice setting; /* value of the last one called "event"; in the arena */
    uint8_t *states;         /* enum state, by number of the constant */
    uint32_t cap_states;
    struct fg_buf text;
};

/* ---- a chunk's classes and states ---- */

static void bind_event(struct jfr_decoder *decoder, uint32_t class, uint8_t number)
{
    struct fg_jfr_metadata *metadata = &decoder->chunk.metadata;
    const struct event_class *event = &event_classes[number];

    metadata->classes[class].event = number;
    for (size_t i = 0; i < FG_COUNT(common_fields); i++)
        fg_jfr_class_bind(metadata, class, common_fields[i].name, common_fields[i].want,
                          common_fields[i].slot);
    if (event->amount != NULL)
        fg_jfr_class_bind(metadata, class, event->amount, JFR_WANT_NUMBER, SLOT_AMOUNT);
    if (event->event == EVENT_SETTING) {
        fg_jfr_class_bind(metadata, class, "name", JFR_WANT_STRING, SLOT_NAME);
        fg_jfr_class_bind(metadata, class, "value", JFR_WANT_STRING, SLOT_VALUE);
        decoder->has_settings = true;
    }
}

static enum fg_code read_states(struct jfr_decoder *decoder, struct fg_err *err)
{
    uint32_t count = decoder->chunk.pools[JFR_STATES].ids.count;

    if (!fg_arena_grow(decoder->arena, &decoder->states, 0, count, &decoder->cap_states,
                       sizeof *decoder->states))
        return fg_fail(err, FG_E_TOO_LARGE, "%u states of threads", count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t values[JFR_SLOTS] = {0};
        struct fg_slice name;

        fg_jfr_constant_read(&decoder->chunk, JFR_STATES, i, values);
        if (fg_jfr_put_string(&decoder->chunk, (uint32_t)values[JFR_STATE_NAME], &decoder->text,
                              err) != FG_OK)
            return err->code;
        name = fg_buf_slice(&decoder->text);
        decoder->states[i] = fg_slice_is(name, "STATE_SLEEPING")   ? STATE_SLEEPING
                             : fg_slice_is(name, "STATE_RUNNABLE") ? STATE_RUNNABLE
                                                                   : STATE_OTHER;
    }
    return FG_OK;
}

/* ---- settings ---- */

/* Reads a setting. *ret_event: it is the one called "event". */
static enum fg_code read_setting(struct jfr_decoder *decoder, const uint64_t *values,
                                 bool *ret_event, struct fg_err *err)
{
    struct fg_slice value;

    if (fg_jfr_put_string(&decoder->chunk, (uint32_t)values[SLOT_NAME], &decoder->text, err) !=
        FG_OK)
        return err->code;
    *ret_event = fg_slice_is(fg_buf_slice(&decoder->text), "event");
    if (!*ret_event)
        return FG_OK;
    if (fg_jfr_put_string(&decoder->chunk, (uint32_t)values[SLOT_VALUE], &decoder->text, err) !=
        FG_OK)
        return err->code;
    value = fg_buf_slice(&decoder->text);
    /* Chunks repeat their settings: without this each would take memory of the arena. */
    if (fg_slice_eq(value, decoder->setting))
        return FG_OK;
    decoder->setting = fg_arena_copy(decoder->arena, value);
    if (decoder->setting.ptr == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "a setting of %zu bytes", value.len);
    return FG_OK;
}

/* ---- events ---- */

static enum fg_code read_values(struct jfr_decoder *decoder, struct fg_jfr_event *event,
                                uint64_t *values, struct fg_err *err)
{
    struct fg_jfr_metadata *metadata = &decoder->chunk.metadata;

    fg_jfr_class_read(metadata, event->class, &event->cur, values);
    if (event->cur.in.bad)
        return fg_fail(err, FG_E_DECODE, "%.*s cannot be read",
                       FG_S(fg_jfr_class_name(metadata, event->class)));
    return FG_OK;
}

/* Adds a sample that stands for so many periods. */
static enum fg_code add_timed(struct jfr_decoder *decoder, enum fg_jfr_kind kind,
                              struct fg_jfr_sample *sample, int64_t periods, struct fg_err *err)
{
    if (__builtin_mul_overflow(periods, decoder->period_ns, &sample->values[0]))
        return fg_fail(err, FG_E_DECODE, "%lld samples at once", (long long)periods);
    return fg_jfr_profiles_add(&decoder->profiles, kind, sample, err);
}

/* Follows the table in jfr.h for the two events that take time. */
static enum fg_code take_timed(struct jfr_decoder *decoder, enum event event, unsigned state,
                               int64_t periods, struct fg_jfr_sample *sample, struct fg_err *err)
{
    /* async-profiler writes its mode into the setting "event". */
    bool wall = fg_slice_is(decoder->setting, "wall");
    bool is_cpu = event == EVENT_EXECUTION ? state != 0 && state != STATE_SLEEPING
                                           : wall && state == STATE_RUNNABLE;
    bool is_wall = event == EVENT_WALL_CLOCK || wall;

    if (is_cpu && add_timed(decoder, JFR_CPU, sample, periods, err) != FG_OK)
        return err->code;
    return is_wall ? add_timed(decoder, JFR_WALL, sample, periods, err) : FG_OK;
}

static enum fg_code decode_event(struct jfr_decoder *decoder, struct fg_jfr_event *event,
                                 struct fg_err *err)
{
    const struct fg_jfr_class *class = &decoder->chunk.metadata.classes[event->class];
    const struct event_class *what = &event_classes[class->event];
    uint64_t values[JFR_SLOTS] = {0};
    bool has_amount = (class->bound & (1u << SLOT_AMOUNT)) != 0, is_event;
    struct fg_jfr_sample sample;

    /* Most events of a recording are none of ours: they are passed over by their size. */
    if (what->event == EVENT_NONE)
        return FG_OK;
    if (read_values(decoder, event, values, err) != FG_OK)
        return err->code;
    if (what->event == EVENT_SETTING)
        return read_setting(decoder, values, &is_event, err);
    sample = (struct fg_jfr_sample){
        .stack = values[SLOT_STACK],
        .context = values[SLOT_CONTEXT],
        .span_name = values[SLOT_SPAN_NAME],
        .span = values[SLOT_SPAN],
        .trace_hi = values[SLOT_TRACE_HI],
        .trace_lo = values[SLOT_TRACE_LO],
        .values = {1, (int64_t)values[SLOT_AMOUNT]},
    };
    if (what->event == EVENT_COUNTED)
        return fg_jfr_profiles_add(&decoder->profiles, what->kind, &sample, err);

    uint32_t number = fg_jfr_constant(&decoder->chunk, JFR_STATES, values[SLOT_STATE]);

    return take_timed(decoder, what->event, number == FG_IDS_NONE ? 0 : decoder->states[number],
                      has_amount ? (int64_t)values[SLOT_AMOUNT] : 1, &sample, err);
}

/* Finds the first setting of the chunk that is called "event", for the events before it. */
static enum fg_code find_setting(struct jfr_decoder *decoder, struct fg_err *err)
{
    const struct fg_jfr_class *classes = decoder->chunk.metadata.classes;
    uint32_t position = JFR_FIRST_EVENT;
    struct fg_jfr_event event;
    bool found = !decoder->has_settings;

    while (!found && fg_jfr_event_next(&decoder->chunk, &position, &event)) {
        uint64_t values[JFR_SLOTS] = {0};

        if (event.class == FG_IDS_NONE ||
            event_classes[classes[event.class].event].event != EVENT_SETTING)
            continue;
        if (read_values(decoder, &event, values, err) != FG_OK ||
            read_setting(decoder, values, &found, err) != FG_OK)
            return fg_wrap(err, "event at byte %u", event.at);
    }
    return FG_OK;
}

static enum fg_code decode_chunk(struct jfr_decoder *decoder, struct fg_err *err)
{
    uint32_t position = JFR_FIRST_EVENT;
    struct fg_jfr_event event;
    enum fg_code code;

    fg_jfr_profiles_next_chunk(&decoder->profiles);

    struct fg_jfr_metadata *metadata = &decoder->chunk.metadata;

    decoder->has_settings = false;
    for (uint32_t number = 0; number < metadata->n_classes; number++)
        /* Ten names for some hundred classes of a chunk; events then only look at the number. */
        for (size_t i = EVENT_NONE + 1; i < FG_COUNT(event_classes); i++)
            if (fg_slice_is(fg_jfr_class_name(metadata, number), event_classes[i].name))
                bind_event(decoder, number, (uint8_t)i);
    code = read_states(decoder, err);
    if (code == FG_OK)
        code = find_setting(decoder, err);
    while (code == FG_OK && fg_jfr_event_next(&decoder->chunk, &position, &event))
        if (event.class != FG_IDS_NONE && decode_event(decoder, &event, err) != FG_OK)
            code = fg_wrap(err, "event at byte %u", event.at);
    return code == FG_OK
               ? FG_OK
               : fg_wrap(err, "chunk at byte %llu", (unsigned long long)decoder->chunk.offset);
}

enum fg_code fg_jfr_decode(struct fg_slice in, const struct fg_jfr_request *request,
                           struct fg_arena *arena, fg_batch_sink sink, void *arg,
                           struct fg_decode_counts *counts, struct fg_err *err)
{
    struct jfr_decoder decoder = {.arena = arena};
    enum fg_code code;

    if (request->sample_rate == 0)
        return fg_fail(err, FG_E_INVALID, "sampleRate is 0: samples would take no time");
    decoder.period_ns = FG_SECOND_NS / request->sample_rate;
    fg_buf_init(&decoder.text, SIZE_MAX);
    fg_jfr_chunk_init(&decoder.chunk, arena, in.len);
    code = fg_jfr_profiles_init(&decoder.profiles, request, &decoder.chunk, arena, counts, err);
    /* A recording is a sequence of chunks, each with its own metadata and constants. */
    while (code == FG_OK && in.len > 0)
        if (fg_jfr_chunk_next(&decoder.chunk, &in, err) != FG_OK ||
            decode_chunk(&decoder, err) != FG_OK)
            code = fg_wrap(err, "jfr");
    if (code == FG_OK)
        code = fg_jfr_profiles_finish(&decoder.profiles, decoder.setting, decoder.period_ns, sink,
                                      arg, err);
    fg_jfr_profiles_done(&decoder.profiles);
    fg_jfr_chunk_done(&decoder.chunk);
    fg_buf_done(&decoder.text);
    return code;
}
