/*
 * Whole messages: a table of the plain fields for each struct. Anything beyond plain fields (lists of structs, rules
 * between fields) is in the message's own functions.
 */
#include "internal.h"

#include <string.h>

static const struct field hello_fields[] = {
    U32(wire_hello, version),        U8(wire_hello, mode),
    STRING(wire_hello, job),         STRING(wire_hello, job_name),
    STRING(wire_hello, origin),      STRING(wire_hello, owner),
    STRING(wire_hello, owner_name),  STRING(wire_hello, variant),
    STRING(wire_hello, work_dir),    STRING(wire_hello, base_dir),
    STRING(wire_hello, host_digest), STRING(wire_hello, test_boot_id),
};

static const struct field facts_fields[] = {
    U32(wire_facts, version),         U64(wire_facts, epoch),
    STRING(wire_facts, install),      STRING(wire_facts, boot_id),
    STRING(wire_facts, container),    STRING(wire_facts, machine_id),
    STRING(wire_facts, home_id),      STRING(wire_facts, hostname),
    STRING(wire_facts, user),         STRING(wire_facts, home),
    STRING(wire_facts, base_dir),     STRING(wire_facts, work_dir),
    STRING(wire_facts, arch),         STRING(wire_facts, kernel),
    STRING(wire_facts, os),           STRING(wire_facts, shell),
    STRING(wire_facts, python),       STRING(wire_facts, python_version),
    STRING(wire_facts, gpus),         STRING(wire_facts, gpu_driver),
    STRING(wire_facts, address),      U32(wire_facts, cpus),
    U32(wire_facts, gpu_count),       U64(wire_facts, memory_bytes),
    U64(wire_facts, disk_free_bytes), U64(wire_facts, mono_ns),
    U64(wire_facts, wall_ms),         STRING(wire_facts, cpu),
    STRING(wire_facts, image),        STRING(wire_facts, image_digest),
};

static const struct field run_fields[] = {
    STRING(wire_run, attempt),
    STRING(wire_run, slot),
    STRING(wire_run, key),
    STRING(wire_run, launch),
    U8(wire_run, kind),
    U8(wire_run, flags),
    U8(wire_run, cpus),
    STRING(wire_run, hosts),
    STRING(wire_run, log_dir),
    STRING(wire_run, cwd),
    STRING(wire_run, env_in),
    STRING(wire_run, env_out),
    STRING(wire_run, creates),
    STRING(wire_run, path_first),
    STRINGS(wire_run, unset),
    STRINGS(wire_run, env),
    STRINGS(wire_run, env_default),
    STRINGS(wire_run, secrets),
    U64(wire_run, timeout_ms),
    U32(wire_run, grace_ms),
    STRINGS(wire_run, spared),
    STRING(wire_run, notice.who),
    U32(wire_run, notice.address),
    U32(wire_run, notice.port),
    STRING(wire_run, notice.token),
    STRING(wire_run, notice.request),
    STRING(wire_run, notice.match),
    U32(wire_run, notice.every_ms),
    U32(wire_run, notice.within_ms),
    U64(wire_run, log_limit_bytes),
};

static const struct field worker_fields[] = {
    U32(wire_worker, rank),     U32(wire_worker, local_rank), U8(wire_worker, shell),
    STRINGS(wire_worker, argv), STRINGS(wire_worker, env),    U8(wire_worker, files),
};

static const struct field record_fields[] = {
    STRING(wire_record, attempt),    STRING(wire_record, slot),       STRING(wire_record, key),
    STRING(wire_record, variant),    STRING(wire_record, boot_id),    STRING(wire_record, launch),
    U8(wire_record, state),          U8(wire_record, same_boot),      U8(wire_record, stop_requested),
    U8(wire_record, timed_out),      U8(wire_record, verdict),        U64(wire_record, sequence),
    U64(wire_record, claim_wall_ms), U64(wire_record, start_mono_ns), U64(wire_record, end_mono_ns),
    U64(wire_record, end_wall_ms),   U64(wire_record, spool_bytes),   U64(wire_record, kept_from),
    U64(wire_record, dropped_bytes), U8(wire_record, dropped),        U8(wire_record, cause),
    U32(wire_record, value),         U32(wire_record, cause_rank),    U64(wire_record, cause_mono_ns),
    U32(wire_record, patched),       STRING(wire_record, tail),       STRING(wire_record, leftover),
};

