#include "base/exposition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const char *const type_names[] = {
    [EXPOSITION_COUNTER] = "counter",
    [EXPOSITION_GAUGE] = "gauge",
    [EXPOSITION_SUMMARY] = "summary",
};

static void append(struct exposition *exposition, const char *text, size_t size)
{
    if (!exposition->rc) {
        exposition->rc = buf_append(exposition->out, text, size, &exposition->err);
    }
}

static void append_text(struct exposition *exposition, const char *text)
{
    append(exposition, text, strlen(text));
}

void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type,
                       const char *help)
{
    exposition->family = name;
    if (!exposition->rc) {
        exposition->rc =
            buf_printf(exposition->out, &exposition->err, "# HELP %s %s\n# TYPE %s %s\n", name,
                       help, name, type_names[type]);
    }
}

static void append_label_value(struct exposition *exposition, const char *value)
{
    size_t left = strlen(value);
    while (left > 0) {
        const size_t length = utf8_sequence(value, left);
        const char byte = *value;
        if (byte == '\n') {
            append_text(exposition, "\\n");
        } else if (byte == '"' || byte == '\\') {
            append_text(exposition, "\\");
            append(exposition, value, 1);
        } else {
            append(exposition, length > 0 ? value : "?", length > 0 ? length : 1);
        }
        value += length > 0 ? length : 1;
        left -= length > 0 ? length : 1;
    }
}

static void append_labels(struct exposition *exposition, const struct exposition_label *label,
                          size_t label_count)
{
    for (size_t i = 0; i < label_count; i++) {
        append_text(exposition, i == 0 ? "{" : ",");
        append_text(exposition, label[i].name);
        append_text(exposition, "=\"");
        append_label_value(exposition, label[i].value);
        append_text(exposition, "\"");
    }
    append_text(exposition, label_count > 0 ? "} " : " ");
}

void exposition_sample(struct exposition *exposition, const char *suffix,
                       const struct exposition_label *label, size_t label_count, double value)
{
    char number[32];
    append_text(exposition, exposition->family);
    append_text(exposition, suffix);
    append_labels(exposition, label, label_count);
    (void)snprintf(number, sizeof(number), "%.15g", value);
    append_text(exposition, isnan(value)   ? "NaN"
                            : isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                           : number);
    append_text(exposition, "\n");
}

void exposition_single(struct exposition *exposition, const char *name, enum exposition_type type,
                       const char *help, double value)
{
    exposition_family(exposition, name, type, help);
    exposition_sample(exposition, "", NULL, 0, value);
}

void exposition_singles(struct exposition *exposition, const struct exposition_family *family,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        exposition_single(exposition, family[i].name, family[i].type, family[i].help,
                          family[i].value);
    }
}
