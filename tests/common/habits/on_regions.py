"""Generators, threads, processes, exits from loops, and options, around calls of a net."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gluonjit

from . import FORMS, habit


@habit()
def samples_come_from_a_generator(t: Any) -> None:
    log: list[str] = []

    def samples() -> Iterator[Any]:
        for number, x in enumerate(t.inputs(4)):
            log.append(f"give {number}")
            yield x
        log.append("end")

    net, losses = t.net(), []
    t.zero(net)
    with t.record():
        for number, x in enumerate(samples()):
            losses.append(t.loss(net, x))
            log.append(f"called {number}")
        total = sum(losses)
    t.backward(total)
    t.see("log", log)
    t.see("gradients", t.gradients(net))


@habit()
def the_net_itself_is_a_generator(t: Any) -> None:
    class Net(t.Net):
        def states(self, xs: Any) -> Iterator[Any]:
            h = None
            for x in xs:
                h = self.inner(x if h is None else x + h)
                yield h

        def body(self, F: Any, xs: Any) -> Any:
            return self.out(sum(self.states(xs)))

    given = t.inputs(6)
    t.minibatch(t.net(net=Net), [given[:2], given[2:3], given[1:]])


@habit()
def a_generator_is_left_half_way(t: Any) -> None:
    net = t.net()

    def results() -> Iterator[Any]:
        for x in t.inputs(5):
            yield t.call(net, x)

    going = results()
    t.see("first", [next(going), next(going)])
    going.close()
    t.see("rest", list(going))
    t.minibatch(net)


@habit()
def a_loop_is_left_by_break_and_continue(t: Any) -> None:
    net, kept = t.net(), []
    t.zero(net)
    with t.record():
        for number, x in enumerate(t.inputs(6)):
            if number == 1:
                continue
            kept.append(t.loss(net, x))
            if number == 3:
                break
        else:
            kept.clear()
        total = sum(kept)
    t.backward(total)
    t.see("kept", kept)
    t.see("gradients", t.gradients(net))


@habit()
def comprehensions_map_and_filter(t: Any) -> None:
    net, given = t.net(), t.inputs(4)
    t.zero(net)
    with t.record():
        results = list(map(lambda x: t.loss(net, x), given))
        results += [loss for loss in (t.loss(net, x) for x in given) if t.number(loss) > 0.1]
        total = sum(loss * (1 + number) for number, loss in enumerate(results))
    t.backward(total)
    t.see("results", results)
    t.see("gradients", t.gradients(net))


@habit()
def threads_call_the_net(t: Any) -> None:
    net, results = t.net(), {}
    t.minibatch(net)

    def work(number: int) -> None:
        with t.pause():
            results[number] = [t.numbers(t.call(net, x)) for x in t.inputs(seed=number)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.see("results", [results[number] for number in range(3)])


@habit()
def a_pool_of_threads_gives_results(t: Any) -> None:
    net = t.net()
    t.minibatch(net)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(lambda x: t.numbers(t.call(net, x)), x) for x in t.inputs(4)]
        t.see("results", [future.result() for future in futures])


@habit()
def a_thread_trains_while_the_first_waits(t: Any) -> None:
    net, waiting = t.net(), t.net()
    h = t.call(waiting, t.inputs()[0])
    thread = threading.Thread(target=lambda: t.minibatch(net, label="in a thread", step=True))
    thread.start()
    thread.join()
    t.see("waited", h)
    t.minibatch(net, label="after")


@habit("torch")
def a_process_is_forked_after_use(t: Any) -> None:
    """A loader's worker leaves again without harm, and its parent goes on."""
    net = t.net()
    t.minibatch(net, label="before")
    waiting = t.call(net, t.inputs()[0])
    child = os.fork()
    if child == 0:
        os._exit(7)
    t.see("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    t.see("waited", waiting)
    t.minibatch(net, label="after")


def in_a_child(work: Callable[[], Any]) -> Any:
    """What `work` gives in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = pickle.dumps(work())
        except BaseException as error:
            found = pickle.dumps(repr(error))
        os.write(writing, found)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pickle.load(pipe)


@habit("torch")
def a_forked_process_goes_backward(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before")
    t.zero(net)
    losses = [t.loss(net, x) for x in t.inputs()]

    def work() -> Any:
        t.backward(sum(losses))
        return [t.numbers(loss) for loss in losses], {name: t.numbers(g) for name, g in t.gradients(net).items()}

    t.see("in the child", in_a_child(work))
    t.backward(sum(losses))
    t.see("in the parent", t.gradients(net))


@habit()
def a_forked_process_adds_to_what_waits(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before")
    waiting = [t.call(net, x) for x in t.inputs()]

    def work() -> Any:
        more = [t.call(net, x) + waiting[0] for x in t.inputs(2, seed=1)]
        return [t.numbers(h) for h in (*waiting, *more)]

    t.see("in the child", in_a_child(work))
    t.see("in the parent", waiting)


@habit()
def a_queue_between_processes_takes_results(t: Any) -> None:
    """Its own thread pickles them."""
    net = t.net()
    t.minibatch(net, label="before")
    for make in (multiprocessing.Queue, multiprocessing.JoinableQueue):
        results = make()
        with t.pause():
            for x in t.inputs():
                results.put(t.call(net, x))
                results.put({"number": 3, "of": [t.call(net, x)]})
        t.see("results", [results.get(timeout=60) for _ in range(6)])
        results.close()


@habit("torch")
def a_loader_collates_with_the_net(t: Any) -> None:
    from torch.utils.data import DataLoader

    net = t.net()
    t.minibatch(net, label="before")

    def collate(samples: Any) -> Any:
        return t.F.stack([t.call(net, x) for x in samples]).detach()

    for workers in (0, 1):
        loader = DataLoader(t.inputs(4), batch_size=2, collate_fn=collate, num_workers=workers, timeout=300 * workers)
        t.see("batches", list(loader))


@habit()
def a_region_of_batching_is_left_by_an_error(t: Any) -> None:
    net = t.net()
    with t.raises("region", "half way"), gluonjit.batching():
        t.call(net, t.inputs()[0])
        raise ValueError("half way")
    t.minibatch(net)


@habit()
def regions_of_batching_nest(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="outside")
    with gluonjit.batching():
        one = t.call(net, t.inputs()[0])
        with gluonjit.batching():
            two = t.call(net, t.inputs()[1])
        three = t.call(net, t.inputs()[2])
    t.see("results", [one, two, three])


@habit()
def a_context_of_the_users_own_sets_a_flag(t: Any) -> None:
    """Thread-local options, entered for some samples of a minibatch."""
    local = threading.local()
    local.gate = False

    @contextlib.contextmanager
    def gated() -> Iterator[None]:
        local.gate = True
        try:
            yield
        finally:
            local.gate = False

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            return self.out(F.sigmoid(h) * h if local.gate else h)

    net, results = t.net(net=Net), []
    for number, x in enumerate(t.inputs(4)):
        with gated() if number % 2 else contextlib.nullcontext():
            results.append(t.call(net, x))
    t.see("results", results)


@habit(forms=FORMS, granularity="op")
def operators_are_nodes(t: Any) -> None:
    t.minibatch(t.net(), step=True)


@habit(forms=FORMS, sharing=False)
def equal_calls_are_not_shared(t: Any) -> None:
    x = t.inputs()[0]
    t.minibatch(t.net(), [x, x, x])


@habit(forms=FORMS, sharing=True)
def equal_calls_are_shared(t: Any) -> None:
    x = t.inputs()[0]
    net = t.net()
    t.minibatch(net, [x, x, x], step=True)
    t.minibatch(net, [x, x], label="again")


@habit(forms=FORMS, max_nodes=2)
def batches_run_themselves(t: Any) -> None:
    t.minibatch(t.net(), t.inputs(7), step=True)


@habit(forms=FORMS, flush_at=2)
def batches_run_every_two_samples(t: Any) -> None:
    t.minibatch(t.net(), t.inputs(7), step=True)


@habit()
def options_that_are_mistyped(t: Any) -> None:
    """Nothing of the net has changed; eagerly there are no options to mistype."""
    net = t.net()
    for options in ({"scheduler": "greeedy"}, {"granularty": "op"}, {"flush_at": -1}, {"sharing": "yes"}):
        with t.refused(gluonjit.errors.OptionError, next(iter(options))):
            if t.batched:
                gluonjit.hybridize(net, dynamic_batch=True, **options)
    t.minibatch(net)


@habit("mxnet")
def options_of_hybridize_that_are_mistyped(t: Any) -> None:
    """Gluon's own `hybridize` takes any keyword: what is nearly `dynamic_batch` is refused."""
    net = t.net()
    for options in ({"dynamic_batching": True}, {"dynamicbatch": True}, {"scheduler": "bound"}):
        with t.refused(gluonjit.errors.OptionError, next(iter(options))):
            if t.batched:
                net.hybridize(**options)
    t.minibatch(net)


@habit()
def a_net_of_the_wrong_kind_is_hybridized(t: Any) -> None:
    for thing in (t.inputs()[0], "net", None, [t.net()]):
        with t.refused(TypeError, "model"):
            if t.batched:
                gluonjit.hybridize(thing, dynamic_batch=True)
    t.minibatch(t.net())
