#include "proto/otlp/dialect.h"

/* The fields that were renumbered, as a set. */
enum {
    HAS_2 = 1 << 0,
    HAS_3 = 1 << 1,
    HAS_4 = 1 << 2,
    HAS_TIMESTAMPS = 1 << 3,
    LIST_3 = 1 << 4, /* length-delimited, or more than once */
    LIST_4 = 1 << 5,
    PACKED = 1 << 6, /* a list is length-delimited */
};

/* What a sample may say, by rules 1 to 3 of dialect.h. */
enum sign {
    SIGN_LIST_3,
    SIGN_LIST_4,
    SIGN_ONE_3,
    SIGN_ONE_4,
    SIGN_ONLY_2,   /* without 3, 4 and timestamps */
    SIGN_ONLY_2_3, /* without 4 and timestamps */
    SIGN_ONLY_4,   /* without 2 and timestamps */
    SIGN_count
};

struct dialect_place {
    uint32_t resource, scope, profile, sample;
};

struct evidence {
    struct dialect_place first[SIGN_count]; /* sample that gives the sign */
    uint32_t signs;                         /* that were given: bits */
    bool packed;                            /* any list is */
    bool id_in_8, attributes_in_12;         /* of a Profile */
    bool beside_timestamps;                 /* field 2 alone is, in some sample, */
    bool counts_differ;                     /* with another number of entries */
    struct dialect_place at;                /* the sample at hand */
};

/* ---- one sample ---- */

/*
 * Returns false if the sample cannot be read. Each case skips its own value: this is the one thing
 * that is done for every sample of a request twice.
 */
static bool read_shape(struct fg_slice sample, uint32_t *ret_shape)
{
    struct fg_cur cur = fg_cur(sample);
    uint32_t shape = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_SAMPLE_STACK, FG_PB_VARINT):
            (void)fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(2, FG_PB_LEN):
            shape |= HAS_2 | PACKED;
            (void)fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(3, FG_PB_LEN):
            shape |= HAS_3 | LIST_3 | PACKED;
            (void)fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(4, FG_PB_LEN):
            shape |= HAS_4 | LIST_4 | PACKED;
            (void)fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(2, FG_PB_VARINT):
            shape |= HAS_2;
            (void)fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(3, FG_PB_VARINT):
            shape |= (shape & HAS_3) != 0 ? LIST_3 : HAS_3;
            (void)fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(4, FG_PB_VARINT):
            shape |= (shape & HAS_4) != 0 ? LIST_4 : HAS_4;
            (void)fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_LEN):
            shape |= HAS_TIMESTAMPS | PACKED;
            (void)fg_cur_lenbytes(&cur);
            break;
        case FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_I64):
            shape |= HAS_TIMESTAMPS;
            (void)fg_cur_take(&cur, sizeof(uint64_t));
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    *ret_shape = shape;
    return !cur.bad;
}

/* Returns whether field 2 of a readable sample has an entry for each timestamp. */
static bool counts_are_equal(struct fg_slice sample)
{
    struct fg_cur cur = fg_cur(sample);
    size_t n_entries = 0, n_timestamps = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(2, FG_PB_LEN) || tag == FG_PB_TAG(2, FG_PB_VARINT)) {
            struct fg_slice entries = fg_pb_varints(&cur, tag);

            for (size_t i = 0; i < entries.len; i++)
                n_entries += entries.ptr[i] < 0x80; /* the last byte of a varint */
        } else if (tag == FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_LEN)) {
            n_timestamps += fg_cur_lenbytes(&cur).len / sizeof(uint64_t);
        } else {
            n_timestamps += tag == FG_PB_TAG(OTLP_SAMPLE_TIMESTAMPS, FG_PB_I64);
            fg_pb_skip(&cur, tag);
        }
    }
    return n_entries == n_timestamps;
}

static void note_sign(struct evidence *evidence, enum sign sign)
{
    if ((evidence->signs & 1U << sign) == 0)
        evidence->first[sign] = evidence->at;
    evidence->signs |= 1U << sign;
}

static void look_at_sample(struct evidence *evidence, struct fg_slice sample)
{
    uint32_t shape;

    if (!read_shape(sample, &shape))
        return;
    evidence->packed |= (shape & PACKED) != 0;
    if ((shape & HAS_3) != 0)
        note_sign(evidence, (shape & LIST_3) != 0 ? SIGN_LIST_3 : SIGN_ONE_3);
    if ((shape & HAS_4) != 0)
        note_sign(evidence, (shape & LIST_4) != 0 ? SIGN_LIST_4 : SIGN_ONE_4);

    switch (shape & (HAS_2 | HAS_3 | HAS_4 | HAS_TIMESTAMPS)) {
    case HAS_2:
        note_sign(evidence, SIGN_ONLY_2);
        break;
    case HAS_2 | HAS_3:
        note_sign(evidence, SIGN_ONLY_2_3);
        break;
    case HAS_4:
    case HAS_3 | HAS_4:
        note_sign(evidence, SIGN_ONLY_4);
        break;
    case HAS_2 | HAS_TIMESTAMPS:
        evidence->beside_timestamps = true;
        if (!evidence->counts_differ)
            evidence->counts_differ = !counts_are_equal(sample);
        break;
    default:
        break;
    }
}

