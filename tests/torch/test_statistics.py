"""BatchNorm in training: calls run together, and running statistics are as the calls update them one by one."""

from __future__ import annotations

import copy
import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.optim.swa_utils import AveragedModel  # noqa: E402
from torch_support import gradients  # noqa: E402
from torch_training import assert_equal  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.hybrid.run.state import UNCAPTURED  # noqa: E402


class Normed(nn.Module):
    """A layer between two others."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 5), norm, nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(self.first(x).tanh()).relu())


class Images(nn.Module):
    """A residual block of convolutions, or one of volumes."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        convolution = nn.Conv2d if dims == 2 else nn.Conv3d
        norm = nn.BatchNorm2d if dims == 2 else nn.BatchNorm3d
        self.first, self.last = convolution(3, 3, 3, padding=1, bias=False), convolution(3, 3, 1, bias=False)
        self.norms = nn.ModuleList([norm(3), norm(3)])

    def forward(self, x: Any) -> Any:
        h = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(x + self.norms[1](self.last(h)))


def rows(*numbers: int) -> list[Any]:
    draw = torch.Generator().manual_seed(sum(numbers))
    return [torch.randn(number, 4, generator=draw) for number in numbers]


def loss(outputs: list[Any]) -> Any:
    return sum([output.logsumexp(-1).square().sum() for output in outputs])


def pair(make: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """The same model, eager and batched."""
    torch.manual_seed(0)
    eager = make()
    batched = copy.deepcopy(eager)
    gluonjit.hybridize(batched, dynamic_batch=True, **{"granularity": "cell", **options})
    return eager, batched


def assert_alike(make: Callable[[], Any], run: Callable[[Any], Any], tolerance: float = 1e-5, **options: Any) -> Any:
    """Runs a program eagerly and batched; compares what it returns, and what the model holds."""
    eager, batched = pair(make, **options)
    wanted = run(eager)
    found = run(batched)
    report = gluonjit.explain()
    assert_equal(found, wanted, "result", tolerance)
    assert_equal(dict(batched.state_dict()), dict(eager.state_dict()), "state", tolerance)
    assert all(tensor.__class__ is torch.Tensor for tensor in batched.buffers())
    return report


def train(given: list[Any]) -> Callable[[Any], Any]:
    def run(net: Any) -> Any:
        found = []
        for _ in range(2):
            net.zero_grad()
            total = loss([net(x) for x in given])
            total.backward()
            found.append((total.detach() * 1, gradients(net)))
        return found

    return run


NORMS: dict[str, Callable[[], Any]] = {
    "usual": lambda: nn.BatchNorm1d(5),
    "average": lambda: nn.BatchNorm1d(5, momentum=None),
    "the last alone": lambda: nn.BatchNorm1d(5, momentum=1.0),
    "without weights": lambda: nn.BatchNorm1d(5, affine=False),
    "without statistics": lambda: nn.BatchNorm1d(5, track_running_stats=False),
    "another eps": lambda: nn.BatchNorm1d(5, eps=0.1, momentum=0.3),
}


@pytest.mark.parametrize("name", NORMS)
def test_calls_of_any_length_run_together(name: str) -> None:
    report = assert_alike(lambda: Normed(NORMS[name]()), train(rows(5, 4, 5, 7, 4)), 1e-4)
    assert report.flushes == 1
    assert "norm" not in report.unbatched
    kind = "Normed" if name == "without statistics" else "batch_norm"
    assert report.kinds[kind].launches == 1


@pytest.mark.parametrize("granularity", ["op", "cell", "auto"])
def test_granularities(granularity: str) -> None:
    run = train(rows(5, 4, 5, 7, 4))
    report = assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4, granularity=granularity)
    assert report.flushes == 1
    assert report.kinds["batch_norm"].launches == 1


@pytest.mark.parametrize("dims", [2, 3])
def test_images(dims: int) -> None:
    given = [torch.randn(2, 3, *(4,) * dims) for _ in range(4)]
    report = assert_alike(lambda: Images(dims), train(given), 1e-4)
    assert report.flushes == 1
    assert report.kinds["batch_norm"].launches == 2


