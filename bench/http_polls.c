/*
 * http_polls URL CA_FILE COUNT ROUNDS: asks for URL COUNT times at once with module http, ROUNDS times in turn, and prints
 * "ROUND BYTES" of resident memory after each. Exit status 1 when a request had no answer of status 200.
 */
#include "rhrun/http.h"

#include <stdlib.h>
#include <unistd.h>

static int bad;

static void done(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    (void)arg;
    if (reply && reply->status == 200)
        return;
    bad++;
    fprintf(stderr, "%s\n", failure ? failure->error.text : "another status than 200");
}

static long resident(void)
{
    long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2)
        abort();
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    if (argc != 5)
        return 2;
    int count = atoi(argv[3]), rounds = atoi(argv[4]);
    struct loop *loop = loop_create();
    struct http_options options = {.ca_file = argv[2], .at_once = (unsigned)count};
    struct http *http = http_create(loop, &options, &err);
    for (int round = 0; http && round < rounds && *err.text == '\0'; round++) {
        struct http_request r = {.method = "GET", .url = argv[1]};
        for (int i = 0; i < count && http_send(http, &r, NULL, done, NULL, &err); i++)
            continue;
        loop_run(loop);
        printf("%d %ld\n", round, resident());
    }
    http_destroy(http);
    loop_destroy(loop);
    fputs(err.text, stderr);
    return bad || *err.text ? 1 : 0;
}
