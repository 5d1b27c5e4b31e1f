/*
 * The agent as a controller sees it: the built program over a socketpair, real supervisors, a base folder of its own
 * for each test. RHRUN_TEST_AGENT names another program (an agent for aarch64 under qemu).
 */
#include "agent_peer.h"

#include "../../src/agent/internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

static int setup(void **state)
{
    (void)state;
    return folder_make("agent");
}

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- HELLO ---- */

static void test_hello_facts(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    const struct wire_facts *f = &p.facts;
    struct stat st;
    assert_int_equal(f->version, WIRE_VERSION);
    assert_int_equal(f->epoch, 1);
    assert_true(wire_id_valid(f->install));
    assert_true(wire_id_valid(f->home_id));
    assert_string_equal(f->home, folder);
    assert_string_equal(f->base_dir, in_folder(".rhrun"));
    assert_true(str_starts(f->work_dir, f->base_dir));
    assert_true(f->cpus >= 1 && (long)f->cpus <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(f->memory_bytes > 1 << 20);
    assert_true(f->disk_free_bytes > 0);
    assert_true(*f->hostname && *f->kernel && *f->arch && *f->shell == '/');
    assert_int_equal(access(f->shell, X_OK), 0);
    assert_int_equal(strlen(f->boot_id), 36);
    assert_int_equal(stat(f->base_dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char *install = xstrdup(f->install), *home_id = xstrdup(f->home_id);
    peer_close(&p);

    peer_open(&p, WIRE_OWN, OWNER_A); /* the same machine again: the ids stay, the epoch grows */
    assert_int_equal(p.facts.epoch, 2);
    assert_string_equal(p.facts.install, install);
    assert_string_equal(p.facts.home_id, home_id);
    peer_close(&p);
    free(install);
    free(home_id);
}

static void test_held_and_adopted(void **state)
{
    (void)state;
    struct peer a, b;
    peer_open(&a, WIRE_OWN, OWNER_A);
    peer_start(&b);
    peer_magic(&b);
    send_hello(&b, WIRE_OWN, OWNER_B);
    struct wire_in in = expect(&b, WIRE_HELD);
    assert_string_equal(wire_get_string(&in), "user@aaaaaaaa");
    assert_string_equal(wire_get_string(&in), "connection");
    assert_int_equal(wire_get_u64(&in), 1);
    assert_true(wire_in_done(&in));
    peer_close(&a);
    send_hello(&b, WIRE_OWN, OWNER_B); /* the held one may ask again on its connection */
    expect_hello_ok(&b);
    assert_int_equal(b.facts.epoch, 2);
    peer_close(&b);
}

static void test_held_by_live_attempt(void **state)
{
    (void)state;
    struct peer a, b;
    peer_open(&a, WIRE_OWN, OWNER_A);
    send_run(&a, ID("1"), "setup:x", "exec sleep 1000");
    expect_started(&a, ID("1"));
    peer_kill(&a);
    peer_start(&b);
    peer_magic(&b);
    send_hello(&b, WIRE_OWN, OWNER_B);
    struct wire_in in = expect(&b, WIRE_HELD);
    wire_get_string(&in);
    assert_string_equal(wire_get_string(&in), "setup:x");
    peer_close(&b);

    peer_open(&a, WIRE_OWN, OWNER_A); /* never held for its owner */
    send_signal(&a, ID("1"), WIRE_KILL, 0);
    send_attempt(&a, WIRE_ATTACH, ID("1"), 0);
    struct wire_record r = expect_record(&a, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    assert_true(r.stop_requested);
    assert_false(wire_record_success(&r));
    peer_close(&a);
    peer_open(&b, WIRE_OWN, OWNER_B);
    peer_close(&b);
}

static void test_take_over_fences(void **state)
{
    (void)state;
    struct peer a, b;
    peer_open(&a, WIRE_OWN, OWNER_A);
    peer_open(&b, WIRE_TAKE_OVER, OWNER_B);
    assert_int_equal(b.facts.epoch, 2);
    send_run(&a, ID("1"), "setup:x", "touch must-not-exist");
    struct wire_in in = expect(&a, WIRE_FENCED);
    assert_int_equal(wire_get_u64(&in), 2);
    assert_string_equal(wire_get_string(&in), "user@bbbbbbbb");
    assert_int_equal(peer_frame(&a), 0);
    assert_int_equal(peer_wait(&a), 0);
    peer_free(&a);
    send_token(&b, WIRE_LIST, 5);
    in = expect(&b, WIRE_LISTED); /* no record came before it */
    assert_int_equal(wire_get_u64(&in), 5);
    peer_close(&b);
}

static void test_fenced_while_idle(void **state)
{
    (void)state;
    struct peer a, b;
    peer_open(&a, WIRE_OWN, OWNER_A);
    peer_open(&b, WIRE_OWN, OWNER_A); /* the same owner is never held by its old connection */
    expect(&a, WIRE_FENCED);
    assert_int_equal(peer_wait(&a), 0);
    peer_free(&a);
    peer_close(&b);
}

static void test_base_fallback(void **state)
{
    (void)state;
    struct peer p;
    peer_start_at(&p, "/dev/null/x");
    peer_magic(&p);
    send_hello(&p, WIRE_READ, OWNER_A);
    expect_hello_ok(&p);
    char expected[64];
    snprintf(expected, sizeof expected, "rhrun-%ld", (long)geteuid());
    assert_true(str_ends(p.facts.base_dir, expected));
    struct stat st;
    assert_int_equal(lstat(p.facts.base_dir, &st), 0);
    assert_true(S_ISDIR(st.st_mode) && (st.st_mode & 077) == 0 && st.st_uid == geteuid());
    peer_close(&p);
}

static void test_base_named_unusable(void **state)
{
    (void)state;
    struct peer p;
    struct buf b = {0};
    char *no = (char *)"";
    struct wire_hello h = {.version = WIRE_VERSION,
                           .job = (char *)JOB,
                           .job_name = no,
                           .origin = no,
                           .owner = (char *)OWNER_A,
                           .owner_name = no,
                           .variant = (char *)JOB,
                           .work_dir = no,
                           .base_dir = (char *)"/dev/null/base",
                           .host_digest = no,
                           .test_boot_id = no};
    peer_start(&p);
    peer_magic(&p);
    wire_put_hello(&b, &h);
    send_buf(&p, &b);
    assert_non_null(strstr(expect_fault(&p), "/dev/null"));
    assert_int_equal(peer_wait(&p), 1);
    peer_free(&p);
}

/* ---- RUN and its effects ---- */

static void test_run_echo(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "setup:echo", "echo hello; echo oops >&2; exit 3");
    expect_started(&p, ID("1"));
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_string_equal(r.attempt, ID("1"));
    assert_string_equal(r.slot, "setup:echo");
    assert_string_equal(r.variant, "0123456789abcdef");
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    assert_int_equal(r.cause, WIRE_CAUSE_EXIT);
    assert_int_equal(r.value, 3);
    assert_int_equal(r.same_boot, 1);
    assert_int_equal(r.spool_bytes, p.output.len);
    assert_string_equal(output_text(&p), "hello\n");
    peer_close(&p);
}

static void test_same_attempt_runs_once(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "setup:once", "echo line >> file; echo out");
    expect_started(&p, ID("1"));
    expect_record(&p, WIRE_EXIT);
    buf_clear(&p.output);
    send_run(&p, ID("1"), "setup:once", "echo line >> file; echo out");
    struct wire_record r = expect_record(&p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    r = expect_record(&p, WIRE_EXIT); /* attached by itself, from the beginning */
    assert_true(wire_record_success(&r));
    assert_string_equal(output_text(&p), "out\n");

    struct buf text = {0};
    struct error err = ERROR_INIT;
    char *path = arena_printf(p.arena, "%s/file", p.facts.work_dir);
    assert_int_equal(file_read(path, 1000, &text, &err), 0);
    assert_string_equal(text.data, "line\n");
    buf_free(&text);
    peer_close(&p);
}

static void test_busy_slot_and_stop(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "launch", "exec sleep 1000");
    expect_started(&p, ID("1"));
    send_run(&p, ID("2"), "launch", "echo no");
    struct wire_in in = expect(&p, WIRE_BUSY);
    assert_string_equal(wire_get_string(&in), ID("2"));
    assert_string_equal(wire_get_string(&in), ID("1"));
    assert_string_equal(wire_get_string(&in), "launch");
    send_strings(&p, WIRE_FORGET, NULL, 1, ID("1"));
    assert_non_null(strstr(expect_fault(&p), "is live"));
    send_signal(&p, ID("1"), WIRE_STOP, 5000);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.cause, WIRE_CAUSE_SIGNAL);
    assert_int_equal(r.value, SIGTERM);
    assert_true(r.stop_requested);
    send_run(&p, ID("3"), "launch", "echo yes");
    expect_started(&p, ID("3"));
    r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    peer_close(&p);
}

static void test_ping_during_output(void **state)
{
    (void)state;
    enum { TOTAL = 50000000, AHEAD_MAX = 4000000 };
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    char script[128];
    snprintf(script, sizeof script, "head -c %d /dev/zero", TOTAL);
    send_run(&p, ID("1"), "launch", script);
    expect_started(&p, ID("1"));
    assert_int_equal(peer_frame(&p), WIRE_OUTPUT);
    take_output(&p);
    for (uint64_t token = 1; token <= 5; token++) {
        size_t before = p.output.len;
        send_token(&p, WIRE_PING, token);
        struct wire_in in = expect(&p, WIRE_PONG);
        assert_int_equal(wire_get_u64(&in), token);
        assert_true(wire_get_u64(&in) > 0);
        assert_true(wire_get_u64(&in) > 0);
        uint32_t port = wire_get_u32(&in);
        assert_true(port > 0 && port < 65536);
        assert_true(wire_in_done(&in));
        assert_true(p.output.len - before < AHEAD_MAX); /* it overtook what was queued */
    }
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    assert_int_equal(r.dropped_bytes, 0);
    assert_int_equal(r.spool_bytes, p.output.len);
    assert_true(p.output.len >= TOTAL);
    peer_close(&p);
}

static void test_two_streams_take_turns(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "one", "head -c 5000000 /dev/zero");
    expect_started(&p, ID("1"));
    expect_record(&p, WIRE_EXIT);
    buf_clear(&p.output);
    send_run(&p, ID("2"), "two", "echo small");
    expect_started(&p, ID("2"));
    expect_record(&p, WIRE_EXIT);
    send_attempt(&p, WIRE_ATTACH, ID("1"), 0);
    send_attempt(&p, WIRE_ATTACH, ID("2"), 0);
    /* the small one does not wait for the end of the large one */
    const char *const order[] = {ID("2"), ID("1")};
    for (size_t ended = 0; ended < 2;) {
        int type = peer_frame(&p);
        if (type == WIRE_OUTPUT)
            continue;
        assert_int_equal(type, WIRE_EXIT);
        struct wire_in in = peer_in(&p);
        struct wire_record r;
        assert_true(wire_get_record(&in, &r));
        assert_string_equal(r.attempt, order[ended++]);
    }
    peer_close(&p);
}

