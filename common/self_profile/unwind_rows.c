#include "common/self_profile/unwind_rows.h"

#include "common/base/cursor.h"
#include "common/base/search.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS_MAX = 4 * 1024 * 1024,
    STATES_MAX = 16, /* of DW_CFA_remember_state; compilers nest one or two */
    WORD_BYTES = 8,
};

/* Numbers of registers (System V ABI for AMD64, figure 3.36). */
enum { REGISTER_FP = 6, REGISTER_SP = 7, REGISTER_RETURN = 16 };

/* Encodings of pointers: relative to the place of the pointer, signed, of 4 or 8 bytes. */
enum { ENCODED_PCREL_4 = 0x1b, ENCODED_PCREL_8 = 0x1c };

/* Instructions of DWARF 5, 7.24: the two high bits, or all of them. */
enum {
    CFA_ADVANCE = 1, /* high bits */
    CFA_OFFSET = 2,
    CFA_RESTORE = 3,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE1 = 0x02,
    CFA_ADVANCE2 = 0x03,
    CFA_ADVANCE4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2e,
};

/* What holds at an address. */
struct unwind_state {
    uint64_t cfa_register;
    int64_t cfa_offset;
    int64_t fp_at;  /* less the CFA; 0: in its register */
    bool has_cfa;   /* a register plus a number */
    bool fp_is_odd; /* needs more than fp_at */
    bool is_end;    /* there is no return address */
};

struct unwind_cie {
    size_t at; /* in the section */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool has_length; /* of augmentations, in entries */
    struct fg_slice instructions;
};

/* An entry for a function. */
struct unwind_fde {
    uint64_t start, end;
    uint64_t code_align;
    int64_t data_align;
    struct fg_slice before, instructions; /* of the CIE, and its own */
};

struct unwind_reader {
    struct fg_slice section;
    uint64_t address, low;
    struct unwind_cie cie; /* the last one */
    struct unwind_fde *fdes;
    uint32_t n_fdes, cap_fdes;
    struct fg_unwind_rows rows;
    uint32_t cap_rows;
};

/* ---- entries ---- */

static int64_t signed_leb(struct fg_cur *cur)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = fg_cur_u8(cur);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0 && shift < 70);
    if (shift < 64 && (byte & 0x40) != 0)
        value |= ~UINT64_C(0) << shift;
    return (int64_t)value;
}

static size_t place_of(const struct unwind_reader *reader, const struct fg_cur *cur)
{
    return (size_t)(cur->ptr - reader->section.ptr);
}

/* Returns false if pointers are encoded in another way; linkers write these two. */
static bool read_pointer(const struct unwind_reader *reader, struct fg_cur *cur, uint8_t encoding,
                         uint64_t *ret_address)
{
    uint64_t place = reader->address + place_of(reader, cur);

    if (encoding == ENCODED_PCREL_4)
        *ret_address = place + (uint64_t)(int64_t)(int32_t)fg_cur_le32(cur);
    else if (encoding == ENCODED_PCREL_8)
        *ret_address = place + fg_cur_le64(cur);
    else
        return false;
    return !cur->bad;
}

/* Skips an encoded pointer, of a personality function. */
static void skip_pointer(struct fg_cur *cur, uint8_t encoding)
{
    static const uint8_t sizes[8] = {8, 0, 2, 4, 8, 0, 0, 0}; /* by the low three bits */
    uint8_t size = sizes[encoding & 7];

    if (size == 0)
        fg_cur_fail(cur);
    (void)fg_cur_take(cur, size);
}

static bool read_cie(const struct unwind_reader *reader, size_t at, struct unwind_cie *ret_cie)
{
    struct unwind_cie cie = {.at = at};
    struct fg_cur section = fg_cur(reader->section), cur;
    struct fg_slice augmentation;
    uint8_t version;

    (void)fg_cur_take(&section, at);
    cur = fg_cur(fg_cur_take(&section, fg_cur_le32(&section)));
    if (fg_cur_le32(&cur) != 0) /* an FDE */
        return false;
    version = fg_cur_u8(&cur);
    augmentation = fg_cur_take(&cur, fg_slice_find(fg_bytes(cur.ptr, cur.left), '\0'));
    (void)fg_cur_u8(&cur);
    cie.code_align = fg_cur_varint(&cur);
    cie.data_align = signed_leb(&cur);
    if (version == 1)
        (void)fg_cur_u8(&cur);
    else
        (void)fg_cur_varint(&cur);
    cie.has_length = fg_slice_starts(augmentation, "z");
    if (cie.has_length)
        (void)fg_cur_varint(&cur);
    for (size_t i = 1; i < augmentation.len; i++) {
        if (augmentation.ptr[i] == 'R')
            cie.encoding = fg_cur_u8(&cur);
        else if (augmentation.ptr[i] == 'L')
            (void)fg_cur_u8(&cur);
        else if (augmentation.ptr[i] == 'P')
            skip_pointer(&cur, fg_cur_u8(&cur));
        else if (augmentation.ptr[i] != 'S')
            return false;
    }
    cie.instructions = fg_bytes(cur.ptr, cur.left);
    if (cur.bad || section.bad)
        return false;
    *ret_cie = cie;
    return true;
}

