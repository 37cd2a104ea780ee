#include "proto/jfr/profiles.h"

#include <endian.h>

/* The names of a kind. */
struct names {
    const char *name;
    struct {
        const char *type, *unit;
    } types[JFR_TYPES_MAX], period;
    bool timed; /* its values are multiples of the period */
};

/* clang-format off */
static const struct names kind_names[JFR_KINDS] = {
    [JFR_CPU] = {
        "process_cpu", {{"cpu", "nanoseconds"}}, {"cpu", "nanoseconds"}, true},
    [JFR_WALL] = {
        "wall", {{"wall", "nanoseconds"}}, {"wall", "nanoseconds"}, true},
    [JFR_IN_NEW_TLAB] = {
        "memory", {{"alloc_in_new_tlab_objects", "count"}, {"alloc_in_new_tlab_bytes", "bytes"}},
        {"space", "bytes"}, false},
    [JFR_OUTSIDE_TLAB] = {
        "memory", {{"alloc_outside_tlab_objects", "count"}, {"alloc_outside_tlab_bytes", "bytes"}},
        {"space", "bytes"}, false},
    [JFR_ALLOC_SAMPLE] = {
        "memory", {{"alloc_sample_objects", "count"}, {"alloc_sample_bytes", "bytes"}},
        {"space", "bytes"}, false},
    [JFR_MUTEX] = {
        "mutex", {{"contentions", "count"}, {"delay", "nanoseconds"}}, {"mutex", "count"}, false},
    [JFR_BLOCK] = {
        "block", {{"contentions", "count"}, {"delay", "nanoseconds"}}, {"block", "count"}, false},
    [JFR_LIVE] = {
        "memory", {{"live", "count"}}, {"objects", "count"}, false},
    [JFR_MALLOC] = {
        "memory", {{"malloc_objects", "count"}, {"malloc_bytes", "bytes"}}, {NULL, NULL}, false},
};
/* clang-format on */

enum {
    UNKNOWN = UINT32_MAX, /* not looked up yet */
    NOTHING = UINT32_MAX - 1,
};

/* The builder's group of samples with the labels of a context and a span's name. */
struct jfr_group {
    uint64_t key; /* number of the context, number of the span's name */
    uint32_t number;
    bool linked; /* link is something */
    struct fg_link link;
};

struct fg_jfr_profile {
    struct fg_batch batch;
    struct fg_builder *builder;
    struct jfr_group *groups;
    uint32_t n_groups, cap_groups;
    struct fg_map group_map;

    /* Of the chunk at hand, by number of the constant: the builder's, UNKNOWN or NOTHING. */
    bool of_chunk; /* they are of this chunk */
    uint32_t *stacks, *functions;
    uint32_t cap_stacks, cap_functions;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

enum fg_code fg_jfr_profiles_init(struct fg_jfr_profiles *profiles,
                                  const struct fg_jfr_request *request, struct fg_jfr_chunk *chunk,
                                  struct fg_arena *arena, struct fg_decode_counts *counts,
                                  struct fg_err *err)
{
    *profiles = (struct fg_jfr_profiles){
        .request = request,
        .arena = arena,
        .counts = counts,
        .chunk = chunk,
    };
    fg_buf_init(&profiles->name, SIZE_MAX); /* bounded by what the chunk makes of its strings */
    return fg_jfr_labels_read(&profiles->labels, request->labels, arena, err);
}

void fg_jfr_profiles_done(struct fg_jfr_profiles *profiles)
{
    fg_buf_done(&profiles->name);
}

void fg_jfr_profiles_next_chunk(struct fg_jfr_profiles *profiles)
{
    for (unsigned kind = 0; kind < JFR_KINDS; kind++)
        if (profiles->kinds[kind] != NULL)
            profiles->kinds[kind]->of_chunk = false;
}

/* ---- kinds ---- */

static bool make_batch(struct fg_batch *batch, const struct names *names, struct fg_arena *arena)
{
    batch->types = fg_arena_new(arena, struct fg_value_type, JFR_TYPES_MAX);
    batch->mappings = fg_arena_new(arena, struct fg_batch_mapping, 1);
    if (batch->types == NULL || batch->mappings == NULL)
        return false;
    for (; batch->n_types < JFR_TYPES_MAX && names->types[batch->n_types].type != NULL;
         batch->n_types++)
        batch->types[batch->n_types] = (struct fg_value_type){
            fg_cstr(names->types[batch->n_types].type), fg_cstr(names->types[batch->n_types].unit)};
    if (names->period.type != NULL)
        batch->period_type =
            (struct fg_value_type){fg_cstr(names->period.type), fg_cstr(names->period.unit)};
    batch->mappings[0].flags = FG_MAPPING_FUNCTIONS; /* as Pyroscope's */
    batch->n_mappings = 1;
    return true;
}

static struct fg_jfr_profile *profile_create(struct fg_jfr_profiles *profiles,
                                             enum fg_jfr_kind kind)
{
    struct fg_jfr_profile *profile = fg_arena_new(profiles->arena, struct fg_jfr_profile, 1);

