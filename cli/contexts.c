#include "cli/contexts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/parse.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define CONTEXTS_MAX 256

static int no_memory(struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for the contexts");
}

static json_t *list_of(const struct contexts *contexts)
{
    return json_object_get(contexts->document, "contexts");
}

/* Only its owner may read a file with tokens. */
static int check_mode(const char *path, struct err *err)
{
    struct stat about;
    if (stat(path, &about) == 0 && (about.st_mode & 077) != 0) {
        return err_set(err, ERR_STATE, "%s holds tokens, and others can read it; chmod 600 %s",
                       path, path);
    }
    return 0;
}

static int parse(struct contexts *contexts, const struct buf *text, struct err *err)
{
    int rc = json_parse(text->data, text->size, &contexts->document, err);
    if (!rc && !json_is_object(list_of(contexts))) {
        rc = err_set(err, ERR_FORMAT, "no contexts");
    }
    return rc ? err_wrap(err, "%s", contexts->path) : 0;
}

int contexts_read(const char *directory, struct contexts *out, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, FILE_BYTES_MAX);
    *out = (struct contexts){.document = NULL};
    if ((size_t)snprintf(out->path, sizeof(out->path), "%s/contexts.json", directory) >=
        sizeof(out->path)) {
        return err_set(err, ERR_LIMIT, "the path of the contexts is too long");
    }
    int rc = check_mode(out->path, err);
    rc = rc ? rc : file_read(out->path, &text, err);
    if (rc == ERR_NOT_FOUND) {
        out->document = json_pack("{s:n,s:{}}", "current", "contexts");
        return out->document ? 0 : no_memory(err);
    }
    return rc ? rc : parse(out, &text, err);
}

void contexts_done(struct contexts *contexts)
{
    json_decref(contexts->document);
    contexts->document = NULL;
}

int contexts_write(const struct contexts *contexts, struct err *err)
{
    BUF_AUTO struct buf text;
    char directory[CONTEXT_PATH_SIZE];
    buf_init(&text, FILE_BYTES_MAX);
    int size = (int)(strrchr(contexts->path, '/') - contexts->path);
    (void)snprintf(directory, sizeof(directory), "%.*s", size, contexts->path);
    int rc = file_make_directory(directory, 0700, err);
    rc = rc ? rc : json_write_lines(contexts->document, &text, err);
    rc = rc ? rc : buf_append(&text, "\n", 1, err);
    return rc ? rc : file_write_atomic(contexts->path, text.data, text.size, 0600, err);
}

const char *contexts_current(const struct contexts *contexts)
{
    return json_string_value(json_object_get(contexts->document, "current"));
}

static int refuse_unknown(const struct contexts *contexts, const char *name, struct err *err)
{
    const char *names[CONTEXTS_MAX];
    size_t count = 0;
    const char *known;
    json_t *value;
    json_object_foreach(list_of(contexts), known, value)
    {
        if (count < CONTEXTS_MAX) {
            names[count++] = known;
        }
    }
    const char *nearest = parse_nearest(name, names, count);
    return nearest
               ? err_set(err, ERR_NOT_FOUND, "no context '%s'; did you mean '%s'?", name, nearest)
               : err_set(err, ERR_NOT_FOUND, "no context '%s' (see paceline context list)", name);
}

static void copy(char *out, size_t size, const json_t *context, const char *member)
{
    const char *text = json_string_value(json_object_get(context, member));
    (void)snprintf(out, size, "%s", text ? text : "");
}

int contexts_find(const struct contexts *contexts, const char *name, struct context *out,
                  struct err *err)
{
    const json_t *context = json_object_get(list_of(contexts), name);
    if (!context) {
        return refuse_unknown(contexts, name, err);
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    copy(out->url, sizeof(out->url), context, "url");
    copy(out->token, sizeof(out->token), context, "token");
    copy(out->ca, sizeof(out->ca), context, "ca");
    return 0;
}

int contexts_put(struct contexts *contexts, const struct context *context, struct err *err)
{
    json_t *value =
        json_pack("{s:s,s:s,s:s}", "url", context->url, "token", context->token, "ca", context->ca);
    if (json_object_size(list_of(contexts)) >= CONTEXTS_MAX) {
        json_decref(value);
        return err_set(err, ERR_LIMIT, "there are %d contexts already", CONTEXTS_MAX);
    }
    if (!value || json_object_set_new(list_of(contexts), context->name, value)) {
        return no_memory(err);
    }
    return contexts_use(contexts, context->name, err);
}

int contexts_use(struct contexts *contexts, const char *name, struct err *err)
{
    if (!json_object_get(list_of(contexts), name)) {
        return refuse_unknown(contexts, name, err);
    }
    return json_object_set_new(contexts->document, "current", json_string(name)) ? no_memory(err)
                                                                                 : 0;
}

int contexts_remove(struct contexts *contexts, const char *name, struct err *err)
{
    const char *current = contexts_current(contexts);
    if (!json_object_get(list_of(contexts), name)) {
        return refuse_unknown(contexts, name, err);
    }
    if (current && strcmp(current, name) == 0 &&
        json_object_set_new(contexts->document, "current", json_null())) {
        return no_memory(err);
    }
    return json_object_del(list_of(contexts), name) ? no_memory(err) : 0;
}
