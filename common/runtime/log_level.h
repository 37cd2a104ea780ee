/* The levels of log lines, from the least to the most important. log.h says what each one means. */
#ifndef FG_COMMON_RUNTIME_LOG_LEVEL_H
#define FG_COMMON_RUNTIME_LOG_LEVEL_H

enum fg_log_level { FG_LOG_DEBUG, FG_LOG_INFO, FG_LOG_WARN, FG_LOG_ERROR };

#endif