    if (profile == NULL || !make_batch(&profile->batch, &kind_names[kind], profiles->arena))
        return NULL;
    profile->builder = fg_builder_create(profiles->arena, &profiles->request->upload.limits,
                                         &profile->batch, profiles->counts);
    return profile->builder == NULL ? NULL : profile;
}

static bool forget(struct fg_arena *arena, uint32_t **numbers, uint32_t *cap, uint32_t count)
{
    if (!fg_arena_grow(arena, numbers, 0, count, cap, sizeof **numbers))
        return false;
    if (count > 0)
        /* UNKNOWN in every byte: numbers of constants have another meaning in each chunk. */
        memset(*numbers, 0xff, count * sizeof **numbers);
    return true;
}

/* Returns the kind's profile, ready for constants of the current chunk; NULL: the arena is full. */
static struct fg_jfr_profile *profile_of(struct fg_jfr_profiles *profiles, enum fg_jfr_kind kind)
{
    const struct fg_jfr_pool *pools = profiles->chunk->pools;
    struct fg_jfr_profile *profile = profiles->kinds[kind];

    if (profile != NULL && profile->of_chunk)
        return profile;
    if (profile == NULL)
        profile = profiles->kinds[kind] = profile_create(profiles, kind);
    if (profile == NULL ||
        !forget(profiles->arena, &profile->stacks, &profile->cap_stacks,
                pools[JFR_STACKS].ids.count) ||
        !forget(profiles->arena, &profile->functions, &profile->cap_functions,
                pools[JFR_METHODS].ids.count))
        return NULL;
    profile->of_chunk = true;
    return profile;
}

/* ---- labels ---- */

static enum fg_code group_add(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                              uint32_t context, struct fg_slice span_name, struct jfr_group *group,
                              struct fg_err *err)
{
    uint32_t max = profiles->request->upload.limits.sample_labels_max;
    /* Without a context there is room for the name of the span alone. */
    struct fg_label own;
    struct fg_labels labels = {&own, 0};

    if (context != FG_IDS_NONE &&
        fg_jfr_labels_of(&profiles->labels, context, 1, profiles->arena, &labels, err) != FG_OK)
        return err->code;
    if (span_name.len > 0)
        labels.items[labels.count++] = (struct fg_label){FG_LIT("span_name"), span_name};
    if (max != 0 && labels.count > max)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the sample labels limit (max_profile_stacktrace_sample_"
                       "labels, actual: %zu, limit: %u)",
                       labels.count, max);
    group->linked = fg_link_take(&labels, &group->link);
    fg_labels_sort(&labels);
    return fg_builder_group(profile->builder, &labels, &group->number, err);
}

static enum fg_code find_group(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                               const struct fg_jfr_sample *sample, struct jfr_group *ret_group,
                               struct fg_err *err)
{
    uint32_t context = fg_ids_find(&profiles->labels.contexts, sample->context);
    uint32_t span = sample->span_name == 0
                        ? FG_IDS_NONE
                        : fg_ids_find(&profiles->labels.strings, sample->span_name);
    /* Both numbers fit: ids are counted in 32 bits. */
    struct jfr_group made = {.key = (uint64_t)context << 32 | span};
    /* Seeded: contexts are the sender's choice. */
    uint64_t hash = fg_mix64(made.key ^ fg_hash_seed());
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&profile->group_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&profile->group_map, &walk)) {
        if (profile->groups[i].key == made.key) {
            *ret_group = profile->groups[i];
            return FG_OK;
        }
    }
    if (group_add(profiles, profile, context,
                  span == FG_IDS_NONE ? FG_LIT("") : profiles->labels.texts[span], &made,
                  err) != FG_OK)
        return err->code;
    if (!fg_arena_grow(profiles->arena, &profile->groups, profile->n_groups, 1,
                       &profile->cap_groups, sizeof *profile->groups) ||
        !fg_map_add_in(&profile->group_map, profiles->arena, hash, profile->n_groups))
        return too_large(err);
    *ret_group = profile->groups[profile->n_groups++] = made;
    return FG_OK;
}

