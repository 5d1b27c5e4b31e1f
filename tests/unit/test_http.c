/* http: requests, answers, and trust; against a server of its own (tests/fixtures/http). */
#include "http_scene.h"

static void test_what_is_sent(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    struct http_header headers[] = {{"X-One", "a b"}, {"Accept", "text/plain"}};
    ask(s, &g, &(struct http_request){.url = plain("/echo/x?q=1&r=%20"), .headers = headers, .header_count = 2});
    assert_int_equal(g.status, 200);
    assert_int_equal(g.version, 11);
    expect_text(g.body.data, "GET /echo/x?q=1&r=%20\n");
    expect_text(g.body.data, "X-One: a b\n");
    expect_text(g.body.data, "Accept: text/plain\n");
    expect_text(g.body.data, "User-Agent: rhrun/");
    ask(s, &g, &(struct http_request){.method = "HEAD", .url = tls("/echo")});
    assert_int_equal(g.status, 200);
    assert_int_equal(g.body.len, 1);
    struct http_header typed = {"Content-Type", "application/octet-stream"};
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "GET"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        char line[64];
        ask(s, &g,
            &(struct http_request){.method = methods[i],
                                   .url = plain("/echo"),
                                   .headers = &typed,
                                   .header_count = 1,
                                   .body = "a\0b",
                                   .body_len = 3});
        snprintf(line, sizeof(line), "%s /echo\n", methods[i]);
        expect_text(g.body.data, line);
        expect_text(g.body.data, "Content-Type: application/octet-stream\n");
        assert_memory_equal(g.body.data + g.body.len - 7, "[3]a\0b", 7);
        ask(s, &g, &(struct http_request){.method = methods[i], .url = plain("/echo")});
        expect_text(g.body.data, line);
        expect_text(g.body.data, "\n\n[0]");
        assert_null(strstr(g.body.data, "Content-Type"));
    }
    forget(&g);
}

static void test_large_body(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    struct http_header typed = {"Content-Type", "x/y"};
    char *body = xmalloc(HTTP_BODY_MAX);
    memset(body, 'z', HTTP_BODY_MAX);
    ask(s, &g,
        &(struct http_request){.method = "POST",
                               .url = tls("/echo"),
                               .headers = &typed,
                               .header_count = 1,
                               .body = body,
                               .body_len = HTTP_BODY_MAX});
    assert_int_equal(g.status, 200);
    assert_null(strstr(g.body.data, "Expect"));
    expect_text(g.body.data, "[1048576]zzz");
    free(body);
    forget(&g);
}

static void test_credentials(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    ask(s, &g, &(struct http_request){.url = tls("/echo"), .auth = {.kind = HTTP_AUTH_BEARER, .secret = "t0k"}});
    expect_text(g.body.data, "Authorization: Bearer t0k\n");
    ask(s, &g, &(struct http_request){.url = tls("/echo"), .auth = {HTTP_AUTH_BASIC, .name = "me", .secret = "p:w"}});
    expect_text(g.body.data, "Authorization: Basic bWU6cDp3\n");
    ask(s, &g,
        &(struct http_request){.url = tls("/echo"), .auth = {HTTP_AUTH_HEADER, .name = "X-Key", .secret = "k1"}});
    expect_text(g.body.data, "X-Key: k1\n");
    assert_null(strstr(g.body.data, "Authorization"));
    forget(&g);
}

