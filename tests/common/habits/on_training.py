"""The loop around the net: steps, clipping, averages of weights, freezing, accumulating, stopping early."""

from __future__ import annotations

from typing import Any

from gluonjit.errors import BatchClosedError, CaptureError

from . import FORMS, habit


def change_weight(t: Any, net: Any, name: str, change: Any) -> None:
    """Write a weight in the way that the engine's programs do."""
    weight = t.weights(net)[name]
    if t.engine == "torch":
        with t.F.no_grad():
            weight.copy_(change(weight))
    else:
        weight.set_data(change(weight.data()))


@habit(forms=FORMS)
def steps_between_minibatches(t: Any) -> None:
    net = t.net()
    for epoch in range(3):
        t.minibatch(net, label=f"{epoch}", step=True)
    t.see("weights", t.values(net))


@habit()
def a_step_after_each_sample(t: Any) -> None:
    net = t.net()
    for x in t.inputs(4):
        t.minibatch(net, [x], step=True)
    t.see("weights", t.values(net))


@habit()
def an_optimizer_of_the_framework_steps(t: Any) -> None:
    net = t.net()
    optimizer = t.optimizer(net, "adam")
    for epoch in range(3):
        t.minibatch(net, label=f"{epoch}")
        optimizer()
    t.see("weights", t.values(net))


@habit()
def momentum_is_carried_on(t: Any) -> None:
    net = t.net()
    optimizer = t.optimizer(net, "momentum")
    for epoch in range(3):
        t.minibatch(net, label=f"{epoch}")
        optimizer()
    t.see("weights", t.values(net))


@habit()
def gradients_add_up_over_minibatches(t: Any) -> None:
    net = t.net()
    if t.engine == "mxnet":
        for weight in t.weights(net).values():
            weight.grad_req = "add"
    t.zero(net)
    for seed in range(3):
        with t.record():
            total = sum(t.loss(net, x) for x in t.inputs(seed=seed))
        t.backward(total)
    t.see("gradients", t.gradients(net))


@habit()
def gradients_are_clipped_by_their_norm(t: Any) -> None:
    net = t.net()
    for epoch in range(2):
        t.minibatch(net, label=f"{epoch}")
        if t.engine == "torch":
            norm = t.F.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        else:
            norm = t.mx.gluon.utils.clip_global_norm([w.grad() for w in t.weights(net).values()], 0.05)
        t.see("norm", float(norm))
        t.see("clipped", t.gradients(net))
        t.step(net)


@habit()
def weights_are_clamped_after_a_step(t: Any) -> None:
    net = t.net()
    for epoch in range(2):
        t.minibatch(net, label=f"{epoch}", step=True)
        for name in t.weights(net):
            change_weight(t, net, name, lambda weight: weight.clip(-0.3, 0.3))
    t.see("weights", t.values(net))


@habit()
def a_moving_average_of_weights_is_kept(t: Any) -> None:
    net = t.net()
    average = {name: 1 * value for name, value in t.arrays(net).items()}
    for epoch in range(3):
        t.minibatch(net, label=f"{epoch}", step=True)
        average = {name: 0.9 * average[name] + 0.1 * value for name, value in t.arrays(net).items()}
    t.see("average", average)
    for name, value in average.items():
        change_weight(t, net, name, lambda weight, value=value: value)
    t.minibatch(net, label="with the average")


@habit(forms=FORMS)
def a_weight_is_written_between_capture_and_reading(t: Any) -> None:
    """What was captured before has the old weight, what comes after the new one."""
    net = t.net()
    before = t.call(net, t.inputs()[0])
    change_weight(t, net, "part.layer.weight", lambda weight: weight * 2)
    after = t.call(net, t.inputs()[0])
    t.see_or_refusal("before", lambda: before, (CaptureError, BatchClosedError), "written to after")
    t.see_or_refusal("after", lambda: after, (CaptureError, BatchClosedError), "written to after")


@habit(forms=FORMS)
def a_layer_is_frozen_between_minibatches(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="learning", step=True)
    t.freeze(net.part, True)
    t.minibatch(net, label="frozen", step=True)
    t.freeze(net.part, False)
    t.minibatch(net, label="again", step=True)
    t.see("weights", t.values(net))


@habit()
def only_the_bias_is_frozen(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="learning", step=True)
    t.freeze_one(t.weights(net)["part.layer.bias"], True)
    t.minibatch(net, label="frozen", step=True)
    t.see("weights", t.values(net))


