#include "common/program/liveness.h"

size_t fg_liveness_stuck(struct fg_liveness *parts, const struct fg_liveness_sight *sights,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sights[i].waits && sights[i].ended == parts[i].ended)
            return i;
    for (size_t i = 0; i < n; i++)
        parts[i].ended = sights[i].ended;
    return n;
}