@pytest.mark.parametrize("options", [{}, {"affine": False}])
def test_sequences_of_channels(options: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm = nn.Conv1d(4, 5, 1), nn.BatchNorm1d(5, **options)

        def forward(self, x: Any) -> Any:
            return self.norm(self.convolution(x.t().unsqueeze(0)).tanh()).amax(2).squeeze(0)

    report = assert_alike(Net, train(rows(3, 4, 6, 3)), 1e-4)
    assert report.flushes == 1
    assert report.kinds["batch_norm"].launches == 1


def test_sets_of_pictures_and_sets_in_which_another_axis_differs() -> None:
    def run(net: Any) -> Any:
        draw = torch.Generator().manual_seed(1)
        given = [torch.randn(*shape, generator=draw) for shape in [(2, 3, 4, 4), (5, 3, 4, 4), (3, 3, 4, 4)]]
        given += [torch.randn(2, 3, *shape, generator=draw) for shape in [(4, 6), (4, 5), (4, 7), (6, 4), (5, 4)]]
        outputs = [net(x) for x in given]
        loss(outputs).backward()
        return [output.detach() * 1 for output in outputs], gradients(net)

    assert assert_alike(lambda: Images(2), run, 1e-4).flushes == 1


def test_statistics_are_written_without_gradients_too() -> None:
    def run(net: Any) -> Any:
        with torch.no_grad():
            return [net(x) * 1 for x in rows(3, 4, 5)]

    assert assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run).flushes == 1


def test_gradients_of_gradients() -> None:
    def run(net: Any) -> Any:
        given = [x.requires_grad_() for x in rows(3, 4)]
        total = loss([net(x) for x in given])
        found = torch.autograd.grad(total, given, create_graph=True)
        sum([each.square().sum() for each in found]).backward()
        return gradients(net)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-3)


READS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda net: net.norm.running_mean + 0,
    "number": lambda net: torch.tensor(float(net.norm.running_var[0])),
    "count": lambda net: int(net.norm.num_batches_tracked),
    "list": lambda net: torch.tensor(net.norm.running_var.tolist()),
    "numpy": lambda net: torch.from_numpy(net.norm.running_mean.numpy().copy()),
    "state": lambda net: {name: value.clone() for name, value in net.state_dict().items()},
    "buffers": lambda net: [buffer.clone() for buffer in net.buffers()],
    "named": lambda net: {name: buffer * 1 for name, buffer in net.named_buffers()},
    "copied": lambda net: list(copy.deepcopy(net.norm).buffers()),
    "pickled": lambda net: list(pickle.loads(pickle.dumps(net.norm)).buffers()),
    "saved": lambda net: _saved(net),
    "into another": lambda net: torch.zeros(5).copy_(net.norm.running_mean),
    "stacked": lambda net: torch.stack([net.norm.running_mean, net.norm.running_var]),
    "in place": lambda net: torch.zeros(5).add_(net.norm.running_mean),
    "by a list": lambda net: torch._foreach_add([torch.zeros(5)], [net.norm.running_mean])[0],
    "data": lambda net: net.norm.running_mean.data.clone(),
    "as text": lambda net: str(net.norm.running_mean)[:9],
    "printed": lambda net: repr(net.norm.running_var).partition("(")[0],
    "iterated": lambda net: [torch.tensor(float(number)) for number in net.norm.running_var],
    "evaluation": lambda net: net.eval()(rows(2)[0]) * 1,
    "evaluation of a part": lambda net: (net.norm.eval(), net(rows(2)[0]) * 1)[1],
    "a function": lambda net: functional.batch_norm(
        torch.ones(2, 5), net.norm.running_mean, net.norm.running_var, training=False
    ),
    "by itself": lambda net: net.norm(torch.arange(15.0).reshape(3, 5).cos()) * 1,
    "a function in training": lambda net: functional.batch_norm(
        torch.arange(15.0).reshape(3, 5).cos(), net.norm.running_mean, net.norm.running_var, training=True
    ),
    "a function of results": lambda net: (
        functional.batch_norm(net.first(rows(5)[0]), net.norm.running_mean, net.norm.running_var, training=True) * 1
    ),
    "an operator of results": lambda net: (net(rows(6)[0]).mean() + net.norm.running_mean) * 1,
    "an operator on results": lambda net: torch.add(net.norm.running_mean, net(rows(6)[0]).mean()) * 1,
    "a list with results": lambda net: torch.stack([net.first(rows(5)[0])[0], net.norm.running_mean]) * 1,
    "transformed": lambda net: torch.func.vmap(lambda x: x * net.norm.running_mean)(torch.ones(2, 5)),
    "called with other weights": lambda net: torch.func.functional_call(net, {}, (rows(5)[0],)) * 1,
    "traced": lambda net: torch.jit.trace(net.norm.eval(), torch.ones(2, 5))(torch.ones(2, 5)),
    "traced in training": lambda net: torch.jit.trace(net, torch.ones(2, 4), check_trace=False)(rows(5)[0]) * 1,
    "traced by a mode": lambda net: make_fx(net.norm.eval())(torch.ones(2, 5))(torch.ones(2, 5)) * 1,
    "traced inside": lambda net: make_fx(lambda x: net.norm.eval()(x))(torch.ones(2, 5))(torch.ones(2, 5)) * 1,
    "scripted": lambda net: torch.jit.script(copy.deepcopy(net.norm)).running_mean * 1,
    "scripted as it is": lambda net: torch.jit.script(net.norm)(torch.ones(2, 5).cumsum(0)) * 1,
    "eagerly": lambda net: _eagerly(net),
    "by an average": lambda net: [each * 1 for each in AveragedModel(net, use_buffers=True).buffers()],
    "shape": lambda net: [*net.norm.running_mean.shape, net.norm.running_mean.dim(), len(net.norm.running_var)],
}