/* ---- the other requests ---- */

static void test_list_check_settle_ack_forget(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "setup:a", "head -c 3000000 /dev/zero; touch made; mkdir d; touch d/e");
    expect_started(&p, ID("1"));
    expect_record(&p, WIRE_EXIT);
    send_token(&p, WIRE_LIST, 7);
    struct wire_record r = expect_record(&p, WIRE_RECORD);
    assert_string_equal(r.attempt, ID("1"));
    assert_true(wire_record_success(&r));
    struct wire_in in = expect(&p, WIRE_LISTED);
    assert_int_equal(wire_get_u64(&in), 7);

    char *paths[] = {(char *)"made", (char *)"not-made", (char *)"d/e", (char *)"/dev/null"};
    struct buf b = {0};
    wire_put_check(&b, &(struct wire_check){.token = 8, .paths = {paths, 4}});
    send_buf(&p, &b);
    in = expect(&p, WIRE_CHECKED);
    assert_int_equal(wire_get_u64(&in), 8);
    uint32_t len;
    const uint8_t *found = wire_get_bytes(&in, &len);
    assert_int_equal(len, 4);
    assert_memory_equal(found, "\1\0\1\1", 4);

    send_token(&p, WIRE_SETTLE, 9);
    in = expect(&p, WIRE_SETTLED);
    assert_int_equal(wire_get_u64(&in), 9);
    assert_string_equal(wire_get_string(&in), "");

    char *segment = attempt_path(&p, ID("1"), "spool.0");
    send_attempt(&p, WIRE_ACK, ID("1"), p.output.len);
    send_token(&p, WIRE_PING, 10);
    expect(&p, WIRE_PONG);
    assert_int_equal(access(segment, F_OK), -1);
    buf_clear(&p.output);
    p.output_from = 2 * SEGMENT_SIZE; /* acknowledged output is gone: output begins where it is kept */
    send_attempt(&p, WIRE_ATTACH, ID("1"), 0);
    r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.kept_from, 2 * SEGMENT_SIZE);
    assert_int_equal(p.output_from + p.output.len, r.spool_bytes);

    char *status = attempt_path(&p, ID("1"), "status");
    send_strings(&p, WIRE_FORGET, NULL, 2, ID("1"), ID("9"));
    send_token(&p, WIRE_LIST, 11);
    expect(&p, WIRE_LISTED);
    assert_int_equal(access(status, F_OK), -1);
    send_attempt(&p, WIRE_ATTACH, ID("1"), 0);
    assert_non_null(strstr(expect_fault(&p), "not known"));
    peer_close(&p);
}

