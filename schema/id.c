#include "schema/id.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define ULID_DIGITS 26
#define TIME_DIGITS 10

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford: no I L O U */

void id_make(char out[ID_SIZE], const char *prefix, int64_t wall_ms, struct rng_block words)
{
    size_t prefix_size = strlen(prefix);
    ASSERT(prefix_size + ULID_DIGITS < ID_SIZE);
    char digits[ULID_DIGITS + 1];
    uint64_t time = (uint64_t)wall_ms & ((UINT64_C(1) << 48) - 1);
    for (size_t i = TIME_DIGITS; i-- > 0; time >>= 5) {
        digits[i] = alphabet[time & 31];
    }
    /* 80 bits of randomness as two numbers of 40 bits: 8 digits each. */
    uint64_t high = (uint64_t)words.word[0] << 8 | (words.word[2] & 0xff);
    uint64_t low = (uint64_t)words.word[1] << 8 | (words.word[2] >> 8 & 0xff);
    for (size_t i = 8; i-- > 0; high >>= 5, low >>= 5) {
        digits[TIME_DIGITS + i] = alphabet[high & 31];
        digits[TIME_DIGITS + 8 + i] = alphabet[low & 31];
    }
    digits[ULID_DIGITS] = '\0';
    (void)snprintf(out, ID_SIZE, "%s%s", prefix, digits);
}

int64_t id_series_next(struct id_series *series, const struct rng_stream *words, const char *prefix,
                       int64_t wall_ms, char out[ID_SIZE])
{
    if (wall_ms > series->ms) {
        series->ms = wall_ms;
        series->count = 0;
    }
    struct rng_block block = rng_block(words, (uint64_t)series->ms << 20 ^ series->count);
    block.word[0] = series->count++; /* replaces a random word: ids of one millisecond sort */
    ASSERT(series->count != 0);
    id_make(out, prefix, series->ms, block);
    return series->ms;
}

int64_t id_wall_ms(const char *text)
{
    const char *digits = strchr(text, '_');
    int64_t wall_ms = 0;
    for (size_t i = 1; digits && i <= TIME_DIGITS && digits[i] != '\0'; i++) {
        const char *digit = strchr(alphabet, digits[i]);
        wall_ms = wall_ms * 32 + (digit ? digit - alphabet : 0);
    }
    return wall_ms;
}

bool id_valid(const char *text, const char *prefix)
{
    size_t prefix_size = strlen(prefix);
    return strncmp(text, prefix, prefix_size) == 0 && strlen(text) == prefix_size + ULID_DIGITS &&
           strspn(text + prefix_size, alphabet) == ULID_DIGITS;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_valid(const char *text)
{
    size_t size = 0;
    for (; text[size]; size++) {
        if (size == NAME_SIZE - 1 ||
            !(is_letter_or_digit(text[size]) || strchr("._-", text[size]))) {
            return false;
        }
    }
    return size > 0 && is_letter_or_digit(text[0]);
}

static bool has_id_form(const char *text, const char *prefix)
{
    size_t prefix_size = strlen(prefix);
    if (strncmp(text, prefix, prefix_size) != 0) {
        return false;
    }
    size_t size = 0;
    for (const char *at = text + prefix_size; *at; at++, size++) {
        if (!is_letter_or_digit(*at) && !(*at >= 'A' && *at <= 'Z')) {
            return false;
        }
    }
    return size >= 1 && size <= ULID_DIGITS;
}

static bool is_device_id(const char *text)
{
    return has_id_form(text, "dev_");
}

static bool is_job_id(const char *text)
{
    return has_id_form(text, "job_");
}

static bool is_plan_id(const char *text)
{
    return has_id_form(text, "plan_");
}

static bool is_incident_id(const char *text)
{
    return has_id_form(text, "inc_");
}

static bool is_checkpoint_id(const char *text)
{
    return has_id_form(text, "ckpt_");
}

static bool is_token_id(const char *text)
{
    return has_id_form(text, "tok_");
}

static bool is_audit_id(const char *text)
{
    return has_id_form(text, "aud_");
}

static bool is_sha256(const char *text)
{
    return strspn(text, "0123456789abcdef") == SHA256_SIZE - 1 && text[SHA256_SIZE - 1] == '\0';
}

static bool is_word(const char *text)
{
    const char *at = text;
    while (*at > ' ' && *at < 0x7f) {
        at++;
    }
    return at > text && *at == '\0';
}

/* Length of "http://" or "https://"; 0 for other schemes. */
static size_t scheme_size(const char *text)
{
    return strncmp(text, "http://", 7) == 0 ? 7 : strncmp(text, "https://", 8) == 0 ? 8 : 0;
}

static bool is_url(const char *text)
{
    const size_t scheme = scheme_size(text);
    return scheme > 0 && is_word(text + scheme) && !strpbrk(text, "\"<>\\^`{|}@");
}

static size_t letters(const char *text, const char *among)
{
    size_t size = 0;
    while (is_letter_or_digit(text[size]) || (text[size] >= 'A' && text[size] <= 'Z') ||
           (text[size] && strchr(among, text[size]))) {
        size++;
    }
    return size;
}

/* Length of a host name, an IPv4 address or a bracketed IPv6 address; 0 for any other text. */
static size_t host_size(const char *text)
{
    if (text[0] != '[') {
        return letters(text, ".-_");
    }
    const size_t size = 1 + strspn(text + 1, "0123456789abcdefABCDEF:.");
    return size > 1 && text[size] == ']' ? size + 1 : 0;
}

static bool is_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits < 1 || digits > 5 || text[digits] != '\0') {
        return false;
    }
    int port = 0;
    for (; *text; text++) {
        port = 10 * port + (*text - '0');
    }
    return port >= 1 && port <= 65535;
}

