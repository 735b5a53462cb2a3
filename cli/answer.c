#include "cli/answer.h"

#include <string.h>

#include "base/clock.h"
#include "cli/layout.h"

#define TEXT_BYTES_MAX ((size_t)128 << 20)
#define DEVICES_PATH "/v1/devices?limit=500"

/* Read the names of the first page of devices, by id. */
static int read_names(struct session *session, json_t **out, struct err *err)
{
    json_auto_t *page = NULL;
    json_t *names = json_object();
    int rc = names ? api_call(&session->api, "GET", DEVICES_PATH, NULL, 0, 0, err)
                   : err_set(err, ERR_MEMORY, "no memory for names of devices");
    rc = rc ? rc : api_json(&session->api, &page, err);
    size_t index;
    json_t *device;
    json_array_foreach(json_object_get(page, "items"), index, device)
    {
        const char *id = json_string_value(json_object_get(device, "id"));
        json_t *name = json_object_get(device, "name");
        if (id && json_is_string(name)) {
            (void)json_object_set(names, id, name);
        }
    }
    *out = names;
    return rc;
}

/* Append a page of a list as JSON; all pages become one list. The text is ASCII, so that it cannot
 * control a terminal. */
static int add_items(const json_t *page, bool first, bool last, struct buf *out, struct err *err)
{
    int rc = first ? buf_printf(out, err, "{\"items\": [") : 0;
    const json_t *items = json_object_get(page, "items");
    for (size_t i = 0; !rc && i < json_array_size(items); i++) {
        rc = buf_printf(out, err, "%s\n", first && i == 0 ? "" : ",");
        rc = rc ? rc : json_write_lines(json_array_get(items, i), out, err);
    }
    return rc || !last ? rc : buf_printf(out, err, "\n], \"next_cursor\": null}\n");
}

static int add_json(const json_t *answer, struct buf *out, struct err *err)
{
    int rc = json_write_lines(answer, out, err);
    return rc ? rc : buf_append(out, "\n", 1, err);
}

/* Append one answer, or one page of a list; `more`: another page follows. */
static int add_answer(struct session *session, const json_t *answer, bool more,
                      struct layout_style *style, struct buf *out, struct err *err)
{
    const struct layout *layout = session->call.command->layout;
    if (session->call.options.flag[OPTION_QUIET] && layout) {
        return layout_ids(layout, answer, out, err);
    }
    if (session->format == FORMAT_JSON) {
        bool page = json_object_get(answer, "next_cursor") != NULL;
        bool first = style->row_count == 0;
        style->row_count += json_array_size(json_object_get(answer, "items"));
        return page ? add_items(answer, first, !more, out, err) : add_json(answer, out, err);
    }
    return layout->rows[0] == '\0' ? layout_object(layout, answer, style, out, err)
                                   : layout_rows(layout, answer, style, out, err);
}

static int write_answer(struct session *session, const json_t *answer, bool more,
                        struct layout_style *style, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = add_answer(session, answer, more, style, &text, err);
    return rc ? rc : api_write(session->out, &text, err);
}

/* Read the names that make a table readable. A failure is ignored: without names the table is still
 * complete. */
static void style_init(struct session *session, struct layout_style *style, json_t **names)
{
    const struct layout *layout = session->call.command->layout;
    struct err ignored = {0};
    *style =
        (struct layout_style){.wide = session->format == FORMAT_WIDE, .now_ms = clock_wall_ms()};
    if (layout && session->format != FORMAT_JSON && !session->call.options.flag[OPTION_QUIET] &&
        layout_names_devices(layout) && read_names(session, names, &ignored) == 0) {
        style->devices = *names;
    }
}

int answer_show(struct session *session, const json_t *answer, struct err *err)
{
    struct layout_style style;
    json_auto_t *names = NULL;
    style_init(session, &style, &names);
    return write_answer(session, answer, false, &style, err);
}

int answer_request(struct session *session, struct err *err)
{
    struct layout_style style;
    json_auto_t *names = NULL;
    style_init(session, &style, &names);
    int rc = session_request(session, err);
    while (!rc && session->api.reply.size > 0) {
        json_auto_t *answer = NULL;
        rc = api_json(&session->api, &answer, err);
        const char *next = json_string_value(json_object_get(answer, "next_cursor"));
        rc = rc ? rc : write_answer(session, answer, next != NULL, &style, err);
        if (rc || !next) {
            return rc;
        }
        BUF_AUTO struct buf target;
        buf_init(&target, API_PATH_SIZE - 1);
        rc = buf_printf(&target, err, "%s&cursor=%s", session->request.target, next);
        rc = rc ? rc : api_call(&session->api, "GET", target.data, NULL, 0, 0, err);
    }
    return rc;
}
