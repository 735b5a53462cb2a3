#include "coordinator/certificates.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/config.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"
#include "tests/unit/net/tls_kit.h"

#define DAY_MS INT64_C(86400000)
#define NOW_MS INT64_C(1795000000000) /* in November 2026 */

static const char *const names[] = {"coordinator.example", "10.0.0.5"};

static void make(const char *directory, int64_t wall_ms)
{
    char fingerprint[HASH_TEXT_SIZE];
    struct err err = {0};
    assert_ok(certificates_draft(directory, names, 2, wall_ms, fingerprint, &err), &err);
    assert_false(certificates_exist(directory));
    assert_ok(certificates_keep(directory, &err), &err);
    assert_true(certificates_exist(directory));
}

static struct coordinator_config config_of(const char *directory)
{
    struct coordinator_config config = {0};
    (void)snprintf(config.state_dir, sizeof(config.state_dir), "%s", directory);
    return config;
}

static void open_at(const char *directory, int64_t wall_ms, struct certificates *out)
{
    const struct coordinator_config config = config_of(directory);
    struct err err = {0};
    assert_ok(certificates_open(&config, wall_ms, out, &err), &err);
}

static size_t count_files(const char *directory)
{
    DIR *open = opendir(directory);
    size_t count = 0;
    assert_non_null(open);
    while (readdir(open)) {
        count++;
    }
    closedir(open);
    return count - 2; /* itself and its parent */
}

static void check_mode(const char *directory, const char *name, unsigned mode)
{
    struct stat status;
    assert_int_equal(stat(test_path_in(directory, name).text, &status), 0);
    assert_int_equal(status.st_mode & 0777, mode);
}

static void a_state_directory_gets_certificates_once(void **state)
{
    const char *directory = *state;
    char fingerprint[HASH_TEXT_SIZE];
    struct err err = {0};
    make(directory, NOW_MS);
    check_mode(directory, "tls", 0700);
    check_mode(directory, "tls/ca.key", 0600);
    check_mode(directory, "tls/server.key", 0600);
    assert_int_equal(certificates_draft(directory, names, 2, NOW_MS, fingerprint, &err),
                     ERR_EXISTS);
    struct certificates certificates;
    open_at(directory, NOW_MS, &certificates);
    assert_non_null(certificates.served.certificate);
    certificates_close(&certificates);
}

static void a_dropped_draft_leaves_nothing(void **state)
{
    const char *directory = *state;
    char fingerprint[HASH_TEXT_SIZE];
    struct err err = {0};
    assert_ok(certificates_draft(directory, names, 2, NOW_MS, fingerprint, &err), &err);
    /* After a crash a new draft takes the place of the old one. */
    assert_ok(certificates_draft(directory, names, 1, NOW_MS, fingerprint, &err), &err);
    certificates_drop(directory);
    assert_int_equal(count_files(directory), 0);
    static const char *const bad[] = {"not a name"};
    assert_int_equal(certificates_draft(directory, bad, 1, NOW_MS, fingerprint, &err), ERR_INVALID);
    assert_int_equal(count_files(directory), 0);
}

static void without_certificates_there_is_no_tls(void **state)
{
    struct certificates certificates;
    open_at(*state, NOW_MS, &certificates);
    assert_null(certificates.served.certificate);
    certificates_close(&certificates);
}

static void add_name(void *arg, const char *name)
{
    struct buf *text = arg;
    struct err err = {0};
    assert_ok(buf_printf(text, &err, "%s ", name), &err);
}

static void a_certificate_is_renewed_for_twenty_years(void **state)
{
    const char *directory = *state;
    make(directory, NOW_MS);
    struct certificates certificates;
    struct err err = {0};
    open_at(directory, NOW_MS, &certificates);
    size_t renewals = 0;
    for (int64_t day = 0; day < 20 * 365; day += 10) {
        const int64_t now_s = NOW_MS / 1000 + day * 86400;
        bool renewed = false;
        assert_ok(certificates_renew(&certificates, now_s * 1000, &renewed, &err), &err);
        renewals += renewed;
        assert_true(certificates.times.begin < now_s &&
                    now_s + 100 * 86400 < certificates.times.end);
    }
    assert_in_range(renewals, 27, 31); /* every 8 months */
    certificates_close(&certificates);
    assert_int_equal(count_files(test_path_in(directory, "tls").text), 4);

    struct buf text;
    buf_init(&text, 1024);
    open_at(directory, NOW_MS + 7290 * DAY_MS, &certificates);
    assert_ok(certificate_each_name(certificates.served.certificate, add_name, &text, &err), &err);
    assert_string_equal(text.data, "coordinator.example 10.0.0.5 ");
    buf_done(&text);
    certificates_close(&certificates);
}

