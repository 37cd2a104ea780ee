#include "common/self_profile/sampling.h"

#include "common/base/hash.h"

#include <math.h>

/* Evenly from (0, 1]. */
static double draw(uint64_t *state)
{
    *state = fg_mix64(*state + UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */
    return (double)((*state >> 11) + 1) * 0x1p-53;
}

int64_t fg_sampling_next(uint64_t *state, int64_t mean)
{
    double distance = -log(draw(state)) * (double)mean; /* at most 37 times the mean */

    return distance < 1 ? 1 : (int64_t)distance;
}

int64_t fg_sampling_weight_1024(uint64_t size, int64_t mean)
{
    /* An empty block was sampled for the byte that it counts as. */
    return llround(-1024 / expm1(-(double)FG_MAX(size, 1) / (double)mean));
}

int64_t fg_sampling_of_length(uint64_t *state, int64_t length, int64_t mean, int64_t *ret_length)
{
    double odds;

    length = FG_MAX(length, 1);
    if (length >= mean) {
        *ret_length = length;
        return 1;
    }
    odds = (double)mean / (double)length;
    if (draw(state) * odds > 1)
        return 0;
    *ret_length = mean;
    return (int64_t)(odds + draw(state)); /* rounded by chance, or 1.6 would always count as 2 */
}
