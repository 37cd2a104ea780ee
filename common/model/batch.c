#include "common/model/batch.h"

#include "common/base/id_codec.h"
#include "common/base/value.h"

#include <endian.h>

enum {
    BATCH_WHOLE = 1,                 /* versions of an encoded batch: fg_batch_encode(), ... */
    BATCH_SHORT = 2,                 /* ... fg_batch_encode_short() */
    BATCH_STACK_DEPTH_MAX = 1 << 20, /* far above any decoder's limit */
};

/* ---- ids ---- */

/* Domains of hashing, so that no label set can stand for a sample. */
enum { SEED_PROFILE = 0x70726f66, SEED_SAMPLE = 0x73616d70 };

/* Sums the hashes of all samples. A sum does not depend on the order, so equal samples in
 * another order give the same id and nobody has to sort them. */
static struct fg_id content_sum(const struct fg_batch *batch, const struct fg_profile *profile,
                                struct fg_buf *scratch)
{
    struct fg_id sum = {0, 0};
    uint64_t words[2 + FG_BATCH_TYPES_MAX];
    uint32_t link = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++) {
        size_t n = 2;

        /* The id of the stack, not its index: indexes differ from batch to batch. */
        fg_id_put((uint8_t *)words, batch->stacks[profile->stacks[i]].id);
        for (uint32_t t = 0; t < batch->n_types; t++)
            words[n++] = htole64((uint64_t)profile->values[(size_t)t * profile->n_samples + i]);
        if (link == profile->n_links || profile->links[link].sample != i) {
            sum = fg_id_add(sum, fg_hash128_seed(fg_bytes(words, n * sizeof *words), SEED_SAMPLE));
            continue;
        }
        fg_buf_clear(scratch);
        fg_buf_append(scratch, words, n * sizeof *words);
        for (; link < profile->n_links && profile->links[link].sample == i; link++) {
            fg_buf_le64(scratch, profile->links[link].span_id);
            fg_buf_append(scratch, profile->links[link].trace_id, FG_ID_BYTES);
        }
        sum = fg_id_add(sum, fg_hash128_seed(fg_buf_slice(scratch), SEED_SAMPLE));
    }
    return sum;
}

static void put_type(struct fg_buf *out, const struct fg_value_type *type)
{
    fg_buf_lenbytes(out, type->type);
    fg_buf_lenbytes(out, type->unit);
}

static void put_schema(struct fg_buf *out, const struct fg_batch *batch)
{
    put_type(out, &batch->period_type);
    fg_buf_varint(out, batch->n_types);
    for (uint32_t t = 0; t < batch->n_types; t++)
        put_type(out, &batch->types[t]);
}

void fg_batch_identify(struct fg_batch *batch, struct fg_slice tenant, struct fg_slice origin,
                       struct fg_slice key)
{
    struct fg_buf head, scratch;

    fg_buf_init(&head, SIZE_MAX);
    fg_buf_init(&scratch, SIZE_MAX);
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct fg_profile *profile = &batch->profiles[i];

        fg_buf_clear(&head);
        fg_buf_lenbytes(&head, tenant);
        fg_buf_lenbytes(&head, key);
        /* A sender that names its upload may repeat it from another address. */
        fg_buf_lenbytes(&head, key.len > 0 ? FG_LIT("") : origin);
        fg_labels_encode(&profile->labels, &head);
        put_schema(&head, batch);
        fg_buf_zigzag(&head, profile->time_ns);
        fg_buf_zigzag(&head, profile->duration_ns);
        if (key.len == 0)
            fg_buf_id(&head, content_sum(batch, profile, &scratch));
        profile->id = fg_hash128_seed(fg_buf_slice(&head), SEED_PROFILE);
    }
    fg_buf_done(&head);
    fg_buf_done(&scratch);
}

/* ---- encoding ---- */

/* The number of one of the batch's functions in the table of symbols. */
static uint32_t define_function(const struct fg_batch *batch, uint32_t number,
                                struct fg_symbols *symbols)
{
    const struct fg_batch_function *function = &batch->functions[number];

