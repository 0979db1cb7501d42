"""Just-in-time dynamic batching: write the model for one sample, call `hybridize(dynamic_batch=True)`.

Importing gluonjit imports no framework and changes nothing but this: when `mxnet` is imported, before or after,
these functions of it are wrapped so that calls can be captured and run together: the imperative operator call
(`mxnet.ndarray.register._imperative_invoke` and its checks of types, `_verify_all_legacy_ndarrays` and
`_verify_all_np_ndarrays`), `gluon.Block.__call__` and that of recurrent layers, `Block.hybridize`,
`HybridBlock.hybridize`, `NDArray.__setitem__`, `_get_index_nd`, `reshape` and `backward`, `numpy.ndarray.__setitem__`,
the functions `zeros` and `tensordot` of `mxnet.ndarray.numpy._api_internal`, the switches of numpy's semantics
(`set_np_shape` in `mxnet` and `mxnet.util`, `util._set_np_array`, `util._NumpyArrayScope.__enter__` and `__exit__`),
`autograd.set_recording`, `set_training`, `backward` and `grad`, `Trainer.step` and `update`, `Parameter.set_data`,
`initialize`, `reset_ctx`, `cast`, `grad_req`, `_finish_deferred_init` and `_init_impl`, `ParameterDict.zero_grad`, the
registering and detaching of forward hooks (`register_forward_hook`, `register_forward_pre_hook`, `HookHandle.detach`),
`Block.register_child`, `HybridBlock.export` and `_clear_cached_op`, and of `mxnet.ndarray` `from_numpy`, `from_dlpack`
and `to_dlpack_for_write`. A fork leaves what is captured to the parent.
When `torch` is imported these are: `torch.nn.Module.__call__`, `__setattr__`, `_apply` and `load_state_dict`,
`torch.autograd.Function.apply`, `torch.autograd.backward` and `grad`, `torch.compile`; and optimizers
tell it before their steps.
Blocks and modules that were not hybridized with `dynamic_batch=True`, and arrays that do not come from such, behave as
before. `verify` puts watchers around some of these, and takes them away when it returns. Where numpy is newer than
MXNet 1.9.1 knows, names that numpy has removed and MXNet reads are put back before MXNet is imported; where the CUDA
11 wheels of the extra `cu112` are installed, their libraries are loaded before it.
"""

from gluonjit import errors, nn
from gluonjit.errors import CaptureError, FlushError
from gluonjit.frameworks import before_import, when_imported
from gluonjit.hybrid import Batch, Options, Report, batching, explain
from gluonjit.public import add_n, cache_info, cell, clear_caches, hybridize, verify

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "CaptureError",
    "FlushError",
    "Options",
    "Report",
    "add_n",
    "batching",
    "cache_info",
    "cell",
    "clear_caches",
    "errors",
    "explain",
    "hybridize",
    "nn",
    "verify",
]

before_import("mxnet", "gluonjit.compat:prepare_mxnet")
when_imported("mxnet", "gluonjit.engines.mxnet:install")
when_imported("torch", "gluonjit.engines.torch:install")
