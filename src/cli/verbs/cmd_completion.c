/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completion.c - muster completion bash|zsh|fish: from the tables of verbs and options. Jobs, nodes and virtual
 * clusters are asked of the controller while one types, and silently left out when it does not answer. */
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"
#include "cli/verbs/live.h"

/* The verbs of main.c that are not live. */
static const struct {
    const char *name, *verbs, *summary;
} others[] = {
    { "sim", "run compare replay anomaly gen policies", "simulate schedulers on a trace" },
    { "trace", "import stat", "import and describe traces" },
    { "cell", "replay tree ls show expand", "virtual clusters as cells" },
    { "estimate", "train predict eval show", "learn from finished jobs what new ones will need" },
    { "gpu",
      "run ls top pause resume evict release restore estimate suspend set signal checkpoint baseline detach stats "
      "check drain agent",
      "CUDA programs under limits; drain GPUs" },
};

#define OTHERS (sizeof(others) / sizeof(others[0]))

/* Flags whose value is a name the controller knows; the others take files, or what only the user knows. */
static const struct {
    const char *flag, *kind;
} valued[] = {
    { "vc", "vc" },          { "nodelist", "node" },   { "exclude", "node" }, { "node", "node" },
    { "job", "job" },        { "after", "job" },       { "afterok", "job" },  { "afterany", "job" },
    { "afternotok", "job" }, { "context", "context" },
};
#define VALUED (sizeof(valued) / sizeof(valued[0]))

/* What a shell runs to list the words of a kind; NULL for files, which shells know themselves. */
static const char *lister(const char *kind)
{
    if (!kind || strcmp(kind, "file") == 0)
        return NULL;
    if (strcmp(kind, "job") == 0)
        return "muster queue -o name 2>/dev/null";
    if (strcmp(kind, "node") == 0)
        return "muster node ls -o name 2>/dev/null";
    if (strcmp(kind, "context") == 0)
        return "muster context -o name 2>/dev/null";
    return "muster vc -o name 2>/dev/null | sort -u";
}

static const char *kind_of(const struct command *above, const struct command *c)
{
    return c->complete || !above ? c->complete : above->complete;
}

/* As one word of any of the three shells. */
static void quoted(const char *text)
{
    (void)putchar('\'');
    for (; *text; text++)
        (void)(*text == '\'' ? fputs("'\\''", stdout) : putchar(*text));
    (void)putchar('\'');
}

static void flags_of(const struct opt *opts)
{
    for (; opts && opts->name; opts++)
        if (opts->help)
            (void)printf(" --%s", opts->name);
}

static void subs_of(const struct command *c)
{
    for (const struct command *s = c->sub; s && s->name; s++)
        (void)printf(" %s", s->name);
}

/* Every verb and every verb below one. The latter come first: in bash and zsh the first pattern that fits is taken. */
static void each(void (*print)(const struct command *above, const struct command *c))
{
    for (const struct command *c = live_commands; c->name; c++) {
        for (const struct command *s = c->sub; s && s->name; s++)
            print(c, s);
        print(NULL, c);
    }
}

/* NAME) with or without words after it, or 'ABOVE NAME'). */
static void pattern(const struct command *above, const struct command *c)
{
    if (above)
        (void)printf("'%s %s')", above->name, c->name);
    else
        (void)printf("%s | '%s '*)", c->name, c->name);
}

static void bash_case(const struct command *above, const struct command *c)
{
    const char *list = c->sub && !c->run ? NULL : lister(kind_of(above, c));

    (void)fputs("    ", stdout);
    pattern(above, c);
    (void)fputs(" flags='", stdout);
    flags_of(c->opts);
    flags_of(command_more(c));
    (void)fputs("' words='", stdout);
    subs_of(c);
    (void)fputs("'", stdout);
    if (list)
        (void)printf("; [ \"${word#-}\" = \"$word\" ] && more=$(%s)", list);
    (void)puts(" ;;");
}

static void bash(void)
{
    (void)puts("# bash completion for muster: eval \"$(muster completion bash)\"\n_muster()\n{\n"
               "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} at=${COMP_WORDS[1]} "
               "words= flags= more=\n\n"
               "    [ \"$word\" != = ] || word= # --vc=NAME is three words here\n"
               "    [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}\n"
               "    [ \"$COMP_CWORD\" -eq 1 ] && at=\n"
               "    [ \"$COMP_CWORD\" -le 2 ] || at=\"$at ${COMP_WORDS[2]}\"\n"
               "    case $before in");
    for (size_t i = 0; i < VALUED; i++)
        (void)printf("    --%s) more=$(%s) at=- ;;\n", valued[i].flag, lister(valued[i].kind));
    (void)fputs("    esac\n    case $at in\n    '') words='", stdout);
    for (const struct command *c = live_commands; c->name; c++)
        (void)printf("%s ", c->name);
    for (size_t i = 0; i < OTHERS; i++)
        (void)printf("%s ", others[i].name);
    (void)puts("' ;;");
    each(bash_case);
    for (size_t i = 0; i < OTHERS; i++)
        (void)printf("    %s) words='%s' ;;\n", others[i].name, others[i].verbs);
    (void)puts("    esac\n    [ \"${word#-}\" = \"$word\" ] || words=$flags\n    COMPREPLY=($(compgen -W \"$words "
               "$more\" -- \"$word\"))\n}\n"
               "complete -o default -F _muster muster");
}

