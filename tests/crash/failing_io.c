/* A disk that fails on purpose: a library that is preloaded into a process, between it and the C
 * library.
 *
 * It numbers the calls that change a file, or that create, rename or remove a name, from 1 in the
 * order in which they are made. Only files under one folder count; calls for other files are passed
 * on unchanged. One of the counted calls fails, or the process ends there. Each call is made, counted
 * and traced under one mutex, so the trace has the order in which the calls happened.
 *
 * Settings are read from the environment at the first call after LAURELS_TEST_IO_FOLDER is set. So a
 * process may prepare itself and fork before the failures begin.
 *
 *   LAURELS_TEST_IO_FOLDER  the folder, an absolute path without links
 *   LAURELS_TEST_IO_AT      the number of the call that fails; 0 or not set: none fails
 *   LAURELS_TEST_IO_ERRNO   the error of that call; 0: the process ends there, as if it were killed
 *   LAURELS_TEST_IO_STAY    1: all later calls fail as well (a disk that stays full)
 *   LAURELS_TEST_IO_HALF    1: a write does half of its work first. With an errno, it returns the
 *                           length of that half, and the next call fails
 *   LAURELS_TEST_IO_READS   1: reads, and opening a file to read it, are counted, too
 *   LAURELS_TEST_IO_TRACE   a file that gets a line for each call:
 *                           number, name, result, offset, length, path, and the new path of a rename
 *   LAURELS_TEST_IO_DATA    a file that gets the written data of all calls, one after another
 *   LAURELS_TEST_IO_REPORTS a file outside the folder; writes to it are traced as `report`, not counted
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX], reports[PATH_MAX];
static size_t folder_length;
static volatile int ready;
static long calls, at, error_number;
static int stays, halves, reads;
static int trace = -1, kept = -1;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static int sink(const char *name) {
    const char *path = getenv(name);
    if (!path || !*path) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int is_on(void) {
    if (ready) return 1;
    const char *under = getenv("LAURELS_TEST_IO_FOLDER");
    if (!under || !*under) return 0;
    pthread_mutex_lock(&gate);
    if (!ready) {
        const char *where = getenv("LAURELS_TEST_IO_REPORTS");
        snprintf(folder, sizeof folder, "%s", under);
        snprintf(reports, sizeof reports, "%s", where ? where : "");
        folder_length = strlen(folder);
        at = number("LAURELS_TEST_IO_AT");
        error_number = number("LAURELS_TEST_IO_ERRNO");
        stays = number("LAURELS_TEST_IO_STAY") == 1;
        halves = number("LAURELS_TEST_IO_HALF") == 1;
        reads = number("LAURELS_TEST_IO_READS") == 1;
        trace = sink("LAURELS_TEST_IO_TRACE");
        kept = sink("LAURELS_TEST_IO_DATA");
        ready = 1;
    }
    pthread_mutex_unlock(&gate);
    return 1;
}

/* `path` gets the path of an open file, or of a name relative to an open folder. The functions return
 * 0 if that path is unknown or, except for path_of, not under the folder. */