    return fg_symbols_function(symbols, &(struct fg_function){
                                            fg_symbols_string(symbols, function->name),
                                            fg_symbols_string(symbols, function->system_name),
                                            fg_symbols_string(symbols, function->filename),
                                            function->start_line,
                                        });
}

static uint32_t define_mapping(const struct fg_batch *batch, uint32_t number,
                               struct fg_symbols *symbols)
{
    const struct fg_batch_mapping *mapping;

    if (number == FG_NO_MAPPING)
        return FG_NO_MAPPING;
    mapping = &batch->mappings[number];
    return fg_symbols_mapping(symbols, &(struct fg_mapping){
                                           mapping->start,
                                           mapping->limit,
                                           mapping->offset,
                                           fg_symbols_string(symbols, mapping->filename),
                                           fg_symbols_string(symbols, mapping->build_id),
                                           mapping->flags,
                                       });
}

uint32_t fg_batch_define_location(const struct fg_batch *batch, uint32_t number,
                                  struct fg_symbols *symbols)
{
    const struct fg_batch_location *from = &batch->locations[number];
    /* On the stack for nearly all: a location has more lines only if as many functions were inlined
     * into each other. */
    struct fg_line few[16];
    struct fg_line *lines = few;
    uint32_t defined;

    if (from->n_lines > FG_COUNT(few))
        lines = fg_calloc(from->n_lines, sizeof *lines);
    for (uint32_t i = 0; i < from->n_lines; i++) {
        const struct fg_line *line = &batch->lines[from->first_line + i];

        lines[i] = (struct fg_line){define_function(batch, line->function, symbols), line->line};
    }
    defined = fg_symbols_location(symbols,
                                  &(struct fg_location){
                                      .address = from->address,
                                      .mapping = define_mapping(batch, from->mapping, symbols),
                                      .n_lines = from->n_lines,
                                      .folded = from->folded,
                                  },
                                  lines);
    if (lines != few)
        free(lines);
    return defined;
}

/* Interns the locations of all stacks to define; numbers[location of the batch] is set for those.
 */
static void define_stacks(const struct fg_batch *batch, const bool *define, uint32_t *numbers,
                          struct fg_symbols *symbols)
{
    /* UINT32_MAX in every byte: not defined yet. A location that several stacks have is defined
     * once. */
    memset(numbers, 0xff, batch->n_locations * sizeof *numbers);
    for (uint32_t s = 0; s < batch->n_stacks; s++) {
        const struct fg_stack *stack = &batch->stacks[s];

        if (!define[s])
            continue;
        for (uint32_t i = 0; i < stack->depth; i++) {
            uint32_t location = batch->stack_locations[stack->first + i];

            if (numbers[location] == UINT32_MAX)
                numbers[location] = fg_batch_define_location(batch, location, symbols);
        }
    }
}

static void encode_definitions(const struct fg_batch *batch, const bool *define, struct fg_buf *out)
{
    struct fg_symbols symbols;
    uint32_t *numbers;
    uint32_t count = 0;

    for (uint32_t s = 0; s < batch->n_stacks; s++)
        count += define[s];
    fg_buf_varint(out, count);
    if (count == 0)
        return; /* the steady state: nothing but ids */

    fg_symbols_init(&symbols);
    numbers = fg_calloc(batch->n_locations, sizeof *numbers);
    define_stacks(batch, define, numbers, &symbols);
    /* A table of this message alone: the receiver translates its numbers into those of its
     * dictionary. */
    fg_symbols_encode_since(&symbols, FG_SYMBOLS_START, out);
    for (uint32_t s = 0; s < batch->n_stacks; s++) {
        const struct fg_stack *stack = &batch->stacks[s];

        if (!define[s])
            continue;
        fg_buf_varint(out, s);
        fg_buf_varint(out, stack->depth);
        for (uint32_t i = 0; i < stack->depth; i++)
            fg_buf_varint(out, numbers[batch->stack_locations[stack->first + i]]);
    }
    free(numbers);
    fg_symbols_done(&symbols);
}