@habit()
def a_loss_is_read_for_the_log_after_each_sample(t: Any) -> None:
    net, log = t.net(), []
    t.zero(net)
    with t.record():
        total = 0
        for x in t.inputs():
            loss = t.loss(net, x)
            log.append(t.number(loss))
            total = total + loss
    t.backward(total)
    t.see("log", log)
    t.see("gradients", t.gradients(net))


@habit()
def a_sample_whose_loss_is_small_is_left_out(t: Any) -> None:
    net, taken = t.net(), []
    t.zero(net)
    with t.record():
        losses = [t.loss(net, x) for x in t.inputs(6)]
        for number, loss in enumerate(losses):
            if loss > 0.2:
                taken.append(number)
        total = sum(losses[number] for number in taken)
    t.backward(total)
    t.see("taken", taken)
    t.see("gradients", t.gradients(net))


@habit()
def the_hardest_samples_are_sorted_out(t: Any) -> None:
    """Online hard example mining: losses are sorted, the largest two are learned from."""
    net = t.net()
    t.zero(net)
    with t.record():
        losses = sorted((t.loss(net, x) for x in t.inputs(5)), key=t.number)
        total = sum(losses[-2:])
    t.backward(total)
    t.see("losses", losses)
    t.see("gradients", t.gradients(net))


@habit()
def training_stops_early(t: Any) -> None:
    net, best, history = t.net(), float("inf"), []
    for _ in range(6):
        t.zero(net)
        with t.record():
            total = sum(t.loss(net, x) for x in t.inputs())
        t.backward(total)
        history.append(t.number(total))
        if history[-1] > best - 0.05:
            break
        best = min(best, history[-1])
        t.step(net, 0.5)
    t.see("history", history)
    t.see("weights", t.values(net))


@habit()
def weights_of_the_best_epoch_come_back(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="first")
    best = {name: 1 * value for name, value in t.arrays(net).items()}
    t.step(net, 0.5)
    t.minibatch(net, label="second", step=True)
    for name, value in best.items():
        change_weight(t, net, name, lambda weight, value=value: value)
    t.minibatch(net, label="best")


@habit()
def validation_between_samples_of_training(t: Any) -> None:
    """A value without recording in the middle of a recorded minibatch."""
    net = t.net()
    t.zero(net)
    with t.record():
        losses = [t.loss(net, x) for x in t.inputs(2)]
        with t.pause():
            probe = t.number(t.loss(net, t.inputs(seed=3)[0]))
        losses += [t.loss(net, x) for x in t.inputs(2, seed=4)]
        total = sum(losses)
    t.backward(total)
    t.see("probe", probe)
    t.see("gradients", t.gradients(net))


@habit()
def backward_of_each_loss_by_itself(t: Any) -> None:
    net = t.net()
    if t.engine == "mxnet":
        for weight in t.weights(net).values():
            weight.grad_req = "add"
    t.zero(net)
    with t.record():
        losses = [t.loss(net, x) for x in t.inputs()]
    for loss in losses:
        t.backward(loss)
    t.see("gradients", t.gradients(net))


@habit()
def a_loss_is_weighted_by_numbers_of_python_and_numpy(t: Any) -> None:
    import numpy as np

    net, factors = t.net(), [2, 0.5, np.float32(0.25).item()]
    t.zero(net)
    with t.record():
        total = sum(factor * t.loss(net, x) / 3 - 1 for factor, x in zip(factors, t.inputs()))
    t.backward(total)
    t.see("total", total)
    t.see("gradients", t.gradients(net))


@habit()
def two_nets_learn_in_turns(t: Any) -> None:
    """As in a GAN: what one gives is detached for the other."""
    one, other = t.net(), t.net()
    for turn in range(2):
        for net, against in ((one, other), (other, one)):
            t.zero(net)
            with t.record():
                total = 0
                for x in t.inputs():
                    goal = t.call(against, x).detach()
                    total = total + ((t.call(net, x) - goal - 1) ** 2).sum()
            t.backward(total)
            t.see(f"gradients {turn}", t.gradients(net))
            t.step(net)


@habit()
def a_regularizer_of_weights_is_added(t: Any) -> None:
    net = t.net()
    t.zero(net)
    with t.record():
        total = sum(t.loss(net, x) for x in t.inputs())
        total = total + 0.1 * sum((value**2).sum() for value in t.arrays(net).values())
    t.backward(total)
    t.see("total", total)
    t.see("gradients", t.gradients(net))


@habit("torch")
def losses_are_added_to_a_tensor_of_zeros(t: Any) -> None:
    net = t.net()
    total = t.F.zeros(())
    for x in t.inputs(6):
        total += t.loss(net, x)
    t.see("total", total)
    total.backward()
    t.see("gradients", t.gradients(net))
