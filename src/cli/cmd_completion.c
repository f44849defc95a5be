/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completion.c - muster completion bash|zsh|fish: from the tables of verbs and options. Jobs, nodes and virtual
 * clusters are asked of the controller while one types, and silently left out when it does not answer. */
#include <stdio.h>
#include <string.h>

#include "cli/live.h"
#include "cli/verbs.h"

/* The verbs of main.c that are not live. */
static const struct {
    const char *name, *verbs, *summary;
} others[] = {
    { "sim", "run compare replay anomaly gen policies", "simulate schedulers on a trace" },
    { "trace", "import stat", "import and describe traces" },
    { "cell", "replay tree ls show expand", "virtual clusters as cells" },
    { "estimate", "train predict eval show", "learn from finished jobs what new ones will need" },
    { "gpu", "run ls top pause resume evict release restore set signal checkpoint check drain",
      "CUDA programs under limits; drain GPUs" },
};

static void words_of(const struct opt *opts, char separator)
{
    for (; opts && opts->name; opts++)
        if (opts->help)
            (void)printf("%c--%s", separator, opts->name);
}

/* What a shell runs to list the words of a kind. */
static const char *lister(const char *kind)
{
    if (strcmp(kind, "job") == 0)
        return "muster queue -o name 2>/dev/null";
    if (strcmp(kind, "node") == 0)
        return "muster node ls -o name 2>/dev/null";
    return "muster vc -o name 2>/dev/null | sort -u";
}

static void bash_words(const struct command *c)
{
    if (c->sub) {
        for (const struct command *s = c->sub; s->name; s++)
            (void)printf(" %s", s->name);
    }
    words_of(c->opts, ' ');
    words_of(command_more(c), ' ');
}

static void bash(void)
{
    (void)puts("# bash completion for muster: eval \"$(muster completion bash)\"");
    (void)puts("_muster()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words= more=\n");
    (void)fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='", stdout);
    for (const struct command *c = live_commands; c->name; c++)
        (void)printf("%s ", c->name);
    for (size_t i = 0; i < 4; i++)
        (void)printf("%s ", others[i].name);
    (void)puts("'\n    else\n        case $verb in");
    for (const struct command *c = live_commands; c->name; c++) {
        (void)printf("        %s) words='", c->name);
        bash_words(c);
        (void)fputs("'", stdout);
        if (c->complete && strcmp(c->complete, "file") != 0)
            (void)printf("; [ \"${word#-}\" = \"$word\" ] && more=$(%s)", lister(c->complete));
        (void)puts(" ;;");
    }
    for (size_t i = 0; i < 4; i++)
        (void)printf("        %s) words='%s' ;;\n", others[i].name, others[i].verbs);
    (void)puts("        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words $more\" -- \"$word\"))\n}\n"
               "complete -o default -F _muster muster");
}

static void zsh(void)
{
    (void)puts("#compdef muster\n# zsh completion for muster: muster completion zsh > \"${fpath[1]}/_muster\"");
    (void)puts("_muster()\n{\n    local -a verbs words\n    verbs=(");
    for (const struct command *c = live_commands; c->name; c++)
        (void)printf("        '%s:%s'\n", c->name, c->summary);
    for (size_t i = 0; i < 4; i++)
        (void)printf("        '%s:%s'\n", others[i].name, others[i].summary);
    (void)puts("    )\n    if (( CURRENT == 2 )); then\n        _describe 'verb' verbs\n        return\n    fi\n    "
               "case $words[2] in");
    for (const struct command *c = live_commands; c->name; c++) {
        (void)printf("    %s) compadd --", c->name);
        bash_words(c);
        if (c->complete && strcmp(c->complete, "file") != 0)
            (void)printf("; compadd -- ${(f)\"$(%s)\"}", lister(c->complete));
        else if (c->complete)
            (void)fputs("; _files", stdout);
        (void)puts(" ;;");
    }
    for (size_t i = 0; i < 4; i++)
        (void)printf("    %s) compadd -- %s ;;\n", others[i].name, others[i].verbs);
    (void)puts("    esac\n}\ncompdef _muster muster");
}

static void fish_opts(const struct command *c, const struct opt *opts)
{
    for (; opts && opts->name; opts++) {
        char letter[8] = "";

        if (!opts->help)
            continue;
        if (opts->letter > 0 && opts->letter < 256)
            (void)snprintf(letter, sizeof(letter), " -s %c", opts->letter);
        (void)printf("complete -c muster -n '__fish_seen_subcommand_from %s' -l %s%s%s -d \"%s\"\n", c->name,
                     opts->name, letter, opts->value ? " -x" : "", opts->help);
    }
}

static void fish(void)
{
    (void)puts("# fish completion for muster: muster completion fish > ~/.config/fish/completions/muster.fish");
    for (const struct command *c = live_commands; c->name; c++) {
        (void)printf("complete -c muster -n __fish_use_subcommand %s-a %s -d \"%s\"\n",
                     c->complete && strcmp(c->complete, "file") == 0 ? "" : "-f ", c->name, c->summary);
        fish_opts(c, c->opts);
        fish_opts(c, command_more(c));
        for (const struct command *s = c->sub; s && s->name; s++)
            (void)printf("complete -c muster -n '__fish_seen_subcommand_from %s' -f -a %s -d \"%s\"\n", c->name,
                         s->name, s->summary);
        if (c->complete && strcmp(c->complete, "file") != 0)
            (void)printf("complete -c muster -n '__fish_seen_subcommand_from %s' -f -a '(%s)'\n", c->name,
                         lister(c->complete));
    }
    for (size_t i = 0; i < 4; i++)
        (void)printf("complete -c muster -n __fish_use_subcommand -f -a %s -d \"%s\"\n"
                     "complete -c muster -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                     others[i].name, others[i].summary, others[i].name, others[i].verbs);
}

int cmd_completion(struct command_args *args)
{
    if (strcmp(args->words[0], "bash") == 0)
        bash();
    else if (strcmp(args->words[0], "zsh") == 0)
        zsh();
    else if (strcmp(args->words[0], "fish") == 0)
        fish();
    else
        return args_wrong(args, "'%.40s': expected bash, zsh or fish", args->words[0]);
    return CODE_DONE;
}
