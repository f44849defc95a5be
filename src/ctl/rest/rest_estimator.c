/* SPDX-License-Identifier: Apache-2.0 */
/* rest_estimator.c - GET /estimator: the state of the learned estimates. */
#include <string.h>

#include "ctl/insight/estimates.h"
#include "ctl/rest/rest.h"

void rest_estimator(struct request *request)
{
    json_t *tree = estimates_json(request_server(request)->estimates), *features = json_object_get(tree, "features");

    /* Words of other people's commands are theirs. */
    for (size_t i = json_array_size(features); request->who.role != ROLE_ADMIN && i-- > 0;)
        if (strncmp(json_string_value(json_array_get(features, i)), "--", 2) == 0)
            (void)json_array_remove(features, i);
    reply_tree(request, 200, tree);
}
