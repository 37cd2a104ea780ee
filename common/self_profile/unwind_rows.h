/*
 * Unwind tables: how to find the caller from any address of a module, as rows that a handler of
 * signals can search. Made of the section .eh_frame (LSB Core, "Exception Frames"; DWARF 5, 6.4),
 * which every x86-64 library has, with or without frame pointers. Pure.
 *
 * A row holds from its address up to the next one's. The frame's address (CFA: what the stack
 * pointer was before the call) is a register plus a number; the return address lies right below it,
 * and the caller's frame pointer at CFA - 8 * fp_words or still in its register. What needs more
 * than that (stacks that are realigned, entries of the PLT) has a row FG_UNWIND_UNKNOWN.
 */
#ifndef FG_COMMON_SELF_PROFILE_UNWIND_ROWS_H
#define FG_COMMON_SELF_PROFILE_UNWIND_ROWS_H

#include "common/base/err.h"
#include "common/base/slice.h"

enum fg_unwind_base {
    FG_UNWIND_UNKNOWN, /* no such rule: try the frame pointer */
    FG_UNWIND_SP,
    FG_UNWIND_FP,
    FG_UNWIND_END, /* nothing called this */
};

struct fg_unwind_row {
    uint32_t address; /* less the lowest of the module */
    uint16_t cfa_words;
    uint8_t base;     /* enum fg_unwind_base */
    uint8_t fp_words; /* 0: in its register */
};

/* Addresses of a page have neighbouring rows: a search in one page stays in the processor's cache.
 */
enum { FG_UNWIND_PAGE_BYTES = 1024 };

struct fg_unwind_rows {
    struct fg_unwind_row *items; /* ascending; owned */
    uint32_t *pages;             /* [n_pages]: number of rows before each page; owned */
    uint32_t count, n_pages;
};

/*
 * Reads the section, which is loaded at `address` of its file. low: the lowest address of code of
 * the file. Entries that cannot be read give no rows. Free them with fg_unwind_rows_done().
 */
void fg_unwind_rows_read(struct fg_slice section, uint64_t address, uint64_t low,
                         struct fg_unwind_rows *ret_rows);
void fg_unwind_rows_done(struct fg_unwind_rows *rows);

/* Returns the row for an address, or NULL. Safe in handlers of signals. */
const struct fg_unwind_row *fg_unwind_rows_find(const struct fg_unwind_rows *rows,
                                                uint32_t address);

#endif
