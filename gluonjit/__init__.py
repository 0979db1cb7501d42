"""Just-in-time dynamic batching: write the model for one sample, call `hybridize(dynamic_batch=True)`.

Importing gluonjit imports no framework. When a framework is imported, before or after, gluonjit wraps the following of
its functions, and no others, to capture calls and run them together. Of `mxnet`:

    mxnet: set_np_shape
    mxnet.autograd: backward, grad, mark_variables, set_recording, set_training
    mxnet.gluon.block.Block: __call__, hybridize, register_child, register_forward_hook, register_forward_pre_hook
    mxnet.gluon.block.HybridBlock: _clear_cached_op, export, hybridize
    mxnet.gluon.parameter.Parameter: _finish_deferred_init, _init_impl, cast, grad_req, initialize, reset_ctx
    mxnet.gluon.parameter.Parameter: set_data
    mxnet.gluon.parameter.ParameterDict: zero_grad
    mxnet.gluon.rnn.rnn_layer._RNNLayer: __call__
    mxnet.gluon.trainer.Trainer: step, update
    mxnet.gluon.utils.HookHandle: detach
    mxnet.ndarray: from_dlpack, from_numpy, to_dlpack_for_write
    mxnet.ndarray.ndarray: from_dlpack, from_numpy, to_dlpack_for_write
    mxnet.ndarray.ndarray.NDArray: __getitem__, __setitem__, _get_index_nd, attach_grad, backward, reshape
    mxnet.ndarray.numpy._api_internal: tensordot, zeros
    mxnet.ndarray.register: _imperative_invoke, _verify_all_legacy_ndarrays, _verify_all_np_ndarrays
    mxnet.ndarray.utils: _array
    mxnet.numpy.ndarray: __setitem__, attach_grad
    mxnet.util: _set_np_array, set_np_shape
    mxnet.util._NumpyArrayScope: __enter__, __exit__

Of `torch`:

    torch: as_tensor, asarray, compile, empty, empty_like, full, full_like, is_inference, ones, ones_like
    torch: sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_coo_tensor, sparse_csc_tensor
    torch: sparse_csr_tensor, tensor, zeros, zeros_like
    torch.ScriptMethod: __call__
    torch.Tensor: __cuda_array_interface__, __dlpack__, data, register_hook, retain_grad
    torch._functorch.eager_transforms: _wrap_for_grad
    torch._functorch.vmap: _add_batch_dim
    torch._tensor: handle_torch_function
    torch.autograd: backward, grad
    torch.autograd.function.Function: apply
    torch.autograd.graph.saved_tensors_hooks: __enter__, __exit__
    torch.autograd.variable.Variable: __new__
    torch.cuda.streams.Stream: __new__
    torch.functional: handle_torch_function
    torch.jit.torch.jit.ScriptFunction: __call__
    torch.nn.functional: handle_torch_function
    torch.nn.modules.module.Module: __call__, __delattr__, __setattr__, _apply, add_module, load_state_dict
    torch.nn.modules.module.Module: register_backward_hook, register_buffer, register_forward_hook
    torch.nn.modules.module.Module: register_forward_pre_hook, register_full_backward_hook
    torch.nn.modules.module.Module: register_full_backward_pre_hook, register_parameter, requires_grad_
    torch.nn.parallel.distributed: _find_tensors
    torch.nn.parameter.Parameter: grad, requires_grad, requires_grad_
    torch.nn.utils.stateless: _functional_call
    torch.utils.dlpack: to_dlpack

and the methods of `torch.nn.Parameter` that write to it (`add_`, `__setitem__`) or give a view of it (`detach`, `t`).
In addition, a PyTorch hook calls gluonjit before each optimizer step; a fork leaves captured calls to the parent; `put`
of the queues of `multiprocessing` first runs what is pending; while a sample is captured, the code of its model's own
methods may be replaced by code that captures more at once (the option `outline`), and that of the program's functions
that it is worth for, such as losses, until dynamic batching is turned off for a model; and `hybridize` gives methods by
which a program may run a sample, other than `forward`, code that first asks whether a sample is open. Blocks and
modules that were not hybridized with `dynamic_batch=True`, and arrays that do not come from one, behave as before.
`verify` wraps some of these functions in watchers, and removes them when it returns. Before MXNet is imported, names
that a newer numpy has removed and MXNet 1.9.1 reads are restored, and the libraries of the CUDA 11 wheels of the extra
`cu112` are loaded if installed.
"""

from gluonjit import errors, nn
from gluonjit.errors import CaptureError, FlushError
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.mapping.mapping import imap, map
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.flush import FlushingBatch as Batch
from gluonjit.hybrid.run.scope import batching, explain
from gluonjit.install.frameworks import before_import, when_imported
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
    "imap",
    "map",
    "nn",
    "verify",
]

before_import("mxnet", "gluonjit.install.compat:prepare_mxnet")
when_imported("mxnet", "gluonjit.engines.mxnet.patches:install")
when_imported("torch", "gluonjit.engines.torch.patches:install")