static void encode_links(const struct fg_profile *profile, struct fg_buf *out)
{
    fg_buf_varint(out, profile->n_links);
    for (uint32_t i = 0; i < profile->n_links; i++) {
        fg_buf_varint(out, profile->links[i].sample);
        fg_buf_le64(out, profile->links[i].span_id);
        fg_buf_append(out, profile->links[i].trace_id, FG_ID_BYTES);
    }
}

/* labels: scratch, since their length comes before them. last_ns: the time is given as the
 * difference from it. */
static void encode_head(const struct fg_profile *profile, int64_t last_ns, struct fg_buf *labels,
                        struct fg_buf *out)
{
    fg_buf_id(out, profile->id);
    fg_buf_clear(labels);
    fg_labels_encode(&profile->labels, labels);
    fg_buf_lenbytes(out, fg_buf_slice(labels));
    fg_buf_zigzag(out, fg_wrap_sub(profile->time_ns, last_ns));
    fg_buf_zigzag(out, profile->duration_ns);
    fg_buf_zigzag(out, profile->period);
    fg_buf_varint(out, profile->n_samples);
}

void fg_batch_encode(const struct fg_batch *batch, const bool *define, struct fg_buf *out)
{
    struct fg_buf labels;

    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_putc(out, BATCH_WHOLE);
    fg_buf_varint(out, batch->n_stacks);
    for (uint32_t s = 0; s < batch->n_stacks; s++)
        fg_buf_id(out, batch->stacks[s].id);
    encode_definitions(batch, define, out);
    put_schema(out, batch);
    fg_buf_varint(out, batch->n_profiles);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];
        size_t n_values = (size_t)batch->n_types * profile->n_samples;

        encode_head(profile, 0, &labels, out);
        for (uint32_t i = 0; i < profile->n_samples; i++)
            fg_buf_varint(out, profile->stacks[i]);
        for (size_t i = 0; i < n_values; i++)
            fg_buf_zigzag(out, profile->values[i]);
        encode_links(profile, out);
    }
    fg_buf_done(&labels);
}

/* ---- short encoding ---- */

/* What a short id leaves out of an id, hashed. */
static uint64_t check_of(struct fg_id id)
{
    return fg_mix64(id.hi + (id.lo >> 8 * FG_STACK_SHORT_BYTES));
}

static void encode_short_ids(const struct fg_batch *batch, const bool *define, struct fg_buf *out)
{
    uint64_t check = 0;
    uint8_t *at;

    if (!fg_buf_reserve(out, (size_t)batch->n_stacks * FG_ID_BYTES))
        return;
    at = out->ptr + out->len;
    for (uint32_t s = 0; s < batch->n_stacks; s++) {
        struct fg_id id = batch->stacks[s].id;

        fg_id_put(at, id); /* the lowest byte first */
        at += define[s] ? FG_ID_BYTES : FG_STACK_SHORT_BYTES;
        check += define[s] ? 0 : check_of(id);
    }
    out->len = (size_t)(at - out->ptr);
    fg_buf_le64(out, check);
}

/* Values of CPU profiles are multiples of the period, in nanoseconds: divided by it they are small,
 * and often the same as the column before. */
static void encode_column(const int64_t *values, uint32_t n, struct fg_buf *out)
{
    uint64_t divisor = 0;

    for (uint32_t i = 0; i < n && divisor != 1; i++)
        divisor = fg_greatest_divisor((uint64_t)values[i], divisor);
    divisor += divisor == 0;
    fg_buf_varint(out, divisor);
    for (uint32_t i = 0; i < n; i++)
        fg_buf_varint(out, divisor == 1 ? (uint64_t)values[i] : (uint64_t)values[i] / divisor);
}

static void encode_short_samples(const struct fg_batch *batch, const struct fg_profile *profile,
                                 struct fg_buf *out)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++) {
        fg_buf_zigzag(out, (int64_t)profile->stacks[i] - last);
        last = profile->stacks[i];
    }
    for (uint32_t t = 0; t < batch->n_types; t++)
        encode_column(profile->values + (size_t)t * profile->n_samples, profile->n_samples, out);
}

