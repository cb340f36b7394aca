#include "net/key.h"
#include "base/arg.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "tgk1:"
#define PREFIX_LEN (sizeof PREFIX - 1)
#define BASE64_LEN 43 /* of 32 bytes, without the "=" at the end */
#define FILE_MAX 4096

tg_status tg__ssl_fail(tg_status status, const char *what)
{
    char text[200] = "unknown error";
    const unsigned long code = ERR_peek_error();
    bool memory = code == 0;
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    for (unsigned long c = code; c != 0; c = ERR_get_error())
        memory |= ERR_GET_REASON(c) == ERR_R_MALLOC_FAILURE;
    if (memory)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", what);
    return tg_fail(status, "%s: %s", what, text);
}

/* ---- public keys as text --------------------------------------------------------------------- */

void tg__key_text(const tg__public_key *key, char text[TG_KEY_TEXT])
{
    memcpy(text, PREFIX, PREFIX_LEN);
    EVP_EncodeBlock((unsigned char *)text + PREFIX_LEN, key->bytes, TG__KEY_BYTES);
    text[PREFIX_LEN + BASE64_LEN] = '\0';
}

/* Points of small order: under some of these keys, anyone can make signatures that verify. Their y,
 * without the sign of x in the highest bit, is one of two numbers, 0, 1 or -1. The last three also
 * have encodings from the prime (2^255 - 19) on, which no other key needs. */
static bool is_weak(const tg__public_key *key)
{
    static const uint8_t middle[][TG__KEY_BYTES] = {
        {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
         0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
         0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
        {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
         0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
         0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a}};
    uint8_t y[TG__KEY_BYTES];
    memcpy(y, key->bytes, sizeof y);
    y[TG__KEY_BYTES - 1] &= 0x7f;
    for (size_t i = 0; i < TG_COUNT(middle); i++)
        if (memcmp(y, middle[i], sizeof y) == 0)
            return true;
    const bool high = y[TG__KEY_BYTES - 1] == 0x7f;
    for (size_t i = 1; i < TG__KEY_BYTES - 1; i++)
        if (y[i] != (high ? 0xff : 0))
            return false;
    return high ? y[0] >= 0xec : y[TG__KEY_BYTES - 1] == 0 && y[0] <= 1;
}

bool tg__key_parse(const char *text, size_t len, tg__public_key *key_p)
{
    char whole[BASE64_LEN + 1];
    unsigned char bytes[TG__KEY_BYTES + 1];
    tg__public_key key;
    char back[TG_KEY_TEXT];
    if (len != PREFIX_LEN + BASE64_LEN || memcmp(text, PREFIX, PREFIX_LEN) != 0)
        return false;
    memcpy(whole, text + PREFIX_LEN, BASE64_LEN);
    whole[BASE64_LEN] = '=';
    if (EVP_DecodeBlock(bytes, (unsigned char *)whole, sizeof whole) != TG__KEY_BYTES + 1)
        return false;
    memcpy(key.bytes, bytes, TG__KEY_BYTES);
    tg__key_text(&key, back); /* each key has one text: no stray bits, blanks or "=" */
    if (memcmp(back, text, len) != 0 || is_weak(&key))
        return false;
    *key_p = key;
    return true;
}

bool tg__key_equal(const tg__public_key *a, const tg__public_key *b)
{
    return memcmp(a->bytes, b->bytes, TG__KEY_BYTES) == 0;
}

void tg_key_text(const tg_key_pair *key, char text[TG_KEY_TEXT])
{
    if (key && text)
        tg__key_text(&key->public_key, text);
}

void tg__key_mark(const tg__public_key *key, char text[TG_KEY_TEXT])
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(key->bytes, sizeof key->bytes, hash);
    for (int i = 0; i < 10; i++)
        text += sprintf(text, "%s%02x", i > 0 && i % 2 == 0 ? "-" : "", hash[i]);
}

tg_status tg_key_fingerprint(const char *key_text, char text[TG_KEY_TEXT])
{
    TG__ARG(key_text);
    TG__ARG(text);
    tg__public_key key;
    if (!tg__key_parse(key_text, strlen(key_text), &key))
        return tg_fail(TG_E_ARG,
                       "\"%.64s\" is not a public key: allowed: " PREFIX " and %d characters",
                       key_text, BASE64_LEN);
    tg__key_mark(&key, text);
    return TG_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Errors TG_E_NOMEM, TG_E_IO */
static tg_status from_seed(const uint8_t seed[TG__KEY_BYTES], tg_key_pair **key_p)
{
    tg_key_pair *key = calloc(1, sizeof *key);
    size_t len = sizeof key->public_key.bytes;
    if (!key)
        return tg_fail(TG_E_NOMEM, "out of memory: key");
    memcpy(key->seed, seed, sizeof key->seed);
    ERR_clear_error();
    key->pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, TG__KEY_BYTES);
    if (!key->pair || EVP_PKEY_get_raw_public_key(key->pair, key->public_key.bytes, &len) != 1) {
        const tg_status status = tg__ssl_fail(TG_E_IO, "making a key");
        tg_key_destroy(key);
        return status;
    }
    *key_p = key;
    return TG_OK;
}

