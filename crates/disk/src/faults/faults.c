// A disk that fails, or a machine that dies, at the n-th change of a file below a folder. Preloaded by faults.rs.
//
//   WEIR_FAULT_BELOW  the folder; files in folders of it are not looked at
//   WEIR_FAULT_AT     the first change that fails, counted from 1
//   WEIR_FAULT_LASTS  how many changes fail from there on
//   WEIR_FAULT        kill: the process dies, of what was to be written the first half is there
//                     power: the same, and what was never synced is lost
//                     short: half of what was to be written is written, or if it is one byte, ENOSPC
//                     a number: the change fails with this errno, and nothing of it is done
//   WEIR_FAULT_HIT    this file is made when a change fails
//   WEIR_FAULT_SHADOW a folder for what is on disk for sure
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KILL = -1, POWER = -2, SHORT = -3 };

static const char *below, *hit, *shadow;
static long first, lasts, calls;
static int fault;

struct undo {
	char path[PATH_MAX];
	char saved[PATH_MAX]; // empty: there was no such file
};
static struct undo undone[64];
static int undos;

// One change at a time. Who dies keeps it: no other thread changes anything any more.
static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;

static long done(long result)
{
	int said = errno;
	pthread_mutex_unlock(&change);
	errno = said;
	return result;
}

static int raw_open(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600); }

static void copy(const char *from, const char *to)
{
	char bytes[65536];
	ssize_t n;
	int in = raw_open(from, O_RDONLY), out = raw_open(to, O_WRONLY | O_CREAT | O_TRUNC);
	while (in >= 0 && out >= 0 && (n = syscall(SYS_read, in, bytes, sizeof bytes)) > 0)
		if (syscall(SYS_write, out, bytes, n) != n)
			abort();
	close(in);
	close(out);
}

static void shadow_of(char *path, ino_t inode) { snprintf(path, PATH_MAX, "%s/%lu", shadow, (unsigned long)inode); }

// Calls `act` for each file of the folder.
static void each(void (*act)(const char *path, const struct stat *))
{
	DIR *folder = opendir(below);
	struct dirent *entry;
	while (folder && (entry = readdir(folder))) {
		char path[PATH_MAX];
		struct stat found;
		snprintf(path, sizeof path, "%s/%s", below, entry->d_name);
		if (lstat(path, &found) == 0 && S_ISREG(found.st_mode))
			act(path, &found);
	}
	if (folder)
		closedir(folder);
}

static void is_durable(const char *path, const struct stat *found)
{
	char to[PATH_MAX];
	shadow_of(to, found->st_ino);
	copy(path, to);
}

static void fall_back(const char *path, const struct stat *found)
{
	char from[PATH_MAX];
	shadow_of(from, found->st_ino);
	if (access(from, F_OK) == 0)
		copy(from, path);
	else
		syscall(SYS_truncate, path, 0L);
}

static void forget(const char *path)
{
	struct stat found;
	char at[PATH_MAX];
	if (fault != POWER || lstat(path, &found) != 0)
		return;
	shadow_of(at, found.st_ino);
	syscall(SYS_unlink, at);
}

static void stand_still(int signal)
{
	(void)signal;
	for (;;)
		pause();
}

static void die(void)
{
	if (fault == POWER) {
		// Another thread may use a mapped file that becomes shorter here.
		signal(SIGBUS, stand_still);
		each(fall_back);
		while (undos-- > 0) {
			if (undone[undos].saved[0])
				copy(undone[undos].saved, undone[undos].path);
			else
				syscall(SYS_unlink, undone[undos].path);
		}
	}
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("WEIR_FAULT");
	below = getenv("WEIR_FAULT_BELOW");
	if (!what || !below)
		return;
	hit = getenv("WEIR_FAULT_HIT");
	shadow = getenv("WEIR_FAULT_SHADOW");
	first = atol(getenv("WEIR_FAULT_AT"));
	lasts = atol(getenv("WEIR_FAULT_LASTS"));
	fault = !strcmp(what, "kill") ? KILL : !strcmp(what, "power") ? POWER : !strcmp(what, "short") ? SHORT : atoi(what);
	if (fault == POWER)
		each(is_durable);
}

