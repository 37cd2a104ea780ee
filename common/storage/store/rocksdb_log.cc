/*
 * RocksDB's C interface has a setter for a logger and no way to make one, so the type behind
 * rocksdb_logger_t is completed here, as RocksDB's db/c.cc has it.
 *
 * Without a logger RocksDB writes a file LOG into the folder of the data. On a disk that is full or
 * broken that file fails as well, and it fails badly: a line after one that could not be written is
 * an assertion (WritableFileWriter::seen_error), which Debian's build of 7.8 has switched on. So a
 * full disk would end the process.
 */
#include "common/storage/store/rocksdb_log.h"

#include <cstdarg>
#include <cstdio>
#include <memory>
#include <rocksdb/env.h>

struct rocksdb_logger_t {
    std::shared_ptr<rocksdb::Logger> rep;
};

namespace
{
class line_logger : public rocksdb::Logger
{
  public:
    explicit line_logger(void (*on_line)(const char *text))
        : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), on_line_(on_line)
    {
    }

    using Logger::Logv;

    /* Every option of every family, at each opening: nobody reads it. */
    void LogHeader(const char * /* format */, va_list /* args */) override
    {
    }

    void Logv(const rocksdb::InfoLogLevel level, const char *format, va_list args) override
    {
        char line[FG_ROCKSDB_LINE_MAX_BYTES];

        if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level > rocksdb::InfoLogLevel::FATAL_LEVEL)
            return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* RocksDB's own */
        (void)std::vsnprintf(line, sizeof line, format, args);
#pragma GCC diagnostic pop
        on_line_(line);
    }

  private:
    void (*on_line_)(const char *text);
};
} // namespace

rocksdb_logger_t *fg_rocksdb_logger_create(void (*on_line)(const char *text))
{
    return new rocksdb_logger_t{std::make_shared<line_logger>(on_line)};
}

void fg_rocksdb_logger_destroy(rocksdb_logger_t *logger)
{
    delete logger;
}