static void add_fde(struct unwind_reader *reader, const struct unwind_fde *fde)
{
    if (reader->n_fdes == reader->cap_fdes) {
        reader->cap_fdes = FG_MAX(1024, 2 * reader->cap_fdes);
        reader->fdes = fg_realloc(reader->fdes, reader->cap_fdes * sizeof *reader->fdes);
    }
    reader->fdes[reader->n_fdes++] = *fde;
}

/* Reads an entry behind its length; `cur` has the rest of it. */
static void read_entry(struct unwind_reader *reader, struct fg_cur *cur)
{
    size_t place = place_of(reader, cur);
    uint32_t back = fg_cur_le32(cur); /* to its CIE; 0: it is one */
    struct unwind_fde fde;
    uint64_t range;

    if (back == 0 || back > place)
        return;
    if ((reader->cie.instructions.ptr == NULL || reader->cie.at != place - back) &&
        !read_cie(reader, place - back, &reader->cie))
        return;
    if (!read_pointer(reader, cur, reader->cie.encoding, &fde.start))
        return;
    range = reader->cie.encoding == ENCODED_PCREL_4 ? fg_cur_le32(cur) : fg_cur_le64(cur);
    if (reader->cie.has_length)
        (void)fg_cur_lenbytes(cur);
    if (cur->bad || fde.start < reader->low || range == 0 ||
        fde.start - reader->low > UINT32_MAX - FG_MIN(range, (uint64_t)UINT32_MAX))
        return;
    fde.end = fde.start + range;
    fde.code_align = reader->cie.code_align;
    fde.data_align = reader->cie.data_align;
    fde.before = reader->cie.instructions;
    fde.instructions = fg_bytes(cur->ptr, cur->left);
    add_fde(reader, &fde);
}

static void read_entries(struct unwind_reader *reader)
{
    struct fg_cur cur = fg_cur(reader->section);

    while (fg_cur_more(&cur)) {
        uint32_t len = fg_cur_le32(&cur);
        struct fg_slice entry = fg_cur_take(&cur, len);
        struct fg_cur content = fg_cur(entry);

        if (len == 0 || len == UINT32_MAX) /* the end; entries of 4 GiB, which nobody writes */
            return;
        if (!cur.bad)
            read_entry(reader, &content);
    }
}

/* ---- rows ---- */

static struct fg_unwind_row row_of(const struct unwind_state *state, uint64_t address)
{
    struct fg_unwind_row row = {.address = (uint32_t)address, .base = FG_UNWIND_UNKNOWN};

    if (state->is_end)
        row.base = FG_UNWIND_END;
    if (state->is_end || !state->has_cfa || state->fp_is_odd ||
        (state->cfa_register != REGISTER_SP && state->cfa_register != REGISTER_FP) ||
        state->cfa_offset <= 0 || state->cfa_offset > (int64_t)UINT16_MAX * WORD_BYTES ||
        state->cfa_offset % WORD_BYTES != 0 || state->fp_at > 0 ||
        state->fp_at < -(int64_t)UINT8_MAX * WORD_BYTES || state->fp_at % WORD_BYTES != 0)
        return row;
    row.base = state->cfa_register == REGISTER_SP ? FG_UNWIND_SP : FG_UNWIND_FP;
    row.cfa_words = (uint16_t)(state->cfa_offset / WORD_BYTES);
    row.fp_words = (uint8_t)(-state->fp_at / WORD_BYTES);
    return row;
}

/* Adds a row, whose address is at least that of the last one. */
static void add_row(struct unwind_reader *reader, struct fg_unwind_row row)
{
    struct fg_unwind_rows *rows = &reader->rows;
    struct fg_unwind_row *last = rows->count > 0 ? &rows->items[rows->count - 1] : NULL;

    if (last != NULL && last->address == row.address) {
        *last = row;
        return;
    }
    if (last != NULL && last->base == row.base && last->cfa_words == row.cfa_words &&
        last->fp_words == row.fp_words)
        return;
    if (rows->count == ROWS_MAX)
        return;
    if (rows->count == reader->cap_rows) {
        reader->cap_rows = FG_MAX(4096, 2 * reader->cap_rows);
        rows->items = fg_realloc(rows->items, reader->cap_rows * sizeof *rows->items);
    }
    rows->items[rows->count++] = row;
}