static bool is_origin(const char *text)
{
    const size_t scheme = scheme_size(text);
    const size_t host = scheme > 0 ? host_size(text + scheme) : 0;
    return host > 0 && text[scheme + host] == ':' && is_port(text + scheme + host + 1);
}

#define ID_PATTERN(prefix) "^" prefix "_[0-9A-Za-z]{1,26}$"

const struct text_form name_form = {
    name_valid, "a name: 1 to 63 of a-z 0-9 . _ - and the first a letter or digit",
    "^[a-z0-9][a-z0-9._-]{0,62}$", "name"};
const struct text_form device_id_form = {is_device_id, "a device's id (dev_...)", ID_PATTERN("dev"),
                                         "device_id"};
const struct text_form job_id_form = {is_job_id, "a job's id (job_...)", ID_PATTERN("job"),
                                      "job_id"};
const struct text_form plan_id_form = {is_plan_id, "a plan's id (plan_...)", ID_PATTERN("plan"),
                                       "plan_id"};
const struct text_form checkpoint_id_form = {is_checkpoint_id, "a checkpoint's id (ckpt_...)",
                                             ID_PATTERN("ckpt"), "checkpoint_id"};
const struct text_form incident_id_form = {is_incident_id, "an incident's id (inc_...)",
                                           ID_PATTERN("inc"), "incident_id"};
const struct text_form token_id_form = {is_token_id, "a token's id (tok_...)", ID_PATTERN("tok"),
                                        "token_id"};
const struct text_form audit_id_form = {is_audit_id, "the id of a change (aud_...)",
                                        ID_PATTERN("aud"), "audit_id"};
const struct text_form sha256_form = {is_sha256, "64 lower-case hexadecimal digits",
                                      "^[0-9a-f]{64}$", "sha256"};
const struct text_form public_key_form = {is_sha256,
                                          "an Ed25519 public key: 64 lower-case hexadecimal digits",
                                          "^[0-9a-f]{64}$", "sha256"};
const struct text_form url_form = {is_url, "an address such as http://10.0.0.5:7411",
                                   "^https?://[!-~]+$", NULL};
const struct text_form origin_form = {
    is_origin, "an origin (scheme, host and port) such as http://10.0.0.5:7411",
    "^https?://([0-9A-Za-z._-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$", NULL};
const struct text_form word_form = {is_word, "a word of printable ASCII", "^[!-~]+$", NULL};

const struct field device_id_element = {
    .type = FIELD_TEXT, .size = sizeof(struct device_id), .form = &device_id_form};

bool id_secret_equal(const char *a, const char *b)
{
    size_t a_size = strlen(a);
    size_t b_size = strlen(b);
    /* Constant time: the number of iterations depends on the length of b only, not on a. */
    unsigned difference = a_size != b_size;
    for (size_t i = 0; i < b_size; i++) {
        difference |= (unsigned char)a[i < a_size ? i : a_size] ^ (unsigned char)b[i];
    }
    return difference == 0;
}
