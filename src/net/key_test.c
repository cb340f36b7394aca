/* Keys: text and files, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "net/key.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/tg-key-test-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void assert_fails(tg_status status, tg_status expected, const char *part)
{
    assert_int_equal(status, expected);
    if (!strstr(tg_error(), part))
        fail_msg("\"%s\" does not contain \"%s\"", tg_error(), part);
}

static void pairs_in_files(void **state)
{
    (void)state;
    tg_key_pair *key = NULL, *other = NULL, *back = NULL;
    char text[TG_KEY_TEXT], again[TG_KEY_TEXT];
    struct stat s;
    assert_int_equal(tg_key_create(&key), TG_OK);
    assert_int_equal(tg_key_create(&other), TG_OK);
    tg_key_text(key, text);
    tg_key_text(other, again);
    assert_int_equal(strlen(text), 48);
    assert_memory_equal(text, "tgk1:", 5);
    assert_string_not_equal(text, again);

    const char *path = in_dir("a.key");
    assert_int_equal(tg_key_save(key, path), TG_OK);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(tg_key_load(path, &back), TG_OK);
    tg_key_text(back, again);
    assert_string_equal(text, again);
    tg_key_destroy(back);
    /* A key is never replaced. */
    assert_fails(tg_key_save(other, path), TG_E_IO, "never replaced");
    assert_int_equal(tg_key_load(path, &back), TG_OK);
    tg_key_text(back, again);
    assert_string_equal(text, again);

    assert_int_equal(chmod(path, 0640), 0);
    tg_key_pair *none = NULL;
    assert_fails(tg_key_load(path, &none), TG_E_IO, "0640");
    assert_null(none);
    tg_key_destroy(key);
    tg_key_destroy(other);
    tg_key_destroy(back);
    tg_key_destroy(NULL);
}

/* "openssl genpkey -algorithm ed25519" makes the same files. */
static void files_of_openssl(void **state)
{
    (void)state;
    tg_key_pair *key = NULL;
    tg__public_key public_key;
    size_t len = sizeof public_key.bytes;
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    FILE *f = fopen(in_dir("openssl"), "w");
    assert_true(PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL));
    fclose(f);
    chmod(in_dir("openssl"), 0600);
    assert_int_equal(tg_key_load(in_dir("openssl"), &key), TG_OK);
    assert_int_equal(EVP_PKEY_get_raw_public_key(pair, public_key.bytes, &len), 1);
    assert_true(tg__key_equal(&key->public_key, &public_key));
    EVP_PKEY_free(pair);
    tg_key_destroy(key);

    assert_int_equal(tg_key_create(&key), TG_OK);
    assert_int_equal(tg_key_save(key, in_dir("ours")), TG_OK);
    f = fopen(in_dir("ours"), "r");
    pair = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    assert_int_equal(EVP_PKEY_eq(pair, key->pair), 1);
    EVP_PKEY_free(pair);
    tg_key_destroy(key);
}

static void files_that_are_no_keys(void **state)
{
    (void)state;
    static const char rsa_like[] = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
    tg_key_pair *key = NULL;
    assert_fails(tg_key_load(in_dir("none"), &key), TG_E_IO, "No such file");
    assert_fails(tg_key_load(dir, &key), TG_E_IO, "not a regular file");
    write_file(in_dir("empty"), "", 0600);
    assert_fails(tg_key_load(in_dir("empty"), &key), TG_E_CORRUPT, "not a private key");
    write_file(in_dir("damaged"), rsa_like, 0600);
    assert_fails(tg_key_load(in_dir("damaged"), &key), TG_E_CORRUPT, "not a private key");
    /* A key of another kind. */
    EVP_PKEY *ec = EVP_EC_gen("P-256");
    FILE *f = fopen(in_dir("p256"), "w");
    assert_true(PEM_write_PrivateKey(f, ec, NULL, NULL, 0, NULL, NULL));
    fclose(f);
    EVP_PKEY_free(ec);
    chmod(in_dir("p256"), 0600);
    assert_fails(tg_key_load(in_dir("p256"), &key), TG_E_CORRUPT, "Ed25519");
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_fails(tg_key_load(in_dir("fifo"), &key), TG_E_IO, "not a regular file");
    assert_null(key);
}

