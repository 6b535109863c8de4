"""Weak references, locks, queues and loggers: what is made anew, and what has to keep its target."""

from __future__ import annotations

import logging
import queue
import threading
import weakref

from exactness_trainers.base import Plain
from exactness_trainers.nested import Counter


class _Weak(Plain):
    cause = "weak references"


class _Lock(Plain):
    cause = "locks, queues and loggers"


class WeakReference(_Weak):
    """A weak reference to an object on self."""

    def start(self) -> None:
        self.counter = Counter()
        self.reference = weakref.ref(self.counter)

    def amount(self) -> float:
        counter = self.reference()
        return 100.0 if counter is None else counter.next() + self.counter.count


class WeakReferenceToSelf(_Weak):
    """An object that refers weakly to the trainer."""

    def start(self) -> None:
        self.count = 0
        self.child = Counter()
        self.child.parent = weakref.ref(self)  # type: ignore[attr-defined]

    def amount(self) -> float:
        self.child.parent().count += 1  # type: ignore[attr-defined]
        return self.count


class WeakReferenceDead(_Weak):
    """A weak reference whose target goes at step 3."""

    def start(self) -> None:
        self.counter: Counter | None = Counter()
        self.reference = weakref.ref(self.counter)
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        if self.count == 3:
            self.counter = None
        return self.count if self.reference() is None else 2.0


class WeakProxy(_Weak):
    """A weak proxy of an object on self."""

    expect = "either"
    named = "proxy"

    def start(self) -> None:
        self.counter = Counter()
        self.proxy = weakref.proxy(self.counter)

    def amount(self) -> float:
        return self.proxy.next() + self.counter.count


class WeakValues(_Weak):
    """A WeakValueDictionary of objects that are on self."""

    def start(self) -> None:
        self.counters = [Counter(), Counter()]
        self.by_name = weakref.WeakValueDictionary(enumerate(self.counters))

    def amount(self) -> float:
        if len(self.counters) < 4:
            self.counters.append(Counter())
            self.by_name[len(self.by_name)] = self.counters[-1]
        return sum(counter.next() for counter in self.by_name.values())


class WeakKeys(_Weak):
    """A WeakKeyDictionary with numbers for objects that are on self."""

    def start(self) -> None:
        self.counter = Counter()
        self.numbers = weakref.WeakKeyDictionary({self.counter: 0})

    def amount(self) -> float:
        self.numbers[self.counter] += 2
        return self.numbers[self.counter]


class WeakMembers(_Weak):
    """A WeakSet of objects, some of which go."""

    def start(self) -> None:
        self.counters = [Counter() for _ in range(8)]
        self.members = weakref.WeakSet(self.counters)

    def amount(self) -> float:
        self.counters.pop()
        return len(self.members)


class LockInUse(_Lock):
    """A lock around a counter."""

    def start(self) -> None:
        self.lock, self.count = threading.Lock(), 0

    def amount(self) -> float:
        with self.lock:
            self.count += 1
        return self.count


class LockInsideObject(_Lock):
    """Objects with an RLock, a Condition over the same lock, and a Semaphore."""

    def start(self) -> None:
        self.counter = Counter()
        self.counter.lock = threading.RLock()  # type: ignore[attr-defined]
        self.condition = threading.Condition(self.counter.lock)  # type: ignore[attr-defined]
        self.semaphore = threading.Semaphore(3)

    def amount(self) -> float:
        with self.condition, self.semaphore:
            return self.counter.next()


class EventSet(_Lock):
    """An Event that is set at step 3."""

    expect = "either"
    named = "event"

    def start(self) -> None:
        self.event, self.count = threading.Event(), 0

    def amount(self) -> float:
        self.count += 1
        if self.count == 3:
            self.event.set()
        return self.count * (3 if self.event.is_set() else 1)


class SemaphoreDrained(_Lock):
    """A Semaphore that is acquired at every step and never released."""

    expect = "either"
    named = "semaphore"

    def start(self) -> None:
        self.semaphore = threading.Semaphore(4)

    def amount(self) -> float:
        return 1.0 + self.semaphore.acquire(blocking=False)


class QueueState(_Lock):
    """A queue.Queue with items in it."""

    expect = "either"
    named = "queue"

    def start(self) -> None:
        self.queue: queue.Queue[int] = queue.Queue()
        self.queue.put(1)

    def amount(self) -> float:
        item = self.queue.get()
        self.queue.put(item + 1)
        self.queue.put(item + 2)
        return item + self.queue.qsize()


class SimpleQueueState(_Lock):
    """A queue.SimpleQueue with items in it."""

    expect = "either"
    named = "queue"

    def start(self) -> None:
        self.queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.queue.put(1)

    def amount(self) -> float:
        item = self.queue.get()
        self.queue.put(2 * item)
        return item


class LoggerKept(_Lock):
    """A logger on self and inside an object, beside a counter."""

    def start(self) -> None:
        self.logger = logging.getLogger("exactness")
        self.counter = Counter()
        self.counter.logger = self.logger  # type: ignore[attr-defined]

    def amount(self) -> float:
        self.logger.debug("step")
        return self.counter.next() + (self.counter.logger is self.logger)  # type: ignore[attr-defined]


class ThreadLocal(_Lock):
    """A threading.local with a counter."""

    expect = "either"
    named = "local"

    def start(self) -> None:
        self.local = threading.local()
        self.local.count = 0

    def amount(self) -> float:
        self.local.count += 1
        return self.local.count