def _eagerly(net: Any) -> Any:
    with UNCAPTURED:
        return net(rows(5)[0])


def _saved(net: Any) -> Any:
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("name", READS)
def test_reads_between_samples_see_what_is_eager(name: str) -> None:
    def run(net: Any) -> Any:
        found = []
        net.train()
        outputs = [net(x) for x in rows(3, 4)]
        found.append(READS[name](net))
        net.train()
        outputs += [net(x) for x in rows(5, 4)]
        found.append(READS[name](net))
        return found, [output * 1 for output in outputs]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4)


def _assign(net: Any) -> None:
    net.norm.running_mean = torch.full((5,), 3.0)


def _item(net: Any) -> None:
    net.norm.running_mean[0] = 3


WRITES: dict[str, Callable[[Any], Any]] = {
    "zeroed": lambda net: net.norm.running_mean.zero_(),
    "reset": lambda net: net.norm.reset_running_stats(),
    "all reset": lambda net: net.norm.reset_parameters(),
    "loaded": lambda net: net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()}),
    "assigned": _assign,
    "an item": _item,
    "data": lambda net: net.norm.running_var.data.fill_(2.0),
    "a view": lambda net: net.norm.running_var[1:3].mul_(2.0),
    "out": lambda net: torch.add(torch.ones(5), 1, out=net.norm.running_mean),
    "by a list": lambda net: torch._foreach_mul_([net.norm.running_mean, net.norm.running_var], 0.5),
    "cast": lambda net: net.norm.float(),
    "momentum": lambda net: setattr(net.norm, "momentum", 0.5),
    "average": lambda net: setattr(net.norm, "momentum", None),
    "counted": lambda net: net.norm.num_batches_tracked.fill_(7),
    "not tracked": lambda net: setattr(net.norm, "track_running_stats", False),
    "another norm": lambda net: setattr(net, "norm", nn.BatchNorm1d(5)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_between_samples_are_as_eagerly(name: str) -> None:
    def run(net: Any) -> Any:
        outputs = [net(x) for x in rows(3, 4)]
        with torch.no_grad():
            WRITES[name](net)
        after = [net(x) for x in rows(5, 4)]
        loss(after).backward()  # that of earlier ones PyTorch refuses: they have saved what is written to
        return [output.detach() * 1 for output in outputs + after], gradients(net)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4)