/* ---- instructions ---- */

/* A program of instructions as it runs. */
struct unwind_run {
    struct unwind_reader *reader; /* gets rows; NULL: none, for the instructions of a CIE */
    const struct unwind_fde *fde;
    uint64_t address;
    struct unwind_state state, initial, saved[STATES_MAX];
    unsigned n_saved;
};

/* Sets where a register is saved: at the CFA plus offset. */
static void set_saved(struct unwind_run *run, uint64_t reg, int64_t offset)
{
    if (reg == REGISTER_FP) {
        run->state.fp_at = offset;
        run->state.fp_is_odd = offset == 0;
    }
}

/* Sets that a register needs more than an offset. */
static void set_odd(struct unwind_run *run, uint64_t reg)
{
    if (reg == REGISTER_FP)
        run->state.fp_is_odd = true;
}

static void restore(struct unwind_run *run, uint64_t reg)
{
    if (reg != REGISTER_FP)
        return;
    run->state.fp_at = run->initial.fp_at;
    run->state.fp_is_odd = run->initial.fp_is_odd;
}

static void advance(struct unwind_run *run, uint64_t by)
{
    uint64_t to = run->address + by * run->fde->code_align;

    if (run->reader != NULL)
        add_row(run->reader, row_of(&run->state, run->address - run->reader->low));
    /* Never backwards or beyond the function, whatever the numbers are. */
    run->address = to < run->address || to > run->fde->end ? run->fde->end : to;
}

static void define_cfa(struct unwind_run *run, uint64_t reg, int64_t offset)
{
    run->state.cfa_register = reg;
    run->state.cfa_offset = offset;
    run->state.has_cfa = true;
}

/* Runs an instruction of those whose low bits are part of the code. Returns false if it is unknown.
 */
static bool run_extended(struct unwind_run *run, uint8_t code, struct fg_cur *cur)
{
    int64_t data_align = run->fde->data_align;
    uint64_t reg;

    switch (code) {
    case CFA_NOP:
        return true;
    case CFA_ADVANCE1:
        advance(run, fg_cur_u8(cur));
        return true;
    case CFA_ADVANCE2: {
        uint8_t low = fg_cur_u8(cur);

        advance(run, (uint64_t)low | (uint64_t)fg_cur_u8(cur) << 8);
        return true;
    }
    case CFA_ADVANCE4:
        advance(run, fg_cur_le32(cur));
        return true;
    case CFA_OFFSET_EXTENDED:
        reg = fg_cur_varint(cur);
        set_saved(run, reg, (int64_t)(int32_t)fg_cur_varint(cur) * (int32_t)data_align);
        return true;
    case CFA_OFFSET_EXTENDED_SF:
        reg = fg_cur_varint(cur);
        set_saved(run, reg, (int64_t)(int32_t)signed_leb(cur) * (int32_t)data_align);
        return true;
    case CFA_RESTORE_EXTENDED:
        restore(run, fg_cur_varint(cur));
        return true;
    case CFA_UNDEFINED:
        reg = fg_cur_varint(cur);
        run->state.is_end |= reg == REGISTER_RETURN;
        set_odd(run, reg);
        return true;
    case CFA_SAME_VALUE:
        if (fg_cur_varint(cur) == REGISTER_FP) {
            run->state.fp_at = 0;
            run->state.fp_is_odd = false;
        }
        return true;
    case CFA_REMEMBER:
        if (run->n_saved == STATES_MAX)
            return false;
        run->saved[run->n_saved++] = run->state;
        return true;
    case CFA_RESTORE_STATE:
        if (run->n_saved == 0)
            return false;
        run->state = run->saved[--run->n_saved];
        return true;
    case CFA_DEF_CFA:
        reg = fg_cur_varint(cur);
        define_cfa(run, reg, (int64_t)fg_cur_varint(cur));
        return true;
    case CFA_DEF_CFA_SF:
        reg = fg_cur_varint(cur);
        define_cfa(run, reg, (int64_t)(int32_t)signed_leb(cur) * (int32_t)data_align);
        return true;
    case CFA_DEF_CFA_REGISTER:
        run->state.cfa_register = fg_cur_varint(cur);
        return true;
    case CFA_DEF_CFA_OFFSET:
        run->state.cfa_offset = (int64_t)fg_cur_varint(cur);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        run->state.cfa_offset = (int64_t)(int32_t)signed_leb(cur) * (int32_t)data_align;
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        (void)fg_cur_lenbytes(cur);
        run->state.has_cfa = false;
        return true;
    case CFA_EXPRESSION:
    case CFA_VAL_EXPRESSION:
        set_odd(run, fg_cur_varint(cur));
        (void)fg_cur_lenbytes(cur);
        return true;
    case CFA_REGISTER:
    case CFA_VAL_OFFSET:
    case CFA_VAL_OFFSET_SF:
        set_odd(run, fg_cur_varint(cur));
        (void)signed_leb(cur); /* either kind of number ends with the same byte */
        return true;
    case CFA_GNU_ARGS_SIZE:
        (void)fg_cur_varint(cur);
        return true;
    default:
        return false;
    }
}

