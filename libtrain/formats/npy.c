/* NPY, NumPy's format: a magic text, a version, a header that is a Python dictionary, data.
 * Versions 1 to 3, which differ in the size of the header's length; C order. Source:
 * numpy.lib.format. */
#include <string.h>

#include "libtrain/formats/part.h"
#include "libtrain/formats/scanner.h"

#define MARK "\x93NUMPY"
#define MARK_BYTES 6
#define HEADER_BYTES_MAX 4096
#define DIMENSIONS_MAX 4
#define WORD_MAX 32

struct npy_header {
    char descr[WORD_MAX];
    uint64_t dim[DIMENSIONS_MAX];
    size_t rank;
};

bool npy_recognise(const uint8_t *bytes, size_t available)
{
    return available >= MARK_BYTES && memcmp(bytes, MARK, MARK_BYTES) == 0;
}

/* A Python text between ' or ", without escapes. */
static int read_quoted(struct scanner *scanner, char out[WORD_MAX], struct err *err)
{
    char quote = scanner_take(scanner, '\'') ? '\'' : '"';
    if (quote == '"' && !scanner_take(scanner, '"')) {
        return err_set(err, ERR_FORMAT, "header byte %zu: expected a quoted text", scanner->at);
    }
    size_t size = 0;
    for (; scanner->at < scanner->size && scanner->text[scanner->at] != quote; scanner->at++) {
        char c = scanner->text[scanner->at];
        if (size + 1 == WORD_MAX || c < ' ' || c > '~' || c == '\\') {
            return err_set(err, ERR_FORMAT,
                           "header byte %zu: not a plain text of at most %d characters",
                           scanner->at, WORD_MAX - 1);
        }
        out[size++] = c;
    }
    out[size] = '\0';
    return scanner_expect(scanner, quote, err);
}

/* (), (3,), (3, 4): a trailing comma is allowed. */
static int read_shape(struct scanner *scanner, struct npy_header *header, struct err *err)
{
    int rc = scanner_expect(scanner, '(', err);
    header->rank = 0;
    while (rc == 0 && !scanner_take(scanner, ')')) {
        if (header->rank == DIMENSIONS_MAX) {
            return err_set(err, ERR_FORMAT, "more than %d dimensions", DIMENSIONS_MAX);
        }
        rc = scanner_integer(scanner, &header->dim[header->rank], err);
        header->rank++;
        if (rc == 0 && !scanner_take(scanner, ',')) {
            return scanner_expect(scanner, ')', err);
        }
    }
    return rc;
}

static int read_order(struct scanner *scanner, struct err *err)
{
    static const char word[] = "False";
    if (!scanner_take(scanner, word[0])) {
        return err_set(
            err, ERR_UNSUPPORTED,
            "fortran_order must be False: save what numpy.ascontiguousarray makes of it");
    }
    for (const char *c = word + 1; *c; c++) {
        if (scanner->at == scanner->size || scanner->text[scanner->at++] != *c) {
            return err_set(err, ERR_FORMAT, "header byte %zu: expected False", scanner->at);
        }
    }
    return 0;
}

static int read_dictionary(struct scanner *scanner, struct npy_header *header, struct err *err)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    int rc = scanner_expect(scanner, '{', err);
    while (rc == 0 && !scanner_take(scanner, '}')) {
        char key[WORD_MAX];
        if ((rc = read_quoted(scanner, key, err)) || (rc = scanner_expect(scanner, ':', err))) {
            return rc;
        }
        size_t member = 0;
        while (member < 3 && strcmp(key, keys[member]) != 0) {
            member++;
        }
        if (member == 3 || seen & 1u << member) {
            return err_set(err, ERR_FORMAT, "'%s' %s", key,
                           member == 3 ? "is not a known key" : "occurs twice");
        }
        seen |= 1u << member;
        rc = member == 0   ? read_quoted(scanner, header->descr, err)
             : member == 1 ? read_order(scanner, err)
                           : read_shape(scanner, header, err);
        if (rc == 0 && !scanner_take(scanner, ',')) {
            rc = scanner_expect(scanner, '}', err);
            break;
        }
    }
    if (rc == 0 && (seen != 7 || !scanner_at_end(scanner))) {
        return err_set(err, ERR_FORMAT, "descr, fortran_order, shape and nothing else are needed");
    }
    return rc;
}