static void test_read_mode_refusals(void **state)
{
    (void)state;
    struct peer a, p;
    peer_open(&a, WIRE_OWN, OWNER_A);
    send_run(&a, ID("1"), "setup:a", "echo seen; exec sleep 1000");
    expect_started(&a, ID("1"));
    peer_open(&p, WIRE_READ, OWNER_B);
    assert_int_equal(p.facts.epoch, 1);
    send_run(&p, ID("2"), "setup:b", "echo no");
    assert_non_null(strstr(expect_fault(&p), "RUN is refused"));
    send_signal(&p, ID("1"), WIRE_KILL, 0);
    assert_non_null(strstr(expect_fault(&p), "SIGNAL is refused"));
    send_token(&p, WIRE_SETTLE, 1);
    assert_non_null(strstr(expect_fault(&p), "SETTLE is refused"));
    send_strings(&p, WIRE_FORGET, NULL, 1, ID("1"));
    assert_non_null(strstr(expect_fault(&p), "FORGET is refused"));
    send_attempt(&p, WIRE_ACK, ID("1"), 1);
    assert_non_null(strstr(expect_fault(&p), "ACK is refused"));
    send_attempt(&p, WIRE_ATTACH, ID("1"), 0); /* output as it comes, and the end, beside the owner's */
    while (strcmp(output_text(&p), "seen\n") != 0) {
        assert_int_equal(peer_frame(&p), WIRE_OUTPUT);
        take_output(&p);
    }
    send_signal(&a, ID("1"), WIRE_KILL, 0);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    expect_record(&a, WIRE_EXIT);
    peer_close(&p);
    peer_close(&a);
}

