/*
 * The CPUs of a worker, on a machine made of files: two sockets, two NUMA nodes each, four cores each, of which two
 * share a cache. CPU c is the first thread of core c, CPU 16 + c its second. The expected values come from torch 2.13's
 * torch/numa/binding.py, run on the same files, if it has an answer.
 */
#include "../../src/agent/super.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 4, CORES = 16, CPUS = 2 * CORES };

static char root[64];

static void put_file(const char *text, const char *fmt, ...) FORMAT(2, 3);
static void put_file(const char *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *name = xvasprintf(fmt, ap);
    va_end(ap);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", root, name), *folder = xstrdup(path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(mkdir_p(folder, 0700, NULL), 0);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

/* Both threads of the cores [first, first + count). */
static const char *threads(unsigned first, unsigned count)
{
    static char text[64];
    unsigned last = first + count - 1;
    if (count == 1)
        snprintf(text, sizeof text, "%u,%u\n", first, first + CORES);
    else
        snprintf(text, sizeof text, "%u-%u,%u-%u\n", first, last, first + CORES, last + CORES);
    return text;
}

static void put_cpu(unsigned cpu)
{
    static const char *const types[] = {"Data\n", "Instruction\n", "Unified\n", "Unified\n"};
    static const char *const levels[] = {"1\n", "1\n", "2\n", "3\n"};
    unsigned core = cpu % CORES;
    put_file(threads(core, 1), "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    put_file(threads(core / 8 * 8, 8), "sys/devices/system/cpu/cpu%u/topology/core_siblings_list", cpu);
    for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
        put_file(types[i], "sys/devices/system/cpu/cpu%u/cache/index%u/type", cpu, i);
        put_file(levels[i], "sys/devices/system/cpu/cpu%u/cache/index%u/level", cpu, i);
        put_file(i < 3 ? threads(core, 1) : threads(core / 2 * 2, 2),
                 "sys/devices/system/cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, i);
    }
}

/* The addresses are not in the order of the minors. */
static void put_gpus(void)
{
    static const struct {
        const char *address, *uuid;
        unsigned minor;
        int node;
        bool usable;
    } gpus[] = {{"0000:1b:00.0", "GPU-aaaa0000", 1, 3, true},
                {"0000:43:00.0", "GPU-bbbb0000", 0, 1, true},
                {"0000:52:00.0", "GPU-cccc0000", 7, 2, false}, /* of another container */
                {"0000:9d:00.0", "GPU-dddd0000", 2, 1, true},
                {"0000:df:00.0", "GPU-eeee0000", 3, -1, true}};
    for (size_t i = 0; i < ARRAY_LEN(gpus); i++) {
        char text[256];
        snprintf(text, sizeof text, "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t %s\nDevice Minor: \t %u\n",
                 gpus[i].uuid, gpus[i].minor);
        put_file(text, "proc/driver/nvidia/gpus/%s/information", gpus[i].address);
        if (gpus[i].usable)
            put_file("", "dev/nvidia%u", gpus[i].minor);
        snprintf(text, sizeof text, "%d\n", gpus[i].node);
        put_file(text, "sys/bus/pci/devices/%s/numa_node", gpus[i].address);
    }
}

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/rhrun-cpus-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (unsigned i = 0; i < CPUS; i++)
        put_cpu(i);
    for (unsigned n = 0; n < NODES; n++)
        put_file(threads(4 * n, 4), "sys/devices/system/node/node%u/cpulist", n);
    put_file("0-3\n", "sys/devices/system/node/online");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf '%s'", root);
    return system(command);
}

/* "0-3,16-19", or "-" where nothing is bound. may_use: one bit for each CPU. */
static void expect(enum wire_cpus mode, uint32_t index, uint32_t count, const char *devices, uint32_t may_use,
                   const char *expected)
{
    struct cpus cpus = {{may_use}};
    const struct cpus_wish wish = {mode, index, count, devices, root};
    struct buf text = {0};
    buf_puts(&text, cpus_choose(&wish, &cpus) ? "" : "-");
    for (unsigned i = 0; i < CPUS && text.data[0] != '-'; i++) {
        unsigned from = i;
        while (cpus.bits[0] >> i & 1)
            i++;
        if (i > from)
            buf_printf(&text, i > from + 1 ? "%s%u-%u" : "%s%u", text.len ? "," : "", from, i - 1);
    }
    assert_string_equal(text.data, expected);
    buf_free(&text);
}

static const uint32_t all = UINT32_MAX, holes = 0x00f3ff5f;

static void test_as_torch_does(void **state)
{
    static const struct {
        enum wire_cpus mode;
        const char *devices;
        uint32_t may_use;
        const char *of[4];
    } cases[] = {
        {WIRE_CPUS_NODE, NULL, all, {"12-15,28-31", "4-7,20-23", "4-7,20-23", "0-3,16-19"}},
        {WIRE_CPUS_SOCKET, NULL, all, {"8-15,24-31", "0-7,16-23", "0-7,16-23", "0-7,16-23"}},
        {WIRE_CPUS_EXCLUSIVE, NULL, all, {"12-15,28-31", "4-5,20-21", "6-7,22-23", "0-3,16-19"}},
        {WIRE_CPUS_CORE_COMPLEX, NULL, all, {"12-13,28-29", "4-5,20-21", "6-7,22-23", "0-1,16-17"}},
        {WIRE_CPUS_NODE, "3,GPU-aaaa,1", all, {"0-3,16-19", "12-15,28-31", "4-7,20-23"}},
        {WIRE_CPUS_EXCLUSIVE, "3,GPU-aaaa,1", all, {"0-3,16-19", "12-15,28-31", "4-7,20-23"}},
        {WIRE_CPUS_CORE_COMPLEX, "3, GPU-aaaa0000 ,1", all, {"0-1,16-17"}},
        {WIRE_CPUS_NODE, NULL, holes, {"12-15", "4,6,20-23", "4,6,20-23", "0-3,16-17"}},
        {WIRE_CPUS_EXCLUSIVE, NULL, holes, {"12-15", "4,20-21", "6,22-23", "0-3,16-17"}},
        {WIRE_CPUS_CORE_COMPLEX, NULL, holes, {"12-13", "4,20-21", "6,22-23", "0-1,16-17"}},
        {WIRE_CPUS_CORE_COMPLEX, "2,1", 0x00e000e0, {"6-7,22-23", "5,21"}}, /* the larger one first */
    };
    (void)state;
    put_gpus();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint32_t count = 0;
        while (count < 4 && cases[i].of[count])
            count++;
        for (uint32_t k = 0; k < count; k++)
            expect(cases[i].mode, k, count, cases[i].devices, cases[i].may_use, cases[i].of[k]);
    }
}

