#include "libtrain/formats/class_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

#define SHOWN_MAX 2        /* names in a message */
#define SHOWN_BYTES_MAX 16 /* bytes of each name in a message */

/* ---- names as text ---- */

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != 0x7F && byte != '%';
}

int class_names_append(struct name_list *names, const char *bytes, size_t size, struct err *err)
{
    static const char digits[] = "0123456789ABCDEF";
    char *text = malloc(3 * size + 1);
    size_t length = 0;
    if (!text) {
        return err_set(err, ERR_MEMORY, "no memory for a class");
    }
    for (size_t i = 0; i < size;) {
        const size_t sequence = utf8_sequence(bytes + i, size - i);
        const unsigned char byte = (unsigned char)bytes[i];
        if (sequence > 1 || (sequence == 1 && is_plain(byte))) {
            memcpy(text + length, bytes + i, sequence);
            length += sequence;
            i += sequence;
        } else {
            text[length++] = '%';
            text[length++] = digits[byte >> 4];
            text[length++] = digits[byte & 0xF];
            i++;
        }
    }
    int rc = name_list_append(names, text, length, err);
    free(text);
    return rc;
}

static int hex_value(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* A JSON text is UTF-8 already, and has no NUL. */
static bool is_name(const char *text)
{
    bool valid = text[0] != '\0';
    for (size_t i = 0; valid && text[i]; i++) {
        if (text[i] == '%') {
            valid = hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
        } else {
            valid = is_plain((unsigned char)text[i]);
        }
    }
    return valid;
}

/* ---- sorted names ---- */

struct entry {
    const char *name; /* borrowed */
    size_t number;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* The names sorted by bytes; NULL when out of memory. */
static struct entry *sort(const struct name_list *names)
{
    struct entry *entry = calloc(names->count + 1, sizeof(*entry));
    for (size_t i = 0; entry && i < names->count; i++) {
        entry[i] = (struct entry){names->item[i], i};
    }
    if (entry && names->count > 0) {
        qsort(entry, names->count, sizeof(*entry), compare);
    }
    return entry;
}

static int refuse_doubles(const struct name_list *names, struct err *err)
{
    struct entry *entry = sort(names);
    int rc = entry ? 0 : err_set(err, ERR_MEMORY, "no memory for %zu names", names->count);
    for (size_t i = 1; rc == 0 && i < names->count; i++) {
        if (strcmp(entry[i - 1].name, entry[i].name) == 0) {
            rc = err_set(err, ERR_INVALID, "'%.40s' occurs twice", entry[i].name);
        }
    }
    free(entry);
    return rc;
}

/* ---- JSON ---- */

/* Upper bound of the bytes of a name in a JSON list, with its quotation marks and a comma. */
static size_t json_bytes(const char *name)
{
    size_t bytes = 3;
    for (; *name; name++) {
        bytes += *name == '"' || *name == '\\' ? 2 : 1;
    }
    return bytes;
}

static int read_names(const json_t *value, struct name_list *names, struct err *err)
{
    size_t bytes = 2;
    if (!json_is_array(value)) {
        return err_set(err, ERR_INVALID, "expected a list of names");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));
        if (!name || !is_name(name)) {
            return err_set(err, ERR_INVALID,
                           "name %zu: expected a text of printable characters, with %%XX in place "
                           "of other bytes and "
                           "%%25 in place of a '%%'",
                           i);
        }
        bytes += json_bytes(name);
        if (bytes > CLASS_NAMES_TEXT_MAX) {
            return err_set(err, ERR_INVALID, "the names take more than %u bytes",
                           CLASS_NAMES_TEXT_MAX);
        }
        int rc = name_list_append(names, name, strlen(name), err);
        if (rc) {
            return rc;
        }
    }
    return refuse_doubles(names, err);
}

int class_names_read(const json_t *value, struct name_list *names, struct err *err)
{
    name_list_done(names);
    int rc = read_names(value, names, err);
    if (rc) {
        name_list_done(names);
    }
    return rc;
}

json_t *class_names_json(const struct name_list *names)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < names->count; i++) {
        if (json_array_append_new(list, json_string(names->item[i]))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

int class_names_write(const struct name_list *names, struct buf *out, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, CLASS_NAMES_TEXT_MAX);
    json_auto_t *list = class_names_json(names);
    int rc = list ? json_write(list, &text, err)
                  : err_set(err, ERR_MEMORY, "no memory for %zu names", names->count);
    return rc ? rc : buf_append(out, text.data, text.size, err);
}

int class_names_copy(const struct name_list *from, struct name_list *to, struct err *err)
{
    int rc = 0;
    name_list_done(to);
    for (size_t i = 0; rc == 0 && i < from->count; i++) {
        rc = name_list_append(to, from->item[i], strlen(from->item[i]), err);
    }
    return rc;
}

static bool has_name(const struct name_list *names, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < names->count && !found; i++) {
        found = strcmp(names->item[i], name) == 0;
    }
    return found;
}