static int is_below(const char *path)
{
	size_t n = below ? strlen(below) : 0;
	return n && !strncmp(path, below, n) && (path[n] == '/' || path[n] == 0);
}

static int path_of(int fd, char *path)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, PATH_MAX - 1);
	path[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static int ours(int fd)
{
	char path[PATH_MAX];
	int before = errno;
	int is_it = below && path_of(fd, path) && is_below(path);
	errno = before;
	return is_it;
}

// The path of a name in a folder.
static int full(int folder, const char *name, char *path)
{
	char at[PATH_MAX];
	if (!below)
		return 0;
	if (name[0] == '/')
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
	if (folder == AT_FDCWD ? !getcwd(at, sizeof at) : !path_of(folder, at))
		return 0;
	return snprintf(path, PATH_MAX, "%s/%s", at, name) < PATH_MAX;
}

// One more change: does it fail?
static int fails(void)
{
	long n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	if (n < first || n >= first + lasts)
		return 0;
	close(raw_open(hit, O_WRONLY | O_CREAT));
	return 1;
}

static ssize_t put(int fd, const void *bytes, size_t n, off_t at)
{
	return at < 0 ? syscall(SYS_write, fd, bytes, n) : syscall(SYS_pwrite64, fd, bytes, n, at);
}

static ssize_t put_or_fail(int fd, const void *bytes, size_t n, off_t at)
{
	if (!fails())
		return put(fd, bytes, n, at);
	if (fault == KILL || fault == POWER) {
		put(fd, bytes, n / 2, at);
		die();
	}
	if (fault == SHORT && n > 1)
		return put(fd, bytes, n / 2, at);
	errno = fault == SHORT ? ENOSPC : fault;
	return -1;
}

static ssize_t try_put(int fd, const void *bytes, size_t n, off_t at)
{
	if (!ours(fd))
		return put(fd, bytes, n, at);
	pthread_mutex_lock(&change);
	return done(put_or_fail(fd, bytes, n, at));
}

ssize_t write(int fd, const void *bytes, size_t n) { return try_put(fd, bytes, n, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return try_put(fd, bytes, n, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) { return try_put(fd, bytes, n, at); }

// Something that is done whole or not at all; a disk without room does it nevertheless.
static int fails_whole(void)
{
	if (!fails() || fault == SHORT)
		return 0;
	if (fault == KILL || fault == POWER)
		die();
	errno = fault;
	return 1;
}

static int sync_with(long call, int fd)
{
	struct stat found;
	char path[PATH_MAX];
	if (!ours(fd))
		return syscall(call, fd);
	pthread_mutex_lock(&change);
	if (fails_whole())
		return done(-1);
	int result = syscall(call, fd);
	if (result == 0 && fault == POWER && fstat(fd, &found) == 0 && path_of(fd, path)) {
		if (S_ISDIR(found.st_mode))
			undos = 0;
		else
			is_durable(path, &found);
	}
	return done(result);
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int ftruncate(int fd, off_t length)
{
	if (!ours(fd))
		return syscall(SYS_ftruncate, fd, length);
	pthread_mutex_lock(&change);
	return done(fails_whole() ? -1 : syscall(SYS_ftruncate, fd, length));
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

int renameat(int from_at, const char *from, int to_at, const char *to)
{
	char path[PATH_MAX];
	if (!full(to_at, to, path) || !is_below(path))
		return syscall(SYS_renameat, from_at, from, to_at, to);
	pthread_mutex_lock(&change);
	if (fails_whole())
		return done(-1);
	if (fault == POWER && undos < 64) {
		struct undo *one = &undone[undos];
		snprintf(one->path, sizeof one->path, "%s", path);
		snprintf(one->saved, sizeof one->saved, "%s/undo-%d", shadow, undos);
		if (access(path, F_OK) == 0)
			copy(path, one->saved);
		else
			one->saved[0] = 0;
		undos++;
		forget(path);
	}
	return done(syscall(SYS_renameat, from_at, from, to_at, to));
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int at, const char *name, int flags)
{
	char path[PATH_MAX];
	if (!full(at, name, path) || !is_below(path))
		return syscall(SYS_unlinkat, at, name, flags);
	pthread_mutex_lock(&change);
	if (fails_whole())
		return done(-1);
	forget(path);
	return done(syscall(SYS_unlinkat, at, name, flags));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