static const struct field worker_end_fields[] = {
    U32(wire_worker_end, rank),
    U8(wire_worker_end, cause),
    U32(wire_worker_end, value),
    U64(wire_worker_end, end_mono_ns),
};

void wire_put_fields(struct buf *out, const void *message, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)message + fields[i].offset;
        switch (fields[i].type) {
        case FIELD_U8:
            wire_put_u8(out, *(const uint8_t *)at);
            break;
        case FIELD_U32:
            wire_put_u32(out, *(const uint32_t *)(const void *)at);
            break;
        case FIELD_U64:
            wire_put_u64(out, *(const uint64_t *)(const void *)at);
            break;
        case FIELD_STRING:
            wire_put_string(out, *(char *const *)(const void *)at);
            break;
        case FIELD_STRINGS:
            wire_put_strings(out, (const struct wire_strings *)(const void *)at);
            break;
        }
    }
}

void wire_get_fields(struct wire_in *in, void *message, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *at = (char *)message + fields[i].offset;
        switch (fields[i].type) {
        case FIELD_U8:
            *(uint8_t *)at = wire_get_u8(in);
            break;
        case FIELD_U32:
            *(uint32_t *)at = wire_get_u32(in);
            break;
        case FIELD_U64:
            *(uint64_t *)at = wire_get_u64(in);
            break;
        case FIELD_STRING:
            *(char **)at = wire_get_string(in);
            break;
        case FIELD_STRINGS:
            *(struct wire_strings *)at = wire_get_strings(in);
            break;
        }
    }
}

uint32_t wire_get_count(struct wire_in *in, uint32_t max, size_t min_size)
{
    uint32_t count = wire_get_u32(in);
    if (!in->bad && count <= max && count <= (size_t)(in->end - in->p) / min_size)
        return count;
    in->bad = true;
    return 0;
}

bool wire_name_valid(const char *s)
{
    return *s && *s != '.' && !strchr(s, '/') && strlen(s) <= 200;
}

static bool assignments_valid(const struct wire_strings *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i])
            return false;
    }
    return true;
}

void wire_put_hello(struct buf *out, const struct wire_hello *m)
{
    size_t start = wire_begin(out, WIRE_HELLO);
    PUT(out, m, hello_fields);
    wire_end(out, start);
}

bool wire_get_hello(struct wire_in *in, struct wire_hello *ret)
{
    struct wire_hello m = {0};
    GET(in, &m, hello_fields);
    if (!wire_in_done(in))
        return false;
    if (m.mode > WIRE_READ || !str_is_hex(m.job, 16) || !wire_name_valid(m.owner) ||
        !(str_is_hex(m.variant, 16) || (m.mode == WIRE_READ && !*m.variant)) || (*m.work_dir && *m.work_dir != '/') ||
        (*m.base_dir && *m.base_dir != '/'))
        return false;
    *ret = m;
    return true;
}

void wire_put_facts(struct buf *out, const struct wire_facts *m)
{
    size_t start = wire_begin(out, WIRE_HELLO_OK);
    PUT(out, m, facts_fields);
    wire_end(out, start);
}

static bool strings_within(const void *message, const struct field *fields, size_t count, size_t max)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].type == FIELD_STRING &&
            strlen(*(char *const *)(const void *)((const char *)message + fields[i].offset)) > max)
            return false;
    return true;
}

