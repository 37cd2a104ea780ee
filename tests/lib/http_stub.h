/*
 * A connection of the HTTP server without sockets and without time of its own, for fuzzers: bytes
 * go in, answers are collected, handlers answer at once, later or too late.
 */
#ifndef FG_TESTS_LIB_HTTP_STUB_H
#define FG_TESTS_LIB_HTTP_STUB_H

#include "common/base/buf.h"

/*
 * A whole life of a connection. The first byte of the input says how the rest is cut into pieces,
 * whether writes end at once or later (bit 0x80), and whether the listener's address is a loopback
 * one (0x40); `before` is said first, in one piece. Sees to it that all requests are answered and
 * all memory is given back; ret_written is what was sent, to be freed by the caller. false: there
 * was no input.
 */
bool http_stub_run(struct fg_slice before, struct fg_slice input, struct fg_buf *ret_written);

#endif
