# SPDX-License-Identifier: Apache-2.0
"""Ends of steps from a Python that libmuster_gpu.so cannot look into.

The library puts its hook on PyTorch's optimizers through the interpreter's own functions. Where the interpreter keeps those
to itself, this module does it: `muster gpu run` puts its folder on PYTHONPATH. It imports neither torch nor anything that costs, gives
way to the program's own sitecustomize, and whatever fails in it is the program's business only with MUSTER_GPU_DEBUG.
"""
import os
import sys

_TORCH = "torch.optim.optimizer"
_HERE = os.path.dirname(os.path.abspath(__file__))
_TRIM, _SAVE, _STATS = 1, 2, 4
_SAVED, _CANNOT, _RAISED = 0, -38, -5  # as the library counts: 0, -ENOSYS, -EIO


def _said(what):
    if os.environ.get("MUSTER_GPU_DEBUG", "0") not in ("", "0"):
        print(f"muster-gpu: sitecustomize: {what}", file=sys.stderr)


def _save():
    own = getattr(sys.modules.get("__main__"), "muster_on_checkpoint", None)
    if own is None:
        return _CANNOT
    try:
        own()
    except Exception as error:  # it is told to whoever asked for the checkpoint
        _said(error)
        return _RAISED
    return _SAVED


def _stats(library, ctypes):
    """PyTorch's own book to the library; what to say where there is none."""
    try:
        cuda = sys.modules["torch"].cuda
        said = cuda.memory_stats() if cuda.is_initialized() else None
        if not said:
            return _CANNOT
        values = [int(said.get(f"{name}_bytes.all.{when}", 0)) for name in ("allocated", "reserved", "active", "inactive_split")
                  for when in ("current", "peak")]
        library.muster_gpu_site_stats((ctypes.c_uint64 * 9)(cuda.current_device(), *values))
    except Exception as error:
        _said(error)
        return _RAISED
    return _SAVED


def _hook(optimizers):
    import ctypes
    library = ctypes.PyDLL(None)
    if not library.muster_gpu_site():
        return
    ended, done = library.muster_gpu_site_step, library.muster_gpu_site_done
    ended.argtypes = [ctypes.c_uint64]

    def step(optimizer, args, kwargs):
        wanted = ended(id(optimizer))
        if wanted & _TRIM:
            try:
                sys.modules["torch"].cuda.empty_cache()
            finally:
                done(_TRIM, 0)
        if wanted & _STATS:
            result = _stats(library, ctypes)
            if result != _SAVED:
                done(_STATS, result)
        if wanted & _SAVE:
            done(_SAVE, _save())

    optimizers.register_optimizer_step_post_hook(step)


class _Finder:
    """Sees torch's optimizers being imported, by whoever does it, and is gone."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != _TORCH:
            return None
        sys.meta_path.remove(_Finder)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                break
        else:
            return None
        try:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                try:
                    _hook(module)
                except Exception as error:
                    _said(error)

            spec.loader.exec_module = exec_module
        except Exception as error:
            _said(error)
        return spec


def _next():
    """The sitecustomize that would have been found without us."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    path = [p for p in sys.path if os.path.abspath(p or os.curdir) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "libmuster_gpu" in os.environ.get("LD_PRELOAD", ""):
    sys.meta_path.insert(0, _Finder)
_next()