static void test_signature(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    struct http_header typed = {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"};
    struct http_request r = {.method = "POST",
                             .url = tls("/sign/"),
                             .headers = &typed,
                             .header_count = 1,
                             .body = "Action=DescribeInstances&Version=2016-11-15",
                             .body_len = 43,
                             .auth = {HTTP_AUTH_SIGV4, .name = "AKIDEXAMPLE",
                                      .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", .region = "us-east-1",
                                      .service = "ec2"}};
    ask(s, &g, &r);
    assert_string_equal(g.body.data, "good us-east-1 ec2");
    r.auth.session = "session/token==";
    ask(s, &g, &r);
    assert_string_equal(g.body.data, "good us-east-1 ec2");
    r.auth.secret = "another";
    ask(s, &g, &r);
    assert_int_equal(g.status, 403);
    expect_text(g.body.data, "x-amz-security-token:session/token==");
    r = (struct http_request){.url = tls("/sign/a?Action=x&Version=1"), .auth = r.auth};
    r.auth.secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    ask(s, &g, &r);
    assert_string_equal(g.body.data, "good us-east-1 ec2");
    forget(&g);
}

static void test_rules(void **state)
{
    struct scene *s = *state;
    struct http_header split = {"X", "a\r\nY: b"}, ours = {"content-length", "1"}, bad = {"X y", "a"},
                       empty = {"X", ""};
    struct {
        struct http_request r;
        const char *text;
    } cases[] = {
        {{.method = "GET", .url = NULL}, "URL of an HTTP request is missing"},
        {{.method = "GET", .url = "https://a b/"}, "not valid"},
        {{.method = "GET", .url = "https://u:s3cret@h/"}, "has a user or a password"},
        {{.method = "GET", .url = "file:///etc/passwd"}, "no host"},
        {{.method = "GET", .url = "ftp://h/x"}, "neither https nor http"},
        {{.method = "GET", .url = "http://api.example/x?s3cret"},
         "GET http://api.example/x: \"api.example\" is not this machine"},
        {{.method = "GET", .url = "http://127.0.0.1.example/"}, "is not this machine"},
        {{.method = "GET\r\nX", .url = "https://h/"}, "not a method"},
        {{.method = "GET", .url = "https://h/", .headers = &split, .header_count = 1}, "control characters"},
        {{.method = "GET", .url = "https://h/", .headers = &ours, .header_count = 1},
         "cannot be set by an HTTP request"},
        {{.method = "GET", .url = "https://h/", .headers = &bad, .header_count = 1}, "\"X y\" is not a name"},
        {{.method = "GET", .url = "https://h/", .headers = &empty, .header_count = 1}, "is empty"},
        {{.method = "GET", .url = "https://h/", .header_count = 101}, "101 headers, more than 100"},
        {{.method = "POST", .url = "https://h/", .body = "x", .body_len = 1}, "no Content-Type"},
        {{.method = "POST", .url = "https://h/", .body = "x", .body_len = HTTP_BODY_MAX + 1}, "more than 1048576"},
        {{.method = "GET", .url = "https://h/", .auth = {HTTP_AUTH_BEARER, .secret = "s3cret\n"}},
         "control characters"},
        {{.method = "GET", .url = "https://h/", .auth = {.kind = HTTP_AUTH_BEARER}}, "is empty"},
        {{.method = "GET", .url = "https://h/", .auth = {HTTP_AUTH_BASIC, .name = "a:b", .secret = "s3cret"}}, "colon"},
        {{.method = "GET",
          .url = "https://h/",
          .auth = {HTTP_AUTH_SIGV4, .name = "a", .secret = "s3cret", .region = "x:y"}},
         "region \"x:y\""},
        {{.method = "GET", .url = "https://h/", .group = ""}, "throttle"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        assert_null(http_send(s->http, &cases[i].r, NULL, done, NULL, &err));
        assert_int_equal(err.code, ERROR_USAGE);
        expect_text(err.text, cases[i].text);
        assert_null(strstr(err.text, "s3cret"));
    }
    char *socket = xmalloc(300);
    memset(socket, 's', 299);
    socket[299] = '\0';
    struct error err = ERROR_INIT;
    assert_null(http_send(s->http, &(struct http_request){.method = "GET", .url = "http://d/", .unix_socket = socket},
                          NULL, done, NULL, &err));
    expect_text(err.text, "longer than 107 bytes");
    free(socket);
}

static void test_answer(void **state)
{
    struct scene *s = *state;
    struct got g = {.want_header = "x-multi"};
    ask(s, &g, &(struct http_request){.url = plain("/status/404?X-Multi=one&X-Multi=two")});
    assert_int_equal(g.status, 404);
    assert_string_equal(g.body.data, "told");
    assert_string_equal(g.header, "one");
    assert_int_equal(g.header_count, 3);
    assert_int_equal(g.retry_after_ms, -1);
    g.want_header = "early";
    ask(s, &g, &(struct http_request){.url = plain("/continue")});
    assert_int_equal(g.status, 200);
    assert_string_equal(g.header, "");
    assert_int_equal(g.header_count, 2);
    g.want_header = "trailer";
    ask(s, &g, &(struct http_request){.url = plain("/chunked/100/1000")});
    assert_int_equal(g.body.len, 100001);
    assert_string_equal(g.header, "");
    forget(&g);
}

static void test_retry_after(void **state)
{
    struct scene *s = *state;
    struct {
        const char *query;
        int64_t ms;
    } cases[] = {
        {"Retry-After=7", 7000},
        {"Retry-After=0", 0},
        {"Retry-After=99999999", HTTP_RETRY_AFTER_MAX_MS},
        {"Retry-After=99999999999999999999999", -1},
        {"Retry-After=-3", -1},
        {"Retry-After=soon", -1},
        {"Retry-After=Wed,%2021%20Oct%202015%2007:28:30%20GMT", 0},
        {"Retry-After=Wed,%2021%20Oct%202015%2007:28:30%20GMT&Date=Wed,%2021%20Oct%202015%2007:28:00%20GMT", 30000},
        {"Retry-After=Wed,%2021%20Oct%202099%2007:28:30%20GMT", HTTP_RETRY_AFTER_MAX_MS},
    };
    struct got g = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[256];
        snprintf(path, sizeof(path), "/status/429?%s", cases[i].query);
        ask(s, &g, &(struct http_request){.url = plain(path)});
        assert_int_equal(g.status, 429);
        assert_int_equal(g.retry_after_ms, cases[i].ms);
    }
    forget(&g);
}

static void test_bounds(void **state)
{
    struct scene *s = *state;
    static const char *const paths[] = {"/huge/1000000", "/endless"};
    struct got g = {0};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        ask(s, &g, &(struct http_request){.url = tls(paths[i]), .reply_max = 300000});
        expect_failure(&g, HTTP_PHASE_TOO_LARGE, "");
        assert_int_equal(g.failure.error.code, ERROR_PROTOCOL);
        expect_text(g.failure.error.text, "the answer is larger than 300000 bytes");
    }
    ask(s, &g, &(struct http_request){.url = plain("/chunked/3/100000"), .reply_max = 300000});
    assert_int_equal(g.body.len, 300001);
    ask(s, &g, &(struct http_request){.url = plain("/headers/99/10")});
    assert_int_equal(g.header_count, 100);
    ask(s, &g, &(struct http_request){.url = plain("/headers/100/10")});
    expect_failure(&g, HTTP_PHASE_TOO_LARGE, "");
    ask(s, &g, &(struct http_request){.url = plain("/headers/9/10000")});
    expect_failure(&g, HTTP_PHASE_TOO_LARGE, "");
    expect_text(g.failure.error.text, "more than 100 headers, or 65536 bytes");
    forget(&g);
}