static int read_header(struct stream *stream, struct npy_header *header, struct err *err)
{
    uint8_t start[MARK_BYTES + 2];
    char text[HEADER_BYTES_MAX];
    int rc = stream_read_all(stream, start, sizeof(start), "the NPY header ends", err);
    if (rc) {
        return rc;
    }
    uint8_t version = start[MARK_BYTES];
    if (version < 1 || version > 3 || start[MARK_BYTES + 1] != 0) {
        return err_set(err, ERR_UNSUPPORTED, "%s: NPY version %u.%u; 1.0, 2.0 and 3.0 are read",
                       stream->name, version, start[MARK_BYTES + 1]);
    }
    size_t length_bytes = version == 1 ? 2 : 4;
    uint8_t length[4] = {0};
    if ((rc = stream_read_all(stream, length, length_bytes, "the NPY header ends", err))) {
        return rc;
    }
    size_t size = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 |
                  (size_t)length[3] << 24;
    if (size > sizeof(text)) {
        return err_set(err, ERR_FORMAT, "%s: an NPY header of %zu bytes; at most %zu", stream->name,
                       size, sizeof(text));
    }
    if ((rc = stream_read_all(stream, text, size, "the NPY header ends", err))) {
        return rc;
    }
    struct scanner scanner = {.text = text, .size = size};
    rc = read_dictionary(&scanner, header, err);
    return rc && err ? err_wrap(err, "%s: NPY", stream->name) : rc;
}

/* Parse a type such as "<f4": byte order (= for the order of the machine, | for none), kind, bytes.
 * A bool is a byte of 0 or 1. */
static bool parse_descr(const char *descr, struct element *out)
{
    static const struct {
        char kind;
        enum element_kind element;
        const char *sizes;
    } kinds[] = {{'b', ELEMENT_UNSIGNED, "1"},
                 {'u', ELEMENT_UNSIGNED, "1248"},
                 {'i', ELEMENT_SIGNED, "1248"},
                 {'f', ELEMENT_FLOAT, "248"}};
    const bool has_order = descr[0] != '\0' && strchr("<>=|", descr[0]);
    const char *word = descr + has_order;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (word[0] == kinds[i].kind && word[1] != '\0' && word[2] == '\0' &&
            strchr(kinds[i].sizes, word[1])) {
            *out = (struct element){.kind = kinds[i].element,
                                    .size = (uint8_t)(word[1] - '0'),
                                    .big_endian = descr[0] == '>'};
            return true;
        }
    }
    return false;
}

int npy_read(struct stream *stream, struct part *part, struct labels *labels, struct err *err)
{
    struct npy_header header = {0};
    struct element element = {0};
    int rc = read_header(stream, &header, err);
    if (rc) {
        return rc;
    }
    const bool known = parse_descr(header.descr, &element);
    const bool is_float = element.kind == ELEMENT_FLOAT;
    const bool images =
        header.rank >= 2 && (is_float || (element.kind == ELEMENT_UNSIGNED && element.size == 1));
    if (!known || (!images && (header.rank != 1 || is_float))) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: NPY of %zu dimensions and type '%s'; samples (images, vectors) have 2 "
                       "to 4 of type u1, f2, "
                       "f4 or f8, labels 1 "
                       "of an integer type",
                       part->name, header.rank, header.descr);
    }
    part->count = header.dim[0];
    part->element = element;
    part->kind = images ? PART_IMAGES : PART_LABELS;
    if (!images) {
        rc = part_read_labels(part, stream, element, labels, err);
    } else if ((rc = part_set_shape(part, header.dim + 1, header.rank - 1, err)) == 0) {
        rc = part_pass_images(part, stream, err);
    }
    return rc ? rc : stream_finish(stream, err);
}
