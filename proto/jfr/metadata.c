#include "proto/jfr/metadata.h"

#include "common/base/str.h"

enum {
    TEXT_MAX_BYTES = INT32_MAX,
    ELEMENTS_DEPTH_MAX = 16, /* a class' field's annotation is at 5 */
    VALUES_DEPTH_MAX = 16,   /* composites in composites; a stack's frames are at 2 */
    WORK_PER_BYTE = 16,      /* a recording's bytes are passed over four times at most */
};

/* ---- memory ---- */

void fg_jfr_metadata_init(struct fg_jfr_metadata *metadata, struct fg_arena *arena)
{
    *metadata = (struct fg_jfr_metadata){.arena = arena};
    fg_buf_init(&metadata->text, TEXT_MAX_BYTES);
}

void fg_jfr_metadata_done(struct fg_jfr_metadata *metadata)
{
    fg_buf_done(&metadata->text);
}

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "metadata needs more memory than decoding may use");
}

/* ---- strings ---- */

static enum fg_code read_texts(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                               struct fg_err *err)
{
    uint32_t count = (uint32_t)fg_jfr_count(cur);

    fg_buf_clear(&metadata->text);
    metadata->n_texts = 0;
    if (!fg_arena_grow(metadata->arena, &metadata->text_ends, 0, count, &metadata->cap_texts,
                       sizeof *metadata->text_ends))
        return too_large(err);
    while (metadata->n_texts < count && !cur->in.bad) {
        (void)fg_jfr_text(cur,
                          &metadata->text); /* a constant's would be empty: there is none here */
        metadata->text_ends[metadata->n_texts++] = (uint32_t)metadata->text.len;
    }
    if (metadata->text.full)
        return too_large(err);
    return cur->in.bad ? fg_fail(err, FG_E_DECODE, "string %u of the metadata cannot be read",
                                 metadata->n_texts)
                       : FG_OK;
}

static struct fg_slice text_of(const struct fg_jfr_metadata *metadata, uint32_t number)
{
    uint32_t from;

    fg_assert(number < metadata->n_texts); /* read_text_number() refuses others */
    from = number == 0 ? 0 : metadata->text_ends[number - 1];
    return fg_slice_sub(fg_buf_slice(&metadata->text), from, metadata->text_ends[number] - from);
}

/* Reads the number of a string in an element. A number beyond the strings fails the cursor. */
static uint32_t read_text_number(const struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur)
{
    uint64_t number = fg_jfr_int(cur);

    if (number >= metadata->n_texts) {
        fg_cur_fail(&cur->in);
        return 0;
    }
    return (uint32_t)number;
}

/* ---- elements ---- */

struct attribute {
    struct fg_slice key;
    uint32_t value; /* number of its text */
};

static bool next_attribute(const struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                           uint64_t *n_left, struct attribute *ret_attribute)
{
    uint32_t key;

    if (*n_left == 0)
        return false;
    (*n_left)--;
    key = read_text_number(metadata, cur);
    ret_attribute->value = read_text_number(metadata, cur);
    if (cur->in.bad)
        return false;
    ret_attribute->key = text_of(metadata, key);
    return true;
}

static void skip_attributes(struct fg_jfr_cur *cur)
{
    for (uint64_t left = fg_jfr_count(cur); left > 0 && !cur->in.bad; left--) {
        (void)fg_jfr_int(cur);
        (void)fg_jfr_int(cur);
    }
}

static void skip_elements(struct fg_jfr_cur *cur, unsigned depth)
{
    /* Elements may nest as deep as the recording says; the stack of this thread is not as deep. */
    if (depth == 0) {
        fg_cur_fail(&cur->in);
        return;
    }
    for (uint64_t left = fg_jfr_count(cur); left > 0 && !cur->in.bad; left--) {
        (void)fg_jfr_int(cur);
        skip_attributes(cur);
        skip_elements(cur, depth - 1);
    }
}

static enum fg_code read_field(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                               struct fg_err *err)
{
    struct fg_jfr_field field = {0};
    uint64_t left = fg_jfr_count(cur);
    struct attribute attribute;
    bool has_class = false;