tg_status tg_key_create(tg_key_pair **key_p)
{
    TG__ARG(key_p);
    uint8_t seed[TG__KEY_BYTES];
    ERR_clear_error();
    if (RAND_priv_bytes(seed, sizeof seed) != 1)
        return tg__ssl_fail(TG_E_IO, "random numbers");
    const tg_status status = from_seed(seed, key_p);
    OPENSSL_cleanse(seed, sizeof seed);
    return status;
}

void tg_key_destroy(tg_key_pair *key)
{
    if (!key)
        return;
    EVP_PKEY_free(key->pair); /* OpenSSL wipes its copy */
    OPENSSL_cleanse(key->seed, sizeof key->seed);
    free(key);
}

/* Read a whole file of at most max - 1 bytes into text. *mode_p: who may do what with it */
static tg_status read_file(const char *path, char *text, size_t max, size_t *len_p,
                           unsigned *mode_p)
{
    struct stat s = {.st_mode = 0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tg_fail(TG_E_IO, "%s: %s", path, strerror(errno));
    tg_status status = TG_OK;
    size_t len = 0;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))
        status = tg_fail(TG_E_IO, "%s: not a regular file", path);
    else if (s.st_size >= (off_t)max)
        status = tg_fail(TG_E_CORRUPT, "%s: %lld bytes are too many for a file of keys", path,
                         (long long)s.st_size);
    while (status == TG_OK) {
        const ssize_t n = read(fd, text + len, max - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = tg_fail(TG_E_IO, "%s: %s", path, strerror(errno));
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    text[len] = '\0';
    *len_p = len;
    *mode_p = (unsigned)s.st_mode & 07777;
    return status;
}

/* The file: PEM of PKCS #8 (RFC 8410), which for Ed25519 is these bytes and the private key. */
static const uint8_t der_head[] = {0x30, 0x2e, 2,    1,    0, 0x30, 5, 6,
                                   3,    0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20};
#define DER_LEN (sizeof der_head + TG__KEY_BYTES)
#define PEM_LEN (DER_LEN / 3 * 4)
#define PEM_BEGIN "-----BEGIN PRIVATE KEY-----"
#define PEM_END "-----END PRIVATE KEY-----"

static bool read_pem(const char *text, uint8_t seed[TG__KEY_BYTES])
{
    const char *at = strstr(text, PEM_BEGIN);
    const char *end = at ? strstr(at, PEM_END) : NULL;
    unsigned char line[PEM_LEN], der[DER_LEN];
    size_t len = 0;
    if (!end)
        return false;
    for (at += sizeof PEM_BEGIN - 1; at < end && len < PEM_LEN; at++)
        if (!strchr(" \t\r\n", *at))
            line[len++] = (unsigned char)*at;
    at += strspn(at, " \t\r\n");
    const bool ok = at == end && len == PEM_LEN &&
                    EVP_DecodeBlock(der, line, (int)len) == (int)DER_LEN &&
                    memcmp(der, der_head, sizeof der_head) == 0;
    if (ok)
        memcpy(seed, der + sizeof der_head, TG__KEY_BYTES);
    OPENSSL_cleanse(line, sizeof line);
    OPENSSL_cleanse(der, sizeof der);
    return ok;
}

tg_status tg_key_load(const char *path, tg_key_pair **key_p)
{
    TG__ARG(path);
    TG__ARG(key_p);
    char text[FILE_MAX];
    size_t len;
    unsigned mode;
    tg_status status = read_file(path, text, sizeof text, &len, &mode);
    uint8_t seed[TG__KEY_BYTES];
    if (status == TG_OK && !read_pem(text, seed))
        status = tg_fail(TG_E_CORRUPT,
                         "%s: not a private key%s: allowed: a file made by \"telegrad key new\" "
                         "(an Ed25519 key in PEM, without a password)",
                         path, strncmp(text, PREFIX, PREFIX_LEN) == 0 ? ", but a public key" : "");
    else if (status == TG_OK && (mode & 077))
        status = tg_fail(TG_E_IO,
                         "%s: this private key is accessible to other users (mode %04o): allowed: "
                         "0600 (chmod 600 %s)",
                         path, mode, path);
    if (status == TG_OK)
        status = from_seed(seed, key_p);
    OPENSSL_cleanse(text, sizeof text);
    OPENSSL_cleanse(seed, sizeof seed);
    return status;
}

static tg_status write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return TG_E_IO;
        text += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0 ? TG_OK : TG_E_IO;
}