/* If a worker has no GPU, or its GPU is unknown, all of them are spread. */
static void test_spread(void **state)
{
    static const char *const unknown[] = {"", "0,1,2", "0,1,2,MIG-1f2e", "0,1,2,9", "-1,0,1,2,3"};
    (void)state;
    put_gpus();
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        expect(WIRE_CPUS_NODE, 0, 4, unknown[i], all, "0-3,16-19");
        expect(WIRE_CPUS_NODE, 3, 4, unknown[i], all, "12-15,28-31");
    }
    expect(WIRE_CPUS_NODE, 4, 5, NULL, all, "12-15,28-31"); /* a fifth worker */
    expect(WIRE_CPUS_NODE, 1, 2, "", all, "8-11,24-27");
    expect(WIRE_CPUS_NODE, 1, 2, "", 0x00ff00ff, "4-7,20-23"); /* the nodes that we may use */
    expect(WIRE_CPUS_SOCKET, 1, 2, "", all, "8-15,24-31");
    expect(WIRE_CPUS_EXCLUSIVE, 2, 8, "", all, "4-5,20-21");
    expect(WIRE_CPUS_EXCLUSIVE, 3, 8, "", all, "6-7,22-23");
    expect(WIRE_CPUS_CORE_COMPLEX, 3, 8, "", all, "6-7,22-23");
    expect(WIRE_CPUS_EXCLUSIVE, 19, 20, "", all, "12-15,28-31"); /* five workers, four cores: they share them */
}

static void test_not_to_be_told(void **state)
{
    (void)state;
    put_gpus();
    expect(WIRE_CPUS_NODE, 0, 1, NULL, 0x0000000f, "-"); /* the near ones are not allowed */
    for (unsigned i = 0; i < CPUS; i++) {
        CLEANUP(cleanup_free) char *list = xasprintf("%s/sys/devices/system/cpu/cpu%u/cache/index0/level", root, i);
        assert_int_equal(unlink(list), 0);
    }
    expect(WIRE_CPUS_CORE_COMPLEX, 1, 4, NULL, all, "4-7,20-23");
    CLEANUP(cleanup_free) char *node = xasprintf("%s/sys/devices/system/node/node1/cpulist", root);
    assert_int_equal(unlink(node), 0);
    expect(WIRE_CPUS_NODE, 1, 4, NULL, all, "-");
    CLEANUP(cleanup_free) char *online = xasprintf("%s/sys/devices/system/node/online", root);
    assert_int_equal(unlink(online), 0);
    expect(WIRE_CPUS_NODE, 0, 4, "", all, "-");
}

static void test_blocks(void **state)
{
    (void)state;
    expect(WIRE_CPUS_BLOCK, 0, 3, NULL, all, "0-9");
    expect(WIRE_CPUS_BLOCK, 2, 3, NULL, all, "21-31");
    expect(WIRE_CPUS_BLOCK, 1, 2, NULL, holes, "12-17,20-23");
    expect(WIRE_CPUS_BLOCK, 0, 3, NULL, 3, "-");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_as_torch_does),
        CASE(test_spread),
        CASE(test_not_to_be_told),
        CASE(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
