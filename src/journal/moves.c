/*
 * A job that was renamed, or whose spec moved, keeps its history. The history stays where it is, under the old id, on
 * this machine and on nodes; two files record that another name and origin mean it:
 *
 *   jobs/NEW/adopts OLD, the name and origin that OLD was made from, and its last name, each ended by NUL
 *   jobs/OLD/adopted-by NEW, and its name: a spec with the old name and origin is a different job now
 *
 * The first file decides, and is durable before anything else; the second follows, then the name in the journal, which
 * is for people. After a kill in the middle no job has lost its history, and the same command completes the rest.
 */
#include "internal.h"

#include "rhrun/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOVE_MAX = 65536, ID_LEN = 16 };

/* The `count` texts of such a file. 1: there is no file. */
static int read_texts(const char *job_id, const char *name, size_t count, const char **ret, struct arena *arena,
                      struct error *err)
{
    struct buf text = {0};
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/jobs/%s/%s", home, job_id, name);
    if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    int rc = file_read(path, MOVE_MAX, &text, err);
    char *copy = arena_alloc(arena, text.len + 1), *p = copy;
    if (rc == 0 && text.len)
        memcpy(copy, text.data, text.len);
    size_t n = 0;
    for (; rc == 0 && n < count && p < copy + text.len; p += strlen(p) + 1)
        ret[n++] = p;
    if (rc == 0 && (n < count || !str_is_hex(ret[0], ID_LEN))) {
        rc = error_set(err, ERROR_IO, "cannot use \"%s\": it is damaged", path);
        error_hint(err, "rhrun run --adopt JOB SPEC writes it again, once you have removed it");
    }
    buf_free(&text);
    return rc;
}

static int write_texts(const char *job_id, const char *name, const char *const *texts, size_t count, struct error *err)
{
    struct buf b = {0};
    CLEANUP(cleanup_free) char *dir = journal_make_job_dir(job_id, err);
    if (!dir)
        return -1;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", dir, name);
    for (size_t i = 0; i < count; i++)
        buf_append(&b, texts[i], strlen(texts[i]) + 1);
    int rc = file_write_atomic(path, b.data, b.len, 0600, err);
    buf_free(&b);
    return rc;
}

/* 0; 1: it adopted nothing. */
static int adopted(const char *job_id, struct arena *arena, const char **ret_old, const char **ret_name,
                   const char **ret_origin, struct error *err)
{
    const char *texts[4];
    char made[ID_LEN + 1];
    const int rc = read_texts(job_id, "adopts", ARRAY_LEN(texts), texts, arena, err);
    if (rc)
        return rc;
    spec_job_id(texts[1], texts[2], made);
    if (!str_eq(made, texts[0]))
        return error_set(err, ERROR_IO, "cannot use \"adopts\" of job %s: it is damaged", job_id);
    *ret_old = texts[0];
    *ret_name = texts[1];
    *ret_origin = texts[2];
    return 0;
}

int journal_identity(const char *name, const char *origin, struct arena *arena, const char **ret_name,
                     const char **ret_origin, struct error *err)
{
    char id[ID_LEN + 1];
    const char *old = id, *by[2], *old_name = NULL, *old_origin = NULL;
    spec_job_id(name, origin, id);
    const int rc = adopted(id, arena, &old, &old_name, &old_origin, err);
    const int taken = rc < 0 ? -1 : read_texts(old, "adopted-by", ARRAY_LEN(by), by, arena, err);
    if (taken < 0)
        return -1;
    if (taken == 0 && !str_eq(by[0], id)) {
        error_set(err, ERROR_SPEC, "the history of job \"%s\" was taken over by \"%s\" (--adopt)", name, by[1]);
        error_hint(err, "give this spec another name");
        return -1;
    }
    if (rc == 0) {
        *ret_name = old_name;
        *ret_origin = old_origin;
    }
    return 0;
}

int journal_identity_of(const struct journal_job *job, struct arena *arena, const char **ret_name,
                        const char **ret_origin, struct error *err)
{
    const char *by[2], *old;
    char made[ID_LEN + 1];
    const int rc = read_texts(job->id, "adopted-by", ARRAY_LEN(by), by, arena, err);
    if (rc < 0 || (rc == 0 && adopted(by[0], arena, &old, ret_name, ret_origin, err) == 0))
        return rc;
    spec_job_id(job->name, job->origin, made);
    if (!str_eq(made, job->id))
        return error_set(err, ERROR_IO, "the name and origin with which job %s was made are not known", job->id);
    *ret_name = arena_strdup(arena, job->name);
    *ret_origin = arena_strdup(arena, job->origin);
    return 0;
}

const char *journal_adopted(const char *name, const char *origin, const char *before, struct arena *arena)
{
    const char *texts[4], *by[2];
    char id[ID_LEN + 1];
    spec_job_id(name, origin, id);
    if (read_texts(id, "adopts", ARRAY_LEN(texts), texts, arena, NULL) != 0 || !str_eq(texts[3], before))
        return NULL;
    const int rc = read_texts(texts[0], "adopted-by", ARRAY_LEN(by), by, arena, NULL);
    return rc == 1 || (rc == 0 && str_eq(by[0], id)) ? texts[0] : NULL;
}

static int rename_journal(struct journal *j, const char *name, const char *origin, struct error *err)
{
    sqlite3 *db = NULL;
    CLEANUP(cleanup_free) char *file = xasprintf("%s/journal.db", journal_path(j));
    if (db_open_again(file, &db, err) < 0)
        return -1;
    char *sql = sqlite3_mprintf("BEGIN IMMEDIATE;UPDATE meta SET value=%Q WHERE key='name';"
                                "UPDATE meta SET value=%Q WHERE key='origin';COMMIT",
                                name, origin);
    int rc = db_exec(db, sql, "write", file, err);
    sqlite3_free(sql);
    sqlite3_close(db);
    return rc;
}

int journal_adopt(struct journal *j, const char *id_name, const char *id_origin, const char *name, const char *origin,
                  struct error *err)
{
    char id[ID_LEN + 1];
    spec_job_id(name, origin, id);
    const char *const adopts[] = {journal_job(j), id_name, id_origin, journal_job_name(j)}, *const by[] = {id, name};
    if (write_texts(id, "adopts", adopts, ARRAY_LEN(adopts), err) < 0 ||
        write_texts(journal_job(j), "adopted-by", by, ARRAY_LEN(by), err) < 0)
        return -1;
    return rename_journal(j, name, origin, err);
}