    while (next_attribute(metadata, cur, &left, &attribute)) {
        struct fg_slice value = text_of(metadata, attribute.value);

        if (fg_slice_is(attribute.key, "name"))
            field.name = attribute.value;
        else if (fg_slice_is(attribute.key, "class"))
            has_class = fg_parse_u64(value, &field.class_id);
        else if (fg_slice_is(attribute.key, "constantPool"))
            field.constant = fg_slice_is(value, "true");
        /* The format knows arrays of one dimension only, so "1" is the only other value. */
        else if (fg_slice_is(attribute.key, "dimension"))
            field.array = !fg_slice_is(value, "0");
    }
    skip_elements(cur, ELEMENTS_DEPTH_MAX);
    if (cur->in.bad)
        return FG_OK; /* read_elements() looks */
    if (!has_class)
        return fg_fail(err, FG_E_DECODE, "field %.*s of the metadata has no class",
                       FG_S(text_of(metadata, field.name)));
    if (!fg_arena_grow(metadata->arena, &metadata->fields, metadata->n_fields, 1,
                       &metadata->cap_fields, sizeof *metadata->fields))
        return too_large(err);
    metadata->fields[metadata->n_fields++] = field;
    return FG_OK;
}

static enum fg_code read_class(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                               struct fg_err *err)
{
    struct fg_jfr_class class = {.first_field = metadata->n_fields};
    uint64_t left = fg_jfr_count(cur), id = 0;
    struct attribute attribute;
    bool has_id = false;

    while (next_attribute(metadata, cur, &left, &attribute)) {
        if (fg_slice_is(attribute.key, "name"))
            class.name = attribute.value;
        else if (fg_slice_is(attribute.key, "id"))
            has_id = fg_parse_u64(text_of(metadata, attribute.value), &id);
    }
    for (left = fg_jfr_count(cur); left > 0 && !cur->in.bad; left--) {
        uint32_t name = read_text_number(metadata, cur);

        if (!cur->in.bad && fg_slice_is(text_of(metadata, name), "field")) {
            if (read_field(metadata, cur, err) != FG_OK)
                return err->code;
        } else {
            skip_attributes(cur);
            skip_elements(cur, ELEMENTS_DEPTH_MAX);
        }
    }
    if (cur->in.bad)
        return FG_OK;
    if (!has_id)
        return fg_fail(err, FG_E_DECODE, "class %.*s of the metadata has no id",
                       FG_S(text_of(metadata, class.name)));
    /* Fields of a class are next to each other, because classes do not nest. */
    class.n_fields = metadata->n_fields - class.first_field;
    if (!fg_arena_grow(metadata->arena, &metadata->classes, metadata->n_classes, 1,
                       &metadata->cap_classes, sizeof *metadata->classes) ||
        !fg_ids_reserve(&metadata->class_ids, metadata->arena, 1))
        return too_large(err);
    metadata->classes[metadata->n_classes++] = class;
    fg_ids_add(&metadata->class_ids, id);
    return FG_OK;
}