void fg_batch_encode_short(const struct fg_batch *batch, const bool *define, bool whole_ids,
                           struct fg_buf *out)
{
    struct fg_buf labels;
    int64_t last_ns = 0;

    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_putc(out, BATCH_SHORT);
    fg_buf_varint(out, batch->n_stacks);
    encode_definitions(batch, define, out);
    fg_buf_putc(out, whole_ids ? FG_ID_BYTES : FG_STACK_SHORT_BYTES);
    for (uint32_t s = 0; whole_ids && s < batch->n_stacks; s++)
        fg_buf_id(out, batch->stacks[s].id);
    if (!whole_ids)
        encode_short_ids(batch, define, out);
    put_schema(out, batch);
    fg_buf_varint(out, batch->n_profiles);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];

        encode_head(profile, last_ns, &labels, out);
        last_ns = profile->time_ns;
        encode_short_samples(batch, profile, out);
        encode_links(profile, out);
    }
    fg_buf_done(&labels);
}

/* ---- decoding ---- */

static enum fg_code out_of_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the batch needs more memory than a batch may use");
}

/* Reads how many stacks there are. id_bytes: of each, at the least. */
static enum fg_code decode_stack_count(struct fg_cur *cur, size_t id_bytes, struct fg_arena *arena,
                                       struct fg_wire_batch *batch, struct fg_err *err)
{
    /* fg_cur_count() refuses a count for which the rest of the message is too short, here and
     * below: a few bytes must not make us allocate gigabytes. */
    batch->n_stacks = (uint32_t)fg_cur_count(cur, id_bytes);
    batch->stacks = fg_arena_new(arena, struct fg_wire_stack, batch->n_stacks);
    return batch->stacks == NULL ? out_of_memory(err) : FG_OK;
}

static void decode_stack_ids(struct fg_cur *cur, struct fg_wire_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        batch->stacks[i].id = fg_cur_id(cur);
}

/* Reads ids, of which those of undefined stacks are short, and has the whole ones found. */
static enum fg_code decode_short_ids(struct fg_cur *cur, struct fg_arena *arena,
                                     const struct fg_stack_names *names,
                                     struct fg_wire_batch *batch, struct fg_err *err)
{
    uint64_t *shorts = fg_arena_new(arena, uint64_t, batch->n_stacks), check = 0, sum;
    struct fg_id *ids = fg_arena_new(arena, struct fg_id, batch->n_stacks);
    uint32_t n = 0;

    if (shorts == NULL || ids == NULL)
        return out_of_memory(err);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (batch->stacks[i].locations != NULL) {
            batch->stacks[i].id = fg_cur_id(cur);
        } else {
            struct fg_slice in = fg_cur_take(cur, FG_STACK_SHORT_BYTES);

            for (size_t byte = 0; byte < in.len; byte++)
                shorts[n] |= (uint64_t)in.ptr[byte] << 8 * byte;
            n++;
        }
    }
    sum = fg_cur_le64(cur);
    if (cur->bad)
        return fg_fail(err, FG_E_CORRUPT, "ids cut short");
    if (!names->find(names->arg, shorts, n, ids))
        return fg_fail(err, FG_E_NOT_FOUND, "a short id of a stack is not known");
    n = 0;
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (batch->stacks[i].locations != NULL)
            continue;
        batch->stacks[i].id = ids[n++];
        check += check_of(batch->stacks[i].id);
    }
    /* Another stack's id has the same short one. */
    return check == sum ? FG_OK
                        : fg_fail(err, FG_E_NOT_FOUND, "a short id of a stack is ambiguous");
}

static enum fg_code decode_definition(struct fg_cur *cur, struct fg_arena *arena,
                                      struct fg_wire_batch *batch, struct fg_err *err)
{
    uint64_t index = fg_cur_varint(cur);
    uint64_t depth = fg_cur_count(cur, 1);
    uint32_t *locations;

