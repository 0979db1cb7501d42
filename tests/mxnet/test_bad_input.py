"""Bad input: an error that names the call, both values and the next step; the next minibatch works."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_close, rows

import gluonjit
from gluonjit.errors import CaptureError, OptionError


class Net(gluon.Block):
    """A cell, and an operator outside of it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(4, in_units=3)

    def forward(self, x: Any, y: Any) -> Any:
        return self.cell(x) + y


@pytest.fixture
def net() -> Any:
    made = Net()
    made.initialize()
    made.hybridize(dynamic_batch=True)
    yield made
    made.hybridize(dynamic_batch=False)


def assert_works(net: Net) -> None:
    x, y = rows(1, 3), rows(1, 4)
    batched = net(x, y).asnumpy()
    net.hybridize(dynamic_batch=False)
    assert_close(batched, net(x, y).asnumpy(), "value after the error")


def test_wrong_shape(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 5), rows(1, 4))
    assert "FullyConnected" in str(caught.value) and "(1, 5)" in str(caught.value)
    assert "dynamic_batch=False" in str(caught.value)
    assert_works(net)


def test_operands_that_do_not_fit_each_other(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 3), rows(1, 7))
    assert "broadcast_add" in str(caught.value) and "(1, 4)" in str(caught.value) and "(1, 7)" in str(caught.value)
    assert_works(net)


def test_wrong_dtype(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 3).astype("float64"), rows(1, 4))
    assert "float64" in str(caught.value) and "float32" in str(caught.value)
    assert ".astype('float32')" in str(caught.value) and "shapes" not in str(caught.value)
    assert isinstance(caught.value, mx.base.MXNetError)
    assert_works(net)


def test_wrong_dtype_outside_of_cells(net: Net) -> None:
    with pytest.raises(
        CaptureError, match=r"dtypes are float32 and float64: convert one, as by x\.astype\('float32'\)"
    ):
        net(rows(1, 3), rows(1, 4).astype("float64"))
    assert_works(net)


def test_mixed_devices(net: Net) -> None:
    with pytest.raises(CaptureError, match=r"cpu\(0\), cpu\(1\).*as_in_context") as caught:
        net(rows(1, 3), rows(1, 4).as_in_context(mx.cpu(1)))
    assert isinstance(caught.value, mx.base.MXNetError)
    assert_works(net)


class Takes(gluon.Block):
    """A layer, and something that does not fit done with its result."""

    def __init__(self, does: Any) -> None:
        super().__init__()
        self.layer = nn.Dense(4, in_units=3)
        self.does = does

    def forward(self, x: Any) -> Any:
        return self.does(self.layer(x))