int class_names_select(const struct name_list *from, const int64_t *number, size_t count,
                       struct name_list *to, struct err *err)
{
    BUF_AUTO struct buf other;
    buf_init(&other, CLASS_NAMES_TEXT_MAX);
    int rc = buf_printf(&other, err, "other");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const char *name = from->item[number[i]];
        rc = name_list_append(to, name, strlen(name), err);
    }
    while (rc == 0 && has_name(to, other.data)) {
        rc = buf_printf(&other, err, "_");
    }
    return rc ? rc : name_list_append(to, other.data, other.size, err);
}

/* ---- comparing ---- */

bool class_names_agree(const struct name_list *some, const struct name_list *all)
{
    if (some->count == 0 || all->count == 0) {
        return true;
    }
    bool agree = some->count <= all->count;
    for (size_t i = 0; agree && i < some->count; i++) {
        agree = strcmp(some->item[i], all->item[i]) == 0;
    }
    return agree;
}

int class_names_map(const struct name_list *from, const struct name_list *to, int32_t *out,
                    struct err *err)
{
    struct entry *entry = sort(to);
    if (!entry) {
        return err_set(err, ERR_MEMORY, "no memory for %zu names", to->count);
    }
    for (size_t i = 0; i < from->count; i++) {
        const struct entry key = {.name = from->item[i]};
        const struct entry *found =
            to->count > 0 ? bsearch(&key, entry, to->count, sizeof(*entry), compare) : NULL;
        out[i] = found ? (int32_t)found->number : -1;
    }
    free(entry);
    return 0;
}

/* List the names for which absent[i] is negative (absent NULL: all). Return their number. */
static size_t list_names(const struct name_list *names, const int32_t *absent,
                         char out[CLASS_NAMES_LISTED_MAX])
{
    const size_t capacity = CLASS_NAMES_LISTED_MAX;
    size_t used = 0;
    size_t count = 0;
    out[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if ((!absent || absent[i] < 0) && count++ < SHOWN_MAX) {
            used += (size_t)snprintf(out + used, capacity - used, "%s'%.*s'", count > 1 ? ", " : "",
                                     SHOWN_BYTES_MAX, names->item[i]);
        }
    }
    if (count > SHOWN_MAX) {
        (void)snprintf(out + used, capacity - used, " and %zu more", count - SHOWN_MAX);
    }
    utf8_repair_line(out); /* a name may be truncated within a character */
    return count;
}

void class_names_list(const struct name_list *names, char out[CLASS_NAMES_LISTED_MAX])
{
    (void)list_names(names, NULL, out);
}

size_t class_names_absent(const struct name_list *some, const struct name_list *all,
                          char out[CLASS_NAMES_LISTED_MAX])
{
    int32_t *number = calloc(some->count + 1, sizeof(*number));
    size_t count = SIZE_MAX;
    out[0] = '\0';
    if (number && class_names_map(some, all, number, NULL) == 0) {
        count = list_names(some, number, out);
    }
    free(number);
    return count;
}

void class_names_difference(const struct name_list *some, const struct name_list *all,
                            char out[CLASS_NAMES_DIFFERENCE_MAX])
{
    const size_t capacity = CLASS_NAMES_DIFFERENCE_MAX;
    char missing[CLASS_NAMES_LISTED_MAX], unknown[CLASS_NAMES_LISTED_MAX];
    (void)class_names_absent(all, some, missing);
    (void)class_names_absent(some, all, unknown);
    if (missing[0] != '\0' || unknown[0] != '\0') {
        (void)snprintf(out, capacity, "%s%s%s%s%s", missing[0] ? "missing: " : "", missing,
                       missing[0] && unknown[0] ? "; " : "", unknown[0] ? "unknown: " : "",
                       unknown);
        return;
    }
    size_t i = 0;
    while (i + 1 < some->count && i + 1 < all->count && strcmp(some->item[i], all->item[i]) == 0) {
        i++;
    }
    (void)snprintf(out, capacity, "class %zu is '%.*s', not '%.*s'", i, SHOWN_BYTES_MAX,
                   some->item[i], SHOWN_BYTES_MAX, all->item[i]);
    utf8_repair_line(out);
}