static void a_clock_that_is_wrong_by_years_makes_valid_certificates(void **state)
{
    const char *directory = *state;
    make(directory, 0);
    struct certificates certificates;
    open_at(directory, 0, &certificates);
    assert_true(certificates.told);
    assert_true(certificates.times.begin > INT64_C(1767000000)); /* not 1970 */
    const struct certificate_times before = certificates.times;
    certificates_close(&certificates);
    /* The clock goes back by years: nothing is renewed. */
    open_at(directory, DAY_MS, &certificates);
    assert_int_equal(certificates.times.end, before.end);
    certificates_close(&certificates);
}

static void a_renewal_that_a_power_cut_halved_is_made_again(void **state)
{
    const char *directory = *state;
    struct buf key;
    struct err err = {0};
    make(directory, NOW_MS);
    const struct test_path server_key = test_path_in(directory, "tls/server.key");
    const struct test_path authority_key = test_path_in(directory, "tls/ca.key");
    buf_init(&key, 4096);
    assert_ok(file_read(authority_key.text, &key, &err), &err);
    assert_ok(file_write_atomic(server_key.text, key.data, key.size, 0600, &err), &err);
    buf_done(&key);
    struct certificates certificates;
    open_at(directory, NOW_MS, &certificates);
    assert_ok(certificate_check(&certificates.server, &err), &err);
    certificates_close(&certificates);
    open_at(directory, NOW_MS, &certificates);
    certificates_close(&certificates);
}

