"""What PyTorch's programs ask of autograd, and regions that they enter."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from . import FORMS, habit


@habit("torch", forms=FORMS)
def gradients_are_asked_for(t: Any) -> None:
    net = t.net()
    losses = [t.loss(net, x) for x in t.inputs()]
    weights = list(net.parameters())
    t.see("one", torch.autograd.grad(losses[0], weights, retain_graph=True))
    t.see("sum", torch.autograd.grad(sum(losses), weights[:2], retain_graph=True))
    (missing,) = torch.autograd.grad(losses[1], [torch.ones(2, requires_grad=True)], allow_unused=True)
    t.see("none", missing)
    t.see("untouched", [weight.grad is None for weight in weights])


@habit("torch", forms=FORMS)
def gradients_go_to_inputs(t: Any) -> None:
    net, given = t.net(), [x.requires_grad_() for x in t.inputs()]
    sum(t.loss(net, x) for x in given).backward()
    t.see("gradients", [x.grad for x in given])
    moved = [(x + 0.1 * x.grad.sign()).detach() for x in given]
    t.see("adversarial", [t.loss(net, x) for x in moved])


@habit("torch", forms=FORMS)
def gradients_of_gradients(t: Any) -> None:
    net, weights = t.net(), lambda: list(net.parameters())
    loss = sum(t.loss(net, x) for x in t.inputs())
    first = torch.autograd.grad(loss, weights(), create_graph=True)
    t.see("first", first)
    (loss + sum((each * each).sum() for each in first)).backward()
    t.see("gradients", t.gradients(net))
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def a_graph_is_kept_for_a_second_backward(t: Any) -> None:
    net = t.net()
    total = sum(t.loss(net, x) for x in t.inputs())
    total.backward(retain_graph=True)
    t.see("once", t.gradients(net))
    total.backward()
    t.see("twice", t.gradients(net))
    with t.raises("a third time", "second time"):
        total.backward()


@habit("torch", forms=FORMS)
def backward_gets_a_gradient(t: Any) -> None:
    net = t.net()
    h = torch.cat([t.call(net, x) for x in t.inputs()])
    h.backward(torch.arange(6.0).reshape(3, 2))
    t.see("gradients", t.gradients(net))
    with t.raises("no scalar", "scalar"):
        t.call(net, t.inputs()[0]).backward()


@habit("torch", forms=FORMS)
def gradients_add_up_without_zeroing(t: Any) -> None:
    net = t.net()
    for turn, to_none in enumerate((True, False, True)):
        sum(t.loss(net, x) for x in t.inputs(seed=turn)).backward()
        t.see(f"gradients {turn}", t.gradients(net))
        if turn:
            net.zero_grad(set_to_none=to_none)
            t.see(f"zeroed {turn}", t.gradients(net))


@habit("torch", forms=FORMS)
def no_grad_inside_of_a_body(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            with torch.no_grad():
                gate = torch.sigmoid(self.layer(x))
            return F.tanh(self.layer(x)) * gate

    t.minibatch(t.net(Part), step=True)


@habit("torch", forms=FORMS)
def a_decorator_switches_gradients_off(t: Any) -> None:
    @torch.no_grad()
    def evaluate(net: Any) -> list[Any]:
        return [t.call(net, x) for x in t.inputs()]

    net = t.net()
    t.minibatch(net, step=True)
    results = evaluate(net)
    t.see("results", results)
    t.see("learn", [h.requires_grad for h in results])
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def gradients_are_switched_by_a_flag(t: Any) -> None:
    net, learned = t.net(), []
    for phase in (True, False, True):
        with torch.set_grad_enabled(phase):
            total = sum(t.loss(net, x) for x in t.inputs())
        learned.append(total.requires_grad)
        if phase:
            t.zero(net)
            total.backward()
            t.see("gradients", t.gradients(net))
            t.step(net)
    t.see("learned", learned)


@habit("torch", forms=FORMS)
def inference_mode(t: Any) -> None:
    net = t.net()
    with torch.inference_mode():
        results = [t.call(net, x) for x in t.inputs()]
        t.see("inference", [h.is_inference() for h in results] if not t.batched else [True] * 3)
        t.see("results", results)
    t.minibatch(net)


@habit("torch", forms=FORMS)
def grad_modes_nest(t: Any) -> None:
    net, x = t.net(), t.inputs()[0]
    with torch.no_grad():
        one = t.call(net, x)
        with torch.enable_grad():
            two = t.call(net, x)
            with torch.no_grad():
                three = t.call(net, x)
        four = t.call(net, x)
    t.see("learn", [h.requires_grad for h in (one, two, three, four)])
    two.sum().backward()
    t.see("gradients", t.gradients(net))


@habit("torch", forms=FORMS)
def a_result_is_detached_half_way(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            return self.out(self.inner(h.detach()) + 0.1 * h)

    t.minibatch(t.net(net=Net), step=True)


@habit("torch", forms=FORMS)
def a_straight_through_estimator(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x))
            hard = (h > 0).float()
            return hard + h - h.detach()

    t.minibatch(t.net(Part), step=True)


@habit("torch", forms=FORMS)
def a_function_of_the_users_own(t: Any) -> None:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return -0.5 * gradient

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.out(Reverse.apply(self.inner(x)))

    t.minibatch(t.net(net=Net), step=True)


@habit("torch")
def losses_of_the_framework(t: Any) -> None:
    net = t.net()
    for name, loss in {
        "cross entropy": lambda h: nn.functional.cross_entropy(h, torch.tensor([1])),
        "module": lambda h: nn.CrossEntropyLoss(label_smoothing=0.1)(h, torch.tensor([0])),
        "mse": lambda h: nn.functional.mse_loss(h, torch.zeros(1, 2), reduction="sum"),
        "bce": lambda h: nn.functional.binary_cross_entropy_with_logits(h, torch.ones(1, 2)),
        "nll": lambda h: nn.NLLLoss()(h.log_softmax(-1), torch.tensor([1])),
    }.items():
        t.zero(net)
        total = torch.stack([loss(t.call(net, x)) for x in t.inputs()]).mean()
        total.backward()
        t.see(name, total)
        t.see(f"gradients of {name}", t.gradients(net))


@habit("torch")
def a_scheduler_changes_the_rate(t: Any) -> None:
    net = t.net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for epoch in range(3):
        t.minibatch(net, label=f"{epoch}")
        optimizer.step()
        scheduler.step()
    t.see("rate", optimizer.param_groups[0]["lr"])
    t.see("weights", t.values(net))


@habit("torch")
def lbfgs_asks_for_the_loss_again(t: Any) -> None:
    net, asked = t.net(), []
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        total = sum(t.loss(net, x) for x in t.inputs())
        total.backward()
        asked.append(float(total))
        return total

    optimizer.step(closure)
    t.see("asked", asked)


@habit("torch")
def gradients_are_looked_at_by_hooks_of_results(t: Any) -> None:
    net, seen = t.net(), []
    results = [t.call(net, x) for x in t.inputs()]
    for h in results:
        h.register_hook(lambda g: seen.append(g.clone()))
        h.retain_grad()
    sum((h * h).sum() for h in results).backward()
    t.see("seen", sorted(float(g.sum()) for g in seen))
    t.see("retained", [h.grad for h in results])


@habit("torch")
def a_reparametrized_draw_with_a_seed_of_its_own(t: Any) -> None:
    """Noise comes from a generator outside of the net."""
    generator = torch.Generator().manual_seed(5)
    net = t.net()
    noise = [torch.randn(1, 4, generator=generator) for _ in range(3)]
    t.minibatch(net, [x + 0.1 * n for x, n in zip(t.inputs(), noise)])


@habit("torch", forms=FORMS)
def an_anomaly_is_looked_for(t: Any) -> None:
    net = t.net()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        t.minibatch(net)


@habit("torch")
def nan_goes_through_and_is_seen(t: Any) -> None:
    net, seen = t.net(), []
    for x in (t.inputs()[0], t.inputs()[1] / 0, t.inputs()[2]):
        loss = t.loss(net, x)
        seen.append(bool(torch.isnan(loss)))
        if not torch.isfinite(loss):
            continue
        loss.backward()
    t.see("seen", seen)
    t.see("gradients", t.gradients(net))


@habit("torch", forms=FORMS)
def dtypes_go_along(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="float32")
    net.double()
    t.minibatch(net, [x.double() for x in t.inputs()], label="float64")
    net.to(torch.float32)
    t.minibatch(net, label="float32 again")
    with contextlib.suppress(AttributeError):
        t.see("half", t.call(net, t.inputs()[0]).half().float())


@habit("torch", forms=FORMS)
def a_jacobian_in_one_backward(t: Any) -> None:
    net = t.net()
    given = [x.requires_grad_() for x in t.inputs()]
    results = [t.call(net, x) for x in given]
    rows = torch.eye(2).reshape(2, 1, 2)
    found = torch.autograd.grad(results, given, [rows] * 3, is_grads_batched=True, retain_graph=True)
    t.see("of inputs", list(found))
    t.see("of weights", list(torch.autograd.grad(results[0], [*net.parameters()], rows, is_grads_batched=True)))


@habit("torch", forms=FORMS)
def an_operator_without_a_derivative(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any, learns: Any) -> Any:
            h = self.layer(x)
            return h * ((h if learns else h.detach()) // 0.25)

    class Net(t.Net):
        def body(self, F: Any, *args: Any) -> Any:
            return self.out(self.inner(*args))

    net = t.net(Part, Net)
    losses = [t.loss(net, x, False) for x in t.inputs()]
    t.backward(sum(losses))
    t.see("gradients", t.gradients(net))
    with t.raises("refused", "derivative"):
        t.backward(sum(t.loss(net, x, True) for x in t.inputs()))