/* Reads the elements "metadata" of the root, and the classes in them. */
static enum fg_code read_elements(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                                  bool top, struct fg_err *err)
{
    for (uint64_t left = fg_jfr_count(cur); left > 0 && !cur->in.bad; left--) {
        uint32_t number = read_text_number(metadata, cur);
        struct fg_slice name = cur->in.bad ? FG_LIT("") : text_of(metadata, number);

        /* Classes are children of the element "metadata", other elements ("region") are passed
         * over. */
        if (!top && fg_slice_is(name, "class")) {
            if (read_class(metadata, cur, err) != FG_OK)
                return err->code;
            continue;
        }
        skip_attributes(cur);
        if (!top || !fg_slice_is(name, "metadata"))
            skip_elements(cur, ELEMENTS_DEPTH_MAX);
        else if (read_elements(metadata, cur, false, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- what the classes mean ---- */

/* The primitive types of the JFR format. Recordings are compressed as a rule; then integers are
 * varints of at most nine bytes. */
static enum fg_jfr_how how_of(struct fg_slice name, bool fixed)
{
    static const struct {
        const char *name;
        enum fg_jfr_how compressed, fixed;
    } own[] = {
        {"boolean", JFR_BYTE, JFR_BYTE},       {"byte", JFR_BYTE, JFR_BYTE},
        {"short", JFR_VARINT, JFR_BE16},       {"char", JFR_VARINT, JFR_BE16},
        {"int", JFR_VARINT_INT, JFR_BE32_INT}, {"long", JFR_VARINT, JFR_BE64},
        {"float", JFR_BE32_INT, JFR_BE32_INT}, /* the number means nothing to anybody */
        {"double", JFR_BE64, JFR_BE64},        {"java.lang.String", JFR_STRING, JFR_STRING},
    };

    for (size_t i = 0; i < FG_COUNT(own); i++)
        if (fg_slice_is(name, own[i].name))
            return fixed ? own[i].fixed : own[i].compressed;
    return JFR_COMPOSITE;
}

static bool is_plain(const struct fg_jfr_metadata *metadata, const struct fg_jfr_class *class)
{
    for (uint32_t i = 0; i < class->n_fields; i++) {
        const struct fg_jfr_field *field = &metadata->fields[class->first_field + i];

        if (field->array || (field->how != JFR_VARINT && field->how != JFR_VARINT_INT))
            return false;
    }
    return class->how == JFR_COMPOSITE;
}

enum fg_code fg_jfr_metadata_read(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur,
                                  uint32_t chunk_bytes, struct fg_err *err)
{
    metadata->work_left = WORK_PER_BYTE * (uint64_t)chunk_bytes;
    metadata->n_classes = metadata->n_fields = 0;
    fg_ids_clear(&metadata->class_ids);
    for (unsigned i = 0; i < 3; i++)
        (void)fg_jfr_long(cur); /* start, duration, id */
    if (read_texts(metadata, cur, err) != FG_OK)
        return err->code;
    (void)fg_jfr_int(cur); /* "root" */
    skip_attributes(cur);
    if (read_elements(metadata, cur, true, err) != FG_OK)
        return err->code;
    if (cur->in.bad)
        return fg_fail(err, FG_E_DECODE, "metadata cannot be read behind class %u",
                       metadata->n_classes);
    if (!fg_ids_ready(&metadata->class_ids, metadata->arena))
        return too_large(err);
    /* Three passes, since each needs the result of the one before for all classes. */
    for (uint32_t i = 0; i < metadata->n_classes; i++)
        metadata->classes[i].how = how_of(fg_jfr_class_name(metadata, i), cur->fixed);
    /* After all classes are known: a field may be of a class that comes later, or of its own. */
    for (uint32_t i = 0; i < metadata->n_fields; i++) {
        struct fg_jfr_field *field = &metadata->fields[i];

        field->class = fg_ids_find(&metadata->class_ids, field->class_id);
        if (field->constant)
            field->how = cur->fixed ? JFR_BE64 : JFR_VARINT;
        else
            field->how =
                field->class == FG_IDS_NONE ? JFR_UNKNOWN : metadata->classes[field->class].how;
    }
    for (uint32_t i = 0; i < metadata->n_classes; i++)
        metadata->classes[i].plain = is_plain(metadata, &metadata->classes[i]);
    return FG_OK;
}

/* ---- binding ---- */

struct fg_slice fg_jfr_class_name(const struct fg_jfr_metadata *metadata, uint32_t class)
{
    return text_of(metadata, metadata->classes[class].name);
}

/* A field of the expected name but of another kind is ignored: a newer JVM may have changed it. */
static bool is_wanted(const struct fg_jfr_field *field, enum fg_jfr_want want)
{
    switch (want) {
    case JFR_WANT_NUMBER:
        return !field->array && field->how != JFR_COMPOSITE && field->how != JFR_STRING &&
               field->how != JFR_UNKNOWN;
    case JFR_WANT_STRING:
        return !field->array && field->how == JFR_STRING;
    default:
        return field->array && field->how == JFR_COMPOSITE;
    }
}

void fg_jfr_class_bind(struct fg_jfr_metadata *metadata, uint32_t class, const char *name,
                       enum fg_jfr_want want, uint8_t slot)
{
    struct fg_jfr_class *to = &metadata->classes[class];

    for (uint32_t i = 0; i < to->n_fields; i++) {
        struct fg_jfr_field *field = &metadata->fields[to->first_field + i];

        if (!fg_slice_is(text_of(metadata, field->name), name) || !is_wanted(field, want))
            continue;
        field->slot = slot;
        to->bound |= (uint16_t)(1u << slot);
        /* Fields behind the last bound one need not be read at all. */
        to->n_read = FG_MAX(to->n_read, i + 1);
        return;
    }
}

uint32_t fg_jfr_class_elements(const struct fg_jfr_metadata *metadata, uint32_t class, uint8_t slot)
{
    const struct fg_jfr_class *of = &metadata->classes[class];

    for (uint32_t i = 0; i < of->n_fields; i++)
        if (metadata->fields[of->first_field + i].slot == slot)
            return metadata->fields[of->first_field + i].class;
    return FG_IDS_NONE;
}

/* ---- values ---- */

static void skip_values(struct fg_jfr_metadata *metadata, enum fg_jfr_how how, uint32_t class,
                        uint64_t count, struct fg_jfr_cur *cur, unsigned depth);

/* Counts a composite value. A class without fields takes no bytes, so a count of such values
 * would not be bounded by the input; everything else takes a byte at least. */
static void count_work(struct fg_jfr_metadata *metadata, struct fg_jfr_cur *cur)
{
    if (metadata->work_left == 0)
        fg_cur_fail(&cur->in);
    else
        metadata->work_left--;
}

static void skip_composite(struct fg_jfr_metadata *metadata, const struct fg_jfr_class *class,
                           struct fg_jfr_cur *cur, unsigned depth)
{
    /* A class may have a field of its own class. */
    if (depth == 0) {
        fg_cur_fail(&cur->in);
        return;
    }
    for (uint32_t i = 0; i < class->n_fields && !cur->in.bad; i++) {
        const struct fg_jfr_field *field = &metadata->fields[class->first_field + i];

        skip_values(metadata, field->how, field->class, field->array ? fg_jfr_count(cur) : 1, cur,
                    depth - 1);
    }
}

static void skip_values(struct fg_jfr_metadata *metadata, enum fg_jfr_how how, uint32_t class,
                        uint64_t count, struct fg_jfr_cur *cur, unsigned depth)
{
    const struct fg_jfr_class *composite = how == JFR_COMPOSITE ? &metadata->classes[class] : NULL;

    switch (how) {
    case JFR_BYTE:
        (void)fg_cur_take(&cur->in, count);
        break;
    case JFR_VARINT:
    case JFR_VARINT_INT:
        fg_cur_skip_varint9(&cur->in, count);
        break;
    case JFR_BE16:
        (void)fg_cur_take(&cur->in, 2 * count);
        break;
    case JFR_BE32_INT:
        (void)fg_cur_take(&cur->in, 4 * count);
        break;
    case JFR_BE64:
        (void)fg_cur_take(&cur->in, 8 * count);
        break;
    case JFR_STRING:
        for (; count > 0 && !cur->in.bad; count--)
            fg_jfr_text_skip(cur);
        break;
    case JFR_COMPOSITE:
        count_work(metadata, cur);
        /* All fields are varints: one loop over the bytes, without a look at each field. */
        if (composite->plain)
            fg_cur_skip_varint9(&cur->in, count * composite->n_fields);
        for (; !composite->plain && count > 0 && !cur->in.bad; count--) {
            count_work(metadata, cur);
            skip_composite(metadata, composite, cur, depth);
        }
        break;
    case JFR_UNKNOWN:
        fg_cur_fail(&cur->in);
        break;
    }
}

void fg_jfr_class_read(struct fg_jfr_metadata *metadata, uint32_t class, struct fg_jfr_cur *cur,
                       uint64_t values[JFR_SLOTS])
{
    const struct fg_jfr_class *of = &metadata->classes[class];
    uint32_t n_read = of->row ? of->n_fields : of->n_read;

    for (uint32_t i = 0; i < n_read && !cur->in.bad; i++) {
        const struct fg_jfr_field *field = &metadata->fields[of->first_field + i];
        uint64_t *value = &values[field->slot];

        switch (field->array ? JFR_UNKNOWN : field->how) {
        case JFR_VARINT:
            *value = fg_cur_varint9(&cur->in);
            break;
        case JFR_VARINT_INT:
            *value = (uint64_t)(int32_t)fg_cur_varint9(&cur->in);
            break;
        case JFR_BYTE:
            *value = fg_cur_u8(&cur->in);
            break;
        case JFR_BE16:
            *value = fg_cur_be16(&cur->in);
            break;
        case JFR_BE32_INT:
            *value = (uint64_t)(int32_t)fg_cur_be32(&cur->in);
            break;
        case JFR_BE64:
            *value = fg_cur_be64(&cur->in);
            break;
        case JFR_STRING:
        case JFR_COMPOSITE:
        case JFR_UNKNOWN:
            *value = fg_jfr_position(cur);
            if (of->row || i + 1 < n_read) /* a stack's frames are last: they are not passed over */
                skip_values(metadata, field->how, field->class,
                            field->array ? fg_jfr_count(cur) : 1, cur, VALUES_DEPTH_MAX);
            break;
        }
    }
}

void fg_jfr_class_skip(struct fg_jfr_metadata *metadata, uint32_t class, struct fg_jfr_cur *cur)
{
    skip_values(metadata, metadata->classes[class].how, class, 1, cur, VALUES_DEPTH_MAX);
}