/* An agent that died during the claim, or before its supervisor began, started nothing: the attempt may still run. */
static void test_half_made_claim(void **state)
{
    (void)state;
    static struct status status;
    struct peer p;
    glob_t found;
    peer_open(&p, WIRE_OWN, OWNER_A);
    assert_int_equal(glob(arena_printf(p.arena, "%s/m/*/jobs/" JOB "/a", p.facts.base_dir), 0, NULL, &found), 0);
    for (int claimed = 0; claimed < 3; claimed++) {
        const char *attempt = claimed == 0 ? ID("1") : claimed == 1 ? ID("2") : ID("3");
        char *dir = arena_printf(p.arena, "%s/%s", found.gl_pathv[0], attempt);
        memset(&status, 0, sizeof status);
        if (claimed) {
            status.version = STATUS_VERSION;
            status.state = WIRE_STATE_CLAIMED;
            snprintf(status.attempt, sizeof status.attempt, "%.32s", attempt);
            snprintf(status.slot, sizeof status.slot, "x");
            /* a claim of another boot proves less: it may have run, and is lost */
            snprintf(status.boot_id, sizeof status.boot_id, "%.36s", claimed == 1 ? p.facts.boot_id : "other");
        }
        assert_int_equal(mkdir(dir, 0700), 0);
        int fd = open(arena_printf(p.arena, "%s/status", dir), O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, &status, sizeof status), sizeof status);
        close(fd);
        send_token(&p, WIRE_LIST, 1);
        if (claimed == 2) {
            struct wire_record r = expect_record(&p, WIRE_RECORD);
            assert_int_equal(r.state, WIRE_STATE_LOST);
            assert_false(r.same_boot);
        }
        expect(&p, WIRE_LISTED);
        if (claimed == 2)
            continue;
        buf_clear(&p.output);
        send_run(&p, attempt, "x", "echo yes");
        expect_started(&p, attempt);
        struct wire_record r = expect_record(&p, WIRE_EXIT);
        assert_true(wire_record_success(&r));
        send_strings(&p, WIRE_FORGET, NULL, 1, attempt);
    }
    globfree(&found);
    peer_close(&p);
}