static int is_under(const char *path) {
    return strncmp(path, folder, folder_length) == 0 &&
           (path[folder_length] == '/' || path[folder_length] == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int named(int dir, const char *name, char *path) {
    if (!is_on() || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char base[PATH_MAX];
        if (dir == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(dir, base)) return 0;
        if (strlen(base) + strlen(name) + 2 > PATH_MAX) return 0;
        stpcpy(stpcpy(stpcpy(path, base), "/"), name);
    }
    return is_under(path);
}

static int ours(int fd, char *path) {
    return is_on() && path_of(fd, path) && is_under(path);
}

/* What happens to a call: it is done, fails, is half done, or the process ends, sometimes after half
 * of the call. The caller holds `gate`. */

enum fate { DO, FAIL, HALF, HALF_AND_END, END };

static enum fate fate_of(size_t length) {
    long call = ++calls;
    if (!at || call < at) return DO;
    if (call == at && error_number == 0) return halves && length > 1 ? HALF_AND_END : END;
    if (call == at && halves && length > 1) {
        at++;
        halves = 0;
        return HALF;
    }
    return call == at || stays ? FAIL : DO;
}

static void end(void) { syscall(SYS_exit_group, 137); }

static void note(const char *name, long result, long offset, long length, const char *path,
                 const char *to, const void *data) {
    int before = errno;
    if (trace >= 0) {
        char line[2 * PATH_MAX + 200];
        int n = snprintf(line, sizeof line, "%ld\t%s\t%ld\t%ld\t%ld\t%s\t%s\n", calls, name, result,
                         offset, length, path, to ? to : "");
        if (syscall(SYS_write, trace, line, (size_t)n) < 0) end();
    }
    if (data && kept >= 0 && result > 0)
        if (syscall(SYS_write, kept, data, (size_t)result) < 0) end();
    errno = before;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

/* A call without data: it is made, or fails, or the process ends. `failure` is the result of a failed
 * call. */
#define PLAIN(shown, path, to, offset, call, failure, how_errno) \
    do { \
        pthread_mutex_lock(&gate); \
        enum fate fate = fate_of(0); \
        if (fate == END || fate == HALF_AND_END) { \
            note("end:" shown, 0, 0, 0, path, to, NULL); \
            end(); \
        } \
        __typeof__(call) result; \
        if (fate == DO) { \
            result = call; \
        } else { \
            result = failure; \
            how_errno; \
        } \
        note(shown, (long)result, (long)(offset), 0, path, to, NULL); \
        pthread_mutex_unlock(&gate); \
        return result; \
    } while (0)
#define SET_ERRNO errno = (int)error_number

/* A write of `length` bytes; `call` writes the first `n` of them. */
#define WRITING(shown, fd, path, where, data, length, call) \
    do { \
        pthread_mutex_lock(&gate); \
        enum fate fate = fate_of(length); \
        size_t n = fate == HALF || fate == HALF_AND_END ? (length) / 2 : (length); \
        long offset = (long)(where); \
        ssize_t result = -1; \
        if (fate == FAIL) \
            errno = (int)error_number; \
        else if (fate != END) \
            result = call; \
        note(fate == END || fate == HALF_AND_END ? "end:" shown : shown, result, offset, \
             (long)(length), path, NULL, data); \
        if (fate == END || fate == HALF_AND_END) end(); \
        pthread_mutex_unlock(&gate); \
        return result; \
    } while (0)

/* Writing */

ssize_t write(int fd, const void *data, size_t length) {
    char path[PATH_MAX];
    REAL(write);
    if (is_on() && trace >= 0 && reports[0] && path_of(fd, path) && strcmp(path, reports) == 0) {
        pthread_mutex_lock(&gate);
        ssize_t result = real(fd, data, length);
        note("report", result, 0, (long)length, path, NULL, data);
        pthread_mutex_unlock(&gate);
        return result;
    }
    if (!ours(fd, path)) return real(fd, data, length);
    WRITING("write", fd, path, lseek(fd, 0, SEEK_CUR), data, length, real(fd, data, n));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t where) {
    char path[PATH_MAX];
    REAL(pwrite);
    if (!ours(fd, path)) return real(fd, data, length, where);
    WRITING("pwrite", fd, path, where, data, length, real(fd, data, n, where));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t where) {
    char path[PATH_MAX];
    REAL(pwrite64);
    if (!ours(fd, path)) return real(fd, data, length, where);
    WRITING("pwrite", fd, path, where, data, length, real(fd, data, n, where));
}

/* Write all parts with one call. The writes here are small, so copying them costs little. */
static void *joined(const struct iovec *parts, int count, size_t *length) {
    *length = 0;
    for (int i = 0; i < count; i++) *length += parts[i].iov_len;
    char *whole = malloc(*length + 1), *to = whole;
    if (!whole) end();
    for (int i = 0; i < count; i++) to = mempcpy(to, parts[i].iov_base, parts[i].iov_len);
    return whole;
}

static ssize_t written_parts(int fd, const char *path, const void *data, size_t length) {
    WRITING("write", fd, path, lseek(fd, 0, SEEK_CUR), data, length,
            syscall(SYS_write, fd, data, n));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    size_t length;
    REAL(writev);
    if (!ours(fd, path)) return real(fd, parts, count);
    void *whole = joined(parts, count, &length);
    ssize_t result = written_parts(fd, path, whole, length);
    free(whole);
    return result;
}

/* Flushing files, and changing their length */

int fsync(int fd) {
    char path[PATH_MAX];
    REAL(fsync);
    if (!ours(fd, path)) return real(fd);
    PLAIN("fsync", path, NULL, 0, real(fd), -1, SET_ERRNO);
}

int fdatasync(int fd) {
    char path[PATH_MAX];
    REAL(fdatasync);
    if (!ours(fd, path)) return real(fd);
    PLAIN("fsync", path, NULL, 0, real(fd), -1, SET_ERRNO);
}

int ftruncate(int fd, off_t length) {
    char path[PATH_MAX];
    REAL(ftruncate);
    if (!ours(fd, path)) return real(fd, length);
    PLAIN("truncate", path, NULL, length, real(fd, length), -1, SET_ERRNO);
}

int ftruncate64(int fd, off64_t length) {
    char path[PATH_MAX];
    REAL(ftruncate64);
    if (!ours(fd, path)) return real(fd, length);
    PLAIN("truncate", path, NULL, length, real(fd, length), -1, SET_ERRNO);
}

int fallocate(int fd, int mode, off_t from, off_t length) {
    char path[PATH_MAX];
    REAL(fallocate);
    if (!ours(fd, path)) return real(fd, mode, from, length);
    PLAIN("allocate", path, NULL, from + length, real(fd, mode, from, length), -1, SET_ERRNO);
}

int fallocate64(int fd, int mode, off64_t from, off64_t length) {
    char path[PATH_MAX];
    REAL(fallocate64);
    if (!ours(fd, path)) return real(fd, mode, from, length);
    PLAIN("allocate", path, NULL, from + length, real(fd, mode, from, length), -1, SET_ERRNO);
}

int posix_fallocate(int fd, off_t from, off_t length) {
    char path[PATH_MAX];
    REAL(posix_fallocate);
    if (!ours(fd, path)) return real(fd, from, length);
    PLAIN("allocate", path, NULL, from + length, real(fd, from, length), (int)error_number, );
}

int posix_fallocate64(int fd, off64_t from, off64_t length) {
    char path[PATH_MAX];
    REAL(posix_fallocate64);
    if (!ours(fd, path)) return real(fd, from, length);
    PLAIN("allocate", path, NULL, from + length, real(fd, from, length), (int)error_number, );
}

/* Names. Opening a file counts if it may create the file or, if reads are counted, also otherwise. */

static int is_counted(int flags) { return (flags & O_CREAT) || reads; }

#define OPENING(call) PLAIN("open", path, NULL, flags, call, -1, SET_ERRNO)
#define TAKE_MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) {
    char path[PATH_MAX];
    TAKE_MODE
    REAL(open);
    if (!named(AT_FDCWD, name, path) || !is_counted(flags)) return real(name, flags, mode);
    OPENING(real(name, flags, mode));
}

int open64(const char *name, int flags, ...) {
    char path[PATH_MAX];
    TAKE_MODE
    REAL(open64);
    if (!named(AT_FDCWD, name, path) || !is_counted(flags)) return real(name, flags, mode);
    OPENING(real(name, flags, mode));
}

int openat(int dir, const char *name, int flags, ...) {
    char path[PATH_MAX];
    TAKE_MODE
    REAL(openat);
    if (!named(dir, name, path) || !is_counted(flags)) return real(dir, name, flags, mode);
    OPENING(real(dir, name, flags, mode));
}

int openat64(int dir, const char *name, int flags, ...) {
    char path[PATH_MAX];
    TAKE_MODE
    REAL(openat64);
    if (!named(dir, name, path) || !is_counted(flags)) return real(dir, name, flags, mode);
    OPENING(real(dir, name, flags, mode));
}

int rename(const char *from, const char *to) {
    char path[PATH_MAX], target[PATH_MAX];
    REAL(rename);
    int is_ours = named(AT_FDCWD, from, path) | named(AT_FDCWD, to, target);
    if (!is_ours) return real(from, to);
    PLAIN("rename", path, target, 0, real(from, to), -1, SET_ERRNO);
}

int renameat(int dir, const char *from, int other, const char *to) {
    char path[PATH_MAX], target[PATH_MAX];
    REAL(renameat);
    int is_ours = named(dir, from, path) | named(other, to, target);
    if (!is_ours) return real(dir, from, other, to);
    PLAIN("rename", path, target, 0, real(dir, from, other, to), -1, SET_ERRNO);
}

int renameat2(int dir, const char *from, int other, const char *to, unsigned flags) {
    char path[PATH_MAX], target[PATH_MAX];
    REAL(renameat2);
    int is_ours = named(dir, from, path) | named(other, to, target);
    if (!is_ours) return real(dir, from, other, to, flags);
    PLAIN("rename", path, target, 0, real(dir, from, other, to, flags), -1, SET_ERRNO);
}

int unlink(const char *name) {
    char path[PATH_MAX];
    REAL(unlink);
    if (!named(AT_FDCWD, name, path)) return real(name);
    PLAIN("unlink", path, NULL, 0, real(name), -1, SET_ERRNO);
}

int unlinkat(int dir, const char *name, int flags) {
    char path[PATH_MAX];
    REAL(unlinkat);
    if (!named(dir, name, path)) return real(dir, name, flags);
    PLAIN("unlink", path, NULL, 0, real(dir, name, flags), -1, SET_ERRNO);
}

int rmdir(const char *name) {
    char path[PATH_MAX];
    REAL(rmdir);
    if (!named(AT_FDCWD, name, path)) return real(name);
    PLAIN("rmdir", path, NULL, 0, real(name), -1, SET_ERRNO);
}

int mkdir(const char *name, mode_t mode) {
    char path[PATH_MAX];
    REAL(mkdir);
    if (!named(AT_FDCWD, name, path)) return real(name, mode);
    PLAIN("mkdir", path, NULL, 0, real(name, mode), -1, SET_ERRNO);
}

int mkdirat(int dir, const char *name, mode_t mode) {
    char path[PATH_MAX];
    REAL(mkdirat);
    if (!named(dir, name, path)) return real(dir, name, mode);
    PLAIN("mkdir", path, NULL, 0, real(dir, name, mode), -1, SET_ERRNO);
}

/* Reading, which counts only if reads are counted */

ssize_t read(int fd, void *data, size_t length) {
    char path[PATH_MAX];
    REAL(read);
    if (!is_on() || !reads || !ours(fd, path)) return real(fd, data, length);
    PLAIN("read", path, NULL, 0, real(fd, data, length), -1, SET_ERRNO);
}

ssize_t pread(int fd, void *data, size_t length, off_t where) {
    char path[PATH_MAX];
    REAL(pread);
    if (!is_on() || !reads || !ours(fd, path)) return real(fd, data, length, where);
    PLAIN("read", path, NULL, where, real(fd, data, length, where), -1, SET_ERRNO);
}

ssize_t pread64(int fd, void *data, size_t length, off64_t where) {
    char path[PATH_MAX];
    REAL(pread64);
    if (!is_on() || !reads || !ours(fd, path)) return real(fd, data, length, where);
    PLAIN("read", path, NULL, where, real(fd, data, length, where), -1, SET_ERRNO);
}
