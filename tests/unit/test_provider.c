/* provider: refused files, values that cannot leave their place in a request, replies of all kinds. */
#include "provider_scene.h"

/* ---- files ---- */

#define NOTICE(url, within) "idem: list\nnotice: {get: \"" url "\", is: x, within: " within "}"

static void test_faults_of_a_file_are_told_with_their_place(void **state)
{
    static const struct {
        const char *what, *by, *told;
    } cases[] = {
        {"deadline: none", "deadlin: none", "did you mean deadline?"},
        {"deadline: none", "deadline: nonsense", "small.yaml:8:"},
        {"{name: $name, text", "{name: $nam, text", "create has no input \"nam\""},
        {"{name: $name, text", "{name: $nam, text", "did you mean name?"},
        {"|b64}", "|b46}", "there is no filter \"b46\"; did you mean b64"},
        {"|b64}", "|trunc}", "trunc takes a number of bytes"},
        {"|b64}", "|b64", "${ is not closed"},
        {"<${name}>", "<$ name>", "a dollar is written $$"},
        {"{get: /m}", "{get: m}", "a path that begins with /"},
        {"{get: /m}", "{get: /m, post: /m}", "small.yaml"},
        {"{get: /m}", "{get: /m, json: {a: 1}}", "a GET has no body"},
        {"{get: /m}", "{get: /m, machines: servers}", "is not a JSON pointer"},
        {"{get: /m}", "{get: /m, extract: {x: {in: /a, least: b}}}", "is not a JSON pointer"},
        {"{get: /m}", "{get: /m, extract: {x: {get: /a, least: /b}}}", "least chooses among the items of a list"},
        {"{get: /m}", "{get: /m, reply: xml, machines: \"//a[\"}", "is not an XPath"},
        {"{get: /m}", "{get: /m, done_when: {present: /a}}", "done_when needs an operation poll"},
        {"{get: /m}", "{get: /m, errors: [{code: \"(\", class: quota}]}", "the pattern is faulty"},
        {"{get: /m}", "{get: /m, errors: [{code: a, class: quata}]}", "small.yaml:21"},
        {"{get: /m}", "{get: /m, query: {a: {$when: id}}}", "$when goes with $value"},
        {"{get: /m}", "{get: /m, query: {$id: 1}}", "a key is not a template"},
        {", machines: /m}", "}", "a list does not say where the machines are"},
        {", run: /run", "", "nothing says which run a machine belongs to"},
        {"extract: {id: /id}\n", "extract: {x: /id}\n", "create does not say which id the machine has"},
        {", machine: \"\"}", "}", "get does not say where the machine is"},
        {"value: token", "value: tokn", "auth uses the credential \"tokn\""},
        {"[{env: {token: SMALL_TOKEN}}]", "[{env: {token: small-token}}]", "the name of an environment variable"},
        {"base: https://", "base: file://", "an address that begins with https://"},
        {"risk: it", "risk: \"\\0\" #", "NUL"},
        {"idem: list", NOTICE("http://10.0.0.1/a", "1m"), "a machine asks itself only"},
        {"idem: list", NOTICE("http://169.254.1/a", "1m"), "a machine asks itself only"},
        {"idem: list", NOTICE("http://169.254.1.1:70000/a", "1m"), "the port is not a number"},
        {"idem: list", NOTICE("https://169.254.1.1/a", "1m"), "an address such as http://169.254.169.254/path"},
        {"idem: list", NOTICE("http://169.254.1.1/a b", "1m"), "an address such as http://169.254.169.254/path"},
        {"idem: list", NOTICE("http://metadata.internal/a", "1m"), "an address such as http://169.254.169.254/path"},
        {"idem: list", NOTICE("http://169.254.1.1/a", "9s"), "a machine stays for 10 s to 1 h after its notice"},
        {"idem: list", NOTICE("http://169.254.1.1/a", "1m, every: 50ms"),
         "rhrun asks for a notice every 100 ms at most"},
        {"idem: list", NOTICE("http://169.254.1.1/a", "1m, headers: {a: \"b\\r\\nc: d\"}"), "small.yaml:8:"},
        {"idem: list", NOTICE("http://169.254.1.1/a", "1m, token: {put: \"http://169.254.1.2/\", header: x}"),
         "the token and the notice come from"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf text = {0};
        assert_int_equal(load(f, replaced(f, small, cases[i].what, cases[i].by)), -1);
        diagnostics_format(&f->diagnostics, false, &text);
        if (!text.data || !strstr(text.data, cases[i].told))
            fail_msg("case %zu: \"%s\" is not in:\n%s", i, cases[i].told, text.data ? text.data : "");
        assert_true(f->diagnostics.errors > 0);
        assert_int_equal(f->err.code, ERROR_SPEC);
        buf_free(&text);
    }
    assert_int_equal(load(f, small), 0);
}

static void test_a_notice_is_two_requests(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, small), 0);
    assert_int_equal(provider_facts(f->provider)->notice.address, 0);
    assert_int_equal(load(f, replaced(f, small, "idem: list", NOTICE("http://127.0.0.1:81", "90"))), 0);
    const struct wire_notice *n = &provider_facts(f->provider)->notice;
    assert_string_equal(n->request, "GET / HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: rhrun\r\nConnection: close");
    assert_string_equal(n->token, "");
    assert_string_equal(n->who, "Small");
    assert_int_equal(n->port, 81);
    assert_int_equal(n->every_ms, 5000);
    assert_int_equal(n->within_ms, 90000);
    provider_destroy(f->provider);
    assert_int_equal(provider_load("aws", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    n = &provider_facts(f->provider)->notice;
    assert_true(n->address == 0xA9FEA9FE && n->port == 80 && n->within_ms == 120000);
    assert_string_equal(n->token, "PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\nUser-Agent: rhrun\r\n"
                                  "Connection: close\r\nContent-Length: 0\r\n"
                                  "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    assert_string_equal(n->request, "GET /latest/meta-data/spot/instance-action HTTP/1.1\r\nHost: 169.254.169.254\r\n"
                                    "User-Agent: rhrun\r\nConnection: close\r\nX-aws-ec2-metadata-token: ");
    provider_destroy(f->provider);
    assert_int_equal(provider_load("gcp", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    n = &provider_facts(f->provider)->notice;
    assert_string_equal(n->request, "GET /computeMetadata/v1/instance/preempted HTTP/1.1\r\nHost: 169.254.169.254\r\n"
                                    "User-Agent: rhrun\r\nConnection: close\r\nMetadata-Flavor: Google");
    assert_int_equal(n->within_ms, 30000);
}

static void test_a_name_that_nobody_has(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(provider_load("hetzer", f->arena, &f->provider, &f->diagnostics, &f->err), -1);
    assert_string_equal(f->err.text, "there is no provider \"hetzer\"");
    assert_string_equal(f->err.hint, "did you mean hetzner?");
    assert_int_equal(provider_load("../x", f->arena, &f->provider, &f->diagnostics, &f->err), -1);
    assert_int_equal(provider_load("", f->arena, &f->provider, &f->diagnostics, &f->err), -1);
}

static void test_the_users_file_wins(void **state)
{
    struct fixture *f = *state;
    char *folder = temp_folder(f), *below = arena_printf(f->arena, "%s/rhrun/providers", folder);
    char *path = arena_printf(f->arena, "%s/hetzner.yaml", below),
         *own = arena_printf(f->arena, "%s/zebra.yaml", below);
    assert_int_equal(mkdir_p(below, 0700, &f->err), 0);
    write_file(path, small);
    write_file(own, small);
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(provider_load("hetzner", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    assert_string_equal(provider_facts(f->provider)->title, "Small");
    const char *const *names = provider_list(f->arena);
    size_t count = 0, hetzner = 0;
    for (; names[count]; count++)
        hetzner += str_eq(names[count], "hetzner");
    assert_int_equal(hetzner, 1);
    assert_string_equal(names[count - 1], "zebra");
    unlink(path);
    unlink(own);
    rmdir(below);
    rmdir(arena_printf(f->arena, "%s/rhrun", folder));
    rmdir(folder);
}

/* ---- values stay in their place ---- */

static uint64_t rng = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % n;
}

/* Any bytes, often those with a special meaning somewhere. */
static struct doc_node *random_text(struct arena *arena)
{
    static const char *const parts[] = {"\"",  "\\", "\n", "\r\n", "$",  "${name}", "$$", "&",    "=",
                                        "?",   "#",  "/",  "..",   ".",  "%",       "é",  " ",    "<",
                                        "]]>", "{",  "}",  "'",    "\t", "+",       "a",  "\xff", "://"};
    struct buf text = {0};
    for (uint32_t i = 0, n = below(8); i < n; i++) {
        if (below(6) == 0)
            buf_putc(&text, (char)below(256));
        else
            buf_puts(&text, parts[below(ARRAY_LEN(parts))]);
    }
    struct doc_node *node = doc_new_stringn(arena, text.data ? text.data : "", text.len);
    buf_free(&text);
    return node;
}

static struct buf decoded(const char *text, size_t len)
{
    struct buf out = {0};
    buf_puts(&out, "");
    for (size_t i = 0; i < len; i++) {
        char hex[3] = {0};
        if (text[i] == '%' && i + 2 < len + 0 + 1) {
            hex[0] = text[i + 1];
            hex[1] = text[i + 2];
            buf_putc(&out, (char)strtoul(hex, NULL, 16));
            i += 2;
        } else {
            buf_putc(&out, text[i] == '+' ? ' ' : text[i]);
        }
    }
    return out;
}

static void assert_is(const struct buf *got, const char *before, const struct doc_node *value, const char *after)
{
    struct buf wanted = {0};
    buf_puts(&wanted, before);
    buf_append(&wanted, value->text, value->text_len);
    buf_puts(&wanted, after);
    assert_int_equal(got->len, wanted.len);
    assert_memory_equal(got->data, wanted.data, wanted.len);
    buf_free(&wanted);
}

static void check_create(struct fixture *f, const struct provider_request *r, const struct doc_node *name)
{
    static const char base[] = "https://eu-1.example.com/v1/m/";
    struct doc *doc;
    assert_int_equal(strncmp(r->url, base, strlen(base)), 0);
    const char *path = r->url + strlen(base), *query = strchr(path, '?');
    assert_non_null(query);
    assert_null(memchr(path, '/', (size_t)(query - path)));
    for (const char *c = r->url; *c; c++)
        assert_true((unsigned char)*c > 32 && (unsigned char)*c < 127 && *c != '"' && *c != '#');
    struct buf got = decoded(path, (size_t)(query - path));
    assert_is(&got, "", name, "");
    buf_free(&got);
    const char *and = strchr(query, '&');
    got = decoded(query + 1, (size_t)(and-query - 1));
    assert_is(&got, "q=", name, "");
    buf_free(&got);
    assert_null(strchr(and+1, '&'));
    assert_int_equal(
        doc_load_text("b", r->body, r->body_len, DOC_FORMAT_JSON, f->arena, &doc, &f->diagnostics, &f->err), 0);
    assert_int_equal(doc->root->count, 4);
    assert_true(doc_equal(doc_get(doc->root, "name"), name));
    assert_int_equal(doc_get(doc->root, "list")->count, 1);
    assert_true(doc_equal(doc_get(doc->root, "list")->items[0], name));
    const struct doc_node *text = doc_get(doc->root, "text");
    struct buf whole = {0};
    buf_append(&whole, text->text, text->text_len);
    assert_is(&whole, "<", name, ">");
    buf_free(&whole);
    for (size_t i = 0; i < r->header_count; i++)
        assert_true(str_is_printable(r->headers[i].value));
}

static bool is_utf8(const struct doc_node *n)
{
    for (size_t i = 0; i < n->text_len;) {
        size_t step = utf8_length((const unsigned char *)n->text + i, n->text_len - i);
        if (!step)
            return false;
        i += step;
    }
    return true;
}

static bool has_control(const struct doc_node *n)
{
    for (size_t i = 0; i < n->text_len; i++)
        if ((unsigned char)n->text[i] < 32 || n->text[i] == 127)
            return true;
    return false;
}

static void test_no_value_changes_what_stands_around_it(void **state)
{
    struct fixture *f = *state;
    size_t described = 0;
    assert_int_equal(load(f, small), 0);
    for (int i = 0; i < 20000; i++) {
        struct arena *arena = arena_create();
        struct doc_node *inputs = doc_new_object(arena), *name = random_text(arena);
        struct provider_request r;
        doc_set(arena, inputs, "name", name);
        doc_set(arena, inputs, "user_data", random_text(arena));
        doc_set(arena, inputs, "region", doc_new_string(arena, "eu-1"));
        if (!doc_get(inputs, "user_data")->text_len)
            doc_set(arena, inputs, "user_data", doc_new_string(arena, "x"));
        const struct provider_ask ask = {.operation = PROVIDER_CREATE, .inputs = inputs};
        bool refused = name->text_len == 0 || !is_utf8(name) || has_control(name) || str_eq(name->text, ".") ||
                       str_eq(name->text, "..");
        struct error err = ERROR_INIT;
        int rc = provider_request(f->provider, &ask, arena, &r, &err);
        assert_int_equal(rc, refused ? -1 : 0);
        assert_int_equal(err.code, refused ? ERROR_SPEC : ERROR_NONE);
        if (rc == 0) {
            struct fixture scratch = {.arena = arena};
            check_create(&scratch, &r, name);
            described++;
        }
        arena_destroy(arena);
    }
    assert_true(described > 3000);
}

static void test_a_form_holds_any_bytes(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, small), 0);
    for (int i = 0; i < 5000; i++) {
        struct arena *arena = arena_create();
        struct doc_node *inputs = doc_new_object(arena), *id = random_text(arena);
        struct provider_request r;
        doc_set(arena, inputs, "id", id);
        doc_set(arena, inputs, "region", doc_new_string(arena, "eu-1"));
        const struct provider_ask ask = {.operation = PROVIDER_GET, .inputs = inputs};
        if (id->text_len) {
            assert_int_equal(provider_request(f->provider, &ask, arena, &r, &f->err), 0);
            const char *and = strchr(r.body, '&');
            assert_non_null(and);
            assert_null(strchr(and+1, '&'));
            struct buf got = decoded(r.body, (size_t)(and-r.body));
            assert_is(&got, "a=", id, "");
            buf_free(&got);
            got = decoded(and+1, strlen(and+1));
            assert_is(&got, "b.1.c=", id, "");
            buf_free(&got);
        }
        arena_destroy(arena);
    }
}

static void test_a_host_takes_letters_only(void **state)
{
    static const char *const bad[] = {"a.b", "evil.com/", "a@b", "A", "", "a b", "-a", "x\nhost: y"};
    struct fixture *f = *state;
    assert_int_equal(load(f, small), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct doc_node *inputs = doc_new_object(f->arena);
        struct provider_request r;
        doc_set(f->arena, inputs, "region", doc_new_string(f->arena, bad[i]));
        const struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = inputs};
        assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), -1);
        assert_non_null(strstr(f->err.text, "region"));
    }
}

