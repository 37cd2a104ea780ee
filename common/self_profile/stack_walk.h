/*
 * Walks a stack from registers to return addresses. Pure, and safe in a handler of signals: it
 * takes no lock, allocates nothing, and reads only aligned words between the stack pointer and the
 * high end of the thread's stack, whatever tables and registers say. Each frame lies above the one
 * before, so it ends.
 *
 * A step uses the row of unwind_rows.h for the address. Where there is none it takes frame
 * pointers:
 *
 *     fp ->  | fp of the caller | return address |  ... towards the high end
 *
 * Why both. Ours is compiled with frame pointers, but on x86-64 libraries of the distribution are
 * not, and RocksDB, libuv and malloc() are in most of our stacks: with frame pointers alone, a
 * fifth of all samples had lost their callers. Why not libgcc's or libunwind's unwinder: they read
 * memory where the tables say that the stack is, so one wrong row for a function in assembly is a
 * crash in the handler; and libunwind takes locks. On other processors (arm64) libraries keep frame
 * pointers, and there are no tables.
 */
#ifndef FG_COMMON_SELF_PROFILE_STACK_WALK_H
#define FG_COMMON_SELF_PROFILE_STACK_WALK_H

#include "common/self_profile/unwind_rows.h"

enum {
    FG_STACK_DEPTH_MAX = 64, /* deeper stacks keep their leaf side */
    FG_UNWIND_MODULES_MAX = 256,
};

struct fg_unwind_module {
    uintptr_t low, high; /* of code; rows are relative to low */
    struct fg_unwind_rows rows;
};

/* The modules of a process, ascending. */
struct fg_unwind_map {
    uint32_t count;
    struct fg_unwind_module modules[FG_UNWIND_MODULES_MAX];
};

struct fg_stack_registers {
    uintptr_t pc; /* 0: not wanted, only its callers */
    uintptr_t fp, sp;
    uintptr_t high; /* end of the thread's stack; everything from sp to here can be read */
};

/* Fills pcs[FG_STACK_DEPTH_MAX], leaf first, and returns how many there are. All but `pc` are
 * return addresses. map: NULL: frame pointers only. */
uint32_t fg_stack_walk(const struct fg_unwind_map *map, const struct fg_stack_registers *registers,
                       uintptr_t *pcs);

#endif