static void test_sink(void **state)
{
    struct scene *s = *state;
    struct got g = {.stream = true}, other = {0};
    ask(s, &g, &(struct http_request){.url = tls("/chunked/500/3000")});
    assert_int_equal(g.sunk.len, 1500000);
    assert_int_equal(g.body.len, 1);
    ask(s, &g, &(struct http_request){.url = plain("/status/500")});
    assert_int_equal(g.sunk.len, 0);
    assert_string_equal(g.body.data, "told");
    /* A line comes before the next one is written. */
    forget(&g);
    begin(s, &g, &(struct http_request){.url = plain("/lines/3")});
    for (int i = 1; i <= 3; i++) {
        while (g.pieces < i)
            loop_run(s->loop);
        begin(s, &other, &(struct http_request){.url = plain("/release")});
        wait_for(s, &other);
        forget(&other);
    }
    drain(s);
    assert_int_equal(g.times, 1);
    buf_putc(&g.sunk, '\0');
    assert_string_equal(g.sunk.data, "{\"line\": 0}\n{\"line\": 1}\n{\"line\": 2}\n");
    forget(&g);
}

static void test_trust(void **state)
{
    struct scene *s = *state;
    struct {
        int port;
        const char *text;
    } cases[] = {
        {server.wrong, "is for another name than \"127.0.0.1\""},
        {server.expired, "is not trusted: certificate has expired"},
        {server.stranger, "is not trusted: unable to get local issuer certificate"},
    };
    struct got g = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ask(s, &g,
            &(struct http_request){.url = url_of("https", cases[i].port, "/echo?s3cret"),
                                   .auth = {HTTP_AUTH_BEARER, .secret = "s3cret"}});
        expect_failure(&g, HTTP_PHASE_TRUST, "");
        assert_int_equal(g.failure.error.why, ERROR_WHY_CERTIFICATE);
        assert_false(g.failure.sent);
        expect_text(g.failure.error.text, cases[i].text);
        expect_text(g.failure.error.text, "GET https://127.0.0.1:");
        assert_null(strstr(g.failure.error.text, "s3cret"));
    }
    ask(s, &g,
        &(struct http_request){.url = url_of("https", server.stranger, "/echo"), .ca_file = in_folder("other.pem")});
    assert_int_equal(g.status, 200);
    /* Only the named one is trusted. */
    ask(s, &g, &(struct http_request){.url = tls("/echo"), .ca_file = in_folder("other.pem")});
    expect_failure(&g, HTTP_PHASE_TRUST, "");
    ask(s, &g, &(struct http_request){.url = tls("/echo"), .ca_file = in_folder("good.key")});
    expect_text(g.failure.error.text, "good.key\" cannot be used");
    ask(s, &g, &(struct http_request){.url = url_of("https", server.plain, "/echo")});
    expect_failure(&g, HTTP_PHASE_TLS, "");
    forget(&g);
}