UNFIT = {
    "a row that is not there": lambda h: h[9],
    "a column that is not there": lambda h: h[0, 9],
    "another size": lambda h: h.reshape((7,)),
    "another size, as an operator": lambda h: nd.dot(h, h),
    "parts that are not equal": lambda h: nd.split(h, num_outputs=3, axis=1),
    "a check in Python": lambda h: h.broadcast_to((3, 3)),
    "no number": lambda h: h + "a",
    "a condition of another shape": lambda h: nd.where(nd.ones((2, 3)), h, h),
    "rows of other lengths": lambda h: nd.concat(h, nd.ones((2, 2)), dim=0),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_errors_are_of_both_classes(unfit: str) -> None:
    eager = Takes(UNFIT[unfit])
    eager.initialize()
    with pytest.raises(Exception) as expected:
        eager(rows(2, 3)).asnumpy()
    made = Takes(UNFIT[unfit])
    made.initialize()
    made.hybridize(dynamic_batch=True)
    with pytest.raises(CaptureError, match=r"\(In sample 0, at .*test_bad_input.py:") as caught:
        made(rows(2, 3))
    assert isinstance(caught.value, type(expected.value))


def test_what_the_program_raises_itself_is_left_alone() -> None:
    class Own(ValueError):
        pass

    own = Own("mine")

    def does(h: Any) -> Any:
        raise own

    made = Takes(does)
    made.initialize()
    made.hybridize(dynamic_batch=True)
    with pytest.raises(Own) as caught:
        made(rows(2, 3))
    assert caught.value is own and str(own) == "mine"


def test_nothing_to_add() -> None:
    with pytest.raises(ValueError, match="at least one"):
        gluonjit.add_n([])


def test_a_cell_that_is_no_function() -> None:
    with pytest.raises(TypeError, match="decorator"):
        gluonjit.cell(3)  # type: ignore[arg-type]


def test_a_scope_left_open_does_not_hold_values_back(net: Net) -> None:
    scope = gluonjit.batching()
    scope.__enter__()
    value = net(rows(1, 3), nd.zeros((1, 4)))
    assert value.asnumpy().shape == (1, 4)
    scope.__exit__(None, None, None)
    assert_works(net)


def test_an_option_that_was_removed(net: Net) -> None:
    said = "executor='auto' was removed, as every plan runs step by step: leave it out"
    with pytest.raises(OptionError) as caught:
        net.hybridize(dynamic_batch=True, executor="auto")
    assert str(caught.value) == f"hybridize(dynamic_batch=True): {said}"
    with pytest.raises(OptionError) as caught, gluonjit.batching(executor="auto"):
        net(rows(1, 3), rows(1, 4)).asnumpy()
    assert str(caught.value) == f"batching(): {said}"
    assert_works(net)


def test_switches_that_are_gone(net: Net) -> None:
    with pytest.raises(
        OptionError, match="'sums', 'zeros', 'splits' was removed, as no program gained from it: leave it out"
    ):
        net.hybridize(dynamic_batch=True, without=("hoisting", "sums", "zeros", "splits"))
    net.hybridize(dynamic_batch=True, without=("hoisting",))
    assert_works(net)


LIKE_IT: list[tuple[dict[str, Any], str]] = [
    ({"dynamic_batching": True}, "hybridize(dynamic_batching=True): unknown option 'dynamic_batching': did you "
     "mean dynamic_batch=True?"),
    ({"dynamicbatch": True}, "did you mean dynamic_batch=True?"),
    ({"dynamic_batches": True, "static_alloc": True}, "did you mean dynamic_batch=True?"),
    ({"dynamic": True}, "did you mean dynamic_batch=True?"),
    ({"scheduler": "bound"}, "scheduler is an option of dynamic batching, which is off: type "
     "hybridize(dynamic_batch=True, scheduler='bound')"),
    ({"schedular": "bound"}, "type hybridize(dynamic_batch=True, scheduler='bound')"),
    ({"flush_at": 8}, "type hybridize(dynamic_batch=True, flush_at=8)"),
    ({"dynamic_batch": True, "schedular": "bound"}, "did you mean scheduler='bound'?"),
    ({"dynamic_batch": True, "speed": 3}, "unknown option 'speed'; the options are beam_width, check, "),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), LIKE_IT)
@pytest.mark.parametrize("plain", [True, False])
def test_options_that_are_nearly_right(options: dict[str, Any], said: str, plain: bool) -> None:
    block = Net() if plain else nn.Dense(4, in_units=3)
    block.initialize()
    with pytest.raises(OptionError) as caught:
        block.hybridize(**options)
    assert said in str(caught.value)
    assert block(rows(1, 3), *([rows(1, 4)] if plain else [])).shape == (1, 4)  # nothing has changed


def test_what_mxnet_knows_is_passed_on() -> None:
    dense = nn.Dense(4, in_units=3)
    dense.initialize()
    dense.hybridize(
        static_alloc=True, static_shape=True, inline_limit=3, forward_bulk_size=5, backward_bulk_size=6, clear=True
    )
    assert dict(dense._flags)["inline_limit"] == 3 and dense._active
    dense.hybridize(True, some_backend_option=3)
    assert dense._backend_opts == {"some_backend_option": 3}
    dense.hybridize(True, backend="made up", scheduler="its own")
    assert dense._backend_opts == {"scheduler": "its own"}
    with pytest.raises(OptionError, match="dynamic_batch"):
        dense.hybridize(True, backend="made up", dynamic_batching=True)


def test_options_of_other_calls() -> None:
    with pytest.raises(OptionError, match="did you mean granularity='op'"), gluonjit.batching(granularty="op"):
        pass
    with pytest.raises(OptionError, match="leave it out"), gluonjit.batching(dynamic_batch=True):
        pass
    with pytest.raises(OptionError, match=r"gluonjit.cell\(granularity='op'\): it takes no options"):
        gluonjit.cell(granularity="op")
    with pytest.raises(OptionError, match="did you mean dynamic_batch=True"):
        gluonjit.hybridize(Net(), dynamic_batching=True)


class Words(gluon.Block):
    """A look-up, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed, self.layer = nn.Embedding(5, 3), nn.Dense(4, in_units=3)

    def forward(self, words: Any) -> Any:
        return self.layer(self.embed(nd.array(words)))


def test_a_look_up_of_no_words_ends_in_the_error_of_the_framework() -> None:
    net = Words()
    net.initialize()
    with pytest.raises(mx.MXNetError, match="shape"):
        net([]).asnumpy()
    net.hybridize(dynamic_batch=True, granularity="cell")
    with pytest.raises(CaptureError, match="shape"):
        net([]).asnumpy()
    assert net([1, 2]).asnumpy().shape == (2, 4)