static void zsh_case(const struct command *above, const struct command *c)
{
    const char *kind = c->sub && !c->run ? NULL : kind_of(above, c);

    (void)fputs("    ", stdout);
    pattern(above, c);
    (void)fputs(" compadd --", stdout);
    subs_of(c);
    (void)fputs("; [[ $PREFIX != -* ]] || compadd --", stdout);
    flags_of(c->opts);
    flags_of(command_more(c));
    if (lister(kind))
        (void)printf("; compadd -- ${(f)\"$(%s)\"}", lister(kind));
    else if (kind)
        (void)fputs("; _files", stdout);
    (void)puts(" ;;");
}

static void zsh(void)
{
    (void)puts("#compdef muster\n# zsh completion for muster: muster completion zsh > \"${fpath[1]}/_muster\"\n"
               "_muster()\n{\n    local -a verbs\n    local at=$words[2] before=$words[CURRENT-1]\n\n    verbs=(");
    for (const struct command *c = live_commands; c->name; c++) {
        (void)printf("        %s:", c->name);
        quoted(c->summary);
        (void)putchar('\n');
    }
    for (size_t i = 0; i < OTHERS; i++) {
        (void)printf("        %s:", others[i].name);
        quoted(others[i].summary);
        (void)putchar('\n');
    }
    (void)puts("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n    fi\n"
               "    if [[ $words[CURRENT] == --*=* ]]; then\n"
               "        before=${words[CURRENT]%%=*}\n        compset -P '*='\n    fi\n"
               "    (( CURRENT == 3 )) || at=\"$at $words[3]\"\n    case $before in");
    for (size_t i = 0; i < VALUED; i++)
        (void)printf("    --%s) compadd -- ${(f)\"$(%s)\"}; return ;;\n", valued[i].flag, lister(valued[i].kind));
    (void)puts("    esac\n    case $at in");
    each(zsh_case);
    for (size_t i = 0; i < OTHERS; i++)
        (void)printf("    %s) compadd -- %s ;;\n    '%s '*) _files ;;\n", others[i].name, others[i].verbs,
                     others[i].name);
    /* As a file in fpath it is the function's own body when it is first called. */
    (void)puts("    esac\n}\nif [ \"$funcstack[1]\" = _muster ]; then _muster \"$@\"; else compdef _muster muster; fi");
}

static void fish_line(const struct command *above, const struct command *c)
{
    (void)printf("complete -c muster -n '__muster_at%s%s %s'", above ? " " : "", above ? above->name : "", c->name);
}

static void fish_opts(const struct command *above, const struct command *c, const struct opt *opts)
{
    for (; opts && opts->name; opts++) {
        if (!opts->help)
            continue;
        fish_line(above, c);
        (void)printf(" -l %s", opts->name);
        if (opts->letter > 0 && opts->letter < 256)
            (void)printf(" -s %c", opts->letter);
        if (opts->value)
            (void)fputs(" -r", stdout);
        for (size_t i = 0; i < VALUED; i++)
            if (opts->value && strcmp(opts->name, valued[i].flag) == 0)
                (void)printf(" -f -a '(%s)'", lister(valued[i].kind));
        (void)fputs(" -d ", stdout);
        quoted(opts->help);
        (void)putchar('\n');
    }
}

static void fish_case(const struct command *above, const struct command *c)
{
    const char *kind = c->sub && !c->run ? NULL : kind_of(above, c);

    (void)fputs("complete -c muster -n ", stdout);
    (void)printf(above ? "'__muster_next %s'" : "__muster_next", above ? above->name : "");
    (void)printf(" -f -a %s -d ", c->name);
    quoted(c->summary);
    (void)putchar('\n');
    fish_opts(above, c, c->opts);
    fish_opts(above, c, command_more(c));
    if (!c->sub && (!kind || strcmp(kind, "file") != 0)) {
        fish_line(above, c);
        (void)puts(" -f");
    }
    if (lister(kind)) {
        fish_line(above, c);
        (void)printf(" -f -a '(%s)'\n", lister(kind));
    }
}

static void fish(void)
{
    (void)puts("# fish completion for muster: muster completion fish > ~/.config/fish/completions/muster.fish\n"
               "# Do these words follow the name of the program? Are they all there is so far?\n"
               "function __muster_at\n    set -l at (commandline -opc)\n"
               "    set -l last (math 1 + (count $argv))\n"
               "    test (count $at) -ge $last; and test \"$at[2..$last]\" = \"$argv\"\nend\n"
               "function __muster_next\n    set -l at (commandline -opc)\n"
               "    test (count $at) -eq (math 1 + (count $argv)); and test \"$at[2..]\" = \"$argv\"\nend");
    each(fish_case);
    for (size_t i = 0; i < OTHERS; i++) {
        (void)printf("complete -c muster -n __muster_next -f -a %s -d ", others[i].name);
        quoted(others[i].summary);
        (void)printf("\ncomplete -c muster -n '__muster_next %s' -f -a '%s'\n", others[i].name, others[i].verbs);
    }
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
