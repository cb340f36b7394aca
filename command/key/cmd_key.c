/* telegrad key: makes and shows the keys by which ranks know each other. */
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/job/parts.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "telegrad/net.h"
#include <stdio.h>
#include <string.h>

static struct cli_words *words_of(void *input)
{
    return input;
}

/* Call act with the command's only argument. */
static int with_word(const struct cli_command *command, int argc, char **argv,
                     tg_status (*act)(const char *word))
{
    struct cli_words o = {0};
    const int parsed = options_parse(command, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    tg_status status = launch_check_one(command->name);
    if (status == TG_OK && (o.count != 1 || !o.word[0][0]))
        status = tg_fail(TG_E_SPEC, "%s: %s: allowed: telegrad %s %s", command->name,
                         o.count == 0  ? "no argument"
                         : o.count > 1 ? "more than one argument"
                                       : "an empty name",
                         command->name, command->usage);
    if (status == TG_OK)
        status = act(o.word[0]);
    if (status == TG_OK)
        status = output_flush();
    return cli_end(status);
}

static void print_public(const tg_key_pair *key)
{
    char text[TG_KEY_TEXT];
    tg_key_text(key, text);
    puts(text);
}

static tg_status make(const char *path)
{
    tg_key_pair *key;
    if (outfile_is_stdout(path))
        return tg_fail(TG_E_SPEC,
                       "key new -: a key must go to a file (./- is a file of that name)");
    TG_TRY(tg_key_create(&key));
    tg_status status = tg_key_save(key, path);
    if (status == TG_OK) {
        print_public(key);
        status = output_flush();
        if (status != TG_OK)
            console_note("%s has been written; telegrad key show prints its public key", path);
    }
    tg_key_destroy(key);
    return status;
}

static tg_status show(const char *path)
{
    tg_key_pair *key;
    TG_TRY(tg_key_load(path, &key));
    print_public(key);
    tg_key_destroy(key);
    return TG_OK;
}

static tg_status fingerprint(const char *word)
{
    char text[TG_KEY_TEXT], public_key[TG_KEY_TEXT];
    tg_key_pair *key;
    if (strncmp(word, "tgk1:", 5) != 0) {
        const tg_status status = tg_key_load(word, &key);
        if (status == TG_E_CORRUPT)
            return tg_fail(status, "%s, or a public key itself, tgk1:...", tg_error());
        TG_TRY(status);
        tg_key_text(key, public_key);
        tg_key_destroy(key);
        word = public_key;
    }
    TG_TRY(tg_key_fingerprint(word, text));
    puts(text);
    return TG_OK;
}

static int cmd_new(int argc, char **argv)
{
    return with_word(&command_key_new, argc, argv, make);
}

static int cmd_show(int argc, char **argv)
{
    return with_word(&command_key_show, argc, argv, show);
}

static int cmd_fingerprint(int argc, char **argv)
{
    return with_word(&command_key_fingerprint, argc, argv, fingerprint);
}

const struct cli_command command_key_new = {
    .name = "key new",
    .run = cmd_new,
    .summary = "make a key, and print its public part",
    .usage = "FILE",
    .about = "Make a pair of Ed25519 keys, write it to a new FILE that only you can read (mode "
             "0600), and print the public key. Send the public key to the others; keep FILE to "
             "yourself. An existing FILE is never replaced.",
    .words_of = words_of,
    .operands = "FILE",
    .examples = "telegrad key new worker.key"};

const struct cli_command command_key_show = {.name = "key show",
                                             .run = cmd_show,
                                             .summary = "print the public part of a key",
                                             .usage = "FILE",
                                             .about = "Print the public key of FILE.",
                                             .words_of = words_of,
                                             .operands = "FILE",
                                             .examples = "telegrad key show worker.key"};

const struct cli_command command_key_fingerprint = {
    .name = "key fingerprint",
    .run = cmd_fingerprint,
    .summary = "print a short form of a public key, for people to compare",
    .usage = "FILE|tgk1:...",
    .about = "Print the fingerprint of a public key, or of the one that belongs to FILE: five "
             "groups of four hexadecimal digits, to read out over the telephone.",
    .words_of = words_of,
    .operands = "FILE",
    .examples = "telegrad key fingerprint worker.key"};

static const struct cli_command *const parts[] = {&command_key_new, &command_key_show,
                                                  &command_key_fingerprint, NULL};

static int cmd_key(int argc, char **argv)
{
    return parts_run(&command_key, argc, argv);
}

const struct cli_command command_key = {
    .name = "key",
    .run = cmd_key,
    .summary = "make and show the keys of ranks that train together without MPI",
    .usage = "new|show|fingerprint ARGUMENT",
    .about = "Ranks that connect over a network (telegrad train --listen and --join) prove their "
             "identity with a key, and accept only the keys they have been given.",
    .parts = parts,
    .examples = "telegrad key new worker.key"};
