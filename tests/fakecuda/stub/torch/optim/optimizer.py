# SPDX-License-Identifier: Apache-2.0
hooks = []


def register_optimizer_step_post_hook(hook):
    hooks.append(hook)


class Optimizer:
    def step(self):
        for hook in hooks:
            hook(self, (), {})