def test_what_the_program_has_of_the_statistics_before() -> None:
    """A tensor that has the memory of a running statistic tells nothing, so calls run one by one while there is one."""

    def run(net: Any) -> Any:
        found = []
        held, state, view, array = (
            net.norm.running_mean,
            net.state_dict(),
            net.norm.running_var[1:],
            net.norm.running_var.numpy(),
        )
        for given in (rows(3, 4), rows(5, 2)):
            for x in given:
                net(x)
            found += [held * 1, {name: value * 1 for name, value in state.items()}, view + 0, torch.tensor(array)]
        del state, view, array
        for x in rows(3, 4):
            net(x)
        return *found, held - 1

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_evaluation_and_training_in_turn() -> None:
    def run(net: Any) -> Any:
        outputs = []
        for round_ in range(3):
            outputs += [net.train(round_ % 2 == 0)(x) for x in rows(3, 4, 3)]
            net.train(round_ % 2 == 1)
            outputs += [net(x) for x in rows(4, 3)]
        loss(outputs).backward()
        return [output.detach() * 1 for output in outputs], gradients(net)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4)


def test_a_cell_that_reads_statistics_of_another_module() -> None:
    class Shift(nn.Module):
        def __init__(self, norm: Any) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, x: Any) -> Any:
            return x - self.norm.running_mean

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.shift = Shift(self.norm)

        def forward(self, x: Any, first: bool = True) -> Any:
            return self.shift(self.norm(x)) if first else self.shift(x)

    def run(net: Any) -> Any:
        outputs = [net(x, False) * 1 for x in rows(3, 4)]  # which traces the cell
        outputs += [net(x, False) for x in rows(3, 4)]
        loss([net(x) for x in rows(3, 4, 5)])
        outputs += [net(x, first) for first in (True, False, True) for x in rows(3, 4)]
        return [output * 1 for output in outputs]

    assert_alike(Net, run)


def test_models_that_share_a_module() -> None:
    torch.manual_seed(0)
    one, norm = Normed(nn.BatchNorm1d(5)), nn.BatchNorm1d(5)
    one.norm = norm
    other = Normed(norm)
    pairs = [(one, other), copy.deepcopy((one, other))]
    for net in pairs[1]:
        gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    found = []
    for nets in pairs:
        outputs = [net(x) for x in rows(3, 4, 5) for net in nets]
        nets[1].eval()
        outputs += [net(x) for x in rows(3, 4) for net in nets]
        loss(outputs).backward()
        found.append(([*map(gradients, nets)], [output.detach() * 1 for output in outputs], list(nets[0].buffers())))
    assert_equal(found[1], found[0], "result", 1e-4)


def test_one_row_is_refused_at_its_sample() -> None:
    def run(net: Any) -> Any:
        outputs = [net(x) for x in rows(3, 4)]
        with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
            net(rows(1)[0])
        outputs += [net(x) for x in rows(2, 5)]
        with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 1D input\)"):
            net(rows(1)[0][0])
        return [output * 1 for output in outputs]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