static char *filtered(struct fixture *f, const char *filters, const struct doc_node *value)
{
    struct doc_node *inputs = doc_new_object(f->arena);
    struct provider_request r;
    char *by = arena_printf(f->arena, "{get: /m, query: {a: \"${run|%s}\"}}", filters);
    assert_int_equal(load(f, replaced(f, small, "{get: /m}", by)), 0);
    doc_set(f->arena, inputs, "region", doc_new_string(f->arena, "r"));
    doc_set(f->arena, inputs, "run", doc_clone(f->arena, value));
    const struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = inputs};
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), 0);
    struct buf got = decoded(strchr(r.url, '=') + 1, strlen(strchr(r.url, '=') + 1));
    char *ret = arena_strdup(f->arena, got.data);
    buf_free(&got);
    return ret;
}

static void test_filters(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *text = doc_new_string(f->arena, "Äb_C d.");
    assert_string_equal(filtered(f, "b64", doc_new_string(f->arena, "a")), "YQ==");
    assert_string_equal(filtered(f, "b64", doc_new_string(f->arena, "abcd")), "YWJjZA==");
    assert_string_equal(filtered(f, "trunc(1)", text), "");
    assert_string_equal(filtered(f, "trunc(3)", text), "Äb");
    assert_string_equal(filtered(f, "label_safe", text), "b_c-d");
    assert_string_equal(filtered(f, "json", doc_new_int(f->arena, 7)), "7");
    assert_string_equal(filtered(f, "trunc(2)|json", doc_new_string(f->arena, "\"ab")), "\"\\\"a\"");
    assert_string_equal(filtered(f, "sha256|trunc(8)", doc_new_string(f->arena, "abc")), "ba7816bf");
    assert_true(str_starts(filtered(f, "gzip|b64", text), "H4sI"));
}