tg_status tg_key_save(const tg_key_pair *key, const char *path)
{
    TG__ARG(key);
    TG__ARG(path);
    uint8_t der[DER_LEN];
    char text[sizeof PEM_BEGIN + PEM_LEN + sizeof PEM_END + 2] = PEM_BEGIN "\n";
    memcpy(der, der_head, sizeof der_head);
    memcpy(der + sizeof der_head, key->seed, TG__KEY_BYTES);
    EVP_EncodeBlock((unsigned char *)text + sizeof PEM_BEGIN, der, sizeof der);
    memcpy(text + sizeof PEM_BEGIN + PEM_LEN, "\n" PEM_END "\n", sizeof PEM_END + 2);
    tg_status status = TG_OK;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        status = tg_fail(TG_E_IO, "%s: %s%s", path, strerror(errno),
                         errno == EEXIST ? ": a key is never replaced; choose another name" : "");
    else if (fchmod(fd, 0600) != 0 || /* umask may have taken the owner's rights */
             write_all(fd, text, strlen(text)) != TG_OK)
        status = tg_fail(TG_E_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0 && status == TG_OK)
        status = tg_fail(TG_E_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0 && status != TG_OK)
        (void)unlink(path);
    OPENSSL_cleanse(der, sizeof der);
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

/* ---- lists ----------------------------------------------------------------------------------- */

int tg__keys_find(const tg_keys *keys, const tg__public_key *key)
{
    for (size_t i = 0; keys && i < keys->count; i++)
        if (tg__key_equal(&keys->entry[i].key, key))
            return (int)i;
    return -1;
}

/* Add the key of one line, if there is one. */
static tg_status add_line(tg_keys *keys, const char *where, int number, const char *line,
                          size_t len)
{
    static const char blanks[] = " \t\r";
    const char *hash = memchr(line, '#', len);
    len = hash ? (size_t)(hash - line) : len;
    while (len > 0 && strchr(blanks, line[len - 1]))
        len--;
    for (; len > 0 && strchr(blanks, *line); len--)
        line++;
    if (len == 0)
        return TG_OK;
    size_t word = 0;
    while (word < len && !strchr(blanks, line[word]))
        word++;
    tg__key_entry e = {.name = ""};
    if (!tg__key_parse(line, word, &e.key))
        return tg_fail(TG_E_SPEC,
                       "%s, line %d: \"%.*s\" is not a public key: allowed: " PREFIX
                       " and %d characters, as \"telegrad key show\" prints them",
                       where, number, word < 64 ? (int)word : 64, line, BASE64_LEN);
    if (tg__keys_find(keys, &e.key) >= 0)
        return tg_fail(TG_E_SPEC, "%s, line %d: this key is on the list already", where, number);
    while (word < len && strchr(blanks, line[word]))
        word++;
    const size_t rest = len - word < sizeof e.name ? len - word : sizeof e.name - 1;
    memcpy(e.name, line + word, rest);
    tg__key_entry *grown = realloc(keys->entry, (keys->count + 1) * sizeof *grown);
    if (!grown)
        return tg_fail(TG_E_NOMEM, "out of memory: list of keys");
    keys->entry = grown;
    keys->entry[keys->count++] = e;
    return TG_OK;
}

static tg_status parse_list(const char *text, const char *where, tg_keys **keys_p)
{
    tg_keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return tg_fail(TG_E_NOMEM, "out of memory: list of keys");
    tg_status status = TG_OK;
    for (int number = 1; *text && status == TG_OK; number++) {
        const size_t len = strcspn(text, "\n");
        status = add_line(keys, where, number, text, len);
        text += len + (text[len] == '\n');
    }
    if (status == TG_OK && keys->count == 0)
        status = tg_fail(TG_E_SPEC,
                         "%s: contains no key: allowed: a public key per line, followed by a name",
                         where);
    if (status == TG_OK)
        *keys_p = keys;
    else
        tg_keys_destroy(keys);
    return status;
}

tg_status tg_keys_parse(const char *text, tg_keys **keys_p)
{
    TG__ARG(text);
    TG__ARG(keys_p);
    return parse_list(text, "list of keys", keys_p);
}

tg_status tg_keys_load(const char *path, tg_keys **keys_p)
{
    TG__ARG(path);
    TG__ARG(keys_p);
    enum { LIST_MAX = 1 << 20 };
    char *text = malloc(LIST_MAX);
    size_t len;
    unsigned mode;
    if (!text)
        return tg_fail(TG_E_NOMEM, "out of memory: list of keys");
    tg_status status = read_file(path, text, LIST_MAX, &len, &mode);
    if (status == TG_OK && strlen(text) != len)
        status = tg_fail(TG_E_SPEC, "%s: not a text file", path);
    else if (status == TG_OK && (mode & 022))
        status = tg_fail(TG_E_IO,
                         "%s: other users can write to this list of keys (mode %04o): allowed: "
                         "0644 or stricter (chmod go-w %s)",
                         path, mode, path);
    if (status == TG_OK)
        status = parse_list(text, path, keys_p);
    free(text);
    return status;
}

size_t tg_keys_count(const tg_keys *keys)
{
    return keys ? keys->count : 0;
}

void tg_keys_destroy(tg_keys *keys)
{
    if (keys)
        free(keys->entry);
    free(keys);
}