@pytest.mark.parametrize("explicit", [False, True])
def test_statistics_are_those_of_samples_before_an_exception(explicit: bool) -> None:
    def samples(net: Any) -> None:
        for number, x in enumerate(rows(3, 4, 5)):
            net(x)
            if number == 1:
                raise KeyError(number)

    def run(net: Any) -> Any:
        with pytest.raises(KeyError):
            if explicit:
                with gluonjit.batching():
                    samples(net)
            else:
                samples(net)
        return [buffer * 1 for buffer in net.buffers()]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_a_batch_that_fails() -> None:
    """What it was to write is lost with it; the statistics can be read, and later calls update them."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.words = nn.BatchNorm1d(4), nn.Embedding(5, 4)

        def forward(self, x: Any, words: Any) -> Any:
            return self.norm(x) + self.words((x[0, :1] * 0 + words).long()).sum(0)

    _, net = pair(Net)
    with pytest.raises(IndexError):
        [net(x, word) for x, word in zip(rows(3, 4), (1, 9))][1].sum().item()
    assert net.norm.running_mean.tolist() == [0.0] * 4
    count = int(net.norm.num_batches_tracked)
    net(rows(3)[0], 1)
    assert net.norm.running_mean.abs().min() > 0
    assert int(net.norm.num_batches_tracked) == count + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that forks")
def test_another_process_that_forks_in_the_middle() -> None:
    def run(net: Any) -> Any:
        for x in rows(3, 4):
            net(x)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.write(writing, pickle.dumps([buffer.tolist() for buffer in net.buffers()]))
                status = 0
            finally:
                os._exit(status)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            found = [torch.tensor(numbers) for numbers in pickle.load(file)]
        return found, [buffer * 1 for buffer in net.buffers()]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_training() -> None:
    def run(net: Any) -> Any:
        return train(rows(5, 4, 5))(net)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4)


def test_calls_that_run_by_themselves_after_such_in_evaluation() -> None:
    def run(net: Any) -> Any:
        outputs = [net.eval()(x) for x in rows(3, 4)]
        net.train()
        with torch.autocast("cpu", torch.bfloat16):
            outputs += [net(x).float() for x in rows(5, 4)]
        outputs += [net.eval()(x) for x in rows(3, 4)]
        net.train()
        with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
            net(rows(1)[0])
        return [output.detach() * 1 for output in outputs]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 0.05)


def test_equal_calls() -> None:
    def run(net: Any) -> Any:
        x = rows(4)[0]
        return [(net(x) + net(x)) * 1 for _ in range(3)]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_a_norm_that_is_called_several_times_in_a_sample() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)
            self.same = self.norm

        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = self.same(self.norm(self.layer(x)).tanh())
            return x

    assert_alike(Net, train(rows(5, 6, 7)), 1e-3)


def test_results_that_nobody_reads() -> None:
    def run(net: Any) -> Any:
        for x in rows(3, 4, 5):
            net(x)
        with gluonjit.batching():
            for x in rows(3, 2):
                net(x)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_flushes_in_a_scope() -> None:
    def run(net: Any) -> Any:
        with torch.no_grad(), gluonjit.batching() as batch:
            outputs = [net(x) for x in rows(3, 4)]
            batch.flush("here")
            outputs += [net(x) for x in rows(5, 3)]
            return [output * 1 for output in outputs]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_open_batches_inside_of_others() -> None:
    def run(net: Any) -> Any:
        with gluonjit.batching():
            outputs = [net(x) for x in rows(3, 4)]
            with gluonjit.batching():
                outputs += [net(x) for x in rows(5, 3)]
            outputs += [net(x) for x in rows(2, 3)]
        return [output * 1 for output in outputs]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_autocast_is_as_eagerly() -> None:
    def run(net: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return [net(x).float() for x in rows(3, 4)]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 0.05)


def test_hooks_of_a_normalization_run_for_each_call() -> None:
    def run(net: Any) -> Any:
        seen = []
        net.norm.register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)))
        loss([net(x) for x in rows(3, 4)]).backward()
        return seen, gradients(net)

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-4)


def test_a_thread_of_its_own() -> None:
    import threading

    def run(net: Any) -> Any:
        def samples() -> None:
            for x in rows(3, 4):
                net(x)

        thread = threading.Thread(target=samples)
        thread.start()
        thread.join()
        return [buffer * 1 for buffer in net.buffers()]

    assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run)


def test_a_long_epoch_with_a_step_for_each_minibatch() -> None:
    def run(net: Any) -> Any:
        trainer, found = torch.optim.SGD(net.parameters(), lr=0.05), []
        for epoch in range(3):
            net.train()
            for k in range(3):
                trainer.zero_grad()
                total = loss([net(x + k) for x in rows(3, 4, 5)])
                total.backward()
                trainer.step()
                found.append(total.detach() * 1)
            net.eval()
            with torch.no_grad():
                found += [net(x + epoch).sum() * 1 for x in rows(2, 3)]
        return found

    report = assert_alike(lambda: Normed(nn.BatchNorm1d(5)), run, 1e-3)
    assert "batch_norm" not in report.unbatched


@pytest.mark.parametrize("granularity", ["op", "cell"])
def test_evaluation_runs_together(granularity: str) -> None:
    report = assert_alike(
        lambda: Normed(nn.BatchNorm1d(5)).eval(), train(rows(5, 4, 5, 7, 4)), 1e-4, granularity=granularity
    )
    assert report.flushes == 1 and not report.unbatched.get("batch_norm")
