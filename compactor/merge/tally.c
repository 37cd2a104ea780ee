#include "compactor/merge/tally.h"

void cmp_merge_tally_add(struct cmp_merge_tally *tally, const struct cmp_merge_tally *more)
{
    tally->profiles += more->profiles;
    tally->samples += more->samples;
    tally->digest = fg_id_add(tally->digest, more->digest);
    tally->totals[0] += more->totals[0];
    tally->totals[1] += more->totals[1];
}

bool cmp_merge_tally_eq(const struct cmp_merge_tally *a, const struct cmp_merge_tally *b)
{
    return a->profiles == b->profiles && a->samples == b->samples &&
           fg_id_eq(a->digest, b->digest) && a->totals[0] == b->totals[0] &&
           a->totals[1] == b->totals[1];
}

enum fg_code cmp_merge_tally_check(const struct cmp_merge_tally *in,
                                   const struct cmp_merge_tally *out, struct fg_err *err)
{
    if (cmp_merge_tally_eq(in, out))
        return FG_OK;
    return fg_fail(err, FG_E_INTERNAL,
                   "%llu profiles went in, with %llu samples, ids %016llx%016llx, totals %016llx; "
                   "out came %llu, %llu, %016llx%016llx, %016llx",
                   (unsigned long long)in->profiles, (unsigned long long)in->samples,
                   (unsigned long long)in->digest.hi, (unsigned long long)in->digest.lo,
                   (unsigned long long)in->totals[0], (unsigned long long)out->profiles,
                   (unsigned long long)out->samples, (unsigned long long)out->digest.hi,
                   (unsigned long long)out->digest.lo, (unsigned long long)out->totals[0]);
}

static uint64_t mix_text(uint64_t seed, struct fg_slice text)
{
    return fg_hash128_seed(text, seed).lo;
}

/* Each type of each series gets two pseudo-random factors from names alone, which are the same
 * in every object. A sum of totals times factors changes if a value moves to another series or
 * type, which a plain sum would not show. */
static void factors_set(struct cmp_merge_factors *factors, const struct cmp_merge_part *part,
                        uint32_t series)
{
    const struct fg_block_series_row *row = &part->index.series[series];
    struct fg_id labels = fg_labels_hash(&row->labels);
    uint64_t seed = mix_text(labels.lo, part->part->service);

    seed = mix_text(seed ^ labels.hi, row->schema->period_type.type);
    seed = mix_text(seed, row->schema->period_type.unit);
    factors->series = series;
    factors->n_types = row->schema->n_types;
    for (uint32_t t = 0; t < row->schema->n_types; t++) {
        uint64_t type = mix_text(seed + t, row->schema->types[t].type);

        factors->of_type[t][0] = mix_text(type, row->schema->types[t].unit);
        factors->of_type[t][1] = fg_mix64(factors->of_type[t][0]);
    }
}

void cmp_merge_tally_row(struct cmp_merge_tally *tally, struct cmp_merge_factors *factors,
                         const struct cmp_merge_part *part, const struct cmp_merge_rows *rows,
                         uint32_t i)
{
    if (factors->series != rows->rows.series[i])
        factors_set(factors, part, rows->rows.series[i]);
    tally->profiles++;
    tally->samples += rows->rows.n_samples[i];
    tally->digest = fg_id_add(tally->digest, rows->ids[i]);
    for (uint32_t t = 0; t < factors->n_types; t++) {
        tally->totals[0] += factors->of_type[t][0] * rows->rows.totals[i][t];
        tally->totals[1] += factors->of_type[t][1] * rows->rows.totals[i][t];
    }
}

struct tallying {
    struct cmp_merge_tally *tally;
    struct cmp_merge_factors factors;
    const struct cmp_merge_part *part;
};

static enum fg_code tally_rows(void *arg, const struct cmp_merge_rows *rows, struct fg_err *err)
{
    struct tallying *tallying = arg;

    (void)err;
    for (uint32_t i = 0; i < rows->rows.count; i++)
        cmp_merge_tally_row(tallying->tally, &tallying->factors, tallying->part, rows, i);
    return FG_OK;
}

enum fg_code cmp_merge_tally_part(struct cmp_merge_tally *tally, const struct cmp_merge_part *part,
                                  struct fg_arena *scratch, struct fg_err *err)
{
    struct tallying tallying = {tally, {.series = FG_MAP_NONE}, part};
    const struct cmp_merge_scan scan = {.start_ns = INT64_MIN,
                                        .end_ns = INT64_MAX,
                                        .ids = true,
                                        .each = tally_rows,
                                        .arg = &tallying};

    return cmp_merge_part_scan(part, &scan, scratch, err);
}
