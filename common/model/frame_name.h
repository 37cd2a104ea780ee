/*
 * Names of frames in flame graphs, tables, diffs and folded stacks. Only this file chooses them;
 * trees of locations, blocks and pprof keep addresses and mappings unchanged.
 *
 *   function, or inlined line     name of the function, else its system name
 *   address in a mapped file      "libc.so.6+0x9f2a1": base name of the file, and offset in it
 *   address without a file        "0x7f12a0b3c4d5"
 *   neither line nor address      "[unknown]"
 *   stack without any frame       "[no stack]"
 *
 * A line whose function has no name is shown as its address, if that is known, and else by the
 * empty name that its sender gave it.
 *
 * The offset is what symbolisers start from: address - start of the mapping + the mapping's offset
 * in the file. In pprof "memory_start" is the address at which the binary is loaded, and
 * "file_offset" the offset of the first mapped byte (profile.proto, Mapping); OTLP has the same
 * fields with the same meaning. So equal code has an equal name in every process, wherever it is
 * loaded. Agents that send addresses of the ELF file instead move the mapping along with them
 * (OpenTelemetry's eBPF profiler subtracts the load bias from both), so that the difference is the
 * same, or leave it as it was; then the address is outside of it, and is the offset already. A
 * mapping without a limit has no end.
 */
#ifndef FG_COMMON_MODEL_FRAME_NAME_H
#define FG_COMMON_MODEL_FRAME_NAME_H

#include "common/model/symbols.h"

#define FG_FRAME_UNKNOWN  "[unknown]"
#define FG_FRAME_NO_STACK "[no stack]"

/* Returns the string that names a function; 0 if it has no name. */
static inline uint32_t fg_function_name(const struct fg_function *function)
{
    return function->name != 0 ? function->name : function->system_name;
}

/* Returns as how many frames a location is shown, at least one. */
static inline uint32_t fg_frame_count(const struct fg_location *location)
{
    return location->n_lines == 0 ? 1 : location->n_lines;
}

/*
 * Returns the name of a frame of a location. Frame 0 is the innermost inlined function; a location
 * without lines has frame 0 only. The name points into the symbols or into scratch and is valid
 * until either changes.
 */
struct fg_slice fg_frame_name(const struct fg_symbols *symbols, uint32_t location, uint32_t frame,
                              struct fg_buf *scratch);

#endif