/* Takes span and trace of the event, else of its context. Returns false if neither has one. */
static bool find_link(const struct fg_jfr_sample *sample, const struct jfr_group *group,
                      struct fg_link *link)
{
    const uint64_t trace[] = {htobe64(sample->trace_hi), htobe64(sample->trace_lo)};

    *link = group->link;
    /* Ids are shown as digits from the highest on, and stored as the bytes of the digits. */
    if (sample->span != 0)
        link->span_id = __builtin_bswap64(sample->span);
    if ((sample->trace_hi | sample->trace_lo) != 0)
        memcpy(link->trace_id, trace, sizeof trace);
    return group->linked || (sample->span | sample->trace_hi | sample->trace_lo) != 0;
}

/* ---- stacks ---- */

/* Finds the builder's function of a method, or NOTHING. Numbers are kept per chunk, so that each
 * method is named once. */
static enum fg_code find_function(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                                  uint64_t method, uint32_t *ret_function, struct fg_err *err)
{
    uint32_t number = fg_jfr_constant(profiles->chunk, JFR_METHODS, method);
    uint32_t *function;

    *ret_function = NOTHING;
    if (number == FG_IDS_NONE)
        return FG_OK;
    function = &profile->functions[number];
    if (*function == UNKNOWN) {
        if (fg_jfr_put_method(profiles->chunk, number, &profiles->name, err) != FG_OK)
            return err->code;
        if (profiles->name.len == 0)
            *function = NOTHING;
        else if (fg_builder_function(profile->builder, fg_buf_slice(&profiles->name), function,
                                     err) != FG_OK)
            return err->code;
    }
    *ret_function = *function;
    return FG_OK;
}

static enum fg_code read_frames(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                                struct fg_jfr_cur *cur, uint32_t *ret_depth, struct fg_err *err)
{
    struct fg_jfr_chunk *chunk = profiles->chunk;
    uint32_t count = (uint32_t)fg_jfr_count(cur), depth = 0;
    uint64_t values[JFR_SLOTS] = {0};

    if (!fg_arena_grow(profiles->arena, &profiles->frames, 0, count, &profiles->cap_frames,
                       sizeof *profiles->frames))
        return too_large(err);
    for (; count > 0; count--) {
        uint32_t function = NOTHING;
        int64_t line;

        fg_jfr_class_read(&chunk->metadata, chunk->frame_class, cur, values);
        if (find_function(profiles, profile, values[JFR_FRAME_METHOD], &function, err) != FG_OK)
            return err->code;
        if (function == NOTHING)
            continue;
        line = (int64_t)values[JFR_FRAME_LINE]; /* -1 in native methods of the JDK */
        if (fg_builder_line(profile->builder, function, FG_MAX(line, 0), &profiles->frames[depth],
                            err) != FG_OK)
            return err->code;
        depth++;
    }
    *ret_depth = depth;
    return FG_OK;
}

static enum fg_code read_stack(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                               uint32_t number, uint32_t *ret_stack, struct fg_err *err)
{
    uint64_t values[JFR_SLOTS] = {0};
    uint32_t depth = 0;

    fg_jfr_constant_read(profiles->chunk, JFR_STACKS, number, values);
    if (profiles->chunk->frame_class != FG_IDS_NONE) {
        struct fg_jfr_cur cur =
            fg_jfr_cur(&profiles->chunk->body, (uint32_t)values[JFR_STACK_FRAMES], UINT32_MAX);

        if (read_frames(profiles, profile, &cur, &depth, err) != FG_OK)
            return err->code;
    }
    return fg_builder_stack(profile->builder, profiles->frames, depth, ret_stack, err);
}