    /* Bounded before the memory is asked for, although the rest of the message bounds it, too. */
    if (cur->bad || index >= batch->n_stacks || depth > BATCH_STACK_DEPTH_MAX)
        return fg_fail(err, FG_E_CORRUPT, "definition of stack %llu of %u",
                       (unsigned long long)index, batch->n_stacks);
    locations = fg_arena_new(arena, uint32_t, depth);
    if (locations == NULL)
        return out_of_memory(err);
    for (uint64_t i = 0; i < depth; i++) {
        uint64_t location = fg_cur_varint(cur);

        if (location >= batch->symbols.n_locations)
            return fg_fail(err, FG_E_CORRUPT, "location %llu of %u", (unsigned long long)location,
                           batch->symbols.n_locations);
        locations[i] = (uint32_t)location;
    }
    batch->stacks[index].locations = locations;
    batch->stacks[index].depth = (uint32_t)depth;
    return FG_OK;
}

static enum fg_code decode_definitions(struct fg_cur *cur, struct fg_arena *arena,
                                       struct fg_wire_batch *batch, struct fg_err *err)
{
    uint64_t count = fg_cur_count(cur, 1);

    if (count == 0)
        return FG_OK;
    if (fg_symbols_decode(&batch->symbols, cur, err) != FG_OK)
        return fg_wrap(err, "definitions");
    for (uint64_t i = 0; i < count && !cur->bad; i++)
        if (decode_definition(cur, arena, batch, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static struct fg_value_type get_type(struct fg_cur *cur)
{
    struct fg_slice type = fg_cur_lenbytes(cur);

    return (struct fg_value_type){type, fg_cur_lenbytes(cur)};
}

static enum fg_code decode_schema(struct fg_cur *cur, struct fg_arena *arena,
                                  struct fg_wire_batch *batch, struct fg_err *err)
{
    batch->period_type = get_type(cur);
    batch->n_types = (uint32_t)fg_cur_count(cur, 2);
    if (batch->n_types == 0 || batch->n_types > FG_BATCH_TYPES_MAX)
        return fg_fail(err, FG_E_CORRUPT, "%u sample types", batch->n_types);
    batch->types = fg_arena_new(arena, struct fg_value_type, batch->n_types);
    if (batch->types == NULL)
        return out_of_memory(err);
    for (uint32_t t = 0; t < batch->n_types; t++)
        batch->types[t] = get_type(cur);
    return FG_OK;
}

static enum fg_code decode_links(struct fg_cur *cur, struct fg_arena *arena,
                                 struct fg_profile *profile, struct fg_err *err)
{
    /* The samples of links do not descend. */
    uint32_t least = 0;

    profile->n_links = (uint32_t)fg_cur_count(cur, 1 + 8 + FG_ID_BYTES);
    profile->links = fg_arena_new(arena, struct fg_link, profile->n_links);
    if (profile->links == NULL)
        return out_of_memory(err);
    for (uint32_t i = 0; i < profile->n_links; i++) {
        struct fg_link *link = &profile->links[i];
        uint64_t sample = fg_cur_varint(cur);
        struct fg_slice trace;

        link->span_id = fg_cur_le64(cur);
        trace = fg_cur_take(cur, FG_ID_BYTES);
        /* In order of their samples: readers go through samples and links side by side. */
        if (cur->bad || sample >= profile->n_samples || sample < least)
            return fg_fail(err, FG_E_CORRUPT, "link %u of a profile", i);
        link->sample = least = (uint32_t)sample;
        memcpy(link->trace_id, trace.ptr, FG_ID_BYTES);
    }
    return FG_OK;
}

static enum fg_code make_samples(struct fg_cur *cur, struct fg_arena *arena, uint32_t n_types,
                                 struct fg_profile *profile, struct fg_err *err)
{
    /* One byte for the stack and one for each value, at the least. */
    profile->n_samples = (uint32_t)fg_cur_count(cur, 1 + (size_t)n_types);
    profile->stacks = fg_arena_new(arena, uint32_t, profile->n_samples);
    profile->values = fg_arena_new(arena, int64_t, (size_t)profile->n_samples * n_types);
    return profile->stacks == NULL || profile->values == NULL ? out_of_memory(err) : FG_OK;
}

static enum fg_code decode_samples(struct fg_cur *cur, const struct fg_wire_batch *batch,
                                   struct fg_profile *profile, struct fg_err *err)
{
    size_t n_values = (size_t)profile->n_samples * batch->n_types;

    for (uint32_t i = 0; i < profile->n_samples; i++) {
        uint64_t stack = fg_cur_varint(cur);

        if (stack >= batch->n_stacks)
            return fg_fail(err, FG_E_CORRUPT, "sample of stack %llu of %u",
                           (unsigned long long)stack, batch->n_stacks);
        profile->stacks[i] = (uint32_t)stack;
    }
    for (size_t i = 0; i < n_values; i++) {
        profile->values[i] = fg_cur_zigzag(cur);
        /* Decoders drop or refuse negative values, so no peer sends one. */
        if (profile->values[i] < 0)
            return fg_fail(err, FG_E_CORRUPT, "negative value");
    }
    return FG_OK;
}

static enum fg_code decode_column(struct fg_cur *cur, uint32_t n, int64_t *values,
                                  struct fg_err *err)
{
    uint64_t divisor = fg_cur_varint(cur), value;

    for (uint32_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(fg_cur_varint(cur), divisor, &value) || value > INT64_MAX)
            return fg_fail(err, FG_E_CORRUPT, "negative value");
        values[i] = (int64_t)value;
    }
    return FG_OK;
}

static enum fg_code decode_short_samples(struct fg_cur *cur, const struct fg_wire_batch *batch,
                                         struct fg_profile *profile, struct fg_err *err)
{
    int64_t stack = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++) {
        stack = fg_wrap_add(stack, fg_cur_zigzag(cur));
        if (stack < 0 || stack >= batch->n_stacks)
            return fg_fail(err, FG_E_CORRUPT, "sample of stack %lld of %u", (long long)stack,
                           batch->n_stacks);
        profile->stacks[i] = (uint32_t)stack;
    }
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (decode_column(cur, profile->n_samples, profile->values + (size_t)t * profile->n_samples,
                          err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* last_ns: the time is given as the difference from it. */
static enum fg_code decode_profile(struct fg_cur *cur, struct fg_arena *arena,
                                   const struct fg_wire_batch *batch, bool is_short,
                                   int64_t last_ns, struct fg_profile *profile, struct fg_err *err)
{
    struct fg_slice labels;

    profile->id = fg_cur_id(cur);
    labels = fg_cur_lenbytes(cur);
    profile->time_ns = fg_wrap_add(last_ns, fg_cur_zigzag(cur));
    profile->duration_ns = fg_cur_zigzag(cur);
    profile->period = fg_cur_zigzag(cur);
    if (cur->bad)
        return fg_fail(err, FG_E_CORRUPT, "profile cut short");
    if (fg_labels_decode(labels, arena, &profile->labels, err) != FG_OK ||
        make_samples(cur, arena, batch->n_types, profile, err) != FG_OK ||
        (is_short ? decode_short_samples(cur, batch, profile, err)
                  : decode_samples(cur, batch, profile, err)) != FG_OK)
        return err->code;
    return decode_links(cur, arena, profile, err);
}

static enum fg_code decode_profiles(struct fg_cur *cur, struct fg_arena *arena, bool is_short,
                                    struct fg_wire_batch *batch, struct fg_err *err)
{
    int64_t last_ns = 0;

    batch->n_profiles = (uint32_t)fg_cur_count(cur, FG_ID_BYTES);
    batch->profiles = fg_arena_new(arena, struct fg_profile, batch->n_profiles);
    if (batch->profiles == NULL)
        return out_of_memory(err);
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        if (decode_profile(cur, arena, batch, is_short, last_ns, &batch->profiles[i], err) != FG_OK)
            return fg_wrap(err, "profile %u", i);
        if (is_short)
            last_ns = batch->profiles[i].time_ns;
    }
    return FG_OK;
}

/* Reads the stacks. Definitions and samples refer to stacks by index, and values to types: each is
 * checked against what was read before it. */
static enum fg_code decode_stacks(struct fg_cur *cur, struct fg_arena *arena,
                                  const struct fg_stack_names *names, struct fg_wire_batch *batch,
                                  struct fg_err *err)
{
    uint8_t id_bytes;

    if (names == NULL) {
        if (decode_stack_count(cur, FG_ID_BYTES, arena, batch, err) != FG_OK)
            return err->code;
        decode_stack_ids(cur, batch);
        return decode_definitions(cur, arena, batch, err);
    }
    if (decode_stack_count(cur, FG_STACK_SHORT_BYTES, arena, batch, err) != FG_OK ||
        decode_definitions(cur, arena, batch, err) != FG_OK)
        return err->code;
    id_bytes = fg_cur_u8(cur);
    if (id_bytes == FG_STACK_SHORT_BYTES)
        return decode_short_ids(cur, arena, names, batch, err);
    if (id_bytes != FG_ID_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "ids of %u bytes", id_bytes);
    decode_stack_ids(cur, batch);
    return FG_OK;
}

/* names: NULL: the batch is not short. */
static enum fg_code decode(struct fg_slice in, struct fg_arena *arena,
                           const struct fg_stack_names *names, struct fg_wire_batch *ret_batch,
                           struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint8_t version = fg_cur_u8(&cur);
    struct fg_wire_batch batch = {0};
    enum fg_code code;

    if (version != (names == NULL ? BATCH_WHOLE : BATCH_SHORT))
        return fg_fail(err, FG_E_CORRUPT, "batch: version %u", version);
    fg_symbols_init(&batch.symbols);
    code = decode_stacks(&cur, arena, names, &batch, err);
    if (code == FG_OK)
        code = decode_schema(&cur, arena, &batch, err);
    if (code == FG_OK)
        code = decode_profiles(&cur, arena, names != NULL, &batch, err);
    if (code == FG_OK && !fg_cur_end(&cur))
        code = fg_fail(err, FG_E_CORRUPT, "cut short or too long");
    if (code != FG_OK) {
        fg_symbols_done(&batch.symbols);
        return fg_wrap(err, "batch");
    }
    *ret_batch = batch;
    return FG_OK;
}

enum fg_code fg_batch_decode(struct fg_slice in, struct fg_arena *arena,
                             struct fg_wire_batch *ret_batch, struct fg_err *err)
{
    return decode(in, arena, NULL, ret_batch, err);
}

enum fg_code fg_batch_decode_short(struct fg_slice in, struct fg_arena *arena,
                                   const struct fg_stack_names *names,
                                   struct fg_wire_batch *ret_batch, struct fg_err *err)
{
    return decode(in, arena, names, ret_batch, err);
}

void fg_wire_batch_done(struct fg_wire_batch *batch)
{
    fg_symbols_done(&batch->symbols);
}

/* ---- decoded batches as batches ---- */

static void copy_functions(const struct fg_symbols *symbols, struct fg_batch *batch)
{
    for (uint32_t i = 0; i < symbols->n_functions; i++) {
        const struct fg_function *from = &symbols->functions[i];

        batch->functions[i] = (struct fg_batch_function){
            fg_symbols_text(symbols, from->name), fg_symbols_text(symbols, from->system_name),
            fg_symbols_text(symbols, from->filename), from->start_line};
    }
    batch->n_functions = symbols->n_functions;
}

static void copy_mappings(const struct fg_symbols *symbols, struct fg_batch *batch)
{
    for (uint32_t i = 0; i < symbols->n_mappings; i++) {
        const struct fg_mapping *from = &symbols->mappings[i];

        batch->mappings[i] = (struct fg_batch_mapping){
            from->start,
            from->limit,
            from->offset,
            fg_symbols_text(symbols, from->filename),
            fg_symbols_text(symbols, from->build_id),
            from->flags,
        };
    }
    batch->n_mappings = symbols->n_mappings;
}

static void copy_locations(const struct fg_symbols *symbols, struct fg_batch *batch)
{
    for (uint32_t i = 0; i < symbols->n_locations; i++) {
        const struct fg_location *from = &symbols->locations[i];

        batch->locations[i] = (struct fg_batch_location){
            from->address, from->mapping, from->first_line, from->n_lines, from->folded};
    }
    batch->n_locations = symbols->n_locations;
    batch->lines = symbols->lines;
    batch->n_lines = symbols->n_lines;
}

bool fg_batch_take_symbols(struct fg_batch *batch, const struct fg_symbols *symbols,
                           struct fg_arena *arena)
{
    batch->functions = fg_arena_new(arena, struct fg_batch_function, symbols->n_functions);
    batch->mappings = fg_arena_new(arena, struct fg_batch_mapping, symbols->n_mappings);
    batch->locations = fg_arena_new(arena, struct fg_batch_location, symbols->n_locations);
    if (batch->functions == NULL || batch->mappings == NULL || batch->locations == NULL)
        return false;
    copy_functions(symbols, batch);
    copy_mappings(symbols, batch);
    copy_locations(symbols, batch);
    return true;
}

static bool take_stacks(struct fg_batch *batch, const struct fg_wire_batch *wire,
                        struct fg_arena *arena)
{
    uint64_t depths = 0;

    for (uint32_t i = 0; i < wire->n_stacks; i++)
        depths += wire->stacks[i].depth;
    batch->stacks = fg_arena_new(arena, struct fg_stack, wire->n_stacks);
    batch->stack_locations = depths > UINT32_MAX ? NULL : fg_arena_new(arena, uint32_t, depths);
    if (batch->stacks == NULL || batch->stack_locations == NULL)
        return false;
    for (uint32_t i = 0; i < wire->n_stacks; i++) {
        const struct fg_wire_stack *from = &wire->stacks[i];
        bool defined = from->locations != NULL;

        batch->stacks[i] = (struct fg_stack){from->id, batch->n_stack_locations,
                                             defined ? from->depth : FG_STACK_UNDEFINED};
        batch->n_undefined += !defined;
        if (from->depth > 0)
            memcpy(batch->stack_locations + batch->n_stack_locations, from->locations,
                   from->depth * sizeof *from->locations);
        batch->n_stack_locations += from->depth;
    }
    batch->n_stacks = wire->n_stacks;
    return true;
}

bool fg_batch_of_wire(const struct fg_wire_batch *wire, struct fg_arena *arena,
                      struct fg_batch *ret_batch)
{
    *ret_batch = (struct fg_batch){
        .types = wire->types,
        .n_types = wire->n_types,
        .period_type = wire->period_type,
        .profiles = wire->profiles,
        .n_profiles = wire->n_profiles,
    };
    return fg_batch_take_symbols(ret_batch, &wire->symbols, arena) &&
           take_stacks(ret_batch, wire, arena);
}

/* ---- sizes of profiles, which messages carry outside of the batch ---- */

void fg_batch_put_sizes(const struct fg_batch *batch, uint64_t *numbers)
{
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        const struct fg_profile_size *size = &batch->profiles[i].size;

        /* One more than the size; 0: unknown. */
        numbers[2 * (size_t)i] = size->known ? (uint64_t)size->wire_bytes + 1 : 0;
        numbers[2 * (size_t)i + 1] = size->raw_bytes;
    }
}

enum fg_code fg_wire_batch_get_sizes(struct fg_wire_batch *batch, const uint64_t *numbers,
                                     size_t count, struct fg_err *err)
{
    if (count == 0)
        return FG_OK;
    /* Either all profiles or none, as older distributors send none. */
    if (count != 2 * (size_t)batch->n_profiles)
        return fg_fail(err, FG_E_CORRUPT, "%zu numbers for the sizes of %u profiles", count,
                       batch->n_profiles);
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        uint64_t wire = numbers[2 * (size_t)i], raw = numbers[2 * (size_t)i + 1];

        if (wire > (uint64_t)UINT32_MAX + 1 || raw > UINT32_MAX || (wire == 0 && raw != 0))
            return fg_fail(err, FG_E_CORRUPT, "size of profile %u", i);
        if (wire > 0)
            batch->profiles[i].size =
                (struct fg_profile_size){true, (uint32_t)(wire - 1), (uint32_t)raw};
    }
    return FG_OK;
}