/* ---- replies ---- */

static void judge_reply(struct fixture *f, const char *body, size_t len, struct provider_result *ret)
{
    const struct provider_ask ask = {.operation = PROVIDER_STOCK};
    const struct provider_reply reply = {.status = 200, .body = body, .body_len = len};
    provider_reply(f->provider, &ask, &reply, f->arena, ret);
}

static void test_huge_and_deep_replies_are_refused(void **state)
{
    struct fixture *f = *state;
    struct provider_result result;
    struct buf text = {0};
    assert_int_equal(load(f, replaced(f, small, "{get: /m}", "{get: /m, machines: \"\"}")), 0);
    for (int i = 0; i < 100000; i++)
        buf_putc(&text, '[');
    judge_reply(f, text.data, text.len, &result);
    assert_int_equal(result.outcome, PROVIDER_FAILED);
    assert_true(result.unsure);
    buf_clear(&text);
    buf_puts(&text, "[");
    for (uint32_t i = 0; i <= PROVIDER_ITEMS_MAX; i++)
        buf_puts(&text, i ? ",{\"id\":1,\"status\":\"up\"}" : "{\"id\":1,\"status\":\"up\"}");
    buf_puts(&text, "]");
    judge_reply(f, text.data, text.len, &result);
    assert_int_equal(result.outcome, PROVIDER_FAILED);
    assert_int_equal(result.machine_count, 0);
    buf_reserve(&text, PROVIDER_REPLY_MAX + 2);
    while (text.len <= PROVIDER_REPLY_MAX)
        buf_putc(&text, ' ');
    judge_reply(f, text.data, text.len, &result);
    assert_string_equal(result.message, "the reply is too large");
    buf_free(&text);
}