static enum fg_code find_stack(struct fg_jfr_profiles *profiles, struct fg_jfr_profile *profile,
                               uint64_t id, uint32_t *ret_stack, struct fg_err *err)
{
    uint32_t number = fg_jfr_constant(profiles->chunk, JFR_STACKS, id);
    uint32_t *stack;

    if (number == FG_IDS_NONE)
        return fg_builder_stack(profile->builder, NULL, 0, ret_stack, err);
    stack = &profile->stacks[number];
    if (*stack == UNKNOWN && read_stack(profiles, profile, number, stack, err) != FG_OK)
        return err->code;
    *ret_stack = *stack;
    return FG_OK;
}

enum fg_code fg_jfr_profiles_add(struct fg_jfr_profiles *profiles, enum fg_jfr_kind kind,
                                 const struct fg_jfr_sample *sample, struct fg_err *err)
{
    struct fg_jfr_profile *profile = profile_of(profiles, kind);
    struct jfr_group group = {0};
    struct fg_link link;
    uint32_t stack = 0;
    bool linked;

    if (profile == NULL)
        return too_large(err);
    if (find_group(profiles, profile, sample, &group, err) != FG_OK ||
        find_stack(profiles, profile, sample->stack, &stack, err) != FG_OK)
        return err->code;
    linked = find_link(sample, &group, &link);
    return fg_builder_sample(profile->builder, group.number, stack, linked ? &link : NULL,
                             sample->values, err);
}

/* ---- the end ---- */

static enum fg_code check_samples(const struct fg_batch *batch, uint32_t max, struct fg_err *err)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++)
        count += batch->profiles[i].n_samples;
    if (max != 0 && count > max)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the samples count limit (max_profile_stacktrace_samples, "
                       "actual: %llu, limit: %u)",
                       (unsigned long long)count, max);
    return FG_OK;
}

static enum fg_code finish_kind(struct fg_jfr_profiles *profiles, enum fg_jfr_kind kind,
                                struct fg_slice event, int64_t period_ns, struct fg_err *err)
{
    struct fg_jfr_profile *profile = profiles->kinds[kind];
    struct fg_upload upload = profiles->request->upload;
    struct fg_label *items =
        fg_arena_new(profiles->arena, struct fg_label, upload.labels.count + 2);

    if (items == NULL)
        return too_large(err);
    if (upload.labels.count > 0)
        memcpy(items, upload.labels.items, upload.labels.count * sizeof *items);
    items[upload.labels.count++] =
        (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(kind_names[kind].name)};
    items[upload.labels.count++] = (struct fg_label){FG_LIT("jfr_event"), event};
    /* Our own labels come last and win: they say what the kind is. */
    upload.labels.items = items;
    if (fg_builder_finish(profile->builder, &upload, kind_names[kind].timed ? period_ns : 0, err) !=
        FG_OK)
        return err->code;
    return check_samples(&profile->batch, upload.limits.samples_max, err);
}

/* By samples: a recording does not say which of its bytes belong to which kind. */
static void set_shares(struct fg_jfr_profiles *profiles)
{
    uint64_t ends[JFR_KINDS], all = 0;

    for (unsigned kind = 0; kind < JFR_KINDS; kind++) {
        const struct fg_jfr_profile *profile = profiles->kinds[kind];

        for (uint32_t i = 0; profile != NULL && i < profile->batch.n_profiles; i++)
            all += profile->batch.profiles[i].n_samples;
        ends[kind] = all;
    }
    for (unsigned kind = 0; kind < JFR_KINDS; kind++)
        if (profiles->kinds[kind] != NULL)
            profiles->kinds[kind]->batch.share =
                (struct fg_batch_share){kind == 0 ? 0 : ends[kind - 1], ends[kind], all};
}

enum fg_code fg_jfr_profiles_finish(struct fg_jfr_profiles *profiles, struct fg_slice event,
                                    int64_t period_ns, fg_batch_sink sink, void *arg,
                                    struct fg_err *err)
{
    for (unsigned kind = 0; kind < JFR_KINDS; kind++)
        if (profiles->kinds[kind] != NULL &&
            finish_kind(profiles, kind, event, period_ns, err) != FG_OK)
            return err->code;
    /* Before the first batch is given away: shares need the samples of all kinds. */
    set_shares(profiles);
    for (unsigned kind = 0; kind < JFR_KINDS; kind++)
        if (profiles->kinds[kind] != NULL && profiles->kinds[kind]->batch.n_profiles > 0 &&
            sink(&profiles->kinds[kind]->batch, arg, err) != FG_OK)
            return err->code;
    return FG_OK;
}