static void send_judge(struct peer *p, const char *attempt, uint8_t verdict)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, WIRE_JUDGE);
    wire_put_string(&b, attempt);
    wire_put_u8(&b, verdict);
    wire_end(&b, frame);
    send_buf(p, &b);
}

/* The controller's note on an attempt stays in its record; but not for a live one, nor from a reader or an outdated
 * controller. */
static void test_judged(void **state)
{
    (void)state;
    struct peer p, reader, newer;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run_kind(&p, ID("1"), "launch", "while [ ! -e go ]; do sleep 0.01; done; exit 3", WIRE_KIND_LAUNCH);
    expect_started(&p, ID("1"));
    send_judge(&p, ID("1"), WIRE_VERDICT_GOOD);
    assert_non_null(strstr(expect_fault(&p), "not judged"));
    close(open(arena_printf(p.arena, "%s/go", p.facts.work_dir), O_WRONLY | O_CREAT, 0600));
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_string_equal(r.launch, PEER_LAUNCH);
    assert_int_equal(r.verdict, WIRE_VERDICT_NONE);
    assert_false(wire_record_success(&r));
    peer_open(&reader, WIRE_READ, OWNER_B);
    send_judge(&reader, ID("1"), WIRE_VERDICT_GOOD);
    assert_non_null(strstr(expect_fault(&reader), "only reads"));
    peer_close(&reader);
    send_judge(&p, ID("1"), WIRE_VERDICT_GOOD);
    r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    assert_int_equal(r.cause, WIRE_CAUSE_EXIT); /* it still says how it ended */
    peer_open(&newer, WIRE_TAKE_OVER, OWNER_B);
    send_judge(&p, ID("1"), WIRE_VERDICT_NONE);
    expect(&p, WIRE_FENCED);
    peer_free(&p);
    send_token(&newer, WIRE_LIST, 1);
    r = expect_record(&newer, WIRE_RECORD);
    assert_true(wire_record_success(&r));
    peer_close(&newer);
}

