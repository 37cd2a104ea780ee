/*
 * Thins the findings of a comparison, so that each change is told once and where it is.
 *
 *   folded   a caller whose change is that of its callees: at least 80 % of it is explained by
 *            findings below it (or by its own self value), and these are told instead
 *   moved    findings with the same caller, or of the same package, that cancel: their sum is at
 *            most 10 % of what came or went. A renamed function, or one that was split. Shares of
 *            everything always cancel: if one function got slower, the shares of all others fell.
 *            So the rows of a line are at most 80 % of everything.
 *
 * Pure. Thread: any.
 */
#ifndef FG_QUERIER_COMPARE_THIN_H
#define FG_QUERIER_COMPARE_THIN_H

#include "common/base/slice.h"

enum { QRY_THIN_NONE = UINT32_MAX };

/* A row of a comparison: a function's self value or its total. */
struct qry_thin_row {
    uint32_t function;
    bool of_total;
    bool found;     /* it is a finding, up or down */
    double delta;   /* change of its figure, side 1 - side 0 */
    double size;    /* figures of both sides, summed */
    uint32_t first; /* a caller's is less than that of what only it calls */

    uint32_t folded; /* out: how many rows explain it; 0: it is not folded */
    uint32_t moved;  /* out: the first row of its line; QRY_THIN_NONE: it has not moved */
};

/* A caller and a function that it calls, each pair once. */
struct qry_thin_edge {
    uint32_t caller, callee; /* functions; caller QRY_THIN_NONE: the callee begins stacks */
    double delta;            /* change of the callee's total below this caller */
    double size;
};

/* Returns the package, namespace or class that a function's name begins with; empty: it tells
 * none. Borrowed from the name. */
struct fg_slice qry_thin_package(struct fg_slice name);

/*
 * Sets `folded` and `moved` of the rows. A function has at most one row of each kind; one without a
 * row for its self value has its total only, and the reverse: then both are the same. whole: the
 * size of everything if figures are shares, else INFINITY. names: of the n_functions functions.
 * edges: at least those from and to functions with a finding, in any order.
 */
void qry_thin(struct qry_thin_row *rows, size_t n, double whole, const struct fg_slice *names,
              size_t n_functions, const struct qry_thin_edge *edges, size_t n_edges);

#endif