static void lists(void **state)
{
    (void)state;
    tg_key_pair *key[2];
    char text[2][TG_KEY_TEXT], list[512], print[TG_KEY_TEXT], other[TG_KEY_TEXT];
    tg_keys *keys = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tg_key_create(&key[i]), TG_OK);
        tg_key_text(key[i], text[i]);
    }
    snprintf(list, sizeof list, "# friends\n\n  %s   anna's laptop \r\n\t%s#bob", text[0], text[1]);
    write_file(in_dir("list"), list, 0664); /* a neighbour could let himself in */
    assert_fails(tg_keys_load(in_dir("list"), &keys), TG_E_IO, "0664");
    write_file(in_dir("list"), list, 0646);
    assert_fails(tg_keys_load(in_dir("list"), &keys), TG_E_IO, "chmod go-w");
    write_file(in_dir("list"), list, 0644);
    assert_int_equal(tg_keys_load(in_dir("list"), &keys), TG_OK);
    assert_int_equal(tg_keys_count(keys), 2);
    assert_string_equal(keys->entry[0].name, "anna's laptop");
    assert_string_equal(keys->entry[1].name, "");
    for (int i = 0; i < 2; i++)
        assert_int_equal(tg__keys_find(keys, &key[i]->public_key), i);
    tg_keys_destroy(keys);

    keys = NULL;
    snprintf(list, sizeof list, "%s a\n%s b\n%s c\n", text[0], text[1], text[0]);
    assert_fails(tg_keys_parse(list, &keys), TG_E_SPEC, "line 3");
    assert_fails(tg_keys_parse("# nobody\n", &keys), TG_E_SPEC, "contains no key");
    assert_fails(tg_keys_parse("ssh-ed25519 AAAA me\n", &keys), TG_E_SPEC, "line 1");
    assert_fails(tg_keys_load(in_dir("nothing"), &keys), TG_E_IO, "nothing");
    assert_null(keys);

    /* Each key has one text only. */
    static const char *const changes[] = {"tgk2", "tgk1:A"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(list, sizeof list, "%s%s", changes[i], text[0] + strlen(changes[i]) - (i == 1));
        assert_fails(tg_key_fingerprint(list, print), TG_E_ARG, "not a public key");
    }
    snprintf(list, sizeof list, "%s=", text[0]);
    assert_fails(tg_key_fingerprint(list, print), TG_E_ARG, "not a public key");
    static const char last[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int accepted = 0;
    for (int i = 0; i < 64; i++) { /* the last character carries 4 bits */
        snprintf(list, sizeof list, "%.47s%c", text[0], last[i]);
        accepted += tg_key_fingerprint(list, print) == TG_OK;
    }
    assert_int_equal(accepted, 16);
    static const char *const weak[] = {/* points of small order */
                                       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                       "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                       "JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/AU",
                                       "xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA3o",
                                       "7P///////////////////////////////////////38",
                                       "7f///////////////////////////////////////38",
                                       "7v////////////////////////////////////////8"};
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
        snprintf(list, sizeof list, "tgk1:%s", weak[i]);
        assert_fails(tg_key_fingerprint(list, print), TG_E_ARG, "not a public key");
        snprintf(list, sizeof list, "tgk1:%s mallory\n", weak[i]);
        assert_fails(tg_keys_parse(list, &keys), TG_E_SPEC, "line 1");
    }

    assert_int_equal(tg_key_fingerprint(text[0], print), TG_OK);
    assert_int_equal(tg_key_fingerprint(text[1], other), TG_OK);
    assert_int_equal(strlen(print), 24);
    assert_string_not_equal(print, other);
    tg_key_destroy(key[0]);
    tg_key_destroy(key[1]);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

/* Whatever the umask takes. */
static void files_under_a_umask(void **state)
{
    (void)state;
    tg_key_pair *key = NULL;
    struct stat s;
    const char *path = in_dir("umask.key");
    assert_int_equal(tg_key_create(&key), TG_OK);
    const mode_t before = umask(0777);
    const tg_status status = tg_key_save(key, path);
    (void)umask(before);
    assert_int_equal(status, TG_OK);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    tg_key_destroy(key);
}

/* OpenSSL out of memory: it says so, perhaps not first, or has no memory to say so. */
static void openssl_without_memory(void **state)
{
    (void)state;
    tg_key_pair *key = NULL;
    ERR_clear_error();
    assert_fails(tg__ssl_fail(TG_E_IO, "trying"), TG_E_NOMEM, "out of memory: trying");
    ERR_raise(ERR_LIB_EVP, ERR_R_MALLOC_FAILURE);
    ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
    assert_fails(tg__ssl_fail(TG_E_IO, "trying"), TG_E_NOMEM, "out of memory: trying");
    assert_int_equal(ERR_peek_error(), 0);
    ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
    assert_fails(tg__ssl_fail(TG_E_IO, "trying"), TG_E_IO, "trying: error:");
    ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE); /* the program's own: of no concern here */
    assert_int_equal(tg_key_create(&key), TG_OK);
    assert_int_equal(ERR_peek_error(), 0);
    tg_key_destroy(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_in_files),         cmocka_unit_test(files_of_openssl),
        cmocka_unit_test(files_that_are_no_keys), cmocka_unit_test(lists),
        cmocka_unit_test(files_under_a_umask),    cmocka_unit_test(openssl_without_memory),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
