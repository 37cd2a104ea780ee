/*
 * Binary search in anything that has numbers.
 */
#ifndef FG_COMMON_BASE_SEARCH_H
#define FG_COMMON_BASE_SEARCH_H

/*
 * Returns the first number in [from, to) for which `before` is false, or `to`. `before` is an
 * expression of the number `i`, true for the first items and false for all behind them:
 *
 *     uint32_t at = fg_lower_bound(i, 0, list->n, list->items[i].id < id);
 *
 *     return at < list->n && list->items[at].id == id ? &list->items[at] : NULL;
 *
 * For the last item that is not behind x, search for the first one that is: the number before it.
 * The result and `i` have the type of `to`. Requires from <= to.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): it declares `i`. */
#define fg_lower_bound(i, from, to, before)                                                        \
    ({                                                                                             \
        __typeof__((to) + 0) low_ = (from), high_ = (to);                                          \
        while (low_ < high_) {                                                                     \
            __typeof__(low_) i = low_ + (high_ - low_) / 2;                                        \
            if (before)                                                                            \
                low_ = i + 1;                                                                      \
            else                                                                                   \
                high_ = i;                                                                         \
        }                                                                                          \
        low_;                                                                                      \
    })
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