/* The disk has room for the key, which is shorter, and not for the certificate. */
static void a_renewal_on_a_full_disk_leaves_the_old_pair(void **state)
{
    const char *directory = *state;
    struct certificates certificates;
    struct rlimit before;
    struct err err = {0};
    bool renewed = true;
    make(directory, NOW_MS);
    open_at(directory, NOW_MS, &certificates);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit full = before;
    full.rlim_cur = 512;
    assert_true(certificates.server.key.size < 512 && certificates.server.certificate.size > 512);
    const sighandler_t handler = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    const int rc = certificates_renew(&certificates, NOW_MS + 300 * DAY_MS, &renewed, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_not_equal(rc, 0);
    assert_false(renewed);
    assert_holds(err.text, "server.pem");
    assert_ok(certificate_check(&certificates.server, &err), &err);
    certificates_close(&certificates);
    assert_int_equal(count_files(test_path_in(directory, "tls").text), 4);
    /* The files belong together: nothing needs to be made anew, which a full disk would refuse. */
    BUF_AUTO struct buf first, second;
    buf_init(&first, CERTIFICATE_PEM_MAX);
    buf_init(&second, CERTIFICATE_PEM_MAX);
    const struct test_path pem = test_path_in(directory, "tls/server.pem");
    assert_ok(file_read(pem.text, &first, &err), &err);
    open_at(directory, NOW_MS, &certificates);
    certificates_close(&certificates);
    assert_ok(file_read(pem.text, &second, &err), &err);
    assert_string_equal(first.data, second.data);
}

static void names_are_added_and_the_authority_stays(void **state)
{
    static const char *const more[] = {"Coordinator.Example", "fd00::5", "10.0.0.5", "cellar"};
    const char *directory = *state;
    struct certificates certificates;
    struct err err = {0};
    char fingerprint[HASH_TEXT_SIZE];
    make(directory, NOW_MS);
    open_at(directory, NOW_MS, &certificates);
    memcpy(fingerprint, certificates.fingerprint, sizeof(fingerprint));
    const int64_t end = certificates.times.end;
    /* Also with a clock that went back: the certificate does not end earlier. */
    assert_ok(certificates_add_names(&certificates, more, 4, 0, &err), &err);
    assert_int_equal(certificates.times.end, end);
    certificates_close(&certificates);
    open_at(directory, NOW_MS, &certificates);
    assert_string_equal(certificates.fingerprint, fingerprint);
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    assert_ok(certificate_each_name(certificates.served.certificate, add_name, &text, &err), &err);
    assert_string_equal(text.data, "coordinator.example 10.0.0.5 fd00::5 cellar ");

    char name[CERTIFICATE_NAMES_MAX][8];
    const char *many[CERTIFICATE_NAMES_MAX];
    for (size_t i = 0; i < CERTIFICATE_NAMES_MAX; i++) {
        (void)snprintf(name[i], sizeof(name[i]), "n%zu", i);
        many[i] = name[i];
    }
    static const char *const bad[] = {"https://x"};
    assert_int_equal(
        certificates_add_names(&certificates, many, CERTIFICATE_NAMES_MAX, NOW_MS, &err),
        ERR_LIMIT);
    assert_holds(err.text, "n28");
    assert_int_equal(certificates_add_names(&certificates, bad, 1, NOW_MS, &err), ERR_INVALID);
    certificates_close(&certificates);
}

static void use(char out[512], const char *directory, const char *name)
{
    (void)snprintf(out, 512, "%.400s/%s", directory, name);
}

static void a_certificate_of_the_user_is_checked(void **state)
{
    const char *directory = *state;
    make(directory, NOW_MS);
    struct coordinator_config config = config_of(directory);
    struct certificates certificates;
    struct err err = {0};
    use(config.tls_cert, directory, "tls/server.pem");
    use(config.tls_key, directory, "tls/ca.key");
    assert_int_equal(certificates_open(&config, NOW_MS, &certificates, &err), ERR_INVALID);
    assert_holds(err.text, "server.pem");
    assert_holds(err.text, "the key belongs to another certificate");
    use(config.tls_key, directory, "missing.key");
    assert_int_equal(certificates_open(&config, NOW_MS, &certificates, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "missing.key");
    (void)snprintf(config.tls_key, sizeof(config.tls_key), "%s", config.tls_cert);
    assert_int_equal(certificates_open(&config, NOW_MS, &certificates, &err), ERR_FORMAT);
    use(config.tls_key, directory, "tls/server.key");
    /* It has ended: agents that trust its authority connect all the same, so it is served. */
    assert_ok(certificates_open(&config, NOW_MS + 400 * DAY_MS, &certificates, &err), &err);
    assert_true(certificates.told);
    bool renewed = true;
    assert_ok(certificates_renew(&certificates, NOW_MS + 400 * DAY_MS, &renewed, &err), &err);
    assert_false(renewed);
    certificates_close(&certificates);
}

/* ---- a server at work ---- */

struct fixture {
    struct tls_kit kit;
    struct serve serve;
    struct coordinator_config config;
    struct certificates certificates;
};

static void look(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    certificates_look(&f->certificates, f->serve.server, NOW_MS);
    reply_text(exchange, 200, "looked");
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/look", .handle = look},
};

/* The server looks at its files; *out: the fingerprint of what a new connection then gets. */
static void look_again(struct fixture *f, char out[HASH_TEXT_SIZE])
{
    struct raw_tls raw;
    char answer[512];
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    raw_tls_send(&raw, "GET /look HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_tls_read(&raw, "looked", answer, sizeof(answer));
    raw_tls_close(&raw);
    unsigned count = 0;
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(raw.session, &count);
    assert_true(count > 0);
    sha256_text(chain[0].data, chain[0].size, out);
    raw_tls_close(&raw);
}

static void put(const char *path, const char *text, size_t size)
{
    struct err err = {0};
    assert_ok(file_write_atomic(path, text, size, 0600, &err), &err);
}

static void start(struct fixture *f, const char *directory)
{
    struct err err = {0};
    tls_kit_make(&f->kit);
    use(f->config.tls_cert, directory, "mine.pem");
    use(f->config.tls_key, directory, "mine.key");
    put(f->config.tls_cert, f->kit.server.certificate, strlen(f->kit.server.certificate));
    put(f->config.tls_key, f->kit.server.key, strlen(f->kit.server.key));
    assert_ok(certificates_open(&f->config, NOW_MS, &f->certificates, &err), &err);
    struct http_server_config server = serve_config(routes, 1, f);
    server.tls = f->certificates.served;
    serve_start(&f->serve, &server);
}

static void files_of_the_user_that_are_replaced_count_without_a_restart(void **state)
{
    const struct certificate_times times = {NOW_MS / 1000 - 1000, NOW_MS / 1000 + 1000};
    struct fixture *f = calloc(1, sizeof(*f));
    char first[HASH_TEXT_SIZE], second[HASH_TEXT_SIZE], served[HASH_TEXT_SIZE];
    struct certificate_pair next;
    struct err err = {0};
    assert_non_null(f);
    start(f, *state);
    const char *certificate = f->config.tls_cert, *key = f->config.tls_key;
    tls_kit_server(&f->kit, "127.0.0.1", &times, &next);
    assert_ok(certificate_fingerprint(f->kit.server.certificate, first, &err), &err);
    assert_ok(certificate_fingerprint(next.certificate.data, second, &err), &err);
    look_again(f, served);
    assert_string_equal(served, first);
    assert_string_equal(f->certificates.failure, "");

    /* Half replaced, cut, gone: the old pair stays, and the failure is named. */
    put(certificate, next.certificate.data, next.certificate.size);
    look_again(f, served);
    assert_string_equal(served, first);
    assert_holds(f->certificates.failure, "the key belongs to another certificate");
    put(certificate, next.certificate.data, next.certificate.size / 2);
    look_again(f, served);
    assert_string_equal(served, first);
    assert_holds(f->certificates.failure, "mine.pem");
    assert_int_equal(unlink(key), 0);
    look_again(f, served);
    assert_string_equal(served, first);
    put(certificate, "", 0);
    put(key, next.key.data, next.key.size);
    look_again(f, served);
    assert_string_equal(served, first);

    put(certificate, next.certificate.data, next.certificate.size);
    look_again(f, served);
    assert_string_equal(served, second);
    assert_string_equal(f->certificates.failure, "");
    assert_int_equal(f->certificates.times.end, times.end);
    look_again(f, served); /* nothing has changed */
    assert_string_equal(served, second);
    serve_stop(&f->serve);
    certificates_close(&f->certificates);
    certificate_pair_done(&next);
    tls_kit_done(&f->kit);
    free(f);
}

static void damaged_certificates_are_named(void **state)
{
    static const char *const files[] = {"tls/ca.pem", "tls/ca.key", "tls/server.pem",
                                        "tls/server.key"};
    const char *directory = *state;
    const struct coordinator_config config = config_of(directory);
    make(directory, NOW_MS);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct test_path path = test_path_in(directory, files[i]);
        const struct test_path aside = test_path_in(directory, "aside");
        struct certificates certificates;
        struct err err = {0};
        assert_int_equal(rename(path.text, aside.text), 0);
        assert_ok(file_write_atomic(path.text, "garbage", 7, 0600, &err), &err);
        assert_int_equal(certificates_open(&config, NOW_MS, &certificates, &err), ERR_FORMAT);
        assert_holds(err.text, files[i]);
        assert_int_equal(rename(aside.text, path.text), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_state_directory_gets_certificates_once),
        test_with_directory(a_dropped_draft_leaves_nothing),
        test_with_directory(without_certificates_there_is_no_tls),
        test_with_directory(a_certificate_is_renewed_for_twenty_years),
        test_with_directory(a_clock_that_is_wrong_by_years_makes_valid_certificates),
        test_with_directory(a_renewal_that_a_power_cut_halved_is_made_again),
        test_with_directory(a_renewal_on_a_full_disk_leaves_the_old_pair),
        test_with_directory(names_are_added_and_the_authority_stays),
        test_with_directory(a_certificate_of_the_user_is_checked),
        test_with_directory(files_of_the_user_that_are_replaced_count_without_a_restart),
        test_with_directory(damaged_certificates_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