static bool run_instructions(struct unwind_run *run, struct fg_slice instructions)
{
    struct fg_cur cur = fg_cur(instructions);

    while (fg_cur_more(&cur)) {
        uint8_t code = fg_cur_u8(&cur), low = code & 0x3f;
        bool known = true;

        switch (code >> 6) {
        case CFA_ADVANCE:
            advance(run, low);
            break;
        case CFA_OFFSET:
            set_saved(run, low,
                      (int64_t)(int32_t)fg_cur_varint(&cur) * (int32_t)run->fde->data_align);
            break;
        case CFA_RESTORE:
            restore(run, low);
            break;
        default:
            known = run_extended(run, code, &cur);
            break;
        }
        if (!known || cur.bad)
            return false;
    }
    return true;
}

static void write_rows(struct unwind_reader *reader, const struct unwind_fde *fde)
{
    struct unwind_run run = {.fde = fde, .address = fde->start};
    const struct unwind_state unknown = {.has_cfa = false};
    bool known = run_instructions(&run, fde->before);

    run.initial = run.state;
    run.address = fde->start;
    run.reader = reader;
    known = known && run_instructions(&run, fde->instructions);
    add_row(reader, row_of(known ? &run.state : &unknown, run.address - reader->low));
    /* The next function, if there is one right behind, replaces this row. */
    add_row(reader, row_of(&unknown, fde->end - reader->low));
}

static int compare_starts(const void *a, const void *b)
{
    const struct unwind_fde *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

static void make_pages(struct fg_unwind_rows *rows)
{
    uint32_t row = 0;

    if (rows->count == 0)
        return;
    rows->n_pages = rows->items[rows->count - 1].address / FG_UNWIND_PAGE_BYTES + 1;
    rows->pages = fg_calloc(rows->n_pages, sizeof *rows->pages);
    for (uint32_t page = 0; page < rows->n_pages; page++) {
        while (rows->items[row].address / FG_UNWIND_PAGE_BYTES < page)
            row++;
        rows->pages[page] = row;
    }
}

void fg_unwind_rows_read(struct fg_slice section, uint64_t address, uint64_t low,
                         struct fg_unwind_rows *ret_rows)
{
    struct unwind_reader reader = {.section = section, .address = address, .low = low};
    uint64_t end = 0;

    read_entries(&reader);
    if (reader.n_fdes > 1) /* qsort() takes no NULL */
        qsort(reader.fdes, reader.n_fdes, sizeof *reader.fdes, compare_starts);
    for (uint32_t i = 0; i < reader.n_fdes; i++) {
        /* Functions that overlap are a fault of the file: rows have to ascend. */
        if (reader.fdes[i].start < end)
            continue;
        write_rows(&reader, &reader.fdes[i]);
        end = reader.fdes[i].end;
    }
    free(reader.fdes);
    make_pages(&reader.rows);
    *ret_rows = reader.rows;
}

void fg_unwind_rows_done(struct fg_unwind_rows *rows)
{
    free(rows->items);
    free(rows->pages);
    *rows = (struct fg_unwind_rows){.count = 0};
}

const struct fg_unwind_row *fg_unwind_rows_find(const struct fg_unwind_rows *rows, uint32_t address)
{
    uint32_t page = address / FG_UNWIND_PAGE_BYTES, low = 0, high = rows->count;

    if (page < rows->n_pages)
        low = rows->pages[page];
    if (page + 1 < rows->n_pages)
        high = rows->pages[page + 1];
    uint32_t beyond = fg_lower_bound(i, low, high, rows->items[i].address <= address);

    return beyond == 0 ? NULL : &rows->items[beyond - 1];
}