static void test_trust_by_environment(void **state)
{
    struct scene *s = *state;
    struct error err = ERROR_INIT;
    struct got g = {0};
    static const char *const names[] = {"SSL_CERT_FILE", "RHRUN_CA_FILE"};
    http_destroy(s->http);
    s->http = http_create(s->loop, NULL, &err);
    ask(s, &g, &(struct http_request){.url = tls("/echo")});
    expect_failure(&g, HTTP_PHASE_TRUST, "");
    setenv("SSL_CERT_FILE", "/nonexistent/of-the-system.pem", 1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) { /* the second one is sent before the first */
        setenv(names[i], "/nonexistent/ca.pem", 1);
        assert_null(http_create(s->loop, NULL, &err));
        assert_int_equal(err.code, ERROR_IO);
        expect_text(err.text, "cannot read the CA file \"/nonexistent/ca.pem\"");
        expect_text(err.hint, names[i]);
        setenv(names[i], in_folder("ca.pem"), 1);
        http_destroy(s->http);
        s->http = http_create(s->loop, NULL, &err);
        ask(s, &g, &(struct http_request){.url = tls("/echo")});
        assert_int_equal(g.status, 200);
    }
    unsetenv(names[0]);
    unsetenv(names[1]);
    forget(&g);
}

static void test_client_certificate(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    const char *url = url_of("https", server.mutual, "/echo");
    ask(s, &g,
        &(struct http_request){.url = url, .cert_file = in_folder("client.pem"), .key_file = in_folder("client.key")});
    assert_int_equal(g.status, 200);
    ask(s, &g, &(struct http_request){.url = url});
    expect_failure(&g, HTTP_PHASE_TLS, "TLS failed: tlsv13 alert certificate required");
    expect_text(g.failure.error.hint, "client certificate");
    ask(s, &g, &(struct http_request){.url = url, .cert_file = "/nonexistent/client.pem"});
    expect_failure(&g, HTTP_PHASE_TLS, "");
    expect_text(g.failure.error.text, "client certificate \"/nonexistent/client.pem\"");
    forget(&g);
}

static void test_unix_socket(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    ask(s, &g, &(struct http_request){.url = "http://docker/echo", .unix_socket = in_folder("socket")});
    assert_int_equal(g.status, 200);
    expect_text(g.body.data, "Host: docker\n");
    ask(s, &g, &(struct http_request){.url = "http://docker/echo", .unix_socket = in_folder("none")});
    unsetenv("http_proxy");
    expect_failure(&g, HTTP_PHASE_CONNECT, "");
    assert_false(g.failure.sent);
    expect_text(g.failure.error.text, "GET http://docker/echo: could not connect to the socket \"");
    expect_text(g.failure.error.text, "none\": No such file or directory");
    forget(&g);
}

