#include "command/help/help_completion.h"
#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Completion of telegrad for bash, printed by: telegrad help --completion bash\n"
    "_telegrad_offer()\n"
    "{\n"
    "    COMPREPLY+=($(compgen -W \"$1\" -- \"$word\"))\n"
    "}\n"
    "\n"
    "_telegrad_names()\n"
    "{\n"
    "    _telegrad_offer \"$(\"$tool\" help --names \"$1\" 2>/dev/null)\"\n"
    "}\n"
    "\n"
    "# -f: files, -d: folders\n"
    "_telegrad_paths()\n"
    "{\n"
    "    local path\n"
    "    while IFS= read -r path; do COMPREPLY+=(\"$path\"); done < <(compgen \"$1\" -- "
    "\"$word\")\n"
    "    compopt -o filenames 2>/dev/null\n"
    "}\n"
    "\n"
    "_telegrad()\n"
    "{\n"
    "    local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
    "    local before=${COMP_WORDS[COMP_CWORD - 1]} options=\n"
    "    COMPREPLY=()\n"
    "    # --option=value is three words to bash\n"
    "    if [ \"$word\" = = ]; then\n"
    "        word=\n"
    "    elif [ \"$before\" = = ]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";

static const char tail[] = "    esac\n"
                           "    [[ $word != -* ]] || _telegrad_offer \"$options\"\n"
                           "}\n"
                           "\n"
                           "complete -F _telegrad telegrad\n";

static void put_values(const struct cli_values *v)
{
    if (v->kind)
        printf("_telegrad_names %s; ", v->kind);
    if (v->words[0])
        printf("_telegrad_offer '%s'; ", v->words);
    if (v->files || v->folders)
        printf("_telegrad_paths -%c; ", v->files ? 'f' : 'd');
}

static void put_option_values(void *arg, const struct cli_option *o)
{
    (void)arg;
    if (!o->name || !o->arg)
        return;
    const struct cli_values v = cli_values_of(o);
    printf("        --%s", o->name);
    if (cli_letter(o))
        printf(" | -%c", cli_letter(o));
    printf(") ");
    put_values(&v);
    printf("return ;;\n");
}

static void put_option_name(void *arg, const struct cli_option *o)
{
    (void)arg;
    if (o->name)
        printf("--%s ", o->name);
    if (o->name && cli_letter(o))
        printf("-%c ", cli_letter(o));
}

static void put_command(const struct cli_command *c)
{
    const struct cli_values operands = cli_operands_of(c);
    if (!c->parts) {
        printf("    '%s')\n        case $before in\n", c->name);
        cli_each_option(c, put_option_values, NULL);
        printf("        esac\n        options='");
        cli_each_option(c, put_option_name, NULL);
        printf("'\n");
        if (operands.kind || operands.files) {
            printf("        [[ $word == -* ]] || { ");
            put_values(&operands);
            printf("}\n");
        }
        printf("        ;;\n");
    }
    for (size_t i = 0; c->parts && c->parts[i]; i++)
        put_command(c->parts[i]);
}

/* For a command with parts, the second word also belongs to the command's name. */
static void put_parts(const struct cli_command *c)
{
    const struct cli_values parts = cli_operands_of(c);
    printf("    if [ \"$command\" = %s ]; then\n"
           "        if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
           "            _telegrad_offer '%s -h --help --usage'\n"
           "            return\n"
           "        fi\n"
           "        command=\"$command ${COMP_WORDS[2]}\"\n"
           "    fi\n",
           c->name, parts.words);
}

void help_completion_bash(const struct cli_command *const *commands)
{
    fputs(head, stdout);
    printf("    local commands='");
    for (size_t i = 0; commands[i]; i++)
        printf("%s%s", i ? " " : "", commands[i]->name);
    printf("'\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        _telegrad_offer \"$commands help -h --help --usage -V --version\"\n"
           "        return\n"
           "    fi\n"
           "    if [ \"$command\" = help ]; then\n"
           "        case $before in\n"
           "        help) _telegrad_offer \"$commands --completion --man --names\" ;;\n"
           "        --completion) _telegrad_offer 'bash zsh' ;;\n"
           "        --names) _telegrad_offer '");
    for (size_t i = 0; commands[i]; i++)
        if (cli_lists_names(commands[i]))
            printf("%s ", commands[i]->name);
    printf("' ;;\n");
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->parts)
            printf("        %s) _telegrad_offer '%s' ;;\n", commands[i]->name,
                   cli_operands_of(commands[i]).words);
    printf("        esac\n        return\n    fi\n");
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->parts)
            put_parts(commands[i]);
    printf("    case $command in\n");
    for (size_t i = 0; commands[i]; i++)
        put_command(commands[i]);
    fputs(tail, stdout);
}