/* Its outcome is there, and its supervisor is held up before it releases the lock. */
static void test_forget_while_locked(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "x", "true");
    expect_started(&p, ID("1"));
    expect_record(&p, WIRE_EXIT);
    const char *path = attempt_path(&p, ID("1"), "status");
    int fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    send_strings(&p, WIRE_FORGET, NULL, 1, ID("1"));
    send_token(&p, WIRE_LIST, 1);
    expect(&p, WIRE_LISTED);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
    peer_close(&p);
}

/* ---- what breaks the protocol ---- */

static void expect_refusal(struct peer *p, const char *what)
{
    assert_non_null(strstr(expect_fault(p), what));
    assert_int_equal(peer_frame(p), 0);
    assert_int_equal(peer_wait(p), 1);
    peer_free(p);
}

static void test_malformed(void **state)
{
    (void)state;
    struct peer p;
    peer_start(&p);
    peer_magic(&p);
    assert_int_equal(write_all(p.fd, "\xff\xff\xff\xff\1\0\0\0", 8), 0);
    expect_refusal(&p, "malformed frame");

    peer_start(&p);
    peer_magic(&p);
    send_token(&p, WIRE_LIST, 1);
    expect_refusal(&p, "before HELLO");

    peer_open(&p, WIRE_OWN, OWNER_A);
    struct buf b = {0};
    size_t frame = wire_begin(&b, WIRE_RUN);
    wire_put_u32(&b, 12);
    wire_end(&b, frame);
    send_buf(&p, &b);
    expect_refusal(&p, "malformed request");

    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, "../../../../../../../../../../etc", "x", "echo no");
    expect_refusal(&p, "malformed request");

    peer_open(&p, WIRE_OWN, OWNER_A);
    send_hello(&p, WIRE_OWN, OWNER_A);
    expect_refusal(&p, "second HELLO");

    peer_open(&p, WIRE_OWN, OWNER_A);
    send_token(&p, WIRE_PONG, 1); /* the agent's own word */
    expect_refusal(&p, "malformed request");
}

static void test_other_version(void **state)
{
    (void)state;
    struct peer p;
    struct buf b = {0};
    peer_start(&p);
    peer_magic(&p);
    size_t frame = wire_begin(&b, WIRE_HELLO);
    wire_put_u32(&b, WIRE_VERSION + 1);
    wire_put_u32(&b, 12345);
    wire_end(&b, frame);
    send_buf(&p, &b);
    char want[64];
    snprintf(want, sizeof want, "protocol version %u is not supported", WIRE_VERSION + 1);
    expect_refusal(&p, want);
}

static void test_unlink(void **state)
{
    (void)state;
    if (getenv("RHRUN_TEST_AGENT"))
        skip();
    struct buf text = {0};
    struct error err = ERROR_INIT;
    char made[512], path[600];
    snprintf(made, sizeof made, "%s", in_folder("uploaded"));
    snprintf(path, sizeof path, "%s/rhrun-agent", made);
    assert_int_equal(mkdir(made, 0700), 0);
    assert_int_equal(file_read(agent_program(), 64 << 20, &text, &err), 0);
    assert_int_equal(file_write_atomic(path, text.data, text.len, 0700, &err), 0);
    buf_free(&text);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        if (chdir(made) == 0)
            execl("./rhrun-agent", "./rhrun-agent", "--unlink", (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(access(made, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hello_facts, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_held_and_adopted, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_held_by_live_attempt, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_take_over_fences, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_fenced_while_idle, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_base_fallback, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_base_named_unusable, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_run_echo, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_same_attempt_runs_once, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_busy_slot_and_stop, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_ping_during_output, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_two_streams_take_turns, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_list_check_settle_ack_forget, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_read_mode_refusals, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_half_made_claim, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_judged, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_forget_while_locked, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_malformed, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_other_version, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_unlink, setup, folder_remove),
    };
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
