/* The routes that all programs have; see program.h. */
#ifndef FG_COMMON_PROGRAM_ADMIN_H
#define FG_COMMON_PROGRAM_ADMIN_H

#include "common/program/program.h"

void fg_admin_routes(struct fg_program *program);

#endif