/* ---- the request ---- */

static void look_at_profile(struct evidence *evidence, struct fg_slice profile)
{
    struct fg_cur cur = fg_cur(profile);

    evidence->at.sample = 0;
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_PROFILE_SAMPLES, FG_PB_LEN)) {
            look_at_sample(evidence, fg_cur_lenbytes(&cur));
            evidence->at.sample++;
            continue;
        }
        evidence->id_in_8 |= tag == FG_PB_TAG(OTLP_1_8_PROFILE_ID, FG_PB_LEN);
        evidence->attributes_in_12 |= tag >> 3 == OTLP_1_8_PROFILE_ATTRIBUTES;
        fg_pb_skip(&cur, tag);
    }
}

/* Returns false if the request cannot be read. look: also at what is in its profiles. */
static bool walk_request(struct fg_slice request, bool look, struct evidence *evidence)
{
    struct fg_cur resources = fg_cur(request);
    struct fg_slice resource, scope, profile;

    for (; fg_pb_next(&resources, FG_PB_TAG(OTLP_REQUEST_RESOURCES, FG_PB_LEN), &resource);
         evidence->at.resource++) {
        struct fg_cur scopes = fg_cur(resource);

        evidence->at.scope = 0;
        for (; fg_pb_next(&scopes, FG_PB_TAG(OTLP_RESOURCES_SCOPES, FG_PB_LEN), &scope);
             evidence->at.scope++) {
            struct fg_cur profiles = fg_cur(scope);

            evidence->at.profile = 0;
            for (; fg_pb_next(&profiles, FG_PB_TAG(OTLP_SCOPES_PROFILES, FG_PB_LEN), &profile);
                 evidence->at.profile++)
                if (look)
                    look_at_profile(evidence, profile);
            if (profiles.bad)
                return false;
        }
        if (scopes.bad)
            return false;
    }
    return !resources.bad;
}

/* Returns the first sample that gives one of the signs, or NULL. */
static const struct dialect_place *find_sign(const struct evidence *evidence,
                                             const enum sign *signs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((evidence->signs & 1U << signs[i]) != 0)
            return &evidence->first[signs[i]];
    return NULL;
}

static enum fg_code judge(const struct evidence *evidence, enum fg_otlp_version *ret_version,
                          struct fg_err *err)
{
    const enum sign older_signs[] = {SIGN_LIST_3, SIGN_ONLY_2,
                                     evidence->packed ? SIGN_ONE_4 : SIGN_ONLY_2_3};
    const enum sign newest_signs[] = {SIGN_LIST_4, evidence->packed ? SIGN_ONE_3 : SIGN_ONLY_4};
    const struct dialect_place *older = find_sign(evidence, older_signs, FG_COUNT(older_signs));
    const struct dialect_place *newest = find_sign(evidence, newest_signs, FG_COUNT(newest_signs));
    bool is_older = older != NULL;

    if (older != NULL && newest != NULL)
        return fg_fail(
            err, FG_E_DECODE,
            "resource %u, scope %u, profile %u, sample %u is of OTLP 1.8 or 1.9, but "
            "resource %u, scope %u, profile %u, sample %u of 1.10: a request has one version",
            older->resource, older->scope, older->profile, older->sample, newest->resource,
            newest->scope, newest->profile, newest->sample);
    if (older == NULL && newest == NULL)
        is_older = evidence->id_in_8 || (evidence->beside_timestamps && !evidence->counts_differ);
    if (!is_older)
        *ret_version = FG_OTLP_1_10;
    else if (evidence->id_in_8 || evidence->attributes_in_12)
        *ret_version = FG_OTLP_1_8;
    else
        *ret_version = FG_OTLP_1_9;
    return FG_OK;
}

enum fg_code fg_otlp_detect(struct fg_slice request, enum fg_otlp_version wanted,
                            enum fg_otlp_version *ret_version, struct fg_err *err)
{
    struct evidence evidence = {0};

    if (!walk_request(request, wanted == FG_OTLP_ANY, &evidence))
        return fg_fail(err, FG_E_DECODE, "profiles cannot be read, in %zu bytes", request.len);
    if (wanted == FG_OTLP_ANY)
        return judge(&evidence, ret_version, err);
    *ret_version = wanted;
    return FG_OK;
}
