/* http_ask METHOD URL [SOCKET]: sends one request with module http, for tests against services that the project did not
 * write. Prints the body as it comes (status 200 to 299), or "STATUS BODY" for another status. Exit status 1: no
 * answer, with the reason on standard error. Waits for the end of the answer, without a time limit. */
#include "rhrun/http.h"

static int status = 1;

static void sink(void *arg, const void *data, size_t len)
{
    (void)arg;
    fwrite(data, 1, len, stdout);
    fflush(stdout);
}

static void done(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    (void)arg;
    status = reply ? 0 : 1;
    if (failure)
        fprintf(stderr, "%s\n", failure->error.text);
    else if (reply->status / 100 != 2)
        printf("%d %s", reply->status, reply->body);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    if (argc < 3)
        return 2;
    struct loop *loop = loop_create();
    struct http *http = http_create(loop, NULL, &err);
    struct http_request r = {
        .method = argv[1], .url = argv[2], .unix_socket = argc > 3 ? argv[3] : NULL, .whole_ms = HTTP_NEVER};
    if (http && http_send(http, &r, sink, done, NULL, &err))
        loop_run(loop);
    else
        fprintf(stderr, "%s\n%s\n", err.text, err.hint);
    http_destroy(http);
    loop_destroy(loop);
    return status;
}