static void test_xml_with_a_dtd_is_refused(void **state)
{
    static const char *const bad[] = {
        "<!DOCTYPE a [<!ENTITY b \"cccc\">]><a><i><id>&b;</id></i></a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<?xml version=\"1.0\" encoding=\"UTF-7\"?>+ADwAIQ-DOCTYPE a+AD4-<a/>",
        "<a><i><id>&unknown;</id></i></a>",
        "<a><i>",
        "",
        "\xff\xfe<\0a\0/\0>\0",
    };
    struct fixture *f = *state;
    struct provider_result result;
    char *file = replaced(f, small, "{get: /m}", "{get: /m, reply: xml, machines: //i}");
    file = replaced(f, file, "{id: /id, status: /status, run: /run}", "{id: id, status: status, run: run}");
    file = replaced(f, file, "machine: \"\"", "machine: /a");
    file = replaced(f, file, "title: Small", "title: Small\nreply: xml");
    assert_int_equal(load(f, file), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        judge_reply(f, bad[i], strlen(bad[i]), &result);
        assert_int_equal(result.outcome, PROVIDER_FAILED);
        assert_int_equal(result.machine_count, 0);
    }
    struct buf deep = {0};
    for (int i = 0; i < 5000; i++)
        buf_puts(&deep, "<a>");
    for (int i = 0; i < 5000; i++)
        buf_puts(&deep, "</a>");
    judge_reply(f, deep.data, deep.len, &result);
    assert_int_equal(result.outcome, PROVIDER_FAILED);
    buf_free(&deep);
}