bool wire_get_facts(struct wire_in *in, struct wire_facts *ret)
{
    struct wire_facts m = {0};
    GET(in, &m, facts_fields);
    if (!wire_in_done(in) || !strings_within(&m, facts_fields, ARRAY_LEN(facts_fields), WIRE_FACT_MAX))
        return false;
    *ret = m;
    return true;
}

void wire_put_run(struct buf *out, const struct wire_run *m)
{
    size_t start = wire_begin(out, WIRE_RUN);
    PUT(out, m, run_fields);
    wire_put_u32(out, m->worker_count);
    for (uint32_t i = 0; i < m->worker_count; i++)
        PUT(out, &m->workers[i], worker_fields);
    wire_end(out, start);
}

bool wire_get_run(struct wire_in *in, struct wire_run *ret)
{
    struct wire_run m = {0};
    GET(in, &m, run_fields);
    uint32_t count = wire_get_count(in, WIRE_WORKERS_MAX, 18);
    m.workers = arena_array(in->arena, (size_t)count + 1, sizeof *m.workers);
    for (uint32_t i = 0; i < count && !in->bad; i++) {
        struct wire_worker *w = &m.workers[i];
        GET(in, w, worker_fields);
        if (w->argv.count == 0 || w->shell > 1 || !assignments_valid(&w->env) || (w->files && !*m.log_dir) ||
            w->local_rank >= WIRE_WORKERS_MAX)
            return false;
    }
    m.worker_count = count;
    if (!wire_in_done(in) || count == 0 || m.cpus > WIRE_CPUS_CORE_COMPLEX)
        return false;
    if (!wire_id_valid(m.attempt) || (m.kind != WIRE_KIND_STEP && m.kind != WIRE_KIND_LAUNCH) || !*m.slot ||
        strlen(m.slot) > 200 || strlen(m.key) > 64 || strlen(m.launch) >= WIRE_LAUNCH_MAX ||
        (*m.env_in && !wire_name_valid(m.env_in)) || (*m.env_out && !wire_name_valid(m.env_out)) ||
        (*m.log_dir && *m.log_dir != '/') ||
        (m.notice.address &&
         (!wire_notice_address(m.notice.address) || m.notice.every_ms < WIRE_NOTICE_EVERY_MIN_MS)) ||
        !assignments_valid(&m.env) || !assignments_valid(&m.env_default) || !assignments_valid(&m.secrets))
        return false;
    *ret = m;
    return true;
}

void wire_put_record(struct buf *out, enum wire_type type, const struct wire_record *m)
{
    size_t start = wire_begin(out, type);
    PUT(out, m, record_fields);
    wire_put_u32(out, m->worker_count);
    for (uint32_t i = 0; i < m->worker_count; i++)
        PUT(out, &m->workers[i], worker_end_fields);
    wire_end(out, start);
}

bool wire_get_record(struct wire_in *in, struct wire_record *ret)
{
    struct wire_record m = {0};
    GET(in, &m, record_fields);
    uint32_t count = wire_get_count(in, WIRE_WORKERS_MAX, 17);
    m.workers = arena_array(in->arena, (size_t)count + 1, sizeof *m.workers);
    for (uint32_t i = 0; i < count; i++)
        GET(in, &m.workers[i], worker_end_fields);
    m.worker_count = count;
    if (!wire_in_done(in) || !wire_id_valid(m.attempt) || m.state < WIRE_STATE_CLAIMED || m.state > WIRE_STATE_LOST ||
        m.cause > WIRE_CAUSE_LAST || m.verdict > WIRE_VERDICT_GOOD ||
        !strings_within(&m, record_fields, ARRAY_LEN(record_fields), WIRE_TAIL_MAX))
        return false;
    *ret = m;
    return true;
}

bool wire_record_success(const struct wire_record *r)
{
    if (r->verdict == WIRE_VERDICT_GOOD)
        return r->state != WIRE_STATE_CLAIMED;
    return r->state == WIRE_STATE_ENDED && r->cause == WIRE_CAUSE_NONE && !r->stop_requested && !r->timed_out;
}
