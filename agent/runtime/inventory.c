#include "agent/runtime/inventory.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/runtime/cgroup.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "libtrain/quant/codec.h"

#define TEXT_MAX (1u << 20)
/* Reserve for threads, messages, and the kernel's charges for pages and sockets. */
#define GROUP_RESERVE (UINT64_C(8) << 20)

/* The rest of the line after `key` and its colon, without surrounding spaces. false: none. */
static bool find_line(const struct buf *text, const char *key, char *out, size_t size)
{
    const char *at = text->data ? strstr(text->data, key) : NULL;
    const char *colon = at ? strchr(at, ':') : NULL;
    if (!colon) {
        return false;
    }
    colon += 1 + strspn(colon + 1, " \t");
    (void)snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    return true;
}

/* "MemAvailable: 123 kB"; 0 when it is not there. */
static uint64_t memory_line(const char *key)
{
    BUF_AUTO struct buf text;
    char value[64];
    buf_init(&text, TEXT_MAX);
    if (file_read("/proc/meminfo", &text, NULL) != 0 ||
        !find_line(&text, key, value, sizeof(value))) {
        return 0;
    }
    int64_t kilobytes = 0;
    value[strcspn(value, " ")] = '\0';
    return parse_i64(value, 0, INT64_MAX >> 10, &kilobytes, NULL) == 0 ? (uint64_t)kilobytes << 10
                                                                       : 0;
}

/* The `index`-th number of /proc/self/statm, in bytes; 0 when it is not there. */
static int64_t statm_bytes(int index)
{
    BUF_AUTO struct buf text;
    int64_t pages = 0;
    buf_init(&text, TEXT_MAX);
    if (file_read("/proc/self/statm", &text, NULL) != 0 || !text.data) {
        return 0;
    }
    char *at = text.data;
    for (int i = 0; i < index && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (!at) {
        return 0;
    }
    at[strcspn(at, " \n")] = '\0';
    return parse_i64(at, 0, INT64_MAX >> 16, &pages, NULL) == 0 ? pages * sysconf(_SC_PAGESIZE) : 0;
}

/* reserve: bytes to keep free below the limit of a control group. */
static uint64_t free_memory(uint64_t reserve)
{
    uint64_t available = memory_line("MemAvailable");
    struct rlimit addresses;
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
        const uint64_t taken = (uint64_t)statm_bytes(0);
        const uint64_t left = addresses.rlim_cur > taken ? (uint64_t)addresses.rlim_cur - taken : 1;
        available = available > left ? left : available;
    }
    BUF_AUTO struct buf groups;
    buf_init(&groups, TEXT_MAX);
    if (file_read("/proc/self/cgroup", &groups, NULL) == 0 && groups.data) {
        uint64_t left = cgroup_free_memory(groups.data, "/sys/fs/cgroup");
        left = left > reserve ? left - reserve : 1;
        available = available > left ? left : available;
    }
    /* A 32-bit process cannot address more, even if the machine has more memory. */
    return available > SIZE_MAX / 2 ? SIZE_MAX / 2 : available;
}

uint64_t inventory_free_memory(void)
{
    return free_memory(0);
}

uint64_t inventory_memory_for_plans(void)
{
    return free_memory(GROUP_RESERVE);
}

int64_t inventory_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
        return CPU_COUNT(&set);
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

int64_t inventory_resident(void)
{
    return statm_bytes(1);
}

void inventory_read(struct device_inventory *out)
{
    memset(out, 0, sizeof(*out));
    struct utsname name;
    if (uname(&name) == 0) {
        (void)snprintf(out->hostname, sizeof(out->hostname), "%.63s", name.nodename);
        (void)snprintf(out->os, sizeof(out->os), "%.20s %.40s", name.sysname, name.release);
        (void)snprintf(out->architecture, sizeof(out->architecture), "%.31s", name.machine);
    }
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_MAX);
    if (file_read("/proc/cpuinfo", &text, NULL) != 0 ||
        !find_line(&text, "model name", out->cpu, sizeof(out->cpu))) {
        (void)snprintf(out->cpu, sizeof(out->cpu), "%s", out->architecture);
    }
    utf8_repair_line(out->hostname);
    utf8_repair_line(out->os);
    utf8_repair_line(out->cpu);
    (void)snprintf(out->agent_version, sizeof(out->agent_version), "%s", PACELINE_VERSION);
    out->cores = inventory_cores();
    out->memory_bytes = (int64_t)memory_line("MemTotal");
    out->zstd = codec_available(CODEC_Q8_ZSTD);
}