static void test_the_next_page_stays_at_its_host(void **state)
{
    static const struct {
        const char *next;
        bool good;
    } cases[] = {
        {"https://eu-1.example.com/v1/m?page=2", true}, {"https://evil.com/v1/m?page=2", false},
        {"https://eu-1.example.com.evil.com/", false},  {"https://eu-1.example.com@evil.com/", false},
        {"http://eu-1.example.com/v1/m", false},        {"https://eu-1.example.com/\\n", true},
        {"https://eu-1.example.com/ x", false},
    };
    struct fixture *f = *state;
    const char *page = "{get: /m, machines: /m, page: {kind: next_url, at: /next}}";
    assert_int_equal(load(f, replaced(f, small, "{get: /m}", page)), 0);
    struct doc_node *inputs = doc_new_object(f->arena);
    doc_set(f->arena, inputs, "region", doc_new_string(f->arena, "eu-1"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = inputs};
        char *body = arena_printf(f->arena, "{\"m\":[],\"next\":\"%s\"}", cases[i].next);
        const struct provider_reply reply = {.status = 200, .body = body, .body_len = strlen(body)};
        struct provider_result result;
        struct provider_request request;
        provider_reply(f->provider, &ask, &reply, f->arena, &result);
        bool good = !strstr(cases[i].next, "\\n") && cases[i].good;
        assert_int_equal(result.outcome, good ? PROVIDER_DONE : PROVIDER_FAILED);
        ask.page = cases[i].next;
        int rc = provider_request(f->provider, &ask, f->arena, &request, &f->err);
        assert_int_equal(rc, cases[i].good ? 0 : -1);
        if (good)
            assert_string_equal(request.url, cases[i].next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faults_of_a_file_are_told_with_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_notice_is_two_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_name_that_nobody_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_users_file_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_value_changes_what_stands_around_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_form_holds_any_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_host_takes_letters_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge_and_deep_replies_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_xml_with_a_dtd_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_next_page_stays_at_its_host, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
