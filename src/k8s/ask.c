/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - see ask.h. */
#include "k8s/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "k8s/client.h"
#include "k8s/objects.h"

#define URL_STANDARD "http://127.0.0.1:9096"

struct question {
    const char *verb, *pod, *namespace, *url;
};

struct answer {
    bool come;
    int status;
    const char *verb;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool ask_wanted(int argc, char **argv)
{
    return strcmp(base_name(argv[0]), "kubectl-muster") == 0 ||
           (argc > 1 && (strcmp(argv[1], "why") == 0 || strcmp(argv[1], "queue") == 0));
}

static int usage(void)
{
    (void)fprintf(stderr, "expected: why [NAMESPACE/]POD [-n NAMESPACE] [--url URL], or queue [--url URL]\n");
    return 2;
}

static int question_read(int argc, char **argv, struct question *question)
{
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && (strcmp(argv[i], "-n") == 0 || strcmp(argv[i], "--namespace") == 0))
            question->namespace = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--url") == 0)
            question->url = argv[++i];
        else if (argv[i][0] != '-' && !question->verb)
            question->verb = argv[i];
        else if (argv[i][0] != '-' && !question->pod)
            question->pod = argv[i];
        else
            return -EINVAL;
    }
    if (!question->verb)
        return -EINVAL;
    return strcmp(question->verb, "why") == 0 ? (question->pod ? 0 : -EINVAL)
                                              : (strcmp(question->verb, "queue") == 0 && !question->pod ? 0 : -EINVAL);
}

static void print_why(const json_t *pod)
{
    printf("pod      %s/%s\n", json_at_text(pod, "namespace"), json_at_text(pod, "name"));
    if (*json_at_text(pod, "gang"))
        printf("gang     %s (%s)\n", json_at_text(pod, "gang"), json_at_text(pod, "gang_mark"));
    printf("state    %s\n", json_at_text(pod, "state"));
    if (*json_at_text(pod, "node"))
        printf("node     %s\n", json_at_text(pod, "node"));
    if (*json_at_text(pod, "reason"))
        printf("reason   %s\n         %s\n", json_at_text(pod, "reason"), json_at_text(pod, "message"));
}

static void print_queue(const json_t *pods)
{
    json_t *pod;
    size_t i;

    printf("%-20s %-32s %5s  %s\n", "NAMESPACE", "POD", "GPUS", "REASON");
    json_array_foreach((json_t *)(uintptr_t)pods, i, pod)
    {
        printf("%-20s %-32s %5lld  %s\n", json_at_text(pod, "namespace"), json_at_text(pod, "name"),
               (long long)json_integer_value(json_object_get(pod, "gpus")), json_at_text(pod, "reason"));
    }
}

static void on_answer(void *arg, const struct client_reply *reply)
{
    struct answer *answer = arg;

    answer->come = true;
    if (reply->status != 200) {
        (void)fprintf(stderr, "%s\n",
                      *json_at_text(reply->body, "error") ? json_at_text(reply->body, "error") : reply->text);
        answer->status = 1;
    } else if (strcmp(answer->verb, "why") == 0) {
        print_why(reply->body);
    } else {
        print_queue(reply->body);
    }
}

int ask_run(int argc, char **argv)
{
    struct question question = { .url = getenv("MUSTER_K8S_URL"), .namespace = "default" };
    CLEANUP(client_free) struct client *client = NULL;
    struct answer answer = { 0 };
    struct error err = { 0 };
    char path[1024];

    if (question_read(argc, argv, &question) < 0)
        return usage();
    answer.verb = question.verb;
    if (strcmp(question.verb, "queue") == 0)
        (void)snprintf(path, sizeof(path), "/v1/queue");
    else if (question.pod && strchr(question.pod, '/'))
        (void)snprintf(path, sizeof(path), "/v1/why/%.900s", question.pod);
    else
        (void)snprintf(path, sizeof(path), "/v1/why/%.300s/%.600s", question.namespace, question.pod);
    if (client_new(&(struct client_config){ .server = question.url ? question.url : URL_STANDARD, .parallel = 1 },
                   &client, &err) < 0 ||
        client_send(client, &(struct client_call){ .method = "GET", .path = path, .done = on_answer, .arg = &answer },
                    &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while (!answer.come)
        client_turn(client, NULL, 0, USEC_SEC);
    return answer.status;
}