static void test_redirects(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    ask(s, &g, &(struct http_request){.url = plain("/around/4"), .auth = {HTTP_AUTH_BEARER, .secret = "t0k"}});
    assert_int_equal(g.status, 200);
    expect_text(g.body.data, "GET /echo\n");
    expect_text(g.body.data, "Bearer t0k");
    ask(s, &g, &(struct http_request){.url = plain("/around/5")});
    expect_failure(&g, HTTP_PHASE_REDIRECT, "");
    expect_text(g.failure.error.text, "too many");
    char to[256], path[300];
    snprintf(to, sizeof(to), "http://localhost:%d/never?s3cret", server.plain);
    snprintf(path, sizeof(path), "/redirect?%s", to);
    ask(s, &g, &(struct http_request){.url = plain(path)});
    expect_failure(&g, HTTP_PHASE_REDIRECT, "");
    expect_text(g.failure.error.text, "redirects to http://localhost, which is not followed: that is elsewhere");
    assert_null(strstr(g.failure.error.text, "s3cret"));
    static const char *const others[] = {"/redirect?https://127.0.0.1/never", "/redirect?ftp://127.0.0.1/never",
                                         "/redirect?http://u:p@127.0.0.1/never"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ask(s, &g, &(struct http_request){.url = plain(others[i])});
        expect_failure(&g, HTTP_PHASE_REDIRECT, "");
    }
    ask(s, &g, &(struct http_request){.method = "POST", .url = plain("/redirect/307?/never")});
    expect_failure(&g, HTTP_PHASE_REDIRECT, "");
    assert_int_equal(count_of(s, plain("/hits?/never")), 0);
    forget(&g);
}

static void test_proxy(void **state)
{
    struct scene *s = *state;
    struct got g = {.want_header = "proxy-says"};
    char by[64];
    snprintf(by, sizeof(by), "http://user:s3cret@127.0.0.1:%d", server.proxy);
    setenv("http_proxy", by, 1);
    setenv("https_proxy", by, 1);
    ask(s, &g, &(struct http_request){.url = "http://api.invalid/x", .plain = true});
    assert_string_equal(g.body.data, "proxied http://api.invalid/x");
    ask(s, &g, &(struct http_request){.url = plain("/echo")});
    expect_text(g.body.data, "GET /echo\n");
    snprintf(by, sizeof(by), "https://localhost:%d/echo", server.tls);
    ask(s, &g, &(struct http_request){.url = by});
    assert_int_equal(g.status, 200);
    assert_string_equal(g.header, "");
    ask(s, &g, &(struct http_request){.url = "https://api.invalid/x"});
    expect_failure(&g, HTTP_PHASE_PROXY, "");
    expect_text(g.failure.error.text, "the proxy refused to connect to \"api.invalid\", with status 403");
    assert_false(g.failure.sent);
    snprintf(by, sizeof(by), "http://127.0.0.1:%d", server.mute);
    setenv("https_proxy", by, 1);
    ask(s, &g, &(struct http_request){.url = "https://api.invalid/x", .connect_ms = 50});
    assert_int_equal(g.failure.error.code, ERROR_TIMEOUT);
    assert_false(g.failure.sent);
    snprintf(by, sizeof(by), "https://localhost:%d/echo", server.tls);
    setenv("https_proxy", "http://user:s3cret@127.0.0.1:1", 1);
    ask(s, &g, &(struct http_request){.url = "https://api.invalid/x"});
    expect_failure(&g, HTTP_PHASE_PROXY, "");
    assert_null(strstr(g.failure.error.text, "s3cret"));
    setenv("no_proxy", "localhost", 1);
    ask(s, &g, &(struct http_request){.url = by});
    assert_int_equal(g.status, 200);
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    unsetenv("no_proxy");
    forget(&g);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_sent),
        TEST(test_large_body),
        TEST(test_credentials),
        TEST(test_signature),
        TEST(test_rules),
        TEST(test_answer),
        TEST(test_retry_after),
        TEST(test_bounds),
        TEST(test_sink),
        TEST(test_trust),
        TEST(test_trust_by_environment),
        TEST(test_client_certificate),
        TEST(test_unix_socket),
        TEST(test_redirects),
        TEST(test_proxy),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
