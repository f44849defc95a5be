# SPDX-License-Identifier: Apache-2.0
"""The program's own: it must run as if nobody had come before it."""
import builtins

builtins.own_sitecustomize = __file__
